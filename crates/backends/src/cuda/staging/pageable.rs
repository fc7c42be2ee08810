//! The choice for a copy of pageable memory: staged by our threads, or by the driver itself.

use crate::cuda::{
    driver::Current,
    memory::PinnedRanges,
    staging::buffers::StagingPool,
    staging::staged_copy::{StagedCopy, host_end, is_into},
    stream::Stream,
};
use ferry_core::{
    Error, Kind, Plan, Result,
    sync::{Arc, Mutex},
};

/// A row of at least so many bytes is staged on its way into the device; below, the driver is as fast. On an
/// H200: 11.5 GB/s against its 13.4 for 2 MiB, 14.7 against 13.8 for 4.
const MIN_STAGED_IN: usize = 4 << 20;
/// A row of at least so many bytes is staged on its way out: 6.8 against 8.5 for 512 KiB, 10 against 8.7 for
/// 1 MiB.
const MIN_STAGED_OUT: usize = 1 << 20;
/// More pieces than these are staged, however short: the driver waits for each.
const MAX_PIECES_OF_DRIVER: usize = 4;

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

    /// A copy between pageable memory and a device, of which the host's part is done when this returns. The
    /// driver refuses ranges that are pinned in part, and may have no pinned memory for us: what one way
    /// cannot do the other may.
    pub fn copy(&self, stream: &Arc<Stream>, current: &Current<'_>, plan: &Plan) -> Result<()> {
        let done = self.try_copy(stream, current, plan);
        // Several threads may have put things into the stream, in any order.
        stream.forget_last_kernel();
        done
    }

    fn try_copy(&self, stream: &Arc<Stream>, current: &Current<'_>, plan: &Plan) -> Result<()> {
        let staged = || StagedCopy::run(&self.buffers, stream, current, plan);
        let by_driver = || plan.pieces().iter().try_for_each(|rows| stream.copy_rows(current, &rows));
        if self.may_be_pinned(plan) {
            return staged();
        }
        if !is_better_staged(plan) {
            return by_driver().or_else(|why| staged().map_err(|_| why));
        }
        staged().or_else(|why| match is_unmapped(&why) {
            // It is for the driver as well, which does not recover from that.
            true => Err(why),
            false => by_driver().map_err(|_| why),
        })
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

/// Whether the driver would be slower. It is at its worst with rectangles.
fn is_better_staged(plan: &Plan) -> bool {
    let (pieces, least) = (plan.pieces(), if is_into(plan) { MIN_STAGED_IN } else { MIN_STAGED_OUT });
    pieces.len() > MAX_PIECES_OF_DRIVER || pieces.iter().any(|rows| rows.height > 1 || rows.width >= least)
}

/// Whether a copy failed because memory of the user's is not there any more.
fn is_unmapped(why: &Error) -> bool {
    why.kind == Kind::BadAddress
}
