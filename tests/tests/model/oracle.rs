//! Says which bytes a program must see: a byte mirror that knows what is ordered.
//!
//! Every step has the bytes it reads and writes, at a point of the [`Order`]. Two accesses to a byte, at
//! least one of them a write, that are in no order are a race: a racing write leaves the byte unknown until
//! an ordered write follows, a racing read has read something unknown. All other bytes are known, and every
//! check must see them.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::api::Api;
use crate::layout::{Layout, Real};
use crate::order::{Order, Placed, Point};
use crate::program::{Act, CELLS, Form, Home, Pattern, Program, Span, Step, Timing, bytes_in};
use crate::ranges::Ranges;

/// What an access is made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Buffer(usize),
    /// A descriptor, as one piece. Its readers and writers must be ordered as listed.
    Desc(usize),
    /// That a buffer is allocated, or what is mapped in each cell of a window, which a descriptor copy finds
    /// out when it runs: it must change later.
    Life(usize),
}

#[derive(Clone, Debug)]
pub struct Access {
    pub step: usize,
    pub place: Place,
    pub write: bool,
    point: Point,
    pub bytes: Ranges,
    /// The bytes of a racing access are not known.
    pub blur: Ranges,
    /// A check gives way: it leaves out what others write at the same time.
    soft: bool,
}

/// A step on trial: what accepting it would mean.
pub struct Trial {
    order: Order,
    layout: Layout,
    placed: Placed,
    real: Real,
    accesses: Vec<Access>,
    /// Earlier access, position of the new one, the bytes in question.
    races: Vec<(usize, usize, Ranges)>,
    /// Two earlier accesses whose order an abort undoes.
    undone: Vec<(usize, usize)>,
    trims: Vec<(usize, Ranges)>,
}

/// Bytes a check must see.
#[derive(Clone, Debug)]
pub struct Sight {
    pub buffer: usize,
    pub at: usize,
    pub bytes: Vec<u8>,
    /// What else may be seen, byte by byte, where a copy may have been dropped.
    pub others: Vec<u8>,
}

/// What the checks of a program must see, by step.
#[derive(Default)]
pub struct Expected {
    pub sights: HashMap<usize, Vec<Sight>>,
    /// How many buffers checks look at, and for how much of them they are certain.
    pub looks: usize,
    pub certain: f64,
}

#[derive(Default)]
pub struct Oracle {
    pub order: Order,
    pub layout: Layout,
    pub placed: Vec<Placed>,
    /// What each step moves, in the memories that its addresses stood for when it was called.
    pub real: Vec<Real>,
    pub accesses: Vec<Access>,
}

impl Trial {
    /// The earlier accesses this step would race with, each with the new access it races with.
    pub fn races<'a>(&'a self, oracle: &'a Oracle) -> impl Iterator<Item = (&'a Access, &'a Access)> {
        let undone = self.undone.iter().map(|(a, b)| (&oracle.accesses[*a], &oracle.accesses[*b]));
        self.races.iter().map(|(old, new, _)| (&oracle.accesses[*old], &self.accesses[*new])).chain(undone)
    }
}

impl Oracle {
    /// Takes every step of a program, races included.
    pub fn of(program: &Program) -> Oracle {
        let mut oracle = Oracle::default();
        for step in &program.steps {
            let trial = oracle.consider(program, step);
            oracle.accept(trial);
        }
        oracle
    }

    /// What the next step would do, without taking it.
    pub fn consider(&self, program: &Program, step: &Step) -> Trial {
        let mut order = self.order.clone();
        let placed = order.step(program, step);
        let real = self.layout.real(program, &step.act).expect("only refused calls reach into holes");
        let mut layout = self.layout.clone();
        layout.step(program, &step.act);
        let new = self.accesses_of(program, step, placed, &real);
        let undone = if step.act.drops() { self.undone_by(&order, placed.call) } else { vec![] };
        let (accesses, races, trims) = (vec![], vec![], vec![]);
        let mut trial = Trial { order, layout, placed, real, accesses, races, undone, trims };
        for mut new in new {
            self.collide(&mut new, &mut trial);
            trial.accesses.push(new);
        }
        trial
    }

