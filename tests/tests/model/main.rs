//! The model test: random programs of copies, fills, events and frees over several streams, two threads and a
//! second process, against a byte mirror that knows what is ordered. Memory is mapped, unmapped, registered
//! and freed under queued work; models are captured and executed; streams are aborted, destroyed by force and
//! stopped by a failure. Programs are for the C ABI or for the safe Rust API, which has fewer steps and a few
//! of its own ([`api`]); one mirror judges both.
//!
//! `FERRY_MODEL_CASES=5000` runs more programs, `FERRY_MODEL_SEED=7` other ones. A failure is shrunk and
//! printed as a program one can read.

mod api;
mod basics;
mod build;
mod capi;
mod choose;
mod facts;
mod fault;
mod holdings;
mod layout;
mod mirror;
mod oracle;
mod order;
mod program;
mod ranges;
mod run;
mod rust_api;
mod safe;
mod show;
mod toy;
mod traits;
mod twin;
mod wish;
mod wrong;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use api::Api;
use capi::Capi;
use fault::Fault;
use layout::Layout;
use oracle::{Expected, Oracle};
use program::Program;
use run::{Executor, run};
use toy::{Schedule, Toy};
use traits::traits;
use wish::Wishes;
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
    api: Api,
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
    let found = runner.run(&wish::wishes(api, WISHES), |wishes| {
        try_out(&wishes).map_err(|why| {
            if chances.replace(5) == 1 {
                println!("{why}\nThat is to be seen in fewer steps:");
            }
            TestCaseError::fail(why)
        })
    });
    let (mut why, mut least) = match found {
        Ok(()) => return Ok(()),
        Err(TestError::Fail(why, wishes)) => (why.message().to_string(), wishes),
        Err(TestError::Abort(why)) => panic!("{why}"),
    };
    // Values are small by now; steps that have become pointless still stand between them.
    chances.set(40);
    while let Some((w, fewer)) = (0..least.len()).find_map(|i| {
        let fewer = least.without(i);
        try_out(&fewer).err().map(|why| (why, fewer))
    }) {
        (why, least) = (w, fewer);
    }
    Err((why, least.program(races)))
}

/// Some random programs, the same ones each time.
fn samples(api: Api, races: bool) -> impl Iterator<Item = Program> {
    let mut runner = TestRunner::deterministic();
    let wishes = wish::wishes(api, WISHES);
    std::iter::repeat_with(move || wishes.new_tree(&mut runner).expect("nothing is rejected").current())
        .map(move |wishes| wishes.program(races))
}

/// Runs one program and compares everything that is certain.
fn judge(program: &Program, executor: &dyn Executor) -> Result<(), String> {
    run(program, &Oracle::of(program).expected(program), executor)
}

/// Fails with the smallest program that goes wrong.
fn expect_right(api: Api, cases: u64, races: bool, test: impl Fn(&Program) -> Result<(), String>) {
    if let Err((why, program)) = find(api, cases, races, test) {
        panic!("{why}\n{program:?}");
    }
}

/// Gives the program streams and memory of the engine, judges it, and clears up.
fn on_engine(program: &Program, judge: impl Fn(&Capi) -> Result<(), String>) -> Result<(), String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let capi = Capi::new(program)?;
    let verdict = judge(&capi);
    verdict.and(capi.close())
}

// proves: R3 R4 R7 R8 R12 R13 R16 R23 R24 R25 R44 R45 R46 R47
// proves: R49 R53 R56 R71 R73 R76 N1 N2 N4 N5 N9 N12 N14 X1 X4 G13 G14 G28 G29
#[test]
fn ordered_programs_see_the_bytes_they_must() {
    expect_right(Api::C, setting("FERRY_MODEL_CASES", 150), false, |p| on_engine(p, |capi| judge(p, capi)));
}

/// Two copies in no order leave unknown bytes behind, and nothing else. (To be left out under a tool that
/// reports races: these are the program's own.)
#[test]
fn programs_with_races_see_all_other_bytes_right() {
    expect_right(Api::C, setting("FERRY_MODEL_CASES", 75), true, |p| on_engine(p, |capi| judge(p, capi)));
}

