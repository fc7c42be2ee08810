//! Statistics as programs read them: one JSON object. Bytes are bytes, times are nanoseconds, rates GB/s.

use ferry_watch::stat::advice::CopyAdvice;
use ferry_watch::stat::{
    Assertion, CallName, Counts, Dimension, Failure, Report, Statistic, TrafficClass, TrafficCounts,
};
use ferry_watch::symbols::CodePlace;
use serde_json::{Map, Value, json};

/// The version of the object: a field that is there keeps its meaning as long as this stays.
const VERSION: u32 = 1;

/// All that was counted, with the verdict on each assertion.
pub fn object(report: &Report, verdicts: &[(&Assertion, Vec<Failure>)], code: u8) -> Value {
    let call = |site: &ferry_watch::stat::SiteReport| {
        let mut call = named(&site.name);
        call.insert("traffic".into(), traffic(&site.counts));
        call.insert("statistics".into(), statistics(|of| of.part(&site.counts).filter(|part| *part != 0.0)));
        Value::Object(call)
    };
    let verdicts = verdicts.iter().map(|(assertion, failures)| verdict(assertion, failures));
    json!({
        "ferry_stat": VERSION,
        "exit_code": code,
        "statistics": statistics(|of| Some(of.value(&report.run, &report.total))),
        "traffic": traffic(&report.total),
        "calls": report.sites.iter().map(call).collect::<Vec<_>>(),
        "assertions": verdicts.collect::<Vec<_>>(),
        "advice": report.advice.iter().map(advice).collect::<Vec<_>>(),
    })
}

/// Statistics by name: those with at most one of kind, route and size. The rest is in the traffic.
fn statistics(value: impl Fn(Statistic) -> Option<f64>) -> Value {
    let is_general = |of: &Statistic| match of {
        Statistic::Traffic(filter, _) => {
            [filter.kinds.is_some(), filter.route.is_some(), filter.size.is_some()]
                .into_iter()
                .filter(|is_there| *is_there)
                .count()
                <= 1
        }
        _ => true,
    };
    let all = Statistic::all().into_iter().filter(|(_, of)| is_general(of));
    Value::Object(all.filter_map(|(name, of)| Some((name, number(value(of)?)))).collect())
}

/// A whole number where it is one.
fn number(value: f64) -> Value {
    let is_whole = value.fract() == 0.0 && (0.0..9e15).contains(&value);
    if is_whole { json!(value as u64) } else { json!(value) }
}

fn traffic(counts: &Counts) -> Value {
    let mut rows = counts.traffic().to_vec();
    rows.sort_by_key(|(class, _)| *class);
    let row = |(class, traffic): &(TrafficClass, TrafficCounts)| {
        json!({
            "kind": class.kind.name(),
            "route": class.route.map(|route| route.name()),
            "size": class.size.name(),
            "calls": traffic.calls,
            "bytes": traffic.bytes,
            "done_bytes": traffic.done_bytes,
            "time": traffic.time,
            "blocked": traffic.blocked,
            "rate": traffic.rate(),
        })
    };
    rows.iter().map(row).collect()
}

fn named(name: &CallName) -> Map<String, Value> {
    let mut object = name.place.as_ref().map(|place| of_place(place)).unwrap_or_default();
    object.insert("function".into(), json!(name.function));
    object.insert("is_others".into(), json!(name.is_others));
    let frames = name.frames.iter().map(|frame| Value::Object(of_place(frame))).collect();
    object.insert("frames".into(), Value::Array(frames));
    object
}

fn of_place(place: &CodePlace) -> Map<String, Value> {
    let object = json!({
        "file": place.file,
        "line": place.line,
        "in": place.function,
        "module": place.module,
        "offset": place.offset,
    });
    if let Value::Object(object) = object { object } else { Map::new() }
}

fn verdict(assertion: &Assertion, failures: &[Failure]) -> Value {
    let values = |values: &[(String, f64, Dimension)]| -> Value {
        Value::Object(values.iter().map(|(name, value, _)| (name.clone(), number(*value))).collect())
    };
    let failure = |failure: &Failure| {
        let calls = failure.calls.iter().map(|call| {
            let mut object = named(&call.site.name);
            object.insert("parts".into(), values(&call.parts));
            Value::Object(object)
        });
        json!({
            "text": failure.text,
            "values": values(&failure.values),
            "trouble": failure.trouble,
            "calls": calls.collect::<Vec<_>>(),
        })
    };
    json!({
        "text": assertion.text(),
        "holds": failures.is_empty(),
        "failures": failures.iter().map(failure).collect::<Vec<_>>(),
    })
}

fn advice(advice: &CopyAdvice) -> Value {
    json!({
        "rule": advice.rule.id(),
        "title": advice.rule.title(),
        "remedy": advice.rule.remedy(),
        "call": named(&advice.call),
        "other": advice.other.as_ref().map(named),
        "copies": advice.copies,
        "bytes": advice.bytes,
        "time": advice.time,
        "detail": advice.detail,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_copies_has_every_statistic() {
        let assertion = Assertion::parse("pageable_bytes == 0 && syncs > 0").expect("right");
        let report = Report::default();
        let object = object(&report, &[(&assertion, assertion.check(&report))], 3);
        assert_eq!((&object["ferry_stat"], &object["exit_code"]), (&json!(1), &json!(3)));
        for name in ["bytes", "h2d_bytes", "pageable_calls", "tiny_time", "syncs", "overlap", "blocked"] {
            assert_eq!(object["statistics"][name], json!(0), "{name}");
        }
        assert_eq!(object["assertions"][0]["holds"], json!(false));
        assert_eq!(object["assertions"][0]["failures"][0]["values"], json!({"syncs": 0}));
    }

    #[test]
    fn whole_numbers_stay_whole() {
        assert_eq!((number(4096.0), number(0.25)), (json!(4096), json!(0.25)));
    }
}
