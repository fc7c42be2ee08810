//! Streams of another library. A second runtime of the process stands for that: the driver is all that the
//! two share.

use super::*;
use ferry_backends::os::files::Kept;
use ferry_core::{Origin, Shared};
use std::{
    fs::File,
    hint,
    io::{BufRead, BufReader, Read},
    os::fd::OwnedFd,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

const ROUNDS: usize = 2000;

/// A stream of another library, and what the driver calls it.
fn theirs(other: &Runtime) -> (Arc<Stream>, usize) {
    let stream = other.stream(0, QueueOptions::default()).expect("a stream");
    let native = stream.share().expect("shared");
    (stream, native)
}

fn adopt(gpu: &Runtime, native: usize) -> Arc<Stream> {
    // SAFETY: every test keeps the other stream until it is done with this one.
    unsafe { gpu.adopt(None, 0, native) }.expect("adopted")
}

/// The driver gives the handle of a stream that is gone to the next one, or crashes. The stand-in ends the
/// process.
#[test]
fn a_stream_that_its_owner_has_destroyed_is_never_asked() {
    let test = "a_stream_that_its_owner_has_destroyed_is_never_asked";
    let (Some(gpu), Some(other)) = (gpu(test), gpu(test)) else { return };
    let (their_stream, native) = theirs(&other);
    let ours = adopt(&gpu, native);
    let (slot, from, to) = (device(&gpu, DESCRIPTOR_LEN), device(&gpu, 4096), device(&gpu, 4096));
    let words = locked(&gpu, &descriptor(&gpu, to.base, from.base, 4096));
    submit(&ours, || Op::Fill(Fill { dst: from.at, len: 4096, pattern: [7; 4], device: Some(0) }));
    linear(&ours, slot.base, words.base, DESCRIPTOR_LEN);
    submit(&ours, || through(Through::Descriptor { at: slot.at, user: slot.base }));
    ours.call(|| ()).expect("submitted");
    let (fence, mark, after) = (ours.fence().expect("a fence"), ours.mark().expect("marked"), ours.newest());
    ours.synchronize(MINUTE).expect("done");
    let behind = ours.fence_after(after - 1);
    drop(ours);
    drop((their_stream, other));
    // What is left of ours goes when the next stream comes.
    let next = stream(&gpu);
    linear(&next, to.base, from.base, 4096);
    next.wait_for(mark.clone()).expect("submitted");
    assert!(fence.is_done() && mark.is_done() && behind.is_done() && mark.reached_us().is_some());
    gpu.free(slot.base, |_| Ok(())).expect("freed");
    next.synchronize(MINUTE).expect("done");
    assert!(fetch(&gpu, to.base, 4096) == [7; 4096]);
}

/// Beside a stream that is held no kernel runs: it might come behind that stream on its way into the GPU.
#[test]
fn a_copy_that_meets_itself_needs_no_kernel_beside_a_shared_stream() {
    lost::in_child("adopted::meets_itself", &[("STANDIN_FAIL", "cuLaunchKernel:1:1")]);
}

#[test]
#[ignore = "run by a_copy_that_meets_itself_needs_no_kernel_beside_a_shared_stream"]
fn meets_itself() {
    let Some(gpu) = gpu("meets_itself") else { return };
    let (stream, cells) = (theirs(&gpu).0, alloc(&gpu, Home::Host, 16));
    for (len, from, to) in
        [(100_000, 0, 1), (100_000, 1, 0), (3 * MIB, 0, 64), (3 * MIB, 70_001, 0), (5, 0, 3), (9, 4, 4)]
    {
        let mut want = noise(len, len + from + to);
        let (start, there) = (locked(&gpu, &want), device(&gpu, want.len()));
        linear(&stream, there.base, start.base, want.len());
        // SAFETY: 16 bytes of page-locked memory that nothing in flight uses.
        unsafe { ptr::write(cells.base as *mut [usize; 2], [there.base; 2]) };
        let cell =
            |index: usize, offset| Cell { at: cells.at + 8 * index, user: cells.base + 8 * index, offset };
        submit(&stream, || through(Through::Cells { dst: cell(0, to), src: cell(1, from), len }));
        stream.synchronize(MINUTE).expect("done");
        want.copy_within(from..from + len, to);
        assert!(fetch(&gpu, there.base, want.len()) == want, "{len} bytes from {from} to {to}");
    }
}

/// A point at the end of its stream has no event until somebody needs one, and may be refused it. Then the
/// host waits; and all the same their copy comes after what we put into the stream before.
#[test]
fn a_fence_without_an_event_holds_up_their_work() {
    lost::in_child("adopted::without_an_event", &[("STANDIN_FAIL", "cuEventRecord:2:1")]);
}

#[test]
#[ignore = "run by a_fence_without_an_event_holds_up_their_work"]
fn without_an_event() {
    let test = "without_an_event";
    let (Some(gpu), Some(other)) = (gpu(test), gpu(test)) else { return };
    let (held, ours) = (theirs(&gpu).0, theirs(&gpu).0);
    let (busy, there) = (gpu.stream(0, QueueOptions::default()).expect("a stream"), device(&gpu, 4096));
    let fill = |byte| Op::Fill(Fill { dst: there.at, len: 4096, pattern: [byte; 4], device: Some(0) });
    let (their_stream, target) = (adopt(&other, ours.share().expect("shared")), locked(&other, &[0; 4096]));
    let open = block(&held);
    busy.wait_for(held.fence().expect("a fence")).expect("submitted");
    submit(&busy, || fill(1));
    ours.wait_for(busy.fence().expect("a fence")).expect("submitted");
    submit(&ours, || fill(2));
    linear(&their_stream, target.base, there.base, 4096);
    drop(open);
    their_stream.synchronize(MINUTE).expect("done");
    assert!(read(&target) == [2; 4096]);
    ours.synchronize(MINUTE).expect("done");
}

/// Runs the two at the same time, one of them a little later than the other.
fn race<A: Send, B: Send>(
    round: usize,
    one: impl FnOnce() -> A + Send,
    two: impl FnOnce() -> B + Send,
) -> (A, B) {
    let start = Barrier::new(2);
    let spin = |turns: usize| {
        start.wait();
        (0..turns).for_each(|_| hint::spin_loop());
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            spin(round * 7 % 200);
            one()
        });
        spin(round * 13 % 200);
        let second = two();
        (first.join().expect("no panic"), second)
    })
}

