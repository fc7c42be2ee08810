//! Memory, events and notifies between processes: what is exported here is read and written there, who may,
//! and what remains when one of them dies.
//!
//! Most tests have two other processes, so that each has its memory for itself.

mod bad_input;
mod events;
mod notifies;
mod other;
mod shareable;

use ferry_tests::code::*;
use ferry_tests::kind::*;
use ferry_tests::*;
use other::{Orphan, Other};

const LEN: usize = 600_000;

/// Memory of an exporter: its address there, and its key.
fn exported(exporter: &mut Other, len: usize, flags: u64) -> (String, String) {
    let addr = exporter.ok(&format!("malloc {len}"));
    exporter.ok(&format!("write {addr} {len} 1"));
    let key = exporter.ok(&format!("export {addr} {len} {flags}"));
    (addr, key)
}

/// Asks the exporter until it has as much free memory as it had at first.
fn comes_back(exporter: &mut Other, all: usize) {
    eventually("the exporter's memory comes back", || exporter.free_bytes() == all);
}

#[test]
fn bytes_go_both_ways_and_everything_comes_back() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let all = exporter.free_bytes();
    let (addr, key) = exported(&mut exporter, LEN, 0);
    assert_eq!(key.len(), 64);
    exporter.ok(&format!("list {key} {}", importer.pid()));
    let there = importer.ok(&format!("import {key} 0"));
    assert_eq!(importer.ok(&format!("holds {there} {LEN} 1")), "true");
    importer.ok(&format!("write {there} {LEN} 2"));
    assert_eq!(exporter.ok(&format!("holds {addr} {LEN} 2")), "true");
    // Not one byte more than was exported, and not by aclrtFree.
    importer.refused(&format!("holds {there} {} 2", LEN + 1), RT_PARAM_INVALID, "leave their block");
    importer.refused(&format!("free {there}"), RT_PARAM_INVALID, "aclrtIpcMemClose");
    // Copies inside the importer's device, in both forms and with every fitting kind.
    let own = importer.ok(&format!("malloc {LEN}"));
    for kind in [D2D, DEFAULT, INNER] {
        importer.ok(&format!("copy {own} {there} {LEN} {kind}"));
        importer.ok(&format!("copy-async {there} {own} {LEN} {kind}"));
    }
    assert_eq!(importer.ok(&format!("holds {own} {LEN} 2")), "true");

    importer.ok(&format!("close {key}"));
    importer.refused(&format!("holds {there} 1 2"), RT_PARAM_INVALID, "freed 1 calls ago");
    importer.refused(&format!("close {key}"), RT_PARAM_INVALID, "neither exported nor imported");
    exporter.ok(&format!("close {key}"));
    exporter.refused(&format!("close {key}"), RT_PARAM_INVALID, "neither exported nor imported");
    exporter.ok(&format!("free {addr}"));
    comes_back(&mut exporter, all);
}

#[test]
fn a_part_of_an_allocation_is_all_that_travels() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let addr = exporter.ok(&format!("malloc {LEN}"));
    exporter.ok(&format!("write {addr} {LEN} 1"));
    let key = exporter.ok(&format!("export {addr} 100 1"));
    let there = importer.ok(&format!("import {key} 0"));
    importer.ok(&format!("write {there} 100 9"));
    importer.refused(&format!("write {there} 101 9"), RT_PARAM_INVALID, "leave their block");
}

#[test]
fn the_engines_addresses_of_imported_memory_are_nobodys() {
    const PAGES: usize = 1 << 20;
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let (addr, key) = exported(&mut exporter, PAGES, 1);
    importer.ok(&format!("import {key} 0"));
    // The kernel likes to place them right behind the user's, where a loop that runs too far finds them.
    let view = importer.mappings("ferry:device0-memory").into_iter().find(|view| view.len() == PAGES);
    let view = view.expect("a view of the imported memory").start;
    importer.refused(&format!("write {view} 64 9"), RT_PARAM_INVALID, "imported");
    importer.refused(&format!("holds {view} 64 9"), RT_PARAM_INVALID, "imported");
    assert_eq!(exporter.ok(&format!("holds {addr} {PAGES} 1")), "true");
}

