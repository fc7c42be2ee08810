//! Memory that is gone when a copy comes to it fails the copy, and nothing else; every other fault and every
//! signal that was sent takes the course that it would have taken without the library. Each case is a
//! process: this program again.

use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use ferry_tests::children::{self, Case};
use ferry_tests::code::RT_PARAM_INVALID;
use ferry_tests::kind::{D2H, H2D, H2H};
use ferry_tests::*;
use libc::{SIGBUS, SIGSEGV};

const PINNED: u32 = 0x1000_0000;
/// What one thread copies, and what several do together.
const SMALL: usize = 256 << 10;
const LARGE: usize = 16 << 20;
/// Where memory is gone: not at its start.
const HOLE: usize = 4096 * 3;

const GONE: &[Case] = &[
    ("unmapped", unmapped),
    ("protected", protected),
    ("cut", cut),
    ("plain", plain),
    ("page-locked", page_locked),
];
const TOLD: &[Case] = &[("told", told), ("told without help", told_without_help)];
const COURSE: &[Case] = &[
    ("touch", touch),
    ("touch in a function", touch_in_a_function),
    ("raise", raise),
    ("kill", kill),
    ("raise SIGBUS", raise_bus),
];
const HANDLED: &[Case] =
    &[("sent to a handler", sent_to_a_handler), ("repaired", repaired), ("ignored", ignored), ("once", once)];

/// The child's part.
#[test]
#[ignore = "run by the others"]
fn one_case() {
    children::play(&[GONE, TOLD, COURSE, HANDLED].concat());
}

#[test]
fn a_copy_of_memory_that_is_gone_fails_and_nothing_else() {
    // What is registered or page-locked a driver keeps, whatever the program does to its addresses.
    let is_told = |name: &str| on_host() || name == "plain";
    GONE.iter().filter(|(name, _)| is_told(name)).for_each(|(name, _)| drop(children::run(name, &[])));
}

#[test]
fn memory_that_was_never_good_is_refused_with_what_is_wrong_with_it() {
    TOLD.iter().for_each(|(name, _)| drop(children::run(name, &[])));
}

/// With the note on device pointers and without it.
const NOTES: [Option<&str>; 2] = [None, Some("1")];

#[test]
fn a_signal_of_the_programs_ends_it_as_ever() {
    for note in NOTES {
        for (name, _) in COURSE {
            let done = ended(name, note);
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(said.contains("about to") && !said.contains("came through"), "{name}: {said}");
            let want = if *name == "raise SIGBUS" { SIGBUS } else { SIGSEGV };
            assert_eq!(done.status.signal(), Some(want), "{name}, note {note:?}: {done:?}");
            let told = String::from_utf8_lossy(&done.stderr);
            let is_told = note.is_some() && name.starts_with("touch") && on_host();
            assert_eq!(told.contains("the program touched"), is_told, "{name}: {told}");
        }
    }
}

#[test]
fn a_handler_of_the_programs_is_called_as_ever() {
    for note in NOTES {
        HANDLED.iter().for_each(|(name, _)| drop(children::run(name, &[("FERRY_FAULT_NOTE", note)])));
    }
}

/// Runs a case that ends its process.
fn ended(case: &str, note: Option<&str>) -> Output {
    let mut child = Command::new(std::env::current_exe().expect("Linux knows which program runs"));
    child.args(["--ignored", "--exact", "one_case", "--nocapture"]).env("FERRY_TEST_CASE", case);
    child.env_remove("FERRY_FAULT_NOTE").envs(note.map(|note| ("FERRY_FAULT_NOTE", note)));
    child.output().expect("this program can be started")
}

fn mapped(len: usize, file: i32) -> Memory {
    let (rights, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        if file < 0 { libc::MAP_ANONYMOUS | libc::MAP_PRIVATE } else { libc::MAP_SHARED },
    );
    // SAFETY: fresh addresses.
    let addr = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, file, 0) } as usize;
    assert_ne!(addr, libc::MAP_FAILED as usize);
    Memory { addr, len, home: Home::Mapped }
}

fn unmapped() {
    gone("not mapped", |len| {
        let memory = mapped(len, -1);
        (memory, Box::new(move || unmap(memory.part(HOLE, len - HOLE))))
    });
}

fn protected() {
    gone("mapped, but protected", |len| {
        let memory = mapped(len, -1);
        (memory, Box::new(move || protect(memory.part(HOLE, len - HOLE))))
    });
}

fn cut() {
    gone("the file behind it ends", |len| {
        let file = file(len);
        (mapped(len, file), Box::new(move || truncate(file, HOLE)))
    });
}

