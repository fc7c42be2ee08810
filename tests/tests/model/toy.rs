//! A stand-in for the engine: plain vectors, streams as lists of tasks, and a say in when tasks run.
//!
//! It shows that the oracle asks for nothing an engine need not do (any legal schedule passes), and, made faulty on
//! purpose, that the model test sees each fault.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::oracle::first_bytes;
use crate::program::{Act, DESCS, EVENTS, Home, Program, STREAMS, Span, Timing};
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

/// What is wrong with the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Freed memory is given out again while tasks still use it.
    ReusesBusyMemory,
    /// An asynchronous copy reads its source in the call.
    ReadsSourceInCall,
    /// The staged kind reads its source when the task runs.
    StagesLate,
    /// A copy of malloc memory returns before it is done.
    DoesNotWaitForPageable,
    /// A stream may run the second task before the first.
    Overtakes,
    /// A wait is bound to the record there is when it runs.
    WaitsForLaterRecord,
    /// A synchronise returns with the last task still to come.
    SyncLeavesOne,
    /// A descriptor is read in the call.
    ReadsDescInCall,
    /// Copies go upwards byte by byte, whatever overlaps.
    NoMemmove,
}

impl Fault {
    pub const ALL: [Fault; 9] = [
        Fault::ReusesBusyMemory,
        Fault::ReadsSourceInCall,
        Fault::StagesLate,
        Fault::DoesNotWaitForPageable,
        Fault::Overtakes,
        Fault::WaitsForLaterRecord,
        Fault::SyncLeavesOne,
        Fault::ReadsDescInCall,
        Fault::NoMemmove,
    ];
}

#[derive(Clone)]
enum Task {
    Move(Vec<(Span, Span)>),
    Put(Vec<(Span, Vec<u8>)>),
    CopyDesc(usize, usize),
    RunDesc(usize),
    Record,
    /// Until this many tasks of a stream are done.
    Wait(usize, usize),
    WaitNewest(usize),
    Gate(usize),
}

#[derive(Default)]
struct Stream {
    tasks: VecDeque<Task>,
    submitted: usize,
    done: usize,
}

