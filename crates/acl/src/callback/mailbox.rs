//! Mailboxes: the callbacks that wait for a thread of the user's to run them.
//!
//! A mailbox belongs to a thread and has the callbacks launched on each stream that is subscribed to it. A
//! callback is a mark in the stream that runs it, and due when that has passed it; if it is to block the
//! stream, a gate stands behind the mark until it has run. Callbacks of one handle may be run by several
//! streams: executions of a model launch those of a captured stream. There is a queue for each of them, in
//! the order of the stream that runs them, so that only the first of a queue can be due. No lock is held and
//! no thread of ours is used while a callback runs.
//!
//! Streams are handles here, and nothing knows calls: `rules/report.rs` has the functions of C.

use super::{Callback, ReadyCallback};
use crate::{Error, Result, constants as c, error::fail};
use ferry_core::{Gate, JoinKind, Mark, Runtime, Stream, sync::lock};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Documented: the most threads of a process.
const MAX_THREADS: usize = 1024;

static MAILBOXES: LazyLock<Mutex<Mailboxes>> = LazyLock::new(Mutex::default);

/// The mailboxes of the process.
#[derive(Default)]
struct Mailboxes {
    /// By thread id.
    threads: HashMap<u64, Arc<Mailbox>>,
    /// By the handle of a stream that is subscribed.
    streams: HashMap<usize, Arc<Mailbox>>,
}

/// The callbacks of one thread.
pub(crate) struct Mailbox {
    thread: u64,
    device: u32,
    queues: Mutex<CallbackQueues>,
    changed: Condvar,
}

/// The callbacks of one thread, by the streams that run them.
#[derive(Default)]
struct CallbackQueues {
    /// The handles that are subscribed to the thread.
    subscribed: Vec<usize>,
    /// Those that have callbacks; the one whose turn is next comes first.
    waiting: Vec<StreamQueue>,
}

/// The callbacks of one handle that one stream runs, in the order of their launches.
struct StreamQueue {
    /// The handle that they were launched on.
    stream: usize,
    /// The stream that runs them, by its id: the handle's own, or one that executes a model.
    runner: u64,
    pending: VecDeque<PendingCallback>,
}

/// Where a callback is in its stream.
pub(crate) struct CallbackPlace {
    mark: Arc<dyn Mark>,
    /// Whether the stream waits for it.
    blocks: bool,
}

impl CallbackPlace {
    /// The calling thread learns that the stream has come there, and runs the callback next.
    pub(crate) fn tell_joined(&self, runtime: &Runtime, how: JoinKind) {
        runtime.joined(&*self.mark, how);
        if self.blocks {
            // What comes behind a callback that blocks does not collide with it.
            runtime.joined(&*self.mark, JoinKind::Function);
        }
    }

    /// The callback has returned; the stream does not go on yet.
    pub(crate) fn tell_returned(&self, runtime: &Runtime) {
        if self.blocks {
            runtime.returned(&*self.mark);
        }
    }
}

/// A callback that has not run.
pub(crate) struct PendingCallback {
    mark: Arc<dyn Mark>,
    callback: Option<Callback>,
    gate: Option<Arc<Gate>>,
}

impl PendingCallback {
    /// Whether the stream has passed it.
    pub(crate) fn is_due(&self) -> bool {
        self.mark.is_done()
    }

    /// Where it is in the stream.
    pub(crate) fn place(&self) -> CallbackPlace {
        CallbackPlace { mark: self.mark.clone(), blocks: self.gate.is_some() }
    }

    /// Whether the stream has dropped it, by an abort or because it has stopped: such a callback never runs.
    fn was_dropped(&self) -> bool {
        self.is_due() && self.mark.reached_us().is_none()
    }

    /// What is to be run, unless the stream has dropped it. The stream may go on when `self` is dropped.
    pub(crate) fn open(&mut self) -> Option<ReadyCallback> {
        self.callback.take().filter(|_| !self.was_dropped()).map(Callback::take)
    }
}

/// Whatever becomes of a callback, its stream does not wait for it any longer.
impl Drop for PendingCallback {
    fn drop(&mut self) {
        self.gate.iter().for_each(|gate| gate.open());
    }
}

/// Subscribes a stream to a thread, unless it is destroyed meanwhile.
pub(crate) fn subscribe(
    thread: u64,
    stream: usize,
    device: u32,
    is_alive: impl FnOnce() -> bool,
) -> Result<()> {
    let mut all = lock(&MAILBOXES);
    if let Some(mailbox) = all.streams.get(&stream) {
        let note = format!("stream {stream:#x} has thread {} already", mailbox.thread);
        return Err(fail(c::ACL_ERROR_REPEAT_SUBSCRIBE, note));
    }
    // Asked under the lock that the end of the stream takes afterwards to unsubscribe it.
    if !is_alive() {
        let note = format!("stream {stream:#x} is being destroyed");
        return Err(fail(c::ACL_ERROR_RT_INVALID_HANDLE, note));
    }
    let mailbox = all.of_thread(thread, device)?;
    lock(&mailbox.queues).subscribed.push(stream);
    all.threads.insert(thread, mailbox.clone());
    all.streams.insert(stream, mailbox);
    Ok(())
}

