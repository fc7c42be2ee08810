//! Models that are captured or built, executed and destroyed: the functions of aclmdlRI.
//!
//! A model is a handle of a graph of the engine, or of the capture that is to become one. What capturing
//! forbids to other calls: `capture`. Building a model stream by stream: `graph_build.rs`; its printed form:
//! `graph_print.rs`; task groups: `task_group.rs`.

use crate::{
    Error, Result,
    arguments::{limit_ms, refuse},
    callback::{Callback, UserFunction},
    capture::{self, CaptureEntry, CaptureMode, TaskLine},
    constants::*,
    error::fail,
    handles::{HandleKind, Handles},
    interrupt,
    state::{Context, Here, OpenedEngine, StreamEntry, engine},
};
use ferry_core::{Graph, Kind, Stream, sync::lock};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

/// Documented: the most bytes of a name.
const MAX_NAME: usize = 512;

/// A model: a graph, or a capture that becomes one.
pub(crate) struct ModelEntry {
    pub(crate) handle: usize,
    id: u32,
    pub(crate) context: Arc<Context>,
    pub(crate) state: Mutex<ModelState>,
    name: Mutex<Vec<u8>>,
    /// Tasks for the printed form.
    pub(super) lines: Mutex<Vec<TaskLine>>,
    /// Run when the model is destroyed.
    callbacks: Mutex<Vec<(UserFunction, Callback)>>,
    /// Streams of blocking executions, made when none is free. They are in the table of streams, where the
    /// calls for whole devices look, under handles that nobody is told.
    blocking: Mutex<Vec<BlockingStream>>,
    /// How many threads are launching an execution. Grows under the lock of `state`.
    launches: AtomicUsize,
}

/// What a model is.
pub(crate) enum ModelState {
    /// Nothing yet.
    New,
    /// It is being recorded.
    Recording(Arc<CaptureEntry>),
    /// It can be executed. Built ones can be aborted, captured ones cannot.
    Ready {
        /// What it does.
        graph: Arc<Graph>,
        /// Whether it was built, and not captured.
        is_built: bool,
    },
    /// It was destroyed, or its context has ended.
    Destroyed,
}

/// A stream of blocking executions.
struct BlockingStream {
    entry: Arc<StreamEntry>,
    /// Whether a call waits for it.
    is_used: bool,
}

/// A stream that has the execution of one call and no other: the errors that it tells are of that.
struct OneExecution<'a> {
    model: &'a ModelEntry,
    entry: Arc<StreamEntry>,
}

impl Drop for OneExecution<'_> {
    fn drop(&mut self) {
        let mut streams = lock(&self.model.blocking);
        if let Some(own) = streams.iter_mut().find(|it| Arc::ptr_eq(&it.entry, &self.entry)) {
            own.is_used = false;
        }
    }
}

/// A launch that is under way: the model cannot be destroyed meanwhile.
struct Launching<'a> {
    model: &'a ModelEntry,
    graph: Arc<Graph>,
}

impl Drop for Launching<'_> {
    fn drop(&mut self) {
        self.model.launches.fetch_sub(1, Ordering::Release);
    }
}

impl HandleKind for ModelEntry {
    const TAG: usize = 7;
}

static MODELS: Handles<ModelEntry> = Handles::new();

/// The model of this handle.
pub(super) fn find(handle: usize) -> Result<Arc<ModelEntry>> {
    engine()?;
    MODELS.get(handle).ok_or_else(|| gone(handle))
}

/// The error of a handle without a model.
fn gone(handle: usize) -> Error {
    refuse(format!("{handle:#x} is no model, or one that was destroyed, or whose context has ended"))
}

/// A model that is nothing yet.
pub(super) fn create(context: Arc<Context>) -> Arc<ModelEntry> {
    static BORN: AtomicU32 = AtomicU32::new(0);
    MODELS.insert(|handle| ModelEntry {
        handle,
        id: BORN.fetch_add(1, Ordering::Relaxed),
        context,
        state: Mutex::new(ModelState::New),
        name: Mutex::default(),
        lines: Mutex::default(),
        callbacks: Mutex::default(),
        blocking: Mutex::default(),
        launches: AtomicUsize::new(0),
    })
}

/// Takes a model that became nothing out of the table.
pub(super) fn discard(handle: usize) {
    drop(MODELS.remove(handle));
    capture::forget_groups(handle);
}