/// A file in memory of this length.
fn file(len: usize) -> i32 {
    // SAFETY: the name ends with a zero.
    let file = unsafe { libc::memfd_create(c"faults".as_ptr(), 0) };
    truncate(file, len);
    file
}

fn truncate(file: i32, len: usize) {
    // SAFETY: an open file of this test's.
    assert_eq!(unsafe { libc::ftruncate(file, len as i64) }, 0);
}

fn unmap(memory: Memory) {
    // SAFETY: this test's own.
    assert_eq!(unsafe { libc::munmap(memory.addr as *mut c_void, memory.len) }, 0);
}

/// Memory that the library page-locked itself and the program protects.
fn page_locked() {
    gone_registered("mapped, but protected", |len| {
        let memory = Memory::pinned(len);
        (memory, Box::new(move || protect(memory.part(HOLE, len - HOLE))))
    });
}

fn protect(memory: Memory) {
    // SAFETY: this test's own.
    assert_eq!(unsafe { libc::mprotect(memory.addr as *mut c_void, memory.len, libc::PROT_NONE) }, 0);
}

type Spoil = Box<dyn FnOnce()>;

/// Registers memory, spoils it, and copies it in every way.
fn gone(why: &str, make: impl Fn(usize) -> (Memory, Spoil)) {
    gone_registered(why, |len| {
        use_device();
        let (memory, spoil) = make(len);
        ok(aclrtHostRegisterV2(memory.addr, len, PINNED));
        (memory, spoil)
    });
}

fn gone_registered(why: &str, make: impl Fn(usize) -> (Memory, Spoil)) {
    use_device();
    let (stream, other) = (stream(), stream());
    for len in [SMALL, LARGE] {
        let (memory, spoil) = make(len);
        memory.fill(7);
        let (device, good) = (Memory::device(len), Memory::pinned(len));
        good.fill(9);
        spoil();
        let (d, h) = (device.addr, memory.addr);
        let (hole, verbs) = (first_gone(h, len), ["cannot be read", "cannot be written"]);
        let one = |dst, src, attr| Batch::of(&[(dst, src, len)], attr).call(BatchForm::Async, stream).0;
        let calls: [(&str, usize, i32); 10] = [
            ("aclrtMemcpyAsync in", 0, aclrtMemcpyAsync(d, len, h, len, H2D, stream)),
            ("aclrtMemcpyAsync out", 1, aclrtMemcpyAsync(h, len, d, len, D2H, stream)),
            ("aclrtMemcpy2dAsync in", 0, aclrtMemcpy2dAsync(d, 4096, h, 4096, 4096, len / 4096, H2D, stream)),
            (
                "aclrtMemcpy2dAsync out",
                1,
                aclrtMemcpy2dAsync(h, 4096, d, 4096, 4096, len / 4096, D2H, stream),
            ),
            ("aclrtMemcpyBatchAsync in", 0, one(d, h, HOST_TO_DEVICE)),
            ("aclrtMemcpyBatchAsync out", 1, one(h, d, DEVICE_TO_HOST)),
            ("aclrtMemcpy in", 2, aclrtMemcpy(d, len, h, len, H2D)),
            ("aclrtMemcpy out", 3, aclrtMemcpy(h, len, d, len, D2H)),
            ("aclrtMemcpy inside the host", 2, aclrtMemcpy(good.addr, len, h, len, H2H)),
            ("aclrtMemset", 3, aclrtMemset(h, len, 1, len)),
        ];
        // Those submitted together have one failure; each alone has its own.
        assert!(calls[..6].iter().all(|(_, _, code)| *code == 0), "{calls:?}");
        refused(why, aclrtSynchronizeStream(stream), RT_PARAM_INVALID, &[&hole, verbs[0], why]);
        for (name, _, code) in &calls[6..] {
            expect(name, *code, RT_PARAM_INVALID);
        }
        ok(aclrtMemcpyAsync(h, len, d, len, D2H, stream));
        refused(why, aclrtSynchronizeStream(stream), RT_PARAM_INVALID, &[&hole, verbs[1], why]);
        refused(why, aclrtMemcpy(d, len, h, len, H2D), RT_PARAM_INVALID, &[&hole, verbs[0], why]);
        for stream in [stream, other] {
            good.fill(9);
            ok(aclrtMemcpyAsync(d, len, good.addr, len, H2D, stream));
            finish(stream);
            device.assert_all(9, "what is copied afterwards");
        }
    }
}

/// The address that a message names: of memory that several threads copy, any may be the first that fails.
fn first_gone(start: usize, len: usize) -> String {
    if len == SMALL { format!("{:#x}", start + HOLE) } else { "0x".into() }
}

