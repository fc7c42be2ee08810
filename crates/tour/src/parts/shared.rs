//! Memory between processes: by a key, and as physical memory by a shareable handle.

use std::ffi::{CString, c_char, c_void};

use ferry_abi::error::{ensure, refused};
use ferry_abi::memory::{self, BlockPart, Home, get, put};
use ferry_abi::{Error, Handle, Library, Result, call, kind};

use super::mapping::{AddressRange, Physical, granularity};
use crate::child::{Child, Parent, Role};
use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("by key: read, written back, kept when freed", "207006, then ok", by_key),
    part("shareable handles, both versions of the calls", "mapped in both", by_handle),
    part("of another device: asynchronous D2D only", "X6", from_another_device),
];

/// What the other processes do.
pub const ROLES: &[(&str, Role)] = &[("key", key_role), ("handle", handle_role), ("far", far_role)];

/// Characters of a key and the terminating NUL.
const KEY_LEN: usize = 65;
/// Export flag: every process that has the key may import it.
const WITHOUT_LIST: u64 = 1;

/// aclrtIpcMemGetExportKey.
fn export(library: &Library, span: BlockPart, flags: u64) -> Result<CString> {
    let mut key: [c_char; KEY_LEN] = [0; KEY_LEN];
    // SAFETY: the key has the documented size and is writable for the time of the call.
    unsafe {
        call!(library, aclrtIpcMemGetExportKey(span.at(), span.len(), key.as_mut_ptr(), KEY_LEN, flags))
    }?;
    let bytes: Vec<u8> = key.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    ensure(bytes.len() == KEY_LEN - 1, "characters of a key", KEY_LEN - 1, bytes.len())?;
    c_string(bytes)
}

fn c_string(text: impl Into<Vec<u8>>) -> Result<CString> {
    CString::new(text).map_err(|error| Error::Setup(format!("a key: {error}")))
}

/// aclrtIpcMemClose.
fn close(library: &Library, key: &CString) -> Result<()> {
    // SAFETY: the key is a C string.
    unsafe { call!(library, aclrtIpcMemClose(key.as_ptr())) }
}

/// Memory of another process, closed on drop.
struct Imported {
    library: &'static Library,
    key: CString,
    at: *mut c_void,
    len: usize,
}

impl Imported {
    /// aclrtIpcMemImportByKey.
    fn new(library: &'static Library, key: &CString, len: usize, flags: u64) -> Result<Imported> {
        let mut at = std::ptr::null_mut();
        // SAFETY: the key is a C string, and `at` is writable for the time of the call.
        unsafe { call!(library, aclrtIpcMemImportByKey(&mut at, key.as_ptr(), flags)) }?;
        Ok(Imported { library, key: key.clone(), at, len })
    }

    fn all(&self) -> BlockPart<'_> {
        // SAFETY: the library made the address, and only the library is given the part.
        unsafe { BlockPart::of(self, self.at, self.len) }
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        let _ = close(self.library, &self.key);
    }
}

/// The other process is refused until it is listed, writes the memory, and still has it when it is freed
/// here.
fn by_key(ctx: &mut Ctx) -> Result<Proof> {
    let (library, len) = (ctx.library, ctx.small());
    let memory = ctx.block(Home::Device, &pattern(1, len))?;
    let key = export(library, memory.all(), 0)?;
    let mut child = Child::start("key", &[])?;
    child.say(key.to_string_lossy());
    child.say(len);
    child.expect("refused")?;
    child.expect(&child.pid().to_string())?;
    // SAFETY: the key is a C string, and there is one number.
    unsafe { call!(library, aclrtIpcMemSetImportPid(key.as_ptr(), &mut child.pid(), 1)) }?;
    child.say("listed");
    child.expect("wrote")?;
    ctx.verify("what the other process wrote", &memory, &pattern(2, len))?;
    close(library, &key)?;
    memory.free()?;
    child.say("freed");
    child.end(ctx)?;
    ctx.proof()
}

