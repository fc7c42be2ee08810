//! The Python module as an installed wheel has it, made of what cargo built: the suite carries it, and needs
//! no release build.

use std::fs;
use std::path::Path;

use crate::shell;

/// Puts the module into a folder that Python can look in. `built` is where cargo put the libraries.
pub fn assemble(root: &Path, built: &Path, to: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(to);
    let acl = to.join("acl");
    super::copy(root, Path::new("crates/py/python/acl"), &acl)?;
    strip(root, &built.join("lib_acl.so"), &acl.join("_acl.abi3.so"))?;
    super::make(&acl.join("lib"))?;
    strip(root, &built.join("libascendcl.so"), &acl.join("lib/libascendcl.so"))?;
    second_name(root, &acl.join("lib"))?;
    let info = to.join(format!("ferry_acl-{VERSION}.dist-info"));
    super::make(&info)?;
    super::write(
        &info.join("METADATA"),
        &format!("Metadata-Version: 2.1\nName: ferry-acl\nVersion: {VERSION}\n"),
    )
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// As packaging/python/ferry_build.py makes it: a library that has only this name and needs the first.
fn second_name(root: &Path, folder: &Path) -> Result<(), String> {
    let mut cc = shell::program(root, "cc");
    cc.args(["-shared", "-nostdlib", "-s", "-Wl,-soname,libacl_rt.so", "-Wl,--no-as-needed"]);
    cc.args(["-Wl,-rpath,$ORIGIN", "-o"]).arg(folder.join("libacl_rt.so"));
    shell::run(cc.arg(folder.join("libascendcl.so")))
}

fn strip(root: &Path, from: &Path, to: &Path) -> Result<(), String> {
    shell::run(shell::program(root, "strip").arg("--strip-unneeded").arg("-o").arg(to).arg(from))
}
