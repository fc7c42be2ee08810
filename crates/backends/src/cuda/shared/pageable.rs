//! Copies of pageable memory in a shared stream.
//!
//! The stream is held while the host does its part, and what ends a hold must not come by another stream,
//! which may stand behind this one on its way into the GPU. So the stream itself moves the bytes, between the
//! device and its bounce buffer, and waits for the host from portion to portion. All of it is in the stream
//! when the copy was submitted, so it runs to its end, abort or not.

use crate::cuda::{
    driver::Current,
    order::lane::Lane,
    shared::arrival::StreamArrival,
    shared::latch::{HoldPlace, Latch, StreamHold},
    shared::unheld::Unheld,
    staging::{self, Portions},
    stream::bounce::{CHUNK, CHUNKS},
    stream::copies::StreamCopier,
    stream::events::Event,
    stream::planner::Direction,
};
use ferry_core::{Gate, Plan, Result, Route, Rows, Segment, Ticket, sync::Arc};
use std::sync::mpsc::{self, Receiver, Sender};

/// A copy on its way.
struct Relay {
    front: Arc<Lane>,
    ticket: Ticket,
    /// Into the device, not out of it.
    is_into: bool,
    /// For kernels, if they reach all of it.
    direction: Option<Direction>,
    portions: Portions,
    /// Where the chunks are.
    chunks: [usize; CHUNKS],
    /// Open when the host is through.
    through: Arc<Gate>,
}

/// A portion that is in the stream.
struct PortionInStream {
    /// Over when the host has done its part.
    hold: StreamHold,
    /// Behind the device's part.
    event: Arc<Event>,
}

/// Copies between pageable memory and a device, as the op `ticket`.
pub fn copy(
    lane: &Arc<Lane>,
    latch: &Arc<Latch>,
    unheld: &Unheld,
    ticket: Ticket,
    plan: &Plan,
) -> Result<()> {
    if lane.progress.status.is_halted() {
        return Ok(());
    }
    let before = StreamArrival::announce(lane, ticket - 1)?;
    let device = lane.stream().device();
    let current = device.enter()?;
    let relay = Arc::new(Relay::new(lane, &current, ticket, plan)?);
    let (give, take) = mpsc::channel();
    let (also, thread) = (relay.clone(), device.pool.reserve()?);
    before.when_done(Box::new(move || thread.run(Box::new(move || also.serve(&take)))));
    let put = relay.put_all(&current, latch, &HoldPlace { behind: ticket - 1, before }, &give);
    drop(give);
    put.inspect_err(|_| unheld.set(ticket, relay.through.clone()))
}

impl Relay {
    fn new(front: &Arc<Lane>, current: &Current<'_>, ticket: Ticket, plan: &Plan) -> Result<Relay> {
        let is_into = matches!(plan.route(), Route::HostToDevice { .. });
        let host = |rows: &Rows| if is_into { rows.src } else { rows.dst };
        let chunks = front.stream().bounce(current)?.chunks();
        let portions = Portions::new(plan.pieces().iter(), CHUNK, host);
        let (front, direction, through) = (front.clone(), front.stream().direction_of_all(plan), Gate::new());
        Ok(Relay { front, ticket, is_into, direction, portions, chunks, through })
    }

    /// Puts everything into the stream, and says of each portion that it is there.
    fn put_all(
        &self,
        current: &Current<'_>,
        latch: &Arc<Latch>,
        place: &HoldPlace,
        there: &Sender<PortionInStream>,
    ) -> Result<()> {
        let (stream, mut numbers) = (self.front.stream(), [0; CHUNKS]);
        for index in 0..self.portions.count() {
            let hold = latch.hold(place.clone());
            let last = std::mem::replace(&mut numbers[index % CHUNKS], hold.number());
            // Into the device: when the chunk is full. Out of it: when what was there before is taken out.
            let until = if self.is_into { hold.number() } else { last };
            if until > 0 {
                latch.put(stream, current, until)?;
            }
            self.move_by_device(current, index)?;
            let event = stream.record(current, false)?;
            let _ = there.send(PortionInStream { hold, event });
        }
        match self.is_into {
            true => Ok(()),
            false => latch.put(stream, current, numbers.into_iter().max().unwrap_or(0)),
        }
    }

    fn move_by_device(&self, current: &Current<'_>, index: usize) -> Result<()> {
        let pieces = self.portions.get(index).expect("one of them");
        let mut rows = staging::in_buffer(self.chunks[index % CHUNKS], pieces, self.is_into);
        let is_list = pieces.len() > 1 && pieces.iter().all(|rows| rows.height == 1);
        if let Some(direction) = self.direction.filter(|_| is_list) {
            let segments: Vec<_> = rows.map(|rows| Segment::of(&rows)).collect();
            return StreamCopier::new(self.front.stream(), current, direction).send(&segments);
        }
        rows.try_for_each(|rows| self.front.stream().copy_rows(current, &rows))
    }

    /// The host's part, on a thread of its own, when the stream has come to the copy.
    fn serve(&self, there: &Receiver<PortionInStream>) {
        let mut events: [Option<Arc<Event>>; CHUNKS] = Default::default();
        for (index, PortionInStream { hold, event }) in there.iter().enumerate() {
            let last = events[index % CHUNKS].replace(event.clone());
            let until = if self.is_into { last } else { Some(event) };
            let moved = until.map_or(Ok(()), |event| event.wait()).and_then(|()| self.move_by_cpu(index));
            self.front.progress.note(self.ticket, moved);
            drop(hold);
        }
        self.through.open();
    }

    fn move_by_cpu(&self, index: usize) -> Result<()> {
        let pieces = self.portions.get(index).expect("one of them");
        // SAFETY: the memory of the plan is valid until the stream has passed the copy, which waits for us;
        // the device does not use the chunk now.
        unsafe {
            staging::move_by_cpu(staging::in_buffer(self.chunks[index % CHUNKS], pieces, !self.is_into))
        }
    }
}
