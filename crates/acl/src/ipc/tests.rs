//! The service and its importers, with files in place of device memory and with real processes.

use super::{
    ask::{self, ANSWER_LIMIT, ImportedMemory},
    exports::{ExportedMemory, Exports, Source},
    service,
    socket::{Socket, random, wait, watch},
    wire::{Answer, ExportKind, Name},
};
use crate::{Result, constants as c, state::with_here};
use ferry::engine::files;
use ferry_core::Shared;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    os::fd::{AsFd, FromRawFd, OwnedFd},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

const SOURCE: Source = (ExportKind::Allocation, 0x1000);
const TIME_ENOUGH: Duration = Duration::from_secs(60);

/// A file in memory with some bytes.
fn file(bytes: &[u8]) -> File {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: just made.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(bytes).expect("memory");
    file
}

/// Tells when it is dropped.
struct Kept(mpsc::Sender<()>);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// Exports a file of these bytes; the channel hears of every lease that ends.
fn export(exports: &Exports, source: Source, open: bool, bytes: &[u8]) -> (Name, mpsc::Receiver<()>) {
    let (sender, ended) = mpsc::channel();
    let file = file(bytes);
    let len = bytes.len();
    let share = move || {
        let file = files::Kept::open(|| file.try_clone()).expect("a descriptor");
        let shared = Shared { file: Arc::new(file), offset: 0, len };
        Ok(ExportedMemory { shared, device: 3, keep: Box::new(Kept(sender.clone())) })
    };
    (exports.export(source, Box::new(share), open).expect("random numbers"), ended)
}

fn contents(memory: ImportedMemory) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; memory.shared.len];
    let file = memory.shared.file.get().and_then(|file| file.try_clone_to_owned());
    let file = File::from(file.expect("a descriptor"));
    file.read_exact_at(&mut bytes, memory.shared.offset).expect("the exporter's bytes");
    bytes
}

fn code(answer: Result<ImportedMemory>) -> i32 {
    answer.err().map_or(0, |error| error.code)
}

fn exports() -> Arc<Exports> {
    service::start().expect("a socket and a thread")
}

fn ask(name: &Name, limit: Duration) -> Result<ImportedMemory> {
    with_here(|here| ask::ask(here, name, limit))
}

fn connect(number: u32, end: Instant) -> Option<Socket> {
    with_here(|here| Ok(Socket::connect(here, number, end).ok())).expect("a key of pthread")
}

fn me() -> i32 {
    std::process::id() as i32
}

#[test]
fn a_lease_lasts_until_it_is_dropped_and_outlives_its_export() {
    let exports = exports();
    let (name, ended) = export(&exports, SOURCE, true, b"hello");
    let first = ask(&name, ANSWER_LIMIT).expect("shared");
    assert_eq!((first.device, first.shared.len), (3, 5));
    assert_eq!(contents(first), b"hello");
    ended.recv_timeout(TIME_ENOUGH).expect("the first lease ended");

    let second = ask(&name, ANSWER_LIMIT).expect("shared again");
    assert!(exports.withdraw(&name) && !exports.withdraw(&name));
    assert_eq!(code(ask(&name, ANSWER_LIMIT)), c::ACL_ERROR_RT_PARAM_INVALID);
    assert!(ended.try_recv().is_err(), "the importer is not done");
    assert_eq!(contents(second), b"hello");
    ended.recv_timeout(TIME_ENOUGH).expect("the second lease ended");
}

#[test]
fn only_listed_processes_may_import() {
    let exports = exports();
    let (name, _ended) = export(&exports, SOURCE, false, b"x");
    assert_eq!(code(ask(&name, ANSWER_LIMIT)), c::ACL_ERROR_RT_NO_PERMISSION);
    assert!(exports.allow(&name, &[1, 2]));
    assert_eq!(code(ask(&name, ANSWER_LIMIT)), c::ACL_ERROR_RT_NO_PERMISSION);
    assert!(exports.allow(&name, &[me()]));
    assert_eq!(code(ask(&name, ANSWER_LIMIT)), 0);
    let other = Name { secret: name.secret ^ 1, ..name };
    assert!(!exports.allow(&other, &[me()]));
    assert_eq!(code(ask(&other, ANSWER_LIMIT)), c::ACL_ERROR_RT_PARAM_INVALID);
    let other = Name { what: ExportKind::Physical, ..name };
    assert_eq!(code(ask(&other, ANSWER_LIMIT)), c::ACL_ERROR_RT_PARAM_INVALID, "another kind of memory");
}

