//! userfaultfd in minor mode: pages that are in memory and not in the page table of a view.
//!
//! The kernel tells of every access to such a page, the program's and its own, and has the accessing thread
//! wait until the page is put into the page table. Numbers and layouts are those of the kernel's interface.

use crate::os::{
    files::{Kept, read_to_string},
    page::page_size,
};
use std::{
    ffi::c_void,
    io,
    ops::Range,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

const API: u64 = 0xaa;
const FEATURE_EVENT_UNMAP: u64 = 1 << 6;
const FEATURE_THREAD_ID: u64 = 1 << 8;
const FEATURE_MINOR_SHMEM: u64 = 1 << 10;
const FEATURE_EXACT_ADDRESS: u64 = 1 << 11;
const FEATURE_WRITE_PROTECT_SHMEM: u64 = 1 << 12;
const MODE_MISSING: u64 = 1;
const MODE_WRITE_PROTECT: u64 = 1 << 1;
const MODE_MINOR: u64 = 1 << 2;
/// Of IOCTL_CONTINUE: whoever waits goes on waiting; the page can be read, and writes are told of.
const WITHOUT_WAKING: u64 = 1;
const FOR_READING: u64 = 1 << 1;
const EVENT_PAGEFAULT: u8 = 0x12;
const EVENT_UNMAP: u8 = 0x16;
const FLAG_WRITE: u64 = 1;

const IOCTL_API: u64 = 0xc018_aa3f;
const IOCTL_REGISTER: u64 = 0xc020_aa00;
const IOCTL_UNREGISTER: u64 = 0x8010_aa01;
const IOCTL_WAKE: u64 = 0x8010_aa02;
const IOCTL_WRITE_PROTECT: u64 = 0xc018_aa06;
const IOCTL_CONTINUE: u64 = 0xc020_aa07;
const DEVICE_NEW: u64 = 0xaa00;
const USER_MODE_ONLY: i32 = 1;
/// The kernel does not say of a blocking descriptor whether an event waits.
const FLAGS: i32 = libc::O_CLOEXEC | libc::O_NONBLOCK;

const MADV_POPULATE_WRITE: i32 = 23;
const MADV_DONTNEED_LOCKED: i32 = 24;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Pages {
    start: u64,
    len: u64,
}

#[repr(C)]
struct Continue {
    start: u64,
    len: u64,
    mode: u64,
    mapped: i64,
}

#[repr(C)]
struct WriteProtect {
    start: u64,
    len: u64,
    mode: u64,
}

#[repr(C)]
#[derive(Default)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    thread: u32,
    unused: u32,
}

/// An access to a page that is in memory and not in the page table.
#[derive(Clone, Copy, Debug)]
pub struct PageFault {
    /// The byte.
    pub address: usize,
    /// Whether it is written.
    pub is_write: bool,
    /// The system's number of the accessing thread.
    pub thread: i32,
}

/// What the kernel tells.
pub enum Event {
    /// An access; the thread waits.
    Fault(PageFault),
    /// The program is unmapping this range, and goes on.
    Unmap(Range<usize>),
}

/// How pages are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// For every access.
    Whole,
    /// For reads: the kernel tells of the next write.
    ForReading,
}

/// What the kernel says of a page at the program's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageView {
    /// It is of a view that is watched.
    Watched,
    /// The program has something else there, or nothing.
    Other,
    /// A thread is unmapping something, and waits until its event is read: not known before that.
    Unmapping,
}

/// The descriptor. A program that closes all it finds closes this one, too, and may get its number for a file
/// of its own.
pub struct Uffd {
    file: Kept,
    /// Whether pages can be opened for reading alone (Linux 6.4 and later).
    can_protect: AtomicBool,
    /// Whether any were.
    has_protected: AtomicBool,
}

impl Uffd {
    /// Opens one that is told of system calls as well; where that is not allowed, system calls would fail
    /// on pages that are not in the page table.
    pub fn open() -> io::Result<Uffd> {
        let features = FEATURE_MINOR_SHMEM | FEATURE_THREAD_ID | FEATURE_EXACT_ADDRESS | FEATURE_EVENT_UNMAP;
        Uffd::open_with(features | FEATURE_WRITE_PROTECT_SHMEM, true)
            .or_else(|_| Uffd::open_with(features, false))
    }

    fn open_with(features: u64, can_protect: bool) -> io::Result<Uffd> {
        let file = Kept::open(by_call).or_else(|why| Kept::open(by_device).map_err(|_| why))?;
        Uffd::started(file, features, can_protect)
    }

    fn started(file: Kept, features: u64, can_protect: bool) -> io::Result<Uffd> {
        let (can_protect, has_protected) = (AtomicBool::new(can_protect), AtomicBool::new(false));
        let uffd = Uffd { file, can_protect, has_protected };
        uffd.ask(IOCTL_API, &mut Api { api: API, features, ioctls: 0 })?;
        Ok(uffd)
    }

