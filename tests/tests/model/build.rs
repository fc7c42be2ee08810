//! Makes legal programs out of random wishes.
//!
//! A [`Wish`] names a slot, a stream, a share of a buffer. Building turns each into a step if it can be a legal one:
//! it allocates what is missing, releases gates before a thread may sleep, puts barriers where two threads would
//! quarrel over a handle, and orders conflicting accesses by an event or by synchronising. Some races are left in if
//! the programs may have them. Removing a wish leaves a legal program: that is what shrinking does.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::oracle::{Access, Oracle, Place};
use crate::program::*;

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
    slot: usize,
    at: u16,
}

#[derive(Clone, Copy, Debug)]
enum Towards {
    Device,
    Host,
    InDevice,
}

#[derive(Clone, Debug)]
enum Want {
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
    RunDesc {
        desc: usize,
    },
    Free {
        slot: usize,
    },
    Hold,
    Release,
    Record {
        event: usize,
    },
    Wait {
        event: usize,
    },
    SyncEvent {
        event: usize,
    },
    SyncStream,
    SyncDevice,
    Barrier,
}

#[derive(Clone, Debug)]
struct Wish {
    thread: usize,
    stream: usize,
    want: Want,
    repair: Repair,
}

const DEVICE: std::ops::Range<usize> = 0..5;
const HOST: std::ops::Range<usize> = 5..10;
const ON: [std::ops::Range<usize>; 2] = [0..3, 3..5];
/// Buffers that a fill on a stream may name: malloc memory is left to the synchronous form.
const FILLED: std::ops::Range<usize> = 0..8;

fn pick() -> impl Strategy<Value = Pick> {
    (0..60usize, any::<u16>()).prop_map(|(slot, at)| Pick { slot, at })
}

fn towards() -> impl Strategy<Value = Towards> {
    prop_oneof![Just(Towards::Device), Just(Towards::Host), Just(Towards::InDevice)]
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

fn want() -> impl Strategy<Value = Want> {
    let len = any::<u16>;
    let copy = (towards(), pick(), pick(), len(), 0..3usize, rarely(), any::<bool>());
    let copy2d = (towards(), pick(), pick(), len(), 1..9usize, (0..9usize, 0..9usize), rarely());
    let items = prop::collection::vec((pick(), pick(), len()), 1..6);
    let to = prop_oneof![Just(Towards::Device), Just(Towards::Host)];
    prop_oneof![
        9 => copy.prop_map(|(towards, dst, src, len, kind, sync, with_condition)| {
            Want::Copy { towards, dst, src, len, kind, sync, with_condition }
        }),
        1 => (pick(), pick(), len(), 0..8usize).prop_map(|(dst, src, len, kind)| Want::HostToHost { dst, src, len, kind }),
        4 => copy2d.prop_map(|(towards, dst, src, width, height, gaps, sync)| {
            Want::Copy2d { towards, dst, src, width, height, gaps, sync }
        }),
        4 => (to, items, batching(), rarely()).prop_map(|(towards, items, how, sync)| {
            Want::Batch { towards, items, how, sync }
        }),
        4 => (pick(), len(), pattern(), rarely()).prop_map(|(dst, len, with, sync)| Want::Fill { dst, len, with, sync }),
        3 => (pick(), len(), 0..1000usize).prop_map(|(dst, len, seed)| Want::Poke { dst, len, seed }),
        2 => (0..DESCS.len(), pick(), pick(), len()).prop_map(|(desc, dst, src, len)| Want::SetDesc { desc, dst, src, len }),
        2 => (0..DESCS.len()).prop_map(|dst| Want::CopyDesc { dst }),
        3 => (0..DESCS.len()).prop_map(|desc| Want::RunDesc { desc }),
        3 => (0..SLOTS.len()).prop_map(|slot| Want::Free { slot }),
        3 => Just(Want::Hold),
        1 => Just(Want::Release),
        2 => (0..EVENTS.len()).prop_map(|event| Want::Record { event }),
        2 => (0..EVENTS.len()).prop_map(|event| Want::Wait { event }),
        1 => (0..EVENTS.len()).prop_map(|event| Want::SyncEvent { event }),
        2 => Just(Want::SyncStream),
        1 => Just(Want::SyncDevice),
        1 => Just(Want::Barrier),
    ]
}

fn wish() -> impl Strategy<Value = Wish> {
    let repair = prop_oneof![
        5 => Just(Repair::Event),
        2 => Just(Repair::SyncStream),
        1 => Just(Repair::SyncEvent),
        2 => Just(Repair::Leave),
    ];
    (0..THREADS, 0..STREAMS.len(), want(), repair).prop_map(|(thread, stream, want, repair)| Wish {
        thread,
        stream,
        want,
        repair,
    })
}

/// Bytes between the guards: mostly few, some pages, now and then more than an engine copies in one go.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![16 => 1..300usize, 3 => 4000..12_300usize, 1 => (1 << 20)..(1usize << 20) + 300_000]
}

