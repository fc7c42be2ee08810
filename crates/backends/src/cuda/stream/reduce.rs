//! Reductions, by the kernels of reduce.cu.

use crate::cuda::{
    driver::{Current, arg},
    stream::cuda_stream::Stream,
};
use ferry_core::{Result, reduce::Reduction};
use std::mem;

/// Bytes that make it worth to start another block.
const BYTES_OF_A_BLOCK: usize = 16 << 10;
/// Most blocks of a launch.
const BLOCKS_MAX: usize = 528;

/// What one launch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReduceStep {
    /// Whole elements that lie in one piece at both ends.
    Run { dst: usize, src: usize, len: usize },
    /// An element whose bytes lie apart.
    One(SplitElement),
}

/// Where the bytes of one element lie; an element has four or fewer. The same in reduce.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SplitElement {
    dst: [u64; 4],
    src: [u64; 4],
}

/// Combines memory of the device.
pub fn reduce(stream: &Stream, current: &Current<'_>, reduction: &Reduction) -> Result<()> {
    let [run, one] = stream.device().reducing(current)?;
    let what = number(reduction);
    let launch = |step: &ReduceStep| match *step {
        ReduceStep::Run { dst, src, len } => {
            let blocks = blocks(dst.abs_diff(src), len);
            let mut args = [arg(&dst), arg(&src), arg(&len), arg(&what)];
            stream.launch(current, run, blocks, &mut args)
        }
        ReduceStep::One(at) => stream.launch(current, one, 1, &mut [arg(&at), arg(&what)]),
    };
    let steps = steps(reduction);
    match reduction.is_backward() {
        true => steps.iter().rev().try_for_each(launch),
        false => steps.iter().try_for_each(launch),
    }
}

/// Ends that overlap are one block's work.
fn blocks(apart: usize, len: usize) -> u32 {
    match apart {
        0 => {}
        _ if apart < len => return 1,
        _ => {}
    }
    len.div_ceil(BYTES_OF_A_BLOCK).clamp(1, BLOCKS_MAX) as u32
}

/// What the kernels call it.
fn number(reduction: &Reduction) -> u64 {
    3 * reduction.element() as u64 + reduction.combine() as u64
}

/// The reduction in parts that a kernel can do, in ascending order. Memory that is mapped piece by piece may
/// have an element across a border.
fn steps(reduction: &Reduction) -> Vec<ReduceStep> {
    let (size, all) = (reduction.element().size(), reduction.bytes());
    let (mut steps, mut done) = (Vec::new(), 0);
    while let Some(piece) = reduction.within(done, all - done).next() {
        let len = piece.len - piece.len % size;
        if len > 0 {
            steps.push(ReduceStep::Run { dst: piece.dst, src: piece.src, len });
            done += len;
        } else {
            steps.push(ReduceStep::One(SplitElement::of(reduction, done)));
            done += size;
        }
    }
    steps
}

impl SplitElement {
    /// The element that begins at byte `start`.
    fn of(reduction: &Reduction, start: usize) -> SplitElement {
        let mut apart = SplitElement::default();
        for piece in reduction.within(start, reduction.element().size()) {
            for (index, byte) in (piece.start - start..).zip(0..piece.len) {
                (apart.dst[index], apart.src[index]) = ((piece.dst + byte) as u64, (piece.src + byte) as u64);
            }
        }
        apart
    }
}

const _: () = assert!(mem::size_of::<SplitElement>() == 64);
