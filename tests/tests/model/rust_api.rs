//! The model test through the safe Rust API: programs written for it, see [`crate::api`], carried out by
//! [`Safe`].

use std::collections::BTreeMap;

use crate::api::{Api, Lent};
use crate::fault::Fault;
use crate::oracle::Oracle;
use crate::program::{Act, Home, Kind, Program, Span, Timing, Way};
use crate::run::run;
use crate::safe::Safe;
use crate::toy::Toy;
use crate::{SCHEDULES, expect_right, judge, samples, setting};

fn on_engine(program: &Program) -> Result<(), String> {
    judge(program, &Safe::new(program)?)
}

#[test]
fn ordered_programs_in_rust_see_the_bytes_they_must() {
    expect_right(Api::Rust, setting("FERRY_MODEL_CASES", 200), false, on_engine);
}

/// Two copies in no order leave unknown bytes of device memory behind, and nothing else.
#[test]
fn rust_programs_with_races_see_all_other_bytes_right() {
    expect_right(Api::Rust, setting("FERRY_MODEL_CASES", 100), true, on_engine);
}

#[test]
fn the_oracle_asks_for_nothing_a_right_engine_in_rust_need_not_do() {
    for races in [false, true] {
        expect_right(Api::Rust, setting("FERRY_MODEL_CASES", 30), races, |program| {
            SCHEDULES.iter().try_for_each(|schedule| judge(program, &Toy::new(program, *schedule, None)))
        });
    }
}

/// Faults of an engine that programs in Rust meet.
const FAULTS: [Fault; 16] = [
    Fault::ForgetsToken,
    Fault::FollowsTheLast,
    Fault::LandsEarly,
    Fault::LandsByTheLast,
    Fault::ReusesBusyMemory,
    Fault::ReadsSourceInCall,
    Fault::StagesLate,
    Fault::DoesNotWaitForPageable,
    Fault::Overtakes,
    Fault::SyncLeavesOne,
    Fault::ReadsDescInCall,
    Fault::NoMemmove,
    Fault::AbortKeepsOne,
    Fault::AbortDropsNext,
    Fault::AbortsNeighbour,
    Fault::AbortTears,
];

#[test]
fn faults_of_an_engine_are_caught_in_rust() {
    let small = samples(Api::Rust, false).filter(|p| p.buffers.iter().all(|b| b.len < 1 << 16));
    let programs: Vec<_> = small.map(|p| (Oracle::of(&p).expected(&p), p)).take(300).collect();
    for fault in FAULTS {
        let caught = |(expected, program): &(_, Program)| {
            SCHEDULES
                .iter()
                .any(|schedule| run(program, expected, &Toy::new(program, *schedule, Some(fault))).is_err())
        };
        let found = programs.iter().position(caught);
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} went unnoticed");
    }
}

