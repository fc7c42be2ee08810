//! `ferry bench --backend cuda --peers` over the stand-in driver: no GPU is needed, and no time means anything. What is looked
//! at is that the driver's own copies are asked for rightly: every byte that they moved was compared.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use command::{ferry, output, text};
use serde_json::Value;

mod command;

/// Batches as CUDA 12.8 documents them, which the stand-in has none of: one copy after the other, if all arguments make sense.
const BATCH: &str = r#"
#include <stddef.h>
#include <stdint.h>
#include <string.h>
int cuMemcpyAsync(size_t dst, size_t src, size_t len, void *stream);
struct attributes { uint32_t order; int32_t hints[4]; uint32_t flags; };

static int batch(size_t *dsts, size_t *srcs, size_t *sizes, size_t count, struct attributes *attributes, size_t *begins,
                 size_t kinds, size_t *failed, void *stream) {
    if (attributes->order != 1 || attributes->flags != 0 || kinds != 1 || begins[0] != 0 || !failed || !stream) return 1;
    for (size_t i = 0; i < count; i++)
        if (cuMemcpyAsync(dsts[i], srcs[i], sizes[i], stream)) return 1;
    return 0;
}

int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
    if (strcmp(name, "cuMemcpyBatchAsync") || version != 12080 || flags) return 500;
    *found = (void *)batch, *status = 0;
    return 0;
}
"#;

/// The folder of the stand-in, with or without batches, each built once.
fn stand_in(has_batches: bool) -> &'static Path {
    static BUILT: [OnceLock<PathBuf>; 2] = [OnceLock::new(), OnceLock::new()];
    BUILT[usize::from(has_batches)].get_or_init(|| build(has_batches))
}

fn build(has_batches: bool) -> PathBuf {
    let name = if has_batches { "with_batches" } else { "without_batches" };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let source = folder.join("batch.c");
    std::fs::write(&source, BATCH).expect("the source can be written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/standin/build.sh");
    let mut build = Command::new("sh");
    build.arg(script).arg(&folder);
    if has_batches {
        // An argument of the compiler like any other.
        build.env("CFLAGS", &source);
    }
    let built = build.output().expect("there is a shell");
    assert!(built.status.success(), "{}", text(&built.stderr));
    folder
}

fn report(has_batches: bool, plan: &str, args: &[&str]) -> Value {
    let mut command =
        ferry(&["bench", "--backend", "cuda", "--peers", "--json", "--spread", "8M", "-i", "1"]);
    command.args(args).env("LD_LIBRARY_PATH", stand_in(has_batches)).env("FERRY_CUDA_PLAN", plan);
    let run = output(&mut command);
    let report: Value = serde_json::from_slice(&run.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&run.stdout), text(&run.stderr)));
    assert!(run.status.success(), "{report:#}\n{}", text(&run.stderr));
    assert_eq!(report["missing_peers"], Value::Null);
    assert!(report["gpu"].as_str().is_some_and(|gpu| gpu.contains("CUDA ")), "{}", report["gpu"]);
    report
}

fn rows(report: &Value) -> &Vec<Value> {
    report["rows"].as_array().expect("a list of rows")
}

fn peers(row: &Value) -> Vec<&str> {
    let peers = row["peers"].as_array().unwrap_or_else(|| panic!("no peers: {row}"));
    peers.iter().filter_map(|peer| peer["name"].as_str()).collect()
}

#[test]
fn the_driver_itself_is_the_peer_and_the_processor_is_none() {
    let cases = [
        ("h2d/contiguous/4K", &["CUDA"][..]),
        ("d2h-pageable/contiguous/4K", &["CUDA"]),
        ("d2d/2d/w64", &["CUDA 2-D"]),
        ("h2d/batch/64x4K", &["CUDA loop", "CUDA batch"]),
        ("d2h/batches/100x1K", &["CUDA loop", "CUDA batch"]),
        ("h2d-pageable/batch/100x1K", &["CUDA loop"]),
        ("d2h/loop/1000x4K", &["CUDA loop"]),
        ("d2h/loop/submit/1000x4K", &["CUDA loop"]),
        ("desc/100x1K", &["CUDA loop", "CUDA batch"]),
        ("desc/device/100x1K", &["CUDA loop", "CUDA batch"]),
        ("roundtrip/64", &["CUDA"]),
        ("event/latency", &["CUDA"]),
    ];
    let args: Vec<&str> = cases.iter().flat_map(|(name, _)| ["-t", name]).collect();
    let report = report(true, "", &args);
    let rows = rows(&report);
    assert_eq!(rows.len(), cases.len());
    for (name, want) in cases {
        let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(peers(row), want, "{row}");
        for one in row["peers"].as_array().expect("peers").iter().chain([&row["ferry"]]) {
            assert!(
                one["verified_bytes"].as_u64() > Some(0) && one["median_us"].as_f64() > Some(0.0),
                "{row}"
            );
        }
    }
}

#[test]
fn a_driver_without_batches_is_said_to_have_none() {
    let report = report(false, "", &["-t", "h2d/batch/64x4K"]);
    let rows = rows(&report);
    assert_eq!(peers(&rows[0]), ["CUDA loop"]);
    assert!(
        rows[0]["note"].as_str().is_some_and(|note| note.contains("no cuMemcpyBatchAsync")),
        "{}",
        rows[0]
    );
}

#[test]
fn the_names_that_tune_uses_are_the_librarys_and_the_report_says_what_was_set() {
    let plan = "list_from=1,inline_most=0,engine_from=any,blocks_in=8,blocks_out=8,blocks_within=8,\
                rows_in_from=1,rows_in_most=any,rows_out_from=1,rows_out_most=any,rows_within_most=any";
    let report = report(false, plan, &["-t", "h2d/batch/16x4K", "-t", "d2h/2d/w64", "-b", "4K"]);
    assert_eq!(report["settings"]["FERRY_CUDA_PLAN"], plan);
}
