//! Mappings of the process's address space, undone when dropped. All begin without access rights.

use super::{
    files::{Kept, above},
    nodes,
    refusal::{self, limit},
};
use ferry_core::{Error, Kind, Result};
use std::{
    ffi::{CStr, CString, c_void},
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// As many addresses has a process, and the address table knows no more.
const ADDRESSES: usize = 1 << 47;

/// A mapping of ours.
pub struct Mapping {
    addr: usize,
    len: usize,
}

impl Mapping {
    /// Bytes of a file that exists in memory only, or of no file where files may not be that large.
    pub fn shared(name: &str, len: usize) -> Result<(Mapping, Option<Kept>)> {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        if limit(libc::RLIMIT_FSIZE) < len {
            return Ok((Mapping::make(name, len, flags | libc::MAP_ANONYMOUS, -1)?, None));
        }
        let kept = Kept::open(|| new_file(name)).map_err(|why| failed(&format!("creating {name}"), &why))?;
        let file = kept.get().map_err(|why| failed(name, &why))?;
        // SAFETY: the descriptor is ours and open.
        if unsafe { libc::ftruncate(file.as_raw_fd(), len as libc::off_t) } != 0 {
            return Err(system(&format!("making {name} {len} bytes large")));
        }
        // A process that maps a part of it may access it at any later time, so the file must not shrink.
        // SAFETY: the descriptor is ours; where seals are unknown nothing is sealed and nothing can be
        // imported.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
        Ok((Mapping::make(name, len, flags, file.as_raw_fd())?, Some(kept)))
    }

    /// Addresses over an empty file: nothing is behind them, and the name shows in the maps.
    pub fn bare(name: &str, len: usize) -> Result<Mapping> {
        Mapping::make(name, len, libc::MAP_SHARED | libc::MAP_NORESERVE, memory_file(name)?.as_raw_fd())
    }

    /// Private memory: in a forked child the parent's bytes are not touched. Named where the kernel can.
    pub fn private(name: &CStr, len: usize) -> Result<Mapping> {
        const SET_VMA: i32 = 0x5356_4d41;
        const ANON_NAME: usize = 0;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = Mapping::make("page-locked memory", len, flags, -1)?;
        // SAFETY: names a mapping of ours; the string outlives the call.
        unsafe { libc::prctl(SET_VMA, ANON_NAME, mapping.addr, len, name.as_ptr()) };
        Ok(mapping)
    }

    /// Memory that can be laid at other addresses too. Forked children have none of it.
    pub fn pages(name: &str, len: usize) -> Result<Mapping> {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let mapping = Mapping::make_at(0, name, len, rights, flags | libc::MAP_NORESERVE, -1, 0)?;
        mapping.advise(0, len, libc::MADV_DONTFORK);
        Ok(mapping)
    }

    /// The same memory at other addresses too, without access rights as long as this has none. This is shared
    /// memory.
    pub fn again(&self, name: &str) -> Result<Mapping> {
        Mapping::again_of(self.addr, self.len, name)
    }

    /// A second mapping of shared memory that may be somebody else's.
    pub fn again_of(addr: usize, len: usize, name: &str) -> Result<Mapping> {
        let from = addr as *mut libc::c_void;
        // SAFETY: nothing is taken away from that mapping, since its length is 0 here; the kernel chooses the
        // address.
        let addr = unsafe { libc::mremap(from, 0, len, libc::MREMAP_MAYMOVE) };
        if addr == libc::MAP_FAILED {
            return Err(system(&format!("reserving {len} bytes of addresses for {name}")));
        }
        Ok(Mapping { addr: addr as usize, len })
    }

    /// Has pages that are yet to be touched come from a memory node, where the system allows the choice and
    /// there is room.
    pub fn prefer_node(&self, node: u32) {
        const PREFERRED: usize = 1;
        let mut nodes = [0_u64; 16];
        let Some(word) = nodes.get_mut(node as usize / 64) else { return };
        *word = 1 << (node % 64);
        let (at, most) = (nodes.as_ptr(), 8 * size_of_val(&nodes));
        // SAFETY: a mapping of ours, whose bytes do not change; the set of nodes outlives the call.
        unsafe { libc::syscall(libc::SYS_mbind, self.part(0), self.len, PREFERRED, at, most, 0) };
    }

    /// Has pages that are yet to be touched lie on the memory nodes where they would if the calling thread
    /// touched them, whichever does. False where the system does not allow that.
    pub fn place_as_here(&self) -> bool {
        const DEFAULT: i32 = 0;
        const PREFERRED: i32 = 1;
        const LOCAL: i32 = 4;
        if !nodes::are_several() {
            return true;
        }
        let (mut mode, mut nodes, mut node) = (DEFAULT, [0_u64; 16], 0_u32);
        let (at, most) = (nodes.as_mut_ptr(), 8 * size_of_val(&nodes));
        // SAFETY: the mode and the set of nodes of this thread are written, each has the room it is said to.
        if unsafe { libc::syscall(libc::SYS_get_mempolicy, &mut mode, at, most, 0_usize, 0_usize) } != 0 {
            return false;
        }
        if mode == DEFAULT || mode == LOCAL {
            // SAFETY: the node of this thread is written, and nothing else is asked for.
            if unsafe { libc::syscall(libc::SYS_getcpu, 0_usize, &mut node, 0_usize) } != 0 {
                return false;
            }
            (mode, nodes) = (PREFERRED, [0; 16]);
            let Some(word) = nodes.get_mut(node as usize / 64) else { return false };
            *word = 1 << (node % 64);
        }
        // SAFETY: a mapping of ours, whose bytes do not change; the set of nodes outlives the call.
        unsafe { libc::syscall(libc::SYS_mbind, self.part(0), self.len, mode, nodes.as_ptr(), most, 0) == 0 }
    }

    /// As `bare`, at `wish` if nothing is there.
    pub fn bare_near(name: &str, len: usize, wish: usize) -> Result<Mapping> {
        let file = memory_file(name)?;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        Mapping::make_at(wish, name, len, libc::PROT_NONE, flags, file.as_raw_fd(), 0)
    }

    /// A part of a file that another process made, readable and writable. The file cannot shrink, so touching
    /// it is safe.
    pub fn of_file(name: &str, file: BorrowedFd, offset: u64, len: usize) -> Result<Mapping> {
        check_file(file, offset, len)?;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let mapping =
            Mapping::make_at(0, name, len, rights, libc::MAP_SHARED, file.as_raw_fd(), offset as i64)?;
        mapping.advise(0, len, libc::MADV_DONTFORK);
        mapping.advise(0, len, libc::MADV_DONTDUMP);
        Ok(mapping)
    }

    /// A small file that processes share, readable and writable; no forked child inherits it.
    pub fn of_table(name: &str, file: BorrowedFd, len: usize) -> Result<Mapping> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let mapping = Mapping::make_at(0, name, len, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)?;
        match mapping.advise(0, len, libc::MADV_DONTFORK) {
            true => Ok(mapping),
            false => Err(system(&format!("keeping {name} from forked children"))),
        }
    }

    /// Lays memory that is mapped at `from`, shared, over a part of this mapping too. No descriptor is needed
    /// for that.
    pub fn lay(&self, addr: usize, from: usize, len: usize) -> Result<()> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: a part of this mapping, at which nothing lies yet; of the other, none is taken away, since
        // its length is 0 here.
        let laid = unsafe { libc::mremap(from as *mut c_void, 0, len, flags, addr as *mut c_void) };
        if laid == libc::MAP_FAILED {
            let why = system(&format!("mapping {len} bytes at {addr:#x}"));
            // The kernel may have unmapped the place already: these addresses must stay reserved.
            self.bare_again(addr, len);
            return Err(why);
        }
        self.advise(addr - self.addr, len, libc::MADV_DONTFORK);
        self.advise(addr - self.addr, len, libc::MADV_DONTDUMP);
        Ok(())
    }

    /// Undoes `lay`: no access rights, and nothing behind it unless the system refuses a mapping.
    pub fn bare_again(&self, addr: usize, len: usize) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: a part of this mapping, which the user gave up.
        let bare = unsafe { libc::mmap(addr as *mut c_void, len, libc::PROT_NONE, flags, -1, 0) };
        if bare == libc::MAP_FAILED {
            // SAFETY: as above.
            unsafe { libc::mprotect(addr as *mut c_void, len, libc::PROT_NONE) };
        }
    }

    /// Whether the range lies in this mapping.
    pub fn contains(&self, addr: usize, len: usize) -> bool {
        addr.checked_sub(self.addr).is_some_and(|offset| offset <= self.len && len <= self.len - offset)
    }

    /// Locks pages of the user's in memory.
    pub fn lock_pages(addr: usize, len: usize) -> bool {
        // SAFETY: locking changes no byte.
        unsafe { libc::mlock(addr as *const c_void, len) == 0 }
    }

    /// Undoes `lock_pages`.
    pub fn unlock_pages(addr: usize, len: usize) {
        // SAFETY: unlocking changes no byte; what is no longer mapped is refused.
        unsafe { libc::munlock(addr as *const c_void, len) };
    }

    fn make(name: &str, len: usize, flags: i32, fd: i32) -> Result<Mapping> {
        Mapping::make_at(0, name, len, libc::PROT_NONE, flags, fd, 0)
    }

    fn make_at(
        wish: usize,
        name: &str,
        len: usize,
        rights: i32,
        flags: i32,
        fd: i32,
        offset: i64,
    ) -> Result<Mapping> {
        // SAFETY: the address is a wish, so no existing mapping is touched.
        let addr = unsafe { libc::mmap(wish as *mut c_void, len, rights, flags, fd, offset) };
        if addr == libc::MAP_FAILED {
            return Err(system(&format!("reserving {len} bytes of addresses for {name}")));
        }
        Ok(Mapping { addr: addr as usize, len })
    }

    /// The first address.
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// Whether any of `len` bytes at `addr`, or `addr` itself, lies in it.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        addr < self.addr + self.len && self.addr < addr.saturating_add(len.max(1))
    }

    /// How many addresses.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Makes a part readable and writable; nothing in it is in use yet.
    pub fn open(&self, from: usize, to: usize) -> bool {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a part of this mapping.
        unsafe { libc::mprotect(self.part(from), to - from, rights) == 0 }
    }

    /// Advice on a part in which no block lives.
    pub fn advise(&self, offset: usize, len: usize, advice: i32) -> bool {
        // SAFETY: a part of this mapping, and its bytes are not needed.
        unsafe { libc::madvise(self.part(offset), len, advice) == 0 }
    }

    /// Locks pages as they are touched.
    pub fn lock_on_fault(&self, offset: usize, len: usize) -> bool {
        // SAFETY: a part of this mapping.
        unsafe { libc::syscall(libc::SYS_mlock2, self.part(offset), len, libc::MLOCK_ONFAULT) == 0 }
    }

    /// Undoes `lock_on_fault`.
    pub fn unlock(&self, offset: usize, len: usize) -> bool {
        // SAFETY: a part of this mapping.
        unsafe { libc::munlock(self.part(offset), len) == 0 }
    }

    fn part(&self, offset: usize) -> *mut c_void {
        (self.addr + offset) as *mut c_void
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: ours, and work that uses it keeps it alive.
        unsafe { libc::munmap(self.part(0), self.len) };
    }
}

