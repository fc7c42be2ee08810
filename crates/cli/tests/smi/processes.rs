//! Processes that use devices are listed, with what they have, while they have it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use crate::command::{ferry, output, text};
use crate::compile::compile;
use crate::standin::stand_in;

/// Does a step for each line that it is sent, and says its number when that is done, and that of its child if
/// it has one. The child is made by the system call: the library is not told, and closes nothing in it.
const STEPS: &str = r#"
#define _GNU_SOURCE
#include <acl/acl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRY(call) do { int code_ = (call); if (code_) { printf("%s: %d\n", #call, code_); exit(1); } } \
    while (0)

static void *steps(void *unused)
{
    char line[16];
    int child = 0;
    void *block = 0, *physical = 0;
    setvbuf(stdout, 0, _IONBF, 0);
    for (int step = 0; fgets(line, sizeof line, stdin); step++) {
        switch (step) {
        case 0: TRY(aclInit(0)); break;
        case 1: TRY(aclrtSetDevice(1)); break;
        case 2: TRY(aclrtMalloc(&block, 32 << 20, ACL_MEM_MALLOC_NORMAL_ONLY)); break;
        case 3: child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); if (child == 0) { pause(); } break;
        case 4: TRY(aclrtFree(block)); break;
        case 5: TRY(aclrtResetDevice(1)); break;
        case 6:
            TRY(aclrtSetDevice(0));
            TRY(aclrtMalloc(&physical, 5 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
            break;
        }
        printf("%d %d\n", step, child);
    }
    exit(0);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc == 3) {
        prctl(PR_SET_NAME, argv[2]);
    }
    if (argc != 2) {
        steps(0);
    }
    pthread_create(&thread, 0, steps, 0);
    pthread_exit(0);
}
"#;

/// The program, which is ended with the test.
struct Steps {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Steps {
    fn start(settings: &[(&str, &str)]) -> Steps {
        Steps::start_with(settings, &[])
    }

    /// With one argument its main thread leaves, and another one does the steps; the second of two is its
    /// name.
    fn start_with(settings: &[(&str, &str)], arguments: &[&str]) -> Steps {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| compile("npu-smi-steps", STEPS));
        let library = std::path::Path::new(env!("CARGO_BIN_EXE_ferry")).with_file_name("deps");
        let mut command = Command::new(program);
        command.args(arguments).env("LD_LIBRARY_PATH", library).envs(settings.iter().copied());
        command.env("ASCEND_GLOBAL_LOG_LEVEL", "4");
        // With its forked child it is a group of its own, to be ended as one.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Steps { child, input, output: BufReader::new(output) }
    }

    /// Has it do the next step; its child.
    fn go_on(&mut self, step: usize) -> u32 {
        let mut line = String::new();
        self.input.write_all(b"\n").expect("it listens");
        self.output.read_line(&mut line).expect("it answers");
        let (done, child) = line.trim_end().split_once(' ').unwrap_or((&line, "0"));
        assert_eq!(done, step.to_string(), "{line}");
        child.parse().expect("a number")
    }

    /// Ends it without giving it a chance to tidy up, and its child.
    fn kill(&mut self) {
        // SAFETY: the group that was made for the program, which is not waited for yet.
        unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        self.child.wait().expect("it ends");
    }

    /// Card and megabytes of each of its rows in the table.
    fn rows(&self, settings: &[(&str, &str)]) -> Vec<(String, String)> {
        rows_of(self.child.id(), settings)
    }
}

/// Card and megabytes of each row of a process in the table.
fn rows_of(pid: u32, settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let table = output(ferry(&["npu-smi", "info"]).envs(settings.iter().copied()));
    assert!(table.status.success(), "{}", text(&table.stderr));
    let pid = pid.to_string();
    let rows = text(&table.stdout);
    let rows = rows.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let rows = rows.filter(|cells| cells.get(2) == Some(&pid.as_str()));
    rows.map(|cells| (cells[1].split_whitespace().next().unwrap_or_default().to_owned(), cells[4].to_owned()))
        .collect()
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.kill();
        }
    }
}

