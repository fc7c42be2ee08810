// Writes the source of a captured upload while an execution is in flight.
//@ error: E0382
use ferry::{Graph, GraphSlice, Result, Stream};

fn misuse(stream: &Stream, mut graph: Graph, input: GraphSlice<u8>) -> Result<()> {
    let token = graph.launch(stream)?;
    graph[input][0] = 1;
    token.wait()?;
    Ok(())
}

fn main() {}