    /// Accesses of which one was to come after the other, until tasks between them were dropped. Those that
    /// are over by the time of the call are not concerned.
    fn undone_by(&self, after: &Order, call: Point) -> Vec<(usize, usize)> {
        let past = after.past(call);
        let meets = |a: &Access, b: &Access| {
            a.place == b.place && (a.write || b.write) && !a.bytes.overlap(&b.bytes).is_empty()
        };
        let open = |i: &usize| {
            let access = &self.accesses[*i];
            !access.soft && !past.has(access.point) && !after.is_void(access.point)
        };
        let open: Vec<_> = (0..self.accesses.len()).filter(open).collect();
        let mut undone = vec![];
        for &j in &open {
            let b = &self.accesses[j];
            let (before, now) = (self.order.past(b.point), after.past(b.point));
            let lost = |i: &&usize| {
                let a = &self.accesses[**i];
                before.has(a.point) && !now.has(a.point) && meets(a, b)
            };
            undone.extend(open.iter().filter(lost).map(|i| (*i, j)));
            // A copy that is still to come needs the descriptor that a dropped task was to write.
            let unset = |i: &usize| {
                let a = &self.accesses[*i];
                let now = after.is_dropped(a.point) && !self.order.is_dropped(a.point);
                now && !after.is_dropped(b.point) && a.write && a.place == b.place
            };
            if matches!(b.place, Place::Desc(_)) && !b.write {
                undone.extend((0..j).filter(unset).map(|i| (i, j)));
            }
        }
        undone
    }

    fn collide(&self, new: &mut Access, trial: &mut Trial) {
        let past = trial.order.past(new.point);
        for (i, old) in self.accesses.iter().enumerate() {
            if old.place != new.place || !(old.write || new.write) || past.has(old.point) {
                continue;
            }
            let bytes = old.bytes.overlap(&new.bytes);
            let listed = !matches!(new.place, Place::Buffer(_));
            if bytes.is_empty() || !listed && trial.order.past(old.point).has(new.point) {
                continue;
            }
            match (old.soft, new.soft) {
                (_, true) => new.bytes.remove_all(&bytes),
                (true, _) => trial.trims.push((i, bytes)),
                _ => trial.races.push((i, trial.accesses.len(), bytes)),
            }
        }
    }

    /// Takes the step that was on trial.
    pub fn accept(&mut self, trial: Trial) {
        let Trial { order, layout, placed, real, accesses, races, undone: _, trims } = trial;
        let first = self.accesses.len();
        self.accesses.extend(accesses);
        for (old, new, bytes) in races {
            let (old, new) = (old, first + new);
            let both = self.accesses[old].write && self.accesses[new].write;
            for i in [old, new] {
                if both || !self.accesses[i].write {
                    self.accesses[i].blur.add_all(&bytes);
                }
            }
        }
        for (check, bytes) in trims {
            self.accesses[check].bytes.remove_all(&bytes);
        }
        self.placed.push(placed);
        self.real.push(real);
        (self.order, self.layout) = (order, layout);
        for access in self.accesses.iter_mut().filter(|a| self.order.is_void(a.point)) {
            access.bytes = Ranges::default();
        }
    }

