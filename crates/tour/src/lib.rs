//! `ferry tour`: an end-to-end test of every documented function on the machine at hand, every byte compared.
//! The tour is a list of parts. A part allocates memory, calls the library through its C ABI, and compares
//! all memory that it gave to the library, changed or not, with a mirror computed by plain loops. To add one,
//! write a function and put a row into the `PARTS` of its file.
//!
//! Arrows: `proof <- ctx <- part, child, waits <- parts <- lib`, and `table` between `part` and `lib`.
//! Nothing here links an engine.

use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ferry_abi::error::NOT_SUPPORTED;
use ferry_abi::{Error, Library, Result, library};
use ferry_terminal::{Terminal, bytes, lost, tell};

use child::Parent;
use ctx::Ctx;
use part::{PartOutcome, TourPart};
use parts::GROUPS;
use table::ResultTable;

mod child;
mod ctx;
mod mirror;
mod part;
mod parts;
mod proof;
mod table;
mod waits;

/// Options of the tour.
#[derive(clap::Args)]
pub struct TourOptions {
    /// Use small memory: seconds become a moment, speeds mean little
    #[arg(long)]
    quick: bool,
}

/// How long a part may take; the longest takes seconds on a slow machine.
const PART_LIMIT: Duration = Duration::from_secs(120);

/// Runs the tour and prints its table.
pub fn main(options: &TourOptions) -> Result<ExitCode> {
    let begin = Instant::now();
    let library = Library::open()?;
    let terminal = Terminal::stdout();
    let mut ctx = Ctx::open(library, options.quick, terminal)?;
    let mut table = ResultTable::new(terminal);
    table.title(&title(&ctx)?);
    for (group, about, parts) in GROUPS {
        table.group(group, about);
        // What cannot be written any more need not be run.
        for part in parts.iter().take_while(|_| lost().is_none()) {
            table.begin(part);
            let outcome = perform(group, part, &mut ctx);
            table.end(part, outcome);
        }
    }
    ctx.close()?;
    Ok(if table.finish(begin.elapsed()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays a role in a process that the tour has started by calling the command again: `ferry role NAME`.
pub fn play(role: &str) -> Result<ExitCode> {
    let play = parts::role(role).ok_or_else(|| Error::Setup(format!("there is no role {role}")))?;
    let mut ctx = Ctx::open(Library::open()?, true, Terminal::stdout())?;
    let mut parent = Parent::new();
    play(&mut ctx, &mut parent)?;
    parent.say(ctx.proof()?.verified);
    Ok(ExitCode::SUCCESS)
}

/// Runs one part under a watchdog, and decides what its error means.
fn perform(group: &'static str, part: &'static TourPart, ctx: &mut Ctx) -> PartOutcome {
    let done = watch(group, part.what);
    ctx.begin(part.what);
    let outcome = (part.run)(ctx);
    drop(done);
    let may_lack = !part.everywhere && library::backend_name() != "host";
    match outcome {
        Ok(proof) => PartOutcome::Ok(proof),
        Err(error) if library::is_other_product() && error.code() == Some(NOT_SUPPORTED) => {
            PartOutcome::NotHere(error.to_string())
        }
        Err(error) if may_lack && error.code() == Some(NOT_SUPPORTED) => {
            PartOutcome::NotYet(error.to_string())
        }
        Err(Error::NotHere(why)) => PartOutcome::NotHere(why),
        Err(error) => PartOutcome::Failed(error),
    }
}

/// A watchdog: ends the process with a message if the part is not done in time. Dropping the sender disarms
/// it.
fn watch(group: &'static str, what: &'static str) -> mpsc::Sender<()> {
    let (done, wait) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if wait.recv_timeout(PART_LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            let limit = PART_LIMIT.as_secs();
            tell(&format!("\nferry: tour failed: {group}, {what}: expected an end, saw none in {limit} s\n"));
            std::process::exit(1);
        }
    });
    done
}

fn title(ctx: &Ctx) -> Result<String> {
    let (_, total) = ctx.library.memory_info()?;
    let (version, backend, soc) =
        (env!("CARGO_PKG_VERSION"), library::backend_name(), ctx.library.soc_name()?);
    let (count, memory) = (ctx.devices, bytes(total));
    let devices = if count == 1 { "1 device".to_owned() } else { format!("{count} devices") };
    Ok(format!("ferry {version} on the {backend} backend: {devices} of {memory}, posing as {soc}"))
}
