// Keeps a recorder, to capture something when the graph is made.
//@ error: E0521
use ferry::{Device, DeviceBuffer, Recorder, Result};

fn misuse(device: &Device, there: &DeviceBuffer<u8>) -> Result<()> {
    let mut kept: Option<Recorder> = None;
    device.capture(|main| {
        kept = Some(main.fork()?);
        Ok(())
    })?;
    if let Some(side) = kept {
        side.fill(there, 1)?;
    }
    Ok(())
}

fn main() {}
