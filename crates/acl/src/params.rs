//! Parameters of the process and of contexts that operators read. There are no operators here, so they are kept and given back.

use crate::{
    Result,
    call::refuse,
    constants::*,
    error::fail,
    state::{lock, with_here},
};
use std::sync::Mutex;

/// The values of aclSysParamOpt, by number; what nobody set is not there.
#[derive(Default)]
pub struct Params(Mutex<[Option<i64>; 3]>);

static OF_PROCESS: Params = Params(Mutex::new([None; 3]));

impl Params {
    fn set(&self, opt: i32, value: i64) -> Result<()> {
        let index = known(opt)?;
        // Documented: deterministic computing has four grades, the others are on or off.
        let most = if opt == ACL_OPT_DETERMINISTIC { 3 } else { 1 };
        if !(0..=most).contains(&value) {
            return Err(refuse(format!("value is {value}: for opt {opt} it is from 0 to {most}")));
        }
        lock(&self.0)[index] = Some(value);
        Ok(())
    }

    fn get(&self, opt: i32) -> Result<Option<i64>> {
        Ok(lock(&self.0)[known(opt)?])
    }
}

fn known(opt: i32) -> Result<usize> {
    let valid = ACL_OPT_DETERMINISTIC..=ACL_OPT_STRONG_CONSISTENCY;
    if valid.contains(&opt) {
        return Ok(opt as usize);
    }
    Err(refuse(format!(
        "opt is {opt}: valid are ACL_OPT_DETERMINISTIC (0), ACL_OPT_ENABLE_DEBUG_KERNEL (1) and ACL_OPT_STRONG_CONSISTENCY (2)"
    )))
}

/// aclrtSetSysParamOpt.
pub fn set(opt: i32, value: i64) -> Result<()> {
    OF_PROCESS.set(opt, value)
}

/// aclrtGetSysParamOpt. Documented: 0 where nobody set it.
pub fn get(opt: i32) -> Result<i64> {
    Ok(OF_PROCESS.get(opt)?.unwrap_or(0))
}

/// aclrtCtxSetSysParamOpt, in the current context.
pub fn set_in_context(opt: i32, value: i64) -> Result<()> {
    with_here(|here| here.context()?.params.set(opt, value))
}

/// aclrtCtxGetSysParamOpt. Documented: reading what nobody set fails.
pub fn get_in_context(opt: i32) -> Result<i64> {
    with_here(|here| here.context()?.params.get(opt))?.ok_or_else(|| {
        let note =
            format!("opt {opt} was never set in the current context: set it by aclrtCtxSetSysParamOpt");
        fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, note)
    })
}
