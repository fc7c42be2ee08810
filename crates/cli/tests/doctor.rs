//! `ferry doctor`: what it finds wrong, and that it says how to help.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use command::{ferry, output, text};

mod command;

/// The folder with the library that was built with the command.
fn deps() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_ferry")).with_file_name("deps")
}

/// A folder of one test's own.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("doctor-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("writable");
    folder
}

fn gcc(source: &str, out: &Path, args: &[&str]) {
    let file = out.with_extension("c");
    std::fs::write(&file, source).expect("writable");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let made = Command::new("gcc").arg("-I").arg(include).arg(&file).args(args).arg("-o").arg(out).output();
    let made = made.expect("gcc is installed");
    assert!(made.status.success(), "{}", text(&made.stderr));
}

/// The doctor on a program, with this LD_LIBRARY_PATH.
fn doctor(program: &Path, libraries: &Path) -> Output {
    output(ferry(&["doctor", "--"]).arg(program).env("LD_LIBRARY_PATH", libraries))
}

/// The lines about something.
fn lines(said: &Output, about: &str) -> Vec<String> {
    let is = |line: &&str| line.split_whitespace().nth(1) == Some(about);
    text(&said.stdout).lines().filter(is).map(str::to_owned).collect()
}

#[test]
fn a_machine_without_faults_is_told_line_by_line() {
    let said = output(ferry(&["doctor"]).env_remove("LD_LIBRARY_PATH"));
    let all = text(&said.stdout);
    assert_eq!(said.status.code(), Some(0), "{all}");
    for about in
        ["library", "prefix", "versions", "devices", "environment", "memlock", "userfaultfd", "shared"]
    {
        assert!(!lines(&said, about).is_empty(), "nothing about {about}: {all}");
    }
    for line in
        all.lines().filter(|line| !line.starts_with("ok ")).filter(|line| !line.starts_with("0 wrong"))
    {
        assert!(line.starts_with("note ") && line.contains(" -> "), "a note without a remedy: {line}");
    }
}

#[test]
fn settings_that_make_no_sense_are_wrong() {
    for (name, value, want) in [
        ("FERRY_DEVICEZ", "3", "did you mean FERRY_DEVICES?"),
        ("FERRY_DEVICES", "0", "FERRY_DEVICES"),
        ("ASCEND_RT_VISIBLE_DEVICES", "", "no device is visible"),
        ("ASCEND_HOME_PATH", "/does/not/exist", "which is no folder"),
        ("ASCEND_HOME_PATH", "/tmp", "ASCEND_OPP_PATH is not"),
        ("FERRY_LIBRARY", "/does/not/exist", "/does/not/exist"),
    ] {
        let said = output(ferry(&["doctor"]).env(name, value));
        let all = text(&said.stdout);
        assert_eq!(said.status.code(), Some(1), "{name}={value}: {all}");
        let wrong = all.lines().find(|line| line.starts_with("WRONG ") && line.contains(want));
        assert!(wrong.is_some_and(|line| line.contains(" -> ")), "{name}={value}: {all}");
    }
}

#[test]
fn a_variable_that_the_library_refuses_is_not_fine() {
    for (name, value) in [
        ("FERRY_QUIRKS", "F99"),
        ("FERRY_TASK_GROUPS", "some"),
        ("FERRY_LIMIT_STREAMS", "0"),
        ("FERRY_DEVICES", "0"),
    ] {
        let said = output(ferry(&["doctor"]).env(name, value));
        let found = lines(&said, "environment");
        assert!(!found.is_empty(), "{}", text(&said.stdout));
        for line in found {
            assert!(line.starts_with("WRONG ") && line.contains(&format!("unset {name}")), "{line}");
        }
    }
}

#[test]
fn limits_of_the_process_are_seen() {
    let plain = ferry(&["doctor"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -l 64; ulimit -n 200; exec \"$0\" doctor"]).arg(plain.get_program());
    let said = output(&mut shell);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stdout));
    for (about, words) in [("memlock", "64.0 KiB"), ("descriptors", "200 files")] {
        let line = lines(&said, about).concat();
        assert!(line.starts_with("note ") && line.contains(words) && line.contains("ulimit"), "{line}");
    }
}

const PROGRAM: &str = "#include <acl/acl.h>\nint main(void) { return aclInit(0); }\n";

