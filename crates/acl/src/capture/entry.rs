//! One capture: what it records, who began it, and whether it is still valid.

use super::mode::CaptureMode;
use crate::{
    Error, Result,
    constants::{self as c},
    error::fail,
    settings::settings,
    state::{Here, with_here},
};
use ferry_core::{Branch, Capture, Footprint, Kind, Memory, Op, OpList, Stream, sync::lock};
use std::sync::{Arc, Mutex, Weak};

/// A capture, or a graph that is built task by task.
pub(crate) struct CaptureEntry {
    /// The handle of the model that it becomes.
    pub(crate) model: usize,
    /// The context of its streams.
    pub(crate) context: usize,
    /// The device of that context.
    pub(crate) device: u32,
    /// The stream that it began on; 0 for one that is built.
    pub(crate) main: usize,
    /// What it forbids to which threads. `None` for a graph that is built, which forbids nothing.
    pub(crate) mode: Option<CaptureMode>,
    /// The number of the thread that began it.
    thread: u64,
    /// Whether that thread still is.
    life: Weak<()>,
    /// The system's number of that thread.
    system_thread: u32,
    /// How many calls that thread had made.
    call: u64,
    /// What was recorded so far.
    pub(crate) recording: Capture,
    state: Mutex<CaptureState>,
}

#[derive(Default)]
struct CaptureState {
    phase: CapturePhase,
    /// The task group that is open.
    group: Option<OpenGroup>,
    /// Tasks for the printed form of the model.
    lines: Vec<TaskLine>,
}

/// A task group that is open.
struct OpenGroup {
    stream: usize,
    ops: OpList,
}

#[derive(Default, PartialEq, Eq)]
enum CapturePhase {
    #[default]
    Active,
    /// Why: the refused call.
    Invalid(String),
    Ended,
}

/// A task as it is printed.
#[derive(Clone, Debug)]
pub(crate) struct TaskLine {
    /// The handle of the stream that it was captured on.
    pub(crate) stream: usize,
    /// What it does.
    pub(crate) kind: TaskKind,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// Moves or combines bytes.
    Copy,
    /// Writes a pattern.
    Fill,
    /// Runs a function of the user's.
    Call,
    /// Records the event of this handle.
    EventRecord(usize),
    /// Waits for the event of this handle.
    EventWait(usize),
    /// Resets the event of this handle.
    EventReset(usize),
    /// Writes a cell of memory.
    ValueWrite(usize),
    /// Waits for a cell of memory.
    ValueWait(usize),
    /// Records the notify of this handle.
    NotifyRecord(usize),
    /// Waits for the notify of this handle.
    NotifyWait(usize),
    /// Has the stream of this handle begin.
    StreamActive(usize),
}

impl TaskKind {
    /// What a message calls it.
    fn noun(self) -> &'static str {
        match self {
            TaskKind::Copy => "copy",
            TaskKind::Fill => "fill",
            TaskKind::Call => "function of the host",
            TaskKind::EventRecord(_) => "record of an event",
            TaskKind::EventWait(_) => "wait for an event",
            TaskKind::EventReset(_) => "reset of an event",
            TaskKind::ValueWrite(_) => "write of a value",
            TaskKind::ValueWait(_) => "wait for a value",
            TaskKind::NotifyRecord(_) => "record of a notify",
            TaskKind::NotifyWait(_) => "wait for a notify",
            TaskKind::StreamActive(_) => "start of another stream",
        }
    }
}

impl TaskKind {
    /// What an op does.
    pub(super) fn of(op: &Op) -> TaskKind {
        if matches!(op, Op::Fill(_)) { TaskKind::Fill } else { TaskKind::Copy }
    }
}

impl CaptureEntry {
    /// A capture that this thread begins.
    pub(super) fn new(
        here: &Here,
        memory: &Arc<Memory>,
        (context, device): (usize, u32),
        (model, main): (usize, usize),
        mode: Option<CaptureMode>,
    ) -> CaptureEntry {
        CaptureEntry {
            model,
            context,
            device,
            main,
            mode,
            thread: here.number,
            life: Arc::downgrade(&here.life),
            system_thread: this_thread(),
            call: here.calls.get(),
            recording: Capture::new(memory.clone()),
            state: Mutex::default(),
        }
    }

    /// Whether this thread began it.
    pub(crate) fn is_by(&self, here: &Here) -> bool {
        self.thread == here.number
    }

