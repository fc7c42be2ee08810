//! Counts the instructions of one submitted copy, so that a slower submit path shows whatever else the machine
//! is doing.
//!
//! The program runs twice under callgrind with different numbers of submissions; the difference, divided, has
//! neither start-up nor first-time costs in it.

use std::path::Path;

use crate::shell::{self, cargo};
use crate::{c, steps::Outcome};

/// The most instructions that one page-locked `aclrtMemcpyAsync` may take.
const LIMIT: u64 = 830;

/// How many allocations there are when there are many; finding one of them must cost no more than this many instructions
/// on top.
const CROWD: u64 = 100_000;
const CROWD_EXTRA: u64 = 20;

/// Fewer than this cannot be a copy: the counter was not running.
const FLOOR: u64 = 20;

const FEW: u64 = 1_000;
const MANY: u64 = 11_000;

/// Builds the library and the program, counts, and compares with the limit.
pub fn run(root: &Path) -> Result<Outcome, String> {
    if let Err(why) = shell::need_valgrind() {
        return Ok(Outcome::Skipped(why));
    }
    shell::run(&mut cargo(root, "build --release -p ferry-capi"))?;
    let release = shell::target_dir(root).join("release");
    let program = c::compile(root, &release, &root.join("tests/count/submit.c"), "count")?;
    let each = |blocks| -> Result<u64, String> {
        let few = instructions(root, &release, &program, FEW, blocks)?;
        let many = instructions(root, &release, &program, MANY, blocks)?;
        Ok(many.saturating_sub(few) / (MANY - FEW))
    };
    let (alone, crowded) = (each(1)?, each(CROWD)?);
    println!("{}", judge(alone, crowded)?);
    Ok(Outcome::Passed)
}

/// Instructions spent inside `aclrtMemcpyAsync` by a run with this many submissions to this many allocations.
fn instructions(
    root: &Path,
    release: &Path,
    program: &Path,
    submits: u64,
    blocks: u64,
) -> Result<u64, String> {
    let record = program.with_file_name(format!("callgrind.{submits}.{blocks}.out"));
    let mut valgrind = shell::program(root, "valgrind");
    valgrind.args(["--quiet", "--tool=callgrind", "--toggle-collect=aclrtMemcpyAsync"]);
    valgrind.arg(format!("--callgrind-out-file={}", record.display())).arg(program);
    valgrind.arg(submits.to_string()).arg(blocks.to_string());
    // Small devices suit valgrind's address space.
    shell::run(c::with_library(&mut valgrind, release).env("FERRY_DEVICE_MEMORY", "512M"))?;
    let text = std::fs::read_to_string(&record).map_err(|e| format!("{}: {e}", record.display()))?;
    total(&text).ok_or_else(|| format!("{} has no total", record.display()))
}

fn total(record: &str) -> Option<u64> {
    let line = record.lines().find_map(|line| line.strip_prefix("totals:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn judge(alone: u64, crowded: u64) -> Result<String, String> {
    let seen = format!(
        "{alone} instructions per submitted page-locked copy (limit {LIMIT}), {crowded} among {CROWD} allocations"
    );
    match alone {
        0..FLOOR => Err(format!("{seen}: too few to be true; callgrind did not see aclrtMemcpyAsync")),
        FLOOR..=LIMIT if crowded <= alone + CROWD_EXTRA => Ok(seen),
        FLOOR..=LIMIT => {
            Err(format!("{seen}: finding an allocation has come to depend on how many there are"))
        }
        _ => Err(format!("{seen}: the submit path has grown; see where with callgrind_annotate")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_believable_count_within_the_limit_passes() {
        for (alone, crowded, good) in [
            (0, 0, false),
            (FLOOR - 1, FLOOR, false),
            (FLOOR, FLOOR, true),
            (LIMIT, LIMIT + CROWD_EXTRA, true),
            (LIMIT, LIMIT + CROWD_EXTRA + 1, false),
            (LIMIT + 1, LIMIT, false),
        ] {
            assert_eq!(judge(alone, crowded).is_ok(), good, "{alone} and {crowded} instructions");
        }
    }

    #[test]
    fn the_total_is_read_from_a_callgrind_file() {
        assert_eq!(total("events: Ir\nfn=(1)\n1 5\n\ntotals: 4711\n"), Some(4711));
        assert_eq!(total("events: Ir\n"), None);
    }
}