/// What a program is made from: how large each slot's allocations are, and what is wanted.
#[derive(Clone, Debug)]
pub struct Wishes {
    sizes: Vec<usize>,
    wishes: Vec<Wish>,
}

/// Random wishes, up to so many.
pub fn wishes(most: usize) -> impl Strategy<Value = Wishes> {
    let sizes = prop::collection::vec(size(), SLOTS.len());
    (sizes, prop::collection::vec(wish(), 1..=most)).prop_map(|(sizes, wishes)| Wishes { sizes, wishes })
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
        let slots =
            Builder::new(self, races).build(&self.wishes).buffers.into_iter().map(|b| b.slot).collect();
        let mut builder = Builder::new(self, races);
        builder.furnish(slots);
        builder.build(&self.wishes)
    }
}

struct Builder {
    races: bool,
    sizes: Vec<usize>,
    program: Program,
    oracle: Oracle,
    slots: [Option<usize>; SLOTS.len()],
    lives: [usize; SLOTS.len()],
    descs: [Option<(Span, Span)>; DESCS.len()],
    /// Gates not released yet, and who will.
    closed: Vec<(usize, usize)>,
    /// Since the last barrier: where it is, who named each buffer, who made it, who used each event.
    epoch: usize,
    users: Vec<[bool; THREADS]>,
    makers: Vec<Option<usize>>,
    event_users: [Option<usize>; EVENTS.len()],
}

impl Builder {
    fn new(wishes: &Wishes, races: bool) -> Builder {
        Builder {
            races,
            sizes: wishes.sizes.clone(),
            program: Program::default(),
            oracle: Oracle::default(),
            slots: [None; SLOTS.len()],
            lives: [0; SLOTS.len()],
            descs: [None; DESCS.len()],
            closed: vec![],
            epoch: 0,
            users: vec![],
            makers: vec![],
            event_users: [None; EVENTS.len()],
        }
    }

    /// Allocates slots that are going to be needed, so that both threads can use them from the start.
    fn furnish(&mut self, slots: BTreeSet<usize>) {
        for slot in slots {
            self.buffer(0, Pick { slot: 0, at: 0 }, slot..slot + 1);
        }
        self.barrier();
    }

    /// Grants what can be granted, and ends with everything done and everything looked at.
    fn build(mut self, wishes: &[Wish]) -> Program {
        wishes.iter().for_each(|wish| self.grant(wish));
        self.barrier();
        (0..2).for_each(|device| {
            self.place(0, Act::SyncDevice { device }, Repair::SyncStream);
        });
        let buffers: Vec<_> = self.slots.iter().flatten().copied().collect();
        self.place(0, Act::Check { buffers }, Repair::SyncStream);
        self.program
    }

    fn grant(&mut self, wish: &Wish) {
        let Some(act) = self.act(wish) else { return };
        if !self.place(wish.thread, act.clone(), wish.repair) {
            return;
        }
        if self.program.waits(&act) && !matches!(act, Act::Barrier) {
            self.look(wish.thread);
        }
    }

    /// Checks what this thread has used lately.
    fn look(&mut self, thread: usize) {
        let used = |b: &usize| self.users[*b][thread];
        let buffers: Vec<_> = self.slots.iter().flatten().copied().filter(used).collect();
        if !buffers.is_empty() {
            self.place(thread, Act::Check { buffers }, Repair::SyncStream);
        }
    }

    /// Adds a step, after what it takes to make it legal. Returns false if that cannot be done.
    fn place(&mut self, thread: usize, act: Act, repair: Repair) -> bool {
        for _ in 0..12 {
            if self.program.waits(&act) {
                self.release(thread);
            }
            if self.quarrels(thread, &act) {
                self.barrier();
            }
            let step = Step { thread, act: act.clone() };
            let trial = self.oracle.consider(&self.program, &step);
            let hard = |(old, new): &(&Access, &Access)| {
                !(self.races && repair == Repair::Leave && self.may_race(old, &act, new.place))
            };
            let old = trial.races(&self.oracle).find(hard).map(|(old, _)| old.step);
            let Some(old) = old else {
                self.oracle.accept(trial);
                self.push(step);
                return true;
            };
            self.repair(thread, &act, old, repair);
        }
        false
    }