/// Step by step, on the backend of these settings.
fn walk(settings: &[(&str, &str)]) {
    let (mut steps, card) = (Steps::start(settings), "1");
    let of = |card: &str, megabytes: &str| (card.to_owned(), megabytes.to_owned());
    let wanted = [
        vec![],               // it has only initialised
        vec![of(card, "0")],  // a context
        vec![of(card, "33")], // 32 MiB and what an allocation is padded with: what is begun counts
        vec![of(card, "33")], // and not its child
        vec![of(card, "0")],
        vec![],
        vec![of("0", "6")],
    ];
    for (step, want) in wanted.into_iter().enumerate() {
        let child = steps.go_on(step);
        assert_eq!(steps.rows(settings), want, "after step {step}");
        assert_eq!(rows_of(child, settings), [], "the child after step {step}");
    }
    steps.kill();
    assert_eq!(steps.rows(settings), vec![], "it is gone");
}

#[test]
fn a_process_is_listed_with_what_it_has_until_it_ends() {
    walk(&[]);
}

#[test]
fn a_process_whose_main_thread_has_left_is_listed() {
    let mut steps = Steps::start_with(&[], &["leave"]);
    (0..3).for_each(|step| _ = steps.go_on(step));
    // Its main thread is on its way out since before the first step.
    let status = format!("/proc/{}/status", steps.child.id());
    while !std::fs::read_to_string(&status).expect("it runs").contains("zombie") {
        std::thread::yield_now();
    }
    assert_eq!(steps.rows(&[]), [("1".to_owned(), "33".to_owned())]);
}

#[test]
fn a_process_whose_name_ends_inside_a_letter_is_listed() {
    // The system keeps 15 bytes of a name.
    let mut steps = Steps::start_with(&[], &["called", "12345678901234é"]);
    (0..3).for_each(|step| _ = steps.go_on(step));
    let name = std::fs::read(format!("/proc/{}/comm", steps.child.id())).expect("it runs");
    assert!(String::from_utf8(name).is_err());
    assert_eq!(steps.rows(&[]), [("1".to_owned(), "33".to_owned())]);
}

#[test]
fn a_process_that_uses_gpus_is_listed_as_well_and_apart() {
    let library = std::path::Path::new(env!("CARGO_BIN_EXE_ferry")).with_file_name("deps");
    let path = format!("{}:{}", stand_in().display(), library.display());
    let settings = [("FERRY_BACKEND", "cuda"), ("FERRY_DEVICES", "2"), ("LD_LIBRARY_PATH", &*path)];
    walk(&settings);
    let mut steps = Steps::start(&settings);
    (0..3).for_each(|step| _ = steps.go_on(step));
    assert_eq!(steps.rows(&[]), [], "devices of the host backend are others");
}

#[test]
fn devices_are_those_of_the_machine_whatever_the_process_calls_them() {
    let mut steps = Steps::start(&[("FERRY_DEVICES", "4"), ("ASCEND_RT_VISIBLE_DEVICES", "0,3")]);
    (0..3).for_each(|step| _ = steps.go_on(step));
    assert_eq!(steps.rows(&[("FERRY_DEVICES", "4")]), [("3".to_owned(), "33".to_owned())]);
    assert_eq!(steps.rows(&[("FERRY_DEVICES", "2")]), [], "there is no such card");
}

#[test]
fn memory_in_use_is_what_processes_have() {
    // Overlay file systems keep no locks of mapped files. A folder of its own keeps other tests out.
    let shared = format!("/dev/shm/ferry-npu-smi-{}", std::process::id());
    std::fs::create_dir(&shared).unwrap_or_else(|why| panic!("{shared}: {why}"));
    for (settings, is_exact) in [
        (&[("FERRY_DEVICE_MEMORY", "64M")][..], false),
        (&[("FERRY_DEVICE_MEMORY", "64M"), ("FERRY_DEVICE_SHARED", &*shared)], true),
    ] {
        let mut steps = Steps::start(settings);
        (0..3).for_each(|step| _ = steps.go_on(step));
        let mut command = ferry(&["npu-smi", "info", "-t", "usages", "-i", "1"]);
        let usages = text(&output(command.envs(settings.iter().copied())).stdout);
        let value =
            |key: &str| usages.lines().find(|line| line.contains(key)).map(crate::last).unwrap_or_default();
        assert_eq!(value("HBM Capacity(MB)"), "64", "{usages}");
        let rate: u32 = value("HBM Usage Rate(%)").parse().expect("a number");
        assert!((51..=100).contains(&rate) && (!is_exact || rate == 51), "33 of 64 MB: {usages}");
    }
    std::fs::remove_dir_all(shared).expect("ours");
}
