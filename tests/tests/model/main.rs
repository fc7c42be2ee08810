//! The model test: random programs of copies, fills, events and frees over several streams and two threads, against
//! a byte mirror that knows what is ordered.
//!
//! `FERRY_MODEL_CASES=5000` runs more programs, `FERRY_MODEL_SEED=7` other ones. A failure is shrunk and printed as a
//! program one can read.

mod build;
mod capi;
mod oracle;
mod order;
mod program;
mod ranges;
mod run;
mod toy;
mod wrong;

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use build::Wishes;
use capi::Capi;
use oracle::Oracle;
use program::Program;
use run::{Executor, run};
use toy::{Fault, Schedule, Toy};
use wrong::{Slip, Wrong};

const WISHES: usize = 40;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
        Err(_) => default,
    }
}

/// Runs `test` on random programs and returns the first that fails, as small as it gets.
fn find(
    cases: u64,
    races: bool,
    test: impl Fn(&Program) -> Result<(), String>,
) -> Result<(), (String, Program)> {
    let config = Config {
        cases: cases as u32,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&setting("FERRY_MODEL_SEED", 0).to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    // A fault of timing may not show each time: while shrinking, a program gets several chances to fail.
    let chances = Cell::new(1);
    let try_out = |wishes: &Wishes| {
        let program = wishes.program(races);
        (0..chances.get()).try_for_each(|_| test(&program))
    };
    let found = runner.run(&build::wishes(WISHES), |wishes| {
        try_out(&wishes).map_err(|why| {
            chances.set(5);
            TestCaseError::fail(why)
        })
    });
    let (mut why, mut least) = match found {
        Ok(()) => return Ok(()),
        Err(TestError::Fail(why, wishes)) => (why.message().to_string(), wishes),
        Err(TestError::Abort(why)) => panic!("{why}"),
    };
    // Values are small by now; steps that have become pointless still stand between them.
    chances.set(20);
    while let Some((w, fewer)) = (0..least.len()).find_map(|i| {
        let fewer = least.without(i);
        try_out(&fewer).err().map(|why| (why, fewer))
    }) {
        (why, least) = (w, fewer);
    }
    Err((why, least.program(races)))
}

/// Whether any of a few random programs fails; not shrunk.
fn is_caught(test: impl Fn(&Program) -> Result<(), String>) -> bool {
    let config = Config { cases: 1000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let wrong = |wishes: Wishes| test(&wishes.program(false)).map_err(TestCaseError::fail);
    runner.run(&build::wishes(WISHES), wrong).is_err()
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

/// Runs one program through the C ABI.
fn judge_engine(program: &Program) -> Result<(), String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let capi = Capi::new(program)?;
    let verdict = judge(program, &capi);
    verdict.and(capi.close())
}

#[test]
fn ordered_programs_see_the_bytes_they_must() {
    expect_right(setting("FERRY_MODEL_CASES", 200), false, judge_engine);
}

#[test]
fn programs_with_races_see_all_other_bytes_right() {
    expect_right(setting("FERRY_MODEL_CASES", 100), true, judge_engine);
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

/// What the model would not notice, it could not prove: every fault an engine might have is seen by some program.
#[test]
fn faults_of_an_engine_are_caught() {
    for fault in Fault::ALL {
        let with_fault = |program: &Program| {
            SCHEDULES.iter().try_for_each(|s| judge(program, &Toy::new(program, *s, Some(fault))))
        };
        assert!(is_caught(with_fault), "{fault:?} went unnoticed");
    }
}

#[test]
fn slips_in_calls_are_caught() {
    for slip in Slip::ALL {
        let slipping = |program: &Program| {
            let right = |schedule| Toy::new(program, schedule, None);
            SCHEDULES.iter().try_for_each(|s| judge(program, &Wrong::new(right(*s), slip)))
        };
        assert!(is_caught(slipping), "{slip:?} went unnoticed");
    }
}

#[test]
fn a_failure_shrinks_to_a_program_one_can_read() {
    let short = |p: &Program| judge(p, &Wrong::new(Toy::new(p, Schedule::Lazy, None), Slip::ShortCopy));
    let (why, program) = find(50, false, short).expect_err("short copies are noticed");
    let text = format!("{program:?}");
    println!("{why}\n{text}");
    assert!(program.steps.len() < 10, "{text}");
    assert!(why.contains("is 0x"), "{why}");
}
