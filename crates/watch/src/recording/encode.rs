//! Records as bytes.

use super::codec::CodecState;
use super::model::{Location, RecordedWork, Rect};
use super::record::{Record, StepHead, behind};
use super::varint::Encoder;
use crate::fact::{Awaited, Nanos, Point, Route, TaskId};

/// Makes bytes of records.
#[derive(Default)]
pub struct RecordEncoder {
    before: CodecState,
    out: Encoder,
}

impl RecordEncoder {
    /// The bytes of a record.
    pub fn encode(&mut self, record: &Record) -> &[u8] {
        self.out.bytes.clear();
        self.put(record);
        &self.out.bytes
    }

    fn tag(&mut self, tag: u8) {
        self.out.bytes.push(tag);
    }

    fn small(&mut self, value: u32) {
        self.out.number(value.into());
    }

    fn time(&mut self, time: Nanos) {
        self.out.difference(time, self.before.time);
        self.before.time = time;
    }

    fn head(&mut self, head: &StepHead) {
        self.small(head.thread);
        self.small(head.site);
        self.time(head.time);
        self.out.difference(head.time, head.begin);
    }

    fn point(&mut self, point: Point) {
        self.small(point.stream);
        if let Ok(last) = self.before.ticket(point.stream) {
            self.out.difference(point.ticket, *last);
            *last = point.ticket;
        }
    }

    fn location(&mut self, at: Location, before: Location) {
        self.out.difference(at.allocation.into(), before.allocation.into());
        let base = if at.allocation == before.allocation { before.offset } else { 0 };
        self.out.signed(at.offset.wrapping_sub(base));
    }

    fn dst(&mut self, at: Location, span: u64) {
        self.location(at, self.before.dst);
        self.before.dst = behind(at, span);
    }

    fn src(&mut self, at: Location, span: u64) {
        self.location(at, self.before.src);
        self.before.src = behind(at, span);
    }

    fn rect(&mut self, rect: &Rect) {
        self.out.number(rect.height);
        self.out.number(rect.width);
        if rect.height != 1 {
            self.out.number(rect.dst_pitch);
            self.out.number(rect.src_pitch);
        }
        self.dst(rect.dst, rect.span(rect.dst_pitch));
        self.src(rect.src, rect.span(rect.src_pitch));
    }

    fn rects(&mut self, rects: &[Rect]) {
        self.out.number(rects.len() as u64);
        rects.iter().for_each(|rect| self.rect(rect));
    }

    fn route(&mut self, route: Route) {
        self.out.optional(route.src);
        self.out.optional(route.dst);
        self.tag(route.is_pageable.into());
    }

    fn work(&mut self, work: &RecordedWork) {
        match work {
            RecordedWork::Nothing => self.tag(0),
            RecordedWork::Mark => self.tag(1),
            RecordedWork::Linear { route, rect } => {
                self.tag(2);
                self.route(*route);
                self.rect(rect);
            }
            RecordedWork::Rows { route, rect } => {
                self.tag(3);
                self.route(*route);
                self.rect(rect);
            }
            RecordedWork::Batch { route, count, bytes, rects } => {
                self.tag(4);
                self.route(*route);
                self.out.number(*count);
                self.out.number(*bytes);
                self.rects(rects);
            }
            RecordedWork::Through { device, is_descriptor, rect } => {
                self.tag(5);
                self.small(*device);
                self.tag((*is_descriptor).into());
                self.rects(rect.as_slice());
            }
            RecordedWork::Fill { device, dst, len, pattern } => {
                self.tag(6);
                self.out.optional(*device);
                self.out.number(*len);
                self.out.bytes.extend_from_slice(pattern);
                self.dst(*dst, *len);
            }
            RecordedWork::Reduce { device, rect, combine, element } => {
                self.tag(7);
                self.small(*device);
                self.tag(*combine);
                self.tag(*element);
                self.rect(rect);
            }
            RecordedWork::Function => self.tag(8),
        }
    }

    fn awaits(&mut self, awaits: &[Awaited]) {
        self.out.number(awaits.len() as u64);
        for awaited in awaits {
            match awaited {
                Awaited::Outside => self.tag(0),
                Awaited::Point(point) => {
                    self.tag(1);
                    self.point(*point);
                }
                Awaited::Later(promise) => {
                    self.tag(2);
                    self.out.number(*promise);
                }
            }
        }
    }

    fn task(&mut self, task: TaskId) {
        self.small(task.graph);
        self.small(task.task);
    }

