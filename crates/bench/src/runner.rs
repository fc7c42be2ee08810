//! Measures cases one by one: what all of them share, which contenders each has, and what becomes a row.

use std::cell::RefCell;

use ferry_abi::error::{INVALID_PARAM, NOT_SUPPORTED};
use ferry_abi::session::Session;
use ferry_abi::{Error, Library, Result, library};
use ferry_terminal::Terminal;
use serde_json::json;

use crate::BenchOptions;
use crate::cases::Case;
use crate::peers::{CopySpec, MemcpyPeers, Peers};
use crate::pieces::PieceSpec;
use crate::recorded::RecordedCopies;
use crate::report::Row;
use crate::room::{must_fit, reach, region};
use crate::route::{self, Route};
use crate::sampling::{self, Contender, Figures, Sampling};
use crate::setting::{kernel, processor, settings};
use crate::shape::Shape;
use crate::work::Workload;
use crate::{alignment, allocation, beside, checked, fill, growth, random_matrices, threads, used};

/// What all cases share: the library in use, the options, the peers.
pub struct Bench<'a> {
    session: Session,
    options: &'a BenchOptions,
    peers: Peers,
    recorded: Vec<RecordedCopies>,
    /// The most memory that a case took.
    memory: RefCell<serde_json::Value>,
}

