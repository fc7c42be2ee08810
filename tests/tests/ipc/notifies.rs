//! Notifies between processes: the one that made a notify waits for it, those that imported it record it.

use ferry_tests::code::*;
use ferry_tests::kind::D2D;
use ferry_tests::*;

use crate::events::{blocked_stream, go_on, stands, stop};
use crate::other::{Orphan, Other, key};

/// The other process's part.
pub fn perform(call: &str, number: &dyn Fn(usize) -> usize, text: &str) -> (i32, String) {
    let mut out = 0usize;
    let plain = |code: i32| (code, String::new());
    match call {
        "notify" => {
            let code = aclrtCreateNotify(&mut out, 0);
            (code, out.to_string())
        }
        "notify-key" => notify_key(number(1), number(2) as u64),
        "notify-list" => plain(aclrtNotifySetImportPid(number(1), &mut (number(2) as i32), 1)),
        "notify-import" => {
            let code = aclrtNotifyImportByKey(&mut out, key(text).as_ptr(), number(2) as u64);
            (code, out.to_string())
        }
        "notify-record" => plain(aclrtRecordNotify(number(1), number(2))),
        "notify-wait" => plain(aclrtWaitAndResetNotify(number(1), number(2), number(3) as u32)),
        "notify-reset" => plain(aclrtNotifyBatchReset(&mut number(1), 1)),
        "notify-id" => {
            let mut id = 0;
            let code = aclrtGetNotifyId(number(1), &mut id);
            (code, id.to_string())
        }
        "notify-destroy" => plain(aclrtDestroyNotify(number(1))),
        "notify-child" => (0, calls_in_a_child(number(1)).to_string()),
        other => super::shareable::perform(other, number),
    }
}

fn notify_key(notify: usize, flags: u64) -> (i32, String) {
    let mut text = [1u8; 65];
    let code = aclrtNotifyGetExportKey(notify, text.as_mut_ptr().cast(), 65, flags);
    let key = std::ffi::CStr::from_bytes_until_nul(&text).map(|key| key.to_string_lossy().into_owned());
    (code, key.unwrap_or_default())
}

