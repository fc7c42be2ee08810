//! The importer's side: asks the exporter for memory, or for the table of an event or a notify, and keeps
//! the lease. Never waits for ever: an exporter
//! that is dead, stopped or not Ferry at all is told apart as far as that is possible.

use super::{
    socket::{Socket, SocketPeer, process, user, wait, watch},
    wire::{ANSWER, Answer, ExportKind, GOODBYE, Name},
};
use crate::{Error, Result, arguments::refuse, constants as c, error::fail, interrupt, state::Here};
use ferry::engine::files::Kept;
use ferry_core::{Kind, Shared};
use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long an exporter may take to answer: it may be busy, or swapped out, or stopped.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// As long as this lives, the exporter keeps the memory.
pub struct ImportLease {
    socket: Socket,
}

impl Drop for ImportLease {
    fn drop(&mut self) {
        // An exporter that does not hear this keeps the memory until this process ends, and no harm is done.
        let _ = self.socket.send(&GOODBYE, None);
    }
}

/// Memory of another process.
pub struct ImportedMemory {
    /// The memory.
    pub shared: Shared,
    /// The physical number of its device.
    pub device: u32,
    /// Keeps the memory with the exporter.
    pub lease: ImportLease,
}

/// Asks the exporter for the export of this name, and waits at most `limit` for the answer.
pub fn ask(here: &Here, name: &Name, limit: Duration) -> Result<ImportedMemory> {
    let end = Instant::now() + limit;
    let connected = Socket::connect(here, name.socket, end).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            gone(name, "its process has ended, or it is in another network namespace")
        }
        io::ErrorKind::TimedOut => silent(limit),
        io::ErrorKind::Interrupted => fail(c::ACL_ERROR_RT_IPC_ERROR, "a signal ended the wait"),
        _ => broken(&error),
    });
    // From here on whatever fails says goodbye: the exporter may have shared the memory already.
    let lease = ImportLease { socket: connected? };
    let exporter = lease.socket.peer().map_err(|error| broken(&error))?;
    if exporter.uid != user() {
        let note = format!("the exporter belongs to user {}, this process to user {}", exporter.uid, user());
        return Err(fail(c::ACL_ERROR_RT_IPC_ERROR, note));
    }
    match lease.socket.send(&name.to_question(), None) {
        // Turned away before it could ask: the answer says why.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(broken(&error)),
        _ => {}
    }
    let (answer, files) = receive(here, name, &lease.socket, exporter, (end, limit))?;
    let (device, shared) = understood(name, answer, files)?;
    Ok(ImportedMemory { shared, device, lease })
}

/// Waits for the answer, or for the end of the exporter.
fn receive(
    here: &Here,
    name: &Name,
    socket: &Socket,
    exporter: SocketPeer,
    (end, limit): (Instant, Duration),
) -> Result<(Answer, Vec<OwnedFd>)> {
    // A forked child of a dead exporter may hold its socket: watch the process itself, too.
    let process = match exporter.pid {
        0 => None,
        pid => process(pid).map_err(|_| gone(name, "its process has ended"))?,
    };
    let mut set = vec![watch(socket)];
    set.extend(process.as_ref().map(watch));
    wait_for_any(here, &mut set, end)?;
    if set[0].revents == 0 {
        let dead = set.get(1).is_some_and(|entry| entry.revents != 0);
        return Err(if dead { gone(name, "its process has ended") } else { silent(limit) });
    }
    let mut bytes = [0; ANSWER];
    let received = match socket.receive(&mut bytes) {
        // It left before it took the question, but may have left an answer: one that refuses every importer.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => socket.receive(&mut bytes),
        other => other,
    };
    let (len, files) = match received {
        Ok((0, _)) => {
            return Err(gone(name, "it closed the connection: it has ended, or takes this for nonsense"));
        }
        Ok(answer) => answer,
        Err(error) => return Err(broken(&error)),
    };
    let answer = bytes.get(..len).and_then(Answer::from_bytes);
    let strange =
        || fail(c::ACL_ERROR_RT_IPC_ERROR, "the exporter answers in a language that is not Ferry's");
    Ok((answer.ok_or_else(strange)?, files))
}

