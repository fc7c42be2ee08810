// Captures a copy between memory of different elements.
//@ error: E0308
use ferry::{Device, DeviceBuffer, Graph, HostBuffer, Result};

fn misuse(device: &Device, there: &DeviceBuffer<f32>, host: HostBuffer<u8>) -> Result<Graph> {
    let (graph, ()) = device.capture(|main| main.upload(there, main.keep(host)))?;
    Ok(graph)
}

fn main() {}
