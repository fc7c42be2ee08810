use super::*;
use libc::{MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, PROT_NONE, PROT_READ, PROT_WRITE};
use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

#[test]
fn what_can_be_touched_is_told_from_what_cannot() {
    let mut buffer = vec![1_u8; 3 * page_size()];
    let addr = buffer.as_mut_ptr() as usize;
    let constant = "read-only data".as_ptr() as usize;
    for (addr, len, access, good) in [
        (addr, buffer.len(), Access::Write, true),
        (addr + 1, 1, Access::Read, true),
        (constant, 4, Access::Read, true),
        (constant, 4, Access::Write, false),
        (0x10, 1, Access::Read, false),
        (addr, usize::MAX / 2, Access::Read, false),
        (addr, usize::MAX, Access::Read, false),
        (0xdead_0000_0000_0000, 8, Access::Read, false),
        (0x10, 0, Access::Write, true),
    ] {
        assert_eq!(accessible(addr, len, access).is_ok(), good, "{len} bytes at {addr:#x} to {access:?}");
    }
    assert!(buffer.iter().all(|byte| *byte == 1), "asking changes nothing");
}

#[test]
fn maps_are_read_where_the_kernel_cannot_be_asked() {
    let maps = "1000-3000 rw-p 0 0 0\n3000-4000 r--p 0 0 0 /x\n5000-6000 rw-p 0 0 0\n";
    for (from, to, access, good) in [
        (0x1000, 0x4000, Access::Read, true),
        (0x1000, 0x4000, Access::Write, false),
        (0x2000, 0x3000, Access::Write, true),
        (0x3000, 0x5001, Access::Read, false),
        (0x6000, 0x7000, Access::Read, false),
    ] {
        assert_eq!(stopped_at(maps, from, to, access).is_none(), good, "{from:#x}..{to:#x} {access:?}");
    }
}
/// Addresses with something mapped at them; they are unmapped when this goes.
struct Mapped {
    at: usize,
    len: usize,
}

impl Mapped {
    fn new(len: usize, rights: i32, flags: i32, file: i32) -> Mapped {
        // SAFETY: fresh addresses, chosen by the kernel.
        let at = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, file, 0) };
        assert_ne!(at, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        Mapped { at: at as usize, len }
    }

    /// Anonymous memory, all of it there.
    fn anonymous(flags: i32) -> Mapped {
        let mapped = Mapped::new(LEN, BOTH, flags | MAP_ANONYMOUS, -1);
        // SAFETY: mapped just now.
        unsafe { ptr::write_bytes(mapped.at as *mut u8, 1, LEN) };
        mapped
    }

    /// Half of it is gone again, from the middle on.
    fn shortened(self) -> Mapped {
        // SAFETY: ours; nobody uses it.
        assert_eq!(unsafe { libc::munmap((self.at + LEN / 2) as *mut _, page_size()) }, 0);
        self
    }

    fn protected(self, rights: i32) -> Mapped {
        // SAFETY: ours; nobody uses it.
        assert_eq!(unsafe { libc::mprotect((self.at + LEN / 2) as *mut _, page_size(), rights) }, 0);
        self
    }

    fn advised(self, advice: i32) -> io::Result<Mapped> {
        // SAFETY: ours; nobody uses it.
        match unsafe { libc::madvise((self.at + LEN / 2) as *mut _, LEN / 4, advice) } {
            0 => Ok(self),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// As long as the others, with memory behind its first half only.
    fn grown() -> Mapped {
        let Mapped { at, .. } =
            *std::mem::ManuallyDrop::new(Mapped::new(LEN / 2, BOTH, MAP_SHARED | MAP_ANONYMOUS, -1));
        // SAFETY: ours; nobody uses it.
        let at = unsafe { libc::mremap(at as *mut _, LEN / 2, LEN, libc::MREMAP_MAYMOVE) };
        assert_ne!(at, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        Mapped { at: at as usize, len: LEN }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: ours; nobody uses it.
        unsafe { libc::munmap(self.at as *mut _, self.len) };
    }
}

const LEN: usize = 4 << 20;
const BOTH: i32 = PROT_READ | PROT_WRITE;

/// A file in memory of this length.
fn file(len: usize) -> OwnedFd {
    // SAFETY: the name ends with a zero.
    let file = unsafe { libc::memfd_create(c"probe".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(file >= 0, "{}", io::Error::last_os_error());
    // SAFETY: made just now, and nobody else's.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    // SAFETY: the file is open.
    assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), len as i64) }, 0);
    file
}

