//! The steps of `cargo xtask test`: what each runs, and the table at the end.
//!
//! A step that fails does not stop the ones after it, so that one run shows everything that is wrong. A step
//! is skipped only when this machine lacks a tool, and then says which.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::needs::{self, Need};
use crate::outcome::Outcome;
use crate::shell::{self, cargo};
use crate::{
    abi, browser, check, ci, client, clients, count, deep, device, dist, mooncake, places, python, readme,
    requirements, shape, tools,
};

type Run = fn(&Path) -> Result<Outcome, String>;

struct Step {
    name: &'static str,
    what: &'static str,
    deep: bool,
    run: Run,
    needs: &'static [Need],
}

const fn step(name: &'static str, what: &'static str, run: Run) -> Step {
    Step { name, what, deep: false, run, needs: &[] }
}

const fn deep_step(name: &'static str, what: &'static str, run: Run) -> Step {
    Step { name, what, deep: true, run, needs: &[] }
}

impl Step {
    /// What it needs beside Rust and gcc, for the list of what will be installed.
    const fn with(mut self, needs: &'static [Need]) -> Step {
        self.needs = needs;
        self
    }
}

/// What Rust calls 64-bit Arm.
const ARM: &str = "aarch64-unknown-linux-gnu";
const PACKAGES: Need = Need::Python(&["maturin", "mypy", "numpy", "pytest", "xdist"]);
const BUILDER: Need = Need::Python(&["maturin"]);

const STEPS: &[Step] = &[
    step("fmt", "the code is formatted", |root| plain(root, "fmt --all --check")),
    step("shape", "imports, names, widths, traits and the map", |root| done(shape::check(root))),
    step("clippy", "no warnings", |root| plain(root, "clippy --workspace --all-targets -- -D warnings")),
    step("build", "everything builds", |root| plain(root, "build --workspace")),
    step("tests", "all tests", |root| plain(root, "test --workspace --no-fail-fast")),
    step("loom", "queue and fence under every interleaving", loom),
    step("abi", "headers, library and Rust types agree", |root| done(abi::run(root))),
    step("requirements", "every documented statement has its test", |root| done(requirements::check(root))),
    step("docs", "the documentation builds without warnings", docs),
    step("python", "the module acl, installed and tested", python::run).with(&[PACKAGES]),
    step("readme", "the README's programs compile and run", readme::run).with(&[BUILDER]),
    step("tour", "every function end to end, every byte verified", |root| {
        done(shell::run(&mut shell::cargo_for_release(root, "run --release -- tour")))
    }),
    step("dist", "what people install works, through pkg-config and CMake", dist::trial).with(&[
        BUILDER,
        Need::Tool(&tools::PKG_CONFIG),
        Need::Tool(&tools::CMAKE),
        Need::Make,
        Need::Program("zsh"),
    ]),
    step("client", "published bindings build against dist/ and move memory", client::run)
        .with(&[BUILDER, Need::Libclang]),
    step("aarch64", "the code compiles for 64-bit Arm, without a warning", aarch64)
        .with(&[Need::Target(ARM)]),
    step("count", "instructions of one submitted copy", count::run).with(&[Need::Program("valgrind")]),
    deep_step("standin", "the suite on the cuda backend, over a stand-in for its driver", device::stand_in)
        .with(&[Need::Python(&["numpy", "pytest"])]),
    deep_step(
        "clients",
        "torch_npu and published bindings, unmodified, on what people install",
        clients::run,
    )
    .with(&[BUILDER, Need::Libclang, Need::Torch]),
    deep_step(
        "mooncake",
        "two machines: Mooncake's wheels over loopback, every byte, and dead peers",
        mooncake::run,
    )
    .with(&[BUILDER, Need::Program("timeout")]),
    deep_step("ci", "the action and the Dockerfile for other projects, linted and run in a chroot", ci::run)
        .with(&[BUILDER, Need::Program("debootstrap")]),
    deep_step(
        "torch",
        "operators of device npu on the CPU: torch's database of them, models, examples",
        clients::operators,
    )
    .with(&[BUILDER, Need::Torch]),
    deep_step("browser", "the pages in a headless Chromium: what they draw, and how fast", browser::run)
        .with(&[Need::Program("chromium")]),
    deep_step("check", "ferry check on every twin of tests/check, the examples and the tour", check::run)
        .with(&[Need::Python(&["maturin", "numpy"])]),
    deep_step("tsan", "threaded tests under ThreadSanitizer", deep::thread_sanitizer)
        .with(&[Need::RustSource]),
    deep_step("pythons", "the module acl under every other Python that is here", python::run_others)
        .with(&[BUILDER, Need::Pythons(&["mypy", "numpy", "pytest", "xdist"])]),
    deep_step("places", "the README's commands as another user, on one CPU, in any folder", places::run),
    deep_step("soak", "24 threads, 1,000 streams, five minutes; 8 threads, 512 streams, watched", deep::soak),
    deep_step("fuzz", "2,000,000 calls of every kind on every product, each byte mirrored", deep::fuzz),
    deep_step("schedules", "the suites about order under late, early and shuffle", deep::schedules),
    deep_step("memcheck", "C programs under valgrind", deep::memcheck).with(&[Need::Program("valgrind")]),
];

