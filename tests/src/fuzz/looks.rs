//! Looks at the bytes: by copies to this thread, by the CPU where it may, and by functions that a stream runs
//! in between.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::mirror::{Origin, Spot};
use super::places::Wanted;
use super::world::{Late, Outcome, World, call};
use crate::code::*;
use crate::kind::{D2H, H2D};
use crate::{aclrtLaunchHostFunc, aclrtMemcpy};

/// What functions in streams found.
#[derive(Default)]
pub(super) struct Tally {
    wrong: AtomicU64,
    /// Work was dropped since: what they find proves nothing until all is waited for.
    doubtful: AtomicBool,
}

impl Tally {
    pub(super) fn doubt(&self) {
        self.doubtful.store(true, Ordering::Release);
    }
}

/// A byte of page-locked memory that a function in a stream looks at.
struct Look {
    tally: Arc<Tally>,
    addr: usize,
    byte: u8,
}

impl World {
    /// Puts bytes somewhere before anything else happens.
    pub(super) fn poke(&mut self, addr: usize, spot: &Spot, bytes: &[u8]) -> Outcome {
        if self.current.is_none() || spot.origin == Origin::Far {
            return Ok(());
        }
        self.arrange(&[(spot, true)], None, false)?;
        if spot.device.is_none() && self.choose.one_in(2) {
            // SAFETY: host memory of this many bytes, and all work that uses it was waited for.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), addr as *mut u8, bytes.len()) };
        } else {
            let (from, len) = (bytes.as_ptr() as usize, bytes.len());
            call!(self, [SUCCESS], aclrtMemcpy(addr, len, from, len, H2D))?;
        }
        self.wrote(spot, Some(&(bytes.to_vec(), vec![true; bytes.len()])), None);
        Ok(())
    }

    /// Takes bytes from somewhere; all work that changes them was waited for.
    pub(super) fn peek(&mut self, addr: usize, spot: &Spot) -> Outcome<Vec<u8>> {
        let len = spot.pieces.iter().map(|piece| piece.len).sum();
        let mut bytes = vec![0; len];
        if spot.device.is_none() && self.choose.one_in(2) {
            // SAFETY: host memory of this many bytes, and all work that changes it was waited for.
            unsafe { std::ptr::copy_nonoverlapping(addr as *const u8, bytes.as_mut_ptr(), len) };
        } else {
            let to = bytes.as_mut_ptr() as usize;
            call!(self, [SUCCESS], aclrtMemcpy(to, len, addr, len, D2H))?;
        }
        Ok(bytes)
    }

    /// Compares all bytes of some memory.
    pub(super) fn look(&mut self) -> Outcome {
        let area = self.some_area(Wanted::Any).filter(|area| area.origin != Origin::Far);
        match (area, self.current) {
            (Some(area), Some(_)) => self.compare(area.base, area.len),
            _ => Ok(()),
        }
    }

    fn compare(&mut self, addr: usize, len: usize) -> Outcome {
        let Some(spot) = self.mirror.resolve(addr, len) else { return Ok(()) };
        self.arrange(&[(&spot, false)], None, false)?;
        let got = self.peek(addr, &spot)?;
        let (bytes, known) = self.mirror.read(&spot);
        let wrong = (0..len).filter(|i| known[*i] && got[*i] != bytes[*i]);
        let wrong: Vec<_> = wrong.collect();
        self.report.bytes += known.iter().filter(|known| **known).count() as u64;
        match wrong.first() {
            None => Ok(()),
            Some(i) => Err(self.difference(format!(
                "byte {i} of {len} at {addr:#x} ({:?}) is {:#04x}, and should be {:#04x}; {} are wrong",
                spot.origin,
                got[*i],
                bytes[*i],
                wrong.len()
            ))),
        }
    }

    /// Compares everything there is.
    pub(super) fn look_at_all(&mut self) -> Outcome {
        let all: Vec<_> =
            self.mirror.views.values().filter(|view| view.origin != Origin::Far).copied().collect();
        for view in all {
            self.compare(view.base, view.len)?;
        }
        for island in self.mirror.islands.clone() {
            self.compare(island.base, island.len)?;
        }
        self.check_functions()
    }

    /// A function in a stream sees what the work before it wrote, and nothing of what comes behind.
    pub(super) fn launch(&mut self) -> Outcome {
        let stream = self.some_stream();
        let slot = self.stream_of(stream);
        let area = self.some_area(Wanted::Host).filter(|area| area.origin == Origin::Allocated);
        let (Ok(slot), Some(area)) = (slot, area) else {
            let want = [slot.err().unwrap_or(SUCCESS)];
            let code = self.launch_on(stream, None, want)?;
            if let (SUCCESS, Ok(slot)) = (code, slot) {
                self.tick(slot);
            }
            return Ok(());
        };
        let addr = area.base + self.choose.below(area.len);
        let spot = self.mirror.resolve(addr, 1).expect("a byte of a block");
        self.arrange(&[(&spot, false)], Some(slot), false)?;
        let (bytes, known) = self.mirror.read(&spot);
        let look = known[0].then(|| Look { tally: self.looks.clone(), addr, byte: bytes[0] });
        let code = self.launch_on(stream, look, [SUCCESS])?;
        if code == SUCCESS {
            let op = self.tick(slot);
            self.reads(&spot, Some(op));
            // The memory that a function looks at must be there when it runs: that is the program's part.
            if known[0] {
                self.late = self.late.max(Late::Look);
            }
        }
        Ok(())
    }

    /// Launches a function that looks, or one that does nothing. One that is dropped leaks its argument.
    fn launch_on(&mut self, stream: usize, look: Option<Look>, want: [i32; 1]) -> Outcome<i32> {
        let code = match look {
            Some(look) => aclrtLaunchHostFunc(stream, Some(look_now), Box::into_raw(Box::new(look)) as usize),
            None => aclrtLaunchHostFunc(stream, Some(nothing), 0),
        };
        self.judge("aclrtLaunchHostFunc", &[stream], &want, code)
    }

    fn check_functions(&mut self) -> Outcome {
        let wrong = self.looks.wrong.load(Ordering::Acquire);
        if wrong > 0 && !self.looks.doubtful.load(Ordering::Acquire) {
            return Err(
                self.difference(format!("{wrong} functions in streams saw other bytes than were due"))
            );
        }
        Ok(())
    }
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

/// # Safety
/// `look` came from `Box::into_raw` and is handed over once.
unsafe extern "C" fn look_now(look: *mut c_void) {
    // SAFETY: a stream runs a function once, with the argument of its launch.
    let look = unsafe { Box::from_raw(look.cast::<Look>()) };
    // SAFETY: page-locked memory that stays until the stream has passed this function, and that no unordered
    // work writes.
    let byte = unsafe { (look.addr as *const u8).read_volatile() };
    if byte != look.byte {
        look.tally.wrong.fetch_add(1, Ordering::AcqRel);
    }
}
