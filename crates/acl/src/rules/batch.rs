//! Batches: many pieces in one call, described by attribute groups.

use super::{
    kinds::not_far,
    target::{On, Target},
};
use crate::{
    Error, Result,
    arguments::{not_null, refuse, within},
    constants::*,
    error::fail,
    explain::with_addresses,
    state::Here,
};
use ferry_core::{Block, Ends, Home, Kind, Memory, Misfit, Origin, Place, Plan, Route, Runs};
use std::cell::Cell;

/// The arrays of a batch call, all readable.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// Destination addresses.
    pub dsts: &'a [usize],
    /// Room at each destination.
    pub dest_maxs: &'a [usize],
    /// Source addresses.
    pub srcs: &'a [usize],
    /// Bytes of each piece.
    pub sizes: &'a [usize],
    /// What memory a group of pieces is in.
    pub attrs: &'a [Attr],
    /// The first piece of each group.
    pub attrs_indexes: &'a [usize],
}

/// aclrtMemcpyBatchAttr: what memory a group of pieces is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Where the destinations are.
    pub dst: Location,
    /// Where the sources are.
    pub src: Location,
    /// Whether the reserved bytes are all zero.
    pub reserved_is_zero: bool,
}

/// aclrtMemLocation: a kind of memory, and its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Device id; ignored for host memory.
    pub id: u32,
    /// aclrtMemLocationType.
    pub kind: i32,
}

/// A refused batch: which piece, or `usize::MAX` if no piece in particular, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRefusal {
    /// What failIndex says.
    pub fail_index: usize,
    /// Code and note.
    pub error: Error,
}

impl From<Error> for BatchRefusal {
    fn from(error: Error) -> Self {
        BatchRefusal { fail_index: usize::MAX, error }
    }
}

/// aclrtMemcpyBatch, aclrtMemcpyBatchAsync and their V2 forms.
///
/// # Safety
/// Every piece stays valid until the copy is done.
pub unsafe fn memcpy_batch(here: &Here, batch: &Batch, on: On) -> Result<(), BatchRefusal> {
    let item = Cell::new(usize::MAX);
    let copy = || {
        let target = Target::find(here, on)?;
        batch.check(target.engine.settings.most_pieces())?;
        // SAFETY: the caller's promise.
        let submitted = unsafe { target.submit_plan(|memory| batch.plan(memory), Plan::is_plain) };
        let (must_wait, ticket) = submitted.or_else(|misfit| {
            batch.sizes_fit(here)?;
            item.set(misfit.item);
            Err(Error::from(misfit.error))
        })?;
        target.wait_if(must_wait, ticket)
    };
    let result = copy().or_else(|error| batch.no_nulls(&item).and(Err(error)));
    result.map_err(|error| match item.get() {
        usize::MAX => error.into(),
        fail_index => {
            let named = fail(error.code, format!("item {fail_index}: {}", error.note));
            let addresses = [("dst", batch.dsts[fail_index]), ("src", batch.srcs[fail_index])];
            BatchRefusal { fail_index, error: with_addresses(here, named, &addresses) }
        }
    })
}

