//! Patterns in the calls of one thread: loops of small copies, a synchronisation behind each copy.

use crate::fact::{FactSource, Piece, SubmittedOp, Work};

use super::super::generations::FastMap;
use super::{AdviceRule, Findings, SiteIndex};

/// Threads that are followed; past this number all are forgotten.
const THREADS: usize = 1 << 12;
/// Calls of one thread that may be loops; past this number all are looked at and forgotten.
const LOOPS: usize = 64;
/// From this many copies on a loop should be a batch.
const LOOP: u64 = 8;
/// Copies of at least this many bytes cost far more time than their calls.
const LARGE_COPY: u64 = 256 << 10;

/// What each thread has done since it synchronised.
#[derive(Default)]
pub(super) struct ThreadPatterns {
    all: FastMap<FactSource, ThreadPattern>,
}

#[derive(Default)]
struct ThreadPattern {
    loops: FastMap<SiteIndex, LoopRun>,
    /// Ops that move bytes since the last synchronisation.
    copies: u64,
    /// The site and the bytes of the last of them.
    last: (SiteIndex, u64),
    /// The copy that the current synchronisation is for, if it was the only one.
    charged: Option<SiteIndex>,
}

/// Copies from one call to one stream.
struct LoopRun {
    stream: u32,
    copies: u64,
    bytes: u64,
    call_time: u64,
    last: Piece,
    /// Whether each began where the one before ended, at both ends.
    is_adjacent: bool,
}

impl ThreadPatterns {
    pub(super) fn submitted(
        &mut self,
        source: FactSource,
        site: SiteIndex,
        op: &SubmittedOp,
        call_time: u64,
        findings: &mut Findings,
    ) {
        let thread = self.thread(source);
        if op.work.route().is_some() {
            thread.copies += 1;
            thread.last = (site, op.work.bytes());
        }
        let is_order = matches!(op.work, Work::Mark | Work::Function) || !op.awaits.is_empty();
        if is_order {
            thread.end_loops(findings, |run| run.stream == op.point.stream);
        }
        if let Work::Linear { route, piece } = &op.work
            && route.src.is_some() != route.dst.is_some()
            && piece.len < LARGE_COPY
        {
            thread.add_to_loop(site, op.point.stream, piece, call_time, findings);
        }
    }

    /// A synchronisation begins.
    pub(super) fn synchronised(&mut self, source: FactSource, site: SiteIndex, findings: &mut Findings) {
        let thread = self.thread(source);
        thread.end_loops(findings, |_| true);
        thread.charged = (thread.copies == 1).then_some(thread.last.0);
        if let Some(copy) = thread.charged {
            findings.add(AdviceRule::SyncAfterEach, copy, 1, thread.last.1).other = Some(site);
        }
        thread.copies = 0;
    }

    /// The synchronisation of a thread has been blocked for `now`, not `before`.
    pub(super) fn blocked(&mut self, source: FactSource, before: u64, now: u64, findings: &mut Findings) {
        if let Some(copy) = self.thread(source).charged {
            let time = &mut findings.add(AdviceRule::SyncAfterEach, copy, 0, 0).time;
            *time = time.saturating_sub(before).saturating_add(now);
        }
    }

    /// Ends all loops.
    pub(super) fn flush(&mut self, findings: &mut Findings) {
        self.all.values_mut().for_each(|thread| thread.end_loops(findings, |_| true));
    }

    fn thread(&mut self, source: FactSource) -> &mut ThreadPattern {
        if self.all.len() >= THREADS && !self.all.contains_key(&source) {
            self.all.clear();
        }
        self.all.entry(source).or_default()
    }
}

impl ThreadPattern {
    fn add_to_loop(
        &mut self,
        site: SiteIndex,
        stream: u32,
        piece: &Piece,
        call_time: u64,
        findings: &mut Findings,
    ) {
        if self.loops.get(&site).is_some_and(|run| run.stream != stream) || self.loops.len() >= LOOPS {
            self.end_loops(findings, |_| true);
        }
        let run = self.loops.entry(site).or_insert_with(|| LoopRun {
            stream,
            copies: 0,
            bytes: 0,
            call_time: 0,
            last: Piece::default(),
            is_adjacent: true,
        });
        let Piece { dst, src, len } = run.last;
        let follows = piece.dst == dst.wrapping_add(len) && piece.src == src.wrapping_add(len);
        run.is_adjacent &= run.copies == 0 || follows;
        run.copies += 1;
        run.bytes = run.bytes.saturating_add(piece.len);
        // One call stays.
        run.call_time = run.call_time.saturating_add(if run.copies > 1 { call_time } else { 0 });
        run.last = *piece;
    }

    fn end_loops(&mut self, findings: &mut Findings, is_over: impl Fn(&LoopRun) -> bool) {
        self.loops.retain(|site, run| {
            if !is_over(run) {
                return true;
            }
            if run.copies >= LOOP {
                let finding = findings.add(AdviceRule::Batch, *site, run.copies, run.bytes);
                finding.add_time(run.call_time);
                let each =
                    if run.is_adjacent { "; each begins where the one before ends: one copy" } else { "" };
                finding.detail = format!("{} copies in a row{each}", run.copies);
            }
            false
        });
    }
}