/// Pageable memory, unmapped while a copy of it waits for its turn. Small pieces are the driver's where there
/// is one.
fn plain() {
    use_device();
    let stream = stream();
    for len in if on_host() { [SMALL, LARGE] } else { [LARGE, LARGE] } {
        let (memory, device) = (mapped(len, -1), Memory::device(len));
        memory.fill(1);
        let gate = block(stream);
        let (d, h) = (device.addr, memory.addr);
        let copy = move || aclrtMemcpyAsync(d, len, h, len, H2D, stream);
        let pending = blocked::call(copy).blocked("a copy of pageable memory behind a gate");
        unmap(memory.part(HOLE, len - HOLE));
        gate.unblock();
        ok(pending.join());
        let words = [&first_gone(h, len), "cannot be read", "not mapped"];
        refused("plain memory", aclrtSynchronizeStream(stream), RT_PARAM_INVALID, &words);
    }
}

/// What a C program has for a signal, and not the handler that Rust's programs have for their stacks.
fn reset(signal: i32) {
    // SAFETY: the default action.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// A device pointer, and nothing else of the library's in the way.
fn device_pointer() -> usize {
    reset(SIGSEGV);
    reset(SIGBUS);
    use_device();
    Memory::device(4096).addr
}

fn touch_at(addr: usize) {
    // SAFETY: none: this ends the process, which is what is looked for.
    unsafe { (addr as *mut u8).write_volatile(1) };
}

/// Touches a device pointer; of a GPU's the CPU knows nothing, so there it is any address.
fn touched() -> usize {
    let addr = device_pointer();
    println!("about to touch");
    if on_host() { addr } else { 16 }
}

fn touch() {
    touch_at(touched());
    println!("came through");
}

unsafe extern "C" fn touching(addr: *mut c_void) {
    touch_at(addr as usize);
}

/// On a thread of the library's.
fn touch_in_a_function() {
    let (addr, stream) = (touched(), stream());
    ok(aclrtLaunchHostFunc(stream, Some(touching), addr));
    finish(stream);
    println!("came through");
}

fn raise() {
    device_pointer();
    println!("about to raise");
    // SAFETY: ends the process.
    unsafe { libc::raise(SIGSEGV) };
    println!("came through");
}

fn raise_bus() {
    device_pointer();
    println!("about to raise");
    // SAFETY: ends the process.
    unsafe { libc::raise(SIGBUS) };
    println!("came through");
}

fn kill() {
    device_pointer();
    println!("about to kill");
    // SAFETY: ends the process, on whichever thread; this one waits for it.
    unsafe { libc::kill(libc::getpid(), SIGSEGV) };
    std::thread::sleep(std::time::Duration::from_secs(60));
    println!("came through");
}

static CALLS: AtomicUsize = AtomicUsize::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static ADDR: AtomicUsize = AtomicUsize::new(0);

/// Makes the page at `ADDR` accessible and notes what it was told.
unsafe extern "C" fn note(_: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    assert!(!context.is_null());
    if CALLS.fetch_add(1, Ordering::SeqCst) > 1000 {
        // SAFETY: ends the process: a fault that this handler cannot mend came to it, again and again.
        unsafe { libc::_exit(9) };
    }
    // SAFETY: the kernel gives a valid one.
    CODE.store(unsafe { (*info).si_code }, Ordering::SeqCst);
    let (page, rights) = (ADDR.load(Ordering::SeqCst), libc::PROT_READ | libc::PROT_WRITE);
    if page != 0 {
        // SAFETY: a page of this test's.
        unsafe { libc::mprotect(page as *mut c_void, 4096, rights) };
    }
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = 77 };
}

fn handle(flags: i32) {
    // SAFETY: a handler for SA_SIGINFO.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        libc::sigaction(SIGSEGV, &action, ptr::null_mut());
    }
    use_device();
}

/// How often the handler ran so far, and what the last signal was.
fn noted() -> (usize, i32) {
    (CALLS.load(Ordering::SeqCst), CODE.load(Ordering::SeqCst))
}

/// Signals that were sent reach the program's handler with what was sent, also from inside the library's
/// threads' copies.
fn sent_to_a_handler() {
    handle(0);
    // SAFETY: signals to this thread, which has a handler.
    unsafe {
        assert_eq!(libc::raise(SIGSEGV), 0);
        assert_eq!(noted(), (1, libc::SI_TKILL));
        let value = libc::sigval { sival_ptr: ptr::null_mut() };
        assert_eq!(libc::pthread_sigqueue(libc::pthread_self(), SIGSEGV, value), 0);
        assert_eq!(noted(), (2, libc::SI_QUEUE));
    }
}

