//! Pending uses of a buffer: the ops of one stream that use its memory, and what other streams did with it
//! before.

use crate::{Error, Result, wake::Watch};
use ferry_core::{Fence, JoinKind, Stream as CoreStream, Ticket};
use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// A stream, as tokens hold it.
pub type StreamHandle = Arc<CoreStream>;

/// The work that may still use some memory: ops of a stream, of which the last is waited for.
#[repr(C)]
pub struct PendingUses {
    /// What few need: a token is moved from hand to hand.
    rest: Option<Box<Rest>>,
    step: OpRange,
}

#[derive(Default)]
struct Rest {
    /// What other streams did with the memory before. This stream waits for it, but whoever is given the
    /// memory back must not find them at it, and wants to know what came of it.
    earlier: Vec<OpRange>,
    /// What is known to have gone wrong with steps that are done.
    wrong: Option<Error>,
    /// The newest op of each other stream that works for ops of the step. What goes wrong there is told to
    /// the step's stream.
    nested: Vec<(StreamHandle, Ticket)>,
    /// If anybody has polled.
    watch: Option<Watch>,
}

/// The ops `from..=upto` of a stream.
#[repr(C)]
struct OpRange {
    stream: Arc<CoreStream>,
    from: Ticket,
    upto: Ticket,
}

impl OpRange {
    fn is_done(&self) -> bool {
        self.stream.has_passed(self.upto)
    }

    fn fence(&self) -> Arc<dyn Fence> {
        self.stream.fence_after(self.upto)
    }

    /// What is known to be wrong with it, now that it is done.
    fn error(&self) -> Option<Error> {
        self.stream.status().error_within(self.from, self.upto)
    }
}

impl PendingUses {
    /// The op `ticket`, which uses memory that nothing else uses.
    #[inline]
    pub(crate) fn new(stream: Arc<CoreStream>, ticket: Ticket) -> PendingUses {
        PendingUses { rest: None, step: OpRange { stream, from: ticket, upto: ticket } }
    }

    /// Everything that the stream has to do by now.
    pub(crate) fn so_far(stream: Arc<CoreStream>) -> PendingUses {
        let (from, upto) = so_far(&stream);
        PendingUses { rest: None, step: OpRange { stream, from, upto } }
    }

    /// The op `ticket` uses the memory as well, after this. It is of the same stream, or the other one is
    /// given.
    #[inline]
    pub(crate) fn go_on(&mut self, stream: Option<Arc<CoreStream>>, ticket: Ticket) {
        if stream.is_none() && self.rest.is_none() {
            self.step.upto = ticket;
        } else {
            self.go_elsewhere(stream, ticket);
        }
    }

    #[cold]
    fn go_elsewhere(&mut self, stream: Option<Arc<CoreStream>>, ticket: Ticket) {
        let rest = self.rest.take().map(|rest| *rest).unwrap_or_default();
        let Rest { mut earlier, mut wrong, nested, .. } = rest;
        let now = &mut self.step;
        now.upto = match stream {
            None => ticket,
            Some(stream) => {
                earlier.push(mem::replace(now, OpRange { stream, from: ticket, upto: ticket }));
                ticket
            }
        };
        earlier.retain(|step| {
            if Arc::ptr_eq(&step.stream, &now.stream) {
                now.from = now.from.min(step.from);
                return false;
            }
            let is_done = step.is_done();
            if is_done && let Some(error) = step.error() {
                wrong.get_or_insert(error);
            }
            !is_done
        });
        if !earlier.is_empty() || wrong.is_some() || !nested.is_empty() {
            self.rest = Some(Box::new(Rest { earlier, wrong, nested, watch: None }));
        }
    }

