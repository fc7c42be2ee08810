//! From facts to words.

use super::{head, kind, place};
use crate::fact::{
    Awaited, Block, Call, CallSite, Captured, End, Fact, HostAccess, Join, Joined, Line, LoadedFile, Origin,
    Outcome, Passed, Piece, Point, Route, Rows, Started, StreamMade, StreamPurpose, SubmittedOp,
    TouchedBytes, Work,
};

/// Where words go.
pub trait WordSink {
    /// Adds a word.
    fn put(&mut self, word: u64);
}

impl WordSink for Vec<u64> {
    fn put(&mut self, word: u64) {
        self.push(word);
    }
}

/// Writes everything of a fact but its first word, and says what kind it is.
#[inline]
pub fn write(fact: &Fact, to: &mut impl WordSink) -> u16 {
    match fact {
        Fact::Submitted(submitted) => op(submitted, to),
        Fact::Passed(fact) => passed(fact, to),
        other => write_other(other, to),
    }
}

fn write_other(fact: &Fact, to: &mut impl WordSink) -> u16 {
    match fact {
        Fact::Submitted(_) | Fact::Passed(_) => unreachable!("handled before"),
        Fact::Started(fact) => started(fact, to),
        Fact::Functions(names) => {
            text(names, to);
            kind::FUNCTIONS
        }
        Fact::Module(LoadedFile { base, end, offset, path }) => {
            [*base, *end, *offset].into_iter().for_each(|word| to.put(word));
            text(path, to);
            kind::MODULE
        }
        Fact::Thread(name) => {
            text(name, to);
            kind::THREAD
        }
        Fact::Stack { number, frames } => {
            to.put(u64::from(*number));
            frames.iter().for_each(|frame| to.put(*frame));
            kind::STACK
        }
        Fact::Line(Line { number, line, file, function }) => {
            to.put(u64::from(*number) | u64::from(*line) << 32);
            text(file, to);
            text(function, to);
            kind::LINE
        }
        Fact::Ended { time } => {
            to.put(*time);
            kind::ENDED
        }
        Fact::Call(Call { site: at, end, blocked, code }) => {
            site(at, to);
            [*end, *blocked, *code as u32 as u64].into_iter().for_each(|word| to.put(word));
            kind::CALL
        }
        Fact::StreamMade(StreamMade { time, stream, device, purpose, handle }) => {
            let purpose = match purpose {
                StreamPurpose::User => 0,
                StreamPurpose::Default => 1,
                StreamPurpose::Synchronous => 2,
                StreamPurpose::Graph => 3,
            };
            to.put(*time);
            to.put(u64::from(*stream) | u64::from(*device) << 32);
            to.put(purpose);
            to.put(*handle);
            kind::STREAM_MADE
        }
        Fact::StreamGone { time, stream } => {
            to.put(*time);
            to.put(u64::from(*stream));
            kind::STREAM_GONE
        }
        Fact::Known { time, site: at, block } => {
            to.put(*time);
            site(at, to);
            known(block, to);
            kind::KNOWN
        }
        Fact::Forgotten { time, site: at, base } => {
            to.put(*time);
            site(at, to);
            to.put(*base);
            kind::FORGOTTEN
        }
        Fact::Reused { time, base, at } => {
            [*time, *base, *at].into_iter().for_each(|word| to.put(word));
            kind::REUSED
        }
        Fact::PhysicalNamed { time, site: call, at, len } => {
            to.put(*time);
            site(call, to);
            [*at, *len].into_iter().for_each(|word| to.put(word));
            kind::PHYSICAL_NAMED
        }
        Fact::PhysicalFreed { time, at } => {
            [*time, *at].into_iter().for_each(|word| to.put(word));
            kind::PHYSICAL_FREED
        }
        Fact::MorePieces { point: op, pieces } => {
            point(op, to);
            pieces.iter().for_each(|moved| piece(moved, to));
            kind::MORE_PIECES
        }
        Fact::Refused { time, stream, site: at, work: what } => {
            to.put(*time);
            to.put(u64::from(*stream));
            site(at, to);
            work(what, to);
            kind::REFUSED
        }
        Fact::Begun { time, point: op } => {
            to.put(*time);
            point(op, to);
            kind::BEGUN
        }
        Fact::Resolved { time, point: op, piece: moved } => {
            to.put(*time);
            point(op, to);
            piece(moved, to);
            kind::RESOLVED
        }
        Fact::Bound { time, promise, point: to_point } => {
            to.put(*time);
            to.put(*promise);
            if let Some(op) = to_point {
                point(op, to);
            }
            kind::BOUND
        }
        Fact::Joined(Joined { time, point: op, site: at, how }) => {
            to.put(*time);
            point(op, to);
            site(at, to);
            to.put(join_number(*how));
            kind::JOINED
        }
        Fact::CaptureBegun { time, site: at, graph, stream } => {
            to.put(*time);
            site(at, to);
            to.put(u64::from(*graph) | u64::from(*stream) << 32);
            kind::CAPTURE_BEGUN
        }
        Fact::Captured(Captured { time, site: at, task, branch, work: what }) => {
            to.put(*time);
            site(at, to);
            to.put(u64::from(task.graph) | u64::from(task.task) << 32);
            to.put(u64::from(*branch));
            work(what, to);
            kind::CAPTURED
        }
        Fact::CaptureEnded { time, site: at, graph, is_graph } => {
            to.put(*time);
            site(at, to);
            to.put(u64::from(*graph) | u64::from(*is_graph) << 32);
            kind::CAPTURE_ENDED
        }
        Fact::Launched { time, site: at, graph, point: op } => {
            to.put(*time);
            site(at, to);
            to.put(u64::from(*graph));
            point(op, to);
            kind::LAUNCHED
        }
        Fact::Contents { point: op, end, hash } => {
            point(op, to);
            to.put(u64::from(*end == End::Destination));
            to.put(*hash);
            kind::CONTENTS
        }
        Fact::Bytes { point: op, end, offset, bytes: some } => {
            point(op, to);
            to.put(u64::from(*end == End::Destination));
            to.put(*offset);
            bytes(some, to);
            kind::BYTES
        }
        Fact::Failure { time, site: at, code, message } => {
            to.put(*time);
            site(at, to);
            to.put(*code as u32 as u64);
            text(message, to);
            kind::FAILURE
        }
        Fact::WorkFailed { time, point: op, message } => {
            to.put(*time);
            point(op, to);
            text(message, to);
            kind::WORK_FAILED
        }
        Fact::JoinedOutside { time } => {
            to.put(*time);
            kind::JOINED_OUTSIDE
        }
        Fact::Lent { time, base, key } => {
            [*time, *base, *key].into_iter().for_each(|word| to.put(word));
            kind::LENT
        }
        Fact::Lost { count } => {
            to.put(*count);
            kind::LOST
        }
        Fact::Access(fact) => access(fact, to),
        Fact::Touched(fact) => touched(fact, to),
        Fact::DevicePointer { time, thread, address, is_write, stack } => {
            to.put(*time);
            to.put(u64::from(*thread));
            to.put(*address);
            to.put(u64::from(*is_write) | u64::from(*stack) << 32);
            kind::DEVICE_POINTER
        }
        Fact::Opened { time, count } => {
            to.put(*time);
            to.put(*count);
            kind::OPENED
        }
        Fact::Unseen { reason } => {
            text(reason, to);
            kind::UNSEEN
        }
    }
}