    /// Opens one that is told of nothing, which anybody may: see [`register_unprotected`].
    ///
    /// [`register_unprotected`]: Uffd::register_unprotected
    pub fn open_for_views() -> io::Result<Uffd> {
        let file = Kept::open(|| by_call_with(libc::O_CLOEXEC | USER_MODE_ONLY))?;
        Uffd::started(file, FEATURE_WRITE_PROTECT_SHMEM, false)
    }

    /// Has the kernel put pages of this view into the page table one by one, and not with their neighbours;
    /// it tells of none.
    pub fn register_unprotected(&self, range: &Range<usize>) -> io::Result<()> {
        let (start, len) = (range.start as u64, range.len() as u64);
        self.ask(IOCTL_REGISTER, &mut Register { start, len, mode: MODE_WRITE_PROTECT, ioctls: 0 })
    }

    /// Has accesses to these pages told of, if the pages are in memory and not in the page table.
    pub fn register(&self, range: &Range<usize>) -> io::Result<()> {
        let (start, len) = (range.start as u64, range.len() as u64);
        let register = |mode| self.ask(IOCTL_REGISTER, &mut Register { start, len, mode, ioctls: 0 });
        if self.can_protect.load(Ordering::Relaxed) && register(MODE_MINOR | MODE_WRITE_PROTECT).is_ok() {
            return Ok(());
        }
        self.can_protect.store(false, Ordering::Relaxed);
        register(MODE_MINOR)
    }

    /// Whether pages can be opened for reading alone.
    pub fn can_protect(&self) -> bool {
        self.can_protect.load(Ordering::Relaxed)
    }

    /// Has all accesses to these pages told of that are not in the page table.
    pub fn register_missing(&self, range: &Range<usize>) -> io::Result<()> {
        let (start, len) = (range.start as u64, range.len() as u64);
        let mode = MODE_MISSING | MODE_MINOR;
        let both = self.ask(IOCTL_REGISTER, &mut Register { start, len, mode, ioctls: 0 });
        // Private memory has no minor faults.
        both.or_else(|_| {
            self.ask(IOCTL_REGISTER, &mut Register { start, len, mode: MODE_MISSING, ioctls: 0 })
        })
    }

    /// Has threads that wait for these pages look again.
    pub fn wake(&self, range: &Range<usize>) {
        let _ = self.ask(IOCTL_WAKE, &mut pages(range));
    }

    /// Whether the program has left the descriptor open.
    pub fn is_open(&self, range: &Range<usize>) -> bool {
        self.ask(IOCTL_WAKE, &mut pages(range)).is_ok()
    }

    /// Undoes `register`; threads that wait go on.
    pub fn unregister(&self, range: &Range<usize>) {
        let _ = self.ask(IOCTL_UNREGISTER, &mut pages(range));
    }

    /// Waits until an event can be read: for ever without a limit in milliseconds. Another thread may be
    /// faster.
    pub fn wait(&self, limit: Option<i32>) -> io::Result<bool> {
        let mut asked = libc::pollfd { fd: self.file.get()?.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: asks about one descriptor.
        match unsafe { libc::poll(&mut asked, 1, limit.unwrap_or(-1)) } {
            ..0 => Err(io::Error::last_os_error()),
            _ if asked.revents & (libc::POLLERR | libc::POLLNVAL) != 0 => Err(io::ErrorKind::NotFound.into()),
            count => Ok(count == 1),
        }
    }

    /// The next event, if one waits.
    pub fn next(&self) -> io::Result<Option<Event>> {
        let mut message = Message::default();
        let (to, size) = ((&raw mut message).cast::<c_void>(), size_of::<Message>());
        // SAFETY: reads a message into a place of its size.
        let got = unsafe { libc::read(self.file.get()?.as_raw_fd(), to, size) };
        if got < 0 {
            let why = io::Error::last_os_error();
            return if why.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(why) };
        }
        let Message { event, flags, address, thread, .. } = message;
        let (flags, address) = (flags as usize, address as usize);
        Ok(match event {
            _ if got as usize != size => None,
            EVENT_PAGEFAULT => {
                let is_write = flags as u64 & FLAG_WRITE != 0;
                Some(Event::Fault(PageFault { address, is_write, thread: thread as i32 }))
            }
            // Of this event the same words are the first address and the end.
            EVENT_UNMAP => Some(Event::Unmap(flags..address)),
            _ => None,
        })
    }

