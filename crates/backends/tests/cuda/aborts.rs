//! What an abort waits for and what it drops, and fences of work in the middle of a queue.

use super::*;

#[test]
fn aborting_drops_what_has_not_begun() {
    let Some(gpu) = gpu("aborting_drops_what_has_not_begun") else { return };
    let runtime = gpu.backend();
    let status = Arc::new(ferry_core::Status::new(9, None));
    let queue = runtime.queue(0, QueueOptions::default(), status.clone()).expect("a queue");
    let there = device(&gpu, 64);
    let (open, function) = Blocker::new();
    let fill = |byte| Op::Fill(Fill { dst: there.at, len: 64, pattern: [byte; 4], device: Some(0) });
    // SAFETY: the block outlives the ops.
    unsafe {
        queue.submit(fill(1)).expect("submitted");
        queue.submit(Op::Call(Box::new(function))).expect("submitted");
        queue.submit(fill(2)).expect("submitted");
    }
    let fence = queue.fence().expect("a fence");
    queue.abort();
    drop(open);
    fence.wait(MINUTE).expect("fences of dropped work are done");
    assert_eq!(status.take_error().map(|error| error.kind), Some(Kind::Aborted));
    assert_eq!((status.passed(), fetch(&gpu, there.base, 64)), (3, vec![1; 64]));
}

