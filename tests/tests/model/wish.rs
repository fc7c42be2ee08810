//! Random wishes, which is what shrinking works on, and the programs made of them.

use proptest::prelude::*;

use crate::api::Api;
use crate::build::Builder;
use crate::program::*;
use crate::twin::Manner;

/// How a conflict with an earlier step is put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// An event between the two streams, where there are two of one device.
    Event,
    SyncStream,
    SyncEvent,
    /// Not at all, if races are allowed: the bytes become unknown.
    Leave,
}

/// Some place in some buffer of a group: which one, and how far into it.
#[derive(Clone, Copy, Debug)]
pub struct Pick {
    pub slot: usize,
    pub at: u16,
}

/// Which way a copy goes; two host buffers have a wish of their own.
#[derive(Clone, Copy, Debug)]
pub enum Towards {
    Device,
    Host,
    InDevice,
}

/// What is asked for. Lengths and widths are shares of what is there, 0 to all; numbers choose among what
/// fits.
#[derive(Clone, Debug)]
pub enum Want {
    Copy {
        towards: Towards,
        dst: Pick,
        src: Pick,
        len: u16,
        kind: usize,
        sync: bool,
        with_condition: bool,
    },
    HostToHost {
        dst: Pick,
        src: Pick,
        len: u16,
        kind: usize,
    },
    Copy2d {
        towards: Towards,
        dst: Pick,
        src: Pick,
        width: u16,
        height: usize,
        gaps: (usize, usize),
        sync: bool,
    },
    Batch {
        towards: Towards,
        items: Vec<(Pick, Pick, u16)>,
        how: Batching,
        sync: bool,
    },
    Fill {
        dst: Pick,
        len: u16,
        with: Pattern,
        sync: bool,
    },
    Poke {
        dst: Pick,
        len: u16,
        seed: usize,
    },
    SetDesc {
        desc: usize,
        dst: Pick,
        src: Pick,
        len: u16,
    },
    CopyDesc {
        dst: usize,
    },
    /// Has the stream set the descriptor, and perhaps run it.
    PutDesc {
        desc: usize,
        dst: Pick,
        src: Pick,
        len: u16,
        run: bool,
    },
    /// Runs the descriptor, which is set first if it is of no use as it is, or a copy of it made by the task
    /// before.
    RunDesc {
        desc: usize,
        dst: Pick,
        src: Pick,
        len: u16,
        copied: bool,
    },
    Free {
        slot: usize,
    },
    /// Maps a physical memory in a cell of the stream's device's window, in place of what is there.
    Map {
        slot: usize,
        cell: usize,
        /// What was there is freed, and new memory mapped.
        fresh: bool,
    },
    Unmap {
        cell: usize,
    },
    /// Page-locks pages from a share of a buffer on, or lets them go if some are.
    Register {
        slot: usize,
        at: u16,
        len: u16,
    },
    Unregister {
        slot: usize,
    },
    /// Something that does not look where in a window anything is mapped.
    Careless(Box<Want>),
    Hold,
    Release,
    Record {
        event: usize,
    },
    Wait {
        event: usize,
    },
    /// Resets an event, waits for it, and records it again on another stream.
    Reset {
        event: usize,
    },
    SyncEvent {
        event: usize,
    },
    SyncStream,
    SyncDevice,
    /// The second process copies, or fills if a byte is given.
    Abroad {
        dst: Pick,
        src: Pick,
        len: u16,
        byte: Option<u8>,
        manner: Manner,
    },
    Abort,
    /// Things put behind a closed gate, and dropped.
    Dropped(Vec<Want>),
    /// Things put behind a closed gate while memory changes.
    Behind(Vec<Want>),
    Renew,
    Halt,
    /// Tasks of a model, each on its main stream or on the other, captured and launched behind something
    /// else, so often.
    Model {
        tasks: Vec<(Want, bool)>,
        launches: usize,
        first: Box<Want>,
    },
    /// Another execution of some model, perhaps after memory of it was freed.
    Again {
        any: usize,
        frees: bool,
    },
    Barrier,
    /// Takes a page-locked buffer back that a copy owns.
    Land {
        slot: usize,
    },
    /// Shares a page-locked buffer, to be read only.
    Share {
        slot: usize,
    },
    /// A page-locked buffer goes from one stream to another, which is aborted, perhaps to a third, and is
    /// taken back. Each copy goes up or down.
    Astray {
        host: Pick,
        device: Pick,
        len: u16,
        up: Vec<bool>,
    },
}

