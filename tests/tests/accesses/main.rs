//! The CPU's accesses to page-locked memory in flight, as facts: a program in C does them, and this reads
//! what its library has seen.
//!
//! Where userfaultfd is not allowed the facts say so, and single accesses cannot be seen: then these tests
//! only see that the program runs as it should. What accesses leave behind is seen everywhere.

use ferry_watch::{
    Fact, FactReader, FactSource,
    buffers::{Buffers, Wanted},
    collector::Collector,
    fact::{HostAccess, TouchedBytes},
    symbols::Symbols,
};
use std::{
    fs::File,
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Where this test and the library that it was built with lie.
fn deps() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    test.parent().expect("a program is in a folder").to_path_buf()
}

/// The program, built once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let (deps, root) = (deps(), Path::new(env!("CARGO_MANIFEST_DIR")));
        let program = deps.join(format!("accesses-program-{}", std::process::id()));
        let mut gcc = Command::new("gcc");
        gcc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-I"]).arg(root.join("../include"));
        gcc.arg(root.join("tests/accesses/program.c")).arg("-L").arg(&deps).arg("-lascendcl");
        let made = gcc.arg(format!("-Wl,-rpath,{}", deps.display())).arg("-o").arg(&program).output();
        let made = made.expect("gcc is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        program
    })
}

/// What was seen of one part of the program.
#[derive(Default)]
struct Seen {
    process: u32,
    accesses: Vec<HostAccess>,
    touched: Vec<TouchedBytes>,
    pointers: Vec<(bool, u32)>,
    opened: u64,
    unseen: Vec<String>,
    symbols: Symbols,
}

impl FactReader for Seen {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        self.symbols.take(source, fact);
        match fact {
            Fact::Started(_) => self.process = source.process,
            Fact::Access(access) => self.accesses.push(*access),
            Fact::Touched(touched) => self.touched.push(*touched),
            Fact::DevicePointer { is_write, stack, .. } => self.pointers.push((*is_write, *stack)),
            Fact::Opened { count, .. } => self.opened = *count,
            Fact::Unseen { reason } => self.unseen.push(reason.clone()),
            _ => {}
        }
    }
}

impl Seen {
    /// The functions of a stack, the innermost first.
    fn stack(&mut self, number: u32) -> Vec<String> {
        let frames = self.symbols.stack(self.process, number).to_vec();
        let name = |frame| self.symbols.place(self.process, frame).function.clone().unwrap_or_default();
        frames.into_iter().map(name).collect()
    }

    /// Each access as `read`, `write` or either of a system call, of a source or destination, and whether the
    /// function is in its stack; `None` if accesses cannot be seen on this machine.
    fn accesses(&mut self, function: &str) -> Option<Vec<(&'static str, &'static str, bool)>> {
        if !self.unseen.is_empty() {
            eprintln!("skipped: {}", self.unseen[0]);
            return None;
        }
        let accesses = std::mem::take(&mut self.accesses);
        let told = accesses.iter().map(|access| {
            let what = match (access.is_system_call, access.is_write) {
                (false, false) => "read",
                (false, true) => "write",
                (true, false) => "read by a call",
                (true, true) => "write by a call",
            };
            let end = if access.is_destination { "destination" } else { "source" };
            (what, end, self.stack(access.stack).iter().any(|name| name.contains(function)))
        });
        Some(told.collect())
    }
}

/// Runs a part of the program, which has to end as it would unwatched.
fn run(part: &str, precise: bool) -> Seen {
    let (seen, status, said) = run_to_any_end(part, precise);
    assert!(status.success() && said.ends_with("ok\n"), "{part}: {status}: {said}");
    seen
}

fn run_to_any_end(part: &str, precise: bool) -> (Seen, std::process::ExitStatus, String) {
    let wanted = Wanted { accesses: true, precise, ..Wanted::default() };
    run_wanted(part, wanted, &mut Command::new(program()))
}