/// Ordered programs in which nothing is large, to get through many.
fn small() -> impl Iterator<Item = Program> {
    samples(Api::C, false).filter(|program| program.buffers.iter().all(|b| b.len < 1 << 16))
}

const SCHEDULES: [Schedule; 4] = [Schedule::Eager, Schedule::Lazy, Schedule::Random(1), Schedule::Random(2)];

#[test]
fn the_oracle_asks_for_nothing_a_right_engine_need_not_do() {
    for races in [false, true] {
        expect_right(Api::C, setting("FERRY_MODEL_CASES", 30), races, |program| {
            SCHEDULES.iter().try_for_each(|schedule| judge(program, &Toy::new(program, *schedule, None)))
        });
    }
}

/// What the model would not notice, it could not prove: every fault an engine might have shows in some
/// program.
#[test]
fn faults_of_an_engine_are_caught() {
    let mut more = small().map(|p| (Oracle::of(&p).expected(&p), p)).take(1000);
    let mut programs = vec![];
    for fault in Fault::ALL {
        let mut caught = |(expected, program): &(Expected, Program)| {
            let toy = |schedule: &Schedule| Toy::new(program, *schedule, Some(fault));
            SCHEDULES.iter().any(|schedule| run(program, expected, &toy(schedule)).is_err())
        };
        let known = programs.iter().position(&mut caught);
        let found = known.or_else(|| {
            more.find_map(|new| {
                programs.push(new);
                caught(&programs[programs.len() - 1]).then_some(programs.len() - 1)
            })
        });
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} went unnoticed");
    }
}

#[test]
fn slips_in_calls_are_caught() {
    for slip in Slip::ALL {
        let right = |p: &Program| judge(p, &Wrong::new(Toy::new(p, Schedule::Lazy, None), slip)).is_ok();
        assert!(!small().take(1000).all(|p| right(&p)), "{slip:?} went unnoticed");
    }
}

/// The same through the C ABI, for slips that do not depend on timing.
#[test]
fn slips_in_calls_of_the_engine_are_caught() {
    for slip in [Slip::OneShortCopy, Slip::SamePitch, Slip::ItemMissing, Slip::LowByte, Slip::FirstDesc] {
        let right = |p: &Program| on_engine(p, |capi| judge(p, &Wrong::new(capi, slip))).is_ok();
        assert!(!small().take(1000).all(|p| right(&p)), "{slip:?} went unnoticed");
    }
}

#[test]
fn a_failure_shrinks_to_a_program_one_can_read() {
    let short = |p: &Program| judge(p, &Wrong::new(Toy::new(p, Schedule::Lazy, None), Slip::ShortCopy));
    let (why, program) = find(Api::C, 50, false, short).expect_err("short copies are noticed");
    let text = format!("{program:?}");
    println!("{why}\n{text}");
    assert!(program.steps.len() < 15 && text.contains(" <- "), "{text}");
    assert!(why.contains(" is 0x"), "{why}");
}

/// The programs contain what they are for, often, and nearly all their bytes are certain.
#[test]
fn programs_are_worth_running() {
    let (mut tally, mut racy, mut looks, mut certain) = (BTreeMap::new(), 0, 0, 0.0);
    for program in samples(Api::C, true).take(200) {
        let oracle = Oracle::of(&program);
        racy += usize::from(oracle.has_races());
        let mut layout = Layout::default();
        for (i, step) in program.steps.iter().enumerate() {
            for name in traits(&program, &oracle, &layout, i) {
                *tally.entry(name).or_insert(0) += 1;
            }
            layout.step(&program, &step.act);
        }
        let expected = oracle.expected(&program);
        (looks, certain) = (looks + expected.looks, certain + expected.certain);
    }
    println!("{tally:#?}\n{racy} of 200 with races, {certain:.0} of {looks} looks certain");
    assert_eq!(tally.len(), 46, "something never happens: {tally:?}");
    assert!(tally.values().all(|times| *times >= 5), "something hardly happens: {tally:?}");
    assert!(
        racy >= 20 && certain > 0.9 * looks as f64,
        "{racy} programs with races, {certain} of {looks} looks"
    );
    assert!(
        samples(Api::C, false).take(100).all(|p| !Oracle::of(&p).has_races()),
        "ordered programs have no races"
    );
}
