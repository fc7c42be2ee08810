//! Which steps of a program touch the same bytes in no order, by the model.

use std::collections::{BTreeSet, HashMap};

use super::sequence::Sequence;
use crate::layout::{Layout, Real};
use crate::order::{Order, Placed, Point, Points};
use crate::program::{Act, CELLS, Form, Home, Program, Span, Timing, bytes_in};
use crate::ranges::Ranges;

/// What is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Buffer(usize),
    /// A descriptor, as one piece.
    Desc(usize),
    /// What the addresses of a buffer stand for, cell by cell if it is a window.
    Life(usize),
}

/// Some bytes that the work of a step reads or writes.
struct Touch {
    step: usize,
    point: Point,
    place: Place,
    bytes: Ranges,
    is_write: bool,
}

impl Touch {
    fn meets(&self, other: &Touch) -> bool {
        self.place == other.place
            && (self.is_write || other.is_write)
            && !self.bytes.overlap(&other.bytes).is_empty()
    }
}

/// All that a program touches, in the order of the model.
pub struct Touches {
    pub order: Order,
    pub placed: Vec<Placed>,
    all: Vec<Touch>,
    /// What checks could read.
    looks: Vec<Touch>,
    /// The steps that free, unmap or unregister memory, and which bytes of which buffer.
    ends: Vec<(usize, usize, Ranges)>,
}

/// Whether a copy may find another descriptor, or other memory, than the program has it for.
pub fn is_undefined(sequence: &Sequence) -> bool {
    let touches = Touches::of(sequence);
    let pasts = touches.pasts();
    let is_listed = |a: &Touch, b: &Touch| pasts[b.point].has(a.point) || a.step == b.step;
    let mut special = touches.all.iter().filter(|touch| !matches!(touch.place, Place::Buffer(_)));
    let later = |a: &Touch| touches.all.iter().any(|b| b.step > a.step && a.meets(b) && !is_listed(a, b));
    special.any(later)
}

impl Touches {
    pub fn of(sequence: &Sequence) -> Touches {
        let order = Order::default();
        let mut touches = Touches { order, placed: vec![], all: vec![], looks: vec![], ends: vec![] };
        let (program, mut layout) = (&sequence.program, Layout::default());
        for i in 0..program.steps.len() {
            let step = sequence.modelled(i);
            let placed = touches.order.step(program, &step);
            let real = layout.real(program, &step.act).expect("what is refused is taken out");
            touches.add_end(program, i, &step.act, &layout);
            layout.step(program, &step.act);
            touches.placed.push(placed);
            touches.add(program, i, &step.act, &real);
            if let Act::Check { buffers } = &step.act {
                touches.add_check(sequence, i, buffers);
            }
        }
        touches
    }

    fn add(&mut self, program: &Program, step: usize, act: &Act, real: &Real) {
        let placed = self.placed[step];
        let mut add = |place, bytes, is_write, point| {
            self.all.push(Touch { step, point, place, bytes, is_write });
        };
        let one = || Ranges::of(0..1);
        match act {
            Act::Alloc { buffer } if program.form(*buffer) == Form::Window => {}
            Act::Alloc { buffer } if program.home(*buffer).is_device() => {
                let whole = Ranges::of(0..program.buffers[*buffer].len);
                add(Place::Buffer(*buffer), whole, true, placed.call);
            }
            Act::Free { buffer } => add(Place::Life(*buffer), Ranges::of(0..CELLS), true, placed.call),
            Act::Map { window, cell, .. } | Act::Unmap { window, cell, .. } => {
                add(Place::Life(*window), Ranges::of(*cell..cell + 1), true, placed.call);
            }
            Act::SetDesc { desc, .. } => add(Place::Desc(*desc), one(), true, placed.call),
            Act::CopyDesc { dst, src, .. } => {
                add(Place::Desc(*src), one(), false, placed.task);
                add(Place::Desc(*dst), one(), true, placed.task);
            }
            Act::RunDesc { desc, dst, src, .. } => {
                add(Place::Desc(*desc), one(), false, placed.task);
                for end in [dst, src] {
                    let is_window = program.form(end.buffer) == Form::Window;
                    let cells = if is_window { Layout::cells_of(program, *end) } else { 0..1 };
                    add(Place::Life(end.buffer), Ranges::of(cells), false, placed.task);
                }
            }
            _ => {}
        }
        // What the CPU writes is no op.
        if !matches!(act, Act::Poke { .. }) {
            let is_staged = matches!(program.timing(act), Some(Timing::Staged { .. }));
            let sources = real.moves.iter().map(|(_, src)| *src).collect();
            let destinations = real.moves.iter().map(|(dst, _)| *dst).chain(real.fills.iter().copied());
            self.add_spans(step, sources, false, if is_staged { placed.call } else { placed.task });
            self.add_spans(step, destinations.collect(), true, placed.task);
        }
    }

