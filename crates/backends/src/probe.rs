//! Can plain host memory be touched? Asked of the operating system before a copy of it is submitted, so that a garbage
//! pointer becomes an error instead of a crash.
//!
//! `madvise(MADV_POPULATE_*)` answers exactly this, permissions included, and does the page faults that the copy would have
//! done anyway. Kernels before 5.14 and some sandboxes lack it; there `/proc/self/maps` is read.

use ferry_core::{Access, Kind, Result};
use std::sync::OnceLock;

/// `Ok` if every byte of the range can be accessed that way now. An empty range always can.
pub fn accessible(addr: usize, len: usize, access: Access) -> Result<()> {
    if len == 0 {
        return Ok(());
    }
    let page = page_size();
    // The last page of the address space is the kernel's; so a range that ends there is as bad as one that wraps.
    let Some(past) = addr.checked_add(len).and_then(|end| end.checked_next_multiple_of(page)) else {
        return Err(Kind::BadAddress
            .because(format!("{len} bytes at {addr:#x} wrap round the end of the address space")));
    };
    let first = addr & !(page - 1);
    // The last page first: a garbage length then fails before anything large is brought in.
    let good = populate(past - page, page, access)
        && (past - first == page || populate(first, past - page - first, access));
    if good {
        return Ok(());
    }
    let verb = if access == Access::Write { "written" } else { "read" };
    Err(Kind::BadAddress.because(format!(
        "{len} bytes at {addr:#x} cannot be {verb}: not mapped in this process, or protected"
    )))
}

/// The size of a page of this machine.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    // SAFETY: sysconf has no preconditions.
    *SIZE.get_or_init(|| usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096))
}

fn populate(first: usize, len: usize, access: Access) -> bool {
    const POPULATE_READ: i32 = 22;
    const POPULATE_WRITE: i32 = 23;
    let advice = if access == Access::Write { POPULATE_WRITE } else { POPULATE_READ };
    loop {
        // SAFETY: populating changes no byte; a range that is not ours to touch is refused by the kernel.
        if unsafe { libc::madvise(first as *mut libc::c_void, len, advice) } == 0 {
            return true;
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR | libc::EAGAIN) => continue,
            // The advice is unknown to this kernel, means nothing for this kind of mapping, or is not for this sandbox.
            Some(libc::EINVAL | libc::ENOSYS | libc::EPERM) => return in_maps(first, len, access),
            _ => return false,
        }
    }
}

/// Whether the mappings of the process cover the range with the right permission.
fn in_maps(first: usize, len: usize, access: Access) -> bool {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return false };
    covered(&maps, first, first + len, access)
}

fn covered(maps: &str, mut from: usize, to: usize, access: Access) -> bool {
    let flag = if access == Access::Write { (1, 'w') } else { (0, 'r') };
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let Some((start, end)) = range.split_once('-') else { continue };
        let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16)) else {
            continue;
        };
        if start <= from && from < end {
            if rights.chars().nth(flag.0) != Some(flag.1) {
                return false;
            }
            from = end;
        }
        if from >= to {
            return true;
        }
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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
        let maps = "1000-3000 rw-p 0 0 0\n3000-4000 r--p 0 0 0 /x\n5000-6000 rw-p 0\n";
        for (from, to, access, good) in [
            (0x1000, 0x4000, Access::Read, true),
            (0x1000, 0x4000, Access::Write, false),
            (0x2000, 0x3000, Access::Write, true),
            (0x3000, 0x5001, Access::Read, false),
            (0x6000, 0x7000, Access::Read, false),
        ] {
            assert_eq!(covered(maps, from, to, access), good, "{from:#x}..{to:#x} {access:?}");
        }
    }
}
