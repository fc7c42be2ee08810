//! Graphs: what they keep, in which order their branches run, and what becomes of one that is dropped,
//! aborted or failed.

use crate::{
    blocker::{A_WHILE, block},
    device, error, options, pattern, says,
};
use ferry::{Device, Graph, GraphSlice, InFlight, Kind, Options, Recorder, Result, Runtime, Stream};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
};

const LEN: usize = 5000;

/// A graph that copies its first buffer to the device and from there to its second one.
fn there_and_back(device: &Device) -> (Graph, GraphSlice<u8>, GraphSlice<u8>) {
    let host = || device.runtime().alloc_host::<u8>(LEN).unwrap();
    let there = device.alloc::<u8>(LEN).unwrap();
    let (graph, (input, output)) = device
        .capture(|main| {
            let (input, output) = (main.keep(host()), main.keep(host()));
            main.upload(&there, input)?;
            main.download(output, &there)?;
            Ok((input, output))
        })
        .unwrap();
    (graph, input, output)
}

/// What the graph brings back of bytes of this seed.
fn run(graph: Graph, stream: &Stream, input: GraphSlice<u8>, seed: u8) -> Graph {
    let mut graph = graph;
    graph[input].copy_from_slice(&pattern(LEN, seed));
    graph.launch(stream).unwrap().wait().unwrap()
}

#[test]
fn an_execution_moves_the_bytes_of_its_time() {
    let (device, stream) = device();
    let (mut graph, input, output) = there_and_back(&device);
    assert_eq!(graph[output][..], [0; LEN], "capturing runs nothing");
    for seed in 1..20 {
        graph = run(graph, &stream, input, seed);
        assert_eq!(graph[output][..], pattern(LEN, seed));
    }
}

#[test]
fn device_memory_of_a_graph_outlives_its_handles() {
    let (device, stream) = device();
    let before = device.memory_info().unwrap().free;
    // All handles of the device memory are gone when this returns.
    let (graph, input, output) = there_and_back(&device);
    let junk: Vec<_> = (0..100).map(|_| device.alloc_from(&[0xee_u8; LEN]).unwrap()).collect();
    let graph = run(graph, &stream, input, 3);
    assert_eq!(graph[output][..], pattern(LEN, 3));
    for other in &junk {
        assert_eq!(stream.read_vec(other).unwrap(), [0xee; LEN]);
    }
    drop((graph, junk));
    assert_eq!(device.memory_info().unwrap().free, before, "leaked");
}

#[test]
fn branches_run_side_by_side() {
    let (device, stream) = device();
    // Each function returns when the other one runs.
    let ([there, here], meets) = ([channel(), channel()], |tell: Sender<()>, told: Receiver<()>| {
        let told = Mutex::new(told);
        move || {
            tell.send(()).unwrap();
            told.lock().unwrap().recv_timeout(1000 * A_WHILE).expect("the other branch runs");
        }
    });
    let (first, second) = (meets(there.0, here.1), meets(here.0, there.1));
    let (graph, ()) = device
        .capture(|main| {
            let side = main.fork()?;
            main.call(first);
            side.call(second);
            Ok(())
        })
        .unwrap();
    graph.launch(&stream).unwrap().launch(&stream).unwrap().wait().unwrap();
}

#[test]
fn a_fork_begins_behind_its_branch_and_the_graph_ends_when_all_branches_have() {
    let (device, stream) = device();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let step = |name: &'static str| {
        let steps = steps.clone();
        move || steps.lock().unwrap().push(name)
    };
    let (graph, ()) = device
        .capture(|main| {
            main.call(step("before"));
            let side = main.fork()?;
            let nested = side.fork()?;
            nested.call(step("nested"));
            side.wait_for(&nested);
            side.call(step("side"));
            Ok(())
        })
        .unwrap();
    let token = graph.launch(&stream).unwrap();
    stream.call(step("behind")).unwrap();
    token.launch(&stream).unwrap().wait().unwrap();
    let once = ["before", "nested", "side"];
    assert_eq!(*steps.lock().unwrap(), [&once[..], &["behind"], &once[..]].concat());
}

/// A function that tells of each call, and one that waits for a word.
fn signals() -> (impl Fn() + Send + Sync, Receiver<()>, Sender<()>, impl Fn() + Send + Sync) {
    let ((tell, told), (go, wait)) = (channel(), channel());
    let wait = Mutex::new(wait);
    let waits = move || wait.lock().unwrap().recv_timeout(1000 * A_WHILE).expect("a word");
    (move || tell.send(()).unwrap(), told, go, waits)
}

