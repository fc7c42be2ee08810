//! Where a waiting thread is, from the kernel's files about it: in which system call, at which instruction,
//! which signals it blocks, whether it is traced.

use super::{kept_files, numbers, views};
use std::{
    fmt::Write as _,
    fs::File,
    io::Read,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Where a thread is that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadPlace {
    /// The system call that it is in.
    pub system_call: Option<SystemCall>,
    /// The next instruction of the program.
    pub pc: u64,
    /// The stack pointer there.
    pub sp: u64,
}

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

impl SystemCall {
    /// The buffers that it is given, in order, where it is one of the calls that take some.
    pub fn buffers(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let [_, second, third, ..] = self.arguments.map(|word| word as usize);
        let (one, list) = match self.number {
            libc::SYS_read
            | libc::SYS_write
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_sendto
            | libc::SYS_recvfrom => (Some([second, third]), None),
            libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_preadv2
            | libc::SYS_pwritev2 => (None, Some((second, third))),
            // Of struct msghdr: the list of buffers and its length are behind the name and its length.
            libc::SYS_sendmsg | libc::SYS_recvmsg => {
                (None, read_words(second).map(|[_, _, list, count]| (list, count)))
            }
            _ => (None, None),
        };
        let listed = list.into_iter().flat_map(|(list, count)| {
            let places = (0..count.min(MOST_BUFFERS)).map(move |at| list + at * size_of::<libc::iovec>());
            places.map_while(read_words)
        });
        one.into_iter().chain(listed).map(|[start, len]| start..start.saturating_add(len))
    }

    /// Whether it writes its buffers; otherwise it reads them.
    pub fn is_write(&self) -> bool {
        const WRITE: [i64; 7] = [
            libc::SYS_read,
            libc::SYS_pread64,
            libc::SYS_recvfrom,
            libc::SYS_readv,
            libc::SYS_preadv,
            libc::SYS_preadv2,
            libc::SYS_recvmsg,
        ];
        WRITE.contains(&self.number)
    }

    /// The addresses that are unmapped in it, or more, where it is one of those that unmap.
    pub fn unmaps(&self) -> Option<Range<usize>> {
        let [start, len, _, flags, ..] = self.arguments.map(|word| word as usize);
        match self.number {
            libc::SYS_mmap if flags & libc::MAP_FIXED as usize == 0 => None,
            libc::SYS_munmap | libc::SYS_mremap | libc::SYS_mmap => Some(start..start.checked_add(len)?),
            libc::SYS_brk => Some(start..usize::MAX),
            _ => None,
        }
    }
}

/// The most buffers that a system call takes.
const MOST_BUFFERS: usize = 1024;

/// Words of the process's memory, if they can be read.
pub(super) fn read_words<const N: usize>(at: usize) -> Option<[usize; N]> {
    let mut words = [0; N];
    // SAFETY: any bytes are words; the slice is theirs.
    let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(&words)) };
    (views::read(at as u64, bytes) == bytes.len()).then_some(words)
}

/// Where the thread is, if the kernel says so: it does not of a thread that runs.
pub fn of_thread(thread: i32) -> Option<ThreadPlace> {
    let mut text = [0; 256];
    parse(read(thread, "syscall", &mut text)?)
}

/// Where a thread is that waits, or is about to.
#[derive(Clone, Copy, Debug)]
pub enum WaitingPlace {
    /// There.
    At(ThreadPlace),
    /// It runs again.
    Running,
    /// The kernel does not say.
    Hidden,
}

/// The same of a thread that waits for a page, or is about to and counts as running until then.
pub fn of_waiting(thread: i32) -> WaitingPlace {
    const SOON: Duration = Duration::from_millis(1);
    let since = Instant::now();
    loop {
        let mut text = [0; 256];
        match read(thread, "syscall", &mut text) {
            Some(text) if text.starts_with("running") => {}
            text => return text.and_then(parse).map_or(WaitingPlace::Hidden, WaitingPlace::At),
        }
        if since.elapsed() > SOON {
            return WaitingPlace::Running;
        }
        std::thread::yield_now();
    }
}

