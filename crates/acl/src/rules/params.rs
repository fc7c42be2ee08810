//! Parameters of the process and of contexts that operators read. There are no operators here, so they are
//! stored and returned.

use crate::{
    Result,
    arguments::refuse,
    constants::*,
    error::fail,
    state::{Here, SystemParams},
};
use ferry_core::sync::lock;

static OF_PROCESS: SystemParams = SystemParams::new([None; 3]);

fn set_in(params: &SystemParams, opt: i32, value: i64) -> Result<()> {
    let index = known(opt)?;
    // Documented: deterministic computing has four grades, the others are on or off.
    let most = if opt == ACL_OPT_DETERMINISTIC { 3 } else { 1 };
    if !(0..=most).contains(&value) {
        return Err(refuse(format!("value is {value}: for opt {opt} it is from 0 to {most}")));
    }
    lock(params)[index] = Some(value);
    Ok(())
}

fn known(opt: i32) -> Result<usize> {
    let valid = ACL_OPT_DETERMINISTIC..=ACL_OPT_STRONG_CONSISTENCY;
    if valid.contains(&opt) {
        return Ok(opt as usize);
    }
    Err(refuse(format!(
        "opt is {opt}: valid are ACL_OPT_DETERMINISTIC (0), ACL_OPT_ENABLE_DEBUG_KERNEL (1) and \
         ACL_OPT_STRONG_CONSISTENCY (2)"
    )))
}

/// aclrtSetSysParamOpt.
pub fn set(opt: i32, value: i64) -> Result<()> {
    set_in(&OF_PROCESS, opt, value)
}

/// aclrtGetSysParamOpt. Documented: 0 where it was never set.
pub fn get(opt: i32) -> Result<i64> {
    Ok(lock(&OF_PROCESS)[known(opt)?].unwrap_or(0))
}

/// aclrtCtxSetSysParamOpt, in the current context.
pub fn set_in_context(here: &Here, opt: i32, value: i64) -> Result<()> {
    set_in(&here.context()?.params, opt, value)
}

/// aclrtCtxGetSysParamOpt. Documented: reading what was never set fails.
pub fn get_in_context(here: &Here, opt: i32) -> Result<i64> {
    let context = here.context()?;
    let value = lock(&context.params)[known(opt)?];
    value.ok_or_else(|| {
        let note =
            format!("opt {opt} was never set in the current context: set it by aclrtCtxSetSysParamOpt");
        fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, note)
    })
}