#[test]
fn the_rule_by_which_a_library_is_found_is_named() {
    let folder = scratch("rules");
    let (plain, runs) = (folder.join("plain"), folder.join("runs"));
    let link = format!("-L{}", deps().display());
    gcc(PROGRAM, &plain, &[&link, "-lascendcl"]);
    gcc(PROGRAM, &runs, &[&link, "-lascendcl", &format!("-Wl,-rpath,{}", deps().display())]);
    for (program, libraries, code, want) in [
        (&plain, Path::new(""), 1, "libascendcl.so for plain is not found -> ferry run -- PROGRAM"),
        (&plain, &*deps(), 0, "by LD_LIBRARY_PATH"),
        (&runs, Path::new(""), 0, "by RUNPATH"),
    ] {
        let said = doctor(program, libraries);
        let line = lines(&said, "loader").concat();
        assert!(line.contains(want), "{}: {line}", program.display());
        assert_eq!(said.status.code(), Some(code), "{}", text(&said.stdout));
    }
    // What it says is what the loader does.
    assert!(Command::new(&runs).env_remove("LD_LIBRARY_PATH").status().expect("it starts").success());
}

#[test]
fn a_library_of_others_in_our_place_is_wrong() {
    let folder = scratch("others");
    let (theirs, program) = (folder.join("libascendcl.so"), folder.join("program"));
    gcc(
        "int aclInit(const char *file) { return file != 0; }\n",
        &theirs,
        &["-shared", "-fPIC", "-Wl,-soname,libascendcl.so"],
    );
    gcc(PROGRAM, &program, &[&format!("-L{}", folder.display()), "-lascendcl"]);
    let said = doctor(&program, &folder);
    assert_eq!(said.status.code(), Some(1));
    assert!(
        text(&said.stdout).contains("by LD_LIBRARY_PATH, is not ours -> ferry run -- PROGRAM"),
        "{}",
        text(&said.stdout)
    );
}

#[test]
fn names_that_we_lack_are_told_from_those_that_may_be_looked_up() {
    let folder = scratch("names");
    let (theirs, program) = (folder.join("libascendcl.so"), folder.join("program"));
    let library = "int aclInit(const char *f) { return f != 0; }\nint aclrtNotOurs(void) { return 0; }\n";
    gcc(library, &theirs, &["-shared", "-fPIC", "-Wl,-soname,libascendcl.so"]);
    let source = "#include <dlfcn.h>\n#include <acl/acl.h>\nint aclrtNotOurs(void);\n\
        int main(void) { return aclInit(0) + aclrtNotOurs() + (dlsym(0, \"aclrtLookedUp\") != 0); }\n";
    gcc(source, &program, &[&format!("-L{}", folder.display()), "-lascendcl", "-ldl"]);
    let said = doctor(&program, &deps());
    assert_eq!(said.status.code(), Some(1), "{}", text(&said.stdout));
    let names = lines(&said, "names");
    let has =
        |state: &str, words: &str| names.iter().any(|line| line.starts_with(state) && line.contains(words));
    assert!(has("WRONG ", "program wants 1 name that nobody has: aclrtNotOurs -> "), "{names:?}");
    assert!(has("note ", "program may look up 1 name that Ferry lacks: aclrtLookedUp -> "), "{names:?}");
    assert!(has("ok ", "Ferry has 1 name that"), "{names:?}");
    // A folder of libraries is looked at as a program is.
    gcc(
        source,
        &folder.join("libplugin.so"),
        &["-shared", "-fPIC", &format!("-L{}", folder.display()), "-lascendcl"],
    );
    let said = doctor(&folder, &deps());
    assert!(
        lines(&said, "names").iter().any(|line| line.contains("libplugin.so wants 1 name")),
        "{}",
        text(&said.stdout)
    );
}

#[test]
fn what_is_no_program_is_said() {
    let folder = scratch("kinds");
    let script = folder.join("script");
    std::fs::write(&script, "#!/usr/bin/env sh\ntrue\n").expect("writable");
    for (program, code, want) in [
        (Path::new("/does/not/exist"), 1, "no such program"),
        (Path::new("no-such-program"), 1, "no such program"),
        (Path::new("/etc/passwd"), 1, "neither a program nor a library"),
        (&*script, 0, "a script of"),
        (Path::new("sh"), 0, "/sh"),
    ] {
        let said = doctor(program, Path::new(""));
        assert_eq!(said.status.code(), Some(code), "{}: {}", program.display(), text(&said.stdout));
        assert!(
            lines(&said, "program").concat().contains(want),
            "{}: {}",
            program.display(),
            text(&said.stdout)
        );
    }
}