fn key_role(ctx: &mut Ctx, parent: &mut Parent) -> Result<()> {
    let library = ctx.library;
    let (key, len) = (c_string(parent.hear()?)?, parent.hear_number()?);
    let early = Imported::new(library, &key, len, 0).map(drop);
    refused("an import by a process that is not listed", 207006, early)?;
    parent.say("refused");
    let mut pid = 0;
    // SAFETY: `pid` is writable for the time of the call.
    unsafe { call!(library, aclrtDeviceGetBareTgid(&mut pid)) }?;
    parent.say(pid);
    parent.hear()?;
    let imported = Imported::new(library, &key, len, 0)?;
    ctx.verify_bytes("imported memory", &get(library, imported.all())?, &pattern(1, len))?;
    let (source, own) = (ctx.block(Home::Locked, &pattern(2, len))?, ctx.block(Home::Device, &vec![0; len])?);
    let stream = ctx.stream()?;
    stream.copy(own.all(), imported.all(), kind::DEVICE_TO_DEVICE)?;
    stream.copy(imported.all(), source.all(), kind::HOST_TO_DEVICE)?;
    stream.synchronise()?;
    ctx.verify("a copy of imported memory", &own, &pattern(1, len))?;
    parent.say("wrote");
    parent.hear()?;
    ctx.verify_bytes("imported memory, freed there", &get(library, imported.all())?, &pattern(2, len))?;
    // SAFETY: takes an address, which the library looks up; it refuses this one.
    let freed = unsafe { call!(library, aclrtFree(imported.at)) };
    refused("aclrtFree of imported memory", 107000, freed)?;
    drop(imported);
    refused("closing twice", 107000, close(library, &key))
}

/// Which of the two versions of the calls for shareable handles.
#[derive(Clone, Copy)]
struct HandleCalls {
    second: bool,
}

impl HandleCalls {
    const DEFAULT: i32 = 1;

    fn export(self, library: &Library, physical: &Physical) -> Result<u64> {
        let mut shareable = 0u64;
        let to: *mut u64 = &mut shareable;
        // SAFETY: `shareable` is writable for the time of the call, and what the share type says.
        unsafe {
            match self.second {
                false => call!(library, aclrtMemExportToShareableHandle(physical.handle, 0, 0, to)),
                true => {
                    let kind = HandleCalls::DEFAULT;
                    call!(library, aclrtMemExportToShareableHandleV2(physical.handle, 0, kind, to.cast()))
                }
            }
        }?;
        Ok(shareable)
    }

    fn list(self, library: &Library, mut shareable: u64, mut pid: i32) -> Result<()> {
        let from: *mut u64 = &mut shareable;
        // SAFETY: there is one number and one shareable handle.
        unsafe {
            match self.second {
                false => call!(library, aclrtMemSetPidToShareableHandle(shareable, &mut pid, 1)),
                true => {
                    let kind = HandleCalls::DEFAULT;
                    call!(library, aclrtMemSetPidToShareableHandleV2(from.cast(), kind, &mut pid, 1))
                }
            }
        }
    }

    fn import(self, library: &'static Library, mut shareable: u64, len: usize) -> Result<Physical> {
        let mut handle: Handle = std::ptr::null_mut();
        let from: *mut u64 = &mut shareable;
        // SAFETY: `handle` is writable for the time of the call, and there is one shareable handle.
        unsafe {
            match self.second {
                false => call!(library, aclrtMemImportFromShareableHandle(shareable, 0, &mut handle)),
                true => {
                    let kind = HandleCalls::DEFAULT;
                    call!(library, aclrtMemImportFromShareableHandleV2(from.cast(), kind, 0, &mut handle))
                }
            }
        }?;
        Ok(Physical::imported(library, handle, len))
    }
}

