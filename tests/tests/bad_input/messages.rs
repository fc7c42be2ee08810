//! What aclGetRecentErrMsg says about a refused copy, when it is cleared, and whose it is.

use ferry_tests::kind::{D2H, H2D};
use ferry_tests::*;

use crate::scene::Scene;

/// Asserts that the message of the last failed call holds every one of `words`.
#[track_caller]
fn says(what: &str, words: &[String]) {
    let said = message().unwrap_or_else(|| panic!("{what}: no message"));
    for word in words {
        assert!(said.contains(word.as_str()), "{what}: {word:?} is not in {said:?}");
    }
}

fn hex(addr: usize) -> String {
    format!("{addr:#x}")
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| w.to_string()).collect()
}

#[test]
fn the_last_address_of_all_is_refused_as_any_other() {
    let s = Scene::new();
    for last in [usize::MAX, usize::MAX - 1] {
        message();
        let code = aclrtFreeHost(last);
        refused(
            "the last address",
            code,
            code::RT_PARAM_INVALID,
            &["aclrtFreeHost", &hex(last), "not mapped"],
        );
        let codes = [
            aclrtMemcpyAsync(s.device.addr, 64, last, 1, H2D, s.stream),
            aclrtMemcpy(last, 64, s.device.addr, 1, D2H),
            aclrtMemset(last, 64, 1, 1),
            aclrtHostRegisterV2(last & !4095, 4096, 0x1000_0000),
        ];
        assert_eq!(codes, [code::RT_PARAM_INVALID; 4], "{last:#x}: {}", message().unwrap_or_default());
    }
}

#[test]
fn a_refused_copy_says_what_both_addresses_are() {
    let s = Scene::new();
    let (device, pinned, heap) = (s.device.addr, s.pinned.addr, s.heap.addr);

    message();
    aclrtMemcpyAsync(device + 64, 8192, pinned + 128, 4000, H2D, s.stream);
    aclrtMemcpyAsync(device + 64, 8192, pinned + 128, 8000, H2D, s.stream);
    let mut want = words(&["aclrtMemcpyAsync", "device 0", "page-locked", "8000"]);
    want.extend([hex(device + 64), hex(pinned + 128)]);
    says("a copy that leaves its memory", &want);

    aclrtMemcpyAsync(device, 64, heap, 64, D2H, s.stream);
    let mut want = words(&["aclrtMemcpyAsync", "device 0", "host", "DEVICE_TO_HOST", "HOST_TO_DEVICE"]);
    want.extend([hex(device), hex(heap)]);
    says("a kind that contradicts the addresses", &want);

    let freed = s.wild.freed_device;
    aclrtMemcpyAsync(freed, 64, pinned, 64, H2D, s.stream);
    let mut want = words(&["aclrtMemcpyAsync", "freed", "page-locked"]);
    want.extend([hex(freed), hex(pinned)]);
    says("freed device memory", &want);

    let freed = s.wild.freed_pinned;
    aclrtMemcpy2dAsync(device, 64, freed, 64, 64, 4, H2D, s.stream);
    let mut want = words(&["aclrtMemcpy2dAsync", "freed", "device 0"]);
    want.extend([hex(device), hex(freed)]);
    says("freed page-locked memory", &want);

    let nothing = s.wild.unmapped;
    aclrtMemcpy(device, 64, nothing, 64, H2D);
    let mut want = words(&["aclrtMemcpy", "not mapped", "device 0"]);
    want.extend([hex(device), hex(nothing)]);
    says("plain memory that is not there", &want);
}

#[test]
fn freed_memory_says_how_long_ago() {
    use_device();
    let (device, pinned) = (Memory::device(4096), Memory::pinned(64));
    ok(device.free());
    let mut count = 0;
    for calls in [1, 5] {
        // The copies and queries since the free, this copy included.
        for _ in count + 1..calls {
            ok(aclrtGetDeviceCount(&mut 0));
        }
        count = calls;
        message();
        aclrtMemcpy(device.addr, 64, pinned.addr, 64, H2D);
        says(
            "a copy to freed memory",
            &words(&[&format!("freed {calls} calls ago"), "aclrtMemcpy", "page-locked"]),
        );
    }
}

