//! The addresses that devices have of registered memory: nothing is behind them, for copies and for the CPU.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use ferry_tests::children::Case;
use ferry_tests::code::*;
use ferry_tests::kind::{BUFFERED, D2D, D2H, DEFAULT, H2D, H2H, INNER};
use ferry_tests::*;

use crate::{MAPPED, PAGE, PINNED, POISON, mine, registered};

/// Cases that end it.
pub const DEADLY: [Case; 2] = [("read", touch), ("write", touch)];

/// Documented: the address that devices have of registered memory must not be used in copies.
// proves: X5
#[test]
fn copies_refuse_device_addresses_of_registered_memory() {
    use_device();
    let (memory, pinned, device, stream) =
        (registered(2 * PAGE, MAPPED | PINNED), Memory::pinned(2 * PAGE), Memory::device(2 * PAGE), stream());
    let others = [(memory, Memory::pinned(PAGE)), (mine(2 * PAGE), Memory::pinned(PAGE))];
    let mut views = Vec::new();
    for (index, (memory, _)) in others.into_iter().enumerate() {
        let mut view = 0;
        match index {
            0 => ok(aclrtHostGetDevicePointer(memory.addr, &mut view, 0)),
            _ => ok(aclrtHostRegister(memory.addr, 2 * PAGE, 0, &mut view)),
        }
        memory.fill(POISON);
        views.push((memory, view));
    }
    let (p, d) = (pinned.addr, device.addr);
    pinned.fill(1);
    device.fill(2);
    let cell = Memory::holding(Home::Pinned, &d.to_ne_bytes());
    let mut size = 0;
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    let desc = Memory::device(size);
    for (memory, view) in views {
        for (v, len) in [(view, 64), (view + PAGE, PAGE), (view + 2 * PAGE - 1, 1)] {
            let one = |dst, src, attr, form| Batch::of(&[(dst, src, len)], attr).call(form, stream).0;
            let codes = vec![
                ("aclrtMemcpy in", aclrtMemcpy(v, len, p, len, H2D)),
                ("aclrtMemcpy out", aclrtMemcpy(p, len, v, len, D2H)),
                ("aclrtMemcpy host to host", aclrtMemcpy(p, len, v, len, H2H)),
                ("aclrtMemcpyAsync in", aclrtMemcpyAsync(v, len, p, len, H2D, stream)),
                ("aclrtMemcpyAsync out", aclrtMemcpyAsync(p, len, v, len, D2H, stream)),
                ("aclrtMemcpyAsync inside", aclrtMemcpyAsync(v, len, d, len, D2D, stream)),
                ("aclrtMemcpyAsync from it", aclrtMemcpyAsync(d, len, v, len, D2D, stream)),
                ("aclrtMemcpyAsync as host", aclrtMemcpyAsync(d, len, v, len, H2D, stream)),
                ("aclrtMemcpyAsync DEFAULT", aclrtMemcpyAsync(d, len, v, len, DEFAULT, stream)),
                ("aclrtMemcpyAsync BUFFERED", aclrtMemcpyAsync(d, len, v, len, BUFFERED, stream)),
                ("WithCondition in", aclrtMemcpyAsyncWithCondition(v, len, p, len, H2D, stream)),
                ("WithCondition out", aclrtMemcpyAsyncWithCondition(p, len, v, len, D2H, stream)),
                ("aclrtMemcpy2d in", aclrtMemcpy2d(v, len, p, len, len, 1, H2D)),
                ("aclrtMemcpy2d out", aclrtMemcpy2d(p, len, v, len, len, 1, D2H)),
                ("aclrtMemcpy2dAsync in", aclrtMemcpy2dAsync(v, len, p, len, len, 1, H2D, stream)),
                ("aclrtMemcpy2dAsync inside", aclrtMemcpy2dAsync(v, len, d, len, len, 1, D2D, stream)),
                ("Batch in", one(v, p, HOST_TO_DEVICE, BatchForm::Sync)),
                ("BatchV2 out", one(p, v, DEVICE_TO_HOST, BatchForm::SyncV2)),
                ("BatchAsync in", one(v, p, HOST_TO_DEVICE, BatchForm::Async)),
                ("BatchAsyncV2 as host", one(d, v, HOST_TO_DEVICE, BatchForm::AsyncV2)),
                ("aclrtMemset", aclrtMemset(v, len, 7, len)),
                ("aclrtMemsetAsync", aclrtMemsetAsync(v, len, 7, len, stream)),
                ("aclrtMemsetD32", aclrtMemsetD32(v, 4 * len, 7, len)),
                ("aclrtSetMemcpyDesc to", aclrtSetMemcpyDesc(desc.addr, INNER, d, v, len, 0)),
                ("aclrtSetMemcpyDesc from", aclrtSetMemcpyDesc(desc.addr, INNER, v, d, len, 0)),
                ("a descriptor there", aclrtMemcpyAsyncWithDesc(v, INNER, stream)),
                ("a cell there", aclrtMemcpyAsyncWithOffset(v, len, 0, cell.addr, len, 0, INNER, stream)),
            ];
            // At most 16 messages are kept; what is asked for is that these say so.
            let said = message().unwrap_or_default();
            for (name, code) in codes {
                assert_eq!(code, RT_PARAM_INVALID, "{name}, {len} bytes");
            }
            let host = format!("{:#x}", memory.addr);
            for line in said.lines() {
                let says = line.contains("registered host memory") && line.contains(&host);
                assert!(says, "the message does not name the host address: {line}");
            }
            let indirect = Memory::holding(Home::Pinned, &v.to_ne_bytes());
            ok(aclrtMemcpyAsyncWithOffset(indirect.addr, len, 0, cell.addr, len, 0, INNER, stream));
            refused(
                "behind a cell",
                aclrtSynchronizeStream(stream),
                RT_PARAM_INVALID,
                &["registered host memory"],
            );
        }
        memory.assert_all(POISON, "registered memory");
    }
    finish(stream);
    pinned.assert_all(1, "page-locked memory");
    device.assert_all(2, "device memory");
}

/// Touches the device address of registered memory with the CPU.
fn touch() {
    let (memory, mut device) = (mine(PAGE), 0);
    memory.fill(1);
    ok(aclrtHostRegister(memory.addr, PAGE, 0, &mut device));
    println!("about to touch");
    let pointer = device as *mut u8;
    // SAFETY: none: this ends the process, which is what is looked for.
    unsafe {
        match std::env::var("FERRY_TEST_CASE").as_deref() {
            Ok("read") => println!("{}", pointer.read_volatile()),
            _ => pointer.write_volatile(2),
        }
    }
    println!("came through");
}

// proves: X5
#[test]
fn the_cpu_cannot_touch_a_device_address() {
    for (name, _) in DEADLY {
        let mut child = Command::new(std::env::current_exe().expect("Linux knows which program runs"));
        child.args(["--ignored", "--exact", "one_case", "--nocapture"]).env("FERRY_TEST_CASE", name);
        child.env("FERRY_FAULT_NOTE", "1");
        let done = child.output().expect("this program can be started");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(said.contains("about to touch") && !said.contains("came through"), "{name}: {said}");
        let signal = done.status.signal();
        assert!(matches!(signal, Some(libc::SIGSEGV | libc::SIGBUS)), "{name}: {signal:?}");
        let note = String::from_utf8_lossy(&done.stderr);
        assert!(note.contains("addresses for devices"), "{name}: {note}");
    }
}
