//! How a task learns that a fence is done: one watcher of the fence, and the waker of the task that polled
//! last. No thread waits.

use ferry_core::{Fence, fence::survives};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
};

/// A fence that a task polls.
pub(crate) struct Watch {
    fence: Arc<dyn Fence>,
    alarm: Arc<Alarm>,
}

impl Watch {
    /// Wakes the task when the fence is done, which may be at once.
    pub(crate) fn new(fence: Arc<dyn Fence>, context: &Context<'_>) -> Watch {
        let alarm = Arc::new(Alarm(Mutex::new(Some(context.waker().clone()))));
        let bell = alarm.clone();
        fence.when_done(Box::new(move || bell.ring()));
        Watch { fence, alarm }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.fence.is_done()
    }

    /// Whether it is done; if not, the task is woken when it is.
    pub(crate) fn poll(&self, context: &Context<'_>) -> bool {
        if self.is_done() {
            return true;
        }
        self.alarm.set(context.waker());
        // The alarm may have gone off between the look and the setting.
        self.is_done()
    }
}

impl Drop for Watch {
    /// The task waits no longer. The fence keeps its watcher, which then holds no task.
    fn drop(&mut self) {
        drop(self.alarm.take());
    }
}

/// Who is to be woken. The lock is never held while a waker is cloned, woken or dropped: that is somebody's
/// code.
struct Alarm(Mutex<Option<Waker>>);

impl Alarm {
    fn slot(&self) -> MutexGuard<'_, Option<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, waker: &Waker) {
        let is_known = self.slot().as_ref().is_some_and(|known| known.will_wake(waker));
        if !is_known {
            let waker = waker.clone();
            let _replaced = self.slot().replace(waker);
        }
    }

    fn take(&self) -> Option<Waker> {
        self.slot().take()
    }

    fn ring(&self) {
        // This is a thread of the engine, which has other work: a waker that panics is not its affair.
        survives(|| _ = self.take().map(Waker::wake));
    }
}
