//! What fits into the memory of the machine and of its devices, and which devices reach each other.

use ferry_abi::peer::PeerAccess;
use ferry_abi::session::Session;
use ferry_abi::{Error, Result};
use ferry_terminal::bytes;

use crate::route::Route;
use crate::sides;

/// Over how many bytes the pieces of a batch are scattered: as many as asked for, or fewer where memory is
/// short, which the note says. There are as many regions on each side as the route has ways.
pub fn region(
    session: &Session,
    spread: usize,
    payload: usize,
    ways: usize,
) -> Result<(usize, Option<String>)> {
    let most = most(session)? / ways;
    let mut region = spread.max((payload * 2).next_power_of_two());
    while region > most && region > payload * 2 {
        region /= 2;
    }
    if region > most {
        return Err(too_much(region * 2));
    }
    let note = || format!("scattered over {} only: there is no memory for more", bytes(region));
    Ok((region, (region < spread).then(note)))
}

/// The longest block that a case may have: all contenders have two at the same time, and some a little more.
fn most(session: &Session) -> Result<usize> {
    Ok((session.library.memory_info()?.0 / 3).min(sides::available_memory()? / 9))
}

/// Fails where blocks of `room` bytes would not fit.
pub fn must_fit(session: &Session, room: usize) -> Result<()> {
    if room > most(session)? { Err(too_much(room * 2)) } else { Ok(()) }
}

/// Fails where the host has not so much memory.
pub fn must_have(need: usize) -> Result<()> {
    if need <= sides::available_memory()? {
        return Ok(());
    }
    Err(Error::NotHere(format!("needs {} of host memory", bytes(need))))
}

fn too_much(need: usize) -> Error {
    Error::NotHere(format!("needs {} on a device, and as much again for each peer", bytes(need)))
}

/// Enables peer access from device 0 to the device of the route.
pub fn reach(session: &Session, route: Route) -> Result<PeerAccess> {
    if route.device >= session.devices {
        return Err(Error::NotHere(format!(
            "needs {} devices, there are {}",
            route.device + 1,
            session.devices
        )));
    }
    PeerAccess::enable(session.library, 0, route.device as i32)
}