/// aclmdlRICaptureBegin.
pub fn capture_begin(here: &Here, stream: usize, mode: i32) -> Result<()> {
    let engine = engine()?;
    let context = here.context()?;
    let mode = CaptureMode::try_from(mode)?;
    let entry = here.stream(stream)?;
    if entry.is_default {
        let note = "the default stream cannot be captured: make a stream with aclrtCreateStream";
        return Err(fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, note));
    }
    let model = create(context.clone());
    let capture = capture::draft(here, engine, &context, (model.handle, entry.handle), Some(mode));
    // Before it begins: another thread may end it from there on.
    *lock(&model.state) = ModelState::Recording(capture.clone());
    capture::begin(engine, (&context, &entry), &capture).inspect_err(|_| discard(model.handle))
}

/// aclmdlRICaptureEnd: the model.
pub fn capture_end(here: &Here, stream: usize) -> Result<usize> {
    let engine = engine()?;
    let entry = here.stream(stream)?;
    let capture = may_end(here, &entry)?;
    let context = engine.contexts.get(capture.context).ok_or_else(|| refuse("the context has ended"))?;
    let model = find(capture.model)?;
    let streams = capture::leave(&context, &capture).ok_or_else(|| unmatched(&entry))?;
    match capture::end(&capture, &streams) {
        Ok(graph) => {
            let mut state = lock(&model.state);
            if matches!(*state, ModelState::Destroyed) {
                return Err(gone(model.handle));
            }
            *lock(&model.lines) = capture.take_lines();
            *state = ModelState::Ready { graph, is_built: false };
            Ok(model.handle)
        }
        Err(error) => {
            discard(model.handle);
            Err(error)
        }
    }
}

/// The error of an end without a beginning.
fn unmatched(entry: &StreamEntry) -> Error {
    let note = format!("stream {:#x} is not captured: call aclmdlRICaptureBegin first", entry.handle);
    fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, note)
}

/// The capture that this thread may end on this stream.
fn may_end(here: &Here, entry: &StreamEntry) -> Result<Arc<CaptureEntry>> {
    let part = capture::of_stream(entry.handle).filter(|part| part.entry.mode.is_some());
    let capture = part.ok_or_else(|| unmatched(entry))?.entry;
    if capture.main != entry.handle {
        let note = format!(
            "stream {:#x} joined the capture: end it on the stream that it began on, {:#x}",
            entry.handle, capture.main
        );
        return Err(capture.refusal(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, &note));
    }
    if capture.mode != Some(CaptureMode::Relaxed) && !capture.is_by(here) && !capture.is_orphaned() {
        let note = "another thread began the capture, which goes on. Ways out: end it in that thread; \
                    capture in mode RELAXED; or let that thread end, then any other one may end the capture";
        return Err(capture.refusal(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, note));
    }
    Ok(capture)
}

/// aclmdlRICaptureGetInfo: the status and the model. Allocators ask all the time, so that it needs no current
/// context: any thread may ask for any stream.
pub fn capture_info(stream: usize) -> Result<(i32, usize)> {
    let engine = engine()?;
    if stream != 0 && engine.streams.get(stream).is_none() {
        let note = format!("{stream:#x} is no stream, or one that was destroyed");
        return Err(fail(ACL_ERROR_RT_INVALID_HANDLE, note));
    }
    Ok(match capture::of_stream(stream) {
        Some(part) if part.entry.mode.is_some() => {
            let status = if part.entry.is_invalid() {
                ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
            } else {
                ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE
            };
            (status, part.entry.model)
        }
        _ => (ACL_MODEL_RI_CAPTURE_STATUS_NONE, 0),
    })
}

/// aclmdlRICaptureThreadExchangeMode: the mode that the thread had.
pub fn exchange_mode(here: &Here, mode: i32) -> Result<i32> {
    capture::exchange_mode(here, mode)
}

impl ModelEntry {
    /// What can be executed.
    pub(super) fn graph(&self) -> Result<Arc<Graph>> {
        self.graph_in(&lock(&self.state)).cloned()
    }