/// Ends the subscription of a stream to this thread: callbacks that have not run never will.
pub(crate) fn unsubscribe(thread: u64, stream: usize) -> Result<()> {
    let all = lock(&MAILBOXES);
    if all.streams.get(&stream).is_some_and(|mailbox| mailbox.thread == thread) {
        end(all, stream);
        return Ok(());
    }
    let note = format!("stream {stream:#x} is not subscribed to thread {thread}");
    Err(fail(c::ACL_ERROR_RT_STREAM_SUBSCRIBE, note))
}

/// The stream ends: its subscription, if it has one, ends with it.
pub(crate) fn forget(stream: usize) {
    end(lock(&MAILBOXES), stream);
}

fn end(mut all: MutexGuard<'_, Mailboxes>, stream: usize) {
    let Some(mailbox) = all.streams.remove(&stream) else { return };
    let mut queues = lock(&mailbox.queues);
    queues.subscribed.retain(|subscribed| *subscribed != stream);
    let gone: Vec<_> = queues.waiting.extract_if(.., |queue| queue.stream == stream).collect();
    if queues.subscribed.is_empty() {
        all.threads.remove(&mailbox.thread);
    }
    drop((queues, all));
    mailbox.changed.notify_all();
    // Opens the gates of what has not run.
    drop(gone);
}

/// The mailbox of the calling thread.
pub(crate) fn of_this_thread() -> Result<Arc<Mailbox>> {
    // SAFETY: takes no argument and cannot fail.
    let thread = unsafe { libc::pthread_self() } as u64;
    lock(&MAILBOXES).threads.get(&thread).cloned().ok_or_else(|| no_stream(thread))
}

/// Launches a callback on a stream; `blocks` has the stream wait until it has run.
pub(crate) fn launch(handle: usize, stream: &Stream, blocks: bool, callback: Callback) -> Result<()> {
    let mailbox = lock(&MAILBOXES).streams.get(&handle).cloned().ok_or_else(|| no_thread(handle))?;
    mailbox.post(handle, stream, blocks, callback)
}

impl Mailboxes {
    /// The mailbox of a thread that is to serve a stream of `device`, made if there is none.
    fn of_thread(&self, thread: u64, device: u32) -> Result<Arc<Mailbox>> {
        match self.threads.get(&thread) {
            Some(mailbox) if mailbox.device != device => {
                let note = format!(
                    "thread {thread} serves streams of device {}: it cannot serve one of device {device} as \
                     well",
                    mailbox.device
                );
                Err(fail(c::ACL_ERROR_RT_THREAD_SUBSCRIBE, note))
            }
            Some(mailbox) => Ok(mailbox.clone()),
            None if self.threads.len() >= MAX_THREADS => {
                let note = format!("{MAX_THREADS} threads are subscribed, which is as many as there can be");
                Err(fail(c::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, note))
            }
            None => {
                let (queues, changed) = (Mutex::default(), Condvar::new());
                Ok(Arc::new(Mailbox { thread, device, queues, changed }))
            }
        }
    }
}

impl Mailbox {
    fn post(
        self: &Arc<Self>,
        handle: usize,
        stream: &Stream,
        blocks: bool,
        callback: Callback,
    ) -> Result<()> {
        // Locked during the submission: callbacks are in the order of their marks.
        let mut queues = lock(&self.queues);
        if !queues.subscribed.contains(&handle) {
            return Err(no_thread(handle));
        }
        let mut gate = None;
        // When the callback has run, nothing but the work before it is known to have passed. The op right
        // behind the mark is what observers take for the callback.
        let mark = match blocks {
            true => stream.mark_and_wait(|mark| gate.insert(Gate::behind(mark.point())).clone())?,
            false => stream.mark()?,
        };
        if let Some(gate) = &gate {
            stream.tell_bound(gate, mark.point());
        }
        let pending = PendingCallback { mark: mark.clone(), callback: Some(callback), gate };
        queues.add(handle, stream.id(), pending);
        drop(queues);
        let mailbox = self.clone();
        mark.when_done(Box::new(move || mailbox.notice()));
        Ok(())
    }

    /// A stream has come to a callback, or has dropped it.
    fn notice(&self) {
        while self.take(PendingCallback::was_dropped).is_some() {}
        drop(lock(&self.queues));
        self.changed.notify_all();
    }

    /// How many callbacks have not run.
    pub(crate) fn len(&self) -> usize {
        lock(&self.queues).waiting.iter().map(|queue| queue.pending.len()).sum()
    }

    /// The first callback of some stream, if it is wanted.
    pub(crate) fn take(&self, wanted: impl Fn(&PendingCallback) -> bool) -> Option<PendingCallback> {
        lock(&self.queues).take(wanted)
    }

