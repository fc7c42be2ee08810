//! (being written)
mod abi;

fn main() -> Result<(), String> {
    abi::run(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace"))
}
