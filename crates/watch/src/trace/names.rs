//! The words for kinds, routes and outcomes that a trace shows to people.

use crate::fact::{Route, StreamPurpose};

use super::model::{OpState, WorkKind};

/// The names of all kinds of work, in the order of [`WorkKind`].
pub const KINDS: [&str; 10] = [
    "unknown",
    "wait",
    "event record",
    "copy",
    "copy of a rectangle",
    "batch of copies",
    "late-bound copy",
    "fill",
    "reduction",
    "host function",
];

/// The names of how far ops came, in the order of [`OpState`].
pub const STATES: [&str; 5] =
    ["queued, never seen to begin", "never seen to finish", "done", "failed", "dropped"];

/// The name of a kind of work.
pub fn kind(kind: WorkKind) -> &'static str {
    KINDS[kind as usize]
}

/// The name of how far an op came.
pub fn state(state: OpState) -> &'static str {
    STATES[state as usize]
}

/// The name of a route: where from, where to, and whether the host's end is page-locked.
pub fn route(route: Option<Route>) -> String {
    let Some(route) = route else { return String::new() };
    let end = |device: Option<u32>| device.map_or("host".to_owned(), |device| format!("device {device}"));
    let memory = match (route.src.is_some() && route.dst.is_some(), route.is_pageable) {
        (true, _) => "",
        (false, true) => ", pageable",
        (false, false) => ", page-locked",
    };
    format!("{} to {}{memory}", end(route.src), end(route.dst))
}

/// What a stream is for, where it is not simply the program's.
pub fn purpose(purpose: StreamPurpose) -> &'static str {
    match purpose {
        StreamPurpose::User => "",
        StreamPurpose::Default => "default",
        StreamPurpose::Synchronous => "synchronous",
        StreamPurpose::Graph => "graph branch",
    }
}