impl<'a> Bench<'a> {
    /// Sets the devices up and looks for the peers.
    pub fn open(
        library: &'static Library,
        options: &'a BenchOptions,
        recorded: Vec<RecordedCopies>,
    ) -> Result<Bench<'a>> {
        let session = Session::open(library)?;
        let peers = Peers::open(&session, options.peers)?;
        if let Some(why) = &peers.missing {
            Terminal::stderr().say(&format!("ferry: {why}"));
        }
        Ok(Bench { session, options, peers, recorded, memory: RefCell::default() })
    }

    /// Resets the devices and shuts the library down.
    pub fn close(&self) -> Result<()> {
        self.session.close()
    }

    /// Measures one case: a row, or one for each of its parts.
    pub fn run(&self, case: &Case, (index, total): (usize, usize)) -> Vec<Row> {
        let terminal = Terminal::stderr();
        let samples = self.options.samples as usize * case.sample_factor();
        let mut progress = |done: usize| {
            let done = (index as f64 + done.min(samples) as f64 / samples as f64) / total as f64;
            terminal.show(&bar(done, &case.name));
        };
        progress(0);
        let plan = Sampling { samples, verify: !self.options.no_verify };
        let row = || Row {
            name: case.name.clone(),
            series: case.series().to_owned(),
            about: case.work.about(),
            bytes: 0,
            operations: 0,
            growth: matches!(case.work, Workload::Growth { .. }),
            sweep: case.work.sweep(),
            outcome: Ok(Vec::new()),
            note: None,
        };
        let measured = self.perform(case.work, plan, row(), &mut progress);
        terminal.show("");
        measured.unwrap_or_else(|error| {
            let is_lack = match error.code() {
                Some(INVALID_PARAM) => library::is_other_product(),
                Some(NOT_SUPPORTED) => may_lack(),
                _ => false,
            };
            let error = if is_lack { Error::NotHere(error.to_string()) } else { error };
            vec![Row { outcome: Err(error), ..row() }]
        })
    }

    fn perform(
        &self,
        work: Workload,
        plan: Sampling,
        mut row: Row,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Row>> {
        let (session, peers) = (&self.session, &self.peers);
        let figures = match work {
            Workload::Alignment { route, len } => {
                must_fit(session, len)?;
                row.bytes = len;
                let (figures, note) = alignment::worst(session, peers, (route, len), plan, progress)?;
                row.note = Some(note);
                figures
            }
            Workload::Growth { growth, count } => {
                sampling::measure(&mut growth::contenders(session, growth, count)?, plan, progress)?
            }
            Workload::Fill { len, words } => {
                must_fit(session, len)?;
                row.bytes = len;
                self.measure(&mut fill::contenders(session, peers, len, words)?, plan, progress)?
            }
            Workload::Fills { pieces } => {
                must_fit(session, 2 * pieces.bytes())?;
                self.measure(&mut fill::of_pieces(session, peers, pieces)?, plan, progress)?
            }
            Workload::Used { using, len } => {
                must_fit(session, len)?;
                self.measure(&mut used::contenders(session, using, len)?, plan, progress)?
            }
            Workload::Allocations { pieces } => {
                must_fit(session, pieces.bytes())?;
                self.measure(&mut allocation::contenders(session, peers, pieces)?, plan, progress)?
            }
            Workload::Locked { len, is_registered } => {
                let case = (len, is_registered);
                return allocation::locked(session, peers, case, plan, &row, progress);
            }
            Workload::RandomMatrices { route, count, len } => {
                let case = (route, count, len);
                return random_matrices::worst(session, peers, case, plan, &row, progress);
            }
            Workload::Threads { route, threads, pieces } => {
                let (shape, room) =
                    self.scattered(route, pieces.times(threads), self.options.spread(), &mut row)?;
                row.bytes = shape.bytes();
                let case = (route, threads, shape, room);
                self.measure(&mut threads::contenders(session, peers, case)?, plan, progress)?
            }
            Workload::Beside { .. } => {
                let spec = self.spec(work, &mut row)?;
                must_fit(session, spec.room)?;
                return beside::measure(session, peers, &spec, &self.options.product, plan, &row, progress);
            }
            _ => {
                let spec = self.spec(work, &mut row)?;
                must_fit(session, spec.room * spec.route.ways().len())?;
                let _access = (spec.route.device > 0).then(|| reach(session, spec.route)).transpose()?;
                let (mut contenders, note) = peers.contenders(session, &spec)?;
                row.note =
                    [row.note.take(), note].into_iter().flatten().reduce(|one, two| format!("{one}; {two}"));
                self.measure(&mut contenders, plan, progress)?
            }
        };
        Ok(vec![Row { outcome: Ok(figures), ..row }])
    }

    /// Takes the samples, and notes how much memory that takes while all of it is there.
    fn measure(
        &self,
        contenders: &mut [Box<dyn Contender + '_>],
        plan: Sampling,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Figures>> {
        let figures = sampling::measure(contenders, plan, progress);
        let memory = checked::memory();
        let most = |memory: &serde_json::Value| memory["program"].as_u64();
        if most(&memory) > most(&self.memory.borrow()) {
            self.memory.replace(memory);
        }
        figures
    }

    /// The copy that every contender does. The row is told its bytes, unless calls are what is measured.
    fn spec(&self, work: Workload, row: &mut Row) -> Result<CopySpec> {
        let spread = self.options.spread();
        let mut spec = match work {
            Workload::Contiguous { route, len } | Workload::Synchronous { route, len } => {
                CopySpec::new(route, Shape::line(len), len)
            }
            Workload::Matrix { route, rows } => CopySpec::new(route, Shape::Grid(rows), rows.room()),
            Workload::Batch { route, pieces, .. }
            | Workload::Loop { route, pieces, .. }
            | Workload::Graph { route, pieces } => self.spec_of_pieces(route, pieces, spread, row)?,
            Workload::Descriptors { pieces, .. } => self.spec_of_pieces(route::INNER, pieces, spread, row)?,
            Workload::Beside { route, pieces, .. } => {
                self.spec_of_pieces(route, pieces, self.options.small_spread(), row)?
            }
            Workload::Call { len, .. } => CopySpec::new(route::H2D, Shape::line(len), len),
            Workload::Recorded { index, .. } => {
                row.note = self.recorded[index].note();
                self.recorded[index].spec()
            }
            Workload::Alignment { .. }
            | Workload::Growth { .. }
            | Workload::Fill { .. }
            | Workload::Fills { .. }
            | Workload::Allocations { .. }
            | Workload::Locked { .. }
            | Workload::RandomMatrices { .. }
            | Workload::Threads { .. }
            | Workload::Used { .. } => {
                unreachable!("measured in a way of its own")
            }
        };
        if let Some(submission) = work.submission() {
            spec.submission = submission;
        }
        if let Some(timing) = work.timing() {
            spec.timing = timing;
        }
        row.bytes = if work.is_about_calls() { 0 } else { spec.shape.bytes() * spec.route.ways().len() };
        spec.memcpy_peers = match work {
            Workload::Call { .. } => MemcpyPeers::WorkerThread,
            Workload::Synchronous { .. } => MemcpyPeers::OneThread,
            _ if work.is_about_calls() => MemcpyPeers::None,
            Workload::Graph { .. } => MemcpyPeers::None,
            _ => MemcpyPeers::OneAndTwoThreads,
        };
        Ok(spec)
    }

    fn spec_of_pieces(
        &self,
        route: Route,
        pieces: PieceSpec,
        spread: usize,
        row: &mut Row,
    ) -> Result<CopySpec> {
        let (shape, room) = self.scattered(route, pieces, spread, row)?;
        Ok(CopySpec::new(route, shape, room))
    }

    /// The pieces in so much memory, or in less, which the row notes.
    fn scattered(
        &self,
        route: Route,
        pieces: PieceSpec,
        spread: usize,
        row: &mut Row,
    ) -> Result<(Shape, usize)> {
        let (region, note) = region(&self.session, spread, pieces.bytes(), route.ways().len())?;
        row.note = note;
        Ok((Shape::scattered(pieces, region), region))
    }

    /// What the numbers mean and hold for, above the table.
    pub fn title(&self) -> Result<Vec<String>> {
        let (version, backend) = (env!("CARGO_PKG_VERSION"), library::backend_name());
        let (samples, verify) = (self.options.samples, !self.options.no_verify);
        let compared = if verify { "every byte is compared" } else { "nothing is compared" };
        let gpu = self.peers.gpu().map(|gpu| format!("GPU: {gpu}"));
        let settings = settings().into_iter().map(|(name, value)| format!("{name}={value}"));
        let mut title = vec![
            format!("ferry bench {version} on the {backend} backend, {}", processor()),
            format!("Medians of {samples} samples, ferry and its peers in turn; {compared}."),
            "GB/s: more is better. us: less is better. ratio: how many times as fast as the peer ferry is."
                .to_owned(),
        ];
        title.extend(gpu.into_iter().chain(settings));
        Ok(title)
    }

    /// What the numbers hold for, as names and values for people.
    pub fn machine(&self) -> Vec<(&'static str, String)> {
        let compared = if self.options.no_verify { "nothing" } else { "every byte" };
        let mut machine = vec![
            ("Version", format!("Ferry {}", env!("CARGO_PKG_VERSION"))),
            ("Backend", library::backend_name().to_string()),
            ("Processor", processor()),
        ];
        machine.extend(self.peers.gpu().map(|gpu| ("GPU", gpu.to_string())));
        machine.extend(kernel().map(|kernel| ("System", kernel)));
        machine.push(("Library", self.session.library.path.display().to_string()));
        machine.push(("Samples", self.options.samples.to_string()));
        machine.push(("Compared", compared.to_owned()));
        let settings = settings().into_iter().map(|(name, value)| ("Setting", format!("{name}={value}")));
        machine.extend(settings);
        machine.extend(self.peers.missing.iter().map(|why| ("Missing peer", why.clone())));
        machine
    }

    /// The same for programs.
    pub fn setting(&self) -> serde_json::Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "library": self.session.library.path.display().to_string(),
            "backend": library::backend_name(),
            "processor": processor(),
            "gpu": self.peers.gpu(),
            "settings": settings(),
            "samples": self.options.samples,
            "verified": !self.options.no_verify,
            "missing_peers": self.peers.missing,
            "memory": *self.memory.borrow(),
        })
    }
}

/// Whether a function may be missing: the default product has every function on the host backend.
fn may_lack() -> bool {
    library::is_other_product() || library::backend_name() != "host"
}

/// A bar of progress: `[######..............]  12%  h2d/2d/w64`.
fn bar(done: f64, name: &str) -> String {
    const WIDTH: usize = 30;
    let full = ((done * WIDTH as f64) as usize).min(WIDTH);
    format!("[{}{}] {:>3.0}%  {name}", "#".repeat(full), ".".repeat(WIDTH - full), done * 100.0)
}
