//! The numbers of a device.

use crate::{
    enter::{Out, enter},
    types::aclError,
};
use ferry_acl::{functions, rules::ids};

/// The driver's number of a device.
///
/// # Safety
/// `logicDevId` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetLogicDevIdByUserDevId(userDevid: i32, logicDevId: *mut i32) -> aclError {
    enter(&functions::aclrtGetLogicDevIdByUserDevId, |_| {
        let out = Out::new("logicDevId", logicDevId)?;
        out.set(ids::of_user(userDevid)?);
        Ok(())
    })
}

/// This process's number of a device that the driver calls so.
///
/// # Safety
/// `userDevid` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetUserDevIdByLogicDevId(logicDevId: i32, userDevid: *mut i32) -> aclError {
    enter(&functions::aclrtGetUserDevIdByLogicDevId, |_| {
        let out = Out::new("userDevid", userDevid)?;
        out.set(ids::user_of(logicDevId)?);
        Ok(())
    })
}

/// The driver's number of a device of the machine.
///
/// # Safety
/// `logicDevId` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetLogicDevIdByPhyDevId(phyDevId: i32, logicDevId: *mut i32) -> aclError {
    enter(&functions::aclrtGetLogicDevIdByPhyDevId, |_| {
        let out = Out::new("logicDevId", logicDevId)?;
        out.set(ids::logic_of_physical(phyDevId)?);
        Ok(())
    })
}

/// The machine's number of a device; the argument is this process's number, in spite of its name.
///
/// # Safety
/// `phyDevId` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetPhyDevIdByLogicDevId(logicDevId: i32, phyDevId: *mut i32) -> aclError {
    enter(&functions::aclrtGetPhyDevIdByLogicDevId, |_| {
        let out = Out::new("phyDevId", phyDevId)?;
        out.set(ids::of_user(logicDevId)?);
        Ok(())
    })
}

/// This process's number of a device of the machine.
///
/// # Safety
/// `userDevId` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetUserDevIdByPhyDevId(phyDevId: i32, userDevId: *mut i32) -> aclError {
    enter(&functions::aclrtGetUserDevIdByPhyDevId, |_| {
        let out = Out::new("userDevId", userDevId)?;
        out.set(ids::user_of(phyDevId)?);
        Ok(())
    })
}

/// The machine's number of a device.
///
/// # Safety
/// `phyDevId` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetPhyDevIdByUserDevId(userDevId: i32, phyDevId: *mut i32) -> aclError {
    enter(&functions::aclrtGetPhyDevIdByUserDevId, |_| {
        let out = Out::new("phyDevId", phyDevId)?;
        out.set(ids::of_user(userDevId)?);
        Ok(())
    })
}