    /// Whether the program is unmapping something: the kernel has an event that is no access, and the thread
    /// waits until it is read. Only asked when something can be read.
    pub fn has_unmap(&self) -> bool {
        let Ok(file) = self.file.get() else { return false };
        let about = read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()));
        about.is_ok_and(|text| text.lines().any(|line| line.split_whitespace().eq(["pending:", "0"])))
    }

    /// What the program has in this page now, which may be open afterwards. Uses system calls alone, as the
    /// next one.
    pub fn view_of(&self, page: usize) -> PageView {
        let (start, len) = (page as u64, page_size() as u64);
        let mut request = Continue { start, len, mode: WITHOUT_WAKING, mapped: 0 };
        match self.ask(IOCTL_CONTINUE, &mut request).map_err(|why| why.raw_os_error()) {
            // It was armed, and is open now; or it was open; or it was never in memory.
            Ok(()) | Err(Some(libc::EEXIST | libc::EFAULT)) => PageView::Watched,
            Err(Some(libc::EAGAIN)) => PageView::Unmapping,
            Err(_) => PageView::Other,
        }
    }

    /// Arms one page, unless the program has something else there by now, which would lose its bytes.
    ///
    /// The kernel has no call that asks and arms in one. Between the two that are made here a thread would
    /// have to unmap the page, and yet another one to map memory of its own at this very address and to
    /// write to it: the first cannot, since it waits for its event.
    pub fn arm_watched(&self, page: usize) -> PageView {
        let view = self.view_of(page);
        if view == PageView::Watched {
            take_out(&(page..page + page_size()));
        }
        view
    }

    /// Puts the pages that are in memory into the page table, and then has threads that wait for them go on.
    /// Uses system calls alone: a signal handler calls it, too.
    ///
    /// While a thread unmaps something, the kernel refuses until its event was read: `take_events` is called
    /// then, before the next try.
    pub fn open_pages(&self, range: &Range<usize>, how: Opening, take_events: impl Fn()) {
        while !self.try_open(range, how) {
            take_events();
        }
    }

    /// The same, but false if the kernel refuses until an event was read; then nobody has gone on.
    pub fn try_open(&self, range: &Range<usize>, how: Opening) -> bool {
        let is_open = match how {
            Opening::ForReading => {
                self.has_protected.store(true, Ordering::SeqCst);
                self.put_into_table(range, WITHOUT_WAKING | FOR_READING)
            }
            Opening::Whole => self.put_into_table(range, WITHOUT_WAKING) && self.allow_writes(range),
        };
        if is_open {
            self.wake(range);
        }
        is_open
    }

    fn put_into_table(&self, range: &Range<usize>, mode: u64) -> bool {
        let (mut start, mut at_once) = (range.start, range.len());
        while start < range.end {
            let len = at_once.min(range.end - start);
            let mut request = Continue { start: start as u64, len: len as u64, mode, mapped: 0 };
            match self.ask(IOCTL_CONTINUE, &mut request).map_err(|why| why.raw_os_error()) {
                Ok(()) => start += len,
                Err(_) if request.mapped > 0 => start += request.mapped as usize,
                // In the page table already.
                Err(Some(libc::EEXIST)) => start += page_size(),
                Err(Some(libc::EAGAIN)) => return false,
                Err(why) => {
                    // A kernel that does not know how: whoever waits comes again, and no page is tried so.
                    if why == Some(libc::EINVAL) && mode & FOR_READING != 0 {
                        self.can_protect.store(false, Ordering::Relaxed);
                        break;
                    }
                    // The program has given a part of the memory other rights or advice, so that it is
                    // several mappings, of which the kernel takes one at a time.
                    match len > page_size() {
                        true => at_once = page_size(),
                        false => start += page_size(),
                    }
                }
            }
        }
        true
    }

    /// Pages of the range that were opened for reading are opened whole. False as in `try_open`.
    fn allow_writes(&self, range: &Range<usize>) -> bool {
        let (start, len) = (range.start as u64, range.len() as u64);
        !self.has_protected.load(Ordering::SeqCst)
            || self
                .ask(IOCTL_WRITE_PROTECT, &mut WriteProtect { start, len, mode: 0 })
                .map_or_else(|why| why.raw_os_error() != Some(libc::EAGAIN), |()| true)
    }

    fn ask<T>(&self, what: u64, with: &mut T) -> io::Result<()> {
        // SAFETY: each number goes with the layout that it is asked with here.
        match unsafe { libc::ioctl(self.file.get()?.as_raw_fd(), what as _, &raw mut *with) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Takes pages out of the page table of a view whose bytes are in a file.
pub fn take_out(range: &Range<usize>) {
    let start = range.start as *mut c_void;
    // SAFETY: a shared mapping, whose bytes stay in the file behind it.
    unsafe {
        if libc::madvise(start, range.len(), libc::MADV_DONTNEED) != 0 {
            libc::madvise(start, range.len(), MADV_DONTNEED_LOCKED);
        }
    }
}

/// Has the pages of a view be in memory.
pub fn populate(range: &Range<usize>) -> bool {
    // SAFETY: no byte changes.
    unsafe { libc::madvise(range.start as *mut c_void, range.len(), MADV_POPULATE_WRITE) == 0 }
}

fn pages(range: &Range<usize>) -> Pages {
    Pages { start: range.start as u64, len: range.len() as u64 }
}

fn by_call() -> io::Result<OwnedFd> {
    by_call_with(FLAGS)
}

fn by_call_with(flags: i32) -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor.
    owned(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) } as i32)
}

fn by_device() -> io::Result<OwnedFd> {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/userfaultfd")?;
    // SAFETY: asks the device for a descriptor.
    owned(unsafe { libc::ioctl(device.as_raw_fd(), DEVICE_NEW as _, FLAGS) })
}

fn owned(file: i32) -> io::Result<OwnedFd> {
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just returned this descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}
