//! The files of the repository that people write, found by walking its folders.

use std::fs;
use std::path::{Path, PathBuf};

/// Where they lie.
const FOLDERS: [&str; 7] = ["crates", "docs", "examples", "include", "packaging", "tests", "xtask"];

/// Paths from the top of the repository.
pub struct Files {
    top: PathBuf,
    all: Vec<PathBuf>,
}

impl Files {
    /// Walks the folders, and takes what lies beside them as well.
    pub fn of(top: &Path) -> Result<Files, String> {
        let mut all = Vec::new();
        for folder in FOLDERS.iter().filter(|folder| top.join(folder).exists()) {
            walk(top, Path::new(folder), &mut all)?;
        }
        let beside = fs::read_dir(top).map_err(|e| format!("{}: {e}", top.display()))?;
        let beside = beside.flatten().filter(|entry| entry.path().is_file());
        all.extend(beside.map(|entry| PathBuf::from(entry.file_name())));
        Ok(Files { top: top.to_owned(), all })
    }

    /// All of them.
    pub fn all(&self) -> &[PathBuf] {
        &self.all
    }

    /// The text of one.
    pub fn text(&self, file: &Path) -> Result<String, String> {
        fs::read_to_string(self.top.join(file)).map_err(|e| format!("{}: {e}", file.display()))
    }
}

/// Leaves out what was built or fetched.
fn walk(top: &Path, folder: &Path, all: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(top.join(folder)).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let path = folder.join(&name);
        let is_hidden = name.to_string_lossy().starts_with('.');
        if !top.join(&path).is_dir() {
            all.push(path);
        } else if name != "target" && name != "__pycache__" && !is_hidden {
            walk(top, &path, all)?;
        }
    }
    Ok(())
}