/// A handler that makes memory accessible sees its own faults, again and again, and ours are none of its
/// business.
fn repaired() {
    handle(libc::SA_NODEFER);
    let page = mapped(4096, -1);
    ADDR.store(page.addr, Ordering::SeqCst);
    for round in 1..4 {
        protect(page);
        touch_at(page.addr);
        assert_eq!(noted(), (round, 2), "SEGV_ACCERR");
    }
    if on_host() {
        let (len, device) = (SMALL, Memory::device(SMALL));
        let memory = mapped(len, -1);
        ok(aclrtHostRegisterV2(memory.addr, len, PINNED));
        protect(memory);
        expect("a copy", aclrtMemcpy(device.addr, len, memory.addr, len, H2D), RT_PARAM_INVALID);
        assert_eq!(noted().0, 3, "not the program's fault");
    }
    protect(page);
    touch_at(page.addr);
    assert_eq!(noted().0, 4);
}

fn ignored() {
    // SAFETY: a valid action.
    unsafe { libc::signal(SIGSEGV, libc::SIG_IGN) };
    use_device();
    // SAFETY: ignored. Errno is this thread's own.
    unsafe {
        *libc::__errno_location() = 55;
        assert_eq!(libc::raise(SIGSEGV), 0);
        assert_eq!(*libc::__errno_location(), 55, "kept");
    }
}

/// A handler for one time: the second signal has the default action.
fn once() {
    handle(libc::SA_RESETHAND);
    // SAFETY: the child only raises signals; the parent waits for it.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::raise(SIGSEGV);
            libc::raise(SIGSEGV);
            libc::_exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == SIGSEGV, "{status:#x}");
        assert_eq!(libc::raise(SIGSEGV), 0);
    }
    assert_eq!(noted(), (1, libc::SI_TKILL));
}

/// What the kernel says of memory that was never good, with and without its help.
fn told() {
    use_device();
    let device = Memory::device(SMALL);
    let file = file(SMALL);
    let (none, constant, short) = (mapped(SMALL, -1), mapped(SMALL, -1), mapped(SMALL, file));
    protect(none);
    // SAFETY: this test's own.
    assert_eq!(unsafe { libc::mprotect(constant.addr as *mut c_void, SMALL, libc::PROT_READ) }, 0);
    truncate(file, HOLE);
    let hole = mapped(SMALL, -1);
    unmap(hole.part(HOLE, 4096));
    let (d, len) = (device.addr, SMALL);
    let into = |memory: Memory| aclrtMemcpy(d, len, memory.addr, len, H2D);
    let out_of = |memory: Memory| aclrtMemcpy(memory.addr, len, d, len, D2H);
    let protected = "mapped, but protected";
    refused("PROT_NONE", into(none), RT_PARAM_INVALID, &[protected, "(---p)"]);
    refused("PROT_NONE", out_of(none), RT_PARAM_INVALID, &[protected]);
    refused("PROT_READ", out_of(constant), RT_PARAM_INVALID, &[protected, "(r--p)"]);
    ok(into(constant));
    let ends = "the file behind it ends";
    refused("cut", into(short), RT_PARAM_INVALID, &[ends]);
    refused("cut", out_of(short), RT_PARAM_INVALID, &[ends]);
    let nothing = format!("{:#x} is not mapped in this process", hole.addr + HOLE);
    refused("a hole", into(hole), RT_PARAM_INVALID, &[&nothing]);
    expect("registered", aclrtHostRegisterV2(short.addr, len, PINNED), RT_PARAM_INVALID);
    assert!(!message().unwrap_or_default().contains("ended early"), "found out before a byte was copied");
}

/// The same where the kernel refuses to say: it is too old, or a sandbox forbids to ask.
fn told_without_help() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::EINVAL] {
        // SAFETY: the child's part only; the parent waits for it.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                forbid_populating(errno);
                // A panic must not go on in a copy of the test harness.
                libc::_exit(i32::from(std::panic::catch_unwind(told).is_err()));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0, "{errno}: {status:#x}");
        }
    }
}

/// From here on madvise answers MADV_POPULATE_READ and MADV_POPULATE_WRITE with `errno`.
fn forbid_populating(errno: i32) {
    const NUMBER: u32 = 0;
    const THIRD: u32 = 16 + 2 * 8;
    let load = |k| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k };
    let unless = |k, jt, jf| libc::sock_filter { code: 0x15, jt, jf, k };
    let answer = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let mut program = [
        load(NUMBER),
        unless(libc::SYS_madvise as u32, 0, 3),
        load(THIRD),
        unless(22, 2, 0),
        unless(23, 1, 0),
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_ERRNO | errno as u32),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a program that is whole; it is for this process, which ends soon.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter), 0);
        assert_eq!(libc::madvise(ptr::null_mut(), 0, 22), -1, "forbidden");
    }
}