/// Refuses NULL arrays, whatever the sizes say.
pub fn arrays_given(arrays: [(&'static str, usize); 6]) -> Result<()> {
    arrays.into_iter().try_for_each(|(name, addr)| not_null(name, addr))
}

impl Batch<'_> {
    /// A NULL address is refused before anything else, as in every call, though it is searched for only when
    /// something else was found wrong: a plan has none. `item` becomes its index.
    fn no_nulls(&self, item: &Cell<usize>) -> Result<()> {
        for (name, addresses) in [("dsts", self.dsts), ("srcs", self.srcs)] {
            if let Some(index) = addresses.iter().position(|addr| *addr == 0) {
                item.set(index);
                return Err(fail(ACL_ERROR_INVALID_PARAM, format!("{name}[{index}] is NULL")));
            }
        }
        Ok(())
    }

    /// The rules that do not depend on memory.
    fn check(&self, limit: Option<(&str, usize)>) -> Result<()> {
        let (count, groups) = (self.sizes.len(), self.attrs_indexes);
        if count == 0 || groups.is_empty() {
            return Err(refuse(format!(
                "numBatches is {count} and numAttrs is {}: both must be at least 1",
                groups.len()
            )));
        }
        if let Some((by, most)) = limit {
            within("numBatches", count, by, most)?;
        }
        within("numAttrs", groups.len(), "numBatches", count)?;
        if groups[0] != 0 {
            return Err(refuse(format!("attrsIndexes[0] is {}: it must be 0", groups[0])));
        }
        if let Some(at) = groups.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(refuse(format!(
                "attrsIndexes[{}] is {} after {}: each must be greater than the one before",
                at + 1,
                groups[at + 1],
                groups[at]
            )));
        }
        let last = groups[groups.len() - 1];
        if last >= count {
            return Err(refuse(format!(
                "the last of attrsIndexes is {last}: it must be less than numBatches, which is {count}"
            )));
        }
        Ok(())
    }

    /// The arrays must not contradict each other. That is refused before anything about memory, and failIndex
    /// names no item, but the message does. It is searched for when there is no plan: in one they do not.
    fn sizes_fit(&self, here: &Here) -> Result<()> {
        match (0..self.sizes.len()).find(|i| self.sizes[*i] > self.dest_maxs[*i]) {
            Some(i) => {
                let (size, most) = (self.sizes[i], self.dest_maxs[i]);
                let error = refuse(format!("sizes[{i}] is {size}, more than destMaxs[{i}], which is {most}"));
                Err(with_addresses(here, error, &[("dst", self.dsts[i]), ("src", self.srcs[i])]))
            }
            None => Ok(()),
        }
    }

    /// The pieces, group by group, in one direction.
    fn plan(&self, memory: &Memory) -> Result<Plan, Misfit> {
        let (mut plan, mut direction) = (Plan::default(), None);
        let ends = self.attrs_indexes[1..].iter().copied().chain([self.sizes.len()]);
        for (group, (first, end)) in self.attrs_indexes.iter().copied().zip(ends).enumerate() {
            self.attrs[group].is_sound(group).map_err(|error| Misfit { item: first, error })?;
            let items = first..end;
            let (dsts, srcs) = (&self.dsts[items.clone()], &self.srcs[items.clone()]);
            let runs = Runs { dsts, srcs, lens: &self.sizes[items.clone()], rooms: &self.dest_maxs[items] };
            plan.extend_runs(first, &runs, memory, |_, ends| {
                self.attrs[group].fits(group, ends, &mut direction)
            })?;
        }
        Ok(plan)
    }
}

impl Attr {
    /// Whether its values are valid, whatever memory its pieces are in.
    fn is_sound(&self, group: usize) -> ferry_core::Result<()> {
        if !self.reserved_is_zero {
            return Err(Kind::BadRoute.because(format!("the reserved bytes of attrs[{group}] are not zero")));
        }
        self.dst.is_known("dstLoc", group)?;
        self.src.is_known("srcLoc", group)
    }

    /// Whether a piece is where its group says, in a direction that batches have: that of the first piece.
    fn fits(&self, group: usize, ends: &Ends, direction: &mut Option<bool>) -> ferry_core::Result<()> {
        not_far(ends)?;
        self.dst.matches("dstLoc", group, &ends.dst)?;
        self.src.matches("srcLoc", group, &ends.src)?;
        let to_device = match ends.route() {
            Route::HostToDevice { .. } => true,
            Route::DeviceToHost { .. } => false,
            _ => {
                return Err(
                    Kind::BadRoute.because("batches copy from host to device or from device to host only")
                );
            }
        };
        if *direction.get_or_insert(to_device) != to_device {
            return Err(Kind::BadRoute
                .because("all pieces of a batch go in one direction; this one goes against the first"));
        }
        Ok(())
    }
}

impl Location {
    fn is_known(&self, name: &str, group: usize) -> ferry_core::Result<()> {
        match self.kind {
            ACL_MEM_LOCATION_TYPE_HOST
            | ACL_MEM_LOCATION_TYPE_UNREGISTERED
            | ACL_MEM_LOCATION_TYPE_DEVICE => Ok(()),
            other => Err(Kind::BadRoute.because(format!(
                "attrs[{group}].{name} says location type {other}, which batches do not have"
            ))),
        }
    }

    fn matches(&self, name: &str, group: usize, place: &Place) -> ferry_core::Result<()> {
        let fits = match (self.kind, place) {
            (ACL_MEM_LOCATION_TYPE_HOST, place) => place.device().is_none(),
            (ACL_MEM_LOCATION_TYPE_UNREGISTERED, place) => {
                place.is_plain() || matches!(place, Place::Known(Block { origin: Origin::Registered, .. }))
            }
            (ACL_MEM_LOCATION_TYPE_DEVICE, Place::Known(block)) => block.home == Home::Device(self.id),
            _ => false,
        };
        if fits { Ok(()) } else { Err(self.contradicts(name, group, place)) }
    }

    #[cold]
    fn contradicts(&self, name: &str, group: usize, place: &Place) -> ferry_core::Error {
        let wants = match self.kind {
            ACL_MEM_LOCATION_TYPE_HOST => "host memory".to_owned(),
            ACL_MEM_LOCATION_TYPE_UNREGISTERED => "host memory that acl did not allocate".to_owned(),
            _ => format!("memory of device {}", self.id),
        };
        Kind::BadRoute.because(format!("attrs[{group}].{name} says {wants}, but this is {place}"))
    }
}
