//! Copy kinds: what each demands of the two addresses.

use crate::{
    Error,
    constants::{self as c, *},
    error::fail,
    state::OpenedEngine,
};
use ferry_core::{Block, Ends, Kind, Origin, Place, Result, Route, sync::lock};

/// aclrtMemcpyKind, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CopyKind {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    Default,
    HostToBufToDevice,
    InnerDeviceToDevice,
    InterDeviceToDevice,
}

use CopyKind::*;

const NAMES: [(CopyKind, i32, &str); 8] = [
    (HostToHost, ACL_MEMCPY_HOST_TO_HOST, "ACL_MEMCPY_HOST_TO_HOST"),
    (HostToDevice, ACL_MEMCPY_HOST_TO_DEVICE, "ACL_MEMCPY_HOST_TO_DEVICE"),
    (DeviceToHost, ACL_MEMCPY_DEVICE_TO_HOST, "ACL_MEMCPY_DEVICE_TO_HOST"),
    (DeviceToDevice, ACL_MEMCPY_DEVICE_TO_DEVICE, "ACL_MEMCPY_DEVICE_TO_DEVICE"),
    (Default, ACL_MEMCPY_DEFAULT, "ACL_MEMCPY_DEFAULT"),
    (HostToBufToDevice, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, "ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE"),
    (InnerDeviceToDevice, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, "ACL_MEMCPY_INNER_DEVICE_TO_DEVICE"),
    (InterDeviceToDevice, ACL_MEMCPY_INTER_DEVICE_TO_DEVICE, "ACL_MEMCPY_INTER_DEVICE_TO_DEVICE"),
];

impl TryFrom<i32> for CopyKind {
    type Error = Error;
    fn try_from(value: i32) -> crate::Result<Self> {
        let found = usize::try_from(value).ok().and_then(|index| NAMES.get(index));
        found.map(|(kind, ..)| *kind).ok_or_else(|| {
            fail(
                c::ACL_ERROR_INVALID_PARAM,
                format!("kind is {value}: not a member of aclrtMemcpyKind (0 to 7)"),
            )
        })
    }
}

impl CopyKind {
    /// The C name.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].2
    }

    /// Refuses any kind that is not among `allowed`: the code that the documents give for it.
    pub fn only(self, allowed: &[CopyKind]) -> crate::Result<Self> {
        if allowed.contains(&self) {
            return Ok(self);
        }
        let names: Vec<_> = allowed.iter().map(|kind| kind.name()).collect();
        let note = format!("kind is {}: this function takes {} only", self.name(), names.join(", "));
        Err(fail(c::ACL_ERROR_INVALID_PARAM, note))
    }

    /// Documented: asynchronous copies inside the host are not supported on a card. Where host and device
    /// memory are one they are copies inside the device.
    pub fn not_inside_host(self, engine: &OpenedEngine) -> crate::Result<Self> {
        if self != HostToHost || engine.is_unified() {
            return Ok(self);
        }
        Err(fail(
            c::ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "kind is ACL_MEMCPY_HOST_TO_HOST: copies inside the host are not asynchronous; use aclrtMemcpy \
             or memcpy, or the kind that fits the addresses",
        ))
    }

    /// Whether the addresses are what the kind says, and the device that does the copy may reach them.
    #[inline(always)]
    pub fn agrees(self, ends: &Ends, engine: &OpenedEngine, device: u32) -> Result<()> {
        let route = ends.route();
        if is_far(ends) && !self.reaches_far(route, engine) {
            return Err(self.too_far());
        }
        if !self.fits(route) {
            self.agrees_at_all(route, engine)?;
        }
        reachable(route, engine, device)
    }

    /// Whether a copy is sure to be right, as most are: of this kind, by the stream's device, with no other
    /// device taking part.
    pub fn is_simple(self, ends: &Ends) -> bool {
        let route = ends.route();
        let is_across = matches!(route, Route::DeviceToDevice { from, to } if from != to);
        self != HostToBufToDevice && self.fits(route) && !is_far(ends) && !is_across
    }

    /// Whether the kind names this route on a card.
    #[inline(always)]
    fn fits(self, route: Route) -> bool {
        match (self, route) {
            (Default, route) => route != Route::HostToHost,
            (HostToDevice | HostToBufToDevice, Route::HostToDevice { .. }) => true,
            (DeviceToHost, Route::DeviceToHost { .. }) => true,
            (DeviceToDevice, Route::DeviceToDevice { .. }) => true,
            (InnerDeviceToDevice, Route::DeviceToDevice { from, to }) => from == to,
            (InterDeviceToDevice, Route::DeviceToDevice { from, to }) => from != to,
            _ => false,
        }
    }

    /// Whether a kind that does not name the route is right all the same.
    #[cold]
    fn agrees_at_all(self, route: Route, engine: &OpenedEngine) -> Result<()> {
        if engine.is_unified() {
            return self.agrees_in_one_memory(route);
        }
        if self == Default {
            return Err(inside_host());
        }
        Err(Kind::BadRoute.because(format!(
            "kind {} contradicts the addresses; {} would fit",
            self.name(),
            fitting(route).map_or("no asynchronous kind", CopyKind::name)
        )))
    }

    /// Documented: only asynchronous copies inside the device reach memory that another process exported on
    /// another device. ACL_MEMCPY_DEFAULT is accepted for such copies, unless FERRY_STRICT is set.
    #[cold]
    fn reaches_far(self, route: Route, engine: &OpenedEngine) -> bool {
        match self {
            DeviceToDevice | InnerDeviceToDevice => true,
            Default => matches!(route, Route::DeviceToDevice { .. }) && !engine.settings.strict,
            _ => false,
        }
    }

    #[cold]
    fn too_far(self) -> ferry_core::Error {
        Kind::BadRoute.because(format!(
            "kind {} with memory that another process exported on another device: only \
             ACL_MEMCPY_DEVICE_TO_DEVICE, asynchronous and between device memory, reaches it",
            self.name()
        ))
    }

    /// Documented for boards and control CPUs: whatever the kind says, the copy is one inside the device.
    fn agrees_in_one_memory(self, route: Route) -> Result<()> {
        let apart = matches!(route, Route::DeviceToDevice { from, to } if from != to);
        match self {
            InterDeviceToDevice if !apart => {
                let note = "kind ACL_MEMCPY_INTER_DEVICE_TO_DEVICE, but the addresses are not of two devices";
                Err(Kind::BadRoute.because(note))
            }
            InnerDeviceToDevice if apart => {
                let note = "kind ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, but the addresses are of two devices";
                Err(Kind::BadRoute.because(note))
            }
            _ => Ok(()),
        }
    }
}

