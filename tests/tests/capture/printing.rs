//! The printed form of a model.

use super::*;
use ferry_tests::code::*;
use serde_json::Value;
use std::ffi::CString;
use std::path::PathBuf;
use std::ptr::null;

/// A file of the test's own.
fn file(name: &str) -> (PathBuf, CString) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.json", std::process::id()));
    let text = CString::new(path.to_str().expect("a path in UTF-8")).expect("no NUL");
    (path, text)
}

/// The trace events of a model, from the file that it was printed to.
#[track_caller]
fn printed(model: usize, name: &str, flags: u32) -> Vec<Value> {
    let (path, text) = file(name);
    ok(aclmdlRIDebugJsonPrint(model, text.as_ptr(), flags));
    let json = std::fs::read_to_string(&path).expect("a file");
    std::fs::remove_file(path).expect("our own file");
    serde_json::from_str(&json).expect("a JSON array")
}

// proves: G35
#[test]
fn a_model_is_printed_as_trace_events_whose_pairs_share_a_name() {
    own_context();
    let (main, side, (one, two, _)) = (stream(), stream(), buffers(64));
    let (mut main_id, mut side_id, mut id) = (0, 0, 0);
    ok(aclrtStreamGetId(main, &mut main_id));
    ok(aclrtStreamGetId(side, &mut side_id));
    let (forked, joined) = (event(), event());
    let cell = Memory::device(8);
    let model = capture(main, || {
        copy(&one, &two, main);
        fork(forked, main, side);
        ok(aclrtMemsetAsync(two.addr, 64, 1, 64, side));
        ok(aclrtValueWrite(cell.addr, 1, 0, side));
        fork(joined, side, main);
        ok(aclrtResetEvent(joined, main));
        ok(aclrtValueWait(cell.addr, 1, 1, main));
    });
    ok(aclmdlRIGetId(model, &mut id));
    for flags in [0, 1] {
        let events = printed(model, "pairs", flags);
        let text = |event: &Value, key: &str| event[key].as_str().expect("a text").to_owned();
        let names: Vec<_> = events.iter().map(|event| text(event, "name")).collect();
        let begins = [
            "MEMCPY",
            "EVENT_RECORD_",
            "EVENT_WAIT_",
            "MEMSET",
            "MEM_WRITE_VALUE_",
            "EVENT_RECORD_",
            "EVENT_WAIT_",
            "EVENT_RESET_",
            "MEM_WAIT_VALUE_",
        ];
        assert_eq!(names.len(), begins.len(), "{names:?}");
        for (name, begin) in names.iter().zip(begins) {
            assert!(name.starts_with(begin), "{name} begins with {begin}");
        }
        let about = |index: usize| names[index].rsplit('_').next().expect("a part").to_owned();
        assert!(about(1) == about(2) && about(4) == about(8), "pairs share it: {names:?}");
        assert!(about(5) == about(6) && about(6) == about(7) && about(5) != about(1), "{names:?}");
        for (number, event) in events.iter().enumerate() {
            let stream = if [2, 3, 4, 5].contains(&number) { side_id } else { main_id };
            assert_eq!(event["ph"], "X");
            assert_eq!(event["tid"], format!("stream{stream}"));
            assert_eq!(event["args"]["Stream Id"], stream);
            assert_eq!(event["args"]["Model Id"], id);
            assert_eq!(event["args"]["Task Id"], number);
            assert!(event["ts"].is_number() && event["dur"].is_number() && !event["pid"].is_null());
            assert!(names[number].starts_with(&text(&event["args"], "Task Type")));
        }
    }
    assert_eq!(printed(capture(main, || {}), "empty", 1).len(), 0, "a model without a task");
}

// proves: G35
#[test]
fn models_are_printed_after_their_capture_to_files_that_can_be_written() {
    own_context();
    let stream = stream();
    let (path, text) = file("refused");
    ok(aclmdlRICaptureBegin(stream, GLOBAL));
    let model = info(stream).1;
    expect("log, too early", aclmdlRIDebugPrint(model), MODEL_CAPTURED);
    expect("JSON, too early", aclmdlRIDebugJsonPrint(model, text.as_ptr(), 0), MODEL_CAPTURED);
    end(stream);
    ok(aclmdlRIDebugPrint(model));
    let nowhere = c"/no/such/folder/model.json".as_ptr();
    refused("unwritable", aclmdlRIDebugJsonPrint(model, nowhere, 0), RT_PARAM_INVALID, &["/no/such/folder"]);
    refused("empty", aclmdlRIDebugJsonPrint(model, c"".as_ptr(), 0), RT_PARAM_INVALID, &["path is empty"]);
    refused("NULL", aclmdlRIDebugJsonPrint(model, null(), 0), INVALID_PARAM, &["path is NULL"]);
    refused("NULL", aclmdlRISetName(model, null()), INVALID_PARAM, &["name is NULL"]);
    refused("flags", aclmdlRIDebugJsonPrint(model, text.as_ptr(), 2), RT_PARAM_INVALID, &["flags is 2"]);
    assert!(!path.exists());
    ok(aclmdlRIDestroy(model));
}

// proves: G35
#[test]
fn an_activation_names_the_stream_that_it_starts() {
    own_context();
    let (mut head, mut late, mut model, mut late_id) = (0, 0, 0, 0);
    ok(aclrtCreateStreamWithConfig(&mut head, 0, 4));
    ok(aclrtCreateStreamWithConfig(&mut late, 0, 4));
    ok(aclrtStreamGetId(late, &mut late_id));
    ok(aclmdlRIBuildBegin(&mut model, 0));
    ok(aclmdlRIBindStream(model, head, 0));
    ok(aclmdlRIBindStream(model, late, 0x7fff_ffff));
    ok(aclrtActiveStream(late, head));
    [head, late].into_iter().for_each(|stream| ok(aclmdlRIEndTask(model, stream)));
    ok(aclmdlRIBuildEnd(model, 0));
    let events = printed(model, "activation", 1);
    assert_eq!(events[0]["name"], "STREAM_ACTIVE");
    assert_eq!(events[0]["args"]["Active Stream Id"], late_id);
    ok(aclmdlRIDestroy(model));
}
