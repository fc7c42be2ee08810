//! Blocks of device, page-locked and pageable memory, freed on drop, and parts of them.
//!
//! A [`BlockPart`] can only be made inside a [`Block`], and borrows it. That makes the copy calls of this
//! crate safe to write: the library keeps freed memory until the copies that use it have passed, and does not
//! return before a copy that uses pageable memory is done. Host bytes are always reached through raw pointers
//! and never borrowed, because a device may be writing them; bytes read too early are old or new, and the
//! mirror notices.

// How long a block is matters; whether it is empty is never asked.
#![allow(clippy::len_without_is_empty)]

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::error::Result;
use crate::library::Library;
use crate::{call, kind};

/// Where memory lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// Device memory, from aclrtMalloc on the device that was current.
    Device,
    /// Page-locked (pinned) host memory, from aclrtMallocHost.
    Locked,
    /// Pageable host memory from the heap, unknown to the library.
    Pageable,
}

/// A block of memory, freed on drop.
pub struct Block {
    library: &'static Library,
    at: *mut u8,
    len: usize,
    home: Home,
}

/// Part of a block: an address and a length that borrow it.
#[derive(Clone, Copy)]
pub struct BlockPart<'m> {
    at: *mut u8,
    len: usize,
    memory: PhantomData<&'m Block>,
}

/// Rows of a matrix: where the first one starts and how far apart they are.
#[derive(Clone, Copy)]
pub struct Grid<'m> {
    /// The memory that the rows lie in, from the first one on.
    pub span: BlockPart<'m>,
    /// Bytes from the start of a row to the start of the next.
    pub pitch: usize,
}

// SAFETY: the pointer is the block's own, and nothing borrows the bytes behind it (see above).
unsafe impl Send for Block {}
// SAFETY: as above; all methods that take `&self` reach the bytes through the raw pointer.
unsafe impl Sync for Block {}

impl Block {
    /// A new block; device memory is made on the current device.
    pub fn new(library: &'static Library, home: Home, len: usize) -> Result<Block> {
        const HUGE_FIRST: i32 = 0;
        let mut at: *mut c_void = std::ptr::null_mut();
        match home {
            // SAFETY: `at` is writable for the time of the call.
            Home::Device => unsafe { call!(library, aclrtMalloc(&mut at, len, HUGE_FIRST)) }?,
            // SAFETY: as above.
            Home::Locked => unsafe { call!(library, aclrtMallocHost(&mut at, len)) }?,
            Home::Pageable => at = Box::into_raw(vec![0u8; len].into_boxed_slice()).cast(),
        }
        Ok(Block { library, at: at.cast(), len, home })
    }

    /// Owns a block that another call has allocated.
    ///
    /// # Safety
    /// The library allocated `len` bytes at `at`, which aclrtFree (device) or aclrtFreeHost (page-locked)
    /// frees, and nothing else frees it.
    pub unsafe fn adopt(library: &'static Library, home: Home, at: *mut c_void, len: usize) -> Block {
        assert_ne!(home, Home::Pageable, "pageable memory is not the library's");
        Block { library, at: at.cast(), len, home }
    }

    /// Bytes in the block.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The whole block.
    pub fn all(&self) -> BlockPart<'_> {
        self.part(0, self.len)
    }

    /// `len` bytes from `offset` on.
    pub fn part(&self, offset: usize, len: usize) -> BlockPart<'_> {
        BlockPart { at: self.at, len: self.len, memory: PhantomData }.part(offset, len)
    }

    /// The whole block as rows.
    pub fn grid(&self, pitch: usize) -> Grid<'_> {
        Grid { span: self.all(), pitch }
    }

    /// Writes all of the block; device memory by a synchronous copy.
    pub fn put(&self, bytes: &[u8]) -> Result<()> {
        assert_eq!(bytes.len(), self.len, "a block is put as a whole");
        self.write(0, bytes)
    }

    /// Reads all of the block; device memory by a synchronous copy.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes from `offset` on; device memory by a synchronous copy.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let part = self.part(offset, bytes.len());
        if self.home == Home::Device {
            return put(self.library, part, bytes);
        }
        // SAFETY: the part lies in the block and is as long as `bytes`, which is other memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.at, bytes.len()) };
        Ok(())
    }

    /// Reads from `offset` on; device memory by a synchronous copy.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let part = self.part(offset, bytes.len());
        if self.home == Home::Device {
            return get_into(self.library, part, bytes);
        }
        // SAFETY: the part lies in the block and is as long as `bytes`, which is other memory.
        unsafe { std::ptr::copy_nonoverlapping(part.at, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Frees the block now, and returns what the library answered.
    pub fn free(self) -> Result<()> {
        let outcome = self.release();
        std::mem::forget(self);
        outcome
    }

    fn release(&self) -> Result<()> {
        match self.home {
            // SAFETY: the block came from aclrtMalloc or one of its kind, and is freed once.
            Home::Device => unsafe { call!(self.library, aclrtFree(self.at.cast())) },
            // SAFETY: the block came from aclrtMallocHost or one of its kind, and is freed once.
            Home::Locked => unsafe { call!(self.library, aclrtFreeHost(self.at.cast())) },
            Home::Pageable => {
                // SAFETY: `at` and `len` are those of the boxed slice that `new` made, and it is dropped
                // once.
                drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.at, self.len)) });
                Ok(())
            }
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // A part that fails drops its memory on the way out; its own error is the one to show.
        let _ = self.release();
    }
}

