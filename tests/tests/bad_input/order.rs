//! Which mistake is told when a call makes several: NULL arguments, then the context, then the stream, then
//! values, then addresses. And what a thread without a context may do.

use ferry_tests::code::{CONTEXT_NULL, FEATURE_NOT_SUPPORT, INVALID_HANDLE, INVALID_PARAM, RT_PARAM_INVALID};
use ferry_tests::kind::{D2H, H2D, H2H, INNER};
use ferry_tests::*;

use crate::scene::Scene;

const GARBAGE: usize = 0xdead_beef_dead_beef;

/// Every copy and fill on `dst`, `src` and `stream`, with a kind that the function takes. The rest of the
/// arguments is good.
type Any = fn(dst: usize, src: usize, stream: usize) -> i32;

/// The functions that take a stream.
const ASYNC: [(&str, Any); 8] = [
    ("aclrtMemcpyAsync", |d, s, stream| aclrtMemcpyAsync(d, 64, s, 64, H2D, stream)),
    ("aclrtMemcpyAsyncWithCondition", |d, s, stream| {
        aclrtMemcpyAsyncWithCondition(d, 64, s, 64, H2D, stream)
    }),
    ("aclrtMemcpy2dAsync", |d, s, stream| aclrtMemcpy2dAsync(d, 16, s, 16, 16, 4, H2D, stream)),
    ("aclrtMemcpyBatchAsync", |d, s, stream| {
        Batch::of(&[(d, s, 64)], HOST_TO_DEVICE).call(BatchForm::Async, stream).0
    }),
    ("aclrtMemcpyBatchAsyncV2", |d, s, stream| {
        Batch::of(&[(d, s, 64)], HOST_TO_DEVICE).call(BatchForm::AsyncV2, stream).0
    }),
    ("aclrtMemsetAsync", |d, _, stream| aclrtMemsetAsync(d, 64, 1, 64, stream)),
    ("aclrtMemsetD32Async", |d, _, stream| aclrtMemsetD32Async(d, 64, 1, 16, stream)),
    ("aclrtReduceAsync", |d, s, stream| aclrtReduceAsync(d, s, 64, 10, 0, stream, 0)),
];

/// The functions that do not.
const SYNC: [(&str, Any); 6] = [
    ("aclrtMemcpy", |d, s, _| aclrtMemcpy(d, 64, s, 64, H2D)),
    ("aclrtMemcpy2d", |d, s, _| aclrtMemcpy2d(d, 16, s, 16, 16, 4, H2D)),
    ("aclrtMemcpyBatch", |d, s, _| Batch::of(&[(d, s, 64)], HOST_TO_DEVICE).call(BatchForm::Sync, 0).0),
    ("aclrtMemcpyBatchV2", |d, s, _| Batch::of(&[(d, s, 64)], HOST_TO_DEVICE).call(BatchForm::SyncV2, 0).0),
    ("aclrtMemset", |d, _, _| aclrtMemset(d, 64, 1, 64)),
    ("aclrtMemsetD32", |d, _, _| aclrtMemsetD32(d, 64, 1, 16)),
];

// proves: N11
#[test]
fn a_thread_without_a_context_copies_nothing() {
    let s = Scene::new();
    let (device, heap, stream) = (s.device.addr, s.heap.addr, s.stream);
    let codes = in_new_thread(move || {
        let mut codes: Vec<(String, i32, i32)> = Vec::new();
        let mut add = |what: String, code, want| codes.push((what, code, want));
        for (name, call) in ASYNC.iter().chain(&SYNC) {
            add(format!("{name}, good arguments"), call(device, heap, stream), CONTEXT_NULL);
            add(format!("{name}, NULL stream"), call(device, heap, 0), CONTEXT_NULL);
            add(format!("{name}, garbage stream"), call(device, heap, GARBAGE), CONTEXT_NULL);
            add(format!("{name}, garbage addresses"), call(GARBAGE, GARBAGE, 0), CONTEXT_NULL);
            add(format!("{name}, NULL destination"), call(0, heap, 0), INVALID_PARAM);
        }
        let desc = device;
        add("aclrtSetMemcpyDesc".into(), aclrtSetMemcpyDesc(desc, INNER, device, device, 4, 0), CONTEXT_NULL);
        add("aclrtMemcpyAsyncWithDesc".into(), aclrtMemcpyAsyncWithDesc(desc, INNER, 0), CONTEXT_NULL);
        let offset = aclrtMemcpyAsyncWithOffset(device, 64, 0, device, 64, 0, INNER, 0);
        add("aclrtMemcpyAsyncWithOffset".into(), offset, CONTEXT_NULL);
        codes
    });
    for (what, code, want) in codes {
        assert_eq!(code, want, "{what}");
    }
    s.unchanged("calls in a thread without a context");
}

