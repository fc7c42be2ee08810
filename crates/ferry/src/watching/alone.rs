//! Tracing by the environment alone: `FERRY_TRACE` names a folder, and no command holds the facts.
//!
//! The process makes the file of facts itself, in that folder, and makes the trace of it when it ends in
//! order. A process that is killed leaves the file, of which `ferry trace --from` makes the same. Several
//! processes, as those that a program starts, have a folder each.

use ferry_backends::os::files::above;
use ferry_watch::{
    Fact, FactReader, FactSource,
    buffers::{Buffers, Wanted},
    check::CheckFinding,
    collector::Collector,
    symbols::Symbols,
    trace::{TraceLimits, TraceSummary, Tracer},
    writer::FactWriter,
};
use std::{
    env,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    process,
};

/// Asks for a trace: a folder, or 1 for one that has the number of the process in its name.
pub const TRACE: &str = "FERRY_TRACE";

/// The facts, in the folder of a trace, until the trace is made of them.
pub const FACTS: &str = "facts";

/// Bytes of the file: some 400,000 copies.
const FILE_BYTES: usize = 64 << 20;

/// The file of facts of a process that traces itself.
pub(super) struct OwnFile {
    file: File,
    folder: PathBuf,
}

impl OwnFile {
    /// Makes the file, if the environment asks for it.
    pub(super) fn from_env() -> Option<OwnFile> {
        let asked = env::var_os(TRACE).filter(|value| !value.is_empty() && value != "0")?;
        let by_number = PathBuf::from(format!("ferry-trace.{}", process::id()));
        let folder = if asked == "1" { by_number } else { PathBuf::from(asked) };
        let mut beside = folder.clone().into_os_string();
        beside.push(format!(".{}", process::id()));
        let made = make(&folder).or_else(|_| make(Path::new(&beside)));
        made.inspect_err(|error| eprintln!("ferry: {TRACE}: {}: {error}", folder.display())).ok()
    }

    /// Writes into the file.
    pub(super) fn writer(&self) -> Option<FactWriter> {
        FactWriter::open(&self.file).ok()
    }

    /// Makes the trace of what the file has, in place of it.
    pub(super) fn finish(&self) {
        let facts = self.folder.join(FACTS);
        let made = trace(&facts, &self.folder, TraceLimits::default());
        match made {
            Ok(_) => drop(fs::remove_file(&facts)),
            Err(error) => eprintln!("ferry: {}: {error}", self.folder.display()),
        }
    }
}

/// A folder of its own: one that has facts is another process's.
fn make(folder: &Path) -> io::Result<OwnFile> {
    fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let file = above(|| OpenOptions::new().read(true).write(true).create_new(true).open(folder.join(FACTS)))?;
    Buffers::create(&file, FILE_BYTES, Wanted::default())?;
    Ok(OwnFile { file, folder })
}

/// A tracer, with what names its addresses.
pub struct TraceReader {
    tracer: Tracer,
    symbols: Symbols,
}

impl TraceReader {
    /// One that keeps so much.
    pub fn new(limits: TraceLimits) -> TraceReader {
        TraceReader { tracer: Tracer::new(limits), symbols: Symbols::default() }
    }

    /// Adds what a checker has found in the same facts. To be called when it has them all.
    pub fn add_findings(&mut self, findings: &[&CheckFinding]) {
        self.tracer.add_findings(findings);
    }

    /// Writes the trace into a folder.
    pub fn write(mut self, folder: &Path) -> io::Result<TraceSummary> {
        let symbols = &mut self.symbols;
        let mut name = |process, address| Some(symbols.text(process, address));
        self.tracer.write(folder, &mut name)
    }
}

impl FactReader for TraceReader {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        self.symbols.take(source, fact);
        self.tracer.take(source, fact);
    }
}

/// Makes a trace in `folder` of a file of facts.
pub fn trace(facts: &Path, folder: &Path, limits: TraceLimits) -> io::Result<TraceSummary> {
    let file = OpenOptions::new().read(true).write(true).open(facts)?;
    let mut reader = TraceReader::new(limits);
    Collector::new(Buffers::open(&file)?).finish(&mut reader);
    reader.write(folder)
}