fn parse(text: &str) -> Option<ThreadPlace> {
    let mut words = text.split_ascii_whitespace();
    let number = words.next()?.parse::<i64>().ok()?;
    let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let system_call = match number {
        -1 => None,
        _ => {
            let mut arguments = [0; 6];
            for argument in &mut arguments {
                *argument = next()?;
            }
            Some(SystemCall { number, arguments })
        }
    };
    Some(ThreadPlace { system_call, sp: next()?, pc: next()? })
}

/// The threads of this process that wait, and where.
pub fn waiting_threads() -> impl Iterator<Item = (i32, ThreadPlace)> {
    numbers::threads().filter_map(|(_, thread)| Some((thread, of_thread(thread)?)))
}

/// Whether the thread is one of this process: others may access its memory, by the kernel's files.
pub fn is_ours(thread: i32) -> bool {
    // SAFETY: sends nothing, and asks whether it could.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) == 0 }
}

/// What decides whether a thread can be sent a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadStatus {
    /// A debugger traces it.
    pub is_traced: bool,
    /// It was stopped, or has ended.
    pub is_stopped: bool,
    /// The signals that it blocks, the first in bit 0.
    pub blocked: u64,
    /// Whether a signal that it does not block has come and was not handled.
    pub has_signal: bool,
}

/// The status of a thread.
pub fn status_of(thread: i32) -> Option<ThreadStatus> {
    let mut text = [0; 4096];
    let text = read(thread, "status", &mut text)?;
    let field = |name: &str| Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim());
    let signals = |name| u64::from_str_radix(field(name)?, 16).ok();
    let (blocked, pending) = (signals("SigBlk:")?, signals("SigPnd:")? | signals("ShdPnd:")?);
    Some(ThreadStatus {
        is_traced: field("TracerPid:")? != "0",
        is_stopped: field("State:")?.starts_with(['T', 't', 'Z', 'X']),
        blocked,
        has_signal: pending & !blocked != 0,
    })
}

/// What an event of a page is worth when it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The thread waits for a page, as far as is known.
    ForPage,
    /// It has gone to handle a signal, and tries again when it has.
    NoMore,
    /// It is inside a system call and tries again and again, since a signal has come: the kernel does not
    /// say where it is.
    Spinning,
}

/// Whether a thread that was told of still waits. Where the kernel does not say what threads wait for, and of
/// threads of other processes, that is taken for granted.
pub fn waiting(thread: i32) -> Waiting {
    /// Whether the kernel has ever said so.
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    /// By then a thread that is about to wait does so, and one in the program handles its signal. If it got
    /// no CPU it is told of again.
    const SOON: Duration = Duration::from_millis(1);
    let since = Instant::now();
    loop {
        let mut text = [0; 64];
        match read(thread, "wchan", &mut text) {
            Some("handle_userfault") => {
                IS_SAID.store(true, Ordering::Relaxed);
                return Waiting::ForPage;
            }
            Some(_) if IS_SAID.load(Ordering::Relaxed) => {}
            _ => return Waiting::ForPage,
        }
        if since.elapsed() > SOON {
            let has_signal = status_of(thread).is_some_and(|it| it.has_signal && !it.is_stopped);
            return if has_signal { Waiting::Spinning } else { Waiting::NoMore };
        }
        std::thread::yield_now();
    }
}

/// Reads a file about a thread, without allocating, unless the process is in a PID namespace of its own: then
/// its number in /proc is looked for first.
fn read<'a>(thread: i32, name: &str, to: &'a mut [u8]) -> Option<&'a str> {
    let mut path = PathText { bytes: [0; 48], len: 0 };
    let thread = numbers::in_proc(thread)?;
    write!(path, "/proc/self/task/{thread}/{name}").ok()?;
    let mut file = match File::open(path.text()?) {
        Ok(file) => file,
        Err(why) if name == "syscall" => {
            let used = kept_files::read(thread, &why, to)?;
            return std::str::from_utf8(&to[..used]).ok();
        }
        Err(_) => return None,
    };
    let mut used = 0;
    while used < to.len() {
        match file.read(&mut to[used..]).ok()? {
            0 => break,
            got => used += got,
        }
    }
    std::str::from_utf8(&to[..used]).ok()
}