fn run_wanted(part: &str, wanted: Wanted, command: &mut Command) -> (Seen, std::process::ExitStatus, String) {
    // SAFETY: the name is a C string; the descriptor is ours. The child has it, too, under its number.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"facts".as_ptr(), 0)) };
    let buffers = Buffers::create(&file, 64 << 20, wanted).expect("there is room for buffers");
    command.arg(part).env_remove("LD_LIBRARY_PATH").env("FERRY_BACKEND", "host");
    let done = command.env("FERRY_WATCH", format!("/proc/self/fd/{}", file.as_raw_fd())).output();
    let done = done.expect("it starts");
    let mut seen = Seen::default();
    Collector::new(buffers).finish(&mut seen);
    let said = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (seen, done.status, said.concat())
}

#[test]
fn a_write_to_a_source_and_a_read_of_a_destination_are_told_with_their_stacks() {
    let mut seen = run("plain", false);
    if seen.unseen.is_empty() {
        let first = seen.accesses[0];
        assert_eq!((first.address % 4096, first.point.ticket), (17, 1));
        assert_eq!(seen.accesses[1].point.ticket, 2);
        let stack = seen.stack(first.stack);
        assert_eq!(&stack[..3], ["write_byte", "plain", "main"]);
    }
    let Some(told) = seen.accesses("plain") else { return };
    assert_eq!(told, [("write", "source", true), ("read", "destination", true)]);
    assert_eq!(seen.opened, 0);
}

#[test]
fn neighbours_in_a_page_are_no_finding_and_do_not_hide_one() {
    let mut seen = run("neighbours", false);
    let addresses: Vec<u64> = seen.accesses.iter().map(|access| access.address % 4096).collect();
    let Some(told) = seen.accesses("neighbours") else { return };
    // Reading byte 64 reads a source; byte 127 is the source's last.
    assert_eq!((told, addresses), (vec![("write", "source", true)], vec![127]));
}

#[test]
fn accesses_are_as_long_as_their_instruction_says() {
    let mut seen = run("halves", false);
    let addresses: Vec<u64> = seen.accesses.iter().map(|access| access.address % 4096).collect();
    let Some(told) = seen.accesses("write_sixteen") else { return };
    if cfg!(target_arch = "x86_64") {
        assert_eq!((told, addresses), (vec![("write", "source", true); 3], vec![100, 8, 8]));
    }
}

#[test]
fn buffers_in_lists_are_read_to_their_end() {
    let mut seen = run("lists", false);
    let addresses: Vec<u64> = seen.accesses.iter().map(|access| access.address % 4096).collect();
    let Some(told) = seen.accesses("lists") else { return };
    let (read, write) = (("read by a call", "destination", true), ("write by a call", "source", true));
    assert_eq!((told, addresses), (vec![read, read, write], vec![100; 3]));
}

#[test]
fn system_calls_do_what_they_do_and_are_told() {
    let mut seen = run("calls", false);
    let Some(told) = seen.accesses("calls") else { return };
    assert_eq!(told, [("read by a call", "destination", true), ("write by a call", "source", true)]);
    assert_eq!(seen.opened, if has_breakpoints() { 0 } else { 2 });
}

/// Whether the kernel lets a thread have a breakpoint of the processor, which is how pages are armed behind
/// system calls.
fn has_breakpoints() -> bool {
    const EXECUTION: u64 = 4;
    let mut about = [0_u64; 16];
    about[0] = 5 | (size_of_val(&about) as u64) << 32;
    (about[5], about[6]) = (1 << 5 | 1 << 6 | 1 << 36 | 1 << 37, EXECUTION << 32);
    (about[2], about[7], about[8]) = (1, 0x1000, 8);
    // SAFETY: the kernel's layout of the question; what it opens is closed.
    unsafe {
        let fd = libc::syscall(libc::SYS_perf_event_open, about.as_ptr(), 0, -1, -1, 0) as i32;
        fd >= 0 && libc::close(fd) == 0
    }
}

