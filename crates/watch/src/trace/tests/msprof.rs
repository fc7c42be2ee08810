//! The file `msprof_<digits>.json`, read back by a reader that follows what MindStudio Insight requires
//! (specification 08, 5.2) and knows nothing of the writer.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use crate::testing::busy;

use super::super::model::{TraceModel, WorkKind};
use super::super::{TraceLimits, json};
use super::traced;

/// A slice of the hardware as the reader sees it, in nanoseconds of the epoch.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slice {
    process: u64,
    device: u64,
    stream: u64,
    ticket: u64,
    begin: i128,
    dur: u64,
    /// The name of the call that a flow leads here from, and the thread that made it.
    call: Option<(String, u64)>,
    is_copy: bool,
}

/// `123.456` microseconds in nanoseconds, without rounding.
fn nanos(text: &str) -> i128 {
    let (whole, part) = text.split_once('.').expect("three decimals");
    assert_eq!(part.len(), 3, "{text}");
    whole.parse::<i128>().expect("digits") * 1000 + part.parse::<i128>().expect("digits")
}

/// Reads all events and gives the slices of the lane `Ascend Hardware` with their calls.
fn read(text: &str) -> Vec<Slice> {
    let events: Vec<Value> = serde_json::from_str(text).expect("an array of JSON");
    let number =
        |event: &Value, name: &str| event[name].as_u64().unwrap_or_else(|| panic!("{name} in {event}"));
    let lane = |event: &Value| (number(event, "pid"), number(event, "tid"));
    let word = |event: &Value, name: &str| event[name].as_str().map(str::to_owned);
    let mut layers: HashMap<u64, (String, u64)> = HashMap::new();
    let mut rows: HashSet<(u64, u64)> = HashSet::new();
    for event in events.iter().filter(|event| event["ph"] == "M") {
        let args = &event["args"];
        match event["name"].as_str() {
            Some("process_name") => {
                layers.entry(number(event, "pid")).or_default().0 = word(args, "name").expect("a name");
            }
            Some("process_sort_index") => {
                layers.entry(number(event, "pid")).or_default().1 = number(args, "sort_index");
            }
            Some("thread_name") => assert!(rows.insert(lane(event)), "{event} names a row twice"),
            _ => {}
        }
    }
    for (pid, (name, sort)) in &layers {
        assert_eq!((pid >> 5) & 31, *sort, "the layer {name} is in its process number");
    }
    let of_layer = |event: &Value, name: &str| layers[&number(event, "pid")].0 == name;
    let mut calls: BTreeMap<String, (String, u64)> = BTreeMap::new();
    let mut flows: HashMap<String, Vec<(u64, u64, String)>> = HashMap::new();
    for event in &events {
        match event["ph"].as_str() {
            Some("X") if of_layer(event, "CANN") => {
                assert!(rows.contains(&lane(event)), "{event} is in a row without a name");
                let id = number(&event["args"], "connection_id").to_string();
                let name = word(event, "name").expect("a name");
                assert_eq!(name.strip_prefix("AscendCL@"), event["args"]["id"].as_str());
                assert!(calls.insert(id, (name, number(event, "tid"))).is_none(), "{event}: an id twice");
            }
            Some("s" | "f") if event["cat"] == "HostToDevice" => {
                let id = word(event, "id").expect("an id");
                let at = (number(event, "pid"), number(event, "tid"), word(event, "ts").expect("a time"));
                flows.entry(id).or_default().push(at);
            }
            Some("M" | "X" | "s" | "f" | "C") => {}
            other => panic!("a phase that viewers ignore: {other:?}"),
        }
    }
    let slice = |event: &Value| {
        assert!(rows.contains(&lane(event)), "{event} is in a row without a name");
        let (pid, tid) = lane(event);
        let (ts, args) = (word(event, "ts").expect("text"), &event["args"]);
        let id = args["connection_id"].as_u64().map(|id| id.to_string());
        let flow = |id: &String| flows[id].contains(&(pid, tid, ts.clone()));
        Slice {
            process: pid >> 10,
            device: pid & 31,
            stream: tid,
            ticket: number(args, "Task Id"),
            begin: nanos(&ts),
            dur: (event["dur"].as_f64().expect("a number") * 1000.0).round() as u64,
            call: id.filter(flow).map(|id| calls[&id].clone()),
            is_copy: event["name"] == "MEMCPY_ASYNC"
                && args["Task Type"].as_str().is_some_and(|it| it.ends_with("DMA_SQE")),
        }
    };
    let on_hardware = |event: &&Value| event["ph"] == "X" && of_layer(event, "Ascend Hardware");
    events.iter().filter(on_hardware).map(slice).collect()
}

/// The same of the model.
fn expected(model: &TraceModel) -> Vec<Slice> {
    let mut all = Vec::new();
    for op in &model.ops {
        let stream = &model.streams[op.stream as usize];
        let process = &model.processes[stream.process as usize];
        let (Some(begin), Some(end)) = (op.begin, op.end) else { continue };
        let call = op.call.map(|call| {
            let call = &model.calls[call as usize];
            let thread = &model.threads[call.thread as usize];
            (format!("AscendCL@{}", process.function(call.function)), u64::from(thread.number))
        });
        let kinds = [WorkKind::Copy, WorkKind::Rectangle, WorkKind::Batch, WorkKind::LateBound];
        all.push(Slice {
            process: u64::from(process.number),
            device: u64::from(stream.device),
            stream: u64::from(stream.number),
            ticket: op.ticket,
            begin: i128::from(process.epoch) + i128::from(begin) - i128::from(process.started),
            dur: end - begin,
            call,
            is_copy: kinds.contains(&op.kind),
        });
    }
    all
}

#[test]
fn a_reader_of_the_file_finds_every_op_and_its_call() {
    let mut facts = busy::facts(4711, 3000);
    facts.extend(busy::facts(4712, 50));
    let tracer = traced(&facts, TraceLimits::default());
    let mut text = Vec::new();
    json::write(&mut text, tracer.model(), &mut |_, address| Some(format!("\"f\" at a\\b.c:{address}")))
        .expect("writes");
    let text = String::from_utf8(text).expect("UTF-8");
    let (mut found, mut want) = (read(&text), expected(tracer.model()));
    found.sort();
    want.sort();
    assert_eq!(want.len(), 3050);
    assert_eq!(found.len(), want.len());
    for (found, want) in found.iter().zip(&want) {
        assert_eq!(found, want);
    }
}

#[test]
fn a_program_that_did_nothing_is_an_empty_array() {
    let mut text = Vec::new();
    json::write(&mut text, &TraceModel::default(), &mut |_, _| None).expect("writes");
    assert_eq!(read(&String::from_utf8(text).expect("UTF-8")), []);
}
