// Captures a function that borrows, and may run when what it borrows is gone.
//@ error: E0521
use ferry::{Device, Graph, Result};

fn misuse(device: &Device, word: &str) -> Result<Graph> {
    let (graph, ()) = device.capture(|main| {
        main.call(move || println!("{word}"));
        Ok(())
    })?;
    Ok(graph)
}

fn main() {}
