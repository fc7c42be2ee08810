// Reads the destination of a captured download while an execution is in flight.
//@ error: E0382
use ferry::{Graph, GraphSlice, Result, Stream};

fn misuse(stream: &Stream, graph: Graph, output: GraphSlice<u8>) -> Result<u8> {
    let token = graph.launch(stream)?;
    let first = graph[output][0];
    token.wait()?;
    Ok(first)
}

fn main() {}