#[test]
fn an_import_takes_one_descriptor_on_either_side() {
    const IMPORTS: usize = 20;
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let keys: Vec<String> = (0..IMPORTS).map(|_| exported(&mut exporter, 4096, 1).1).collect();
    let (exporters, importers) = (exporter.descriptors(), importer.descriptors());
    for key in &keys {
        importer.ok(&format!("import {key} 0"));
    }
    assert_eq!(importer.descriptors(), importers + IMPORTS);
    // And one for the process. The last one that was sent may still be on its way to be closed.
    eventually("the exporter's leases", || exporter.descriptors() == exporters + IMPORTS + 1);
    for key in &keys {
        importer.ok(&format!("close {key}"));
    }
    assert_eq!(importer.descriptors(), importers);
    eventually("the exporter's descriptors are closed", || exporter.descriptors() == exporters);
}

#[test]
fn an_exporter_without_descriptors_says_so() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let keys: Vec<String> = (0..3).map(|_| exported(&mut exporter, 4096, 1).1).collect();
    importer.ok(&format!("import {} 0", keys[0]));
    exporter.ok("use-up-descriptors 0");
    for key in &keys[1..] {
        importer.refused(&format!("import {key} 0"), IPC_ERROR, "its limit of open files");
    }
}

#[test]
fn the_white_list_decides() {
    let (mut exporter, mut first, mut second) = (Other::on(0), Other::on(0), Other::on(0));
    let (_, key) = exported(&mut exporter, LEN, 0);
    let import = format!("import {key} 0");
    first.refused(&import, NO_PERMISSION, "white list");
    exporter.ok(&format!("list {key} {}", second.pid()));
    first.refused(&import, NO_PERMISSION, "aclrtIpcMemSetImportPid");
    exporter.ok(&format!("list {key} {}", first.pid()));
    first.ok(&import);
    second.ok(&import);
    second.refused(&format!("list {key} {}", first.pid()), RT_PARAM_INVALID, "exported by this process");
    let (_, open) = exported(&mut exporter, 4096, 1);
    first.ok(&format!("import {open} 0"));
}

#[test]
fn the_exporter_may_import_too_if_it_is_listed() {
    let mut exporter = Other::on(0);
    let (addr, key) = exported(&mut exporter, LEN, 0);
    exporter.refused(&format!("import {key} 0"), NO_PERMISSION, "white list");
    exporter.ok(&format!("list {key} {}", exporter.pid()));
    let again = exporter.ok(&format!("import {key} 0"));
    assert_ne!(addr, again);
    exporter.ok(&format!("write {again} {LEN} 5"));
    assert_eq!(exporter.ok(&format!("holds {addr} {LEN} 5")), "true");
    // The first close is the importer's, the second the exporter's.
    exporter.ok(&format!("close {key}"));
    exporter.ok(&format!("import {key} 0"));
    exporter.ok(&format!("close {key}"));
    exporter.ok(&format!("close {key}"));
    exporter.refused(&format!("import {key} 0"), RT_PARAM_INVALID, "knows nothing of that name");
}

#[test]
fn imports_of_a_key_are_counted() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let all = exporter.free_bytes();
    let (addr, key) = exported(&mut exporter, LEN, 1);
    let (import, close) = (format!("import {key} 0"), format!("close {key}"));
    let descriptors = importer.descriptors();
    let there = importer.ok(&import);
    for _ in 0..3 {
        assert_eq!(importer.ok(&import), there, "one address for a key");
    }
    assert_eq!(importer.descriptors(), descriptors + 1, "and one lease");
    // It is here: what the exporter does from now on changes nothing.
    exporter.ok(&close);
    exporter.ok(&format!("free {addr}"));
    assert_eq!(importer.ok(&import), there);
    for _ in 0..4 {
        importer.ok(&close);
        assert_eq!(importer.ok(&format!("holds {there} {LEN} 1")), "true");
        assert!(exporter.free_bytes() < all, "the importer has it");
    }
    importer.ok(&close);
    importer.refused(&format!("holds {there} 1 1"), RT_PARAM_INVALID, "freed 1 calls ago");
    importer.refused(&close, RT_PARAM_INVALID, "neither exported nor imported");
    importer.refused(&import, RT_PARAM_INVALID, "closed");
    comes_back(&mut exporter, all);
}

