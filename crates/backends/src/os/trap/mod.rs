//! Accesses of the CPU to memory that is mapped twice: the program's view is watched, the engine's is not.
//!
//! Pages of the program's view are *armed*: taken out of its page table. The kernel tells of the next access
//! to each (`uffd`), by the program or by a system call, and the accessing thread waits. The monitor, a
//! thread of ours, asks its [`Judge`] what the access is. If it is of no interest, pages are opened around
//! it. Otherwise the thread says where it is (`answer`), and is let over that one instruction (`step`), so
//! that the access happens as it would have without us and the page is armed again. The kernel names the
//! first byte; how many there are, the instruction says (`operand`). A thread inside a system call is never
//! sent a signal: where it is comes from the kernel's files (`place`), and the page is armed again when the
//! call has returned (`after_call`).
//!
//! What is in flight, and what becomes of what is seen, is the judge's business, who knows nothing of pages
//! and signals. Arrows: `step` and `answer` use `uffd` and `chain`; this module uses all. Whatever happens
//! here, the program goes on (`watchdog`).

mod after_call;
pub(in crate::os) mod answer;
mod breakpoint;
mod call_end;
mod chain;
pub mod devices;
pub(crate) mod doubled;
pub mod kept_files;
mod mapped;
mod moving;
pub mod numbers;
mod operand;
mod overread;
pub mod place;
mod pointers;
mod presence;
mod shadow;
mod snapshot;
mod step;
mod uffd;
mod views;
mod watchdog;

use super::{page::page_size, threads};
use answer::{Asked, Elsewhere, Question, StackAnswer};
use operand::{MemoryOperands, Registers};
use overread::StringScans;
use place::{SystemCall, ThreadPlace, ThreadStatus, Waiting, WaitingPlace};
pub use pointers::{DevicePointer, tell_pointers};
pub use presence::Presence;
pub use shadow::Shadow;
pub use snapshot::{Snapshot, at_fork};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    ops::Range,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use uffd::{Event, Uffd};
pub use uffd::{Opening, PageFault, populate};
pub use views::read as read_for_monitor;
use watchdog::EventInWork;
pub use watchdog::has_let_go;

/// The stack of the monitor.
const STACK: usize = 1 << 20;

/// How long a thread is looked for that unmaps registered memory.
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// How often a thread is sent back that a signal of the program's has come to, so that nobody says where it
/// is: in the program it handles the signal and comes again, in a system call it comes again at once.
const MOST_SENT_BACK: u32 = 64;

/// How long a page is open for a system call that does not return, for others to access it unseen.
const LONGEST_OPEN: Duration = Duration::from_millis(1);

/// An access to armed memory that is in flight.
#[derive(Clone, Copy, Debug)]
pub struct TrappedAccess {
    /// The first byte in the page.
    pub address: usize,
    /// How many bytes of the page are accessed, by the instruction or by the buffer of a system call; one
    /// where that is not known, and none where a string function looks at none of them.
    pub len: usize,
    /// Whether they are written.
    pub is_write: bool,
    /// The thread.
    pub thread: i32,
    /// Where the thread is, as far as the kernel says.
    pub place: ThreadPlace,
    /// The judge's moment when the access was told. Another thread may have opened the page since, and the
    /// accessing one gone on.
    pub moment: u64,
}

/// What is to be done about an access.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// The stack is wanted.
    pub wants_stack: bool,
    /// The page should be armed again after the access.
    pub keeps_armed: bool,
}

/// Pages around an access of no interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPages {
    /// The pages.
    pub pages: Range<usize>,
    /// How they are opened.
    pub how: Opening,
    /// Whether that was done.
    pub is_done: bool,
}

/// Decides on accesses. It is called by the monitor, while the accessing thread waits: it takes no lock that
/// a thread of the program may hold while it touches memory of the program's.
pub trait Judge: Send + Sync {
    /// A number that grows with what comes to be in flight. It waits for nothing.
    fn moment(&self) -> u64;

