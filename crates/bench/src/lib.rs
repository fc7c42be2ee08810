//! `ferry bench`: the throughput and latency of every kind of copy, beside the peers that can do the same.
//! Ferry is measured through the public C ABI, as a user's program calls it. The samples of a case are taken
//! from Ferry and its peers in turn; shown are medians, percentiles and ratios. Every byte that a contender
//! copied is compared, unless the options say otherwise. docs/performance.md says what is measured and how to
//! read it.
//!
//! `cases` and `work` say what is measured, `copiers` do it, `peers` chooses them, `sampling` takes the
//! samples, `report`, `table` and `plots` show them; `alignment`, `fill`, `growth`, `used`, `recorded` and
//! `tune` are cases of their own kind; `checked` runs cases plain and under `ferry check`. Nothing is
//! imported from `lib`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use ferry_abi::error::{INVALID_PARAM, NOT_SUPPORTED};
use ferry_abi::peer::PeerAccess;
use ferry_abi::session::Session;
use ferry_abi::{Error, Library, Result, library};
use ferry_terminal::{Terminal, bytes, lost, put};
use serde_json::json;

use cases::Case;
use peers::{CopySpec, MemcpyPeers, Peers};
use recorded::RecordedCopies;
use report::Row;
use report_file::ReportFile;
use route::Route;
use sampling::{Contender, Figures, Sampling};
use shape::Shape;
use table::ResultTable;
use work::Workload;

mod alignment;
mod bytes;
mod cases;
mod checked;
mod copier;
mod copiers;
mod fill;
mod growth;
mod peers;
mod plots;
mod recorded;
mod report;
mod report_file;
mod route;
mod sampling;
mod shape;
mod sides;
mod table;
mod tune;
mod used;
mod work;

/// What is to be measured, and how.
#[derive(clap::Args)]
pub struct BenchOptions {
    /// List the cases and what they mean
    #[arg(long, short)]
    list: bool,
    /// A case, or all whose names begin so, as in h2d or h2d/2d; other sizes than those listed as in
    /// h2d/2d/w512 or h2d/batch/300x8K; may be repeated [all]
    #[arg(long = "test", short, value_name = "NAME")]
    tests: Vec<String>,
    /// Measure the copies of a recording, which ferry record wrote, in place of the usual cases
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tune", "block"])]
    recording: Option<PathBuf>,
    /// Over how much memory on each side the pieces of a batch lie, as in 256M
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    spread: usize,
    /// Bytes of a copy, in batches of a piece, in place of the usual sizes, as in 64K
    #[arg(long = "block", short, value_name = "SIZE", value_parser = size)]
    block: Option<usize>,
    /// Samples of each contender
    #[arg(long, short = 'i', value_name = "N", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Print JSON, for programs
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values, for those who plot
    #[arg(long)]
    csv: bool,
    /// Also write a page with plots, which a browser opens: bars and curves beside the peers
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    report: Option<PathBuf>,
    /// Measure others as well: on a GPU the CUDA driver itself, else PoCL through the OpenCL loader, where it
    /// is installed
    #[arg(long)]
    peers: bool,
    /// Measure where copy engines and kernels of this GPU overtake each other, and print it for
    /// FERRY_CUDA_PLAN
    #[arg(long, conflicts_with_all = ["tests", "json", "csv", "report", "peers", "list"])]
    tune: bool,
    /// Measure what ferry check costs: the cases plain and checked in turn
    #[arg(long, conflicts_with_all = ["csv", "report", "peers", "list", "tune", "recording", "block"])]
    checked: bool,
    /// Do not compare what was copied
    #[arg(long)]
    no_verify: bool,
}