#[test]
fn imports_of_an_exporter_are_counted_beside_its_export() {
    let mut exporter = Other::on(0);
    let (addr, key) = exported(&mut exporter, LEN, 1);
    let there = exporter.ok(&format!("import {key} 0"));
    assert_eq!(exporter.ok(&format!("import {key} 0")), there);
    assert_ne!(there, addr);
    // The first two are the importer's, the third the exporter's.
    exporter.ok(&format!("close {key}"));
    assert_eq!(exporter.ok(&format!("holds {there} {LEN} 1")), "true");
    exporter.ok(&format!("close {key}"));
    exporter.refused(&format!("holds {there} 1 1"), RT_PARAM_INVALID, "freed");
    exporter.ok(&format!("close {key}"));
    exporter.refused(&format!("close {key}"), RT_PARAM_INVALID, "neither exported nor imported");
    assert_eq!(exporter.ok(&format!("holds {addr} {LEN} 1")), "true");
}

#[test]
fn every_key_of_an_allocation_is_counted_by_itself() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let (addr, key) = exported(&mut exporter, LEN, 1);
    let second_key = exporter.ok(&format!("export {addr} {LEN} 1"));
    assert_ne!(key, second_key);
    let there = importer.ok(&format!("import {key} 0"));
    let again = importer.ok(&format!("import {second_key} 0"));
    assert_ne!(there, again);
    importer.ok(&format!("close {key}"));
    importer.refused(&format!("holds {there} 1 1"), RT_PARAM_INVALID, "freed");
    assert_eq!(importer.ok(&format!("holds {again} {LEN} 1")), "true");
    let there = importer.ok(&format!("import {key} 0"));
    assert_eq!(importer.ok(&format!("holds {there} {LEN} 1")), "true");
}

/// To enable peer access is part of the call, whoever imported the key before.
#[test]
fn a_second_import_enables_peer_access_too() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(1));
    let (_, key) = exported(&mut exporter, LEN, 1);
    let own = importer.ok(&format!("malloc {LEN}"));
    let there = importer.ok(&format!("import {key} 0"));
    importer.refused(&format!("copy-async {own} {there} {LEN} {D2D}"), RT_PARAM_INVALID, "eer");
    assert_eq!(importer.ok(&format!("import {key} 1")), there);
    importer.ok(&format!("copy-async {own} {there} {LEN} {D2D}"));
    assert_eq!(importer.ok(&format!("holds {own} {LEN} 1")), "true");
}

/// Bytes that have several addresses are copied onto themselves as memmove would.
fn overlapping(process: &mut Other, [to, from]: [&str; 2], what: &str) {
    const ALL: usize = 1 << 20;
    let [to, from] = [to, from].map(|addr| addr.parse::<usize>().expect("an address"));
    for shift in [1, 4096, 600_000] {
        for call in ["copy", "copy-async"] {
            let what = format!("{what}, {call} by {shift}");
            process.ok(&format!("write {from} {ALL} 1"));
            process.ok(&format!("{call} {} {from} {} {D2D}", to + shift, ALL - shift));
            assert_eq!(process.ok(&format!("holds {} {} 1", from + shift, ALL - shift)), "true", "{what} up");
            assert_eq!(process.ok(&format!("holds {from} {shift} 1")), "true", "{what} up, before it");
            // Pattern 1 lies behind `shift` bytes now, and comes back.
            process.ok(&format!("{call} {to} {} {} {D2D}", from + shift, ALL - shift));
            assert_eq!(process.ok(&format!("holds {from} {} 1", ALL - shift)), "true", "{what} down");
        }
    }
}