    fn accesses_of(&self, program: &Program, step: &Step, placed: Placed, real: &Real) -> Vec<Access> {
        let (read, write) = match program.timing(&step.act) {
            Some(Timing::Staged { .. }) => (placed.call, placed.task),
            _ => (placed.task, placed.task),
        };
        let whole = |b: usize| Ranges::of(0..program.buffers[b].len);
        let mut list = vec![];
        let mut add = |place, bytes, write, point| {
            let soft = matches!(step.act, Act::Check { .. });
            let blur = Ranges::default();
            list.push(Access { step: self.placed.len(), place, write, point, bytes, blur, soft });
        };
        match &step.act {
            Act::Alloc { buffer } if program.form(*buffer) == Form::Window => {}
            Act::Alloc { buffer } => add(Place::Buffer(*buffer), whole(*buffer), true, write),
            // Plain memory goes back to the C library, so nothing may still use it; the engine keeps its own.
            Act::Free { buffer } if program.home(*buffer) == Home::Heap => {
                add(Place::Buffer(*buffer), whole(*buffer), true, write);
            }
            Act::Free { buffer } => add(Place::Life(*buffer), Ranges::of(0..CELLS), true, write),
            Act::Map { window, cell, .. } | Act::Unmap { window, cell, .. } => {
                add(Place::Life(*window), Ranges::of(*cell..cell + 1), true, write);
            }
            Act::Check { buffers } => {
                buffers.iter().for_each(|b| add(Place::Buffer(*b), whole(*b), false, read));
            }
            Act::SetDesc { desc, .. } | Act::PutDesc { desc, .. } => {
                add(Place::Desc(*desc), Ranges::of(0..1), true, write)
            }
            Act::CopyDesc { dst, src, .. } => {
                add(Place::Desc(*src), Ranges::of(0..1), false, read);
                add(Place::Desc(*dst), Ranges::of(0..1), true, write);
            }
            Act::RunDesc { desc, dst, src, .. } => {
                add(Place::Desc(*desc), Ranges::of(0..1), false, read);
                // In Rust the descriptor keeps them allocated.
                let ends = [dst, src].into_iter().filter(|_| program.api == Api::C);
                for end in ends {
                    let window = program.form(end.buffer) == Form::Window;
                    let cells = if window { Layout::cells_of(program, *end) } else { 0..1 };
                    add(Place::Life(end.buffer), Ranges::of(cells), false, read);
                }
            }
            _ => {}
        }
        for (is_write, point) in [(false, read), (true, write)] {
            let fills = real.fills.iter().copied().filter(|_| is_write);
            let spans = || {
                let end = |(d, s): &(Span, Span)| if is_write { *d } else { *s };
                real.moves.iter().map(end).chain(fills.clone())
            };
            let mut buffers: Vec<_> = spans().map(|s| s.buffer).collect();
            buffers.sort_unstable();
            buffers.dedup();
            buffers.iter().for_each(|b| add(Place::Buffer(*b), bytes_in(*b, spans()), is_write, point));
        }
        list
    }

    /// Whether some earlier access to the buffer may still be to come when this step is called.
    pub fn is_busy(&self, buffer: usize, step: usize) -> bool {
        let past = self.order.past(self.placed[step].call);
        let earlier = self.accesses.iter().filter(|a| a.step < step && a.place == Place::Buffer(buffer));
        earlier.into_iter().any(|a| !past.has(a.point))
    }

    /// Whether the task of a step may have been dropped.
    pub fn is_dropped(&self, step: usize) -> bool {
        self.order.is_dropped(self.placed[step].task)
    }

    /// Whether the task of a step was certainly dropped.
    pub fn is_void(&self, step: usize) -> bool {
        self.order.is_void(self.placed[step].task)
    }

    /// Whether any two accesses race.
    pub fn has_races(&self) -> bool {
        self.accesses.iter().any(|a| !a.blur.is_empty())
    }
}

impl Pattern {
    /// `len` bytes of the pattern, in the byte order of this machine.
    pub fn bytes(self, len: usize) -> Vec<u8> {
        match self {
            Pattern::Byte(b) => vec![b; len],
            Pattern::Word(w) => w.to_ne_bytes().iter().copied().cycle().take(len).collect(),
        }
    }
}

/// The contents an allocation is given before its first use.
pub fn first_bytes(buffer: usize, len: usize) -> &'static [u8] {
    noise(1000 + buffer, len)
}

