//! Shareable handles: physical memory between processes.

use ferry_tests::code::*;
use ferry_tests::*;

use super::other::Other;

const LEN: usize = 2 << 20;
const DEFAULT_TYPE: i32 = 1;
const FABRIC: i32 = 2;

/// What another process can be told about physical memory.
pub fn perform(call: &str, number: &dyn Fn(usize) -> usize) -> (i32, String) {
    let mut out = 0usize;
    let mut shareable = 0u64;
    let plain = |code: i32| (code, String::new());
    match call {
        "physical" => {
            let code = aclrtMallocPhysical(&mut out, number(1), &huge_pages(), 0);
            (code, out.to_string())
        }
        "free-physical" => plain(aclrtFreePhysical(number(1))),
        "map" => {
            let code = aclrtReserveMemAddress(&mut out, number(2), 0, 0, 0);
            let code = if code == 0 { aclrtMapMem(out, number(2), 0, number(1), 0) } else { code };
            (code, out.to_string())
        }
        "unmap" => plain(aclrtUnmapMem(number(1))),
        "share" => {
            let code = aclrtMemExportToShareableHandle(number(1), 0, number(2) as u64, &mut shareable);
            (code, shareable.to_string())
        }
        "share-v2" => {
            let to = (&raw mut shareable) as usize;
            let code = aclrtMemExportToShareableHandleV2(number(1), number(2) as u64, DEFAULT_TYPE, to);
            (code, shareable.to_string())
        }
        "list-shared" => plain(aclrtMemSetPidToShareableHandle(number(1) as u64, &mut (number(2) as i32), 1)),
        "list-shared-v2" => {
            let (mut shareable, mut pid) = (number(1) as u64, number(2) as i32);
            let at = (&raw mut shareable) as usize;
            plain(aclrtMemSetPidToShareableHandleV2(at, DEFAULT_TYPE, &mut pid, 1))
        }
        "import-shared" => {
            let code = aclrtMemImportFromShareableHandle(number(1) as u64, number(2) as i32, &mut out);
            (code, out.to_string())
        }
        "import-shared-v2" => {
            let mut shareable = number(1) as u64;
            let at = (&raw mut shareable) as usize;
            let code = aclrtMemImportFromShareableHandleV2(at, DEFAULT_TYPE, 0, &mut out);
            (code, out.to_string())
        }
        other => panic!("nobody knows what {other} is"),
    }
}

/// Physical memory of device 0 in huge pages.
fn huge_pages() -> aclrtPhysicalMemProp {
    const HUGE: i32 = 13;
    let location = aclrtMemLocation { id: 0, type_: 1 };
    aclrtPhysicalMemProp { handleType: 0, allocationType: 0, memAttr: HUGE, location, reserve: 0 }
}

/// Physical memory of an exporter that holds pattern 1: its handle, its address, its shareable handle.
fn shared(exporter: &mut Other, call: &str) -> (String, String, String) {
    let handle = exporter.ok(&format!("physical {LEN}"));
    let addr = exporter.ok(&format!("map {handle} {LEN}"));
    exporter.ok(&format!("write {addr} {LEN} 1"));
    let shareable = exporter.ok(&format!("{call} {handle} 0"));
    (handle, addr, shareable)
}

