//! Memory of other processes on the same GPU. The driver lets one process open an allocation of another with a pass, a few
//! bytes; those travel in a file in memory, as the bytes themselves do on the host backend.

use super::driver::Pass;
use ferry_core::{Kind, Result, Shared, table::GRANULE};
use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::fs::FileExt,
    },
    sync::OnceLock,
};

const MARK: u64 = u64::from_le_bytes(*b"ferrycuM");

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// How the driver finds the allocation.
    pub pass: Pass,
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
    pub fn new(pass: Pass, start: usize, at: usize) -> Ticket {
        Ticket { pass, skip: at - start, at, process: this_process() }
    }

    /// Whether the memory is this process's.
    pub fn is_ours(&self) -> bool {
        self.process == this_process()
    }

    /// Puts it into a file.
    pub fn write(&self, len: usize) -> Result<Shared> {
        let words = [MARK, self.skip as u64, self.at as u64, self.process].map(u64::to_le_bytes);
        let bytes = [&self.pass.0[..], words.as_flattened()].concat();
        let failed = |why: io::Error| Kind::Device.because(format!("a file for another process: {why}"));
        // SAFETY: the name ends with a zero.
        let file = unsafe { libc::memfd_create(c"ferry:cuda".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        // SAFETY: made just now, and nobody else has it.
        let file = unsafe { File::from_raw_fd(file) };
        // As long as the memory is, though there is nothing behind it: importers check that.
        file.set_len((Ticket::LEN + len) as u64)
            .and_then(|()| file.write_all_at(&bytes, 0))
            .map_err(failed)?;
        Ok(Shared { file: OwnedFd::from(file), offset: 0, len })
    }

    /// Reads it.
    pub fn read(shared: &Shared) -> Result<Ticket> {
        let mut bytes = [0; Ticket::LEN];
        let file = shared.file.try_clone().map(File::from);
        let read = file.and_then(|file| file.read_exact_at(&mut bytes, shared.offset));
        read.map_err(|why| Kind::BadAddress.because(format!("the file of another process: {why}")))?;
        let word =
            |index: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[64 + 8 * index + byte]));
        if word(0) != MARK {
            return Err(Kind::BadAddress.because("the other process uses another backend"));
        }
        let pass = Pass(std::array::from_fn(|byte| bytes[byte]));
        Ok(Ticket { pass, skip: word(1) as usize, at: word(2) as usize, process: word(3) })
    }
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
    /// All addresses of it: where each range starts and ends.
    ends: BTreeMap<usize, usize>,
}

/// How one of them is given back.
#[derive(Debug)]
pub struct Import {
    /// What the driver opened, unless the memory is this process's.
    pub opened: Option<usize>,
    /// Whether its addresses were set aside for it.
    pub is_reserved: bool,
    /// How long it is.
    pub len: usize,
}

impl Imports {
    /// Remembers it.
    pub fn add(&mut self, base: usize, import: Import) {
        self.ends.insert(base, base + import.len.next_multiple_of(GRANULE));
        self.by_base.insert(base, import);
    }

    /// It is to be given back. Its addresses are known until they are [forgotten](Self::forget).
    pub fn remove(&mut self, base: usize) -> Option<Import> {
        self.by_base.remove(&base)
    }

    /// It was given back.
    pub fn forget(&mut self, base: usize) {
        self.ends.remove(&base);
    }

    /// Whether any of the range is imported.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        let past = addr.saturating_add(len.max(1));
        self.ends.range(..past).next_back().is_some_and(|(_, end)| *end > addr)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_says_the_same_at_the_other_end() {
        let ticket = Ticket::new(Pass(std::array::from_fn(|byte| byte as u8)), 0x1200, 0x2000);
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
        imports.add(0x4000, Import { opened: Some(0x4000), is_reserved: false, len: 5000 });
        assert!(imports.meets(0x5fff, 1) && imports.meets(0, 0x4001) && !imports.meets(0x6000, 1));
        assert_eq!(imports.remove(0x4000).and_then(|import| import.opened), Some(0x4000));
        assert!(imports.remove(0x4000).is_none() && imports.meets(0x4000, 1));
        imports.forget(0x4000);
        assert!(!imports.meets(0, usize::MAX));
    }
}