#[test]
fn copies_that_overlap_their_own_import_are_as_memmove() {
    const ALL: usize = 1 << 20;
    for device in [0, 1] {
        let mut exporter = Other::on(0);
        let (addr, key) = exported(&mut exporter, ALL, 1);
        // From another device all copies but one kind are refused; it must be the same bytes all the same.
        exporter.ok(&format!("device {device}"));
        let there = exporter.ok(&format!("import {key} {device}"));
        if device == 0 {
            overlapping(&mut exporter, [&there, &addr], "to the import");
            overlapping(&mut exporter, [&addr, &there], "from the import");
            continue;
        }
        let shifted = there.parse::<usize>().expect("an address") + 4096;
        exporter.ok(&format!("copy-async {shifted} {addr} {} {D2D}", ALL - 4096));
        let shifted = addr.parse::<usize>().expect("an address") + 4096;
        assert_eq!(exporter.ok(&format!("holds {shifted} {} 1", ALL - 4096)), "true", "from afar");
    }
}

#[test]
fn copies_between_two_imports_of_one_memory_are_as_memmove() {
    const ALL: usize = 1 << 20;
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let (addr, key) = exported(&mut exporter, ALL, 1);
    let keys = [key, exporter.ok(&format!("export {addr} {ALL} 1"))];
    let [first, second] = [0, 1].map(|index: usize| importer.ok(&format!("import {} 0", keys[index])));
    overlapping(&mut importer, [&first, &second], "two keys");
    // What is left has its bytes, whichever goes first.
    importer.ok(&format!("close {}", keys[0]));
    importer.ok(&format!("write {second} {ALL} 2"));
    assert_eq!(exporter.ok(&format!("holds {addr} {ALL} 2")), "true");
    let first = importer.ok(&format!("import {} 0", keys[0]));
    overlapping(&mut importer, [&second, &first], "two keys, the other way round");
    importer.ok(&format!("close {}", keys[1]));
    assert_eq!(importer.ok(&format!("holds {first} {ALL} 1")), "false", "the end was moved");
    assert_eq!(importer.ok(&format!("holds {first} {} 1", ALL - (600_000))), "true");
}

#[test]
fn importers_keep_what_the_exporter_closes_and_frees() {
    let (mut exporter, mut importer, mut late) = (Other::on(0), Other::on(0), Other::on(0));
    let all = exporter.free_bytes();
    // Closed, then freed.
    let (addr, key) = exported(&mut exporter, LEN, 1);
    let there = importer.ok(&format!("import {key} 0"));
    exporter.ok(&format!("close {key}"));
    late.refused(&format!("import {key} 0"), RT_PARAM_INVALID, "closed");
    exporter.ok(&format!("free {addr}"));
    fill_up(&mut exporter);
    assert_eq!(importer.ok(&format!("holds {there} {LEN} 1")), "true");
    assert!(exporter.free_bytes() < all, "the importer has it");
    importer.ok(&format!("close {key}"));
    comes_back(&mut exporter, all);

    // Freed without closing: lent no more, and no memory waits for the close.
    let (addr, key) = exported(&mut exporter, LEN, 1);
    let there = importer.ok(&format!("import {key} 0"));
    exporter.ok(&format!("free {addr}"));
    late.refused(&format!("import {key} 0"), RT_PARAM_INVALID, "freed");
    fill_up(&mut exporter);
    assert_eq!(importer.ok(&format!("holds {there} {LEN} 1")), "true");
    importer.ok(&format!("close {key}"));
    comes_back(&mut exporter, all);
    exporter.ok(&format!("close {key}"));

    // Nobody imported it at all.
    let (addr, _) = exported(&mut exporter, LEN, 1);
    exporter.ok(&format!("free {addr}"));
    comes_back(&mut exporter, all);
}

/// Uses freed memory for something else, even if its addresses rest for a while.
fn fill_up(exporter: &mut Other) {
    for _ in 0..300 {
        let other = exporter.ok(&format!("malloc {LEN}"));
        exporter.ok(&format!("write {other} 64 77"));
        exporter.ok(&format!("free {other}"));
    }
}

