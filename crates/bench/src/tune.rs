//! `ferry bench --tune`: the sizes at which copy engines and kernels of this GPU overtake each other. Printed
//! as a value of FERRY_CUDA_PLAN. The backend reads its plan when it starts, so the command runs itself once
//! for every plan that is tried: kernels for all, engines for all, one by one and in one call, kernels with
//! so many blocks. The chosen thresholds minimise the sum of the logarithms of all times, so that a case in
//! which both are about equal weighs next to nothing.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use ferry_abi::{Error, Result, library};
use ferry_terminal::{Terminal, put};
use serde_json::Value;

use crate::units::short;

const K: usize = 1 << 10;
const M: usize = 1 << 20;

/// Lengths of the pieces of a batch that are tried, in bytes.
const PIECES: [usize; 7] = [64 * K, 256 * K, 512 * K, M, 2 * M, 4 * M, 8 * M];
/// How many pieces a batch has, where a list for a kernel is weighed against a call for each.
const COUNTS: [usize; 5] = [2, 4, 8, 16, 32];
/// How many pieces a batch has, where the parameters of a launch are weighed against a list in memory.
const INLINE_COUNTS: [usize; 4] = [16, 64, 128, 160];
/// Widths of the rows of a matrix, in bytes.
const WIDTHS: [usize; 13] = [16, 32, 64, 128, 256, 512, K, 2 * K, 4 * K, 8 * K, 16 * K, 32 * K, 64 * K];
/// Blocks that a kernel is started with.
const BLOCKS: [usize; 6] = [8, 16, 32, 64, 128, 256];

/// How many plans are tried: kernels, engines one by one and together, lists, and each number of blocks.
const PLANS: usize = 4 + BLOCKS.len();

/// Kernels for every size.
const KERNELS: &str = "list_from=1,engine_from=any,together_from=any,rows_in_from=1,rows_in_most=any,\
                       rows_out_from=1,rows_out_most=any,rows_within_most=any";
/// Copy engines, a call for each piece.
const ENGINES: &str = "blocks_in=0,blocks_out=0,blocks_within=0,together_from=any";
/// Copy engines, one call for all pieces.
const TOGETHER: &str = "blocks_in=0,blocks_out=0,blocks_within=0";

/// A larger number of blocks must be faster by this factor: the blocks are taken from whatever else runs on
/// the GPU.
const WORTHWHILE_SPEEDUP: f64 = 1.02;

/// A route that has numbers of its own in the plan.
struct TunedRoute {
    /// What the plan calls it.
    name: &'static str,
    /// What cases call it.
    case: &'static str,
    /// Cases that show whether a kernel has enough blocks.
    saturating: [&'static str; 2],
}

const ROUTES: [TunedRoute; 3] = [
    TunedRoute { name: "in", case: "h2d", saturating: ["h2d/batch/4096x1K", "h2d/batch/4096x4K"] },
    TunedRoute { name: "out", case: "d2h", saturating: ["d2h/batch/4096x1K", "d2h/batch/4096x4K"] },
    TunedRoute { name: "within", case: "d2d", saturating: ["d2d/2d/w16", "d2d/2d/w64"] },
];

/// Times of cases, in microseconds.
type Times = BTreeMap<String, f64>;

/// Measures, and prints the plan.
pub fn main(samples: u32) -> Result<ExitCode> {
    if library::backend_name() != "cuda" {
        return Err(Error::Setup("only the cuda backend has a plan to tune: --backend cuda".to_owned()));
    }
    let (terminal, done) = (Terminal::stderr(), Cell::new(0));
    let measured = Measured::new(|plan, cases| {
        done.set(done.get() + 1);
        terminal.show(&format!("{} of {PLANS}: {} cases with {plan}", done.get(), cases.len()));
        run(plan, cases, samples)
    })?;
    terminal.show("");
    let plan = measured.plan();
    put(&format!("FERRY_CUDA_PLAN={plan}\n"));
    Ok(ExitCode::SUCCESS)
}

/// What was measured under each plan.
struct Measured {
    kernels: Times,
    engines: Times,
    together: Times,
    /// Kernels that read every list from memory, however few pieces it has.
    lists: Times,
    /// By the number of blocks.
    blocks: Vec<Times>,
}

impl Measured {
    fn new(run: impl Fn(&str, Vec<String>) -> Result<Times>) -> Result<Measured> {
        let few: Vec<String> = INLINE_COUNTS.iter().flat_map(|count| batches(&few(*count))).collect();
        let saturating = || ROUTES.iter().flat_map(|route| route.saturating.map(str::to_owned)).collect();
        let with_blocks = |blocks: &usize| {
            run(&format!("blocks_in={blocks},blocks_out={blocks},blocks_within={blocks}"), saturating())
        };
        Ok(Measured {
            kernels: run(KERNELS, [crossovers(), few.clone()].concat())?,
            engines: run(ENGINES, crossovers())?,
            together: run(TOGETHER, by_piece().collect())?,
            lists: run(&format!("{KERNELS},inline_most=0"), few)?,
            blocks: BLOCKS.iter().map(with_blocks).collect::<Result<_>>()?,
        })
    }