#[test]
fn freed_memory_is_shared_no_more() {
    let exports = exports();
    for (what, still_known) in [(ExportKind::Allocation, true), (ExportKind::Physical, false)] {
        let source = (what, 0x2000);
        let (name, _ended) = export(&exports, source, true, b"x");
        let (other, _other_ended) = export(&exports, (what, 0x3000), true, b"y");
        let once =
            || exports.export_once(source, Box::new(|| Err(Answer::Freed)), true).expect("random numbers");
        assert_eq!(once(), None, "it is exported");
        exports.freed(source);
        assert!(once().is_some(), "nothing of it is exported any more");
        assert_eq!(exports.knows(&name), still_known);
        assert_eq!(code(ask(&name, ANSWER_LIMIT)), c::ACL_ERROR_RT_PARAM_INVALID);
        assert_eq!(exports.withdraw(&name), still_known);
        assert_eq!(code(ask(&other, ANSWER_LIMIT)), 0, "its neighbour");
    }
}

#[test]
fn silence_and_junk_hurt_nobody() {
    let exports = exports();
    let (name, _ended) = export(&exports, SOURCE, true, b"x");
    let end = || Instant::now() + ANSWER_LIMIT;
    let silent: Vec<Socket> = (0..300).map(|_| connect(name.socket, end()).expect("a connection")).collect();
    for len in [1, 7, 31, 32, 33, 4096, 60_000] {
        let socket = connect(name.socket, end()).expect("a connection");
        socket.send(&vec![0xa5; len], None).expect("sent");
        cut_off(&socket, &format!("{len} bytes of junk"));
    }
    // A question with descriptors, and one after the other.
    let socket = connect(name.socket, end()).expect("a connection");
    socket.send(&name.to_question(), Some(file(b"surprise").as_fd())).expect("sent");
    wait(&mut [watch(&socket)], Some(end())).expect("an answer");
    assert_eq!(socket.receive(&mut [0; 64]).expect("an answer").1.len(), 1);
    socket.send(&name.to_question(), None).expect("sent");
    cut_off(&socket, "a second question");
    assert_eq!(code(ask(&name, ANSWER_LIMIT)), 0, "while all of those sit there");
    cut_off(&silent[0], "the oldest of too many");
}

