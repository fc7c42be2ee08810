//! Graphs.

use crate::{Set, set};
use ferry::{Graph, GraphSlice, Result};
use std::sync::{Arc, mpsc::channel};

/// A graph that uploads its memory to `there`, and one that downloads it.
fn uploads() -> Result<(Set, Graph, GraphSlice<u8>)> {
    let set = set()?;
    let host = set.device.runtime().alloc_host(4)?;
    let (graph, input) = set.device.capture(|main| {
        let input = main.keep(host);
        main.upload(&set.there, input)?;
        Ok(input)
    })?;
    Ok((set, graph, input))
}

fn downloads() -> Result<(Set, Graph, GraphSlice<u8>)> {
    let set = set()?;
    let host = set.device.runtime().alloc_host(4)?;
    let (graph, output) = set.device.capture(|main| {
        let output = main.keep(host);
        main.download(output, &set.there)?;
        Ok(output)
    })?;
    Ok((set, graph, output))
}

#[test]
fn graph_source_written() -> Result<()> {
    let (Set { stream, there, .. }, graph, input) = uploads()?;
    let mut graph = graph.launch(&stream)?.wait()?;
    graph[input][0] = 1;
    graph.launch(&stream)?.wait()?;
    assert_eq!(stream.read_vec(&there)?, [1, 0, 0, 0]);
    Ok(())
}

#[test]
fn graph_destination_read() -> Result<()> {
    let (Set { stream, .. }, graph, output) = downloads()?;
    let graph = graph.launch(&stream)?.wait()?;
    assert_eq!(graph[output][0], 1);
    Ok(())
}

#[test]
fn graph_token_read() -> Result<()> {
    let (Set { stream, .. }, graph, output) = downloads()?;
    let token = graph.launch(&stream)?;
    assert_eq!(token.wait()?[output][0], 1);
    Ok(())
}

#[test]
fn graph_written_by_old_view() -> Result<()> {
    let (Set { stream, there, .. }, mut graph, input) = uploads()?;
    let view = &mut graph[input];
    view[0] = 1;
    graph.launch(&stream)?.wait()?;
    assert_eq!(stream.read_vec(&there)?, [1, 0, 0, 0]);
    Ok(())
}

#[test]
fn graph_buffer_used() -> Result<()> {
    let Set { device, stream, there, mut host } = set()?;
    host[0] = 1;
    let (graph, ()) = device.capture(|main| main.upload(&there, main.keep(host)))?;
    graph.launch(&stream)?.wait()?;
    assert_eq!(stream.read_vec(&there)?, [1, 0, 0, 0]);
    Ok(())
}

#[test]
fn graph_buffer_not_given() -> Result<()> {
    let Set { device, stream, there, host } = set()?;
    let (graph, ()) = device.capture(|main| main.upload(&there, main.keep(host)))?;
    graph.launch(&stream)?.wait()?;
    assert_eq!(stream.read_vec(&there)?, [0; 4]);
    Ok(())
}

#[test]
fn graph_buffer_swapped() -> Result<()> {
    let (Set { stream, there, mut host, .. }, mut graph, input) = uploads()?;
    host[1] = 2;
    graph[input].swap_with_slice(&mut host);
    graph.launch(&stream)?.wait()?;
    assert_eq!(stream.read_vec(&there)?, [0, 2, 0, 0]);
    Ok(())
}

#[test]
fn graph_launched_twice() -> Result<()> {
    let (Set { stream, .. }, graph, output) = downloads()?;
    let first = graph.launch(&stream)?;
    let second = first.launch(&stream)?;
    assert_eq!(second.wait()?[output][..], [1, 2, 3, 4]);
    Ok(())
}

#[test]
fn graph_recorder_escapes() -> Result<()> {
    let Set { device, stream, there, .. } = set()?;
    let (graph, ()) = device.capture(|main| {
        let side = main.fork()?;
        side.fill(&there, 1)
    })?;
    graph.launch(&stream)?.wait()?;
    assert_eq!(stream.read_vec(&there)?, [1; 4]);
    Ok(())
}

#[test]
fn graph_branch_of_another() -> Result<()> {
    let Set { device, stream, there, .. } = set()?;
    let (outer, (inner, ())) = device.capture(|outer| {
        outer.fill(&there, 1)?;
        device.capture(|inner| inner.fill(&there, 2))
    })?;
    outer.launch(&stream)?.wait()?;
    inner.launch(&stream)?.wait()?;
    assert_eq!(stream.read_vec(&there)?, [2; 4]);
    Ok(())
}

#[test]
fn graph_function_borrows() -> Result<()> {
    let Set { device, stream, .. } = set()?;
    let (word, (tell, told)) = (Arc::new("word".to_string()), channel());
    let (graph, ()) = device.capture(|main| {
        main.call(move || tell.send(word.clone()).expect("somebody listens"));
        Ok(())
    })?;
    graph.launch(&stream)?.wait()?;
    assert_eq!(**told.recv().expect("it was called"), *"word");
    Ok(())
}

#[test]
fn graph_function_runs_once() -> Result<()> {
    let Set { device, stream, .. } = set()?;
    let (tell, told) = channel();
    let (graph, ()) = device.capture(|main| {
        main.call(move || tell.send(()).expect("somebody listens"));
        Ok(())
    })?;
    drop(graph.launch(&stream)?.launch(&stream)?.wait()?);
    assert_eq!(told.iter().count(), 2);
    Ok(())
}

#[test]
fn graph_element_types_differ() -> Result<()> {
    let Set { device, stream, there, .. } = set()?;
    let (host, floats) = (device.runtime().alloc_host_from(&[2.5_f32])?, there.as_slice().cast::<f32>()?);
    let (graph, ()) = device.capture(|main| main.upload(floats, main.keep(host)))?;
    graph.launch(&stream)?.wait()?;
    assert_eq!(stream.read_vec(floats)?, [2.5]);
    Ok(())
}
