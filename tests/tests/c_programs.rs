//! Builds every program of `tests/c` and `examples/c` with a C compiler, links it with the `libascendcl.so`
//! that belongs to this test, and runs it.
//!
//! A program passes when it ends with 0 and its last line begins with `ok:`. The executables stay in
//! `target/c-programs`, where valgrind can have them. What a program proves stands at its top.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// A safety net and no measurement: nothing here takes a tenth of it, and a program that hangs has to end
/// somehow.
const LIMIT: Duration = Duration::from_secs(180);

const FLAGS: [&str; 7] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g", "-pthread"];

macro_rules! programs {
    ($($name:ident: $path:literal,)*) => {
        /// Every program there is, by its path from the root of the repository.
        const PROGRAMS: &[&str] = &[$($path),*];
        $(
            #[test]
            fn $name() {
                run(&build(Language::C99, $path), &[]);
            }
        )*
    };
}

programs! {
    app_log: "tests/c/app_log.c",
    base_header: "tests/c/base_header.c",
    batch: "tests/c/batch.c",
    batch_async: "tests/c/batch_async.c",
    callback_leaves: "tests/c/callback_leaves.c",
    callbacks: "tests/c/callbacks.c",
    cancel: "tests/c/cancel.c",
    companion_headers: "tests/c/companion_headers.c",
    contexts: "tests/c/contexts.c",
    desc: "tests/c/desc.c",
    destructors: "tests/c/destructors.c",
    devices: "tests/c/devices.c",
    errors: "tests/c/errors.c",
    events: "tests/c/events.c",
    exit_in_flight: "tests/c/exit_in_flight.c",
    ferry_ext: "tests/c/ferry_ext.c",
    fork: "tests/c/fork.c",
    fork_handlers: "tests/c/fork_handlers.c",
    graphs: "tests/c/graphs.c",
    host_func: "tests/c/host_func.c",
    ipc: "tests/c/ipc.c",
    sent_signals: "tests/c/sent_signals.c",
    keys: "tests/c/keys.c",
    keys_late: "tests/c/keys_late.c",
    main_leaves: "tests/c/main_leaves.c",
    memcpy: "tests/c/memcpy.c",
    memcpy2d: "tests/c/memcpy2d.c",
    memcpy2d_async: "tests/c/memcpy2d_async.c",
    memcpy_async: "tests/c/memcpy_async.c",
    memory: "tests/c/memory.c",
    memset: "tests/c/memset.c",
    notifies: "tests/c/notifies.c",
    offset: "tests/c/offset.c",
    reduce: "tests/c/reduce.c",
    rt: "tests/c/rt.c",
    stale_handles: "tests/c/stale_handles.c",
    stopping: "tests/c/stopping.c",
    streams: "tests/c/streams.c",
    threads: "tests/c/threads.c",
    with_condition: "tests/c/with_condition.c",
    example_01_copy_2d: "examples/c/01-copy-2d.c",
    example_02_with_condition: "examples/c/02-with-condition.c",
    example_03_batch: "examples/c/03-batch.c",
    example_04_descriptor: "examples/c/04-descriptor.c",
    example_05_streams_and_events: "examples/c/05-streams-and-events.c",
    example_06_two_processes: "examples/c/06-two-processes.c",
    example_12_graph: "examples/c/12-graph.c",
}

#[test]
fn every_program_has_a_test() {
    let mut there: Vec<String> = ["tests/c", "examples/c"].into_iter().flat_map(c_files).collect();
    let mut tested: Vec<String> = PROGRAMS.iter().map(|path| path.to_string()).collect();
    there.sort();
    tested.sort();
    assert_eq!(tested, there, "the list above and the folders differ");
}

#[test]
fn the_headers_serve_cxx_too() {
    run(&build(Language::Cxx11, "tests/c/memcpy.c"), &[]);
}

#[test]
fn companion_libraries() {
    let (deps, path) = (deps(), "tests/clients/companions.c");
    let mut build = Command::new("sh");
    build.current_dir(root()).arg("crates/companions/build.sh").arg(&deps);
    let output = build.output().expect("a shell");
    assert!(output.status.success(), "the companions do not build:\n{}", said(&output));
    // As torch_npu is linked; none of them may be dropped.
    let libraries = ["hccl", "ascendcl", "acl_op_compiler", "ge_runner", "graph", "acl_tdt_channel"];
    let flags: Vec<String> = libraries.iter().map(|name| format!("-l{name}")).collect();
    let program =
        build_with(Language::C99, path, &[&["-Wl,--no-as-needed,-z,now".to_owned()], &flags[..]].concat());
    run(&program, &[]);
    run(&program, &[("FERRY_DEVICES", "2")]);
}