    /// The plan as FERRY_CUDA_PLAN takes it.
    fn plan(&self) -> String {
        let (kernels, engines) = (&self.kernels, &self.engines);
        let by_piece = |times| PIECES.map(|size| mean(times, &batches(&pieces(size))));
        let by_count = |times| COUNTS.map(|count| mean(times, &batches(&few(count))));
        let by_few = |times| INLINE_COUNTS.map(|count| mean(times, &batches(&few(count))));
        let many = before(&by_count(engines), &by_count(kernels));
        let inline = before(&by_few(kernels), &by_few(&self.lists));
        let large = before(&by_piece(kernels), &by_piece(engines));
        let mut apart = by_piece(kernels);
        apart.iter_mut().zip(by_piece(engines)).for_each(|(time, engine)| *time = time.min(engine));
        let together = before(&apart, &by_piece(&self.together));
        let mut plan = vec![
            format!("list_from={}", from(&COUNTS, many)),
            format!("inline_most={}", most(&INLINE_COUNTS, inline)),
            format!("engine_from={}", from(&PIECES, large)),
            format!("together_size={}", from(&PIECES, together)),
        ];
        plan.extend(ROUTES.iter().map(|route| format!("blocks_{}={}", route.name, self.blocks(route))));
        plan.extend(ROUTES.iter().flat_map(|route| self.rows(route)));
        plan.join(",")
    }

    /// The fewest blocks that are about as fast as the best number of them.
    fn blocks(&self, route: &TunedRoute) -> usize {
        let times = self.blocks.iter().map(|times| mean(times, &route.saturating.map(str::to_owned)));
        let times: Vec<f64> = times.collect();
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        times
            .iter()
            .position(|time| *time <= best * WORTHWHILE_SPEEDUP)
            .map_or(BLOCKS[0], |index| BLOCKS[index])
    }

