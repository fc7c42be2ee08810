//! Makes legal programs out of random wishes.
//!
//! A [`Wish`] names a slot, a stream, a share of a buffer. Building turns each into a step if it can be a
//! legal one: it allocates what is missing, releases gates before a thread may sleep, puts barriers where two
//! threads would quarrel over a handle, and orders conflicting accesses by an event or by synchronising. Some
//! races are left in if the programs may have them. Removing a wish leaves a legal program: that is what
//! shrinking does.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Api;
use crate::oracle::{Access, Oracle, Place};
use crate::program::*;
use crate::wish::{Repair, Wish};

/// Page-locked memory of programs in Rust without guards.
const UNGUARDED: usize = 9;

/// A program in the making.
pub struct Builder {
    races: bool,
    sizes: Vec<usize>,
    /// Spans in windows are chosen without looking for holes.
    pub careless: bool,
    /// Buffers that can be registered and were, if only once.
    pub known_pages: BTreeSet<usize>,
    pub program: Program,
    pub oracle: Oracle,
    pub slots: [Option<usize>; SLOTS.len()],
    lives: [usize; SLOTS.len()],
    pub descs: [Option<(Span, Span)>; DESCS.len()],
    /// Gates not released yet, and who will.
    closed: Vec<(usize, usize)>,
    /// Since the last barrier: where it is, who named each buffer, who made it, who used each event.
    epoch: usize,
    users: Vec<[bool; THREADS]>,
    makers: Vec<Option<usize>>,
    event_users: [Option<usize>; EVENTS.len()],
    /// Who used each stream, and who dropped its tasks.
    stream_users: [[bool; THREADS]; STREAMS.len()],
    stream_breakers: [Option<usize>; STREAMS.len()],
    /// The tasks of each model that was captured, and its number.
    pub models: BTreeMap<usize, Vec<Act>>,
    /// Devices whose streams have stopped for good.
    pub stopped: [bool; 2],
}

impl Builder {
    fn new(api: Api, sizes: &[usize], races: bool) -> Builder {
        Builder {
            races,
            sizes: sizes.to_vec(),
            careless: false,
            known_pages: BTreeSet::new(),
            program: Program { api, ..Program::default() },
            oracle: Oracle::default(),
            slots: [None; SLOTS.len()],
            lives: [0; SLOTS.len()],
            descs: [None; DESCS.len()],
            closed: vec![],
            epoch: 0,
            users: vec![],
            makers: vec![],
            event_users: [None; EVENTS.len()],
            stream_users: [[false; THREADS]; STREAMS.len()],
            stream_breakers: [None; STREAMS.len()],
            models: BTreeMap::new(),
            stopped: [false; 2],
        }
    }

    /// The legal program that grants as many of the wishes as it can, with allocations of these sizes.
    pub fn program(api: Api, sizes: &[usize], wishes: &[Wish], races: bool) -> Program {
        let first = Builder::new(api, sizes, races).build(wishes);
        let needed = first.buffers.into_iter().map(|b| b.slot).collect();
        let mut builder = Builder::new(api, sizes, races);
        builder.furnish(needed);
        builder.build(wishes)
    }

    /// Allocates slots that are going to be needed, so that both threads can use them from the start.
    fn furnish(&mut self, slots: BTreeSet<usize>) {
        for slot in slots {
            self.buffer(0, slot);
        }
        self.barrier();
    }

    /// Grants what can be granted, and ends with everything done and everything looked at.
    fn build(mut self, wishes: &[Wish]) -> Program {
        wishes.iter().for_each(|wish| self.grant(wish));
        self.barrier();
        let ends: Vec<_> = match self.program.api {
            Api::C => (0..2).map(|device| Act::SyncDevice { device }).collect(),
            Api::Rust => (0..USER_STREAMS).map(|stream| Act::SyncStream { stream }).collect(),
        };
        for sync in ends {
            let sync = self.or_refused(sync);
            self.place(0, sync.expect("refused or not"), Repair::SyncStream);
        }
        let buffers = self.memories();
        self.place(0, Act::Check { buffers }, Repair::SyncStream);
        self.program
    }

