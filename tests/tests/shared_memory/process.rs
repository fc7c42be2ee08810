//! A process that shares device memory with others: this program again, which does what it is told over a
//! pipe.

use std::io::{BufRead, BufReader, Lines, Write, stdin};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ferry_tests::*;

/// What an answer begins with, among all that a test prints.
const MARK: &str = "answer: ";
/// So many bytes more than was asked for does an allocation take.
const EXTRA: usize = 32;

/// Killed when dropped.
pub struct Process {
    child: Child,
    tell: ChildStdin,
    hear: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts one with these settings, on its device 0.
    #[track_caller]
    pub fn with(settings: &[(&str, &str)]) -> Process {
        let mut process = Process::without_device(settings);
        process.ok("device 0");
        process
    }

    pub fn without_device(settings: &[(&str, &str)]) -> Process {
        let mut child = Command::new(std::env::current_exe().expect("a program"))
            .args(["--ignored", "--exact", "process::other", "--nocapture"])
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let tell = child.stdin.take().expect("piped");
        let hear = BufReader::new(child.stdout.take().expect("piped")).lines();
        Process { child, tell, hear }
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.tell, "{line}").expect("the other process lives");
    }

    /// The code, and what came with it.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> (i32, String) {
        self.tell(line);
        let answer = self.hear.by_ref().find_map(|line| {
            let line = line.expect("text");
            line.split_once(MARK).map(|(_, answer)| answer.to_string())
        });
        let answer = answer.expect("the other process answers");
        let (code, rest) = answer.split_once(' ').unwrap_or((&answer, ""));
        (code.parse().expect("a code"), rest.to_string())
    }

    #[track_caller]
    pub fn ok(&mut self, line: &str) -> String {
        let (code, rest) = self.ask(line);
        assert_eq!(code, 0, "{line}: {rest}");
        rest
    }

    #[track_caller]
    pub fn refused(&mut self, line: &str, want: i32, words: &[&str]) {
        let (code, said) = self.ask(line);
        assert_eq!(code, want, "{line}: {said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{line}: `{word}` is not in: {said}"));
    }

    /// Free and total bytes of its current device.
    #[track_caller]
    pub fn memory(&mut self) -> (usize, usize) {
        let said = self.ok("memory");
        let (free, total) = said.split_once(' ').expect("two numbers");
        (free.parse().expect("a number"), total.parse().expect("a number"))
    }

    #[track_caller]
    pub fn free_bytes(&mut self) -> usize {
        self.memory().0
    }

    /// Kills it, and returns when it is dead. Nobody has waited for it then: it is a zombie.
    pub fn kill(&mut self) {
        self.child.kill().expect("alive until now");
        self.dead();
    }

    /// Returns when it is dead, and leaves it to be waited for.
    pub fn dead(&self) {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::uninit();
        let flags = libc::WEXITED | libc::WNOWAIT;
        // SAFETY: waits for a child of ours; the call writes to a local.
        let waited = unsafe { libc::waitid(libc::P_PID, self.child.id(), info.as_mut_ptr(), flags) };
        assert_eq!(waited, 0);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other process's part.
#[test]
#[ignore = "run by the other tests"]
fn other() {
    for line in stdin().lines() {
        let line = line.expect("text");
        let words: Vec<&str> = line.split_whitespace().collect();
        let (code, gave) = perform(&words);
        let gave = if code == 0 { gave } else { message().unwrap_or_default().replace('\n', " / ") };
        println!("{MARK}{code} {gave}");
    }
}

fn perform(words: &[&str]) -> (i32, String) {
    let number = |index: usize| words[index].parse::<usize>().expect("a number");
    let plain = |code: i32| (code, String::new());
    let (mut out, mut total) = (0usize, 0usize);
    match words[0] {
        "device" => plain(aclrtSetDevice(number(1) as i32)),
        "memory" => {
            let code = aclrtGetMemInfo(1, &mut out, &mut total);
            (code, format!("{out} {total}"))
        }
        // Takes this many bytes, whole.
        "malloc" => {
            let code = aclrtMalloc(&mut out, number(1) - EXTRA, 2);
            (code, out.to_string())
        }
        "free" => plain(aclrtFree(number(1))),
        "physical" => {
            let code = aclrtMallocPhysical(&mut out, number(1), &properties(NORMAL_PAGES, 0), 0);
            (code, out.to_string())
        }
        "free-physical" => plain(aclrtFreePhysical(number(1))),
        "page-locked" => plain(aclrtMallocHost(&mut out, number(1))),
        "register" => {
            plain(aclrtHostRegisterV2(Memory::new(Home::Mapped, number(1)).addr, number(1), 0x1000_0000))
        }
        "export" => {
            let mut key = [0u8; 65];
            let code = aclrtIpcMemGetExportKey(number(1), number(2), key.as_mut_ptr().cast(), 65, 1);
            (code, String::from_utf8_lossy(&key[..64]).into_owned())
        }
        "import" => {
            let key = std::ffi::CString::new(words[1]).expect("no NUL inside");
            let code = aclrtIpcMemImportByKey(&mut out, key.as_ptr(), 0);
            (code, out.to_string())
        }
        "close-descriptors" => plain(close_descriptors()),
        "fork" => (0, fork().to_string()),
        "exit" => std::process::exit(0),
        // SAFETY: ends the process without running any destructor.
        "_exit" => unsafe { libc::_exit(0) },
        "crash" => std::process::abort(),
        "exec" => panic!("{}", Command::new("sh").args(["-c", "echo 'answer: 0'; read line"]).exec()),
        other => panic!("{other} is not known"),
    }
}

/// Closes all descriptors but the standard ones, as daemons do.
fn close_descriptors() -> i32 {
    // SAFETY: what the library keeps among them is its own business; nothing else here has any.
    (3..1024).for_each(|descriptor| unsafe { assert!(libc::close(descriptor) <= 0) });
    0
}

/// Makes a child that only waits for its end, with all that a child inherits.
fn fork() -> i32 {
    // SAFETY: the child does nothing but wait for the signal that ends it.
    match unsafe { libc::fork() } {
        0 => loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        },
        pid => pid,
    }
}

/// A process that this test must end itself.
pub struct Orphan(pub i32);

impl Drop for Orphan {
    fn drop(&mut self) {
        // SAFETY: takes numbers; the process only waits for this.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}
