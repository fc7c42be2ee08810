//! The exporter's side: one thread per process that answers importers, asleep while nobody asks.
//!
//! A connection asks once. If it is granted what it asks for, it stays open and is the lease: the memory is kept until the
//! importer says goodbye or its process ends. A connection that is closed without a word may be one of a program that closes all
//! descriptors and still uses the memory. Whoever says nothing, too much or nonsense is cut off, and so is another user.

use super::{
    socket::{Process, Socket, process, random, user, wait, watch},
    wire::{Answer, Lent, Name, QUESTION},
};
use crate::{Error, Result, constants as c, error::fail, state::lock};
use ferry::engine::{files::Kept, refusal, threads};
use ferry_core::Shared;
use std::{
    any::Any,
    collections::{HashMap, HashSet, VecDeque, hash_map::Entry},
    io,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

/// How long a connection may take to ask.
const TIME_TO_ASK: Duration = Duration::from_secs(2);
/// Connections that have not asked yet; the oldest goes when another one comes.
const MOST_SILENT: usize = 64;
/// Leases at a time.
const MOST_LEASES: usize = 4096;
/// How long nobody is accepted after the system refused a descriptor.
const BREATHER: Duration = Duration::from_millis(100);
const STACK: usize = 256 << 10;

/// What a granted importer gets, and what keeps it.
pub struct Grant {
    /// The memory.
    pub shared: Shared,
    /// The physical number of its device.
    pub device: u32,
    /// Keeps the memory for as long as the lease lasts.
    pub keep: Box<dyn Any + Send>,
}

/// Lends something once more, or says why not.
pub type Offer = Box<dyn Fn() -> Result<Grant, Refusal> + Send + Sync>;

/// Why something is not lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has been freed.
    Freed,
    /// The system has nothing left to lend it with.
    Short,
}

/// What a process lends, by its own word for it: an address, or a handle.
pub type Source = (Lent, usize);

/// All exports, and which of them are of the same memory.
#[derive(Default)]
struct Exports {
    by_name: HashMap<Name, Export>,
    by_source: HashMap<Source, HashSet<Name>>,
    /// How many are about to export something.
    users: usize,
    /// The thread has ended, since there was nothing to serve: whatever comes next needs another service.
    is_over: bool,
}

/// A service that does not end meanwhile.
pub struct Held(Arc<Service>);

impl Deref for Held {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.0.exports).users -= 1;
    }
}

/// Who may import what. The offer goes when the memory is freed.
struct Export {
    source: Source,
    offer: Option<Offer>,
    open_to_all: bool,
    pids: HashSet<i32>,
}

/// The service of a process.
pub struct Service {
    number: u32,
    exports: Mutex<Exports>,
}

impl Service {
    /// Starts the thread on a socket that nobody has.
    pub fn start() -> Result<Arc<Service>> {
        let (number, listener) = find_socket().map_err(|why| no_service("a local socket", &why))?;
        let service = Arc::new(Service { number, exports: Mutex::default() });
        let mut desk = Desk::new(service.clone(), listener);
        threads::end::spawn_staying("ferry-ipc".into(), STACK, move || desk.serve())
            .map_err(|why| no_service("a thread", &why))?;
        Ok(service)
    }

    /// Keeps the service from ending; `None` if it has ended.
    pub fn hold(self: &Arc<Self>) -> Option<Held> {
        let mut exports = lock(&self.exports);
        if exports.is_over {
            return None;
        }
        exports.users += 1;
        Some(Held(self.clone()))
    }

    fn is_unused(&self) -> bool {
        lock(&self.exports).by_name.is_empty()
    }

    /// Ends the service if nothing is exported, nor about to be.
    fn end(&self) -> bool {
        let mut exports = lock(&self.exports);
        exports.is_over = exports.by_name.is_empty() && exports.users == 0;
        exports.is_over
    }

    /// Has the thread look whether it is still needed, by a connection that says nothing.
    fn look_if_unused(&self, exports: MutexGuard<'_, Exports>) {
        let is_unused = exports.by_name.is_empty() && !exports.is_over;
        drop(exports);
        if is_unused {
            drop(Socket::connect(self.number, Instant::now() + BREATHER));
        }
    }

