//! From words to facts.

use super::{device, kind};
use crate::{
    clock::Rate,
    fact::{
        Awaited, Block, Call, CallSite, Captured, End, Fact, HostAccess, Join, Joined, Line, LoadedFile,
        Origin, Outcome, Passed, Piece, Point, Route, Rows, Started, StreamMade, StreamPurpose, SubmittedOp,
        TaskId, TouchedBytes, Work,
    },
};

/// What has not been read yet of the words of a fact.
struct Unread<'a> {
    words: &'a [u64],
    rate: &'a Rate,
}

/// The fact that begins with `head` and whose other words these are; `None` if there is none such.
pub fn read(head: u64, words: &[u64], rate: &Rate) -> Option<Fact> {
    let (of_kind, own) = (head as u16, (head >> 32) as u32);
    let mut unread = Unread { words, rate };
    match of_kind {
        kind::LINEAR => unread.linear(own).map(Fact::Submitted),
        kind::PASSED_HERE => unread.passed_here(own).map(Fact::Passed),
        kind::CALL_HERE => unread.call_here(own).map(Fact::Call),
        kind::JOINED_HERE => unread.joined_here(own).map(Fact::Joined),
        _ => unread.fact(of_kind),
    }
}

/// The ops that have passed together, if the words say that: what is to be said of each, and the first
/// ticket.
pub fn read_range(head: u64, words: &[u64], rate: &Rate) -> Option<(Passed, u64)> {
    let [ticket, begin, end, packed, first] = *words.first_chunk()?;
    if head as u16 != kind::PASSED_TOGETHER || first > ticket {
        return None;
    }
    let (outcome, engine, together) = (outcome(packed as u8)?, (packed >> 8) as u8, (packed >> 32) as u32);
    let (begin, end) = (rate.nanos(begin), rate.nanos(end));
    let point = Point { stream: (head >> 32) as u32, ticket };
    Some((Passed { point, begin, end, outcome, together, engine }, first))
}

