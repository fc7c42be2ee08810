//! Acts on streams, with good, stale and garbage handles.

use super::Slip;
use super::clock::Clock;
use super::world::{Outcome, Stream, Trouble, World, call};
use crate::code::*;
use crate::{
    aclrtCreateStream, aclrtCreateStreamWithConfig, aclrtDestroyStream, aclrtDestroyStreamForce,
    aclrtStreamAbort, aclrtStreamGetId, aclrtStreamQuery, aclrtSynchronizeDevice,
    aclrtSynchronizeDeviceWithTimeout, aclrtSynchronizeStream, aclrtSynchronizeStreamWithTimeout, block,
};

/// Most that live at a time.
const STREAMS: usize = 10;

impl World {
    /// A handle for a call: mostly one that works here, else one of another context, a dead or an invented
    /// one.
    pub(super) fn some_stream(&mut self) -> usize {
        let here: Vec<_> =
            self.streams.iter().filter(|s| s.is_alive && Some(s.context) == self.current).collect();
        let here: Vec<_> = here.iter().map(|s| s.handle).collect();
        match self.choose.below(24) {
            0..=19 if !here.is_empty() => self.choose.pick(&here),
            0..=21 => 0,
            _ => self.bad_stream(),
        }
    }

    fn bad_stream(&mut self) -> usize {
        let all: Vec<_> = self.streams.iter().map(|s| s.handle).collect();
        match self.choose.below(8) {
            0..=5 if !all.is_empty() => self.choose.pick(&all),
            6 => self.events.last().map_or(1, |event| event.handle),
            _ => self.choose.pick(&[1, 8, usize::MAX, 0xdead_0000_0000_0000]),
        }
    }

    pub(super) fn add_stream(&mut self, handle: usize, context: usize) {
        let device = self.contexts[context].device;
        self.streams.push(Stream {
            handle,
            context,
            device,
            is_alive: true,
            clock: Clock::default(),
            trouble: Trouble::None,
            was_aborted: false,
        });
    }

    pub(super) fn create_stream(&mut self) -> Outcome {
        if self.streams.iter().filter(|s| s.is_alive).count() >= STREAMS {
            return self.destroy_stream();
        }
        let mut handle = 0;
        let want = [self.context().err().unwrap_or(SUCCESS)];
        let code = if self.choose.one_in(2) {
            call!(self, want, aclrtCreateStream(&raw mut handle))?
        } else {
            let (priority, flag) = (self.choose.below(9) as u32, self.choose.pick(&[0, 1, 2, 3]));
            call!(self, want, aclrtCreateStreamWithConfig(&raw mut handle, priority, flag))?
        };
        if let (SUCCESS, Some(context)) = (code, self.current) {
            self.add_stream(handle, context);
        }
        Ok(())
    }

    /// What a call on this handle answers that does not take the default stream.
    fn not_default(&self, handle: usize) -> Result<usize, i32> {
        let slot = self.stream_of(handle)?;
        let is_default = self.contexts.iter().any(|c| c.default_stream == slot);
        if is_default { Err(RT_PARAM_INVALID) } else { Ok(slot) }
    }

    pub(super) fn destroy_stream(&mut self) -> Outcome {
        let handle = self.some_stream();
        let slot = self.not_default(handle);
        if let Ok(slot) = slot
            && self.streams[slot].trouble != Trouble::None
        {
            self.synchronize(handle)?; // whether destroying tells is open
        }
        let is_forced = self.choose.one_in(6);
        if slot.is_ok() {
            if is_forced { self.drop_work()? } else { self.open_gates() }
        }
        let want = [slot.err().unwrap_or(SUCCESS)];
        let code = if is_forced {
            call!(self, want, aclrtDestroyStreamForce(handle))?
        } else {
            call!(self, want, aclrtDestroyStream(handle))?
        };
        if let (SUCCESS, Ok(slot)) = (code, slot) {
            self.streams[slot].is_alive = false;
            if is_forced {
                return self.wait_for_all();
            }
            let clock = self.streams[slot].clock.clone();
            self.host.join(&clock);
        }
        Ok(())
    }

    /// Work is about to be dropped: what it writes is unknown, and what other streams write that waited for
    /// it.
    fn drop_work(&mut self) -> Outcome {
        self.before_work_goes()?;
        self.mirror.lose_unfinished(&self.host.clone());
        self.looks.doubt();
        for event in &mut self.events {
            event.mark.iter_mut().for_each(|mark| mark.is_doubtful = true);
        }
        Ok(())
    }

    pub(super) fn abort(&mut self) -> Outcome {
        let handle = self.some_stream();
        let slot = self.stream_of(handle);
        let want = [slot.err().unwrap_or(SUCCESS)];
        if slot.is_ok() && self.row.has("aclrtStreamAbort") {
            self.drop_work()?;
        }
        if let (SUCCESS, Ok(slot)) = (call!(self, want, aclrtStreamAbort(handle))?, slot) {
            self.streams[slot].was_aborted = true;
            if self.streams[slot].trouble == Trouble::Certain {
                self.streams[slot].trouble = Trouble::Possible;
            }
            return self.wait_for_all();
        }
        Ok(())
    }

