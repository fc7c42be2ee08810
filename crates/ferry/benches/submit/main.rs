//! What it costs to submit work through this crate, against the core's own call:
//! `cargo bench -p ferry --bench submit`.
//!
//! The two sides of a pair run in turn, sample by sample, so that whatever else the machine does happens to
//! both. Only submitting is measured; the work runs to its end between samples. A stream that is held by a
//! function shows submitting alone, and is judged; one that runs shows it with a worker at the other end,
//! which depends on who gets the processor when.
//!
//! `cargo xtask count` counts instructions instead: `submit list` names the pairs,
//! `submit count SIDE NUMBER PAIR` submits.

mod sample;
mod ways;

use sample::Costs;
use std::process::ExitCode;
use ways::{Pair, Setup};

/// Submissions of a sample. As many as a queue of the host backend has room for without growing.
const LOOP: usize = 1000;
const SAMPLES: usize = 57;
/// How often everything is opened anew: where memory lies and on which processors threads run is chance, and
/// different each time.
const ROUNDS: usize = 7;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => {
            for pair in open().pairs(1).expect("memory") {
                println!("{}\t{}\t{}", pair.name, pair.pieces, pair.limit);
            }
            ExitCode::SUCCESS
        }
        ["count", side, number, name] => count(side, number.parse().expect("a number"), name),
        _ => compare(),
    }
}

fn open() -> Setup {
    Setup::open().expect("an engine")
}

fn count(side: &str, number: usize, name: &str) -> ExitCode {
    let setup = open();
    let mut pairs = setup.pairs(number).expect("memory").into_iter();
    let mut pair = pairs.find(|pair| pair.name == name).expect("the name of a pair");
    let side = if side == "core" { &mut pair.core } else { &mut pair.ferry };
    side(number, true);
    ExitCode::SUCCESS
}

/// Prints the tables. Fails if submitting alone costs more through this crate than it may.
fn compare() -> ExitCode {
    let slow = table("held stream, ns", true);
    println!();
    table("running stream, ns", false);
    println!();
    match slow.as_slice() {
        [] => println!("passed: all that is submitted to a held stream costs what it may"),
        slow => println!("FAILED: more than it may cost, on a held stream: {}", slow.join("; ")),
    }
    if slow.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What was measured of a pair.
struct Row {
    name: String,
    limit: f64,
    core: Costs,
    ferry: Costs,
}

/// Prints a table, and gives the names of those that cost too much.
fn table(title: &str, held: bool) -> Vec<String> {
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..ROUNDS {
        for (number, mut pair) in open().pairs(LOOP).expect("memory").into_iter().enumerate() {
            if rows.len() == number {
                let name = pair.name.clone();
                rows.push(Row { name, limit: pair.limit, core: Costs::default(), ferry: Costs::default() });
            }
            take(&mut pair, held, &mut rows[number]);
        }
    }
    println!(
        "{title:32} {:>8} {:>17} {:>8} {:>17} {:>6}  limit",
        "core", "middle half", "ferry", "middle half", "ratio"
    );
    let mut slow = Vec::new();
    for Row { name, limit, core, ferry } in rows {
        let ratio = ferry.over(&core);
        println!("{name:32} {core} {ferry} {ratio:>6.3}  {limit:.2}");
        if ratio > limit {
            slow.push(name);
        }
    }
    slow
}

/// Takes samples of both sides, which take turns at being first.
fn take(pair: &mut Pair<'_>, held: bool, row: &mut Row) {
    let count = LOOP.div_ceil(pair.pieces);
    let pieces = count * pair.pieces;
    for sample in 0..SAMPLES {
        if sample % 2 == 0 {
            row.core.add((pair.core)(count, held), pieces);
        }
        row.ferry.add((pair.ferry)(count, held), pieces);
        if sample % 2 == 1 {
            row.core.add((pair.core)(count, held), pieces);
        }
    }
}
