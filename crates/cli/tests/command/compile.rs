//! Small C programs that the command's tests run.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::text;

/// Compiles a C program against our headers and the library that was built with the command, with debug
/// information.
pub fn compile(name: &str, source: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source).expect("the source can be written");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let library = Path::new(env!("CARGO_BIN_EXE_ferry")).with_file_name("deps");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c99", "-Wall", "-Werror", "-O1", "-g", "-pthread"]).arg("-I").arg(include).arg(&file);
    gcc.arg("-L").arg(library).args(["-lascendcl", "-ldl", "-o"]).arg(&program);
    let compiled = gcc.output().expect("gcc is installed");
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    program
}