    /// Whether the thread that began it has ended.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.life.strong_count() == 0
    }

    /// Whether it has not ended.
    pub(crate) fn is_active(&self) -> bool {
        lock(&self.state).phase != CapturePhase::Ended
    }

    /// Whether a refused call has broken it.
    pub(crate) fn is_invalid(&self) -> bool {
        matches!(lock(&self.state).phase, CapturePhase::Invalid(_))
    }

    /// Whether it is a graph that is built task by task, and no capture.
    pub(crate) fn is_built(&self) -> bool {
        self.mode.is_none()
    }

    /// Breaks it, unless it is broken or has ended: by the call that goes on. A graph that is built is not
    /// broken by what it refuses.
    pub(crate) fn invalidate(&self, why: &str) {
        let by = with_here(|here| Ok((here.function.get(), here.calls.get())));
        let by = by.map_or(String::new(), |(function, call)| {
            format!("by {function}, call {call} of thread {}: ", this_thread())
        });
        let mut state = lock(&self.state);
        if state.phase == CapturePhase::Active && !self.is_built() {
            state.phase = CapturePhase::Invalid(format!("{by}{why}"));
        }
    }

    /// Ends it: it takes no more tasks. Says why it is broken, if it is.
    pub(super) fn end(&self) -> Option<String> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut state.phase, CapturePhase::Ended) {
            CapturePhase::Invalid(why) => Some(why),
            CapturePhase::Active | CapturePhase::Ended => None,
        }
    }

    /// Who captures, since when.
    pub(crate) fn describe(&self) -> String {
        let (call, thread) = (self.call, self.system_thread);
        match self.mode {
            Some(mode) => format!(
                "the capture of stream {:#x}, mode {mode}, was begun by aclmdlRICaptureBegin, call {call} of \
                 thread {thread}",
                self.main
            ),
            None => format!("the model was begun by aclmdlRIBuildBegin, call {call} of thread {thread}"),
        }
    }

    /// The error of a call that the capture refuses: names who captures, and who calls.
    pub(crate) fn refusal(&self, code: i32, note: &str) -> Error {
        let mode = with_here(|here| Ok(here.capture_mode.get())).and_then(CaptureMode::try_from);
        let (caller, mode) = (this_thread(), mode.unwrap_or_default());
        fail(code, format!("{note} ({}; this call is of thread {caller}, mode {mode})", self.describe()))
    }

    /// The error of a call that would break the capture, which breaks it.
    pub(crate) fn break_by(&self, code: i32, note: String) -> Error {
        self.invalidate(&note);
        self.refusal(code, &note)
    }

    /// The error of a task that comes when the capture is broken.
    fn broken(&self, why: &str) -> Error {
        let note = format!(
            "the capture takes no more tasks, since it was broken before, {why}. Call aclmdlRICaptureEnd, \
             and capture again without that"
        );
        self.refusal(c::ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, &note)
    }

    /// Adds a task of a stream by `add`, if the capture takes tasks.
    pub(crate) fn add(&self, line: TaskLine, add: impl FnOnce(&Capture) -> Result<()>) -> Result<()> {
        let mut state = lock(&self.state);
        self.is_open(&state, line.stream)?;
        if state.group.is_some() {
            return Err(not_in_group(line.kind));
        }
        add(&self.recording)?;
        state.lines.push(line);
        Ok(())
    }

    /// Refuses a task of a stream if the capture takes none.
    pub(crate) fn takes_tasks_of(&self, stream: usize) -> Result<()> {
        self.is_open(&lock(&self.state), stream)
    }

    fn is_open(&self, state: &CaptureState, stream: usize) -> Result<()> {
        match &state.phase {
            CapturePhase::Active => {}
            CapturePhase::Invalid(why) => return Err(self.broken(why)),
            CapturePhase::Ended => {
                let note =
                    format!("stream {stream:#x} belongs to a model that is complete: it takes no tasks");
                return Err(fail(c::ACL_ERROR_RT_PARAM_INVALID, note));
            }
        }
        match &state.group {
            Some(group) if group.stream != stream => Err(self.interrupts_group(group.stream, stream)),
            _ => Ok(()),
        }
    }

    /// The error of what another stream submits while the task group of `open` is open.
    fn interrupts_group(&self, open: usize, stream: usize) -> Error {
        let note = format!(
            "stream {stream:#x} submits while the task group of stream {open:#x} is open: call \
             aclmdlRICaptureTaskGrpEnd first"
        );
        self.refusal(c::ACL_ERROR_STREAM_TASK_GROUP_INTR, &note)
    }

    /// Adds an op of a stream, to its task group if that is open and takes copies.
    pub(super) fn add_op(
        &self,
        line: TaskLine,
        (branch, op, footprint): (Branch, Op, Footprint),
        refusal: impl FnOnce() -> Error,
    ) -> Result<()> {
        let mut state = lock(&self.state);
        self.is_open(&state, line.stream)?;
        let was_added = match &mut state.group {
            None => self.recording.op(branch, op, footprint),
            Some(_) if !settings()?.groups_take_copies => return Err(not_in_group(line.kind)),
            Some(group) => group.ops.push(op, footprint),
        };
        if !was_added {
            return Err(refusal());
        }
        state.lines.push(line);
        Ok(())
    }

    /// Opens the task group of a stream.
    pub(crate) fn open_group(&self, stream: usize) -> Result<()> {
        let mut state = lock(&self.state);
        if let CapturePhase::Invalid(why) = &state.phase {
            return Err(self.broken(why));
        }
        if let Some(group) = &state.group {
            return Err(self.group_error(format!(
                "the task group of stream {:#x} is open: groups do not nest",
                group.stream
            )));
        }
        state.group = Some(OpenGroup { stream, ops: OpList::default() });
        Ok(())
    }

    /// Closes the task group of a stream, and gives its ops.
    pub(super) fn close_group(&self, stream: usize) -> Result<OpList> {
        let mut state = lock(&self.state);
        if let CapturePhase::Invalid(why) = &state.phase {
            return Err(self.broken(why));
        }
        let closed = state.group.take_if(|group| group.stream == stream);
        closed.map(|group| group.ops).ok_or_else(|| {
            self.group_error(format!(
                "stream {stream:#x} has no open task group: call aclmdlRICaptureTaskGrpBegin on it first"
            ))
        })
    }

    fn group_error(&self, note: String) -> Error {
        self.refusal(c::ACL_ERROR_STREAM_TASK_GROUP_STATUS, &note)
    }

    /// The stream whose task group is open.
    pub(crate) fn group(&self) -> Option<usize> {
        lock(&self.state).group.as_ref().map(|group| group.stream)
    }

    /// Says better what the newest task of a stream does.
    pub(crate) fn relabel(&self, stream: usize, kind: TaskKind) {
        if let Some(line) = lock(&self.state).lines.iter_mut().rev().find(|line| line.stream == stream) {
            line.kind = kind;
        }
    }

    /// Takes the tasks for the printed form.
    pub(crate) fn take_lines(&self) -> Vec<TaskLine> {
        std::mem::take(&mut lock(&self.state).lines)
    }
}