fn access(access: &HostAccess, to: &mut impl WordSink) -> u16 {
    let HostAccess { time, thread, address, len, point: op, stack, .. } = access;
    let flags = [access.is_write, access.is_destination, access.is_system_call, access.is_unmapped];
    to.put(*time);
    to.put(*address);
    to.put(*len);
    point(op, to);
    to.put(u64::from(*thread) | u64::from(*stack) << 32);
    to.put(flags.iter().rev().fold(0, |word, flag| word << 1 | u64::from(*flag)));
    kind::ACCESS
}

fn touched(touched: &TouchedBytes, to: &mut impl WordSink) -> u16 {
    let TouchedBytes { time, site: call, address, len, is_write, point: op, is_destination } = touched;
    to.put(*time);
    site(call, to);
    to.put(*address);
    to.put(*len);
    point(op, to);
    to.put(u64::from(*is_write) | u64::from(*is_destination) << 1);
    kind::TOUCHED
}

fn started(
    Started { time, epoch, parent, devices, backend, command }: &Started,
    to: &mut impl WordSink,
) -> u16 {
    to.put(*time);
    to.put(*epoch);
    to.put(u64::from(*parent) | u64::from(*devices) << 32);
    text(backend, to);
    text(command, to);
    kind::STARTED
}

#[inline]
fn op(
    SubmittedOp { time, point: at, site: call, awaits, work: what, task }: &SubmittedOp,
    to: &mut impl WordSink,
) -> u16 {
    to.put(*time);
    point(at, to);
    site(call, to);
    to.put(task.map_or(0, |task| u64::from(task.graph) | u64::from(task.task) << 32));
    to.put(awaits.len() as u64);
    awaits.iter().for_each(|awaited| wait(awaited, to));
    work(what, to);
    kind::SUBMITTED
}