    /// The pages to open at this access, and how, if it collides with nothing in flight in its page;
    /// `can_protect` says whether pages can be opened for reading. `open` is called with them first, and
    /// nothing comes to be in flight meanwhile; it says whether they are open. If they are not, they are
    /// opened later, and [`opened`](Judge::opened) is called.
    fn open_around(
        &self,
        fault: &PageFault,
        can_protect: bool,
        open: &dyn Fn(&Range<usize>, Opening) -> bool,
    ) -> Option<OpenPages>;

    /// Those pages were opened at last: what came to be in flight in them is to be armed again.
    fn opened(&self, pages: &Range<usize>, how: Opening);

    /// What is to be done about an access to a page that has something in flight.
    fn judge(&self, access: &TrappedAccess) -> Verdict;

    /// How much is added to the program's address of these bytes for the engine's, if all of them are in one
    /// view.
    fn engine_distance(&self, bytes: Range<usize>) -> Option<usize>;

    /// The access is about to happen: the thread goes on when this returns. `frames` is the stack, if it was
    /// wanted and the thread
    /// could say it, from the instruction itself on; `is_open` whether the page is not armed any more.
    fn happens(&self, access: &TrappedAccess, frames: Option<Vec<u64>>, is_open: bool);

    /// The CPU is about to access an address of a device, which fails. `frames` as in
    /// [`happens`](Judge::happens).
    fn pointer(&self, access: &TrappedAccess, frames: Option<Vec<u64>>);

    /// A thread has unmapped registered memory, and is inside that system call until this returns. It may be
    /// called more than once for one call. [`unmapped`](Judge::unmapped) follows.
    fn unmapping(&self, thread: i32, place: ThreadPlace, range: Range<usize>);

    /// The program has unmapped registered memory that is mapped twice: that is not watched any more.
    fn unmapped(&self, range: Range<usize>);

    /// The program has closed the watch's descriptor: no access is seen any more.
    fn closed(&self);
}

/// The watch over views of this process.
#[derive(Clone, Copy)]
pub struct Trap {
    uffd: &'static Uffd,
}

impl Trap {
    /// Begins to watch, for as long as the process lives; `lines` is called by a thread that is asked for its
    /// stack, inside a signal handler.
    pub fn open(judge: Arc<dyn Judge>, lines: fn()) -> io::Result<Trap> {
        static OPENED: OnceLock<()> = OnceLock::new();
        if OPENED.set(()).is_err() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let uffd: &'static Uffd = Box::leak(Box::new(Uffd::open()?));
        let can_ask = answer::install(uffd, lines);
        let can_step = can_ask && step::install(uffd);
        let (put_aside, scans, sent_back) = Default::default();
        let monitor = Monitor { uffd, judge, can_ask, can_step, put_aside, scans, sent_back };
        threads::end::spawn_deaf("ferry-accesses", STACK, move || monitor.run())?;
        watchdog::begin(uffd)?;
        kept_files::keep_all();
        Ok(Trap { uffd })
    }

    /// Has accesses to armed pages of this view told of, whose bytes the engine has from `engine` on.
    pub fn watch(&self, view: &Range<usize>, engine: usize) -> io::Result<()> {
        self.uffd.register(view)?;
        views::add(view, engine);
        Ok(())
    }

    /// Has accesses to addresses of a device told of, which have no rights and nothing behind them; where
    /// that cannot be, they stay as they are.
    pub fn watch_device(&self, addresses: &Range<usize>) -> bool {
        devices::watch(self.uffd, addresses)
    }

    /// Undoes `watch`. When it returns, no thread arms pages of it any more.
    pub fn leave(&self, view: &Range<usize>) {
        step::wait_for(view);
        self.uffd.unregister(view);
        views::remove(view);
    }

    /// Maps whole pages of the program's own memory twice, and says the engine's address of them.
    pub fn double(&self, user: &Range<usize>) -> Result<usize, String> {
        doubled::double(self.uffd, user)
    }

    /// The parts of memory that is mapped twice that a forked child has to itself.
    pub fn own_parts(&self, user: &Range<usize>) -> Vec<Range<usize>> {
        doubled::own_parts(user)
    }

    /// Whether the program has unmapped some of its memory that is mapped twice.
    pub fn is_lacking(&self) -> bool {
        doubled::is_lacking()
    }