    /// Only two copies or fills by the engine may race, and not over a descriptor.
    fn may_race(&self, old: &Access, act: &Act, place: Place) -> bool {
        let by_engine = |act: &Act| !act.moves().is_empty() || matches!(act, Act::Fill { .. });
        matches!(place, Place::Buffer(_)) && by_engine(&self.program.steps[old.step].act) && by_engine(act)
    }

    /// Puts a step that is to come after the step `old`.
    fn repair(&mut self, thread: usize, act: &Act, old: usize, repair: Repair) {
        let Step { thread: other, act: old_act } = self.program.steps[old].clone();
        if other != thread && old >= self.epoch {
            return self.barrier();
        }
        let Some(Timing::Task { stream: from, .. } | Timing::Staged { stream: from }) =
            self.program.timing(&old_act)
        else {
            return;
        };
        let event = 2 * STREAMS[from] + old % 2;
        match (repair, self.program.timing(act)) {
            (
                Repair::Event | Repair::Leave,
                Some(Timing::Task { stream, .. } | Timing::Staged { stream }),
            ) if stream != from && STREAMS[stream] == STREAMS[from] && !self.stage_races(act, old) => {
                self.place(thread, Act::Record { event, stream: from }, repair);
                self.place(thread, Act::Wait { stream, event }, repair);
            }
            (Repair::SyncEvent, _) => {
                self.place(thread, Act::Record { event, stream: from }, repair);
                self.place(thread, Act::SyncEvent { event }, repair);
                self.look(thread);
            }
            _ => {
                self.place(thread, Act::SyncStream { stream: from }, repair);
                self.look(thread);
            }
        }
    }

    /// A staged copy reads its source in the call, which no event can hold back.
    fn stage_races(&self, act: &Act, old: usize) -> bool {
        let staged = matches!(self.program.timing(act), Some(Timing::Staged { .. }));
        staged
            && act.moves().iter().any(|(_, src)| self.program.steps[old].act.buffers().contains(&src.buffer))
    }

    /// Whether the other thread's use of a handle is in no order with this one.
    fn quarrels(&self, thread: usize, act: &Act) -> bool {
        let other = 1 - thread;
        let fresh = matches!(act, Act::Alloc { .. });
        let freed = matches!(act, Act::Free { .. });
        let over = |b: &usize| self.makers[*b] == Some(other) || freed && self.users[*b][other];
        !fresh && act.buffers().iter().any(over)
            || act.event().is_some_and(|e| self.event_users[e] == Some(other))
    }

    fn release(&mut self, thread: usize) {
        let gates: Vec<_> =
            self.closed.iter().filter(|(_, owner)| *owner == thread).map(|(gate, _)| *gate).collect();
        for gate in gates {
            self.place(thread, Act::Release { gate }, Repair::SyncStream);
        }
    }

    fn barrier(&mut self) {
        (0..THREADS).for_each(|t| self.release(t));
        let step = Step { thread: 0, act: Act::Barrier };
        let trial = self.oracle.consider(&self.program, &step);
        self.oracle.accept(trial);
        self.push(step);
    }

    /// Keeps the books on a step that has become part of the program.
    fn push(&mut self, step: Step) {
        let thread = step.thread;
        for b in step.act.buffers() {
            self.users[b][thread] = true;
        }
        if let Some(event) = step.act.event() {
            self.event_users[event] = Some(thread);
        }
        match step.act {
            Act::Alloc { buffer } => self.makers[buffer] = Some(thread),
            Act::Free { buffer } => self.slots[self.program.buffers[buffer].slot] = None,
            Act::SetDesc { desc, dst, src } => self.descs[desc] = Some((dst, src)),
            Act::CopyDesc { dst, src, .. } => self.descs[dst] = self.descs[src],
            Act::Hold { gate, .. } => {
                self.program.gates += 1;
                self.closed.push((gate, thread));
            }
            Act::Release { gate } => self.closed.retain(|(g, _)| *g != gate),
            Act::Barrier => {
                self.epoch = self.program.steps.len();
                self.users.fill([false; THREADS]);
                self.makers.fill(None);
                self.event_users = [None; EVENTS.len()];
            }
            _ => {}
        }
        self.program.steps.push(step);
    }

