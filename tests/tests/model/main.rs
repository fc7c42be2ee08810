//! The model test: random programs of copies, fills, events and frees over several streams and two threads, against
//! a byte mirror that knows what is ordered.
//!
//! `FERRY_MODEL_CASES=5000` runs more programs, `FERRY_MODEL_SEED=7` other ones. A failure is shrunk and printed as a
//! program one can read.

mod build;
mod oracle;
mod order;
mod program;
mod ranges;
mod run;
mod toy;
mod wrong;

use std::cell::Cell;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use oracle::Oracle;
use program::Program;
use run::{Executor, run};
use toy::{Schedule, Toy};
use wrong::{Slip, Wrong};

const WISHES: usize = 40;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
        Err(_) => default,
    }
}

/// Runs `test` on random programs and shrinks the first that fails.
fn find(cases: u64, races: bool, test: impl Fn(&Program) -> Result<(), String>) -> Result<(), (String, Program)> {
    let config = Config {
        cases: cases as u32,
        failure_persistence: None,
        max_shrink_iters: 4096,
        ..Config::default()
    };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&setting("FERRY_MODEL_SEED", 0).to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    // A fault of timing may not show each time: while shrinking, a program gets several chances to fail.
    let chances = Cell::new(1);
    let result = runner.run(&build::programs(WISHES, races), |program| {
        (0..chances.get()).try_for_each(|_| test(&program)).map_err(|why| {
            chances.set(10);
            TestCaseError::fail(why)
        })
    });
    result.map_err(|error| match error {
        TestError::Fail(why, program) => (why.message().to_string(), program),
        TestError::Abort(why) => panic!("{why}"),
    })
}

/// Runs one program and compares everything that is certain.
fn judge(program: &Program, executor: &dyn Executor) -> Result<(), String> {
    run(program, &Oracle::of(program).expected(program), executor)
}

/// Fails with the smallest program that goes wrong.
fn expect_right(cases: u64, races: bool, test: impl Fn(&Program) -> Result<(), String>) {
    if let Err((why, program)) = find(cases, races, test) {
        panic!("{why}\n{program:?}");
    }
}

const SCHEDULES: [Schedule; 4] = [Schedule::Eager, Schedule::Lazy, Schedule::Random(1), Schedule::Random(2)];

#[test]
fn the_oracle_asks_for_nothing_a_right_engine_need_not_do() {
    for races in [false, true] {
        expect_right(setting("FERRY_MODEL_CASES", 100), races, |program| {
            SCHEDULES.iter().try_for_each(|schedule| judge(program, &Toy::new(program, *schedule, None)))
        });
    }
}
