//! `ferry doctor [-- PROGRAM]`: what a program will find here, and what is in its way, one line each, with a
//! remedy.
//!
//! Nothing is changed, and the program is not started. The library is opened as a program would open it;
//! files of the program are read, and Python is asked where its packages are.

use std::ffi::OsString;
use std::process::ExitCode;

use ferry_abi::{Library, Result, library};
use ferry_terminal::{Terminal, bytes};

use crate::machine::Machine;
use crate::prefix::Prefix;

use finding::{Finding, Severity, fine, note, wrong};

mod elf;
mod finding;
mod limits;
mod packages;
mod program;
mod search;
mod settings;

/// Options of `ferry doctor`.
#[derive(clap::Args)]
#[command(override_usage = "ferry doctor [OPTIONS] [-- PROGRAM [ARGUMENTS]...]")]
#[command(after_help = "PROGRAM may be a library, or a folder of them; it is not started.\n\
Exit code: 0, also where there are notes; 1 when something is wrong.")]
pub struct DoctorArgs {
    #[command(flatten)]
    machine: Machine,
    /// The program to look at, as it would be started
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Prints what was found.
pub fn main(args: &DoctorArgs) -> Result<ExitCode> {
    let mut findings = settings::inspect();
    // SAFETY: the command has started no thread yet.
    unsafe { args.machine.export() };
    let library = library_and_devices();
    if library.iter().any(|finding| finding.about == settings::ABOUT) {
        findings.retain(|finding| finding.severity != Severity::Fine);
    }
    findings.splice(0..0, library);
    findings.extend(limits::inspect());
    if !args.command.is_empty() {
        findings.extend(program::inspect(&args.command));
    }
    let terminal = Terminal::stdout();
    findings.iter().for_each(|finding| terminal.say(&finding.line(&terminal)));
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (wrongs, notes) = (count(Severity::Wrong), count(Severity::Note));
    terminal.say(&format!("{wrongs} wrong, {notes} to note, {} fine", count(Severity::Fine)));
    Ok(if wrongs == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Which library the command and `ferry run` use, what it says it is, and what it offers.
fn library_and_devices() -> Vec<Finding> {
    let library = match library::find() {
        Ok(path) => path,
        Err(why) => {
            let remedy =
                "install it (cargo xtask install --prefix DIR), or build it: cargo build -p ferry-capi";
            return vec![wrong("library", why.to_string(), remedy)];
        }
    };
    let by = if std::env::var_os("FERRY_LIBRARY").is_some_and(|path| !path.is_empty()) {
        "by FERRY_LIBRARY"
    } else {
        "beside this command"
    };
    let mut findings = vec![fine("library", format!("{}, found {by}", library.display()))];
    findings.push(match Prefix::of(&library) {
        Some(prefix) => {
            let is_beside = library.starts_with(&prefix.home);
            let what = if is_beside { "the library is in an installed tree" } else { "the wheel's toolkit" };
            fine("prefix", format!("{}: {what}", prefix.home.display()))
        }
        None => note(
            "prefix",
            "the library was built and not installed: there are no companion libraries and no files with \
             versions",
            "cargo xtask install --prefix DIR, for programs that look for a toolkit",
        ),
    });
    findings.extend(opened());
    findings
}

/// The library as a program finds it: it opens, and its versions and devices.
fn opened() -> Vec<Finding> {
    let outcome = Library::open().and_then(|library| {
        let mut findings = vec![versions(library)?, devices(library)?];
        findings.retain(|finding| !finding.text.is_empty());
        library.finish().map(|()| findings)
    });
    outcome.unwrap_or_else(|why| vec![unopened(&why.to_string())])
}

/// The library does not open. It names the variable if it was one of ours.
fn unopened(why: &str) -> Finding {
    match settings::named_in(why) {
        Some(name) => wrong(
            settings::ABOUT,
            why.to_owned(),
            format!("unset {name}, or give a value of share/doc/ferry/ENVIRONMENT.md"),
        ),
        None => wrong("devices", why.to_owned(), "ferry explain CODE says more"),
    }
}

fn versions(library: &Library) -> Result<Finding> {
    let cann = library.package_version("runtime")?;
    let ours = library.version.map(|version| format!("Ferry {version}, ")).unwrap_or_default();
    let text = format!("{ours}command {}, CANN {cann}", env!("CARGO_PKG_VERSION"));
    let told = Prefix::of(&library.path).and_then(|prefix| prefix.version());
    Ok(match told.filter(|told| *told != cann) {
        Some(told) => note(
            "versions",
            format!("{text}, but the files of the tree say {told}"),
            "unset FERRY_CANN_VERSION: programs compare the two",
        ),
        None => fine("versions", text),
    })
}

fn devices(library: &Library) -> Result<Finding> {
    let (count, soc, backend) = (library.device_count()?, library.soc_name()?, library::backend_name());
    if count == 0 {
        let why = "no device is visible: ASCEND_RT_VISIBLE_DEVICES leaves none";
        return Ok(wrong("devices", why, "unset it, or give numbers of devices that exist: 0,1"));
    }
    library.set_device(0)?;
    let (free, total) = library.memory_info()?;
    library.reset_device(0)?;
    let memory = format!("{} each, {} free on the first", bytes(total), bytes(free));
    let text = format!("{count} x {soc}, {backend} backend, {memory}");
    Ok(match count {
        1 => note("devices", text, "FERRY_DEVICES=2: some programs expect two cards"),
        _ => fine("devices", text),
    })
}