/// Waits until one of `set` is ready, or until `end`. Fails if a signal ended that.
fn wait_for_any(here: &Here, set: &mut [libc::pollfd], end: Instant) -> Result<()> {
    let mut failed = None;
    let waited = interrupt::wait(here, Some(end.saturating_duration_since(Instant::now())), |limit| {
        failed = wait(set, limit.map(|limit| Instant::now() + limit)).err();
        let is_over = failed.is_some() || set.iter().any(|entry| entry.revents != 0);
        if is_over { Ok(()) } else { Err(Kind::Timeout.because("no answer")) }
    });
    match (waited, failed) {
        (_, Some(error)) => Err(broken(&error)),
        (Err(error), None) if interrupt::is_interrupted(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

fn understood(name: &Name, answer: Answer, mut files: Vec<OwnedFd>) -> Result<(u32, Shared)> {
    match answer {
        Answer::Shared { device, offset, len } => {
            let file = files.pop().filter(|_| files.is_empty());
            let shared = file.and_then(|file| sound(file, offset, len));
            let strange = || fail(c::ACL_ERROR_RT_IPC_ERROR, "the exporter's answer brings no such memory");
            Ok((device, shared.ok_or_else(strange)?))
        }
        Answer::Unknown => {
            Err(refuse("the exporter knows nothing of that name: it was closed, or it was never given out"))
        }
        Answer::Freed => Err(refuse("the exporter has freed the memory")),
        Answer::NotListed => Err(not_listed(name)),
        Answer::Full => Err(fail(
            c::ACL_ERROR_RT_IPC_ERROR,
            "the exporter serves as many imports as it, or its limit of open files, can: close some of them; \
             or its program has closed descriptors that were Ferry's",
        )),
    }
}

/// The memory, if the file really has it: touching a file beyond its end would be fatal.
fn sound(file: OwnedFd, offset: u64, len: u64) -> Option<Shared> {
    let file = File::from(file);
    let facts = file.metadata().ok().filter(|facts| facts.is_file())?;
    let within = offset.checked_add(len).is_some_and(|end| end <= facts.len());
    let len = usize::try_from(len).ok().filter(|len| within && *len > 0)?;
    let file = Kept::open(|| Ok(file)).ok()?;
    Some(Shared { file: Arc::new(file), offset, len })
}

/// This process may not import what it asked for.
fn not_listed(name: &Name) -> Error {
    let (code, how) = match name.what {
        // Documented codes differ: what a driver refuses is told as its error.
        ExportKind::Notify => (c::ACL_ERROR_RT_DRV_INTERNAL_ERROR, "aclrtNotifySetImportPid"),
        _ => (c::ACL_ERROR_RT_NO_PERMISSION, "aclrtIpcMemSetImportPid or aclrtMemSetPidToShareableHandle"),
    };
    let note = format!(
        "process {} is not on the white list of the export: the exporter adds it with {how}, by the number \
         that aclrtDeviceGetBareTgid gives here (it differs where the two processes do not share a pid \
         namespace)",
        std::process::id()
    );
    fail(code, note)
}

/// The exporter has ended. An event of it went with it, as one that it destroyed.
fn gone(name: &Name, why: &str) -> Error {
    let code = match name.what {
        ExportKind::Event => c::ACL_ERROR_RT_PARAM_INVALID,
        _ => c::ACL_ERROR_RT_IPC_ERROR,
    };
    fail(code, format!("the exporter is gone: {why}"))
}

fn silent(limit: Duration) -> Error {
    let note = format!("the exporter did not answer within {limit:?}: it may be stopped");
    fail(c::ACL_ERROR_RT_IPC_ERROR, note)
}

fn broken(error: &io::Error) -> Error {
    fail(c::ACL_ERROR_RT_IPC_ERROR, format!("talking to the exporter failed: {error}"))
}
