//! Where a command writes what it has watched: opened before the program starts, so that nothing runs in
//! vain, and left as it was if the program does not start.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A file that can be written. What is in it stays until the first byte is.
pub struct OutputFile {
    file: File,
    path: PathBuf,
    is_new: bool,
    is_begun: bool,
}

impl OutputFile {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> io::Result<OutputFile> {
        let new = OpenOptions::new().write(true).create_new(true).open(path);
        let (is_new, path) = (new.is_ok(), path.to_owned());
        let file = match new {
            // As a link that leads nowhere is there, too, and its file is not.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                OpenOptions::new().write(true).create(true).truncate(false).open(&path)?
            }
            new => new?,
        };
        Ok(OutputFile { file, path, is_new, is_begun: false })
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes it has.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// It is not needed: a file that was made for it is removed.
    pub fn give_up(self) {
        if self.is_new {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether both names are of one file, which need not be there yet. What is no file on a disk, such as a
/// terminal, may be written twice.
pub fn is_one_file(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => whole_path(one) == whole_path(other),
        _ => false,
    }
}

/// The path of a file that is to be made.
fn whole_path(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_begun && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.is_begun = true;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A folder that files can be made in.
pub struct OutputFolder {
    path: PathBuf,
    is_new: bool,
}

impl OutputFolder {
    /// Makes the folder, unless it is there.
    pub fn open(path: &Path) -> io::Result<OutputFolder> {
        let is_new = !path.exists();
        fs::create_dir_all(path)?;
        let probe = path.join(format!(".ferry-{}", std::process::id()));
        File::create(&probe)?;
        fs::remove_file(&probe)?;
        Ok(OutputFolder { path: path.to_owned(), is_new })
    }

    /// It is not needed: a folder that was made for it is removed.
    pub fn give_up(self) {
        if self.is_new {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_something_is_written() {
        let folder = std::env::temp_dir().join(format!("ferry-output-{}", std::process::id()));
        let made = OutputFolder::open(&folder).expect("a folder");
        let path = folder.join("file");
        OutputFile::open(&path).expect("a file").give_up();
        assert!(!path.exists(), "as it was");
        fs::write(&path, "before").expect("a file");
        OutputFile::open(&path).expect("a file").give_up();
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "before");
        let mut file = OutputFile::open(&path).expect("a file");
        file.write_all(b"new").and_then(|()| file.write_all(b"er")).expect("it can be written");
        assert_eq!(file.len().expect("a file"), 5);
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "newer");
        fs::remove_file(&path).expect("it is there");
        made.give_up();
        assert!(!folder.exists());
    }
}
