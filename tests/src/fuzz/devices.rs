//! Acts on devices, contexts and access between devices.

use super::world::{Context, DEVICES, Outcome, World, call};
use crate::code::*;
use crate::*;

/// Most that live at a time.
const CONTEXTS: usize = 5;

impl World {
    /// The device's default context becomes current, and is made where there is none.
    pub(super) fn set_device(&mut self, device: u32) -> Outcome {
        call!(self, [SUCCESS], aclrtSetDevice(device as i32))?;
        self.set_counts[device as usize] += 1;
        let known = self.contexts.iter().position(|c| c.is_alive && !c.is_explicit && c.device == device);
        let slot = known.map_or_else(|| self.add_current_context(device, false), Ok)?;
        self.current = Some(slot);
        Ok(())
    }

    /// Learns the handle of the context that is current.
    fn add_current_context(&mut self, device: u32, is_explicit: bool) -> Outcome<usize> {
        let mut handle = 0;
        call!(self, [SUCCESS], aclrtGetCurrentContext(&raw mut handle))?;
        if self.contexts.iter().any(|c| c.handle == handle) {
            return Err(self.difference(format!("the handle {handle:#x} of a new context is an old one's")));
        }
        let slot = self.contexts.len();
        let default_stream = self.streams.len();
        self.contexts.push(Context { handle, device, is_explicit, is_alive: true, default_stream });
        self.add_stream(0, slot);
        Ok(slot)
    }

    pub(super) fn change_device(&mut self) -> Outcome {
        match self.choose.below(8) {
            0 => {
                let bad = self.choose.pick(&[-1, DEVICES as i32, i32::MAX, i32::MIN]);
                call!(self, [INVALID_DEVICEID], aclrtSetDevice(bad)).map(drop)
            }
            1 => {
                let mut device = -1;
                let want = [self.context().err().unwrap_or(SUCCESS)];
                let code = call!(self, want, aclrtGetDevice(&raw mut device))?;
                match self.current_device() {
                    Some(right) if code == SUCCESS && device != right as i32 => {
                        Err(self.difference(format!("the current device is {device}, not {right}")))
                    }
                    _ => Ok(()),
                }
            }
            2 => self.reset_device(),
            _ => {
                let device = self.choose.below(DEVICES as usize) as u32;
                self.set_device(device)
            }
        }
    }

    /// Takes one count of the device back; the last takes its default context and all streams in it.
    fn reset_device(&mut self) -> Outcome {
        let device = self.choose.below(DEVICES as usize);
        let count = self.set_counts[device];
        let want = [if count == 0 { CONTEXT_NULL } else { SUCCESS }];
        if count == 1 {
            self.wait_for_all()?;
        }
        call!(self, want, aclrtResetDevice(device as i32))?;
        self.set_counts[device] = count.saturating_sub(1);
        if count == 1 {
            let ends = |c: &Context| c.is_alive && !c.is_explicit && c.device == device as u32;
            let slot = self.contexts.iter().position(ends);
            slot.into_iter().for_each(|slot| self.end_context(slot));
        }
        Ok(())
    }

    fn end_context(&mut self, slot: usize) {
        self.contexts[slot].is_alive = false;
        for stream in self.streams.iter_mut().filter(|s| s.context == slot) {
            stream.is_alive = false;
        }
        if self.current == Some(slot) {
            self.current = None;
        }
    }

    pub(super) fn change_context(&mut self) -> Outcome {
        let alive = self.contexts.iter().filter(|c| c.is_alive).count();
        match self.choose.below(6) {
            0 if alive < CONTEXTS => self.create_context(),
            1 => self.destroy_context(),
            _ => {
                let handle = self.some_context();
                let slot = self.contexts.iter().position(|c| c.is_alive && c.handle == handle);
                let want = [match slot {
                    _ if handle == 0 => INVALID_PARAM,
                    None => INVALID_HANDLE,
                    Some(_) => SUCCESS,
                }];
                if call!(self, want, aclrtSetCurrentContext(handle))? == SUCCESS {
                    self.current = slot;
                }
                Ok(())
            }
        }
    }

    fn some_context(&mut self) -> usize {
        let alive: Vec<_> = self.contexts.iter().filter(|c| c.is_alive).map(|c| c.handle).collect();
        let all: Vec<_> = self.contexts.iter().map(|c| c.handle).collect();
        match self.choose.below(16) {
            0 => self.choose.pick(&[0, 1, usize::MAX, 0x7fff_0000_0000]),
            1 if !all.is_empty() => self.choose.pick(&all),
            _ if !alive.is_empty() => self.choose.pick(&alive),
            _ => 0,
        }
    }

    fn create_context(&mut self) -> Outcome {
        let (mut handle, device) = (0, self.choose.pick(&[0, 1, 0, 1, 0, 1, -1, DEVICES as i32]));
        let is_known = (0..DEVICES as i32).contains(&device);
        let want = [if is_known { SUCCESS } else { INVALID_DEVICEID }];
        if call!(self, want, aclrtCreateContext(&raw mut handle, device))? == SUCCESS {
            self.current = Some(self.add_current_context(device as u32, true)?);
        }
        Ok(())
    }

