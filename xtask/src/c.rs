//! C programs: compiled against our headers and one build of the library, and run with that build.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

/// Compiles one source with all warnings on; the program goes to a folder of its own below cargo's.
pub fn compile(root: &Path, library: &Path, source: &Path, folder: &str) -> Result<PathBuf, String> {
    let folder = shell::target_dir(root).join(folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let program = folder.join(source.file_stem().unwrap_or_default());
    let mut gcc = shell::program(root, "gcc");
    gcc.args([
        "-std=c99",
        "-D_GNU_SOURCE",
        "-g",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        "-Iinclude",
    ]);
    // As needed: one program loads the library by itself.
    gcc.arg(source)
        .arg("-L")
        .arg(library)
        .args(["-Wl,--as-needed", "-lascendcl", "-ldl", "-o"])
        .arg(&program);
    shell::run(&mut gcc)?;
    Ok(program)
}

/// Makes a command find this build of the library. `cargo xtask` itself runs with the debug folders first in
/// the library path, so a path inside the program would not do.
pub fn with_library<'a>(command: &'a mut Command, library: &Path) -> &'a mut Command {
    command.env("LD_LIBRARY_PATH", library)
}
