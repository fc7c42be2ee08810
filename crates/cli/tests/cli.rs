//! Runs the built command as a person would. The library it loads is the one that was built with it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use command::{ferry, output, text};
use compile::compile;

mod command;
#[path = "command/compile.rs"]
mod compile;

#[test]
fn the_quick_tour_succeeds_and_fits_in_100_columns() {
    let tour = output(&mut ferry(&["tour", "--quick"]));
    let (table, errors) = (text(&tour.stdout), text(&tour.stderr));
    assert!(tour.status.success(), "{table}\n{errors}");
    assert!(!table.contains("FAIL") && !table.contains("not yet") && !table.contains("not here"), "{table}");
    assert!(!table.contains('\x1b'), "colours although this is no terminal");
    for line in table.lines() {
        assert!(line.chars().count() <= 100, "too wide: {line}");
    }
}

#[test]
fn the_tour_of_one_device_says_what_it_could_not_do() {
    let tour = output(&mut ferry(&["tour", "--quick", "--devices", "1"]));
    let table = text(&tour.stdout);
    assert!(tour.status.success(), "{table}\n{}", text(&tour.stderr));
    assert!(table.contains("not here") && table.contains("needs 2 devices, there are 1"), "{table}");
}

#[test]
fn the_tour_of_another_product_says_what_it_lacks() {
    for (soc, form) in
        [("Ascend310B1", "ep"), ("Ascend910A", "ep"), ("Ascend310B1", "rc"), ("Ascend310P3", "ctrlcpu")]
    {
        let tour = output(ferry(&["tour", "--quick"]).env("FERRY_SOC", soc).env("FERRY_FORM", form));
        let table = text(&tour.stdout);
        assert!(tour.status.success(), "{soc} {form}: {table}\n{}", text(&tour.stderr));
        assert!(table.contains("does not exist on"), "{soc} {form}: {table}");
    }
}

#[test]
fn devices_show_physical_numbers_where_only_some_are_visible() {
    let list = |form: &[&str]| {
        let mut command = ferry(form);
        output(command.env("FERRY_DEVICES", "4").env("ASCEND_RT_VISIBLE_DEVICES", "1,3"))
    };
    let report: serde_json::Value =
        serde_json::from_slice(&list(&["devices", "--json"]).stdout).expect("it is JSON");
    assert_eq!(report["visible_devices"], "1,3");
    for (id, physical) in [1, 3].into_iter().enumerate() {
        let device = &report["devices"][id];
        assert_eq!((&device["id"], &device["physical_id"]), (&id.into(), &physical.into()), "{report}");
    }
    assert!(text(&list(&["devices"]).stdout).contains("physical"));
    assert!(!text(&output(&mut ferry(&["devices"])).stdout).contains("physical"));
}

#[test]
fn devices_show_quirks_and_limits_that_are_on() {
    let list = |form: &[&str]| {
        let mut command = ferry(form);
        output(command.env("FERRY_QUIRKS", "F12,f3").env("FERRY_LIMIT_STREAMS", "7"))
    };
    let shown = text(&list(&["devices"]).stdout);
    for line in ["quirk     F3: aclrtMemcpy", "quirk     F12: a device", "limit     FERRY_LIMIT_STREAMS=7"] {
        assert!(shown.contains(line), "{line} is not in {shown}");
    }
    assert_eq!(shown.matches("\nquirk ").count(), 2, "{shown}");
    let report: serde_json::Value =
        serde_json::from_slice(&list(&["devices", "--json"]).stdout).expect("it is JSON");
    assert_eq!(report["quirks"], serde_json::json!(["F3", "F12"]));
    assert_eq!(report["limits"], serde_json::json!({ "FERRY_LIMIT_STREAMS": "7" }));
    let plain = text(&output(&mut ferry(&["devices"])).stdout);
    assert!(!plain.contains("\nquirk ") && !plain.contains("\nlimit "), "off by default: {plain}");
    let bad = output(ferry(&["devices"]).env("FERRY_QUIRKS", "F3,F5"));
    let why = text(&bad.stderr);
    assert!(!bad.status.success() && why.contains("F1, F2, F3, F4, F6, F7, F8, F9, F12"), "{why}");
}