    fn destroy_context(&mut self) -> Outcome {
        let handle = self.some_context();
        let slot = self.contexts.iter().position(|c| c.is_alive && c.handle == handle);
        let want = [match slot {
            _ if handle == 0 => INVALID_PARAM,
            None => INVALID_HANDLE,
            Some(slot) if !self.contexts[slot].is_explicit => RT_PARAM_INVALID,
            Some(_) => {
                self.wait_for_all()?;
                SUCCESS
            }
        }];
        if let (SUCCESS, Some(slot)) = (call!(self, want, aclrtDestroyContext(handle))?, slot) {
            self.end_context(slot);
        }
        Ok(())
    }

    /// After a call without a context there should be one again before long.
    pub(super) fn recover(&mut self) -> Outcome {
        if self.current.is_none() && self.choose.below(4) == 0 {
            let device = self.choose.below(DEVICES as usize) as u32;
            return self.set_device(device);
        }
        Ok(())
    }

    /// Destroys what is left.
    pub(super) fn end_handles(&mut self) -> Outcome {
        for slot in 0..self.events.len() {
            let event = &mut self.events[slot];
            let (handle, was_alive) = (event.handle, std::mem::replace(&mut event.is_alive, false));
            if was_alive {
                call!(self, [SUCCESS], aclrtDestroyEvent(handle))?;
            }
        }
        for slot in 0..self.contexts.len() {
            if self.contexts[slot].is_alive && self.contexts[slot].is_explicit {
                call!(self, [SUCCESS], aclrtDestroyContext(self.contexts[slot].handle))?;
                self.end_context(slot);
            }
        }
        for slot in 0..self.streams.len() {
            let (stream, is_default) = (&self.streams[slot], self.streams[slot].handle == 0);
            if stream.is_alive && !is_default {
                let (handle, context) = (stream.handle, stream.context);
                self.make_current(context)?;
                call!(self, [SUCCESS], aclrtDestroyStream(handle))?;
                self.streams[slot].is_alive = false;
            }
        }
        self.set_device(0)?;
        for (from, to) in std::mem::take(&mut self.peers) {
            self.set_device(from)?;
            call!(self, [SUCCESS], aclrtDeviceDisablePeerAccess(to as i32))?;
        }
        self.set_device(0)
    }

    /// Resets the devices as often as they were set.
    pub(super) fn reset_devices(&mut self) -> Outcome {
        for device in 0..DEVICES {
            for _ in 0..std::mem::take(&mut self.set_counts[device as usize]) {
                call!(self, [SUCCESS], aclrtResetDevice(device as i32))?;
            }
        }
        Ok(())
    }

    pub(super) fn peers(&mut self) -> Outcome {
        let peer = self.choose.pick(&[0, 1, 0, 1, 0, 1, -1, DEVICES as i32]);
        let is_known = (0..DEVICES as i32).contains(&peer);
        if self.choose.below(4) == 0 {
            return self.ask_about_peers(peer, is_known);
        }
        let current = self.current_device();
        let enables = self.choose.below(4) != 0;
        let flags = if enables && self.choose.one_in(8) { 1 } else { 0 };
        let want = match current {
            None => vec![CONTEXT_NULL],
            Some(_) if flags != 0 && !is_known => vec![RT_PARAM_INVALID, INVALID_DEVICEID],
            Some(_) if flags != 0 => vec![RT_PARAM_INVALID],
            Some(_) if !is_known => vec![INVALID_DEVICEID],
            Some(device) if device as i32 == peer && enables => self.customary(),
            Some(device) if device as i32 == peer => vec![SUCCESS, RT_PARAM_INVALID], // no document tells
            Some(_) => vec![SUCCESS],
        };
        let code = if enables {
            call!(self, want, aclrtDeviceEnablePeerAccess(peer, flags))?
        } else {
            call!(self, want, aclrtDeviceDisablePeerAccess(peer))?
        };
        if let (SUCCESS, Some(device)) = (code, current.filter(|device| *device as i32 != peer)) {
            let pair = (device, peer as u32);
            if enables {
                self.peers.insert(pair)
            } else {
                self.peers.remove(&pair)
            };
        }
        Ok(())
    }

    fn ask_about_peers(&mut self, peer: i32, is_known: bool) -> Outcome {
        let (device, mut answer) = (self.choose.below(DEVICES as usize) as i32, -1);
        if self.choose.one_in(2) {
            let want = [match (is_known, device == peer) {
                (false, _) => INVALID_DEVICEID,
                (_, true) => RT_PARAM_INVALID,
                _ => SUCCESS,
            }];
            return call!(self, want, aclrtDeviceCanAccessPeer(&raw mut answer, device, peer)).map(drop);
        }
        let want = [if !is_known || device == peer { RT_PARAM_INVALID } else { SUCCESS }];
        let code = call!(self, want, aclrtDevicePeerAccessStatus(device, peer, &raw mut answer))?;
        let right = i32::from(self.peers.contains(&(device as u32, peer as u32)));
        if code == SUCCESS && answer != right {
            return Err(self.difference(format!("access from {device} to {peer} is {answer}, not {right}")));
        }
        Ok(())
    }
}