/// Whether all of it can be read and written. Every way of asking must agree; populating comes last, since it
/// changes what the others see.
fn answers(mapped: &Mapped) -> [bool; 2] {
    let (first, past) = (mapped.at, mapped.at + mapped.len);
    [Access::Read, Access::Write].map(|access| {
        let ways = [Mappings::ask(), Mappings::read()].into_iter().flatten();
        let by_mapping: Vec<_> = ways.map(|way| by_mapping(&way, first, past, access)).collect();
        let accessible = accessible(first + 1, mapped.len - 2, access).is_ok();
        let populated = populate(first, past - first, access);
        assert!(by_mapping.iter().all(|good| *good == Some(populated)), "{access:?}: {by_mapping:?}");
        assert_eq!(accessible, populated, "{access:?}");
        populated
    })
}

#[test]
fn large_ranges_are_told_by_their_mappings() {
    let (whole, half) = (file(LEN), file(LEN / 2));
    let of_file = |file: &OwnedFd, rights, flags| Mapped::new(LEN, rights, flags, file.as_raw_fd());
    let given_back = Mapped::anonymous(MAP_PRIVATE).advised(libc::MADV_DONTNEED).expect("every kernel can");
    for (what, mapped, want) in [
        ("anonymous", Mapped::anonymous(MAP_PRIVATE), [true; 2]),
        ("anonymous, shared", Mapped::anonymous(MAP_SHARED), [true; 2]),
        ("never touched", Mapped::new(LEN, BOTH, MAP_PRIVATE | MAP_ANONYMOUS, -1), [true; 2]),
        ("some given back", given_back, [true; 2]),
        ("read only", Mapped::new(LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1), [true, false]),
        ("nothing allowed", Mapped::new(LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1), [false; 2]),
        ("a hole", Mapped::anonymous(MAP_PRIVATE).shortened(), [false; 2]),
        ("a page read only", Mapped::anonymous(MAP_PRIVATE).protected(PROT_READ), [true, false]),
        ("a page not allowed", Mapped::anonymous(MAP_PRIVATE).protected(PROT_NONE), [false; 2]),
        ("a page executable", Mapped::anonymous(MAP_PRIVATE).protected(BOTH | libc::PROT_EXEC), [true; 2]),
        ("shared, longer than what is behind it", Mapped::grown(), [false; 2]),
        ("a file", of_file(&whole, BOTH, MAP_SHARED), [true; 2]),
        ("a file of one's own", of_file(&whole, BOTH, MAP_PRIVATE), [true; 2]),
        ("a file to read", of_file(&whole, PROT_READ, MAP_SHARED), [true, false]),
        ("beyond the end of a file", of_file(&half, BOTH, MAP_SHARED), [false; 2]),
        ("beyond the end of a file of one's own", of_file(&half, BOTH, MAP_PRIVATE), [false; 2]),
    ] {
        assert_eq!(answers(&mapped), want, "{what}");
    }
}

/// Guards lie inside a mapping, which says nothing of them.
#[test]
fn guards_inside_a_mapping_are_found() {
    const GUARD_INSTALL: i32 = 102;
    match Mapped::anonymous(MAP_PRIVATE).advised(GUARD_INSTALL) {
        Ok(mapped) => assert_eq!(answers(&mapped), [false; 2]),
        Err(why) => eprintln!("skipped: this kernel has no guards: {why}"),
    }
}

#[test]
fn both_ways_to_mappings_tell_the_same() {
    let file = file(LEN);
    let mapped = [Mapped::anonymous(MAP_PRIVATE), Mapped::new(LEN, BOTH, MAP_SHARED, file.as_raw_fd())];
    let Some(asked) = Mappings::ask() else {
        return eprintln!("skipped: this kernel cannot be asked for a mapping");
    };
    let read = Mappings::read().expect("a process can read its own mappings");
    for (mapped, is_anonymous) in mapped.iter().zip([true, false]) {
        let mapping = asked.around(mapped.at + 1).flatten().expect("mapped");
        assert_eq!(mapping.is_anonymous, is_anonymous);
        assert_eq!(read.around(mapped.at + 1), Some(Some(mapping)));
    }
    for ways in [asked, read] {
        assert_eq!(ways.around(1), Some(None), "nothing is mapped there");
    }
}

#[test]
fn several_threads_bring_in_what_is_absent() {
    let len = 2 * POPULATE_IN_PARALLEL_FROM;
    for (rights, access) in [(BOTH, Access::Write), (PROT_READ, Access::Read)] {
        let mapped = Mapped::new(len, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        assert_eq!(absent(mapped.at, mapped.at + len).iter().map(Range::len).sum::<usize>(), len);
        assert!(bring_in(mapped.at, mapped.at + len, access));
        assert!(absent(mapped.at, mapped.at + len).is_empty());
    }
    let none = Mapped::new(len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert!(!bring_in(none.at, none.at + len, Access::Read));
}
