//! Copies between device memory and pinned or device memory: a plan becomes copies by copy engines or
//! launches of our kernels, as the planner chooses.

use crate::bytes::{nontemporal, overlap::is_overlapping};
use crate::cuda::{
    driver::{Current, arg},
    stream::cuda_stream::Stream,
    stream::list_sink::ListSink,
    stream::list_slots::{INLINE_MAX, LIST_MAX, ListSlot},
    stream::planner::{self, CopyMethod, CopyShape, Direction, ListLaunch},
    stream::settings::Constants,
};
use ferry_core::{Kind, Pieces, Plan, Result, Rows, Segment, Sizes};

/// Puts copies of one direction into a stream.
pub struct StreamCopier<'a> {
    stream: &'a Stream,
    current: &'a Current<'a>,
    direction: Direction,
    /// Whether kernels may do them.
    has_kernels: bool,
}

/// Copies a plan: between device memory and pinned or device memory, or of pageable memory as the driver does
/// it. A list that lies where kernels read it is taken out of the plan.
pub fn copy(stream: &Stream, current: &Current<'_>, plan: &mut Plan) -> Result<()> {
    let is_in_reach = !plan.is_plain() && plan.has_one_route();
    let has_kernels = is_in_reach && stream.may_launch(current);
    StreamCopier { stream, current, direction: stream.direction(plan.route()), has_kernels }.copy(plan)
}

impl<'a> StreamCopier<'a> {
    /// For memory that is in reach of kernels.
    pub fn new(stream: &'a Stream, current: &'a Current<'a>, direction: Direction) -> StreamCopier<'a> {
        StreamCopier { stream, current, direction, has_kernels: stream.may_launch(current) }
    }

    fn constants(&self) -> &'a Constants {
        self.stream.constants(self.has_kernels)
    }

    fn copy(&self, plan: &mut Plan) -> Result<()> {
        let Pieces::Segments(segments) = plan.pieces() else {
            return plan.pieces().iter().try_for_each(|rows| self.copy_rows(&rows));
        };
        if plan.is_ordered() {
            return self.send_each(segments);
        }
        let sizes = plan.sizes();
        match self.choose(segments, sizes, self.constants()) {
            CopyMethod::Launch(launch) if !launch.is_inline && launch.share.is_none() => {
                self.launch_plan(plan, launch)
            }
            method => self.send_by(method, segments, sizes),
        }
    }

    /// Launches a list as it lies in its plan.
    fn launch_plan(&self, plan: &mut Plan, launch: ListLaunch) -> Result<()> {
        let bytes = plan.sizes().bytes;
        if let Some(slot) = plan.sink().and_then(|sink| ListSink::take(sink, self.stream.device())) {
            return self.launch_slot(slot, bytes, launch);
        }
        match plan.pieces() {
            Pieces::Segments(segments) => self.launch_list(segments, launch),
            Pieces::Rows(_) => unreachable!("they are segments"),
        }
    }

    /// Copies pieces that are independent of each other.
    pub fn send(&self, segments: &[Segment]) -> Result<()> {
        let sizes = Sizes::of(segments);
        self.send_by(self.choose(segments, sizes, self.constants()), segments, sizes)
    }

    /// The method for pieces of these sizes that are independent of each other.
    fn choose(&self, segments: &[Segment], sizes: Sizes, constants: &Constants) -> CopyMethod {
        let shape = CopyShape::Pieces { count: segments.len(), bytes: sizes.bytes, most: sizes.longest };
        let overlaps = |segment: &Segment| is_overlapping(segment.dst, segment.src, segment.len);
        match planner::choose(&shape, self.direction, constants) {
            // What a kernel reads and writes at once has no order.
            CopyMethod::Launch(_) if self.direction == Direction::Within && segments.iter().any(overlaps) => {
                CopyMethod::Each
            }
            method => method,
        }
    }

