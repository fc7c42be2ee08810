//! The core over a device made of paper: it moves no bytes, and work completes when a test says so.

#[path = "engine/graphs.rs"]
mod graphs;
#[path = "engine/paper.rs"]
mod paper;
#[path = "engine/plans.rs"]
mod plans;
#[path = "engine/registered.rs"]
mod registered;

use ferry_core::{
    Access, Backend, Block, BlockWatch, DeviceId, DeviceMemory, DeviceTime, Fate, Fence, Gate, Halt, Home,
    JoinKind, Kind, Mark, Misfit, Observer, Op, Origin, Plan, Point, Queue, QueueOptions, Request, Result,
    Route, Rows, Runs, Runtime, Seen, Segment, SegmentSink, Status, Stream, Ticket,
};
use paper::*;
use std::{
    any::Any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

#[test]
fn descriptors_keep_the_stamps_of_their_memory_and_backends_hear_when_it_goes() {
    let forgotten = Arc::<Mutex<Vec<usize>>>::default();
    let backend =
        Paper { next: AtomicUsize::new(0x100_0000), log: Log::default(), forgotten: forgotten.clone() };
    let runtime = Runtime::new(Arc::new(backend), Vec::new());
    let [dst, src] = [(); 2].map(|()| alloc(&runtime, Home::Device(0), 4096));
    let seal = |dst, src, len| runtime.memory().seal(dst, src, len).expect("sealed");
    let words = seal(dst.base + 8, src.base + 16, 64);
    assert_eq!(
        words[1..6],
        [src.base + 16, dst.base + 8, 64, src.base + 1, dst.base + 1].map(|word| word as u64)
    );
    let key = runtime.memory().seal_key();
    assert_eq!(ferry_core::indirect::open(key, &words), Some((dst.base + 8, src.base + 16, 64)));
    assert_eq!(seal(dst.base, src.base, 0)[4..6], [0, 0], "nothing is named");
    assert_eq!(seal(dst.base, 0x42_0000, 8)[4..6], [0, dst.base as u64 + 1], "memory of other libraries");
    assert!(forgotten.lock().unwrap().is_empty());
    runtime.free(src.base, |_| Ok(())).expect("freed");
    assert_eq!(*forgotten.lock().unwrap(), [src.base]);
}
#[test]
fn freed_memory_waits_for_every_queue_that_was_busy() {
    let (runtime, log) = paper();
    let streams: Vec<_> =
        (0..3).map(|_| runtime.stream(0, QueueOptions::default()).expect("a stream")).collect();
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let copy = |stream: &ferry_core::Stream| {
        // SAFETY: paper moves nothing.
        unsafe { stream.submit(|_| plan(&runtime, Rows::linear(device.base, host.base, 64)).map(Op::Copy)) }
    };
    copy(&streams[0]).expect("queued");
    copy(&streams[1]).expect("queued");
    runtime.free(device.base, |_| Ok(())).expect("frees return at once");
    assert_eq!(runtime.memory().table().find(device.base), None, "unknown at once");
    assert_eq!(copy(&streams[2]).expect_err("freed").error.kind, Kind::BadAddress);
    let settle = || runtime.memory_info(0).expect("a look gives back what can be");
    for (stream, is_gone) in [(0, false), (1, true)] {
        streams[stream].status().pass(1);
        settle();
        assert_eq!(gone(&log, &device), is_gone, "after stream {stream} has passed");
    }
    runtime.free(host.base, |_| Ok(())).expect("frees");
    assert!(gone(&log, &host), "nobody is busy");
}

#[test]
fn memory_waits_for_work_that_outlived_its_stream() {
    let (runtime, log) = paper();
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    // SAFETY: paper moves nothing.
    unsafe { stream.submit(|_| plan(&runtime, Rows::linear(device.base, host.base, 64)).map(Op::Copy)) }
        .expect("queued");
    let fence = stream.fence().expect("a fence");
    drop(stream);
    runtime
        .stream(0, QueueOptions::default())
        .expect("making a stream lets go of dead ones, but not of this");
    runtime.free(device.base, |_| Ok(())).expect("frees");
    assert!(!gone(&log, &device) && !fence.is_done());
}

#[test]
fn a_stream_held_by_work_without_addresses_keeps_no_memory() {
    let (runtime, log) = paper();
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    // SAFETY: paper moves nothing.
    unsafe { stream.submit(|_| plan(&runtime, Rows::linear(device.base, host.base, 64)).map(Op::Copy)) }
        .expect("queued");
    stream.status().pass(1);
    stream.call(|| ()).expect("queued");
    let other = stream.mark().expect("a mark");
    stream.wait_for(other).expect("queued");
    runtime.free(device.base, |_| Ok(())).expect("frees");
    assert!(gone(&log, &device), "the copy has passed, and nothing else has addresses");
}

#[test]
fn memory_waits_for_copies_and_not_for_what_is_queued_behind_them() {
    let (runtime, log) = paper();
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    // SAFETY: paper moves nothing.
    unsafe { stream.submit(|_| plan(&runtime, Rows::linear(device.base, host.base, 64)).map(Op::Copy)) }
        .expect("queued");
    stream.call(|| ()).expect("a function that takes its time");
    runtime.free(device.base, |_| Ok(())).expect("frees");
    runtime.memory_info(0).expect("a look");
    assert!(!gone(&log, &device), "the copy is in flight");
    stream.status().pass(1);
    runtime.memory_info(0).expect("a look");
    assert!(gone(&log, &device), "the copy has passed; the function needs no memory");
}

#[test]
fn the_short_way_keeps_what_the_long_one_promises() {
    let log = Log::default();
    let paper = || Paper { next: AtomicUsize::new(0x100_0000), log: log.clone(), forgotten: Arc::default() };
    let short = |stream: &Stream, dst: usize, src: usize| {
        // SAFETY: paper moves nothing.
        unsafe { stream.submit_linear((dst, src, 64), 1, |_| true, |_| ()) }
    };
    let runtime = Runtime::new(Arc::new(paper()), Vec::new());
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let halt = Halt::new();
    let stream = runtime.stream_under(Some(&halt), 0, QueueOptions::default()).expect("a stream");
    assert_eq!(short(&stream, device.base, host.base), Some(1));
    stream.call(|| ()).expect("a function that takes its time");
    assert_eq!(short(&stream, device.base, host.base), Some(3), "in the order of tickets");
    assert_eq!(short(&stream, device.base, PLAIN.start), None, "that takes longer to tell");
    assert_eq!(short(&stream, THEIRS.start, host.base), None);
    assert_eq!(stream.newest(), 3, "and nothing came of it");
    runtime.free(device.base, |_| Ok(())).expect("frees");
    assert_eq!(short(&stream, device.base, host.base), None, "unknown at once");
    for (passed, is_gone) in [(2, false), (3, true)] {
        stream.status().pass(passed);
        runtime.memory_info(0).expect("a look gives back what can be");
        assert_eq!(gone(&log, &device), is_gone, "{passed} have passed");
    }
    let other = alloc(&runtime, Home::Device(0), 64);
    assert_eq!(short(&stream, other.base, host.base), Some(4));
    stream.status().stop_all_on_failure();
    stream.status().fail(Kind::Device.because("the end"));
    assert_eq!(short(&stream, other.base, host.base), None, "stopped for good");
    let watched = Runtime::new(Arc::new(paper()), vec![Arc::new(Watcher(log.clone()))]);
    let (device, host) = (alloc(&watched, Home::Device(0), 64), alloc(&watched, Home::Host, 64));
    let stream = watched.stream(0, QueueOptions::default()).expect("a stream");
    assert_eq!(short(&stream, device.base, host.base), Some(1), "an observer changes nothing");
    assert!(log.lock().unwrap().contains(&format!("made {}.1 Linear 64", stream.id())));
}

#[test]
fn an_observer_that_panics_holds_nobody_up() {
    struct Clumsy;
    impl Observer for Clumsy {
        fn passed(&self, _: Point, _: Fate, _: Option<DeviceTime>) {
            panic!("an observer that falls over")
        }
    }
    let forgotten = Arc::default();
    let backend = Arc::new(Paper { next: AtomicUsize::new(0x100_0000), log: Log::default(), forgotten });
    let log = Log::default();
    let runtime = Runtime::new(backend, vec![Arc::new(Clumsy), Arc::new(Watcher(log.clone()))]);
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    stream.call(|| ()).expect("queued");
    stream.status().pass(1);
    assert_eq!(stream.synchronize(None), Ok(()));
    assert!(log.lock().unwrap().contains(&"passed 0.1 Done".into()), "the others are told");
}

#[test]
fn a_submit_ends_though_others_free_all_the_time() {
    let (runtime, _) = paper();
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let mut asked = 0;
    // SAFETY: paper moves nothing.
    let ticket = unsafe {
        stream.submit(|_| {
            asked += 1;
            if asked == 1 {
                let passing = alloc(&runtime, Home::Host, 64);
                runtime.free(passing.base, |_| Ok(())).map_err(Misfit::from)?;
            } else {
                // Frees of others, seen after the plan was made again: under the lock it is current all the
                // same.
                runtime.memory().table().insert(Block { base: 0x9000_0000, ..host }).map_err(Misfit::from)?;
                runtime.memory().table().remove(0x9000_0000, |_| Ok(())).map_err(Misfit::from)?;
            }
            plan(&runtime, Rows::linear(device.base, host.base, 64)).map(Op::Copy)
        })
    };
    assert_eq!((ticket.ok(), asked), (Some(1), 2));
}

#[test]
fn the_cost_of_a_free_does_not_grow_with_what_is_in_flight() {
    let (runtime, log) = paper();
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    let held: Vec<_> = (0..100).map(|_| alloc(&runtime, Home::Device(0), 64)).collect();
    let host = alloc(&runtime, Home::Host, 64);
    for block in &held {
        // SAFETY: paper moves nothing.
        unsafe { stream.submit(|_| plan(&runtime, Rows::linear(block.base, host.base, 64)).map(Op::Copy)) }
            .expect("queued");
        runtime.free(block.base, |_| Ok(())).expect("frees");
    }
    assert!(held.iter().all(|block| !gone(&log, block)));
    stream.status().pass(50);
    runtime.memory_info(0).expect("a look");
    assert!(held[50..].iter().all(|block| !gone(&log, block)), "work is in flight for these");
    stream.status().pass(100);
    runtime.memory_info(0).expect("a look");
    assert!(held.iter().all(|block| gone(&log, block)), "everything has passed");
}

#[test]
fn a_free_between_planning_and_submitting_makes_a_new_plan() {
    let (runtime, _) = paper();
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let other = alloc(&runtime, Home::Device(0), 64);
    for (victim, tries, good) in [(other, 2, true), (device, 2, false)] {
        let mut asked = 0;
        // SAFETY: paper moves nothing.
        let result = unsafe {
            stream.submit(|_| {
                asked += 1;
                let made = plan(&runtime, Rows::linear(device.base, host.base, 64))?;
                if asked == 1 {
                    runtime.free(victim.base, |_| Ok(())).map_err(Misfit::from)?;
                }
                Ok::<_, Misfit>(Op::Copy(made))
            })
        };
        assert_eq!((asked, result.is_ok()), (tries, good), "freed {victim}");
    }
}

#[test]
fn observers_see_allocations_and_ops_in_the_order_of_their_tickets() {
    let (runtime, log) = paper();
    let block = alloc(&runtime, Home::Device(0), 64);
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    stream.call(|| ()).expect("queued");
    let mark = stream.mark().expect("a mark");
    stream.wait_for(mark).expect("queued");
    stream.status().pass(1);
    stream.status().fail(Kind::Device.because("the second"));
    stream.status().pass(2);
    stream.status().drop_through(3);
    stream.status().pass(3);
    assert_eq!(stream.is_idle(), Ok(true));
    runtime.free(block.base, |_| Ok(())).expect("frees");
    drop(stream);
    let base = block.base;
    let want = [
        format!("known {base:#x}"),
        "stream 0 of device 0".into(),
        "made 0.1 Call".into(),
        "submitted 0.1".into(),
        "made 0.2 Mark".into(),
        "submitted 0.2".into(),
        "made 0.3 Wait for op 2 of stream 0".into(),
        "submitted 0.3".into(),
        "passed 0.1 Done".into(),
        "passed 0.2 Failed".into(),
        "passed 0.3 Dropped".into(),
        "joined 0.3 Query".into(),
        format!("forgotten {base:#x}"),
        format!("reused {base:#x}"),
        format!("gone {base:#x}"),
        "stream 0 is gone".into(),
    ];
    assert_eq!(*log.lock().unwrap(), want);
}

#[test]
fn nothing_comes_between_a_mark_and_the_wait_that_belongs_to_it() {
    let (runtime, log) = paper();
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    std::thread::scope(|scope| {
        let others = scope.spawn(|| (0..2000).for_each(|_| assert!(stream.call(|| ()).is_ok())));
        while !others.is_finished() {
            stream.mark_and_wait(|_| Gate::new()).expect("queued");
        }
    });
    stream.mark_and_wait(|_| Gate::new()).expect("queued");
    let log = log.lock().unwrap().join("\n");
    let made: Vec<&str> = log.lines().filter(|line| line.starts_with("made")).collect();
    let of = |index: usize, name: &str| made.get(index).is_some_and(|line| line.ends_with(name));
    let marks = (0..made.len()).filter(|index| of(*index, "Mark"));
    assert!(marks.clone().count() > 0 && marks.clone().all(|mark| of(mark + 1, "Wait")));
}

#[test]
fn a_plan_made_by_several_calls_is_visible_to_all_threads() {
    let (runtime, _) = paper();
    let [dst, src] = [(); 2].map(|()| alloc(&runtime, Home::Device(0), 1 << 16));
    let rows = |number: usize| Rows::linear(dst.base + 64 * number, src.base + 128 * number, 32);
    let run = |plan: &mut Plan, number: usize| {
        let (dsts, srcs) = ([rows(number).dst], [rows(number).src]);
        plan.extend_runs(
            number,
            &Runs { dsts: &dsts, srcs: &srcs, lens: &[32], rooms: &[32] },
            runtime.memory(),
            any,
        )
    };
    let mut plan = Plan::default();
    plan.extend(0, (0..100).map(rows), runtime.memory(), any).expect("planned");
    for (number, extend) in [(100, true), (101, false), (102, true), (103, false)] {
        match extend {
            true => plan.extend(number, [rows(number)], runtime.memory(), any),
            false => run(&mut plan, number),
        }
        .expect("planned");
        let sink = plan.sink().expect("a sink").native().downcast_mut::<PaperSink>().expect("paper");
        assert_eq!((sink.finished, sink.segments.len()), (number + 1, number + 1));
    }
}
