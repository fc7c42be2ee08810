//! How a step ends.

/// How a step that found nothing wrong ended.
pub enum Outcome {
    /// It ran.
    Passed,
    /// It could not run here, and why.
    Skipped(String),
}