#[test]
fn a_killed_importer_holds_nothing() {
    let mut exporter = Other::on(0);
    let all = exporter.free_bytes();
    for forks in [false, true] {
        let mut importer = Other::on(0);
        let (addr, key) = exported(&mut exporter, LEN, 1);
        importer.ok(&format!("import {key} 0"));
        // A child has a copy of everything that is open, and lives on.
        let orphan = forks.then(|| Orphan(importer.ok("fork").parse().expect("a pid")));
        exporter.ok(&format!("free {addr}"));
        assert!(exporter.free_bytes() < all, "the importer is alive");
        importer.kill();
        comes_back(&mut exporter, all);
        drop(orphan);
    }
}

#[test]
fn a_child_of_the_importer_does_not_keep_what_the_importer_closes() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let all = exporter.free_bytes();
    let (addr, key) = exported(&mut exporter, LEN, 1);
    importer.ok(&format!("import {key} 0"));
    let _orphan = Orphan(importer.ok("fork").parse().expect("a pid"));
    exporter.ok(&format!("free {addr}"));
    importer.ok(&format!("close {key}"));
    comes_back(&mut exporter, all);
}

#[test]
fn a_killed_exporter_leaves_its_importers_their_memory() {
    for forks in [false, true] {
        let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
        let (_, key) = exported(&mut exporter, LEN, 1);
        let there = importer.ok(&format!("import {key} 0"));
        let orphan = forks.then(|| Orphan(exporter.ok("fork").parse().expect("a pid")));
        exporter.kill();
        assert_eq!(importer.ok(&format!("holds {there} {LEN} 1")), "true");
        importer.ok(&format!("write {there} {LEN} 4"));
        assert_eq!(importer.ok(&format!("holds {there} {LEN} 4")), "true");
        importer.ok(&format!("close {key}"));
        importer.refused(&format!("import {key} 0"), IPC_ERROR, "exporter is gone");
        drop(orphan);
    }
}

/// Memory that the exporter freed is kept for the importer until that has ended, and comes back then.
#[track_caller]
fn kept_until_the_importer_ends(exporter: &mut Other, mut importer: Other, there: &str, all: usize) {
    // Others' bytes do not come into it.
    let other = exporter.ok(&format!("malloc {LEN}"));
    exporter.ok(&format!("write {other} {LEN} 9"));
    exporter.ok(&format!("free {other}"));
    assert!(exporter.free_bytes() < all, "the importer is alive");
    assert_eq!(importer.ok(&format!("holds {there} {LEN} 1")), "true");
    importer.kill();
    comes_back(exporter, all);
}

#[test]
fn an_importer_that_closes_all_descriptors_keeps_its_memory() {
    if !on_host() {
        return; // the driver's descriptors, too, would be closed
    }
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let all = exporter.free_bytes();
    let (addr, key) = exported(&mut exporter, LEN, 1);
    let before = exporter.descriptors();
    let there = importer.ok(&format!("import {key} 0"));
    importer.ok("close-descriptors");
    // Of the import, the exporter keeps what tells it that the process has ended.
    eventually("the exporter hears that the connection is closed", || exporter.descriptors() == before + 1);
    exporter.ok(&format!("free {addr}"));
    kept_until_the_importer_ends(&mut exporter, importer, &there, all);
}

#[test]
fn an_exporter_that_closes_all_descriptors_keeps_what_it_lent() {
    if !on_host() {
        return; // the driver's descriptors, too, would be closed
    }
    let (mut exporter, mut importer, mut late) = (Other::on(0), Other::on(0), Other::on(0));
    let all = exporter.free_bytes();
    let (addr, key) = exported(&mut exporter, LEN, 1);
    let there = importer.ok(&format!("import {key} 0"));
    exporter.ok("close-descriptors");
    let (code, said) = late.ask(&format!("import {key} 0"));
    assert!(code == IPC_ERROR && said.contains("exporter"), "{code}: {said}");
    exporter.ok(&format!("free {addr}"));
    kept_until_the_importer_ends(&mut exporter, importer, &there, all);
}

#[test]
fn an_import_that_fails_holds_nothing() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let all = exporter.free_bytes();
    let (addr, key) = exported(&mut exporter, LEN, 1);
    // One for the connection, none for the memory that comes over it.
    importer.ok("use-up-descriptors 1");
    importer.refused(&format!("import {key} 0"), IPC_ERROR, "brings no such memory");
    exporter.ok(&format!("free {addr}"));
    comes_back(&mut exporter, all);
    importer.ok("memory"); // it lives
}

