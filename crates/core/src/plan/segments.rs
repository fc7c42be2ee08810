//! Lists of segments. A list lies in memory of our own, which is reused by later plans (a free list), or in a
//! sink that the backend brings, so that it is written once and where the device will read it.

use super::{rows::Rows, runs::Chunk};
use crate::sync::{Arc, Mutex, lock};
use std::{any::Any, mem};

/// Shorter lists are cheap to allocate.
const SHORTEST_KEPT: usize = 64;
/// Longer lists are given back to the system.
const LONGEST_KEPT: usize = 8192;
/// How many lists the free list holds.
const KEPT_LISTS: usize = 8;

/// A contiguous copy: what the pieces of batches are. Half the size of [`Rows`].
///
/// Its layout is part of the contract with a [`SegmentSink`]: three words of the machine, in this order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The address of the first byte of the destination.
    pub dst: usize,
    /// The address of the first byte of the source.
    pub src: usize,
    /// The number of bytes.
    pub len: usize,
}

impl Segment {
    /// The first row of a rectangle.
    #[inline(always)]
    pub fn of(rows: &Rows) -> Segment {
        Segment { dst: rows.dst, src: rows.src, len: rows.width }
    }

    /// Whether both ends begin where those of `last` end.
    #[inline(always)]
    pub(crate) fn follows(&self, last: &Segment) -> bool {
        (self.dst, self.src) == (last.dst + last.len, last.src + last.len)
    }
}

impl From<Segment> for Rows {
    #[inline(always)]
    fn from(segment: Segment) -> Rows {
        Rows::linear(segment.dst, segment.src, segment.len)
    }
}

/// How large some segments are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The bytes of all of them.
    pub bytes: usize,
    /// The bytes of the longest one.
    pub longest: usize,
}

impl Sizes {
    /// The sizes of these segments.
    pub fn of(segments: &[Segment]) -> Sizes {
        segments.iter().fold(Sizes::default(), |sizes, segment| {
            sizes.and(Sizes { bytes: segment.len, longest: segment.len })
        })
    }

    /// The sizes of these segments and those together.
    #[inline(always)]
    fn and(self, other: Sizes) -> Sizes {
        Sizes { bytes: self.bytes + other.bytes, longest: self.longest.max(other.longest) }
    }
}

/// Memory of a backend into which the segments of a plan are written, so that a device reads them there and
/// they are not copied again. The plan owns it; the backend has its memory back when it is dropped.
pub trait SegmentSink: Send + Sync {
    /// Appends segments, all of which the core has checked; appends none, and answers false, if there is no
    /// room for all of them.
    fn extend(&mut self, segments: &[Segment]) -> bool;

    /// Appends the segments of a whole chunk of runs, which [`Chunk::check`] checks as they are written, and
    /// says how large they are. `None` if none was appended: the core brings them by [`extend`](Self::extend)
    /// then.
    fn extend_chunk(&mut self, chunk: &Chunk<'_>) -> Option<Sizes> {
        let _ = chunk;
        None
    }

    /// Makes what this thread has appended visible to other threads and to devices. The core calls it before
    /// the plan is submitted or read.
    fn finish(&mut self);

    /// The segments so far.
    fn segments(&self) -> &[Segment];

    /// The object by which the backend recognises a sink of its own: the sink itself, or, for one that wraps
    /// another one, what that answers.
    fn native(&mut self) -> &mut dyn Any;
}

/// A free list of the memory of lists that no plan uses now: the first use of fresh pages costs more than
/// planning what is written there.
#[derive(Default)]
pub(crate) struct FreeLists(Mutex<Vec<Vec<Segment>>>);

impl FreeLists {
    /// A list with room for so many, if there is one.
    fn take(&self, room: usize) -> Option<Vec<Segment>> {
        let mut lists = lock(&self.0);
        let fits = lists.iter().position(|list| list.capacity() >= room)?;
        Some(lists.swap_remove(fits))
    }

    fn keep(&self, mut list: Vec<Segment>) {
        // It may have grown since it was made.
        if !(SHORTEST_KEPT..=2 * LONGEST_KEPT).contains(&list.capacity()) {
            return;
        }
        list.clear();
        let mut lists = lock(&self.0);
        if lists.len() < KEPT_LISTS {
            lists.push(list);
        }
    }
}

/// A list of segments, in memory of our own or in a sink.
#[derive(Default)]
pub(crate) struct SegmentList {
    memory: ListMemory,
    sizes: Sizes,
    /// Where memory of our own goes when the plan is dropped.
    free: Option<Arc<FreeLists>>,
}

/// Where a list lies. An enum as small as a vector: every op that is submitted has room for a plan.
enum ListMemory {
    Own(Vec<Segment>),
    Sink(Box<dyn SegmentSink>),
    /// Of a plan that is submitted many times: clones refer to the same list.
    Shared(Arc<Vec<Segment>>),
}

impl Default for ListMemory {
    fn default() -> Self {
        ListMemory::Own(Vec::new())
    }
}

