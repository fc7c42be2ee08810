//! `ferry record`, `ferry replay` and `ferry diff` on a program in C.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use command::{ferry, output, text};
use compile::compile;
use ferry_watch::fact::Origin;
use ferry_watch::recording::{RecordedWait, RecordedWork, Recording, StepAction, read};

mod command;
#[path = "command/compile.rs"]
mod compile;

/// Two threads, each with a stream; rows, pageable and registered memory, a fill, events, a function. It
/// exits with 7 if asked to copy less.
const PROGRAM: &str = r#"
#include <acl/acl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
enum { SIZE = 8192 };
#define UP ACL_MEMCPY_HOST_TO_DEVICE
#define DOWN ACL_MEMCPY_DEVICE_TO_HOST
#define OK(call) do { if (call) exit(90); } while (0)
static char *host, *back, *device, *other, registered[SIZE] __attribute__((aligned(4096)));
static aclrtEvent event;
static int rounds = 10;
static void nothing(void *data) { (void)data; }
static void *work(void *unused) {
    aclrtStream stream = NULL;
    char ordinary[100];
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtStreamWaitEvent(stream, event));
    for (int i = 0; i < rounds; i++) {
        OK(aclrtMemcpyAsync(back + i * 64, 64, device + i * 64, 64, DOWN, stream));
        memset(ordinary, i, sizeof ordinary);
        OK(aclrtMemcpyAsync(other, SIZE, ordinary, sizeof ordinary, UP, stream));
    }
    OK(aclrtMemcpyAsync(other + 4096, 4096, registered, 4096, UP, stream));
    OK(aclrtLaunchHostFunc(stream, nothing, NULL));
    OK(aclrtSynchronizeStream(stream));
    return unused;
}
int main(int count, char **arguments) {
    aclrtStream stream = NULL;
    pthread_t thread;
    if (count > 1) rounds = atoi(arguments[1]);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&event));
    OK(aclrtMallocHost((void **)&host, SIZE));
    OK(aclrtMallocHost((void **)&back, SIZE));
    OK(aclrtMalloc((void **)&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc((void **)&other, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtHostRegisterV2(registered, SIZE, ACL_HOST_REG_PINNED));
    memset(host, 1, SIZE);
    OK(aclrtMemcpyAsync(device, SIZE, host, SIZE, UP, stream));
    OK(aclrtMemcpy2dAsync(device, 128, host + 64, 64, 48, 9, UP, stream));
    OK(aclrtMemsetAsync(device + 100, SIZE - 100, 7, 50, stream));
    OK(aclrtRecordEvent(event, stream));
    OK(pthread_create(&thread, NULL, work, NULL) != 0);
    OK(pthread_join(thread, NULL) != 0);
    memset(host, 2, SIZE);
    OK(aclrtMemcpy(device, SIZE, host, SIZE, UP));
    OK(aclrtMemcpy(back, SIZE, device, SIZE, DOWN));
    int right = memcmp(back, host, SIZE) == 0;
    OK(aclrtHostUnregister(registered));
    OK(aclrtFree(device));
    OK(aclFinalize());
    if (!right) return 91;
    return rounds == 10 ? 0 : 7;
}
"#;

/// A model with two branches and a function, executed five times; the source changes in between.
const MODEL: &str = r#"
#include <acl/acl.h>
#include <stdlib.h>
#include <string.h>
enum { SIZE = 4096 };
#define OK(call) do { if (call) exit(90); } while (0)
static void nothing(void *data) { (void)data; }
int main(void) {
    aclrtStream stream, side;
    aclrtEvent fork, join;
    aclmdlRI model;
    char *host, *back, *device;
    OK(aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&stream) || aclrtCreateStream(&side));
    OK(aclrtCreateEvent(&fork) || aclrtCreateEvent(&join));
    OK(aclrtMallocHost((void **)&host, SIZE) || aclrtMallocHost((void **)&back, SIZE));
    OK(aclrtMalloc((void **)&device, 2 * SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    OK(aclrtMemcpyAsync(device, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtRecordEvent(fork, stream) || aclrtStreamWaitEvent(side, fork));
    for (int i = 0; i < 8; i++) {
        OK(aclrtMemcpyAsync(device + SIZE + i * 512, 512, device + (7 - i) * 512, 512,
                            ACL_MEMCPY_DEVICE_TO_DEVICE, i % 2 ? stream : side));
    }
    OK(aclrtLaunchHostFunc(side, nothing, NULL));
    OK(aclrtRecordEvent(join, side) || aclrtStreamWaitEvent(stream, join));
    OK(aclrtMemcpyAsync(back, SIZE, device + SIZE, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclmdlRICaptureEnd(stream, &model));
    for (int step = 0; step < 5; step++) {
        memset(host, step, SIZE);
        OK(aclmdlRIExecuteAsync(model, stream) || aclrtSynchronizeStream(stream));
        if (back[77] != step) return 91;
    }
    return aclmdlRIDestroy(model) || aclFinalize();
}
"#;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Records the program, and answers with the file.
fn record(name: &str, options: &[&str], arguments: &[&str], code: i32) -> PathBuf {
    record_source(PROGRAM, name, options, arguments, code)
}

fn record_source(source: &str, name: &str, options: &[&str], arguments: &[&str], code: i32) -> PathBuf {
    let (program, file) = (compile(&format!("replay-{name}"), source), path(&format!("{name}.rec")));
    let mut command = ferry(&["record"]);
    let said = output(command.args(options).arg("-o").arg(&file).arg("--").arg(program).args(arguments));
    assert_eq!(said.status.code(), Some(code), "{}", text(&said.stderr));
    assert!(text(&said.stderr).contains(".rec: "), "{}", text(&said.stderr));
    file
}

fn load(file: &Path) -> Recording {
    let loaded = read(&fs::read(file).expect("it was written")).expect("a recording");
    assert_eq!(loaded.damage, None);
    loaded.recording
}

/// What a recording says, without times, addresses and what nothing orders: for each stream with work what it
/// does, by whom, to which memory, behind what; and what each thread joined.
fn essence(recording: &Recording) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let mut numbers: HashMap<(&str, u32), usize> = HashMap::new();
    let mut number = |kind: &'static str, value: u32| {
        let next = numbers.keys().filter(|(other, _)| *other == kind).count();
        *numbers.entry((kind, value)).or_insert(next)
    };
    let submits = recording.steps.iter().filter_map(|step| match step.action {
        StepAction::Submit(op) => Some((op, step.thread)),
        _ => None,
    });
    let submits: Vec<(usize, u32)> = submits.collect();
    let submitters: HashMap<usize, u32> = submits.iter().copied().collect();
    // Threads in the order of their first op, streams in the order in which their threads used them.
    let thread_order: Vec<usize> = submits.iter().map(|(_, thread)| number("thread", *thread)).collect();
    let mut first_uses: HashMap<u32, (usize, usize)> = HashMap::new();
    for (index, (op, _)) in submits.iter().enumerate() {
        let stream = recording.ops[*op].point.stream;
        first_uses.entry(stream).or_insert((thread_order[index], index));
    }
    let mut ops: Vec<usize> = (0..recording.ops.len()).collect();
    ops.sort_by_key(|op| {
        let point = recording.ops[*op].point;
        (first_uses[&point.stream], point.ticket)
    });
    let mut streams: Vec<Vec<String>> = Vec::new();
    for op in ops {
        let thread = number("thread", submitters[&op]);
        let op = &recording.ops[op];
        let stream = number("stream", op.point.stream);
        streams.resize(streams.len().max(stream + 1), Vec::new());
        let mut line = format!("thread {thread}: {}", op.work.kind());
        if let RecordedWork::Fill { dst, len, pattern, .. } = &op.work {
            line += &format!(" {}+{} {len} {pattern:?}", number("memory", dst.allocation), dst.offset);
        }
        for rect in op.work.rects() {
            let ends = [(rect.dst, rect.dst_pitch), (rect.src, rect.src_pitch)];
            for (at, pitch) in ends {
                let memory = &recording.allocations[at.allocation as usize];
                let place = number("memory", at.allocation);
                line += &format!(" {place}+{}/{pitch} of {:?} {:?}", at.offset, memory.device, memory.origin);
            }
            line += &format!(" {}x{};", rect.width, rect.height);
        }
        for awaited in &op.awaits {
            if let RecordedWait::Point(point) = awaited {
                line += &format!(" behind {} {}", number("stream", point.stream), point.ticket);
            }
        }
        streams[stream].push(line);
    }
    let mut joins: Vec<Vec<String>> = Vec::new();
    for step in &recording.steps {
        if let StepAction::Join { point, how } = step.action
            && point.ticket > 0
        {
            let thread = number("thread", step.thread);
            joins.resize(joins.len().max(thread + 1), Vec::new());
            joins[thread].push(format!("{how:?} {} {}", number("stream", point.stream), point.ticket));
        }
    }
    (streams, joins)
}

/// Records the replay of a recording.
fn record_replay(first: &Path, name: &str) -> Recording {
    let second = path(name);
    let mut command = ferry(&["record"]);
    let replay = [env!("CARGO_BIN_EXE_ferry"), "replay", "--no-check"];
    let said = output(command.arg("-o").arg(&second).arg("--").args(replay).arg(first));
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    load(&second)
}

#[test]
fn a_recording_of_a_replay_is_the_recording() {
    let first = record("first", &[], &[], 0);
    let (one, other) = (load(&first), record_replay(&first, "second.rec"));
    assert!(one.ops.len() > 25 && one.threads.len() > 1);
    let origins: Vec<_> = one.allocations.iter().map(|memory| memory.origin).collect();
    assert!(origins.contains(&Some(Origin::Registered)) && origins.contains(&None), "{origins:?}");
    assert_eq!(essence(&one), essence(&other));
    let hashed = one.ops.iter().filter(|op| op.hashes.source.is_some()).count();
    assert!(hashed >= 20, "copies have hashes: {hashed}");
}

#[test]
fn graphs_are_captured_and_launched_again() {
    let first = record_source(MODEL, "model", &[], &[], 0);
    let (one, other) = (load(&first), record_replay(&first, "model-again.rec"));
    assert_eq!(essence(&one), essence(&other));
    for recording in [&one, &other] {
        let launches = recording.steps.iter().filter(|step| matches!(step.action, StepAction::Launch { .. }));
        assert_eq!((launches.count(), recording.graphs.len()), (5, 1));
    }
    let said = output(ferry(&["replay"]).arg(&first));
    let printed = text(&said.stdout);
    assert_eq!(said.status.code(), Some(0), "{printed}{}", text(&said.stderr));
    let written: u64 = one.ops.iter().map(|op| op.work.bytes()).sum();
    assert!(printed.contains(&format!("checked {written} of {written} bytes")), "{printed}");
}

#[test]
fn every_byte_is_checked_with_contents_and_without() {
    for (name, options) in [("hashes", &[][..]), ("bytes", &["--contents"])] {
        let file = record(name, options, &[], 0);
        let recording = load(&file);
        let has_bytes = recording.ops.iter().any(|op| op.source.is_some());
        assert_eq!(has_bytes, !options.is_empty());
        for pace in ["fast", "recorded"] {
            let said = output(ferry(&["replay", "--pace", pace]).arg(&file));
            let printed = text(&said.stdout);
            assert_eq!(said.status.code(), Some(0), "{printed}{}", text(&said.stderr));
            assert!(printed.contains("all are as the data flow predicts"), "{printed}");
            assert!(printed.contains("functions of the program are replayed as empty functions (1)"));
            let written: u64 = recording.ops.iter().map(|op| op.work.bytes()).sum();
            assert!(printed.contains(&format!("checked {written} of {written} bytes")), "{printed}");
        }
    }
}

#[test]
fn what_changed_is_told_with_its_line() {
    let (before, after) = (record("before", &[], &[], 0), record("after", &[], &["3"], 7));
    let said = output(ferry(&["diff"]).arg(&before).arg(&after));
    assert_eq!(said.status.code(), Some(1), "{}", text(&said.stderr));
    let line = PROGRAM.lines().position(|line| line.contains("back + i")).expect("a line") + 1;
    let place = format!("(aclrtMemcpyAsync at {}:{line})", path("replay-after.c").display());
    let changed = format!("ops: linear copy, device to host, below 4 KiB {place}: none -> 3 with 192 bytes");
    assert!(text(&said.stdout).contains(&changed), "{}", text(&said.stdout));
    // The two are different files in C, too.
    let said = output(ferry(&["diff", "--no-sites"]).arg(&before).arg(&after));
    let changed = "ops: linear copy, device to host, below 4 KiB: 10 with 640 bytes -> 3 with 192 bytes";
    assert!(text(&said.stdout).contains(changed), "{}", text(&said.stdout));
    let same = output(ferry(&["diff"]).arg(&before).arg(&before));
    assert_eq!((same.status.code(), text(&same.stdout)), (Some(0), String::new()));
}

#[test]
fn a_recording_is_measured_beside_peers() {
    let file = record("measured", &[], &[], 0);
    let said = output(ferry(&["bench", "-i", "1", "--csv", "--recording"]).arg(&file));
    let printed = text(&said.stdout);
    assert_eq!(said.status.code(), Some(0), "{printed}{}", text(&said.stderr));
    for name in ["recording/h2d/copies", "recording/h2d/pieces", "recording/d2h/copies"] {
        assert!(printed.contains(name), "{printed}");
    }
    let none = output(&mut ferry(&["bench", "--recording", env!("CARGO_BIN_EXE_ferry")]));
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("this is no recording"), "{}", text(&none.stderr));
}

#[test]
fn the_good_part_of_a_damaged_file_is_replayed() {
    let (whole, cut) = (record("whole", &[], &[], 0), path("cut.rec"));
    let bytes = fs::read(&whole).expect("it was written");
    fs::write(&cut, &bytes[..bytes.len() - 20]).expect("it can be written");
    let said = output(ferry(&["replay"]).arg(&cut));
    assert_eq!(said.status.code(), Some(1));
    assert!(text(&said.stderr).contains("damaged at byte"), "{}", text(&said.stderr));
    assert!(text(&said.stdout).contains("checked"), "{}", text(&said.stdout));
    let none = output(ferry(&["replay"]).arg(env!("CARGO_BIN_EXE_ferry")));
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("this is no recording"), "{}", text(&none.stderr));
}

#[test]
fn a_program_that_does_not_start_leaves_everything_as_it_was() {
    let folder = std::env::temp_dir().join(format!("ferry-not-started-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (old, new, trace) = (folder.join("old.rec"), folder.join("new.rec"), folder.join("trace"));
    fs::write(&old, "a recording").expect("a file");
    for (command, target) in [("record", &old), ("record", &new), ("trace", &trace)] {
        let said = output(ferry(&[command, "-o"]).arg(target).args(["--", "/does/not/exist"]));
        assert_eq!(said.status.code(), Some(127), "{command}: {}", text(&said.stderr));
    }
    assert_eq!(fs::read_to_string(&old).expect("it is there"), "a recording");
    assert!(!new.exists() && !trace.exists());
    // Nothing runs in vain.
    for command in ["record", "trace"] {
        let said = output(&mut ferry(&[command, "-o", "/dev/null/not", "--", "echo", "ran"]));
        assert_eq!((said.status.code(), text(&said.stdout)), (Some(125), String::new()), "{command}");
        assert!(text(&said.stderr).contains("cannot write /dev/null/not: "), "{}", text(&said.stderr));
    }
    fs::remove_dir_all(&folder).expect("it is there");
}