/// Has a forked child use a notify. Returns its exit status: 0 if it was refused everything, else the number
/// of the call that was not, counted from 1; -1 if a signal ended it.
fn calls_in_a_child(notify: usize) -> i32 {
    // SAFETY: the child calls the library, which refuses, and ends by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: takes a number; a child that hangs ends by this.
        unsafe { libc::alarm(20) };
        let mut id = 0;
        let codes = [
            aclrtRecordNotify(notify, 0),
            aclrtWaitAndResetNotify(notify, 0, 0),
            aclrtNotifyBatchReset(&mut { notify }, 1),
            aclrtGetNotifyId(notify, &mut id),
            notify_key(notify, 2).0,
            aclrtDestroyNotify(notify),
        ];
        let taken = codes.iter().position(|code| *code != CONTEXT_NULL);
        // SAFETY: ends the child without running anything that belongs to the parent.
        unsafe { libc::_exit(taken.map_or(0, |row| row as i32 + 1)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just made and writes to a local.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    if ended == child && libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}

/// A notify of the first process, imported by the second: what each calls it.
fn shared(waiter: &mut Other, recorder: &mut Other) -> (String, String) {
    let notify = waiter.ok("notify");
    let key = waiter.ok(&format!("notify-key {notify} 2"));
    (notify, recorder.ok(&format!("notify-import {key} 0")))
}

/// Records once, and waits until that has happened.
#[track_caller]
fn record(process: &mut Other, notify: &str) {
    process.ok(&format!("notify-record {notify} 0"));
    process.ok("synchronize 0");
}

// proves: Y8 Y9
#[test]
fn a_record_of_another_process_releases_one_wait() {
    let (mut waiter, mut recorder, mut third) = (Other::on(0), Other::on(0), Other::on(1));
    let (notify, imported) = shared(&mut waiter, &mut recorder);
    let key = waiter.ok(&format!("notify-key {notify} 2"));
    let far = third.ok(&format!("notify-import {key} 2"));
    let id = waiter.ok(&format!("notify-id {notify}"));
    assert_eq!(recorder.ok(&format!("notify-id {imported}")), id, "one notify, one number");
    let [first, second] = [(); 2].map(|()| waiter.ok("stream"));
    // Recorded before the wait and after it, here, there and on another device.
    for (early, far_away) in [(true, false), (false, false), (true, true), (false, true)] {
        let (process, its) = if far_away { (&mut third, &far) } else { (&mut recorder, &imported) };
        if early {
            record(process, its);
        }
        waiter.ok(&format!("notify-wait {notify} {first} 0"));
        if !early {
            stands(&mut waiter, &first);
            record(process, its);
        }
        waiter.ok(&format!("synchronize {first}"));
    }
    // One record releases one wait; two that come together release both.
    for stream in [&first, &second] {
        waiter.ok(&format!("notify-wait {notify} {stream} 0"));
        waiter.ok("settle");
    }
    record(&mut recorder, &imported);
    waiter.ok(&format!("synchronize {first}"));
    stands(&mut waiter, &second);
    waiter.ok(&format!("notify-wait {notify} {first} 0"));
    record(&mut recorder, &imported);
    record(&mut third, &far);
    waiter.ok(&format!("synchronize {first}"));
    waiter.ok(&format!("synchronize {second}"));
    // Its own process records it, too, and the state is one bit whoever did.
    record(&mut recorder, &imported);
    record(&mut third, &far);
    record(&mut waiter, &notify);
    waiter.ok(&format!("notify-wait {notify} {first} 0"));
    waiter.ok(&format!("synchronize {first}"));
    waiter.ok(&format!("notify-wait {notify} {first} 0"));
    stands(&mut waiter, &first);
    record(&mut waiter, &notify);
    waiter.ok(&format!("synchronize {first}"));
    eventually("nobody watches the notify", || waiter.ok("threads ferry-bell") == "0");
}

#[test]
fn a_notify_is_exported_while_streams_wait_for_it() {
    let (mut waiter, mut recorder) = (Other::on(0), Other::on(0));
    let (notify, stream) = (waiter.ok("notify"), waiter.ok("stream"));
    waiter.ok(&format!("notify-wait {notify} {stream} 0"));
    stands(&mut waiter, &stream);
    let key = waiter.ok(&format!("notify-key {notify} 2"));
    let imported = recorder.ok(&format!("notify-import {key} 0"));
    record(&mut recorder, &imported);
    waiter.ok(&format!("synchronize {stream}"));
}

#[test]
fn a_record_comes_behind_the_work_of_its_stream() {
    const LEN: usize = 1 << 20;
    let (mut waiter, mut recorder) = (Other::on(0), Other::on(0));
    let (notify, imported) = shared(&mut waiter, &mut recorder);
    let addr = recorder.ok(&format!("malloc {LEN}"));
    let key = recorder.ok(&format!("export {addr} {LEN} 1"));
    let there = waiter.ok(&format!("import {key} 0"));
    let own = waiter.ok(&format!("malloc {LEN}"));
    let (records, waits) = (recorder.ok("stream"), waiter.ok("stream"));
    for seed in 1..10 {
        recorder.ok(&format!("block {records}"));
        recorder.ok(&format!("write-on {addr} {LEN} {seed} {records}"));
        recorder.ok(&format!("notify-record {imported} {records}"));
        waiter.ok(&format!("notify-wait {notify} {waits} 0"));
        waiter.ok(&format!("copy-on {own} {there} {LEN} {waits}"));
        recorder.ok(&format!("unblock {records}"));
        waiter.ok(&format!("synchronize {waits}"));
        assert_eq!(waiter.ok(&format!("holds {own} {LEN} {seed}")), "true", "kind {D2D}");
    }
}

// proves: Y9
#[test]
fn importers_record_and_nothing_else() {
    let (mut waiter, mut recorder) = (Other::on(0), Other::on(0));
    let (_, imported) = shared(&mut waiter, &mut recorder);
    for call in [
        format!("notify-wait {imported} 0 0"),
        format!("notify-wait {imported} 0 5"),
        format!("notify-reset {imported}"),
        format!("notify-key {imported} 2"),
        format!("notify-list {imported} 1"),
    ] {
        recorder.refused(&call, RT_PARAM_INVALID, "was imported");
    }
    record(&mut recorder, &imported);
}

// proves: Y8 Y9
#[test]
fn the_white_list_of_a_notify_decides() {
    let (mut waiter, mut first, mut second) = (Other::on(0), Other::on(0), Other::on(0));
    let notify = waiter.ok("notify");
    let before = format!("notify-list {notify} {}", first.pid());
    waiter.refused(&before, RT_PARAM_INVALID, "aclrtNotifyGetExportKey first");
    let key = waiter.ok(&format!("notify-key {notify} 0"));
    assert_eq!(key.len(), 64);
    let import = format!("notify-import {key} 0");
    first.refused(&import, DRV_INTERNAL_ERROR, "aclrtNotifySetImportPid");
    waiter.ok(&format!("notify-list {notify} {}", first.pid()));
    let imported = first.ok(&import);
    second.refused(&import, DRV_INTERNAL_ERROR, "white list");
    waiter.refused(&format!("notify-list {notify} 0"), RT_PARAM_INVALID, "pid[0] is 0");
    // The same key without a list: for all.
    assert_eq!(waiter.ok(&format!("notify-key {notify} 2")), key);
    let again = second.ok(&import);
    waiter.ok(&import);
    for (process, its) in [(&mut first, &imported), (&mut second, &again)] {
        waiter.ok(&format!("notify-wait {notify} 0 0"));
        record(process, its);
        waiter.ok("synchronize 0");
    }
}

// proves: Y9
#[test]
fn every_process_destroys_its_own() {
    let (mut waiter, mut recorder, mut late) = (Other::on(0), Other::on(0), Other::on(0));
    let (notify, imported) = shared(&mut waiter, &mut recorder);
    let key = waiter.ok(&format!("notify-key {notify} 2"));
    // An importer's: the others have theirs.
    let other = recorder.ok(&format!("notify-import {key} 0"));
    assert_ne!(imported, other);
    recorder.ok(&format!("notify-destroy {imported}"));
    recorder.refused(&format!("notify-record {imported} 0"), INVALID_HANDLE, "destroyed");
    waiter.ok(&format!("notify-wait {notify} 0 0"));
    record(&mut recorder, &other);
    waiter.ok("synchronize 0");
    // The exporter's: what is imported still takes records, nobody else imports it, and pending waits fail.
    waiter.ok(&format!("notify-wait {notify} 0 0"));
    waiter.ok("settle");
    waiter.ok(&format!("notify-destroy {notify}"));
    waiter.refused("synchronize 0", RT_PARAM_INVALID, "destroyed");
    record(&mut recorder, &other);
    late.refused(&format!("notify-import {key} 0"), RT_PARAM_INVALID, "knows nothing of that name");
    recorder.ok(&format!("notify-destroy {other}"));
    eventually("nobody watches the notify", || waiter.ok("threads ferry-bell") == "0");
}

#[test]
fn processes_that_die_hold_up_nobody() {
    let (mut waiter, mut recorder, mut third) = (Other::on(0), Other::on(0), Other::on(0));
    let (notify, imported) = shared(&mut waiter, &mut recorder);
    let key = waiter.ok(&format!("notify-key {notify} 2"));
    let far = third.ok(&format!("notify-import {key} 0"));
    // A record that was reached counts, though its process is gone; one that was not does not.
    record(&mut recorder, &imported);
    let stream = blocked_stream(&mut recorder);
    recorder.ok(&format!("notify-record {imported} {stream}"));
    let orphan = Orphan(recorder.ok("fork").parse().expect("a pid"));
    recorder.kill();
    waiter.ok(&format!("notify-wait {notify} 0 0"));
    waiter.ok("synchronize 0");
    waiter.ok(&format!("notify-wait {notify} 0 0"));
    stands(&mut waiter, "0");
    record(&mut third, &far);
    waiter.ok("synchronize 0");
    let files = || orphan.holds().iter().any(|name| name.contains("ferry:notify"));
    eventually("the child has none of it", || !files());
    // Without the process that waits, records go nowhere.
    waiter.kill();
    record(&mut third, &far);
    third.refused(&format!("notify-import {key} 0"), IPC_ERROR, "exporter is gone");
    third.ok(&format!("notify-destroy {far}"));
}

// proves: Y9
#[test]
fn a_child_can_use_neither_a_notify_of_its_parent_nor_one_that_was_imported() {
    let (mut waiter, mut recorder) = (Other::on(0), Other::on(0));
    let (notify, imported) = shared(&mut waiter, &mut recorder);
    waiter.ok(&format!("notify-wait {notify} 0 0"));
    stands(&mut waiter, "0");
    for (parent, its) in [(&mut waiter, &notify), (&mut recorder, &imported)] {
        let said = parent.ok(&format!("notify-child {its}"));
        assert_eq!(said, "0", "the call that was not refused, counted from 1");
        let orphan = Orphan(parent.ok("fork").parse().expect("a pid"));
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", orphan.0)).expect("it lives");
        assert!(!maps.contains("ferry:notify"), "{maps}");
        let files = || orphan.holds().iter().any(|name| name.contains("ferry:notify"));
        eventually("the child has no file of ours", || !files());
    }
    // Children recorded and destroyed nothing, and their end ended nothing.
    stands(&mut waiter, "0");
    record(&mut recorder, &imported);
    waiter.ok("synchronize 0");
    recorder.ok(&format!("notify-destroy {imported}"));
    waiter.ok(&format!("notify-destroy {notify}"));
}

#[test]
fn a_process_that_is_stopped_finds_every_record_when_it_goes_on() {
    let (mut waiter, mut recorder) = (Other::on(0), Other::on(0));
    let (notify, imported) = shared(&mut waiter, &mut recorder);
    let streams = [(); 3].map(|()| waiter.ok("stream"));
    for stream in &streams {
        waiter.ok(&format!("notify-wait {notify} {stream} 0"));
    }
    waiter.ok("settle");
    stop(&waiter);
    for _ in 0..2 {
        record(&mut recorder, &imported);
    }
    go_on(&waiter);
    waiter.ok(&format!("synchronize {}", streams[0]));
    waiter.ok(&format!("synchronize {}", streams[1]));
    stands(&mut waiter, &streams[2]);
    record(&mut recorder, &imported);
    waiter.ok(&format!("synchronize {}", streams[2]));
    // The recorder is stopped before its stream gets to the record.
    let records = blocked_stream(&mut recorder);
    recorder.ok(&format!("notify-record {imported} {records}"));
    waiter.ok(&format!("notify-wait {notify} 0 0"));
    stop(&recorder);
    stands(&mut waiter, "0");
    go_on(&recorder);
    recorder.ok(&format!("unblock {records}"));
    waiter.ok("synchronize 0");
}

#[test]
fn limits_aborts_and_resets_count_for_records_of_other_processes() {
    let (mut waiter, mut recorder) = (Other::on(0), Other::on(0));
    let (notify, imported) = shared(&mut waiter, &mut recorder);
    let [first, second] = [(); 2].map(|()| waiter.ok("stream"));
    waiter.ok(&format!("notify-wait {notify} {first} 1"));
    waiter.refused(&format!("synchronize {first}"), WAIT_TIMEOUT, "1 s");
    waiter.ok(&format!("notify-wait {notify} {first} 0"));
    waiter.ok(&format!("abort {first}"));
    assert_eq!(waiter.ask(&format!("synchronize {first}")).0, STREAM_ABORT);
    waiter.ok(&format!("notify-wait {notify} {second} 0"));
    record(&mut recorder, &imported);
    waiter.ok(&format!("synchronize {second}"));
    record(&mut recorder, &imported);
    waiter.ok(&format!("notify-reset {notify}"));
    waiter.ok(&format!("notify-wait {notify} {second} 0"));
    stands(&mut waiter, &second);
    record(&mut recorder, &imported);
    waiter.ok(&format!("synchronize {second}"));
}

// proves: Y8
#[test]
fn bad_keys_flags_and_lengths_are_refused() {
    use_device();
    let mut notify = 0;
    ok(aclrtCreateNotify(&mut notify, 0));
    let mut text = [7u8; 80];
    let at = text.as_mut_ptr().cast::<std::ffi::c_char>();
    for len in [0, 1, 64] {
        let code = aclrtNotifyGetExportKey(notify, at, len, 0);
        refused("too short", code, RT_PARAM_INVALID, &[&format!("len is {len}"), "65"]);
    }
    for flags in [1, 3, u64::MAX] {
        let code = aclrtNotifyGetExportKey(notify, at, 65, flags);
        refused("flags", code, RT_PARAM_INVALID, &[&format!("flags is {flags}")]);
    }
    refused("NULL", aclrtNotifyGetExportKey(0, at, 65, 0), INVALID_PARAM, &["notify is NULL"]);
    let code = aclrtNotifyGetExportKey(notify, std::ptr::null_mut(), 65, 0);
    refused("no room", code, INVALID_PARAM, &["key is NULL"]);
    assert_eq!(text, [7; 80], "nothing was written");
    ok(aclrtNotifyGetExportKey(notify, at, 80, 0));
    assert_eq!((text[64], text[65]), (0, 7), "65 bytes and no more");
    let exported = String::from_utf8_lossy(&text[..64]).into_owned();

    let mut imported = 0;
    for garbage in ["", "x", &"f".repeat(64), &exported[1..]] {
        let code = aclrtNotifyImportByKey(&mut imported, key(garbage).as_ptr(), 0);
        refused(garbage, code, RT_PARAM_INVALID, &["aclrtNotifyGetExportKey"]);
    }
    for flags in [1, 3] {
        let code = aclrtNotifyImportByKey(&mut imported, key(&exported).as_ptr(), flags);
        refused("flags", code, RT_PARAM_INVALID, &[&format!("flags is {flags}")]);
    }
    let memory_key = exported.replace("ferry-notify-export-key-", "ferry-device-memory-key-");
    let code = aclrtNotifyImportByKey(&mut imported, key(&memory_key).as_ptr(), 0);
    refused("a key of memory", code, RT_PARAM_INVALID, &["aclrtNotifyGetExportKey"]);
    let code = aclrtIpcMemImportByKey(&mut imported, key(&exported).as_ptr(), 0);
    refused("a key of a notify", code, RT_PARAM_INVALID, &["aclrtIpcMemGetExportKey"]);
    let (none, pid) = (std::ptr::null_mut(), &mut 1);
    refused("no array", aclrtNotifySetImportPid(notify, none, 1), INVALID_PARAM, &["pid is NULL"]);
    refused(
        "nobody",
        aclrtNotifySetImportPid(notify, pid, 0),
        RT_PARAM_INVALID,
        &["number of processes is 0"],
    );
    ok(aclrtDestroyNotify(notify));
}