    fn send_by(&self, method: CopyMethod, segments: &[Segment], sizes: Sizes) -> Result<()> {
        match method {
            CopyMethod::Launch(launch) => self.launch_list(segments, launch),
            CopyMethod::Batch if self.send_batch(segments)? => Ok(()),
            CopyMethod::Batch => {
                let constants = self.constants().clone().without_batches();
                self.send_by(self.choose(segments, sizes, &constants), segments, sizes)
            }
            _ => self.send_each(segments),
        }
    }

    fn send_each(&self, segments: &[Segment]) -> Result<()> {
        segments.iter().try_for_each(|segment| self.copy_rows(&Rows::from(*segment)))
    }

    fn send_batch(&self, segments: &[Segment]) -> Result<bool> {
        let [dsts, srcs, lens] = [
            |segment: &Segment| segment.dst,
            |segment: &Segment| segment.src,
            |segment: &Segment| segment.len,
        ]
        .map(|word| segments.iter().map(word).collect::<Vec<_>>());
        self.stream.copy_batch(self.current, [&dsts, &srcs, &lens])
    }

    /// Copies a row of pinned memory, by a copy engine.
    pub fn copy_alone(&self, segment: Segment) -> Result<()> {
        let rows = Rows::from(segment);
        let done = self.stream.copy_row(self.current, rows.dst, rows.src, rows.width);
        self.or_by_kernel(done, &rows)
    }

    /// Copies a rectangle, which may be a single row.
    fn copy_rows(&self, rows: &Rows) -> Result<()> {
        let done = self.try_rows(rows);
        self.or_by_kernel(done, rows)
    }

    /// The driver refuses ranges over the joints between allocations, of pinned memory that was registered in
    /// parts and of neighbours that were coalesced into one; a kernel does not see the joints.
    fn or_by_kernel(&self, done: Result<()>, rows: &Rows) -> Result<()> {
        let is_apart = rows.height == 1 && !is_overlapping(rows.dst, rows.src, rows.width);
        let has_kernel = matches!(self.direction, Direction::In | Direction::Out)
            || self.direction == Direction::Within && is_apart;
        let has_kernel = has_kernel && self.has_kernels;
        match done {
            Err(why) if why.kind == Kind::Device && has_kernel && self.stream.device().lost().is_none() => {
                self.launch_rows(rows, 1)
            }
            done => done,
        }
    }

    fn try_rows(&self, rows: &Rows) -> Result<()> {
        let Rows { dst, dst_pitch, src, src_pitch, width, height } = *rows;
        let (stream, current) = (self.stream, self.current);
        match planner::choose(&CopyShape::of(rows), self.direction, self.constants()) {
            CopyMethod::Move => {
                let kernel = stream.device().kernels(current)?.within;
                let args = [dst, src, width].map(|arg| arg as u64);
                stream.launch(current, kernel, 1, &mut args.each_ref().map(arg))
            }
            CopyMethod::Bounce => stream.copy_bounced(current, dst, src, width),
            CopyMethod::Grid { blocks } => self.launch_rows(rows, blocks),
            CopyMethod::Each => (0..height).try_for_each(|row| {
                stream.copy_row(current, dst + row * dst_pitch, src + row * src_pitch, width)
            }),
            _ => stream.copy_rows(current, rows),
        }
    }

    /// Launches pieces in as few launches as hold them.
    fn launch_list(&self, segments: &[Segment], launch: ListLaunch) -> Result<()> {
        let Some(share) = launch.share else { return self.launch_chunks(segments, launch) };
        let mut parts = segments.iter().flat_map(|segment| cut(*segment, share));
        std::iter::repeat_with(|| parts.by_ref().take(LIST_MAX).collect::<Vec<_>>())
            .take_while(|some| !some.is_empty())
            .try_for_each(|some| self.launch_chunks(&some, launch))
    }

