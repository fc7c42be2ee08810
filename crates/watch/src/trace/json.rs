//! `msprof_<digits>.json`: the trace as Chrome JSON in the form of msprof, which MindStudio Insight, Perfetto
//! and `chrome://tracing` open.
//!
//! An array of events. Calls are slices of the layer `CANN`, ops are slices of the layer `Ascend Hardware`,
//! and a flow of the category `HostToDevice` connects a call with each op that it submitted; both have its
//! `connection_id`. Waits between streams and host joins are flows of categories of their own.

use std::io::{self, Write};

use crate::fact::Nanos;
use crate::page_style::json_string;

use super::model::{OpState, TraceModel, TracedCall, TracedOp, TracedPlace, WorkKind};
use super::names;

/// The sort index of the layer of calls, which is part of its process numbers.
pub const CANN: u64 = 7;
/// The same of the layer of ops.
pub const HARDWARE: u64 = 13;
/// The same of the layer of counters of memory.
pub const MEMORY: u64 = 19;
/// What msprof writes where a number is meant for a model and there is none.
const NO_MODEL: u64 = 4_294_967_295;

/// The number of the process that a layer is in the file.
pub fn layer_pid(process: u32, layer: u64, device: u32) -> u64 {
    (u64::from(process) << 10) | (layer << 5) | u64::from(device & 31)
}

/// Writes the whole file. `caller` names return addresses of a process.
pub fn write(
    out: &mut dyn Write,
    model: &TraceModel,
    caller: &mut dyn FnMut(u32, u64) -> Option<String>,
) -> io::Result<()> {
    let mut events = EventList { out, is_first: true };
    write_names(&mut events, model)?;
    for (index, call) in (0..).zip(&model.calls) {
        write_call(&mut events, model, index, call, caller)?;
    }
    let last = model.span().1;
    let mut is_begun = vec![false; model.calls.len()];
    for op in &model.ops {
        // An op that never began has no place on the hardware; its call shows it.
        if let Some(begin) = op.begin {
            write_op(&mut events, model, op, begin, op.end.unwrap_or(last))?;
            write_flow(&mut events, model, op, begin, &mut is_begun)?;
        }
    }
    write_waits(&mut events, model)?;
    write_joins(&mut events, model)?;
    write_in_flight(&mut events, model)?;
    events.end()
}

/// An array of JSON that is written event by event.
struct EventList<'a> {
    out: &'a mut dyn Write,
    is_first: bool,
}

impl EventList<'_> {
    /// One event: what stands between its braces.
    fn put(&mut self, event: std::fmt::Arguments) -> io::Result<()> {
        let lead = if self.is_first { "[\n" } else { ",\n" };
        self.is_first = false;
        write!(self.out, "{lead}{{{event}}}")
    }

    fn end(self) -> io::Result<()> {
        self.out.write_all(if self.is_first { b"[]\n" } else { b"\n]\n" })
    }
}