/// Measures, and prints as asked.
pub fn main(options: &BenchOptions) -> Result<ExitCode> {
    if options.checked {
        return checked::main(options);
    }
    let recorded = match &options.recording {
        Some(file) => recorded::load(file, options.spread)?,
        None => Vec::new(),
    };
    let all = if recorded.is_empty() { cases::all(options.block) } else { recorded::cases(&recorded) };
    let cases = cases::select(all, &options.tests)?;
    if options.list {
        list(&cases);
        return Ok(ExitCode::SUCCESS);
    }
    if options.tune {
        return tune::main(options.samples);
    }
    // A page that cannot be written is an error now and not after minutes.
    let page = options.report.as_deref().map(ReportFile::open).transpose()?;
    let library = Library::open()?;
    let bench = Bench::open(library, options, recorded)?;
    let mut table = ResultTable::new(Terminal::stdout());
    let shows_table = !options.json && !options.csv;
    if shows_table {
        table.title(&bench.title()?);
    }
    let mut rows = Vec::new();
    // What cannot be written any more need not be measured.
    for (index, case) in cases.iter().enumerate().take_while(|_| lost().is_none()) {
        let row = bench.run(case, (index, cases.len()));
        if shows_table {
            table.row(&row);
        }
        rows.push(row);
    }
    bench.session.close()?;
    if shows_table {
        table.end();
    } else if options.json {
        put(&report::json(bench.setting(), &rows));
    } else {
        put(&report::csv(&rows));
    }
    if let Some(page) = page {
        let data = report::json(bench.setting(), &rows);
        page.write(&plots::page(&report_file::command_line(), &bench.machine(), &rows, &data))?;
    }
    Ok(if rows.iter().any(Row::failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn list(cases: &[Case]) {
    for case in cases {
        put(&format!("{:<28} {}\n", case.name, case.work.about()));
    }
}

/// What all cases share: the library in use, the options, the peers.
struct Bench<'a> {
    session: Session,
    options: &'a BenchOptions,
    peers: Peers,
    recorded: Vec<RecordedCopies>,
    /// The most memory that a case took.
    memory: RefCell<serde_json::Value>,
}

impl<'a> Bench<'a> {
    fn open(
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

    /// Measures one case.
    fn run(&self, case: &Case, (index, total): (usize, usize)) -> Row {
        let terminal = Terminal::stderr();
        let samples = self.options.samples as usize * case.sample_factor();
        let mut progress = |done: usize| {
            let done = (index as f64 + done.min(samples) as f64 / samples as f64) / total as f64;
            terminal.show(&bar(done, &case.name));
        };
        progress(0);
        let plan = Sampling { samples, verify: !self.options.no_verify };
        let mut row = Row {
            name: case.name.clone(),
            series: case.series().to_owned(),
            about: case.work.about(),
            bytes: 0,
            growth: matches!(case.work, Workload::Growth { .. }),
            sweep: case.work.sweep(),
            outcome: Ok(Vec::new()),
            note: None,
        };
        let outcome = self.perform(case.work, plan, &mut row, &mut progress);
        row.outcome = outcome.map_err(|error| match error.code() {
            Some(INVALID_PARAM) if library::is_other_product() => Error::NotHere(error.to_string()),
            Some(NOT_SUPPORTED) if may_lack() => Error::NotHere(error.to_string()),
            _ => error,
        });
        if row.outcome.is_err() {
            row.note = None;
        }
        terminal.show("");
        row
    }

    fn perform(
        &self,
        work: Workload,
        plan: Sampling,
        row: &mut Row,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Figures>> {
        let session = &self.session;
        match work {
            Workload::Alignment { route, len } => {
                must_fit(session, len)?;
                row.bytes = len;
                let case = (route, len);
                let (figures, note) = alignment::worst(session, &self.peers, case, plan, progress)?;
                row.note = Some(note);
                return Ok(figures);
            }
            Workload::Growth { growth, count } => {
                return sampling::measure(&mut growth::contenders(session, growth, count)?, plan, progress);
            }
            Workload::Fill { len, words } => {
                must_fit(session, len)?;
                row.bytes = len;
                return self.measure(&mut fill::contenders(session, len, words)?, plan, progress);
            }
            Workload::Used { using, len } => {
                must_fit(session, len)?;
                return self.measure(&mut used::contenders(session, using, len)?, plan, progress);
            }
            _ => {}
        }
        let spec = self.spec(work, row)?;
        must_fit(session, spec.room)?;
        let _access = (spec.route.device > 0).then(|| reach(session, spec.route)).transpose()?;
        let (mut contenders, note) = self.peers.contenders(session, &spec)?;
        row.note = [row.note.take(), note].into_iter().flatten().reduce(|one, two| format!("{one}; {two}"));
        self.measure(&mut contenders, plan, progress)
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
        let mut spec = match work {
            Workload::Contiguous { route, len } => CopySpec::new(route, Shape::line(len), len),
            Workload::Matrix { route, width, len } => {
                let (height, pitch) = (len / width, width * 2);
                CopySpec::new(route, Shape::Grid { width, height, pitch }, height * pitch)
            }
            Workload::Batch { route, count, block, .. }
            | Workload::Loop { route, count, block, .. }
            | Workload::Graph { route, count, block } => self.scattered(route, count, block, row)?,
            Workload::Descriptors { count, block, .. } => self.scattered(route::INNER, count, block, row)?,
            Workload::Call { len, .. } => CopySpec::new(route::H2D, Shape::line(len), len),
            Workload::Recorded { index, .. } => {
                row.note = self.recorded[index].note();
                self.recorded[index].spec()
            }
            Workload::Alignment { .. }
            | Workload::Growth { .. }
            | Workload::Fill { .. }
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
        row.bytes = if work.is_about_calls() { 0 } else { spec.shape.bytes() };
        spec.memcpy_peers = match work {
            Workload::Call { .. } => MemcpyPeers::WorkerThread,
            _ if work.is_about_calls() => MemcpyPeers::None,
            Workload::Graph { .. } => MemcpyPeers::None,
            _ => MemcpyPeers::OneAndTwoThreads,
        };
        Ok(spec)
    }

    fn scattered(&self, route: Route, count: usize, block: usize, row: &mut Row) -> Result<CopySpec> {
        let region = region(&self.session, self.options.spread, count * block, row)?;
        Ok(CopySpec::new(route, Shape::scattered(count, block, region), region))
    }

    fn title(&self) -> Result<Vec<String>> {
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
    fn machine(&self) -> Vec<(&'static str, String)> {
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

    fn setting(&self) -> serde_json::Value {
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

/// Over how many bytes the pieces of a batch are scattered: as many as asked for, or fewer where memory is
/// short, which the row notes.
fn region(session: &Session, spread: usize, payload: usize, row: &mut Row) -> Result<usize> {
    let most = most(session)?;
    let mut region = spread.max((payload * 2).next_power_of_two());
    while region > most && region > payload * 2 {
        region /= 2;
    }
    if region > most {
        return Err(too_much(region * 2));
    }
    if region < spread {
        row.note = Some(format!("scattered over {} only: there is no memory for more", bytes(region)));
    }
    Ok(region)
}

/// The longest block that a case may have: all contenders have two at the same time, and some a little more.
fn most(session: &Session) -> Result<usize> {
    Ok((session.library.memory_info()?.0 / 3).min(sides::available_memory()? / 9))
}

/// Fails where blocks of `room` bytes would not fit.
fn must_fit(session: &Session, room: usize) -> Result<()> {
    if room > most(session)? { Err(too_much(room * 2)) } else { Ok(()) }
}

fn too_much(need: usize) -> Error {
    Error::NotHere(format!("needs {} on a device, and as much again for each peer", bytes(need)))
}

/// Enables peer access from device 0 to the device of the route.
fn reach(session: &Session, route: Route) -> Result<PeerAccess> {
    if route.device >= session.devices {
        return Err(Error::NotHere(format!(
            "needs {} devices, there are {}",
            route.device + 1,
            session.devices
        )));
    }
    PeerAccess::enable(session.library, 0, route.device as i32)
}

/// The variables that change how the cuda backend copies.
fn settings() -> BTreeMap<String, String> {
    std::env::vars().filter(|(name, _)| name.starts_with("FERRY_CUDA_")).collect()
}

/// The processor's model, and how many of its cores this process may use.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = line.map_or("unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} core{} of {model}", if cores == 1 { "" } else { "s" })
}

/// The name and version of the system's kernel.
fn kernel() -> Option<String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(format!("Linux {}", release.trim()))
}

/// A bar of progress: `[######..............]  12%  h2d/2d/w64`.
fn bar(done: f64, name: &str) -> String {
    const WIDTH: usize = 30;
    let full = ((done * WIDTH as f64) as usize).min(WIDTH);
    format!("[{}{}] {:>3.0}%  {name}", "#".repeat(full), ".".repeat(WIDTH - full), done * 100.0)
}

fn size(text: &str) -> ferry::Result<usize> {
    match ferry::parse_size(text)? {
        0 => Err(ferry::Kind::BadSetting.because("a copy has at least one byte")),
        size => Ok(size),
    }
}
