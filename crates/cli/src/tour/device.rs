//! Copies between two devices, which peer access must allow first.

use super::linear::Around;
use super::memory::Home;
use super::mirror::pattern;
use super::stream::kind;
use super::{Ctx, Proof};
use crate::error::{Result, ensure, refused};
use crate::library::Library;

/// Device 0 may not reach device 1 until it has asked to; then both kinds that fit copy both ways, for device 0 only.
pub fn peers(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.large();
    let (mut near, far) = (Around::new(1, len), pattern(2, len));
    let peer = ctx.on(1, || ctx.memory(Home::Device, &far))?;
    let own = ctx.memory(Home::Device, &near.bytes)?;
    let stream = ctx.stream()?;
    let early = stream.copy(near.inside(&own), peer.all(), kind::DEVICE_TO_DEVICE);
    refused("a copy before aclrtDeviceEnablePeerAccess", 107000, early)?;
    ctx.verify("the target of a refused copy", &own, &near.bytes)?;

    let _access = Access::enable(ctx.library, 0, 1)?;
    let time = ctx.best(|| {
        stream.copy(near.inside(&own), peer.all(), kind::DEVICE_TO_DEVICE)?;
        stream.synchronise()
    })?;
    near.write(&far);
    ctx.verify("memory of device 0", &own, &near.bytes)?;
    let back = pattern(3, len);
    let source = ctx.memory(Home::Device, &back)?;
    stream.copy(peer.all(), source.all(), kind::INTER_DEVICE_TO_DEVICE)?;
    stream.synchronise()?;
    ctx.verify("memory of device 1", &peer, &back)?;
    // Access is one way: device 1 has not asked for any.
    let other_way = ctx.on(1, || {
        let stream = ctx.stream()?;
        Ok(stream.copy(peer.all(), own.all(), kind::DEVICE_TO_DEVICE))
    })?;
    refused("a copy by the device that has no access", 107000, other_way)?;
    ctx.moved(len, time)
}

/// Peer access of the current device to another, until dropped.
pub struct Access {
    library: &'static Library,
    peer: i32,
}

impl Access {
    /// Asks whether it can be, and enables it.
    pub fn enable(library: &'static Library, own: i32, peer: i32) -> Result<Access> {
        let mut can = -1;
        // SAFETY: `can` is writable for the time of the call.
        let code = unsafe { (library.functions.aclrtDeviceCanAccessPeer)(&mut can, own, peer) };
        library.check("aclrtDeviceCanAccessPeer", code)?;
        ensure(can == 1, "aclrtDeviceCanAccessPeer", 1, can)?;
        // SAFETY: takes numbers.
        let code = unsafe { (library.functions.aclrtDeviceEnablePeerAccess)(peer, 0) };
        library.check("aclrtDeviceEnablePeerAccess", code)?;
        Ok(Access { library, peer })
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        // SAFETY: takes a number.
        unsafe { (self.library.functions.aclrtDeviceDisablePeerAccess)(self.peer) };
    }
}
