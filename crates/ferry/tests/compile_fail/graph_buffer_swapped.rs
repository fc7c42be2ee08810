// Takes a buffer out of a graph and puts another in its place.
//@ error: E0277
use ferry::{Graph, GraphSlice, HostBuffer};

// Not the standard library's own function: the message would show its source where that is installed.
fn swap<T>(a: &mut T, b: &mut T) {
    std::mem::swap(a, b);
}

fn misuse(graph: &mut Graph, input: GraphSlice<u8>, other: &mut HostBuffer<u8>) {
    swap(&mut graph[input], &mut **other);
}

fn main() {}