#[test]
fn physical_memory_is_mapped_in_two_processes() {
    for version in ["", "-v2"] {
        let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
        let all = exporter.free_bytes();
        let (handle, addr, shareable) = shared(&mut exporter, &format!("share{version}"));
        let import = match version {
            "" => format!("import-shared {shareable} 0"),
            _ => format!("import-shared-v2 {shareable}"),
        };
        importer.refused(&import, NO_PERMISSION, "aclrtMemSetPidToShareableHandle");
        exporter.ok(&format!("list-shared{version} {shareable} {}", importer.pid()));
        let there = importer.ok(&import);
        let mapped = importer.ok(&format!("map {there} {LEN}"));
        assert_eq!(importer.ok(&format!("holds {mapped} {LEN} 1")), "true");
        importer.ok(&format!("write {mapped} {LEN} 2"));
        assert_eq!(exporter.ok(&format!("holds {addr} {LEN} 2")), "true");

        // One to one, on both sides.
        assert_eq!(importer.ok(&import), there);
        importer.refused(&format!("import-shared {shareable} 1"), RT_PARAM_INVALID, "as memory of device 0");
        importer.ok(&format!("free-physical {there}"));
        exporter.refused(&format!("share {handle} 1"), RT_PARAM_INVALID, "exported already");
        importer.refused(&format!("share {there} 1"), RT_PARAM_INVALID, "itself imported");
        exporter.refused(&import, RT_PARAM_INVALID, "exported by this process");

        // The exporter gives everything up; the importer has it still.
        exporter.ok(&format!("unmap {addr}"));
        exporter.ok(&format!("free-physical {handle}"));
        assert!(exporter.free_bytes() < all, "the importer has it");
        assert_eq!(importer.ok(&format!("holds {mapped} {LEN} 2")), "true");
        // A freed handle leaves its mapping, and that keeps the memory.
        importer.ok(&format!("free-physical {there}"));
        assert!(exporter.free_bytes() < all, "it is mapped");
        importer.refused(&import, RT_PARAM_INVALID, "knows nothing of that name");
        importer.ok(&format!("unmap {mapped}"));
        super::comes_back(&mut exporter, all);
    }
}

#[test]
fn a_handle_is_freed_as_often_as_it_was_imported() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let all = exporter.free_bytes();
    let (handle, addr, shareable) = shared(&mut exporter, "share");
    exporter.ok(&format!("list-shared {shareable} {}", importer.pid()));
    let there = importer.ok(&format!("import-shared {shareable} 0"));
    assert_eq!(importer.ok(&format!("import-shared-v2 {shareable}")), there);
    exporter.ok(&format!("unmap {addr}"));
    exporter.ok(&format!("free-physical {handle}"));
    importer.ok(&format!("free-physical {there}"));
    let mapped = importer.ok(&format!("map {there} {LEN}"));
    assert_eq!(importer.ok(&format!("holds {mapped} {LEN} 1")), "true");
    importer.ok(&format!("unmap {mapped}"));
    assert!(exporter.free_bytes() < all, "the importer has it");
    importer.ok(&format!("free-physical {there}"));
    importer.refused(&format!("map {there} {LEN}"), INVALID_HANDLE, "freed");
    importer.refused(&format!("free-physical {there}"), INVALID_HANDLE, "freed");
    super::comes_back(&mut exporter, all);
}

#[test]
fn a_freed_import_may_be_imported_again() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let handle = exporter.ok(&format!("physical {LEN}"));
    let shareable = exporter.ok(&format!("share {handle} 1"));
    let first = importer.ok(&format!("import-shared {shareable} 0"));
    importer.ok(&format!("free-physical {first}"));
    let second = importer.ok(&format!("import-shared {shareable} 1"));
    assert_ne!(first, second);
    importer.refused(&format!("map {first} {LEN}"), INVALID_HANDLE, "freed");
    importer.ok(&format!("map {second} {LEN}"));
}