#[test]
fn an_exception_that_leaves_a_function_is_named() {
    run(&build(Language::Cxx11, "tests/c/throws.cc"), &[]);
}

// proves: R18 R78
#[test]
fn rectangles_and_descriptors_work_on_910b_and_910c() {
    for path in ["tests/c/memcpy2d_async.c", "tests/c/desc.c"] {
        for soc in ["Ascend910B1", "Ascend910_9391"] {
            run(&build(Language::C99, path), &[("FERRY_SOC", soc)]);
        }
    }
}

#[derive(Clone, Copy)]
enum Language {
    C99,
    Cxx11,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests are a folder of the workspace")
        .to_path_buf()
}

/// The folder that holds this test and the library it was built with: `target/<profile>/deps`.
fn deps() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    test.parent().expect("a program is in a folder").to_path_buf()
}

fn c_files(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let names = entries
        .map(|entry| entry.expect("a readable folder").file_name().into_string().expect("a plain name"));
    names.filter(|name| name.ends_with(".c")).map(|name| format!("{folder}/{name}")).collect()
}

/// Compiles and links one program with every warning an error, and says where it is.
fn build(language: Language, path: &str) -> PathBuf {
    build_with(language, path, &[])
}

/// The same with more to link.
fn build_with(language: Language, path: &str, more: &[String]) -> PathBuf {
    static BUILDS: AtomicUsize = AtomicUsize::new(0);
    let (compiler, standard, suffix) = match language {
        Language::C99 => ("gcc", "-std=c99", ""),
        Language::Cxx11 => ("g++", "-std=c++11", "-cxx"),
    };
    let deps = deps();
    assert!(deps.join("libascendcl.so").exists(), "no libascendcl.so beside the test, in {}", deps.display());
    let folder = deps.ancestors().nth(2).expect("target/<profile>/deps").join("c-programs");
    fs::create_dir_all(&folder).expect("a writable target folder");
    let stem = Path::new(path).file_stem().expect("a file").to_str().expect("a plain name");
    let program = folder.join(format!("{stem}{suffix}"));

    // Under another name first: two tests may want the same program, and one may be running it already.
    let number = BUILDS.fetch_add(1, Ordering::Relaxed);
    let fresh = folder.join(format!(".{stem}{suffix}.{}.{number}", std::process::id()));
    let mut command = Command::new(compiler);
    command.current_dir(root()).args(FLAGS).arg(standard);
    if let Language::Cxx11 = language {
        command.args(["-x", "c++"]);
    }
    // As needed: one program loads the library by itself.
    command
        .args(["-Iinclude", path, "-x", "none", "-Wl,--as-needed", "-lascendcl", "-ldl", "-o"])
        .arg(&fresh);
    command.arg("-L").arg(&deps).arg(format!("-Wl,-rpath,{}", deps.display())).args(more);
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {compiler}: {error}"));
    assert!(output.status.success(), "{compiler} refuses {path}:\n{}", said(&output));
    fs::rename(&fresh, &program).expect("the program that was just made");
    program
}

/// Runs a program to its end. One at a time: some of them fill a device with streams, and all of them have
/// threads.
fn run(program: &Path, settings: &[(&str, &str)]) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(program);
    // The rpath decides which library it is, and what is set around the tests decides nothing but the backend
    // and its devices.
    command.env_remove("LD_LIBRARY_PATH");
    for (name, _) in std::env::vars_os() {
        let is_kept = name == "FERRY_BACKEND" || name == "FERRY_DEVICES";
        if name.as_encoded_bytes().starts_with(b"FERRY_") && !is_kept {
            command.env_remove(name);
        }
    }
    command.envs(settings.iter().copied());
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
    let group = i32::try_from(child.id()).expect("a process id");

    let (done, ended) = mpsc::channel();
    thread::spawn(move || done.send(child.wait_with_output()));
    let (output, hung) = match ended.recv_timeout(LIMIT) {
        Ok(output) => (output, false),
        Err(_) => {
            // SAFETY: `kill` takes two numbers and touches no memory; the group is the child's own.
            unsafe { libc::kill(-group, libc::SIGKILL) };
            (ended.recv().expect("the waiting thread sends once"), true)
        }
    };
    let output = output.expect("the child's output");
    let what = format!("{} {settings:?}", program.display());
    assert!(!hung, "{what} still ran after {LIMIT:?}:\n{}", said(&output));
    assert_eq!(output.status.signal(), None, "{what} was ended by a signal:\n{}", said(&output));
    assert_eq!(output.status.code(), Some(0), "{what} failed:\n{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("ok:"), "{what} did not get to its last line:\n{}", said(&output));
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
