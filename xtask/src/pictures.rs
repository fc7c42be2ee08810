//! `cargo xtask pictures`: the pictures of the trace page and the report page in `docs/pictures`. The trace
//! is of an example, the report of a few cases of `ferry bench` on the machine at hand.

use std::path::Path;
use std::process::Command;

use crate::browser;
use crate::shell::{self, cargo};

/// The pictures in `docs/pictures`.
pub const NAMES: [&str; 4] = ["trace-light.webp", "trace-dark.webp", "report-light.webp", "report-dark.webp"];
/// The program that is traced: copies of two streams that overlap, and events between them.
const EXAMPLE: &str = "examples/c/05-streams-and-events.c";
/// The cases of the report.
const CASES: &str = "bench -t h2d/contiguous -t h2d/batch -t submit -t roundtrip --report report.html";

/// Makes the pages with a release build, and photographs them.
pub fn make(root: &Path) -> Result<(), String> {
    browser::install()?;
    let target = shell::target_dir(root);
    let (out, release) = (target.join("pictures"), target.join("release"));
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    shell::run(&mut cargo(root, "build --release -p ferry-cli -p ferry-capi"))?;
    let mut gcc = Command::new("gcc");
    gcc.current_dir(root)
        .args(["-g", "-O1", "-Iinclude", EXAMPLE, "-lascendcl", "-o"])
        .arg(out.join("streams"));
    // The picture names the file as the repository does.
    gcc.arg(format!("-ffile-prefix-map={}=.", root.display())).arg("-L").arg(&release);
    shell::run(&mut gcc)?;
    let ferry = |words: &str| {
        let mut ferry = Command::new(release.join("ferry"));
        ferry.current_dir(&out).args(words.split(' '));
        ferry
    };
    shell::run(&mut ferry("trace -o trace -- ./streams"))?;
    shell::run(&mut ferry(CASES))?;
    let mut take = Command::new("python3");
    take.arg(root.join("tests/browser/pictures.py"))
        .args([out.join("trace/index.html"), out.join("report.html")]);
    shell::run(take.arg(root.join("docs/pictures")))
}

#[cfg(test)]
mod tests {
    use super::NAMES;

    #[test]
    fn the_documents_show_every_picture_and_each_is_small() {
        let root = crate::root();
        for (page, folder) in [("README.md", "docs/pictures"), ("docs/performance.md", "pictures")] {
            let text = std::fs::read_to_string(root.join(page)).expect("a page");
            for name in NAMES {
                assert!(text.contains(&format!("\"{folder}/{name}\"")), "{name} is not in {page}");
            }
            assert_eq!(text.matches(".webp").count(), NAMES.len(), "{page} shows others");
        }
        for name in NAMES {
            let picture = std::fs::read(root.join("docs/pictures").join(name)).expect(name);
            assert!((1_000..150_000).contains(&picture.len()), "{name}: {} bytes", picture.len());
            assert_eq!((&picture[..4], &picture[8..12]), (&b"RIFF"[..], &b"WEBP"[..]), "{name}");
        }
    }
}