    fn put(&mut self, record: &Record) {
        match record {
            Record::Process => self.tag(1),
            Record::Started(index, process) => {
                self.tag(26);
                self.small(*index);
                self.out.string(process.backend.as_bytes());
                self.out.string(process.command.as_bytes());
                self.small(process.devices);
                self.out.number(process.epoch);
            }
            Record::Ended(process) => {
                self.tag(2);
                self.small(*process);
            }
            Record::Thread(process) => {
                self.tag(3);
                self.small(*process);
            }
            Record::ThreadName { thread, name } => {
                self.tag(4);
                self.small(*thread);
                self.out.string(name.as_bytes());
            }
            Record::Site(site) => {
                self.tag(5);
                self.out.string(site.function.as_bytes());
                self.out.string(site.caller.as_bytes());
            }
            Record::Stream(process) => {
                self.tag(6);
                self.small(*process);
            }
            Record::StreamMade(head, number, stream) => {
                self.tag(27);
                self.head(head);
                self.small(*number);
                self.small(stream.process);
                self.small(stream.device);
                self.tag(stream.purpose as u8);
            }
            Record::StreamGone(head, stream) => {
                self.tag(7);
                self.head(head);
                self.small(*stream);
            }
            Record::Memory(head, memory) => {
                self.tag(8);
                self.head(head);
                self.small(memory.process);
                self.out.number(memory.len);
                self.out.optional(memory.device);
                self.out.optional(memory.origin.map(|origin| origin as u32));
            }
            Record::Freed(head, allocation) => {
                self.tag(9);
                self.head(head);
                self.small(*allocation);
            }
            other => self.put_work(other),
        }
    }

    fn put_work(&mut self, record: &Record) {
        match record {
            Record::Submitted { head, point, awaits, work, task } => {
                self.tag(if task.is_some() { 11 } else { 10 });
                self.head(head);
                self.point(*point);
                self.awaits(awaits);
                self.work(work);
                task.iter().for_each(|task| self.task(*task));
            }
            Record::MorePieces { point, rects } => {
                self.tag(12);
                self.point(*point);
                self.rects(rects);
            }
            Record::Refused { head, stream, work } => {
                self.tag(13);
                self.head(head);
                self.small(*stream);
                self.work(work);
            }
            Record::Passed(passed) => {
                self.tag(14);
                self.point(passed.point);
                self.time(passed.end);
                self.out.difference(passed.end, passed.begin);
                self.tag(passed.outcome as u8);
                self.small(passed.together);
                self.tag(passed.engine);
            }
            Record::Resolved { point, rect } => {
                self.tag(15);
                self.point(*point);
                self.rect(rect);
            }
            Record::Bound { process, promise, point } => {
                self.tag(16);
                self.small(*process);
                self.out.number(*promise);
                self.tag(point.is_some().into());
                point.iter().for_each(|point| self.point(*point));
            }
            Record::Joined { head, point, how } => {
                self.tag(17);
                self.head(head);
                self.point(*point);
                self.tag(*how as u8);
            }
            other => self.put_graph(other),
        }
    }

    fn put_graph(&mut self, record: &Record) {
        match record {
            Record::CaptureBegun { head, stream } => {
                self.tag(18);
                self.head(head);
                self.out.optional(*stream);
            }
            Record::Captured { head, task, branch, work } => {
                self.tag(19);
                self.head(head);
                self.task(*task);
                self.small(*branch);
                self.work(work);
            }
            Record::CaptureEnded { head, graph, is_graph } => {
                self.tag(20);
                self.head(head);
                self.small(*graph);
                self.tag((*is_graph).into());
            }
            Record::Launched { head, graph, point } => {
                self.tag(21);
                self.head(head);
                self.small(*graph);
                self.point(*point);
            }
            Record::Call { head, blocked, code } => {
                self.tag(22);
                self.head(head);
                self.out.number(*blocked);
                self.out.signed((*code).into());
            }
            Record::Contents { point, end, hash } => {
                self.tag(23);
                self.point(*point);
                self.tag(*end as u8);
                self.out.bytes.extend_from_slice(&hash.to_le_bytes());
            }
            Record::Bytes { point, end, offset, bytes } => {
                self.tag(24);
                self.point(*point);
                self.tag(*end as u8);
                self.out.number(*offset);
                self.out.string(bytes);
            }
            Record::Begun { point, time } => {
                self.tag(28);
                self.point(*point);
                self.time(*time);
            }
            Record::Lost(count) => {
                self.tag(25);
                self.out.number(*count);
            }
            _ => unreachable!("`put` and `put_work` write the other records"),
        }
    }
}
