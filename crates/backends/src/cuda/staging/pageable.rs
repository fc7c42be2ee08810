//! The choice for a copy of pageable memory: staged by one thread, by several, or by the driver itself.

use crate::cuda::{
    driver::Current,
    memory::PinnedRanges,
    staging::alone,
    staging::buffers::{STAGED, StagingPool},
    staging::staged_copy::{StagedCopy, host_end, is_into},
    stream::Stream,
};
use ferry_core::{
    Error, Kind, Plan, Result,
    sync::{Arc, Mutex},
};

/// Up to so many bytes the calling thread stages alone: it is through before another one would be awake.
const MOST_ALONE: usize = 512 << 10;

/// What copies of pageable memory to and from one GPU share.
pub struct Staging {
    buffers: Arc<StagingPool>,
    /// The ranges of host memory that the driver has pinned.
    pinned: Arc<Mutex<PinnedRanges>>,
}

impl Staging {
    /// For copies through these buffers.
    pub fn new(buffers: StagingPool, pinned: Arc<Mutex<PinnedRanges>>) -> Arc<Staging> {
        Arc::new(Staging { buffers: Arc::new(buffers), pinned })
    }

    /// A copy between pageable memory and a device, in a stream that has done all that came before. It is
    /// done when this returns. The driver refuses ranges that are pinned in part, and may have no pinned
    /// memory for us: what one way cannot do the other may.
    pub fn copy(&self, stream: &Arc<Stream>, current: &Current<'_>, plan: &Plan) -> Result<()> {
        let staged = match plan.bytes() <= MOST_ALONE {
            true => alone::copy(stream, current, plan),
            false => StagedCopy::run(&self.buffers, stream, current, plan),
        };
        staged.or_else(|why| match is_unmapped(&why) || self.may_be_pinned(plan) {
            // It is for the driver as well, which does not recover from that.
            true => Err(why),
            false => self.copy_by_driver(stream, current, plan).map_err(|_| why),
        })
    }

    fn copy_by_driver(&self, stream: &Stream, current: &Current<'_>, plan: &Plan) -> Result<()> {
        plan.pieces().iter().try_for_each(|rows| stream.copy_rows(current, &rows))?;
        stream.synchronize_in(current, STAGED)
    }

    /// Whether some of the memory is pinned though it is plain memory by now: pages of a registration that is
    /// over are yet to be unlocked. The driver would use those, and there may be others at their addresses.
    /// Does not wait for a thread that is in the driver with that.
    fn may_be_pinned(&self, plan: &Plan) -> bool {
        let (Ok(pinned), is_into) = (self.pinned.try_lock(), is_into(plan)) else { return true };
        plan.pieces().iter().any(|rows| {
            let (start, pitch) = host_end(&rows, is_into);
            pinned.meets(start, pitch * (rows.height - 1) + rows.width)
        })
    }
}

/// Whether a copy failed because memory of the user's is not there any more.
fn is_unmapped(why: &Error) -> bool {
    why.kind == Kind::BadAddress
}
