//! `ferry check --report`: the page has the finding, at the thread, the call and the op that it is about.

use serde_json::Value;

use crate::run::page;
use crate::twins;

/// The data of a page.
fn data(page: &str) -> Value {
    let begin = page.split_once("id=\"data\">").expect("an element with data").1;
    serde_json::from_str(begin.split_once("</script>").expect("its end").0).expect("JSON")
}

fn data_of(name: &str) -> Value {
    let twin = twins().into_iter().find(|twin| twin.name() == name).expect("a file of the corpus");
    data(&page(&twin))
}

#[test]
fn a_report_has_the_access_of_a_thread_without_calls_and_the_op() {
    let data = data_of("producer_thread.c");
    let [finding] = data["findings"].as_array().expect("findings").as_slice() else {
        panic!("{}", data["findings"])
    };
    assert_eq!(finding["id"], "FERRY-HOST-WRITE");
    let place = |end: &Value| end["place"].as_str().expect("a place").rsplit('/').next().map(str::to_owned);
    assert!(place(finding).is_some_and(|place| place.starts_with("producer_thread.c:")), "{finding}");
    assert!(
        place(&finding["work"]).is_some_and(|place| place.starts_with("producer_thread.c:")),
        "{finding}"
    );
    let (access, work) = (&finding["access"], &finding["work"]);
    assert!(access["thread"].is_u64() && access["call"].is_null(), "{access}");
    assert_ne!(access["thread"], work["thread"], "another thread copies");
    assert!(work["call"].is_u64() && work["op"].is_u64(), "{work}");
    let (time, span) = (access["time"].as_u64(), data["span"].as_u64().expect("a span"));
    assert!(
        time.is_some_and(|time| time > 0 && time <= span) && span < 600_000_000_000,
        "{time:?} of {span}"
    );
}

#[test]
fn a_report_has_both_ops_of_a_race_and_the_call_of_a_free() {
    let data = data_of("event_wait_missing.c");
    let [first, ..] = data["findings"].as_array().expect("findings").as_slice() else { panic!("none") };
    let op = |end: &str| first[end]["op"].as_u64().unwrap_or_else(|| panic!("{first}"));
    assert_ne!(op("access"), op("work"));
    let data = data_of("freed_on_both_paths.c");
    let [first, ..] = data["findings"].as_array().expect("findings").as_slice() else { panic!("none") };
    assert_ne!(first["access"]["call"].as_u64(), None, "{first}");
    assert_ne!(first["work"]["call"].as_u64(), None, "{first}");
    assert_ne!(first["access"]["call"], first["work"]["call"]);
}

#[test]
fn a_report_has_a_device_pointer_in_the_row_of_the_thread_that_touched_it() {
    let data = data_of("device_pointer_read.c");
    let [finding] = data["findings"].as_array().expect("findings").as_slice() else { panic!("none") };
    assert_eq!(finding["work"], Value::Null);
    let thread = finding["access"]["thread"].as_u64().expect("a thread") as usize;
    assert_eq!(data["threads"][thread]["number"], finding["process"], "the main thread");
}
