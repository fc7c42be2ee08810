//! `ferry bench`: every kind of copy beside what else would move the bytes, in one run.
//!
//! It goes through the public C ABI, as a user's program does. A case is measured as ours and its peers in turn, sample
//! by sample, and what is shown are medians, spreads and ratios. Every byte that anybody moved is compared, unless told
//! not to. docs/performance.md says what is measured and how to read it.

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;

use crate::error::{Error, Result};
use crate::library::Library;
use crate::machine::{self, Machine};
use crate::terminal::{Terminal, bytes, put};
use crate::tour::ctx::Ctx;
use crate::tour::device::Access;

use block::Route;
use cases::{Case, Work};
use report::Row;
use shape::Shape;
use table::Table;
use trial::{Contender, Figures, Plan};

mod block;
mod cases;
mod copies;
mod plain;
mod report;
mod shape;
mod table;
mod trial;

/// Options of `ferry bench`.
#[derive(clap::Args)]
#[command(after_help = "Ratios say how many times as fast as the peer ferry was: 2.00x is half the time.\n\
Exit code: 0 when everything was measured and right, 1 when a case failed or a byte differed.")]
pub struct Args {
    #[command(flatten)]
    machine: Machine,
    /// List the cases and what they mean
    #[arg(long, short)]
    list: bool,
    /// A case, or all whose names begin so, as in h2d or h2d/2d; may be repeated [all]
    #[arg(long = "test", short, value_name = "NAME")]
    tests: Vec<String>,
    /// Bytes of a copy, in batches of a piece, in place of the usual sizes, as in 64K
    #[arg(long = "block", short, value_name = "SIZE", value_parser = size)]
    block: Option<usize>,
    /// Samples of each contender
    #[arg(long, short = 'i', value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Print JSON, for programs
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values, for those who plot
    #[arg(long)]
    csv: bool,
    /// Do not compare what was copied
    #[arg(long)]
    no_verify: bool,
}