    /// Lets others import something, and says under which name.
    pub fn export(&self, source: Source, offer: Offer, open_to_all: bool) -> Result<Name> {
        self.add(&mut lock(&self.exports), source, offer, open_to_all)
    }

    /// As [`export`](Self::export), unless it is exported already.
    pub fn export_once(&self, source: Source, offer: Offer, open_to_all: bool) -> Result<Option<Name>> {
        let mut exports = lock(&self.exports);
        match exports.by_source.contains_key(&source) {
            true => Ok(None),
            false => self.add(&mut exports, source, offer, open_to_all).map(Some),
        }
    }

    fn add(&self, exports: &mut Exports, source: Source, offer: Offer, open_to_all: bool) -> Result<Name> {
        let name = loop {
            let bits = u128::from_le_bytes(random().map_err(|why| no_service("random numbers", &why))?);
            let secret = if source.0 == Lent::Physical { (bits as u32).into() } else { bits };
            let name = Name { socket: self.number, what: source.0, secret };
            if secret != 0 && !exports.by_name.contains_key(&name) {
                break name;
            }
        };
        let export = Export { source, offer: Some(offer), open_to_all, pids: HashSet::new() };
        exports.by_name.insert(name, export);
        exports.by_source.entry(source).or_default().insert(name);
        Ok(name)
    }

    /// Adds processes to the white list of an export; whether there is such an export.
    pub fn list(&self, name: &Name, pids: &[i32]) -> bool {
        let mut exports = lock(&self.exports);
        exports.by_name.get_mut(name).map(|export| export.pids.extend(pids)).is_some()
    }

    /// Whether this process exports something under this name.
    pub fn knows(&self, name: &Name) -> bool {
        lock(&self.exports).by_name.contains_key(name)
    }

    /// Ends an export; whether there was one. Those who have imported it keep it.
    pub fn withdraw(&self, name: &Name) -> bool {
        let mut exports = lock(&self.exports);
        let Some(export) = exports.by_name.remove(name) else { return false };
        if let Entry::Occupied(mut names) = exports.by_source.entry(export.source) {
            names.get_mut().remove(name);
            if names.get().is_empty() {
                names.remove();
            }
        }
        self.look_if_unused(exports);
        drop(export); // without the lock: this may give memory back
        true
    }

    /// Ends the offers of memory that was just freed. An export key stays known until it is closed; a shareable handle ends here.
    pub fn freed(&self, source: Source) {
        let mut exports = lock(&self.exports);
        let Some(names) = exports.by_source.remove(&source) else { return };
        let mut ended = Vec::new();
        for name in names {
            match source.0 {
                Lent::Allocation => {
                    ended.extend(exports.by_name.get_mut(&name).and_then(|export| export.offer.take()));
                }
                Lent::Physical => {
                    ended.extend(exports.by_name.remove(&name).and_then(|export| export.offer));
                }
            }
        }
        self.look_if_unused(exports);
        drop(ended); // without the lock: this may give memory back
    }

    /// What the process `pid` gets for its question.
    fn grant(&self, name: &Name, pid: i32) -> Result<Grant, Answer> {
        let exports = lock(&self.exports);
        let export = exports.by_name.get(name).ok_or(Answer::Unknown)?;
        if !export.open_to_all && !export.pids.contains(&pid) {
            return Err(Answer::NotListed);
        }
        let lend = export.offer.as_ref().ok_or(Answer::Freed)?;
        lend().map_err(|refusal| match refusal {
            Refusal::Freed => Answer::Freed,
            Refusal::Short => Answer::Full,
        })
    }
}

/// Who sits where in the service's thread.
struct Desk {
    service: Arc<Service>,
    listener: Socket,
    /// Given up for a moment to turn somebody away when there is no other descriptor.
    spare: Option<Kept>,
    closed_until: Option<Instant>,
    silent: VecDeque<Silent>,
    leases: Vec<Lease>,
    /// The processes of the leases, where they can be watched.
    processes: HashMap<i32, Process>,
}

