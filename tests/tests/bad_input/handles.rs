//! Streams, events, contexts, devices and memory handles that are not what the function takes.

use ferry_tests::code::*;
use ferry_tests::*;

use crate::scene::Scene;

// proves: N10
#[test]
fn functions_that_take_a_stream() {
    type Call = fn(&Scene, usize) -> i32;
    let functions: [(&str, Call); 32] = [
        ("aclrtCmoAsync", |s, stream| aclrtCmoAsync(s.device.addr, 64, 0, stream)),
        ("aclrtGetOverflowStatus", |s, stream| aclrtGetOverflowStatus(s.device.addr, 64, stream)),
        ("aclrtValueWrite", |s, stream| aclrtValueWrite(s.device.addr, 1, 0, stream)),
        ("aclrtValueWait", |s, stream| aclrtValueWait(s.device.addr, 1, 0, stream)),
        ("aclrtStreamGetPriority", |_, stream| aclrtStreamGetPriority(stream, &mut 0)),
        ("aclrtStreamGetFlags", |_, stream| aclrtStreamGetFlags(stream, &mut 0)),
        ("aclrtSetStreamAttribute", |_, stream| {
            aclrtSetStreamAttribute(stream, 3, &mut aclrtStreamAttrValue { userCustomTag: 1 })
        }),
        ("aclrtGetStreamAttribute", |_, stream| {
            aclrtGetStreamAttribute(stream, 3, &mut aclrtStreamAttrValue { userCustomTag: 1 })
        }),
        ("aclrtSetStreamOverflowSwitch", |_, stream| aclrtSetStreamOverflowSwitch(stream, 1)),
        ("aclrtGetStreamOverflowSwitch", |_, stream| aclrtGetStreamOverflowSwitch(stream, &mut 0)),
        ("aclrtResetOverflowStatus", |_, stream| aclrtResetOverflowStatus(stream)),
        ("aclrtSetStreamResLimit", |_, stream| aclrtSetStreamResLimit(stream, 0, 1)),
        ("aclrtGetStreamResLimit", |_, stream| aclrtGetStreamResLimit(stream, 0, &mut 0)),
        ("aclrtResetStreamResLimit", |_, stream| aclrtResetStreamResLimit(stream)),
        ("aclrtUseStreamResInCurrentThread", |_, stream| aclrtUseStreamResInCurrentThread(stream)),
        ("aclrtUnuseStreamResInCurrentThread", |_, stream| aclrtUnuseStreamResInCurrentThread(stream)),
        ("aclrtSubscribeReport", |_, stream| aclrtSubscribeReport(1, stream)),
        ("aclrtUnSubscribeReport", |_, stream| aclrtUnSubscribeReport(1, stream)),
        ("aclrtLaunchCallback", |_, stream| aclrtLaunchCallback(Some(never), 0, 0, stream)),
        ("aclrtSetStreamFailureMode", |_, stream| aclrtSetStreamFailureMode(stream, 1)),
        ("aclrtStreamAbort", |_, stream| aclrtStreamAbort(stream)),
        ("aclrtDestroyStreamForce", |_, stream| aclrtDestroyStreamForce(stream)),
        ("aclrtResetEvent", |s, stream| aclrtResetEvent(s.event, stream)),
        ("aclrtStreamGetId", |_, stream| aclrtStreamGetId(stream, &mut 0)),
        ("aclrtSynchronizeStream", |_, stream| aclrtSynchronizeStream(stream)),
        ("aclrtSynchronizeStreamWithTimeout", |_, stream| aclrtSynchronizeStreamWithTimeout(stream, 1000)),
        ("aclrtStreamQuery", |_, stream| aclrtStreamQuery(stream, &mut 0)),
        ("aclrtStreamWaitEvent", |s, stream| aclrtStreamWaitEvent(stream, s.event)),
        ("aclrtRecordEvent", |s, stream| aclrtRecordEvent(s.event, stream)),
        ("aclrtDestroyStream", |_, stream| aclrtDestroyStream(stream)),
        ("aclrtLaunchHostFunc", |_, stream| aclrtLaunchHostFunc(stream, Some(never), 0)),
        ("ferryStreamNative", |_, stream| ferryStreamNative(stream, &mut 0)),
    ];
    let s = Scene::new();
    for (function, call) in functions {
        for (row, stream, want) in s.bad_streams() {
            s.refuses(function, row, want, || call(&s, stream));
        }
    }
}

/// A host function that a refused launch must not run.
unsafe extern "C" fn never(_: *mut std::ffi::c_void) {
    std::process::abort();
}

