//! Puts both forms of a trace into a folder.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::collect::Tracer;
use super::model::LeftOut;
use super::{html, json};

/// What was written, for the command to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSummary {
    /// The page for people.
    pub page: PathBuf,
    /// The file for other viewers.
    pub json: PathBuf,
    /// How many processes it has.
    pub processes: usize,
    /// How many streams.
    pub streams: usize,
    /// How many ops.
    pub ops: usize,
    /// How many calls.
    pub calls: usize,
    /// How many ops were refused by their stream.
    pub refused: u64,
    /// How much the trace does not have.
    pub left_out: LeftOut,
}

impl Tracer {
    /// Writes `index.html` and `msprof_<digits>.json` into a folder, which is made if it is not there.
    ///
    /// `caller` turns the process number and the return address of a call into text such as
    /// `upload at copy.c:12`; `None` leaves the bare address.
    pub fn write(
        &mut self,
        dir: &Path,
        caller: &mut dyn FnMut(u32, u64) -> Option<String>,
    ) -> io::Result<TraceSummary> {
        fs::create_dir_all(dir)?;
        let refused = self.refused();
        let model = self.finish();
        let started = model.processes.first().map_or(0, |process| process.epoch / 1_000_000);
        // Viewers want at most fifteen digits: milliseconds of the Unix epoch have thirteen.
        let file = dir.join(format!("msprof_{}.json", started % 1_000_000_000_000_000));
        let mut out = BufWriter::new(File::create(&file)?);
        json::write(&mut out, model, caller)?;
        out.flush()?;
        let page = dir.join("index.html");
        fs::write(&page, html::page(model, caller))?;
        Ok(TraceSummary {
            page,
            json: file,
            processes: model.processes.len(),
            streams: model.streams.len(),
            ops: model.ops.len(),
            calls: model.calls.len(),
            refused,
            left_out: model.left_out,
        })
    }
}
