//! The installed tree, as `ferry run`, `ferry doctor` and `set_env.sh` see it. The tree of these tests has
//! the library and little else; `cargo xtask test --only dist` tries a whole one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use command::{ferry, output, text};

mod command;

/// A tree with the library that was built with the command.
fn tree(name: &str) -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&home);
    let lib = home.join(format!("{}-linux/lib64", std::env::consts::ARCH));
    for folder in [&lib, &home.join("opp"), &home.join("runtime"), &home.join("share/ferry")] {
        std::fs::create_dir_all(folder).expect("writable");
    }
    let library = Path::new(env!("CARGO_BIN_EXE_ferry")).with_file_name("deps/libascendcl.so");
    std::fs::hard_link(library, lib.join("libascendcl.so")).expect("one file system");
    std::fs::write(home.join("share/ferry/files"), "").expect("writable");
    std::fs::write(home.join("runtime/version.info"), "Version=8.5.0\n").expect("writable");
    std::os::unix::fs::symlink(&lib, home.join("lib64")).expect("writable");
    assert!(output(ferry(&["pages"]).arg(&home)).status.success());
    home.canonicalize().expect("it was made")
}

fn library(home: &Path) -> PathBuf {
    home.join(format!("{}-linux/lib64/libascendcl.so", std::env::consts::ARCH))
}

fn variables(said: &Output) -> BTreeMap<String, String> {
    assert!(said.status.success(), "{}", text(&said.stderr));
    let lines = text(&said.stdout);
    lines.lines().filter_map(|line| line.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
}

const LISTS: [&str; 4] = ["LD_LIBRARY_PATH", "PYTHONPATH", "PATH", "CMAKE_PREFIX_PATH"];

#[test]
fn run_sets_what_set_env_sets() {
    let home = tree("prefix-run/latest");
    let run = output(
        ferry(&["run", "--", "env"]).env("FERRY_LIBRARY", library(&home)).env("PYTHONPATH", "/was/there"),
    );
    let mut shell = Command::new("sh");
    shell.args(["-euc", ". \"$1/set_env.sh\" && env", "sh"]).arg(&home).env("PYTHONPATH", "/was/there");
    let (run, sourced) = (variables(&run), variables(&output(&mut shell)));
    let ours: Vec<&String> =
        sourced.keys().filter(|name| name.starts_with("ASCEND_") || name.starts_with("NPU_")).collect();
    assert!(ours.len() >= 8, "{ours:?}");
    for name in ours {
        assert_eq!(run.get(name), sourced.get(name), "{name}");
    }
    assert_eq!(run["ASCEND_HOME_PATH"], home.to_string_lossy());
    for name in LISTS {
        let folders = |from: &BTreeMap<String, String>| -> Vec<String> {
            let ours = |folder: &&str| folder.starts_with(&*home.to_string_lossy());
            // `ferry run` puts the real folder of the library in front.
            let real = |folder: &&str| !folder.ends_with(&format!("{}-linux/lib64", std::env::consts::ARCH));
            from[name].split(':').filter(ours).filter(real).map(str::to_owned).collect()
        };
        assert_eq!(folders(&run), folders(&sourced), "{name}");
        assert!(!folders(&run).is_empty(), "{name}");
    }
    assert!(run["PYTHONPATH"].ends_with(":/was/there"), "{}", run["PYTHONPATH"]);
}

#[test]
fn a_library_that_is_not_installed_has_no_tree() {
    let run = variables(&output(ferry(&["run", "--", "env"]).env_remove("PYTHONPATH")));
    assert!(!run.contains_key("ASCEND_HOME_PATH") && !run.contains_key("PYTHONPATH"), "{run:?}");
}

#[test]
fn a_tree_whose_name_breaks_lists_is_named_all_the_same() {
    let home = tree("prefix:colon");
    let run = variables(&output(ferry(&["run", "--", "env"]).env("FERRY_LIBRARY", library(&home))));
    assert_eq!(run["ASCEND_HOME_PATH"], home.to_string_lossy());
    assert!(!run["PATH"].contains("prefix:colon"), "{}", run["PATH"]);
    let mut shell = Command::new("sh");
    let said = output(shell.args(["-c", ". \"$1/set_env.sh\"", "sh"]).arg(&home));
    assert!(!said.status.success() && text(&said.stderr).contains("has a colon"), "{}", text(&said.stderr));
}

/// What `ASCEND_HOME_PATH` is after `set_env.sh` was sourced by this path in this shell, which may have
/// options.
fn sourced(shell: &[&str], file: &Path) -> Option<String> {
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).args(["-euc", ". \"$1\" && printf %s \"$ASCEND_HOME_PATH\"", "sh"]).arg(file);
    // Where no locale is set, as in containers.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    match command.output() {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => None, // it is not installed
        said => {
            let said = said.expect("it starts");
            Some(format!("{}{}", text(&said.stdout), text(&said.stderr)))
        }
    }
}

#[test]
fn set_env_finds_its_tree_in_every_shell() {
    let home = tree("prefix é 'q' $x");
    let link = home.with_file_name("prefix-link.sh");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(home.join("set_env.sh"), &link).expect("writable");
    for shell in [
        &["sh"][..],
        &["dash"],
        &["dash", "-f"],
        &["bash"],
        &["bash", "-f"],
        &["zsh"],
        &["zsh", "--emulate", "sh"],
    ] {
        for file in [&home.join("set_env.sh"), &link] {
            if let Some(said) = sourced(shell, file) {
                assert_eq!(said, home.to_string_lossy(), "{shell:?}: {}", file.display());
            }
        }
    }
}

#[test]
fn a_tree_whose_name_the_loader_would_split_is_refused() {
    let said = sourced(&["sh"], &tree("prefix;semicolon").join("set_env.sh")).expect("there is a shell");
    assert!(said.contains("prefix;semicolon has a semicolon in its name"), "{said}");
}

#[test]
fn ferry_run_says_which_variables_it_cannot_set() {
    for (name, want) in [("prefix-plain", ""), ("prefix;split", "LD_LIBRARY_PATH: not set")] {
        let home = tree(name);
        let said = output(ferry(&["run", "--", "true"]).env("FERRY_LIBRARY", library(&home)));
        let complaints = text(&said.stderr);
        assert_eq!(complaints.contains("not set"), !want.is_empty(), "{complaints}");
        assert!(complaints.contains(want), "{complaints}");
    }
}

#[test]
fn doctor_compares_the_library_with_the_tree_and_the_environment() {
    let home = tree("prefix-doctor");
    let doctor = |name: &str, value: &Path| {
        let said = output(ferry(&["doctor"]).env("FERRY_LIBRARY", library(&home)).env(name, value));
        (said.status.code(), text(&said.stdout))
    };
    let (code, said) = doctor("ASCEND_TOOLKIT_HOME", &home);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("found by FERRY_LIBRARY") && said.contains("in an installed tree"), "{said}");
    for (name, value, want) in [
        (
            "FERRY_CANN_VERSION",
            "8.0.0",
            "CANN 8.0.0, but the files of the tree say 8.5.0 -> unset FERRY_CANN_VERSION",
        ),
        ("ASCEND_TOOLKIT_HOME", "/tmp", "ASCEND_TOOLKIT_HOME is /tmp: another toolkit than ours -> . "),
    ] {
        let (code, said) = doctor(name, Path::new(value));
        assert_eq!(code, Some(0), "{said}");
        assert!(said.lines().any(|line| line.starts_with("note ") && line.contains(want)), "{said}");
    }
}