/// Who asks, of which stream, and what to do about conflicts.
#[derive(Clone, Debug)]
pub struct Wish {
    pub thread: usize,
    pub stream: usize,
    pub want: Want,
    pub repair: Repair,
}

fn pick() -> impl Strategy<Value = Pick> {
    let at = prop_oneof![1 => Just(0), 3 => any::<u16>()];
    (0..60usize, at).prop_map(|(slot, at)| Pick { slot, at })
}

fn towards() -> impl Strategy<Value = Towards> {
    prop_oneof![Just(Towards::Device), Just(Towards::Host), Just(Towards::InDevice)]
}

/// Few enough to be set, copied and run in one short program.
fn desc() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..2usize, 1 => 2..4usize, 2 => FIRST_CELLS..DESCS.len()]
}

/// Those that Rust has.
fn desc_in_rust() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..2usize, 1 => 2..FIRST_CELLS]
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.2)
}

fn batching() -> impl Strategy<Value = Batching> {
    any::<(bool, bool, bool)>().prop_map(|(split, unregistered, v2)| Batching { split, unregistered, v2 })
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![any::<u8>().prop_map(Pattern::Byte), any::<u32>().prop_map(Pattern::Word)]
}

fn len() -> impl Strategy<Value = u16> {
    prop_oneof![3 => any::<u16>(), 1 => Just(u16::MAX)]
}

/// Copies and fills.
fn transfer() -> impl Strategy<Value = Want> {
    let copy = (towards(), pick(), pick(), len(), 0..3usize, rarely(), any::<bool>());
    let copy2d = (towards(), pick(), pick(), len(), 1..9usize, (0..9usize, 0..9usize), rarely());
    let items = prop::collection::vec((pick(), pick(), len()), 1..6);
    let to = prop_oneof![Just(Towards::Device), Just(Towards::Host)];
    prop_oneof![
        9 => copy.prop_map(|(towards, dst, src, len, kind, sync, with_condition)| {
            Want::Copy { towards, dst, src, len, kind, sync, with_condition }
        }),
        1 => (pick(), pick(), len(), 0..8usize)
            .prop_map(|(dst, src, len, kind)| Want::HostToHost { dst, src, len, kind }),
        4 => copy2d.prop_map(|(towards, dst, src, width, height, gaps, sync)| {
            Want::Copy2d { towards, dst, src, width, height, gaps, sync }
        }),
        4 => (to, items, batching(), rarely()).prop_map(|(towards, items, how, sync)| {
            Want::Batch { towards, items, how, sync }
        }),
        4 => (pick(), len(), pattern(), rarely())
            .prop_map(|(dst, len, with, sync)| Want::Fill { dst, len, with, sync }),
    ]
}

/// Memory that becomes something else.
fn change() -> impl Strategy<Value = Want> {
    prop_oneof![
        2 => (0..60usize, 0..CELLS).prop_map(|(slot, cell)| Want::Map { slot, cell, fresh: true }),
        1 => (0..SLOTS.len()).prop_map(|slot| Want::Free { slot }),
        1 => (0..60usize).prop_map(|slot| Want::Unregister { slot }),
    ]
}

/// Copies and fills that are captured, some of them on the stream that joins.
fn model() -> impl Strategy<Value = Want> {
    let tasks = prop::collection::vec((transfer(), any::<bool>()), 1..6);
    (tasks, 1..4usize, transfer()).prop_map(|(tasks, launches, first)| Want::Model {
        tasks,
        launches,
        first: Box::new(first),
    })
}

