//! The child of a process that used the library: every call answers 107002 and says why. A program without
//! the test harness, because a child that starts threads must come from a process that has none but the main
//! one.

use ferry_tests::code::CONTEXT_NULL;
use ferry_tests::kind::{D2H, H2D, INNER};
use ferry_tests::*;

/// A way to make a child: as `fork`, if the system has it.
type Way = fn() -> Option<i32>;

/// The ways to make a child: `clone` with a function of its own ends in the system call, too. Some systems
/// lack `_Fork`.
const WAYS: [(&str, Way); 3] =
    [("fork", by_fork), ("_Fork", by_bare_fork), ("the system call", by_system_call)];

fn by_fork() -> Option<i32> {
    // SAFETY: whoever calls this ends the child with _exit.
    Some(unsafe { libc::fork() })
}

fn by_bare_fork() -> Option<i32> {
    // SAFETY: a name for dlsym.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_Fork".as_ptr()) };
    let bare_fork: Option<extern "C" fn() -> i32> =
        // SAFETY: what has this name has this type, and NULL is none.
        unsafe { std::mem::transmute::<*mut libc::c_void, _>(found) };
    bare_fork.map(|bare_fork| bare_fork())
}

fn by_system_call() -> Option<i32> {
    // SAFETY: as fork: nothing is shared with the child, whose stack is a copy of this one.
    Some(unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as i32)
}

/// Runs `child` in a forked child and returns what it said: 0 for well, else the number of the row that went
/// wrong.
fn forked(fork: Way, child: impl FnOnce() -> i32) -> i32 {
    // The child calls the library and _exit and never returns into the test.
    match fork().unwrap_or_else(|| by_fork().expect("always there")) {
        -1 => panic!("fork failed"),
        0 => {
            let said = child();
            // SAFETY: ends the child without running anything that belongs to the parent.
            unsafe { libc::_exit(said) }
        }
        pid => {
            let mut status = 0;
            // SAFETY: waits for the child just made and writes to a local.
            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
            assert!(libc::WIFEXITED(status), "the child died of signal {}", libc::WTERMSIG(status));
            libc::WEXITSTATUS(status)
        }
    }
}

/// A copy to the device and back in a process that starts with nothing.
fn works() -> i32 {
    let (data, mut back) = ([5u8; 64], [0u8; 64]);
    let mut device = 0;
    let codes = [
        aclrtSetDevice(0),
        aclrtMalloc(&mut device, 64, 0),
        aclrtMemcpy(device, 64, data.as_ptr() as usize, 64, H2D),
        aclrtMemcpy(back.as_mut_ptr() as usize, 64, device, 64, D2H),
    ];
    let wrong = codes.iter().position(|c| *c != 0).map(|i| i as i32 + 1);
    wrong.unwrap_or(if back == data { 0 } else { 99 })
}

fn main() {
    a_forked_child_is_told_that_it_is_one();
    println!("a forked child is told that it is one ... ok");
    if on_host() {
        a_runtime_of_rust_does_not_survive_a_fork();
        println!("a runtime of Rust does not survive a fork ... ok");
        a_runtime_dropped_in_a_child_leaves_the_childs_memory_alone();
        println!("a runtime dropped in a child leaves the child's memory alone ... ok");
    }
}

/// What can be asked in a child is refused, no wait hangs, and what is dropped there is the parent's no less.
fn a_runtime_of_rust_does_not_survive_a_fork() {
    const LEN: usize = 4096;
    let runtime = ferry::Runtime::new().expect("the host backend");
    let device = runtime.device(0).expect("a device");
    let stream = device.stream().expect("a stream");
    let mut kept = Some(device.alloc_from(&[7u8; LEN]).expect("room"));
    for (way, fork) in WAYS {
        let said = forked(fork, || {
            // SAFETY: a child that hangs ends by this.
            unsafe { libc::alarm(20) };
            let lost = |error: ferry::Error| error.kind == ferry::Kind::Lost;
            let refused = [
                device.alloc::<u8>(64).err().is_some_and(lost),
                runtime.alloc_host::<u8>(64).err().is_some_and(lost),
                device.stream().err().is_some_and(lost),
                stream.write(kept.as_ref().expect("kept"), &[1; LEN]).err().is_some_and(lost),
            ];
            drop(kept.take());
            refused.iter().position(|refused| !refused).map_or(0, |row| row as i32 + 1)
        });
        assert_eq!(said, 0, "by {way}: the row that was not refused, counted from 1");
        let mut back = [0; LEN];
        stream.read(&mut back, kept.as_ref().expect("kept")).expect("the parent goes on");
        assert_eq!(back, [7; LEN], "by {way}");
    }
}

