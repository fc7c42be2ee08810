//! What the streams of one context share: if a failure of one is to stop all, this is where they learn of it.

use crate::{
    Error, Status,
    sync::{Arc, AtomicBool, Mutex, Ordering, Weak, lock},
};

/// Trips once, when work of a stream fails whose failures are to stop all, or when somebody stops them from
/// outside. From then on the streams drop what they have and take nothing more, and whoever waits for one of
/// them is told why.
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

    /// What a stopped stream answers to new work.
    #[cold]
    pub(crate) fn refusal(&self) -> Option<Error> {
        let why = self.why()?;
        Some(why.kind.because(format!(
            "the streams of this context take no more work since this failed: {}",
            why.note
        )))
    }

    pub(crate) fn add(&self, stream: &Arc<Status>) {
        let mut streams = lock(&self.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// Stops the streams. Queues check the halt before each piece of work; those that wait for something are
    /// told.
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
