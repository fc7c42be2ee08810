//! Facts on their way from a process that writes them to one that reads them.

use ferry_watch::{
    Fact, FactReader, FactSource,
    buffers::{BUFFER_BYTES, Buffers, Wanted},
    clock::{Rate, Sample, ticks},
    collector::Collector,
    fact::*,
    words,
    writer::FactWriter,
};
use std::{
    fs::File,
    os::{fd::FromRawFd, unix::fs::MetadataExt},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

#[derive(Default)]
struct All(Vec<(FactSource, Fact)>);

impl FactReader for All {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        if !matches!(fact, Fact::Thread(_)) {
            self.0.push((source, fact.clone()));
        }
    }
}

/// A file without a name.
fn file() -> File {
    // SAFETY: the name is a C string; the descriptor is ours.
    unsafe { File::from_raw_fd(libc::memfd_create(c"facts".as_ptr(), libc::MFD_CLOEXEC)) }
}

fn begun(stream: u32, ticket: u64) -> Fact {
    Fact::Begun { time: ticks(), point: Point { stream, ticket } }
}

/// One fact of each kind, with every number different.
fn one_of_each() -> Vec<Fact> {
    let point = Point { stream: 3, ticket: 1 << 40 };
    let site = CallSite { function: 7, caller: 0x5555_0000_1234, begin: 1_000_000, stack: 9 };
    let route = Route { src: None, dst: Some(2), is_pageable: true };
    let piece = Piece { dst: 0x1000, src: 0x2000, len: 48 };
    let (time, task) = (1_234_567, TaskId { graph: 4, task: 5 });
    let works = [
        Work::Nothing,
        Work::Mark,
        Work::Function,
        Work::Linear { route, piece },
        Work::Rows { route, rows: Rows { dst: 1, dst_pitch: 2, src: 3, src_pitch: 4, width: 5, height: 6 } },
        Work::Batch { route, count: 9, bytes: 99, pieces: vec![piece, Piece { dst: 1, src: 2, len: 3 }] },
        Work::Through { device: 1, cells: [5, 6], len: 7 },
        Work::Fill { dst: 8, len: 9, pattern: [1, 2, 3, 4], device: None },
        Work::Fill { dst: 8, len: 9, pattern: [255; 4], device: Some(0) },
        Work::Reduce { device: 3, piece, combine: 2, element: 6 },
    ];
    let awaits = vec![Awaited::Point(point), Awaited::Later(u64::MAX), Awaited::Outside];
    let block = Block { base: 1, at: 2, len: 3, padding: 1, device: Some(0), origin: Origin::Mapped };
    let mut facts: Vec<Fact> = works
        .into_iter()
        .map(|work| {
            let awaits = awaits.clone();
            Fact::Submitted(SubmittedOp { time, point, site, awaits, work, task: Some(task) })
        })
        .collect();
    facts.extend([
        Fact::Started(Started {
            time,
            epoch: 5,
            parent: 6,
            devices: 2,
            backend: "host".into(),
            command: "täglich ./prog -x".into(),
        }),
        Fact::Functions("aclrtMemcpy\naclrtFree".into()),
        Fact::Module(LoadedFile { base: 1, end: 2, offset: 3, path: "/lib/x.so".into() }),
        Fact::Thread("loader".into()),
        Fact::Stack { number: 8, frames: vec![1, 2, 3] },
        Fact::Line(Line { number: 1, line: 77, file: "a.py".into(), function: "main".into() }),
        Fact::Ended { time },
        Fact::Call(Call { site, end: time, blocked: 55, code: -7 }),
        Fact::StreamMade(StreamMade { time, stream: 1, device: 2, purpose: StreamPurpose::Graph, handle: 3 }),
        Fact::StreamGone { time, stream: 1 },
        Fact::Known { time, site, block },
        Fact::Forgotten { time, site, base: 9 },
        Fact::Reused { time, base: 9, at: 10 },
        Fact::PhysicalNamed { time, site, at: 10, len: 11 },
        Fact::PhysicalFreed { time, at: 12 },
        Fact::Lent { time, base: 13, key: 14 },
        Fact::JoinedOutside { time },
        Fact::Failure { time, site, code: -15, message: "no".into() },
        Fact::WorkFailed { time, point, message: "0x10 is no memory".into() },
        Fact::MorePieces { point, pieces: vec![piece; 3] },
        Fact::Refused { time, stream: 3, site, work: Work::Mark },
        Fact::Begun { time, point },
        Fact::Passed(Passed { point, begin: 1, end: 2, outcome: Outcome::Dropped, together: 9, engine: 2 }),
        Fact::Resolved { time, point, piece },
        Fact::Bound { time, promise: 1, point: Some(point) },
        Fact::Bound { time, promise: 1, point: None },
        Fact::Joined(Joined { time, point, site, how: Join::Query }),
        Fact::CaptureBegun { time, site, graph: 1, stream: 2 },
        Fact::Captured(Captured { time, site, task, branch: 3, work: Work::Function }),
        Fact::CaptureEnded { time, site, graph: 1, is_graph: true },
        Fact::Launched { time, site, graph: 1, point },
        Fact::Contents { point, end: End::Destination, hash: u64::MAX },
        Fact::Bytes { point, end: End::Source, offset: 5, bytes: vec![9; 13] },
        Fact::Access(HostAccess {
            time,
            thread: 77,
            address: 0x7f00_0000_1001,
            len: 32,
            is_write: true,
            point,
            is_destination: false,
            stack: 12,
            is_system_call: true,
            is_unmapped: true,
        }),
        Fact::Touched(TouchedBytes {
            time,
            site,
            address: 0x7f00_0000_2002,
            len: 4096,
            is_write: false,
            point,
            is_destination: true,
        }),
        Fact::DevicePointer { time, thread: 78, address: 0x7e00_0000_0000, is_write: true, stack: 13 },
        Fact::Opened { time, count: 14 },
        Fact::Unseen { reason: "no userfaultfd".into() },
        Fact::Lost { count: 3 },
    ]);
    facts
}