/// Has the program not be allowed to have breakpoints.
fn forbid_breakpoints(command: &mut Command) {
    const LOAD_NUMBER: libc::sock_filter = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    const fn end(k: u32) -> libc::sock_filter {
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k }
    }
    let is_it = libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::SYS_perf_event_open as u32 };
    let refused = end(libc::SECCOMP_RET_ERRNO | libc::EACCES as u32);
    let mut filter = [LOAD_NUMBER, is_it, refused, end(libc::SECCOMP_RET_ALLOW)];
    // SAFETY: makes system calls alone, with a filter that is the closure's.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
            let (no_new, filter) = (libc::PR_SET_NO_NEW_PRIVS, libc::SECCOMP_MODE_FILTER);
            match libc::prctl(no_new, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, filter, &raw const program) == 0
            {
                true => Ok(()),
                false => Err(std::io::Error::last_os_error()),
            }
        })
    };
}

/// Runs a part where breakpoints are forbidden.
fn run_without_breakpoints(part: &str, prepare: impl FnOnce(&mut Command)) -> Seen {
    let mut command = Command::new(program());
    forbid_breakpoints(&mut command);
    prepare(&mut command);
    let wanted = Wanted { accesses: true, precise: true, ..Wanted::default() };
    let (seen, status, said) = run_wanted(part, wanted, &mut command);
    assert!(status.success() && said.ends_with("ok\n"), "{part}: {status}: {said}");
    seen
}

/// Whether a thread can be caught behind a system call without breakpoints: glibc 2.35 and later registers
/// restartable sequences, and Linux 6.18 looks at them behind system calls. Later kernels were not tried.
fn has_sequences() -> bool {
    // SAFETY: asks for a symbol, and reads what it says.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>().as_ref() };
    size.is_some_and(|size| *size > 0) && kernel() < (6, 19)
}

#[test]
fn pages_are_armed_behind_system_calls() {
    for (part, count) in [("behind_calls", 3), ("registered_calls", 6)] {
        for is_forbidden in [false, true] {
            if !(if is_forbidden { has_sequences() } else { has_breakpoints() }) {
                eprintln!("skipped: threads cannot be caught so");
                continue;
            }
            let mut seen =
                if is_forbidden { run_without_breakpoints(part, |_| {}) } else { run(part, false) };
            let addresses: Vec<u64> = seen.accesses.iter().map(|access| access.address % 4096).collect();
            let Some(told) = seen.accesses("behind_calls") else { return };
            let want = (vec![("write", "source", true); count], vec![101; count]);
            assert_eq!((told, addresses), want, "{part}, forbidden: {is_forbidden}");
            assert_eq!(seen.opened, 0, "{part}, forbidden: {is_forbidden}");
        }
    }
}

#[test]
fn where_no_thread_is_caught_behind_system_calls_that_is_said() {
    let off = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    let mut seen = run_without_breakpoints("behind_calls", |command| _ = command.env(off.0, off.1));
    let Some(told) = seen.accesses("behind_calls") else { return };
    assert_eq!((told, seen.opened), (vec![], 3), "of each turn the first call has the page open");
}

#[test]
fn pages_are_armed_during_system_calls_that_last() {
    for is_forbidden in [false, true] {
        let mut seen = if is_forbidden {
            run_without_breakpoints("long_calls", |_| {})
        } else {
            run("long_calls", true)
        };
        let addresses: Vec<u64> = seen.accesses.iter().map(|access| access.address % 4096).collect();
        let Some(told) = seen.accesses("long_calls") else { return };
        if if is_forbidden { has_sequences() } else { has_breakpoints() } {
            assert_eq!((told, addresses), (vec![("write", "source", true); 2], vec![101, 102]));
        }
    }
}

#[test]
fn calls_that_signals_interrupt_begin_again_and_pages_are_armed_behind_them() {
    let can_catch = [has_breakpoints(), has_sequences()];
    let run = [run("interrupted_calls", true), run_without_breakpoints("interrupted_calls", |_| {})];
    for (mut seen, can_catch) in run.into_iter().zip(can_catch) {
        let addresses: Vec<u64> = seen.accesses.iter().map(|access| access.address % 4096).collect();
        let Some(told) = seen.accesses("interrupted_calls") else { return };
        if can_catch {
            assert_eq!((told, addresses), (vec![("write", "destination", true); 2], vec![2049, 2048]));
        }
    }
}