#[test]
fn an_exporter_listens_again_when_a_file_of_the_programs_has_taken_its_sockets_place() {
    if !on_host() {
        return; // the driver may have sockets of its own
    }
    let (mut exporter, mut importer, mut late) = (Other::on(0), Other::on(0), Other::on(0));
    let (_, key) = exported(&mut exporter, LEN, 1);
    importer.ok(&format!("import {key} 0"));
    let listeners = exporter.ok("listeners");
    assert_eq!(exporter.ok("replace-listener"), "true");
    importer.ok(&format!("close {key}"));
    eventually("the exporter listens again", || exporter.ok("listeners") == listeners);
    late.ok(&format!("import {key} 0"));
}

#[test]
fn a_child_of_a_process_that_ended_holds_none_of_its_memory() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(0));
    let (_, key) = exported(&mut exporter, LEN, 1);
    importer.ok(&format!("import {key} 0"));
    for mut parent in [exporter, importer] {
        let orphan = Orphan(parent.ok("fork").parse().expect("a pid"));
        parent.kill();
        let ours = |name: &String| name.contains("ferry:") || name.contains("socket:") && on_host();
        // The child closes them when it starts, which it may be about to.
        eventually("the child has neither memory nor exports nor leases", || {
            !orphan.holds().iter().any(ours)
        });
    }
}

// proves: X6
#[test]
fn memory_of_another_device_takes_part_in_few_copies() {
    let (mut exporter, mut importer) = (Other::on(0), Other::on(1));
    let (_, key) = exported(&mut exporter, LEN, 1);
    let own = importer.ok(&format!("malloc {LEN}"));
    let there = importer.ok(&format!("import {key} 0"));
    // Peer access is not enabled yet.
    importer.refused(&format!("copy-async {own} {there} {LEN} {D2D}"), RT_PARAM_INVALID, "eer");
    importer.ok(&format!("close {key}"));

    let there = importer.ok(&format!("import {key} 1"));
    importer.ok(&format!("copy-async {own} {there} {LEN} {D2D}"));
    assert_eq!(importer.ok(&format!("holds {own} {LEN} 1")), "true");
    importer.refused(&format!("holds {there} {LEN} 1"), RT_PARAM_INVALID, "another process");
    importer.refused(&format!("write {there} {LEN} 1"), RT_PARAM_INVALID, "another process");
    importer.refused(&format!("copy {own} {there} {LEN} {D2D}"), RT_PARAM_INVALID, "another process");
    importer.ok(&format!("copy-async {own} {there} {LEN} {DEFAULT}"));
    let host = importer.ok(&format!("malloc-host {LEN}"));
    for kind in [DEFAULT, D2H] {
        let to_host = format!("copy-async {host} {there} {LEN} {kind}");
        importer.refused(&to_host, RT_PARAM_INVALID, "another process");
    }
    // The owner's own device, made current, changes nothing: how it was imported counts.
    importer.ok(&format!("close {key}"));
    importer.ok("device 0");
    let there = importer.ok(&format!("import {key} 0"));
    assert_eq!(importer.ok(&format!("holds {there} {LEN} 1")), "true");
}

/// Processes that number devices differently mean the same device by what all of them call it.
#[test]
fn devices_are_compared_by_what_all_processes_call_them() {
    let seeing = |devices| [("ASCEND_RT_VISIBLE_DEVICES", devices)];
    let (mut exporter, mut near) = (Other::on(1), Other::with(0, &seeing("1")));
    let (_, key) = exported(&mut exporter, LEN, 1);
    let there = near.ok(&format!("import {key} 0"));
    assert_eq!(near.ok(&format!("holds {there} {LEN} 1")), "true");

    // It sees only the other device, so nothing has to be enabled, but far away it is.
    let mut blind = Other::with(0, &seeing("0"));
    let there = blind.ok(&format!("import {key} 1"));
    let own = blind.ok(&format!("malloc {LEN}"));
    blind.refused(&format!("holds {there} {LEN} 1"), RT_PARAM_INVALID, "another process");
    blind.ok(&format!("copy-async {own} {there} {LEN} {D2D}"));
    assert_eq!(blind.ok(&format!("holds {own} {LEN} 1")), "true");
}