    /// The buffer in a slot of the group; allocates it if there is none.
    fn buffer(&mut self, thread: usize, pick: Pick, group: std::ops::Range<usize>) -> usize {
        let slot = group.start + pick.slot % group.len();
        if let Some(buffer) = self.slots[slot] {
            return buffer;
        }
        let buffer = self.program.buffers.len();
        self.program.buffers.push(Buffer { slot, life: self.lives[slot], len: self.sizes[slot] + 2 * GUARD });
        self.lives[slot] += 1;
        self.users.push([false; THREADS]);
        self.makers.push(None);
        self.slots[slot] = Some(buffer);
        self.place(thread, Act::Alloc { buffer }, Repair::SyncStream);
        buffer
    }

    fn usable(&self, buffer: usize) -> usize {
        self.program.buffers[buffer].len - 2 * GUARD
    }

    /// Two spans of one length: `len` is its share of what is left behind both starts.
    fn pair(&self, (dst, dst_at): (usize, u16), (src, src_at): (usize, u16), len: u16) -> (Span, Span) {
        let (room_d, room_s) = (self.usable(dst), self.usable(src));
        let (d, s) = (share(dst_at, room_d), share(src_at, room_s));
        let len = share(len, (room_d - d).min(room_s - s));
        (Span { buffer: dst, at: GUARD + d, len }, Span { buffer: src, at: GUARD + s, len })
    }

    /// The two buffers of a copy and its natural kind.
    fn ends(
        &mut self,
        wish: &Wish,
        towards: Towards,
        dst: Pick,
        src: Pick,
        sync: bool,
    ) -> (usize, usize, Kind) {
        let t = wish.thread;
        match towards {
            Towards::Device => (self.buffer(t, dst, DEVICE), self.buffer(t, src, HOST), Kind::HOST_TO_DEVICE),
            Towards::Host => (self.buffer(t, dst, HOST), self.buffer(t, src, DEVICE), Kind::DEVICE_TO_HOST),
            Towards::InDevice => {
                // One end is on the device that does the work; the other may be a peer's.
                let home = if sync { DEVICE } else { ON[STREAMS[wish.stream]].clone() };
                let far = if src.slot >= 40 { DEVICE } else { home.clone() };
                (self.buffer(t, dst, home), self.buffer(t, src, far), Kind::DEVICE_TO_DEVICE)
            }
        }
    }

    fn same_device(&self, a: usize, b: usize) -> bool {
        self.program.home(a) == self.program.home(b)
    }