/// A copy in one piece that was submitted at `time`, as eight words with the first; `None` if it has more to
/// say than fits there.
#[inline]
pub(crate) fn linear(time: u64, at: Point, call: &CallSite, way: &Route, moved: &Piece) -> Option<[u64; 8]> {
    let (src, dst, lasted) = (place(way.src), place(way.dst), time.wrapping_sub(call.begin));
    let lasted = if call.begin == 0 { 0 } else { lasted };
    let is_short = moved.len < 1 << 48 && src < 256 && dst < 256 && lasted < 1 << 32;
    if !is_short || way.is_pageable || call.stack != 0 {
        return None;
    }
    Some([
        head(kind::LINEAR, 8, at.stream),
        time,
        at.ticket,
        call.caller,
        moved.dst,
        moved.src,
        moved.len | src << 48 | dst << 56,
        lasted | u64::from(call.function) << 32,
    ])
}

/// An op that has passed on the host, as four words with the first; `begin` is 0 if it is not known.
#[inline]
pub(crate) fn passed_here(at: Point, begin: u64, end: u64, outcome: Outcome) -> [u64; 4] {
    let took = if begin == 0 { u64::MAX } else { end.saturating_sub(begin) };
    [head(kind::PASSED_HERE, 4, at.stream), at.ticket | outcome_number(outcome) << 56, end, took]
}

/// A call that has returned, as five words with the first; `None` if it has more to say than fits there.
#[inline]
pub(crate) fn call_here(call: &Call) -> Option<[u64; 5]> {
    let Call { site, end, blocked, code } = call;
    let packed = blocked | u64::from(site.function) << 48;
    let head = head(kind::CALL_HERE, 5, *code as u32);
    (*blocked < 1 << 48 && site.stack == 0).then_some([head, site.begin, *end, site.caller, packed])
}

/// A thread has learnt that a point has passed, as six words with the first; `None` as for a call.
#[inline]
pub(crate) fn joined_here(joined: &Joined) -> Option<[u64; 6]> {
    let Joined { time, point, site, how } = joined;
    let packed = u64::from(site.function) | join_number(*how) << 16;
    let head = head(kind::JOINED_HERE, 6, point.stream);
    (site.stack == 0).then_some([head, *time, point.ticket, site.caller, site.begin, packed])
}

fn join_number(how: Join) -> u64 {
    match how {
        Join::Wait => 0,
        Join::Query => 1,
        Join::Function => 2,
        Join::Abort => 3,
        Join::Elsewhere => 4,
    }
}

/// Ops from `first` on that were sent to a device as one have passed, as six words with the first.
pub(crate) fn passed_together(first: u64, last: &Passed) -> [u64; 6] {
    let head = head(kind::PASSED_TOGETHER, 6, last.point.stream);
    let packed = outcome_number(last.outcome) | u64::from(last.engine) << 8 | u64::from(last.together) << 32;
    [head, last.point.ticket, last.begin, last.end, packed, first]
}

