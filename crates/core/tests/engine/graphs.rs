//! Graphs: what an execution submits, to which streams, and what it finds out about memory.

use super::*;
use ferry_core::{Branch, Capture, Footprint, Graph, Recorder, Unjoined};

/// A runtime with a capture, and a stream whose ops go there.
struct Site {
    runtime: Runtime,
    log: Log,
    capture: Arc<Capture>,
    stream: Arc<Stream>,
}

/// Records the ops of one branch.
struct Branching(Arc<Capture>, Branch);

impl Recorder for Branching {
    fn record(&self, op: Op, footprint: Footprint) -> Result<()> {
        assert!(self.0.op(self.1, op, footprint), "can be repeated");
        Ok(())
    }
    fn refusal(&self) -> ferry_core::Error {
        Kind::Captured.because("no op")
    }
}

impl Site {
    fn new() -> Site {
        let (runtime, log) = paper();
        let capture = Arc::new(Capture::new(runtime.memory().clone()));
        let stream = stream(&runtime);
        let site = Site { runtime, log, capture, stream };
        site.branch(&site.stream);
        site
    }

    /// Has the stream's ops recorded as a new branch.
    fn branch(&self, stream: &Stream) -> Branch {
        let branch = self.capture.branch(self::stream(&self.runtime));
        stream.divert(Some(Arc::new(Branching(self.capture.clone(), branch))));
        branch
    }

    fn block(&self) -> Block {
        alloc(&self.runtime, Home::Device(0), 4096)
    }

    fn copy(&self, stream: &Stream, dst: usize, src: usize) {
        self.copy_long(stream, dst, src, 64);
    }

    fn copy_long(&self, stream: &Stream, dst: usize, src: usize, len: usize) {
        // SAFETY: paper moves nothing.
        let copied =
            unsafe { stream.submit(|_| plan(&self.runtime, Rows::linear(dst, src, len)).map(Op::Copy)) };
        copied.expect("recorded");
    }

    /// A second branch, which the first one has forked, and the stream that is recorded there.
    fn fork(&self) -> (Branch, Arc<Stream>) {
        let side = stream(&self.runtime);
        let branch = self.branch(&side);
        self.capture.wait(branch, self.capture.record(0));
        (branch, side)
    }

    /// The first branch waits for what another one has so far.
    fn join(&self, branch: Branch) {
        self.capture.wait(0, self.capture.record(branch));
    }

    /// The graph of what was recorded. The stream takes work again.
    fn finish(&self) -> Arc<Graph> {
        self.stream.divert(None);
        self.capture.finish().expect("joined")
    }

    /// What was submitted since the last time, without tickets.
    fn submitted(&self) -> Vec<String> {
        let log = std::mem::take(&mut *self.log.lock().unwrap());
        log.into_iter().filter_map(|line| line.strip_prefix("made ").map(str::to_owned)).collect()
    }
}

fn stream(runtime: &Runtime) -> Arc<Stream> {
    runtime.stream(0, QueueOptions::default()).expect("a stream")
}

#[test]
fn copies_that_do_not_meet_are_one_op_and_others_are_not() {
    let site = Site::new();
    let (one, two, three) = (site.block().base, site.block().base, site.block().base);
    for place in [0, 128, 256] {
        site.copy(&site.stream, two + place, one + place);
    }
    site.copy(&site.stream, three, two); // reads what was written
    site.copy(&site.stream, three + 512, one + 512);
    site.copy(&site.stream, one + 512, two + 512); // writes what was read
    site.stream.divert(None);
    assert_eq!(site.submitted(), [""; 0], "nothing runs yet");
    let graph = site.capture.finish().expect("joined");
    for execution in 0..2 {
        graph.execute(&site.stream).expect("memory is there");
        let first = 3 * execution + 1;
        let want = [0, 1, 2].map(|op| format!("0.{} Copy", first + op));
        assert_eq!(site.submitted(), want, "three, two and one copy");
    }
}

