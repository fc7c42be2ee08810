//! Peer access between two devices, for as long as a value lives.

use crate::error::{Result, ensure};
use crate::library::Library;

/// Peer access of the current device to another, until dropped.
pub struct PeerAccess {
    library: &'static Library,
    peer: i32,
}

impl PeerAccess {
    /// Fails unless the devices can reach each other, and enables it.
    pub fn enable(library: &'static Library, own: i32, peer: i32) -> Result<PeerAccess> {
        let mut can = -1;
        // SAFETY: `can` is writable for the time of the call.
        let code = unsafe { (library.functions.aclrtDeviceCanAccessPeer)(&mut can, own, peer) };
        library.check("aclrtDeviceCanAccessPeer", code)?;
        ensure(can == 1, "aclrtDeviceCanAccessPeer", 1, can)?;
        // SAFETY: takes numbers.
        let code = unsafe { (library.functions.aclrtDeviceEnablePeerAccess)(peer, 0) };
        library.check("aclrtDeviceEnablePeerAccess", code)?;
        Ok(PeerAccess { library, peer })
    }
}

impl Drop for PeerAccess {
    fn drop(&mut self) {
        // SAFETY: takes a number.
        unsafe { (self.library.functions.aclrtDeviceDisablePeerAccess)(self.peer) };
    }
}