impl SegmentList {
    /// A list with room for about `count`: in the sink, if there is one.
    pub(crate) fn new(
        count: usize,
        sink: Option<Box<dyn SegmentSink>>,
        free: &Arc<FreeLists>,
    ) -> SegmentList {
        let free = is_kept(count).then(|| free.clone());
        let kept = || free.as_ref().and_then(|free| free.take(count));
        let new = || Vec::with_capacity(count.min(LONGEST_KEPT) + SHORTEST_KEPT);
        let memory = match sink {
            Some(sink) => ListMemory::Sink(sink),
            None => ListMemory::Own(kept().unwrap_or_else(new)),
        };
        SegmentList { memory, sizes: Sizes::default(), free }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        match &self.memory {
            ListMemory::Own(list) => list,
            ListMemory::Sink(sink) => sink.segments(),
            ListMemory::Shared(list) => list,
        }
    }

    /// Has clones refer to this list in place of a copy of it.
    pub(crate) fn share(&mut self) {
        let list = mem::take(self.own());
        (self.memory, self.free) = (ListMemory::Shared(Arc::new(list)), None);
    }

    /// Appends one segment. A sink is finished with it at once; long lists are appended in chunks.
    #[inline(never)]
    pub(crate) fn push(&mut self, segment: Segment) {
        self.extend(&[segment]);
        self.finish();
    }

    /// Has the sink make what was appended visible to all threads, if there is one.
    pub(crate) fn finish(&mut self) {
        if let ListMemory::Sink(sink) = &mut self.memory {
            sink.finish();
        }
    }

    pub(crate) fn extend(&mut self, segments: &[Segment]) {
        self.sizes = self.sizes.and(Sizes::of(segments));
        self.append(segments);
    }

    fn append(&mut self, segments: &[Segment]) {
        match &mut self.memory {
            ListMemory::Own(list) => list.extend_from_slice(segments),
            ListMemory::Sink(sink) => {
                if !sink.extend(segments) {
                    self.own().extend_from_slice(segments);
                }
            }
            ListMemory::Shared(_) => self.own().extend_from_slice(segments),
        }
    }

    /// Appends what `list` writes into room for `N` segments; it says how many it has written and their
    /// sizes. In memory of our own they are written in place, and otherwise into `buffer` first.
    #[inline(always)]
    pub(crate) fn fill<const N: usize>(
        &mut self,
        buffer: &mut [Segment; N],
        list: impl FnOnce(&mut [Segment; N]) -> (usize, Sizes),
    ) -> usize {
        let (count, sizes) = match &mut self.memory {
            ListMemory::Own(own) => {
                let first = own.len();
                own.resize(first + N, Segment::default());
                let (count, sizes) = list(own[first..].first_chunk_mut().expect("just added"));
                own.truncate(first + count);
                (count, sizes)
            }
            ListMemory::Sink(_) | ListMemory::Shared(_) => {
                let (count, sizes) = list(buffer);
                self.append(&buffer[..count]);
                (count, sizes)
            }
        };
        self.sizes = self.sizes.and(sizes);
        count
    }

    /// Whether there is a sink and it has appended the runs of a chunk, if they are one.
    #[inline(always)]
    pub(crate) fn extend_chunk<'a>(&mut self, chunk: impl FnOnce() -> Option<Chunk<'a>>) -> bool {
        let ListMemory::Sink(sink) = &mut self.memory else { return false };
        let Some(sizes) = chunk().and_then(|chunk| sink.extend_chunk(&chunk)) else { return false };
        self.sizes = self.sizes.and(sizes);
        true
    }

    /// The list in memory of our own, from here on.
    fn own(&mut self) -> &mut Vec<Segment> {
        if let ListMemory::Sink(sink) = &mut self.memory {
            sink.finish();
            self.memory = ListMemory::Own(sink.segments().to_vec());
        } else if let ListMemory::Shared(list) = &self.memory {
            self.memory = ListMemory::Own(list.to_vec());
        }
        match &mut self.memory {
            ListMemory::Own(list) => list,
            ListMemory::Sink(_) | ListMemory::Shared(_) => unreachable!("made our own above"),
        }
    }

    /// Joins each segment from `first` on with the one before it where it goes on from that.
    pub(crate) fn coalesce(&mut self, first: usize) {
        if first >= self.len() {
            return;
        }
        let (list, mut last) = (self.own(), first);
        let mut longest = 0;
        for index in first + 1..list.len() {
            let segment = list[index];
            let before = &mut list[last];
            if segment.follows(before) {
                before.len += segment.len;
                longest = longest.max(before.len);
            } else {
                last += 1;
                list[last] = segment;
            }
        }
        list.truncate(last + 1);
        self.sizes.longest = self.sizes.longest.max(longest);
    }

    pub(crate) fn len(&self) -> usize {
        self.segments().len()
    }

    pub(crate) fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// The sink, if there is one.
    pub(crate) fn sink(&mut self) -> Option<&mut dyn SegmentSink> {
        match &mut self.memory {
            ListMemory::Own(_) | ListMemory::Shared(_) => None,
            ListMemory::Sink(sink) => Some(&mut **sink),
        }
    }
}

