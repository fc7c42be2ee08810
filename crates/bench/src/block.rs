//! Memory that is measured: blocks of the three sorts that copies tell apart, written and read through the
//! library where this process cannot reach them.

use std::cell::OnceCell;
use std::ffi::c_void;
use std::rc::Rc;

use ferry_abi::memory::{self, Home, Memory};
use ferry_abi::session::Session;
use ferry_abi::{Error, Library, Result, call, kind};

use crate::shape;

/// Memory that can be written and read from here, one way or another.
pub trait Bytes {
    fn len(&self) -> usize;
    fn put(&self, offset: usize, bytes: &[u8]) -> Result<()>;
    fn get(&self, offset: usize, bytes: &mut [u8]) -> Result<()>;
}

/// A block of the library's, or of the heap.
pub struct Block {
    library: &'static Library,
    home: Home,
    memory: Memory,
}

impl Block {
    /// A new one; device memory is made on the current device.
    pub fn new(library: &'static Library, home: Home, len: usize) -> Result<Block> {
        Ok(Block { library, home, memory: Memory::new(library, home, len)? })
    }

    /// Where it starts.
    pub fn at(&self) -> *mut c_void {
        self.memory.all().at()
    }

    /// Where the bytes from `offset` on are, which are at least `len`.
    pub fn part(&self, offset: usize, len: usize) -> *mut c_void {
        self.memory.span(offset, len).at()
    }
}

impl Bytes for Block {
    fn len(&self) -> usize {
        self.memory.len()
    }

    fn put(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let part = self.memory.span(offset, bytes.len());
        if self.home == Home::Device {
            return memory::put(self.library, part, bytes);
        }
        // SAFETY: the part is in a live block of host memory that no copy uses at this moment.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.at().cast(), bytes.len()) };
        Ok(())
    }

    fn get(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let part = self.memory.span(offset, bytes.len());
        if self.home == Home::Device {
            let (dst, src, len) = (bytes.as_mut_ptr().cast(), part.at(), bytes.len());
            // SAFETY: both are as long as said, and the call is over before either borrow ends.
            return unsafe { call!(self.library, aclrtMemcpy(dst, len, src, len, kind::DEVICE_TO_HOST)) };
        }
        // SAFETY: as for `put`.
        unsafe { std::ptr::copy_nonoverlapping(part.at().cast(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }
}

/// Both ends of the copies of a case, with the source written.
pub struct Sides {
    pub dst: Block,
    pub src: Block,
    /// See `long_copy`.
    spare: OnceCell<Block>,
}

/// Bytes of a copy that keeps a device busy, where there is memory for it.
const LONG: usize = 128 << 20;

impl Sides {
    /// As the route says, `room` bytes each.
    pub fn new(session: &Session, route: Route, room: usize) -> Result<Rc<Sides>> {
        let dst = session.on(route.device, || Block::new(session.library, route.dst, room))?;
        Sides::filled(dst, Block::new(session.library, route.src, room)?)
    }

    /// What a peer on the processor uses in their place: host memory of the same kind.
    pub fn of_the_host(session: &Session, route: Route, room: usize) -> Result<Rc<Sides>> {
        let home = if route.is_pageable() { Home::Pageable } else { Home::Locked };
        Sides::filled(Block::new(session.library, home, room)?, Block::new(session.library, home, room)?)
    }

    fn filled(dst: Block, src: Block) -> Result<Rc<Sides>> {
        shape::write_source(&src)?;
        shape::spoil(&dst)?;
        Ok(Rc::new(Sides { dst, src, spare: OnceCell::new() }))
    }

    /// A copy within the device that takes a while, and touches neither side: target, source, length.
    pub fn long_copy(&self) -> Result<(*mut c_void, *mut c_void, usize)> {
        let spare = match self.spare.get() {
            Some(spare) => spare,
            None => {
                let made = self.as_long_as_fits(2 * LONG.min(self.src.len() / 2))?;
                self.spare.get_or_init(|| made)
            }
        };
        let len = spare.len() / 2;
        Ok((spare.part(len, len), spare.part(0, len), len))
    }

    fn as_long_as_fits(&self, len: usize) -> Result<Block> {
        match Block::new(self.src.library, Home::Device, len) {
            Err(_) if len > 1 << 20 => self.as_long_as_fits(len / 2),
            made => made,
        }
    }
}

/// From where to where, in the words of the tools people know.
#[derive(Clone, Copy)]
pub struct Route {
    pub name: &'static str,
    pub about: &'static str,
    pub dst: Home,
    pub src: Home,
    /// The device that the target is on; the source is on device 0.
    pub device: usize,
    pub kind: i32,
}

pub const H2D: Route = Route {
    name: "h2d",
    about: "page-locked host memory to a device",
    dst: Home::Device,
    src: Home::Locked,
    device: 0,
    kind: kind::HOST_TO_DEVICE,
};
pub const D2H: Route = Route {
    name: "d2h",
    about: "a device to page-locked host memory",
    dst: Home::Locked,
    src: Home::Device,
    device: 0,
    kind: kind::DEVICE_TO_HOST,
};
pub const D2D: Route = Route {
    name: "d2d",
    about: "within a device",
    dst: Home::Device,
    src: Home::Device,
    device: 0,
    kind: kind::DEVICE_TO_DEVICE,
};
pub const INNER: Route = Route { name: "desc", kind: kind::INNER_DEVICE_TO_DEVICE, ..D2D };
pub const P2P: Route = Route { name: "p2p", about: "device 0 to device 1", device: 1, ..D2D };
pub const H2D_PAGEABLE: Route =
    Route { name: "h2d-pageable", about: "plain host memory to a device", src: Home::Pageable, ..H2D };
pub const D2H_PAGEABLE: Route =
    Route { name: "d2h-pageable", about: "a device to plain host memory", dst: Home::Pageable, ..D2H };

impl Route {
    /// Whether the host's side, if there is one, is plain memory.
    pub fn is_pageable(&self) -> bool {
        [self.dst, self.src].contains(&Home::Pageable)
    }

    /// Whether it leads from host to device or back.
    pub fn crosses(&self) -> bool {
        self.dst != self.src
    }
}

/// Memory that this machine can still give, as the kernel estimates it.
pub fn available_memory() -> Result<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| Error::Setup("/proc/meminfo does not say MemAvailable".to_owned()))
}
