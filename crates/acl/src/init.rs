//! aclInit and aclFinalize, and what they read.

use crate::{
    Result,
    constants::*,
    device,
    error::fail,
    settings::settings,
    state::{engine, lock},
};
use std::{
    ffi::{CStr, CString},
    fs,
    sync::{Mutex, OnceLock},
};

/// Documented: a configuration nests at most this deep.
const MOST_NESTING: usize = 10;

/// How often aclInit was called since the last shutdown.
static COUNT: Mutex<u64> = Mutex::new(0);

/// aclInit with the path of a JSON file, or none. Documented: a repeated call counts, and says so.
pub fn init(config: Option<&str>) -> Result<()> {
    settings()?;
    let mut count = lock(&COUNT);
    if *count == 0 {
        if let Some(path) = config {
            check_config(path)?;
        }
        engine()?;
    }
    *count += 1;
    if *count > 1 {
        return Err(fail(ACL_ERROR_REPEAT_INITIALIZE, "acl is initialised already; this can be ignored"));
    }
    Ok(())
}

/// aclFinalize: shuts down whatever the count.
pub fn finalize() -> Result<()> {
    count_down(|_| 0).map(drop)
}

/// aclFinalizeReference: takes one aclInit back, and shuts down when none is left. Returns how many are.
pub fn finalize_reference() -> Result<u64> {
    count_down(|count| count - 1)
}

/// Lowers the count to what `left` makes of it; at 0 everything ends. The lock is not held then: what ends may wait for
/// functions of the user's.
fn count_down(left: impl FnOnce(u64) -> u64) -> Result<u64> {
    let mut count = lock(&COUNT);
    if *count == 0 {
        return Err(fail(ACL_ERROR_REPEAT_FINALIZE, "acl is not initialised, or was finalised already"));
    }
    *count = left(*count);
    let left = *count;
    drop(count);
    if left == 0 {
        device::reset_all(engine()?)?;
    }
    Ok(left)
}

fn check_config(path: &str) -> Result<()> {
    let text = fs::read(path)
        .map_err(|why| fail(ACL_ERROR_INVALID_FILE, format!("the configuration file {path}: {why}")))?;
    let bad = |why: String| fail(ACL_ERROR_PARSE_FILE, format!("the configuration file {path}: {why}"));
    let json: serde_json::Value = serde_json::from_slice(&text).map_err(|why| bad(why.to_string()))?;
    let (objects, arrays) = nesting(&json);
    if objects > MOST_NESTING || arrays > MOST_NESTING {
        return Err(bad(format!(
            "{objects} levels of braces and {arrays} of brackets, at most {MOST_NESTING} are allowed"
        )));
    }
    Ok(())
}

/// How deep objects and arrays are nested.
fn nesting(value: &serde_json::Value) -> (usize, usize) {
    let deepest = |all: &mut dyn Iterator<Item = &serde_json::Value>| {
        all.map(nesting).fold((0, 0), |(o, a), (x, y)| (o.max(x), a.max(y)))
    };
    match value {
        serde_json::Value::Object(map) => {
            let (objects, arrays) = deepest(&mut map.values());
            (objects + 1, arrays)
        }
        serde_json::Value::Array(list) => {
            let (objects, arrays) = deepest(&mut list.iter());
            (objects, arrays + 1)
        }
        _ => (0, 0),
    }
}

/// aclrtGetSocName: the name of the emulated SoC.
pub fn soc_name() -> Result<&'static CStr> {
    static NAME: OnceLock<CString> = OnceLock::new();
    let soc = &settings()?.soc;
    Ok(NAME.get_or_init(|| CString::new(soc.as_str()).unwrap_or_default()))
}
