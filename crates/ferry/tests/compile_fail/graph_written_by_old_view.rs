// Keeps a view of a graph's memory over a launch.
//@ error: E0505
use ferry::{Graph, GraphSlice, Result, Stream};

fn misuse(stream: &Stream, mut graph: Graph, input: GraphSlice<u8>) -> Result<()> {
    let view = &mut graph[input];
    let token = graph.launch(stream)?;
    view[0] = 1;
    token.wait()?;
    Ok(())
}

fn main() {}