    /// Waits for a callback that is due, until `deadline`. If there is a `slice`, no wait is longer, and
    /// `between` is asked after each, with no lock held, whether to go on.
    pub(crate) fn wait(
        &self,
        deadline: Option<Instant>,
        slice: Option<Duration>,
        between: impl Fn() -> Result<()>,
    ) -> Result<Option<PendingCallback>> {
        let mut queues = lock(&self.queues);
        loop {
            if queues.subscribed.is_empty() {
                return Err(no_stream(self.thread));
            }
            if let Some(pending) = queues.take(PendingCallback::is_due) {
                return Ok(Some(pending));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            queues = match left.into_iter().chain(slice).min() {
                None => self.changed.wait(queues).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Ok(None),
                Some(left) => {
                    self.changed.wait_timeout(queues, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            if slice.is_some() {
                drop(queues);
                between()?;
                queues = lock(&self.queues);
            }
        }
    }
}

impl CallbackQueues {
    fn add(&mut self, stream: usize, runner: u64, pending: PendingCallback) {
        let is_its = |queue: &&mut StreamQueue| (queue.stream, queue.runner) == (stream, runner);
        match self.waiting.iter_mut().find(is_its) {
            Some(queue) => queue.pending.push_back(pending),
            None => self.waiting.push(StreamQueue { stream, runner, pending: [pending].into() }),
        }
    }

    /// Takes the first callback of the first queue where it is wanted; that queue's next turn comes after the
    /// others'.
    fn take(&mut self, wanted: impl Fn(&PendingCallback) -> bool) -> Option<PendingCallback> {
        let is_wanted = |queue: &StreamQueue| queue.pending.front().is_some_and(&wanted);
        let place = self.waiting.iter().position(is_wanted)?;
        let queue = &mut self.waiting[place];
        let pending = queue.pending.pop_front();
        match queue.pending.is_empty() {
            true => drop(self.waiting.remove(place)),
            false => self.waiting[place..].rotate_left(1),
        }
        pending
    }
}

fn no_thread(stream: usize) -> Error {
    let note = format!("no thread is subscribed to stream {stream:#x}: call aclrtSubscribeReport first");
    fail(c::ACL_ERROR_RT_STREAM_NO_CB_REG, note)
}

fn no_stream(thread: u64) -> Error {
    let note = format!("this thread, {thread}, is subscribed to no stream: call aclrtSubscribeReport first");
    fail(c::ACL_ERROR_RT_THREAD_SUBSCRIBE, note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferry_core::{Fence, Point};
    use std::{
        any::Any,
        sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    };

    /// A mark that is passed when told, and counts how often it is asked.
    #[derive(Default)]
    struct CountedMark {
        is_done: AtomicBool,
        asked: AtomicUsize,
    }

    impl Fence for CountedMark {
        fn is_done(&self) -> bool {
            self.asked.fetch_add(1, Relaxed);
            self.is_done.load(Relaxed)
        }

        fn wait(&self, _: Option<Duration>) -> ferry_core::Result<()> {
            unreachable!("mailboxes do not wait for a mark")
        }

        fn when_done(&self, _: Box<dyn FnOnce() + Send>) {}

        fn point(&self) -> Option<Point> {
            None
        }

        fn native(&self) -> &dyn Any {
            self
        }
    }

    impl Mark for CountedMark {
        fn failed(&self) -> bool {
            false
        }

        fn reached_us(&self) -> Option<u64> {
            Some(0)
        }

        fn elapsed_ms(&self, _: &dyn Mark) -> Option<f64> {
            None
        }
    }

    fn mailbox() -> Mailbox {
        Mailbox { thread: 1, device: 0, queues: Mutex::default(), changed: Condvar::new() }
    }

    /// Adds a callback of handle 1 that the stream `runner` runs.
    fn add(mailbox: &Mailbox, runner: u64) -> Arc<CountedMark> {
        let mark = Arc::new(CountedMark::default());
        let pending = PendingCallback { mark: mark.clone(), callback: None, gate: None };
        lock(&mailbox.queues).add(1, runner, pending);
        mark
    }

    #[test]
    fn a_callback_costs_the_same_however_many_are_behind_it() {
        const CALLBACKS: usize = 1000;
        let mailbox = mailbox();
        let marks: Vec<_> = (0..CALLBACKS).map(|_| add(&mailbox, 7)).collect();
        for mark in &marks {
            mark.is_done.store(true, Relaxed);
            mailbox.notice();
            assert!(mailbox.take(PendingCallback::is_due).is_some());
        }
        let asked: usize = marks.iter().map(|mark| mark.asked.load(Relaxed)).sum();
        assert!(asked <= 4 * CALLBACKS, "{CALLBACKS} callbacks, whose marks were asked {asked} times");
        assert_eq!(mailbox.len(), 0);
    }

    #[test]
    fn callbacks_of_an_execution_do_not_wait_for_those_of_the_handles_own_stream() {
        let mailbox = mailbox();
        let marks = [7, 8, 8].map(|runner| add(&mailbox, runner));
        assert!(mailbox.take(PendingCallback::is_due).is_none());
        marks[2].is_done.store(true, Relaxed);
        assert!(mailbox.take(PendingCallback::is_due).is_none(), "its stream has one before it");
        marks[1].is_done.store(true, Relaxed);
        let taken = [(); 3].map(|()| mailbox.take(PendingCallback::is_due).is_some());
        assert_eq!((taken, mailbox.len()), ([true, true, false], 1));
    }
}