/// A connection that has not asked yet.
struct Silent {
    socket: Socket,
    pid: i32,
    until: Instant,
}

/// Memory that another process uses.
struct Lease {
    /// The connection, until it was closed without a goodbye.
    socket: Option<Socket>,
    pid: i32,
    _keep: Box<dyn Any + Send>,
}

impl Lease {
    /// Hears what the connection has to say, and whether that is goodbye.
    fn is_given_back(&mut self) -> bool {
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

impl Desk {
    fn new(service: Arc<Service>, listener: Socket) -> Desk {
        let (silent, leases, processes) = Default::default();
        let spare = listener.another();
        Desk { service, listener, spare, closed_until: None, silent, leases, processes }
    }

    /// Until there has been nothing to serve for a while.
    fn serve(&mut self) {
        let mut unused_since = None;
        loop {
            let is_unused = self.leases.is_empty() && self.silent.is_empty() && self.service.is_unused();
            unused_since = is_unused.then(|| unused_since.unwrap_or_else(Instant::now));
            let ends = unused_since.map(|since| since + threads::IDLE);
            if ends.is_some_and(|ends| ends <= Instant::now()) && self.service.end() {
                return;
            }
            self.round(ends.map(|ends| ends.max(Instant::now() + BREATHER)));
        }
    }

    /// Waits for something to happen, or until `ends`, and does what is to be done about it: first what ends, then what asks, then what
    /// is new.
    fn round(&mut self, ends: Option<Instant>) {
        let now = Instant::now();
        self.open_again(now);
        self.closed_until = self.closed_until.filter(|until| *until > now);
        let silence = self.silent.front().map(|silent| silent.until);
        let next = ends.into_iter().chain(silence).chain(self.closed_until).min();

        let pids: Vec<i32> = self.processes.keys().copied().collect();
        let nothing = libc::pollfd { fd: -1, events: 0, revents: 0 };
        let of_lease = |lease: &Lease| lease.socket.as_ref().map_or(nothing, watch);
        let mut set: Vec<libc::pollfd> = self.leases.iter().map(of_lease).collect();
        set.extend(pids.iter().map(|pid| watch(&self.processes[pid])));
        set.extend(self.silent.iter().map(|silent| watch(&silent.socket)));
        set.extend(self.closed_until.is_none().then(|| watch(&self.listener)));
        if wait(&mut set, next).is_err() {
            // No memory for the set, most likely.
            thread::sleep(BREATHER);
            return;
        }
        let mut stirred = set.iter().map(|entry| entry.revents != 0);
        let mut stirs = |count: usize| stirred.by_ref().take(count).collect::<Vec<_>>();
        let (leases, dead) = (stirs(self.leases.len()), stirs(pids.len()));
        let (asking, knocking) = (stirs(self.silent.len()), stirs(1));
        // What is not ours any more says nothing about the process: it is opened again.
        let is_dead = |(pid, stirs): (i32, bool)| (stirs && self.processes[&pid].is_ours()).then_some(pid);
        let dead: Vec<i32> = pids.into_iter().zip(dead).filter_map(is_dead).collect();
        self.end_leases(&leases, &dead);
        self.hear(&asking);
        if knocking.contains(&true) {
            self.let_in();
        }
    }

    /// The program may have closed our descriptors, and opened its own in their place.
    fn open_again(&mut self, now: Instant) {
        if !self.listener.is_ours() {
            self.spare = None; // the same socket: as long as it is open, the name is taken
            match Socket::listen(self.service.number) {
                Ok(listener) => (self.spare, self.listener) = (listener.another(), listener),
                Err(_) => self.closed_until = Some(now + BREATHER),
            }
        }
        let lost = |(pid, process): (&i32, &Process)| (!process.is_ours()).then_some(*pid);
        let lost: Vec<i32> = self.processes.iter().filter_map(lost).collect();
        for pid in lost {
            match process(pid) {
                Ok(Some(process)) => drop(self.processes.insert(pid, process)),
                Ok(None) => {}
                Err(_) => self.end_leases(&[], &[pid]),
            }
        }
    }

    /// A lease ends when its connection says anything, and when its process is dead; if that cannot be watched, when the connection
    /// is closed.
    fn end_leases(&mut self, stirred: &[bool], dead: &[i32]) {
        let mut stirred = stirred.iter();
        let before = self.leases.len();
        let processes = &self.processes;
        self.leases.retain_mut(|lease| {
            let stirs = stirred.next() == Some(&true);
            let is_over = stirs && (lease.is_given_back() || !processes.contains_key(&lease.pid));
            !is_over && !dead.contains(&lease.pid)
        });
        if self.leases.len() == before && dead.is_empty() {
            return;
        }
        let leases = &self.leases;
        self.processes.retain(|pid, _| leases.iter().any(|lease| lease.pid == *pid));
    }

    fn hear(&mut self, asking: &[bool]) {
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

    fn let_in(&mut self) {
        for _ in 0..MOST_SILENT {
            match self.listener.accept() {
                Ok(socket) => self.welcome(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => {}
                Err(_) if self.turn_away() => {}
                Err(_) => {
                    // Not even a spare descriptor: the rest waits outside, and the thread does not spin.
                    self.closed_until = Some(Instant::now() + BREATHER);
                    return;
                }
            }
        }
    }

    /// Tells whoever is next that there is no descriptor for it, so that it need not wait until its patience ends. Whether that
    /// can be done again.
    fn turn_away(&mut self) -> bool {
        self.spare = None;
        if let Ok(socket) = self.listener.accept() {
            // A question that nobody took would reach the importer as a broken connection.
            let _ = socket.receive(&mut [0; QUESTION]);
            let _ = socket.send(&Answer::Full.to_bytes(), None);
        }
        self.spare = self.listener.another();
        self.spare.is_some()
    }

    /// Most have asked before they are let in: they are answered at once, whoever else sits here in silence.
    fn welcome(&mut self, socket: Socket) {
        let Some(peer) = socket.peer().ok().filter(|peer| peer.uid == user()) else { return };
        let silent = Silent { socket, pid: peer.pid, until: Instant::now() + TIME_TO_ASK };
        let mut entry = [watch(&silent.socket)];
        if wait(&mut entry, Some(Instant::now())).is_ok() && entry[0].revents != 0 {
            return self.answer(silent);
        }
        if self.silent.len() == MOST_SILENT {
            self.silent.pop_front();
        }
        self.silent.push_back(silent);
    }

    /// Answers a question; any other message ends the connection.
    fn answer(&mut self, silent: Silent) {
        let Silent { socket, pid, .. } = silent;
        let mut bytes = [0; QUESTION];
        let Ok((len, _)) = socket.receive(&mut bytes) else { return };
        let question = bytes.get(..len).and_then(|bytes| Name::from_question(self.service.number, bytes));
        let Some(name) = question else { return };
        let granted = match self.leases.len() < MOST_LEASES {
            true => self.service.grant(&name, pid),
            false => Err(Answer::Full),
        };
        match granted {
            Ok(grant) => self.hand_over(socket, pid, grant),
            Err(answer) => drop(socket.send(&answer.to_bytes(), None)),
        }
    }

    fn hand_over(&mut self, socket: Socket, pid: i32, grant: Grant) {
        let Grant { shared, device, keep } = grant;
        let granted = Answer::Granted { device, offset: shared.offset, len: shared.len as u64 };
        if self.watch_process(pid).is_err() {
            return; // dead already
        }
        let Ok(file) = shared.file.get() else {
            return drop(socket.send(&Answer::Full.to_bytes(), None));
        };
        if socket.send(&granted.to_bytes(), Some(file)).is_ok() {
            self.leases.push(Lease { socket: Some(socket), pid, _keep: keep });
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

#[cold]
fn no_service(what: &str, why: &io::Error) -> Error {
    fail(c::ACL_ERROR_RT_IPC_ERROR, format!("sharing memory needs {what}: {}", refusal::explain_thread(why)))
}
