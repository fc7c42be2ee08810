//! The two ends of `ferry copy`: files, or standard input and output.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use ferry_abi::{Error, Result};
use ferry_terminal as terminal;

/// An open file, and what it is called.
pub struct Endpoint {
    name: String,
    file: File,
    about: Metadata,
}

impl Endpoint {
    /// Opens what is read.
    pub fn source(path: &Path) -> Result<Endpoint> {
        let end = if path.as_os_str() == "-" {
            Endpoint::new("standard input", io::stdin().as_fd().try_clone_to_owned().map(File::from))
        } else {
            Endpoint::new(&path.to_string_lossy(), File::open(path))
        }?;
        // It opens, and only reading it fails: too late for the destination.
        if end.about.is_dir() { Err(end.failed("read", ErrorKind::IsADirectory.into())) } else { Ok(end) }
    }

    /// Opens what is written, which is emptied if it exists.
    pub fn destination(path: &Path, src: &Endpoint) -> Result<Endpoint> {
        let end = if path.as_os_str() == "-" {
            let open = || terminal::is_open().and_then(|()| io::stdout().as_fd().try_clone_to_owned());
            Endpoint::new("standard output", open().map(File::from))
        } else {
            // Emptied when it is known to be another file.
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
            Endpoint::new(&path.to_string_lossy(), file)
        }?;
        if end.is_same_storage(src) {
            return Err(Error::Setup(format!("{} and {} are the same file", src.name, end.name)));
        }
        if end.about.is_file() && path.as_os_str() != "-" {
            end.file.set_len(0).map_err(|error| end.failed("write", error))?;
        }
        Ok(end)
    }

    fn new(name: &str, file: io::Result<File>) -> Result<Endpoint> {
        let open = || {
            let file = file?;
            let about = file.metadata()?;
            Ok(Endpoint { name: name.to_owned(), file, about })
        };
        open().map_err(|error: io::Error| Error::Setup(format!("cannot open {name}: {error}")))
    }

    /// Whether what is written to one is read from the other. A terminal or a socket may well be both ends.
    fn is_same_storage(&self, other: &Endpoint) -> bool {
        let place = |end: &Endpoint| (end.about.dev(), end.about.ino());
        let kind = self.about.file_type();
        place(self) == place(other) && (kind.is_file() || kind.is_block_device())
    }

    /// How many bytes there are to read, where that is known before reading: files that the system makes up
    /// say 0.
    pub fn size(&self) -> Option<usize> {
        usize::try_from(self.about.len()).ok().filter(|size| self.about.is_file() && *size > 0)
    }

    /// Whether a line of progress would get between the data.
    pub fn is_terminal(&self) -> bool {
        self.file.is_terminal()
    }

    /// Reads until `buffer` is full or the end is reached, and says how many bytes came.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read", error)),
            }
        }
        Ok(filled)
    }

    /// Writes all of it.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| self.failed("write", error))
    }

    fn failed(&self, verb: &str, error: io::Error) -> Error {
        Error::Setup(format!("cannot {verb} {}: {error}", self.name))
    }
}
