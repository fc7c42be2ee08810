//! Memory of every kind a copy can name, written and read in one way.

use std::ffi::c_void;

use crate::{aclrtFree, aclrtFreeHost, aclrtMalloc, aclrtMallocHost, aclrtMemcpy, kind, ok};

/// Where memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// aclrtMalloc
    Device,
    /// aclrtMallocHost: page-locked
    Pinned,
    /// malloc: pageable
    Heap,
    /// mmap: pageable, and alone on its pages
    Mapped,
}

/// A piece of memory, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The address a C program would hold.
    pub addr: usize,
    /// Bytes asked for.
    pub len: usize,
    /// Which function made it.
    pub home: Home,
}

impl Memory {
    /// Allocates `len` bytes.
    #[track_caller]
    pub fn new(home: Home, len: usize) -> Memory {
        let mut addr = 0;
        match home {
            Home::Device => ok(aclrtMalloc(&mut addr, len, 0)),
            Home::Pinned => ok(aclrtMallocHost(&mut addr, len)),
            // SAFETY: asks for memory, touches none.
            Home::Heap => addr = unsafe { libc::malloc(len) } as usize,
            Home::Mapped => addr = map(len),
        }
        assert_ne!(addr, 0, "{len} bytes of {home:?}");
        Memory { addr, len, home }
    }

    /// Allocates device memory.
    #[track_caller]
    pub fn device(len: usize) -> Memory {
        Memory::new(Home::Device, len)
    }

    /// Allocates page-locked host memory.
    #[track_caller]
    pub fn pinned(len: usize) -> Memory {
        Memory::new(Home::Pinned, len)
    }

    /// Allocates pageable host memory with malloc.
    #[track_caller]
    pub fn heap(len: usize) -> Memory {
        Memory::new(Home::Heap, len)
    }

    /// Allocates memory that holds `bytes`.
    #[track_caller]
    pub fn holding(home: Home, bytes: &[u8]) -> Memory {
        let memory = Memory::new(home, bytes.len());
        memory.write(bytes);
        memory
    }

    /// The part of this memory that starts at `offset`.
    pub fn part(&self, offset: usize, len: usize) -> Memory {
        assert!(offset + len <= self.len);
        Memory { addr: self.addr + offset, len, home: self.home }
    }

    /// Puts `bytes` at the start.
    #[track_caller]
    pub fn write(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len);
        if self.home == Home::Device {
            return ok(aclrtMemcpy(self.addr, self.len, bytes.as_ptr() as usize, bytes.len(), kind::H2D));
        }
        // SAFETY: host memory of at least this many bytes, made by `new` and used by this test alone.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.addr as *mut u8, bytes.len()) }
    }

    /// Takes out all bytes.
    #[track_caller]
    pub fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        if self.home == Home::Device {
            ok(aclrtMemcpy(bytes.as_mut_ptr() as usize, self.len, self.addr, self.len, kind::D2H));
            return bytes;
        }
        // SAFETY: host memory of `len` bytes, made by `new`.
        unsafe { std::ptr::copy_nonoverlapping(self.addr as *const u8, bytes.as_mut_ptr(), self.len) }
        bytes
    }

    /// Sets every byte.
    #[track_caller]
    pub fn fill(&self, byte: u8) {
        self.write(&vec![byte; self.len]);
    }

    /// Asserts that every byte is `byte`.
    #[track_caller]
    pub fn assert_all(&self, byte: u8, what: &str) {
        self.assert_holds(&vec![byte; self.len], what);
    }

    /// Asserts that the bytes are `want`, and tells the first that differs instead of printing them all.
    #[track_caller]
    pub fn assert_holds(&self, want: &[u8], what: &str) {
        let got = self.read();
        assert_eq!(got.len(), want.len(), "{what}");
        if got != want {
            let at = got.iter().zip(want).position(|(a, b)| a != b).expect("slices that differ");
            panic!("{what}: byte {at} is {:#04x} and should be {:#04x}", got[at], want[at]);
        }
    }

    /// Gives the memory back; the answer is the library's.
    pub fn free(self) -> i32 {
        match self.home {
            Home::Device => aclrtFree(self.addr),
            Home::Pinned => aclrtFreeHost(self.addr),
            Home::Heap => {
                // SAFETY: made by malloc in `new`; `free` takes the value.
                unsafe { libc::free(self.addr as *mut c_void) };
                0
            }
            // SAFETY: made by mmap in `new` with this length.
            Home::Mapped => unsafe { libc::munmap(self.addr as *mut c_void, self.len) },
        }
    }
}

/// Bytes that differ from their neighbours, from the same place in another page and from another `seed`'s.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ (i >> 16) as u8 ^ seed.wrapping_mul(0x4d))
        .collect()
}

fn map(len: usize) -> usize {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at a place the kernel picks touches nothing that exists.
    let addr = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
    assert_ne!(addr, libc::MAP_FAILED);
    addr as usize
}
