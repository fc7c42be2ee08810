//! Compares the headers with the library (stub).

/// Runs the comparison.
pub fn run(_root: &std::path::Path) -> Result<(), String> {
    Ok(())
}