    /// Maps twice what the program has now where it had unmapped these bytes of the engine's. Says what was
    /// unmapped that nobody was told of.
    pub fn renew(&self, engine: &Range<usize>) -> Vec<Range<usize>> {
        doubled::renew(self.uffd, engine)
    }

    /// Undoes `double` for the program; the engine's view stays until the backend forgets it.
    pub fn unite(&self, user: &Range<usize>) {
        doubled::unite(self.uffd, user);
    }

    /// Arms pages of a view that are in memory, unless the program has something else there by now.
    pub fn arm(&self, pages: &Range<usize>) {
        if doubled::is_there(self.uffd, pages.start) {
            uffd::take_out(pages);
        }
    }

    /// Opens pages.
    pub fn open_pages(&self, pages: &Range<usize>) {
        moving::open_pages(self.uffd, pages);
    }
}

/// The thread that is told of accesses.
struct Monitor {
    uffd: &'static Uffd,
    judge: Arc<dyn Judge>,
    can_ask: bool,
    can_step: bool,
    /// Events that were read while it waited for an answer, with their moments.
    put_aside: RefCell<VecDeque<(PageFault, u64)>>,
    scans: RefCell<StringScans>,
    /// The thread that was sent back last, and how often in a row.
    sent_back: Cell<(i32, u32)>,
}

impl Monitor {
    fn run(&self) {
        let mut armed = Instant::now();
        loop {
            while let Some((fault, moment)) = self.next_put_aside() {
                let _in_work = EventInWork::begin(fault.address);
                self.handle(&fault, moment);
            }
            let is_any_open = after_call::is_any_open();
            if is_any_open && armed.elapsed() >= LONGEST_OPEN {
                after_call::arm_meanwhile();
                armed = Instant::now();
            }
            let limit = is_any_open.then_some(LONGEST_OPEN.as_millis() as i32);
            // Before the event is read: its thread waits at least until then.
            let waited = self.uffd.wait(limit).map(|is_there| (is_there, self.judge.moment()));
            if let Ok((false, _)) = waited {
                continue;
            }
            // Before it is read: who waits for the event may wait for the work on it, too.
            let in_work = EventInWork::begin(0);
            self.look_for_unmapping();
            match waited.and_then(|(_, moment)| Ok((moment, self.uffd.next()?))) {
                Ok((moment, Some(Event::Fault(fault)))) => {
                    in_work.is_about(fault.address);
                    self.handle(&fault, moment);
                }
                Ok((_, Some(Event::Unmap(range)))) => self.unmapped(range),
                Ok((_, None)) => {}
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                // The program has closed the descriptor: nothing can be armed any more, and nobody waits.
                Err(_) => return self.judge.closed(),
            }
        }
    }

    /// If the event about to be read is of registered memory that was unmapped: looks for the call, since the
    /// event does not name the thread, which waits until it is read; and has the engine lose it, so that the
    /// program finds it so when it goes on.
    fn look_for_unmapping(&self) {
        if !doubled::is_any() || !self.uffd.has_unmap() {
            return;
        }
        let gone = doubled::gone();
        let since = Instant::now();
        // The thread may be about to wait, and counts as running until then.
        while !gone.is_empty() && !self.finds_unmapping(&gone) && since.elapsed() < LONGEST_LOOK {
            std::thread::yield_now();
        }
        self.lose(&gone);
    }

    /// Whether a thread waits in the call that has unmapped this: the judge is told.
    fn finds_unmapping(&self, gone: &[Range<usize>]) -> bool {
        let unmaps =
            |(thread, place): (i32, ThreadPlace)| Some((thread, place, place.system_call?.unmaps()?));
        let part = |range: &Range<usize>| {
            let parts = gone.iter().map(|gone| gone.start.max(range.start)..gone.end.min(range.end));
            parts.into_iter().find(|part| part.start < part.end)
        };
        let found = place::waiting_threads()
            .filter_map(unmaps)
            .find_map(|(thread, place, range)| Some((thread, place, part(&range)?)));
        if let Some((thread, place, gone)) = found.clone() {
            self.judge.unmapping(thread, place, gone);
        }
        found.is_some()
    }