#[test]
fn devices_are_those_of_the_environment() {
    let devices =
        output(ferry(&["devices", "--json"]).env("FERRY_DEVICES", "3").env("FERRY_DEVICE_MEMORY", "256M"));
    assert!(devices.status.success(), "{}", text(&devices.stderr));
    let report: serde_json::Value = serde_json::from_slice(&devices.stdout).expect("it is JSON");
    assert_eq!(report["backend"], "host");
    assert_eq!(report["soc"], "Ascend910B1");
    assert_eq!(report["run_mode"], "host");
    let list = report["devices"].as_array().expect("a list");
    assert_eq!(list.len(), 3);
    for (id, device) in list.iter().enumerate() {
        assert_eq!(device["id"], id);
        assert_eq!(device["total_bytes"], 256 << 20);
        assert_eq!(device["free_bytes"], 256 << 20);
    }
    let library = report["library"]["path"].as_str().expect("a path");
    assert!(Path::new(library).ends_with("deps/libascendcl.so"), "{library}");
}

#[test]
fn options_beat_the_environment() {
    let devices = output(ferry(&["devices", "--json", "--devices", "5"]).env("FERRY_DEVICES", "3"));
    let report: serde_json::Value = serde_json::from_slice(&devices.stdout).expect("it is JSON");
    assert_eq!(report["devices"].as_array().map(Vec::len), Some(5));
}

#[test]
fn run_passes_input_output_and_the_exit_code_through() {
    let run = output(&mut ferry(&["run", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]));
    assert_eq!(run.status.code(), Some(7));
    assert_eq!((text(&run.stdout).as_str(), text(&run.stderr).as_str()), ("out\n", "err\n"));
}

#[test]
fn run_says_how_a_program_was_killed() {
    let run = output(&mut ferry(&["run", "--", "sh", "-c", "kill -9 $$"]));
    assert_eq!(run.status.code(), Some(128 + 9));
    assert_eq!(text(&run.stderr), "ferry run: sh was killed by signal 9 (SIGKILL)\n");
}

#[test]
fn run_tells_a_missing_program_from_one_that_cannot_start() {
    for (program, code) in [("/does/not/exist", 127), ("/etc/passwd", 126)] {
        let run = output(&mut ferry(&["run", "--", program]));
        assert_eq!(run.status.code(), Some(code), "{program}");
        assert!(text(&run.stderr).starts_with(&format!("ferry run: {program}: ")), "{}", text(&run.stderr));
    }
}

