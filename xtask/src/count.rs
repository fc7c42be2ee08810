//! Counts the instructions of one submitted copy and of a piece of a batch, so that a slower submit path
//! shows whatever else the machine is doing: through C, and through Rust against the core's own call.
//!
//! A program runs twice under callgrind with different numbers of submissions; the difference, divided, has
//! neither start-up nor first-time costs in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{self, cargo_for_release};
use crate::{c, outcome::Outcome};

/// The most instructions that one page-locked `aclrtMemcpyAsync` may take: between the two allocations of the
/// copy before, and to two that take turns.
const LIMIT: u64 = 300;
const OTHER_LIMIT: u64 = 440;

/// How many allocations there are when there are many; finding one of them must cost no more than this many
/// instructions on top of finding one of two.
const CROWD: u64 = 100_000;
const CROWD_EXTRA: u64 = 20;

/// Fewer than this cannot be a copy: the counter was not running.
const FLOOR: u64 = 20;

const FEW: u64 = 1_000;
const MANY: u64 = 11_000;

/// The most that a piece of a batch of this many may take, if all lie in one allocation on each side, and if
/// they take turns among some.
const PIECES: u64 = 4_096;
const PIECE_LIMIT: u64 = 22;
const TURNS: u64 = 8;
const TURNS_LIMIT: u64 = 178;
const FEW_BATCHES: u64 = 5;
const MANY_BATCHES: u64 = 25;

/// The most that one copy of a graph may take when the graph is executed, if all of them are submitted as one
/// op, and if each is one.
const GRAPH_COPIES: u64 = 1_024;
const COALESCED_LIMIT: u64 = 6;
const GRAPH_OP_LIMIT: u64 = 180;
const FEW_EXECUTIONS: u64 = 5;
const MANY_EXECUTIONS: u64 = 25;

/// The same for Rust. A batch counts for its pieces, and is submitted less often.
const RUST_FEW: u64 = 100;
const RUST_MANY: u64 = 900;

/// Builds the library and the program, counts, and compares with the limit.
pub fn run(root: &Path) -> Result<Outcome, String> {
    if let Err(why) = shell::need_valgrind() {
        return Ok(Outcome::Skipped(why));
    }
    shell::run(&mut cargo_for_release(root, "build --release -p ferry-capi"))?;
    let release = shell::target_dir(root).join("release");
    let submit = Counted::new(root, &release, "submit.c", "aclrtMemcpyAsync")?;
    let each = |blocks| submit.each(FEW, MANY, blocks);
    println!("{}", judge(each(1)?, each(2)?, each(CROWD)?)?);
    let batch = Counted::new(root, &release, "batch.c", "aclrtMemcpyBatchAsync")?;
    let piece = |blocks| Ok::<_, String>(batch.each(FEW_BATCHES, MANY_BATCHES, blocks)? / PIECES);
    println!("{}", judge_batch(piece(1)?, piece(TURNS)?)?);
    let graph = Counted::new(root, &release, "graph.c", "aclmdlRIExecuteAsync")?;
    let copy = |chain| Ok::<_, String>(graph.each(FEW_EXECUTIONS, MANY_EXECUTIONS, chain)? / GRAPH_COPIES);
    println!("{}", judge_graph(copy(1)?, copy(2)?)?);
    rust(root)?;
    Ok(Outcome::Passed)
}

/// Counts both sides of every pair of the benchmark of crate `ferry`.
fn rust(root: &Path) -> Result<(), String> {
    let told = shell::output(&mut bench(root))?;
    let program = executable(&told).ok_or("cargo does not say what it built")?;
    let list = shell::output(shell::program(root, &program).arg("list"))?;
    let mut pairs = list.lines().map(Pair::parse).collect::<Option<Vec<_>>>().ok_or("a list of pairs")?;
    for pair in &mut pairs {
        pair.core = rust_each(root, &program, "core", pair)?;
        pair.ferry = rust_each(root, &program, "ferry", pair)?;
    }
    judge_rust(&pairs)
}

/// Builds the benchmark's program, as the benchmark builds it.
pub fn bench(root: &Path) -> Command {
    cargo_for_release(root, "bench -p ferry --bench submit --no-run --message-format json-render-diagnostics")
}

/// The last program that cargo says it built.
fn executable(told: &str) -> Option<String> {
    let (_, path) = told.rsplit_once("\"executable\":\"")?;
    Some(path.split_once('"')?.0.to_owned())
}

/// Work that can be submitted in two ways, and what a piece of it costs.
#[derive(Debug, Default, PartialEq)]
struct Pair {
    name: String,
    pieces: u64,
    limit: f64,
    core: f64,
    ferry: f64,
}

impl Pair {
    fn parse(line: &str) -> Option<Pair> {
        let mut words = line.split('\t');
        let (name, pieces, limit) = (words.next()?.to_owned(), words.next()?, words.next()?);
        Some(Pair { name, pieces: pieces.parse().ok()?, limit: limit.parse().ok()?, ..Pair::default() })
    }

    fn ratio(&self) -> f64 {
        self.ferry / self.core
    }
}