/// The error of a call that would break all of these captures, which breaks them. `None` if there are none.
pub(crate) fn break_all<'a>(
    captures: impl IntoIterator<Item = &'a Arc<CaptureEntry>>,
    code: i32,
    note: &str,
) -> Option<Error> {
    let mut captures = captures.into_iter();
    let first = captures.next()?.break_by(code, note.to_owned());
    captures.for_each(|capture| capture.invalidate(note));
    Some(first)
}

/// The error of a task that no task group takes.
pub(super) fn not_in_group(kind: TaskKind) -> Error {
    let note = format!(
        "a task group takes operators only, and this is a {}; FERRY_TASK_GROUPS=copies lets copies and fills \
         in",
        kind.noun()
    );
    fail(c::ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, note)
}

/// The system's number of this thread.
fn this_thread() -> u32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// A stream's part in a capture.
#[derive(Clone)]
pub(crate) struct StreamPart {
    /// The capture.
    pub(crate) entry: Arc<CaptureEntry>,
    /// The branch that the stream's tasks belong to.
    pub(crate) branch: Branch,
    /// The handle of the stream.
    pub(crate) stream: usize,
}

impl StreamPart {
    /// Adds a task of the stream.
    pub(crate) fn add(&self, kind: TaskKind, add: impl FnOnce(&Capture, Branch)) -> Result<()> {
        let line = TaskLine { stream: self.stream, kind };
        self.entry.add(line, |recording| {
            add(recording, self.branch);
            Ok(())
        })
    }

    /// Adds a task that `submit` puts into a stream at every execution.
    pub(crate) fn each(
        &self,
        kind: TaskKind,
        submit: impl Fn(&Arc<Stream>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        self.add(kind, |recording, branch| {
            let submit = move |stream: &Arc<Stream>| submit(stream).map_err(|error| engine_error(&error));
            recording.each(branch, Arc::new(submit));
        })
    }
}

/// An error of the rules as one of the engine's, for a recorder that the engine calls.
pub(super) fn engine_error(error: &Error) -> ferry_core::Error {
    Kind::Native(error.code).because(error.note.clone())
}
