//! `ferry copy SRC DST`: a file goes through device memory and comes back, and every byte is compared.
//!
//! For people who set a machine up: do my bytes survive the trip, and how fast is it? It is also where we
//! live with our own Rust API: the engine runs in this process, and libascendcl.so has no part in it.
//!
//! `endpoint` is a file or a standard stream, `pipeline` moves what one of them holds to the other; neither
//! prints.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ferry::{Device, Options, Runtime};
use ferry_abi::{Error, Result};
use ferry_terminal::{Terminal, bytes, figures};

use crate::machine::Backend;

use endpoint::Endpoint;
use pipeline::{Pipeline, Totals};

mod endpoint;
mod pipeline;

/// How long a copy takes before its progress is shown.
const FIRST_PROGRESS: Duration = Duration::from_millis(500);
/// How often the progress is shown from then on.
const REFRESH: Duration = Duration::from_millis(100);

/// Options of `ferry copy`.
#[derive(clap::Args)]
#[command(
    after_help = "DST is written as far as the bytes came back right; where one did not, the copy ends \
with an error.\n\
Exit code: 0 when all of SRC is in DST, 1 when not."
)]
pub struct CopyArgs {
    /// The file to read, or - for standard input
    src: PathBuf,
    /// The file to write, or - for standard output
    dst: PathBuf,
    /// Devices made of memory and threads, or GPUs [FERRY_BACKEND, else host]
    #[arg(long, value_enum, value_name = "host|cuda", hide_possible_values = true)]
    backend: Option<Backend>,
    /// The device to go through
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    /// Bytes that travel at once, as in 512K or 4M
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = chunk)]
    chunk: usize,
    /// How many chunks are under way at a time
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    depth: u32,
    /// Say nothing unless something is wrong
    #[arg(long, short)]
    quiet: bool,
}

/// Copies, and tells how it went.
pub fn main(args: &CopyArgs) -> Result<ExitCode> {
    let src = Endpoint::source(&args.src)?;
    let device = open(args)?;
    // Before the destination is touched: what cannot begin leaves an old file as it was.
    let pipeline = prepare(&device, args, src.size())?;
    let mut dst = Endpoint::destination(&args.dst, &src)?;

    let mut progress = Progress::new(src.size(), !args.quiet && !dst.is_terminal());
    let start = Instant::now();
    let totals = pipeline.run(src, |chunk| {
        dst.write(chunk)?;
        progress.add(chunk.len(), start);
        Ok(())
    });
    progress.end();
    let totals = totals?;
    if !args.quiet {
        Terminal::stderr().say(&format!("ferry: {}", report(&totals, start.elapsed(), &device)));
    }
    Ok(ExitCode::SUCCESS)
}

fn open(args: &CopyArgs) -> Result<Device> {
    let device = || {
        let mut options = Options::from_env()?;
        options.backend = args.backend.map_or(options.backend, Into::into);
        Runtime::open(&options)?.device(args.device)
    };
    device().map_err(|error| Error::Setup(format!("cannot open device {}: {error}", args.device)))
}

/// Makes room for as many chunks as will be under way, but not for more than there is to send.
fn prepare(device: &Device, args: &CopyArgs, size: Option<usize>) -> Result<Pipeline> {
    let chunk = args.chunk.min(size.unwrap_or(usize::MAX));
    let depth = (args.depth as usize).min(size.map_or(usize::MAX, |size| size.div_ceil(chunk)));
    Pipeline::prepare(device, chunk, depth).map_err(|error| {
        let (id, chunk) = (device.id(), bytes(chunk));
        Error::Setup(format!(
            "cannot make room on device {id} for chunks of {chunk}, {depth} at a time: {error}"
        ))
    })
}

/// `4096 bytes in 0.12 s, 0.85 GB/s (up 9.81, down 10.2) through device 0, backend host; all bytes compared`.
fn report(totals: &Totals, time: Duration, device: &Device) -> String {
    let rate = |time: Duration| figures(totals.bytes as f64 / 1e9 / time.as_secs_f64().max(1e-9));
    let (id, backend) = (device.id(), device.runtime().backend());
    let mut text = format!("{} bytes in {:.2} s", totals.bytes, time.as_secs_f64());
    if totals.bytes > 0 {
        text += &format!(", {} GB/s", rate(time));
    }
    if let Some((up, down)) = totals.ways.filter(|_| totals.bytes > 0) {
        text += &format!(" (up {}, down {})", rate(up), rate(down));
    }
    text + &format!(" through device {id}, backend {backend}; all bytes compared")
}

fn chunk(text: &str) -> ferry::Result<usize> {
    match ferry::parse_size(text)? {
        0 => Err(ferry::Kind::BadSetting.because("a chunk has at least one byte")),
        size => Ok(size),
    }
}

/// A line about how far a long copy is.
struct Progress {
    terminal: Option<Terminal>,
    /// What there is to copy, where that is known.
    size: Option<usize>,
    done: usize,
    next: Duration,
}

impl Progress {
    fn new(size: Option<usize>, is_wanted: bool) -> Progress {
        Progress { terminal: is_wanted.then(Terminal::stderr), size, done: 0, next: FIRST_PROGRESS }
    }

    fn add(&mut self, count: usize, start: Instant) {
        self.done += count;
        let time = start.elapsed();
        if let Some(terminal) = self.terminal.filter(|_| time >= self.next) {
            self.next = time + REFRESH;
            terminal.show(&self.line(time));
        }
    }

    fn line(&self, time: Duration) -> String {
        let of = self.size.map(|size| format!(" of {}", bytes(size))).unwrap_or_default();
        let rate = figures(self.done as f64 / 1e9 / time.as_secs_f64());
        format!("  {}{of}, {rate} GB/s", bytes(self.done))
    }

    fn end(&self) {
        if let Some(terminal) = self.terminal {
            terminal.show("");
        }
    }
}