/// Instructions of one side for a piece.
fn rust_each(root: &Path, program: &str, side: &str, pair: &Pair) -> Result<f64, String> {
    let count = |number: u64| {
        let record = shell::target_dir(root).join(format!("callgrind.{side}.{number}.out"));
        let mut valgrind = shell::program(root, "valgrind");
        valgrind.args(["--quiet", "--tool=callgrind", "--toggle-collect=*::counted*"]);
        valgrind.arg(format!("--callgrind-out-file={}", record.display())).arg(program);
        valgrind.args(["count", side, &number.to_string(), &pair.name]);
        counted(&mut valgrind, &record)
    };
    let (few, many) = (RUST_FEW.div_ceil(pair.pieces), RUST_MANY.div_ceil(pair.pieces) + 1);
    let (least, most) = side_by_side(|| count(few), || count(many))?;
    Ok(most.saturating_sub(least) as f64 / ((many - few) * pair.pieces) as f64)
}

/// Prints what was counted; an error if this crate costs more than it may.
fn judge_rust(pairs: &[Pair]) -> Result<(), String> {
    println!("{:34}{:>8}{:>8}{:>8}{:>8}", "instructions of a submission", "core", "ferry", "ratio", "limit");
    for pair in pairs {
        let Pair { name, core, ferry, limit, .. } = pair;
        println!("{name:34}{core:>8.0}{ferry:>8.0}{:>8.3}{limit:>8.2}", pair.ratio());
    }
    // Fewer than one cannot be a piece of a batch either: the counter was not running.
    let is_good = |pair: &&Pair| pair.core >= 1.0 && pair.ferry >= 1.0 && pair.ratio() <= pair.limit;
    match pairs.iter().find(|pair| !is_good(pair)) {
        None if pairs.is_empty() => Err("there was nothing to count".into()),
        None => Ok(()),
        Some(pair) => Err(format!("{} costs more than it may, or was not seen", pair.name)),
    }
}

/// A C program that submits as often as its first argument says, to as many allocations as its second, and
/// the function in it that is counted.
struct Counted<'a> {
    root: &'a Path,
    release: &'a Path,
    program: PathBuf,
    function: &'static str,
}

impl<'a> Counted<'a> {
    fn new(root: &'a Path, release: &'a Path, source: &str, function: &'static str) -> Result<Self, String> {
        let source = root.join("tests/count").join(source);
        let program = c::compile(root, release, &source, "count")?;
        Ok(Counted { root, release, program, function })
    }

    /// Instructions of one call, from runs with few and with many.
    fn each(&self, few: u64, many: u64, blocks: u64) -> Result<u64, String> {
        let instructions = |submits| self.instructions(submits, blocks);
        let (least, most) = side_by_side(|| instructions(few), || instructions(many))?;
        Ok(most.saturating_sub(least) / (many - few))
    }

    /// Instructions spent inside the function by a run with this many submissions to this many allocations.
    fn instructions(&self, submits: u64, blocks: u64) -> Result<u64, String> {
        let record =
            self.program.with_file_name(format!("callgrind.{}.{submits}.{blocks}.out", self.function));
        let mut valgrind = shell::program(self.root, "valgrind");
        valgrind.args(["--quiet", "--tool=callgrind"]);
        valgrind.arg(format!("--toggle-collect={}", self.function));
        valgrind.arg(format!("--callgrind-out-file={}", record.display())).arg(&self.program);
        valgrind.arg(submits.to_string()).arg(blocks.to_string());
        // Small devices suit valgrind's address space.
        counted(c::with_library(&mut valgrind, self.release).env("FERRY_DEVICE_MEMORY", "512M"), &record)
    }
}

/// Runs two at the same time: what else the machine does changes no count.
fn side_by_side(
    few: impl FnOnce() -> Result<u64, String> + Send,
    many: impl FnOnce() -> Result<u64, String>,
) -> Result<(u64, u64), String> {
    std::thread::scope(|scope| {
        let few = scope.spawn(few);
        let many = many()?;
        let few = few.join().unwrap_or_else(|_| Err("the shorter run panicked".into()))?;
        Ok((few, many))
    })
}

/// The instructions that callgrind counted, as it wrote them to `record`.
fn counted(valgrind: &mut Command, record: &Path) -> Result<u64, String> {
    shell::run(valgrind)?;
    let text = std::fs::read_to_string(record).map_err(|e| format!("{}: {e}", record.display()))?;
    total(&text).ok_or_else(|| format!("{} has no total", record.display()))
}