    fn graph_in<'a>(&self, state: &'a ModelState) -> Result<&'a Arc<Graph>> {
        match state {
            ModelState::Ready { graph, .. } => Ok(graph),
            ModelState::Recording(capture) => Err(self.still_recorded(Some(capture))),
            ModelState::New => Err(self.still_recorded(None)),
            ModelState::Destroyed => Err(gone(self.handle)),
        }
    }

    /// What can be executed, for a launch that is waited for before the model is destroyed.
    fn launching(&self) -> Result<Launching<'_>> {
        let state = lock(&self.state);
        let graph = self.graph_in(&state)?.clone();
        self.launches.fetch_add(1, Ordering::Relaxed);
        Ok(Launching { model: self, graph })
    }

    /// Whether an execution is being launched, is queued or runs. The lock of `state` is held.
    fn is_running(&self, graph: &Graph) -> bool {
        self.launches.load(Ordering::Acquire) > 0 || graph.is_running()
    }

    /// Ends the model, which nothing executes any more: its streams are as before, and its callbacks run. The
    /// caller has made it `Destroyed`, from `state`.
    fn end(&self, state: ModelState) {
        if let ModelState::Recording(capture) = &state {
            capture::complete(capture);
        }
        super::graph_build::unbind_all(self);
        discard(self.handle);
        let streams = std::mem::take(&mut *lock(&self.blocking));
        if let Ok(engine) = engine() {
            streams.iter().for_each(|it| engine.end_stream(&it.entry));
        }
        drop(state);
        let callbacks = std::mem::take(&mut *lock(&self.callbacks));
        callbacks.into_iter().for_each(|(_, callback)| callback.take().run_here());
    }

    fn still_recorded(&self, capture: Option<&Arc<CaptureEntry>>) -> Error {
        let note = match capture {
            Some(capture) if capture.is_built() => "being built: call aclmdlRIBuildEnd first",
            _ => "being captured: call aclmdlRICaptureEnd first",
        };
        let note = format!("model {:#x} is still {note}", self.handle);
        let code = ACL_ERROR_RT_MODEL_CAPTURED;
        capture.map_or_else(|| fail(code, note.clone()), |capture| capture.refusal(code, &note))
    }

    /// Refuses a context that the model does not belong to.
    fn belongs_to(&self, context: &Context) -> Result<()> {
        if self.context.handle == context.handle {
            return Ok(());
        }
        let note = format!(
            "model {:#x} belongs to another context (of device {}) than the current one (of device {})",
            self.handle, self.context.device, context.device
        );
        Err(fail(ACL_ERROR_RT_STREAM_CONTEXT, note))
    }

    /// A stream for one blocking execution. One that ran out of time keeps its stream until it is over: what
    /// comes of it then is told to nobody.
    fn one_execution(&self, engine: &OpenedEngine) -> Result<OneExecution<'_>> {
        let mut streams = lock(&self.blocking);
        let is_free = |it: &&mut BlockingStream| !it.is_used && matches!(it.entry.stream.is_idle(), Ok(true));
        let entry = match streams.iter_mut().find(is_free) {
            Some(free) => {
                free.is_used = true;
                let status = free.entry.stream.status();
                // An abort, and the first failure.
                drop((status.take_error(), status.take_error()));
                free.entry.clone()
            }
            None => {
                let entry = engine.make_internal_stream(&self.context)?;
                streams.push(BlockingStream { entry: entry.clone(), is_used: true });
                entry
            }
        };
        Ok(OneExecution { model: self, entry })
    }
}

/// aclmdlRIExecuteAsync.
pub fn execute_async(here: &Here, model: usize, stream: usize) -> Result<()> {
    let model = find(model)?;
    let launching = model.launching()?;
    let entry = here.stream(stream)?;
    model.belongs_to(&*here.context()?)?;
    if let Some(part) = capture::of_stream(entry.handle) {
        let (what, after) = match part.entry.is_built() {
            true => ("bound to a model", "aclmdlRIUnbindStream"),
            false => ("captured", "aclmdlRICaptureEnd"),
        };
        let note = format!(
            "stream {:#x} is {what}, and executions of models are no tasks of models: execute it on another \
             stream, or after {after}",
            entry.handle
        );
        return Err(part.entry.refusal(ACL_ERROR_RT_STREAM_CAPTURED, &note));
    }
    launch(&launching.graph, &entry.stream)
}

