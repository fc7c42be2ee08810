//! Mappings of the process's address space, undone when dropped. All begin without access rights.

use ferry_core::{Error, Kind, Result};
use std::{
    ffi::{CStr, CString, c_void},
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

/// A mapping of ours.
pub struct Mapping {
    addr: usize,
    len: usize,
}

impl Mapping {
    /// Bytes of a file that exists in memory only, or of no file where files may not be that large.
    pub fn shared(name: &str, len: usize) -> Result<(Mapping, Option<OwnedFd>)> {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        if limit(libc::RLIMIT_FSIZE) < len {
            return Ok((Mapping::make(name, len, flags | libc::MAP_ANONYMOUS, -1)?, None));
        }
        let file = memory_file(name)?;
        // SAFETY: the descriptor is ours and open.
        if unsafe { libc::ftruncate(file.as_raw_fd(), len as libc::off_t) } != 0 {
            return Err(system(&format!("making {name} {len} bytes large")));
        }
        Ok((Mapping::make(name, len, flags, file.as_raw_fd())?, Some(file)))
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

    fn make(name: &str, len: usize, flags: i32, fd: i32) -> Result<Mapping> {
        // SAFETY: no address is asked for, so no existing mapping is touched.
        let addr = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, flags, fd, 0) };
        if addr == libc::MAP_FAILED {
            return Err(system(&format!("reserving {len} bytes of addresses for {name}")));
        }
        Ok(Mapping { addr: addr as usize, len })
    }

    /// The first address.
    pub fn addr(&self) -> usize {
        self.addr
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
        // SAFETY: a part of this mapping, and nobody needs its bytes.
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
        // SAFETY: ours, and whoever can run work on it keeps it alive.
        unsafe { libc::munmap(self.part(0), self.len) };
    }
}

/// The bytes of address space that this process may map.
pub fn address_limit() -> usize {
    limit(libc::RLIMIT_AS).min(1 << 47)
}

fn limit(resource: libc::__rlimit_resource_t) -> usize {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is written by the call.
    unsafe { libc::getrlimit(resource, &mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

fn memory_file(name: &str) -> Result<OwnedFd> {
    let name_c = CString::new(name).expect("our names have no NUL");
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(name_c.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(system(&format!("creating {name}")));
    }
    // SAFETY: the call just returned this descriptor and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn system(doing: &str) -> Error {
    let why = io::Error::last_os_error();
    Kind::Device.because(format!("{doing}: {why}"))
}