/// Ticks that are nanoseconds.
fn plain_rate() -> Rate {
    Rate::between(Sample { ticks: 1, nanos: 1 }, Sample { ticks: 1001, nanos: 1001 })
}

#[test]
fn every_fact_is_the_same_after_its_way_through_words() {
    for fact in one_of_each() {
        let mut written = Vec::new();
        let kind = words::write(&fact, &mut written);
        assert_eq!(words::read(words::head(kind, 1 + written.len(), 0), &written, &plain_rate()), Some(fact));
    }
}

#[test]
fn words_that_are_cut_or_bent_are_another_fact_or_none() {
    let mut unread = 0;
    for fact in one_of_each() {
        let mut written = Vec::new();
        let kind = words::write(&fact, &mut written);
        for len in 0..written.len() {
            unread += usize::from(words::read(kind.into(), &written[..len], &plain_rate()).is_none());
            for bent in [u64::MAX, 1 << 63, 255, 0] {
                let mut other = written.clone();
                other[len] = bent;
                let _ = words::read(kind.into(), &other, &plain_rate());
            }
        }
        assert_eq!(words::read(1000, &written, &plain_rate()), None);
    }
    assert!(unread > 100, "most facts cannot be read when they are cut: {unread}");
}

#[test]
fn a_reader_gets_all_facts_of_several_threads_in_the_order_of_each() {
    const EACH: u64 = 20_000;
    let file = file();
    let buffers = Buffers::create(&file, 64 * BUFFER_BYTES, Wanted::default()).expect("a file");
    let (writer, mut collector, mut all) =
        (FactWriter::open(&file).expect("it"), Collector::new(buffers), All::default());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|stream| {
                let writer = &writer;
                scope.spawn(move || (1..=EACH).for_each(|ticket| writer.write(&begun(stream, ticket))))
            })
            .collect();
        let (reader, is_over) = ((&mut collector, &mut all), &is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::Acquire) {
                reader.0.poll(reader.1);
                thread::yield_now();
            }
            reader.0.finish(reader.1);
        });
        writers.into_iter().for_each(|writer| writer.join().expect("it returns"));
        is_over.store(true, Ordering::Release);
    });
    let lost = collector.lost();
    let mut next = [1; 4];
    for (_, fact) in &all.0 {
        let Fact::Begun { point, .. } = fact else { continue };
        assert!(point.ticket >= next[point.stream as usize], "{point:?} after {next:?}");
        next[point.stream as usize] = point.ticket + 1;
    }
    let found = all.0.iter().filter(|(_, fact)| matches!(fact, Fact::Begun { .. })).count() as u64;
    assert_eq!(found + lost, 4 * EACH);
    let told = all.0.iter().find_map(|(_, fact)| match fact {
        Fact::Lost { count } => Some(*count),
        _ => None,
    });
    assert_eq!(told, (lost > 0).then_some(lost));
}

