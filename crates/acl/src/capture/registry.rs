//! The captures of the process, by stream, context and device.

use super::{
    entry::{CaptureEntry, StreamPart},
    update::GroupUpdate,
};
use crate::state::StreamEntry;
use ferry_core::sync::lock;
use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The captures that have not ended.
#[derive(Default)]
pub(super) struct Registry {
    /// Captures, and not graphs that are built.
    pub(super) captures: Vec<Arc<CaptureEntry>>,
    /// Every stream that takes part in one, or is bound to a graph that is built.
    pub(super) streams: HashMap<usize, (Arc<StreamEntry>, StreamPart)>,
    /// Every stream on which a task group is being updated.
    pub(super) updates: HashMap<usize, Arc<GroupUpdate>>,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
/// Held while streams come into a capture or leave it.
static TRANSITION: Mutex<()> = Mutex::new(());
/// How many streams take part in captures or update task groups.
static CAPTURED: AtomicUsize = AtomicUsize::new(0);

/// Held by a thread that changes which streams are captured, from the first change to the last. The lock of
/// the registry is not enough: a stream asks the registry while its own lock is held, and that lock is needed
/// to divert the stream.
pub(super) fn transition() -> MutexGuard<'static, ()> {
    lock(&TRANSITION)
}

/// Changes the registry, or asks it something. No other lock is taken meanwhile.
pub(super) fn with<T>(body: impl FnOnce(&mut Registry) -> T) -> T {
    let mut registry = lock(&REGISTRY);
    let result = body(&mut registry);
    CAPTURED.store(registry.streams.len() + registry.updates.len(), Ordering::Release);
    result
}

/// Whether any stream is captured, or updates a task group: what every check asks first.
#[inline]
pub(crate) fn any() -> bool {
    CAPTURED.load(Ordering::Acquire) > 0
}

/// The part that the stream of this handle takes in a capture.
pub(crate) fn of_stream(handle: usize) -> Option<StreamPart> {
    if !any() {
        return None;
    }
    with(|registry| registry.streams.get(&handle).map(|(_, part)| part.clone()))
}

/// The streams of a capture, and the part of each.
pub(super) fn of_capture(entry: &Arc<CaptureEntry>) -> Vec<(Arc<StreamEntry>, StreamPart)> {
    let is_part = |part: &StreamPart| Arc::ptr_eq(&part.entry, entry);
    with(|registry| registry.streams.values().filter(|(_, part)| is_part(part)).cloned().collect())
}

/// The streams that joined the capture which began on the stream of this handle.
pub(crate) fn joined_to(main: usize) -> Vec<Arc<StreamEntry>> {
    if !any() {
        return Vec::new();
    }
    let joined = |part: &StreamPart| part.entry.main == main && part.stream != main;
    with(|registry| {
        registry.streams.values().filter(|(_, part)| joined(part)).map(|(stream, _)| stream.clone()).collect()
    })
}

/// The stream of this handle, if it is captured.
pub(super) fn captured_stream(handle: usize) -> Option<Arc<StreamEntry>> {
    with(|registry| registry.streams.get(&handle).map(|(stream, _)| stream.clone()))
}

/// The update of a task group that the stream of this handle takes part in.
pub(crate) fn update_of_stream(handle: usize) -> Option<Arc<GroupUpdate>> {
    if !any() {
        return None;
    }
    with(|registry| registry.updates.get(&handle).cloned())
}

/// The captures in a context.
pub(crate) fn of_context(context: usize) -> Vec<Arc<CaptureEntry>> {
    select(|capture| capture.context == context)
}

/// The captures on a device.
pub(crate) fn of_device(device: u32) -> Vec<Arc<CaptureEntry>> {
    select(|capture| capture.device == device)
}

fn select(fits: impl Fn(&CaptureEntry) -> bool) -> Vec<Arc<CaptureEntry>> {
    if !any() {
        return Vec::new();
    }
    with(|registry| registry.captures.iter().filter(|capture| fits(capture)).cloned().collect())
}

/// The context ends: so do its captures, and streams of other contexts that take part in them are as before.
pub(crate) fn abandon_context(context: usize) {
    if !any() {
        return;
    }
    let _transition = transition();
    let gone: Vec<_> = with(|registry| {
        registry.captures.retain(|capture| capture.context != context);
        registry.updates.retain(|_, update| update.context != context);
        registry
            .streams
            .extract_if(|_, (_, part)| part.entry.context == context)
            .map(|(_, gone)| gone)
            .collect()
    });
    gone.iter().for_each(|(stream, part)| {
        stream.stream.divert(None);
        drop(part.entry.end());
    });
}
