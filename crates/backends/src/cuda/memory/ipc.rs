//! What travels from a process that shares memory to one that imports it: the driver's IPC handle, in a file
//! in memory, as the shared bytes themselves do on the host backend.

use crate::cuda::driver::IpcHandle;
use crate::os::files::{Kept, above};
use ferry_core::{Kind, Result, Shared};
use std::{
    fs::File,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    os::{fd::FromRawFd, unix::fs::FileExt},
    sync::{Arc, OnceLock},
};

/// The first word of a file that has a message.
const MAGIC: u64 = u64::from_le_bytes(*b"ferrycuN");

/// No allocation is larger than the addresses of a process.
const MAX_ALLOCATION: usize = 1 << 47;

/// The handle of an allocation, and where the shared memory lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpcMessage {
    /// How the driver finds the allocation.
    pub handle: IpcHandle,
    /// How far behind the allocation's start the memory is.
    pub skip: usize,
    /// The length of the allocation: what is opened with the handle.
    pub whole: usize,
    /// The address in the process that shares it, where the driver opens nothing.
    pub at: usize,
    /// A number that stands for that process.
    pub process: u64,
}

impl IpcMessage {
    const LEN: usize = 64 + 5 * 8;

    /// For memory of this process, in an allocation with this start and length.
    pub fn new(handle: IpcHandle, (start, whole): (usize, usize), at: usize) -> IpcMessage {
        IpcMessage { handle, skip: at - start, whole, at, process: this_process() }
    }

    /// Whether the memory is this process's.
    pub fn is_ours(&self) -> bool {
        self.process == this_process()
    }

    /// Writes it into a new file.
    pub fn write(&self, len: usize) -> Result<Shared> {
        let words = [MAGIC, self.skip as u64, self.at as u64, self.process, self.whole as u64];
        let words = words.map(u64::to_le_bytes);
        let bytes = [&self.handle.0[..], words.as_flattened()].concat();
        let failed = |why: io::Error| Kind::Device.because(format!("a file for another process: {why}"));
        let file = above(new_file).map_err(failed)?;
        // As long as the memory is, though there is nothing behind it: importers check that.
        file.set_len((IpcMessage::LEN + len) as u64)
            .and_then(|()| file.write_all_at(&bytes, 0))
            .map_err(failed)?;
        Ok(Shared { file: Arc::new(Kept::open(|| Ok(file)).map_err(failed)?), offset: 0, len })
    }

    /// Reads it from the file.
    pub fn read(shared: &Shared) -> Result<IpcMessage> {
        let mut bytes = [0; IpcMessage::LEN];
        let file = shared.file.get().and_then(|file| file.try_clone_to_owned()).map(File::from);
        let read = file.and_then(|file| file.read_exact_at(&mut bytes, shared.offset));
        read.map_err(|why| Kind::BadAddress.because(format!("the file of another process: {why}")))?;
        let word =
            |index: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[64 + 8 * index + byte]));
        if word(0) != MAGIC {
            return Err(Kind::BadAddress.because("the other process uses another backend"));
        }
        let handle = IpcHandle(std::array::from_fn(|byte| bytes[byte]));
        let [skip, at, whole] = [1, 2, 4].map(|index| word(index) as usize);
        if whole > MAX_ALLOCATION || skip > whole || shared.len > whole - skip {
            let note =
                format!("{} bytes at {skip} of an allocation of {whole} in another process", shared.len);
            return Err(Kind::OutOfBounds.because(note));
        }
        Ok(IpcMessage { handle, skip, whole, at, process: word(3) })
    }
}

fn new_file() -> io::Result<File> {
    // SAFETY: the name ends with a zero.
    let file = unsafe { libc::memfd_create(c"ferry:cuda".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: made just now, and no other code has it.
    Ok(unsafe { File::from_raw_fd(file) })
}

/// A number that no other process has.
fn this_process() -> u64 {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    *NUMBER.get_or_init(|| RandomState::new().build_hasher().finish())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_the_same_at_the_other_end() {
        let handle = IpcHandle(std::array::from_fn(|byte| byte as u8));
        let message = IpcMessage::new(handle, (0x1200, 0x9000), 0x2000);
        let shared = message.write(5000).expect("a file");
        assert_eq!((IpcMessage::read(&shared), shared.len), (Ok(message), 5000));
        assert!(message.is_ours() && message.skip == 0xe00 && message.whole == 0x9000);
        assert!(!IpcMessage { process: message.process ^ 1, ..message }.is_ours());
        let mut bad = shared;
        for offset in [1, 5050] {
            bad.offset = offset;
            assert_eq!(
                IpcMessage::read(&bad).map_err(|why| why.kind),
                Err(Kind::BadAddress),
                "no message there"
            );
        }
        bad = message.write(5000).expect("a file");
        bad.len = 0x9000 - 0xe00 + 1;
        let why = IpcMessage::read(&bad).expect_err("more than is opened");
        assert_eq!(why.kind, Kind::OutOfBounds, "{why}");
    }
}
