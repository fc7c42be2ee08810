// Puts a reference where plain data belongs.
//@ error: E0277
use ferry::{Result, Runtime};

#[derive(Clone, Copy)]
#[repr(C)]
struct Named {
    name: &'static str,
}

fn misuse(runtime: &Runtime) -> Result<()> {
    runtime.alloc_host::<Named>(4)?;
    Ok(())
}

fn main() {}
