//! What is mapped and what is registered after some steps: where the bytes of a span really are.
//!
//! A copy means the bytes that its addresses stand for when it is called, whatever is mapped there when it
//! runs.

use std::collections::HashMap;
use std::ops::Range;

use crate::program::{Act, CELLS, Form, Home, Program, Span, Way};

#[derive(Clone, Default)]
pub struct Layout {
    /// The physical memory in each cell of a window.
    windows: HashMap<usize, [Option<usize>; CELLS]>,
    registered: HashMap<usize, Range<usize>>,
}

/// What a step moves, in spans that each lie in one memory.
#[derive(Clone, Default)]
pub struct Real {
    pub moves: Vec<(Span, Span)>,
    /// The parts of what is filled or poked, in order.
    pub fills: Vec<Span>,
}

impl Layout {
    /// Takes a step of the program.
    pub fn step(&mut self, program: &Program, act: &Act) {
        match act {
            Act::Alloc { buffer } if program.form(*buffer) == Form::Window => {
                self.windows.insert(*buffer, [None; CELLS]);
            }
            Act::Free { buffer } => drop(self.windows.remove(buffer)),
            Act::Map { window, cell, physical } => self.cells_mut(*window)[*cell] = Some(*physical),
            Act::Unmap { window, cell, .. } => self.cells_mut(*window)[*cell] = None,
            Act::Register { buffer, bytes } => drop(self.registered.insert(*buffer, bytes.clone())),
            Act::Unregister { buffer } => drop(self.registered.remove(buffer)),
            _ => {}
        }
    }

    fn cells_mut(&mut self, window: usize) -> &mut [Option<usize>; CELLS] {
        self.windows.get_mut(&window).expect("mapped only where addresses are reserved")
    }

    pub fn cells(&self, window: usize) -> [Option<usize>; CELLS] {
        self.windows.get(&window).copied().unwrap_or_default()
    }

    pub fn registered(&self, buffer: usize) -> Option<&Range<usize>> {
        self.registered.get(&buffer)
    }

