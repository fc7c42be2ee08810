//! The logic of the page, run by a JavaScript engine: columns, boxes, series and the texts of numbers.

use serde_json::json;

use crate::fact::Nanos;
use crate::testing::busy;
use crate::trace::TraceLimits;
use crate::trace::columns::column;

use super::script::Script;
use super::traced;

#[test]
fn every_column_comes_back() {
    let script = Script::new();
    let mut random = 1u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> (11 + random % 50)
    };
    let columns = [
        vec![],
        vec![0],
        vec![7; 300],
        vec![1 << 52, 0, 1, (1 << 53) - 1, 0, 5],
        (0..500).map(|_| next()).collect(),
    ];
    for values in columns {
        let text = column(values.iter().copied());
        let got = script.value(&format!("Array.from(decodeColumn(\"{text}\", {}))", values.len()));
        let got: Vec<f64> = serde_json::from_value(got).expect("numbers");
        assert_eq!(got, values.iter().map(|&value| value as f64).collect::<Vec<_>>());
    }
}

#[test]
fn the_page_has_every_op_of_the_model() {
    let tracer = traced(&busy::facts(7, 800), TraceLimits::default());
    let model = tracer.model();
    let (start, _) = model.span();
    let script = Script::of(model);
    let columns = ["stream", "ticket", "submitted", "begin", "end", "bytes", "call", "worker", "together"];
    let columns = columns.map(|name| {
        let values = script.value(&format!("Array.from(trace.ops.{name})"));
        serde_json::from_value::<Vec<f64>>(values).expect("numbers")
    });
    let moment = |time: Option<Nanos>| time.map_or(-1.0, |time| (time - start) as f64);
    let index = |index: Option<u32>| index.map_or(-1.0, f64::from);
    for (at, op) in model.ops.iter().enumerate() {
        let want = [
            f64::from(op.stream),
            op.ticket as f64,
            moment(op.submitted),
            moment(op.begin),
            moment(op.end),
            op.bytes as f64,
            index(op.call),
            index(op.worker),
            f64::from(op.together),
        ];
        assert_eq!(columns.each_ref().map(|column| column[at]), want, "op {at}");
    }
    for (op, end) in [(3, "dst"), (4, "src"), (5, "dst")] {
        let place = if end == "dst" { model.ops[op].dst } else { model.ops[op].src };
        let got = script.value(&format!("addressOf(trace, {op}, '{end}')"));
        assert_eq!(got.as_f64(), Some(place.map_or(-1.0, |place| place.address as f64)));
    }
}

#[test]
fn times_and_sizes_are_written_for_people() {
    let script = Script::new();
    let cases = [
        ("formatNanos(0)", "0 ns"),
        ("formatNanos(999)", "999 ns"),
        ("formatNanos(1234)", "1.23 µs"),
        ("formatNanos(999999)", "1 ms"),
        ("formatNanos(12345678)", "12.3 ms"),
        ("formatNanos(61e9)", "61 s"),
        ("formatMoment(1551234567)", "1.551235 s"),
        ("formatMoment(46213000)", "46.213 ms"),
        ("formatMoment(32914)", "32.914 µs"),
        ("formatMoment(0)", "0 ns"),
        ("formatBytes(64)", "64 B"),
        ("formatBytes(1536)", "1.5 KiB"),
        ("formatBytes(3 * 2 ** 30)", "3 GiB"),
        ("formatCount(1234567)", "1,234,567"),
        ("formatRate(25e9, 1e9)", "25 GB/s"),
    ];
    for (expression, want) in cases {
        assert_eq!(script.value(expression), json!(want), "{expression}");
    }
    let ticks = |span: &str| script.value(&format!("timeTicks({span}).map(({{ text }}) => text)"));
    assert_eq!(ticks("0, 1000, 5"), json!(["0.0 µs", "0.2 µs", "0.4 µs", "0.6 µs", "0.8 µs", "1.0 µs"]));
    assert_eq!(ticks("0, 1.9e9, 4"), json!(["0.0 s", "0.5 s", "1.0 s", "1.5 s"]));
    assert_eq!(ticks("46e6, 46e6 + 20e3, 2"), json!(["46.00 ms", "46.01 ms", "46.02 ms"]));
    assert_eq!(script.value("timeTicks(-900, 1000, 4).map(({ at }) => at)"), json!([0, 500, 1000]));
    let apart = script.value("timeTicks(5e9, 5e9 + 2000, 5).map(({ text }) => text)");
    let texts: Vec<String> = serde_json::from_value(apart).expect("texts");
    let mut distinct = texts.clone();
    distinct.dedup();
    assert!(texts.len() >= 3 && distinct == texts, "neighbours can be told apart: {texts:?}");
}

