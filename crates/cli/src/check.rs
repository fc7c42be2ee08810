//! `ferry check -- prog args`: finds memory that is touched while a copy in flight owns it.
//!
//! The program runs as under `ferry run` and is watched; its facts are judged while it runs
//! (`ferry_watch::check`). What is found is printed when it has ended, on standard error, and written for
//! other programs.

mod json;
mod questions;
mod report;
mod sarif;
mod suppressions;
mod text;

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use ferry::watching::alone::TraceReader;
use ferry_abi::Error;
use ferry_terminal::{Terminal, tell};
use ferry_watch::buffers::Wanted;
use ferry_watch::check::{CheckFinding, CheckOptions, Checker, FindingSeverity, ProcessEnd};
use ferry_watch::trace::TraceLimits;
use ferry_watch::{Fact, FactReader, FactSource};

use crate::machine::ProgramMachine;
use crate::output::{OutputFile, OutputFolder, is_one_file};
use crate::run::{self, StartFailure};
use crate::seeds::{self, SeedRun};
use crate::watched::{Watched, WatchedRun};
use questions::Questions;
use suppressions::Suppressions;

/// Options of `ferry check`.
#[derive(clap::Args)]
#[command(override_usage = "ferry check [OPTIONS] -- PROGRAM [ARGUMENTS]...")]
#[command(after_help = "Example: fail a CI job if a program touches memory that a copy still uses:\n\
\x20 ferry check --sarif findings.sarif -- python train.py\n\
\n\
Exit code: 99 (--error-exitcode) when there are errors, also if a signal ended the program; else the\n\
program's own. Warnings do not change it.\n\
`ferry explain FERRY-HOST-READ` says what a finding means and how to mend it.")]
pub struct CheckArgs {
    #[command(flatten)]
    machine: ProgramMachine,
    /// Write the findings to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the findings to this file, as SARIF 2.1.0
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write a page to this folder: the timeline of ferry trace, with the findings on it
    #[arg(long, value_name = "DIR", conflicts_with = "seeds")]
    report: Option<PathBuf>,
    /// Also report memory that is never freed
    #[arg(long)]
    leaks: bool,
    /// Also report calls that would break a capture in the global mode
    #[arg(long)]
    capture_lint: bool,
    /// See every access of the CPU to a page, however many there are and whatever that costs
    #[arg(long)]
    precise: bool,
    /// Leave out the findings that this file describes; may be given several times
    #[arg(long, value_name = "FILE")]
    suppress: Vec<PathBuf>,
    /// Write a file for --suppress that describes what was found; reports every place that touches memory in
    /// flight, and not only the first for each copy
    #[arg(long, value_name = "FILE")]
    write_suppressions: Option<PathBuf>,
    /// Answer processes of the program that ask for their findings while they run, and report at the end only
    /// what nobody asked for: for the plugin of pytest
    #[arg(long, hide = true, conflicts_with = "seeds")]
    answer: bool,
    /// See accesses of the CPU by means that need no privileges: for tests of that
    #[arg(long, hide = true)]
    unprivileged: bool,
    /// Also write every fact to this file, as text: for those who work on the checker
    #[arg(long, value_name = "FILE", hide = true)]
    facts: Option<PathBuf>,
    /// Run the program so often, each time in another random order of work, and say which seeds failed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// The exit code when there are errors
    #[arg(long, value_name = "N", default_value_t = 99)]
    error_exitcode: u8,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the program, says what was found, and answers with its exit code or with that for errors.
pub fn main(args: &CheckArgs) -> ExitCode {
    let suppressions = written_once(args).and_then(|()| Suppressions::read_all(&args.suppress));
    let suppressions = match suppressions {
        Ok(suppressions) => Rc::new(suppressions),
        Err(error) => {
            tell(&format!("ferry check: {error}\n"));
            return ExitCode::from(2);
        }
    };
    let checker = Checker::new(CheckOptions {
        leaks: args.leaks,
        capture_lint: args.capture_lint,
        by_process: args.answer,
    });
    // A file that is to hide what was found has to name all that comes up behind it, too.
    let (known, is_all_left_out) = (suppressions.clone(), args.write_suppressions.is_some());
    let checker = checker.leaving_out(move |finding| is_all_left_out || known.cover(finding));
    let files = match open_files(args) {
        Ok(files) => files,
        Err(failure) => return run::not_started("check", failure),
    };
    let facts = args.facts.as_ref().and_then(|file| File::create(file).ok().map(BufWriter::new));
    let folder = match args.report.as_deref().map(report::open).transpose() {
        Ok(folder) => folder,
        Err(failure) => return run::not_started("check", failure),
    };
    let trace = folder.as_ref().map(|_| TraceReader::new(TraceLimits::default()));
    let mut reader = CheckReader { checker, trace, facts };
    let ran = match args.seeds {
        None if args.answer => run_answering(args, &suppressions, &mut reader),
        None => run_once(args, &[], &mut reader),
        Some(count) => run_seeds(args, count, &suppressions, &mut reader),
    };
    match ran {
        Ok(watched) => ExitCode::from(finish(args, reader, &suppressions, &watched)),
        Err(failure) => {
            folder.into_iter().for_each(OutputFolder::give_up);
            files.into_iter().for_each(OutputFile::give_up);
            run::not_started("check", failure)
        }
    }
}

/// Runs the program with many seeds; one has failed that has errors or another exit code than 0.
fn run_seeds(
    args: &CheckArgs,
    count: u64,
    suppressions: &Suppressions,
    reader: &mut CheckReader,
) -> Result<Watched, StartFailure> {
    let mut lost = 0;
    let watched = seeds::run_all("check", count, args.machine.has_schedule(), |more| {
        let before = errors(reader.checker.findings(), suppressions);
        let end = run_once(args, more, reader)?;
        lost += end.lost;
        let has_failed = end.code != 0 || errors(reader.checker.findings(), suppressions) > before;
        Ok(SeedRun { end, has_failed, is_asked_to_end: end.end.is_asked_to_end })
    })?;
    Ok(Watched { lost, ..watched })
}

/// How many errors there were so far that are not to be left out.
fn errors(findings: &[CheckFinding], suppressions: &Suppressions) -> u64 {
    let is_error =
        |finding: &&CheckFinding| finding.severity == FindingSeverity::Error && !suppressions.cover(finding);
    findings.iter().filter(is_error).map(|finding| finding.count).sum()
}

/// Runs the program, with these variables more, and judges what it did.
fn run_once(
    args: &CheckArgs,
    more: &[(&str, OsString)],
    reader: &mut CheckReader,
) -> Result<Watched, StartFailure> {
    let watched = watched_run(args, more).run(reader)?;
    reader.checker.finish(|process| end_of(process, &watched));
    Ok(watched)
}

/// The same, and answers those who ask meanwhile.
fn run_answering(
    args: &CheckArgs,
    suppressions: &Suppressions,
    reader: &mut CheckReader,
) -> Result<Watched, StartFailure> {
    let setup = |error| (125, Error::Setup(format!("no socket for questions: {error}")));
    let mut questions = Questions::bind().map_err(setup)?;
    let more = [(questions::VARIABLE, questions.path().into())];
    let watched = watched_run(args, &more).run_with(reader, |pause, collector, reader| {
        questions.answer(pause, collector, reader, suppressions);
    })?;
    reader.checker.finish(|process| end_of(process, &watched));
    Ok(watched)
}

/// How a process has ended that did not say so. Of those that the program has started nothing is known.
fn end_of(process: u32, watched: &Watched) -> ProcessEnd {
    match watched.end {
        _ if process != watched.process => ProcessEnd::Unknown,
        end if end.is_stopped => ProcessEnd::Unknown,
        end if end.is_killed => ProcessEnd::Killed,
        _ => ProcessEnd::Itself,
    }
}

fn watched_run<'a>(args: &'a CheckArgs, more: &'a [(&'a str, OsString)]) -> WatchedRun<'a> {
    let wanted = Wanted {
        pieces: true,
        stacks: true,
        accesses: true,
        precise: args.precise,
        compared: args.unprivileged,
        complete: true,
        ..Wanted::default()
    };
    WatchedRun { name: "check", machine: &args.machine, command: &args.command, wanted, more }
}

