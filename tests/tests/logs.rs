//! What is logged, where, and for whom. Each case is a process of its own with a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};

use ferry_tests::children::{self, Case};
use ferry_tests::code::*;
use ferry_tests::*;

const CASES: [Case; 5] = [
    ("one failure", one_failure),
    ("no failure", no_failure),
    ("the program's own lines", the_programs_own_lines),
    ("many threads", many_threads),
    ("a forked child", a_forked_child),
];

/// The child's part.
#[test]
#[ignore = "run by the others"]
fn one_case() {
    children::play(&CASES);
}

fn no_failure() {
    ok(aclInit(std::ptr::null()));
    ok(aclrtSetDevice(1));
    ok(aclrtResetDevice(1));
    ok(aclFinalize());
}

fn one_failure() {
    no_failure();
    expect("no such device", aclrtSetDevice(4711), INVALID_DEVICEID);
}

/// A folder for one test, gone when the test has passed.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("logs-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the tests' own directory can be written");
        Folder(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }

    /// Runs a case with logs in this folder and nothing else said about logs but `settings`; what it printed.
    #[track_caller]
    fn run(&self, case: &str, settings: &[(&str, &str)]) -> String {
        let names = [
            "GLOBAL_LOG_LEVEL",
            "MODULE_LOG_LEVEL",
            "LOG_PRINT_TO_STDOUT",
            "SLOG_PRINT_TO_STDOUT",
            "WORK_PATH",
        ];
        let names = names.map(|name| format!("ASCEND_{name}"));
        let mut all: Vec<_> = names.iter().map(|name| (name.as_str(), None)).collect();
        all.extend([("ASCEND_PROCESS_LOG_PATH", Some(self.path())), ("HOME", Some(self.path()))]);
        all.extend(settings.iter().map(|(name, value)| (*name, Some(*value))));
        String::from_utf8_lossy(&children::run(case, &all).stdout).into_owned()
    }

    /// The files of a folder inside, with their lines.
    fn files(&self, inside: &str) -> Vec<(String, Vec<String>)> {
        let Ok(entries) = fs::read_dir(self.0.join(inside)) else { return Vec::new() };
        let read =
            |path: &Path| fs::read_to_string(path).expect("a log").lines().map(str::to_owned).collect();
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), read(&path))).collect()
    }

    fn lines(&self, inside: &str) -> Vec<String> {
        self.files(inside).into_iter().flat_map(|(_, lines)| lines).collect()
    }

    /// But for what the CUDA driver keeps in the user's folder.
    fn is_empty(&self) -> bool {
        let mut entries = fs::read_dir(&self.0).expect("our folder").flatten();
        entries.all(|entry| entry.file_name() == ".nv")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

const DEBUG: &str = "debug/plog";
const RUN: &str = "run/plog";

/// Number of the process in a line, after a look at its form:
/// `[level] module(pid,name):time [file:line]thread text`.
#[track_caller]
fn process_of(line: &str, level: &str, module: &str) -> u32 {
    let rest = line.strip_prefix(&format!("[{level}] {module}(")).unwrap_or_else(|| panic!("{line}"));
    let (process, rest) = rest.split_once("):").expect("a process");
    let (time, rest) = rest.split_once(" [").expect("a time");
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00-00:00:00.000.000", "{line}");
    let (place, text) = rest.split_once(']').expect("a place");
    let (file, number) = place.rsplit_once(':').expect("file and line");
    assert!(!file.is_empty() && number.parse::<u32>().is_ok(), "{line}");
    let (thread, text) = text.split_once(' ').expect("a thread and a text");
    assert!(thread.parse::<u32>().is_ok() && !text.is_empty(), "{line}");
    process.split_once(',').expect("number and name").0.parse().expect("a number")
}

#[test]
fn by_default_failures_are_logged_and_nothing_else() {
    let folder = Folder::new("default");
    folder.run("no failure", &[]);
    assert!(folder.is_empty(), "no line, no file, no folder");
    folder.run("one failure", &[]);
    let files = folder.files(DEBUG);
    let [(name, lines)] = &files[..] else { panic!("{files:?}") };
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let process = process_of(line, "ERROR", "ASCENDCL");
    for word in ["aclrtSetDevice", "107001", "ACL_ERROR_RT_INVALID_DEVICEID", "4711"] {
        assert!(line.contains(word), "{word} is not in {line}");
    }
    let time = name.strip_prefix(&format!("plog-{process}_")).and_then(|rest| rest.strip_suffix(".log"));
    assert!(time.is_some_and(|time| time.len() == 17 && time.bytes().all(|b| b.is_ascii_digit())), "{name}");
    assert!(folder.lines(RUN).is_empty());
}

#[test]
fn the_level_decides_what_is_logged() {
    let (global, module) = ("ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_MODULE_LOG_LEVEL");
    // Lines of failures, of our progress, of the engine's.
    for (settings, want) in [
        (&[(global, "4")][..], [0, 0, 0]),
        (&[(global, "3")], [1, 0, 0]),
        (&[(global, "loud")], [1, 0, 0]),
        (&[(global, "")], [1, 0, 0]),
        (&[(global, "1")], [1, 4, 1]),
        (&[(global, "0")], [1, 4, 1]),
        (&[(global, "1"), (module, "ASCENDCL=4")], [0, 0, 1]),
        (&[(module, "RUNTIME=1:GE=0")], [1, 0, 1]),
        (&[(module, "ASCENDCL=4:NOBODY=1")], [1, 0, 0]),
        (&[(module, "ASCENDCL=4, RUNTIME=1")], [1, 0, 0]),
    ] {
        let folder = Folder::new("level");
        folder.run("one failure", settings);
        let lines = folder.lines(DEBUG);
        let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
        let got = ["[ERROR] ASCENDCL(", "[INFO] ASCENDCL(", "[INFO] RUNTIME("].map(count);
        assert_eq!(got, want, "{settings:?}: {lines:#?}");
        assert_eq!(lines.len(), want.iter().sum::<usize>(), "{settings:?}: {lines:#?}");
        assert_eq!(folder.is_empty(), lines.is_empty(), "no line, no folder");
    }
}

#[test]
fn a_list_of_devices_that_is_cut_short_is_worth_a_warning() {
    let list = "ASCEND_RT_VISIBLE_DEVICES";
    for (settings, want) in [(&[(list, "0,1")][..], 0), (&[(list, "0,1, 5")], 1), (&[(list, "0,1,9")], 1)] {
        let folder = Folder::new("list");
        folder.run("no failure", &[settings, &[("ASCEND_GLOBAL_LOG_LEVEL", "2")]].concat());
        let lines = folder.lines(DEBUG);
        assert_eq!(lines.len(), want, "{settings:?}: {lines:#?}");
        for line in &lines {
            process_of(line, "WARNING", "RUNTIME");
            assert!(line.contains(settings[0].1) && line.contains("'0,1'"), "{line}");
        }
    }
}

#[test]
fn logs_go_where_they_are_wanted() {
    let (new, old) = ("ASCEND_LOG_PRINT_TO_STDOUT", "ASCEND_SLOG_PRINT_TO_STDOUT");
    for settings in [&[(new, "1")][..], &[(old, "1")], &[(new, "1"), (old, "0")]] {
        let folder = Folder::new("stdout");
        let said = folder.run("one failure", settings);
        let line =
            said.lines().find(|line| line.contains("[ERROR] ASCENDCL(")).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains("4711") && folder.is_empty(), "{line}");
    }
    let folder = Folder::new("file");
    let said = folder.run("one failure", &[(new, "0"), (old, "1")]);
    assert!(!said.contains("[ERROR]") && folder.lines(DEBUG).len() == 1, "the new name wins: {said}");

    let folder = Folder::new("work");
    let work = folder.0.join("made/when/needed");
    folder
        .run("one failure", &[("ASCEND_PROCESS_LOG_PATH", ""), ("ASCEND_WORK_PATH", work.to_str().unwrap())]);
    assert_eq!(folder.lines("made/when/needed/log/debug/plog").len(), 1);

    let folder = Folder::new("home");
    folder.run("one failure", &[("ASCEND_PROCESS_LOG_PATH", ""), ("ASCEND_WORK_PATH", "")]);
    assert_eq!(folder.lines("ascend/log/debug/plog").len(), 1);
}

