//! Mailboxes: the callbacks that wait for a thread of the user's to run them.
//!
//! A mailbox belongs to a thread and has the callbacks launched on each stream that is subscribed to it, in
//! their order. A callback is a mark in its stream, and due when the stream has passed it; if it is to block
//! the stream, a gate stands behind the mark until it has run. No lock is held and no thread of ours is used
//! while a callback runs.
//!
//! Streams are handles here, and nothing knows calls: `rules/report.rs` has the functions of C.

use super::{Callback, ReadyCallback};
use crate::{Error, Result, constants as c, error::fail};
use ferry_core::{Gate, Mark, Stream, sync::lock};
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
    queues: Mutex<Vec<StreamQueue>>,
    changed: Condvar,
}

/// The callbacks of one stream, in the order of their launches.
struct StreamQueue {
    stream: usize,
    pending: VecDeque<PendingCallback>,
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
    lock(&mailbox.queues).push(StreamQueue { stream, pending: VecDeque::new() });
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
    let place = queues.iter().position(|queue| queue.stream == stream);
    let gone = place.map(|place| queues.remove(place));
    if queues.is_empty() {
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
        let queue =
            queues.iter_mut().find(|queue| queue.stream == handle).ok_or_else(|| no_thread(handle))?;
        let mark = stream.mark()?;
        let gate = blocks.then(Gate::new);
        if let Some(gate) = &gate {
            stream.wait_for(gate.clone())?;
        }
        queue.pending.push_back(PendingCallback { mark: mark.clone(), callback: Some(callback), gate });
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
        lock(&self.queues).iter().map(|queue| queue.pending.len()).sum()
    }

    /// The first callback of some stream, if it is wanted.
    pub(crate) fn take(&self, wanted: impl Fn(&PendingCallback) -> bool) -> Option<PendingCallback> {
        take_from(&mut lock(&self.queues), wanted)
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
            if queues.is_empty() {
                return Err(no_stream(self.thread));
            }
            if let Some(pending) = take_from(&mut queues, PendingCallback::is_due) {
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

/// Takes the first callback that is wanted of the first stream that has one; that stream's next turn comes
/// after the others'. It need not be the first of its stream: executions of models have callbacks, too, under
/// the handle of the stream that was captured, and do not run in the order of that stream.
fn take_from(
    queues: &mut [StreamQueue],
    wanted: impl Fn(&PendingCallback) -> bool,
) -> Option<PendingCallback> {
    let first = |queue: &StreamQueue| queue.pending.iter().position(&wanted);
    let (place, index) = queues.iter().enumerate().find_map(|(place, queue)| Some((place, first(queue)?)))?;
    let pending = queues[place].pending.remove(index);
    queues[place..].rotate_left(1);
    pending
}

fn no_thread(stream: usize) -> Error {
    let note = format!("no thread is subscribed to stream {stream:#x}: call aclrtSubscribeReport first");
    fail(c::ACL_ERROR_RT_STREAM_NO_CB_REG, note)
}

fn no_stream(thread: u64) -> Error {
    let note = format!("this thread, {thread}, is subscribed to no stream: call aclrtSubscribeReport first");
    fail(c::ACL_ERROR_RT_THREAD_SUBSCRIBE, note)
}
