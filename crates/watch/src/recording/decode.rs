//! Bytes as records. Nothing here panics, whatever the bytes are.

use super::codec::CodecState;
use super::model::{Allocation, Location, RecordedProcess, RecordedSite, RecordedStream, RecordedWork, Rect};
use super::record::{Record, StepHead, behind};
use super::varint::{Decoder, Malformed};
use crate::fact::{Awaited, End, Join, Nanos, Origin, Outcome, Passed, Point, Route, StreamPurpose, TaskId};

/// Makes records of bytes.
#[derive(Default)]
pub struct RecordDecoder {
    before: CodecState,
}

/// A decoder at one record.
struct RecordReader<'a, 'b> {
    before: &'a mut CodecState,
    from: &'a mut Decoder<'b>,
}

impl RecordDecoder {
    /// The next record; `None` at the end.
    pub fn decode(&mut self, from: &mut Decoder<'_>) -> Result<Option<Record>, Malformed> {
        if from.left() == 0 {
            return Ok(None);
        }
        RecordReader { before: &mut self.before, from }.record().map(Some)
    }
}

impl RecordReader<'_, '_> {
    fn small(&mut self) -> Result<u32, Malformed> {
        self.from.small()
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Malformed(format!("{other} where 0 or 1 belongs"))),
        }
    }

    /// One of a list, by its index.
    fn one_of<T: Copy>(&mut self, all: &[T]) -> Result<T, Malformed> {
        let index = self.from.byte()?;
        all.get(usize::from(index))
            .copied()
            .ok_or_else(|| Malformed(format!("{index} where a number below {} belongs", all.len())))
    }

    fn time(&mut self) -> Result<Nanos, Malformed> {
        self.before.time = self.from.difference(self.before.time)?;
        Ok(self.before.time)
    }

    /// When something began that ended at `end`.
    fn begin(&mut self, end: Nanos) -> Result<Nanos, Malformed> {
        Ok(end.wrapping_sub(self.from.signed()? as u64))
    }

    fn head(&mut self) -> Result<StepHead, Malformed> {
        let (thread, site, time) = (self.small()?, self.small()?, self.time()?);
        Ok(StepHead { thread, site, begin: self.begin(time)?, time })
    }

    fn point(&mut self) -> Result<Point, Malformed> {
        let stream = self.small()?;
        let last = self.before.ticket(stream)?;
        *last = self.from.difference(*last)?;
        Ok(Point { stream, ticket: *last })
    }

    fn location(&mut self, before: Location) -> Result<Location, Malformed> {
        let allocation = self.from.difference(before.allocation.into())? as u32;
        let base = if allocation == before.allocation { before.offset } else { 0 };
        Ok(Location { allocation, offset: self.from.signed()?.wrapping_add(base) })
    }

    fn rect(&mut self) -> Result<Rect, Malformed> {
        let (height, width) = (self.from.number()?, self.from.number()?);
        let [dst_pitch, src_pitch] = match height {
            1 => [width, width],
            _ => [self.from.number()?, self.from.number()?],
        };
        let mut rect = Rect { dst_pitch, src_pitch, width, height, ..Rect::default() };
        rect.dst = self.location(self.before.dst)?;
        self.before.dst = behind(rect.dst, rect.span(dst_pitch));
        rect.src = self.location(self.before.src)?;
        self.before.src = behind(rect.src, rect.span(src_pitch));
        Ok(rect)
    }

    fn rects(&mut self) -> Result<Vec<Rect>, Malformed> {
        (0..self.from.count()?).map(|_| self.rect()).collect()
    }

    fn route(&mut self) -> Result<Route, Malformed> {
        Ok(Route { src: self.from.optional()?, dst: self.from.optional()?, is_pageable: self.flag()? })
    }

    fn work(&mut self) -> Result<RecordedWork, Malformed> {
        Ok(match self.from.byte()? {
            0 => RecordedWork::Nothing,
            1 => RecordedWork::Mark,
            2 => RecordedWork::Linear { route: self.route()?, rect: self.rect()? },
            3 => RecordedWork::Rows { route: self.route()?, rect: self.rect()? },
            4 => RecordedWork::Batch {
                route: self.route()?,
                count: self.from.number()?,
                bytes: self.from.number()?,
                rects: self.rects()?,
            },
            5 => RecordedWork::Through {
                device: self.small()?,
                is_descriptor: self.flag()?,
                rect: self.rects()?.pop(),
            },
            6 => self.fill()?,
            7 => {
                let (device, combine, element) = (self.small()?, self.from.byte()?, self.from.byte()?);
                RecordedWork::Reduce { device, combine, element, rect: self.rect()? }
            }
            8 => RecordedWork::Function,
            other => return Err(Malformed(format!("there is no work of kind {other}"))),
        })
    }

    fn fill(&mut self) -> Result<RecordedWork, Malformed> {
        let (device, len) = (self.from.optional()?, self.from.number()?);
        let mut pattern = [0; 4];
        for byte in &mut pattern {
            *byte = self.from.byte()?;
        }
        let dst = self.location(self.before.dst)?;
        self.before.dst = behind(dst, len);
        Ok(RecordedWork::Fill { device, dst, len, pattern })
    }

    fn awaits(&mut self) -> Result<Vec<Awaited>, Malformed> {
        (0..self.from.count()?).map(|_| self.awaited()).collect()
    }

    fn awaited(&mut self) -> Result<Awaited, Malformed> {
        Ok(match self.from.byte()? {
            0 => Awaited::Outside,
            1 => Awaited::Point(self.point()?),
            2 => Awaited::Later(self.from.number()?),
            other => return Err(Malformed(format!("there is no wait of kind {other}"))),
        })
    }

    fn task(&mut self) -> Result<TaskId, Malformed> {
        Ok(TaskId { graph: self.small()?, task: self.small()? })
    }

    fn end(&mut self) -> Result<End, Malformed> {
        self.one_of(&[End::Source, End::Destination])
    }

    fn record(&mut self) -> Result<Record, Malformed> {
        Ok(match self.from.byte()? {
            1 => Record::Process,
            2 => Record::Ended(self.small()?),
            3 => Record::Thread(self.small()?),
            4 => Record::ThreadName { thread: self.small()?, name: self.from.text()? },
            5 => Record::Site(RecordedSite { function: self.from.text()?, caller: self.from.text()? }),
            6 => Record::Stream(self.small()?),
            7 => Record::StreamGone(self.head()?, self.small()?),
            8 => Record::Memory(self.head()?, self.memory()?),
            9 => Record::Freed(self.head()?, self.small()?),
            tag @ (10 | 11) => self.submitted(tag == 11)?,
            12 => Record::MorePieces { point: self.point()?, rects: self.rects()? },
            13 => Record::Refused { head: self.head()?, stream: self.small()?, work: self.work()? },
            14 => Record::Passed(self.passed()?),
            15 => Record::Resolved { point: self.point()?, rect: self.rect()? },
            16 => self.bound()?,
            tag => self.later_record(tag)?,
        })
    }

    fn later_record(&mut self, tag: u8) -> Result<Record, Malformed> {
        Ok(match tag {
            17 => {
                let (head, point) = (self.head()?, self.point()?);
                Record::Joined { head, point, how: self.one_of(&[Join::Wait, Join::Query, Join::Function])? }
            }
            18 => Record::CaptureBegun { head: self.head()?, stream: self.from.optional()? },
            19 => Record::Captured {
                head: self.head()?,
                task: self.task()?,
                branch: self.small()?,
                work: self.work()?,
            },
            20 => Record::CaptureEnded { head: self.head()?, graph: self.small()?, is_graph: self.flag()? },
            21 => Record::Launched { head: self.head()?, graph: self.small()?, point: self.point()? },
            22 => {
                let (head, blocked) = (self.head()?, self.from.number()?);
                Record::Call { head, blocked, code: self.from.signed()? as i32 }
            }
            23 => Record::Contents { point: self.point()?, end: self.end()?, hash: self.hash()? },
            24 => Record::Bytes {
                point: self.point()?,
                end: self.end()?,
                offset: self.from.number()?,
                bytes: self.from.string()?.to_vec(),
            },
            25 => Record::Lost(self.from.number()?),
            26 => Record::Started(
                self.small()?,
                RecordedProcess {
                    backend: self.from.text()?,
                    command: self.from.text()?,
                    devices: self.small()?,
                    epoch: self.from.number()?,
                    has_ended: false,
                },
            ),
            27 => Record::StreamMade(self.head()?, self.small()?, self.stream()?),
            28 => Record::Begun { point: self.point()?, time: self.time()? },
            other => return Err(Malformed(format!("there is no record of kind {other}"))),
        })
    }

    fn stream(&mut self) -> Result<RecordedStream, Malformed> {
        let (process, device) = (self.small()?, self.small()?);
        let purposes =
            [StreamPurpose::User, StreamPurpose::Default, StreamPurpose::Synchronous, StreamPurpose::Graph];
        Ok(RecordedStream { process, device, purpose: self.one_of(&purposes)? })
    }

    fn memory(&mut self) -> Result<Allocation, Malformed> {
        let (process, len, device) = (self.small()?, self.from.number()?, self.from.optional()?);
        let origin = match self.from.optional()? {
            None => None,
            Some(0) => Some(Origin::Allocated),
            Some(1) => Some(Origin::Registered),
            Some(2) => Some(Origin::Mapped),
            Some(3) => Some(Origin::Imported),
            Some(other) => return Err(Malformed(format!("there is no memory of kind {other}"))),
        };
        Ok(Allocation { process, len, device, origin })
    }

    fn submitted(&mut self, is_task: bool) -> Result<Record, Malformed> {
        let (head, point) = (self.head()?, self.point()?);
        let (awaits, work) = (self.awaits()?, self.work()?);
        let task = if is_task { Some(self.task()?) } else { None };
        Ok(Record::Submitted { head, point, awaits, work, task })
    }

    fn passed(&mut self) -> Result<Passed, Malformed> {
        let (point, end) = (self.point()?, self.time()?);
        let begin = self.begin(end)?;
        let outcome = self.one_of(&[Outcome::Done, Outcome::Failed, Outcome::Dropped])?;
        Ok(Passed { point, begin, end, outcome, together: self.small()?, engine: self.from.byte()? })
    }

    fn bound(&mut self) -> Result<Record, Malformed> {
        let (process, promise) = (self.small()?, self.from.number()?);
        let point = if self.flag()? { Some(self.point()?) } else { None };
        Ok(Record::Bound { process, promise, point })
    }

    fn hash(&mut self) -> Result<u64, Malformed> {
        let mut bytes = [0; 8];
        for byte in &mut bytes {
            *byte = self.from.byte()?;
        }
        Ok(u64::from_le_bytes(bytes))
    }
}
