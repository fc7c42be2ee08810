//! `ferry tour`: every function of the founding documents, end to end, every byte checked.
//!
//! The tour is a list of parts. A part sets up memory, calls the library, and compares all memory it gave to the
//! library, changed or not, with a mirror computed here by plain loops. To add one, write a function and put a row
//! into the `PARTS` of its file.

use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::error::{Error, NOT_SUPPORTED, Result};
use crate::library::Library;
use crate::machine::{self, Machine};
use crate::terminal::{Terminal, bytes, lost, tell};

use ctx::Ctx;
use table::Table;

mod allocations;
mod batch;
pub mod batch_call;
mod batch_refused;
mod blocking;
mod callbacks;
pub mod child;
mod condition;
pub mod ctx;
mod descriptor;
pub mod device;
mod events;
mod fill;
pub mod hold;
mod linear;
mod matrix;
mod matrix_limits;
pub mod memory;
pub mod mirror;
mod order;
mod others;
mod pieces;
mod queries;
mod reduce;
mod refusal;
mod registered;
mod shared;
mod stopping;
pub mod stream;
mod table;
mod virtual_memory;

/// Options of `ferry tour`.
#[derive(clap::Args)]
#[command(after_help = "Exit code: 0 when every part is ok, 1 when one is not.\n\
The R, N and X numbers are those of docs/requirements.md.")]
pub struct Args {
    #[command(flatten)]
    machine: Machine,
    /// Use small memory: seconds become a moment, speeds mean little
    #[arg(long)]
    quick: bool,
}

/// One row of the tour.
pub struct Part {
    /// What is done, in words.
    pub what: &'static str,
    /// The requirements that would be broken if it failed.
    pub proves: &'static str,
    /// Whether every backend must do it; others may answer "not supported" on a backend other than `host`. A product that is
    /// chosen may lack anything.
    pub everywhere: bool,
    /// Does it.
    pub run: fn(&mut Ctx) -> Result<Proof>,
}

/// What a part has to show for itself.
pub struct Proof {
    /// Bytes compared with the mirror.
    pub verified: usize,
    /// How fast it went, where that means something.
    pub speed: Option<Speed>,
}

/// A measured speed.
pub enum Speed {
    /// Bytes moved in a time.
    Rate { bytes: usize, time: Duration },
    /// Calls made in a time.
    Calls { count: usize, time: Duration },
}

/// How a part ended.
pub enum Outcome {
    /// Done and right.
    Ok(Proof),
    /// This backend says that it does not do it, and why.
    NotYet(String),
    /// This machine, or the product that was chosen, lacks what it needs.
    NotHere(String),
    /// Wrong.
    Failed(Error),
}

/// Groups of parts: a name, the functions it is about, the parts.
const GROUPS: &[(&str, &str, &[Part])] = &[
    ("Matrix copies", "aclrtMemcpy2dAsync, aclrtMemcpy2d", matrix::PARTS),
    ("Copies with a condition", "aclrtMemcpyAsyncWithCondition", condition::PARTS),
    ("Batches", "aclrtMemcpyBatchAsync, aclrtMemcpyBatch, and V2 of both", batch::PARTS),
    ("Descriptors", "aclrtMemcpyAsyncWithDesc, aclrtMemcpyAsyncWithOffset", descriptor::PARTS),
    ("Plain copies", "aclrtMemcpyAsync, aclrtMemcpy", linear::PARTS),
    ("What asynchronous means", "the four copies that take a stream", blocking::PARTS),
    ("Fills", "aclrtMemset, aclrtMemsetD32, and Async of both", fill::PARTS),
    ("Reductions", "aclrtReduceAsync", reduce::PARTS),
    ("Order", "streams, events and host functions", order::PARTS),
    (
        "Streams that stop",
        "aclrtStreamAbort, aclrtDestroyStreamForce, aclrtSetStreamFailureMode",
        stopping::PARTS,
    ),
    ("Events", "aclrtResetEvent, aclrtEventGetTimestamp, aclrtQueryEvent, ...WaitStatus", events::PARTS),
    ("Callbacks", "aclrtSubscribeReport, aclrtLaunchCallback, aclrtProcessReport", callbacks::PARTS),
    ("Other allocations", "aclrtMallocWithCfg and others, aclrtFreeWithDevSync", allocations::PARTS),
    ("Registered memory", "aclrtHostRegister, ...V2, aclrtHostGetDevicePointer", registered::PARTS),
    ("Virtual memory", "aclrtReserveMemAddress, aclrtMallocPhysical, aclrtMapMem", virtual_memory::PARTS),
    ("Memory between processes", "aclrtIpcMem..., aclrtMem...ShareableHandle", shared::PARTS),
    ("Questions", "devices, versions, the last error, peers, parameters", queries::PARTS),
    ("Other processes", "visible devices, forms, endings", others::PARTS),
    ("Mistakes", "refused, explained, nothing changed", refusal::PARTS),
];

/// A part that takes longer than this hangs; the longest takes seconds on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the tour and prints its table.
pub fn main(args: &Args) -> Result<ExitCode> {
    // SAFETY: the command has started no thread yet.
    unsafe { args.machine.export() };
    let begin = Instant::now();
    let library = Library::open()?;
    let terminal = Terminal::stdout();
    let mut ctx = Ctx::open(library, args.quick, terminal)?;
    let mut table = Table::new(terminal);
    table.title(&title(&ctx)?);
    for (group, about, parts) in GROUPS {
        table.group(group, about);
        // Nobody can read what is lost.
        for part in parts.iter().take_while(|_| lost().is_none()) {
            table.begin(part);
            let outcome = perform(group, part, &mut ctx);
            table.end(part, outcome);
        }
    }
    ctx.close()?;
    Ok(if table.finish(begin.elapsed()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one part, under watch, and judges it.
fn perform(group: &'static str, part: &'static Part, ctx: &mut Ctx) -> Outcome {
    let done = watch(group, part.what);
    ctx.begin(part.what);
    let outcome = (part.run)(ctx);
    drop(done);
    let may_lack = !part.everywhere && machine::backend_name() != "host";
    match outcome {
        Ok(proof) => Outcome::Ok(proof),
        Err(error) if machine::is_other_product() && error.code() == Some(NOT_SUPPORTED) => {
            Outcome::NotHere(error.to_string())
        }
        Err(error) if may_lack && error.code() == Some(NOT_SUPPORTED) => Outcome::NotYet(error.to_string()),
        Err(Error::NotHere(why)) => Outcome::NotHere(why),
        Err(error) => Outcome::Failed(error),
    }
}

/// Ends the command with a word about the part if it is not done in time. Dropping the sender says that it is.
fn watch(group: &'static str, what: &'static str) -> mpsc::Sender<()> {
    let (done, wait) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if wait.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            let limit = PATIENCE.as_secs();
            tell(&format!("\nferry: tour failed: {group}, {what}: expected an end, saw none in {limit} s\n"));
            std::process::exit(1);
        }
    });
    done
}

fn title(ctx: &Ctx) -> Result<String> {
    let (_, total) = ctx.library.memory_info()?;
    let (version, backend, soc) =
        (env!("CARGO_PKG_VERSION"), machine::backend_name(), ctx.library.soc_name()?);
    let (count, memory) = (ctx.devices, bytes(total));
    let devices = if count == 1 { "1 device".to_owned() } else { format!("{count} devices") };
    Ok(format!("ferry {version} on the {backend} backend: {devices} of {memory}, posing as {soc}"))
}