#[test]
fn branches_that_use_one_buffer_of_the_host_are_ordered() {
    let (device, stream) = device();
    let [from, to] = [1, 2].map(|seed| device.alloc_from(&pattern(LEN, seed)).unwrap());
    let (tells, told, go, waits) = signals();
    let host = device.runtime().alloc_host::<u8>(LEN).unwrap();
    let (graph, host) = device
        .capture(|main| {
            let (side, third) = (main.fork()?, main.fork()?);
            let host = main.keep(host);
            side.call(waits);
            side.download(host, &from)?;
            main.upload(&to, host)?; // reads what the other branch writes
            main.upload(&to, host)?;
            main.call(tells);
            third.download(host.slice(..10)?, from.slice(10..20)?)?; // writes what both use
            Ok(host)
        })
        .unwrap();
    let token = graph.launch(&stream).unwrap();
    assert!(told.recv_timeout(A_WHILE).is_err(), "the upload waits for the download");
    go.send(()).unwrap();
    let graph = token.wait().unwrap();
    let bytes = pattern(LEN, 1);
    assert_eq!(stream.read_vec(&to).unwrap(), bytes);
    assert_eq!((&graph[host][..10], &graph[host][10..]), (&bytes[10..20], &bytes[10..]));
}

#[test]
fn executions_that_are_queued_run_one_after_the_other_in_any_streams() {
    let (device, stream) = device();
    let other = device.stream().unwrap();
    let (running, most, count) =
        (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (seen, counted) = (most.clone(), count.clone());
    let (graph, ()) = device
        .capture(|main| {
            main.call(move || {
                seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                counted.fetch_add(1, Ordering::SeqCst);
            });
            Ok(())
        })
        .unwrap();
    let mut token = graph.launch(&stream).unwrap();
    for number in 1..100 {
        token = token.launch(if number % 2 == 0 { &stream } else { &other }).unwrap();
    }
    token.wait().unwrap();
    assert_eq!((most.load(Ordering::SeqCst), count.load(Ordering::SeqCst)), (1, 100));
}

#[test]
fn an_execution_has_its_place_in_its_stream() {
    let (device, stream) = device();
    let (graph, input, output) = there_and_back(&device);
    let gate = block(&stream);
    gate.wait_until_reached();
    let mut graph = graph;
    graph[input].copy_from_slice(&pattern(LEN, 1));
    let token = graph.launch(&stream).unwrap();
    assert!(!token.wait_timeout(A_WHILE) && !token.is_done(), "behind what blocks the stream");
    gate.unblock();
    assert_eq!(token.wait().unwrap()[output][..], pattern(LEN, 1));
}

#[test]
fn a_dropped_token_lets_the_execution_end_and_keeps_its_memory_until_then() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(LEN).unwrap();
    let host = device.runtime().alloc_host_from(&pattern(LEN, 1)).unwrap();
    let base = host.as_ptr() as usize;
    let (graph, ()) = device.capture(|main| main.upload(&there, main.keep(host))).unwrap();
    let gate = block(&stream);
    drop(graph.launch(&stream).unwrap());
    for _ in 0..3 {
        let junk = (0..600).map(|_| device.runtime().alloc_host_from(&[0xee_u8; LEN]).unwrap());
        assert!(junk.collect::<Vec<_>>().iter().all(|other| other.as_ptr() as usize != base), "used again");
    }
    gate.unblock();
    stream.synchronize().unwrap();
    assert_eq!(stream.read_vec(&there).unwrap(), pattern(LEN, 1));
}

#[test]
fn an_aborted_execution_moves_nothing_and_the_graph_runs_again() {
    let (device, stream) = device();
    let (mut graph, input, output) = there_and_back(&device);
    graph[input].copy_from_slice(&pattern(LEN, 1));
    let gate = block(&stream);
    gate.wait_until_reached();
    let token = graph.launch(&stream).unwrap().launch(&stream).unwrap();
    stream.abort();
    let failed = token.wait().unwrap_err();
    says(&failed.error, Kind::Aborted, &["aborted"]);
    gate.unblock();
    stream.synchronize().unwrap();
    let graph = run(failed.buffer, &stream, input, 2);
    assert_eq!(graph[output][..], pattern(LEN, 2));
}

#[test]
fn a_graph_that_comes_back_from_an_abort_is_written_by_nobody() {
    const LARGE: usize = 8 << 20;
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(LARGE).unwrap();
    let host = device.runtime().alloc_host::<u8>(LARGE).unwrap();
    let (tells, told, go, waits) = signals();
    let (mut graph, output) = device
        .capture(|main| {
            let output = main.keep(host);
            main.call(tells);
            main.download(output, &there)?;
            Ok(output)
        })
        .unwrap();
    drop((go, waits));
    for _ in 0..20 {
        let token = graph.launch(&stream).unwrap();
        told.recv().unwrap();
        let aborts = std::thread::spawn({
            let stream = stream.clone();
            move || stream.abort()
        });
        graph = token.wait().unwrap_or_else(|failed| failed.buffer);
        graph[output].fill(0xaa);
        aborts.join().unwrap();
        assert!(graph[output].iter().all(|byte| *byte == 0xaa), "the execution goes on");
        let _ = stream.synchronize();
    }
}

