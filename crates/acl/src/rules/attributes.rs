//! What can be set of a stream and asked of it: priority, flags, attributes. Only the failure mode changes
//! how its work runs.

use super::stream::set_failure_mode;
use crate::{
    Result,
    arguments::refuse,
    capture,
    constants::*,
    error::fail,
    state::{Here, LEAST_PRIORITY, StreamEntry, engine},
};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// aclrtStreamGetPriority.
pub fn priority(here: &Here, handle: usize) -> Result<u32> {
    Ok(find(here, handle)?.settings.priority.load(Relaxed))
}

/// aclrtStreamGetFlags.
pub fn flags(here: &Here, handle: usize) -> Result<u32> {
    Ok(find(here, handle)?.flags)
}

/// aclrtSetStreamOverflowSwitch: stored, and returned when asked. The pages have it on the newest products
/// only, but the PyTorch adapter insists on success elsewhere.
pub fn set_overflow_switch(here: &Here, handle: usize, flag: u32) -> Result<()> {
    find(here, handle)?.settings.overflow_check.store(on_or_off("flag", flag)?, Relaxed);
    Ok(())
}

/// aclrtGetStreamOverflowSwitch.
pub fn overflow_switch(here: &Here, handle: usize) -> Result<u32> {
    Ok(find(here, handle)?.settings.overflow_check.load(Relaxed))
}

/// aclrtSetStreamAttribute. `value` is the union's first 64 bits; all members but the failure mode read the
/// lower half.
pub fn set(here: &Here, handle: usize, attribute: i32, value: u64) -> Result<()> {
    let entry = find(here, handle)?;
    let attributes = &entry.settings;
    let word = value as u32;
    match attribute {
        ACL_STREAM_ATTR_FAILURE_MODE if handle == 0 => Err(refuse(
            "stream is NULL: the failure mode of the default stream is not an attribute; \
             aclrtSetStreamFailureMode sets it on some products",
        )),
        ACL_STREAM_ATTR_FAILURE_MODE => set_failure_mode(here, handle, value),
        ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK => {
            attributes.overflow_check.store(on_or_off("value->overflowSwitch", word)?, Relaxed);
            Ok(())
        }
        ACL_STREAM_ATTR_USER_CUSTOM_TAG => {
            attributes.custom_tag.store(word, Relaxed);
            Ok(())
        }
        ACL_STREAM_ATTR_CACHE_OP_INFO => {
            let word = on_or_off("value->cacheOpInfoSwitch", word)?;
            attributes.cache_op_info.store(word, Relaxed);
            // Documented: streams that joined a capture follow the one that it began on.
            let follow = |other: &StreamEntry| other.settings.cache_op_info.store(word, Relaxed);
            capture::joined_to(entry.handle).iter().for_each(|other| follow(other));
            Ok(())
        }
        ACL_STREAM_ATTR_PRIORITY => {
            has_priority()?;
            if word > LEAST_PRIORITY {
                return Err(refuse(format!(
                    "value->streamPriority is {word}: it is from 0 to {LEAST_PRIORITY}"
                )));
            }
            attributes.priority.store(word, Relaxed);
            Ok(())
        }
        _ => Err(unknown(attribute)),
    }
}

/// aclrtGetStreamAttribute: the union's first 64 bits.
pub fn get(here: &Here, handle: usize, attribute: i32) -> Result<u64> {
    let entry = find(here, handle)?;
    let attributes = &entry.settings;
    Ok(match attribute {
        ACL_STREAM_ATTR_FAILURE_MODE => attributes.stops.load(Relaxed).into(),
        ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK => attributes.overflow_check.load(Relaxed).into(),
        ACL_STREAM_ATTR_USER_CUSTOM_TAG => attributes.custom_tag.load(Relaxed).into(),
        ACL_STREAM_ATTR_CACHE_OP_INFO => attributes.cache_op_info.load(Relaxed).into(),
        ACL_STREAM_ATTR_PRIORITY => {
            has_priority()?;
            attributes.priority.load(Relaxed).into()
        }
        _ => return Err(unknown(attribute)),
    })
}

fn has_priority() -> Result<()> {
    let options = &engine()?.settings.options;
    if options.product.is_newest() {
        return Ok(());
    }
    let note = format!("stmAttrType is ACL_STREAM_ATTR_PRIORITY (5): {} does not have it", options.soc);
    Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note))
}

fn unknown(attribute: i32) -> crate::Error {
    refuse(format!("stmAttrType is {attribute}: not a member of aclrtStreamAttr (1 to 5)"))
}

fn on_or_off(name: &str, value: u32) -> Result<u32> {
    if value <= 1 { Ok(value) } else { Err(refuse(format!("{name} is {value}: give 0 or 1"))) }
}

fn find(here: &Here, handle: usize) -> Result<Arc<StreamEntry>> {
    here.stream(handle)
}
