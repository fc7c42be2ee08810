//! A fuzz program of the C API: random calls with good, odd and bad arguments, judged by rules of its own and
//! a byte mirror.
//!
//! One thread makes the calls; streams are held back at random, so that order shows. For every call the
//! allowed codes are stated from the documents (products, NULL, context, stream, values, addresses, in this
//! order), and every byte is known unless unordered work met in it. Calls come from a seed, one number for
//! each act, so that a failure can be repeated and cut down, or from a byte string, which a coverage-guided
//! fuzzer can drive ([`bytes`]).
//!
//! The model test (`tests/model`) is the deeper one for order: two threads, a second process, programs that
//! are valid by construction. Here most of what is tested is what a program must not do, on every product.

mod choose;
mod clock;
mod copies;
mod devices;
mod elsewhere;
mod events;
mod fills;
mod late;
mod looks;
mod many;
mod memory;
mod mirror;
mod odds;
mod places;
mod streams;
mod world;

use std::collections::BTreeMap;
use std::fmt;

use choose::Choose;
use world::{Outcome, World};

use crate::code::SUCCESS;

/// How the program is to err, to prove that a library that did so would be found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Slip {
    /// Asynchronous copies leave out their last byte.
    LastByte,
    /// The last piece of a batch is a byte short.
    BatchByte,
    /// 2-D copies use the source's pitch at both ends.
    SamePitch,
    /// Fills of words use the low byte only.
    LowByte,
    /// Every second copy runs after the next.
    Swaps,
    /// Streams do not wait for events.
    NoWait,
    /// Synchronising a stream does nothing.
    NoSync,
    /// What must be refused is accepted.
    AcceptsBad,
    /// A destroyed handle gives another code.
    OtherCode,
}

impl Slip {
    /// All of them.
    pub const ALL: [Slip; 9] = [
        Slip::LastByte,
        Slip::BatchByte,
        Slip::SamePitch,
        Slip::LowByte,
        Slip::Swaps,
        Slip::NoWait,
        Slip::NoSync,
        Slip::AcceptsBad,
        Slip::OtherCode,
    ];
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Calls in all.
    pub calls: u64,
    /// Accepted and refused calls of each function.
    pub functions: BTreeMap<&'static str, [u64; 2]>,
    /// Ops that were left unordered.
    pub races: u64,
    /// Bytes that were compared.
    pub bytes: u64,
}

impl Report {
    fn count(&mut self, name: &'static str, code: i32) {
        self.calls += 1;
        self.functions.entry(name).or_default()[usize::from(code != SUCCESS)] += 1;
    }

    /// Adds another run.
    pub fn add(&mut self, other: &Report) {
        self.calls += other.calls;
        self.races += other.races;
        self.bytes += other.bytes;
        for (name, counts) in &other.functions {
            let mine = self.functions.entry(name).or_default();
            (mine[0], mine[1]) = (mine[0] + counts[0], mine[1] + counts[1]);
        }
    }

    /// Accepted and refused calls in all.
    pub fn totals(&self) -> [u64; 2] {
        self.functions.values().fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    }
}

/// The library did something else than the rules say.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The number of the call.
    pub call: u64,
    /// What is not as it should be.
    pub what: String,
    /// The calls before, the latest last.
    pub history: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "call {}: {}\n{}", self.call, self.what, self.history)
    }
}

type Act = fn(&mut World) -> Outcome;

/// What is done, and how often.
const ACTS: &[(usize, Act)] = &[
    (14, World::copy_async),
    (6, World::copy),
    (6, World::copy_2d),
    (6, World::batch),
    (6, World::fill),
    (4, World::reduce),
    (4, World::set_descriptor),
    (4, World::copy_by_descriptor),
    (4, World::copy_by_offset),
    (4, World::look),
    (3, World::launch),
    (3, World::block),
    (5, World::allocate),
    (4, World::free),
    (2, World::register),
    (1, World::unregister),
    (2, World::attributes),
    (4, World::map),
    (1, World::share),
    (2, World::create_stream),
    (1, World::destroy_stream),
    (2, World::synchronize_some),
    (1, World::synchronize_within),
    (3, World::query_stream),
    (1, World::stream_id),
    (1, World::abort),
    (1, World::synchronize_device),
    (2, World::change_device),
    (2, World::change_context),
    (2, World::peers),
    (2, World::create_event),
    (1, World::destroy_event),
    (4, World::record),
    (4, World::wait),
    (1, World::reset),
    (3, World::query_event),
    (1, World::synchronize_event),
    (2, World::measure),
    (3, World::ask),
];

/// Runs the acts of these seeds, compares all bytes and gives everything back.
pub fn acts(seeds: &[u64], slip: Option<Slip>) -> Result<Report, Difference> {
    let mut world = World::new(Choose::seeded(0), slip);
    run(&mut world, |world| {
        for seed in seeds {
            world.choose = Choose::seeded(*seed);
            world.act()?;
        }
        Ok(())
    })
}

/// Runs the acts that a byte string chooses until it is used up, and panics where the library differs: what a
/// coverage-guided fuzzer calls.
pub fn bytes(data: &[u8]) {
    let mut world = World::new(Choose::Bytes(Vec::from(data).into_iter()), None);
    let outcome = run(&mut world, |world| {
        while !world.choose.is_used_up() {
            world.act()?;
        }
        Ok(())
    });
    outcome.unwrap_or_else(|difference| panic!("{difference}"));
}

/// The fewest of these acts that still differ, as far as leaving some out and trying again tells.
pub fn shrink(seeds: &[u64], slip: Option<Slip>, mut tries: usize) -> Vec<u64> {
    let mut least = seeds.to_vec();
    let mut size = least.len().div_ceil(2);
    while size > 0 && tries > 0 {
        let mut at = 0;
        while at < least.len() && tries > 0 {
            let mut fewer = least.clone();
            fewer.drain(at..(at + size).min(least.len()));
            tries -= 1;
            if acts(&fewer, slip).is_err() { least = fewer } else { at += size }
        }
        size /= 2;
    }
    least
}

fn run(world: &mut World, body: impl FnOnce(&mut World) -> Outcome) -> Result<Report, Difference> {
    let outcome = world.begin().and_then(|()| body(world)).and_then(|()| world.finish());
    if outcome.is_err() {
        world.slip = None;
        world.abandon();
    }
    outcome.map(|()| world.report.clone())
}

impl World {
    fn act(&mut self) -> Outcome {
        self.recover()?;
        let all = ACTS.iter().map(|(weight, _)| weight).sum();
        let mut at = self.choose.below(all);
        for (weight, act) in ACTS {
            if at < *weight {
                return act(self);
            }
            at -= weight;
        }
        Ok(())
    }

    fn begin(&mut self) -> Outcome {
        self.make_islands();
        for device in [1, 0] {
            self.set_device(device)?;
        }
        for _ in 0..6 {
            self.allocate()?;
        }
        self.create_stream()?;
        self.create_stream()
    }

    /// Waits for everything, compares everything, and gives everything back.
    fn finish(&mut self) -> Outcome {
        self.choose = Choose::seeded(1);
        self.set_device(0)?;
        self.wait_for_all()?;
        self.look_at_all()?;
        self.end_handles()?;
        self.give_back()?;
        self.reset_devices()
    }

    /// After a difference: what is left is given back as far as possible, whatever that says.
    fn abandon(&mut self) {
        self.choose = Choose::seeded(1);
        self.open_gates();
        let _ = self.set_device(0).and_then(|()| self.wait_for_all());
        let _ = self.end_handles();
        let _ = self.give_back();
        let _ = self.reset_devices();
    }
}
