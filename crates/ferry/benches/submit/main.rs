//! What it costs to submit work through this crate, against the core's own call: `cargo bench -p ferry --bench submit`.
//!
//! The two sides of a pair run in turn, sample by sample, so that whatever else the machine does happens to both. Only submitting is
//! measured; the work runs to its end between samples. A stream that is held by a function shows submitting alone, and is
//! judged; one that runs shows it with a worker at the other end, which depends on who gets the processor when.
//!
//! `cargo xtask count` counts instructions instead: `submit list` names the pairs, `submit count SIDE NUMBER PAIR` submits.

mod sample;
mod ways;

use sample::Costs;
use std::process::ExitCode;
use ways::{Pair, Setup};

/// Submissions of a sample. As many as a queue of the host backend has room for without growing.
const LOOP: usize = 1000;
const SAMPLES: usize = 401;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let setup = Setup::open().expect("an engine");
    match words.as_slice() {
        ["list"] => {
            for pair in setup.pairs(1).expect("memory") {
                println!("{}\t{}\t{}", pair.name, pair.pieces, pair.limit);
            }
            ExitCode::SUCCESS
        }
        ["count", side, number, name] => count(&setup, side, number.parse().expect("a number"), name),
        _ => compare(&setup),
    }
}

fn count(setup: &Setup, side: &str, number: usize, name: &str) -> ExitCode {
    let mut pairs = setup.pairs(number).expect("memory").into_iter();
    let mut pair = pairs.find(|pair| pair.name == name).expect("the name of a pair");
    let side = if side == "core" { &mut pair.core } else { &mut pair.ferry };
    side(number, true);
    ExitCode::SUCCESS
}

/// Prints the tables. Fails if submitting alone costs more through this crate than it may.
fn compare(setup: &Setup) -> ExitCode {
    let slow = table(setup, true);
    println!();
    table(setup, false);
    println!();
    match slow.as_slice() {
        [] => println!("passed: all that is submitted to a held stream costs what it may"),
        slow => println!("FAILED: more than it may cost, on a held stream: {}", slow.join("; ")),
    }
    if slow.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a table, and gives the names of those that cost too much.
fn table(setup: &Setup, held: bool) -> Vec<String> {
    let title = if held { "held stream, ns" } else { "running stream, ns" };
    println!(
        "{title:32} {:>8} {:>17} {:>8} {:>17} {:>6}  limit",
        "core", "middle half", "ferry", "middle half", "ratio"
    );
    let mut slow = Vec::new();
    for mut pair in setup.pairs(LOOP).expect("memory") {
        let (core, ferry) = take(&mut pair, held);
        let ratio = ferry.over(&core);
        println!("{:32} {core} {ferry} {ratio:>6.3}  {:.2}", pair.name, pair.limit);
        if ratio > pair.limit {
            slow.push(pair.name);
        }
    }
    slow
}

/// Samples of both sides, which take turns at being first.
fn take(pair: &mut Pair<'_>, held: bool) -> (Costs, Costs) {
    let count = LOOP.div_ceil(pair.pieces);
    let (mut core, mut ferry) = (Vec::new(), Vec::new());
    for sample in 0..SAMPLES {
        if sample % 2 == 0 {
            core.push((pair.core)(count, held));
        }
        ferry.push((pair.ferry)(count, held));
        if sample % 2 == 1 {
            core.push((pair.core)(count, held));
        }
    }
    let pieces = count * pair.pieces;
    (Costs::new(&core, pieces), Costs::new(&ferry, pieces))
}