    /// Every physical memory that is mapped somewhere.
    pub fn mapped(&self) -> impl Iterator<Item = usize> + '_ {
        self.windows.values().flatten().flatten().copied()
    }

    /// Which cells of a window a span reaches into. A span of no bytes is a point in one.
    pub fn cells_of(program: &Program, span: Span) -> Range<usize> {
        let unit = program.buffers[span.buffer].len / CELLS;
        span.at / unit..((span.at + span.len.max(1) - 1) / unit + 1).min(CELLS)
    }

    /// The parts of a span in the memories it is made of; `None` if it reaches into a hole.
    pub fn parts(&self, program: &Program, span: Span) -> Option<Vec<Span>> {
        if program.form(span.buffer) != Form::Window {
            return Some(vec![span]);
        }
        let (cells, unit) = (self.cells(span.buffer), program.buffers[span.buffer].len / CELLS);
        let part = |cell: usize| {
            let (start, end) = (span.at.max(cell * unit), (span.at + span.len).min((cell + 1) * unit));
            Some(Span { buffer: cells[cell]?, at: start - cell * unit, len: end - start })
        };
        Layout::cells_of(program, span).map(part).collect()
    }

    /// Whether a call copies mapped memory between devices in a way that documents leave to asynchronous 1-D
    /// copies.
    pub fn is_mapped_across(program: &Program, act: &Act) -> bool {
        let across = |(d, s): &(Span, Span)| {
            let homes = [d, s].map(|span| program.home(span.buffer));
            let mapped = [d, s].iter().any(|span| program.form(span.buffer) == Form::Window);
            mapped && homes[0] != homes[1] && homes.iter().all(|home| home.is_device())
        };
        matches!(act, Act::Copy { way: Way::Now, .. } | Act::Copy2d { .. }) && act.moves().iter().any(across)
    }

    /// How many bytes of a span come before the first hole.
    pub fn until_hole(&self, program: &Program, span: Span) -> usize {
        if program.form(span.buffer) != Form::Window {
            return span.len;
        }
        let (cells, unit) = (self.cells(span.buffer), program.buffers[span.buffer].len / CELLS);
        let hole = (span.at / unit..CELLS).find(|cell| cells[*cell].is_none()).unwrap_or(CELLS);
        (hole * unit).saturating_sub(span.at).min(span.len)
    }

    /// What a call moves or fills, now; `None` if any of it reaches into a hole.
    pub fn real(&self, program: &Program, act: &Act) -> Option<Real> {
        let mut real = Real::default();
        for (dst, src) in act.moves() {
            self.pair_up(program, dst, src, &mut real.moves)?;
        }
        if let Act::Fill { dst, .. } | Act::Poke { dst, .. } = act.deed() {
            real.fills = self.parts(program, *dst)?;
        }
        Some(real)
    }

    /// Cuts a move wherever either of its ends goes on in another memory.
    fn pair_up(&self, program: &Program, dst: Span, src: Span, moves: &mut Vec<(Span, Span)>) -> Option<()> {
        let (dsts, srcs) = (self.parts(program, dst)?, self.parts(program, src)?);
        let (mut dsts, mut srcs) = (dsts.into_iter(), srcs.into_iter());
        let (mut to, mut from) = (dsts.next()?, srcs.next()?);
        loop {
            let len = to.len.min(from.len);
            moves.push((Span { len, ..to }, Span { len, ..from }));
            let rest = |s: Span| Span { at: s.at + len, len: s.len - len, ..s };
            (to, from) = (rest(to), rest(from));
            if to.len == 0 {
                let Some(next) = dsts.next() else { return Some(()) };
                to = next;
            }
            if from.len == 0 {
                from = srcs.next()?;
            }
        }
    }

    /// Whether a span is plain host memory, some of it at least.
    pub fn is_plain(&self, program: &Program, span: Span) -> bool {
        let registered = self.registered(span.buffer);
        program.home(span.buffer) == Home::Heap
            && !registered.is_some_and(|r| r.start <= span.at && span.at + span.len.max(1) <= r.end)
    }

    /// The memories that a call names, and the windows whose state it depends on.
    pub fn names(&self, program: &Program, act: &Act) -> Vec<usize> {
        if matches!(act, Act::Refused(_)) || !act.remakes().is_empty() {
            return act.buffers();
        }
        let mut spans: Vec<_> = act.moves().into_iter().flat_map(|(d, s)| [d, s]).collect();
        match act.deed() {
            Act::Fill { dst, .. } | Act::Poke { dst, .. } => spans.push(*dst),
            Act::SetDesc { dst, src, .. } | Act::PutDesc { dst, src, .. } => spans.extend([*dst, *src]),
            Act::Check { buffers } | Act::Land { buffers } => return buffers.clone(),
            _ => {}
        }
        let parts = spans.into_iter().filter_map(|span| self.parts(program, span));
        parts.flatten().map(|part| part.buffer).collect()
    }
}

impl Real {
    /// Whether the order in which bytes are moved makes a difference, other than in one copy within one piece
    /// of addresses.
    pub fn is_tangled(&self, overlap_is_right: bool) -> bool {
        let meet = |a: &Span, b: &Span| a.buffer == b.buffer && a.at < b.at + b.len && b.at < a.at + a.len;
        let dsts: Vec<_> = self.moves.iter().map(|(d, _)| d).chain(&self.fills).collect();
        let itself = |(i, d): (usize, &&Span)| dsts[..i].iter().any(|other| meet(d, other));
        let source = |(d, _): &(Span, Span)| self.moves.iter().any(|(_, s)| meet(d, s));
        dsts.iter().enumerate().any(itself) || !overlap_is_right && self.moves.iter().any(source)
    }
}