#[test]
fn a_thread_whose_first_fact_has_no_time_does_not_overtake_others() {
    let file = file();
    let buffers = Buffers::create(&file, 4 << 20, Wanted::default()).expect("a file");
    let writer = FactWriter::open(&file).expect("buffers");
    let point = Point { stream: 1, ticket: 1 };
    writer.write(&begun(1, 1));
    thread::scope(|scope| {
        scope.spawn(|| writer.write(&Fact::Contents { point, end: End::Source, hash: 7 }));
    });
    let mut all = All::default();
    Collector::new(buffers).finish(&mut all);
    let kinds: Vec<_> = all.0.iter().map(|(_, fact)| matches!(fact, Fact::Contents { .. })).collect();
    assert_eq!(kinds, [false, true]);
}

#[test]
fn what_finds_no_room_is_counted() {
    let file = file();
    let buffers = Buffers::create(&file, 2 * BUFFER_BYTES, Wanted::default()).expect("a file");
    let (writer, mut collector, mut all) =
        (FactWriter::open(&file).expect("it"), Collector::new(buffers), All::default());
    const COUNT: u64 = 10_000;
    (1..=COUNT).for_each(|ticket| writer.write(&begun(0, ticket)));
    collector.finish(&mut all);
    let kept = all.0.len() as u64 - 1;
    assert!(kept > 1000 && kept < COUNT, "{kept}");
    assert_eq!(all.0.last().map(|(_, fact)| fact.clone()), Some(Fact::Lost { count: COUNT - kept }));
    writer.write(&begun(0, COUNT + 1));
    collector.finish(&mut all);
    assert!(matches!(all.0.last(), Some((_, Fact::Begun { .. }))), "there is room again");
}

/// Waits on the writer now and then, as one does whose judgement takes long.
struct SlowReader<'a> {
    /// How many facts were written so far.
    written: &'a AtomicU64,
    taken: u64,
    /// How far the writer has to come before the reader goes on.
    goal: u64,
}

impl SlowReader<'_> {
    const FACTS: u64 = 800_000;
    /// Facts in twenty buffers, roughly.
    const A_LOT: u64 = 40_000;
}

impl FactReader for SlowReader<'_> {
    fn take(&mut self, _: FactSource, fact: &Fact) {
        self.taken += u64::from(matches!(fact, Fact::Begun { .. }));
        match self.taken % 8192 {
            0 => {
                let written = self.written.load(Ordering::Acquire);
                self.goal = (written + SlowReader::A_LOT).min(SlowReader::FACTS);
            }
            4096 => {
                let began = Instant::now();
                while self.written.load(Ordering::Acquire) < self.goal {
                    let waited = began.elapsed();
                    assert!(waited < Duration::from_secs(20), "the writer waits behind {}", self.goal);
                    thread::yield_now();
                }
            }
            _ => {}
        }
    }
}

