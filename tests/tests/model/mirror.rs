//! The byte mirror: what memory holds after each step, as far as that is certain.

use std::collections::HashMap;

use crate::oracle::{Access, Expected, Oracle, Place, Sight, first_bytes, noise};
use crate::program::{Act, Form, Program, Span, Timing};
use crate::ranges::Ranges;

impl Oracle {
    /// Runs the program on the mirror, in an order that respects everything known, and notes what checks must
    /// see.
    pub fn expected(&self, program: &Program) -> Expected {
        let mut mirror = Mirror { oracle: self, buffers: vec![Memory::default(); program.buffers.len()] };
        let mut owner = vec![None; self.order.len()];
        for (i, placed) in self.placed.iter().enumerate() {
            (owner[placed.call], owner[placed.task]) = (Some(i), Some(i));
        }
        let (mut expected, mut staged) = (Expected::default(), HashMap::new());
        for point in self.order.schedule() {
            let Some(i) = owner[point] else { continue };
            let (act, placed) = (&program.steps[i].act, self.placed[i]);
            let early = matches!(program.timing(act), Some(Timing::Staged { .. }));
            if point == if early { placed.call } else { placed.task } {
                staged.insert(i, mirror.read(i));
            }
            if point == placed.task && !self.order.is_void(point) {
                mirror.write(program, i, act, staged.remove(&i).expect("read before or at the task"));
                mirror.see(i, act, &mut expected);
            }
        }
        expected
    }
}

/// Contents of a buffer, as far as they are known.
#[derive(Clone, Default)]
struct Memory {
    bytes: Vec<u8>,
    known: Ranges,
    /// Where a copy may have been dropped: either `bytes` or `others`.
    others: Vec<u8>,
    either: Ranges,
}

struct Mirror<'a> {
    oracle: &'a Oracle,
    buffers: Vec<Memory>,
}

impl Mirror<'_> {
    fn access(&self, step: usize, buffer: usize, write: bool) -> Option<&Access> {
        let all = &self.oracle.accesses;
        let from = all.partition_point(|a| a.step < step);
        let mut own = all[from..].iter().take_while(|a| a.step == step);
        own.find(|a| a.place == Place::Buffer(buffer) && a.write == write)
    }

    /// What the pieces of a copy read: bytes, and which of them are known.
    fn read(&self, step: usize) -> Vec<Memory> {
        let one = |src: Span| {
            let memory = &self.buffers[src.buffer];
            let blur = self.access(step, src.buffer, false).map(|a| a.blur.clone()).unwrap_or_default();
            let seen = |set: &Ranges| {
                let mut set: Ranges = set.within(src.bytes()).collect();
                set.remove_all(&blur);
                set.iter().map(|r| r.start - src.at..r.end - src.at).collect()
            };
            let [bytes, others] = [&memory.bytes, &memory.others].map(|all| all[src.bytes()].to_vec());
            Memory { bytes, known: seen(&memory.known), others, either: seen(&memory.either) }
        };
        self.oracle.real[step].moves.iter().map(|(_, src)| one(*src)).collect()
    }

    fn put(&mut self, step: usize, dst: Span, from: &Memory) {
        let blur = self.access(step, dst.buffer, true).map(|a| a.blur.clone()).unwrap_or_default();
        let old = &mut self.buffers[dst.buffer];
        let known: Ranges = from.known.iter().map(|r| r.start + dst.at..r.end + dst.at).collect();
        let mut either: Ranges = from.either.iter().map(|r| r.start + dst.at..r.end + dst.at).collect();
        if self.oracle.is_dropped(step) {
            either = old.known.overlap(&known);
            old.others[dst.bytes()].copy_from_slice(&from.bytes);
            old.known.remove(dst.bytes());
        } else {
            old.bytes[dst.bytes()].copy_from_slice(&from.bytes);
            old.others[dst.bytes()].copy_from_slice(&from.others);
            old.known.remove(dst.bytes());
            old.known.add_all(&known);
        }
        old.either.remove(dst.bytes());
        old.either.add_all(&either);
        old.known.remove_all(&blur);
        old.either.remove_all(&blur);
    }

    fn write(&mut self, program: &Program, step: usize, act: &Act, read: Vec<Memory>) {
        match act.deed() {
            Act::Alloc { buffer } if program.form(*buffer) == Form::Window => {}
            Act::Alloc { buffer } => {
                let len = program.buffers[*buffer].len;
                self.buffers[*buffer] = known(first_bytes(*buffer, len).to_vec());
            }
            Act::Poke { dst, seed } => self.spread(step, noise(*seed, dst.len)),
            Act::Fill { dst, with, .. } => self.spread(step, &with.bytes(dst.len)),
            _ => {
                let moves = &self.oracle.real[step].moves;
                moves.iter().zip(read).for_each(|((dst, _), memory)| self.put(step, *dst, &memory));
            }
        }
    }

    /// Puts bytes into the parts of what a step fills.
    fn spread(&mut self, step: usize, mut bytes: &[u8]) {
        for part in &self.oracle.real[step].fills {
            let (now, rest) = bytes.split_at(part.len);
            self.put(step, *part, &known(now.to_vec()));
            bytes = rest;
        }
    }

    fn see(&self, step: usize, act: &Act, expected: &mut Expected) {
        let Act::Check { buffers } = act else { return };
        for &buffer in buffers {
            let memory = &self.buffers[buffer];
            let access = self.access(step, buffer, false).expect("a check accesses its buffers");
            let sure = access.bytes.overlap(&memory.known);
            expected.looks += 1;
            expected.certain += sure.count() as f64 / memory.bytes.len() as f64;
            let unsure = access.bytes.overlap(&memory.either);
            let sights = expected.sights.entry(step).or_default();
            sights.extend(sure.iter().chain(unsure.iter()).map(|r| Sight {
                buffer,
                at: r.start,
                others: memory.others[r.clone()].to_vec(),
                bytes: memory.bytes[r].to_vec(),
            }));
            // What is certain has no other value.
            for sight in sights.iter_mut().filter(|s| s.buffer == buffer && !unsure.has(s.at)) {
                sight.others.copy_from_slice(&sight.bytes);
            }
        }
    }
}

fn known(bytes: Vec<u8>) -> Memory {
    Memory { known: Ranges::of(0..bytes.len()), others: bytes.clone(), bytes, either: Ranges::default() }
}
