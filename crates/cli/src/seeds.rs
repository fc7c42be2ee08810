//! `--seeds N`: a program runs many times, each time in another random order of work.

use std::ffi::OsString;

use ferry_terminal::{Colour, Terminal};

/// Seeds that are named.
const NAMED: usize = 20;

/// What came of a run.
pub struct SeedRun<T> {
    /// Its end.
    pub end: T,
    /// Whether it has failed.
    pub has_failed: bool,
    /// Whether this command was asked to end meanwhile.
    pub is_asked_to_end: bool,
}

/// Has `run` run the program with the seeds from 1 to `count`, by these variables, in shuffled order unless
/// there is another. Says, as the command of this name, which of them failed; the answer is the first run
/// that failed, or the last.
pub fn run_all<T: Copy, E>(
    command: &str,
    count: u64,
    has_schedule: bool,
    mut run: impl FnMut(&[(&'static str, OsString)]) -> Result<SeedRun<T>, E>,
) -> Result<T, E> {
    let terminal = Terminal::stderr();
    let (mut failed, mut first, mut last, mut done): (Vec<u64>, _, _, _) = (Vec::new(), None, None, 0);
    for seed in 1..=count {
        terminal.show(&format!("seed {seed} of {count}, {} failed", failed.len()));
        let mut variables = vec![("FERRY_SEED", OsString::from(seed.to_string()))];
        variables.extend((!has_schedule).then(|| ("FERRY_SCHEDULE", "shuffle".into())));
        let SeedRun { end, has_failed, is_asked_to_end } = run(&variables)?;
        if has_failed {
            failed.push(seed);
            first = first.or(Some(end));
        }
        (last, done) = (Some(end), seed);
        if is_asked_to_end {
            break;
        }
    }
    let (colour, line) = match failed.as_slice() {
        [] => (Colour::Good, format!("ferry {command}: {done} seeds, none failed")),
        _ => (Colour::Bad, told(command, &failed, done)),
    };
    terminal.say(&terminal.paint(colour, &line));
    if done < count {
        let left = count - done;
        terminal.say(&format!("ferry {command}: stopped by a signal, {left} seeds were not run"));
    }
    Ok(first.or(last).expect("at least one seed"))
}

fn told(command: &str, failed: &[u64], count: u64) -> String {
    let named: Vec<String> = failed.iter().take(NAMED).map(u64::to_string).collect();
    let more = if failed.len() > NAMED { ", ..." } else { "" };
    let named = named.join(", ");
    format!("ferry {command}: {} of {count} seeds failed: {named}{more} (--seed N repeats one)", failed.len())
}
