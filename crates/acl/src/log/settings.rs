//! Settings of logs, from the ASCEND_ variables. Documented: an invalid value counts as none.

use super::time::LocalClock;
use ferry::engine::files::read_to_string;
use std::{ffi::OsString, path::PathBuf};

/// Documented: no lines at all.
const NOTHING: u8 = 4;
const DEFAULT_LEVEL: u8 = 3;
const DEFAULT_FILES: usize = 10;
const MAX_FILES: usize = 1000;

pub const EVENT: &str = "EVENT";

/// The modules that public documents and their examples name. Any other name in ASCEND_MODULE_LOG_LEVEL voids
/// it.
const MODULES: [&str; 12] = [
    "ASCENDCL",
    "RUNTIME",
    "APP",
    "GE",
    "DRV",
    "TBE",
    "TEFUSION",
    "HCCL",
    "AICPU",
    "FE",
    "DVPP",
    "PROFILING",
];

/// How logs are written.
pub struct LogSettings {
    /// The least level that is written, by module.
    pub levels: [u8; 3],
    pub events: bool,
    pub to_stdout: bool,
    /// Where the folders of logs are; none where there is no home.
    pub folder: Option<PathBuf>,
    /// How many files of each kind a process keeps.
    pub files: usize,
    pub process: String,
    pub clock: LocalClock,
}

impl LogSettings {
    pub fn read(var: impl Fn(&str) -> Option<OsString>) -> LogSettings {
        let text = |name: &str| var(name).map(|value| value.to_string_lossy().into_owned());
        let global = text("ASCEND_GLOBAL_LOG_LEVEL").and_then(|value| level(&value)).unwrap_or(DEFAULT_LEVEL);
        let modules = text("ASCEND_MODULE_LOG_LEVEL").and_then(|value| modules(&value)).unwrap_or_default();
        let of_module = |name: &str| {
            modules.iter().rev().find(|(module, _)| *module == name).map_or(global, |(_, level)| *level)
        };
        let stdout = text("ASCEND_LOG_PRINT_TO_STDOUT").or_else(|| text("ASCEND_SLOG_PRINT_TO_STDOUT"));
        let files = text("ASCEND_HOST_LOG_FILE_NUM").and_then(|value| value.parse().ok());
        LogSettings {
            levels: ["ASCENDCL", "RUNTIME", "APP"].map(of_module),
            // Documented as on by default; but then every process would leave a file.
            events: text("ASCEND_GLOBAL_EVENT_ENABLE").as_deref() == Some("1"),
            to_stdout: stdout.as_deref() == Some("1"),
            folder: folder(&var),
            files: files.filter(|number| (1..=MAX_FILES).contains(number)).unwrap_or(DEFAULT_FILES),
            process: read_to_string("/proc/self/comm").unwrap_or_default().trim_end().to_owned(),
            clock: LocalClock::here(),
        }
    }
}

fn level(text: &str) -> Option<u8> {
    text.parse().ok().filter(|level| text.len() == 1 && *level <= NOTHING)
}

/// `NAME=level:NAME=level`, all of it or nothing.
fn modules(text: &str) -> Option<Vec<(String, u8)>> {
    let one = |piece: &str| {
        let (name, value) = piece.split_once('=')?;
        MODULES.contains(&name).then_some((name.to_owned(), level(value)?))
    };
    text.split(':').map(one).collect()
}

/// Documented: ASCEND_PROCESS_LOG_PATH, else the folder `log` of ASCEND_WORK_PATH, else `ascend/log` at home.
fn folder(var: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = path("ASCEND_PROCESS_LOG_PATH")
        .or_else(|| path("ASCEND_WORK_PATH").map(|work| work.join("log")))
        .or_else(|| path("HOME").map(|home| home.join("ascend/log")))?;
    // The program may change its directory before the first line.
    std::path::absolute(folder).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> LogSettings {
        LogSettings::read(|asked| vars.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into()))
    }

    #[test]
    fn levels_are_those_of_the_module_or_the_global_one() {
        for (global, modules, want) in [
            ("", "", [3, 3, 3]),
            ("0", "", [0, 0, 0]),
            ("4", "", [4, 4, 4]),
            ("5", "", [3, 3, 3]),
            ("-1", "", [3, 3, 3]),
            ("01", "", [3, 3, 3]),
            ("info", "", [3, 3, 3]),
            ("1", "ASCENDCL=0", [0, 1, 1]),
            ("1", "RUNTIME=4:GE=2", [1, 4, 1]),
            ("1", "APP=2:ASCENDCL=3", [3, 1, 2]),
            ("1", "ASCENDCL=0:NOBODY=1", [1, 1, 1]),
            ("1", "ASCENDCL=7", [1, 1, 1]),
            ("1", "ASCENDCL=0;RUNTIME=0", [1, 1, 1]),
            ("1", "ASCENDCL = 0", [1, 1, 1]),
            ("1", "ASCENDCL=0:", [1, 1, 1]),
            ("1", "ASCENDCL", [1, 1, 1]),
        ] {
            let vars = [("ASCEND_GLOBAL_LOG_LEVEL", global), ("ASCEND_MODULE_LOG_LEVEL", modules)];
            assert_eq!(with(&vars).levels, want, "{global:?} and {modules:?}");
        }
    }

    #[test]
    fn the_new_name_of_a_variable_wins() {
        let (new, old) = ("ASCEND_LOG_PRINT_TO_STDOUT", "ASCEND_SLOG_PRINT_TO_STDOUT");
        for (vars, want) in [
            (&[][..], false),
            (&[(old, "1")], true),
            (&[(old, "yes")], false),
            (&[(new, "1")], true),
            (&[(new, "0"), (old, "1")], false),
            (&[(new, "2"), (old, "1")], false),
            (&[(new, "1"), (old, "0")], true),
        ] {
            assert_eq!(with(vars).to_stdout, want, "{vars:?}");
        }
    }

    #[test]
    fn the_folder_is_the_first_that_is_set() {
        let (log, work, home) = ("ASCEND_PROCESS_LOG_PATH", "ASCEND_WORK_PATH", "HOME");
        for (vars, want) in [
            (&[(log, "/a"), (work, "/b"), (home, "/c")][..], Some("/a")),
            (&[(work, "/b"), (home, "/c")], Some("/b/log")),
            (&[(log, ""), (work, ""), (home, "/c")], Some("/c/ascend/log")),
            (&[], None),
        ] {
            assert_eq!(with(vars).folder, want.map(PathBuf::from), "{vars:?}");
        }
        assert!(with(&[(log, "here")]).folder.is_some_and(|folder| folder.is_absolute()));
    }

    #[test]
    fn so_many_files_are_kept() {
        for (text, want) in [("1", 1), ("1000", 1000), ("0", 10), ("1001", 10), ("", 10), ("ten", 10)] {
            assert_eq!(with(&[("ASCEND_HOST_LOG_FILE_NUM", text)]).files, want, "{text:?}");
        }
    }

    #[test]
    fn events_are_written_for_those_who_ask() {
        for (text, want) in [("1", true), ("0", false), ("", false), ("2", false)] {
            assert_eq!(with(&[("ASCEND_GLOBAL_EVENT_ENABLE", text)]).events, want, "{text:?}");
        }
        assert!(!with(&[]).events);
    }
}
