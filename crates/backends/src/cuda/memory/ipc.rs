//! Memory of other processes on the same GPU. The driver lets one process open an allocation of another with a pass, a few
//! bytes; those travel in a file in memory, as the bytes themselves do on the host backend.

use crate::cuda::driver::IpcHandle;
use crate::os::{
    files::{Kept, above},
    ranges::Ranges,
};
use ferry_core::{Kind, Result, Shared, table::GRANULE};
use std::{
    collections::HashMap,
    fs::File,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    os::{fd::FromRawFd, unix::fs::FileExt},
    sync::{Arc, OnceLock},
};

const MARK: u64 = u64::from_le_bytes(*b"ferrycuM");

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// How the driver finds the allocation.
    pub handle: IpcHandle,
    /// How far behind the allocation's start the memory is.
    pub skip: usize,
    /// The address in the process that shares it, where the driver opens nothing.
    pub at: usize,
    /// That process.
    pub process: u64,
}

impl Ticket {
    const LEN: usize = 64 + 4 * 8;

    /// For memory of this process.
    pub fn new(handle: IpcHandle, start: usize, at: usize) -> Ticket {
        Ticket { handle, skip: at - start, at, process: this_process() }
    }

    /// Whether the memory is this process's.
    pub fn is_ours(&self) -> bool {
        self.process == this_process()
    }

    /// Puts it into a file.
    pub fn write(&self, len: usize) -> Result<Shared> {
        let words = [MARK, self.skip as u64, self.at as u64, self.process].map(u64::to_le_bytes);
        let bytes = [&self.handle.0[..], words.as_flattened()].concat();
        let failed = |why: io::Error| Kind::Device.because(format!("a file for another process: {why}"));
        let file = above(new_file).map_err(failed)?;
        // As long as the memory is, though there is nothing behind it: importers check that.
        file.set_len((Ticket::LEN + len) as u64)
            .and_then(|()| file.write_all_at(&bytes, 0))
            .map_err(failed)?;
        Ok(Shared { file: Arc::new(Kept::open(|| Ok(file)).map_err(failed)?), offset: 0, len })
    }

    /// Reads it.
    pub fn read(shared: &Shared) -> Result<Ticket> {
        let mut bytes = [0; Ticket::LEN];
        let file = shared.file.get().and_then(|file| file.try_clone_to_owned()).map(File::from);
        let read = file.and_then(|file| file.read_exact_at(&mut bytes, shared.offset));
        read.map_err(|why| Kind::BadAddress.because(format!("the file of another process: {why}")))?;
        let word =
            |index: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[64 + 8 * index + byte]));
        if word(0) != MARK {
            return Err(Kind::BadAddress.because("the other process uses another backend"));
        }
        let handle = IpcHandle(std::array::from_fn(|byte| bytes[byte]));
        Ok(Ticket { handle, skip: word(1) as usize, at: word(2) as usize, process: word(3) })
    }
}

fn new_file() -> io::Result<File> {
    // SAFETY: the name ends with a zero.
    let file = unsafe { libc::memfd_create(c"ferry:cuda".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: made just now, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(file) })
}

/// A number that no other process has.
fn this_process() -> u64 {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    *NUMBER.get_or_init(|| RandomState::new().build_hasher().finish())
}

/// What was imported, by the address it has here.
#[derive(Default)]
pub struct Imports {
    by_base: HashMap<usize, Import>,
    /// All addresses of it, the driver's too.
    ranges: Ranges,
}

/// How one of them is given back.
#[derive(Debug)]
pub struct Import {
    /// What the driver opened, unless the memory is this process's.
    pub opened: Option<usize>,
    /// Where the driver has it. Several imports of the same memory have this in common.
    pub at: usize,
    /// Whether its addresses were set aside for it.
    pub is_reserved: bool,
    /// How long it is.
    pub len: usize,
}

impl Imports {
    /// Remembers it.
    pub fn add(&mut self, base: usize, import: Import) {
        let len = import.len.next_multiple_of(GRANULE);
        import.starts(base).for_each(|start| self.ranges.add(start, len));
        self.by_base.insert(base, import);
    }

    /// It is to be given back. Its addresses are known until they are [forgotten](Self::forget).
    pub fn remove(&mut self, base: usize) -> Option<Import> {
        self.by_base.remove(&base)
    }

    /// It was given back.
    pub fn forget(&mut self, base: usize, import: &Import) {
        import.starts(base).for_each(|start| self.ranges.remove(start));
    }

    /// Whether any of the range is imported.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        self.ranges.meets(addr, len)
    }
}

impl Import {
    /// Where its addresses start: the user's, and the driver's where it opened others.
    fn starts(&self, base: usize) -> impl Iterator<Item = usize> + use<> {
        let others = self.opened.map(|_| self.at).filter(|at| *at != base);
        [Some(base), others].into_iter().flatten()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_says_the_same_at_the_other_end() {
        let ticket = Ticket::new(IpcHandle(std::array::from_fn(|byte| byte as u8)), 0x1200, 0x2000);
        let shared = ticket.write(5000).expect("a file");
        assert_eq!((Ticket::read(&shared), shared.len), (Ok(ticket), 5000));
        assert!(ticket.is_ours() && ticket.skip == 0xe00);
        assert!(!Ticket { process: ticket.process ^ 1, ..ticket }.is_ours());
        let mut bad = shared;
        for offset in [1, 5050] {
            bad.offset = offset;
            assert_eq!(Ticket::read(&bad).map_err(|why| why.kind), Err(Kind::BadAddress), "no ticket there");
        }
    }

    #[test]
    fn imported_addresses_are_known_until_they_are_given_back() {
        let mut imports = Imports::default();
        imports.add(0x4000, Import { opened: Some(0x4000), at: 0x4000, is_reserved: false, len: 5000 });
        assert!(imports.meets(0x5fff, 1) && imports.meets(0, 0x4001) && !imports.meets(0x6000, 1));
        let import = imports.remove(0x4000).expect("imported");
        assert!(imports.remove(0x4000).is_none() && imports.meets(0x4000, 1));
        imports.forget(0x4000, &import);
        assert!(!imports.meets(0, usize::MAX));
    }

    #[test]
    fn addresses_that_two_imports_share_are_known_until_the_last_is_given_back() {
        for order in [[0x4000, 0x9000], [0x9000, 0x4000]] {
            let mut imports = Imports::default();
            for (base, is_reserved) in [(0x4000, false), (0x9000, true)] {
                imports.add(base, Import { opened: Some(0x4000), at: 0x4000, is_reserved, len: 4096 });
            }
            let [first, last] = order;
            let import = imports.remove(first).expect("imported");
            imports.forget(first, &import);
            assert!(imports.meets(0x4000, 1) && imports.meets(last, 1), "{first:#x} first");
            assert!(first == 0x4000 || !imports.meets(first, 1));
            let import = imports.remove(last).expect("imported");
            imports.forget(last, &import);
            assert!(!imports.meets(0, usize::MAX), "{first:#x} first");
        }
    }
}