/// Bytes without a pattern that a copy could preserve by accident.
pub fn noise(seed: usize, len: usize) -> &'static [u8] {
    static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut x = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 32) as u8
        };
        (0..1 << 21).map(|_| next()).collect()
    });
    &NOISE[seed.wrapping_mul(4099) & 0xffff..][..len]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Buffer, GUARD, Kind, Way};

    const DEV: usize = 0;
    const PIN: usize = 1;

    fn fill(buffer: usize, len: usize, byte: u8, stream: usize) -> Act {
        Act::Fill { dst: Span { buffer, at: 0, len }, with: Pattern::Byte(byte), way: Way::On(stream) }
    }

    fn copy(stream: usize) -> Act {
        let span = |buffer| Span { buffer, at: 0, len: 4 };
        let (dst, src, kind) = (span(PIN), span(DEV), Kind::DEVICE_TO_HOST);
        Act::Copy { dst, src, kind, way: Way::On(stream), with_condition: false }
    }

    /// What a look at the first four bytes of page-locked memory must see at the end; `?` is unknown.
    #[test]
    fn bytes_of_a_race_are_unknown_until_written_in_order() {
        let sync = |stream| Act::SyncStream { stream };
        let poke = Act::Poke { dst: Span { buffer: PIN, at: 3, len: 1 }, seed: 0 };
        let after_poke = format!("11 11 11 {:02x}", noise(0, 1)[0]);
        let link = || vec![Act::Record { event: 0, stream: 0 }, Act::Wait { stream: 1, event: 0 }];
        let table = [
            ("11 11 11 11", vec![fill(PIN, 4, 0x11, 0), sync(0)]),
            ("22 22 11 11", vec![fill(PIN, 4, 0x11, 0), fill(PIN, 2, 0x22, 0), sync(0)]),
            ("?? ?? ?? ??", vec![fill(PIN, 4, 0x11, 0)]),
            ("?? ?? 11 11", vec![fill(PIN, 4, 0x11, 0), fill(PIN, 2, 0x22, 1), sync(0), sync(1)]),
            (
                "22 22 11 11",
                [vec![fill(PIN, 4, 0x11, 0)], link(), vec![fill(PIN, 2, 0x22, 1), sync(1)]].concat(),
            ),
            (
                "33 ?? 11 11",
                vec![
                    fill(PIN, 4, 0x11, 0),
                    fill(PIN, 2, 0x22, 1),
                    sync(0),
                    sync(1),
                    fill(PIN, 1, 0x33, 0),
                    sync(0),
                ],
            ),
            // a source that changes while it is read
            ("?? ?? 11 11", vec![fill(DEV, 4, 0x11, 0), copy(0), fill(DEV, 2, 0x22, 1), sync(0), sync(1)]),
            ("11 11 11 11", vec![fill(DEV, 4, 0x11, 0), copy(0), fill(DEV, 2, 0x22, 0), sync(0)]),
            // the unknown spreads by copying
            (
                "?? ?? 11 11",
                vec![fill(DEV, 4, 0x11, 0), fill(DEV, 2, 0x22, 1), sync(0), sync(1), copy(0), sync(0)],
            ),
            // what the CPU writes while a stream is held comes first
            (
                "11 11 11 11",
                vec![
                    Act::Hold { gate: 0, stream: 0 },
                    fill(PIN, 4, 0x11, 0),
                    poke.clone(),
                    Act::Release { gate: 0 },
                    sync(0),
                ],
            ),
            (after_poke.as_str(), vec![fill(PIN, 4, 0x11, 0), sync(0), poke]),
        ];
        for (want, acts) in table {
            let buffers = [0, 7].map(|slot| Buffer { slot, life: 0, len: 2 * GUARD, guard: GUARD }).to_vec();
            let allocs = [Act::Alloc { buffer: DEV }, Act::Alloc { buffer: PIN }];
            let acts: Vec<_> =
                allocs.into_iter().chain(acts).chain([Act::Check { buffers: vec![PIN] }]).collect();
            let steps = acts.into_iter().map(|act| Step { thread: 0, act }).collect();
            let program = Program { api: Api::C, buffers, gates: 1, steps };
            let sights = Oracle::of(&program).expected(&program).sights.remove(&(program.steps.len() - 1));
            let mut seen = vec!["??".to_string(); 4];
            for Sight { at, bytes, .. } in sights.into_iter().flatten() {
                bytes
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| at + i < 4)
                    .for_each(|(i, b)| seen[at + i] = format!("{b:02x}"));
            }
            assert_eq!(seen.join(" "), want, "{program:?}");
        }
    }
}
