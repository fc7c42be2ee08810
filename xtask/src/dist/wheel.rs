//! The wheel of the Python module `acl`, which the tree carries: checked when it is built, and tried as its
//! users would.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::tree::read;
use super::{check_places, elf};
use crate::venv::{OLDEST, Venv};
use crate::{python, shell};

/// Builds it with the library that the tree has; an inner error says which tool is missing.
pub fn build(root: &Path, library: &Path, scratch: &Path) -> Result<Result<PathBuf, String>, String> {
    let builder = match python::builder(root) {
        Ok(venv) => venv,
        Err(why) => return Ok(Err(why)),
    };
    let wheel = python::wheel(root, &builder)?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    let end = format!("-cp{}{}-abi3-linux_{}.whl", OLDEST.0, OLDEST.1, std::env::consts::ARCH);
    if !name.ends_with(&end) {
        return Err(format!("{name} must end with {end}"));
    }
    let unpacked = scratch.join("wheel");
    let _ = std::fs::remove_dir_all(&unpacked);
    shell::run(builder.python().args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked))?;
    check(root, &unpacked, library)?;
    Ok(Ok(wheel))
}

/// It holds the library that we know, what the licences ask for, and nothing that says where it was built.
fn check(root: &Path, unpacked: &Path, library: &Path) -> Result<(), String> {
    if read(&unpacked.join("acl/lib/libascendcl.so"))? != read(library)? {
        return Err("the wheel has another library than the tree".into());
    }
    println!("{}", elf::check_glibc(root, &unpacked.join("acl/_acl.abi3.so"))?);
    let notices = read(&unpacked.join("acl/lib/THIRD-PARTY-NOTICES"))?;
    if !String::from_utf8_lossy(&notices).contains("\n==== pyo3-") {
        return Err("the wheel's THIRD-PARTY-NOTICES do not have pyo3".into());
    }
    for name in [
        "ferry_acl.pth",
        "ferry_acl/_torch_npu.py",
        "ferry_acl/libtorch_npu_settings.so",
        "ferry_acl/pytest.py",
        "ferry_acl/toolkit/lib64/libhccl.so",
        "ferry_acl/toolkit/set_env.sh",
    ] {
        read(&unpacked.join(name)).map_err(|why| format!("the wheel has no {why}"))?;
    }
    for name in ["ferry_acl/libtorch_npu_settings.so", "ferry_acl/toolkit/bin/ferry"] {
        println!("{}", elf::check_glibc(root, &unpacked.join(name))?);
    }
    let files = files(unpacked)?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        if !files.iter().any(|file| file.ends_with(Path::new("licenses").join(name))) {
            return Err(format!("the wheel has no {name}"));
        }
    }
    files.iter().try_for_each(|file| check_places(root, file))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        if path.is_dir() { files.extend(self::files(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

/// Installs it into a new environment away from the sources, and runs a program there: with nothing else of
/// ours in sight, and beside an installed library, which C loads before the module or after it.
pub fn try_out(root: &Path, wheel: &Path, lib: &Path) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("ferry-wheel-{}", std::process::id()));
    let tried = try_in(&folder, root, wheel, lib);
    let _ = std::fs::remove_dir_all(&folder);
    tried
}

fn try_in(folder: &Path, root: &Path, wheel: &Path, lib: &Path) -> Result<(), String> {
    let venv = Venv::fresh(folder.to_owned(), "python3")?;
    venv.install_wheel(wheel)?;
    let run = |home: &Path, path: Option<&Path>, words: &[&str]| {
        // A safety net: one that hangs has to end somehow.
        let mut program: Command = venv.wrapped(&["timeout", "120"]);
        program.current_dir(folder).arg(root.join("tests/dist/engine.py")).arg(home).args(words);
        let said = shell::output(program.envs(path.map(|path| ("LD_LIBRARY_PATH", path))))?;
        print!("{} {said}", words.join(" "));
        if said.starts_with("ok: ") { Ok(()) } else { Err(format!("tests/dist/engine.py said {said:?}")) }
    };
    run(folder, None, &[])?;
    run(folder, None, &["after", "libacl_rt.so"])?;
    run(folder, Some(lib), &[])?;
    run(folder, Some(lib), &["after", "libascendcl.so"])?;
    run(folder, Some(lib), &["after", "libacl_rt.so"])?;
    run(lib, Some(lib), &["before", "libascendcl.so"])?;
    run(lib, Some(lib), &["before", "libacl_rt.so"])
}
