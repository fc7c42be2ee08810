//! Limits of the system: locked memory, address space, descriptors, threads, shared memory; and the C
//! library.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::path::Path;

use ferry_terminal::bytes;

use super::finding::{Finding, fine, note, wrong};

/// A smaller limit of locked memory is a default that programs with page-locked buffers soon reach.
const LITTLE_LOCKED: u64 = 1 << 30;
/// The default size of /dev/shm in containers.
const LITTLE_SHARED: u64 = 64 << 20;

pub fn inspect() -> Vec<Finding> {
    let mut findings = vec![c_library(), memlock(), userfaultfd(), memfd(), shared_folder()];
    findings.extend([addresses(), descriptors(), threads()].into_iter().flatten());
    findings
}

fn limit(which: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable for the time of the call.
    unsafe { libc::getrlimit(which, &mut limit) };
    limit.rlim_cur
}

fn c_library() -> Finding {
    // SAFETY: returns a string that lives as long as the process.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy().into_owned();
    fine(
        "system",
        format!(
            "glibc {version}, {} processors",
            std::thread::available_parallelism().map_or(1, usize::from)
        ),
    )
}

fn memlock() -> Finding {
    match limit(libc::RLIMIT_MEMLOCK) {
        libc::RLIM_INFINITY => fine("memlock", "no limit"),
        limit if limit >= LITTLE_LOCKED => {
            fine("memlock", format!("{} may be locked", bytes(limit as usize)))
        }
        limit => note(
            "memlock",
            format!(
                "{} may be locked: page-locked memory beyond that works, and may be swapped out",
                bytes(limit as usize)
            ),
            "ulimit -l unlimited, or docker run --ulimit memlock=-1",
        ),
    }
}

/// Whether a process may handle its own page faults. Some programs that share memory do.
fn userfaultfd() -> Finding {
    const USER_MODE_ONLY: libc::c_int = 1;
    // SAFETY: takes flags and returns a descriptor or an error.
    let fd =
        unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY) };
    if fd < 0 {
        let why = std::io::Error::last_os_error();
        let remedy = "Ferry does not need it; for programs that do: sysctl vm.unprivileged_userfaultfd=1, \
            or a seccomp profile that allows it";
        return note("userfaultfd", format!("refused: {why}"), remedy);
    }
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(fd as libc::c_int) };
    fine("userfaultfd", "allowed")
}

/// Device memory of the host backend, and memory between processes, are files of this kind.
fn memfd() -> Finding {
    // SAFETY: the name is a C string.
    let fd =
        unsafe { libc::memfd_create(c"ferry-doctor".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        let why = std::io::Error::last_os_error();
        return wrong(
            "memfd",
            format!("memfd_create: {why}"),
            "allow it: devices and memory between processes need it",
        );
    }
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(fd) };
    fine("memfd", "memory can be shared between processes")
}

fn shared_folder() -> Finding {
    let folder = Path::new("/dev/shm");
    let mut stat = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a C string, and room for the answer.
    if unsafe { libc::statvfs(c"/dev/shm".as_ptr(), stat.as_mut_ptr()) } != 0 {
        let why = std::io::Error::last_os_error();
        let remedy = "mount a tmpfs there: FERRY_DEVICE_SHARED=1 and other programs' workers use it";
        return note("shared", format!("{}: {why}", folder.display()), remedy);
    }
    // SAFETY: statvfs has filled it.
    let stat = unsafe { stat.assume_init() };
    let (free, total) = (stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize);
    let text = format!("/dev/shm has {} free of {}", bytes(free as usize), bytes(total as usize));
    // SAFETY: a C string.
    if unsafe { libc::access(c"/dev/shm".as_ptr(), libc::W_OK) } != 0 {
        return note(
            "shared",
            format!("{text}, and cannot be written"),
            "FERRY_DEVICE_SHARED may name another folder on a tmpfs",
        );
    }
    if free <= LITTLE_SHARED {
        return note(
            "shared",
            text,
            "docker run --shm-size=8g: DataLoader's workers and others put their data there",
        );
    }
    fine("shared", text)
}

fn addresses() -> Option<Finding> {
    let limit = limit(libc::RLIMIT_AS);
    let text = || {
        format!(
            "a process may have {} of addresses: devices are smaller, or FERRY_DEVICE_MEMORY is refused",
            bytes(limit as usize)
        )
    };
    (limit != libc::RLIM_INFINITY).then(|| note("addresses", text(), "ulimit -v unlimited"))
}

fn descriptors() -> Option<Finding> {
    let limit = limit(libc::RLIMIT_NOFILE);
    let text = || format!("{limit} files may be open: each import of shared memory takes one");
    (limit < 1024).then(|| note("descriptors", text(), "ulimit -n 65536"))
}

fn threads() -> Option<Finding> {
    let limit = limit(libc::RLIMIT_NPROC);
    let text = || format!("{limit} threads of this user may run: host functions that block take one each");
    (limit < 1024).then(|| note("threads", text(), "ulimit -u unlimited"))
}
