//! Writes the trace of a made program of any size, for the tests of the page in a browser:
//! `cargo run -p ferry-watch --example made_trace -- DIR OPS`.

use std::path::Path;

use ferry_watch::FactReader as _;
use ferry_watch::testing::busy;
use ferry_watch::trace::{TraceLimits, Tracer};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, ops] = args.as_slice() else {
        eprintln!("usage: made_trace DIR OPS");
        std::process::exit(2);
    };
    let ops = ops.parse().expect("a number of ops");
    let mut tracer = Tracer::new(TraceLimits::default());
    for (source, fact) in busy::facts(4711, ops) {
        tracer.take(source, &fact);
    }
    let files = ["upload.cpp", "train.py", "main.c"];
    let mut caller = |_, address: u64| {
        let file = files[address as usize / 16 % files.len()];
        Some(format!("{file}:{} in step", address / 16 % 97 + 10))
    };
    let summary = tracer.write(Path::new(dir), &mut caller).expect("the folder can be written");
    println!("{summary:?}");
}
