//! Memory as data: where it is, how it came to be known, what an address belongs to. Nothing here makes or
//! finds any.

use crate::{Error, Kind};
use std::fmt;

/// The number of a device, from 0.
pub type DeviceId = u32;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// Page-locked memory of the host.
    Host,
    /// Memory of a device.
    Device(DeviceId),
}

/// An allocation: `base` is what the user holds, `at` is where the engine finds the bytes.
///
/// ```
/// use ferry_core::{Block, Home, Origin};
///
/// let (home, origin) = (Home::Device(0), Origin::Allocated);
/// let block = Block { base: 0x1000, len: 64, home, at: 0x9000, page: 4096, origin };
/// assert_eq!(block.translate(0x1010, 48), Some(0x9010));
/// assert_eq!(block.translate(0x1010, 49), None, "leaves the block");
/// assert_eq!(block.to_string(), "device 0 allocation 0x1000 of 64 bytes");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The user's address of the first byte.
    pub base: usize,
    /// Bytes that may be used.
    pub len: usize,
    /// Where the bytes live.
    pub home: Home,
    /// The engine's address of the first byte.
    pub at: usize,
    /// The size of the pages it was asked to be made of.
    pub page: usize,
    /// How it came to be known.
    pub origin: Origin,
}

/// How a block came to be known, which decides who may free it and which copies it takes part in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Origin {
    /// The backend allocated it.
    #[default]
    Allocated,
    /// Memory of the user's that was page-locked. A range that leaves it is pageable, and no mistake.
    Registered,
    /// Physical memory mapped at reserved addresses. A range may go on into the block mapped next to it.
    Mapped,
    /// Memory of another process, on the same device.
    Imported,
    /// Memory of another process, on a device that this process reaches from afar.
    ImportedFar,
}

/// What is asked of a backend's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where.
    pub home: Home,
    /// Bytes that must be usable.
    pub len: usize,
    /// Pages to make it of; `base` is aligned to it and whole pages are taken.
    pub page: usize,
}

/// What will be done with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is a source.
    Read,
    /// It is a destination.
    Write,
}

/// What an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An allocation that the engine knows, or that another library made on a device.
    Known(Block),
    /// Pageable host memory.
    Plain,
}

impl Block {
    /// The engine's address of the user's `addr`, if `len` bytes from there lie inside the block.
    pub fn translate(&self, addr: usize, len: usize) -> Option<usize> {
        let offset = addr.checked_sub(self.base)?;
        (offset <= self.len && len <= self.len - offset).then(|| self.at + offset)
    }

    /// The error of a range that starts in the block and leaves it.
    #[cold]
    pub(crate) fn left_by(&self, addr: usize, len: usize) -> Error {
        let room = self.len.saturating_sub(addr - self.base);
        Kind::OutOfBounds
            .because(format!("{len} bytes at {addr:#x} leave their block, {self}: {room} bytes fit there"))
    }
}

impl Place {
    /// The device, for device memory.
    pub fn device(&self) -> Option<DeviceId> {
        match self {
            Place::Known(Block { home: Home::Device(device), .. }) => Some(*device),
            _ => None,
        }
    }

    /// The engine's address of the user's `addr`, which lies in this place.
    pub fn engine_address(&self, addr: usize) -> usize {
        match self {
            Place::Known(block) => block.at + (addr - block.base),
            Place::Plain => addr,
        }
    }

    /// How many bytes from the user's `addr` on lie in this place.
    pub fn room_from(&self, addr: usize) -> usize {
        match self {
            Place::Known(block) => block.len - (addr - block.base).min(block.len),
            Place::Plain => usize::MAX,
        }
    }

    /// Whether this is pageable host memory: copies of it finish before the call returns.
    pub fn is_plain(&self) -> bool {
        matches!(self, Place::Plain)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.home {
            Home::Host => f.write_str("page-locked host ")?,
            Home::Device(device) => write!(f, "device {device} ")?,
        }
        f.write_str(match self.origin {
            Origin::Allocated => "allocation",
            Origin::Registered => "memory, registered,",
            Origin::Mapped => "memory, mapped",
            Origin::Imported | Origin::ImportedFar => "memory of another process, imported",
        })?;
        let at = if self.origin == Origin::Allocated { "" } else { "at " };
        write!(f, " {at}{:#x} of {} bytes", self.base, self.len)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Known(block) => block.fmt(f),
            Place::Plain => f.write_str("plain host memory"),
        }
    }
}