/// Whether an end is memory that another process exported on a device other than the current one.
#[inline(always)]
fn is_far(ends: &Ends) -> bool {
    let far = |place: &Place| matches!(place, Place::Known(Block { origin: Origin::ImportedFar, .. }));
    far(&ends.dst) || far(&ends.src)
}

/// Documented: synchronous copies do not reach memory that another process exported on another device.
pub fn not_far(ends: &Ends) -> Result<()> {
    if !is_far(ends) {
        return Ok(());
    }
    Err(Kind::BadRoute.because(
        "memory that another process exported on another device: only asynchronous copies inside the device \
         reach it",
    ))
}

/// Documented: memory mapped at reserved addresses is copied between devices by aclrtMemcpyAsync only.
pub fn not_mapped_across(ends: &Ends) -> Result<()> {
    let mapped = |place: &Place| matches!(place, Place::Known(Block { origin: Origin::Mapped, .. }));
    match ends.route() {
        Route::DeviceToDevice { from, to } if from != to && (mapped(&ends.dst) || mapped(&ends.src)) => {
            Err(Kind::BadRoute.because(format!(
                "memory of aclrtMapMem, and devices {from} and {to}: only aclrtMemcpyAsync copies it between \
                 devices"
            )))
        }
        _ => Ok(()),
    }
}

/// A copy between two devices needs that the device which does it has enabled access to the other.
#[inline]
pub fn reachable(route: Route, engine: &OpenedEngine, device: u32) -> Result<()> {
    let Route::DeviceToDevice { from, to } = route else { return Ok(()) };
    // Both ends are on one device: no peer access is needed.
    if from == to {
        return Ok(());
    }
    reachable_peer(from, to, engine, device)
}

fn reachable_peer(from: u32, to: u32, engine: &OpenedEngine, device: u32) -> Result<()> {
    let peers = lock(&engine.peers);
    let missing = [from, to].into_iter().find(|other| *other != device && !peers.contains(&(device, *other)));
    match missing {
        None => Ok(()),
        Some(other) => Err(Kind::BadRoute.because(format!(
            "device {device} has no access to device {other}: call aclrtDeviceEnablePeerAccess({other}, 0) \
             with device {device} current"
        ))),
    }
}

/// Field: where the quirk F3 is on, synchronous copies between two devices fail and change nothing.
pub fn not_synchronous_across(route: Route, engine: &OpenedEngine) -> Result<()> {
    match route {
        Route::DeviceToDevice { from, to }
            if from != to && engine.settings.quirks.synchronous_peer_copies_fail() =>
        {
            Err(Kind::Device.because(format!(
                "a synchronous copy between devices {from} and {to}: F3 of FERRY_QUIRKS is on; \
                 aclrtMemcpyAsync copies between them"
            )))
        }
        _ => Ok(()),
    }
}

fn fitting(route: Route) -> Option<CopyKind> {
    match route {
        Route::HostToHost => None,
        Route::HostToDevice { .. } => Some(HostToDevice),
        Route::DeviceToHost { .. } => Some(DeviceToHost),
        Route::DeviceToDevice { .. } => Some(DeviceToDevice),
    }
}

fn inside_host() -> ferry_core::Error {
    Kind::Unsupported.because(
        "both ends are host memory: copies inside the host are not asynchronous; use aclrtMemcpy or memcpy",
    )
}
