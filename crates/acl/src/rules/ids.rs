//! The numbers of a device. A user's number counts what ASCEND_RT_VISIBLE_DEVICES lets this process see, a
//! logical one is the driver's, and a physical one is the machine's, which is the logical one here:
//! containers have no numbers of their own.

use crate::{
    Result,
    constants::ACL_ERROR_RT_INVALID_DEVICEID,
    error::fail,
    state::{OpenedEngine, engine},
};

impl OpenedEngine {
    /// The user's number of the device that the driver calls `logic`.
    pub(crate) fn user_device(&self, logic: i32) -> Result<u32> {
        let found = self.physical.iter().position(|own| i64::from(*own) == i64::from(logic));
        let unknown = || {
            let seen = self.physical.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            let note = format!("no device that this process sees has the number {logic}: they have {seen}");
            fail(ACL_ERROR_RT_INVALID_DEVICEID, note)
        };
        found.map(|user| user as u32).ok_or_else(unknown)
    }
}

/// aclrtGetLogicDevIdByUserDevId and aclrtGetPhyDevIdByUserDevId; and aclrtGetPhyDevIdByLogicDevId, whose
/// argument is documented (CANN
/// 9.1) to be the user's number in spite of its name.
pub fn of_user(user: i32) -> Result<i32> {
    let engine = engine()?;
    let user = engine.known_device(user)?;
    Ok(engine.physical[user as usize] as i32)
}

/// aclrtGetUserDevIdByLogicDevId and aclrtGetUserDevIdByPhyDevId.
pub fn user_of(number: i32) -> Result<i32> {
    Ok(engine()?.user_device(number)? as i32)
}

/// aclrtGetLogicDevIdByPhyDevId.
pub fn logic_of_physical(physical: i32) -> Result<i32> {
    engine()?.user_device(physical)?;
    Ok(physical)
}