    /// All that has bytes: what is allocated, and physical memory that was freed but is still mapped.
    fn memories(&self) -> Vec<usize> {
        let allocated = self.slots.iter().flatten().copied();
        let all: BTreeSet<_> = allocated.chain(self.oracle.layout.mapped()).collect();
        all.into_iter().filter(|b| self.program.form(*b) != Form::Window).collect()
    }

    pub fn grant(&mut self, wish: &Wish) {
        let Some(act) = self.choose(wish).and_then(|act| self.or_refused(act)) else { return };
        // What an abort leaves of a model is not known stream by stream.
        if act.drops() && !self.models.is_empty() {
            return;
        }
        if !self.place(wish.thread, act.clone(), wish.repair) {
            return;
        }
        if matches!(act, Act::Halt { .. }) {
            // So that both threads know what is over.
            self.barrier();
        }
        if self.program.waits(&act) && !matches!(act, Act::Barrier) {
            self.look(wish.thread);
        }
    }

    /// On a device whose streams have stopped, copies and waits are refused.
    fn or_refused(&self, act: Act) -> Option<Act> {
        if !self.is_stopped(&act) {
            return Some(act);
        }
        let bytes = |act: &Act| act.moves().iter().map(|(d, _)| d.len).sum::<usize>();
        let refused = match &act {
            Act::Fill { dst, .. } => dst.len > 0,
            Act::SyncStream { .. } | Act::SyncDevice { .. } | Act::CopyDesc { .. } => true,
            other => bytes(other) > 0,
        };
        refused.then(|| Act::Refused(Box::new(act)))
    }

    /// Whether a call names a stream that takes no more work.
    fn is_stopped(&self, act: &Act) -> bool {
        self.program.streams(act).iter().any(|s| self.stopped[STREAMS[*s]])
    }

    /// Checks what this thread has used lately, but not all that would have to be taken back first.
    fn look(&mut self, thread: usize) {
        let turn = self.program.steps.len();
        let near = |b: usize| !self.oracle.order.lent.is_in_flight(b) || (b + turn).is_multiple_of(4);
        let used = |b: &usize| self.users[*b][thread] && near(*b);
        let buffers: Vec<_> = self.memories().into_iter().filter(used).collect();
        if !buffers.is_empty() {
            self.place(thread, Act::Check { buffers }, Repair::SyncStream);
        }
    }

    /// Adds a step, after what it takes to make it legal. Returns false if that cannot be done.
    pub fn place(&mut self, thread: usize, act: Act, repair: Repair) -> bool {
        for _ in 0..12 {
            if self.is_stopped(&act) {
                return false;
            }
            while let Some(buffers) = self.oracle.order.lent.in_the_way(&self.program, &act) {
                if !self.place(thread, Act::Land { buffers }, repair) {
                    return false;
                }
            }
            if self.program.waits(&act) {
                self.release(thread);
            }
            if self.quarrels(thread, &act) {
                self.barrier();
            }
            let step = Step { thread, act: act.clone() };
            let trial = self.oracle.consider(&self.program, &step);
            let hard = |(old, new): &(&Access, &Access)| {
                !(self.races && repair == Repair::Leave && self.may_race(old, &act, new.place))
            };
            let old = trial.races(&self.oracle).find(hard).map(|(old, _)| old.step);
            let Some(old) = old else {
                for b in self.oracle.layout.names(&self.program, &act) {
                    self.users[b][thread] = true;
                }
                self.oracle.accept(trial);
                self.push(step);
                return true;
            };
            self.repair(thread, &act, old, repair);
        }
        false
    }

    /// Adds a step if it races with nothing.
    pub fn place_alone(&mut self, thread: usize, act: Act) -> bool {
        let step = Step { thread, act };
        let trial = self.oracle.consider(&self.program, &step);
        if trial.races(&self.oracle).next().is_some() {
            return false;
        }
        for b in self.oracle.layout.names(&self.program, &step.act) {
            self.users[b][thread] = true;
        }
        self.oracle.accept(trial);
        self.push(step);
        true
    }

    /// Only two copies or fills by the engine may race, and not over a descriptor.
    fn may_race(&self, old: &Access, act: &Act, place: Place) -> bool {
        let by_engine = |act: &Act| !act.moves().is_empty() || matches!(act, Act::Fill { .. });
        matches!(place, Place::Buffer(_)) && by_engine(&self.program.steps[old.step].act) && by_engine(act)
    }