#[test]
fn run_passes_signals_on() {
    let script = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let mut command = ferry(&["run", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the command starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill starts");
    assert!(killed.success());
    let status = child.wait().expect("it ends");
    assert_eq!((status.code(), status.signal()), (Some(3), None));
}

#[test]
fn run_hands_its_options_to_the_program() {
    let program = compile(
        "count",
        r#"
        #include <acl/acl.h>
        int main(void) {
            uint32_t count = 0;
            return aclrtGetDeviceCount(&count) ? 99 : (int)count;
        }
        "#,
    );
    let program = program.to_str().expect("a plain path");
    let run = output(&mut ferry(&["run", "--devices", "6", "--", program]));
    assert_eq!(run.status.code(), Some(6), "{}", text(&run.stderr));
}

#[test]
fn both_names_of_the_library_are_one_engine() {
    let program = compile(
        "names",
        r#"
        #include <acl/acl.h>
        #include <dlfcn.h>
        int main(void) {
            void *old = dlopen("libascendcl.so", RTLD_NOW);
            void *new = dlopen("libacl_rt.so", RTLD_NOW);
            if (!old || !new) return 1;
            if (dlsym(old, "aclInit") != dlsym(new, "aclInit")) return 2;
            return dlsym(old, "aclInit") == (void *)aclInit ? 0 : 3;
        }
        "#,
    );
    let run = output(&mut ferry(&["run", "--", program.to_str().expect("a plain path")]));
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
}

#[test]
fn a_program_that_touches_a_device_pointer_dies_with_one_line_that_says_so() {
    let program = compile(
        "touches",
        r#"
        #include <acl/acl.h>
        #include <stdio.h>
        int main(void) {
            void *device = NULL;
            if (aclInit(NULL) || aclrtSetDevice(0)) return 98;
            if (aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST)) return 99;
            printf("%p\n", device);
            fflush(stdout);
            *(volatile char *)device = 1;
            return 0;
        }
        "#,
    );
    let run = output(&mut ferry(&["run", "--", program.to_str().expect("a plain path")]));
    let (address, errors) = (text(&run.stdout), text(&run.stderr));
    assert_eq!(run.status.code(), Some(128 + 11), "{errors}");
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "one line about the pointer, one about the end:\n{errors}");
    assert!(lines[0].contains(address.trim()) && lines[0].contains("device"), "{errors}");
    assert!(
        lines[1].starts_with("ferry run: ") && lines[1].contains("killed by signal 11 (SIGSEGV)"),
        "{errors}"
    );
}

#[test]
fn a_signal_that_is_sent_takes_its_course() {
    let program = compile(
        "sends",
        r#"
        #define _GNU_SOURCE
        #include <signal.h>
        #include "acl/acl.h"
        int main(int count, char **words)
        {
            if (aclInit(NULL) || aclrtSetDevice(0)) return 98;
            raise(words[1][0] == 'b' ? SIGBUS : SIGSEGV);
            return 0;
        }
        "#,
    );
    for (word, signal) in [("segv", libc::SIGSEGV), ("bus", libc::SIGBUS)] {
        let run = output(ferry(&["run", "--"]).arg(&program).arg(word));
        assert_eq!(run.status.code(), Some(128 + signal), "{}", text(&run.stderr));
    }
}

/// Everywhere that the library may be installed: the loader's lists have separators, and words that it
/// replaces.
#[test]
fn folders_with_odd_names_are_found_by_run() {
    let program = compile(
        "finds",
        r#"
        #include <dlfcn.h>
        int main(void)
        {
            return dlopen("libacl_rt.so", RTLD_NOW) && dlopen("libascendcl.so", RTLD_NOW) ? 0 : 1;
        }
        "#,
    );
    let built = Path::new(env!("CARGO_BIN_EXE_ferry")).with_file_name("deps").join("libascendcl.so");
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("odd");
    let temporary = home.join("temporary");
    for name in ["a;b", "a:b", "a b", "a$LIB", "plain"] {
        let folder = home.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::create_dir_all(&temporary).expect("a folder");
        let library = folder.join("libascendcl.so");
        let _ = std::fs::remove_file(&library);
        std::fs::hard_link(&built, &library)
            .or_else(|_| std::fs::copy(&built, &library).map(drop))
            .expect("a library");
        let mut run = ferry(&["run", "--"]);
        run.arg(&program)
            .env("FERRY_LIBRARY", &library)
            .env("TMPDIR", &temporary)
            .env_remove("LD_LIBRARY_PATH");
        let done = output(&mut run);
        assert_eq!(done.status.code(), Some(0), "{name}: {}", text(&done.stderr));
        assert_eq!(text(&done.stderr), "", "{name}");
        let left = std::fs::read_dir(&temporary).expect("a folder").count();
        assert_eq!(left, 0, "{name}: something is left over");
    }
    std::fs::remove_dir_all(&home).expect("ours");
}

