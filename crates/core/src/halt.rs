//! Poisoning of the streams of one context: a failure of one stops all of them.

use crate::{
    Error, Status,
    sync::{Arc, AtomicBool, Mutex, Ordering, Weak, lock},
};

/// The poison flag that some streams share. It trips once, when work fails of a stream whose failures stop
/// all, or when a caller stops them. From then on the streams drop the work they have and refuse new work,
/// and every wait for one of them reports why.
#[derive(Default)]
pub struct Halt {
    tripped: AtomicBool,
    why: Mutex<Option<Error>>,
    streams: Mutex<Vec<Weak<Status>>>,
}

impl Halt {
    /// One that nothing has tripped yet.
    pub fn new() -> Arc<Halt> {
        Arc::default()
    }

    /// Whether the streams have stopped.
    #[inline]
    pub fn is_tripped(&self) -> bool {
        self.tripped.load(Ordering::Acquire)
    }

    /// What stopped the streams.
    pub(crate) fn why(&self) -> Option<Error> {
        if self.is_tripped() { lock(&self.why).clone() } else { None }
    }

    /// The error with which a stopped stream refuses new work.
    #[cold]
    pub(crate) fn refusal(&self) -> Option<Error> {
        let why = self.why()?;
        Some(why.kind.because(format!(
            "the streams of this context take no more work since this failed: {}",
            why.note
        )))
    }

    /// The stream is told when this trips; at once if it has tripped.
    pub(crate) fn add(&self, stream: &Arc<Status>) {
        let mut streams = lock(&self.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
        drop(streams);
        if self.is_tripped() {
            stream.halted();
        }
    }

    /// Stops the streams. Queues check the flag before each piece of work; those that wait for something are
    /// told by their hooks.
    pub(crate) fn trip(&self, why: &Error) {
        let mut first = lock(&self.why);
        if first.is_some() {
            return;
        }
        *first = Some(why.clone());
        drop(first);
        self.tripped.store(true, Ordering::Release);
        let streams: Vec<_> = lock(&self.streams).iter().filter_map(Weak::upgrade).collect();
        streams.iter().for_each(|stream| stream.halted());
    }
}
