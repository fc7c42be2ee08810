//! Copies between two devices, which need peer access.

use ferry_abi::error::refused;
use ferry_abi::memory::Home;
use ferry_abi::peer::PeerAccess;
use ferry_abi::{Result, kind};

use super::around::Around;
use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::proof::Proof;

/// Copies between the devices are refused until device 0 has enabled peer access; then both kinds that fit
/// copy both ways, for device 0 only.
pub fn between_devices(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.large();
    let (mut near, far) = (Around::new(1, len), pattern(2, len));
    let peer = ctx.on(1, || ctx.block(Home::Device, &far))?;
    let own = ctx.block(Home::Device, &near.bytes)?;
    let stream = ctx.stream()?;
    let early = stream.copy(near.inside(&own), peer.all(), kind::DEVICE_TO_DEVICE);
    refused("a copy before aclrtDeviceEnablePeerAccess", 107000, early)?;
    ctx.verify("the target of a refused copy", &own, &near.bytes)?;

    let _access = PeerAccess::enable(ctx.library, 0, 1)?;
    let time = ctx.best(|| {
        stream.copy(near.inside(&own), peer.all(), kind::DEVICE_TO_DEVICE)?;
        stream.synchronise()
    })?;
    near.write(&far);
    ctx.verify("memory of device 0", &own, &near.bytes)?;
    let back = pattern(3, len);
    let source = ctx.block(Home::Device, &back)?;
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