#[test]
fn functions_that_take_an_event() {
    let s = Scene::new();
    let dead = event();
    ok(aclrtDestroyEvent(dead));
    let events = [
        ("NULL", 0, INVALID_PARAM),
        ("a small number", 0x10, INVALID_HANDLE),
        ("garbage", 0xdead_beef_dead_beef, INVALID_HANDLE),
        ("host memory", s.heap.addr, INVALID_HANDLE),
        ("a stream", s.stream, INVALID_HANDLE),
        ("a context", s.context, INVALID_HANDLE),
        ("a destroyed event", dead, INVALID_HANDLE),
    ];
    type Call = fn(&Scene, usize) -> i32;
    let functions: [(&str, Call); 12] = [
        ("aclrtResetEvent", |s, event| aclrtResetEvent(event, s.stream)),
        ("aclrtQueryEvent", |_, event| aclrtQueryEvent(event, &mut 0)),
        ("aclrtQueryEventWaitStatus", |_, event| aclrtQueryEventWaitStatus(event, &mut 0)),
        ("aclrtEventGetTimestamp", |_, event| aclrtEventGetTimestamp(event, &mut 0)),
        ("aclrtSynchronizeEventWithTimeout", |_, event| aclrtSynchronizeEventWithTimeout(event, 1000)),
        ("aclrtRecordEvent", |s, event| aclrtRecordEvent(event, s.stream)),
        ("aclrtStreamWaitEvent", |s, event| aclrtStreamWaitEvent(s.stream, event)),
        ("aclrtQueryEventStatus", |_, event| aclrtQueryEventStatus(event, &mut 0)),
        ("aclrtSynchronizeEvent", |_, event| aclrtSynchronizeEvent(event)),
        ("aclrtEventElapsedTime", |s, event| aclrtEventElapsedTime(&mut 0.0, event, s.event)),
        ("aclrtEventElapsedTime", |s, event| aclrtEventElapsedTime(&mut 0.0, s.event, event)),
        ("aclrtDestroyEvent", |_, event| aclrtDestroyEvent(event)),
    ];
    for (function, call) in functions {
        for (row, event, want) in events {
            s.refuses(function, &format!("{row} as event"), want, || call(&s, event));
        }
    }
}

#[test]
fn functions_that_take_a_context() {
    let s = Scene::new();
    let mut dead = 0;
    ok(aclrtCreateContext(&mut dead, 0));
    ok(aclrtDestroyContext(dead));
    ok(aclrtSetCurrentContext(s.context));
    let contexts = [
        ("NULL", 0, INVALID_PARAM),
        ("garbage", 0xdead_beef_dead_beef, INVALID_HANDLE),
        ("host memory", s.heap.addr, INVALID_HANDLE),
        ("a stream", s.stream, INVALID_HANDLE),
        ("an event", s.event, INVALID_HANDLE),
        ("a destroyed context", dead, INVALID_HANDLE),
    ];
    for (row, context, want) in contexts {
        s.refuses("aclrtSetCurrentContext", row, want, || aclrtSetCurrentContext(context));
        s.refuses("aclrtDestroyContext", row, want, || aclrtDestroyContext(context));
    }
    let mut now = 0;
    ok(aclrtGetCurrentContext(&mut now));
    assert_eq!(now, s.context, "refused contexts leave the old one current");
}

