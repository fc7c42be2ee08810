//! Mappings: which handle is mapped at which address, and which places were given access to it.

use super::physical::{self, PhysicalEntry};
use crate::{
    Result,
    arguments::{not_null, refuse},
    constants::*,
    error::fail,
    explain::explaining,
    state::{Here, OpenedEngine, engine},
};
use ferry_core::{Home, sync::lock};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Every mapping of the process by its first address.
pub(super) static MAPPED: Mutex<MappedTable> = Mutex::new(MappedTable(BTreeMap::new()));

pub(super) struct MappedTable(BTreeMap<usize, MappedMemory>);

struct MappedMemory {
    entry: Arc<PhysicalEntry>,
    /// The places that aclrtMemSetAccess gave access, beside the memory's own.
    open_to: Vec<Home>,
}

/// aclrtMemAccessDesc: the place that is to be given access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequest {
    /// aclrtMemAccessFlags.
    pub flags: i32,
    /// aclrtMemLocationType.
    pub location: i32,
    /// The device.
    pub id: u32,
    /// Whether the reserved bytes are all zero.
    pub is_plain: bool,
}

impl MappedTable {
    pub(super) fn add(&mut self, base: usize, entry: &Arc<PhysicalEntry>) {
        self.0.insert(base, MappedMemory { entry: entry.clone(), open_to: Vec::new() });
    }

    pub(super) fn remove(&mut self, base: usize) -> Option<Arc<PhysicalEntry>> {
        self.0.remove(&base).map(|mapping| mapping.entry)
    }

    fn find(&mut self, base: usize) -> Result<&mut MappedMemory> {
        let nothing = || refuse(format!("virPtr is {base:#x}: nothing that aclrtMapMem mapped starts there"));
        self.0.get_mut(&base).ok_or_else(nothing)
    }
}

/// aclrtMemRetainAllocationHandle: the handle that was mapped at `base`, to be freed once more. If that was
/// freed meanwhile, a new one of the same memory.
pub fn retain(here: &Here, base: usize) -> Result<usize> {
    not_null("virPtr", base)?;
    engine()?;
    explaining(here, [("virPtr", base)], || {
        let mut mapped = lock(&MAPPED);
        let mapping = mapped.find(base)?;
        mapping.entry = physical::retain(&mapping.entry);
        Ok(mapping.entry.handle)
    })
}

/// aclrtMemSetAccess, for all of what aclrtMapMem mapped at `base`. Copies ask for no access: it is stored
/// and returned.
pub fn set_access(here: &Here, base: usize, size: usize, given: &[AccessRequest]) -> Result<()> {
    not_null("virPtr", base)?;
    let engine = engine()?;
    here.need_context()?;
    if given.is_empty() {
        return Err(refuse("count is 0: give at least one description"));
    }
    let places = given.iter().enumerate().map(|(index, access)| access.place(engine, index));
    let places = places.collect::<Result<Vec<_>>>()?;
    explaining(here, [("virPtr", base)], || {
        let mut mapped = lock(&MAPPED);
        let mapping = mapped.find(base)?;
        let whole = mapping.entry.physical.size();
        if size != whole {
            return Err(refuse(format!(
                "size is {size}: it must be what aclrtMapMem was given, which is {whole}"
            )));
        }
        for place in places {
            if !mapping.open_to.contains(&place) {
                mapping.open_to.push(place);
            }
        }
        Ok(())
    })
}

/// aclrtMemGetAccess: aclrtMemAccessFlags of a place. The memory's own place can always read and write it.
pub fn access(here: &Here, base: usize, location: i32, id: u32) -> Result<i32> {
    not_null("virPtr", base)?;
    let engine = engine()?;
    here.need_context()?;
    let place = place(engine, "location", location, id)?;
    explaining(here, [("virPtr", base)], || {
        let mut mapped = lock(&MAPPED);
        let mapping = mapped.find(base)?;
        let is_open = mapping.entry.physical.home() == place || mapping.open_to.contains(&place);
        Ok(if is_open { ACL_RT_MEM_ACCESS_FLAGS_READWRITE } else { ACL_RT_MEM_ACCESS_FLAGS_NONE })
    })
}

impl AccessRequest {
    /// The place that is given access.
    fn place(&self, engine: &OpenedEngine, index: usize) -> Result<Home> {
        match self.flags {
            ACL_RT_MEM_ACCESS_FLAGS_READWRITE => {}
            ACL_RT_MEM_ACCESS_FLAGS_NONE | ACL_RT_MEM_ACCESS_FLAGS_READ => {
                let note = format!(
                    "desc[{index}].flags is {}: only ACL_RT_MEM_ACCESS_FLAGS_READWRITE (3) is supported",
                    self.flags
                );
                return Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note));
            }
            other => {
                let note = format!("desc[{index}].flags is {other}: not a member of aclrtMemAccessFlags");
                return Err(refuse(note));
            }
        }
        if !self.is_plain {
            return Err(refuse(format!("desc[{index}].rsv is not zero")));
        }
        place(engine, &format!("desc[{index}].location"), self.location, self.id)
    }
}

/// A place by its location. Public callers name devices by the driver's number as well, which is another one
/// where ASCEND_RT_VISIBLE_DEVICES is set: such a number is taken where it is no number of this process's.
fn place(engine: &OpenedEngine, name: &str, location: i32, id: u32) -> Result<Home> {
    match location {
        ACL_MEM_LOCATION_TYPE_HOST => Ok(Home::Host),
        ACL_MEM_LOCATION_TYPE_DEVICE => engine
            .known_device(id as i32)
            .or_else(|error| engine.user_device(id as i32).map_err(|_| error))
            .map(Home::Device),
        other => Err(refuse(format!(
            "{name}.type is {other}: give ACL_MEM_LOCATION_TYPE_HOST (0) or ACL_MEM_LOCATION_TYPE_DEVICE (1)"
        ))),
    }
}