struct State {
    /// Which vector a buffer uses; only a fault makes two buffers share one.
    at: Vec<usize>,
    memory: Vec<Vec<u8>>,
    free: Vec<(Home, usize)>,
    streams: [Stream; STREAMS.len()],
    /// The stream of the latest record, and how many of its tasks must be done.
    records: [Option<(usize, usize)>; EVENTS.len()],
    descs: [Option<(Span, Span)>; DESCS.len()],
    open: Vec<bool>,
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
            free: vec![],
            streams: Default::default(),
            records: [None; EVENTS.len()],
            descs: [None; DESCS.len()],
            open: vec![false; program.gates],
            random: seed.wrapping_mul(2).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        Toy { program, schedule, fault, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn submit(&self, state: &mut State, stream: usize, task: Task) {
        state.streams[stream].tasks.push_back(task);
        state.streams[stream].submitted += 1;
    }

    fn alloc(&self, state: &mut State, buffer: usize) {
        let (home, len) = (self.program.home(buffer), self.program.buffers[buffer].len);
        let again = state.free.iter().position(|(h, at)| *h == home && state.memory[*at].len() == len);
        state.at[buffer] = match again {
            Some(i) if self.has(Fault::ReusesBusyMemory) => state.free.remove(i).1,
            _ => {
                state.memory.push(vec![0; len]);
                state.memory.len() - 1
            }
        };
        let bytes = first_bytes(buffer, len);
        state.memory[state.at[buffer]].copy_from_slice(bytes);
    }

    fn load(&self, state: &State, span: Span) -> Vec<u8> {
        state.memory[state.at[span.buffer]][span.bytes()].to_vec()
    }

    fn store(&self, state: &mut State, span: Span, bytes: &[u8]) {
        let at = state.at[span.buffer];
        state.memory[at][span.bytes()].copy_from_slice(bytes);
    }

    fn copy(&self, state: &mut State, moves: &[(Span, Span)]) {
        for &(dst, src) in moves {
            if self.has(Fault::NoMemmove) && dst.buffer == src.buffer {
                let memory = &mut state.memory[state.at[dst.buffer]];
                (0..dst.len).for_each(|i| memory[dst.at + i] = memory[src.at + i]);
            } else {
                let bytes = self.load(state, src);
                self.store(state, dst, &bytes);
            }
        }
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
            Task::Gate(gate) if !state.open[gate] => return false,
            Task::Wait(other, count) if state.streams[other].done < count => return false,
            Task::WaitNewest(event)
                if state.records[event].is_some_and(|(s, n)| state.streams[s].done < n) =>
            {
                return false;
            }
            Task::Move(moves) => self.copy(state, &moves),
            Task::Put(parts) => parts.iter().for_each(|(dst, bytes)| self.store(state, *dst, bytes)),
            Task::CopyDesc(dst, src) => state.descs[dst] = state.descs[src],
            Task::RunDesc(desc) => {
                let what = state.descs[desc].expect("set before it runs");
                self.copy(state, &[what]);
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
            while let Some(Task::Wait(other, n)) = state.streams[next].tasks.front() {
                if state.streams[*other].done >= *n {
                    break;
                }
                next = *other;
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

    fn task(&self, state: &State, act: &Act) -> Task {
        let parts = |moves: &[(Span, Span)]| moves.iter().map(|(d, s)| (*d, self.load(state, *s))).collect();
        match act {
            Act::Fill { dst, with, .. } => Task::Put(vec![(*dst, with.bytes(dst.len))]),
            Act::CopyDesc { dst, src, .. } => Task::CopyDesc(*dst, *src),
            Act::RunDesc { desc, .. } if self.has(Fault::ReadsDescInCall) => {
                Task::Move(state.descs[*desc].into_iter().collect())
            }
            Act::RunDesc { desc, .. } => Task::RunDesc(*desc),
            _ if self.has(Fault::ReadsSourceInCall) => Task::Put(parts(&act.moves())),
            _ => Task::Move(act.moves()),
        }
    }

    /// Copies, fills and descriptor calls, by their timing.
    fn transfer<'s>(&self, mut state: MutexGuard<'s, State>, act: &Act) -> MutexGuard<'s, State> {
        match self.program.timing(act).expect("all other steps move bytes") {
            Timing::Call => {
                let task = self.task(&state, act);
                match task {
                    Task::Put(parts) => {
                        parts.iter().for_each(|(dst, bytes)| self.store(&mut state, *dst, bytes))
                    }
                    Task::Move(moves) => self.copy(&mut state, &moves),
                    _ => unreachable!("descriptor copies are tasks"),
                }
            }
            Timing::Staged { stream } if !self.has(Fault::StagesLate) => {
                let parts = act.moves().iter().map(|(d, s)| (*d, self.load(&state, *s))).collect();
                self.submit(&mut state, stream, Task::Put(parts));
            }
            Timing::Staged { stream } => self.submit(&mut state, stream, Task::Move(act.moves())),
            Timing::Task { stream, waits } => {
                let task = self.task(&state, act);
                self.submit(&mut state, stream, task);
                if waits && !self.has(Fault::DoesNotWaitForPageable) {
                    let count = state.streams[stream].submitted;
                    state = self.reach(state, stream, count);
                }
            }
        }
        state
    }
}

impl Executor for Toy<'_> {
    fn perform(&self, _thread: usize, act: &Act) -> Result<(), String> {
        let mut state = self.state.lock().unwrap();
        match act {
            Act::Alloc { buffer } => self.alloc(&mut state, *buffer),
            Act::Free { buffer } => {
                let at = state.at[*buffer];
                state.free.push((self.program.home(*buffer), at));
            }
            Act::Poke { dst, seed } => self.store(&mut state, *dst, crate::oracle::noise(*seed, dst.len)),
            Act::SetDesc { desc, dst, src } => state.descs[*desc] = Some((*dst, *src)),
            Act::Record { event, stream } => {
                self.submit(&mut state, *stream, Task::Record);
                state.records[*event] = Some((*stream, state.streams[*stream].submitted));
            }
            Act::Wait { stream, event } => match state.records[*event] {
                _ if self.has(Fault::WaitsForLaterRecord) => {
                    self.submit(&mut state, *stream, Task::WaitNewest(*event));
                }
                Some((other, count)) => self.submit(&mut state, *stream, Task::Wait(other, count)),
                None => {}
            },
            Act::SyncEvent { event } => {
                if let Some((stream, count)) = state.records[*event] {
                    state = self.reach(state, stream, count);
                }
            }
            Act::SyncStream { stream } => {
                let count = state.streams[*stream].submitted;
                state = self.reach(state, *stream, count);
            }
            Act::SyncDevice { device } => {
                for stream in (0..STREAMS.len()).filter(|s| STREAMS[*s] == *device) {
                    let count = state.streams[stream].submitted;
                    state = self.reach(state, stream, count);
                }
            }
            Act::Hold { gate, stream } => self.submit(&mut state, *stream, Task::Gate(*gate)),
            Act::Release { gate } => {
                state.open[*gate] = true;
                self.changed.notify_all();
            }
            Act::Barrier | Act::Check { .. } => unreachable!("done by the one who runs the program"),
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
