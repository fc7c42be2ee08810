//! Acts on events: record, wait, reset, ask, measure.

use super::Slip;
use super::world::{Event, Mark, Outcome, Trouble, World, call};
use crate::code::*;
use crate::{
    EVENT_COMPLETE, EVENT_NOT_READY, aclrtCreateEvent, aclrtCreateEventExWithFlag, aclrtCreateEventWithFlag,
    aclrtDestroyEvent, aclrtEventElapsedTime, aclrtEventGetTimestamp, aclrtQueryEvent, aclrtQueryEventStatus,
    aclrtRecordEvent, aclrtResetEvent, aclrtStreamWaitEvent, aclrtSynchronizeEvent,
    aclrtSynchronizeEventWithTimeout,
};

/// Most that live at a time.
const EVENTS: usize = 10;
const SYNC: u32 = 1;
const TIME_LINE: u32 = 8;

const PLAIN: &str = "aclrtCreateEvent";
const WITH_FLAG: &str = "aclrtCreateEventWithFlag";
/// ACL_EVENT_IPC.
const IPC: u32 = 0x40;
pub(super) const EX: &str = "aclrtCreateEventExWithFlag";

impl World {
    pub(super) fn some_event(&mut self) -> usize {
        let alive: Vec<_> = self.events.iter().filter(|e| e.is_alive).map(|e| e.handle).collect();
        let all: Vec<_> = self.events.iter().map(|e| e.handle).collect();
        match self.choose.below(24) {
            0 => self.choose.pick(&[0, 1, usize::MAX, 0xdead_0000_0000_0000]),
            1 => self.streams.last().map_or(1, |stream| stream.handle | 1),
            2 if !all.is_empty() => self.choose.pick(&all),
            _ if !alive.is_empty() => self.choose.pick(&alive),
            _ => 1,
        }
    }

    pub(super) fn create_event(&mut self) -> Outcome {
        if self.events.iter().filter(|e| e.is_alive).count() >= EVENTS {
            return self.destroy_event();
        }
        let mut handle = 0;
        let made = self.choose.pick(&[PLAIN, WITH_FLAG, WITH_FLAG, EX]);
        let flags = self.choose.pick(&[1, 8, 9, 11, 3, 0x10, 0x20, 0x40, 0x21, 0x80, 0x48, 0]);
        let is_good = matches!(flags, 0 | 1 | 3 | 8 | 9 | 11 | 0x10 | 0x20) || made == PLAIN;
        let is_ipc = made == EX && flags == IPC;
        let good = match (is_good, self.context()) {
            (_, Err(code)) => vec![code],
            (_, Ok(_)) if is_ipc => vec![SUCCESS, FEATURE_NOT_SUPPORT],
            (true, _) if flags == 0 && made != PLAIN => self.customary(),
            (true, _) => vec![SUCCESS],
            (false, _) => vec![RT_PARAM_INVALID],
        };
        let code = match made {
            PLAIN => call!(self, good, aclrtCreateEvent(&raw mut handle))?,
            WITH_FLAG => call!(self, good, aclrtCreateEventWithFlag(&raw mut handle, flags))?,
            _ => call!(self, good, aclrtCreateEventExWithFlag(&raw mut handle, flags))?,
        };
        if is_ipc && code == SUCCESS {
            // What such an event can do has tests of its own (`ipc/events.rs`).
            return call!(self, vec![SUCCESS], aclrtDestroyEvent(handle)).map(drop);
        }
        if let (SUCCESS, Some(device)) = (code, self.current_device()) {
            // A program that gives no flags wants an event like any other.
            let flags = if made == PLAIN || flags == 0 { SYNC | TIME_LINE } else { flags };
            self.add_event(handle, device, flags, made);
        }
        Ok(())
    }

    fn add_event(&mut self, handle: usize, device: u32, flags: u32, made: &'static str) -> usize {
        let event = Event { handle, device, flags, made, mark: None, is_reset: false, is_alive: true };
        self.events.push(event);
        self.events.len() - 1
    }

    pub(super) fn destroy_event(&mut self) -> Outcome {
        let handle = self.some_event();
        let slot = self.event_of(handle);
        let want = [slot.err().unwrap_or(SUCCESS)];
        if let (SUCCESS, Ok(slot)) = (call!(self, want, aclrtDestroyEvent(handle))?, slot) {
            self.events[slot].is_alive = false;
        }
        Ok(())
    }

    /// The stream and the event of a call that takes both, or its code.
    fn pair(&self, event: usize, stream: usize) -> Result<(usize, usize), i32> {
        if event == 0 {
            return Err(INVALID_PARAM);
        }
        let stream = self.stream_of(stream)?;
        let event = self.event_of(event)?;
        let same = self.events[event].device == self.streams[stream].device;
        if same { Ok((event, stream)) } else { Err(STREAM_CONTEXT) }
    }