/// The checker, the timeline of `--report`, and a file that gets the facts as text.
struct CheckReader {
    checker: Checker,
    trace: Option<TraceReader>,
    facts: Option<BufWriter<File>>,
}

impl FactReader for CheckReader {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        if let Some(file) = &mut self.facts {
            let _ = writeln!(file, "{}/{} {fact:?}", source.process, source.thread);
        }
        if let Some(trace) = &mut self.trace {
            trace.take(source, fact);
        }
        self.checker.take(source, fact);
    }
}

/// Prints and writes what was found. The answer is the exit code of the command.
fn finish(args: &CheckArgs, reader: CheckReader, suppressions: &Suppressions, watched: &Watched) -> u8 {
    let CheckReader { checker, trace, .. } = reader;
    let (hidden, findings): (Vec<&CheckFinding>, Vec<&CheckFinding>) =
        checker.findings().iter().partition(|finding| suppressions.cover(finding));
    let terminal = Terminal::stderr();
    let untold: Vec<&CheckFinding> = findings.iter().copied().filter(|finding| !finding.is_told).collect();
    for finding in &untold {
        text::finding(finding, &terminal).iter().for_each(|line| terminal.say(line));
    }
    let lost = watched.lost.max(checker.lost());
    let summary = text::summary(&untold, hidden.len(), &checker, lost, args.precise);
    // Those who asked say how much they were told; what nobody could see is said here.
    let said = usize::from(args.answer && untold.is_empty());
    summary.iter().skip(said).for_each(|line| terminal.say(line));
    let write = |file: &Option<PathBuf>, text: &dyn Fn() -> String| {
        file.as_ref().is_none_or(|file| write(file, &text()))
    };
    let written = [
        write(&args.json, &|| format!("{:#}\n", json::object(&findings))),
        write(&args.sarif, &|| format!("{:#}\n", sarif::object(&findings, Path::new(&args.command[0])))),
        write(&args.write_suppressions, &|| suppressions::describe(&findings)),
        args.report
            .as_deref()
            .zip(trace)
            .is_none_or(|(folder, trace)| report::write(folder, trace, &findings)),
    ];
    let has_errors = untold.iter().any(|finding| finding.severity == FindingSeverity::Error);
    match () {
        () if has_errors => args.error_exitcode,
        () if written.contains(&false) && watched.code == 0 => 1,
        () => watched.code,
    }
}

