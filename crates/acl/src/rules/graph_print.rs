//! The printed form of a model: lines for the log, or a file of trace events for a viewer.

use super::graph::{ModelEntry, find};
use crate::{
    Result,
    arguments::refuse,
    capture::{TaskKind, TaskLine},
    handles::Handles,
    log::{self, Level, Module},
    state::StreamEntry,
};
use ferry_core::sync::lock;
use std::{fmt::Write, fs, path::Path};

/// aclmdlRIDebugPrint: the tasks, to the log.
pub fn print(handle: usize) -> Result<()> {
    let model = find(handle)?;
    model.graph()?;
    for (number, line) in lock(&model.lines).iter().enumerate() {
        let stream = stream_number(line);
        let name = name(line, number);
        log::write(Module::Runtime, Level::Info, || {
            format!("model {}: task {number} on stream {stream}: {name}", model.handle)
        });
    }
    Ok(())
}

/// aclmdlRIDebugJsonPrint: the tasks as a JSON array of trace events.
pub fn print_json(handle: usize, path: &Path, flags: u32) -> Result<()> {
    let model = find(handle)?;
    model.graph()?;
    if flags > 1 {
        return Err(refuse(format!("flags is {flags}: give 0 (summary) or 1 (verbose)")));
    }
    if path.as_os_str().is_empty() {
        return Err(refuse("path is empty: give the name of a file to write"));
    }
    let text = json(&model);
    fs::write(path, text).map_err(|why| refuse(format!("{}: {why}", path.display())))
}

/// One event for each task. Nothing runs, so that times are the places of the tasks in the model.
fn json(model: &ModelEntry) -> String {
    let id = super::graph::id(model.handle).unwrap_or_default();
    let mut text = String::from("[");
    for (number, line) in lock(&model.lines).iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let (stream, name) = (stream_number(line), name(line, number));
        let active = match line.kind {
            TaskKind::StreamActive(active) => {
                format!(", \"Active Stream Id\": {}", Handles::<StreamEntry>::index(active))
            }
            _ => String::new(),
        };
        let args = format!(
            "{{\"Model Id\": {id}, \"Stream Id\": {stream}, \"Task Id\": {number}, \"Task Type\": \
             \"{}\"{active}}}",
            type_name(line.kind)
        );
        let _ = write!(
            text,
            "{comma}\n  {{\"name\": \"{name}\", \"ph\": \"X\", \"pid\": \"model{id}\", \"tid\": \
             \"stream{stream}\", \"ts\": {number}, \"dur\": 1, \"args\": {args}}}"
        );
    }
    text + "\n]\n"
}

/// The number of the stream that the task was captured on.
fn stream_number(line: &TaskLine) -> usize {
    Handles::<StreamEntry>::index(line.stream)
}

/// The name of a task. Those of a pair share the handle, or the address, that they are about.
fn name(line: &TaskLine, number: usize) -> String {
    let type_name = type_name(line.kind);
    match line.kind {
        TaskKind::EventRecord(about)
        | TaskKind::EventWait(about)
        | TaskKind::EventReset(about)
        | TaskKind::ValueWrite(about)
        | TaskKind::ValueWait(about)
        | TaskKind::NotifyRecord(about)
        | TaskKind::NotifyWait(about) => format!("{type_name}_{about:#x}"),
        TaskKind::StreamActive(_) => type_name.to_owned(),
        TaskKind::Copy | TaskKind::Fill | TaskKind::Call => format!("{type_name}_{number}"),
    }
}

/// The type of a task as traces have it.
fn type_name(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Copy => "MEMCPY_ASYNC",
        TaskKind::Fill => "MEMSET_ASYNC",
        TaskKind::Call => "HOST_FUNC",
        TaskKind::EventRecord(_) => "EVENT_RECORD",
        TaskKind::EventWait(_) => "EVENT_WAIT",
        TaskKind::EventReset(_) => "EVENT_RESET",
        TaskKind::ValueWrite(_) => "MEM_WRITE_VALUE",
        TaskKind::ValueWait(_) => "MEM_WAIT_VALUE",
        TaskKind::NotifyRecord(_) => "NOTIFY_RECORD",
        TaskKind::NotifyWait(_) => "NOTIFY_WAIT",
        TaskKind::StreamActive(_) => "STREAM_ACTIVE",
    }
}