fn total(record: &str) -> Option<u64> {
    let line = record.lines().find_map(|line| line.strip_prefix("totals:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn judge(alone: u64, other: u64, crowded: u64) -> Result<String, String> {
    let seen = format!(
        "{alone} instructions per submitted page-locked copy (limit {LIMIT}), {other} to two allocations in \
         turn (limit \
         {OTHER_LIMIT}), {crowded} to {CROWD}"
    );
    match (alone, other) {
        (0..FLOOR, _) => Err(format!("{seen}: too few to be true; callgrind did not see aclrtMemcpyAsync")),
        (..=LIMIT, ..=OTHER_LIMIT) if crowded <= other + CROWD_EXTRA => Ok(seen),
        (..=LIMIT, ..=OTHER_LIMIT) => {
            Err(format!("{seen}: finding an allocation has come to depend on how many there are"))
        }
        _ => Err(format!("{seen}: the submit path has grown; see where with callgrind_annotate")),
    }
}

fn judge_batch(piece: u64, turns: u64) -> Result<String, String> {
    let seen = format!(
        "{piece} instructions per piece of a batch of {PIECES} (limit {PIECE_LIMIT}), {turns} if the pieces \
         take turns among \
         {TURNS} allocations (limit {TURNS_LIMIT})"
    );
    match (piece, turns) {
        (0, _) | (_, 0) => Err(format!("{seen}: too few to be true; callgrind did not see the batch")),
        (..=PIECE_LIMIT, ..=TURNS_LIMIT) => Ok(seen),
        _ => Err(format!("{seen}: planning a batch has grown; see where with callgrind_annotate")),
    }
}

fn judge_graph(coalesced: u64, alone: u64) -> Result<String, String> {
    let seen = format!(
        "{coalesced} instructions per copy of a running graph of {GRAPH_COPIES} (limit {COALESCED_LIMIT}), \
         {alone} if each depends on the one before (limit {GRAPH_OP_LIMIT})"
    );
    match (coalesced, alone) {
        (_, 0..FLOOR) => Err(format!("{seen}: too few to be true; callgrind did not see the graph")),
        (..=COALESCED_LIMIT, ..=GRAPH_OP_LIMIT) => Ok(seen),
        _ => Err(format!("{seen}: executing a graph has grown; see where with callgrind_annotate")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_of_a_graph_has_limits_of_its_own() {
        for (coalesced, alone, good) in [
            (0, 0, false),
            (0, FLOOR, true),
            (COALESCED_LIMIT, GRAPH_OP_LIMIT, true),
            (COALESCED_LIMIT + 1, GRAPH_OP_LIMIT, false),
            (COALESCED_LIMIT, GRAPH_OP_LIMIT + 1, false),
        ] {
            assert_eq!(judge_graph(coalesced, alone).is_ok(), good, "{coalesced} and {alone} instructions");
        }
    }

    #[test]
    fn only_a_believable_count_within_the_limit_passes() {
        for (alone, other, crowded, good) in [
            (0, 0, 0, false),
            (FLOOR - 1, FLOOR, FLOOR, false),
            (FLOOR, FLOOR, FLOOR, true),
            (LIMIT, OTHER_LIMIT, OTHER_LIMIT + CROWD_EXTRA, true),
            (LIMIT, OTHER_LIMIT, OTHER_LIMIT + CROWD_EXTRA + 1, false),
            (LIMIT + 1, OTHER_LIMIT, OTHER_LIMIT, false),
            (LIMIT, OTHER_LIMIT + 1, OTHER_LIMIT, false),
        ] {
            let judged = judge(alone, other, crowded);
            assert_eq!(judged.is_ok(), good, "{alone}, {other} and {crowded} instructions");
        }
    }

    #[test]
    fn a_piece_of_a_batch_has_limits_of_its_own() {
        for (piece, turns, good) in [
            (0, 0, false),
            (1, 0, false),
            (PIECE_LIMIT, TURNS_LIMIT, true),
            (PIECE_LIMIT + 1, TURNS_LIMIT, false),
            (PIECE_LIMIT, TURNS_LIMIT + 1, false),
        ] {
            assert_eq!(judge_batch(piece, turns).is_ok(), good, "{piece} and {turns} instructions");
        }
    }

    #[test]
    fn rust_may_cost_a_little_more_than_the_core() {
        let pair = |core, ferry| Pair { limit: 1.1, core, ferry, ..Pair::default() };
        for (pairs, good) in [
            (vec![pair(500.0, 550.0), pair(20.0, 15.0)], true),
            (vec![pair(500.0, 500.0), pair(500.0, 551.0)], false),
            (vec![pair(0.0, 0.0)], false),
            (vec![pair(500.0, 0.0)], false),
            (vec![], false),
        ] {
            assert_eq!(judge_rust(&pairs).is_ok(), good, "{pairs:?}");
        }
    }

    #[test]
    fn pairs_and_programs_are_read() {
        let want = Pair { name: "a, b".into(), pieces: 4096, limit: 1.1, ..Pair::default() };
        assert_eq!(Pair::parse("a, b\t4096\t1.1"), Some(want));
        assert_eq!(Pair::parse("a, b\t4096"), None);
        let told =
            "{\"executable\":null}\n{\"executable\":\"/t/submit-1\",\"fresh\":true}\n{\"success\":true}";
        assert_eq!(executable(told).as_deref(), Some("/t/submit-1"));
        assert_eq!(executable("{\"executable\":null}"), None);
    }

    #[test]
    fn the_total_is_read_from_a_callgrind_file() {
        assert_eq!(total("events: Ir\nfn=(1)\n1 5\n\ntotals: 4711\n"), Some(4711));
        assert_eq!(total("events: Ir\n"), None);
    }
}