#[test]
fn a_log_that_cannot_be_written_fails_no_call() {
    let folder = Folder::new("nowhere");
    let file = folder.0.join("file");
    fs::write(&file, "in the way").expect("our folder");
    for path in [file.to_str().unwrap(), "/proc/nowhere", "/dev/null/x"] {
        folder.run("one failure", &[("ASCEND_PROCESS_LOG_PATH", path)]);
    }
    assert_eq!(fs::read_to_string(&file).expect("the file"), "in the way");
}

#[test]
fn events_have_a_folder_of_their_own() {
    let folder = Folder::new("events");
    folder.run("no failure", &[("ASCEND_GLOBAL_EVENT_ENABLE", "1"), ("ASCEND_GLOBAL_LOG_LEVEL", "4")]);
    let lines = folder.lines(RUN);
    assert!(
        lines.len() >= 2 && lines[0].contains("aclInit") && lines[1].contains("aclFinalize"),
        "{lines:#?}"
    );
    for line in &lines {
        process_of(line, "EVENT", "ASCENDCL");
    }
    assert!(folder.lines(DEBUG).is_empty());
}

fn the_programs_own_lines() {
    for level in 0..4 {
        app_log(level, c"some_function", c"folder/\nfile.c", 12, c"level\nand 100%% more");
    }
    assert_eq!(message(), None);
    // What makes no sense leaves a complaint and no line.
    for (level, fmt) in [(-1, Some(c"lost")), (4, Some(c"lost")), (3, None)] {
        app_log_raw(level, None, None, 0, fmt);
        assert_eq!(aclrtGetLastError(0), if fmt.is_some() { RT_PARAM_INVALID } else { INVALID_PARAM });
        let said = message().expect("a message");
        assert!(
            said.contains("aclAppLog") && said.contains(if fmt.is_some() { "logLevel" } else { "fmt" }),
            "{said}"
        );
    }
    app_log_raw(3, None, None, 0, Some(c"from nowhere"));
}

