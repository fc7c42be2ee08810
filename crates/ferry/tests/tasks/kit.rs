//! What the tests are made of: a device, a stream that is blocked, futures of every kind, an executor and
//! wakers.

use ferry::{Batch, Device, DeviceBuffer, Event, Result, Runtime, Stream};
use ferry_blocker::Blocker;
use std::{
    future::{Future, IntoFuture},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::Sender,
    },
    task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// Nobody waits longer than this: a wake that is lost fails a test, and does not hang it.
pub const LIMIT: Duration = Duration::from_secs(100);

/// A device of a runtime of its own, and a stream of it.
pub fn device() -> (Device, Stream) {
    let device = Runtime::new().expect("a backend").device(0).expect("a device");
    let stream = device.stream().expect("a stream");
    (device, stream)
}

/// Blocks a stream, and returns when it stands still.
pub fn block(stream: &Stream) -> Blocker {
    let (blocker, function) = Blocker::new();
    stream.call(function).expect("a function");
    blocker.wait_until_reached();
    blocker
}

/// A future, whatever it gives.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Everything that can be awaited, behind what the stream has to do now, each with its name.
pub fn futures(stream: &Stream, there: &DeviceBuffer<u8>) -> Result<Vec<(&'static str, Task)>> {
    let runtime = stream.device().runtime().clone();
    let host = || runtime.alloc_host::<u8>(there.len());
    let mut batch = Batch::new(host()?);
    batch.push(there, 0..there.len())?;
    let (upload, download) = (stream.upload(there, host()?)?, stream.download(host()?, there)?);
    let (batch, event) = (stream.download_batch(batch)?, stream.record()?);
    let (borrowed, synchronized) = ((&event).into_future(), stream.synchronized());
    Ok(vec![
        ("upload", Box::pin(async { upload.await.map(drop).expect("copied") })),
        ("download", Box::pin(async { download.await.map(drop).expect("copied") })),
        ("batch", Box::pin(async { batch.await.map(drop).expect("copied") })),
        ("event", Box::pin(event.into_future())),
        ("&event", Box::pin(borrowed)),
        ("synchronized", Box::pin(async { synchronized.await.expect("nothing failed") })),
    ])
}

/// Polls once, with this waker.
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// The least that an executor can be: it polls, and parks its thread until it is woken.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future.into_future());
    let end = Instant::now() + LIMIT;
    loop {
        if let Poll::Ready(output) = poll(future.as_mut(), &waker) {
            return output;
        }
        thread::park_timeout(LIMIT);
        assert!(Instant::now() < end, "nobody woke the task");
    }
}

/// A waker that counts.
#[derive(Default)]
pub struct Bell {
    rung: AtomicUsize,
    listener: Option<Sender<()>>,
}

impl Bell {
    pub fn new() -> Arc<Bell> {
        Arc::default()
    }

    /// One that also tells when it rings.
    pub fn heard_by(listener: Sender<()>) -> Arc<Bell> {
        Arc::new(Bell { listener: Some(listener), ..Bell::default() })
    }

    pub fn rung(&self) -> usize {
        self.rung.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        if let Some(listener) = &self.listener {
            // Whoever listened may have heard enough.
            let _ = listener.send(());
        }
    }
}

/// A waker that calls `on_clone` whenever it is cloned: the moment between a future's look at its copy and
/// its taking the waker.
pub fn hooked(bell: Arc<Bell>, on_clone: impl Fn() + Send + Sync + 'static) -> Waker {
    type Hooked = (Arc<Bell>, Box<dyn Fn() + Send + Sync>);
    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: `data` came from `Arc::into_raw`, and the waker being cloned owns a count of it.
            let hooked = unsafe { &*data.cast::<Hooked>() };
            hooked.1();
            // SAFETY: as above; this count belongs to the clone.
            unsafe { Arc::increment_strong_count(data.cast::<Hooked>()) };
            RawWaker::new(data, &TABLE)
        },
        // SAFETY: `data` came from `Arc::into_raw`, and waking by value gives its count up.
        |data| unsafe { Arc::from_raw(data.cast::<Hooked>()) }.0.clone().wake(),
        // SAFETY: `data` came from `Arc::into_raw`, and the waker owns a count of it.
        |data| unsafe { &*data.cast::<Hooked>() }.0.clone().wake(),
        // SAFETY: `data` came from `Arc::into_raw`, and dropping gives its count up.
        |data| drop(unsafe { Arc::from_raw(data.cast::<Hooked>()) }),
    );
    let data: Arc<Hooked> = Arc::new((bell, Box::new(on_clone)));
    // SAFETY: the functions of the table keep the count of an `Arc` that can be sent and shared.
    unsafe { Waker::from_raw(RawWaker::new(Arc::into_raw(data).cast(), &TABLE)) }
}

/// Looks on until the event is done.
pub fn look_on(event: &Event) {
    let end = Instant::now() + LIMIT;
    while !event.is_done() {
        assert!(Instant::now() < end, "the stream stands still");
        thread::yield_now();
    }
}

/// Numbers without a pattern, the same in every run (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}