    fn unmapped(&self, range: Range<usize>) {
        devices::unmapped(&range);
        // An access that was told of may have hidden the event before it was read.
        if doubled::has_parts_in(&range) {
            self.lose(&doubled::gone());
        }
    }

    fn lose(&self, gone: &[Range<usize>]) {
        doubled::lose(gone);
        gone.iter().for_each(|gone| self.judge.unmapped(gone.clone()));
    }

    fn next_put_aside(&self) -> Option<(PageFault, u64)> {
        self.put_aside.borrow_mut().pop_front()
    }

    /// Whether a thread that was asked cannot answer: it is in a handler of the program's that blocks the
    /// signal, or waits for a page again, inside a system call. What is told meanwhile is put aside.
    fn has_left(&self, thread: i32) -> bool {
        while self.uffd.wait(Some(0)).unwrap_or(false) {
            let moment = self.judge.moment();
            self.look_for_unmapping();
            match self.uffd.next() {
                Ok(Some(Event::Unmap(range))) => self.unmapped(range),
                Ok(Some(Event::Fault(fault))) => self.put_aside.borrow_mut().push_back((fault, moment)),
                _ => break,
            }
        }
        let waits_again = self.put_aside.borrow().iter().any(|(fault, _)| fault.thread == thread);
        waits_again || place::status_of(thread).is_some_and(|status| !answer::can_reach(&status))
    }

    /// Opens pages. The kernel opens none before the event of a thread that unmaps something was read, and
    /// nobody else reads it. Whoever faults meanwhile is sent back, to fault again.
    fn open_pages(&self, pages: &Range<usize>, how: Opening) {
        moving::open_pages_taking(self.uffd, pages, how, || {
            if !self.uffd.wait(Some(0)).unwrap_or(false) {
                return std::thread::yield_now();
            }
            self.look_for_unmapping();
            match self.uffd.next() {
                Ok(Some(Event::Unmap(range))) => self.unmapped(range),
                Ok(Some(Event::Fault(fault))) => {
                    let page = fault.address / page_size() * page_size();
                    self.uffd.wake(&(page..page + page_size()));
                }
                _ => std::thread::yield_now(),
            }
        });
    }

    fn handle(&self, fault: &PageFault, moment: u64) {
        // The page is being moved, and the thread is woken when that is done.
        if moving::is_held(fault.address) {
            return;
        }
        if devices::is_watched(fault.address) {
            return self.handle_device(fault, moment);
        }
        let can_protect = self.uffd.can_protect();
        let open = |pages: &Range<usize>, how| moving::try_open(self.uffd, pages, how);
        if let Some(OpenPages { pages, how, is_done }) = self.judge.open_around(fault, can_protect, &open) {
            if !is_done {
                self.open_pages(&pages, how);
                self.judge.opened(&pages, how);
            }
            return;
        }
        let page = fault.address / page_size() * page_size();
        let waiting = place::waiting(fault.thread);
        if waiting == Waiting::NoMore {
            // If it is about to wait, it is told of again.
            return self.uffd.wake(&(page..page + page_size()));
        }
        let found = match waiting {
            Waiting::ForPage => place::of_waiting(fault.thread),
            _ => WaitingPlace::Running,
        };
        let known = match found {
            WaitingPlace::At(place) => {
                self.sent_back.set((fault.thread, 0));
                Some(place)
            }
            WaitingPlace::Running if self.comes_again(fault.thread) => {
                return self.uffd.wake(&(page..page + page_size()));
            }
            WaitingPlace::Running | WaitingPlace::Hidden => None,
        };
        let place = known.unwrap_or_default();
        if let Some(call) = place.system_call {
            self.handle_call(TrappedAccess { place, ..TrappedAccess::of(fault, moment) }, &call);
            return self.open_pages(&(page..page + page_size()), Opening::Whole);
        }
        let (access, operands) = TrappedAccess { place, ..TrappedAccess::of(fault, moment) }.with_operands();
        let verdict = self.judged(&access);
        let is_asked = known.is_some() && (verdict.wants_stack || verdict.keeps_armed);
        let happens = |frames, is_open, registers: &Registers| {
            self.judge.happens(&self.measured(&access, &operands, Some(registers)), frames, is_open);
        };
        let asked = if is_asked { self.ask(&access, page, verdict, happens) } else { Asked::Silent };
        if asked == Asked::Silent {
            self.judge.happens(&self.measured(&access, &operands, None), None, true);
            self.open_pages(&(page..page + page_size()), Opening::Whole);
            if waiting == Waiting::Spinning && verdict.keeps_armed {
                after_call::arm_soon(page);
            }
        }
    }

