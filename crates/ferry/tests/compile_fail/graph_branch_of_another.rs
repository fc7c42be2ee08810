// Waits for a branch of another graph, which need not run.
//@ error: E0521
use ferry::{Device, DeviceBuffer, Graph, Result};

fn misuse(device: &Device, there: &DeviceBuffer<u8>) -> Result<Graph> {
    let (graph, _) = device.capture(|outer| {
        outer.fill(there, 1)?;
        device.capture(|inner| {
            inner.wait_for(outer);
            inner.fill(there, 2)
        })
    })?;
    Ok(graph)
}

fn main() {}
