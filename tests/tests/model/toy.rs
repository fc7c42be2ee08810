//! A stand-in for the engine: plain vectors, streams as lists of tasks, and a say in when tasks run.
//!
//! It shows that the oracle asks for nothing an engine need not do (any legal schedule passes), and, made
//! faulty on purpose, that the model test sees each fault.

mod drops;
mod owned;

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::api::Lent;
use crate::fault::Fault;
use crate::layout::{Layout, Real};
use crate::oracle::first_bytes;
use crate::program::{
    Act, DESCS, EVENTS, Form, Program, STREAMS, Span, Timing, streams_of, streams_of_model,
};
use crate::run::Executor;

/// When tasks run.
#[derive(Clone, Copy, Debug)]
pub enum Schedule {
    /// As soon as they may.
    Eager,
    /// Only when somebody waits for them.
    Lazy,
    /// A few at a time, from any stream.
    Random(u64),
}

#[derive(Clone)]
enum Task {
    Move(Vec<(Span, Span)>),
    /// Finds out what it moves when it runs.
    Late(Act),
    Put(Vec<(Span, Vec<u8>)>),
    CopyDesc(usize, usize),
    PutDesc(usize, Span, Span),
    RunDesc(usize),
    Record,
    /// Until this many tasks of a stream are done.
    Wait(usize, usize),
    WaitNewest(usize),
    /// Until an event was recorded so often, and that record is done.
    WaitNext(usize, usize),
    Blocker(usize),
}

#[derive(Default)]
struct Stream {
    tasks: VecDeque<Task>,
    submitted: usize,
    done: usize,
    /// Only a faulty engine does.
    drops_next: bool,
}

struct State {
    /// Which vector a buffer uses; only a fault makes two buffers share one.
    at: Vec<usize>,
    memory: Vec<Vec<u8>>,
    layout: Layout,
    /// Buffers that were freed and may not be again.
    free: Vec<usize>,
    streams: [Stream; STREAMS.len()],
    /// The stream of the latest record, and how many of its tasks must be done.
    records: [Option<(usize, usize)>; EVENTS.len()],
    /// All records of each event, and how many there were at its reset if it has not been recorded since.
    history: [Vec<(usize, usize)>; EVENTS.len()],
    resets: [Option<usize>; EVENTS.len()],
    descs: [Option<(Span, Span)>; DESCS.len()],
    open: Vec<bool>,
    stopped: [bool; 2],
    /// The execution of a model that goes on is left out, which only a faulty engine does.
    skips: bool,
    /// The buffers that copies own, and where in its stream each copy is.
    lent: Lent,
    marks: Vec<(usize, usize)>,
    random: u64,
}

pub struct Toy<'a> {
    program: &'a Program,
    schedule: Schedule,
    fault: Option<Fault>,
    state: Mutex<State>,
    changed: Condvar,
}