#[test]
fn a_program_is_never_far_ahead_of_its_reader_nor_held_up_by_one_that_judges() {
    let (file, written) = (file(), AtomicU64::new(0));
    let wanted = Wanted { complete: true, ..Wanted::default() };
    let buffers = Buffers::create(&file, 1024 * BUFFER_BYTES, wanted).expect("a file");
    let (writer, collector) = (FactWriter::open(&file).expect("it"), Collector::new(buffers));
    let (mut collector, mut reader) =
        (collector.with_delay(0), SlowReader { written: &written, taken: 0, goal: 0 });
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for ticket in 1..=SlowReader::FACTS {
                writer.write(&begun(1, ticket));
                written.store(ticket, Ordering::Release);
            }
        });
        while written.load(Ordering::Acquire) < SlowReader::A_LOT {
            thread::yield_now();
        }
        while !writing.is_finished() {
            collector.poll(&mut reader);
        }
    });
    collector.finish(&mut reader);
    assert_eq!((reader.taken, collector.lost()), (SlowReader::FACTS, 0));
    // All of the facts have 25 MiB.
    let bytes = file.metadata().expect("an open file").blocks() * 512;
    assert!(bytes < 3 << 20, "{bytes} bytes of buffers were used");
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_was_written() {
    let file = file();
    let buffers = Buffers::create(&file, 8 * BUFFER_BYTES, Wanted { pieces: true, ..Wanted::default() })
        .expect("a file");
    let mut collector = Collector::new(buffers);
    // SAFETY: the child calls nothing that a child of a process with threads must not: it opens a mapping,
    // writes to it and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let writer = FactWriter::open(&file).expect("it");
        (1..=100).for_each(|ticket| writer.write(&begun(7, ticket)));
        // SAFETY: as above.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    unsafe { libc::waitpid(child, &mut status, 0) };
    let mut all = All::default();
    collector.finish(&mut all);
    assert_eq!(all.0.len(), 100);
    assert!(all.0.iter().all(|(source, _)| source.process == child as u32));
    collector.close_those_of(|source| source.process == child as u32);
    collector.poll(&mut all);
    assert_eq!(all.0.len(), 100, "not twice");
}

#[test]
fn a_forked_child_writes_nothing_into_the_buffers_of_its_parent() {
    let file = file();
    let buffers = Buffers::create(&file, 8 * BUFFER_BYTES, Wanted::default()).expect("a file");
    let mut collector = Collector::new(buffers);
    let writer = FactWriter::open(&file).expect("it");
    writer.write(&begun(0, 1));
    // SAFETY: the child only reads and writes memory, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        writer.write(&begun(1, 1));
        // SAFETY: it ends the child.
        unsafe { libc::_exit(i32::from(writer.is_here())) };
    }
    let mut status = 1;
    // SAFETY: the child is ours.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0, "the child knows that it is one");
    writer.write(&begun(0, 2));
    let mut all = All::default();
    collector.finish(&mut all);
    let tickets: Vec<_> = all.0.iter().map(|(_, fact)| format!("{fact:?}").contains("stream: 0")).collect();
    assert_eq!(tickets, [true, true]);
}

