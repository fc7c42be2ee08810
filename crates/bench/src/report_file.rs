//! The file of `--report`, and the command line as a shell takes it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ferry_abi::{Error, Result};

/// A file that is open for the page, and keeps what it has until the page is written.
pub struct ReportFile {
    path: PathBuf,
    file: File,
}

impl ReportFile {
    /// Opens or makes the file.
    pub fn open(path: &Path) -> Result<ReportFile> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| cannot_write(path, &error))?;
        Ok(ReportFile { path: path.to_owned(), file })
    }

    /// Puts the page in place of what the file has.
    pub fn write(mut self, page: &str) -> Result<()> {
        let written = self.replace(page);
        written.map_err(|error| cannot_write(&self.path, &error))
    }

    fn replace(&mut self, page: &str) -> io::Result<()> {
        // A pipe or a device has no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(page.as_bytes())
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::Setup(format!("--report {}: {error}", path.display()))
}

/// The command of this process, as one would type it.
pub fn command_line() -> String {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    std::iter::once(program).chain(words).map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=,:+@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_takes_a_quoted_word_as_one() {
        for word in ["", "h2d/2d", "a b", "it's", "$HOME", "\\", "<&>\"", "Ä", "*"] {
            let echo = format!("printf %s {}", quoted(word));
            let out = std::process::Command::new("sh").arg("-c").arg(echo).output().expect("sh runs");
            assert_eq!(String::from_utf8_lossy(&out.stdout), word);
        }
    }
}