impl<'a> Toy<'a> {
    pub fn new(program: &'a Program, schedule: Schedule, fault: Option<Fault>) -> Toy<'a> {
        let seed = if let Schedule::Random(seed) = schedule { seed } else { 0 };
        let state = State {
            at: vec![usize::MAX; program.buffers.len()],
            memory: vec![],
            layout: Layout::default(),
            free: vec![],
            streams: Default::default(),
            records: [None; EVENTS.len()],
            history: Default::default(),
            resets: [None; EVENTS.len()],
            descs: [None; DESCS.len()],
            open: vec![false; program.gates],
            stopped: [false; 2],
            skips: false,
            lent: Lent::default(),
            marks: vec![],
            random: seed.wrapping_mul(2).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        Toy { program, schedule, fault, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn submit(&self, state: &mut State, stream: usize, task: Task) {
        let queue = &mut state.streams[stream];
        let task = if std::mem::take(&mut queue.drops_next) { Task::Record } else { task };
        queue.tasks.push_back(task);
        queue.submitted += 1;
    }

    /// Later tasks of one stream wait for the earlier ones of another.
    fn link(&self, state: &mut State, from: usize, to: usize) {
        self.submit(state, from, Task::Record);
        let count = state.streams[from].submitted;
        self.submit(state, to, Task::Wait(from, count));
    }

    fn alloc(&self, state: &mut State, buffer: usize) {
        let len = self.program.buffers[buffer].len;
        state.at[buffer] = match self.again(state, buffer) {
            Some(i) => {
                let old = state.free.remove(i);
                state.at[old]
            }
            None => {
                state.memory.push(vec![0; len]);
                state.memory.len() - 1
            }
        };
        let bytes = first_bytes(buffer, len);
        state.memory[state.at[buffer]].copy_from_slice(bytes);
    }

    /// Freed memory that is given out again, which only a faulty engine does: it does not know who is done
    /// with it.
    fn again(&self, state: &State, buffer: usize) -> Option<usize> {
        let (home, form) = (self.program.home(buffer), self.program.form(buffer));
        let mapped = |b: usize| state.layout.mapped().any(|other| other == b);
        let fits = |old: &usize| {
            let like = (self.program.home(*old), self.program.form(*old)) == (home, form);
            like && self.program.buffers[*old].len == self.program.buffers[buffer].len
        };
        state.free.iter().position(|old| {
            fits(old)
                && match self.fault {
                    Some(Fault::ReusesBusyMemory) => form == Form::Plain,
                    Some(Fault::ReusesMapped) => form == Form::Physical && mapped(*old),
                    Some(Fault::ReusesUnmapped) => form == Form::Physical && !mapped(*old),
                    _ => false,
                }
        })
    }

    fn load(&self, state: &State, span: Span) -> Vec<u8> {
        state.memory[state.at[span.buffer]][span.bytes()].to_vec()
    }

    fn store(&self, state: &mut State, span: Span, bytes: &[u8]) {
        let at = state.at[span.buffer];
        state.memory[at][span.bytes()].copy_from_slice(bytes);
    }

    fn copy(&self, state: &mut State, moves: &[(Span, Span)]) {
        if self.has(Fault::NoMemmove) && moves.iter().all(|(d, s)| d.buffer == s.buffer) {
            for (dst, src) in moves {
                let memory = &mut state.memory[state.at[dst.buffer]];
                (0..dst.len).for_each(|i| memory[dst.at + i] = memory[src.at + i]);
            }
            return;
        }
        let bytes: Vec<_> = moves.iter().map(|(_, src)| self.load(state, *src)).collect();
        moves.iter().zip(bytes).for_each(|((dst, _), bytes)| self.store(state, *dst, &bytes));
    }

    fn put(&self, state: &mut State, parts: &[(Span, Vec<u8>)]) {
        parts.iter().for_each(|(dst, bytes)| self.store(state, *dst, bytes));
    }

    /// What a copy or fill moves if it is called now; nothing where it reaches into holes.
    fn real(&self, state: &State, act: &Act) -> Real {
        let mut real = state.layout.real(self.program, act).unwrap_or_default();
        if self.has(Fault::OnePiece) && matches!(act, Act::Copy { .. }) {
            real.moves.truncate(1);
        }
        real
    }

    /// Runs the next task of a stream, or the one after it; returns whether it could.
    fn advance(&self, state: &mut State, stream: usize) -> bool {
        let queue = &state.streams[stream];
        let swap = self.has(Fault::Overtakes) && queue.tasks.len() > 1 && {
            let moves = |t: &Task| matches!(t, Task::Move(_) | Task::Put(_));
            moves(&queue.tasks[0]) && moves(&queue.tasks[1]) && state.random >> 20 & 1 == 0
        };
        if swap {
            state.streams[stream].tasks.swap(0, 1);
        }
        let Some(task) = state.streams[stream].tasks.front().cloned() else { return false };
        match task {
            Task::Blocker(gate) if !state.open[gate] => return false,
            Task::Wait(other, count) if state.streams[other].done < count => return false,
            Task::WaitNext(event, nth) => match state.history[event].get(nth) {
                Some((other, count)) if state.streams[*other].done >= *count => {}
                _ => return false,
            },
            Task::WaitNewest(event)
                if state.records[event].is_some_and(|(s, n)| state.streams[s].done < n) =>
            {
                return false;
            }
            Task::Move(moves) => self.copy(state, &moves),
            Task::Late(act) => self.copy(state, &self.real(state, &act).moves),
            Task::Put(parts) => self.put(state, &parts),
            Task::CopyDesc(dst, src) => state.descs[dst] = state.descs[src],
            Task::PutDesc(desc, dst, src) => state.descs[desc] = Some((dst, src)),
            Task::RunDesc(desc) => {
                // Not set yet only if a fault has it run too early.
                if let Some((dst, src)) = state.descs[desc] {
                    let act = Act::RunDesc { desc, dst, src, stream };
                    self.copy(state, &self.real(state, &act).moves);
                }
            }
            _ => {}
        }
        state.streams[stream].tasks.pop_front();
        state.streams[stream].done += 1;
        self.changed.notify_all();
        true
    }

    /// Gives tasks the chance to run that the schedule allows them.
    fn idle(&self, state: &mut State) {
        match self.schedule {
            Schedule::Lazy => {}
            Schedule::Eager => while (0..STREAMS.len()).any(|s| self.advance(state, s)) {},
            Schedule::Random(_) => {
                while {
                    state.random ^= state.random << 13;
                    state.random ^= state.random >> 7;
                    state.random ^= state.random << 17;
                    state.random >> 40 & 3 != 0
                } {
                    self.advance(state, (state.random >> 8) as usize % STREAMS.len());
                }
            }
        }
    }

    /// Waits until `count` tasks of `stream` are done, running what that takes.
    fn reach<'s>(
        &self,
        mut state: MutexGuard<'s, State>,
        stream: usize,
        count: usize,
    ) -> MutexGuard<'s, State> {
        let count = if self.has(Fault::SyncLeavesOne) { count.saturating_sub(1) } else { count };
        loop {
            self.idle(&mut state);
            if state.streams[stream].done >= count {
                return state;
            }
            let mut next = stream;
            while let Some((other, n)) = self.awaited(&state, next) {
                if state.streams[other].done >= n {
                    break;
                }
                next = other;
            }
            let newest = matches!(state.streams[next].tasks.front(), Some(Task::WaitNewest(_)));
            if !self.advance(&mut state, next) {
                if newest {
                    state.streams[next].tasks[0] = Task::Record;
                    continue;
                }
                state = self.changed.wait(state).unwrap();
            }
        }
    }

    /// What the first task of a stream waits for: a stream, and how many of its tasks.
    fn awaited(&self, state: &State, stream: usize) -> Option<(usize, usize)> {
        match state.streams[stream].tasks.front()? {
            Task::Wait(other, n) => Some((*other, *n)),
            Task::WaitNext(event, nth) => state.history[*event].get(*nth).copied(),
            _ => None,
        }
    }

    fn task(&self, state: &State, act: &Act) -> Task {
        let Real { moves, fills } = self.real(state, act);
        match act.deed() {
            Act::Fill { dst, with, .. } => Task::Put(spread(&fills, &with.bytes(dst.len))),
            Act::CopyDesc { dst, src, .. } => Task::CopyDesc(*dst, *src),
            Act::PutDesc { desc, dst, src, .. } => Task::PutDesc(*desc, *dst, *src),
            Act::RunDesc { desc, stream, .. } if self.has(Fault::ReadsDescInCall) => {
                let now = |(dst, src)| Act::RunDesc { desc: *desc, dst, src, stream: *stream };
                Task::Move(state.descs[*desc].map_or(vec![], |what| self.real(state, &now(what)).moves))
            }
            Act::RunDesc { desc, .. } => Task::RunDesc(*desc),
            _ if self.has(Fault::FollowsRemap) => Task::Late(act.clone()),
            _ if self.has(Fault::ReadsSourceInCall) => Task::Put(self.taken(state, &moves)),
            _ => Task::Move(moves),
        }
    }

    /// Destinations with the bytes that their sources hold now.
    fn taken(&self, state: &State, moves: &[(Span, Span)]) -> Vec<(Span, Vec<u8>)> {
        moves.iter().map(|(dst, src)| (*dst, self.load(state, *src))).collect()
    }

    /// Copies, fills and descriptor calls, by their timing.
    fn transfer<'s>(&self, mut state: MutexGuard<'s, State>, act: &Act) -> MutexGuard<'s, State> {
        match self.program.timing(act).expect("all other steps move bytes") {
            Timing::Call => match self.task(&state, act) {
                Task::Put(parts) => self.put(&mut state, &parts),
                Task::Move(moves) => self.copy(&mut state, &moves),
                Task::Late(act) => {
                    let Real { moves, .. } = self.real(&state, &act);
                    self.copy(&mut state, &moves);
                }
                _ => unreachable!("descriptor copies are tasks"),
            },
            Timing::Staged { stream } if !self.has(Fault::StagesLate) => {
                let Real { moves, .. } = self.real(&state, act);
                let parts = self.taken(&state, &moves);
                self.submit(&mut state, stream, Task::Put(parts));
            }
            Timing::Staged { stream } => {
                let Real { moves, .. } = self.real(&state, act);
                self.submit(&mut state, stream, Task::Move(moves));
            }
            Timing::Task { stream, waits } => {
                let task = self.task(&state, act);
                let taken = self.take(&mut state, act, stream);
                self.submit(&mut state, stream, task);
                let forgets = self.has(Fault::DoesNotWaitForPageable)
                    || self.has(Fault::PinnedByStart) && self.starts_pinned(&state, act);
                if waits && !forgets {
                    let count = state.streams[stream].submitted;
                    state = self.reach(state, stream, count);
                }
                if waits && let Some(buffer) = taken.first() {
                    state = self.land(state, *buffer);
                }
            }
        }
        state
    }