/// What a step is an example of, given what has become of page-locked memory before it.
fn traits(program: &Program, oracle: &Oracle, lent: &Lent, i: usize) -> Vec<&'static str> {
    let act = &program.steps[i].act;
    let timing = program.timing(act);
    let taken = lent.taken(program, act);
    let away = !taken.is_empty() && taken.iter().all(|b| lent.is_in_flight(*b));
    let before = lent.copies(&taken).last().map(|step| program.streams(&program.steps[*step].act));
    let other_stream = before.is_some_and(|streams| streams != program.streams(act));
    let waits = matches!(timing, Some(Timing::Task { waits: true, .. }));
    let moves = act.moves();
    let ends: Vec<_> = moves.iter().flat_map(|(d, s)| [*d, *s]).collect();
    let of = |home| ends.iter().any(|end| program.home(end.buffer) == home);
    let is_all = |end: &Span| end.bytes() == (0..program.buffers[end.buffer].len);
    let busy = |b: usize| oracle.is_busy(b, i);
    let names = |act: &Act, b: usize| {
        let Act::RunDesc { dst, src, .. } = act else { return false };
        [dst.buffer, src.buffer].contains(&b)
    };
    let is_run = |b: usize| busy(b) && program.steps[..i].iter().any(|step| names(&step.act, b));
    let list = [
        ("copy that takes a buffer", !taken.is_empty() && !away),
        ("copy of all of a buffer", ends.iter().any(|end| taken.contains(&end.buffer) && is_all(end))),
        ("copy that takes a token", away),
        ("copy that takes a token of another stream", away && other_stream),
        ("batch that takes the token of several buffers", away && taken.len() > 1),
        ("batch of several buffers", taken.len() > 1),
        ("copy of page-locked memory that is waited for", !taken.is_empty() && waits),
        (
            "2-D copy of page-locked memory",
            matches!(act, Act::Copy2d { height: 2.., .. }) && of(Home::Pinned),
        ),
        ("2-D copy of plain memory", matches!(act, Act::Copy2d { height: 2.., .. }) && of(Home::Heap)),
        ("2-D copy in device memory", matches!(act, Act::Copy2d { kind: Kind::DEVICE_TO_DEVICE, .. })),
        ("copy of shared memory", moves.iter().any(|(_, s)| lent.is_shared(s.buffer))),
        ("copy that stages its source", matches!(timing, Some(Timing::Staged { .. }))),
        ("copy of plain memory", of(Home::Heap)),
        ("copy of nothing", moves.iter().any(|(d, _)| d.len == 0)),
        ("buffer taken back", matches!(act, Act::Land { .. })),
        (
            "token dropped in flight",
            matches!(act, Act::Free { buffer } if lent.is_in_flight(*buffer) && busy(*buffer)),
        ),
        (
            "device memory freed in flight",
            matches!(act, Act::Free { buffer } if program.home(*buffer).is_device() && busy(*buffer)),
        ),
        ("descriptor run", matches!(act, Act::RunDesc { .. })),
        (
            "memory freed that a descriptor copy still names",
            matches!(act, Act::Free { buffer } if is_run(*buffer)),
        ),
        ("descriptor set by a stream", matches!(act, Act::PutDesc { .. })),
        ("fill", matches!(act, Act::Fill { way: Way::On(_), .. })),
        ("wait for an event", matches!(act, Act::Wait { .. })),
        ("event synchronised", matches!(act, Act::SyncEvent { .. })),
        ("held stream", matches!(act, Act::Hold { .. })),
        ("copy of page-locked memory that an abort may drop", !taken.is_empty() && oracle.is_dropped(i)),
    ];
    list.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
}

/// The programs contain what they are for, often, and nearly all their bytes are certain.
#[test]
fn programs_in_rust_are_worth_running() {
    let (mut tally, mut looks, mut certain) = (BTreeMap::new(), 0, 0.0);
    for program in samples(Api::Rust, true).take(200) {
        let oracle = Oracle::of(&program);
        // As the order keeps it, with steps in place of points.
        let mut lent = Lent::default();
        for (i, step) in program.steps.iter().enumerate() {
            for name in traits(&program, &oracle, &lent, i) {
                *tally.entry(name).or_insert(0) += 1;
            }
            lent.step(&step.act);
            let taken = lent.taken(&program, &step.act);
            lent.launch(&taken, i);
            if program.waits(&step.act) {
                step.act.buffers().into_iter().for_each(|buffer| drop(lent.land(buffer)));
            }
        }
        let expected = oracle.expected(&program);
        (looks, certain) = (looks + expected.looks, certain + expected.certain);
    }
    println!("{tally:#?}\n{certain:.0} of {looks} looks certain");
    assert_eq!(tally.len(), 25, "something never happens: {tally:?}");
    assert!(tally.values().all(|times| *times >= 5), "something hardly happens: {tally:?}");
    assert!(certain > 0.9 * looks as f64, "{certain} of {looks} looks");
    assert!(
        samples(Api::Rust, false).take(100).all(|p| !Oracle::of(&p).has_races()),
        "ordered programs have no races"
    );
}