/// A fence of some work does not wait for a function that is submitted while the fence is made.
#[test]
fn a_fence_is_never_behind_a_function_that_comes_at_the_same_time() {
    let test = "a_fence_is_never_behind_a_function_that_comes_at_the_same_time";
    let Some(gpu) = gpu(test) else { return };
    let (stream, other, there) = (theirs(&gpu).0, stream(&gpu), device(&gpu, 64));
    for round in 0..ROUNDS {
        let flag = Arc::new(Flag::default());
        stream.wait_for(flag.clone()).expect("submitted");
        submit(&stream, || Op::Fill(Fill { dst: there.at, len: 64, pattern: [1; 4], device: Some(0) }));
        let ticket = stream.newest();
        let (open, fence) = race(round, || block(&stream), || stream.fence_after(ticket));
        other.wait_for(fence).expect("submitted");
        flag.raise();
        other.synchronize(Some(Duration::from_secs(60))).expect("the function waits for us");
        drop(open);
        stream.synchronize(MINUTE).expect("done");
    }
}

/// An abort and a function that come at the same time: the function runs, or the stream tells that it was
/// dropped; and the abort does not wait for it.
#[test]
fn a_function_that_comes_with_an_abort_runs_or_is_told_of() {
    let Some(gpu) = gpu("a_function_that_comes_with_an_abort_runs_or_is_told_of") else { return };
    let (stream, dropped) = (theirs(&gpu).0, AtomicUsize::new(0));
    for round in 0..ROUNDS {
        let ran = Arc::new(AtomicBool::new(false));
        let (open, closed) = mpsc::channel::<()>();
        let (told, hear) = mpsc::channel();
        let (told_of, aborted) = (ran.clone(), stream.clone());
        let function = move || {
            while closed.recv().is_ok() {}
            told_of.store(true, Ordering::SeqCst);
        };
        let abort = move || {
            aborted.abort();
            told.send(()).expect("heard");
        };
        race(round, || stream.call(function).expect("submitted"), || thread::spawn(abort));
        hear.recv_timeout(Duration::from_secs(60)).expect("an abort that does not wait for the function");
        drop(open);
        match stream.synchronize(MINUTE).map_err(|why| why.kind) {
            Ok(()) => assert!(ran.load(Ordering::SeqCst), "round {round}: dropped, and nobody was told"),
            Err(kind) => {
                assert_eq!(kind, Kind::Aborted, "round {round}");
                dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    println!("{} of {ROUNDS} functions were dropped", dropped.into_inner());
}

/// Who reads a descriptor is decided once: what was put into a shared stream is in the CUDA stream, whatever
/// changes meanwhile.
#[test]
fn a_descriptor_stays_in_the_stream_when_failures_come_to_stop_all() {
    let test = "a_descriptor_stays_in_the_stream_when_failures_come_to_stop_all";
    let (Some(gpu), Some(other)) = (gpu(test), gpu(test)) else { return };
    let (slot, from, to) = (device(&gpu, DESCRIPTOR_LEN), device(&gpu, 64), device(&gpu, 64));
    let words = locked(&gpu, &descriptor(&gpu, to.base, from.base, 64));
    let start = stream(&gpu);
    submit(&start, || Op::Fill(Fill { dst: from.at, len: 64, pattern: [7; 4], device: Some(0) }));
    linear(&start, slot.base, words.base, DESCRIPTOR_LEN);
    start.synchronize(MINUTE).expect("done");
    for round in 0..ROUNDS / 10 {
        let (halt, target) = (Halt::new(), locked(&other, &[0; 64]));
        let ours = gpu.stream_under(Some(&halt), 0, QueueOptions::default()).expect("a stream");
        let their_stream = adopt(&other, ours.share().expect("shared"));
        submit(&ours, || Op::Fill(Fill { dst: to.at, len: 64, pattern: [1; 4], device: Some(0) }));
        let copy = || through(Through::Descriptor { at: slot.at, user: slot.base });
        let follow = || {
            submit(&ours, copy);
            linear(&their_stream, target.base, to.base, 64);
        };
        let change = || {
            // Somebody else asks, and holds the lock of the stream for a moment.
            (0..round % 4).for_each(|_| drop(ours.fence_after(1)));
            ours.status().stop_all_on_failure();
            (0..4).for_each(|_| drop(ours.fence_after(1)));
        };
        race(round, follow, change);
        their_stream.synchronize(MINUTE).expect("done");
        assert!(read(&target) == [7; 64], "round {round}: their copy overtook ours");
        ours.synchronize(MINUTE).expect("done");
        other.free(target.base, |_| Ok(())).expect("freed");
    }
}

/// Does something on a thread of its own that must not wait for what we do next.
pub fn at_once<T: Send + 'static>(what: &str, task: impl FnOnce() -> T + Send + 'static) -> T {
    let (told, hear) = mpsc::channel();
    thread::spawn(move || told.send(task()));
    hear.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{what} waits for the held stream"))
}

/// Fresh memory of the user's at `wish`, or anywhere if that is 0, that holds this byte.
fn pages(wish: usize, len: usize, byte: u8) -> usize {
    let (rights, fixed) = (libc::PROT_READ | libc::PROT_WRITE, if wish == 0 { 0 } else { libc::MAP_FIXED });
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed;
    // SAFETY: new memory, or in place of memory of this test that nothing uses.
    let at = unsafe { libc::mmap(wish as *mut _, len, rights, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    // SAFETY: just made.
    unsafe { ptr::write_bytes(at.cast::<u8>(), byte, len) };
    at as usize
}

/// The driver waits for all streams to unlock pages, and a stream that is held may wait for us. So they are
/// unlocked later; until then nobody sees the old pages, even if there is other memory at their addresses.
#[test]
fn memory_is_unregistered_while_a_shared_stream_is_held() {
    let Some(gpu) = gpu("memory_is_unregistered_while_a_shared_stream_is_held") else { return };
    let (gpu, len) = (Arc::new(gpu), 2 * MIB);
    let (held, other, there) = (theirs(&gpu).0, stream(&gpu), device(&gpu, len));
    let base = pages(0, len, 1);
    gpu.register(base, len).expect("registered");
    linear(&other, there.base, base, len);
    other.synchronize(MINUTE).expect("done");
    let open = block(&held);
    let also = gpu.clone();
    at_once("unregistering", move || also.free(base, |_| Ok(()))).expect("unregistered");
    assert_eq!(gpu.memory().place(base, len, Access::Write), Ok(Place::Plain));
    pages(base, len, 2);
    let also = gpu.clone();
    let refused = at_once("registering", move || also.register(base, len)).map_err(|why| why.kind);
    assert_eq!(refused, Err(Kind::OutOfMemory), "not as long as the old pages are locked");
    if !are_shared() {
        for size in [len, 4096] {
            linear(&other, there.base, base, size);
            other.synchronize(MINUTE).expect("done");
            assert!(fetch(&gpu, there.base, size) == vec![2; size], "{size} bytes of the new pages");
        }
    }
    drop(open);
    held.synchronize(MINUTE).expect("done");
    pages(base, len, 3);
    gpu.register(base, len).expect("registered again");
    linear(&other, there.base, base, len);
    other.synchronize(MINUTE).expect("done");
    assert!(fetch(&gpu, there.base, len) == vec![3; len]);
    gpu.free(base, |_| Ok(())).expect("unregistered");
}

/// Whoever waits for a stream that waited for a copy knows that the copy has passed, and may unmap its
/// memory: so must we, though the copy's own stream has gone on and stands still.
#[test]
fn a_copy_that_another_stream_waited_for_has_passed() {
    let Some(gpu) = gpu("a_copy_that_another_stream_waited_for_has_passed") else { return };
    let (held, first, second) = (theirs(&gpu).0, stream(&gpu), stream(&gpu));
    let (host, there) = (locked(&gpu, &[5; MIB]), device(&gpu, MIB));
    linear(&first, there.base, host.base, MIB);
    let copy = first.newest();
    second.wait_for(first.mark().expect("marked")).expect("submitted");
    linear(&second, host.base, there.base, MIB);
    let open = block(&held);
    first.wait_for(held.fence().expect("a fence")).expect("submitted");
    linear(&first, there.base, host.base, MIB);
    first.mark().expect("marked");
    second.synchronize(MINUTE).expect("done");
    assert!(first.has_passed(copy));
    drop(open);
    first.synchronize(MINUTE).expect("done");
}

/// Another process that lends device memory.
struct Lender(Child, BufReader<ChildStdout>);

impl Lender {
    /// Starts it; the lent memory as it comes from there.
    fn start(len: usize) -> (Lender, Shared) {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "adopted::lends", "--ignored", "--nocapture"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("started");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let says = |line: String| line.split_once("lends ").map(|(_, path)| path.to_owned());
        let path = out.by_ref().lines().map_while(|line| line.ok()).find_map(says).expect("it lends");
        let file = OwnedFd::from(File::open(path).expect("its file"));
        (
            Lender(child, out),
            Shared { file: Arc::new(Kept::open(|| Ok(file)).expect("open")), offset: 0, len },
        )
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // Until it ends.
        let _ = self.1.read_to_end(&mut Vec::new());
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "run by memory_of_another_process_is_closed_while_a_shared_stream_is_held"]
fn lends() {
    let Some(gpu) = gpu("lends") else { return };
    let shared = gpu.backend().sharing().expect("shares").share(&device(&gpu, MIB)).expect("shared");
    println!(
        "lends /proc/{}/fd/{}",
        std::process::id(),
        std::os::fd::AsRawFd::as_raw_fd(&shared.file.get().expect("open"))
    );
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn memory_of_another_process_is_closed_while_a_shared_stream_is_held() {
    let Some(gpu) = gpu("memory_of_another_process_is_closed_while_a_shared_stream_is_held") else { return };
    let gpu = Arc::new(gpu);
    let (_lender, shared) = Lender::start(MIB);
    let held = theirs(&gpu).0;
    let sharing = gpu.backend().sharing().expect("shares");
    let import = || sharing.import(&shared, 0, Origin::Imported).expect("imported");
    let imported = import();
    let open = block(&held);
    let also = gpu.clone();
    // SAFETY: nothing ever used it.
    at_once("closing", move || unsafe { also.backend().free(&imported) }).expect("closed");
    let place = gpu.backend().locate(imported.base, 64, Access::Read).map_err(|why| why.kind);
    assert_eq!(place, Err(Kind::BadAddress), "unknown from then on");
    let again = import();
    drop(open);
    held.synchronize(MINUTE).expect("done");
    // SAFETY: as above.
    unsafe { gpu.backend().free(&again) }.expect("closed");
    let last = import();
    // SAFETY: as above.
    unsafe { gpu.backend().free(&last) }.expect("closed");
}

/// Other streams may stand behind a held one on their way into the GPU: pageable memory needs none of them.
/// And the driver may wait for the held one to make another stream: there are some.
#[test]
fn pageable_memory_needs_no_other_stream() {
    lost::in_child("adopted::one_way", &[("STANDIN_WAYS", "1")]);
}

#[test]
#[ignore = "run by pageable_memory_needs_no_other_stream"]
fn one_way() {
    let Some(gpu) = gpu("one_way") else { return };
    let gpu = Arc::new(gpu);
    let held = theirs(&gpu).0;
    let streams: Vec<_> = (0..3).map(|_| theirs(&gpu).0).collect();
    let (open, also) = (block(&held), gpu.clone());
    at_once("making a stream", move || also.stream(0, QueueOptions::default()).map(drop)).expect("a stream");
    drop(open);
    for len in [1, 5000, MIB, 9 * MIB + 5] {
        let blocks: Vec<_> = streams.iter().map(|_| device(&gpu, len)).collect();
        let sources: Vec<_> = (0..3).map(|seed| noise(seed + len, len)).collect();
        let mut targets = vec![vec![0_u8; len]; 3];
        for ((stream, there), (source, target)) in
            streams.iter().zip(&blocks).zip(sources.iter().zip(&mut targets))
        {
            stream.call(|| ()).expect("submitted");
            linear(stream, there.base, source.as_ptr() as usize, len);
            linear(stream, target.as_mut_ptr() as usize, there.base, len);
        }
        for stream in &streams {
            stream.synchronize(Some(Duration::from_secs(60))).expect("not for ever");
        }
        assert!(targets == sources, "{len} bytes");
    }
}

/// The waiter looks on while a long kernel runs. What comes into the stream meanwhile is not waited for,
/// though it may never end.
#[test]
fn a_waiter_does_not_wait_for_what_comes_while_a_kernel_runs() {
    let Some(gpu) = gpu("a_waiter_does_not_wait_for_what_comes_while_a_kernel_runs") else { return };
    let (source, there) = (alloc(&gpu, Home::Host, 2 * MIB), device(&gpu, 20 * MIB));
    // Longer in one kernel than a waiter looks on.
    let pieces: Vec<_> = (0..4000_usize)
        .map(|i| Rows::linear(there.base + i % 300 * 65536, source.base + i % 8 * 65536, 60 << 10))
        .collect();
    for round in 0..12 {
        let (held, ours) = (theirs(&gpu).0, gpu.stream(0, QueueOptions::default()).expect("a stream"));
        copy(&ours, &pieces[..300]);
        ours.synchronize(MINUTE).expect("done");
        let open = block(&held);
        let mark = held.fence().expect("a fence");
        copy(&ours, &pieces);
        let fence = ours.fence().expect("a fence");
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            tell.send(Ok(())).expect("heard");
            let _ = tell.send(fence.wait(None));
        });
        told.recv().expect("it begins").expect("to wait");
        (0..round * 1000).for_each(|_| hint::spin_loop());
        ours.wait_for(mark).expect("submitted");
        let waited = told.recv_timeout(Duration::from_secs(60));
        drop(open);
        ours.synchronize(MINUTE).expect("done");
        assert!(waited.is_ok(), "round {round}: the stream was done with what comes before the fence");
    }
}