    /// Whether all plain memory of a copy starts in registered pages.
    fn starts_pinned(&self, state: &State, act: &Act) -> bool {
        let spans = act.moves().into_iter().flat_map(|(d, s)| [d, s]);
        let mut firsts = spans.map(|span| Span { len: 1, ..span });
        firsts.all(|first| !state.layout.is_plain(self.program, first))
    }
}

/// Shares bytes out among the parts they go to.
fn spread(parts: &[Span], mut bytes: &[u8]) -> Vec<(Span, Vec<u8>)> {
    let mut take = |part: &Span| {
        let (now, rest) = bytes.split_at(part.len);
        bytes = rest;
        (*part, now.to_vec())
    };
    parts.iter().map(&mut take).collect()
}

impl Executor for Toy<'_> {
    fn perform(&self, _thread: usize, act: &Act) -> Result<(), String> {
        let mut state = self.state.lock().unwrap();
        state.layout.step(self.program, act);
        state.lent.step(act);
        match act {
            Act::Alloc { buffer } if self.program.form(*buffer) == Form::Window => {}
            Act::Alloc { buffer } => self.alloc(&mut state, *buffer),
            Act::Free { buffer } => state.free.push(*buffer),
            Act::Land { buffers } => state = self.land(state, buffers[0]),
            Act::Share { .. } => {}
            Act::Unmap { physical, .. } if self.has(Fault::UnmapDrops) => {
                self.drop_copies(&mut state, *physical);
            }
            Act::Unregister { buffer } if self.has(Fault::UnregisterDrops) => {
                self.drop_copies(&mut state, *buffer);
            }
            Act::Map { .. } | Act::Unmap { .. } | Act::Register { .. } | Act::Unregister { .. } => {}
            Act::Refused(act) => self.refuse(&mut state, act)?,
            Act::Poke { dst, seed } => self.store(&mut state, *dst, crate::oracle::noise(*seed, dst.len)),
            Act::SetDesc { desc, dst, src } => state.descs[*desc] = Some((*dst, *src)),
            Act::Record { event, stream } => {
                self.submit(&mut state, *stream, Task::Record);
                let mark = (*stream, state.streams[*stream].submitted);
                state.records[*event] = Some(mark);
                state.history[*event].push(mark);
                state.resets[*event] = None;
            }
            Act::Reset { event, stream } => {
                self.submit(&mut state, *stream, Task::Record);
                if !self.has(Fault::ForgetsReset) {
                    state.resets[*event] = Some(state.history[*event].len());
                }
            }
            Act::Wait { stream, event } if state.resets[*event].is_some() => {
                let next = state.history[*event].len();
                self.submit(&mut state, *stream, Task::WaitNext(*event, next));
            }
            Act::Wait { stream, event } => match state.records[*event] {
                _ if self.has(Fault::WaitsForLaterRecord) => {
                    self.submit(&mut state, *stream, Task::WaitNewest(*event));
                }
                Some((other, count)) => self.submit(&mut state, *stream, Task::Wait(other, count)),
                None => {}
            },
            Act::Launch { model, stream, captures } => {
                state.skips = !captures && self.has(Fault::RunsModelsOnce);
                self.link(&mut state, *stream, streams_of_model(*model)[0]);
            }
            Act::Link { .. } if state.skips || self.has(Fault::ForgetsLinks) => {}
            Act::Link { from, to } => self.link(&mut state, *from, *to),
            Act::Done { model, stream } => {
                state.skips = false;
                self.link(&mut state, streams_of_model(*model)[0], *stream);
            }
            Act::SyncEvent { event } => {
                if let Some((stream, count)) = state.records[*event] {
                    state = self.reach(state, stream, count);
                }
            }
            Act::Stale { stream, .. } | Act::SyncStream { stream } => {
                let count = state.streams[*stream].submitted;
                state = self.reach(state, *stream, count);
            }
            Act::SyncDevice { device } => {
                for stream in (0..STREAMS.len()).filter(|s| STREAMS[*s] == *device) {
                    let count = state.streams[stream].submitted;
                    state = self.reach(state, stream, count);
                }
            }
            Act::Abort { stream } | Act::Renew { stream } => self.abort(&mut state, *stream),
            Act::Halt { stream } => {
                let count = state.streams[*stream].submitted;
                state = self.reach(state, *stream, count);
                streams_of(STREAMS[*stream]).into_iter().for_each(|s| self.abort(&mut state, s));
                state.stopped[STREAMS[*stream]] = true;
            }
            Act::Hold { gate, stream } => self.submit(&mut state, *stream, Task::Blocker(*gate)),
            Act::Release { gate } => {
                state.open[*gate] = true;
                self.changed.notify_all();
            }
            Act::Barrier | Act::Check { .. } => unreachable!("done by the one who runs the program"),
            Act::Abroad { .. } if self.has(Fault::LosesForeign) => {}
            _ if state.skips => {}
            _ => state = self.transfer(state, act),
        }
        self.idle(&mut state);
        Ok(())
    }

    fn read(&self, _thread: usize, buffer: usize, at: usize, out: &mut [u8]) -> Result<(), String> {
        let state = self.state.lock().unwrap();
        out.copy_from_slice(&self.load(&state, Span { buffer, at, len: out.len() }));
        Ok(())
    }

    fn open_gates(&self) {
        self.state.lock().unwrap().open.fill(true);
        self.changed.notify_all();
    }
}
