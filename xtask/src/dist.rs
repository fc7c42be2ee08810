//! `cargo xtask dist` and `cargo xtask install`: what people install, as one tree.
//!
//! Everything in it finds the rest by where it is itself, so the tree may be moved. There is one library file; the other
//! names are links to it, because two copies in one process would not know each other's memory.

mod elf;
mod notices;
mod tree;
mod trial;

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
    build(root)?.put(prefix)
}

/// Writes the licences of the packages that are inside some of ours.
pub fn write_notices(root: &Path, file: &str, packages: &[&str]) -> Result<(), String> {
    std::fs::write(file, notices::text(root, packages)?).map_err(|e| format!("{file}: {e}"))
}

/// Builds the library and the command, checks what they need, and gathers the tree.
fn build(root: &Path) -> Result<Tree, String> {
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
    }

    let mut tree = Tree::default();
    tree.folder(Path::new("include"), &root.join("include"))?;
    tree.program("lib/libascendcl.so", read(&library)?);
    tree.link("lib/libacl_rt.so", "libascendcl.so");
    tree.link("lib64", "lib");
    tree.program("bin/ferry", read(&command)?);
    for (place, name) in [
        ("lib/pkgconfig", "ascendcl.pc"),
        ("lib/cmake/AscendCL", "AscendCLConfig.cmake"),
        ("lib/cmake/AscendCL", "AscendCLConfigVersion.cmake"),
    ] {
        let text = read(&root.join("packaging").join(name))?;
        let text = String::from_utf8_lossy(&text).replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        tree.file(Path::new(place).join(name), text);
    }
    let doc = Path::new("share/doc/ferry");
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"] {
        tree.file(doc.join(name), read(&root.join(name))?);
    }
    tree.file(doc.join("THIRD-PARTY-NOTICES"), notices::text(root, &["ferry-capi", "ferry-cli"])?);
    pages(root, &command, &scratch.join("pages"), &mut tree)?;
    Ok(tree)
}

/// A copy of a built file without debug information, which is most of its size and says much about the machine it was
/// built on.
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