/// What a stream may have to wait for: a function of the user's, or a fence that somebody raises.
fn obstacles(stream: &Stream) -> [(&'static str, Then); 2] {
    let (open, flag) = (block(stream), Arc::new(Flag::default()));
    stream.wait_for(flag.clone()).expect("submitted");
    [("a function", Box::new(move || drop(open))), ("a fence", Box::new(move || flag.raise()))]
}

#[test]
fn a_fence_of_some_work_does_not_wait_for_the_host_behind_it() {
    let test = "a_fence_of_some_work_does_not_wait_for_the_host_behind_it";
    let Some(gpu) = gpu(test) else { return };
    let (stream, other, len) = (stream(&gpu), stream(&gpu), 64 * MIB);
    let (there, source, target) =
        (device(&gpu, len), locked(&gpu, &noise(3, len)), locked(&gpu, &vec![0; len]));
    linear(&stream, there.base, source.base, len);
    linear(&stream, target.base, there.base, len);
    let [function, fence] = obstacles(&stream);
    // Tickets: 1 and 2 are in the stream, 3 and 4 the obstacles, 5 between them and 6, which is one too.
    submit(&stream, || Op::Fill(Fill { dst: there.at, len, pattern: [5; 4], device: Some(0) }));
    let last = block(&stream);
    let fences: Vec<_> = (1..=6).map(|ticket| stream.fence_after(ticket)).collect();
    fences[1].wait(MINUTE).expect("what is behind it waits for us");
    assert!(read(&target) == read(&source) && fences[0].is_done() && stream.has_passed(2));
    let none_behind = |upto: usize| assert!(fences.iter().skip(upto).all(|fence| !fence.is_done()), "{upto}");
    none_behind(2);
    function.1();
    fences[2].wait(MINUTE).expect(function.0);
    none_behind(3);
    // Another queue can wait for it, and it can be heard of.
    other.wait_for(fences[4].clone()).expect("submitted");
    linear(&other, target.base, there.base, len);
    let (told, hear) = mpsc::channel();
    fences[4].when_done(Box::new(move || told.send(()).expect("heard")));
    fence.1();
    fences[3].wait(MINUTE).expect(fence.0);
    other.synchronize(MINUTE).expect("done");
    hear.recv_timeout(MINUTE.expect("a minute")).expect("told");
    assert!(read(&target).iter().all(|byte| *byte == 5) && !stream.has_passed(6));
    none_behind(5);
    drop(last);
    stream.synchronize(MINUTE).expect("done");
    assert!(fences[5].is_done() && stream.fence_after(3).is_done());
}

#[test]
fn a_fence_of_some_work_comes_before_a_pageable_copy() {
    let Some(gpu) = gpu("a_fence_of_some_work_comes_before_a_pageable_copy") else { return };
    // What comes before takes milliseconds: the host begins with the copy behind it long before that is done.
    let (stream, len) = (stream(&gpu), 256 * MIB);
    let (there, target, plain) = (device(&gpu, len), locked(&gpu, &vec![0; len]), vec![99_u8; MIB]);
    for round in 1..=20_u8 {
        submit(&stream, || Op::Fill(Fill { dst: there.at, len, pattern: [round; 4], device: Some(0) }));
        linear(&stream, target.base, there.base, len);
        linear(&stream, there.base, plain.as_ptr() as usize, MIB);
        let before = 3 * u64::from(round) - 1;
        // Sooner and later while the copy is under way.
        (0..u32::from(round) * 1000).for_each(|_| std::hint::spin_loop());
        stream.fence_after(before).wait(MINUTE).expect("done");
        // SAFETY: a byte of page-locked memory, which nothing in flight writes any more.
        let byte = |at| unsafe { ptr::read_volatile((target.base + at) as *const u8) };
        assert!((0..len).step_by(4096).all(|at| byte(at) == round), "round {round}");
        assert!(stream.status().passed() >= before);
        stream.fence_after(before + 1).wait(MINUTE).expect("done");
        assert_eq!(stream.status().passed(), before + 1);
    }
    assert!(fetch(&gpu, there.base, MIB) == plain);
}

/// Waits until somebody has written the byte at `addr`.
fn await_byte(addr: usize) {
    // SAFETY: memory of the caller's that a copy in flight writes.
    while unsafe { ptr::read_volatile(addr as *const u8) } == 0 {
        std::hint::spin_loop();
    }
}

#[test]
fn an_abort_waits_for_memory_that_the_host_uses() {
    let Some(gpu) = gpu("an_abort_waits_for_memory_that_the_host_uses") else { return };
    if are_shared() {
        return eprintln!("skipped: the fill behind the host's part is in the CUDA stream, and runs");
    }
    let len = 512 * MIB;
    let there = device(&gpu, len);
    let ones = vec![1_u8; len];
    let start = stream(&gpu);
    submit(&start, || Op::Fill(Fill { dst: there.at, len, pattern: [1; 4], device: Some(0) }));
    start.synchronize(MINUTE).expect("done");
    let copies = |dst: usize, src: usize| {
        let memory = gpu.memory();
        let rows = [Rows::linear(dst, src, len)].into_iter();
        Op::Copy(Plan::new(rows, memory, |_, _| Ok(())).map_err(|misfit| misfit.error).expect("a plan"))
    };
    for what in ["host to host", "fill", "device to host"] {
        let (stream, other) = (stream(&gpu), stream(&gpu));
        let mut target = vec![0_u8; len];
        let (first, last) = (target.as_mut_ptr() as usize, target.as_mut_ptr() as usize + len - 1);
        submit(&stream, || match what {
            "fill" => Op::Fill(Fill { dst: first, len, pattern: [1; 4], device: None }),
            "host to host" => copies(first, ones.as_ptr() as usize),
            _ => copies(first, there.base),
        });
        let mark = stream.mark().expect("marked");
        submit(&stream, || Op::Fill(Fill { dst: there.at, len: 1, pattern: [7; 4], device: Some(0) }));
        let (fence, after) = (stream.fence().expect("a fence"), stream.fence_after(1));
        other.wait_for(fence.clone()).expect("submitted");
        await_byte(first);
        // SAFETY: as in `await_byte`.
        let look = move || unsafe { ptr::read_volatile(last as *const u8) };
        std::thread::scope(|scope| {
            let waits = |fence: Arc<dyn Fence>| {
                move || {
                    fence.wait(MINUTE).expect("done");
                    look()
                }
            };
            let waiters = [scope.spawn(waits(fence)), scope.spawn(waits(after))];
            stream.abort();
            assert_eq!(look(), 1, "{what}: no byte moves after an abort");
            assert_eq!(stream.status().passed(), 3, "{what}");
            assert!(mark.is_done() && mark.reached_us().is_none(), "{what}: dropped");
            for waiter in waiters {
                assert_eq!(waiter.join().expect("waited"), 1, "{what}: nor behind a fence");
            }
        });
        assert_eq!(stream.synchronize(MINUTE).map_err(|error| error.kind), Err(Kind::Aborted), "{what}");
        other.synchronize(MINUTE).expect("done");
        stream.synchronize(MINUTE).expect("told once");
        assert!(target == ones && fetch(&gpu, there.base, 1) == [1], "{what}");
    }
}

#[test]
fn an_abort_lets_go_of_memory_that_the_host_reads() {
    let Some(gpu) = gpu("an_abort_lets_go_of_memory_that_the_host_reads") else { return };
    let (stream, len) = (stream(&gpu), 64 * MIB);
    let (there, mut source) = (device(&gpu, len), vec![1_u8; len]);
    for round in 0..20 {
        submit(&stream, || Op::Fill(Fill { dst: there.at, len, pattern: [0; 4], device: Some(0) }));
        linear(&stream, there.base, source.as_ptr() as usize, len);
        (0..round * 20_000).for_each(|_| std::hint::spin_loop());
        stream.abort();
        source.fill(2);
        let got = fetch(&gpu, there.base, len);
        assert!(got.iter().all(|byte| *byte == got[0]) && got[0] < 2, "round {round}");
        source.fill(1);
        let told = stream.synchronize(MINUTE).map_err(|error| error.kind);
        assert!(told == Ok(()) || told == Err(Kind::Aborted), "round {round}: {told:?}");
    }
}

#[test]
fn an_abort_waits_for_the_gpu() {
    let Some(gpu) = gpu("an_abort_waits_for_the_gpu") else { return };
    let (stream, len) = (stream(&gpu), 64 * MIB);
    let (there, target) = (device(&gpu, len), locked(&gpu, &vec![0; len]));
    for round in 1..=32_u8 {
        submit(&stream, || Op::Fill(Fill { dst: there.at, len, pattern: [round; 4], device: Some(0) }));
        linear(&stream, target.base, there.base, len);
    }
    stream.abort();
    assert_eq!(stream.status().passed(), 64);
    assert!(read(&target).iter().all(|byte| *byte == 32), "it could not be taken back");
    stream.synchronize(MINUTE).expect("nothing was dropped");
}

/// Asks for a fence of its stream when it is dropped.
struct Nosy(Arc<Stream>);

impl Drop for Nosy {
    fn drop(&mut self) {
        self.0.fence().expect("a fence");
    }
}

#[test]
fn an_abort_does_not_wait_for_a_function() {
    let Some(gpu) = gpu("an_abort_does_not_wait_for_a_function") else { return };
    let (stream, other, there) = (stream(&gpu), stream(&gpu), device(&gpu, 64));
    let fill = |byte| {
        submit(&stream, || Op::Fill(Fill { dst: there.at, len: 64, pattern: [byte; 4], device: Some(0) }))
    };
    let open = block(&stream);
    open.wait_until_reached();
    let (ran, nosy) = (Arc::new(Mutex::new(false)), Nosy(stream.clone()));
    let told = ran.clone();
    let function = move || {
        *told.lock().unwrap() = true;
        drop(nosy);
    };
    stream.call(function).expect("submitted");
    fill(1);
    let fence = stream.fence().expect("a fence");
    other.wait_for(fence.clone()).expect("submitted");
    stream.abort();
    fence.wait(MINUTE).expect("fences of dropped work are done");
    other.synchronize(MINUTE).expect("so it need not wait");
    assert_eq!(stream.synchronize(MINUTE).map_err(|error| error.kind), Err(Kind::Aborted));
    fill(2);
    let later = stream.fence().expect("a fence");
    assert!(stream.fence_after(3).is_done() && stream.fence_after(1).is_done());
    assert!(!later.is_done() && !stream.has_passed(4), "later work comes after the function");
    drop(open);
    later.wait(MINUTE).expect("done");
    assert_eq!(fetch(&gpu, there.base, 64), vec![2; 64]);
    assert!(!*ran.lock().unwrap(), "dropped");
}

#[test]
fn a_function_behind_a_failure_that_stops_all_is_dropped() {
    let Some(gpu) = gpu("a_function_behind_a_failure_that_stops_all_is_dropped") else { return };
    let halt = Halt::new();
    let under = || gpu.stream_under(Some(&halt), 0, QueueOptions::default()).expect("a stream");
    let (stream, other, slot) = (under(), under(), device(&gpu, DESCRIPTOR_LEN));
    stream.status().stop_all_on_failure();
    let open = block(&other);
    submit(&stream, || {
        Op::Fill(Fill { dst: slot.at, len: DESCRIPTOR_LEN, pattern: [1; 4], device: Some(0) })
    });
    submit(&stream, || through(Through::Descriptor { at: slot.at, user: slot.base }));
    let ran = Arc::new(Mutex::new(false));
    let told = ran.clone();
    stream.call(move || *told.lock().unwrap() = true).expect("submitted");
    let why = stream.synchronize(MINUTE).expect_err("a bad descriptor");
    assert_eq!((why.kind, *ran.lock().unwrap()), (Kind::BadDescriptor, false), "{why}");
    other.fence().expect("a fence").wait(MINUTE).expect("fences pass a function when all is stopped");
    drop(open);
}

/// The wait and the copy are one op: it comes when all fences are done, and an abort drops both.
#[test]
fn an_op_behind_fences_waits_for_all_and_is_dropped_whole() {
    let Some(gpu) = gpu("an_op_behind_fences_waits_for_all_and_is_dropped_whole") else { return };
    let (stream, other, there) = (stream(&gpu), stream(&gpu), device(&gpu, 64));
    let fill = |byte| Op::Fill(Fill { dst: there.at, len: 64, pattern: [byte; 4], device: Some(0) });
    submit(&stream, || fill(1));
    for aborted in [false, true] {
        let byte = 2 + u8::from(aborted);
        let (flag, open) = (Arc::new(Flag::default()), block(&other));
        let behind: [Arc<dyn Fence>; 2] = [flag.clone(), other.fence().expect("a fence")];
        submit(&stream, || Op::After(Box::new((behind.to_vec(), fill(byte)))));
        let fence = stream.fence().expect("a fence");
        drop(open);
        other.synchronize(MINUTE).expect("done");
        assert!(!fence.is_done(), "one of the two is not done");
        if aborted {
            stream.abort();
        }
        flag.raise();
        let kind = stream.synchronize(MINUTE).err().map(|error| error.kind);
        assert_eq!(kind, aborted.then_some(Kind::Aborted));
        assert_eq!(fetch(&gpu, there.base, 64), [2; 64], "aborted: {aborted}");
    }
}