/// A copy is always in memory of its own.
impl Clone for SegmentList {
    fn clone(&self) -> Self {
        let memory = match &self.memory {
            ListMemory::Shared(list) => ListMemory::Shared(list.clone()),
            ListMemory::Own(_) | ListMemory::Sink(_) => ListMemory::Own(self.segments().to_vec()),
        };
        SegmentList { memory, sizes: self.sizes, free: self.free.clone() }
    }
}

impl Drop for SegmentList {
    fn drop(&mut self) {
        if let (Some(free), ListMemory::Own(list)) = (&self.free, &mut self.memory) {
            free.keep(mem::take(list));
        }
    }
}

/// Whether the memory of a list of so many is worth keeping, or that of a sink worth using.
pub(crate) fn is_kept(count: usize) -> bool {
    (SHORTEST_KEPT..=LONGEST_KEPT).contains(&count)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn segment(number: usize) -> Segment {
        Segment { dst: number, src: 2 * number, len: 1 }
    }

    #[test]
    fn segments_that_touch_become_one_and_those_before_stay() {
        let of = |dst, src, len| Segment { dst, src, len };
        let mut list = SegmentList::default();
        let all = [(0, 0, 4), (4, 4, 4), (8, 8, 2), (10, 10, 1), (11, 12, 1)];
        all.into_iter().for_each(|(dst, src, len)| list.push(of(dst, src, len)));
        list.coalesce(1);
        assert_eq!(list.segments(), [of(0, 0, 4), of(4, 4, 7), of(11, 12, 1)]);
        assert_eq!(list.sizes, Sizes { bytes: 12, longest: 7 });
        let mut none = SegmentList::default();
        none.coalesce(0);
        assert_eq!(none.segments(), []);
    }

    /// A list of so many.
    fn long(free: &Arc<FreeLists>, count: usize) -> SegmentList {
        let mut list = SegmentList::new(count, None, free);
        (0..count).for_each(|number| list.push(segment(number)));
        list
    }

    #[test]
    fn a_long_list_is_used_again_and_only_a_few_are_kept() {
        let free = Arc::new(FreeLists::default());
        let first = long(&free, 2 * SHORTEST_KEPT);
        let place = first.segments().as_ptr();
        drop(first);
        let again = long(&free, SHORTEST_KEPT);
        assert_eq!(again.segments().as_ptr(), place, "the same memory");
        let want: Vec<_> = (0..SHORTEST_KEPT).map(segment).collect();
        assert_eq!(again.segments(), want, "and nothing of before in it");
        drop((0..3 * KEPT_LISTS).map(|_| long(&free, SHORTEST_KEPT)).collect::<Vec<_>>());
        assert_eq!(lock(&free.0).len(), KEPT_LISTS);
        lock(&free.0).clear();
        free.keep(Vec::new());
        drop((long(&free, SHORTEST_KEPT - 2), long(&free, LONGEST_KEPT + 1)));
        assert_eq!(lock(&free.0).len(), 0, "neither short nor huge");
    }

    /// A sink for so many.
    struct PaperSink(Vec<Segment>, usize);

    impl SegmentSink for PaperSink {
        fn extend(&mut self, segments: &[Segment]) -> bool {
            let fits = self.0.len() + segments.len() <= self.1;
            self.0.extend(segments.iter().filter(|_| fits));
            fits
        }

        fn finish(&mut self) {}

        fn segments(&self) -> &[Segment] {
            &self.0
        }

        fn native(&mut self) -> &mut dyn Any {
            self
        }
    }

    /// Appends five segments in every way, and tells whether they are still where they were written first.
    fn stays(room: Option<usize>) -> bool {
        let sink = |room| Box::new(PaperSink(Vec::new(), room)) as Box<dyn SegmentSink>;
        let mut list = SegmentList::new(SHORTEST_KEPT, room.map(sink), &Arc::default());
        list.push(segment(0));
        list.extend(&[segment(1), segment(2)]);
        let filled = list.fill(&mut [Segment::default(); 4], |room| {
            room[..2].copy_from_slice(&[segment(3), segment(4)]);
            (2, Sizes { bytes: 2, longest: 1 })
        });
        assert_eq!((filled, list.sizes), (2, Sizes { bytes: 5, longest: 1 }));
        assert!(list.segments().iter().copied().eq((0..5).map(segment)));
        assert_eq!(list.clone().segments(), list.segments());
        list.sink().is_some()
    }

    #[test]
    fn segments_stay_in_the_sink_as_long_as_there_is_room() {
        assert!(stays(Some(5)) && stays(Some(100)));
        assert!((0..5).all(|room| !stays(Some(room))) && !stays(None));
    }
}