    pub(super) fn synchronize(&mut self, handle: usize) -> Outcome {
        let slot = self.stream_of(handle);
        if slot.is_ok() {
            self.open_gates();
        }
        let want = slot.map_or_else(|code| vec![code], |slot| self.stream_codes(slot));
        if self.slip == Some(Slip::NoSync) && slot.is_ok() {
            self.told(slot.unwrap_or(0), SUCCESS);
            return Ok(());
        }
        let code = call!(self, want, aclrtSynchronizeStream(handle))?;
        slot.into_iter().for_each(|slot| self.told(slot, code));
        Ok(())
    }

    pub(super) fn synchronize_some(&mut self) -> Outcome {
        let handle = self.some_stream();
        self.synchronize(handle)
    }

    pub(super) fn synchronize_within(&mut self) -> Outcome {
        let handle = self.some_stream();
        let slot = self.stream_of(handle);
        let limit = self.choose.pick(&[-1, 20_000, 1, 0, -2, i32::MIN]);
        let held = slot.is_ok_and(|slot| self.is_held(&self.streams[slot].clock)) && limit == 1;
        if slot.is_ok() && limit != 1 {
            self.open_gates();
        }
        let mut want = match (slot, limit) {
            (Err(code), _) => vec![code],
            (Ok(_), i32::MIN..=-2 | 0) => vec![RT_PARAM_INVALID],
            (Ok(_), _) if held => vec![],
            (Ok(slot), _) => self.stream_codes(slot),
        };
        if limit == 1 && slot.is_ok() {
            want.push(STREAM_SYNC_TIMEOUT);
        }
        let code = call!(self, want, aclrtSynchronizeStreamWithTimeout(handle, limit))?;
        if let (Ok(slot), true) = (slot, code != STREAM_SYNC_TIMEOUT && (limit == -1 || limit > 0)) {
            self.told(slot, code);
        }
        Ok(())
    }

    pub(super) fn query_stream(&mut self) -> Outcome {
        let handle = self.some_stream();
        let slot = self.stream_of(handle);
        let mut status = -1;
        let mut want = slot.map_or_else(|code| vec![code], |slot| self.stream_codes(slot));
        if slot.is_ok_and(|slot| self.streams[slot].trouble == Trouble::Certain) {
            want.push(SUCCESS); // not ready yet
        }
        let code = call!(self, want, aclrtStreamQuery(handle, &raw mut status))?;
        let Ok(slot) = slot else { return Ok(()) };
        let is_done = self.host.covers(&self.streams[slot].clock);
        let right = match (code, status) {
            (SUCCESS, 0) => !self.is_held(&self.streams[slot].clock),
            (SUCCESS, 1) => !is_done,
            (SUCCESS, _) => false,
            _ => true,
        };
        if !right {
            return Err(self.difference(format!("the status of the stream is {status}")));
        }
        if code != SUCCESS || status == 0 {
            self.told(slot, code);
        }
        Ok(())
    }

    pub(super) fn stream_id(&mut self) -> Outcome {
        let (handle, mut id) = (self.some_stream(), -1);
        let want = [self.stream_of(handle).err().unwrap_or(SUCCESS)];
        call!(self, want, aclrtStreamGetId(handle, &raw mut id)).map(drop)
    }

    /// Blocks a stream, so that what follows is surely not done yet.
    pub(super) fn block(&mut self) -> Outcome {
        let handle = self.some_stream();
        let Ok(slot) = self.stream_of(handle) else { return Ok(()) };
        if self.gates.len() >= 3 || self.streams[slot].trouble != Trouble::None {
            self.open_gates();
            return Ok(());
        }
        let (_, number) = self.tick(slot);
        self.report.count("aclrtLaunchHostFunc", SUCCESS);
        self.gates.push((slot, number, block(handle)));
        Ok(())
    }

    pub(super) fn synchronize_device(&mut self) -> Outcome {
        let Some(device) = self.current_device() else {
            return call!(self, [CONTEXT_NULL], aclrtSynchronizeDevice()).map(drop);
        };
        let limit = self.choose.pick(&[-1, 20_000, 0, -7]);
        if limit == 0 || limit == -7 {
            return call!(self, [RT_PARAM_INVALID], aclrtSynchronizeDeviceWithTimeout(limit)).map(drop);
        }
        self.open_gates();
        let want = self.device_codes(device);
        let code = call!(self, want, aclrtSynchronizeDeviceWithTimeout(limit))?;
        self.told_device(device, code);
        let here = self.streams.iter().filter(|s| s.device == device && s.is_alive);
        let clocks: Vec<_> = here.map(|stream| stream.clock.clone()).collect();
        clocks.iter().for_each(|clock| self.host.join(clock));
        Ok(())
    }
}