    fn add_end(&mut self, program: &Program, step: usize, act: &Act, layout: &Layout) {
        let whole = |buffer: usize| Ranges::of(0..program.buffers[buffer].len);
        let end = match act {
            Act::Free { buffer } if program.home(*buffer) == Home::Heap => None,
            Act::Free { buffer } if program.form(*buffer) == Form::Plain => Some((*buffer, whole(*buffer))),
            Act::Unmap { physical, .. } => Some((*physical, whole(*physical))),
            Act::Unregister { buffer } => {
                layout.registered(*buffer).map(|bytes| (*buffer, Ranges::of(bytes.clone())))
            }
            _ => None,
        };
        self.ends.extend(end.map(|(buffer, bytes)| (step, buffer, bytes)));
    }

    fn add_spans(&mut self, step: usize, spans: Vec<Span>, is_write: bool, point: Point) {
        let buffers: BTreeSet<usize> = spans.iter().map(|span| span.buffer).collect();
        for buffer in buffers {
            let bytes = bytes_in(buffer, spans.iter().copied());
            let place = Place::Buffer(buffer);
            self.all.push(Touch { step, point, place, bytes, is_write });
        }
    }

    fn add_check(&mut self, sequence: &Sequence, step: usize, buffers: &[usize]) {
        let program = &sequence.program;
        let (reads, call) = (sequence.reads.get(&step).cloned().unwrap_or_default(), self.placed[step].call);
        self.add_spans(step, reads, false, call);
        for buffer in buffers.iter().filter(|buffer| program.home(**buffer).is_device()) {
            let bytes = Ranges::of(0..program.buffers[*buffer].len);
            let (place, point) = (Place::Buffer(*buffer), self.placed[step].call);
            self.looks.push(Touch { step, point, place, bytes, is_write: false });
        }
    }

    /// Whether a step reads its source in the call and writes its destination later.
    pub fn is_staged(&self, step: usize) -> bool {
        let call = self.placed[step].call;
        let reads_at_once = |touch: &Touch| touch.step == step && touch.point == call && !touch.is_write;
        call != self.placed[step].task && self.all.iter().any(reads_at_once)
    }

    /// For each point of the order all that comes before it.
    fn pasts(&self) -> Vec<Points> {
        (0..self.order.len()).map(|point| self.order.past(point)).collect()
    }

    /// The pairs of steps that touch the same bytes in no order, the one that was called first before the
    /// other.
    pub fn races(&self) -> BTreeSet<(usize, usize)> {
        let pasts = self.pasts();
        let is_ordered = |a: &Touch, b: &Touch| pasts[b.point].has(a.point) || pasts[a.point].has(b.point);
        let mut races = BTreeSet::new();
        for (i, b) in self.all.iter().enumerate().filter(|(_, b)| matches!(b.place, Place::Buffer(_))) {
            let earlier =
                self.all[..i].iter().filter(|a| a.step != b.step && a.meets(b) && !is_ordered(a, b));
            races.extend(earlier.map(|a| (a.step, b.step)));
        }
        races
    }

    /// The steps that free, unmap or unregister memory while the work of others on it is not known to be
    /// over by this order, and those others.
    pub fn frees(&self, order: &Order) -> Vec<(usize, BTreeSet<usize>)> {
        let in_flight = |(step, buffer, bytes): &(usize, usize, Ranges)| {
            let past = order.past(self.placed[*step].call);
            let is_there = |touch: &&Touch| {
                let is_same = touch.place == Place::Buffer(*buffer) && touch.step < *step;
                is_same && !touch.bytes.overlap(bytes).is_empty() && !past.has(touch.point)
            };
            (*step, self.all.iter().filter(is_there).map(|touch| touch.step).collect::<BTreeSet<_>>())
        };
        self.ends.iter().map(in_flight).filter(|(_, steps)| !steps.is_empty()).collect()
    }

    /// What each check can read without a race.
    pub fn settled(&self) -> HashMap<usize, Vec<Span>> {
        let pasts = self.pasts();
        let mut settled: HashMap<usize, Vec<Span>> = HashMap::new();
        for look in &self.looks {
            let mut bytes = look.bytes.clone();
            let busy = |other: &&Touch| {
                other.meets(look)
                    && !pasts[look.point].has(other.point)
                    && !pasts[other.point].has(look.point)
            };
            self.all.iter().filter(busy).for_each(|other| bytes.remove_all(&other.bytes));
            let Place::Buffer(buffer) = look.place else { continue };
            let spans = bytes.iter().map(|range| Span { buffer, at: range.start, len: range.len() });
            settled.entry(look.step).or_default().extend(spans);
        }
        settled
    }
}