fn abroad() -> impl Strategy<Value = Want> {
    let manner = prop_oneof![Just(Manner::Call), Just(Manner::Stream), Just(Manner::Detour)];
    (pick(), pick(), len(), any::<Option<u8>>(), manner)
        .prop_map(|(dst, src, len, byte, manner)| Want::Abroad { dst, src, len, byte, manner })
}

fn want_in_c() -> impl Strategy<Value = Want> {
    prop_oneof![
        22 => transfer(),
        1 => transfer().prop_map(|want| Want::Careless(Box::new(want))),
        3 => (pick(), len(), 0..1000usize).prop_map(|(dst, len, seed)| Want::Poke { dst, len, seed }),
        2 => (desc(), pick(), pick(), len())
            .prop_map(|(desc, dst, src, len)| Want::SetDesc { desc, dst, src, len }),
        1 => desc().prop_map(|dst| Want::CopyDesc { dst }),
        5 => (desc(), pick(), pick(), len(), rarely()).prop_map(|(desc, dst, src, len, copied)| {
            Want::RunDesc { desc, dst, src, len, copied }
        }),
        4 => (0..SLOTS.len()).prop_map(|slot| Want::Free { slot }),
        5 => (0..60usize, 0..CELLS, any::<bool>())
            .prop_map(|(slot, cell, fresh)| Want::Map { slot, cell, fresh }),
        1 => (0..CELLS).prop_map(|cell| Want::Unmap { cell }),
        3 => (0..60usize, any::<u16>(), len()).prop_map(|(slot, at, len)| Want::Register { slot, at, len }),
        1 => (0..60usize).prop_map(|slot| Want::Unregister { slot }),
        3 => Just(Want::Hold),
        1 => Just(Want::Release),
        2 => (0..EVENTS.len()).prop_map(|event| Want::Record { event }),
        2 => (0..EVENTS.len()).prop_map(|event| Want::Wait { event }),
        1 => (0..EVENTS.len()).prop_map(|event| Want::SyncEvent { event }),
        1 => (0..EVENTS.len()).prop_map(|event| Want::Reset { event }),
        2 => Just(Want::SyncStream),
        1 => Just(Want::SyncDevice),
        2 => abroad(),
        1 => Just(Want::Abort),
        1 => prop::collection::vec(transfer(), 1..3).prop_map(Want::Dropped),
        1 => (prop::collection::vec(transfer(), 2..5), change()).prop_map(|(mut wants, change)| {
            wants.extend([change.clone(), change]);
            Want::Behind(wants)
        }),
        2 => model(),
        2 => (0..MODELS, rarely()).prop_map(|(any, frees)| Want::Again { any, frees }),
        1 => Just(Want::Renew),
        1 => (0..6usize).prop_map(|n| if n < 5 { Want::Release } else { Want::Halt }),
        1 => Just(Want::Barrier),
    ]
}

/// Copies and fills, less those that Rust leaves to slices.
fn transfer_in_rust() -> impl Strategy<Value = Want> {
    transfer().prop_filter("a copy between slices", |want| !matches!(want, Want::HostToHost { .. }))
}