#[test]
fn the_short_forms_say_what_the_long_ones_say() {
    let file = file();
    let buffers = Buffers::create(&file, 8 * BUFFER_BYTES, Wanted::default()).expect("a file");
    let (writer, mut collector, mut all) =
        (FactWriter::open(&file).expect("it"), Collector::new(buffers), All::default());
    let route = |is_pageable| Route { src: None, dst: Some(1), is_pageable };
    let piece = |len| Piece { dst: 0x7fff_0000_1000, src: 0x1000, len };
    let point = |ticket| Point { stream: 5, ticket };
    let cases = [(1, false, 64), (2, true, 64), (3, false, 1 << 50), (4, false, (1 << 48) - 1)];
    for (ticket, is_pageable, len) in cases {
        writer.submitted_linear(point(ticket), route(is_pageable), piece(len));
    }
    writer.begun(point(1), false);
    for ticket in 1..=4 {
        writer.passed(point(ticket), if ticket == 3 { Outcome::Failed } else { Outcome::Done });
    }
    writer.suspended(point(5));
    writer.passed(point(5), Outcome::Dropped);
    writer.passed(point(9), Outcome::Done);
    collector.finish(&mut all);
    let facts: Vec<Fact> = all.0.into_iter().map(|(_, fact)| fact).collect();
    let submitted = facts.iter().filter_map(|fact| match fact {
        Fact::Submitted(op) => {
            assert_eq!(op.site.begin, op.time, "a call on the fast path begins when its op is taken");
            Some((op.point.ticket, op.work.clone()))
        }
        _ => None,
    });
    let want = cases
        .map(|(ticket, pageable, len)| (ticket, Work::Linear { route: route(pageable), piece: piece(len) }));
    assert_eq!(submitted.collect::<Vec<_>>(), want);
    let passed: Vec<Passed> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Passed(passed) => Some(*passed),
            _ => None,
        })
        .collect();
    let outcomes: Vec<_> = passed.iter().map(|passed| (passed.point.ticket, passed.outcome)).collect();
    let want = [1, 2, 4].map(|ticket| (ticket, Outcome::Done));
    assert_eq!(
        outcomes,
        [want[0], want[1], (3, Outcome::Failed), want[2], (5, Outcome::Dropped), (9, Outcome::Done)]
    );
    for pair in passed[..4].windows(2) {
        assert!(pair[0].begin > 0 && pair[0].end == pair[1].begin, "one follows the other: {pair:?}");
    }
    let begun = facts.iter().find_map(|fact| match fact {
        Fact::Begun { time, point } => Some((*time, point.ticket)),
        _ => None,
    });
    assert_eq!(begun, Some((passed[3].end, 5)), "told when it took long");
    assert_eq!((passed[4].begin, passed[5].begin), (0, 0), "not known here");
}

#[test]
fn calls_joins_and_ops_that_pass_together_have_short_forms() {
    let file = file();
    let buffers = Buffers::create(&file, 8 * BUFFER_BYTES, Wanted::default()).expect("a file");
    let (writer, mut collector) = (FactWriter::open(&file).expect("it"), Collector::new(buffers));
    let (now, point) = (ticks(), Point { stream: 3, ticket: 7 });
    for stack in [0, 6] {
        let site = CallSite { function: 9, caller: 0x1234, begin: now, stack };
        writer.returned(&Call { site, end: now, blocked: 0, code: -5 });
        writer.joined(&Joined { time: now, point, site, how: Join::Query });
    }
    let last = Passed { point, begin: now, end: now, outcome: Outcome::Done, together: 3, engine: 2 };
    writer.passed_together(5, &last);
    let mut all = All::default();
    collector.finish(&mut all);
    let facts: Vec<Fact> = all.0.into_iter().map(|(_, fact)| fact).collect();
    let [Fact::Call(short), Fact::Joined(short_join), Fact::Call(long), Fact::Joined(long_join), rest @ ..] =
        &facts[..]
    else {
        panic!("{facts:?}")
    };
    assert_eq!((short.code, short.site.function, short.site.caller, short.end > 0), (-5, 9, 0x1234, true));
    assert_eq!(*long, Call { site: CallSite { stack: 6, ..short.site }, ..*short });
    assert_eq!((short_join.point, short_join.how, short_join.site), (point, Join::Query, short.site));
    assert_eq!(*long_join, Joined { site: CallSite { stack: 6, ..short_join.site }, ..*short_join });
    let passed = rest.iter().map(|fact| match fact {
        Fact::Passed(passed) => {
            (passed.point.ticket, passed.together, passed.engine, passed.begin == passed.end)
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(passed.collect::<Vec<_>>(), [5, 6, 7].map(|ticket| (ticket, 3, 2, true)));
}

#[test]
fn other_files_are_refused() {
    let empty = file();
    assert!(Buffers::open(&empty).is_err());
    let other = file();
    other.set_len(1 << 20).expect("room");
    let why = Buffers::open(&other).err().expect("refused").to_string();
    assert!(why.contains("no file of facts"), "{why}");
    let good = file();
    drop(Buffers::create(&good, 4 * BUFFER_BYTES, Wanted::default()).expect("a file"));
    assert!(Buffers::open(&good).is_ok());
    good.set_len(4096 + 2 * BUFFER_BYTES as u64).expect("cut");
    assert!(Buffers::open(&good).is_err(), "cut");
}