    pub(super) fn record(&mut self) -> Outcome {
        let (event, stream) = (self.some_event(), self.some_stream());
        self.record_on(event, stream)
    }

    fn record_on(&mut self, event: usize, stream: usize) -> Outcome {
        let pair = self.pair(event, stream);
        let want = [pair.err().unwrap_or(SUCCESS)];
        if let (SUCCESS, Ok((event, stream))) = (call!(self, want, aclrtRecordEvent(event, stream))?, pair) {
            self.tick(stream);
            let clock = self.streams[stream].clock.clone();
            let is_doubtful = self.streams[stream].trouble != Trouble::None;
            let event = &mut self.events[event];
            event.mark = Some(Mark { clock, is_doubtful });
            event.is_reset = false;
        }
        Ok(())
    }

    pub(super) fn wait(&mut self) -> Outcome {
        let (event, stream) = (self.some_event(), self.some_stream());
        self.wait_on(stream, event)
    }

    fn wait_on(&mut self, stream: usize, event: usize) -> Outcome {
        let pair = self.pair(event, stream);
        let needs_sync = pair.is_ok_and(|(event, _)| self.events[event].flags & SYNC == 0);
        if pair.is_ok_and(|(event, _)| self.events[event].is_reset) && !needs_sync {
            return Ok(()); // it would wait for a record that may never come
        }
        if self.slip == Some(Slip::NoWait) && pair.is_ok() && !needs_sync {
            return self.waited(pair);
        }
        let want = [match pair {
            Err(code) => code,
            Ok(_) if needs_sync => RT_PARAM_INVALID,
            Ok(_) => SUCCESS,
        }];
        match call!(self, want, aclrtStreamWaitEvent(stream, event))? {
            SUCCESS => self.waited(pair),
            _ => Ok(()),
        }
    }

    fn waited(&mut self, pair: Result<(usize, usize), i32>) -> Outcome {
        let Ok((event, stream)) = pair else { return Ok(()) };
        if let Some(mark) = &self.events[event].mark {
            let clock = mark.clock.clone();
            self.streams[stream].clock.join(&clock);
        }
        self.tick(stream);
        Ok(())
    }

    /// Has `stream` wait for all that `other` has been given, by an event. False if the two have no context
    /// in common that is current.
    pub(super) fn link(&mut self, other: usize, stream: usize) -> Outcome<bool> {
        let current =
            |slot: usize| self.streams[slot].is_alive && Some(self.streams[slot].context) == self.current;
        if !current(other) || !current(stream) || other == stream {
            return Ok(false);
        }
        let mut handle = 0;
        call!(self, [SUCCESS], aclrtCreateEventWithFlag(&raw mut handle, SYNC))?;
        let slot = self.add_event(handle, self.streams[stream].device, SYNC, WITH_FLAG);
        self.record_on(handle, self.streams[other].handle)?;
        self.wait_on(self.streams[stream].handle, handle)?;
        call!(self, [SUCCESS], aclrtDestroyEvent(handle))?;
        self.events[slot].is_alive = false;
        Ok(true)
    }

    pub(super) fn reset(&mut self) -> Outcome {
        let (event, stream) = (self.some_event(), self.some_stream());
        let pair = self.pair(event, stream);
        let of_old = |(event, _): (usize, usize)| {
            self.events[event].made == WITH_FLAG && self.events[event].flags & SYNC != 0
        };
        let want = match pair {
            Err(code) => vec![code],
            Ok(pair) if of_old(pair) => vec![SUCCESS],
            Ok(_) => self.customary(),
        };
        if let (SUCCESS, Ok((event, stream))) = (call!(self, want, aclrtResetEvent(event, stream))?, pair) {
            self.tick(stream);
            self.events[event].is_reset = true;
        }
        Ok(())
    }

    /// Whether the record is certainly done, or certainly not.
    fn certain(&self, mark: &Mark) -> Option<bool> {
        match self.host.covers(&mark.clock) {
            true => Some(true),
            false => self.is_held(&mark.clock).then_some(false),
        }
    }

    pub(super) fn query_event(&mut self) -> Outcome {
        let handle = self.some_event();
        let slot = self.event_of(handle);
        let mut status = -1;
        let is_old = self.choose.one_in(3);
        if is_old {
            let is_ex = slot.is_ok_and(|slot| self.events[slot].made == EX);
            let want = [slot.err().unwrap_or(if is_ex { RT_PARAM_INVALID } else { SUCCESS })];
            if call!(self, want, aclrtQueryEvent(handle, &raw mut status))? != SUCCESS {
                return Ok(());
            }
            status = 1 - status; // its numbers are the other way round
        } else {
            let want = [slot.err().unwrap_or(SUCCESS)];
            if call!(self, want, aclrtQueryEventStatus(handle, &raw mut status))? != SUCCESS {
                return Ok(());
            }
        }
        let Ok(slot) = slot else { return Ok(()) };
        self.check_status(slot, status)
    }

