//! The alignment cases: one contiguous copy at many pairs of page offsets, of which the worst is shown.
//! memcpy of the C library is slow on some processors where the target lies a little past the source modulo
//! the page size (4K aliasing); the pairs cover that, and odd addresses on either side. What is measured is
//! throughput: copies are submitted in a row and waited for once, since round trips are a case of their own.

use ferry_abi::Result;
use ferry_abi::session::Session;

use crate::copier::{CALLS_PER_SAMPLE, Timing};
use crate::peers::{CopySpec, MemcpyPeers, Peers};
use crate::report::ratio;
use crate::route::Route;
use crate::sampling::{Figures, Sampling, measure};
use crate::shape::{Segment, Shape};

/// Offsets of the source into its page.
const SOURCE_OFFSETS: [usize; 4] = [0, 1, 64, 2051];
/// By how much the offset of the target is larger.
const TARGET_DISTANCES: [usize; 7] = [0, 1, 16, 64, 256, 2048, 4032];
const PAGE: usize = 4096;

/// Bytes that a sample copies in all, so many that waking a thread and the one wait are small beside them.
const BYTES_PER_SAMPLE: usize = 32 << 20;

/// How many of the worst pairs are measured again with more samples: the worst of many is often an outlier.
const REMEASURED: usize = 3;

/// Where source and target begin in their pages.
#[derive(Clone, Copy)]
struct PageOffsets {
    src: usize,
    dst: usize,
}

/// The figures of the pair at which Ferry does worst beside its peer, and a note that names the pair.
pub fn worst(
    session: &Session,
    peers: &Peers,
    (route, len): (Route, usize),
    plan: Sampling,
    progress: &mut dyn FnMut(usize),
) -> Result<(Vec<Figures>, String)> {
    let pair = |src, further| PageOffsets { src, dst: (src + further) % PAGE };
    let pairs: Vec<PageOffsets> =
        SOURCE_OFFSETS.iter().flat_map(|src| TARGET_DISTANCES.map(|further| pair(*src, further))).collect();
    let mut verified = [0; 2];
    let mut try_all = |pairs: &[PageOffsets], plan: Sampling, progress: &mut dyn FnMut(usize)| {
        let mut tried = Vec::new();
        for (index, pair) in pairs.iter().enumerate() {
            let figures = at(session, peers, route, len, *pair, plan)?;
            verified.iter_mut().zip(&figures).for_each(|(sum, one)| *sum += one.verified);
            tried.push((figures, *pair));
            progress((index + 1) * plan.samples / pairs.len());
        }
        // Where there is no peer, the slowest is the worst.
        let slowness = |ours: &Figures| -ours.median.as_secs_f64();
        let of = |all: &[Figures]| all.get(1).map_or_else(|| slowness(&all[0]), |peer| ratio(&all[0], peer));
        tried.sort_by(|(one, _), (other, _)| of(one).total_cmp(&of(other)));
        Ok(tried)
    };
    let first: Vec<PageOffsets> =
        try_all(&pairs, plan, progress)?.iter().take(REMEASURED).map(|(_, pair)| *pair).collect();
    let more = Sampling { samples: plan.samples * 3, ..plan };
    let (mut figures, pair) = try_all(&first, more, &mut |_| {})?.remove(0);
    figures.iter_mut().zip(verified).for_each(|(one, sum)| one.verified = sum);
    let note =
        format!("worst of {}: source {} and target {} bytes into a page", pairs.len(), pair.src, pair.dst);
    Ok((figures, note))
}

fn at(
    session: &Session,
    peers: &Peers,
    route: Route,
    len: usize,
    pair: PageOffsets,
    plan: Sampling,
) -> Result<Vec<Figures>> {
    let shape = Shape::Line(Segment { dst: pair.dst, src: pair.src, len });
    let spec = CopySpec {
        timing: Timing::Whole { rounds: 1, queued: BYTES_PER_SAMPLE.div_ceil(len).min(CALLS_PER_SAMPLE) },
        memcpy_peers: MemcpyPeers::OneThread,
        ..CopySpec::new(route, shape, len + PAGE)
    };
    measure(&mut peers.contenders(session, &spec)?.0, plan, &mut |_| {})
}