#[test]
fn a_call_that_blocks_signals_does_what_it_does() {
    let mut all = vec![run("masks", true), run_without_breakpoints("masks", |_| {})];
    for seen in &mut all {
        let Some(told) = seen.accesses("masks") else { return };
        assert!(told.iter().all(|one| *one == ("write", "destination", true)), "{told:?}");
    }
}

#[test]
fn a_loop_over_memory_in_flight_is_told_and_does_what_it_does() {
    for precise in [false, true] {
        let mut seen = run("many", precise);
        let Some(told) = seen.accesses("fill_bytes") else { return };
        assert!(!told.is_empty() && told.iter().all(|one| *one == ("write", "source", true)), "{told:?}");
        assert!(!precise || seen.opened == 0, "{}", seen.opened);
    }
}

#[test]
fn a_sweep_is_not_stepped_through_and_hides_no_other_access() {
    let mut seen = run("sweep", false);
    let Some(told) = seen.accesses("write_byte") else { return };
    let (others, swept): (Vec<_>, Vec<_>) = told.into_iter().partition(|(_, _, is_other)| *is_other);
    assert!(!swept.is_empty() && others == [("write", "source", true)], "{swept:?} {others:?}");
    assert_eq!(seen.opened, 1, "the sweep is told once, and few of its accesses are stepped over");
}

/// Whether the kernel can open pages for reading alone: Linux 6.4.
fn protects_pages() -> bool {
    kernel() >= (6, 4)
}

/// The kernel's first two numbers.
fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|word| word.parse::<u32>());
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    (next(), next())
}

#[test]
fn reads_of_a_source_are_free_and_hide_no_write() {
    let mut seen = run("reads", false);
    let addresses: Vec<u64> = seen.accesses.iter().map(|access| access.address % (1 << 12)).collect();
    let Some(told) = seen.accesses("reads") else { return };
    if !protects_pages() {
        return eprintln!("skipped: this kernel opens pages whole");
    }
    let (write, read) = (("write", "source", true), ("read", "destination", true));
    assert_eq!((told, addresses), (vec![write, write, write, read], vec![0, 0, 0, 5000 - 4096]));
    assert_eq!(seen.opened, 0);
}

#[test]
fn a_copy_of_a_page_that_is_being_opened_is_watched() {
    let mut seen = run("seconds", false);
    let Some(told) = seen.accesses("seconds") else { return };
    assert_eq!(told, [("write", "source", true); 50]);
}

#[test]
fn what_the_c_library_reads_beyond_a_string_is_no_access_of_the_programs() {
    let mut seen = run("strings", false);
    let Some(told) = seen.accesses("strings") else { return };
    // Only the copy reads the bytes in flight.
    assert_eq!(told, [("read", "destination", true)]);
}

#[test]
fn what_an_event_orders_before_a_join_is_joined() {
    let mut seen = run("events", false);
    let places = seen.accesses.iter().map(|access| (access.address % 4096, access.point.ticket > 1));
    let places: Vec<_> = places.collect();
    let Some(told) = seen.accesses("events") else { return };
    assert_eq!((told.len(), places), (1, vec![(1, true)]), "only the copy behind the event is in flight");
}

#[test]
fn a_thread_that_blocks_all_signals_is_told_and_goes_on() {
    let mut seen = run("blocked", false);
    let Some(told) = seen.accesses("blocked_thread") else { return };
    assert_eq!(told, [("write", "source", true)]);
}

#[test]
fn the_programs_own_signal_handlers_are_called() {
    let mut seen = run("handlers", false);
    let Some(told) = seen.accesses("handlers") else { return };
    assert_eq!(told, [("write", "source", true); 2]);
}

#[test]
fn a_forked_child_has_memory_of_its_own() {
    let mut seen = run("forks", false);
    let Some(told) = seen.accesses("forks") else { return };
    assert_eq!(told, [("write", "source", true)], "what the child does is its own affair");
}

#[test]
fn registered_memory_is_watched_while_other_threads_use_it() {
    let mut seen = run("registered", false);
    let Some(told) = seen.accesses("registered") else { return };
    assert_eq!(told, [("write", "source", true)]);
}

