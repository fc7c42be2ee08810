//! Runs `ferry bench` as a person would, with small sizes. No time is asserted: only that what it says is
//! there and right.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use command::{ferry, output, text};
use serde_json::Value;

mod command;

/// A run that is over in a moment.
fn bench(args: &[&str]) -> Output {
    output(ferry(&["bench", "--devices", "2", "--device-memory", "256M", "-i", "2"]).args(args))
}

fn json(args: &[&str]) -> (Output, Value) {
    let run = bench(&[args, &["--json"]].concat());
    let report = serde_json::from_slice(&run.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {}{}", text(&run.stdout), text(&run.stderr)));
    (run, report)
}

fn rows(report: &Value) -> &Vec<Value> {
    report["rows"].as_array().expect("a list of rows")
}

#[test]
fn the_list_names_every_kind_of_case() {
    let list = bench(&["-l"]);
    assert!(list.status.success());
    let list = text(&list.stdout);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for name in [
        "h2d/contiguous/512M",
        "h2d/2d/w16",
        "h2d/batch/4096x32K",
        "h2d/batch/64x4K",
        "h2d/batches/1024x16K",
        "h2d/loop/1000x4K",
        "h2d/loop/submit/1000x4K",
        "d2h/batches/1024x128K",
        "h2d/sync/4K",
        "d2h/loop/two-streams/1000x4K",
        "h2d/2d/random/50",
        "d2h/threads/8x512x4K",
        "duplex/contiguous/512M",
        "duplex/batches/4096x4K",
        "beside/h2d/batches/4096x4K",
        "fills/100x1000",
        "malloc/100x4M",
        "lock/alloc/1G",
        "join/64",
        "function/64",
        "d2h/2d/w64K",
        "d2d/contiguous/1G",
        "h2d/alignment/64K",
        "d2h/2d/w4K",
        "d2d/contiguous/1M",
        "d2d/2d/w16",
        "p2p/contiguous/1M",
        "h2d-pageable/batch/4096x4K",
        "d2h-pageable/contiguous/4K",
        "desc/4096x4K",
        "desc/device/4096x4K",
        "submit/64",
        "roundtrip/64",
        "roundtrip/64/after-10ms",
        "event/latency",
        "streams/1000",
        "outstanding/100000",
        "allocations/100000",
        "used/write/64K",
        "used/read/1M",
        "compute",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for line in list.lines() {
        assert!(line.split_whitespace().count() > 3, "a case without a word about it: {line}");
    }
}

#[test]
fn the_cost_of_checking_is_measured_in_one_run() {
    let cases = ["--checked", "-t", "h2d/contiguous/4K", "-t", "used/read/64K"];
    let (run, report) = json(&cases);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let names: Vec<_> = rows(&report).iter().map(|row| row["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["h2d/contiguous/4K", "used/read/64K"]);
    for row in rows(&report) {
        let [plain, checked] = ["plain_us", "checked_us"].map(|key| row[key].as_f64().expect("a time"));
        assert!(plain > 0.0 && checked > 0.0, "{row}");
    }
    for whose in ["plain", "checked", "command"] {
        assert!(report["memory"][whose].as_f64().is_some_and(|bytes| bytes > 0.0), "{whose}: {report}");
    }
}

#[test]
fn a_list_is_of_what_was_selected() {
    let list = text(&bench(&["-l", "-t", "roundtrip", "-t", "h2d/2d/w64", "-b", "4K"]).stdout);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["h2d/2d/w64", "roundtrip/4K", "roundtrip/4K/after-10ms"]);
}

#[test]
fn an_unknown_case_is_an_error_that_says_where_the_names_are() {
    let run = bench(&["-t", "h2d/sideways"]);
    assert_eq!(run.status.code(), Some(1));
    let errors = text(&run.stderr);
    assert!(errors.contains("\"h2d/sideways\"") && errors.contains("ferry bench -l"), "{errors}");
    assert_eq!(text(&run.stdout), "");
}

#[test]
fn only_a_gpu_has_a_plan_to_tune() {
    let run = bench(&["--tune"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("only the cuda backend has a plan"), "{}", text(&run.stderr));
    assert_eq!(text(&run.stdout), "");
}

#[test]
fn json_has_the_figures_of_every_contender_and_each_compared_its_bytes() {
    let (run, report) =
        json(&["-b", "3000", "-t", "h2d", "-t", "d2h", "-t", "d2d", "-t", "p2p", "-t", "h2d-pageable"]);
    assert!(run.status.success(), "{report:#}\n{}", text(&run.stderr));
    assert_eq!((&report["backend"], &report["samples"]), (&"host".into(), &2.into()));
    assert_eq!((&report["verified"], &report["missing_peers"]), (&true.into(), &Value::Null));
    assert_eq!(rows(&report).len(), 23 + 23 + 10 + 1 + 9);
    let is_about_bytes = |row: &&Value| !row["name"].as_str().is_some_and(|name| name.contains("/submit/"));
    for row in rows(&report).iter().filter(is_about_bytes) {
        let bytes = row["bytes"].as_u64().expect("bytes");
        let peers = row["peers"].as_array().expect("peers");
        let names: Vec<&str> = peers.iter().filter_map(|peer| peer["name"].as_str()).collect();
        let is_of = |series: &str| row["name"].as_str().is_some_and(|name| name.contains(series));
        let wanted = [
            ("/alignment/", &["memcpy"][..]),
            ("/sync/", &["memcpy"]),
            ("/random/", &["memcpy"]),
            ("/threads/", &[]),
            ("d2d/graph/", &["our loop"]),
            ("/graph/", &["our loop", "our batch"]),
            ("/", &["memcpy", "2 threads"]),
        ];
        let (_, want) = wanted.iter().find(|(series, _)| is_of(series)).expect("the last is of all");
        assert_eq!(names, *want, "{row}");
        // Before the samples and after them, and what lies around the copy as well; random matrices once, and
        // peers with the first of them.
        let is_random = is_of("/random/");
        let proofs = if is_random { 1 } else { 2 };
        assert!(row["ferry"]["verified_bytes"].as_u64() >= Some(proofs * bytes), "{row}");
        for one in peers.iter().chain([&row["ferry"]]) {
            assert!(is_random || one["verified_bytes"].as_u64() >= Some(2 * bytes), "{row}");
            let [low, median, high] = ["p10_us", "median_us", "p90_us"].map(|name| one[name].as_f64());
            assert!(low > Some(0.0) && low <= median && median <= high, "{row}");
            assert!(one["gb_per_s"].as_f64() > Some(0.0), "{row}");
        }
        assert!(peers.iter().all(|peer| peer["ratio"].as_f64() > Some(0.0)), "{row}");
    }
}

#[test]
fn calls_and_growth_are_times_without_a_rate() {
    let (run, report) = json(&["-t", "submit", "-t", "roundtrip", "-t", "event", "-t", "streams/10"]);
    assert!(run.status.success(), "{report:#}\n{}", text(&run.stderr));
    let peers: Vec<(&str, &str)> = rows(&report)
        .iter()
        .map(|row| (row["name"].as_str().expect("a name"), row["peers"][0]["name"].as_str().expect("a peer")))
        .collect();
    let expected = [
        ("submit/64", "thread"),
        ("roundtrip/64", "thread"),
        ("roundtrip/64/after-10ms", "thread"),
        ("event/latency", "thread"),
        ("streams/10", "one"),
    ];
    assert_eq!(peers, expected);
    for row in rows(&report) {
        assert_eq!(row["ferry"]["gb_per_s"], Value::Null, "{row}");
        assert_eq!(row["growth"], row["name"] == "streams/10", "{row}");
        assert_eq!(row["ferry"]["verified_bytes"], 2 * 64, "{row}");
    }
}

#[test]
fn a_loop_is_timed_as_a_whole_and_by_its_calls_and_descriptors_also_apart_from_theirs() {
    let (run, report) =
        json(&["-t", "h2d/loop", "-t", "d2d/loop", "-t", "desc/4096x1K", "-t", "desc/device/64x1K"]);
    assert!(run.status.success(), "{report:#}\n{}", text(&run.stderr));
    let seen: Vec<(&str, Option<u64>, usize)> = rows(&report)
        .iter()
        .map(|row| {
            let peers = row["peers"].as_array().expect("peers").len();
            (row["name"].as_str().expect("a name"), row["bytes"].as_u64(), peers)
        })
        .collect();
    let expected = [
        ("h2d/loop/1000x4K", Some(4_096_000), 2),
        ("h2d/loop/submit/1000x4K", Some(0), 0),
        ("h2d/loop/two-streams/1000x4K", Some(4_096_000), 2),
        ("d2d/loop/1000x4K", Some(4_096_000), 2),
        ("d2d/loop/submit/1000x4K", Some(0), 0),
        ("desc/4096x1K", Some(4 << 20), 2),
        ("desc/device/64x1K", Some(64 << 10), 2),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn what_has_several_rows_names_each_and_both_ways_count_twice() {
    let cases = [
        "duplex/contiguous/64K",
        "duplex/batches/64x1K",
        "d2h/threads/4x16x1K",
        "h2d/batch/30x1-4K",
        "d2h/batch/20x512+2x8K",
        "h2d/2d/w100p257:300h50",
        "fills/10x1000",
        "malloc/3x4K",
        "lock/alloc/64K",
        "lock/register/64K",
        "beside/h2d/batches/16x1K",
    ];
    let (run, report) = json(&cases.iter().flat_map(|case| ["-t", case]).collect::<Vec<_>>());
    assert!(run.status.success(), "{report:#}\n{}", text(&run.stderr));
    let seen: Vec<(&str, Option<u64>, Option<usize>)> = rows(&report)
        .iter()
        .map(|row| (name(row), row["bytes"].as_u64(), row["peers"].as_array().map(Vec::len)))
        .collect();
    let mixed = seen[3].1;
    assert!(mixed > Some(30) && mixed < Some(30 * 4096), "{seen:?}");
    let expected = [
        ("duplex/contiguous/64K", Some(128 << 10), Some(2)),
        ("duplex/batches/64x1K", Some(128 << 10), Some(2)),
        ("d2h/threads/4x16x1K", Some(64 << 10), Some(0)),
        ("h2d/batch/30x1-4K", mixed, Some(2)),
        ("d2h/batch/20x512+2x8K", Some(20 * 512 + 2 * 8192), Some(2)),
        ("h2d/2d/w100p257:300h50", Some(5000), Some(2)),
        ("fills/10x1000", Some(0), Some(1)),
        ("malloc/3x4K", Some(0), Some(0)),
        ("lock/alloc/64K/allocate", Some(64 << 10), Some(0)),
        ("lock/alloc/64K/free", Some(64 << 10), Some(0)),
        ("lock/register/64K/register", Some(64 << 10), Some(0)),
        ("lock/register/64K/unregister", Some(64 << 10), Some(0)),
        ("beside/h2d/batches/16x1K", None, None),
    ];
    assert_eq!(seen, expected);
    let (beside, measured) = rows(&report).split_last().expect("rows");
    assert!(beside["not_here"].as_str().is_some_and(|why| why.contains("a GPU and --peers")), "{beside}");
    for row in measured {
        assert!(row["ferry"]["verified_bytes"].as_u64() > Some(0), "{row}");
    }
}

#[test]
fn random_matrices_are_others_with_another_seed_and_can_be_named() {
    let shown = |seed: &str| {
        let (run, report) = json(&["--seed", seed, "-b", "5000", "-t", "h2d/2d/random/20"]);
        assert!(run.status.success(), "{report:#}\n{}", text(&run.stderr));
        let names: Vec<&str> = rows(&report).iter().map(name).collect();
        let places = ["worst", "2nd", "3rd", "4th", "5th", "p10", "p50"];
        assert_eq!(names, places.map(|place| format!("h2d/2d/random/20/{place}")));
        let ratio = |row: &Value| row["peers"][0]["ratio"].as_f64().expect("a ratio");
        assert!(rows(&report)[..5].is_sorted_by_key(ratio), "{report:#}");
        rows(&report)[0]["note"].as_str().expect("a matrix").to_owned()
    };
    let (one, other) = (shown("1"), shown("2"));
    assert_ne!(one, other);
    let (run, report) = json(&["-t", &format!("h2d/2d/{one}")]);
    assert!(run.status.success(), "{report:#}\n{}", text(&run.stderr));
}

#[test]
fn csv_has_a_line_per_contender_and_as_many_fields_as_names() {
    let run = bench(&["--csv", "-b", "64K", "-t", "h2d/contiguous", "-t", "d2h/2d/w256"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let csv = text(&run.stdout);
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][..3], ["case", "contender", "bytes"]);
    assert_eq!(lines.len(), 1 + 2 * 3, "{csv}");
    for line in &lines[1..] {
        assert_eq!(line.len(), lines[0].len(), "{csv}");
        assert_eq!(line[2], "65536", "{csv}");
        assert!(line[3..].iter().all(|field| field.parse::<f64>().is_ok()), "{csv}");
    }
    assert_eq!(lines[1][..2], ["h2d/contiguous/64K", "ferry"]);
}

#[test]
fn a_report_is_a_page_with_the_command_the_machine_and_every_result() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report <1>.html");
    std::fs::write(&file, "x".repeat(1 << 20)).expect("an older file");
    let path = file.to_str().expect("UTF-8");
    let run = bench(&["--report", path, "-t", "h2d/2d", "-b", "4K", "-t", "submit"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains("ferry GB/s"), "the table is printed as well: {}", text(&run.stdout));
    let page = std::fs::read_to_string(&file).expect("the page");
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"),
        "nothing of the older file is left"
    );
    assert!(page.contains("report &lt;1&gt;.html&#39; -t h2d/2d -b 4K"), "the command");
    let (_, data) = page.split_once("id=\"data\">").expect("the data");
    let data: Value = serde_json::from_str(data.split_once("</script>").expect("their end").0).expect("JSON");
    assert!(page.contains(data["processor"].as_str().expect("a processor")), "the machine");
    for row in rows(&data) {
        for name in std::iter::once("ferry").chain(row["peers"].as_array().into_iter().flatten().map(name)) {
            let title = format!("<title>{}, {name}: ", row["name"].as_str().expect("a name"));
            assert_eq!(page.matches(&title).count(), 1, "{title}");
        }
    }
}

fn name(peer: &Value) -> &str {
    peer["name"].as_str().expect("a name")
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_anything_is_measured() {
    let run = bench(&["--report", "/nowhere/report.html", "-t", "submit"]);
    assert_eq!(run.status.code(), Some(1));
    let errors = text(&run.stderr);
    assert!(errors.contains("--report /nowhere/report.html: No such file"), "{errors}");
    assert_eq!(text(&run.stdout), "");
    let full = bench(&["--report", "/dev/full", "-t", "submit"]);
    assert_eq!(full.status.code(), Some(1));
    assert!(text(&full.stderr).contains("--report /dev/full: No space"), "{}", text(&full.stderr));
    assert!(text(&bench(&["--help"]).stdout).contains("--report <FILE>"));
}

#[test]
fn the_table_says_what_its_numbers_mean_and_fits_in_100_columns() {
    let run = bench(&["-b", "4K", "-t", "h2d", "-t", "submit", "-t", "streams"]);
    let table = text(&run.stdout);
    assert!(run.status.success(), "{table}\n{}", text(&run.stderr));
    assert!(table.contains("every byte is compared") && table.contains("more is better"), "{table}");
    for word in ["h2d/2d", "w256", "memcpy", "2 threads", "thread", "ferry GB/s", "ferry us", "▁", "█"] {
        assert!(table.contains(word), "{word:?} is not in\n{table}");
    }
    assert!(!table.contains('\x1b'), "colours although this is no terminal");
    assert_eq!(text(&run.stderr), "", "progress although this is no terminal");
    for line in table.lines() {
        assert!(line.chars().count() <= 100, "too wide: {line}");
    }
}

#[test]
fn what_the_machine_has_no_room_for_is_said_and_is_no_failure() {
    let (run, report) = json(&["-t", "h2d/contiguous/512M", "-t", "h2d/batch/4096x1K"]);
    assert!(run.status.success(), "{report:#}");
    let [contiguous, batch] = &rows(&report)[..] else { panic!("{report:#}") };
    assert!(contiguous["not_here"].as_str().is_some_and(|why| why.contains("1.00 GiB")), "{contiguous}");
    assert!(
        batch["note"].as_str().is_some_and(|note| note.contains("scattered over 64.0 MiB only")),
        "{batch}"
    );
}

#[test]
fn one_device_has_no_peer_to_copy_to() {
    let run = output(&mut ferry(&["bench", "--devices", "1", "-i", "1", "-t", "p2p/contiguous/4K"]));
    let table = text(&run.stdout);
    assert!(run.status.success(), "{table}");
    assert!(table.contains("not here: needs 2 devices, there are 1"), "{table}");
}

#[test]
fn what_a_product_lacks_is_no_failure_but_on_the_usual_one_it_would_be() {
    let mut command = ferry(&["bench", "-i", "1", "--device-memory", "256M", "-b", "4K", "-t", "h2d/batch"]);
    let more = ["-t", "d2h/contiguous/4K", "-t", "d2d/2d/w16"];
    let run = output(command.args(more).env("FERRY_SOC", "Ascend310B1"));
    let table = text(&run.stdout);
    assert!(run.status.success(), "{table}\n{}", text(&run.stderr));
    assert_eq!(table.matches("not here: aclrtMemcpyBatchAsync").count(), 1, "{table}");
    assert_eq!(table.matches("not here: aclrtMemcpy2dAsync").count(), 1, "{table}");
    assert_eq!(table.matches("ferry GB/s").count(), 1, "{table}");
}

#[test]
fn without_verification_nothing_is_compared() {
    let (run, report) = json(&["--no-verify", "-t", "h2d/contiguous/4K"]);
    assert!(run.status.success(), "{report:#}");
    assert_eq!(report["verified"], false);
    assert_eq!(rows(&report)[0]["ferry"]["verified_bytes"], 0);
}

#[test]
fn a_peer_that_is_not_installed_is_named_with_its_packages_and_not_missed() {
    let mut command = ferry(&["bench", "-i", "1", "-t", "roundtrip/64", "--peers", "--json"]);
    // Where the loader is installed, it finds no platform in an empty list of vendors.
    let run = output(command.env("OCL_ICD_VENDORS", "/dev/null").env("OPENCL_VENDOR_PATH", "/dev/null"));
    assert!(run.status.success(), "{}", text(&run.stderr));
    let report: Value = serde_json::from_slice(&run.stdout).expect("it is JSON");
    for said in [text(&run.stderr), report["missing_peers"].as_str().unwrap_or_default().to_owned()] {
        assert!(said.contains("pocl-opencl-icd") && said.contains("ocl-icd-opencl-dev"), "{said:?}");
    }
    assert_eq!(rows(&report)[0]["peers"].as_array().map(Vec::len), Some(1), "{report:#}");
}

/// A library that is ours but for one function, which moves a byte too few or one to the wrong place.
fn broken_library(name: &str, body: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join(format!("{name}.c")), folder.join(format!("lib{name}.so")));
    let text_of = format!(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <acl/acl.h>\n\
         #define REAL(f) ((__typeof__(&f))dlsym(RTLD_NEXT, #f))\n{body}\n"
    );
    std::fs::write(&source, text_of).expect("the source can be written");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let real = Path::new(env!("CARGO_BIN_EXE_ferry")).with_file_name("deps");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu99", "-Wall", "-Werror", "-O1", "-shared", "-fPIC"]).arg("-I").arg(include);
    gcc.arg(&source).arg("-Wl,--no-as-needed").arg("-L").arg(&real).arg("-lascendcl");
    gcc.arg(format!("-Wl,-rpath,{}", real.display())).arg("-o").arg(&library);
    let compiled = gcc.output().expect("gcc is installed");
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    library
}

#[test]
fn a_byte_that_a_library_gets_wrong_fails_the_case() {
    let short = broken_library(
        "one_short",
        "aclError aclrtMemcpyAsync(void *dst, size_t room, const void *src, size_t count, aclrtMemcpyKind \
         kind,\n\
         aclrtStream stream) { return REAL(aclrtMemcpyAsync)(dst, room, src, count - 1, kind, stream); }",
    );
    let run = |more: &[&str]| {
        let mut command =
            ferry(&["bench", "-i", "1", "-b", "5000", "-t", "h2d/contiguous", "-t", "h2d/2d/w64"]);
        output(command.args(more).env("FERRY_LIBRARY", &short))
    };
    let checked = run(&["--json"]);
    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked.stderr));
    let report: Value = serde_json::from_slice(&checked.stdout).expect("it is JSON");
    let failed = rows(&report)[0]["failed"].as_str().expect("it failed");
    assert!(failed.starts_with("byte 4999 of what ferry copied: expected 0x"), "{failed}");
    assert!(failed.ends_with("saw 0xff"), "{failed}");
    assert!(rows(&report)[1]["ferry"]["median_us"].is_f64(), "the next case runs: {report:#}");
    assert!(text(&run(&[]).stdout).contains("FAILED: byte 4999"));
    assert_eq!(run(&["--no-verify"]).status.code(), Some(0));
}
