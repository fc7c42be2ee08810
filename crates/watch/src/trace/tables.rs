//! The tables of the model as JSON, for the scripts of the page.
//!
//! Long tables are columns of numbers (see `columns`), short ones lists. Times count from the first moment of
//! the trace. What may be absent is 0, and one more otherwise. `page/decode.js` reads this.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::fact::{Nanos, Origin, Route};
use crate::page_style::{json_list, json_object, json_string, json_strings};

use super::columns::{column, optional};
use super::finding_table;
use super::model::{TraceModel, TracedBlock, TracedCall, TracedOp, TracedPlace, TracedPoint, TracedProcess};
use super::names;

/// All tables. `caller` names return addresses of a process.
pub fn json(model: &TraceModel, caller: &mut dyn FnMut(u32, u64) -> Option<String>) -> String {
    let (start, end) = model.span();
    let mut callers = Callers { name: caller, indices: HashMap::new(), texts: Vec::new() };
    let tables = Tables { model, start };
    let mut text = format!("{{\"version\":1,\n\"span\":{}", end - start);
    let mut add = |name: &str, value: String| {
        let _ = write!(text, ",\n\"{name}\":{value}");
    };
    add("kinds", json_strings(names::KINDS));
    add("states", json_strings(names::STATES));
    add("leftOut", left_out(model));
    add("processes", tables.processes());
    add("threads", tables.threads());
    add("streams", tables.streams());
    add("captures", tables.captures());
    let (functions, calls) = tables.calls(&mut callers);
    add("functions", json_strings(&functions));
    add("calls", calls);
    let (routes, ops) = tables.ops();
    add("routes", routes);
    add("ops", ops);
    add("blocks", tables.blocks());
    add("waits", tables.waits());
    add("joins", tables.joins());
    add("tasks", tables.tasks());
    add("stacks", tables.stacks(&mut callers));
    add("callers", json_strings(&callers.texts));
    if let Some(findings) = &model.findings {
        add("findings", finding_table::json(findings, start));
    }
    text + "}\n"
}

/// The texts of return addresses, each once.
struct Callers<'a> {
    name: &'a mut dyn FnMut(u32, u64) -> Option<String>,
    indices: HashMap<(u32, bool, u64), u64>,
    texts: Vec<String>,
}

impl Callers<'_> {
    /// The index of the text of an address, and one more; 0 for no address.
    fn index(&mut self, process: &TracedProcess, address: u64) -> u64 {
        if address == 0 {
            return 0;
        }
        let TracedProcess { number, is_replaced, .. } = *process;
        *self.indices.entry((number, is_replaced, address)).or_insert_with(|| {
            let name = if is_replaced { None } else { (self.name)(number, address) };
            self.texts.push(name.unwrap_or_else(|| format!("{address:#x}")));
            self.texts.len() as u64
        })
    }
}

fn left_out(model: &TraceModel) -> String {
    let of = model.left_out;
    let members = [("ops", of.ops), ("calls", of.calls), ("others", of.others), ("facts", of.facts)];
    json_object(&members.map(|(name, count)| (name, count.to_string())))
}

/// A table of columns.
struct Columns {
    members: Vec<(&'static str, String)>,
}

impl Columns {
    fn new(count: usize) -> Columns {
        Columns { members: vec![("count", count.to_string())] }
    }

    fn add<T>(&mut self, name: &'static str, rows: &[T], value: impl Fn(&T) -> u64) {
        self.members.push((name, format!("\"{}\"", column(rows.iter().map(value)))));
    }

    fn json(&self) -> String {
        json_object(&self.members)
    }
}

struct Tables<'a> {
    model: &'a TraceModel,
    start: Nanos,
}