#[test]
fn a_failure_is_told_by_the_token_and_by_the_stream_and_not_again() {
    let (device, stream) = device();
    let fails = Arc::new(AtomicUsize::new(1));
    let is_first = fails.clone();
    let (graph, ()) = device
        .capture(|main| {
            let side = main.fork()?;
            side.call(move || assert_eq!(is_first.swap(0, Ordering::SeqCst), 0, "the function fails"));
            Ok(())
        })
        .unwrap();
    let failed = graph.launch(&stream).unwrap().wait().unwrap_err();
    assert!(failed.error.to_string().contains("panic"), "{}", failed.error);
    assert!(stream.synchronize().is_err());
    let graph = failed.buffer.launch(&stream).unwrap().wait().unwrap();
    graph.launch(&stream).unwrap().wait().unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn what_belongs_elsewhere_is_refused() {
    let (device, stream) = device();
    let (theirs, their_stream) = crate::device();
    let (graph, input, output) = there_and_back(&device);
    let far = theirs.alloc::<u8>(LEN).unwrap();

    let failed = graph.launch(&their_stream).unwrap_err();
    says(&failed.error, Kind::BadRoute, &["another runtime"]);
    let graph = run(failed.buffer, &stream, input, 1);
    assert_eq!(graph[output][..], pattern(LEN, 1));

    let refused = |capture: &dyn Fn(&Recorder<'_>) -> Result<()>, words: &[&str]| {
        says(&error(device.capture(capture)), Kind::BadRoute, words);
    };
    let here = device.alloc::<u8>(LEN).unwrap();
    refused(&|main| main.upload(&here, input), &["another graph", "0..5000 of buffer 0"]);
    refused(&|main| main.download(input, &here), &["another graph"]);
    refused(&|main| main.copy(&here, &far), &["another runtime"]);
    refused(&|main| main.fill(&far, 1), &["another runtime"]);
    let foreign = || theirs.runtime().alloc_host::<u8>(LEN).unwrap();
    refused(&|main| main.upload(&here, main.keep(foreign())), &["another runtime"]);
    refused(&|main| main.download(main.keep(foreign()), &here), &["another runtime"]);

    let (other, _, _) = there_and_back(&device);
    let note = catch_unwind(AssertUnwindSafe(|| other[input].len())).unwrap_err();
    assert!(note.downcast_ref::<String>().unwrap().contains("was given to another graph"));
}

#[test]
fn shapes_that_differ_are_refused_and_matrices_of_the_device_are_packed() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(64, 1)).unwrap();
    let host = || device.runtime().alloc_host::<u8>(16).unwrap();
    let short = device.capture(|main| main.upload(&there, main.keep(host())));
    says(&error(short), Kind::BadShape, &["64 elements", "16 elements"]);
    let (graph, output) = device
        .capture(|main| {
            let output = main.keep(host());
            main.download(output, there.matrix(8, 8)?.rect(2..6, 1..5)?)?;
            Ok(output)
        })
        .unwrap();
    let want: Vec<u8> = (2..6).flat_map(|row| pattern(64, 1)[row * 8 + 1..row * 8 + 5].to_vec()).collect();
    assert_eq!(graph.launch(&stream).unwrap().wait().unwrap()[output][..], want);
}

#[test]
fn branches_count_among_the_streams_of_the_device_and_are_given_back() {
    let options = options().soc("Ascend310B1").unwrap();
    let most = options.product.max_streams;
    let runtime = Runtime::open(&Options { device_memory: Some(1 << 20), ..options }).unwrap();
    let device = runtime.device(0).unwrap();
    let mut streams: Vec<_> = (0..most - 3).map(|_| device.stream().unwrap()).collect();

    let two = |main: &Recorder<'_>| main.fork().map(drop);
    let (graph, ()) = device.capture(two).unwrap();
    says(&error(device.capture(two)), Kind::LimitReached, &["device 0"]);
    // What fails or panics gives back what it has taken.
    says(&error(device.capture(|_| Err::<(), _>(Kind::Timeout.because("late")))), Kind::Timeout, &["late"]);
    let panics = AssertUnwindSafe(|| device.capture(|_| -> Result<()> { panic!("in the body") }));
    catch_unwind(panics).unwrap_err();
    streams.push(device.stream().unwrap());
    says(&error(device.stream()), Kind::LimitReached, &[]);
    drop(graph);
    streams.extend([device.stream().unwrap(), device.stream().unwrap()]);
}

#[test]
fn graphs_and_their_tokens_go_to_other_threads() {
    fn is_sent<T: Send + Sync>() {}
    is_sent::<Graph>();
    is_sent::<InFlight<Graph>>();
    is_sent::<GraphSlice<u8>>();
    let (device, stream) = device();
    let (graph, input, output) = there_and_back(&device);
    let worker = std::thread::spawn(move || run(graph, &stream, input, 4));
    assert_eq!(worker.join().unwrap()[output][..], pattern(LEN, 4));
}