/// This process imports here: it can hold a stream.
#[test]
fn closing_with_copies_queued_returns_at_once_and_the_bytes_wait_for_them() {
    use_device();
    let mut exporter = Other::on(0);
    let all = exporter.free_bytes();
    let (addr, key) = exported(&mut exporter, LEN, 1);
    let mut there = 0;
    ok(aclrtIpcMemImportByKey(&mut there, other::key(&key).as_ptr(), 0));
    let (own, stream) = (Memory::device(LEN), stream());
    let gate = block(stream);
    ok(aclrtMemcpyAsync(own.addr, LEN, there, LEN, D2D, stream));
    ok(aclrtMemsetAsync(there, LEN, 0, LEN, stream));
    ok(aclrtIpcMemClose(other::key(&key).as_ptr()));
    expect("a copy after the close", aclrtMemcpyAsync(own.addr, 1, there, 1, D2D, stream), RT_PARAM_INVALID);
    exporter.ok(&format!("free {addr}"));
    fill_up(&mut exporter);
    assert!(exporter.free_bytes() < all, "a copy is still going to write there");
    gate.unblock();
    finish(stream);
    own.assert_holds(&pattern(LEN, 1), "what was in the exporter's memory when the copy was submitted");
    // Any call that looks at memory gives back what is over; this one asks for it.
    eventually("the exporter's memory comes back", || {
        let (mut free, mut total) = (0, 0);
        ok(aclrtGetMemInfo(1, &mut free, &mut total));
        exporter.free_bytes() == all
    });
}

#[test]
fn threads_export_and_import_at_the_same_time() {
    const THREADS: usize = 8;
    const EACH: usize = 25;
    let export = |thread: usize| {
        use_device();
        let one = |index: usize| {
            let memory = Memory::holding(Home::Device, &pattern(4096, (thread * EACH + index) as u8));
            let (code, key) = other::export_key(memory.addr, 4096, 1);
            ok(code);
            (memory, key)
        };
        (0..EACH).map(one).collect::<Vec<_>>()
    };
    let threads: Vec<_> = (0..THREADS).map(|t| std::thread::spawn(move || export(t))).collect();
    let all: Vec<_> = threads.into_iter().flat_map(|t| t.join().expect("exports")).collect();
    let keys: std::collections::HashSet<_> = all.iter().map(|(_, key)| key.clone()).collect();
    assert_eq!(keys.len(), THREADS * EACH, "every key is new");

    // Two threads import everything: what both want is imported once, and counted twice.
    let import = |keys: Vec<String>| {
        use_device();
        let one = |key: &String| {
            let mut addr = 0;
            (aclrtIpcMemImportByKey(&mut addr, other::key(key).as_ptr(), 0), addr)
        };
        keys.iter().map(one).collect::<Vec<_>>()
    };
    let keys: Vec<_> = all.iter().map(|(_, key)| key.clone()).collect();
    let halves = [keys.clone(), keys].map(|keys| std::thread::spawn(move || import(keys)));
    let [first, second] = halves.map(|half| half.join().expect("imports"));
    use_device();
    for (index, (first, second)) in first.into_iter().zip(second).enumerate() {
        assert_eq!((first.0, second), (0, first), "key {index}");
        let memory = Memory { addr: first.1, len: 4096, home: Home::Device };
        memory.assert_holds(&pattern(4096, index as u8), "what its own thread exported");
    }
    for (memory, key) in all {
        let key = other::key(&key);
        // Two imports and the export.
        (0..3).for_each(|_| ok(aclrtIpcMemClose(key.as_ptr())));
        expect("closed as often as it can be", aclrtIpcMemClose(key.as_ptr()), RT_PARAM_INVALID);
        ok(memory.free());
    }
    assert!(blocked::sleepers("ferry-ipc") == 1, "one thread serves, and sleeps when nobody asks");
}
