//! The files of logs: made with the first line, a new one after 20 MB, the oldest deleted when there are too
//! many.

use super::settings::LogSettings;
use ferry::engine::files::Kept;
use std::{
    collections::VecDeque,
    fs::{self, DirBuilder, OpenOptions},
    io, mem,
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    ptr,
};

/// Documented.
const MAX_BYTES: usize = 20 << 20;

/// The files of one kind of this process.
#[derive(Default)]
pub struct Files {
    current: Option<Kept>,
    bytes: usize,
    paths: VecDeque<PathBuf>,
    /// It did not work once: the next line would not fare better, and each try costs the program time.
    gave_up: bool,
}

impl Files {
    /// Writes a line, or loses it.
    pub fn append(&mut self, folder: &Path, log: &LogSettings, line: &[u8]) {
        if self.bytes + line.len() > MAX_BYTES {
            self.current = None;
        }
        // The program may have closed it, or put a file of its own there.
        if self.current.as_ref().is_some_and(|file| !file.is_ours()) {
            self.current = self.paths.back().and_then(|path| open(path).ok());
        }
        if self.current.is_none()
            && !self.gave_up
            && let Err(why) = self.start(folder, log)
        {
            self.gave_up = !is_passing(&why);
        }
        if let Some(file) = self.current.as_ref().and_then(|file| file.get().ok()) {
            self.bytes += line.len();
            let _ = write(file.as_raw_fd(), line);
        }
    }

    fn start(&mut self, folder: &Path, log: &LogSettings) -> io::Result<()> {
        // Lines name addresses and files of the program: only its user may read them.
        DirBuilder::new().recursive(true).mode(0o750).create(folder)?;
        let path = folder.join(format!("plog-{}_{}.log", std::process::id(), log.clock.now().for_names()));
        (self.current, self.bytes) = (Some(open(&path)?), 0);
        self.paths.push_back(path);
        while self.paths.len() > log.files {
            let _ = self.paths.pop_front().map(fs::remove_file);
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<Kept> {
    Kept::open(|| OpenOptions::new().append(true).create(true).mode(0o640).open(path))
}

/// Whether the next try may fare better: there was no room for one more descriptor, or for something else.
fn is_passing(why: &io::Error) -> bool {
    const PASSING: [i32; 5] = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOSPC, libc::EDQUOT];
    why.raw_os_error().is_some_and(|code| PASSING.contains(&code))
}

/// Prints a line on standard output or error at once and in one piece, past the buffers of C and Rust. What
/// cannot be printed is lost: a closed pipe does not end the program by SIGPIPE.
pub fn print(file: i32, line: &[u8]) {
    // SAFETY: sets of signals on the stack, valid for the calls. A SIGPIPE that was pending before is not
    // taken away.
    unsafe {
        let (mut pipe, mut pending, mut old): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
            mem::zeroed();
        libc::sigemptyset(&mut pipe);
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        libc::sigpending(&mut pending);
        libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, &mut old);
        let is_broken = write(file, line).is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if is_broken && libc::sigismember(&pending, libc::SIGPIPE) == 0 {
            libc::sigtimedwait(&pipe, ptr::null_mut(), &mem::zeroed());
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, ptr::null_mut());
    }
}

fn write(file: i32, mut line: &[u8]) -> io::Result<()> {
    while !line.is_empty() {
        // SAFETY: our own bytes.
        let done = unsafe { libc::write(file, line.as_ptr().cast(), line.len()) };
        match usize::try_from(done).map_err(|_| io::Error::last_os_error()) {
            Ok(done) => line = &line[done..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_followed_by_another_and_the_oldest_goes() {
        let folder = std::env::temp_dir().join(format!("ferry-log-{}", std::process::id()));
        let mut log = LogSettings::read(|_| None);
        log.files = 2;
        let mut files = Files::default();
        let line = vec![b'x'; MAX_BYTES / 2];
        let mut seen = Vec::new();
        for _ in 0..4 {
            // Two lines fill a file; names count milliseconds, so let one pass.
            for _ in 0..2 {
                files.append(&folder, &log, &line);
            }
            seen.push(files.paths.back().expect("a file").clone());
            let before = log.clock.now().for_names();
            while log.clock.now().for_names() == before {}
        }
        seen.dedup();
        assert_eq!(seen.len(), 4, "each has a name of its own");
        assert_eq!(seen.iter().map(|path| path.exists()).collect::<Vec<_>>(), [false, false, true, true]);
        for path in &seen[2..] {
            assert_eq!(fs::metadata(path).expect("a file").len(), MAX_BYTES as u64);
        }
        fs::remove_dir_all(&folder).expect("our own folder");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_tried_once() {
        let log = LogSettings::read(|_| None);
        let mut files = Files::default();
        files.append(Path::new("/proc/nowhere"), &log, b"lost\n");
        assert!(files.gave_up && files.current.is_none());
        files.append(&std::env::temp_dir(), &log, b"lost too\n");
        assert!(files.current.is_none());
    }
}