/// Launches an execution. If memory of the graph was freed it does nothing, and fails in its turn.
fn launch(graph: &Arc<Graph>, stream: &Arc<Stream>) -> Result<()> {
    match graph.execute_in_turn(stream) {
        Ok(_) => Ok(()),
        Err(error) if error.kind == Kind::BadAddress => {
            let status = Arc::downgrade(stream);
            let fail = move |_| {
                if let Some(stream) = status.upgrade() {
                    stream.status().fail(error);
                }
            };
            stream.call_internal(fail)?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// aclmdlRIExecute: for ever if `timeout` is -1, else that many milliseconds.
pub fn execute(here: &Here, model: usize, timeout: i32) -> Result<()> {
    let engine = engine()?;
    let model = find(model)?;
    let launching = model.launching()?;
    model.belongs_to(&*here.context()?)?;
    if timeout == 0 {
        return Err(refuse("timeout is 0: give -1, or a number of milliseconds"));
    }
    let limit = limit_ms(timeout)?;
    let execution = model.one_execution(engine)?;
    let stream = &execution.entry.stream;
    launch(&launching.graph, stream)?;
    drop(launching);
    let work = stream.so_far()?;
    interrupt::wait(here, limit, |limit| work.wait(limit))
        .and_then(|()| stream.status().take_error().map_or(Ok(()), Err))
        .map_err(|error| super::stream::timed_out(error, limit, format!("model {:#x}", model.handle)))
}

/// aclmdlRIDestroy. A model that is being built is given up.
pub fn destroy(handle: usize) -> Result<()> {
    let model = find(handle)?;
    let mut state = lock(&model.state);
    let is_given_up = matches!(&*state, ModelState::Recording(capture) if capture.is_built());
    if !is_given_up && model.is_running(model.graph_in(&state)?) {
        let note = format!("model {handle:#x} is being executed: synchronise first");
        return Err(fail(ACL_ERROR_RT_MODEL_RUNNING, note));
    }
    let was = std::mem::replace(&mut *state, ModelState::Destroyed);
    drop(state);
    model.end(was);
    Ok(())
}

/// The context ends, and its captures with it: streams are as before.
pub(crate) fn abandon(context: &Context) {
    capture::abandon_context(context.handle);
    super::graph_build::unbind_context(context.handle);
}

/// The context has ended, and so has the work of its streams: its models end.
pub(crate) fn end_all(context: &Context) {
    for model in MODELS.all().iter().filter(|model| model.context.handle == context.handle) {
        match std::mem::replace(&mut *lock(&model.state), ModelState::Destroyed) {
            ModelState::Destroyed => {}
            state => model.end(state),
        }
    }
}

/// aclmdlRIAbort: built models only.
pub fn abort(handle: usize) -> Result<()> {
    let model = find(handle)?;
    let graph = model.graph()?;
    if matches!(&*lock(&model.state), ModelState::Ready { is_built: false, .. }) {
        let note = format!("model {handle:#x} was captured: only models that were built can be aborted");
        return Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note));
    }
    graph.abort();
    Ok(())
}

/// aclmdlRISetName: what is longer is cut.
pub fn set_name(handle: usize, name: &[u8]) -> Result<()> {
    *lock(&find(handle)?.name) = name[..name.len().min(MAX_NAME)].to_vec();
    Ok(())
}

/// aclmdlRIGetName.
pub fn name(handle: usize) -> Result<Vec<u8>> {
    Ok(lock(&find(handle)?.name).clone())
}

/// aclmdlRIGetId.
pub fn id(handle: usize) -> Result<u32> {
    Ok(find(handle)?.id)
}

/// aclmdlRIDestroyRegisterCallback.
pub fn on_destroy(handle: usize, function: UserFunction, callback: Callback) -> Result<()> {
    lock(&find(handle)?.callbacks).push((function, callback));
    Ok(())
}

/// aclmdlRIDestroyUnregisterCallback.
pub fn not_on_destroy(handle: usize, function: UserFunction) -> Result<()> {
    let model = find(handle)?;
    let mut callbacks = lock(&model.callbacks);
    let place = callbacks.iter().position(|(known, _)| *known as usize == function as usize);
    let place = place.ok_or_else(|| {
        refuse(format!("function {:p} is not registered with model {handle:#x}", function as *const ()))
    })?;
    drop(callbacks.remove(place));
    Ok(())
}
