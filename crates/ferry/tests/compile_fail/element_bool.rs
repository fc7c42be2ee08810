// Downloads booleans: most bytes are not one.
//@ error: E0277
use ferry::{Result, Runtime};

fn misuse(runtime: &Runtime) -> Result<()> {
    runtime.alloc_host::<bool>(4)?;
    Ok(())
}

fn main() {}
