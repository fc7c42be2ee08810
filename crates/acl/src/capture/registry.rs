//! The captures of the process, by stream, context and device.

use super::entry::{CaptureEntry, StreamPart};
use crate::state::StreamEntry;
use ferry_core::sync::lock;
use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock, Mutex,
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
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
/// How many streams take part in captures.
static CAPTURED: AtomicUsize = AtomicUsize::new(0);

/// Changes the registry, or asks it something.
pub(super) fn with<T>(body: impl FnOnce(&mut Registry) -> T) -> T {
    let mut registry = lock(&REGISTRY);
    let result = body(&mut registry);
    CAPTURED.store(registry.streams.len(), Ordering::Release);
    result
}

/// Whether any stream is captured: what every check asks first.
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

/// The context ends: so do its captures. Says which models they would have become.
pub(crate) fn abandon_context(context: usize) -> Vec<usize> {
    if !any() {
        return Vec::new();
    }
    with(|registry| {
        let is_here = |part: &StreamPart| part.entry.context == context;
        let gone: Vec<_> = registry
            .streams
            .values()
            .filter(|(_, part)| is_here(part))
            .map(|(_, part)| part.entry.clone())
            .collect();
        registry.streams.retain(|_, (_, part)| !is_here(part));
        registry.captures.retain(|capture| capture.context != context);
        gone.iter().for_each(|entry| drop(entry.end()));
        gone.iter().map(|entry| entry.model).collect()
    })
}