#[test]
fn the_programs_own_lines_follow_the_global_level() {
    let names = ["DEBUG", "INFO", "WARNING", "ERROR"];
    for (settings, from) in [
        (&[("ASCEND_GLOBAL_LOG_LEVEL", "0")][..], 0),
        (&[], 3),
        (&[("ASCEND_GLOBAL_LOG_LEVEL", "2"), ("ASCEND_MODULE_LOG_LEVEL", "ASCENDCL=4")], 2),
        (&[("ASCEND_GLOBAL_LOG_LEVEL", "4")], 4),
    ] {
        let folder = Folder::new("app");
        folder.run("the program's own lines", settings);
        let all = folder.lines(DEBUG);
        let lines: Vec<_> = all.iter().filter(|line| line.contains("] APP(")).collect();
        let mut want: Vec<_> = names.iter().skip(from).collect();
        want.extend(want.last().copied());
        assert_eq!(lines.len(), want.len(), "{settings:?}: {all:#?}");
        for (line, level) in lines.iter().zip(&want).take(names.len() - from) {
            process_of(line, level, "APP");
            assert!(line.contains("[folder/ file.c:12]"), "{line}");
            assert!(
                line.ends_with(" some_function: level and 100% more"),
                "one line, whatever it says: {line}"
            );
        }
        if let Some(last) = lines.last() {
            assert!(last.contains("[?:0]") && last.ends_with("?: from nowhere"), "{last}");
        }
    }
}

fn many_threads() {
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            std::thread::spawn(move || {
                for number in 0..50 {
                    assert_eq!(aclrtSetDevice(1000 * (thread + 1) + number), INVALID_DEVICEID);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
}

#[test]
fn lines_of_many_threads_stay_whole() {
    let folder = Folder::new("threads");
    folder.run("many threads", &[]);
    let files = folder.files(DEBUG);
    assert_eq!(files.len(), 1, "one process, one file");
    let lines = folder.lines(DEBUG);
    assert_eq!(lines.len(), 400);
    for line in &lines {
        process_of(line, "ERROR", "ASCENDCL");
    }
    for device in (1..=8).flat_map(|thread| (0..50).map(move |number| 1000 * thread + number)) {
        let text = format!("device {device} does not exist");
        assert_eq!(lines.iter().filter(|line| line.contains(&text)).count(), 1, "{text}");
    }
}

fn a_forked_child() {
    use_device();
    assert_eq!(aclrtSetDevice(4711), INVALID_DEVICEID);
    // Threads that keep writing, so that one of them is likely to hold the lock of the files when the child
    // is made.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                // Far from filling a file, however slowly children are made.
                for _ in 0..20_000 {
                    if stop.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    assert_eq!(aclrtSetDevice(4711), INVALID_DEVICEID);
                }
            })
        })
        .collect();
    for _ in 0..20 {
        // SAFETY: the child calls the library and _exit and never returns into the test harness.
        match unsafe { libc::fork() } {
            -1 => panic!("fork failed"),
            0 => {
                let code = aclrtSetDevice(0);
                // SAFETY: ends the child without running anything that belongs to the parent.
                unsafe { libc::_exit(i32::from(code != CONTEXT_NULL)) }
            }
            pid => {
                let mut status = 0;
                // SAFETY: waits for the child just made and writes to a local.
                assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
                assert_eq!(status, 0, "the child's calls are refused");
            }
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
}

#[test]
fn a_forked_child_has_a_file_of_its_own() {
    let folder = Folder::new("fork");
    folder.run("a forked child", &[]);
    let files = folder.files(DEBUG);
    assert_eq!(files.len(), 21, "{:?}", files.iter().map(|file| &file.0).collect::<Vec<_>>());
    for (name, lines) in files {
        for line in &lines {
            let process = process_of(line, "ERROR", "ASCENDCL");
            assert!(name.starts_with(&format!("plog-{process}_")), "{line} in {name}");
        }
        let child = lines.len() == 1 && lines[0].contains("fork");
        assert!(child || lines.iter().all(|line| line.contains("4711")), "{name}");
    }
}