#[test]
fn a_number_that_is_too_large_spoils_no_other() {
    let text = column([1, u64::MAX, 1 << 60, (-5i64) as u64, 3].into_iter());
    let got = Script::new().value(&format!("Array.from(decodeColumn(\"{text}\", 5))"));
    assert_eq!(got, json!([1, -1, (1u64 << 53) - 1, -5, 3]));
}

/// Every box in view is in exactly one of those that are drawn, none is drawn outside of what it stands for,
/// and no more are drawn than the screen has room for.
#[test]
fn what_is_drawn_covers_every_box_once_at_any_scale() {
    let script = Script::new();
    script.add(include_str!("covers.js"));
    assert_eq!(script.value("problems.filter(Boolean)"), json!([]));
}

#[test]
fn galloping_finds_the_first_that_is_not_below() {
    let script = Script::new();
    script.add(
        "const times = [0, 5, 5, 9, 9, 9, 12, 40, 41, 41];
         const wrong = [];
         for (let from = 0; from < times.length; from += 1) {
           for (let limit = times[from] + 1; limit < 45; limit += 1) {
             const rest = times.slice(from).findIndex((time) => time >= limit);
             const want = rest < 0 ? times.length : from + rest;
             const got = gallop(times, limit, from);
             if (got !== want) wrong.push([from, limit, got, want]);
           }
         }",
    );
    assert_eq!(script.value("wrong"), json!([]));
}

#[test]
fn the_box_under_the_pointer_is_the_nearest() {
    let script = Script::new();
    script.add(
        "const box = ([begin, end], id) => ({ begin, end, id, count: 1, tint: 0 });
         const track = makeTrack([[10, 20], [30, 30], [34, 90]].map(box));",
    );
    for (time, slack, want) in [
        (15, 0, 0),
        (20, 0, 0),
        (25, 3, -1),
        (28, 3, 1),
        (31, 3, 1),
        (33, 3, 2),
        (60, 0, 2),
        (95, 3, -1),
        (8, 3, 0),
    ] {
        assert_eq!(script.value(&format!("boxAt(track, {time}, {slack})")), json!(want), "{time} +- {slack}");
    }
}

#[test]
fn boxes_that_overlap_stand_below_each_other() {
    let script = Script::new();
    script.add(
        "const box = ([begin, end], id) => ({ begin, end, id, count: 1, tint: 0 });
         const lay = (all, most) => packTracks(all.map(box), most).map((track) => Array.from(track.id));",
    );
    let lay = |boxes: &str, most: u32| script.value(&format!("lay({boxes}, {most})"));
    assert_eq!(lay("[[0, 10], [10, 20], [20, 30]]", 6), json!([[0, 1, 2]]));
    assert_eq!(lay("[[0, 30], [5, 10], [12, 20], [13, 14]]", 6), json!([[0], [1, 2], [3]]));
    assert_eq!(lay("[[0, 30], [5, 40], [6, 50], [60, 70]]", 2), json!([[0, 3], [1, 2]]));
    assert_eq!(lay("[]", 6), json!([]));
}

#[test]
fn bytes_in_flight_are_those_submitted_and_not_passed() {
    let tracer = traced(&busy::facts(7, 300), TraceLimits::default());
    let script = Script::of(tracer.model());
    script.add(include_str!("in_flight.js"));
    assert_eq!(script.value("wrong"), json!([]));
    assert!(script.value("steps.peak").as_f64() > Some(0.0));
    assert_eq!(script.value("steps.value[steps.size - 1]"), json!(0), "everything has passed");
}