#[test]
fn what_cannot_be_read_to_its_end_is_no_program() {
    let folder = scratch("endless");
    let (pipe, link) = (folder.join("pipe.so"), folder.join("zero.so"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is installed").success());
    std::os::unix::fs::symlink("/dev/zero", &link).expect("writable");
    // Each of these is the folder itself: 2 to the power of 40 ways to walk.
    for name in ["a.so", "b.so"] {
        std::os::unix::fs::symlink(".", folder.join(name)).expect("writable");
    }
    for program in [&*pipe, &*link, Path::new("/dev/zero"), &*folder] {
        let plain = ferry(&["doctor", "--"]);
        // Whatever hangs or grows ends.
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -v 4000000; exec timeout 20 \"$@\"", "sh"]).arg(plain.get_program());
        let said = output(limited.args(["doctor", "--"]).arg(program));
        assert_eq!(said.status.code(), Some(1), "{}: {}", program.display(), text(&said.stderr));
        let line = lines(&said, "program").concat();
        assert!(line.contains("neither a program nor a library"), "{}: {line}", program.display());
    }
}

#[test]
fn what_will_not_start_is_wrong() {
    let folder = scratch("dead");
    let [lost, itself, elsewhere, part] =
        ["lost", "itself", "elsewhere", "part.o"].map(|name| folder.join(name));
    std::fs::write(&lost, "#!/does/not/exist -x\n").expect("writable");
    std::fs::write(&itself, format!("#!{}\n", itself.display())).expect("writable");
    gcc(PROGRAM, &part, &["-c"]);
    gcc("int main(void) { return 0; }\n", &elsewhere, &[]);
    // The processor's number is at byte 18: another one.
    let mut bytes = std::fs::read(&elsewhere).expect("it was made");
    bytes[18..20].copy_from_slice(&8_u16.to_le_bytes());
    std::fs::write(&elsewhere, bytes).expect("writable");
    for (program, want) in [
        (&lost, "a script of /does/not/exist, which is no program"),
        (&itself, "which is no program"),
        (&elsewhere, "neither a program nor a library for this machine"),
        (&part, "neither a program nor a library for this machine"),
    ] {
        let said = doctor(program, Path::new(""));
        let line = lines(&said, "program").concat();
        assert!(line.starts_with("WRONG ") && line.contains(want), "{}: {line}", program.display());
        assert_eq!(said.status.code(), Some(1), "{}", text(&said.stdout));
    }
}

#[test]
fn a_python_that_says_more_when_it_starts_is_understood() {
    let folder = scratch("chatty");
    std::fs::write(folder.join("sitecustomize.py"), "print('hello')\n").expect("writable");
    std::fs::create_dir(folder.join("torch_npu")).expect("writable");
    std::fs::write(folder.join("torch_npu/__init__.py"), "").expect("writable");
    let said = output(ferry(&["doctor", "--", "python3"]).env("PYTHONPATH", &folder));
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stdout));
    let want = format!("torch_npu in {}", folder.join("torch_npu").display());
    assert!(lines(&said, "python").iter().any(|line| line.ends_with(&want)), "{}", text(&said.stdout));
}

#[test]
fn packages_that_do_not_fit_are_wrong_and_a_plugin_is_seen() {
    let folder = scratch("packages");
    let package = |name: &str, version: &str, points: &str| {
        let info = folder.join(format!("{name}-{version}.dist-info"));
        std::fs::create_dir_all(&info).expect("writable");
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        std::fs::write(info.join("METADATA"), metadata).expect("writable");
        std::fs::write(info.join("entry_points.txt"), points).expect("writable");
    };
    package("torch", "2.11.0+cpu", "");
    package("torch_npu", "2.14.0", "");
    package("pytest", "9.2.0", "");
    let doctor = || output(ferry(&["doctor", "--", "python3"]).env("PYTHONPATH", &folder));
    let said = doctor();
    let all = text(&said.stdout);
    assert!(
        lines(&said, "torch")[0].starts_with("WRONG") && all.contains("torch==2.14.0 torch_npu==2.14.0"),
        "{all}"
    );
    assert!(lines(&said, "pytest")[0].starts_with("note"), "{all}");
    package("ferry_acl", "0.1.0", "[pytest11]\nferry = ferry_acl.pytest\n");
    let said = doctor();
    assert!(lines(&said, "pytest")[0].starts_with("ok"), "{}", text(&said.stdout));
}

#[test]
fn a_program_that_is_only_called_like_python_is_not_started() {
    let folder = scratch("python-names");
    for name in ["python_train", "python-server", "python3x.sh"] {
        let (program, trace) = (folder.join(name), folder.join("started"));
        std::fs::write(&program, format!("#!/bin/sh\n: > '{}'\n", trace.display())).expect("writable");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, executable).expect("ours");
        let said = doctor(&program, Path::new(""));
        assert!(!trace.exists(), "{name} was started");
        assert!(lines(&said, "program").concat().contains("a script of /bin/sh"), "{}", text(&said.stdout));
    }
}