/// Refuses options of which one would write over what another one reads or writes.
fn written_once(args: &CheckArgs) -> Result<(), String> {
    let written = [
        ("--json", &args.json),
        ("--sarif", &args.sarif),
        ("--write-suppressions", &args.write_suppressions),
    ];
    let written = written.iter().filter_map(|(option, path)| Some((*option, path.as_deref()?)));
    let mut named: Vec<(&str, &Path)> =
        args.suppress.iter().map(|path| ("--suppress", path.as_path())).collect();
    for (option, path) in written {
        if let Some((other, _)) = named.iter().find(|(_, other)| is_one_file(other, path)) {
            let name = path.display();
            return Err(format!(
                "{name} is given for both {other} and {option}: give each a file of its own"
            ));
        }
        named.push((option, path));
    }
    Ok(())
}

/// The files that are written at the end, opened: one that cannot be is told before anything runs.
fn open_files(args: &CheckArgs) -> Result<Vec<OutputFile>, StartFailure> {
    let mut files: Vec<OutputFile> = Vec::new();
    for path in [&args.json, &args.sarif, &args.write_suppressions].into_iter().flatten() {
        match OutputFile::open(path) {
            Ok(file) => files.push(file),
            Err(error) => {
                files.into_iter().for_each(OutputFile::give_up);
                return Err(run::unwritable(path, &error));
            }
        }
    }
    Ok(files)
}

/// Whether the file could be written; if not, that has been said.
fn write(file: &Path, text: &str) -> bool {
    let written = std::fs::write(file, text);
    if let Err(error) = &written {
        tell(&format!("ferry check: cannot write {}: {error}\n", file.display()));
    }
    written.is_ok()
}