    /// The narrowest and the widest rows for a kernel. Inside a device there is no narrowest.
    fn rows(&self, route: &TunedRoute) -> Vec<String> {
        let by_width = |times| WIDTHS.map(|width| mean(times, &[matrix(route, width)]));
        let (kernels, engines) = (by_width(&self.kernels), by_width(&self.engines));
        let (begin, end) =
            if route.case == "d2d" { (0, before(&kernels, &engines)) } else { range(&kernels, &engines) };
        let most = match end {
            _ if begin == end => "0".to_owned(),
            end if end == WIDTHS.len() => "any".to_owned(),
            end => short(WIDTHS[end - 1]),
        };
        // Rows narrower than those that were tried count as the narrowest.
        let least = if begin == 0 { 1 } else { WIDTHS[begin] };
        let least = (route.case != "d2d").then(|| format!("rows_{}_from={}", route.name, short(least)));
        least.into_iter().chain([format!("rows_{}_most={most}", route.name)]).collect()
    }
}

/// Cases that kernels and engines both can do.
fn crossovers() -> Vec<String> {
    let by_count = COUNTS.iter().flat_map(|count| batches(&few(*count)));
    let rows = ROUTES.iter().flat_map(|route| WIDTHS.map(|width| matrix(route, width)));
    by_piece().chain(by_count).chain(rows).collect()
}

fn by_piece() -> impl Iterator<Item = String> {
    PIECES.iter().flat_map(|size| batches(&pieces(*size)))
}

fn batches(name: &str) -> [String; 2] {
    ["h2d", "d2h"].map(|route| format!("{route}/batch/{name}"))
}

/// 64 MiB of pieces of this length, and at least 16 pieces.
fn pieces(size: usize) -> String {
    format!("{}x{}", (64 * M / size).max(16), short(size))
}

fn few(count: usize) -> String {
    format!("{count}x4K")
}

fn matrix(route: &TunedRoute, width: usize) -> String {
    format!("{}/2d/w{}", route.case, short(width))
}

/// The geometric mean of the times of some cases.
fn mean(times: &Times, cases: &[String]) -> f64 {
    let sum: f64 = cases.iter().map(|case| times[case].ln()).sum();
    (sum / cases.len() as f64).exp()
}

/// The index up to which the first choice is taken, and from which on the second, at the least cost.
fn before(first: &[f64], second: &[f64]) -> usize {
    let cheapest = (0..=first.len()).map(|end| (cost(first, second, 0, end), end));
    cheapest.min_by(|one, other| one.0.total_cmp(&other.0)).map_or(0, |(_, end)| end)
}

/// The range of indices in which the first choice is taken, and outside of which the second, at the least
/// cost.
fn range(first: &[f64], second: &[f64]) -> (usize, usize) {
    let all = (0..=first.len()).flat_map(|end| (0..=end).map(move |begin| (begin, end)));
    let cheapest = all.map(|(begin, end)| (cost(first, second, begin, end), (begin, end)));
    cheapest.min_by(|one, other| one.0.total_cmp(&other.0)).map_or((0, 0), |(_, range)| range)
}

/// The sum of the logarithms of all times, with the first choice from `begin` to `end` and else the second.
fn cost(first: &[f64], second: &[f64], begin: usize, end: usize) -> f64 {
    let taken = second[..begin].iter().chain(&first[begin..end]).chain(&second[end..]);
    taken.map(|time| time.ln()).sum()
}

/// The first size of the second choice; `any` where there is none.
fn from(tried: &[usize], end: usize) -> String {
    tried.get(end).map_or_else(|| "any".to_owned(), |value| short(*value))
}

/// The last size of the first choice.
fn most(tried: &[usize], end: usize) -> String {
    end.checked_sub(1).map_or_else(|| "0".to_owned(), |last| short(tried[last]))
}

/// Runs this command under a plan and reads what it measured.
fn run(plan: &str, cases: Vec<String>, samples: u32) -> Result<Times> {
    let setup = |error: std::io::Error| Error::Setup(format!("cannot run this command again: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(setup)?);
    command.args(["bench", "--json", "--no-verify", "--spread", "256M", "-i", &samples.to_string()]);
    command.args(cases.iter().flat_map(|case| ["-t", case])).env("FERRY_CUDA_PLAN", plan);
    let output = command.output().map_err(setup)?;
    let report: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        Error::Setup(format!("with FERRY_CUDA_PLAN={plan}: {}", said.trim()))
    })?;
    cases.into_iter().map(|case| time(&report, &case).map(|time| (case, time))).collect()
}

fn time(report: &Value, case: &str) -> Result<f64> {
    let rows = report["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let row = rows.iter().find(|row| row["name"] == case).unwrap_or(&Value::Null);
    let time = row["ferry"]["median_us"].as_f64();
    time.ok_or_else(|| {
        let why = ["not_here", "failed"].iter().find_map(|name| row[*name].as_str());
        Error::Setup(format!("{case} was not measured: {}", why.unwrap_or("no word about it")))
    })
}

#[cfg(test)]
mod tests {
    use super::{Cell, ENGINES, KERNELS, Measured, PLANS, TOGETHER, Times, before, range};
    use crate::cases;
    use ferry_abi::Result;

    /// A GPU on which everything takes one microsecond, but for what `time` says.
    fn plan(time: impl Fn(&str, &str) -> f64) -> String {
        let run = |plan: &str, cases: Vec<String>| -> Result<Times> {
            Ok(cases.into_iter().map(|case| (case.clone(), time(plan, &case))).collect())
        };
        Measured::new(run).expect("it was measured").plan()
    }

    fn part<'p>(plan: &'p str, name: &str) -> &'p str {
        plan.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).expect(name)
    }

    #[test]
    fn the_plan_follows_what_was_measured() {
        // The engine is better for pieces of 1 MiB and rows of 1 KiB to the device; from the device, a kernel
        // is for 64 to 512 bytes only.
        let engine_is_better = |case: &str| {
            let large = ["x1M", "x2M", "x4M", "x8M"].iter().any(|size| case.ends_with(size));
            let size = |text: &str| ferry::parse_size(text).expect("a size");
            let rows = |route| case.strip_prefix(route).map(size);
            large
                || rows("h2d/2d/w") >= Some(1024)
                || rows("d2h/2d/w").is_some_and(|w| !(64..=512).contains(&w))
        };
        let made = plan(|plan, case| match plan {
            ENGINES if engine_is_better(case) => 1.0,
            KERNELS if engine_is_better(case) => 1.1,
            ENGINES => 2.0,
            TOGETHER if engine_is_better(case) || case.ends_with("x512K") => 0.9,
            TOGETHER => 1.2,
            _ if plan.contains("blocks_in=8,") => 1.5,
            _ if plan.contains("blocks_in=16,") && case.starts_with("d2d") => 1.5,
            _ if plan.contains("inline_most=0") => {
                if case.contains("160x") {
                    0.8
                } else {
                    1.2
                }
            }
            _ => 1.0,
        });
        for (name, want) in [
            ("list_from", "2"),
            ("inline_most", "128"),
            ("engine_from", "1M"),
            ("together_size", "512K"),
            ("blocks_in", "16"),
            ("blocks_out", "16"),
            ("blocks_within", "32"),
            ("rows_in_from", "1"),
            ("rows_in_most", "512"),
            ("rows_out_from", "64"),
            ("rows_out_most", "512"),
            ("rows_within_most", "any"),
        ] {
            assert_eq!(part(&made, name), want, "{name} in {made}");
        }
    }

    #[test]
    fn a_gpu_whose_engine_is_always_better_gets_no_kernels() {
        let made = plan(|plan, _| if plan == ENGINES { 1.0 } else { 2.0 });
        for (name, want) in
            [("list_from", "any"), ("engine_from", "64K"), ("rows_in_most", "0"), ("rows_out_most", "0")]
        {
            assert_eq!(part(&made, name), want, "{name} in {made}");
        }
    }

    #[test]
    fn one_odd_measurement_moves_no_border() {
        assert_eq!(before(&[1.0, 1.0, 1.01, 1.0, 2.0], &[2.0, 2.0, 1.0, 2.0, 1.0]), 4);
        assert_eq!(range(&[2.0, 1.0, 1.01, 1.0, 2.0], &[1.0, 2.0, 1.0, 2.0, 1.0]), (1, 4));
        assert_eq!(range(&[2.0, 2.0], &[1.0, 1.0]), (0, 0));
    }

    #[test]
    fn every_case_that_is_run_can_be_named() {
        let run = |_: &str, cases: Vec<String>| -> Result<Times> {
            let named = cases::select(cases::all(None), &cases)?;
            let mut names: Vec<String> = named.into_iter().map(|case| case.name).collect();
            let mut wanted = cases.clone();
            names.sort();
            wanted.sort();
            wanted.dedup();
            assert_eq!(names, wanted);
            Ok(cases.into_iter().map(|case| (case, 1.0)).collect())
        };
        let runs = Cell::new(0);
        Measured::new(|plan, cases| {
            runs.set(runs.get() + 1);
            run(plan, cases)
        })
        .expect("all have names");
        assert_eq!(runs.get(), PLANS);
    }
}