impl BlockPart<'_> {
    /// The address, for calls.
    pub fn at(&self) -> *mut c_void {
        self.at.cast()
    }

    /// Bytes in the part.
    pub fn len(&self) -> usize {
        self.len
    }

    /// These addresses after the memory is gone, to see the library refuse them.
    ///
    /// # Safety
    /// It is given to the library only, and only as memory that the library made and so knows to be freed.
    pub unsafe fn outlive(self) -> BlockPart<'static> {
        BlockPart { at: self.at, len: self.len, memory: PhantomData }
    }
}

impl<'m> BlockPart<'m> {
    /// Addresses that the library gave, for as long as `_owner` lives.
    ///
    /// # Safety
    /// They are given to the library only, and are addresses that the library made and so knows.
    pub unsafe fn of<T>(_owner: &'m T, at: *mut c_void, len: usize) -> BlockPart<'m> {
        BlockPart { at: at.cast(), len, memory: PhantomData }
    }

    /// `len` bytes from `offset` on.
    pub fn part(self, offset: usize, len: usize) -> BlockPart<'m> {
        assert!(offset <= self.len && len <= self.len - offset, "bytes outside of their own block");
        BlockPart { at: self.at.wrapping_add(offset), len, memory: PhantomData }
    }

    /// A part that claims to be `len` long, to see the library refuse it.
    ///
    /// # Safety
    /// It is given to the library only, and only as memory that the library made and so knows the length of.
    pub unsafe fn longer(span: BlockPart<'m>, len: usize) -> BlockPart<'m> {
        BlockPart { len, ..span }
    }
}

impl Grid<'_> {
    /// Panics unless the rows lie in the memory: the library cannot check the bounds of pageable memory.
    pub fn assert_holds(&self, width: usize, height: usize) {
        let needed = height.saturating_sub(1) * self.pitch + width;
        assert!(needed <= self.span.len(), "the matrix leaves its own memory");
    }
}

/// aclrtMemcpy: returns when the copy is done. `dst` is the room there is, `src` the bytes to copy.
pub fn copy(library: &Library, dst: BlockPart, src: BlockPart, kind: i32) -> Result<()> {
    // SAFETY: both spans lie in live memory, and the call is over before either borrow ends.
    let code = unsafe { (library.functions.aclrtMemcpy)(dst.at(), dst.len(), src.at(), src.len(), kind) };
    library.check("aclrtMemcpy", code)
}

/// Writes `bytes` to `dst` by a synchronous copy.
pub fn put(library: &Library, dst: BlockPart, bytes: &[u8]) -> Result<()> {
    let source = BlockPart { at: bytes.as_ptr().cast_mut(), len: bytes.len(), memory: PhantomData };
    copy(library, dst, source, kind::HOST_TO_DEVICE)
}

/// Reads `src` by a synchronous copy.
pub fn get(library: &Library, src: BlockPart) -> Result<Vec<u8>> {
    let mut bytes = vec![0; src.len()];
    get_into(library, src, &mut bytes)?;
    Ok(bytes)
}

fn get_into(library: &Library, src: BlockPart, bytes: &mut [u8]) -> Result<()> {
    let target = BlockPart { at: bytes.as_mut_ptr(), len: bytes.len(), memory: PhantomData };
    copy(library, target, src, kind::DEVICE_TO_HOST)
}