    /// The step a wish asks for, if there can be one.
    fn act(&mut self, wish: &Wish) -> Option<Act> {
        let (thread, stream) = (wish.thread, wish.stream);
        let by = |sync: bool| if sync { Way::Now } else { Way::On(stream) };
        Some(match wish.want.clone() {
            Want::Copy { towards, dst, src, len, kind, sync, with_condition } => {
                let (d, s, natural) = self.ends(wish, towards, dst, src, sync);
                let third = match towards {
                    Towards::Device => Kind::HOST_TO_BUF_TO_DEVICE,
                    Towards::Host => natural,
                    Towards::InDevice if self.same_device(d, s) => Kind::INNER_DEVICE_TO_DEVICE,
                    Towards::InDevice => Kind::INTER_DEVICE_TO_DEVICE,
                };
                let kind = [natural, Kind::DEFAULT, third][kind];
                let (dst, src) = self.pair((d, dst.at), (s, src.at), len);
                Act::Copy { dst, src, kind, way: by(sync), with_condition: with_condition && !sync }
            }
            Want::HostToHost { dst, src, len, kind } => {
                let (d, s) = (self.buffer(thread, dst, HOST), self.buffer(thread, src, HOST));
                let (dst, src) = self.pair((d, dst.at), (s, src.at), len);
                // documented: the synchronous copy ignores its kind
                Act::Copy { dst, src, kind: Kind(kind as i32), way: Way::Now, with_condition: false }
            }
            Want::Copy2d { towards, dst, src, width, height, gaps, sync } => {
                let sync = sync && !matches!(towards, Towards::InDevice);
                let (d, s, kind) = self.ends(wish, towards, dst, src, sync);
                let (to, from) = self.pair((d, dst.at), (s, src.at), u16::MAX);
                let width = share(width, to.len / 2);
                let rows = |span: Span, gap: usize| Rows {
                    buffer: span.buffer,
                    at: span.at,
                    pitch: width + gap * (1 + width / 4),
                };
                let (dst, src) = (rows(to, gaps.0), rows(from, gaps.1));
                let fit = |r: &Rows| if r.pitch == 0 { height } else { (to.len - width) / r.pitch + 1 };
                let height = height.min(fit(&dst)).min(fit(&src));
                let reach = |r: &Rows| r.at..r.at + (height - 1) * r.pitch + width;
                if d == s && reach(&dst).start < reach(&src).end && reach(&src).start < reach(&dst).end {
                    return None;
                }
                Act::Copy2d { dst, src, width, height, kind, way: by(sync) }
            }
            Want::Batch { towards, items, how, sync } => {
                let mut chosen: Vec<(Span, Span)> = vec![];
                for (dst, src, len) in items {
                    let (d, s, _) = self.ends(wish, towards, dst, src, sync);
                    let (dst, src) = self.pair((d, dst.at), (s, src.at), len);
                    let clash = |(other, _): &(Span, Span)| {
                        other.buffer == d && other.at < dst.at + dst.len && dst.at < other.at + other.len
                    };
                    if !chosen.iter().any(clash) {
                        chosen.push((dst, src));
                    }
                }
                Act::Batch { items: chosen, how, way: by(sync) }
            }
            Want::Fill { dst, len, with, sync } => {
                let any = if matches!(with, Pattern::Word(_)) { FILLED } else { 0..SLOTS.len() };
                let own = || if dst.slot % 3 == 0 { 5..8 } else { ON[STREAMS[stream]].clone() };
                let d =
                    self.buffer(thread, Pick { slot: dst.slot / 3, ..dst }, if sync { any } else { own() });
                let (mut span, _) = self.pair((d, dst.at), (d, dst.at), len);
                if matches!(with, Pattern::Word(_)) {
                    span.len &= !3;
                    span.at &= !3;
                }
                Act::Fill { dst: span, with, way: by(sync) }
            }
            Want::Poke { dst, len, seed } => {
                let d = self.buffer(thread, dst, HOST);
                Act::Poke { dst: self.pair((d, dst.at), (d, dst.at), len).0, seed }
            }
            Want::SetDesc { desc, dst, src, len } => {
                let group = &ON[DESCS[desc]];
                let (d, s) =
                    (self.buffer(thread, dst, group.clone()), self.buffer(thread, src, group.clone()));
                let (dst, src) = self.pair((d, dst.at), (s, src.at), len);
                if d == s {
                    return None;
                }
                Act::SetDesc { desc, dst, src }
            }
            Want::CopyDesc { dst } => {
                let src = dst ^ 1;
                self.descs[src]?;
                Act::CopyDesc { dst, src, stream: stream_on(DESCS[dst], stream) }
            }
            Want::RunDesc { desc } => {
                let (dst, src) = self.descs[desc]?;
                let alive = |s: Span| self.slots[self.program.buffers[s.buffer].slot] == Some(s.buffer);
                if !alive(dst) || !alive(src) {
                    return None;
                }
                Act::RunDesc { desc, dst, src, stream: stream_on(DESCS[desc], stream) }
            }
            Want::Free { slot } => Act::Free { buffer: self.slots[slot]? },
            Want::Hold => Act::Hold { gate: self.program.gates, stream },
            Want::Release => {
                self.release(thread);
                return None;
            }
            Want::Record { event } => Act::Record { event, stream: stream_on(EVENTS[event], stream) },
            Want::Wait { event } => Act::Wait { event, stream: stream_on(EVENTS[event], stream) },
            Want::SyncEvent { event } => Act::SyncEvent { event },
            Want::SyncStream => Act::SyncStream { stream },
            Want::SyncDevice => Act::SyncDevice { device: STREAMS[stream] },
            Want::Barrier => {
                self.barrier();
                return None;
            }
        })
    }
}

/// A stream of the device, chosen by any number.
fn stream_on(device: usize, any: usize) -> usize {
    let streams: Vec<_> = (0..STREAMS.len()).filter(|s| STREAMS[*s] == device).collect();
    streams[any % streams.len()]
}

/// `part` of `whole`, rounded down; the largest part is all of it.
fn share(part: u16, whole: usize) -> usize {
    (part as usize * (whole + 1)) >> 16
}