    /// Puts a step that is to come after the step `old`.
    fn repair(&mut self, thread: usize, act: &Act, old: usize, repair: Repair) {
        let Step { thread: other, act: old_act } = self.program.steps[old].clone();
        if other != thread && old >= self.epoch {
            return self.barrier();
        }
        let Some(Timing::Task { stream: from, .. } | Timing::Staged { stream: from }) =
            self.program.timing(&old_act)
        else {
            return;
        };
        if from >= USER_STREAMS {
            self.place(thread, Act::SyncDevice { device: STREAMS[from] }, repair);
            return self.look(thread);
        }
        let event = 2 * STREAMS[from] + old % 2;
        match (repair, self.program.timing(act)) {
            (
                Repair::Event | Repair::Leave,
                Some(Timing::Task { stream, .. } | Timing::Staged { stream }),
            ) if stream != from && self.may_wait(stream, from) && !self.stage_races(act, old) => {
                self.place(thread, Act::Record { event, stream: from }, repair);
                self.place(thread, Act::Wait { stream, event }, repair);
            }
            (Repair::SyncEvent, _) => {
                self.place(thread, Act::Record { event, stream: from }, repair);
                self.place(thread, Act::SyncEvent { event }, repair);
                self.look(thread);
            }
            _ => {
                self.place(thread, Act::SyncStream { stream: from }, repair);
                self.look(thread);
            }
        }
    }

    /// Whether a stream may wait for an event of another: in Rust events belong to no device.
    fn may_wait(&self, stream: usize, from: usize) -> bool {
        self.program.api == Api::Rust || STREAMS[stream] == STREAMS[from]
    }

    /// A staged copy reads its source in the call, which no event can hold back.
    fn stage_races(&self, act: &Act, old: usize) -> bool {
        let staged = matches!(self.program.timing(act), Some(Timing::Staged { .. }));
        staged
            && act.moves().iter().any(|(_, src)| self.program.steps[old].act.buffers().contains(&src.buffer))
    }

    /// Whether the other thread's use of a handle is in no order with this one.
    fn quarrels(&self, thread: usize, act: &Act) -> bool {
        let other = 1 - thread;
        let remakes = !act.remakes().is_empty();
        let alone = |b: usize| {
            let owned = !self.program.home(b).is_device() && !self.oracle.order.lent.is_shared(b);
            remakes || self.program.api == Api::Rust && owned
        };
        let over = |b: &usize| self.makers[*b] == Some(other) || alone(*b) && self.users[*b][other];
        let apart = |s: &usize| {
            self.stream_breakers[*s] == Some(other) || act.drops() && self.stream_users[*s][other]
        };
        self.oracle.layout.names(&self.program, act).iter().any(over)
            || self.program.needs(act).iter().any(apart)
            || act.event().is_some_and(|e| self.event_users[e] == Some(other))
    }

    pub fn release(&mut self, thread: usize) {
        let gates: Vec<_> =
            self.closed.iter().filter(|(_, owner)| *owner == thread).map(|(gate, _)| *gate).collect();
        for gate in gates {
            self.place(thread, Act::Release { gate }, Repair::SyncStream);
        }
    }

    pub fn barrier(&mut self) {
        (0..THREADS).for_each(|t| self.release(t));
        let step = Step { thread: 0, act: Act::Barrier };
        let trial = self.oracle.consider(&self.program, &step);
        self.oracle.accept(trial);
        self.push(step);
    }