#[test]
fn registered_memory_that_is_shared_is_watched_and_stays_shared() {
    let mut seen = run("shared", false);
    let addresses: Vec<u64> = seen.accesses.iter().map(|access| access.address % 4096).collect();
    let Some(told) = seen.accesses("shared") else { return };
    assert_eq!((told, addresses), (vec![("write", "source", true)], vec![17]));
}

#[test]
fn memory_is_registered_again_though_copies_of_it_wait() {
    let seen = run("registered_again", false);
    assert_eq!(seen.accesses.len(), 0);
}

#[test]
fn memory_that_takes_the_place_of_registered_memory_is_what_copies_use() {
    let (_, status, said) = run_wanted("unmapped_again", Wanted::default(), &mut Command::new(program()));
    assert!(status.success() && said.ends_with("ok\n"), "unwatched: {status}: {said}");
    let mut seen = run("unmapped_again", true);
    let addresses: Vec<u64> = seen.accesses.iter().map(|access| access.address % 4096).collect();
    let Some(told) = seen.accesses("unmapped_again") else { return };
    assert_eq!((told, addresses), (vec![("write", "source", true); 20], vec![17; 20]), "watched in its turn");
}

#[test]
fn a_stack_may_lie_right_below_memory_in_flight() {
    let mut seen = run("stack_below", false);
    let Some(told) = seen.accesses("below") else { return };
    assert_eq!((told, seen.opened), (vec![("write", "source", true); 2], 0));
}

#[test]
fn shared_memory_that_is_mapped_again_is_watched_again() {
    let mut seen = run("file_again", false);
    let Some(told) = seen.accesses("file_again") else { return };
    assert_eq!(told, [("write", "source", true); 2]);
}

#[test]
fn memory_that_comes_where_a_call_had_a_page_open_keeps_its_bytes() {
    for mut seen in
        [run("unmapped_during_call", true), run_without_breakpoints("unmapped_during_call", |_| {})]
    {
        let Some(told) = seen.accesses("unmapped_during_call") else { return };
        assert_eq!(told, [("write by a call", "source", true); 20], "unmapped in flight");
    }
}

#[test]
fn accesses_go_on_while_another_thread_registers_and_unmaps() {
    let mut seen = run("moves", false);
    let Some(told) = seen.accesses("moves") else { return };
    assert_eq!(told, [], "nothing that is in flight is written");
}

#[test]
fn registered_memory_that_is_moved_or_mapped_anew_is_the_programs() {
    let mut seen = run("remapped", false);
    let Some(told) = seen.accesses("remapped") else { return };
    assert_eq!(told, [], "nothing is in flight");
}

#[test]
fn parts_of_the_memory_may_have_other_rights_and_advice() {
    let mut seen = run("rights", false);
    let Some(told) = seen.accesses("rights") else { return };
    assert_eq!(told, [("write", "source", true)]);
}

#[test]
fn a_device_pointer_is_told_and_the_signal_takes_its_course() {
    let (mut seen, status, said) = run_to_any_end("device_pointer", false);
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{said}");
    let [(is_write, stack)] = seen.pointers[..] else { panic!("{:?}", seen.pointers) };
    let stack = seen.stack(stack);
    assert!(is_write && stack[0] == "device_pointer", "{stack:?}");
}

#[test]
fn a_device_pointer_is_told_though_the_program_has_a_handler_of_its_own() {
    let mut seen = run("device_handler", false);
    if !seen.unseen.is_empty() {
        return eprintln!("skipped: {}", seen.unseen[0]);
    }
    let pointers = std::mem::take(&mut seen.pointers);
    let told = pointers.into_iter().map(|(is_write, stack)| (is_write, seen.stack(stack)));
    let told: Vec<_> =
        told.map(|(is_write, stack)| (is_write, stack.contains(&"device_handler".into()))).collect();
    assert_eq!(told, [(true, true), (false, true), (true, true)], "a write, and a read and a write by calls");
}

#[test]
fn what_another_process_reads_is_no_access_of_the_programs() {
    let mut seen = run("others", false);
    let Some(told) = seen.accesses("others") else { return };
    assert_eq!(told, []);
}

