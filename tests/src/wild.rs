//! Addresses and handles that no caller should pass: what the bad-input tests are made of.

use std::ffi::c_void;

use crate::{Home, Memory, aclrtDestroyStream, ok, stream};

/// Bad addresses and handles, all made for the current context.
pub struct Wild {
    /// Device memory that was freed.
    pub freed_device: usize,
    /// Page-locked memory that was freed.
    pub freed_pinned: usize,
    /// The start of a page where nothing is mapped.
    pub unmapped: usize,
    /// A mapped page that may be read and not written, whose bytes are all 0x3c.
    pub read_only: usize,
    /// The last 64 bytes of a mapped page; the next page is not mapped.
    pub last_bytes: Memory,
    /// A stream that was destroyed.
    pub dead_stream: usize,
}

impl Wild {
    /// Makes one of each.
    pub fn new() -> Wild {
        let freed = |home| {
            let memory = Memory::new(home, 8192);
            ok(memory.free());
            memory.addr
        };
        let page = page_size();
        // Holes of one page: no thread's stack or heap that another test makes meanwhile can move in.
        let island = Memory::new(Home::Mapped, 5 * page);
        unmap(island.addr + page, page);
        unmap(island.addr + 3 * page, page);
        let read_only = island.part(4 * page, page);
        read_only.fill(0x3c);
        forbid_writing(read_only);
        let dead_stream = stream();
        ok(aclrtDestroyStream(dead_stream));
        Wild {
            freed_device: freed(Home::Device),
            freed_pinned: freed(Home::Pinned),
            unmapped: island.addr + page,
            read_only: read_only.addr,
            last_bytes: island.part(3 * page - 64, 64),
            dead_stream,
        }
    }
}

impl Default for Wild {
    fn default() -> Self {
        Wild::new()
    }
}

/// The size of a page on this machine.
pub fn page_size() -> usize {
    // SAFETY: asks for a constant.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

fn unmap(addr: usize, len: usize) {
    // SAFETY: a part of a mapping that this module made and nobody has seen yet.
    assert_eq!(unsafe { libc::munmap(addr as *mut c_void, len) }, 0);
}

fn forbid_writing(memory: Memory) {
    // SAFETY: a part of a mapping that this module made and nobody has seen yet.
    assert_eq!(unsafe { libc::mprotect(memory.addr as *mut c_void, memory.len, libc::PROT_READ) }, 0);
}
