// Reads the memory of a graph through the token of an execution in flight.
//@ error: E0608
use ferry::{Graph, GraphSlice, Result, Stream};

fn misuse(stream: &Stream, graph: Graph, output: GraphSlice<u8>) -> Result<u8> {
    let token = graph.launch(stream)?;
    Ok(token[output][0])
}

fn main() {}