/// Measures, and prints as asked.
pub fn main(args: &Args) -> Result<ExitCode> {
    let cases = cases::select(cases::all(args.block), &args.tests)?;
    if args.list {
        list(&cases);
        return Ok(ExitCode::SUCCESS);
    }
    // SAFETY: the command has started no thread yet.
    unsafe { args.machine.export() };
    let library = Library::open()?;
    let ctx = Ctx::open(library, false, Terminal::stderr())?;
    let mut table = Table::new(Terminal::stdout());
    let shows_table = !args.json && !args.csv;
    if shows_table {
        table.title(&title(&ctx, args)?);
    }
    let mut rows = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let row = run(&ctx, case, args, (index, cases.len()));
        if shows_table {
            table.row(&row);
        }
        rows.push(row);
    }
    ctx.close()?;
    if shows_table {
        table.end();
    } else if args.json {
        put(&report::json(setting(library, args), &rows));
    } else {
        put(&report::csv(&rows));
    }
    Ok(if rows.iter().any(Row::failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn list(cases: &[Case]) {
    for case in cases {
        put(&format!("{:<28} {}\n", case.name, case.about()));
    }
}

/// Measures one case.
fn run(ctx: &Ctx, case: &Case, args: &Args, (index, total): (usize, usize)) -> Row {
    let terminal = Terminal::stderr();
    let samples = args.samples as usize;
    let mut progress = |done: usize| terminal.show(&bar(index * samples + done, total * samples, &case.name));
    progress(0);
    let plan = Plan { samples, verify: !args.no_verify };
    let mut row = Row {
        name: case.name.clone(),
        series: case.series().to_owned(),
        about: case.about(),
        bytes: 0,
        outcome: Ok(Vec::new()),
        note: None,
    };
    row.outcome = perform(ctx, case.work, plan, &mut row, &mut progress);
    terminal.show("");
    row
}

fn perform(
    ctx: &Ctx,
    work: Work,
    plan: Plan,
    row: &mut Row,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Figures>> {
    let (route, shape, room) = match work {
        Work::Contiguous { route, len } => (route, Shape::line(len), len),
        Work::Matrix { route, width, len } => {
            let (height, pitch) = (len / width, width * 2);
            (route, Shape::Grid { width, height, pitch }, height * pitch)
        }
        Work::Batch { route, count, block } => {
            let region = region(ctx, count * block, row)?;
            (route, Shape::scattered(count, block, region), region)
        }
    };
    row.bytes = shape.bytes();
    must_fit(ctx, room)?;
    let _access = (route.device > 0).then(|| reach(ctx, route)).transpose()?;
    let mut contenders = contenders(ctx, route, shape, room)?;
    trial::measure(&mut contenders, plan, progress)
}

/// Ours, and what is always beside it.
fn contenders(ctx: &Ctx, route: Route, shape: Shape, room: usize) -> Result<Vec<Box<dyn Contender>>> {
    let shape = Arc::new(shape);
    let sides = plain::Sides::new(ctx.library, route, room)?;
    Ok(vec![
        Box::new(copies::Ours::new(ctx, route, &shape, room)?),
        Box::new(plain::Plain::one_thread(&sides, &shape)),
        Box::new(plain::Plain::two_threads(&sides, &shape)?),
    ])
}

/// Over how much memory the pieces of a batch are scattered: 1 GiB, or less where there is not enough, which is said.
fn region(ctx: &Ctx, payload: usize, row: &mut Row) -> Result<usize> {
    const USUAL: usize = 1 << 30;
    let most = most(ctx)?;
    let mut region = USUAL.max((payload * 2).next_power_of_two());
    while region > most && region > payload * 2 {
        region /= 2;
    }
    if region > most {
        return Err(too_much(region * 2));
    }
    if region < USUAL {
        row.note = Some(format!("scattered over {} only: there is no memory for more", bytes(region)));
    }
    Ok(region)
}

/// The longest block that any case may have: each contender has two, all at once.
fn most(ctx: &Ctx) -> Result<usize> {
    Ok((ctx.library.memory_info()?.0 / 2).min(block::available_memory()? / 8))
}

/// Says so where blocks of `room` bytes would not fit.
fn must_fit(ctx: &Ctx, room: usize) -> Result<()> {
    if room > most(ctx)? { Err(too_much(room * 2)) } else { Ok(()) }
}

fn too_much(need: usize) -> Error {
    Error::NotHere(format!("needs {} on a device, and as much again for each peer", bytes(need)))
}

/// Lets the devices reach each other.
fn reach(ctx: &Ctx, route: Route) -> Result<Access> {
    if route.device >= ctx.devices {
        return Err(Error::NotHere(format!("needs {} devices, there are {}", route.device + 1, ctx.devices)));
    }
    Access::enable(ctx.library, 0, route.device as i32)
}

fn title(ctx: &Ctx, args: &Args) -> Result<Vec<String>> {
    let (version, backend, samples) = (env!("CARGO_PKG_VERSION"), machine::backend_name(), args.samples);
    let compared = if args.no_verify { "nothing is compared" } else { "every byte is compared" };
    let (_, total) = ctx.library.memory_info()?;
    Ok(vec![
        format!(
            "ferry bench {version} on the {backend} backend: devices of {}, {}",
            bytes(total),
            processor()
        ),
        format!("Medians of {samples} samples, ferry and its peers in turn; {compared}."),
        "GB/s: more is better. us: less is better. x: how many times as fast as the peer ferry is."
            .to_owned(),
    ])
}

fn setting(library: &Library, args: &Args) -> serde_json::Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "library": library.path.display().to_string(),
        "backend": machine::backend_name(),
        "processor": processor(),
        "samples": args.samples,
        "verified": !args.no_verify,
    })
}

/// The model, and how many of its cores this process may use.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = line.map_or("unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} core{} of {model}", if cores == 1 { "" } else { "s" })
}

/// `[######..............]  12%  h2d/2d/w64`.
fn bar(done: usize, total: usize, name: &str) -> String {
    const WIDTH: usize = 30;
    let full = done * WIDTH / total.max(1);
    format!("[{}{}] {:>3}%  {name}", "#".repeat(full), ".".repeat(WIDTH - full), done * 100 / total.max(1))
}

fn size(text: &str) -> ferry::Result<usize> {
    match ferry::parse_size(text)? {
        0 => Err(ferry::Kind::BadSetting.because("a copy has at least one byte")),
        size => Ok(size),
    }
}
