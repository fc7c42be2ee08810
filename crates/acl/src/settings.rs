//! What the environment says that only AscendCL's rules heed, besides what to open ([`Options::from_env`]).

use crate::{Error, Result, quirks::Quirks, version::Version};
use ferry::{
    Options,
    engine::{count, setting, switch, var},
    parse_size,
};
use ferry_core::Kind;
use std::{ops::RangeInclusive, str::FromStr, sync::OnceLock};

/// The largest limit of streams that can be asked for.
const MAX_STREAMS: usize = 1 << 16;
/// From a page, which is documented, to a huge page of 1 GiB.
const ALIGNMENTS: RangeInclusive<usize> = 4096..=1 << 30;

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
    /// The most bytes of page-locked host memory that the process may have, if set.
    pub host_bytes: Option<usize>,
    /// What addresses of registered memory must be multiples of, if it is more than a page.
    pub register_alignment: Option<usize>,
    /// The most streams of a device with its default ones, if not as many as the product has.
    pub streams: Option<usize>,
    /// Task groups of captured models take copies and fills, so that the order of updates can be tested
    /// without operators.
    pub groups_take_copies: bool,
}

impl Settings {
    /// The most pieces that a batch may have and what says so, if anything does.
    pub fn most_pieces(&self) -> Option<(&'static str, usize)> {
        let set = self.batch_limit.map(|most| ("FERRY_BATCH_LIMIT", most));
        let seen = self.quirks.batch_limit().map(|most| ("F6 of FERRY_QUIRKS", most));
        set.into_iter().chain(seen).min_by_key(|(_, most)| *most)
    }

    /// The most streams that a device may have, its default ones among them.
    pub fn max_streams(&self) -> usize {
        self.streams.unwrap_or(self.options.product.max_streams)
    }
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
        host_bytes: setting("FERRY_LIMIT_HOST_BYTES", &var, parse_size)?,
        register_alignment: setting("FERRY_LIMIT_REGISTER_ALIGN", &var, alignment)?,
        streams: setting("FERRY_LIMIT_STREAMS", &var, |text| count(text, MAX_STREAMS))?,
        groups_take_copies: setting("FERRY_TASK_GROUPS", &var, task_groups)?.unwrap_or_default(),
    })
}

/// Reads an alignment of registered memory: a power of two, of a page or more.
fn alignment(text: &str) -> ferry_core::Result<usize> {
    let bad = || Kind::BadSetting.because("give a power of two from 4096 (4K) to 1G");
    parse_size(text).ok().filter(|it| it.is_power_of_two() && ALIGNMENTS.contains(it)).ok_or_else(bad)
}

/// Reads what task groups take besides operators.
fn task_groups(text: &str) -> ferry_core::Result<bool> {
    match text {
        "operators" => Ok(false),
        "copies" => Ok(true),
        _ => Err(Kind::BadSetting.because("give operators, as documented, or copies")),
    }
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
            ("FERRY_LIMIT_HOST_BYTES", "lots", "K, M, G or T"),
            ("FERRY_LIMIT_HOST_BYTES", "", "K, M, G or T"),
            ("FERRY_LIMIT_REGISTER_ALIGN", "64", "4096"),
            ("FERRY_LIMIT_REGISTER_ALIGN", "12K", "power of two"),
            ("FERRY_LIMIT_REGISTER_ALIGN", "2G", "1G"),
            ("FERRY_LIMIT_STREAMS", "0", "from 1 to 65536"),
            ("FERRY_TASK_GROUPS", "all", "operators, as documented, or copies"),
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
        let defaults = read(Options::default(), |_| None).expect("defaults");
        assert_eq!((defaults.batch_limit, defaults.most_pieces()), (None, None));
    }

    #[test]
    fn limits_are_read() {
        let limited = |name, value| with(name, value).expect("a limit");
        assert_eq!(limited("FERRY_LIMIT_HOST_BYTES", "1M").host_bytes, Some(1 << 20));
        assert_eq!(limited("FERRY_LIMIT_HOST_BYTES", "0").host_bytes, Some(0));
        assert_eq!(limited("FERRY_LIMIT_REGISTER_ALIGN", "64K").register_alignment, Some(65536));
        assert_eq!(limited("FERRY_LIMIT_STREAMS", "3").max_streams(), 3);
        assert_eq!(limited("FERRY_VERBOSE", "0").max_streams(), Options::default().product.max_streams);
    }

    #[test]
    fn the_smaller_limit_of_batches_counts() {
        for (limit, want) in [("16", ("FERRY_BATCH_LIMIT", 16)), ("10000", ("F6 of FERRY_QUIRKS", 4096))] {
            let both = |name: &str| match name {
                "FERRY_BATCH_LIMIT" => Some(limit.to_owned()),
                "FERRY_QUIRKS" => Some("F6".to_owned()),
                _ => None,
            };
            assert_eq!(read(Options::default(), both).expect("limits").most_pieces(), Some(want));
        }
    }
}
