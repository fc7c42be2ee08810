// Captures a function that can run only once.
//@ error: E0507
use ferry::{Device, Graph, Result};

fn misuse(device: &Device, word: String) -> Result<Graph> {
    let (graph, ()) = device.capture(|main| {
        main.call(move || drop(word));
        Ok(())
    })?;
    Ok(graph)
}

fn main() {}
