//! The two blocks of memory that a case copies between.

use std::cell::OnceCell;
use std::ffi::c_void;
use std::rc::Rc;

use ferry_abi::memory::{Block, Home};
use ferry_abi::session::Session;
use ferry_abi::{Error, Library, Result};

use crate::route::Route;
use crate::shape::{self, Segment, Shape};

/// The two blocks; the source holds the pattern and the target is blank.
pub struct Sides {
    /// The target.
    pub dst: Block,
    /// The source.
    pub src: Block,
    library: &'static Library,
    /// Memory of `long_copy`, allocated when it is first used.
    spare: OnceCell<Block>,
}

/// Bytes of a copy that keeps a device busy, or fewer where memory is short.
const LONG_COPY: usize = 128 << 20;

impl Sides {
    /// Two blocks of `room` bytes, of the sorts of memory that the route says.
    pub fn new(session: &Session, route: Route, room: usize) -> Result<Rc<Sides>> {
        let dst = session.on(route.device, || Block::new(session.library, route.dst, room))?;
        Sides::filled(session, dst, Block::new(session.library, route.src, room)?)
    }

    /// Two blocks of host memory, for a peer on the processor: pageable if the route's are, else page-locked.
    pub fn of_the_host(session: &Session, route: Route, room: usize) -> Result<Rc<Sides>> {
        let home = if route.is_pageable() { Home::Pageable } else { Home::Locked };
        Sides::filled(
            session,
            Block::new(session.library, home, room)?,
            Block::new(session.library, home, room)?,
        )
    }

    fn filled(session: &Session, dst: Block, src: Block) -> Result<Rc<Sides>> {
        shape::write_source(&src)?;
        shape::spoil(&dst)?;
        Ok(Rc::new(Sides { dst, src, library: session.library, spare: OnceCell::new() }))
    }

    /// The segments of a shape, with addresses in place of offsets.
    pub fn addresses(&self, shape: &Shape) -> Vec<Segment> {
        let address = |block: &Block, offset, len| block.part(offset, len).at() as usize;
        let place = |Segment { dst, src, len }| Segment {
            dst: address(&self.dst, dst, len),
            src: address(&self.src, src, len),
            len,
        };
        shape.segments().map(place).collect()
    }

    /// A long copy within the device that touches neither side: target, source, length.
    pub fn long_copy(&self) -> Result<(*mut c_void, *mut c_void, usize)> {
        let spare = match self.spare.get() {
            Some(spare) => spare,
            None => {
                let made = self.as_long_as_fits(2 * LONG_COPY.min(self.src.len() / 2))?;
                self.spare.get_or_init(|| made)
            }
        };
        let len = spare.len() / 2;
        Ok((spare.part(len, len).at(), spare.part(0, len).at(), len))
    }

    fn as_long_as_fits(&self, len: usize) -> Result<Block> {
        match Block::new(self.library, Home::Device, len) {
            Err(_) if len > 1 << 20 => self.as_long_as_fits(len / 2),
            made => made,
        }
    }
}

/// MemAvailable: the memory that can be allocated without swapping, as the kernel estimates it.
pub fn available_memory() -> Result<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| Error::Setup("/proc/meminfo does not say MemAvailable".to_owned()))
}