/// A short path.
struct PathText {
    bytes: [u8; 48],
    len: usize,
}

impl PathText {
    fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes[..self.len]).ok()
    }
}

impl std::fmt::Write for PathText {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + part.len()).ok_or(std::fmt::Error)?;
        room.copy_from_slice(part.as_bytes());
        self.len += part.len();
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_in_a_system_call_or_at_an_instruction() {
        let call = SystemCall { number: 1, arguments: [1, 0x1000, 6, 4, 5, 6] };
        for (text, want) in [
            ("1 0x1 0x1000 0x6 0x4 0x5 0x6 0x7fff 0x7f52", Some((Some(call), 0x7fff, 0x7f52))),
            ("-1 0x7fff 0x55b1", Some((None, 0x7fff, 0x55b1))),
            ("running\n", None),
            ("1 0x1", None),
        ] {
            let want = want.map(|(system_call, sp, pc)| ThreadPlace { system_call, sp, pc });
            assert_eq!(parse(text), want, "{text}");
        }
        assert_eq!(call.buffers().collect::<Vec<_>>(), [Range { start: 0x1000, end: 0x1006 }]);
    }

    #[test]
    fn buffers_of_calls_that_take_lists_are_found() {
        let list: [[usize; 2]; 3] = [[0x1000, 16], [0x2000, 0], [0x3000, 8]];
        let list_at = list.as_ptr().addr();
        let message: [usize; 7] = [0, 0, list_at, 3, 0, 0, 0];
        for (number, arguments) in [
            (libc::SYS_writev, [1, list_at, 3]),
            (libc::SYS_preadv2, [1, list_at, 3]),
            (libc::SYS_sendmsg, [1, message.as_ptr().addr(), 0]),
        ] {
            let [first, second, third] = arguments.map(|word| word as u64);
            let call = SystemCall { number, arguments: [first, second, third, 0, 0, 0] };
            let buffers: Vec<_> = call.buffers().collect();
            assert_eq!(buffers, [0x1000..0x1010, 0x2000..0x2000, 0x3000..0x3008], "{number}");
        }
        let nowhere = SystemCall { number: libc::SYS_writev, arguments: [1, 8, 3, 0, 0, 0] };
        assert_eq!(nowhere.buffers().count(), 0);
    }

    #[test]
    fn calls_that_unmap_say_which_addresses() {
        for (number, want) in [
            (libc::SYS_munmap, Some(0x1000..0x3000)),
            (libc::SYS_mremap, Some(0x1000..0x3000)),
            (libc::SYS_brk, Some(0x1000..usize::MAX)),
            (libc::SYS_read, None),
            (libc::SYS_mmap, None),
        ] {
            let call = SystemCall { number, arguments: [0x1000, 0x2000, 0, 0, 0, 0] };
            assert_eq!(call.unmaps(), want, "{number}");
        }
        let arguments = [0x1000, 0x2000, 0, (libc::MAP_FIXED | libc::MAP_PRIVATE) as u64, 0, 0];
        let over = SystemCall { number: libc::SYS_mmap, arguments };
        assert_eq!(over.unmaps(), Some(0x1000..0x3000), "a mapping over another one");
    }

    #[test]
    fn this_thread_is_not_traced_and_blocks_what_it_blocks() {
        // SAFETY: asks for a number.
        let status = status_of(unsafe { libc::gettid() }).expect("a status");
        assert_eq!(status.blocked & (1 << (libc::SIGURG - 1)), 0);
        assert_eq!(status_of(i32::MAX), None);
        // SAFETY: asks for numbers.
        let (this, parent) = unsafe { (libc::gettid(), libc::getppid()) };
        assert!(is_ours(this) && !is_ours(i32::MAX) && !is_ours(parent));
    }
}
