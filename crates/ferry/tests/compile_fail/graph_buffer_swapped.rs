// Takes a buffer out of a graph and puts another in its place.
//@ error: E0277
use ferry::{Graph, GraphSlice, HostBuffer};

fn misuse(graph: &mut Graph, input: GraphSlice<u8>, other: &mut HostBuffer<u8>) {
    std::mem::swap(&mut graph[input], &mut **other);
}

fn main() {}
