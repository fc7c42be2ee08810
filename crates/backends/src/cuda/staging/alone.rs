//! A copy of pageable memory that the calling thread stages alone: to wake another one would take longer.
//!
//! It has a bounce buffer for the time of the copy. What fits a portion goes through one chunk of it; more is
//! cut, and the CPU has one chunk while the device has the other.

use crate::cuda::{
    driver::Current,
    staging::buffers::STAGED,
    staging::portions::{Portions, size_of},
    staging::staged_copy::{DevicePart, host_end, in_buffer, is_into, move_by_cpu},
    stream::Stream,
    stream::bounce::{Bounce, CHUNK, CHUNKS},
    stream::waypoint::Waypoint,
};
use ferry_core::{Plan, Result, Rows, sync::Arc};
use std::{mem, slice};

/// Bytes of a portion. With less the driver's calls, some 2 us for each, take longer than what they hide.
const PORTION: usize = 128 << 10;

/// A copy on its way.
struct LoneCopy<'a> {
    stream: &'a Arc<Stream>,
    current: &'a Current<'a>,
    device_part: DevicePart,
    chunks: [usize; CHUNKS],
}

/// Copies a plan. The stream has done all that came before, and when this returns all of the copy.
pub fn copy(stream: &Arc<Stream>, current: &Current<'_>, plan: &Plan) -> Result<()> {
    let bounce = Bounce::new(&stream.device().bounces, current)?;
    let (chunks, device_part) = (bounce.chunks(), DevicePart::of(stream, current, plan));
    let copy = LoneCopy { stream, current, device_part, chunks };
    let done = copy.run(plan);
    // Something may be on its way through the buffer, which somebody else has next.
    if done.is_err() && stream.synchronize_in(current, STAGED).is_err() {
        mem::forget(bounce);
    }
    done
}

impl LoneCopy<'_> {
    fn run(&self, plan: &Plan) -> Result<()> {
        if let Some(segment) = plan.pieces().one_row().filter(|segment| segment.len <= PORTION) {
            let rows = Rows::from(segment);
            return self.move_all(1, |_| slice::from_ref(&rows));
        }
        let (bytes, is_into) = (plan.bytes(), is_into(plan));
        let size = size_of(bytes, bytes.div_ceil(PORTION)).min(CHUNK);
        let portions = Portions::new(plan.pieces().iter(), size, |rows| host_end(rows, is_into).0);
        self.move_all(portions.count(), |index| portions.get(index).unwrap_or_default())
    }

    fn move_all<'b>(&self, count: usize, portion: impl Fn(usize) -> &'b [Rows]) -> Result<()> {
        match self.device_part.is_into {
            true => self.send(count, portion),
            false => self.fetch(count, portion),
        }
    }

    fn send<'b>(&self, count: usize, portion: impl Fn(usize) -> &'b [Rows]) -> Result<()> {
        let mut sent: [Option<Waypoint>; CHUNKS] = Default::default();
        for index in 0..count {
            let place = index % CHUNKS;
            sent[place].take().map_or(Ok(()), |waypoint| waypoint.wait(self.current, STAGED))?;
            self.move_by_cpu(place, portion(index))?;
            sent[place] = Some(self.move_by_device(place, portion(index))?);
        }
        // The last comes behind all others.
        let last = count.checked_sub(1).and_then(|index| sent[index % CHUNKS].take());
        last.map_or(Ok(()), |waypoint| waypoint.wait(self.current, STAGED))
    }

    fn fetch<'b>(&self, count: usize, portion: impl Fn(usize) -> &'b [Rows]) -> Result<()> {
        let mut begun: Option<Waypoint> = None;
        for index in 0..=count {
            let next = match index < count {
                true => Some(self.move_by_device(index % CHUNKS, portion(index))?),
                false => None,
            };
            if let Some(waypoint) = std::mem::replace(&mut begun, next) {
                waypoint.wait(self.current, STAGED)?;
                self.move_by_cpu((index - 1) % CHUNKS, portion(index - 1))?;
            }
        }
        Ok(())
    }

    fn move_by_cpu(&self, chunk: usize, pieces: &[Rows]) -> Result<()> {
        // SAFETY: one end is in the chunk, which the device does not use now, the other in the plan, whose
        // memory is valid until `copy` has returned.
        unsafe { move_by_cpu(in_buffer(self.chunks[chunk], pieces, !self.device_part.is_into)) }
    }

    fn move_by_device(&self, chunk: usize, pieces: &[Rows]) -> Result<Waypoint> {
        self.device_part.put(self.stream, self.current, self.chunks[chunk], pieces)?;
        Waypoint::put(self.stream, self.current)
    }
}
