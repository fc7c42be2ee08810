//! Submitting the ops of a recording.

use super::{Pass, memory::ReplayMemory};
use crate::{Error, Kind, Result};
use ferry_core::{
    Access, Fence, Fill, Gate, Indirect, Memory, Op, Plan, Reduction, Rows, Stream, Ticket,
    indirect::{DESCRIPTOR_LEN, Through},
    reduce::{Combine, Element},
};
use ferry_watch::recording::{RecordedWait, RecordedWork, Rect};
use std::sync::{Arc, atomic::Ordering};

impl Pass<'_> {
    /// Submits an op, with what is written before it and checked behind it.
    pub(super) fn submit(&self, number: usize) -> Result<()> {
        let recorded = &self.replay.recording.ops[number];
        let stream = self.streams[recorded.point.stream as usize].get();
        let stream = stream.ok_or_else(|| Kind::BadAddress.because("an op comes before its stream"))?;
        if self.options.is_checked {
            self.write_sources(number)?;
            self.checks.inject(&self.replay.flow.injected[number], stream, &self.memory)?;
        }
        let fences = self.fences(&recorded.awaits);
        let ticket = match self.replay.limits.is_replayed[number] {
            true => self.submit_work(stream, &recorded.work, fences)?,
            false => wait_for_all(stream, fences)?,
        };
        self.own_tickets[number].store(ticket, Ordering::Relaxed);
        let last = match self.options.is_checked {
            true => {
                let expected = self.replay.flow.expected[number].clone();
                self.checks.submit(number, expected, stream, &self.memory)?.unwrap_or(ticket)
            }
            false => ticket,
        };
        self.tickets[number].store(last, Ordering::Release);
        if let Some(gate) = self.gates.get(&number) {
            gate.bind(stream.fence_after(last));
        }
        Ok(())
    }

    /// Writes what the program wrote before it submitted the op.
    pub(super) fn write_sources(&self, number: usize) -> Result<()> {
        for part in &self.replay.flow.host_writes[number] {
            let mut bytes = vec![0; part.len as usize];
            self.replay.flow.contents[part.content as usize].write(part.at, &mut bytes);
            self.memory.write_at_once(part.allocation, part.offset, &bytes)?;
        }
        Ok(())
    }

    /// What an op waits for. A promise that was kept is the point itself.
    fn fences(&self, awaits: &[RecordedWait]) -> Vec<Arc<dyn Fence>> {
        let fence = |awaited: &RecordedWait| -> Option<Arc<dyn Fence>> {
            let (RecordedWait::Point(point) | RecordedWait::Promised(point)) = awaited else { return None };
            let op = self.replay.recording.op_at(*point)?;
            match self.point_of(op) {
                Some((stream, ticket)) => Some(stream.fence_after(ticket)),
                None => self.gates.get(&op).map(|gate| gate.clone() as Arc<dyn Fence>),
            }
        };
        awaits.iter().filter_map(fence).collect()
    }

    pub(super) fn submit_work(
        &self,
        stream: &Arc<Stream>,
        work: &RecordedWork,
        fences: Vec<Arc<dyn Fence>>,
    ) -> Result<Ticket> {
        match work {
            RecordedWork::Nothing => return wait_for_all(stream, fences),
            RecordedWork::Mark => {
                stream.mark()?;
                return Ok(stream.newest());
            }
            RecordedWork::Function => return stream.call(|| ()),
            RecordedWork::Linear { rect, .. } if fences.is_empty() => {
                let ends =
                    (self.memory.address(rect.dst)?, self.memory.address(rect.src)?, rect.width as usize);
                // SAFETY: plain memory of a replay stays until its end.
                if let Some(ticket) = unsafe { stream.submit_linear(ends, 0, |_| true, |_| ()) } {
                    return Ok(ticket);
                }
            }
            _ => {}
        }
        let through = match work {
            RecordedWork::Through { device, is_descriptor, rect: Some(rect) } => {
                Some(self.checks.descriptor(&self.memory, *device, *is_descriptor, rect)?)
            }
            _ => None,
        };
        let make = |memory: &Memory| {
            let op = match through {
                Some(through) => late_bound(stream, through),
                None => planned(memory, &self.memory, work)?,
            };
            Ok::<_, Error>(if fences.is_empty() { op } else { Op::After(Box::new((fences.clone(), op))) })
        };
        // SAFETY: plain memory of a replay stays until its end.
        unsafe { stream.submit(make) }
    }
}

/// An op that does nothing but wait.
fn wait_for_all(stream: &Stream, mut fences: Vec<Arc<dyn Fence>>) -> Result<Ticket> {
    if fences.is_empty() {
        let open = Gate::new();
        open.open();
        fences.push(open);
    }
    let mut ticket = 0;
    for fence in fences {
        ticket = stream.wait_for(fence)?;
    }
    Ok(ticket)
}

/// Work whose addresses are known, as an op.
fn planned(memory: &Memory, replay: &ReplayMemory, work: &RecordedWork) -> Result<Op> {
    match work {
        RecordedWork::Fill { dst, len, pattern, .. } => {
            let (addr, len) = (replay.address(*dst)?, *len as usize);
            let place = memory.place(addr, len, Access::Write)?;
            let dst = place.engine_address(addr);
            Ok(Op::Fill(Fill { dst, len, pattern: *pattern, device: place.device() }))
        }
        RecordedWork::Reduce { rect, combine, element, .. } => {
            let ends = (replay.address(rect.dst)?, replay.address(rect.src)?, rect.width as usize);
            let reduction =
                Reduction::new(combine_of(*combine)?, element_of(*element)?, ends, memory, |_| Ok(()))?;
            Ok(Op::Reduce(Box::new(reduction)))
        }
        _ => {
            let rows: Result<Vec<Rows>> = work.rects().iter().map(|rect| rows_of(replay, rect)).collect();
            let plan = Plan::new(rows?, memory, |_, _| Ok(())).map_err(|misfit| misfit.error)?;
            Ok(Op::Copy(plan))
        }
    }
}

fn late_bound(stream: &Stream, through: Through) -> Op {
    Op::CopyThrough(Indirect { call: "ferry replay", device: stream.device(), through })
}

/// The rows of a rectangle in addresses of the replay.
pub(super) fn rows_of(replay: &ReplayMemory, rect: &Rect) -> Result<Rows> {
    Ok(Rows {
        dst: replay.address(rect.dst)?,
        dst_pitch: rect.dst_pitch as usize,
        src: replay.address(rect.src)?,
        src_pitch: rect.src_pitch as usize,
        width: rect.width as usize,
        height: rect.height as usize,
    })
}

fn combine_of(number: u8) -> Result<Combine> {
    Combine::of_number(number).ok_or_else(|| unknown("reduction", number))
}

fn element_of(number: u8) -> Result<Element> {
    Element::of_number(number).ok_or_else(|| unknown("kind of element", number))
}

#[cold]
fn unknown(what: &str, number: u8) -> Error {
    Kind::Unsupported.because(format!("the recording has {what} {number}, which this version does not know"))
}

const _: () = assert!(DESCRIPTOR_LEN >= 16, "two cells fit where a descriptor does");