#[test]
fn the_dead_hold_no_physical_memory_and_take_none_away() {
    let mut exporter = Other::on(0);
    let all = exporter.free_bytes();
    let (handle, addr, shareable) = shared(&mut exporter, "share");
    let mut importer = Other::on(0);
    exporter.ok(&format!("list-shared {shareable} {}", importer.pid()));
    let there = importer.ok(&format!("import-shared {shareable} 0"));
    importer.ok(&format!("map {there} {LEN}"));
    exporter.ok(&format!("unmap {addr}"));
    exporter.ok(&format!("free-physical {handle}"));
    assert!(exporter.free_bytes() < all, "the importer has it");
    importer.kill();
    super::comes_back(&mut exporter, all);

    let mut importer = Other::on(0);
    let (_, _, shareable) = shared(&mut exporter, "share");
    exporter.ok(&format!("list-shared {shareable} {}", importer.pid()));
    let there = importer.ok(&format!("import-shared {shareable} 0"));
    exporter.kill();
    let mapped = importer.ok(&format!("map {there} {LEN}"));
    assert_eq!(importer.ok(&format!("holds {mapped} {LEN} 1")), "true");
    importer.ok(&format!("unmap {mapped}"));
    importer.ok(&format!("free-physical {there}"));
    importer.refused(&format!("import-shared {shareable} 0"), IPC_ERROR, "exporter is gone");
}

#[test]
fn handles_that_make_no_sense() {
    use_device();
    let (mut handle, mut shareable, mut import) = (0, 7u64, 7);
    ok(aclrtMallocPhysical(&mut handle, LEN, &huge_pages(), 0));
    let out: *mut u64 = &mut shareable;
    let null = std::ptr::null_mut();
    let export = aclrtMemExportToShareableHandle;
    let export_v2 = |handle, flags, share_type| {
        let mut shareable = 7u64;
        let code =
            aclrtMemExportToShareableHandleV2(handle, flags, share_type, (&raw mut shareable) as usize);
        (shareable == 7).then_some(code).expect("nothing was written")
    };
    let rows = [
        ("NULL handle", export(0, 0, 0, out), INVALID_PARAM),
        ("NULL out", export(handle, 0, 0, null), INVALID_PARAM),
        ("garbage handle", export(0x1234, 0, 0, out), INVALID_HANDLE),
        ("a descriptor", export(handle, 2, 0, out), FEATURE_NOT_SUPPORT),
        ("unknown handle type", export(handle, 1, 0, out), RT_PARAM_INVALID),
        ("unknown flags", export(handle, 0, 2, out), RT_PARAM_INVALID),
        ("V2, NULL handle", export_v2(0, 0, DEFAULT_TYPE), INVALID_PARAM),
        ("V2, NULL out", aclrtMemExportToShareableHandleV2(handle, 0, DEFAULT_TYPE, 0), INVALID_PARAM),
        ("V2, garbage handle", export_v2(0x1234, 0, DEFAULT_TYPE), INVALID_HANDLE),
        ("V2, fabric", export_v2(handle, 0, FABRIC), FEATURE_NOT_SUPPORT),
        ("V2, unknown type", export_v2(handle, 0, 3), RT_PARAM_INVALID),
        ("V2, unknown flags", export_v2(handle, 2, DEFAULT_TYPE), RT_PARAM_INVALID),
    ];
    check(&rows);
    assert_eq!(shareable, 7, "nothing was written");
    ok(export(handle, 0, 0, &mut shareable));

    let list = aclrtMemSetPidToShareableHandle;
    let list_v2 = |mut shareable: u64, share_type| {
        aclrtMemSetPidToShareableHandleV2((&raw mut shareable) as usize, share_type, &mut 1, 1)
    };
    let import_v1 =
        |shareable, device, out: &mut usize| aclrtMemImportFromShareableHandle(shareable, device, out);
    let import_v2 = |mut shareable: u64, share_type, flags, out: &mut usize| {
        aclrtMemImportFromShareableHandleV2((&raw mut shareable) as usize, share_type, flags, out)
    };
    let unknown = shareable ^ 1;
    let nobody = 1 << 32 | 1;
    let rows = [
        ("list 0", list(0, &mut 1, 1), RT_PARAM_INVALID),
        ("list an unknown one", list(unknown, &mut 1, 1), RT_PARAM_INVALID),
        ("list NULL", list(shareable, std::ptr::null_mut(), 1), INVALID_PARAM),
        ("list nobody", list(shareable, &mut 1, 0), RT_PARAM_INVALID),
        ("list process 0", list(shareable, &mut 0, 1), RT_PARAM_INVALID),
        ("V2, list NULL", aclrtMemSetPidToShareableHandleV2(0, DEFAULT_TYPE, &mut 1, 1), INVALID_PARAM),
        ("V2, list fabric", list_v2(shareable, FABRIC), FEATURE_NOT_SUPPORT),
        ("V2, list unknown type", list_v2(shareable, 0), RT_PARAM_INVALID),
        ("V2, list an unknown one", list_v2(unknown, DEFAULT_TYPE), RT_PARAM_INVALID),
        ("import 0", import_v1(0, 0, &mut import), RT_PARAM_INVALID),
        ("import one half", import_v1(1 << 32, 0, &mut import), RT_PARAM_INVALID),
        ("import an unknown one", import_v1(unknown, 0, &mut import), RT_PARAM_INVALID),
        ("import our own", import_v1(shareable, 0, &mut import), RT_PARAM_INVALID),
        ("import of nobody", import_v1(nobody, 0, &mut import), IPC_ERROR),
        ("import to no device", import_v1(shareable, 99, &mut import), INVALID_DEVICEID),
        ("import to NULL", aclrtMemImportFromShareableHandle(shareable, 0, null.cast()), INVALID_PARAM),
        (
            "V2, import NULL",
            aclrtMemImportFromShareableHandleV2(0, DEFAULT_TYPE, 0, &mut import),
            INVALID_PARAM,
        ),
        ("V2, import to NULL", import_v2_to_null(shareable), INVALID_PARAM),
        ("V2, import fabric", import_v2(shareable, FABRIC, 0, &mut import), FEATURE_NOT_SUPPORT),
        ("V2, import unknown type", import_v2(shareable, 9, 0, &mut import), RT_PARAM_INVALID),
        ("V2, import with flags", import_v2(shareable, DEFAULT_TYPE, 1, &mut import), RT_PARAM_INVALID),
        ("V2, import our own", import_v2(shareable, DEFAULT_TYPE, 0, &mut import), RT_PARAM_INVALID),
    ];
    check(&rows);
    assert_eq!(import, 7, "nothing was written");
    let codes = in_new_thread(move || {
        let mut out = 0;
        let shareable = out as u64;
        [export(handle, 0, 0, &mut 0), aclrtMemImportFromShareableHandle(shareable | 1 << 33, 0, &mut out)]
    });
    assert_eq!(codes, [CONTEXT_NULL; 2], "no context");
    ok(aclrtFreePhysical(handle));
}

