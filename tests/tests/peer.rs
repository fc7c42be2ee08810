//! Peer access, which is a state of the whole process: one test, in a process of its own.

use ferry_tests::code::{INVALID_PARAM, RT_PARAM_INVALID};
use ferry_tests::kind::{D2D, DEFAULT, INNER, INTER};
use ferry_tests::*;

const LEN: usize = 64 * 1024;

/// Copies between the devices in every way a thread on `device` can and says which were refused.
fn copies(device: i32, dst: Memory, src: Memory) -> Vec<(String, i32)> {
    ok(aclrtSetDevice(device));
    let stream = stream();
    let mut codes = Vec::new();
    for seed in 0..5 {
        let data = pattern(LEN, seed);
        src.write(&data);
        dst.fill(0);
        let (name, code) = match seed {
            0 => ("aclrtMemcpy", aclrtMemcpy(dst.addr, LEN, src.addr, LEN, D2D)),
            1 => ("aclrtMemcpyAsync", aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, D2D, stream)),
            2 => {
                ("aclrtMemcpyAsync DEFAULT", aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, DEFAULT, stream))
            }
            3 => ("aclrtMemcpyAsync INTER", aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, INTER, stream)),
            _ => (
                "aclrtMemcpy2dAsync",
                aclrtMemcpy2dAsync(dst.addr, 64, src.addr, 64, 64, LEN / 64, D2D, stream),
            ),
        };
        finish(stream);
        let want = if code == 0 { data } else { vec![0; LEN] };
        dst.assert_holds(&want, &format!("{name} from device {device}"));
        codes.push((format!("{name} from device {device}"), code));
    }
    codes
}

fn all(codes: Vec<(String, i32)>, want: i32) {
    message();
    for (what, code) in codes {
        assert_eq!(code, want, "{what}");
    }
}

// proves: N3 N12 X9
#[test]
fn copies_between_devices_need_peer_access_from_where_they_start() {
    ok(aclrtSetDevice(1));
    let there = Memory::device(LEN);
    ok(aclrtSetDevice(0));
    let here = Memory::device(LEN);

    let mut can = -1;
    ok(aclrtDeviceCanAccessPeer(&mut can, 0, 1));
    assert_eq!(can, 1);
    for (device, peer) in [(0, 0), (0, 2), (-1, 0), (7, 1)] {
        assert_ne!(aclrtDeviceCanAccessPeer(&mut can, device, peer), 0, "{device} to {peer}");
    }
    assert_ne!(aclrtDeviceCanAccessPeer(std::ptr::null_mut(), 0, 1), 0);

    let status = |device, peer| {
        let mut status = -1;
        ok(aclrtDevicePeerAccessStatus(device, peer, &mut status));
        status
    };
    for (device, peer) in [(0, 0), (0, 2), (-1, 0), (7, 1)] {
        let code = aclrtDevicePeerAccessStatus(device, peer, &mut can);
        expect("status of no pair of devices", code, RT_PARAM_INVALID);
    }
    assert_eq!(can, 1, "nothing is written by a call that fails");
    expect("no room", aclrtDevicePeerAccessStatus(0, 1, std::ptr::null_mut()), INVALID_PARAM);
    assert_eq!((status(0, 1), status(1, 0)), (0, 0));

    all(copies(0, here, there), RT_PARAM_INVALID);
    all(copies(0, there, here), RT_PARAM_INVALID);

    ok(aclrtSetDevice(0));
    ok(aclrtDeviceEnablePeerAccess(0, 0));
    assert_ne!(aclrtDeviceDisablePeerAccess(0), 0, "itself");
    assert_ne!(aclrtDeviceEnablePeerAccess(2, 0), 0, "a device that does not exist");
    assert_ne!(aclrtDeviceEnablePeerAccess(1, 1), 0, "flags");
    all(copies(0, here, there), RT_PARAM_INVALID);

    ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_eq!((status(0, 1), status(1, 0)), (1, 0), "one way");
    all(copies(0, here, there), 0);
    all(copies(0, there, here), 0);
    // The access goes one way: device 1 has not enabled device 0.
    all(copies(1, here, there), RT_PARAM_INVALID);
    ok(aclrtSetDevice(1));
    ok(aclrtDeviceEnablePeerAccess(0, 0));
    all(copies(1, here, there), 0);
    all(copies(1, there, here), 0);

    // INNER is for one device only, with or without access.
    ok(aclrtSetDevice(0));
    let code = aclrtMemcpyAsync(here.addr, LEN, there.addr, LEN, INNER, stream());
    expect("INNER between two devices", code, RT_PARAM_INVALID);

    ok(aclrtDeviceDisablePeerAccess(1));
    assert_eq!((status(0, 1), status(1, 0)), (0, 1), "one way");
    all(copies(0, here, there), RT_PARAM_INVALID);
    all(copies(1, here, there), 0);
}