/// A moment of a process as the text of microseconds of the Unix epoch with three decimals.
fn stamp(model: &TraceModel, process: u32, time: Nanos) -> String {
    let process = &model.processes[process as usize];
    let nanos = i128::from(process.epoch) + i128::from(time) - i128::from(process.started);
    let nanos = nanos.max(0);
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

/// The number that a call and its ops have in common, from 1.
fn connection(call: u32) -> u64 {
    u64::from(call) + 1
}

/// Nanoseconds as a number of microseconds.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

fn write_names(events: &mut EventList, model: &TraceModel) -> io::Result<()> {
    let mut layers: Vec<(u64, u64, &str, &str)> = Vec::new();
    for process in &model.processes {
        layers.push((layer_pid(process.number, CANN, 0), CANN, "CANN", "CPU"));
        layers.push((layer_pid(process.number, MEMORY, 0), MEMORY, "NPU MEM", "NPU"));
    }
    for (index, stream) in model.streams.iter().enumerate() {
        let number = model.process_of(index as u32).number;
        let pid = layer_pid(number, HARDWARE, stream.device);
        layers.push((pid, HARDWARE, "Ascend Hardware", "NPU"));
    }
    layers.sort_unstable();
    layers.dedup();
    for (pid, sort, name, label) in layers {
        let head = format!("\"ph\":\"M\",\"pid\":{pid},\"tid\":0");
        events.put(format_args!("\"name\":\"process_name\",{head},\"args\":{{\"name\":\"{name}\"}}"))?;
        events.put(format_args!("\"name\":\"process_labels\",{head},\"args\":{{\"labels\":\"{label}\"}}"))?;
        events
            .put(format_args!("\"name\":\"process_sort_index\",{head},\"args\":{{\"sort_index\":{sort}}}"))?;
    }
    for thread in &model.threads {
        let pid = layer_pid(model.processes[thread.process as usize].number, CANN, 0);
        write_row(events, pid, thread.number, &format!("Thread {}", thread.number))?;
    }
    for (index, stream) in model.streams.iter().enumerate() {
        let pid = layer_pid(model.process_of(index as u32).number, HARDWARE, stream.device);
        write_row(events, pid, stream.number, &format!("Stream {}", stream.number))?;
    }
    Ok(())
}

fn write_row(events: &mut EventList, pid: u64, tid: u32, name: &str) -> io::Result<()> {
    let head = format!("\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid}");
    events.put(format_args!("\"name\":\"thread_name\",{head},\"args\":{{\"name\":\"{name}\"}}"))?;
    events.put(format_args!("\"name\":\"thread_sort_index\",{head},\"args\":{{\"sort_index\":{tid}}}"))
}

fn write_call(
    events: &mut EventList,
    model: &TraceModel,
    index: u32,
    call: &TracedCall,
    caller: &mut dyn FnMut(u32, u64) -> Option<String>,
) -> io::Result<()> {
    let thread = &model.threads[call.thread as usize];
    let process = &model.processes[thread.process as usize];
    let name = process.function(call.function);
    let (pid, tid) = (layer_pid(process.number, CANN, 0), thread.number);
    let begin = stamp(model, thread.process, call.begin);
    let place =
        if call.caller == 0 || process.is_replaced { None } else { caller(process.number, call.caller) };
    let place = place.map_or(String::new(), |place| format!(",\"caller\":{}", json_string(&place)));
    events.put(format_args!(
        "\"name\":{},\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":\"{begin}\",\"dur\":{},\"args\":{{\
         \"Thread Id\":{tid},\"Mode\":\"ACL_RTS\",\"level\":\"acl\",\"id\":{},\"item_id\":\"0\",\
         \"connection_id\":{},\"result\":{},\"blocked_us\":{}{place}}}",
        json_string(&format!("AscendCL@{name}")),
        micros(call.end - call.begin),
        json_string(name),
        connection(index),
        call.code,
        micros(call.blocked),
    ))
}

/// What msprof calls a kind of work, and the kind of task that the hardware has for it.
fn task_names(op: &TracedOp) -> (&'static str, &'static str) {
    let within_devices = op.route.is_some_and(|route| route.src.is_some() && route.dst.is_some());
    let copy = if within_devices { "SDMA_SQE" } else { "PCIE_DMA_SQE" };
    match op.kind {
        WorkKind::Unknown => ("UNKNOWN", "UNKNOWN"),
        WorkKind::Wait => ("EVENT_WAIT", "EVENT_WAIT_SQE"),
        WorkKind::Mark => ("EVENT_RECORD", "EVENT_RECORD_SQE"),
        WorkKind::Copy | WorkKind::Rectangle | WorkKind::Batch => ("MEMCPY_ASYNC", copy),
        WorkKind::LateBound => ("MEMCPY_ASYNC", "SDMA_SQE"),
        WorkKind::Fill => ("MEMSET_ASYNC", "SDMA_SQE"),
        WorkKind::Reduce => ("REDUCE_ASYNC", "SDMA_SQE"),
        WorkKind::Function => ("HOST_FUNCTION", "HOST_FUNCTION"),
    }
}

fn write_op(
    events: &mut EventList,
    model: &TraceModel,
    op: &TracedOp,
    begin: Nanos,
    end: Nanos,
) -> io::Result<()> {
    let FlowEnd { pid, tid, ts } = stream_end(model, op.stream, begin);
    let (name, task) = task_names(op);
    let dur = micros(end.saturating_sub(begin));
    let connection = op.call.map_or(String::new(), |call| format!(",\"connection_id\":{}", connection(call)));
    events.put(format_args!(
        "\"name\":\"{name}\",\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":\"{ts}\",\"dur\":{dur},\
         \"args\":{{\"Model Id\":{NO_MODEL},\"Task Type\":\"{task}\",\"Physic Stream Id\":{tid},\
         \"Task Id\":{},\"Batch Id\":0,\"Subtask Id\":{NO_MODEL}{connection}{}}}",
        op.ticket,
        own_args(op),
    ))
}

/// What this trace knows beyond msprof's fields.
fn own_args(op: &TracedOp) -> String {
    let mut text = format!(
        ",\"kind\":\"{}\",\"route\":\"{}\",\"bytes\":{},\"outcome\":\"{}\",\"sent together\":{}",
        names::kind(op.kind),
        names::route(op.route),
        op.bytes,
        names::state(op.state),
        op.together,
    );
    let mut place = |name, place: Option<TracedPlace>| {
        if let Some(place) = place {
            text += &format!(",\"{name}\":\"{:#x}\"", place.address);
        }
    };
    place("dst", op.dst);
    place("src", op.src);
    if let Some(task) = op.task {
        text += &format!(",\"graph\":{},\"task\":{}", task.graph, task.task);
    }
    if op.state == OpState::Running {
        text += ",\"never finished\":true";
    }
    text
}

/// The flow from a call to an op; the call's end of it is written with its first op.
fn write_flow(
    events: &mut EventList,
    model: &TraceModel,
    op: &TracedOp,
    begin: Nanos,
    is_begun: &mut [bool],
) -> io::Result<()> {
    let Some(call) = op.call else { return Ok(()) };
    let id = connection(call);
    let flow = format!("\"name\":\"HostToDevice{id}\",\"cat\":\"HostToDevice\",\"id\":\"{id}\"");
    if !std::mem::replace(&mut is_begun[call as usize], true) {
        let call = &model.calls[call as usize];
        put_flow(events, "s", &flow, &thread_end(model, call.thread, call.begin))?;
    }
    put_flow(events, "f", &flow, &stream_end(model, op.stream, begin))
}

/// Flows between streams: from the end of what was awaited to the begin of the op that waited.
fn write_waits(events: &mut EventList, model: &TraceModel) -> io::Result<()> {
    for (id, wait) in model.waits.iter().enumerate() {
        let to = &model.ops[wait.op as usize];
        let from = wait.awaited.and_then(|point| point.op).map(|op| &model.ops[op as usize]);
        if let (Some(from), Some(begin)) = (from, to.begin)
            && let Some(end) = from.end
        {
            let flow = format!("\"name\":\"wait\",\"cat\":\"StreamWait\",\"id\":\"wait{id}\"");
            put_flow(events, "s", &flow, &stream_end(model, from.stream, inside(from, end)))?;
            put_flow(events, "f", &flow, &stream_end(model, to.stream, begin))?;
        }
    }
    Ok(())
}

/// Flows from the end of an op to the thread that learnt of it.
fn write_joins(events: &mut EventList, model: &TraceModel) -> io::Result<()> {
    for (id, join) in model.joins.iter().enumerate() {
        let Some(op) = join.point.op.map(|op| &model.ops[op as usize]) else { continue };
        let Some(end) = op.end else { continue };
        let flow = format!("\"name\":\"join\",\"cat\":\"HostJoin\",\"id\":\"join{id}\"");
        put_flow(events, "s", &flow, &stream_end(model, op.stream, inside(op, end)))?;
        put_flow(events, "f", &flow, &thread_end(model, join.thread, join.time))?;
    }
    Ok(())
}

/// The last moment inside an op that ended then: a flow that begins where its slice ends belongs to none.
fn inside(op: &TracedOp, end: Nanos) -> Nanos {
    end.saturating_sub(1).max(op.begin.unwrap_or(end))
}

/// One end of a flow: the row, and the moment in it.
struct FlowEnd {
    pid: u64,
    tid: u32,
    ts: String,
}

fn thread_end(model: &TraceModel, thread: u32, time: Nanos) -> FlowEnd {
    let entry = &model.threads[thread as usize];
    let pid = layer_pid(model.processes[entry.process as usize].number, CANN, 0);
    FlowEnd { pid, tid: entry.number, ts: stamp(model, entry.process, time) }
}

fn stream_end(model: &TraceModel, stream: u32, time: Nanos) -> FlowEnd {
    let entry = &model.streams[stream as usize];
    let pid = layer_pid(model.processes[entry.process as usize].number, HARDWARE, entry.device);
    FlowEnd { pid, tid: entry.number, ts: stamp(model, entry.process, time) }
}

fn put_flow(events: &mut EventList, phase: &str, flow: &str, end: &FlowEnd) -> io::Result<()> {
    let FlowEnd { pid, tid, ts } = end;
    let bind = if phase == "f" { ",\"bp\":\"e\"" } else { "" };
    events.put(format_args!("\"ph\":\"{phase}\"{bind},{flow},\"pid\":{pid},\"tid\":{tid},\"ts\":\"{ts}\""))
}

/// So many samples of a counter are enough for any screen; peaks between them are kept.
const SAMPLES: u64 = 20_000;

/// Counters: the bytes of work that was submitted and has not passed, of each process.
fn write_in_flight(events: &mut EventList, model: &TraceModel) -> io::Result<()> {
    let mut steps: Vec<(u32, Nanos, i128)> = Vec::new();
    for op in model.ops.iter().filter(|op| op.bytes > 0) {
        let process = model.streams[op.stream as usize].process;
        if let Some(submitted) = op.submitted {
            steps.push((process, submitted, i128::from(op.bytes)));
            steps.extend(op.end.map(|end| (process, end.max(submitted), -i128::from(op.bytes))));
        }
    }
    steps.sort_unstable();
    let apart = (model.span().1 - model.span().0) / SAMPLES;
    for of_process in steps.chunk_by(|one, next| one.0 == next.0) {
        let pid = layer_pid(model.processes[of_process[0].0 as usize].number, MEMORY, 0);
        for (time, bytes) in samples(of_process, apart) {
            let (ts, kib) = (stamp(model, of_process[0].0, time), bytes as f64 / 1024.0);
            events.put(format_args!(
                "\"name\":\"Bytes in flight\",\"ph\":\"C\",\"pid\":{pid},\"tid\":0,\"ts\":\"{ts}\",\
                 \"args\":{{\"KB\":{kib}}}"
            ))?;
        }
    }
    Ok(())
}

/// The values of a counter that changes in steps, at moments that are at least `apart` from each other, but
/// for peaks and the last.
fn samples(steps: &[(u32, Nanos, i128)], apart: u64) -> Vec<(Nanos, i128)> {
    let mut all: Vec<(Nanos, i128)> = Vec::new();
    let mut bytes = 0;
    for moment in steps.chunk_by(|one, next| one.1 == next.1) {
        bytes += moment.iter().map(|step| step.2).sum::<i128>();
        let time = moment[0].1;
        let is_needed = all.last().is_none_or(|&(last, value)| time - last >= apart || bytes > value);
        if is_needed || time == steps[steps.len() - 1].1 {
            all.push((time, bytes));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_keeps_its_peaks_and_its_end() {
        let steps =
            [(0, 10, 100), (0, 11, -100), (0, 12, 300), (0, 12, 50), (0, 13, -350), (0, 40, 7), (0, 41, -7)];
        assert_eq!(samples(&steps, 0), [(10, 100), (11, 0), (12, 350), (13, 0), (40, 7), (41, 0)]);
        assert_eq!(samples(&steps, 20), [(10, 100), (12, 350), (40, 7), (41, 0)]);
        assert_eq!(samples(&[], 20), []);
    }
}