#[test]
fn a_thread_without_a_context_can_make_nothing() {
    use_device();
    let codes = in_new_thread(|| {
        let mut out = 7;
        let mut status = 0;
        let rows = [
            ("aclrtMalloc", aclrtMalloc(&mut out, 64, 0)),
            ("aclrtMallocHost", aclrtMallocHost(&mut out, 64)),
            ("aclrtCreateStream", aclrtCreateStream(&mut out)),
            ("aclrtCreateStreamWithConfig", aclrtCreateStreamWithConfig(&mut out, 0, 0)),
            ("aclrtCreateEvent", aclrtCreateEvent(&mut out)),
            ("aclrtCreateEventWithFlag", aclrtCreateEventWithFlag(&mut out, 1)),
            ("aclrtCreateEventExWithFlag", aclrtCreateEventExWithFlag(&mut out, 1)),
            ("aclrtGetCurrentContext", aclrtGetCurrentContext(&mut out)),
            ("aclrtGetDevice", aclrtGetDevice(&mut status)),
            ("aclrtSynchronizeDevice", aclrtSynchronizeDevice()),
            ("aclrtSynchronizeDeviceWithTimeout", aclrtSynchronizeDeviceWithTimeout(0)),
            ("aclrtStreamAbort", aclrtStreamAbort(0)),
            ("aclrtDestroyStreamForce", aclrtDestroyStreamForce(0)),
            ("aclrtSetStreamFailureMode", aclrtSetStreamFailureMode(0, 9)),
            ("aclrtStreamGetId", aclrtStreamGetId(0, &mut status)),
            ("aclrtResetEvent", aclrtResetEvent(1, 0)),
            ("aclrtSubscribeReport", aclrtSubscribeReport(0, 0)),
            ("aclrtUnSubscribeReport", aclrtUnSubscribeReport(0, 0)),
            ("aclrtSynchronizeStream", aclrtSynchronizeStream(0)),
            ("aclrtGetMemInfo", aclrtGetMemInfo(1, &mut 0, &mut 0)),
            ("ferryStreamAdopt", ferryStreamAdopt(0, &mut out)),
            ("ferryStreamNative", ferryStreamNative(0, &mut out)),
        ];
        assert_eq!((out, status), (7, 0), "a refused call writes nothing");
        rows
    });
    for (name, code) in codes {
        assert_eq!(code, CONTEXT_NULL, "{name}");
    }
}

#[test]
fn the_first_mistake_in_order_is_told() {
    let s = Scene::new();
    let dead = s.wild.dead_stream;
    for (name, call) in ASYNC {
        s.refuses(name, "NULL and a dead stream", INVALID_PARAM, || call(0, s.heap.addr, dead));
        s.refuses(name, "a dead stream and garbage addresses", INVALID_HANDLE, || {
            call(GARBAGE, GARBAGE, dead)
        });
    }
    let (device, heap) = (s.device.addr, s.heap.addr);
    type Call<'a> = &'a dyn Fn() -> i32;
    let rows: [(&str, &str, i32, Call); 14] = [
        ("aclrtMemcpyAsync", "NULL and a bad kind", INVALID_PARAM, &|| {
            aclrtMemcpyAsync(0, 64, heap, 64, 99, s.stream)
        }),
        ("aclrtMemcpyAsync", "a dead stream and a bad kind", INVALID_HANDLE, &|| {
            aclrtMemcpyAsync(device, 64, heap, 64, 99, dead)
        }),
        ("aclrtMemcpyAsync", "a dead stream and host to host", INVALID_HANDLE, &|| {
            aclrtMemcpyAsync(device, 64, heap, 64, H2H, dead)
        }),
        ("aclrtMemcpyAsync", "a bad kind and garbage", INVALID_PARAM, &|| {
            aclrtMemcpyAsync(GARBAGE, 64, GARBAGE, 64, 99, s.stream)
        }),
        ("aclrtMemcpyAsync", "host to host and garbage", FEATURE_NOT_SUPPORT, &|| {
            aclrtMemcpyAsync(GARBAGE, 64, GARBAGE, 64, H2H, s.stream)
        }),
        ("aclrtMemcpyAsyncWithCondition", "host to host and garbage", FEATURE_NOT_SUPPORT, &|| {
            aclrtMemcpyAsyncWithCondition(GARBAGE, 64, GARBAGE, 64, H2H, s.stream)
        }),
        ("aclrtMemcpy2dAsync", "a bad kind and garbage", INVALID_PARAM, &|| {
            aclrtMemcpy2dAsync(GARBAGE, 16, GARBAGE, 16, 16, 4, 99, s.stream)
        }),
        ("aclrtMemcpy2dAsync", "a dead stream and too many rows", INVALID_HANDLE, &|| {
            aclrtMemcpy2dAsync(device, 16, heap, 16, 16, 5_242_881, H2D, dead)
        }),
        ("aclrtMemcpyAsync", "count above destMax and garbage", RT_PARAM_INVALID, &|| {
            aclrtMemcpyAsync(GARBAGE, 1, GARBAGE, 64, D2H, s.stream)
        }),
        ("aclrtReduceAsync", "a dead stream and a bad kind", INVALID_HANDLE, &|| {
            aclrtReduceAsync(device, device, 64, 99, 0, dead, 0)
        }),
        ("aclrtReduceAsync", "a bad kind and a bad type", INVALID_PARAM, &|| {
            aclrtReduceAsync(device, device, 64, 99, 9, s.stream, 0)
        }),
        ("aclrtReduceAsync", "a bad type and a bad count", FEATURE_NOT_SUPPORT, &|| {
            aclrtReduceAsync(device, device, 7, 10, 9, s.stream, 0)
        }),
        ("aclrtReduceAsync", "a bad type and garbage", FEATURE_NOT_SUPPORT, &|| {
            aclrtReduceAsync(GARBAGE, GARBAGE, 64, 10, 9, s.stream, 0)
        }),
        ("aclrtReduceAsync", "a bad count and garbage", RT_PARAM_INVALID, &|| {
            aclrtReduceAsync(GARBAGE, GARBAGE, 7, 10, 0, s.stream, 0)
        }),
    ];
    for (function, row, want, call) in rows {
        s.refuses(function, row, want, call);
    }
}