    /// Whether a thread is sent back that does not wait any more: a signal of the program's has come, and it
    /// tries again when it has handled that.
    fn comes_again(&self, thread: i32) -> bool {
        let (last, count) = self.sent_back.get();
        let count = if last == thread { count + 1 } else { 1 };
        let does = count <= MOST_SENT_BACK;
        self.sent_back.set((thread, if does { count } else { 0 }));
        does
    }

    /// The access with as many bytes as the registers say, if they are needed for that.
    fn measured(
        &self,
        access: &TrappedAccess,
        operands: &Option<MemoryOperands>,
        registers: Option<&Registers>,
    ) -> TrappedAccess {
        if !access.is_write && operand::reads_beyond(access.place.pc) {
            return self.scans.borrow_mut().looked_at(*access, registers);
        }
        let Some(operands) = operands else { return *access };
        let len = registers.and_then(|registers| operands.len_from(access.address, registers));
        TrappedAccess { len: len.map_or(1, |len| len.min(access.len)), ..*access }
    }

    /// The page is open during the call: all that it accesses there is judged now.
    fn handle_call(&self, access: TrappedAccess, call: &SystemCall) {
        let page = access.address / page_size() * page_size();
        let mut parts = parts_in_page(call, access.address, access.is_write).into_iter().peekable();
        while let Some((part, is_write)) = parts.next() {
            let access = TrappedAccess { address: part.start, len: part.len(), is_write, ..access };
            let verdict = self.judged(&access);
            let is_last = parts.peek().is_none();
            let may_arm = is_last && verdict.keeps_armed && self.can_step;
            let is_armed = may_arm && step::arm_behind_call(access.thread, access.place, page);
            self.judge.happens(&access, None, is_last && !is_armed);
        }
    }

    /// A debugger reads the memory of a process, too: that is no access of the program's.
    fn judged(&self, access: &TrappedAccess) -> Verdict {
        if place::is_ours(access.thread) { self.judge.judge(access) } else { Verdict::default() }
    }

    /// An access to an address of a device: it is told, and fails.
    fn handle_device(&self, fault: &PageFault, moment: u64) {
        let page = fault.address / page_size() * page_size();
        let known = place::of_thread(fault.thread);
        let access = TrappedAccess { place: known.unwrap_or_default(), ..TrappedAccess::of(fault, moment) };
        if devices::is_populating(access.place.system_call) {
            return devices::close_range(self.uffd, page);
        }
        if place::is_ours(fault.thread) {
            let can_answer = known.is_some_and(|place| place.system_call.is_none());
            let verdict = Verdict { wants_stack: true, keeps_armed: false };
            let pointer = |frames| {
                self.judge.pointer(&access, frames);
                devices::close(page);
            };
            let ask = || self.ask(&access, page, verdict, |frames, _, _| pointer(frames));
            match if can_answer { ask() } else { Asked::Silent } {
                Asked::Answered => {}
                Asked::Silent => pointer(None),
                // It tries again.
                Asked::Elsewhere => return,
            }
        } else {
            devices::close(page);
        }
        self.uffd.wake(&(page..page + page_size()));
    }

    /// How the instruction can be done in the engine's view of the same bytes, so that the page stays armed
    /// for other threads meanwhile. Not for an operand in two pages, each of which is to be judged.
    fn elsewhere(&self, access: &TrappedAccess) -> Option<Elsewhere> {
        let operands = operand::decoded(access.place.pc)?;
        let (operand, size, at) = (operands.address()?, operands.size(), access.address);
        let is_inside = at % page_size() + size <= page_size();
        let by = self.judge.engine_distance(at..at + size).filter(|_| is_inside)?;
        Some(Elsewhere { operand, at, by })
    }