#[test]
fn out_pointers_and_plain_arguments() {
    let s = Scene::new();
    let mut out = 7;
    type Call = fn(&Scene, *mut usize) -> i32;
    let rows: [(&str, &str, i32, Call); 43] = [
        ("aclrtLaunchCallback", "fn NULL", INVALID_PARAM, |s, _| aclrtLaunchCallback(None, 0, 0, s.stream)),
        ("aclrtLaunchCallback", "block type 2", RT_PARAM_INVALID, |s, _| {
            aclrtLaunchCallback(Some(never), 0, 2, s.stream)
        }),
        ("aclrtLaunchCallback", "no thread", 107015, |s, _| aclrtLaunchCallback(Some(never), 0, 0, s.stream)),
        ("aclrtProcessReport", "timeout 0", RT_PARAM_INVALID, |_, _| aclrtProcessReport(0)),
        ("aclrtProcessReport", "no stream", 107012, |_, _| aclrtProcessReport(1)),
        ("aclrtSetStreamFailureMode", "mode 2", RT_PARAM_INVALID, |s, _| {
            aclrtSetStreamFailureMode(s.stream, 2)
        }),
        ("aclrtSetStreamFailureMode", "mode 2^32", RT_PARAM_INVALID, |s, _| {
            aclrtSetStreamFailureMode(s.stream, 1 << 32)
        }),
        ("aclrtQueryEvent", "status NULL", INVALID_PARAM, |s, _| {
            aclrtQueryEvent(s.event, std::ptr::null_mut())
        }),
        ("aclrtQueryEventWaitStatus", "status NULL", INVALID_PARAM, |s, _| {
            aclrtQueryEventWaitStatus(s.event, std::ptr::null_mut())
        }),
        ("aclrtEventGetTimestamp", "timestamp NULL", INVALID_PARAM, |s, _| {
            aclrtEventGetTimestamp(s.event, std::ptr::null_mut())
        }),
        ("aclrtStreamGetId", "streamId NULL", INVALID_PARAM, |s, _| {
            aclrtStreamGetId(s.stream, std::ptr::null_mut())
        }),
        ("ferryStreamAdopt", "stream NULL", INVALID_PARAM, |_, _| ferryStreamAdopt(0, std::ptr::null_mut())),
        ("ferryStreamNative", "native NULL", INVALID_PARAM, |s, _| {
            ferryStreamNative(s.stream, std::ptr::null_mut())
        }),
        ("aclrtMalloc", "devPtr NULL", INVALID_PARAM, |_, _| aclrtMalloc(std::ptr::null_mut(), 64, 0)),
        ("aclrtMalloc", "size 0", RT_PARAM_INVALID, |_, out| aclrtMalloc(out, 0, 0)),
        ("aclrtMalloc", "more than there is", MEMORY_ALLOCATION, |_, out| aclrtMalloc(out, 1 << 50, 0)),
        ("aclrtMalloc", "as much as can be", MEMORY_ALLOCATION, |_, out| aclrtMalloc(out, usize::MAX, 0)),
        ("aclrtMallocHost", "hostPtr NULL", INVALID_PARAM, |_, _| aclrtMallocHost(std::ptr::null_mut(), 64)),
        ("aclrtMallocHost", "size 0", RT_PARAM_INVALID, |_, out| aclrtMallocHost(out, 0)),
        ("aclrtMallocHost", "as much as can be", MEMORY_ALLOCATION, |_, out| {
            aclrtMallocHost(out, usize::MAX)
        }),
        ("aclrtFree", "NULL", INVALID_PARAM, |_, _| aclrtFree(0)),
        ("aclrtFree", "garbage", RT_PARAM_INVALID, |_, _| aclrtFree(0xdead_beef_dead_beef)),
        ("aclrtFree", "twice", RT_PARAM_INVALID, |s, _| aclrtFree(s.wild.freed_device)),
        ("aclrtFree", "inside an allocation", RT_PARAM_INVALID, |s, _| aclrtFree(s.device.addr + 64)),
        ("aclrtFree", "page-locked memory", RT_PARAM_INVALID, |s, _| aclrtFree(s.pinned.addr)),
        ("aclrtFree", "plain memory", RT_PARAM_INVALID, |s, _| aclrtFree(s.heap.addr)),
        ("aclrtFreeHost", "garbage", RT_PARAM_INVALID, |_, _| aclrtFreeHost(0xdead_beef_dead_beef)),
        ("aclrtFreeHost", "twice", RT_PARAM_INVALID, |s, _| aclrtFreeHost(s.wild.freed_pinned)),
        ("aclrtFreeHost", "inside an allocation", RT_PARAM_INVALID, |s, _| aclrtFreeHost(s.pinned.addr + 64)),
        ("aclrtFreeHost", "device memory", RT_PARAM_INVALID, |s, _| aclrtFreeHost(s.device.addr)),
        ("aclrtFreeHost", "plain memory", RT_PARAM_INVALID, |s, _| aclrtFreeHost(s.heap.addr)),
        ("aclrtCreateStream", "NULL", INVALID_PARAM, |_, _| aclrtCreateStream(std::ptr::null_mut())),
        ("aclrtCreateStreamWithConfig", "NULL", INVALID_PARAM, |_, _| {
            aclrtCreateStreamWithConfig(std::ptr::null_mut(), 0, 0)
        }),
        ("aclrtDestroyStream", "NULL", RT_PARAM_INVALID, |_, _| aclrtDestroyStream(0)),
        ("aclrtStreamQuery", "status NULL", INVALID_PARAM, |s, _| {
            aclrtStreamQuery(s.stream, std::ptr::null_mut())
        }),
        ("aclrtCreateEvent", "NULL", INVALID_PARAM, |_, _| aclrtCreateEvent(std::ptr::null_mut())),
        ("aclrtCreateEventWithFlag", "unknown bits", RT_PARAM_INVALID, |_, out| {
            aclrtCreateEventWithFlag(out, 1 << 31)
        }),
        ("aclrtQueryEventStatus", "status NULL", INVALID_PARAM, |s, _| {
            aclrtQueryEventStatus(s.event, std::ptr::null_mut())
        }),
        ("aclrtEventElapsedTime", "ms NULL", INVALID_PARAM, |s, _| {
            aclrtEventElapsedTime(std::ptr::null_mut(), s.event, s.event)
        }),
        ("aclrtLaunchHostFunc", "function NULL", INVALID_PARAM, |s, _| {
            aclrtLaunchHostFunc(s.stream, None, 0)
        }),
        ("aclrtGetMemInfo", "unknown attribute", RT_PARAM_INVALID, |_, _| {
            aclrtGetMemInfo(99, &mut 0, &mut 0)
        }),
        ("aclrtSetDevice", "a device that does not exist", INVALID_DEVICEID, |_, _| aclrtSetDevice(2)),
        ("aclrtSetDevice", "a negative device", INVALID_DEVICEID, |_, _| aclrtSetDevice(-1)),
    ];
    for (function, row, want, call) in rows {
        s.refuses(function, row, want, || call(&s, &mut out));
    }
    assert_eq!(out, 7, "a refused call writes nothing");
    expect("aclrtFreeHost(NULL) is nothing to do", aclrtFreeHost(0), 0);
}
