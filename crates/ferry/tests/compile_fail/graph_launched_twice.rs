// Launches a graph that is in flight.
//@ error: E0382
use ferry::{Graph, Result, Stream};

fn misuse(stream: &Stream, graph: Graph) -> Result<()> {
    let first = graph.launch(stream)?;
    let second = graph.launch(stream)?;
    first.wait()?;
    second.wait()?;
    Ok(())
}

fn main() {}