/// The names of all steps, for messages.
pub fn names() -> String {
    let name = |step: &Step| format!("{}{}", step.name, if step.deep { " (deep)" } else { "" });
    STEPS.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Runs the steps in order and prints the table; an error when one of them failed. Naming a deep step runs
/// it.
pub fn run(root: &Path, deep: bool, only: &[&str]) -> Result<(), String> {
    if let Some(unknown) = only.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        return Err(format!("no step is called {unknown}; there are: {}", names()));
    }
    let wanted = |step: &&Step| match only {
        [] => deep || !step.deep,
        names => names.contains(&step.name),
    };
    let needs: Vec<Need> = STEPS.iter().filter(wanted).flat_map(|step| step.needs).copied().collect();
    needs::announce(root, &needs);
    let steps: Vec<&Step> = STEPS.iter().filter(wanted).collect();
    let place = |name: &str| steps.iter().position(|step| step.name == name);
    let mut ahead = None;
    let mut results = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        if place("tests") == Some(index) && place("python") > place("tests") {
            ahead = Some(BuildAhead::start(root));
        } else if place("python") == Some(index) {
            ahead = None;
        }
        results.push((step.name, timed(step, root)));
    }
    drop(ahead);
    summary(&results)
}

/// Builds what later steps want, while the tests run: they leave a processor idle at times, and linking takes
/// one of them alone. Nothing is said of what fails; the step that wants it does that.
struct BuildAhead(Option<JoinHandle<()>>);

impl BuildAhead {
    fn start(root: &Path) -> BuildAhead {
        let words = "build --release --locked --quiet --package ferry-capi --package ferry-cli";
        let builds =
            [shell::cargo_for_release(root, words), loom_tests(root, "--no-run"), count::bench(root)];
        BuildAhead(Some(thread::spawn(move || {
            for build in builds {
                // The tests go first.
                let mut nice = Command::new("nice");
                nice.args(["-n", "19"]).arg(build.get_program()).args(build.get_args());
                nice.envs(build.get_envs().filter_map(|(name, value)| Some((name, value?))));
                nice.current_dir(build.get_current_dir().unwrap_or(Path::new(".")));
                nice.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let _ = nice.status();
            }
        })))
    }
}

impl Drop for BuildAhead {
    fn drop(&mut self) {
        let _ = self.0.take().map(JoinHandle::join);
    }
}

type Timed = (Result<Outcome, String>, Duration);

fn timed(step: &Step, root: &Path) -> Timed {
    println!("\n==== {}: {} ====", step.name, step.what);
    let start = Instant::now();
    let result = (step.run)(root);
    let took = start.elapsed();
    let word = match &result {
        Ok(Outcome::Passed) => "passed".to_owned(),
        Ok(Outcome::Skipped(why)) => format!("skipped: {why}"),
        Err(why) => format!("FAILED: {why}"),
    };
    println!("---- {} {word} ({:.1} s)", step.name, took.as_secs_f32());
    (result, took)
}

fn summary(results: &[(&str, Timed)]) -> Result<(), String> {
    println!("\n==== summary ====");
    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), 0);
    for (name, (result, took)) in results {
        let word = match result {
            Ok(Outcome::Passed) => {
                passed += 1;
                "passed".to_owned()
            }
            Ok(Outcome::Skipped(why)) => {
                skipped += 1;
                format!("skipped: {why}")
            }
            Err(_) => {
                failed.push(*name);
                "FAILED".to_owned()
            }
        };
        println!("{name:<14}{:>8.1} s  {word}", took.as_secs_f32());
    }
    let total: Duration = results.iter().map(|(_, (_, took))| *took).sum();
    println!("{:<14}{:>8.1} s", "total", total.as_secs_f32());
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    let more = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    println!("{passed} passed, {} failed{more}", failed.len());
    // The table has said it all; the caller only needs the exit code.
    if failed.is_empty() { Ok(()) } else { std::process::exit(1) }
}

fn plain(root: &Path, words: &str) -> Result<Outcome, String> {
    done(shell::run(&mut cargo(root, words)))
}

fn done(result: Result<(), String>) -> Result<Outcome, String> {
    result.map(|()| Outcome::Passed)
}

fn loom(root: &Path) -> Result<Outcome, String> {
    // A filter that matches nothing passes; a renamed module must not silence this step.
    let list = shell::output(&mut loom_tests(root, "-- --list"))?;
    if !list.lines().any(|line| line.ends_with(": test")) {
        return Err("no test has loom in its name".into());
    }
    done(shell::run(&mut loom_tests(root, "")))
}

fn loom_tests(root: &Path, more: &str) -> Command {
    let mut command = cargo(root, "test -p ferry-backends --lib --release --target-dir");
    command.arg(shell::target_dir(root).join("loom")).arg("loom").args(more.split_whitespace());
    shell::add_rustflags(&mut command, "--cfg loom");
    // It runs for less time than it takes to compile it as what is installed.
    command.envs([("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")]);
    command
}

fn docs(root: &Path) -> Result<Outcome, String> {
    done(shell::run(cargo(root, "doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings")))
}

fn aarch64(root: &Path) -> Result<Outcome, String> {
    if !shell::rustup_has(&["target", "add", ARM], || shell::has_target(root, ARM)) {
        return Ok(Outcome::Skipped(format!(
            "Rust's {ARM} target is not installed and rustup could not add it"
        )));
    }
    let packages = "-p ferry-core -p ferry-backends -p ferry -p ferry-acl -p ferry-capi -p ferry-py";
    plain(root, &format!("clippy --target {ARM} {packages} -- -D warnings"))
}