    /// Keeps the books on a step that has become part of the program.
    fn push(&mut self, step: Step) {
        let thread = step.thread;
        step.act.remakes().into_iter().for_each(|b| self.makers[b] = Some(thread));
        if let Some(event) = step.act.event() {
            self.event_users[event] = Some(thread);
        }
        for stream in self.program.needs(&step.act) {
            self.stream_users[stream][thread] = true;
            if step.act.drops() {
                self.stream_breakers[stream] = Some(thread);
            }
        }
        match step.act {
            Act::Free { buffer } => self.slots[self.program.buffers[buffer].slot] = None,
            Act::SetDesc { desc, dst, src } | Act::PutDesc { desc, dst, src, .. } => {
                self.descs[desc] = Some((dst, src));
            }
            Act::CopyDesc { dst, src, .. } => self.descs[dst] = self.descs[src],
            Act::Hold { gate, .. } => {
                self.program.gates += 1;
                self.closed.push((gate, thread));
            }
            Act::Release { gate } => self.closed.retain(|(g, _)| *g != gate),
            Act::Barrier => {
                self.epoch = self.program.steps.len();
                self.users.fill([false; THREADS]);
                self.makers.fill(None);
                self.event_users = [None; EVENTS.len()];
                self.stream_users = [[false; THREADS]; STREAMS.len()];
                self.stream_breakers = [None; STREAMS.len()];
            }
            Act::Abort { .. } | Act::Renew { .. } => self.forget_dropped_descs(),
            Act::Halt { stream } => {
                self.forget_dropped_descs();
                self.stopped[STREAMS[stream]] = true;
            }
            _ => {}
        }
        self.program.steps.push(step);
    }

    /// Resets an event as documented, on a stream that waits for it, and has the stream wait for the next
    /// record, which another stream of the device makes. Until the next barrier both streams are this
    /// thread's: a record that waited for the wait would never come.
    pub fn reset(&mut self, thread: usize, event: usize, stream: usize) {
        let mut others = streams_of(EVENTS[event]).into_iter().filter(|s| *s != stream);
        let other = others.next_back().expect("two streams on each device");
        // Two fills of one place show whether the wait was for that record.
        let buffer = self.buffer(thread, if EVENTS[event] == 0 { 0 } else { 4 });
        let usable = self.program.buffers[buffer].usable();
        let dst = Span { buffer, at: usable.start, len: usable.len().min(8) };
        let fill = |byte, stream| Act::Fill { dst, with: Pattern::Byte(byte), way: Way::On(stream) };
        self.barrier();
        for act in [
            Act::Wait { stream, event },
            Act::Reset { event, stream },
            fill(0x0f, other),
            Act::Wait { stream, event },
            Act::Record { event, stream: other },
            fill(0xf0, stream),
        ] {
            if !self.place(thread, act, Repair::SyncStream) {
                return;
            }
        }
        (self.stream_breakers[stream], self.stream_breakers[other]) = (Some(thread), Some(thread));
    }

    /// A descriptor that was to be written may be the old one or the new one.
    fn forget_dropped_descs(&mut self) {
        for (i, step) in self.program.steps.iter().enumerate() {
            if let Act::CopyDesc { dst, .. } | Act::PutDesc { desc: dst, .. } = step.act
                && self.oracle.is_dropped(i)
            {
                self.descs[dst] = None;
            }
        }
    }

    /// The buffer in a slot; allocates it if there is none.
    pub fn buffer(&mut self, thread: usize, slot: usize) -> usize {
        if let Some(buffer) = self.slots[slot] {
            return buffer;
        }
        let buffer = self.program.buffers.len();
        let (len, guard) = self.extent_of(slot);
        self.program.buffers.push(Buffer { slot, life: self.lives[slot], len, guard });
        self.lives[slot] += 1;
        self.users.push([false; THREADS]);
        self.makers.push(None);
        self.slots[slot] = Some(buffer);
        self.place(thread, Act::Alloc { buffer }, Repair::SyncStream);
        buffer
    }

    /// The length of what is allocated in a slot, and how much of it at either end is left alone.
    fn extent_of(&self, slot: usize) -> (usize, usize) {
        let size = self.sizes[slot];
        // All of one size, so that any physical memory fits any cell.
        let unit = match self.sizes[0] {
            few @ ..0x1_0000 => (1 + few % 3) * PAGE,
            many => many / CELLS / PAGE * PAGE,
        };
        match SLOTS[slot].2 {
            // So that some copies take all of a buffer.
            Form::Plain if self.program.api == Api::Rust && slot == UNGUARDED => (1 + size / 4, 0),
            Form::Plain => (size + 2 * GUARD, GUARD),
            Form::Pages => ((size + 2 * GUARD).next_multiple_of(PAGE) + PAGE, GUARD),
            Form::Window => (CELLS * unit, 0),
            Form::Physical => (unit, 0),
        }
    }
}
