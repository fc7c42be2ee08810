//! aclInit and aclFinalize.

use super::{config::InitConfig, context, device};
use crate::{
    Result,
    constants::*,
    error::fail,
    interrupt,
    log::{self, Level, Module},
    messages,
    settings::settings,
    state::{Here, engine, opened, set_default_device},
};
use ferry_core::sync::lock;
use std::{
    ffi::{CStr, CString},
    path::Path,
    sync::{Mutex, OnceLock},
};

/// How often aclInit was called since the last shutdown.
static COUNT: Mutex<u64> = Mutex::new(0);

/// aclInit with the path of a JSON file, or none. Documented: a repeated call counts, and says so; only the
/// first one's configuration counts.
pub fn init(config: Option<&Path>) -> Result<()> {
    settings()?;
    let mut count = lock(&COUNT);
    if *count > 0 {
        *count += 1;
        return Err(fail(ACL_ERROR_REPEAT_INITIALIZE, "acl is initialised already; this can be ignored"));
    }
    let config = config.map(InitConfig::read).transpose()?.unwrap_or_default();
    let engine = engine()?;
    config.fits(engine.devices.len())?;
    apply(config);
    *count = 1;
    log::write(Module::Ascendcl, Level::Info, || format!("aclInit: {config:?}, {}", engine.describe()));
    log::event(|| format!("aclInit: {}", engine.describe()));
    Ok(())
}

fn apply(config: InitConfig) {
    set_default_device(config.default_device);
    messages::share(config.shares_messages);
}

/// aclFinalize: shuts down whatever the count.
pub fn finalize(here: &Here) -> Result<()> {
    count_down(here, |_| 0).map(drop)
}

/// aclFinalizeReference: takes one aclInit back, and shuts down when none is left. Returns how many are.
pub fn finalize_reference(here: &Here) -> Result<u64> {
    count_down(here, |count| count - 1)
}

/// Lowers the count to what `left` makes of it; at 0 everything ends. The contexts to end are taken under the
/// lock, so that none of a later aclInit is among them; their work is waited for without the lock, since it
/// may be functions of the user's.
fn count_down(here: &Here, left: impl Fn(u64) -> u64) -> Result<u64> {
    let ending = || match *lock(&COUNT) {
        count @ 1.. if left(count) == 0 => opened().map(device::all).unwrap_or_default(),
        _ => Vec::new(),
    };
    interrupt::before(here, ending, |context| context::wait(here, engine()?, context))?;
    let mut count = lock(&COUNT);
    if *count == 0 {
        return Err(fail(ACL_ERROR_REPEAT_FINALIZE, "acl is not initialised, or was finalised already"));
    }
    *count = left(*count);
    if *count > 0 {
        return Ok(*count);
    }
    apply(InitConfig::default());
    let engine = engine()?;
    let contexts = device::take_all(engine);
    drop(count);
    log::write(Module::Ascendcl, Level::Info, || "the last aclFinalize".into());
    log::event(|| "the last aclFinalize".into());
    contexts.iter().for_each(|context| context::end(engine, context));
    Ok(0)
}

/// aclrtGetSocName: the name of the emulated SoC.
pub fn soc_name() -> Result<&'static CStr> {
    static NAME: OnceLock<CString> = OnceLock::new();
    let soc = &settings()?.options.soc;
    Ok(NAME.get_or_init(|| CString::new(soc.as_str()).unwrap_or_default()))
}
