//! The faults that the stand-in for the engine can be made with, to see that the model notices each.

/// What is wrong with the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Freed memory is given out again while tasks still use it.
    ReusesBusyMemory,
    /// An asynchronous copy reads its source in the call.
    ReadsSourceInCall,
    /// The staged kind reads its source when the task runs.
    StagesLate,
    /// A copy of malloc memory returns before it is done.
    DoesNotWaitForPageable,
    /// A stream may run the second task before the first.
    Overtakes,
    /// A wait is bound to the record there is when it runs.
    WaitsForLaterRecord,
    /// A synchronise returns with the last task still to come.
    SyncLeavesOne,
    /// A descriptor is read in the call.
    ReadsDescInCall,
    /// Copies go upwards byte by byte, whatever overlaps.
    NoMemmove,
    /// A queued copy means what is mapped at its addresses when it runs.
    FollowsRemap,
    /// Unmapping drops the copies that are queued for the memory.
    UnmapDrops,
    /// A copy ends where the first piece of mapped memory ends.
    OnePiece,
    /// A copy that reaches into a hole is accepted, and does what it can.
    TakesHoles,
    /// A copy that reaches into a hole is refused when the bytes before the hole have been moved.
    RefusesLate,
    /// Physical memory is given out again when it is freed, though it is mapped.
    ReusesMapped,
    /// Physical memory is given out again when it is freed and unmapped, though copies are queued.
    ReusesUnmapped,
    /// Memory is page-locked if its first byte is.
    PinnedByStart,
    /// Unregistering drops the copies that are queued for the memory.
    UnregisterDrops,
    /// An abort leaves the last queued copy, which runs later.
    AbortKeepsOne,
    /// An abort drops the first task submitted afterwards.
    AbortDropsNext,
    /// An abort takes the work of another stream too.
    AbortsNeighbour,
    /// A fill that an abort interrupts leaves bytes that are neither old nor new.
    AbortTears,
    /// Streams that have stopped still take work.
    HaltTakesMore,
    /// What the second process writes is not seen here.
    LosesForeign,
    /// A reset is forgotten: waits are for the record before it.
    ForgetsReset,
    /// A model runs once: later executions do nothing.
    RunsModelsOnce,
    /// Streams of a model do not wait for each other.
    ForgetsLinks,
    /// A copy that is given a token does not wait for the copy before.
    ForgetsToken,
    /// A copy that is given a token waits for the last copy before only.
    FollowsTheLast,
    /// A buffer comes back before its copy is done.
    LandsEarly,
    /// A buffer that several streams used comes back when the last one is done.
    LandsByTheLast,
}

impl Fault {
    pub const ALL: [Fault; 27] = [
        Fault::RunsModelsOnce,
        Fault::ForgetsLinks,
        Fault::ReusesBusyMemory,
        Fault::ReadsSourceInCall,
        Fault::StagesLate,
        Fault::DoesNotWaitForPageable,
        Fault::Overtakes,
        Fault::WaitsForLaterRecord,
        Fault::SyncLeavesOne,
        Fault::ReadsDescInCall,
        Fault::NoMemmove,
        Fault::FollowsRemap,
        Fault::UnmapDrops,
        Fault::OnePiece,
        Fault::TakesHoles,
        Fault::RefusesLate,
        Fault::ReusesMapped,
        Fault::ReusesUnmapped,
        Fault::PinnedByStart,
        Fault::UnregisterDrops,
        Fault::AbortKeepsOne,
        Fault::AbortDropsNext,
        Fault::AbortsNeighbour,
        Fault::AbortTears,
        Fault::HaltTakesMore,
        Fault::LosesForeign,
        Fault::ForgetsReset,
    ];
}
