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
mod chain;
pub mod devices;
pub(crate) mod doubled;
mod operand;
pub mod place;
mod pointers;
mod presence;
mod shadow;
mod snapshot;
mod step;
mod uffd;
mod watchdog;

use super::{page::page_size, threads};
use answer::{Question, StackAnswer};
use operand::{MemoryOperands, Registers};
use place::{SystemCall, ThreadPlace, ThreadStatus};
pub use pointers::{DevicePointer, tell_pointers};
pub use presence::Presence;
pub use shadow::Shadow;
pub use snapshot::{Snapshot, at_fork};
use std::{
    io,
    ops::Range,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use uffd::{Event, Uffd};
pub use uffd::{Opening, PageFault, populate};
use watchdog::EventInWork;
pub use watchdog::has_let_go;

/// The stack of the monitor.
const STACK: usize = 1 << 20;

/// How long a thread is looked for that unmaps registered memory.
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// An access to armed memory that is in flight.
#[derive(Clone, Copy, Debug)]
pub struct TrappedAccess {
    /// The first byte in the page.
    pub address: usize,
    /// How many bytes of the page are accessed, by the instruction or by the buffer of a system call; one
    /// where that is not known.
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

    /// The program has unmapped registered memory that is mapped twice.
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
        let monitor = Monitor { uffd, judge, can_ask, can_step };
        threads::end::spawn_deaf("ferry-accesses", STACK, move || monitor.run())?;
        watchdog::begin(uffd)?;
        Ok(Trap { uffd })
    }

    /// Has accesses to armed pages of this view told of.
    pub fn watch(&self, view: &Range<usize>) -> io::Result<()> {
        self.uffd.register(view)
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
    }

    /// Maps whole pages of the program's own memory twice, and says the engine's address of them.
    pub fn double(&self, user: &Range<usize>) -> Result<usize, String> {
        doubled::double(self.uffd, user)
    }

    /// Whether memory that was mapped twice is the program's own shared memory.
    pub fn is_shared(&self, start: usize) -> bool {
        doubled::is_shared(start)
    }

    /// Undoes `double` for the program; the engine's view stays until the backend forgets it.
    pub fn unite(&self, user: &Range<usize>) {
        doubled::unite(self.uffd, user);
    }

    /// Arms pages of a view that are in memory.
    pub fn arm(&self, pages: &Range<usize>) {
        self.uffd.arm(pages);
    }

    /// Opens pages.
    pub fn open_pages(&self, pages: &Range<usize>) {
        doubled::open_pages(self.uffd, pages);
    }
}

/// The thread that is told of accesses.
struct Monitor {
    uffd: &'static Uffd,
    judge: Arc<dyn Judge>,
    can_ask: bool,
    can_step: bool,
}

