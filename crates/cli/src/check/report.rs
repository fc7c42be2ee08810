//! `--report DIR`: the page of `ferry trace`, with the findings as marks on the timeline.

use std::path::Path;

use ferry::watching::alone::TraceReader;
use ferry_terminal::tell;
use ferry_watch::check::CheckFinding;

use crate::output::OutputFolder;
use crate::run::{self, StartFailure};

/// Makes the folder before the program starts, so that nothing runs in vain.
pub fn open(path: &Path) -> Result<OutputFolder, StartFailure> {
    OutputFolder::open(path).map_err(|error| run::unwritable(path, &error))
}

/// Whether the page could be written; where it is, or why not, has been said.
pub fn write(folder: &Path, mut trace: TraceReader, findings: &[&CheckFinding]) -> bool {
    trace.add_findings(findings);
    let written = trace.write(folder);
    match &written {
        Ok(summary) => tell(&format!("ferry check: the timeline is {}\n", summary.page.display())),
        Err(error) => tell(&format!("ferry check: cannot write {}: {error}\n", folder.display())),
    }
    written.is_ok()
}
