// Captures a copy of a buffer that the program keeps, and could free.
//@ error: E0308
use ferry::{Device, DeviceBuffer, Graph, HostBuffer, Result};

fn misuse(device: &Device, there: &DeviceBuffer<u8>, host: &HostBuffer<u8>) -> Result<Graph> {
    let (graph, ()) = device.capture(|main| main.upload(there, host))?;
    Ok(graph)
}

fn main() {}
