//! Memory that the benchmark can write and read in pieces, wherever it is.

use ferry_abi::Result;
use ferry_abi::memory::Block;

/// Memory that can be written and read from here, one way or another.
pub trait Bytes {
    /// How many bytes there are.
    fn len(&self) -> usize;
    /// Writes from `offset` on.
    fn put(&self, offset: usize, bytes: &[u8]) -> Result<()>;
    /// Reads from `offset` on.
    fn get(&self, offset: usize, bytes: &mut [u8]) -> Result<()>;
}

impl Bytes for Block {
    fn len(&self) -> usize {
        Block::len(self)
    }

    fn put(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes)
    }

    fn get(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.read(offset, bytes)
    }
}

/// The first bytes of other memory.
pub struct FirstBytes<'a> {
    of: &'a dyn Bytes,
    len: usize,
}

impl<'a> FirstBytes<'a> {
    /// The first `len` bytes, or all of them where there are fewer.
    pub fn new(of: &'a dyn Bytes, len: usize) -> FirstBytes<'a> {
        FirstBytes { of, len: len.min(of.len()) }
    }
}

impl Bytes for FirstBytes<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn put(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.of.put(offset, bytes)
    }

    fn get(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.of.get(offset, bytes)
    }
}