#[test]
fn every_refusal_names_its_addresses_by_argument() {
    let s = Scene::new();
    let (device, pinned) = (s.device.addr, s.pinned.addr);
    let (d, p) = (hex(device), hex(pinned));
    type Refused<'a> = (&'a str, Box<dyn Fn() -> i32 + 'a>, Vec<String>);
    let rows: Vec<Refused> = vec![
        ("aclrtMemset", Box::new(|| aclrtMemset(device, 8, 0, 9)), vec![format!("devPtr {d} is device 0")]),
        (
            "aclrtMemsetD32",
            Box::new(|| aclrtMemsetD32(device, 4, 0, 2)),
            vec![format!("ptr {d} is device 0")],
        ),
        (
            "aclrtFree",
            Box::new(|| aclrtFree(pinned)),
            vec![format!("devPtr {p} is page-locked"), "aclrtFreeHost".into()],
        ),
        (
            "aclrtFreeHost",
            Box::new(|| aclrtFreeHost(device)),
            vec![format!("hostPtr {d} is device 0"), "aclrtFree".into()],
        ),
        (
            "aclrtSetMemcpyDesc",
            Box::new(|| aclrtSetMemcpyDesc(device, 6, pinned, device, 8, 0)),
            vec![format!("srcAddr {p} is page-locked"), format!("dstAddr {d}"), format!("desc {d}")],
        ),
        (
            "aclrtMemcpyAsyncWithDesc",
            Box::new(|| aclrtMemcpyAsyncWithDesc(pinned, 6, s.stream)),
            vec![format!("desc {p} is page-locked")],
        ),
        (
            "aclrtMemcpyAsync",
            Box::new(|| aclrtMemcpyAsync(device, 64, pinned, 64, 0, s.stream)),
            vec![format!("dst {d} is device 0"), format!("src {p} is page-locked"), "HOST_TO_HOST".into()],
        ),
        (
            "aclrtMemcpyAsync",
            Box::new(|| aclrtMemcpyAsync(0, 64, pinned, 64, H2D, s.stream)),
            vec!["dst is NULL".into(), format!("src {p} is page-locked")],
        ),
    ];
    for (name, call, mut want) in rows {
        message();
        assert_ne!(call(), 0, "{name}");
        want.push(name.into());
        says(name, &want);
    }
}

#[test]
fn a_refused_value_is_named_with_what_was_expected() {
    let s = Scene::new();
    let (device, pinned) = (s.device.addr, s.pinned.addr);
    message();
    aclrtMemcpyAsync(device, 100, pinned, 200, H2D, s.stream);
    says("count above destMax", &words(&["aclrtMemcpyAsync", "count", "destMax", "100", "200"]));
    aclrtMemcpyAsync(0, 64, pinned, 64, H2D, s.stream);
    says("dst NULL", &words(&["aclrtMemcpyAsync", "dst", "NULL"]));
    aclrtMemcpyAsync(device, 64, 0, 64, H2D, s.stream);
    says("src NULL", &words(&["aclrtMemcpyAsync", "src", "NULL"]));
    aclrtMemcpy2dAsync(device, 16, pinned, 16, 16, 5_242_881, H2D, s.stream);
    says("too many rows", &words(&["aclrtMemcpy2dAsync", "height", "5242881", "5242880"]));
    aclrtMemcpy2dAsync(device, 16, pinned, 32, 17, 2, H2D, s.stream);
    says("rows wider than apart", &words(&["aclrtMemcpy2dAsync", "width", "17", "16", "dpitch"]));
    aclrtMemcpyAsync(device, 64, pinned, 64, 42, s.stream);
    says("an unknown kind", &words(&["aclrtMemcpyAsync", "kind", "42"]));
    aclrtMemcpyAsync(device, 64, pinned, 64, H2D, 0xbad0_cafe);
    says("a stream that is none", &words(&["aclrtMemcpyAsync", "stream", "0xbad0cafe"]));
    aclrtSetDevice(77);
    says("a device that does not exist", &words(&["aclrtSetDevice", "77"]));
}

#[test]
fn the_first_bad_item_of_a_batch_is_named() {
    let s = Scene::new();
    let items = [(s.device.addr, s.pinned.addr, 64), (s.wild.freed_device, s.pinned.addr, 64)];
    message();
    Batch::of(&items, HOST_TO_DEVICE).call(BatchForm::Async, s.stream);
    let mut want = words(&["aclrtMemcpyBatchAsync", "1", "freed", "page-locked"]);
    want.push(hex(s.wild.freed_device));
    says("a freed destination", &want);
}

#[test]
fn a_message_is_read_once_and_belongs_to_its_thread() {
    use_device();
    message();
    assert_eq!(message(), None, "nothing failed");
    assert_ne!(aclrtMemcpy(0, 1, 0, 1, H2D), 0);
    assert_eq!(in_new_thread(message), None, "another thread's failures");
    assert!(message().is_some());
    assert_eq!(message(), None, "read once");
    ok(aclrtSetDevice(0));
    assert_eq!(message(), None, "a call that went well says nothing");
}

#[test]
fn the_newest_message_stands_on_top() {
    use_device();
    message();
    assert_ne!(aclrtSetDevice(77), 0);
    assert_ne!(aclrtFree(0), 0);
    let said = message().expect("two calls failed");
    let (newer, older) =
        (said.find("aclrtFree").expect("the newer"), said.find("aclrtSetDevice").expect("the older"));
    assert!(newer < older, "{said}");
}