/// Devices that processes share have a table which no child inherits. There is no stream: its worker, which
/// is not there in the child, would keep the memory.
fn a_runtime_dropped_in_a_child_leaves_the_childs_memory_alone() {
    let folder = std::path::Path::new("/dev/shm").join(format!("ferry-fork-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder of a tmpfs");
    for (way, fork) in WAYS {
        for device_shared in [None, Some(folder.clone())] {
            let options =
                ferry::Options { device_shared, device_memory: Some(1 << 24), ..Default::default() };
            let runtime = ferry::Runtime::open(&options).expect("the host backend");
            let device = runtime.device(0).expect("a device");
            let memory = device.alloc_from(&[7u8; 4096]).expect("room");
            let mapped = first_addresses();
            let said = forked(fork, || {
                // SAFETY: a child that hangs ends by this.
                unsafe { libc::alarm(20) };
                let lost = |error: ferry::Error| error.kind == ferry::Kind::Lost;
                if !device.memory_info().err().is_some_and(lost) {
                    return 1;
                }
                let own: Vec<_> = mapped.iter().copied().filter(|addr| map_page(*addr)).collect();
                drop((memory, device, runtime));
                if own.is_empty() {
                    2
                } else if own.iter().all(|addr| is_mapped(*addr)) {
                    0
                } else {
                    3
                }
            });
            assert_eq!(
                said, 0,
                "by {way}, shared by {:?}: 1 if asking was not refused, 2 if the child inherits everything, \
                 3 if it lost memory",
                options.device_shared
            );
        }
    }
    std::fs::remove_dir_all(&folder).expect("our folder");
}

/// Where the mappings of this process begin.
fn first_addresses() -> Vec<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux tells");
    let first = |line: &str| usize::from_str_radix(line.split('-').next()?, 16).ok();
    maps.lines().filter_map(first).collect()
}

/// Maps a page there, if nothing is.
fn map_page(addr: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping where none is.
    let page = unsafe { libc::mmap(addr as *mut libc::c_void, 4096, libc::PROT_READ, flags, -1, 0) };
    page as usize == addr
}

fn is_mapped(addr: usize) -> bool {
    // SAFETY: asks about a page, and writes to a local.
    unsafe { libc::mincore(addr as *mut libc::c_void, 4096, &mut 0) == 0 }
}

fn a_forked_child_is_told_that_it_is_one() {
    for (way, fork) in WAYS {
        assert_eq!(
            forked(fork, works),
            0,
            "a child of a process that has not used the library yet, by {way}"
        );
    }

    use_device();
    let stream = stream();
    let event = event();
    let (device, pinned) = (Memory::device(4096), Memory::pinned(4096));
    device.fill(1);
    pinned.fill(2);
    ok(aclrtMemcpyAsync(device.addr, 64, pinned.addr, 64, H2D, stream));
    finish(stream);
    let before = device.read();

    let (d, heap) = (device.addr, Memory::heap(4096).addr);
    let (mut out, mut status, mut count, mut ms, mut number) = (0usize, 0i32, 0u32, 0f32, 0i64);
    for (way, fork) in WAYS {
        let said = forked(fork, || {
            let mut batch = Batch::of(&[(d, heap, 64)], HOST_TO_DEVICE);
            type Call<'a> = &'a mut dyn FnMut() -> i32;
            let rows: [Call; 33] = [
                &mut || aclInit(std::ptr::null()),
                &mut || aclrtSetDevice(0),
                &mut || aclrtGetDevice(&mut status),
                &mut || aclrtGetDeviceCount(&mut count),
                &mut || aclrtSynchronizeDevice(),
                &mut || aclrtCreateStream(&mut out),
                &mut || aclrtSynchronizeStream(stream),
                &mut || aclrtSynchronizeStream(0),
                &mut || aclrtDestroyStream(stream),
                &mut || aclrtRecordEvent(event, stream),
                &mut || aclrtSynchronizeEvent(event),
                &mut || aclrtEventElapsedTime(&mut ms, event, event),
                &mut || aclrtFree(d),
                &mut || aclrtMemcpy(d, 64, heap, 64, H2D),
                &mut || aclrtMemcpyAsync(d, 64, heap, 64, H2D, stream),
                &mut || aclrtMemcpyAsyncWithCondition(d, 64, heap, 64, H2D, stream),
                &mut || aclrtMemcpy2d(d, 8, heap, 8, 8, 8, H2D),
                &mut || aclrtMemcpy2dAsync(d, 8, heap, 8, 8, 8, H2D, stream),
                &mut || batch.call(BatchForm::Async, stream).0,
                &mut || aclrtSetMemcpyDesc(d, INNER, d + 64, d + 128, 64, 0),
                &mut || aclrtMemcpyAsyncWithDesc(d, INNER, stream),
                &mut || aclrtMemcpyAsyncWithOffset(d, 64, 0, d + 64, 64, 0, INNER, stream),
                &mut || aclrtMemset(d, 64, 0, 64),
                &mut || aclrtMemsetAsync(d, 64, 0, 64, stream),
                &mut || aclrtMemsetD32Async(d, 64, 0, 16, stream),
                &mut || aclrtReduceAsync(d, d + 64, 64, 10, 0, stream, 0),
                &mut || aclrtGetLastError(0),
                &mut || aclrtGetDeviceInfo(0, 101, &mut number),
                &mut || aclrtSetSysParamOpt(0, 1),
                &mut || aclrtSetDeviceSatMode(0),
                &mut || aclsysGetVersionNum(c"runtime".as_ptr(), &mut { 0 }),
                &mut || aclFinalizeReference(std::ptr::null_mut()),
                &mut || aclFinalize(),
            ];
            message();
            for (i, call) in rows.into_iter().enumerate() {
                let told = call() == CONTEXT_NULL && message().is_some_and(|said| said.contains("fork"));
                if !told {
                    return i as i32 + 1;
                }
            }
            0
        });
        assert_eq!(
            said, 0,
            "by {way}: the row whose answer was not 107002 with a message about the fork, counted from 1"
        );
        // The parent goes on as if nothing had happened.
        device.assert_holds(&before, "the parent's memory");
    }

    ok(aclrtMemcpyAsync(device.addr + 64, 64, pinned.addr, 64, H2D, stream));
    finish(stream);
    device.part(0, 128).assert_all(2, "the parent's stream");
}