#[test]
fn branches_run_on_streams_of_their_own_and_lead_back() {
    let site = Site::new();
    let ((branch, side), block) = (site.fork(), site.block().base);
    site.copy(&side, block, block + 128);
    let join = site.capture.record(branch);
    site.copy(&site.stream, block + 256, block + 512);
    site.capture.wait(0, join);
    let graph = site.finish();
    graph.execute(&site.stream).expect("memory is there");
    // Stream 0 is the launching one, 1 and 3 are the branches' own, 2 was captured.
    let want = ["3.1 Wait for op 0 of stream 0", "3.2 Copy", "0.1 Copy", "0.2 Wait for op 2 of stream 3"];
    assert_eq!(site.submitted(), want);
}

#[test]
fn work_behind_the_record_that_leads_back_is_unjoined() {
    for (is_late, want) in [(false, None), (true, Some(Unjoined(1)))] {
        let site = Site::new();
        let ((branch, side), block) = (site.fork(), site.block().base);
        site.join(branch);
        if is_late {
            site.copy(&side, block, block + 128);
        }
        site.capture.record(branch);
        assert_eq!(site.capture.finish().err(), want, "late: {is_late}");
    }
}

#[test]
fn a_branch_leads_back_through_another_one() {
    let site = Site::new();
    let sides = [stream(&site.runtime), stream(&site.runtime)];
    let [first, second] = [site.branch(&sides[0]), site.branch(&sides[1])];
    let block = site.block().base;
    let fork = site.capture.record(0);
    site.capture.wait(first, fork);
    site.copy(&sides[0], block, block + 128);
    let over = site.capture.record(first);
    site.capture.wait(second, over);
    site.copy(&sides[1], block + 256, block + 512);
    let join = site.capture.record(second);
    site.capture.wait(0, join);
    assert!(site.capture.finish().is_ok());
}

#[test]
fn an_execution_finds_out_that_memory_is_gone_or_another_one() {
    let site = Site::new();
    let kept = site.block();
    let register = || site.runtime.register(0x8000_0000, 4096).expect("registered");
    let freed = register();
    site.copy(&site.stream, kept.base, kept.base + 128);
    site.capture.barrier(0); // has no number
    site.copy(&site.stream, kept.base + 256, freed.base);
    let graph = site.finish();
    let unrelated = site.block();
    graph.execute(&site.stream).expect("memory is there");
    site.runtime.free(unrelated.base, |_| Ok(())).expect("freed");
    graph.execute(&site.stream).expect("other memory may go");
    site.runtime.free(freed.base, |_| Ok(())).expect("freed");
    site.submitted();
    for is_new in [false, true] {
        if is_new {
            register();
        }
        let error = graph.execute(&site.stream).expect_err("freed");
        assert_eq!(error.kind, Kind::BadAddress);
        assert!(
            error.note.contains("task 1 ") && error.note.contains(&format!("{:#x}", freed.base)),
            "{error}"
        );
        assert_eq!(site.submitted(), [""; 0], "nothing was submitted");
    }
}

#[test]
fn executions_from_two_streams_come_one_after_the_other() {
    let site = Site::new();
    let (other, block) = (stream(&site.runtime), site.block().base);
    site.copy(&site.stream, block, block + 128);
    let graph = site.finish();
    graph.execute(&site.stream).expect("launched");
    assert!(graph.is_running());
    graph.execute(&other).expect("launched");
    assert_eq!(site.submitted(), ["0.1 Copy", "2.1 Wait for op 1 of stream 0", "2.2 Copy"]);
    site.stream.status().pass(1);
    other.status().pass(2);
    assert!(!graph.is_running());
    graph.execute(&site.stream).expect("launched");
    assert_eq!(site.submitted(), ["0.2 Copy"], "the other one is over");
}

#[test]
fn a_branch_that_is_started_by_another_comes_behind_it_whatever_was_filled_first() {
    let site = Site::new();
    let (started, block) = (stream(&site.runtime), site.block().base);
    let branch = site.branch(&started);
    site.copy(&started, block, block + 128);
    site.copy(&site.stream, block + 256, block + 512);
    let edge = site.capture.record(0);
    site.capture.start(branch, edge);
    site.capture.build(vec![0]);
    site.stream.divert(None);
    let graph = site.capture.finish().expect("all count as joined");
    graph.execute(&site.stream).expect("launched");
    // A built graph can be aborted: all of its branches are on streams of its own.
    let want = [
        "0.1 Wait",
        "1.1 Wait for op 0 of stream 0",
        "1.2 Copy",
        "3.1 Wait for op 2 of stream 1",
        "3.2 Copy",
        "1.3 Wait for op 2 of stream 3",
    ];
    assert_eq!(site.submitted(), want);
}

