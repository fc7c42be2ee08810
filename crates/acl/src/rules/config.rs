//! aclInit's configuration: a JSON file. Sections about operators (dump, profiler, StackSize and others) are
//! taken and have no effect, since there are none here; so are unknown keys.

use crate::{Error, Result, constants::*, error::fail};
use serde_json::Value;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Documented: a configuration nests at most this deep.
const MAX_NESTING: usize = 10;
/// The most bytes of a configuration: a longer file is another kind of file, or an endless device.
const MAX_BYTES: u64 = 16 << 20;

/// The keys that have an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InitConfig {
    /// The device of threads that never chose one.
    pub default_device: Option<u32>,
    /// All threads share their messages.
    pub shares_messages: bool,
}

const DEFAULT_DEVICE: &str = "defaultDevice.default_device";

impl InitConfig {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<InitConfig> {
        let text = bytes(path).map_err(|why| fail(ACL_ERROR_INVALID_FILE, why.to_string()));
        text.and_then(|text| InitConfig::parse(&text)).map_err(|error| {
            fail(error.code, format!("the configuration file {}: {}", path.display(), error.note))
        })
    }

    fn parse(text: &[u8]) -> Result<InitConfig> {
        if text.len() as u64 > MAX_BYTES {
            let note = format!("longer than {MAX_BYTES} bytes, which no configuration is");
            return Err(fail(ACL_ERROR_INVALID_FILE_SIZE, note));
        }
        let bad = |why: String| fail(ACL_ERROR_PARSE_FILE, why);
        let json: Value = serde_json::from_slice(text).map_err(|why| bad(why.to_string()))?;
        let (objects, arrays) = nesting(&json);
        if objects > MAX_NESTING || arrays > MAX_NESTING {
            return Err(bad(format!(
                "{objects} levels of braces and {arrays} of brackets, at most {MAX_NESTING} are allowed"
            )));
        }
        if !json.is_object() {
            return Err(bad("it must be a JSON object, {} at least".into()));
        }
        InitConfig::of(&json)
    }

    fn of(json: &Value) -> Result<InitConfig> {
        if let Some(given) = json.get("max_opqueue_num") {
            number(given).filter(|most| *most > 0).ok_or_else(|| {
                let error = bad_value(
                    "max_opqueue_num",
                    given,
                    "a whole number above 0 in quotes, such as \"20000\"",
                );
                fail(ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG, error.note.clone())
            })?;
        }
        Ok(InitConfig {
            default_device: json.get("defaultDevice").map(default_device).transpose()?,
            shares_messages: json.get("err_msg_mode").map(message_mode).transpose()?.unwrap_or(false),
        })
    }

    /// Whether the default device is one of `count`.
    pub fn fits(&self, count: usize) -> Result<()> {
        match self.default_device {
            Some(id) if id as usize >= count => {
                let valid =
                    format!("a device's number in quotes; there are {count} devices, numbered from 0");
                Err(bad_value(DEFAULT_DEVICE, &Value::String(id.to_string()), &valid))
            }
            _ => Ok(()),
        }
    }
}

/// The file, and no more of it than shows that it is too long. Not by `files::above`, which opens one at a
/// time: this may be a pipe without a writer.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    Ok(text)
}

fn default_device(section: &Value) -> Result<u32> {
    let given = section.get("default_device").unwrap_or(&Value::Null);
    let valid = "a device's number in quotes: {\"defaultDevice\": {\"default_device\": \"0\"}}";
    number(given).and_then(|id| id.try_into().ok()).ok_or_else(|| bad_value(DEFAULT_DEVICE, section, valid))
}

fn message_mode(given: &Value) -> Result<bool> {
    match given.as_str() {
        Some("0") => Ok(false),
        Some("1") => Ok(true),
        _ => Err(bad_value(
            "err_msg_mode",
            given,
            "\"0\" (each thread has its messages) or \"1\" (they share them)",
        )),
    }
}

/// Documented: numbers are decimal digits in quotes.
fn number(given: &Value) -> Option<u64> {
    given.as_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

fn bad_value(key: &str, given: &Value, valid: &str) -> Error {
    fail(ACL_ERROR_FILE_ATTR_INVALID, format!("{key} is {given}: valid is {valid}"))
}

/// How deep objects and arrays are nested.
fn nesting(value: &Value) -> (usize, usize) {
    let deepest = |all: &mut dyn Iterator<Item = &Value>| {
        all.map(nesting).fold((0, 0), |(o, a), (x, y)| (o.max(x), a.max(y)))
    };
    match value {
        Value::Object(map) => {
            let (objects, arrays) = deepest(&mut map.values());
            (objects + 1, arrays)
        }
        Value::Array(list) => {
            let (objects, arrays) = deepest(&mut list.iter());
            (objects, arrays + 1)
        }
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_values() {
        let config = |default_device, shares_messages| InitConfig { default_device, shares_messages };
        for (text, want) in [
            ("{}", config(None, false)),
            (r#"{"defaultDevice": {"default_device": "1"}, "err_msg_mode": "1"}"#, config(Some(1), true)),
            (r#"{"err_msg_mode": "0", "max_opqueue_num": "20000"}"#, config(None, false)),
            (
                r#"{"dump": {"dump_list": []}, "profiler": {"switch": "on"},
                    "StackSize": {"aicore_stack_size": 1}}"#,
                config(None, false),
            ),
            (
                r#"{"simt_printf_fifo_size": "1", "simd_printf_fifo_size_per_core": 2, "mine": [1]}"#,
                config(None, false),
            ),
        ] {
            assert_eq!(InitConfig::parse(text.as_bytes()), Ok(want), "{text}");
        }
    }

    #[test]
    fn a_bad_value_names_its_key_and_itself() {
        for (text, code, key, given) in [
            (r#"{"defaultDevice": {"default_device": 1}}"#, 100008, "default_device", "1"),
            (r#"{"defaultDevice": {"default_device": "-1"}}"#, 100008, "default_device", "-1"),
            (r#"{"defaultDevice": {"default_device": ""}}"#, 100008, "default_device", "\"\""),
            (
                r#"{"defaultDevice": {"default_device": "99999999999"}}"#,
                100008,
                "default_device",
                "99999999999",
            ),
            (r#"{"defaultDevice": {}}"#, 100008, "default_device", "{}"),
            (r#"{"defaultDevice": "0x"}"#, 100008, "default_device", "0x"),
            (r#"{"defaultDevice": "1"}"#, 100008, "default_device", "\"1\""),
            (r#"{"err_msg_mode": "2"}"#, 100008, "err_msg_mode", "2"),
            (r#"{"err_msg_mode": 1}"#, 100008, "err_msg_mode", "1"),
            (r#"{"max_opqueue_num": "0"}"#, 148048, "max_opqueue_num", "0"),
            (r#"{"max_opqueue_num": "many"}"#, 148048, "max_opqueue_num", "many"),
            (r#"{"max_opqueue_num": 5}"#, 148048, "max_opqueue_num", "5"),
            ("[]", 100006, "object", "{}"),
            ("3", 100006, "object", "{}"),
        ] {
            let error = InitConfig::parse(text.as_bytes()).expect_err(text);
            assert_eq!(error.code, code, "{text}");
            assert!(error.note.contains(key) && error.note.contains(given), "{}", error.note);
        }
        let error =
            InitConfig { default_device: Some(2), shares_messages: false }.fits(2).expect_err("2 of 2");
        assert!(error.note.contains("there are 2"), "{}", error.note);
    }
}
