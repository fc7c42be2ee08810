//! Callbacks that a thread of the user's runs: aclrtSubscribeReport, aclrtLaunchCallback, aclrtProcessReport.
//!
//! A mailbox belongs to a thread and holds the callbacks launched on each stream that is bound to it, in their order. A
//! callback is a mark in its stream, and due when the stream has passed it; if it is to block the stream, a gate stands behind
//! the mark until it has run. No lock is held and no thread of ours is used while a callback runs.
//!
//! A callback that ends its thread, or leaves by longjmp, does not come back to whoever called it. So what is to be done after it is
//! kept with the thread and not on its stack: see `turns.rs`.

mod turns;

pub use turns::{Frame, Turns, run};

use crate::{
    Error, Result,
    call::refuse,
    callback::{Callback, Ready},
    constants::{self as c, *},
    error::fail,
    interrupt,
    state::{engine, lock, with_here},
    stream::{StreamEntry, limit_ms},
};
use ferry_core::{Fence, Gate};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Documented: the most threads of a process.
const MOST_THREADS: usize = 1024;

/// The mailboxes of the process, by thread id.
#[derive(Default)]
pub struct Reports(Mutex<HashMap<u64, Arc<Mailbox>>>);

/// The callbacks of one thread.
pub struct Mailbox {
    thread: u64,
    device: u32,
    lists: Mutex<Vec<List>>,
    changed: Condvar,
}

/// The callbacks of one stream, in the order of their launches.
struct List {
    stream: usize,
    letters: VecDeque<Letter>,
}

/// A callback that has not run.
struct Letter {
    mark: Arc<dyn Fence>,
    callback: Option<Callback>,
    gate: Option<Arc<Gate>>,
}

impl Letter {
    /// Whether the stream has passed it.
    fn is_due(&self) -> bool {
        self.mark.is_done()
    }

    /// Whether the stream has dropped it, by an abort or because it has stopped: such a callback never runs.
    fn was_dropped(&self) -> bool {
        self.is_due() && self.mark.reached_us().is_none()
    }

    /// What is to be run, unless the stream has dropped it. Those behind it in the stream may go on when the letter is dropped.
    fn open(&mut self) -> Option<Ready> {
        self.callback.take().filter(|_| !self.was_dropped()).map(Callback::take)
    }
}

/// Whatever becomes of a callback, its stream does not wait for it any longer.
impl Drop for Letter {
    fn drop(&mut self) {
        self.gate.iter().for_each(|gate| gate.open());
    }
}

/// aclrtSubscribeReport: callbacks of the stream are for this thread.
pub fn subscribe(thread: u64, stream: usize) -> Result<()> {
    let engine = engine()?;
    let entry = with_here(|here| here.stream(engine, stream))?;
    if thread == 0 {
        return Err(refuse(
            "threadId is 0: give what pthread_self() returns in the thread that is to run the callbacks",
        ));
    }
    engine.reports.bind(thread, &entry)
}

/// aclrtUnSubscribeReport: callbacks that have not run never will.
pub fn unsubscribe(thread: u64, stream: usize) -> Result<()> {
    let engine = engine()?;
    let entry = with_here(|here| here.stream(engine, stream))?;
    engine.reports.unbind(&entry, Some(thread))
}

/// aclrtLaunchCallback: `callback` becomes due when the stream gets here.
pub fn launch(stream: usize, block_type: i32, callback: Callback) -> Result<()> {
    let engine = engine()?;
    let entry = with_here(|here| here.stream(engine, stream))?;
    let blocks = match block_type {
        ACL_CALLBACK_NO_BLOCK => false,
        ACL_CALLBACK_BLOCK => true,
        _ => {
            let note = format!(
                "blockType is {block_type}: give ACL_CALLBACK_NO_BLOCK (0) or ACL_CALLBACK_BLOCK (1)"
            );
            return Err(refuse(note));
        }
    };
    let mailbox = lock(&entry.mailbox).clone().ok_or_else(|| nobody(&entry))?;
    mailbox.post(&entry, blocks, callback)
}

/// The first part of aclrtProcessReport, which is at `frame`: waits for a callback that is due. [`run`] follows.
pub fn begin(timeout: i32, frame: Frame) -> Result<()> {
    let limit = limit_ms(timeout)?;
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mailbox = engine()?.reports.of_this_thread()?;
    loop {
        let mut letter = mailbox.wait(deadline, timeout)?;
        if let Some(ready) = letter.open() {
            return with_here(|here| {
                here.turns.push(frame, mailbox, letter, ready);
                Ok(())
            });
        }
    }
}

impl Reports {
    fn bind(&self, thread: u64, entry: &StreamEntry) -> Result<()> {
        let mut threads = lock(&self.0);
        let mut bound = lock(&entry.mailbox);
        if let Some(mailbox) = &*bound {
            let note = format!("stream {:#x} has thread {} already", entry.handle, mailbox.thread);
            return Err(fail(c::ACL_ERROR_REPEAT_SUBSCRIBE, note));
        }
        // Looked at under the lock that whoever ends the stream takes afterwards to unbind it.
        if !entry.is_alive() {
            let note = format!("stream {:#x} is being destroyed", entry.handle);
            return Err(fail(c::ACL_ERROR_RT_INVALID_HANDLE, note));
        }
        let mailbox = match threads.get(&thread) {
            Some(mailbox) if mailbox.device != entry.device => {
                let note = format!(
                    "thread {thread} serves streams of device {}: it cannot serve one of device {} as well",
                    mailbox.device, entry.device
                );
                return Err(fail(c::ACL_ERROR_RT_THREAD_SUBSCRIBE, note));
            }
            Some(mailbox) => mailbox.clone(),
            None if threads.len() >= MOST_THREADS => {
                let note = format!("{MOST_THREADS} threads are subscribed, which is as many as there can be");
                return Err(fail(c::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, note));
            }
            None => {
                let (lists, changed) = (Mutex::default(), Condvar::new());
                Arc::new(Mailbox { thread, device: entry.device, lists, changed })
            }
        };
        lock(&mailbox.lists).push(List { stream: entry.handle, letters: VecDeque::new() });
        threads.insert(thread, mailbox.clone());
        *bound = Some(mailbox);
        Ok(())
    }

