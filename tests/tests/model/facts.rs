//! The facts that a watched program leaves behind, against the order of the model.
//!
//! Random programs run in a process that is watched from its first call. What happened before what is put
//! together from the facts alone ([`happened`]) and compared with the model ([`versus`]): every pair of steps
//! that the model orders is ordered by the facts, and no other. Two things are not in the facts of an engine,
//! since the program does them by itself: barriers between its threads, and the gates that its host functions
//! wait for. They are given to both sides.
//!
//! The model promises what the documents promise, and leaves open how two threads interleave. What the facts
//! say of that is taken from them: which of two threads has put its op into a stream first, which ops of
//! another thread a synchronise happened to find, and which tasks an abort came too late for.
//!
//! Arrows: this folder reads programs and the model's order; nothing in the model knows it.

mod executions;
mod happened;
mod history;
mod memory;
mod mutations;
mod rules;
mod versus;

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ferry_watch::buffers::{Buffers, Wanted};
use ferry_watch::collector::Collector;
use ferry_watch::{Fact, FactReader, FactSource};

use crate::api::Api;
use crate::basics::set_device;
use crate::capi::Capi;
use crate::oracle::Oracle;
use crate::program::{Act, EVENTS, Program, STREAMS, THREADS};
use crate::run::{Executor, run};
use crate::{expect_right, on_engine, setting};
use executions::Executions;
use history::History;
use memory::Blocks;
use rules::Streams;

const ROLE: &str = "FERRY_MODEL_FACTS";
const BUFFERS_BYTES: usize = 64 << 20;
/// How often a step asks before it waits.
const QUERIES: usize = 100;

/// In the facts of a thread, the steps of the program begin and end with a stack of this one address.
const BEGIN: u64 = 1;
const END: u64 = 2;

/// The environment of the watched process is there before its first call: this program runs itself again.
fn in_watched_process(test: &str) {
    // SAFETY: the name is a C string; the descriptor is ours. The child has it, too, under its number.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"facts".as_ptr(), 0)) };
    let wanted = Wanted { pieces: true, ..Wanted::default() };
    Buffers::create(&file, BUFFERS_BYTES, wanted).expect("there is room for buffers");
    let watched = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut child = Command::new(std::env::current_exe().expect("Linux knows which program runs"));
    child.args(["--exact", test, "--nocapture"]);
    let done = child.env(ROLE, "1").env(ferry::watching::VARIABLE, watched).output().expect("it starts");
    let (said, complained) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("1 passed"), "{said}{complained}");
    println!("{said}");
}

#[test]
fn facts_have_the_order_of_the_model() {
    in_watched_process("facts::the_watched_process");
}

/// What the child does.
#[test]
fn the_watched_process() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let path = std::env::var_os(ferry::watching::VARIABLE).expect("the parent says where");
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the parent's file");
    let watcher = Mutex::new(Watcher::new(Buffers::open(&file).expect("the parent made buffers")));
    for races in [false, true] {
        expect_right(Api::C, setting("FERRY_MODEL_CASES", 150) / 2, races, |program| {
            watcher.lock().unwrap_or_else(PoisonError::into_inner).judge(program)
        });
    }
}

/// Reads the facts of this process, and keeps what outlives a program.
struct Watcher {
    collector: Collector,
    streams: Streams,
    blocks: Blocks,
}

/// The facts of this process.
#[derive(Default)]
struct Facts(Vec<(FactSource, Fact)>);

impl FactReader for Facts {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        // The second process has facts of its own.
        if source.process == std::process::id() || matches!(fact, Fact::Lost { .. }) {
            self.0.push((source, fact.clone()));
        }
    }
}

impl Watcher {
    fn new(buffers: Buffers) -> Watcher {
        Watcher { collector: Collector::new(buffers), streams: Streams::default(), blocks: Blocks::default() }
    }

    /// Runs the program and compares what its facts say.
    fn judge(&mut self, program: &Program) -> Result<(), String> {
        let oracle = Oracle::of(program);
        let expected = oracle.expected(program);
        let ran = on_engine(program, |capi| run(program, &expected, &Marked::new(program, capi)));
        let mut facts = Facts::default();
        self.collector.finish(&mut facts);
        // Both look at all facts, whatever came before: they keep books.
        let (streams, blocks) = (self.streams.take(&facts.0), self.blocks.take(&facts.0));
        ran?;
        streams.and(blocks)?;
        let history = History::of(&facts.0);
        let executions = Executions::of(program, &history)?;
        versus::compare(program, &oracle, &history, &executions, &self.streams)
    }
}

/// Writes facts of its own around the steps, so that it can be told which facts belong to which.
struct Marked<'a> {
    program: &'a Program,
    capi: &'a Capi<'a>,
    /// The step that each thread has made last.
    last: [AtomicUsize; THREADS],
}

impl<'a> Marked<'a> {
    fn new(program: &'a Program, capi: &'a Capi<'a>) -> Marked<'a> {
        Marked { program, capi, last: Default::default() }
    }

    fn within<T>(&self, step: usize, body: impl FnOnce() -> T) -> T {
        let writer = ferry::watching::writer().expect("this process is watched");
        let mark = |which| writer.write(&Fact::Stack { number: step as u32, frames: vec![which] });
        mark(BEGIN);
        let done = body();
        mark(END);
        done
    }

    /// Some of the steps that wait ask first, and need not wait then.
    fn asks(&self, step: usize, act: &Act) -> Result<bool, String> {
        let device = match act {
            Act::SyncStream { stream } => STREAMS[*stream],
            Act::SyncEvent { event } => EVENTS[*event],
            _ => return Ok(false),
        };
        if step.is_multiple_of(2) {
            return Ok(false);
        }
        set_device(device)?;
        Ok((0..QUERIES).any(|_| {
            std::thread::yield_now();
            self.capi.is_over(act)
        }))
    }
}

impl Executor for Marked<'_> {
    fn perform(&self, thread: usize, act: &Act) -> Result<(), String> {
        let steps = &self.program.steps;
        let step = steps.iter().position(|step| std::ptr::eq(&step.act, act)).expect("a step of the program");
        self.last[thread].store(step, Ordering::Relaxed);
        self.within(step, || if self.asks(step, act)? { Ok(()) } else { self.capi.perform(thread, act) })
    }

    fn read(&self, thread: usize, buffer: usize, at: usize, out: &mut [u8]) -> Result<(), String> {
        // Only checks read.
        let last = self.last[thread].load(Ordering::Relaxed);
        let is_check = |i: &usize| {
            let step = &self.program.steps[*i];
            step.thread == thread && matches!(step.act, Act::Check { .. })
        };
        let step = (last..self.program.steps.len()).find(is_check).expect("a check comes next");
        self.within(step, || self.capi.read(thread, buffer, at, out))
    }

    fn open_gates(&self) {
        self.capi.open_gates();
    }
}