impl Unread<'_> {
    fn call_here(&mut self, code: u32) -> Option<Call> {
        let [begin, end, caller, packed] = self.some()?;
        let (function, blocked) = ((packed >> 48) as u16, self.rate.duration(packed & ((1 << 48) - 1)));
        let site = CallSite { function, caller, begin: self.rate.nanos(begin), stack: 0 };
        Some(Call { site, end: self.rate.nanos(end), blocked, code: code as i32 })
    }

    fn joined_here(&mut self, stream: u32) -> Option<Joined> {
        let [time, ticket, caller, begin, packed] = self.some()?;
        let site = CallSite { function: packed as u16, caller, begin: self.rate.nanos(begin), stack: 0 };
        let (time, how) = (self.rate.nanos(time), join(packed >> 16)?);
        Some(Joined { time, point: Point { stream, ticket }, site, how })
    }

    fn fact(&mut self, of_kind: u16) -> Option<Fact> {
        Some(match of_kind {
            kind::SUBMITTED => Fact::Submitted(self.op()?),
            kind::PASSED => Fact::Passed(self.passed()?),
            kind::STARTED => Fact::Started(self.started()?),
            kind::FUNCTIONS => Fact::Functions(self.text()?),
            kind::MODULE => {
                let [base, end, offset] = self.some()?;
                Fact::Module(LoadedFile { base, end, offset, path: self.text()? })
            }
            kind::THREAD => Fact::Thread(self.text()?),
            kind::STACK => Fact::Stack { number: self.next()? as u32, frames: self.words.to_vec() },
            kind::LINE => {
                let [number, line] = self.halves()?;
                Fact::Line(Line { number, line, file: self.text()?, function: self.text()? })
            }
            kind::ENDED => Fact::Ended { time: self.time()? },
            kind::CALL => {
                let (site, end) = (self.site()?, self.time()?);
                let (blocked, code) = (self.next()?, self.next()? as u32 as i32);
                Fact::Call(Call { site, end, blocked: self.rate.duration(blocked), code })
            }
            kind::STREAM_MADE => Fact::StreamMade(self.stream_made()?),
            kind::STREAM_GONE => Fact::StreamGone { time: self.time()?, stream: self.next()? as u32 },
            kind::KNOWN => Fact::Known { time: self.time()?, site: self.site()?, block: self.block()? },
            kind::FORGOTTEN => Fact::Forgotten { time: self.time()?, site: self.site()?, base: self.next()? },
            kind::REUSED => Fact::Reused { time: self.time()?, base: self.next()?, at: self.next()? },
            kind::PHYSICAL_NAMED => {
                let (time, site, [at, len]) = (self.time()?, self.site()?, self.some()?);
                Fact::PhysicalNamed { time, site, at, len }
            }
            kind::PHYSICAL_FREED => Fact::PhysicalFreed { time: self.time()?, at: self.next()? },
            other => return self.other(other),
        })
    }

    fn other(&mut self, of_kind: u16) -> Option<Fact> {
        Some(match of_kind {
            kind::MORE_PIECES => {
                let point = self.point()?;
                let count = self.words.len() / 3;
                Fact::MorePieces { point, pieces: self.pieces(count)? }
            }
            kind::REFUSED => Fact::Refused {
                time: self.time()?,
                stream: self.next()? as u32,
                site: self.site()?,
                work: self.work()?,
            },
            kind::BEGUN => Fact::Begun { time: self.time()?, point: self.point()? },
            kind::RESOLVED => {
                Fact::Resolved { time: self.time()?, point: self.point()?, piece: self.piece()? }
            }
            kind::BOUND => Fact::Bound { time: self.time()?, promise: self.next()?, point: self.point() },
            kind::JOINED => Fact::Joined(self.joined()?),
            kind::CAPTURE_BEGUN => {
                let (time, site, [graph, stream]) = (self.time()?, self.site()?, self.halves()?);
                Fact::CaptureBegun { time, site, graph, stream }
            }
            kind::CAPTURED => {
                let (time, site, [graph, task]) = (self.time()?, self.site()?, self.halves()?);
                let (task, branch) = (TaskId { graph, task }, self.next()? as u32);
                Fact::Captured(Captured { time, site, task, branch, work: self.work()? })
            }
            kind::CAPTURE_ENDED => {
                let (time, site, [graph, is_graph]) = (self.time()?, self.site()?, self.halves()?);
                Fact::CaptureEnded { time, site, graph, is_graph: is_graph != 0 }
            }
            kind::LAUNCHED => {
                let (time, site, graph) = (self.time()?, self.site()?, self.next()? as u32);
                Fact::Launched { time, site, graph, point: self.point()? }
            }
            kind::CONTENTS => {
                let point = self.point()?;
                let end = if self.next()? == 0 { End::Source } else { End::Destination };
                Fact::Contents { point, end, hash: self.next()? }
            }
            kind::BYTES => {
                let point = self.point()?;
                let end = if self.next()? == 0 { End::Source } else { End::Destination };
                Fact::Bytes { point, end, offset: self.next()?, bytes: self.bytes()? }
            }
            kind::FAILURE => {
                let (time, site, code) = (self.time()?, self.site()?, self.next()? as u32 as i32);
                Fact::Failure { time, site, code, message: self.text()? }
            }
            kind::WORK_FAILED => {
                Fact::WorkFailed { time: self.time()?, point: self.point()?, message: self.text()? }
            }
            kind::JOINED_OUTSIDE => Fact::JoinedOutside { time: self.time()? },
            kind::LENT => Fact::Lent { time: self.time()?, base: self.next()?, key: self.next()? },
            kind::LOST => Fact::Lost { count: self.next()? },
            kind::ACCESS => Fact::Access(self.access()?),
            kind::TOUCHED => Fact::Touched(self.touched()?),
            kind::DEVICE_POINTER => {
                let (time, thread, address) = (self.time()?, self.next()? as u32, self.next()?);
                let [is_write, stack] = self.halves()?;
                Fact::DevicePointer { time, thread, address, is_write: is_write != 0, stack }
            }
            kind::OPENED => Fact::Opened { time: self.time()?, count: self.next()? },
            kind::UNSEEN => Fact::Unseen { reason: self.text()? },
            _ => return None,
        })
    }

    fn access(&mut self) -> Option<HostAccess> {
        let (time, address, len, point) = (self.time()?, self.next()?, self.next()?, self.point()?);
        let ([thread, stack], flags) = (self.halves()?, self.next()?);
        let has = |bit: u32| flags >> bit & 1 == 1;
        let (is_write, is_destination, is_system_call, is_unmapped) = (has(0), has(1), has(2), has(3));
        Some(HostAccess {
            time,
            thread,
            address,
            len,
            is_write,
            point,
            is_destination,
            stack,
            is_system_call,
            is_unmapped,
        })
    }

    fn touched(&mut self) -> Option<TouchedBytes> {
        let (time, site, address, len) = (self.time()?, self.site()?, self.next()?, self.next()?);
        let (point, flags) = (self.point()?, self.next()?);
        let (is_write, is_destination) = (flags & 1 != 0, flags & 2 != 0);
        Some(TouchedBytes { time, site, address, len, is_write, point, is_destination })
    }

    fn next(&mut self) -> Option<u64> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(*first)
    }

    fn some<const N: usize>(&mut self) -> Option<[u64; N]> {
        let (some, rest) = self.words.split_first_chunk()?;
        self.words = rest;
        Some(*some)
    }

    fn halves(&mut self) -> Option<[u32; 2]> {
        self.next().map(|word| [word as u32, (word >> 32) as u32])
    }

    fn time(&mut self) -> Option<u64> {
        self.next().map(|ticks| self.rate.nanos(ticks))
    }

    fn point(&mut self) -> Option<Point> {
        self.some().map(|[stream, ticket]| Point { stream: stream as u32, ticket })
    }

    fn site(&mut self) -> Option<CallSite> {
        let [packed, caller, begin] = self.some()?;
        let (function, stack) = (packed as u16, (packed >> 32) as u32);
        Some(CallSite { function, caller, begin: self.rate.nanos(begin), stack })
    }

    fn started(&mut self) -> Option<Started> {
        let (time, epoch, [parent, devices]) = (self.time()?, self.next()?, self.halves()?);
        Some(Started { time, epoch, parent, devices, backend: self.text()?, command: self.text()? })
    }

    fn stream_made(&mut self) -> Option<StreamMade> {
        let (time, [stream, device]) = (self.time()?, self.halves()?);
        let purpose = match self.next()? {
            0 => StreamPurpose::User,
            1 => StreamPurpose::Default,
            2 => StreamPurpose::Synchronous,
            3 => StreamPurpose::Graph,
            _ => return None,
        };
        Some(StreamMade { time, stream, device, purpose, handle: self.next()? })
    }

    fn block(&mut self) -> Option<Block> {
        let [base, at, len, place, origin] = self.some()?;
        let (origin, padding) = (origin & 0xff, origin >> 8);
        let origin = match origin {
            0 => Origin::Allocated,
            1 => Origin::Registered,
            2 => Origin::Mapped,
            3 => Origin::Imported,
            _ => return None,
        };
        Some(Block { base, at, len, padding, device: device(place), origin })
    }

    fn op(&mut self) -> Option<SubmittedOp> {
        let (time, point, site, [graph, task]) = (self.time()?, self.point()?, self.site()?, self.halves()?);
        let task = (graph > 0).then_some(TaskId { graph, task });
        let count = self.next()? as usize;
        if count > self.words.len() / 2 {
            return None;
        }
        let awaits = (0..count).map(|_| self.awaited()).collect::<Option<Vec<_>>>()?;
        Some(SubmittedOp { time, point, site, awaits, work: self.work()?, task })
    }

    fn linear(&mut self, stream: u32) -> Option<SubmittedOp> {
        let [time, ticket, caller, dst, src, packed, call] = self.some()?;
        let (route_src, route_dst) = (device(packed >> 48 & 0xff), device(packed >> 56));
        let route = Route { src: route_src, dst: route_dst, is_pageable: false };
        let piece = Piece { dst, src, len: packed & ((1 << 48) - 1) };
        let begin = self.rate.nanos(time.wrapping_sub(call & 0xffff_ffff));
        let site = CallSite { function: (call >> 32) as u16, caller, begin, stack: 0 };
        let (time, point) = (self.rate.nanos(time), Point { stream, ticket });
        let work = Work::Linear { route, piece };
        Some(SubmittedOp { time, point, site, awaits: Vec::new(), work, task: None })
    }

    fn passed_here(&mut self, stream: u32) -> Option<Passed> {
        let [ticket, end, took] = self.some()?;
        let outcome = outcome((ticket >> 56) as u8)?;
        let point = Point { stream, ticket: ticket & ((1 << 56) - 1) };
        let begin = if took == u64::MAX { 0 } else { self.rate.nanos(end.wrapping_sub(took)) };
        Some(Passed { point, begin, end: self.rate.nanos(end), outcome, together: 1, engine: 0 })
    }

    fn awaited(&mut self) -> Option<Awaited> {
        let [what, number] = self.some()?;
        match what as u32 {
            1 => Some(Awaited::Point(Point { stream: (what >> 32) as u32, ticket: number })),
            2 => Some(Awaited::Later(number)),
            3 => Some(Awaited::Outside),
            _ => None,
        }
    }

    fn passed(&mut self) -> Option<Passed> {
        let (point, begin, end, packed) = (self.point()?, self.time()?, self.time()?, self.next()?);
        let outcome = outcome(packed as u8)?;
        Some(Passed {
            point,
            begin,
            end,
            outcome,
            together: (packed >> 32) as u32,
            engine: (packed >> 8) as u8,
        })
    }

    fn joined(&mut self) -> Option<Joined> {
        let (time, point, site) = (self.time()?, self.point()?, self.site()?);
        let how = join(self.next()?)?;
        Some(Joined { time, point, site, how })
    }

    fn piece(&mut self) -> Option<Piece> {
        self.some().map(|[dst, src, len]| Piece { dst, src, len })
    }

    fn pieces(&mut self, count: usize) -> Option<Vec<Piece>> {
        if count > self.words.len() / 3 {
            return None;
        }
        (0..count).map(|_| self.piece()).collect()
    }

    fn work(&mut self) -> Option<Work> {
        let head = self.next()?;
        let way = head >> 8;
        let route = Route {
            src: device(way & 0xffff),
            dst: device(way >> 16 & 0xffff),
            is_pageable: way >> 32 & 1 == 1,
        };
        Some(match head as u8 {
            0 => Work::Nothing,
            1 => Work::Mark,
            2 => Work::Linear { route, piece: self.piece()? },
            3 => {
                let [dst, dst_pitch, src, src_pitch, width, height] = self.some()?;
                Work::Rows { route, rows: Rows { dst, dst_pitch, src, src_pitch, width, height } }
            }
            4 => {
                let [count, bytes, here] = self.some()?;
                Work::Batch { route, count, bytes, pieces: self.pieces(here as usize)? }
            }
            5 => {
                let [first, second, len] = self.some()?;
                Work::Through { device: (head >> 32) as u32, cells: [first, second], len }
            }
            6 => {
                let [dst, len, pattern] = self.some()?;
                let pattern = (pattern as u32).to_le_bytes();
                Work::Fill { dst, len, pattern, device: device(head >> 32) }
            }
            7 => {
                let (combine, element) = ((head >> 8) as u8, (head >> 16) as u8);
                Work::Reduce { device: (head >> 32) as u32, piece: self.piece()?, combine, element }
            }
            8 => Work::Function,
            _ => return None,
        })
    }

    fn text(&mut self) -> Option<String> {
        self.bytes().map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.next()?).ok()?;
        let (words, rest) = self.words.split_at_checked(len.div_ceil(8))?;
        self.words = rest;
        Some(words.iter().flat_map(|word| word.to_le_bytes()).take(len).collect())
    }
}

fn outcome(number: u8) -> Option<Outcome> {
    Some(match number {
        0 => Outcome::Done,
        1 => Outcome::Failed,
        2 => Outcome::Dropped,
        _ => return None,
    })
}

fn join(number: u64) -> Option<Join> {
    Some(match number {
        0 => Join::Wait,
        1 => Join::Query,
        2 => Join::Function,
        3 => Join::Abort,
        4 => Join::Elsewhere,
        _ => return None,
    })
}