/// What the Rust API has, and what only it has.
fn want_in_rust() -> impl Strategy<Value = Want> {
    let has = |slot: &usize| Api::Rust.has(SLOTS[*slot].2);
    let slots: Vec<_> = (0..SLOTS.len()).filter(has).collect();
    let free = || prop::sample::select(slots.clone()).prop_map(|slot| Want::Free { slot });
    let astray = (pick(), pick(), len(), prop::collection::vec(any::<bool>(), 2..=3));
    // What a descriptor names is freed before the copy runs.
    let late = (0..2usize, pick(), pick(), len(), 0..3usize);
    prop_oneof![
        26 => transfer_in_rust(),
        3 => (pick(), len(), 0..1000usize).prop_map(|(dst, len, seed)| Want::Poke { dst, len, seed }),
        2 => (desc_in_rust(), pick(), pick(), len()).prop_map(|(desc, dst, src, len)| {
            Want::SetDesc { desc, dst, src, len }
        }),
        2 => (desc_in_rust(), pick(), pick(), len(), any::<bool>()).prop_map(|(desc, dst, src, len, run)| {
            Want::PutDesc { desc, dst, src, len, run }
        }),
        4 => (desc_in_rust(), pick(), pick(), len()).prop_map(|(desc, dst, src, len)| {
            Want::RunDesc { desc, dst, src, len, copied: false }
        }),
        5 => free(),
        4 => Just(Want::Hold),
        1 => Just(Want::Release),
        2 => (0..EVENTS.len()).prop_map(|event| Want::Record { event }),
        2 => (0..EVENTS.len()).prop_map(|event| Want::Wait { event }),
        1 => (0..EVENTS.len()).prop_map(|event| Want::SyncEvent { event }),
        2 => Just(Want::SyncStream),
        2 => (0..60usize).prop_map(|slot| Want::Land { slot }),
        2 => (0..60usize).prop_map(|slot| Want::Share { slot }),
        1 => astray.prop_map(|(host, device, len, up)| Want::Astray { host, device, len, up }),
        1 => Just(Want::Abort),
        1 => prop::collection::vec(transfer_in_rust(), 1..3).prop_map(Want::Dropped),
        1 => (prop::collection::vec(transfer_in_rust(), 2..5), free()).prop_map(|(mut wants, free)| {
            wants.push(free);
            Want::Behind(wants)
        }),
        1 => late.prop_map(|(desc, dst, src, len, slot)| {
            let run = Want::RunDesc { desc, dst, src, len, copied: false };
            Want::Behind(vec![run, Want::Free { slot }])
        }),
        1 => Just(Want::Barrier),
    ]
}

fn want(api: Api) -> BoxedStrategy<Want> {
    match api {
        Api::C => want_in_c().boxed(),
        Api::Rust => want_in_rust().boxed(),
    }
}

fn wish(api: Api) -> impl Strategy<Value = Wish> {
    let repair = prop_oneof![
        5 => Just(Repair::Event),
        2 => Just(Repair::SyncStream),
        1 => Just(Repair::SyncEvent),
        2 => Just(Repair::Leave),
    ];
    (0..THREADS, 0..USER_STREAMS, want(api), repair).prop_map(|(thread, stream, want, repair)| Wish {
        thread,
        stream,
        want,
        repair,
    })
}

/// Bytes between the guards of each slot: mostly few, some pages, now and then all more than an engine copies
/// in one go.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    let few = || prop_oneof![5 => 1..300usize, 1 => 4000..12_300usize];
    let many = || (3usize << 19)..(3 << 19) + 300_000;
    prop_oneof![11 => prop::collection::vec(few(), SLOTS.len()),
        1 => prop::collection::vec(many(), SLOTS.len())]
}

/// What a program is made from: how large each slot's allocations are, and what is wanted.
#[derive(Clone, Debug)]
pub struct Wishes {
    api: Api,
    sizes: Vec<usize>,
    wishes: Vec<Wish>,
}

/// Random wishes, up to so many.
pub fn wishes(api: Api, most: usize) -> impl Strategy<Value = Wishes> {
    (sizes(), prop::collection::vec(wish(api), 1..=most)).prop_map(move |(sizes, wishes)| Wishes {
        api,
        sizes,
        wishes,
    })
}

impl Wishes {
    pub fn len(&self) -> usize {
        self.wishes.len()
    }

    pub fn without(&self, i: usize) -> Wishes {
        let mut fewer = self.clone();
        fewer.wishes.remove(i);
        fewer
    }

    /// The legal program that grants as many of these as it can.
    pub fn program(&self, races: bool) -> Program {
        Builder::program(self.api, &self.sizes, &self.wishes, races)
    }
}
