//! The exporter's side: one thread per process that answers importers, asleep while none asks.
//!
//! A connection asks once. If the memory is shared with it, it stays open and is the lease: the memory is
//! kept until the importer says goodbye or its process ends. A connection that is closed without a goodbye
//! may be one of a program that closes all descriptors and still uses the memory. A connection that stays
//! silent, says too much or makes no sense is closed, and so is one of another user.

use super::{
    exports::{ExportedMemory, Exports, no_service},
    socket::{Socket, WatchedProcess, process, random, user, wait, watch},
    wire::{Answer, Name, QUESTION},
};
use crate::Result;
use ferry::engine::{files::Kept, threads};
use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// How long a connection may take to ask.
const TIME_TO_ASK: Duration = Duration::from_secs(2);
/// How many connections may not have asked yet; the oldest goes when another one comes.
const MAX_SILENT: usize = 64;
/// How many importers there may be at a time.
const MAX_IMPORTERS: usize = 4096;
/// How long no connection is accepted after the system refused a descriptor.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of the thread's stack.
const STACK: usize = 256 << 10;

/// Starts the thread, on a socket whose number is not in use.
pub fn start() -> Result<Arc<Exports>> {
    let (number, listener) = find_socket().map_err(|why| no_service("a local socket", &why))?;
    let exports = Exports::new(number);
    let mut server = Server::new(exports.clone(), listener);
    threads::end::spawn_staying("ferry-ipc".into(), STACK, move || server.serve())
        .map_err(|why| no_service("a thread", &why))?;
    Ok(exports)
}

/// The state of the service's thread.
struct Server {
    exports: Arc<Exports>,
    listener: Socket,
    /// A descriptor that is closed for a moment to refuse a connection when there is no other one left.
    spare: Option<Kept>,
    /// No connection is accepted before, if set.
    closed_until: Option<Instant>,
    /// Connections that have not asked yet, the oldest first.
    silent: VecDeque<SilentPeer>,
    importers: Vec<Importer>,
    /// The processes of the importers, where they can be watched.
    processes: HashMap<i32, WatchedProcess>,
}

/// A connection that has not asked yet.
struct SilentPeer {
    socket: Socket,
    pid: i32,
    until: Instant,
}

/// A process that has imported memory from here, and its lease.
struct Importer {
    /// The connection, until it was closed without a goodbye.
    socket: Option<Socket>,
    pid: i32,
    _keep: Box<dyn Any + Send>,
}

impl Importer {
    /// Reads from the connection. Whether it said goodbye.
    fn said_goodbye(&mut self) -> bool {
        let hear = |socket: &Socket| match socket.receive(&mut [0]) {
            // It left before it took the answer, but may have said goodbye.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => socket.receive(&mut [0]),
            said => said,
        };
        let said = self.socket.as_ref().map(hear);
        let is_goodbye = matches!(said, Some(Ok((1.., _))));
        if !is_goodbye {
            self.socket = None;
        }
        is_goodbye
    }
}

impl Server {
    fn new(exports: Arc<Exports>, listener: Socket) -> Server {
        let (silent, importers, processes) = Default::default();
        let spare = listener.another();
        Server { exports, listener, spare, closed_until: None, silent, importers, processes }
    }

    /// Until there has been nothing to serve for a while.
    fn serve(&mut self) {
        let mut unused_since = None;
        loop {
            let is_unused = self.importers.is_empty() && self.silent.is_empty() && self.exports.is_unused();
            unused_since = is_unused.then(|| unused_since.unwrap_or_else(Instant::now));
            let ends = unused_since.map(|since| since + threads::IDLE);
            if ends.is_some_and(|ends| ends <= Instant::now()) && self.exports.end() {
                return;
            }
            self.round(ends.map(|ends| ends.max(Instant::now() + RETRY_PAUSE)));
        }
    }

    /// Polls all connections until one is ready, or until `ends`, and serves them: first leases that end,
    /// then questions, then new connections.
    fn round(&mut self, ends: Option<Instant>) {
        let now = Instant::now();
        self.open_again(now);
        self.closed_until = self.closed_until.filter(|until| *until > now);
        let silence = self.silent.front().map(|silent| silent.until);
        let next = ends.into_iter().chain(silence).chain(self.closed_until).min();

        let pids: Vec<i32> = self.processes.keys().copied().collect();
        let nothing = libc::pollfd { fd: -1, events: 0, revents: 0 };
        let of_importer = |importer: &Importer| importer.socket.as_ref().map_or(nothing, watch);
        let mut set: Vec<libc::pollfd> = self.importers.iter().map(of_importer).collect();
        set.extend(pids.iter().map(|pid| watch(&self.processes[pid])));
        set.extend(self.silent.iter().map(|silent| watch(&silent.socket)));
        set.extend(self.closed_until.is_none().then(|| watch(&self.listener)));
        if wait(&mut set, next).is_err() {
            // No memory for the set, most likely.
            thread::sleep(RETRY_PAUSE);
            return;
        }
        let mut stirred = set.iter().map(|entry| entry.revents != 0);
        let mut stirs = |count: usize| stirred.by_ref().take(count).collect::<Vec<_>>();
        let (ended, dead) = (stirs(self.importers.len()), stirs(pids.len()));
        let (asking, knocking) = (stirs(self.silent.len()), stirs(1));
        // A descriptor that the program has closed tells nothing of the process: it is opened again.
        let is_dead = |(pid, stirs): (i32, bool)| (stirs && self.processes[&pid].is_ours()).then_some(pid);
        let dead: Vec<i32> = pids.into_iter().zip(dead).filter_map(is_dead).collect();
        self.end_importers(&ended, &dead);
        self.answer_all(&asking);
        if knocking.contains(&true) {
            self.accept_all();
        }
    }

