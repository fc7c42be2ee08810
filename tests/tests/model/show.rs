//! How programs print: one step to a line, as one would write it on a board.

use std::fmt;
use std::ops::Range;

use crate::api::Api;
use crate::program::*;

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["h2h", "h2d", "d2h", "d2d", "default", "h2buf2d", "inner-d2d", "inter-d2d"];
        f.write_str(names[self.0 as usize])
    }
}

/// A step with the program it belongs to, to print it with names.
pub struct Shown<'a>(pub &'a Program, pub &'a Step);

struct Hex(usize);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 10 { write!(f, "{}", self.0) } else { write!(f, "{:#x}", self.0) }
    }
}

impl Shown<'_> {
    fn name(&self, buffer: usize) -> String {
        let Buffer { slot, life, .. } = self.0.buffers[buffer];
        let again = if life == 0 { String::new() } else { format!("#{}", life + 1) };
        format!("{}{again}", SLOTS[slot].0)
    }

    pub fn span(&self, s: &Span) -> String {
        format!("{}[{}..{}]", self.name(s.buffer), Hex(s.at), Hex(s.at + s.len))
    }

    fn pair(&self, dst: &Span, src: &Span) -> String {
        format!("{} <- {}", self.span(dst), self.span(src))
    }

    fn desc(desc: usize) -> String {
        format!("{}{desc}", if desc < FIRST_CELLS { "desc" } else { "cells" })
    }

    fn rows(&self, r: &Rows) -> String {
        format!("{}[{} +{}*i]", self.name(r.buffer), Hex(r.at), Hex(r.pitch))
    }

    fn way(way: &Way) -> String {
        match way {
            Way::Now => "sync".into(),
            Way::On(stream) => format!("s{stream}"),
            Way::Awaited(stream) => format!("s{stream}, awaited"),
        }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(program, Step { thread, act }) = self;
        if !matches!(act, Act::Barrier) {
            write!(f, "t{thread}: ")?;
        }
        match act {
            Act::Alloc { buffer } => {
                let Buffer { len, .. } = program.buffers[*buffer];
                let (name, home, form) = (self.name(*buffer), program.home(*buffer), program.form(*buffer));
                write!(f, "{name} = alloc {} bytes, {home:?} {form:?}", Hex(len))
            }
            Act::Free { buffer } => write!(f, "free {}", self.name(*buffer)),
            Act::Map { window, cell, physical } => {
                write!(f, "map {} at {} cell {cell}", self.name(*physical), self.name(*window))
            }
            Act::Unmap { window, cell, physical } => {
                write!(f, "unmap {} cell {cell} ({})", self.name(*window), self.name(*physical))
            }
            Act::Register { buffer, bytes: Range { start, end } } => {
                write!(f, "register {}[{}..{}]", self.name(*buffer), Hex(*start), Hex(*end))
            }
            Act::Unregister { buffer } => write!(f, "unregister {}", self.name(*buffer)),
            Act::Abroad { act, manner } => {
                let step = Step { thread: *thread, act: (**act).clone() };
                write!(f, "second process ({manner:?}): {}", Shown(program, &step))
            }
            Act::Refused(act) => {
                let step = Step { thread: *thread, act: (**act).clone() };
                write!(f, "refused: {}", Shown(program, &step))
            }
            Act::Poke { dst, seed } => write!(f, "poke {} with noise {seed}", self.span(dst)),
            Act::Copy { dst, src, kind, way, with_condition } => {
                let call = if *with_condition { " (with condition)" } else { "" };
                write!(f, "{}: {kind}{call} {}", Shown::way(way), self.pair(dst, src))
            }
            Act::Copy2d { dst, src, width, height, kind, way } => {
                let (way, w, h) = (Shown::way(way), Hex(*width), height);
                write!(f, "{way}: 2d {kind} {} <- {}, {w} wide, i < {h}", self.rows(dst), self.rows(src))
            }
            Act::Batch { items, how, way } => {
                let items: Vec<_> = items.iter().map(|(d, s)| self.pair(d, s)).collect();
                let flags = [(how.split, " split"), (how.unregistered, " unregistered"), (how.v2, " v2")];
                let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
                write!(f, "{}: batch{flags} {{ {} }}", Shown::way(way), items.join(", "))
            }
            Act::Fill { dst, with: Pattern::Byte(b), way } => {
                write!(f, "{}: fill {} with {b:#04x}", Shown::way(way), self.span(dst))
            }
            Act::Fill { dst, with: Pattern::Word(w), way } => {
                write!(f, "{}: fill {} with {w:#010x} (d32)", Shown::way(way), self.span(dst))
            }
            Act::SetDesc { desc, dst, src } => {
                write!(f, "set {}: {}", Shown::desc(*desc), self.pair(dst, src))
            }
            Act::PutDesc { desc, dst, src, stream } => {
                write!(f, "s{stream}: set {}: {}", Shown::desc(*desc), self.pair(dst, src))
            }
            Act::CopyDesc { dst, src, stream } => {
                write!(f, "s{stream}: {} <- {}", Shown::desc(*dst), Shown::desc(*src))
            }
            Act::RunDesc { desc, dst, src, stream } => {
                write!(f, "s{stream}: run {} ({})", Shown::desc(*desc), self.pair(dst, src))
            }
            Act::Record { event, stream } => write!(f, "s{stream}: record e{event}"),
            Act::Wait { stream, event } => write!(f, "s{stream}: wait e{event}"),
            Act::Reset { event, stream } => write!(f, "s{stream}: reset e{event}"),
            Act::SyncEvent { event } => write!(f, "sync e{event}"),
            Act::SyncStream { stream } => write!(f, "sync s{stream}"),
            Act::SyncDevice { device } => write!(f, "sync device {device}"),
            Act::Hold { gate, stream } => write!(f, "s{stream}: hold until g{gate}"),
            Act::Release { gate } => write!(f, "release g{gate}"),
            Act::Abort { stream } => write!(f, "abort s{stream}"),
            Act::Renew { stream } => write!(f, "destroy s{stream} by force, make another"),
            Act::Halt { stream } => write!(f, "s{stream}: fail, and stop all streams of its context"),
            Act::Launch { model, stream, captures } => {
                let what = if *captures { "capture and launch" } else { "launch" };
                write!(
                    f,
                    "s{stream}: {what} m{model}, whose streams are s{}, s{}",
                    streams_of_model(*model)[0],
                    streams_of_model(*model)[1]
                )
            }
            Act::Link { from, to } => write!(f, "s{to} follows s{from}"),
            Act::Done { model, stream } => write!(f, "s{stream}: behind m{model}"),
            Act::Stale { model, stream } => {
                write!(f, "sync s{stream}, launch m{model}, whose memory was freed")
            }
            Act::Share { buffer } => write!(f, "share {}", self.name(*buffer)),
            Act::Barrier => write!(f, "--- barrier"),
            Act::Check { buffers } | Act::Land { buffers } => {
                let names: Vec<_> = buffers.iter().map(|b| self.name(*b)).collect();
                let verb = if matches!(act, Act::Check { .. }) { "check" } else { "take back" };
                write!(f, "{verb} {}", names.join(" "))
            }
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = if self.api == Api::C { "(default)" } else { "" };
        writeln!(f, "s0 s1 s2{default} on device 0, s3 s4 on device 1; threads t0 t1")?;
        for (i, step) in self.steps.iter().enumerate() {
            writeln!(f, "{i:4}  {}", Shown(self, step))?;
        }
        Ok(())
    }
}
