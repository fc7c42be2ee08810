//! `cargo xtask dist` and `cargo xtask install`: what people install, as one tree.
//!
//! Everything in it finds the rest by where it is itself, so the tree may be moved. There is one library
//! file; the other names are links to it, because two copies in one process would not know each other's
//! memory.

mod docs;
mod elf;
mod layout;
mod notices;
mod tree;
mod trial;
mod wheel;

use std::path::{Path, PathBuf};

use crate::shell;
use tree::{Tree, read};

pub use trial::run as trial;

/// Where [`fill`] puts the tree.
pub fn folder(root: &Path) -> PathBuf {
    root.join("dist")
}

/// Builds everything and fills `dist/` at the top of the repository.
pub fn fill(root: &Path) -> Result<(), String> {
    install(root, &folder(root))
}

/// Builds everything and puts it below a prefix.
pub fn install(root: &Path, prefix: &Path) -> Result<(), String> {
    put(&build(root)?.0, prefix)
}

/// Puts the tree below a prefix. One at `.../ascend-toolkit/latest` has a copy of set_env.sh and the driver's
/// files beside it, as toolkits have them; those of others are left alone.
fn put(tree: &Tree, prefix: &Path) -> Result<(), String> {
    const LIST: &str = "driver/ferry-files";
    tree.put(prefix)?;
    let set_env =
        std::fs::read_to_string(prefix.join("set_env.sh")).map_err(|e| format!("set_env.sh: {e}"))?;
    let Some((base, outer)) = layout::around(prefix, &set_env) else { return Ok(()) };
    let is_theirs = base.join("driver/version.info").exists() && !base.join(LIST).exists();
    if is_theirs {
        println!("{}: a driver that is not ours is left alone, and so is set_env.sh", base.display());
        return Ok(());
    }
    outer.put_listed(base, LIST)
}

/// Writes the licences of the packages that are inside some of ours.
pub fn write_notices(root: &Path, file: &str, packages: &[&str]) -> Result<(), String> {
    std::fs::write(file, notices::text(root, packages)?).map_err(|e| format!("{file}: {e}"))
}

/// Puts the command that was built, and the companion libraries, below a folder as a toolkit has them, but
/// without links, which a wheel cannot carry, and without the library, which the wheel has elsewhere.
pub fn write_toolkit(root: &Path, folder: &Path, built: &Path) -> Result<(), String> {
    let scratch = shell::target_dir(root).join("toolkit");
    std::fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    let command = scratch.join("ferry");
    shell::run(shell::program(root, "strip").arg("--strip-debug").arg("-o").arg(&command).arg(built))?;
    let companions = scratch.join("companions");
    let _ = std::fs::remove_dir_all(&companions);
    shell::run(shell::program(root, "sh").arg("crates/companions/build.sh").arg(&companions))?;
    pages(root, &command, &scratch.join("pages"), &mut Tree::default())?;
    let mut tree = Tree::default();
    tree.folder(Path::new("lib64"), &companions)?;
    tree.program("bin/ferry", read(&command)?);
    tree.program("bin/npu-smi", NPU_SMI);
    tree.file("set_env.sh", read(&scratch.join("pages/set_env.sh"))?);
    layout::versions(&mut tree);
    // One of another version may have had more files.
    let _ = std::fs::remove_dir_all(folder);
    tree.put(folder)
}

/// In place of the link to the command that an installed tree has.
const NPU_SMI: &str = "#!/bin/sh\nexec \"$(dirname \"$0\")/ferry\" npu-smi \"$@\"\n";

/// What was built of the Python module: the wheel, or why there is none.
type Wheel = Result<PathBuf, String>;

