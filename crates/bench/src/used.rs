//! What programs do besides copying: they use their buffers between copies, or they compute. What
//! `ferry check` costs depends on it. There is no peer.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ferry_abi::memory::{Block, Home};
use ferry_abi::session::Session;
use ferry_abi::stream::Stream;
use ferry_abi::{Library, Result, call};

use crate::route::{D2H, H2D};
use crate::sampling::Contender;
use crate::shape::{self, Shape};
use crate::work::BufferUse;

/// Copies in a sample.
const COPIES: usize = 64;
/// Additions in a sample of computing.
const ADDITIONS: u64 = 20_000_000;

/// Ferry alone.
pub fn contenders(session: &Session, using: BufferUse, len: usize) -> Result<Vec<Box<dyn Contender>>> {
    let (library, stream) = (session.library, session.stream()?);
    let blocks = [Home::Locked, Home::Device].map(|home| Block::new(library, home, len));
    let [host, device] = blocks;
    let user = BufferUser { library, stream, host: host?, device: device?, using, value: 1 };
    shape::write_source(if using == BufferUse::Read { &user.device } else { &user.host })?;
    Ok(vec![Box::new(user)])
}

/// A program that copies `len` bytes again and again, and uses them after each synchronise.
struct BufferUser {
    library: &'static Library,
    stream: Stream,
    host: Block,
    device: Block,
    using: BufferUse,
    /// What is written next.
    value: u64,
}

impl BufferUser {
    fn copy(&self) -> Result<()> {
        let (host, device, len) = (self.host.all().at(), self.device.all().at(), self.host.len());
        let (dst, src, kind) = match self.using {
            BufferUse::Read => (host, device, D2H.kind),
            BufferUse::Write | BufferUse::Compute => (device, host, H2D.kind),
        };
        // SAFETY: both blocks live as long as this, and the wait follows at once.
        unsafe { call!(self.library, aclrtMemcpyAsync(dst, len, src, len, kind, self.stream.handle())) }?;
        self.stream.synchronise()
    }

    fn use_buffer(&mut self) {
        let (at, len) = (self.host.all().at().cast::<u8>(), self.host.len());
        // SAFETY: the block is page-locked memory of this length, and nothing is in flight.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at, len) };
        match self.using {
            BufferUse::Write => bytes.fill(self.value as u8),
            BufferUse::Read => drop(black_box(bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>())),
            BufferUse::Compute => {}
        }
        self.value += 1;
    }
}

impl Contender for BufferUser {
    fn name(&self) -> &'static str {
        "ferry"
    }

    fn sample(&mut self) -> Result<Duration> {
        let begin = Instant::now();
        if self.using == BufferUse::Compute {
            black_box((0..ADDITIONS).fold(self.value, |sum, next| black_box(sum.wrapping_add(next))));
            return Ok(begin.elapsed());
        }
        for _ in 0..COPIES {
            self.copy()?;
            self.use_buffer();
        }
        Ok(begin.elapsed() / COPIES as u32)
    }

    fn spoil(&mut self) -> Result<()> {
        Ok(())
    }

    fn check(&mut self) -> Result<usize> {
        if self.using != BufferUse::Read {
            return Ok(0);
        }
        Shape::line(self.host.len()).check(self.name(), &self.host)
    }
}