    /// These ops of other streams do the newest work: they use the memory, too.
    pub(crate) fn beside(&mut self, ops: Vec<(StreamHandle, Ticket)>) {
        let nested = &mut self.rest.get_or_insert_default().nested;
        for (stream, ticket) in ops {
            match nested.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &stream)) {
                Some((_, last)) => *last = ticket,
                None => nested.push((stream, ticket)),
            }
        }
    }

    /// Whether the newest work is of `stream`.
    #[inline]
    pub(crate) fn is_of(&self, stream: &Arc<CoreStream>) -> bool {
        Arc::ptr_eq(&self.step.stream, stream)
    }

    /// Whether all the work is of `stream`.
    #[inline]
    pub(crate) fn is_only_of(&self, stream: &Arc<CoreStream>) -> bool {
        self.is_of(stream) && self.rest.is_none()
    }

    /// What the next copy on `stream` has to wait for: work of other streams that is not done.
    pub(crate) fn elsewhere(&self, stream: &Arc<CoreStream>) -> Vec<Arc<dyn Fence>> {
        let steps = self.earlier().iter().chain([&self.step]);
        steps
            .filter(|step| !Arc::ptr_eq(&step.stream, stream) && !step.is_done())
            .map(OpRange::fence)
            .collect()
    }

    fn earlier(&self) -> &[OpRange] {
        self.rest.as_ref().map_or(&[], |rest| &rest.earlier)
    }

    /// The last op of each stream that uses the memory.
    fn ends(&self) -> impl Iterator<Item = (&StreamHandle, Ticket)> {
        let steps = [&self.step].into_iter().chain(self.earlier()).map(|step| (&step.stream, step.upto));
        let nested = self.rest.iter().flat_map(|rest| &rest.nested);
        steps.chain(nested.map(|(stream, last)| (stream, *last)))
    }

    /// The fence of an op that has not passed.
    fn unfinished(&self) -> Option<Arc<dyn Fence>> {
        let (stream, last) = self.ends().find(|(stream, last)| !stream.has_passed(*last))?;
        Some(stream.fence_after(last))
    }

    pub(crate) fn is_done(&self) -> bool {
        let is_done = self.unfinished().is_none();
        if is_done {
            self.tell_joined(JoinKind::Query);
        }
        is_done
    }

    /// The calling thread has learnt that all of it has passed.
    fn tell_joined(&self, how: JoinKind) {
        self.ends().for_each(|(stream, last)| stream.tell_joined(last, how));
    }

    /// Waits until no byte of it moves any more, and says what is known to be wrong with it.
    pub(crate) fn wait(&self) -> Result<()> {
        self.ends().for_each(|(stream, last)| pass(stream, last));
        self.verdict()
    }

    fn verdict(&self) -> Result<()> {
        let wrong = || self.rest.as_ref().and_then(|rest| rest.wrong.clone());
        let earlier = || self.earlier().iter().find_map(OpRange::error);
        self.step.error().or_else(wrong).or_else(earlier).map_or(Ok(()), Err)
    }

    pub(crate) fn wait_timeout(&self, limit: Duration) -> bool {
        let end = Instant::now().checked_add(limit);
        let left = || end.map_or(limit, |end| end.saturating_duration_since(Instant::now()));
        let is_done = |stream: &CoreStream, last| {
            stream.has_passed(last) || stream.fence_after(last).wait(Some(left())).is_ok()
        };
        let is_done = self.ends().all(|(stream, last)| is_done(stream, last));
        if is_done {
            self.tell_joined(JoinKind::Wait);
        }
        is_done
    }

    /// The newest op.
    pub(crate) fn ticket(&self) -> Ticket {
        self.step.upto
    }

    /// As the function of this name, of the stream.
    pub(crate) fn tell(&self, waited: Result<()>) -> Result<()> {
        tell(&self.step.stream, waited)
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            if let Some(rest) = &mut self.rest
                && let Some(watch) = &rest.watch
            {
                if !watch.poll(context) {
                    return Poll::Pending;
                }
                rest.watch = None;
            }
            let Some(next) = self.unfinished() else {
                self.tell_joined(JoinKind::Wait);
                return Poll::Ready(self.verdict());
            };
            self.rest.get_or_insert_default().watch = Some(Watch::new(next, context));
        }
    }
}

/// The ops that `stream` has to do by now.
fn so_far(stream: &CoreStream) -> (Ticket, Ticket) {
    // An abort of what had passed before is no news.
    let from = stream.status().passed() + 1;
    (from, stream.newest())
}

/// Waits until everything submitted to `stream` so far is done, and returns the stream's unreported
/// failure.
pub(crate) fn synchronize(stream: &CoreStream) -> Result<()> {
    let (from, upto) = so_far(stream);
    tell(stream, wait(stream, from, upto))
}

/// The result of a thread that `waited` for everything: the unreported failure, or else what came of the
/// waiting.
fn tell(stream: &CoreStream, waited: Result<()>) -> Result<()> {
    stream.status().take_error().map_or(waited, Err)
}

/// Waits until the ops `from..=upto` of `stream` have passed, and says what is known to be wrong with them.
pub(crate) fn wait(stream: &CoreStream, from: Ticket, upto: Ticket) -> Result<()> {
    pass(stream, upto);
    stream.status().error_within(from, upto).map_or(Ok(()), Err)
}

/// Waits until `stream` has passed `ticket`. Nothing may be given back before that, so there is no error.
pub(crate) fn pass(stream: &CoreStream, ticket: Ticket) {
    if stream.status().passed() < ticket {
        let fence = stream.fence_after(ticket);
        while !fence.is_done() {
            let _ = fence.wait(None);
        }
    }
    stream.tell_joined(ticket, JoinKind::Wait);
}