    /// A thread that blocks the signal, or that a debugger would stop at it, is not asked.
    /// `tell` gets the stack, whether the page stays open, and the registers.
    fn ask(
        &self,
        access: &TrappedAccess,
        page: usize,
        verdict: Verdict,
        tell: impl Fn(Option<Vec<u64>>, bool, &Registers),
    ) -> Asked {
        let status = place::status_of(access.thread);
        let can_ask = |status: &ThreadStatus| self.can_ask && !status.is_traced && answer::can_reach(status);
        if !status.as_ref().is_some_and(can_ask) {
            return Asked::Silent;
        }
        let (wants_stack, may_step) = (verdict.wants_stack, verdict.keeps_armed && self.can_step);
        let (thread, pc) = (access.thread, access.place.pc);
        let elsewhere = if may_step { self.elsewhere(access) } else { None };
        let question = Question { thread, page, pc, wants_stack, may_step, elsewhere };
        answer::ask(
            &question,
            || self.has_left(thread),
            |StackAnswer { frames, has_stepped, registers }| {
                let frames = Some(frames).filter(|frames| !frames.is_empty());
                tell(frames, !has_stepped, &registers);
            },
        )
    }
}

/// What a call accesses in the page of this address, from there on, and whether it writes it: each buffer as
/// far as it lies in the page. Where the address is in none, it is one byte of something else that the call
/// is given, such as the list of its buffers, which come afterwards.
fn parts_in_page(call: &SystemCall, address: usize, is_write: bool) -> Vec<(Range<usize>, bool)> {
    let page = address / page_size() * page_size();
    let is_in_buffer = call.buffers().any(|buffer| buffer.contains(&address));
    let rest = call.buffers().skip_while(|buffer| is_in_buffer && !buffer.contains(&address));
    let first = if is_in_buffer { address } else { page };
    let in_page = rest.map(|buffer| buffer.start.max(first)..buffer.end.min(page + page_size()));
    let buffers = in_page.filter(|part| part.start < part.end);
    let other = (!is_in_buffer).then_some((address..address + 1, is_write));
    let all_write = if is_in_buffer { is_write } else { call.is_write() };
    other.into_iter().chain(buffers.map(|part| (part, all_write))).collect()
}

impl TrappedAccess {
    /// One byte, by a thread of which nothing is known.
    fn of(fault: &PageFault, moment: u64) -> TrappedAccess {
        let PageFault { address, is_write, thread } = *fault;
        TrappedAccess { address, len: 1, is_write, thread, place: ThreadPlace::default(), moment }
    }

    /// What the instruction accesses of the page at most. It is returned where only the registers say how
    /// much that is: an access at the page's first byte may have begun in the page before.
    fn with_operands(self) -> (TrappedAccess, Option<MemoryOperands>) {
        let offset = self.address % page_size();
        let operands = operand::decoded(self.place.pc);
        let len = operands.as_ref().map_or(1, MemoryOperands::size).min(page_size() - offset);
        (TrappedAccess { len, ..self }, operands.filter(|_| offset == 0 && len > 1))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_call_accesses_its_list_and_the_buffers_in_the_page() {
        let page = 16 * page_size();
        let list: [[usize; 2]; 3] = [[page - 8, 24], [page + 100, 50], [page + page_size() - 1, 100]];
        for (number, is_write) in [(libc::SYS_readv, true), (libc::SYS_writev, false)] {
            let call = SystemCall { number, arguments: [1, list.as_ptr().addr() as u64, 3, 0, 0, 0] };
            let buffers =
                [page..page + 16, page + 100..page + 150, page + page_size() - 1..page + page_size()];
            let parts = |address| parts_in_page(&call, address, is_write);
            let told = buffers.clone().map(|part| (part, is_write));
            assert_eq!(parts(page), told, "from the first on");
            assert_eq!(parts(page + 110), [(page + 110..page + 150, is_write), told[2].clone()]);
            let of_list = [(page + 2048..page + 2049, false)].into_iter().chain(told).collect::<Vec<_>>();
            assert_eq!(parts_in_page(&call, page + 2048, false), of_list, "the list");
        }
    }
}