#[test]
fn an_abort_ends_the_branches_before_the_stream_goes_on() {
    let site = Site::new();
    let ((branch, side), block) = (site.fork(), site.block().base);
    site.copy(&side, block, block + 128);
    site.copy(&side, block + 256, block);
    site.join(branch);
    let graph = site.finish();
    graph.execute(&site.stream).expect("launched");
    site.log.lock().unwrap().clear();
    site.stream.abort();
    let log = site.log.lock().unwrap().clone();
    // The launching stream's wait, the first branch's own stream, the second one's with a wait and two
    // copies. Observers are told of each before anybody can be woken by it.
    let want: [&[&str]; 4] = [
        &["joined 0.1 Abort"],
        &["joined 1.0 Abort", "abort of 0 ops", "joined 1.0 Wait"],
        &["joined 3.3 Abort", "abort of 3 ops", "joined 3.3 Wait"],
        &["abort of 1 ops", "joined 0.1 Wait"],
    ];
    assert_eq!(log, want.concat());
    site.stream.status().pass(1);
    assert_eq!(site.stream.status().take_error().map(|error| error.kind), Some(Kind::Aborted));
}

#[test]
fn an_abort_tells_that_the_branches_of_what_was_done_before_have_ended() {
    let site = Site::new();
    let ((branch, side), block) = (site.fork(), site.block().base);
    site.copy(&side, block, block + 128);
    site.join(branch);
    let graph = site.finish();
    graph.execute(&site.stream).expect("launched");
    site.stream.status().pass(1);
    site.log.lock().unwrap().clear();
    site.stream.abort();
    let log = site.log.lock().unwrap().clone();
    let ended = ["joined 1.0 Query", "joined 3.2 Query"];
    assert_eq!(log, [&["joined 0.1 Abort"], &ended[..], &["abort of 1 ops", "joined 0.1 Wait"]].concat());
}

/// A program may copy data and then a flag, and poll the flag.
#[test]
fn copies_as_short_as_a_flag_are_not_coalesced_with_longer_ones() {
    let site = Site::new();
    let (from, to) = (site.block().base, site.block().base);
    for (place, len) in [(0, 512), (512, 512), (1024, 8), (1088, 64), (2048, 65), (2304, 1024)] {
        site.copy_long(&site.stream, to + place, from + place, len);
    }
    let graph = site.finish();
    graph.execute(&site.stream).expect("launched");
    assert_eq!(site.submitted().len(), 3, "the long ones, two flags, the long ones");
}

/// An execution that was aborted says nothing about those before it, on other streams.
#[test]
fn an_execution_waits_for_every_stream_that_launched_one_before() {
    let site = Site::new();
    let (second, third) = (stream(&site.runtime), stream(&site.runtime));
    let block = site.block().base;
    site.copy(&site.stream, block, block + 128);
    let graph = site.finish();
    for launching in [&site.stream, &second] {
        graph.execute(launching).expect("launched");
    }
    second.status().pass(2); // as an abort does, while the first one runs
    assert!(graph.is_running());
    site.submitted();
    graph.execute(&third).expect("launched");
    assert_eq!(site.submitted(), ["3.1 Wait for op 1 of stream 0", "3.2 Copy"]);
}

#[test]
fn a_stream_remembers_a_graph_once_however_often_it_launched_it() {
    let site = Site::new();
    let ((branch, side), block) = (site.fork(), site.block().base);
    site.copy(&side, block, block + 128);
    site.join(branch);
    let graph = site.finish();
    for _ in 0..100 {
        graph.execute(&site.stream).expect("launched");
    }
    site.log.lock().unwrap().clear();
    site.stream.abort();
    let log = site.log.lock().unwrap();
    let aborts = log.iter().filter(|line| line.starts_with("abort")).count();
    assert_eq!(aborts, 3, "two branches and the stream");
}
