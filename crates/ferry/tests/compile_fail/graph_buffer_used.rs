// Writes a buffer that was given to a graph.
//@ error: E0382
use ferry::{Device, DeviceBuffer, Graph, HostBuffer, Result};

fn misuse(device: &Device, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<Graph> {
    let (graph, _) = device.capture(|main| main.upload(there, main.keep(host)))?;
    host[0] = 1;
    Ok(graph)
}

fn main() {}
