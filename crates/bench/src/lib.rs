//! `ferry bench`: the throughput and latency of every kind of copy, beside the peers that can do the same.
//! Ferry is measured through the public C ABI, as a user's program calls it. The samples of a case are taken
//! from Ferry and its peers in turn; shown are medians, percentiles and ratios. Every byte that a contender
//! copied is compared, unless the options say otherwise. docs/performance.md says what is measured and how to
//! read it.
//!
//! `cases` and `work` say what is measured, `copiers` do it, `peers` chooses them, `sampling` takes the
//! samples, `runner` does that for case after case, `report`, `table` and `plots` show them; `alignment`,
//! `allocation`, `beside`, `fill`, `growth`, `random_matrices`, `threads`, `used`, `recorded` and `tune` are
//! cases of their own kind; `checked` runs cases plain and under `ferry check`. From `lib` only the options
//! are imported.

use std::path::PathBuf;
use std::process::ExitCode;

use ferry_abi::{Library, Result};
use ferry_terminal::{Terminal, lost, put};

use beside::ProductOptions;
use cases::Case;
use report::Row;
use report_file::ReportFile;
use runner::Bench;
use table::ResultTable;

mod alignment;
mod allocation;
mod beside;
mod bytes;
mod cases;
mod checked;
mod copier;
mod copiers;
mod duplex;
mod fill;
mod growth;
mod matrix;
mod peers;
mod pieces;
mod plots;
mod random;
mod random_matrices;
mod recorded;
mod report;
mod report_file;
mod room;
mod route;
mod runner;
mod sampling;
mod setting;
mod shape;
mod sides;
mod table;
mod threads;
mod tune;
mod units;
mod used;
mod work;

/// What is to be measured, and how.
#[derive(clap::Args)]
pub struct BenchOptions {
    /// List the cases and what they mean
    #[arg(long, short)]
    list: bool,
    /// A case, or all whose names begin so, as in h2d or h2d/2d; other sizes than those listed as in
    /// h2d/2d/w512, h2d/2d/w100p257, h2d/batch/300x8K or h2d/batch/300x1-64K; `corners`, what is hard to be
    /// fast at; may be repeated [all]
    #[arg(long = "test", short, value_name = "NAME")]
    tests: Vec<String>,
    /// Measure the copies of a recording, which ferry record wrote, in place of the usual cases
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tune", "block"])]
    recording: Option<PathBuf>,
    /// Over how much memory on each side the pieces of a batch lie, as in 256M [1G; 256M for corners and
    /// beside]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    spread: Option<usize>,
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
    #[command(flatten)]
    product: ProductOptions,
}

/// Comparing a gigabyte takes longer than most corners.
const SMALL_SPREAD: usize = 256 << 20;

impl BenchOptions {
    /// Over how much memory pieces are scattered.
    fn spread(&self) -> usize {
        let usual = if self.tests.iter().any(|test| test == cases::CORNERS) { SMALL_SPREAD } else { 1 << 30 };
        self.spread.unwrap_or(usual)
    }

    /// The same, where little time is left for comparing.
    fn small_spread(&self) -> usize {
        self.spread.unwrap_or(SMALL_SPREAD)
    }
}

/// Measures, and prints as asked.
pub fn main(options: &BenchOptions) -> Result<ExitCode> {
    if options.checked {
        return checked::main(options);
    }
    let recorded = match &options.recording {
        Some(file) => recorded::load(file, options.spread())?,
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
        let of_case = bench.run(case, (index, cases.len()));
        if shows_table {
            of_case.iter().for_each(|row| table.row(row));
        }
        rows.extend(of_case);
    }
    bench.close()?;
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

fn size(text: &str) -> ferry::Result<usize> {
    match ferry::parse_size(text)? {
        0 => Err(ferry::Kind::BadSetting.because("a copy has at least one byte")),
        size => Ok(size),
    }
}
