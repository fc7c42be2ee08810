//! What the environment says that only AscendCL's rules heed, besides what to open ([`Options::from_env`]).

use crate::{Error, Result, quirks::Quirks, version::Version};
use ferry::{
    Options,
    engine::{count, setting, switch, var},
};
use std::{str::FromStr, sync::OnceLock};

/// The settings of this process, read once.
#[derive(Clone)]
pub struct Settings {
    /// What to open, and as which product.
    pub options: Options,
    /// Batches larger than this are refused, if set.
    pub batch_limit: Option<usize>,
    /// The version of CANN that we say we are.
    pub cann_version: Version,
    /// Say on standard error what was opened.
    pub verbose: bool,
    /// Explain a crash on a device pointer.
    pub fault_note: bool,
    /// Refuse what public programs do where the documents are silent or leave it undefined. The whole list is
    /// a table in `docs/ENVIRONMENT.md`, and every place that heeds it has a test both ways
    /// (`tests/tests/strict.rs`).
    pub strict: bool,
    /// What real cards do against the documents, where it is asked for. Wins over `strict`.
    pub quirks: Quirks,
}

/// The settings, or why they make no sense; the next call reads them again then.
pub fn settings() -> Result<&'static Settings> {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    if let Some(settings) = SETTINGS.get() {
        return Ok(settings);
    }
    let settings = read(Options::from_env()?, var)?;
    Ok(SETTINGS.get_or_init(|| settings))
}

fn read(options: Options, var: impl Fn(&str) -> Option<String>) -> Result<Settings> {
    let is_on = |name| Ok::<_, Error>(setting(name, &var, switch)?.unwrap_or_default());
    Ok(Settings {
        options,
        batch_limit: setting("FERRY_BATCH_LIMIT", &var, |text| count(text, usize::MAX))?,
        cann_version: setting("FERRY_CANN_VERSION", &var, Version::from_str)?.unwrap_or_default(),
        verbose: is_on("FERRY_VERBOSE")?,
        fault_note: is_on("FERRY_FAULT_NOTE")?,
        strict: is_on("FERRY_STRICT")?,
        quirks: setting("FERRY_QUIRKS", &var, Quirks::parse)?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::ACL_ERROR_INVALID_PARAM;

    fn with(name: &'static str, value: &'static str) -> Result<Settings> {
        read(Options::default(), |asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn unknown_values_are_refused_with_the_valid_ones() {
        for (name, value, says) in [
            ("FERRY_BATCH_LIMIT", "0", "1 to"),
            ("FERRY_BATCH_LIMIT", "many", "whole number"),
            ("FERRY_CANN_VERSION", "", "8.5.0"),
            ("FERRY_CANN_VERSION", "new", "8.5.0"),
            ("FERRY_CANN_VERSION", "8", "8.5.0"),
            ("FERRY_VERBOSE", "nein", "0, off, no or false"),
            ("FERRY_FAULT_NOTE", "2", "1, on, yes or true"),
            ("FERRY_QUIRKS", "F5", "F1, F2, F3, F4, F6, F7, F8, F9, F12"),
        ] {
            let error = with(name, value).err().unwrap_or_else(|| panic!("{name}={value} was taken"));
            assert_eq!(error.code, ACL_ERROR_INVALID_PARAM);
            assert!(error.note.contains(name) && error.note.contains(says), "{}", error.note);
        }
    }

    #[test]
    fn switches_mean_what_they_say() {
        let off = ["", "0", "no", "No", "off", "false", "FALSE"].map(|value| (value, false));
        for (value, want) in [("1", true), ("yes", true), ("on", true), ("True", true)].into_iter().chain(off)
        {
            assert_eq!(with("FERRY_VERBOSE", value).expect("a switch").verbose, want, "{value:?}");
            assert_eq!(with("FERRY_FAULT_NOTE", value).expect("a switch").fault_note, want, "{value:?}");
            assert_eq!(with("FERRY_STRICT", value).expect("a switch").strict, want, "{value:?}");
        }
    }

    #[test]
    fn batches_have_no_limit_unless_one_is_given() {
        assert_eq!(with("FERRY_BATCH_LIMIT", "4096").expect("a limit").batch_limit, Some(4096));
        assert_eq!(read(Options::default(), |_| None).expect("defaults").batch_limit, None);
    }
}