impl Tables<'_> {
    /// A moment that may be absent.
    fn moment(&self, time: Option<Nanos>) -> u64 {
        optional(time.map(|time| self.time(time)))
    }

    fn time(&self, time: Nanos) -> u64 {
        time.saturating_sub(self.start)
    }

    fn processes(&self) -> String {
        json_list(self.model.processes.iter().map(|process| {
            json_object(&[
                ("number", process.number.to_string()),
                ("parent", process.parent.to_string()),
                ("devices", process.devices.to_string()),
                ("backend", json_string(&process.backend)),
                ("command", json_string(&process.command)),
                ("ended", self.moment(process.ended).to_string()),
            ])
        }))
    }

    fn threads(&self) -> String {
        json_list(self.model.threads.iter().map(|thread| {
            json_object(&[
                ("process", thread.process.to_string()),
                ("number", thread.number.to_string()),
                ("name", json_string(&thread.name)),
            ])
        }))
    }

    fn streams(&self) -> String {
        json_list(self.model.streams.iter().map(|stream| {
            json_object(&[
                ("process", stream.process.to_string()),
                ("number", stream.number.to_string()),
                ("device", stream.device.to_string()),
                ("purpose", json_string(names::purpose(stream.purpose))),
                ("handle", json_string(&format!("{:#x}", stream.handle))),
                ("gone", self.moment(stream.gone).to_string()),
            ])
        }))
    }

    fn captures(&self) -> String {
        json_list(self.model.captures.iter().map(|capture| {
            json_object(&[
                ("process", capture.process.to_string()),
                ("graph", capture.graph.to_string()),
                ("stream", capture.stream.to_string()),
                ("call", index(capture.call).to_string()),
                ("begin", self.time(capture.begin).to_string()),
                ("end", self.moment(capture.end).to_string()),
                ("isGraph", capture.is_graph.to_string()),
                ("tasks", capture.tasks.to_string()),
            ])
        }))
    }

    /// The names of functions, each once, and the calls.
    fn calls(&self, callers: &mut Callers) -> (Vec<String>, String) {
        let rows = &self.model.calls;
        let process = |call: &TracedCall| self.model.process_of_thread(call.thread);
        let mut functions: Vec<String> = Vec::new();
        let mut indices: HashMap<(u32, u16), u64> = HashMap::new();
        for call in rows {
            indices.entry((process(call).number, call.function)).or_insert_with(|| {
                let name = process(call).function(call.function);
                functions.iter().position(|it| it == name).unwrap_or_else(|| {
                    functions.push(name.to_owned());
                    functions.len() - 1
                }) as u64
            });
        }
        let caller: Vec<u64> = rows.iter().map(|call| callers.index(process(call), call.caller)).collect();
        let mut table = Columns::new(rows.len());
        table.add("thread", rows, |call| u64::from(call.thread));
        table.add("function", rows, |call| indices[&(process(call).number, call.function)]);
        table.add("caller", &caller, |&caller| caller);
        table.add("stack", rows, |call| index(call.stack));
        table.add("begin", rows, |call| self.time(call.begin));
        table.add("dur", rows, |call| call.end - call.begin);
        table.add("blocked", rows, |call| call.blocked);
        table.add("code", rows, |call| i64::from(call.code) as u64);
        table.add("refused", rows, |call| u64::from(call.is_refused));
        (functions, table.json())
    }

    /// The distinct routes and the ops.
    fn ops(&self) -> (String, String) {
        let rows = &self.model.ops;
        let mut routes: HashMap<Route, u64> = HashMap::new();
        for route in rows.iter().filter_map(|op| op.route) {
            let next = routes.len() as u64 + 1;
            routes.entry(route).or_insert(next);
        }
        let mut table = Columns::new(rows.len());
        table.add("stream", rows, |op| u64::from(op.stream));
        table.add("ticket", rows, |op| op.ticket);
        table.add("submitted", rows, |op| self.moment(op.submitted));
        table.add("begin", rows, |op| self.moment(op.begin));
        table.add("dur", rows, duration);
        table.add("call", rows, |op| index(op.call));
        table.add("kind", rows, |op| op.kind as u64);
        table.add("state", rows, |op| op.state as u64);
        table.add("engine", rows, |op| u64::from(op.engine));
        table.add("worker", rows, |op| index(op.worker));
        table.add("together", rows, |op| u64::from(op.together));
        table.add("route", rows, |op| op.route.map_or(0, |route| routes[&route]));
        table.add("bytes", rows, |op| op.bytes);
        table.add("pieces", rows, |op| op.pieces);
        table.add("dstBlock", rows, |op| index(op.dst.and_then(|place| place.block)));
        table.add("dst", rows, |op| self.address(op.dst));
        table.add("srcBlock", rows, |op| index(op.src.and_then(|place| place.block)));
        table.add("src", rows, |op| self.address(op.src));
        for (name, at) in [("width", 0), ("height", 1), ("dstPitch", 2), ("srcPitch", 3)] {
            table.add(name, rows, move |op| op.rectangle.as_ref().map_or(0, |rectangle| rectangle[at]));
        }
        table.add("graph", rows, |op| op.task.map_or(0, |task| u64::from(task.graph)));
        table.add("task", rows, |op| op.task.map_or(0, |task| u64::from(task.task)));
        let mut known: Vec<(Route, u64)> = routes.into_iter().collect();
        known.sort_unstable_by_key(|&(_, index)| index);
        (json_list(known.into_iter().map(|(route, _)| route_json(route))), table.json())
    }

    /// The offset in the block, or the address where there is none; one more, and 0 for no address.
    fn address(&self, place: Option<TracedPlace>) -> u64 {
        optional(place.map(|place| {
            let base = place.block.map_or(0, |block| self.model.blocks[block as usize].block.base);
            place.address.wrapping_sub(base)
        }))
    }

    fn blocks(&self) -> String {
        let rows = &self.model.blocks;
        let mut table = Columns::new(rows.len());
        table.add("process", rows, |it| u64::from(it.process));
        table.add("base", rows, |it| it.block.base);
        table.add("len", rows, |it| it.block.len);
        table.add("device", rows, |it| optional(it.block.device.map(u64::from)));
        table.add("origin", rows, origin);
        table.add("call", rows, |it| index(it.call));
        table.add("known", rows, |it| self.time(it.known));
        table.add("forgotten", rows, |it| self.moment(it.forgotten));
        table.json()
    }

    fn waits(&self) -> String {
        let rows = &self.model.waits;
        let of = |point: Option<TracedPoint>| point.map(|point| u64::from(point.stream));
        let mut table = Columns::new(rows.len());
        table.add("op", rows, |wait| u64::from(wait.op));
        table.add("stream", rows, |wait| optional(of(wait.awaited)));
        table.add("ticket", rows, |wait| wait.awaited.map_or(0, |point| point.ticket));
        table.add("awaited", rows, |wait| index(wait.awaited.and_then(|point| point.op)));
        table.json()
    }

    fn joins(&self) -> String {
        let rows = &self.model.joins;
        let mut table = Columns::new(rows.len());
        table.add("thread", rows, |join| u64::from(join.thread));
        table.add("time", rows, |join| self.time(join.time));
        table.add("stream", rows, |join| u64::from(join.point.stream));
        table.add("ticket", rows, |join| join.point.ticket);
        table.add("op", rows, |join| index(join.point.op));
        table.add("call", rows, |join| index(join.call));
        table.json()
    }

    fn tasks(&self) -> String {
        let rows = &self.model.tasks;
        let mut table = Columns::new(rows.len());
        table.add("process", rows, |it| u64::from(it.process));
        table.add("graph", rows, |it| u64::from(it.task.graph));
        table.add("task", rows, |it| u64::from(it.task.task));
        table.add("call", rows, |it| index(it.call));
        table.add("time", rows, |it| self.time(it.time));
        table.json()
    }

    /// Each stack is the list of the indices of its callers' texts, the innermost first.
    fn stacks(&self, callers: &mut Callers) -> String {
        json_list(self.model.stacks.iter().map(|stack| {
            let process = &self.model.processes[stack.process as usize];
            json_list(stack.frames.iter().map(|&frame| callers.index(process, frame).to_string()))
        }))
    }
}

/// An index that may be absent.
fn index(index: Option<u32>) -> u64 {
    optional(index.map(u64::from))
}

/// How long the work took, and one more; 0 if it did not end.
fn duration(op: &TracedOp) -> u64 {
    optional(op.end.zip(op.begin).map(|(end, begin)| end.saturating_sub(begin)))
}

fn origin(block: &TracedBlock) -> u64 {
    match block.block.origin {
        Origin::Allocated => 0,
        Origin::Registered => 1,
        Origin::Mapped => 2,
        Origin::Imported => 3,
    }
}

fn route_json(route: Route) -> String {
    let device = |device: Option<u32>| device.map_or("null".to_owned(), |device| device.to_string());
    json_object(&[
        ("src", device(route.src)),
        ("dst", device(route.dst)),
        ("pageable", route.is_pageable.to_string()),
        ("text", json_string(&names::route(Some(route)))),
    ])
}
