//! How contexts and streams come into the tables and leave them.

use super::{
    context::Context,
    process::{OpenedEngine, Primary},
    stream::StreamEntry,
};
use crate::{
    Error, Result,
    callback::mailbox,
    constants as c,
    error::fail,
    exceptions::{self, Exception},
    handles::Handles,
    watched,
};
use ferry_core::{QueueOptions, Stream, sync::lock};
use ferry_watch::fact::StreamPurpose;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

impl OpenedEngine {
    /// Makes a context with its default stream.
    pub(crate) fn make_context(&self, device: u32, explicit: bool) -> Result<Arc<Context>> {
        let context = self.contexts.insert(|handle| Context::new(handle, device, explicit));
        match self.make_stream(&context, 0, true) {
            Ok(stream) => {
                let _ = context.default_stream.set(stream);
                self.account(device).enter();
                Ok(context)
            }
            Err(error) => {
                self.contexts.remove(context.handle);
                Err(error)
            }
        }
    }

    /// The default context of a device, made if there is none; `note` counts the new user.
    pub(crate) fn primary(&self, device: u32, note: impl FnOnce(&mut Primary)) -> Result<Arc<Context>> {
        let mut primary = lock(&self.device(device)?.primary);
        let context = match &primary.context {
            Some(context) => context.clone(),
            None => primary.context.insert(self.make_context(device, false)?).clone(),
        };
        note(&mut primary);
        Ok(context)
    }

    /// Waits for the streams of a context and takes them and itself out of the tables.
    pub(crate) fn end_context(&self, context: &Context) {
        if context.alive.swap(false, Ordering::AcqRel) {
            self.account(context.device).leave();
        }
        self.contexts.remove(context.handle);
        for entry in self.streams.all() {
            if entry.context == context.handle {
                let _ = entry.stream.synchronize(None);
                self.end_stream(&entry);
            }
        }
    }

    /// Makes a stream of a context.
    pub(crate) fn make_stream(
        &self,
        context: &Context,
        flags: u32,
        is_default: bool,
    ) -> Result<Arc<StreamEntry>> {
        let (halt, options) = (Some(&context.halt), QueueOptions::default());
        let make = || self.runtime.stream_under(halt, context.device, options);
        self.add_stream(context, flags, is_default, make)
    }

    /// Adds the stream that `make` makes to the tables, if the device may have one more.
    pub(crate) fn add_stream(
        &self,
        context: &Context,
        flags: u32,
        is_default: bool,
        make: impl FnOnce() -> ferry_core::Result<Arc<Stream>>,
    ) -> Result<Arc<StreamEntry>> {
        let streams = self.count_stream(context.device)?;
        let stream = make().inspect_err(|_| {
            streams.fetch_sub(1, Ordering::Relaxed);
        })?;
        self.insert_stream(context, |handle| {
            StreamEntry::new(handle, context.handle, stream, flags, is_default)
        })
    }

    /// Makes a stream of the library's own: calls for the whole device or context know it, its handle is told
    /// to none, and it is not counted.
    pub(crate) fn make_internal_stream(&self, context: &Context) -> Result<Arc<StreamEntry>> {
        let halt = Some(&context.halt);
        let stream = self.runtime.stream_under(halt, context.device, QueueOptions::default())?;
        self.insert_stream(context, |handle| StreamEntry {
            is_internal: true,
            ..StreamEntry::new(handle, context.handle, stream, 0, false)
        })
    }

    fn insert_stream(
        &self,
        context: &Context,
        entry: impl FnOnce(usize) -> StreamEntry,
    ) -> Result<Arc<StreamEntry>> {
        let entry = self.streams.insert(entry);
        let purpose = if entry.is_default { StreamPurpose::Default } else { StreamPurpose::User };
        watched::name_stream(&entry.stream, purpose, entry.handle);
        report_failures(&entry);
        // A context that ended meanwhile may have listed its streams before this one was among them.
        if !context.is_alive() {
            self.end_stream(&entry);
            return Err(fail(c::ACL_ERROR_RT_CONTEXT_NULL, "the context ended while its stream was made"));
        }
        Ok(entry)
    }

    /// Counts one more stream of a device, if it may have one more.
    fn count_stream(&self, device: u32) -> Result<&AtomicUsize> {
        let (streams, most) = (&self.device(device)?.streams, self.settings.max_streams());
        if streams.fetch_add(1, Ordering::Relaxed) < most {
            return Ok(streams);
        }
        streams.fetch_sub(1, Ordering::Relaxed);
        Err(self.no_more_streams(device, most))
    }

    /// The error for a device that has all the streams it may have.
    #[cold]
    fn no_more_streams(&self, device: u32, most: usize) -> Error {
        let settings = self.settings;
        let by = match settings.streams {
            Some(_) => "FERRY_LIMIT_STREAMS",
            None => &settings.options.soc,
        };
        let note = format!("device {device} has {most} streams, which is as many as {by} allows");
        match settings.quirks.stream_shortage_has_driver_text() {
            true => fail(c::ACL_ERROR_RT_NO_STREAM_RESOURCE, format!("alloc sq cq fail: {note}")),
            false => fail(c::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, note),
        }
    }

    /// Room for a stream that is in no table but counts among those of its device, for as long as it is kept.
    pub(crate) fn stream_slot(&'static self, device: u32) -> Result<StreamSlot> {
        Ok(StreamSlot(self.count_stream(device)?))
    }

    /// Takes a stream out of the tables. Its work was waited for, or may go on.
    pub(crate) fn end_stream(&self, entry: &StreamEntry) {
        entry.alive.store(false, Ordering::Release);
        mailbox::forget(entry.handle);
        if self.streams.remove(entry.handle).is_some()
            && !entry.is_internal
            && let Ok(device) = self.device(entry.device)
        {
            device.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// See [`OpenedEngine::stream_slot`].
pub struct StreamSlot(&'static AtomicUsize);

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Has failed tasks of the stream told to the function of aclrtSetExceptionInfoCallback.
fn report_failures(entry: &Arc<StreamEntry>) {
    let weak = Arc::downgrade(entry);
    entry.stream.status().listen(Box::new(move |ticket, error| {
        if let Some(entry) = weak.upgrade() {
            let stream = Handles::<StreamEntry>::index(entry.handle) as u32;
            let failure = || Exception::new(ticket, stream, entry.user(), entry.device, error);
            exceptions::note(failure);
        }
    }));
}
