//! Small questions in between: they change nothing, and their answers are known.

use super::mirror::Origin;
use super::places::Wanted;
use super::world::{DEVICES, Outcome, World, call};
use crate::code::*;
use crate::{
    aclrtGetDeviceCount, aclrtGetMemInfo, aclrtGetRunMode, aclrtHostGetDevicePointer,
    aclrtMemGetAllocationGranularity, aclrtQueryEventWaitStatus, aclrtSetStreamFailureMode, properties,
};

impl World {
    pub(super) fn ask(&mut self) -> Outcome {
        match self.choose.below(6) {
            0 => self.memory_info(),
            1 => self.device_count(),
            2 => self.wait_status(),
            3 => self.device_pointer(),
            4 => self.granularity(),
            _ => self.failure_mode(),
        }
    }

    fn memory_info(&mut self) -> Outcome {
        let (mut free, mut total) = (1, 0);
        let attr = self.choose.pick(&[0, 1, 2, 12, -1, 18, i32::MAX]);
        let is_known = (0..18).contains(&attr);
        let want = [self.context().err().unwrap_or(if is_known { SUCCESS } else { RT_PARAM_INVALID })];
        let code = call!(self, want, aclrtGetMemInfo(attr, &raw mut free, &raw mut total))?;
        if code == SUCCESS && free > total {
            return Err(self.difference(format!("{free} bytes of {total} are free")));
        }
        Ok(())
    }

    fn device_count(&mut self) -> Outcome {
        let (mut count, mut mode) = (0, -1);
        call!(self, [SUCCESS], aclrtGetDeviceCount(&raw mut count))?;
        call!(self, [SUCCESS], aclrtGetRunMode(&raw mut mode))?;
        if count != DEVICES || mode != i32::from(!self.row.is_unified()) {
            return Err(self.difference(format!("there are {count} devices, and the mode is {mode}")));
        }
        Ok(())
    }

    fn wait_status(&mut self) -> Outcome {
        let (handle, mut status) = (self.some_event(), -1);
        let slot = self.event_of(handle);
        let is_new = slot.is_ok_and(|slot| self.events[slot].made == super::events::EX);
        let want = [slot.err().unwrap_or(if is_new { RT_PARAM_INVALID } else { SUCCESS })];
        call!(self, want, aclrtQueryEventWaitStatus(handle, &raw mut status)).map(drop)
    }

    /// The device's address of host memory: only memory that was registered as mapped has one, which is not
    /// asked for here.
    fn device_pointer(&mut self) -> Outcome {
        let host = self.some_area(Wanted::Host).map_or(self.holdings.hole, |area| area.base);
        let is_registered = self.mirror.around(host).is_some_and(|view| view.origin == Origin::Registered);
        let mut there = 0;
        let flag = self.choose.pick(&[0, 0, 1]);
        let want = match (self.context(), flag) {
            (Err(code), _) => vec![code],
            (_, 1) => vec![RT_PARAM_INVALID],
            _ if is_registered => vec![SUCCESS, RT_PARAM_INVALID], // mapped, too, or only page-locked
            _ => vec![NOT_REGISTERED],
        };
        call!(self, want, aclrtHostGetDevicePointer(host, &raw mut there, flag)).map(drop)
    }

    fn granularity(&mut self) -> Outcome {
        let (mut bytes, attribute) = (0, self.choose.pick(&[12, 5, 12, -1, 99]));
        let (device, option) = (self.choose.pick(&[0, 1, 0, 1, DEVICES]), self.choose.pick(&[0, 1, 0, 2]));
        let mut property = properties(attribute, device);
        let mut bad = vec![];
        if self.is_strict && self.current.is_none() {
            bad = vec![CONTEXT_NULL];
        } else {
            bad.extend((option > 1 || !(0..18).contains(&attribute)).then_some(RT_PARAM_INVALID));
            bad.extend((device >= DEVICES).then_some(INVALID_DEVICEID));
        }
        let want = if bad.is_empty() { vec![SUCCESS] } else { bad };
        let code =
            call!(self, want, aclrtMemGetAllocationGranularity(&raw mut property, option, &raw mut bytes))?;
        if code == SUCCESS && !(bytes >= 4096 && bytes.is_power_of_two()) {
            return Err(self.difference(format!("the granularity is {bytes}")));
        }
        Ok(())
    }

    /// A mode that there is not; setting one that stops a context is left to the tests of failures.
    fn failure_mode(&mut self) -> Outcome {
        let handle = self.some_stream();
        let want = [self.stream_of(handle).err().unwrap_or(RT_PARAM_INVALID)];
        call!(self, want, aclrtSetStreamFailureMode(handle, 7)).map(drop)
    }
}