    fn check_status(&mut self, slot: usize, status: i32) -> Outcome {
        let event = &self.events[slot];
        let want = match &event.mark {
            _ if event.is_reset => None,
            None => Some(if event.made == EX { EVENT_COMPLETE } else { EVENT_NOT_READY }),
            Some(mark) if mark.is_doubtful => None,
            Some(mark) => self.certain(mark).map(|done| if done { EVENT_COMPLETE } else { EVENT_NOT_READY }),
        };
        let is_known = matches!(status, EVENT_COMPLETE | EVENT_NOT_READY);
        if !is_known || want.is_some_and(|want| want != status) {
            return Err(self.difference(format!("the status of the event is {status}, not {want:?}")));
        }
        let seen = event.mark.as_ref().filter(|mark| !mark.is_doubtful && !event.is_reset);
        if let (EVENT_COMPLETE, Some(mark)) = (status, seen) {
            let clock = mark.clock.clone();
            self.host.join(&clock);
        }
        Ok(())
    }

    pub(super) fn synchronize_event(&mut self) -> Outcome {
        let handle = self.some_event();
        let slot = self.event_of(handle);
        if slot.is_ok_and(|slot| self.events[slot].is_reset) {
            return Ok(());
        }
        let limit = self.choose.pick(&[-1, 20_000, -1, 0, -9]);
        let has_trouble = self.streams.iter().any(|s| s.trouble != Trouble::None);
        let mut want = vec![match slot {
            Err(code) => code,
            Ok(_) if limit == 0 || limit == -9 => RT_PARAM_INVALID,
            Ok(_) => SUCCESS,
        }];
        if want == [SUCCESS] {
            self.open_gates();
        }
        if has_trouble && want == [SUCCESS] {
            want.push(RT_PARAM_INVALID);
        }
        let code = if limit == -1 {
            call!(self, want, aclrtSynchronizeEvent(handle))?
        } else {
            call!(self, want, aclrtSynchronizeEventWithTimeout(handle, limit))?
        };
        let mark = slot.ok().and_then(|slot| self.events[slot].mark.clone());
        if let (SUCCESS, Some(mark)) = (code, mark.filter(|mark| !mark.is_doubtful)) {
            self.host.join(&mark.clock);
        }
        Ok(())
    }

    pub(super) fn measure(&mut self) -> Outcome {
        let (first, second) = (self.some_event(), self.some_event());
        if self.choose.one_in(3) {
            return self.timestamp(first);
        }
        let (a, b) = (self.event_of(first), self.event_of(second));
        let mut ms = -1.0f32;
        let want = match (a, b) {
            (Err(INVALID_PARAM), _) | (_, Err(INVALID_PARAM)) => vec![INVALID_PARAM],
            (Err(code), _) | (_, Err(code)) => vec![code],
            (Ok(a), Ok(b)) => self.elapsed_codes(a, b),
        };
        let code = call!(self, want, aclrtEventElapsedTime(&raw mut ms, first, second))?;
        if code == SUCCESS && ms.is_nan() | (ms < 0.0) {
            return Err(self.difference(format!("{ms} ms lie between two events")));
        }
        Ok(())
    }

    fn elapsed_codes(&self, a: usize, b: usize) -> Vec<i32> {
        let (a, b) = (&self.events[a], &self.events[b]);
        let (Some(first), Some(second)) = (&a.mark, &b.mark) else { return vec![TIMESTAMP_INVALID] };
        let any = vec![SUCCESS, TIMESTAMP_INVALID, TIMESTAMP_REVERSAL];
        if a.flags & TIME_LINE == 0 || b.flags & TIME_LINE == 0 {
            return vec![TIMESTAMP_INVALID];
        }
        if a.is_reset || b.is_reset || first.is_doubtful || second.is_doubtful {
            return any;
        }
        if a.device != b.device {
            return vec![TIMESTAMP_INVALID];
        }
        match (self.certain(first), self.certain(second)) {
            (Some(true), Some(true)) if second.clock.covers(&first.clock) => vec![SUCCESS],
            (Some(true), Some(true)) => vec![SUCCESS, TIMESTAMP_REVERSAL],
            _ => any,
        }
    }

    fn timestamp(&mut self, handle: usize) -> Outcome {
        let mut us = 0;
        let want = match self.event_of(handle) {
            Err(code) => vec![code],
            Ok(slot) => match &self.events[slot] {
                event if event.flags & TIME_LINE == 0 => vec![TIMESTAMP_INVALID],
                Event { mark: None, .. } => vec![TIMESTAMP_INVALID],
                Event { mark: Some(mark), is_reset: false, .. }
                    if !mark.is_doubtful && self.certain(mark) == Some(true) =>
                {
                    vec![SUCCESS]
                }
                _ => vec![SUCCESS, TIMESTAMP_INVALID, EVENT_NOT_COMPLETE],
            },
        };
        call!(self, want, aclrtEventGetTimestamp(handle, &raw mut us)).map(drop)
    }
}
