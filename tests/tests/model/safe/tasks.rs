//! The smallest executor of futures: a thread that sleeps until it is woken.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;

struct Sleeper(Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let waker = Arc::new(Sleeper(std::thread::current())).into();
    let (mut future, mut context) = (pin!(future.into_future()), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
