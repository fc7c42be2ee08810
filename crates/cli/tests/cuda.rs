//! `ferry bench --backend cuda --peers` and `ferry tour --backend cuda` over the stand-in driver: no GPU is
//! needed, and no time means anything. What is looked at is that the driver's own copies are asked for
//! rightly: every byte that they moved was compared.

use command::{ferry, output, text};
use serde_json::Value;
use standin::stand_in;

mod command;
#[path = "command/standin.rs"]
mod standin;

#[test]
fn the_tour_asks_nothing_of_memory_that_the_driver_keeps() {
    let mut tour = ferry(&["tour", "--quick", "--backend", "cuda"]);
    let tour = output(tour.env("LD_LIBRARY_PATH", stand_in()).env("STANDIN_KEEP", "32768"));
    assert!(tour.status.success(), "{}\n{}", text(&tour.stdout), text(&tour.stderr));
}

fn report(has_batches: bool, plan: &str, args: &[&str]) -> Value {
    let mut command =
        ferry(&["bench", "--backend", "cuda", "--peers", "--json", "--spread", "8M", "-i", "1"]);
    command.args(args).env("LD_LIBRARY_PATH", stand_in()).env("FERRY_CUDA_PLAN", plan);
    if !has_batches {
        // The library asks for them first, and the peer then.
        command.env("STANDIN_FAIL", "cuGetProcAddress:2:500");
    }
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
        ("join/64", &["CUDA"]),
        ("function/64", &["CUDA"]),
        ("h2d/sync/4K", &["CUDA"]),
        ("d2h/sync/4K", &["CUDA"]),
        ("h2d-pageable/sync/4K", &["CUDA"]),
        ("d2h-pageable/sync/4K", &["CUDA"]),
        ("h2d/loop/two-streams/100x1K", &["CUDA loop"]),
        ("duplex/contiguous/64K", &["CUDA"]),
        ("duplex/batches/64x1K", &["CUDA loop", "CUDA batch"]),
        ("d2h/threads/4x16x1K", &["CUDA loop", "CUDA batch"]),
        ("h2d/batch/100x1-4K", &["CUDA loop", "CUDA batch"]),
        ("d2h/batch/60x512+3x64K", &["CUDA loop", "CUDA batch"]),
        ("d2h/2d/w100p257:300h50", &["CUDA 2-D"]),
        ("fill/words/4K", &["CUDA"]),
        ("fills/10x1000", &["CUDA"]),
        ("malloc/3x4K", &["CUDA"]),
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
fn page_locking_and_random_matrices_are_beside_the_driver() {
    let args = ["-t", "lock/alloc/64K", "-t", "lock/register/64K", "-t", "d2h/2d/random/8", "-b", "4000"];
    let report = report(true, "", &args);
    for row in rows(&report) {
        let is_matrix = row["name"].as_str().is_some_and(|name| name.contains("/random/"));
        assert_eq!(peers(row), if is_matrix { ["CUDA 2-D"] } else { ["CUDA"] }, "{row}");
        assert!(row["ferry"]["verified_bytes"].as_u64() > Some(0), "{row}");
    }
    assert_eq!(rows(&report).len(), 2 + 2 + 7, "{report:#}");
}

#[test]
fn copies_beside_products_are_compared_and_so_are_the_products() {
    // The processor takes the place of the GPU: small matrices.
    let product = ["--matrix", "256", "--cublas", "none"];
    let report = report(true, "", &[&product[..], &["-t", "beside/d2h/batches/64x1K"]].concat());
    let rows = rows(&report);
    let names = ["copies/alone", "copies/beside", "product/alone", "product/beside"];
    let named: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(named, names.map(|name| format!("beside/d2h/batches/64x1K/{name}")));
    for row in rows {
        let is_of = |part: &str| row["name"].as_str().is_some_and(|name| name.contains(part));
        assert_eq!(peers(row), ["CUDA batch", "CUDA copy"], "{row}");
        for one in row["peers"].as_array().expect("peers").iter().chain([&row["ferry"]]) {
            // Once beside a product and once without.
            assert_eq!(one["verified_bytes"], 16 << 20, "{row}");
            assert_eq!(one["gb_per_s"].is_f64(), is_of("/copies/"), "{row}");
            assert_eq!(one["tflop_per_s"].is_f64(), is_of("/product/"), "{row}");
            assert_eq!(one["product_loss_percent"]["median"].is_f64(), is_of("/product/beside"), "{row}");
        }
    }
    assert!(
        rows[0]["note"].as_str().is_some_and(|note| note.contains("256 x 256 by a kernel")),
        "{}",
        rows[0]
    );
    assert!(rows[3]["note"].as_str().is_some_and(|note| note.contains("lost: ferry ")), "{}", rows[3]);
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
    let plan = "list_from=1,inline_most=0,engine_from=any,together_size=any,together_from=any,blocks_in=8,blocks_out=8,blocks_within=8,\
                rows_in_from=1,rows_in_most=any,rows_out_from=1,rows_out_most=any,rows_within_most=any";
    let report = report(false, plan, &["-t", "h2d/batch/16x4K", "-t", "d2h/2d/w64", "-b", "4K"]);
    assert_eq!(report["settings"]["FERRY_CUDA_PLAN"], plan);
}
