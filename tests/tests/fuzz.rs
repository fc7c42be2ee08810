//! The fuzz program of the C API on every product and form, each in a process of its own, since FERRY_SOC is
//! read once.
//!
//! `FERRY_FUZZ_CALLS=2000000` makes more calls in all, `FERRY_FUZZ_SEED=7` other ones, `FERRY_FUZZ_SKIP=70`
//! leaves so many runs out. A failure tells product, seed and call, and which acts are left when it is cut
//! down. Host backend only: there every freed and foreign address is recognised.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use ferry_tests::fuzz::{self, Report, Slip};
use ferry_tests::products::{ROWS, Row};
use ferry_tests::{on_host, pattern};

/// Acts after which everything is compared, given back and begun anew.
const ACTS: u64 = 1500;
/// Longest that these may take, in seconds: a hang ends the process.
const LIMIT: u32 = 300;
/// Runs that a failure is tried again with fewer acts.
const TRIES: usize = 200;
/// A line of progress after so many calls.
const PROGRESS: u64 = 100_000;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
        Err(_) => default,
    }
}

/// Accepted and refused calls by function.
type Counts = BTreeMap<String, [u64; 2]>;

/// Runs a part of this program as `row`; what it tells is passed on, or counted.
fn in_child(part: &str, row: &Row, calls: u64, strict: &str, counts: &mut Counts) {
    let mut child = Command::new(std::env::current_exe().expect("Linux knows which program runs"));
    child.args(["--ignored", "--exact", part, "--nocapture"]);
    child.env("FERRY_SOC", row.soc).env("FERRY_FORM", row.form).env("FERRY_FUZZ_CALLS", calls.to_string());
    child.env("FERRY_DEVICES", "2").env("FERRY_DEVICE_MEMORY", "256M").env("FERRY_STRICT", strict);
    child.env("RUST_BACKTRACE", "0");
    let mut child = child.stdout(Stdio::piped()).spawn().expect("this program can be started");
    let out = BufReader::new(child.stdout.take().expect("it was asked for"));
    let (mut passed, mut last) = (false, String::new());
    for line in out.lines().map_while(Result::ok) {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["function", name, accepted, refused] => {
                let sums = counts.entry(name.to_owned()).or_default();
                let more = [accepted, refused].map(|text| text.parse::<u64>().expect("a count"));
                *sums = [sums[0] + more[0], sums[1] + more[1]];
            }
            ["fuzz", ..] => println!("{line}"),
            ["run", ..] => last = line,
            _ => passed |= line.contains("1 passed"),
        }
    }
    let status = child.wait().expect("a child that was started");
    assert!(status.success() && passed, "{} {} {part}: {status} in {last}", row.soc, row.form);
}

#[test]
fn no_call_differs_on_any_product() {
    if !on_host() {
        return;
    }
    let (calls, mut counts) = (setting("FERRY_FUZZ_CALLS", 20_000), Counts::new());
    let each = calls.div_ceil(ROWS.len() as u64 + 1);
    for row in &ROWS {
        in_child("one_product", row, each, "0", &mut counts);
    }
    in_child("one_product", &ROWS[0], each, "1", &mut counts);
    println!("{:<36}{:>10}{:>10}", "function", "accepted", "refused");
    for (name, [accepted, refused]) in &counts {
        println!("{name:<36}{accepted:>10}{refused:>10}");
    }
    let [accepted, refused] = counts.values().fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    println!(
        "{} calls of {} functions: {accepted} accepted, {refused} refused",
        accepted + refused,
        counts.len()
    );
    assert!(
        accepted + refused >= calls && accepted > calls / 3 && refused > calls / 10,
        "calls that test little"
    );
    assert!(counts.len() > 75, "only {} functions were called", counts.len());
}

/// A child's part.
#[test]
#[ignore = "run by no_call_differs_on_any_product"]
fn one_product() {
    let (row, calls) = (Row::current(), setting("FERRY_FUZZ_CALLS", 2_500));
    let (mut all, mut next) = (Report::default(), PROGRESS);
    let first = (setting("FERRY_FUZZ_SEED", 1) << 32) + ACTS * setting("FERRY_FUZZ_SKIP", 0);
    let mut seed = first;
    while all.calls < calls {
        all.add(&one_run(row, seed));
        seed += ACTS;
        if all.calls >= next {
            println!("fuzz {} {}: {} of {calls} calls", row.soc, row.form, all.calls);
            next += PROGRESS;
        }
    }
    let [accepted, refused] = all.totals();
    println!(
        "fuzz {} {}: {} calls, {accepted} accepted, {refused} refused, {} left to race, {} bytes compared, \
         acts {first:#x} to {seed:#x}",
        row.soc, row.form, all.calls, all.races, all.bytes
    );
    for (name, [accepted, refused]) in &all.functions {
        println!("function {name} {accepted} {refused}");
    }
}

fn one_run(row: &Row, seed: u64) -> Report {
    println!("run from {seed:#x}");
    // SAFETY: the signal ends this process, whose parent then knows why.
    unsafe { libc::alarm(LIMIT) };
    let seeds: Vec<_> = (seed..seed + ACTS).collect();
    fuzz::acts(&seeds, None).unwrap_or_else(|difference| {
        // SAFETY: as above; what follows takes long and is no hang.
        unsafe { libc::alarm(0) };
        eprintln!("{} {}, acts from {seed:#x}: {difference}", row.soc, row.form);
        let least = fuzz::shrink(&seeds, None, TRIES);
        let cut = fuzz::acts(&least, None).err();
        let cut = cut.map_or_else(|| "not seen again".to_owned(), |difference| difference.to_string());
        panic!("cut down to acts {least:x?}: {cut}")
    })
}

/// A byte string drives the program as far as it reaches, as a coverage-guided fuzzer would have it.
#[test]
fn bytes_drive_the_program() {
    if on_host() {
        in_child("some_bytes", &ROWS[0], 0, "0", &mut Counts::new());
    }
}

/// A child's part.
#[test]
#[ignore = "run by bytes_drive_the_program"]
fn some_bytes() {
    for (len, seed) in [(0, 0), (1, 1), (700, 2), (3000, 3), (3000, 4)] {
        fuzz::bytes(&pattern(len, seed));
    }
}

/// What the program would not notice, it could not prove.
#[test]
fn slips_are_found_out() {
    if on_host() {
        in_child("every_slip", &ROWS[0], 0, "0", &mut Counts::new());
    }
}

/// A child's part.
#[test]
#[ignore = "run by slips_are_found_out"]
fn every_slip() {
    for slip in Slip::ALL {
        let found = (0..40).find_map(|i| {
            let seeds: Vec<_> = (i << 16..(i << 16) + ACTS).collect();
            fuzz::acts(&seeds, Some(slip)).err()
        });
        let found = found.unwrap_or_else(|| panic!("{slip:?} went unnoticed"));
        println!(
            "fuzz {slip:?} is found by call {}: {}",
            found.call,
            found.what.lines().next().unwrap_or_default()
        );
    }
}