fn by_handle(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let len = granularity(library, 0)? * 16;
    for second in [false, true] {
        let version = HandleCalls { second };
        let (physical, mut range) = (Physical::new(library, 0, len)?, AddressRange::new(library, len)?);
        range.map(0, &physical)?;
        put(library, range.all(), &pattern(1, len))?;
        let shareable = version.export(library, &physical)?;
        let mut child = Child::start("handle", &[])?;
        child.say(u8::from(second));
        child.say(shareable);
        child.say(len);
        child.expect("refused")?;
        version.list(library, shareable, child.pid())?;
        child.say("listed");
        child.expect("wrote")?;
        ctx.verify_bytes("what the other process wrote", &get(library, range.all())?, &pattern(2, len))?;
        range.unmap(0)?;
        physical.free()?;
        child.say("freed");
        child.end(ctx)?;
    }
    ctx.proof()
}

fn handle_role(ctx: &mut Ctx, parent: &mut Parent) -> Result<()> {
    let library = ctx.library;
    let version = HandleCalls { second: parent.hear()? == "1" };
    let (shareable, len) = (parent.hear_number()?, parent.hear_number()?);
    let early = version.import(library, shareable, len).map(drop);
    refused("an import by a process that is not listed", 207006, early)?;
    parent.say("refused");
    parent.hear()?;
    let (physical, mut range) = (version.import(library, shareable, len)?, AddressRange::new(library, len)?);
    range.map(0, &physical)?;
    ctx.verify_bytes("imported physical memory", &get(library, range.all())?, &pattern(1, len))?;
    put(library, range.all(), &pattern(2, len))?;
    parent.say("wrote");
    parent.hear()?;
    physical.free()?;
    ctx.verify_bytes("the same, freed in both", &get(library, range.all())?, &pattern(2, len))
}

fn from_another_device(ctx: &mut Ctx) -> Result<Proof> {
    // Fails with `NotHere` if there is no second device.
    ctx.on(1, || Ok(()))?;
    let (library, len) = (ctx.library, 1 << 20);
    let memory = ctx.block(Home::Device, &pattern(1, len))?;
    let key = export(library, memory.all(), WITHOUT_LIST)?;
    let mut child = Child::start("far", &[])?;
    child.say(key.to_string_lossy());
    child.say(len);
    child.expect("wrote")?;
    ctx.verify("what the other process wrote", &memory, &pattern(2, len))?;
    child.end(ctx)?;
    close(library, &key)?;
    ctx.proof()
}

fn far_role(ctx: &mut Ctx, parent: &mut Parent) -> Result<()> {
    const PEER_ACCESS: u64 = 1;
    let library = ctx.library;
    let (key, len) = (c_string(parent.hear()?)?, parent.hear_number()?);
    ctx.current(1)?;
    let imported = Imported::new(library, &key, len, PEER_ACCESS)?;
    let (host, own) =
        (ctx.block(Home::Locked, &pattern(2, len))?, ctx.block(Home::Device, &pattern(3, len))?);
    let stream = ctx.stream()?;
    let far = imported.all();
    for (what, outcome) in [
        ("host to device", stream.copy(far, host.all(), kind::HOST_TO_DEVICE)),
        ("device to host", stream.copy(host.all(), far, kind::DEVICE_TO_HOST)),
        ("the kind from the addresses", stream.copy(host.all(), far, kind::DEFAULT)),
        ("synchronous", memory::copy(library, own.all(), far, kind::DEVICE_TO_DEVICE)),
    ] {
        refused(what, 107000, outcome)?;
    }
    ctx.verify("memory of refused copies", &own, &pattern(3, len))?;
    stream.copy(own.all(), far, kind::DEVICE_TO_DEVICE)?;
    stream.synchronise()?;
    ctx.verify("a copy of the other device's memory", &own, &pattern(1, len))?;
    own.put(&pattern(2, len))?;
    stream.copy(far, own.all(), kind::DEVICE_TO_DEVICE)?;
    stream.synchronise()?;
    parent.say("wrote");
    Ok(())
}
