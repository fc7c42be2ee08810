//! The system calls behind the service: sockets that preserve message boundaries, their peers, descriptors
//! that are passed, and processes that can be watched. Names are abstract: nothing is left on disk, and the
//! name goes with the last socket.

use crate::{interrupt, state::Here};
use ferry::engine::files::{Kept, all_above};
use std::{
    io::{
        self,
        ErrorKind::{Interrupted, WouldBlock},
    },
    mem::{self, MaybeUninit},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;

/// A socket that is shut down when dropped: a forked child's copy does not keep the connection. Every use
/// fails once the program has closed its descriptor, even if it has opened another file under that number.
pub struct Socket(Kept);

/// The process on the other side, as the kernel saw it when the connection was made.
#[derive(Clone, Copy, Debug)]
pub struct SocketPeer {
    /// The process; 0 if it has no number in this process's namespace.
    pub pid: i32,
    /// Its effective user.
    pub uid: u32,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Ok(socket) = self.0.get() {
            // SAFETY: the descriptor is ours and open.
            unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
        }
    }
}

impl AsRef<Kept> for Socket {
    fn as_ref(&self) -> &Kept {
        &self.0
    }
}

impl Socket {
    /// A socket that listens under this number; fails with `AddrInUse` if another socket does already.
    /// Accepting never blocks.
    pub fn listen(number: u32) -> io::Result<Socket> {
        let socket = Socket::new(libc::SOCK_NONBLOCK)?;
        let (address, len) = address(number);
        // SAFETY: the address is valid for `len` bytes.
        check(unsafe { libc::bind(socket.fd()?, (&raw const address).cast(), len) })?;
        // SAFETY: the descriptor is ours.
        check(unsafe { libc::listen(socket.fd()?, BACKLOG) })?;
        Ok(socket)
    }

    /// A connection to the socket of this number. Waits until `end`, unless a signal ends that.
    pub fn connect(here: &Here, number: u32, end: Instant) -> io::Result<Socket> {
        let socket = Socket::new(0)?;
        let (address, len) = address(number);
        let is_watched = here.is_watched();
        loop {
            // Connecting waits while too many others do, for as long as sending may take.
            let left = left(end).ok_or(io::ErrorKind::TimedOut)?;
            socket.limit_sending(if is_watched { left.min(interrupt::SLICE) } else { left })?;
            // SAFETY: the address is valid for `len` bytes.
            match check(unsafe { libc::connect(socket.fd()?, (&raw const address).cast(), len) }) {
                Ok(_) => return Ok(socket),
                Err(error) if matches!(error.kind(), Interrupted | WouldBlock) => {
                    interrupt::ask(here).map_err(|_| Interrupted)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Wakes the thread that listens under this number, by a connection without a message. Never waits: where
    /// too many others wait to be accepted, the thread is awake.
    pub fn knock(number: u32) {
        let Ok(socket) = Socket::new(libc::SOCK_NONBLOCK) else { return };
        let (address, len) = address(number);
        if let Ok(fd) = socket.fd() {
            // SAFETY: the address is valid for `len` bytes.
            unsafe { libc::connect(fd, (&raw const address).cast(), len) };
        }
    }

    /// The next connection, if there is one.
    pub fn accept(&self) -> io::Result<Socket> {
        let (listener, flags) = (self.fd()?, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
        // SAFETY: the peer's address is not asked for.
        let accept = || unsafe { libc::accept4(listener, std::ptr::null_mut(), std::ptr::null_mut(), flags) };
        // SAFETY: the call just returned this descriptor and only this code has it.
        let accepted = || Ok(unsafe { OwnedFd::from_raw_fd(check(retrying(accept))?) });
        Ok(Socket(Kept::open(accepted)?))
    }

    /// Another descriptor of the same socket, if there is one to be had.
    pub fn another(&self) -> Option<Kept> {
        Kept::open(|| self.0.get()?.try_clone_to_owned()).ok()
    }

    /// Whether the program has left it to us.
    pub fn is_ours(&self) -> bool {
        self.0.is_ours()
    }

    fn fd(&self) -> io::Result<RawFd> {
        Ok(self.0.get()?.as_raw_fd())
    }

    /// The process on the other side: the one that connected, or that listens.
    pub fn peer(&self) -> io::Result<SocketPeer> {
        let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut len = mem::size_of_val(&peer) as libc::socklen_t;
        let fd = self.fd()?;
        // SAFETY: the value is written, and `len` is its size.
        check(unsafe {
            let value = (&raw mut peer).cast();
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, value, &mut len)
        })?;
        Ok(SocketPeer { pid: peer.pid, uid: peer.uid })
    }

    /// Sends one message, with a descriptor or without.
    pub fn send(&self, bytes: &[u8], file: Option<BorrowedFd>) -> io::Result<()> {
        let mut control = ControlBuffer::new();
        let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
        let mut message = message(&mut part);
        if let Some(file) = file {
            control.put(&mut message, file.as_raw_fd());
        }
        let fd = self.fd()?;
        // SAFETY: the message refers to `bytes` and `control`, which outlive the call; it is only read.
        let sent = check(retrying(|| unsafe { libc::sendmsg(fd, &message, libc::MSG_NOSIGNAL) as i32 }))?;
        if sent as usize == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Takes the next message and the descriptors that came with it, without waiting. 0 bytes: the other side
    /// is gone. A message longer than `bytes` comes back as longer.
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut control = ControlBuffer::new();
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut message = message(&mut part);
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control.0) as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC;
        let (fd, mut taken) = (self.fd()?, 0);
        let files = all_above(|| {
            // SAFETY: the message refers to `bytes` and `control`, which outlive the call.
            taken = check(retrying(|| unsafe { libc::recvmsg(fd, &mut message, flags) as i32 }))?;
            Ok(control.take(&message))
        })?;
        Ok((taken as usize, files))
    }

    fn new(flags: i32) -> io::Result<Socket> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags;
        // SAFETY: takes numbers only; the descriptor is new and only this code has it.
        let new = || unsafe { Ok(OwnedFd::from_raw_fd(check(libc::socket(libc::AF_UNIX, kind, 0))?)) };
        Ok(Socket(Kept::open::<OwnedFd>(new)?))
    }

    fn limit_sending(&self, limit: Duration) -> io::Result<()> {
        let limit = libc::timeval {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_usec: limit.subsec_micros().max(1) as libc::suseconds_t,
        };
        let len = mem::size_of_val(&limit) as libc::socklen_t;
        let (fd, value) = (self.fd()?, (&raw const limit).cast());
        // SAFETY: the value is read, and `len` is its size.
        check(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, value, len) }).map(drop)
    }
}