#[test]
fn a_program_that_lives_through_its_own_faults_still_does() {
    let program = compile(
        "own_handler",
        r#"
        #define _GNU_SOURCE
        #include <setjmp.h>
        #include <signal.h>
        #include <stdio.h>
        #include "acl/acl.h"
        static sigjmp_buf back;
        static void recover(int signal) { siglongjmp(back, signal); }
        int main(void)
        {
            struct sigaction action = {0};
            action.sa_handler = recover;
            sigaction(SIGSEGV, &action, NULL);
            if (aclInit(NULL) != 0 || aclrtSetDevice(0) != 0) return 2;
            if (sigsetjmp(back, 1) == 0) *(volatile int *)8 = 1;
            puts("recovered");
            return 0;
        }
        "#,
    );
    let run = output(ferry(&["run", "--"]).arg(program));
    assert_eq!(
        (run.status.code(), text(&run.stdout).trim()),
        (Some(0), "recovered"),
        "{}",
        text(&run.stderr)
    );
}

#[test]
fn verbose_says_what_was_opened() {
    let quiet = output(&mut ferry(&["devices"]));
    assert_eq!(text(&quiet.stderr), "", "silent unless asked");
    let devices = output(ferry(&["devices"]).env("FERRY_VERBOSE", "1").env("FERRY_DEVICE_MEMORY", "64M"));
    let line = text(&devices.stderr);
    for word in [
        env!("CARGO_PKG_VERSION"),
        "backend host",
        "SoC Ascend910B1",
        "2 devices of 64 MiB",
        "libascendcl.so",
    ] {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
    assert_eq!(line.lines().count(), 1, "{line}");
}

#[test]
fn pages_name_every_command_that_help_shows_and_no_other() {
    let prefix = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pages");
    let _ = std::fs::remove_dir_all(&prefix);
    let wrote = output(&mut ferry(&["pages", prefix.to_str().expect("a plain path")]));
    assert!(wrote.status.success(), "{}", text(&wrote.stderr));

    let help = text(&output(&mut ferry(&["--help"])).stdout);
    for command in ["tour", "devices", "copy", "bench", "run", "pages", "role"] {
        let shown = help.lines().any(|line| line.starts_with(&format!("  {command} ")));
        assert_eq!(shown, !["pages", "role"].contains(&command), "{help}");
        let page = prefix.join(format!("share/man/man1/ferry-{command}.1"));
        assert_eq!(page.exists(), shown, "{}", page.display());
        for file in [
            "man/man1/ferry.1",
            "bash-completion/completions/ferry",
            "zsh/site-functions/_ferry",
            "fish/vendor_completions.d/ferry.fish",
        ] {
            let content = std::fs::read_to_string(prefix.join("share").join(file)).expect(file);
            assert_eq!(content.contains(command), shown, "{command} in {file}");
        }
    }
}

#[test]
fn help_and_the_manual_name_every_variable_of_the_page() {
    let prefix = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("variables");
    let wrote = output(&mut ferry(&["pages", prefix.to_str().expect("a plain path")]));
    assert!(wrote.status.success(), "{}", text(&wrote.stderr));
    let manual = std::fs::read_to_string(prefix.join("share/man/man1/ferry.1")).expect("a page");
    let help = text(&output(&mut ferry(&["--help"])).stdout);
    let page = include_str!("../../../docs/ENVIRONMENT.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `FERRY_")?.split_once('`'));
    for name in rows.map(|(name, _)| format!("FERRY_{name}")) {
        assert!(help.contains(&name), "{name} is not in {help}");
        assert!(manual.contains(&name), "{name} is not in the manual");
    }
}

#[test]
fn pages_that_cannot_be_written_are_an_error() {
    let wrote = output(&mut ferry(&["pages", "/dev/null"]));
    assert!(!wrote.status.success());
    assert!(text(&wrote.stderr).contains("cannot write to /dev/null/share"), "{}", text(&wrote.stderr));
}