    fn launch_chunks(&self, mut left: &[Segment], launch: ListLaunch) -> Result<()> {
        let bytes = || left.iter().map(|segment| segment.len).sum();
        let is_inline = launch.is_inline && !self.stream.may_reside(self.direction, bytes());
        while !left.is_empty() {
            // Where pinned memory is short, pieces go with the launches; a few do where there is a launch.
            let slot = if is_inline { None } else { self.stream.device().list_slot().unwrap_or(None) };
            let most = if slot.is_some() { LIST_MAX } else { INLINE_MAX };
            let now = left.split_off(..left.len().min(most)).unwrap_or_default();
            match slot {
                Some(mut slot) => {
                    slot.add(now);
                    self.launch_slot(slot, now.iter().map(|segment| segment.len).sum(), launch)?;
                }
                None => self.launch_inline(now, launch)?,
            }
        }
        Ok(())
    }

    /// Launches what was added to a slot, of so many bytes, or has the resident kernel do it.
    fn launch_slot(&self, slot: ListSlot, bytes: usize, launch: ListLaunch) -> Result<()> {
        let left = self.stream.launch_resident(self.current, slot, self.direction, bytes);
        let Some(slot) = left else { return Ok(()) };
        let (list, count, lanes) = (slot.list(), slot.count(), launch.lanes);
        let ListSlot { slot: index, number, back, .. } = &slot;
        let completion = self.stream.next_completion(self.current, launch.blocks);
        let mut args = [
            arg(&list),
            arg(&count),
            arg(&lanes),
            arg(index),
            arg(number),
            arg(back),
            arg(&completion.at),
            arg(&completion.number),
        ];
        nontemporal::fence();
        let kernel = self.stream.device().kernels(self.current)?.pieces;
        self.stream.launch_ringing(self.current, kernel, launch.blocks, &mut args, completion)?;
        slot.sent();
        Ok(())
    }

    /// Launches the kernel for a list of few pieces, which travel in its parameters.
    fn launch_inline(&self, segments: &[Segment], launch: ListLaunch) -> Result<()> {
        let mut list = [Segment::default(); INLINE_MAX];
        list[..segments.len()].copy_from_slice(segments);
        let (count, lanes) = (segments.len() as u32, launch.lanes);
        let completion = self.stream.next_completion(self.current, launch.blocks);
        let mut args = [arg(&list), arg(&count), arg(&lanes), arg(&completion.at), arg(&completion.number)];
        let kernel = self.stream.device().kernels(self.current)?.pieces_inline;
        self.stream.launch_ringing(self.current, kernel, launch.blocks, &mut args, completion)
    }

    fn launch_rows(&self, rows: &Rows, blocks: u32) -> Result<()> {
        let Rows { dst, dst_pitch, src, src_pitch, width, height } = *rows;
        let rectangle = [dst, dst_pitch, src, src_pitch, width, height].map(|field| field as u64);
        let kernel = self.stream.device().kernels(self.current)?.rows;
        self.stream.launch(self.current, kernel, blocks, &mut [arg(&rectangle)])
    }
}

/// A segment in parts of at most `share` bytes.
#[inline]
fn cut(Segment { dst, src, len }: Segment, share: usize) -> impl Iterator<Item = Segment> {
    (0..len).step_by(share).map(move |done| Segment {
        dst: dst + done,
        src: src + done,
        len: share.min(len - done),
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_cut_into_shares_and_a_rest() {
        for (len, want) in [(1, vec![1]), (256, vec![256]), (257, vec![256, 1]), (700, vec![256, 256, 188])] {
            let parts: Vec<_> = cut(Segment { dst: 1000, src: 5, len }, 256).collect();
            assert_eq!(parts.iter().map(|part| part.len).collect::<Vec<_>>(), want);
            let mut done = 0;
            for part in parts {
                assert_eq!((part.dst, part.src), (1000 + done, 5 + done));
                done += part.len;
            }
        }
    }
}