/// Room for a message's descriptor and a few that should not be there, aligned as their header is. The kernel
/// closes what does not fit.
struct ControlBuffer([MaybeUninit<libc::cmsghdr>; 4]);

impl ControlBuffer {
    fn new() -> ControlBuffer {
        ControlBuffer([MaybeUninit::zeroed(); 4])
    }

    /// Adds one descriptor to a message.
    fn put(&mut self, message: &mut libc::msghdr, file: RawFd) {
        let len = size_of::<RawFd>() as u32;
        message.msg_control = self.0.as_mut_ptr().cast();
        // SAFETY: arithmetic on a length.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(len) } as _;
        // SAFETY: the control part is zeroed, aligned, and holds a header and one descriptor; so the first
        // header is not NULL.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(len) as _;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(file);
        }
    }

    /// The descriptors that the kernel put into a message.
    fn take(&self, message: &libc::msghdr) -> Vec<OwnedFd> {
        let mut files = Vec::new();
        // SAFETY: `message` was filled by recvmsg and its control part, `self`, is still there.
        let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
        while !header.is_null() {
            // SAFETY: not NULL, so a header that the kernel wrote.
            let (level, kind, len) =
                unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len) };
            if (level, kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                // SAFETY: arithmetic on a length.
                let bytes = len - unsafe { libc::CMSG_LEN(0) } as usize;
                // SAFETY: the header's own data.
                let data = unsafe { libc::CMSG_DATA(header) }.cast::<RawFd>();
                // SAFETY: the kernel wrote this many descriptors, new ones that are ours alone.
                let file = |index| unsafe { OwnedFd::from_raw_fd(data.add(index).read_unaligned()) };
                files.extend((0..bytes / size_of::<RawFd>()).map(file));
            }
            // SAFETY: both came from the same received message.
            header = unsafe { libc::CMSG_NXTHDR(message, header) };
        }
        files
    }
}

fn message(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: plain data: all zero is a message without anything.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message
}

/// The address of a number: `ferry-memory-` and eight digits in the abstract namespace.
fn address(number: u32) -> (libc::sockaddr_un, libc::socklen_t) {
    let name = format!("\0ferry-memory-{number:08x}");
    // SAFETY: plain data.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, byte) in address.sun_path.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    let len = mem::offset_of!(libc::sockaddr_un, sun_path) + name.len();
    (address, len as libc::socklen_t)
}

/// Waits until one of `set` is ready, or until `end`.
pub fn wait(set: &mut [libc::pollfd], end: Option<Instant>) -> io::Result<()> {
    loop {
        let limit_ms = match end {
            None => -1,
            Some(end) => left(end).map_or(0, |left| left.as_millis().clamp(1, 60_000) as i32),
        };
        // SAFETY: the set is valid for its length.
        let found = unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, limit_ms) };
        let over = end.is_some_and(|end| left(end).is_none());
        match check(found) {
            Ok(0) if !over => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted && !over => {}
            Err(error) => return Err(error),
        }
    }
}

/// The entry of poll that waits for this to be readable; for nothing, if the program has closed it.
pub fn watch(kept: &impl AsRef<Kept>) -> libc::pollfd {
    let fd = kept.as_ref().get().map_or(-1, |fd| fd.as_raw_fd());
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Something that becomes readable when a process ends.
pub struct WatchedProcess(Kept);

impl AsRef<Kept> for WatchedProcess {
    fn as_ref(&self) -> &Kept {
        &self.0
    }
}

impl WatchedProcess {
    /// Whether the program has left it to us.
    pub fn is_ours(&self) -> bool {
        self.0.is_ours()
    }
}

/// The process of this number. `Ok(None)` where the kernel has no such thing.
pub fn process(pid: i32) -> io::Result<Option<WatchedProcess>> {
    let open = || {
        // SAFETY: takes numbers only.
        let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32 })?;
        // SAFETY: the call just returned this descriptor, closed on exec, and only this code has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    match Kept::of_process(pid, open) {
        Ok(kept) => Ok(Some(WatchedProcess(kept))),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The effective user of this process.
pub fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Random bytes from the kernel.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    const { assert!(N <= 256, "up to here the kernel gives all or nothing") };
    let mut bytes = [0; N];
    // SAFETY: the buffer is valid for its length.
    let got = check(retrying(|| unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) as i32 }))?;
    if got as usize == N { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// The time until `end`, if there is any.
fn left(end: Instant) -> Option<Duration> {
    end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

fn check(code: i32) -> io::Result<i32> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

fn retrying(mut call: impl FnMut() -> i32) -> i32 {
    loop {
        let code = call();
        if code >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return code;
        }
    }
}