/// Waits until the service has ended a connection.
fn cut_off(socket: &Socket, what: &str) {
    let mut set = [watch(socket)];
    wait(&mut set, Some(Instant::now() + TIME_ENOUGH)).expect("the end");
    let heard = socket.receive(&mut [0; 64]);
    let over = match &heard {
        Ok((len, _)) => *len == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(over, "{what}: {heard:?}");
}

#[test]
fn an_exporter_that_is_gone_or_stopped_is_told() {
    let number = || u32::from_le_bytes(random().expect("random"));
    let name = |socket| Name { socket, what: ExportKind::Allocation, secret: 1 };
    let error = ask(&name(number()), ANSWER_LIMIT).err().expect("nobody listens");
    assert_eq!(error.code, c::ACL_ERROR_RT_IPC_ERROR);
    assert!(error.note.contains("exporter is gone"), "{}", error.note);

    let socket = number();
    let listener = Socket::listen(socket).expect("a socket");
    let error = ask(&name(socket), Duration::from_millis(20)).err().expect("nobody answers");
    assert_eq!(error.code, c::ACL_ERROR_RT_IPC_ERROR);
    assert!(error.note.contains("did not answer"), "{}", error.note);

    // No connection is accepted any more, either.
    let end = Instant::now() + Duration::from_millis(20);
    let crowd: Vec<_> = (0..200).map_while(|_| connect(socket, end)).collect();
    assert!(crowd.len() < 200, "the backlog is finite");
    assert_eq!(code(ask(&name(socket), Duration::from_millis(20))), c::ACL_ERROR_RT_IPC_ERROR);
    drop(listener);
}

#[test]
fn answers_that_make_no_sense_are_refused() {
    let shared = |len| Answer::Shared { device: 0, offset: 0, len }.to_bytes().to_vec();
    type Case = (&'static str, Vec<u8>, Option<fn() -> OwnedFd>);
    let pipe: fn() -> OwnedFd = || std::io::pipe().expect("a pipe").0.into();
    let short: fn() -> OwnedFd = || file(b"four").into();
    let cases: [Case; 6] = [
        ("junk", vec![7; 40], None),
        ("too short", shared(4)[..39].to_vec(), Some(short)),
        ("no file", shared(4), None),
        ("no plain file", shared(4), Some(pipe)),
        ("a file that is too short", shared(5), Some(short)),
        ("nothing at all", shared(0), Some(short)),
    ];
    for (what, bytes, file) in cases {
        let number = u32::from_le_bytes(random().expect("random"));
        let listener = Socket::listen(number).expect("a socket");
        let liar = thread::spawn(move || {
            wait(&mut [watch(&listener)], None).expect("somebody comes");
            let guest = listener.accept().expect("a guest");
            let file = file.map(|make| make());
            guest.send(&bytes, file.as_ref().map(|file| file.as_fd())).expect("sent");
            wait(&mut [watch(&guest)], None).expect("the guest leaves");
            let _ = guest.receive(&mut [0; 64]);
            wait(&mut [watch(&guest)], None).expect("the guest leaves");
        });
        let name = Name { socket: number, what: ExportKind::Allocation, secret: 1 };
        assert_eq!(code(ask(&name, ANSWER_LIMIT)), c::ACL_ERROR_RT_IPC_ERROR, "{what}");
        liar.join().expect("an honest liar");
    }
}

#[test]
fn a_killed_importer_holds_nothing_even_through_a_child_of_its_own() {
    let exports = exports();
    for forks in ["alone", "with a child"] {
        let (name, ended) = export(&exports, SOURCE, true, b"x");
        let mut importer = importer(&name, forks);
        let mut lines = BufReader::new(importer.stdout.take().expect("piped")).lines();
        let grandchild = lines
            .by_ref()
            .map_while(|line| line.ok())
            .find_map(|line| line.split_once("holding ").map(|(_, pid)| pid.parse::<i32>().expect("a pid")))
            .expect("the importer imports");
        assert!(ended.try_recv().is_err(), "it is alive");
        importer.kill().expect("alive");
        let told = ended.recv_timeout(TIME_ENOUGH);
        if grandchild > 0 {
            // SAFETY: takes numbers; the process waits for this.
            unsafe { libc::kill(grandchild, libc::SIGKILL) };
        }
        importer.wait().expect("a child of ours");
        told.expect("the lease of a dead process ended");
    }
}

fn importer(name: &Name, forks: &str) -> Child {
    Command::new(std::env::current_exe().expect("a program"))
        .args(["--ignored", "--exact", "ipc::tests::importing_process", "--nocapture"])
        .envs([("FERRY_TEST_KEY", name.to_key().as_str()), ("FERRY_TEST_FORKS", forks)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started")
}

/// The importer's part: it holds the lease until it is killed.
#[test]
#[ignore = "run by a_killed_importer_holds_nothing_even_through_a_child_of_its_own"]
fn importing_process() {
    let var = |name| std::env::var(name).expect("the parent says");
    let name = Name::from_key(ExportKind::Allocation, &var("FERRY_TEST_KEY")).expect("a key");
    let _memory = ask(&name, ANSWER_LIMIT).expect("shared");
    let mut grandchild = 0;
    if var("FERRY_TEST_FORKS") == "with a child" {
        // SAFETY: the child only waits for its end.
        grandchild = unsafe { libc::fork() };
        if grandchild == 0 {
            // SAFETY: as above.
            unsafe { libc::pause() };
        }
    }
    println!("holding {grandchild}");
    let _ = std::io::stdin().read(&mut []);
    thread::sleep(TIME_ENOUGH);
}