/// The bytes of address space that this process may map.
pub fn address_limit() -> usize {
    limit(libc::RLIMIT_AS).min(ADDRESSES)
}

/// What sets that limit.
pub fn address_limit_name() -> &'static str {
    if address_limit() < ADDRESSES { "RLIMIT_AS" } else { "addresses of 47 bits" }
}

/// A file for one mapping; its descriptor is closed afterwards.
fn memory_file(name: &str) -> Result<OwnedFd> {
    above(|| new_file(name)).map_err(|why| failed(&format!("creating {name}"), &why))
}

/// A file that exists in memory only.
pub fn new_file(name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name).expect("our names have no NUL");
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just returned this descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Which file this is, as long as it is open or mapped anywhere.
pub fn identity(file: BorrowedFd) -> Option<(u64, u64)> {
    stat(file).map(|stat| (stat.st_dev, stat.st_ino))
}

fn stat(file: BorrowedFd) -> Option<libc::stat> {
    // SAFETY: plain data for fstat to fill.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fills `stat`, whatever the descriptor is.
    (unsafe { libc::fstat(file.as_raw_fd(), &mut stat) } == 0).then_some(stat)
}

/// Makes sure that the range lies in the file and that the file cannot shrink: touching it would end the
/// process.
fn check_file(file: BorrowedFd, offset: u64, len: usize) -> Result<()> {
    // SAFETY: asks about an open descriptor.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    let sealed = stat(file).filter(|_| seals >= 0 && seals & libc::F_SEAL_SHRINK != 0);
    let size = sealed
        .map(|stat| stat.st_size as u64)
        .ok_or_else(|| Kind::BadAddress.because("the file behind this memory is not one of Ferry's"))?;
    if offset.checked_add(len as u64).is_none_or(|end| end > size) {
        let note = format!("{len} bytes at {offset} of a file of {size} bytes");
        return Err(Kind::OutOfBounds.because(note));
    }
    Ok(())
}

fn system(doing: &str) -> Error {
    failed(doing, &io::Error::last_os_error())
}

fn failed(doing: &str, why: &io::Error) -> Error {
    Kind::Device.because(format!("{doing}: {}", refusal::explain(why)))
}