    /// Ends the binding of a stream, if it is to this thread where one is given.
    fn unbind(&self, entry: &StreamEntry, thread: Option<u64>) -> Result<()> {
        let mut threads = lock(&self.0);
        let mut bound = lock(&entry.mailbox);
        let mailbox = match bound.take() {
            Some(mailbox) if thread.is_none_or(|thread| thread == mailbox.thread) => mailbox,
            other => {
                *bound = other;
                let note =
                    format!("stream {:#x} is not subscribed to thread {}", entry.handle, thread.unwrap_or(0));
                return Err(fail(c::ACL_ERROR_RT_STREAM_SUBSCRIBE, note));
            }
        };
        let mut lists = lock(&mailbox.lists);
        let place = lists.iter().position(|list| list.stream == entry.handle);
        let gone = place.map(|place| lists.remove(place));
        if lists.is_empty() {
            threads.remove(&mailbox.thread);
        }
        drop((lists, bound, threads));
        mailbox.changed.notify_all();
        // Opens the gates of what has not run.
        drop(gone);
        Ok(())
    }

    /// The stream ends.
    pub(crate) fn forget(&self, entry: &StreamEntry) {
        let _ = self.unbind(entry, None);
    }

    fn of_this_thread(&self) -> Result<Arc<Mailbox>> {
        // SAFETY: takes no argument and cannot fail.
        let thread = unsafe { libc::pthread_self() } as u64;
        lock(&self.0).get(&thread).cloned().ok_or_else(|| no_stream(thread))
    }
}

impl Mailbox {
    fn post(self: &Arc<Self>, entry: &StreamEntry, blocks: bool, callback: Callback) -> Result<()> {
        // Held over the submission: the letters are in the order of their marks.
        let mut lists = lock(&self.lists);
        let list = lists.iter_mut().find(|list| list.stream == entry.handle).ok_or_else(|| nobody(entry))?;
        let mark = entry.stream.mark()?;
        let gate = blocks.then(Gate::new);
        if let Some(gate) = &gate {
            entry.stream.wait_for(gate.clone())?;
        }
        list.letters.push_back(Letter { mark: mark.clone(), callback: Some(callback), gate });
        drop(lists);
        let mailbox = self.clone();
        mark.when_done(Box::new(move || mailbox.notice()));
        Ok(())
    }

    /// A stream has come to a callback, or has dropped it.
    fn notice(&self) {
        while self.take(Letter::was_dropped).is_some() {}
        drop(lock(&self.lists));
        self.changed.notify_all();
    }

    fn len(&self) -> usize {
        lock(&self.lists).iter().map(|list| list.letters.len()).sum()
    }

    /// The first callback of some stream, if it is wanted.
    fn take(&self, wanted: impl Fn(&Letter) -> bool) -> Option<Letter> {
        take_from(&mut lock(&self.lists), wanted)
    }

    /// A callback that is due.
    fn wait(&self, deadline: Option<Instant>, timeout: i32) -> Result<Letter> {
        let is_watched = interrupt::is_watched();
        let mut lists = lock(&self.lists);
        loop {
            if lists.is_empty() {
                return Err(no_stream(self.thread));
            }
            if let Some(letter) = take_from(&mut lists, Letter::is_due) {
                return Ok(letter);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let slice = is_watched.then_some(interrupt::SLICE);
            lists = match left.into_iter().chain(slice).min() {
                None => self.changed.wait(lists).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    let note = format!("no callback was due within {timeout} ms");
                    return Err(fail(c::ACL_ERROR_RT_REPORT_TIMEOUT, note));
                }
                Some(left) => {
                    self.changed.wait_timeout(lists, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            if is_watched {
                drop(lists);
                interrupt::ask()?;
                lists = lock(&self.lists);
            }
        }
    }
}

/// Takes the first letter of the first stream where it is wanted; that stream's next turn comes after the others'.
fn take_from(lists: &mut [List], wanted: impl Fn(&Letter) -> bool) -> Option<Letter> {
    let place = lists.iter().position(|list| list.letters.front().is_some_and(&wanted))?;
    let letter = lists[place].letters.pop_front();
    lists[place..].rotate_left(1);
    letter
}

fn nobody(entry: &StreamEntry) -> Error {
    let note =
        format!("no thread is subscribed to stream {:#x}: call aclrtSubscribeReport first", entry.handle);
    fail(c::ACL_ERROR_RT_STREAM_NO_CB_REG, note)
}

fn no_stream(thread: u64) -> Error {
    let note = format!("this thread, {thread}, is subscribed to no stream: call aclrtSubscribeReport first");
    fail(c::ACL_ERROR_RT_THREAD_SUBSCRIBE, note)
}