    /// The program may have closed our descriptors, and opened its own in their place.
    fn open_again(&mut self, now: Instant) {
        if !self.listener.is_ours() {
            self.spare = None; // the same socket: as long as it is open, the name is taken
            match Socket::listen(self.exports.number) {
                Ok(listener) => (self.spare, self.listener) = (listener.another(), listener),
                Err(_) => self.closed_until = Some(now + RETRY_PAUSE),
            }
        }
        let lost = |(pid, process): (&i32, &WatchedProcess)| (!process.is_ours()).then_some(*pid);
        let lost: Vec<i32> = self.processes.iter().filter_map(lost).collect();
        for pid in lost {
            match process(pid) {
                Ok(Some(process)) => drop(self.processes.insert(pid, process)),
                Ok(None) => {}
                Err(_) => self.end_importers(&[], &[pid]),
            }
        }
    }

    /// A lease ends when its connection says anything, and when its process is dead; if the process cannot be
    /// watched, when the connection is closed.
    fn end_importers(&mut self, stirred: &[bool], dead: &[i32]) {
        let mut stirred = stirred.iter();
        let before = self.importers.len();
        let processes = &self.processes;
        self.importers.retain_mut(|importer| {
            let stirs = stirred.next() == Some(&true);
            let is_over = stirs && (importer.said_goodbye() || !processes.contains_key(&importer.pid));
            !is_over && !dead.contains(&importer.pid)
        });
        if self.importers.len() == before && dead.is_empty() {
            return;
        }
        let importers = &self.importers;
        self.processes.retain(|pid, _| importers.iter().any(|importer| importer.pid == *pid));
    }

    fn answer_all(&mut self, asking: &[bool]) {
        let now = Instant::now();
        let all = std::mem::take(&mut self.silent);
        for (silent, asks) in all.into_iter().zip(asking) {
            match asks {
                true => self.answer(silent),
                false if silent.until > now => self.silent.push_back(silent),
                false => {}
            }
        }
    }

    fn accept_all(&mut self) {
        for _ in 0..MAX_SILENT {
            match self.listener.accept() {
                Ok(socket) => self.accepted(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => {}
                Err(_) if self.refuse_next() => {}
                Err(_) => {
                    // Not even a spare descriptor: the rest waits, and the thread does not spin.
                    self.closed_until = Some(Instant::now() + RETRY_PAUSE);
                    return;
                }
            }
        }
    }

    /// Tells the next importer that there is no descriptor for it, so that it need not wait until its time is
    /// over. Whether that can be done again.
    fn refuse_next(&mut self) -> bool {
        self.spare = None;
        if let Ok(socket) = self.listener.accept() {
            // A question that is not read would reach the importer as a broken connection.
            let _ = socket.receive(&mut [0; QUESTION]);
            let _ = socket.send(&Answer::Full.to_bytes(), None);
        }
        self.spare = self.listener.another();
        self.spare.is_some()
    }

    /// Most have asked before they are accepted: they are answered at once, before those that are silent.
    fn accepted(&mut self, socket: Socket) {
        let Some(peer) = socket.peer().ok().filter(|peer| peer.uid == user()) else { return };
        let silent = SilentPeer { socket, pid: peer.pid, until: Instant::now() + TIME_TO_ASK };
        let mut entry = [watch(&silent.socket)];
        if wait(&mut entry, Some(Instant::now())).is_ok() && entry[0].revents != 0 {
            return self.answer(silent);
        }
        if self.silent.len() == MAX_SILENT {
            self.silent.pop_front();
        }
        self.silent.push_back(silent);
    }

    /// Answers a question; any other message ends the connection.
    fn answer(&mut self, silent: SilentPeer) {
        let SilentPeer { socket, pid, .. } = silent;
        let mut bytes = [0; QUESTION];
        let Ok((len, _)) = socket.receive(&mut bytes) else { return };
        let question = bytes.get(..len).and_then(|bytes| Name::from_question(self.exports.number, bytes));
        let Some(name) = question else { return };
        let shared = match self.importers.len() < MAX_IMPORTERS {
            true => self.exports.share(&name, pid),
            false => Err(Answer::Full),
        };
        match shared {
            Ok(memory) => self.hand_over(socket, pid, memory),
            Err(answer) => drop(socket.send(&answer.to_bytes(), None)),
        }
    }

    fn hand_over(&mut self, socket: Socket, pid: i32, memory: ExportedMemory) {
        let ExportedMemory { shared, device, keep } = memory;
        let answer = Answer::Shared { device, offset: shared.offset, len: shared.len as u64 };
        if self.watch_process(pid).is_err() {
            return; // dead already
        }
        let Ok(file) = shared.file.get() else {
            return drop(socket.send(&Answer::Full.to_bytes(), None));
        };
        if socket.send(&answer.to_bytes(), Some(file)).is_ok() {
            self.importers.push(Importer { socket: Some(socket), pid, _keep: keep });
        }
    }

    /// A connection may outlive its process in a forked child; the process itself does not.
    fn watch_process(&mut self, pid: i32) -> io::Result<()> {
        if pid > 0
            && !self.processes.contains_key(&pid)
            && let Some(process) = process(pid)?
        {
            self.processes.insert(pid, process);
        }
        Ok(())
    }
}

fn find_socket() -> io::Result<(u32, Socket)> {
    loop {
        let number = u32::from_le_bytes(random()?);
        if number == 0 {
            continue;
        }
        match Socket::listen(number) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => return Ok((number, other?)),
        }
    }
}
