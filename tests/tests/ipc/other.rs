//! Another process: this program again, which does what it is told over a pipe and answers line by line.
//!
//! A line is a call and its arguments; the answer is the code, and what the call gave. Memory is told by its
//! address, which means something in that process only.

use std::io::{BufRead, BufReader, Lines, Write, stdin};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ferry_tests::*;

/// What an answer begins with, among all that a test prints.
const MARK: &str = "answer: ";

/// A process that can be told what to do. Killed when dropped.
pub struct Other {
    child: Child,
    tell: ChildStdin,
    hear: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Starts one with this device as its current one.
    pub fn on(device: i32) -> Other {
        Other::with(device, &[])
    }

    /// Starts one with these settings.
    pub fn with(device: i32, settings: &[(&str, &str)]) -> Other {
        let mut child = Command::new(std::env::current_exe().expect("a program"))
            .args(["--ignored", "--exact", "other::process", "--nocapture"])
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let tell = child.stdin.take().expect("piped");
        let hear = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut other = Other { child, tell, hear };
        other.ok(&format!("device {device}"));
        other
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Says something without waiting for the answer.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.tell, "{line}").expect("the other process lives");
    }

    /// The next answer: the code, and the rest of the line.
    #[track_caller]
    pub fn hear(&mut self) -> (i32, String) {
        let answer = self.hear.by_ref().find_map(|line| {
            let line = line.expect("text");
            line.split_once(MARK).map(|(_, answer)| answer.to_string())
        });
        let answer = answer.expect("the other process answers");
        let (code, rest) = answer.split_once(' ').unwrap_or((&answer, ""));
        (code.parse().expect("a code"), rest.to_string())
    }

    #[track_caller]
    pub fn ask(&mut self, line: &str) -> (i32, String) {
        self.tell(line);
        self.hear()
    }

    /// Asks, and what comes with success.
    #[track_caller]
    pub fn ok(&mut self, line: &str) -> String {
        let (code, rest) = self.ask(line);
        assert_eq!(code, 0, "{line}: {rest}");
        rest
    }

    /// Asks, and expects this refusal with these words in its message.
    #[track_caller]
    pub fn refused(&mut self, line: &str, want: i32, words: &str) {
        let (code, said) = self.ask(line);
        assert_eq!(code, want, "{line}: {said}");
        assert!(said.contains(words), "{line}: {words} is not in: {said}");
    }

    /// Free bytes of the current device.
    #[track_caller]
    pub fn free_bytes(&mut self) -> usize {
        self.ok("memory").parse().expect("a number")
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("our child").count()
    }

    /// Its mappings of this name.
    pub fn mappings(&self, name: &str) -> Vec<std::ops::Range<usize>> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).expect("our child");
        let range = |line: &str| {
            let (start, end) = line.split_whitespace().next()?.split_once('-')?;
            Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
        };
        maps.lines().filter(|line| line.contains(name)).filter_map(range).collect()
    }

    /// Ends the process without a chance to clean up.
    pub fn kill(mut self) {
        self.child.kill().expect("alive until now");
        self.child.wait().expect("our child");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other process's part.
#[test]
#[ignore = "run by the other tests"]
fn process() {
    // Not in the first thread, which may be told to leave.
    std::thread::spawn(serve).join().expect("no panic");
}

fn serve() {
    for line in stdin().lines() {
        let line = line.expect("text");
        let words: Vec<&str> = line.split_whitespace().collect();
        let (code, gave) = perform(&words);
        let gave = if code == 0 { gave } else { message().unwrap_or_default().replace('\n', " / ") };
        println!("{MARK}{code} {gave}");
    }
}

/// Runs one call. Numbers that are addresses or handles may be written as they were told.
fn perform(words: &[&str]) -> (i32, String) {
    let number = |index: usize| words[index].parse::<usize>().expect("a number");
    let mut out = 0usize;
    let plain = |code: i32| (code, String::new());
    match words[0] {
        "device" => plain(aclrtSetDevice(number(1) as i32)),
        "memory" => {
            let mut total = 0;
            let code = aclrtGetMemInfo(1, &mut out, &mut total);
            (code, out.to_string())
        }
        "malloc" => {
            let code = aclrtMalloc(&mut out, number(1), 0);
            (code, out.to_string())
        }
        "malloc-host" => {
            let code = aclrtMallocHost(&mut out, number(1));
            (code, out.to_string())
        }
        "free" => plain(aclrtFree(number(1))),
        "write" => {
            let data = pattern(number(2), number(3) as u8);
            plain(aclrtMemcpy(number(1), data.len(), data.as_ptr() as usize, data.len(), kind::H2D))
        }
        "holds" => {
            let (want, mut got) = (pattern(number(2), number(3) as u8), vec![0; number(2)]);
            let code = aclrtMemcpy(got.as_mut_ptr() as usize, got.len(), number(1), got.len(), kind::D2H);
            (code, (got == want).to_string())
        }
        "copy" => plain(aclrtMemcpy(number(1), number(3), number(2), number(3), number(4) as i32)),
        "copy-async" => {
            let code = aclrtMemcpyAsync(number(1), number(3), number(2), number(3), number(4) as i32, 0);
            plain(if code == 0 { aclrtSynchronizeStream(0) } else { code })
        }
        "write-on" => {
            let source = Memory::holding(Home::Pinned, &pattern(number(2), number(3) as u8));
            plain(aclrtMemcpyAsync(number(1), number(2), source.addr, number(2), kind::H2D, number(4)))
        }
        "copy-on" => {
            plain(aclrtMemcpyAsync(number(1), number(3), number(2), number(3), kind::D2D, number(4)))
        }
        "export" => {
            let (code, key) = export_key(number(1), number(2), number(3) as u64);
            (code, key)
        }
        "list" => plain(aclrtIpcMemSetImportPid(key(words[1]).as_ptr(), &mut (number(2) as i32), 1)),
        "import" => {
            let code = aclrtIpcMemImportByKey(&mut out, key(words[1]).as_ptr(), number(2) as u64);
            (code, out.to_string())
        }
        "close" => plain(aclrtIpcMemClose(key(words[1]).as_ptr())),
        "use-up-descriptors" => (0, use_up_descriptors(number(1)).to_string()),
        "replace-listener" => (0, replace(listeners()[0]).to_string()),
        "listeners" => (0, listeners().len().to_string()),
        "close-descriptors" => (0, close_descriptors().to_string()),
        "fork" => (0, fork().to_string()),
        "first-thread-leaves" => {
            first_thread_leaves();
            plain(0)
        }
        other => super::events::perform(other, &number, words.get(1).unwrap_or(&"")),
    }
}

/// Exports memory of this process.
pub fn export_key(addr: usize, size: usize, flags: u64) -> (i32, String) {
    let mut text = [1u8; 65];
    let code = aclrtIpcMemGetExportKey(addr, size, text.as_mut_ptr().cast(), 65, flags);
    let key = std::ffi::CStr::from_bytes_until_nul(&text).map(|key| key.to_string_lossy().into_owned());
    (code, key.unwrap_or_default())
}

pub fn key(text: &str) -> std::ffi::CString {
    std::ffi::CString::new(text).expect("no NUL inside")
}

/// Leaves this process with so many descriptors to be had, and says how many it took.
fn use_up_descriptors(left: usize) -> usize {
    let limit = libc::rlimit { rlim_cur: 256, rlim_max: 256 };
    // SAFETY: the limit is valid for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let files: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    files.into_iter().skip(left).map(std::mem::forget).count()
}

/// Closes all descriptors but the standard ones, as a program does that becomes a daemon.
fn close_descriptors() -> usize {
    // SAFETY: whoever has one of them is to find it closed.
    (3..1024).filter(|fd| unsafe { libc::close(*fd) } == 0).count()
}

/// Closes a descriptor, and opens under its number what never has anything to say.
fn replace(fd: i32) -> bool {
    // SAFETY: takes numbers; whoever has the descriptor is to find another file behind it.
    unsafe { libc::dup2(libc::eventfd(0, 0), fd) == fd }
}

/// The descriptors of sockets that listen, the oldest first.
fn listeners() -> Vec<i32> {
    let listens = |fd: &i32| {
        let (mut listens, mut len) = (0, size_of::<i32>() as libc::socklen_t);
        let to = (&raw mut listens).cast();
        // SAFETY: a number of the size that `len` tells is written.
        unsafe { libc::getsockopt(*fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, to, &mut len) };
        listens == 1
    };
    (3..1024).filter(listens).collect()
}

/// Ends the first thread of this process, as a program does whose main function calls pthread_exit.
fn first_thread_leaves() {
    extern "C" fn leave(_: i32) {
        // SAFETY: ends the calling thread and nothing else; it has nothing that others wait for.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    // SAFETY: the handler makes one system call; the thread whose number is the process's is the first one.
    unsafe {
        libc::signal(libc::SIGUSR1, leave as *const () as usize);
        let process = libc::getpid();
        assert_ne!(libc::gettid(), process, "that is this thread");
        assert_eq!(libc::syscall(libc::SYS_tgkill, process, process, libc::SIGUSR1), 0);
    }
    let has_left = || std::fs::read_to_string("/proc/self/stat").is_ok_and(|stat| stat.contains(") Z "));
    eventually("the first thread has left", has_left);
}

/// Makes a child that only waits for its end, with all that a child inherits.
fn fork() -> i32 {
    // SAFETY: the child does nothing but wait for the signal that ends it.
    match unsafe { libc::fork() } {
        0 => loop {
            // SAFETY: waits for a signal. The parent may be killed: nobody but the test ends this process
            // then.
            unsafe { libc::pause() };
        },
        pid => pid,
    }
}

/// A process that this test must end itself.
pub struct Orphan(pub i32);

impl Orphan {
    /// What it has open.
    pub fn holds(&self) -> Vec<String> {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.0)).expect("it lives on");
        let name = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
        folder.filter_map(name).map(|name| name.to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        // SAFETY: takes numbers; the process only waits for this.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}