fn outcome_number(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Done => 0,
        Outcome::Failed => 1,
        Outcome::Dropped => 2,
    }
}

fn wait(awaited: &Awaited, to: &mut impl WordSink) {
    match awaited {
        Awaited::Point(op) => {
            to.put(1 | u64::from(op.stream) << 32);
            to.put(op.ticket);
        }
        Awaited::Later(promise) => {
            to.put(2);
            to.put(*promise);
        }
        Awaited::Outside => {
            to.put(3);
            to.put(0);
        }
    }
}

#[inline]
fn passed(
    Passed { point: op, begin, end, outcome, together, engine }: &Passed,
    to: &mut impl WordSink,
) -> u16 {
    let outcome = outcome_number(*outcome);
    point(op, to);
    to.put(*begin);
    to.put(*end);
    to.put(outcome | u64::from(*engine) << 8 | u64::from(*together) << 32);
    kind::PASSED
}

#[inline]
fn point(Point { stream, ticket }: &Point, to: &mut impl WordSink) {
    to.put(u64::from(*stream));
    to.put(*ticket);
}

#[inline]
fn site(CallSite { function, caller, begin, stack }: &CallSite, to: &mut impl WordSink) {
    to.put(u64::from(*function) | u64::from(*stack) << 32);
    to.put(*caller);
    to.put(*begin);
}

fn known(Block { base, at, len, padding, device, origin }: &Block, to: &mut impl WordSink) {
    let origin = match origin {
        Origin::Allocated => 0,
        Origin::Registered => 1,
        Origin::Mapped => 2,
        Origin::Imported => 3,
    };
    [*base, *at, *len, place(*device), origin | padding << 8].into_iter().for_each(|word| to.put(word));
}

#[inline]
fn piece(Piece { dst, src, len }: &Piece, to: &mut impl WordSink) {
    to.put(*dst);
    to.put(*src);
    to.put(*len);
}

/// A route in 48 bits: devices are numbers of 16 bits at most.
#[inline]
fn route(Route { src, dst, is_pageable }: &Route) -> u64 {
    place(*src) & 0xffff | (place(*dst) & 0xffff) << 16 | u64::from(*is_pageable) << 32
}

/// The first word has what it is in its low byte, and small numbers above.
#[inline]
fn work(what: &Work, to: &mut impl WordSink) {
    match what {
        Work::Linear { route: way, piece: moved } => {
            to.put(2 | route(way) << 8);
            piece(moved, to);
        }
        Work::Nothing => to.put(0),
        Work::Mark => to.put(1),
        Work::Function => to.put(8),
        Work::Rows { route: way, rows } => {
            let Rows { dst, dst_pitch, src, src_pitch, width, height } = *rows;
            to.put(3 | route(way) << 8);
            [dst, dst_pitch, src, src_pitch, width, height].into_iter().for_each(|word| to.put(word));
        }
        Work::Batch { route: way, count, bytes, pieces } => {
            to.put(4 | route(way) << 8);
            [*count, *bytes, pieces.len() as u64].into_iter().for_each(|word| to.put(word));
            pieces.iter().for_each(|moved| piece(moved, to));
        }
        Work::Through { device, cells, len } => {
            to.put(5 | u64::from(*device) << 32);
            [cells[0], cells[1], *len].into_iter().for_each(|word| to.put(word));
        }
        Work::Fill { dst, len, pattern, device } => {
            to.put(6 | place(*device) << 32);
            [*dst, *len, u64::from(u32::from_le_bytes(*pattern))].into_iter().for_each(|word| to.put(word));
        }
        Work::Reduce { device, piece: moved, combine, element } => {
            to.put(7 | u64::from(*combine) << 8 | u64::from(*element) << 16 | u64::from(*device) << 32);
            piece(moved, to);
        }
    }
}

fn text(text: &str, to: &mut impl WordSink) {
    bytes(text.as_bytes(), to);
}

/// How many, and then all of them in words.
fn bytes(bytes: &[u8], to: &mut impl WordSink) {
    to.put(bytes.len() as u64);
    for part in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        to.put(u64::from_le_bytes(word));
    }
}