impl Monitor {
    fn run(&self) {
        loop {
            // Before the event is read: its thread waits at least until then.
            let waited = self.uffd.wait(None).map(|_| self.judge.moment());
            // Before it is read: who waits for the event may wait for the work on it, too.
            let in_work = EventInWork::begin(0);
            self.look_for_unmapping();
            match waited.and_then(|moment| Ok((moment, self.uffd.next()?))) {
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

    /// Looks for the call that the event about to be read is of, if it unmaps registered memory: the event
    /// does not name the thread, which waits until it is read.
    fn look_for_unmapping(&self) {
        if !doubled::is_any() || !self.uffd.has_unmap() {
            return;
        }
        let since = Instant::now();
        // The thread may be about to wait, and counts as running until then.
        while !self.finds_unmapping() && since.elapsed() < LONGEST_LOOK {
            std::thread::yield_now();
        }
    }

    /// Whether a thread waits in a call that unmaps something; the judge is told if it is registered memory.
    fn finds_unmapping(&self) -> bool {
        let unmaps =
            |(thread, place): (i32, ThreadPlace)| Some((thread, place, place.system_call?.unmaps()?));
        let calls: Vec<_> = place::waiting_threads().filter_map(unmaps).collect();
        if let Some((thread, place, gone)) =
            calls.iter().find_map(|(thread, place, range)| Some((*thread, *place, doubled::gone_in(range)?)))
        {
            self.judge.unmapping(thread, place, gone);
        }
        !calls.is_empty()
    }

    fn unmapped(&self, range: Range<usize>) {
        devices::unmapped(&range);
        if doubled::unmapped(&range) {
            self.judge.unmapped(range);
        }
    }

    /// Opens pages. The kernel opens none before the event of a thread that unmaps something was read, and
    /// nobody else reads it. Whoever faults meanwhile is sent back, to fault again.
    fn open_pages(&self, pages: &Range<usize>, how: Opening) {
        doubled::open_pages_taking(self.uffd, pages, how, || {
            if self.uffd.wait(Some(0)).unwrap_or(false) {
                self.look_for_unmapping();
            }
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
        if doubled::is_held(fault.address) {
            return;
        }
        if devices::is_watched(fault.address) {
            return self.handle_device(fault, moment);
        }
        let can_protect = self.uffd.can_protect();
        let open = |pages: &Range<usize>, how| doubled::try_open(self.uffd, pages, how);
        if let Some(OpenPages { pages, how, is_done }) = self.judge.open_around(fault, can_protect, &open) {
            if !is_done {
                self.open_pages(&pages, how);
                self.judge.opened(&pages, how);
            }
            return;
        }
        let page = fault.address / page_size() * page_size();
        let known = place::of_thread(fault.thread);
        let place = known.unwrap_or_default();
        if let Some(call) = place.system_call {
            self.handle_call(TrappedAccess { place, ..TrappedAccess::of(fault, moment) }, &call);
            return self.open_pages(&(page..page + page_size()), Opening::Whole);
        }
        let (access, operands) = TrappedAccess { place, ..TrappedAccess::of(fault, moment) }.with_operands();
        let verdict = self.judged(&access);
        let is_asked = known.is_some() && (verdict.wants_stack || verdict.keeps_armed);
        let happens = |frames, is_open, registers: &Registers| {
            self.judge.happens(&access.measured(&operands, Some(registers)), frames, is_open);
        };
        if !(is_asked && self.ask(&access, page, verdict, happens)) {
            self.judge.happens(&access.measured(&operands, None), None, true);
            self.open_pages(&(page..page + page_size()), Opening::Whole);
        }
    }

    /// The page is open during the call: all that it accesses there is judged now.
    fn handle_call(&self, access: TrappedAccess, call: &SystemCall) {
        let page = access.address / page_size() * page_size();
        let mut parts = parts_in_page(call, access.address).into_iter().peekable();
        while let Some(part) = parts.next() {
            let access = TrappedAccess { address: part.start, len: part.len(), ..access };
            let verdict = self.judged(&access);
            let is_last = parts.peek().is_none();
            let may_arm = is_last && verdict.keeps_armed && self.can_step && !doubled::may_contain(page);
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
            if !(can_answer && self.ask(&access, page, verdict, |frames, _, _| pointer(frames))) {
                pointer(None);
            }
        } else {
            devices::close(page);
        }
        self.uffd.wake(&(page..page + page_size()));
    }

    /// A thread that blocks the signal, or that a debugger would stop at it, is not asked.
    /// `tell` gets the stack, whether the page stays open, and the registers.
    fn ask(
        &self,
        access: &TrappedAccess,
        page: usize,
        verdict: Verdict,
        tell: impl Fn(Option<Vec<u64>>, bool, &Registers),
    ) -> bool {
        let status = place::status_of(access.thread);
        let can_ask = |status: &ThreadStatus| {
            self.can_ask && !status.is_traced && status.blocked >> (answer::SIGNAL - 1) & 1 == 0
        };
        if !status.as_ref().is_some_and(can_ask) {
            return false;
        }
        let (wants_stack, may_step) = (verdict.wants_stack, verdict.keeps_armed && self.can_step);
        let question = Question { thread: access.thread, page, wants_stack, may_step };
        answer::ask(&question, |StackAnswer { frames, has_stepped, registers }| {
            let frames = Some(frames).filter(|frames| !frames.is_empty());
            tell(frames, !has_stepped, &registers);
        })
    }
}

/// What a call accesses in the page of this address, from there on: each buffer as far as it lies in the
/// page, or the one byte where it has no buffer that is known.
fn parts_in_page(call: &SystemCall, address: usize) -> Vec<Range<usize>> {
    let page = address / page_size() * page_size();
    let buffers = call.buffers().skip_while(|buffer| !buffer.contains(&address));
    let mut parts: Vec<_> =
        buffers.map(|buffer| buffer.start.max(page)..buffer.end.min(page + page_size())).collect();
    parts.retain(|part| !part.is_empty());
    match parts.first_mut() {
        Some(first) => first.start = address,
        None => parts.push(address..address + 1),
    }
    parts
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
        let operands = operand::at(self.place.pc, self.is_write);
        let len = operands.as_ref().map_or(1, MemoryOperands::size).min(page_size() - offset);
        (TrappedAccess { len, ..self }, operands.filter(|_| offset == 0 && len > 1))
    }

    /// With as many bytes as the registers say, if they are needed for that.
    fn measured(&self, operands: &Option<MemoryOperands>, registers: Option<&Registers>) -> TrappedAccess {
        let Some(operands) = operands else { return *self };
        let len = registers.and_then(|registers| operands.len_from(self.address, registers));
        TrappedAccess { len: len.map_or(1, |len| len.min(self.len)), ..*self }
    }
}