#[test]
fn an_address_that_was_imported_is_no_handle() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let addr = exporter.ok(&format!("malloc {LEN}"));
    exporter.ok(&format!("write {addr} {LEN} 1"));
    let key = exporter.ok(&format!("export {addr} {LEN} 1"));
    for imports in [1, 2] {
        let import = |_| importer.ok(&format!("import {key} 0"));
        let there = (0..imports).map(import).last().expect("one at least");
        importer.refused(&format!("free-physical {there}"), INVALID_HANDLE, "no handle of physical memory");
        for _ in 0..imports {
            assert_eq!(importer.ok(&format!("holds {there} {LEN} 1")), "true");
            importer.ok(&format!("close {key}"));
        }
        importer.refused(&format!("close {key}"), RT_PARAM_INVALID, "neither exported nor imported");
    }
}

fn import_v2_to_null(mut shareable: u64) -> i32 {
    aclrtMemImportFromShareableHandleV2(
        (&raw mut shareable) as usize,
        DEFAULT_TYPE,
        0,
        std::ptr::null_mut::<usize>(),
    )
}

/// Every row answered as it should; no more messages than that are kept of a thread.
fn check(rows: &[(&str, i32, i32)]) {
    assert!(message().is_some());
    for (what, code, want) in rows {
        assert_eq!(code, want, "{what}");
    }
}