#[test]
fn a_program_that_a_debugger_runs_is_told_of_and_goes_on() {
    if Command::new("gdb").arg("--version").output().is_err() {
        return eprintln!("skipped: gdb is not there");
    }
    for part in ["plain", "calls", "many", "device_handler"] {
        let wanted = Wanted { accesses: true, ..Wanted::default() };
        let mut gdb = Command::new("timeout");
        gdb.args([
            "-k",
            "5",
            "120",
            "gdb",
            "-nx",
            "-q",
            "-batch",
            "-ex",
            "handle SIGSEGV nostop noprint pass",
        ]);
        gdb.args(["-ex", "run", "--args"]).arg(program());
        let (mut seen, status, said) = run_wanted(part, wanted, &mut gdb);
        let is_refused = said.contains("ptrace") || said.contains("ASLR");
        if is_refused && !said.contains("ok\n") {
            return eprintln!("skipped: gdb cannot run programs here: {said}");
        }
        assert!(status.success() && said.contains("ok\n"), "{part}: {status}: {said}");
        assert!(said.contains("exited normally"), "{part}: {said}");
        let Some(told) = seen.accesses("main") else { return };
        match part {
            "plain" => assert_eq!(told, [("write", "source", true), ("read", "destination", true)]),
            "calls" => assert_eq!(told.len(), 2, "{told:?}"),
            "many" => assert!(told.contains(&("write", "source", true)), "{told:?}"),
            _ => assert_eq!(seen.pointers.len(), 3, "{:?}", seen.pointers),
        }
    }
}

/// What was done, to which end of a copy, the offset in the page and the length.
type Trace = (&'static str, &'static str, u64, u64);

/// What is told of each part where nothing but comparing is done.
const TRACES: [(&str, &[Trace]); 8] = [
    ("plain", &[("write", "source", 17, 1), ("touch", "destination", 0, 4096)]),
    // The byte that is written belongs to the source, and its page to nobody as a whole.
    ("neighbours", &[("write", "source", 127, 1)]),
    ("calls", &[("touch", "destination", 0, 4096)]),
    ("many", &[("write", "source", 100, 10000)]),
    ("events", &[("write", "source", 1, 1)]),
    ("blocked", &[("write", "source", 17, 1)]),
    ("forks", &[("write", "source", 17, 1)]),
    ("registered", &[("write", "source", 17, 1)]),
];

fn assert_traces(wanted: Wanted, prepare: impl Fn(&mut Command)) {
    for (part, want) in TRACES {
        let mut command = Command::new(program());
        prepare(&mut command);
        let (seen, status, said) = run_wanted(part, wanted, &mut command);
        assert!(status.success() && said.ends_with("ok\n"), "{part}: {status}: {said}");
        let [unseen] = &seen.unseen[..] else { panic!("{part}: {:?}", seen.unseen) };
        assert!(unseen.contains("CAP_SYS_PTRACE") && seen.accesses.is_empty(), "{part}: {unseen}");
        let told = seen.touched.iter().map(|touched| {
            let what = if touched.is_write { "write" } else { "touch" };
            let end = if touched.is_destination { "destination" } else { "source" };
            (what, end, touched.address % 4096, touched.len)
        });
        assert_eq!(told.collect::<Vec<_>>(), want, "{part}");
    }
}

#[test]
fn without_userfaultfd_what_accesses_leave_behind_is_told() {
    assert_traces(Wanted { accesses: true, compared: true, ..Wanted::default() }, |_| {});
}

#[test]
fn any_user_is_told_what_accesses_leave_behind() {
    const NOBODY: u32 = 65534;
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } == 0 {
        let can_start = Command::new(program()).arg("nothing").uid(NOBODY).output();
        if !can_start.is_ok_and(|done| done.status.success()) {
            return eprintln!("skipped: another user cannot start {}", program().display());
        }
    }
    let allowed = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
    if allowed.is_ok_and(|text| text.trim() == "1") {
        return eprintln!("skipped: everybody has the privileged form here");
    }
    assert_traces(Wanted { accesses: true, ..Wanted::default() }, |command| {
        // SAFETY: asks for a number.
        if unsafe { libc::geteuid() } == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
    });
}