/// Builds the library, the command and, where there is Python, the wheel, checks what they need, and gathers
/// the tree.
fn build(root: &Path) -> Result<(Tree, Wheel), String> {
    shell::run(&mut shell::cargo_for_release(
        root,
        "build --release --package ferry-capi --package ferry-cli",
    ))?;
    let scratch = shell::target_dir(root).join("package");
    std::fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    let library = strip(root, &scratch, "libascendcl.so")?;
    let command = strip(root, &scratch, "ferry")?;
    elf::check_library(root, &library)?;
    for file in [&library, &command] {
        println!("{}", elf::check_glibc(root, file)?);
        check_places(root, file)?;
    }
    let wheel = wheel::build(root, &library, &scratch)?;

    let companions = scratch.join("companions");
    let _ = std::fs::remove_dir_all(&companions);
    shell::run(shell::program(root, "sh").arg("crates/companions/build.sh").arg(&companions))?;

    let mut tree = Tree::default();
    tree.folder(Path::new(&layout::place("include")), &root.join("include"))?;
    tree.program(layout::place("lib64/libascendcl.so"), read(&library)?);
    tree.link(layout::place("lib64/libacl_rt.so"), "libascendcl.so");
    layout::companions(&mut tree, &companions)?;
    tree.program(layout::place("bin/ferry"), read(&command)?);
    tree.link(layout::place("bin/npu-smi"), "ferry");
    layout::links(&mut tree);
    layout::versions(&mut tree);
    match &wheel {
        Ok(file) => {
            tree.file(Path::new("share/ferry").join(file.file_name().unwrap_or_default()), read(file)?);
            layout::module(root, &mut tree, &scratch.join("wheel"))?;
        }
        Err(why) => println!("without the Python module: {why}"),
    }
    for (place, name) in [
        ("lib64/pkgconfig", "ascendcl.pc"),
        ("lib64/cmake/AscendCL", "AscendCLConfig.cmake"),
        ("lib64/cmake/AscendCL", "AscendCLConfigVersion.cmake"),
    ] {
        let text = read(&root.join("packaging").join(name))?;
        let text = String::from_utf8_lossy(&text).replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        tree.file(Path::new(&layout::place(place)).join(name), text);
    }
    docs::put(root, &mut tree)?;
    tree.file(
        Path::new(docs::PLACE).join("THIRD-PARTY-NOTICES"),
        notices::text(root, &["ferry-capi", "ferry-cli"])?,
    );
    pages(root, &command, &scratch.join("pages"), &mut tree)?;
    Ok((tree, wheel))
}

/// A built file names no folder of this machine.
fn check_places(root: &Path, file: &Path) -> Result<(), String> {
    let bytes = read(file)?;
    let mut folders: Vec<PathBuf> = shell::sources(root).into_iter().map(|(folder, _)| folder).collect();
    folders.extend([root.to_owned(), shell::target_dir(root)]);
    // A single name such as /src is found in any path.
    folders.retain(|folder| folder.components().count() > 2);
    let named = |folder: &&PathBuf| {
        let name = folder.as_os_str().as_encoded_bytes();
        bytes.windows(name.len()).any(|window| window == name)
    };
    match folders.iter().find(named) {
        Some(folder) => Err(format!("{} says where it was built: {}", file.display(), folder.display())),
        None => Ok(()),
    }
}

/// A copy of a built file without debug information, which is most of its size and says much about the
/// machine it was built on.
fn strip(root: &Path, scratch: &Path, name: &str) -> Result<PathBuf, String> {
    let (built, stripped) = (shell::target_dir(root).join("release").join(name), scratch.join(name));
    shell::run(shell::program(root, "strip").arg("--strip-debug").arg("-o").arg(&stripped).arg(built))?;
    Ok(stripped)
}

/// Man pages and completions, which the command writes itself.
fn pages(root: &Path, command: &Path, folder: &Path, tree: &mut Tree) -> Result<(), String> {
    // Pages of a command that is no more would stay.
    let _ = std::fs::remove_dir_all(folder);
    shell::run(shell::program(root, &command.to_string_lossy()).arg("pages").arg(folder))?;
    tree.folder(Path::new(""), folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_says_where_it_was_built_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (packages, name) = shell::sources(root).remove(0);
        let file = std::env::temp_dir().join(format!("ferry-places-{}", std::process::id()));
        for (folder, want) in [(Path::new(name), true), (root, false), (&packages, false)] {
            let text = format!("\0crates/x/src/lib.rs{}/registry/y.rs\0", folder.display());
            std::fs::write(&file, &text).expect("writable");
            assert_eq!(check_places(root, &file).is_ok(), want, "{text:?}");
        }
        std::fs::remove_file(file).expect("ours");
    }
}
