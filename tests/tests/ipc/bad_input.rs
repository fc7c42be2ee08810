//! Arguments that make no sense: a code, a message, and nothing changed.

use ferry_tests::code::*;
use ferry_tests::*;

use super::other::{export_key, key};

const LEN: usize = 4096;

/// Calls, and expects this code and these words in the message.
#[track_caller]
fn told(code: i32, want: i32, words: &str) {
    let said = message().unwrap_or_default();
    assert_eq!(code, want, "{said}");
    assert!(said.contains(words), "{words} is not in: {said}");
}

#[test]
fn exports_that_make_no_sense() {
    use_device();
    let (device, host, heap) = (Memory::device(LEN), Memory::pinned(LEN), Memory::heap(LEN));
    let mut text = [7u8; 80];
    let mut export = |addr: usize, size, len, flags| {
        aclrtIpcMemGetExportKey(addr, size, text.as_mut_ptr().cast(), len, flags)
    };
    told(export(0, LEN, 65, 0), INVALID_PARAM, "devPtr is NULL");
    for len in [0, 64, 66, usize::MAX] {
        told(export(device.addr, LEN, len, 0), RT_PARAM_INVALID, "65");
    }
    for flags in [2, 3, u64::MAX] {
        told(export(device.addr, LEN, 65, flags), RT_PARAM_INVALID, "flags is");
    }
    for size in [0, LEN + 33, usize::MAX] {
        told(export(device.addr, size, 65, 0), RT_PARAM_INVALID, "devPtr");
    }
    told(export(device.addr + 64, 64, 65, 0), RT_PARAM_INVALID, "offset 64 of device 0");
    told(export(host.addr, LEN, 65, 0), RT_PARAM_INVALID, "page-locked");
    told(export(heap.addr, LEN, 65, 0), RT_PARAM_INVALID, "did not allocate");
    told(export(64, LEN, 65, 0), RT_PARAM_INVALID, "devPtr 0x40");
    told(
        aclrtIpcMemGetExportKey(device.addr, LEN, std::ptr::null_mut(), 65, 0),
        INVALID_PARAM,
        "key is NULL",
    );
    let wild = std::ptr::without_provenance_mut(0x40);
    told(aclrtIpcMemGetExportKey(device.addr, LEN, wild, 65, 0), RT_PARAM_INVALID, "key");
    let addr = device.addr;
    assert_eq!(in_new_thread(move || export_key(addr, LEN, 0).0), CONTEXT_NULL, "no context");
    ok(device.free());
    told(export(addr, LEN, 65, 0), RT_PARAM_INVALID, "freed");
    assert_eq!(text, [7; 80], "nothing was written");
}

#[test]
fn keys_that_make_no_sense() {
    use_device();
    let memory = Memory::device(LEN);
    let (code, good) = export_key(memory.addr, LEN, 1);
    ok(code);
    let mut addr = 7;
    let closed = {
        let (code, key) = export_key(memory.addr, LEN, 1);
        ok(code);
        ok(aclrtIpcMemClose(super::other::key(&key).as_ptr()));
        key
    };
    let strange = format!("{}x", &good[..63]);
    for text in ["", "x", &good[..63], &format!("{good}0"), &strange, &"0".repeat(64), &"ü".repeat(32)] {
        let text = key(text);
        told(aclrtIpcMemImportByKey(&mut addr, text.as_ptr(), 0), RT_PARAM_INVALID, "64 characters");
        told(aclrtIpcMemSetImportPid(text.as_ptr(), &mut 1, 1), RT_PARAM_INVALID, "64 characters");
        told(aclrtIpcMemClose(text.as_ptr()), RT_PARAM_INVALID, "64 characters");
    }
    // Of the right form, but not (or no longer) of this exporter.
    let guessed = format!("{}{:032x}", &good[..32], 12345);
    for text in [&guessed, &closed] {
        let text = key(text);
        told(aclrtIpcMemImportByKey(&mut addr, text.as_ptr(), 0), RT_PARAM_INVALID, "knows nothing");
        told(aclrtIpcMemSetImportPid(text.as_ptr(), &mut 1, 1), RT_PARAM_INVALID, "exported by this process");
        told(aclrtIpcMemClose(text.as_ptr()), RT_PARAM_INVALID, "neither exported nor imported");
    }
    // Of an exporter that nobody is.
    let nobody = key(&format!("{}00000000{:032x}", &good[..24], 1));
    told(aclrtIpcMemImportByKey(&mut addr, nobody.as_ptr(), 0), IPC_ERROR, "exporter is gone");

    let good = key(&good);
    for flags in [2, u64::MAX] {
        told(aclrtIpcMemImportByKey(&mut addr, good.as_ptr(), flags), RT_PARAM_INVALID, "flags is");
    }
    let null = std::ptr::null();
    told(aclrtIpcMemImportByKey(&mut addr, null, 0), INVALID_PARAM, "key is NULL");
    told(aclrtIpcMemImportByKey(std::ptr::null_mut(), good.as_ptr(), 0), INVALID_PARAM, "devPtr is NULL");
    told(aclrtIpcMemClose(null), INVALID_PARAM, "key is NULL");
    told(aclrtIpcMemClose(std::ptr::without_provenance(0x40)), RT_PARAM_INVALID, "key");
    assert_eq!(addr, 7, "nothing was written");
    let text = good.clone();
    let code = in_new_thread(move || aclrtIpcMemImportByKey(&mut 0, text.as_ptr(), 0));
    assert_eq!(code, CONTEXT_NULL, "no context");

    told(aclrtIpcMemSetImportPid(null, &mut 1, 1), INVALID_PARAM, "key is NULL");
    told(aclrtIpcMemSetImportPid(good.as_ptr(), std::ptr::null_mut(), 1), INVALID_PARAM, "pid is NULL");
    told(aclrtIpcMemSetImportPid(good.as_ptr(), &mut 1, 0), RT_PARAM_INVALID, "number of processes is 0");
    told(aclrtIpcMemSetImportPid(good.as_ptr(), &mut 1, usize::MAX), RT_PARAM_INVALID, "overflow");
    for pid in [0, -1, i32::MIN] {
        told(aclrtIpcMemSetImportPid(good.as_ptr(), [1, pid].as_mut_ptr(), 2), RT_PARAM_INVALID, "pid[1]");
    }
    ok(aclrtIpcMemClose(good.as_ptr()));
    ok(memory.free());
}
