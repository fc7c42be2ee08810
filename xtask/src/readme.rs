//! Compiles and runs the C program of the README, so that a newcomer's first try works.

use std::path::Path;

use crate::shell::{self, cargo};
use crate::{c, steps::Outcome};

/// Fails unless the program compiles, runs, and says what it carried.
pub fn run(root: &Path) -> Result<Outcome, String> {
    shell::run(&mut cargo(root, "build -p ferry-capi"))?;
    let library = shell::target_dir(root).join("debug");
    let readme = std::fs::read_to_string(root.join("README.md")).map_err(|e| format!("README.md: {e}"))?;
    let code = example(&readme).ok_or("README.md has no C program")?;
    let source = shell::target_dir(root).join("readme.c");
    std::fs::write(&source, code).map_err(|e| format!("{}: {e}", source.display()))?;
    let program = c::compile(root, &library, &source, "readme")?;
    let said =
        shell::output(c::with_library(&mut shell::program(root, &program.to_string_lossy()), &library))?;
    print!("{said}");
    if said == "there and back\n" { Ok(Outcome::Passed) } else { Err(format!("the program said {said:?}")) }
}

fn example(readme: &str) -> Option<&str> {
    readme.split_once("```c\n")?.1.split_once("```").map(|(code, _)| code)
}
