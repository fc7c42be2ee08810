//! Advice: patterns of copies that cost time, each with the bytes and the time at stake and its call.
//!
//! An `Advisor` is told what [`Statistics`](super::Statistics) counts, and looks for six patterns
//! ([`AdviceRule`]). What a program does with its memory between copies is not seen, so each rule says only
//! what facts can show: that host memory was sent twice unchanged is known from hashes
//! ([`Fact::Contents`]) and never guessed; that a device's memory was not written is known as far as copies,
//! fills and reductions write it.
//!
//! Memory is bounded: what was too long ago is forgotten, and then gives no advice. Arrows: `threads` finds
//! patterns in the calls of one thread, `transfers` follows bytes by address with the help of `writes`; none
//! of them knows the statistics, only the numbers of call sites.

mod threads;
mod transfers;
mod writes;

use std::cmp::Reverse;

use crate::fact::{End, Fact, FactSource, Point, Rows, SubmittedOp, Work};

use super::counts::Counts;
use super::generations::{FastMap, Generations};
use super::sites::{CallName, SiteIndex};
use super::traffic::{TrafficKind, TrafficRoute};

use threads::ThreadPatterns;
use transfers::{Transfer, Transfers};

/// Copies that are remembered until their contents and times are known.
const REMEMBERED: usize = 1 << 16;
/// Rows of at least this many bytes cost as much as one piece.
const LONG_ROW: u64 = 16 << 10;
/// A synchronisation behind each copy is a pattern from this many on.
const REPEATED_SYNCS: u64 = 4;

/// A pattern that costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdviceRule {
    /// Pageable memory in an asynchronous call, which then waits for the copy.
    PageableAsync,
    /// Many small copies from one call to one stream, which could be one batch.
    Batch,
    /// The same bytes were sent twice to the same place.
    SentTwice,
    /// Bytes went to the host and back, and nothing on the host could have read them.
    RoundTrip,
    /// The pitches of a rectangle with short rows keep these from being one piece.
    Pitch,
    /// A synchronisation after every copy.
    SyncAfterEach,
}

impl AdviceRule {
    /// All of them.
    pub const ALL: [AdviceRule; 6] = [
        AdviceRule::PageableAsync,
        AdviceRule::Batch,
        AdviceRule::SentTwice,
        AdviceRule::RoundTrip,
        AdviceRule::Pitch,
        AdviceRule::SyncAfterEach,
    ];

    /// As programs know it.
    pub fn id(self) -> &'static str {
        const IDS: [&str; 6] =
            ["pageable-async", "batch", "sent-twice", "round-trip", "pitch", "sync-after-each"];
        IDS[self as usize]
    }

    /// What was seen.
    pub fn title(self) -> &'static str {
        const TITLES: [&str; 6] = [
            "pageable memory in an asynchronous call",
            "a loop of small copies",
            "the same bytes were sent twice to the same place",
            "bytes went to the host and back, and nothing on the host waited for them",
            "pitches keep short rows from being one piece",
            "a synchronisation after every copy",
        ];
        TITLES[self as usize]
    }

    /// What helps.
    pub fn remedy(self) -> &'static str {
        const REMEDIES: [&str; 6] = [
            "the call waits until such a copy is done; allocate the memory with aclrtMallocHost or register \
             it with aclrtHostRegister",
            "hand the copies over together: aclrtMemcpyBatchAsync",
            "keep what is there already",
            "copy within the device, or between the two devices",
            "give both ends the pitch of the row's width, or the same pitch with little between the rows and \
             copy that as well",
            "submit several copies before one synchronisation, or let another stream wait for an event",
        ];
        REMEDIES[self as usize]
    }
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyAdvice {
    /// The pattern.
    pub rule: AdviceRule,
    /// The call that it is about.
    pub call: CallName,
    /// The call at its other end, if there is one: the synchronisation, the copy to the host.
    pub other: Option<CallName>,
    /// How many copies.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds that they cost: the callers' for those that concern calls, else the copies' own.
    pub time: u64,
    /// What was seen in particular; may be empty.
    pub detail: String,
}

/// What was found at one call site.
#[derive(Clone, Debug, Default)]
struct SiteFinding {
    copies: u64,
    bytes: u64,
    time: u64,
    other: Option<SiteIndex>,
    detail: String,
}

impl SiteFinding {
    fn add_time(&mut self, more: u64) {
        self.time = self.time.saturating_add(more);
    }
}

/// What was found, by pattern and call site.
#[derive(Default)]
struct Findings {
    all: FastMap<(AdviceRule, SiteIndex), SiteFinding>,
}

impl Findings {
    fn add(&mut self, rule: AdviceRule, site: SiteIndex, copies: u64, bytes: u64) -> &mut SiteFinding {
        let finding = self.all.entry((rule, site)).or_default();
        finding.copies += copies;
        finding.bytes = finding.bytes.saturating_add(bytes);
        finding
    }
}

/// Looks for patterns that cost time.
pub(super) struct Advisor {
    findings: Findings,
    threads: ThreadPatterns,
    transfers: Transfers,
    copies: Generations<(u32, Point), WatchedCopy>,
    /// Hashes of the sources of ops that were not seen to be submitted yet.
    early_hashes: Generations<(u32, Point), u64>,
}

/// A copy of which more is to be learnt.
struct WatchedCopy {
    site: SiteIndex,
    bytes: u64,
    /// How long it ran; 0 until it has passed.
    time: u64,
    transfer: Option<Transfer>,
    /// The findings that its time belongs to.
    charged: Vec<AdviceRule>,
}

impl Default for Advisor {
    fn default() -> Advisor {
        Advisor {
            findings: Findings::default(),
            threads: ThreadPatterns::default(),
            transfers: Transfers::default(),
            copies: Generations::new(REMEMBERED),
            early_hashes: Generations::new(REMEMBERED),
        }
    }
}

impl Advisor {
    /// An op was submitted by a call that took `call_time` up to then.
    pub(super) fn submitted(
        &mut self,
        source: FactSource,
        site: SiteIndex,
        op: &SubmittedOp,
        call_time: u64,
    ) {
        // A graph was made once, by calls that are not these.
        if op.task.is_none() {
            self.threads.submitted(source, site, op, call_time, &mut self.findings);
        }
        let transfer = self.transfers.submitted(source.process, site, &op.work);
        let mut copy =
            WatchedCopy { site, bytes: op.work.bytes(), time: 0, transfer: None, charged: Vec::new() };
        if let Work::Rows { rows, .. } = &op.work
            && let Some(detail) = unmerged(rows)
        {
            let finding = self.findings.add(AdviceRule::Pitch, site, 1, copy.bytes);
            finding.detail = detail;
            copy.charged.push(AdviceRule::Pitch);
        }
        if let Some(transfer) = transfer {
            if let Some(fetch) = transfer.round_trip {
                self.findings.add(AdviceRule::RoundTrip, site, 1, copy.bytes).other = Some(fetch);
                copy.charged.push(AdviceRule::RoundTrip);
            }
            if transfer.is_repeated {
                add_repeated(&mut self.findings, &mut copy, "nothing wrote to either end in between");
            }
            copy.transfer = Some(transfer);
        }
        if copy.transfer.is_some() || !copy.charged.is_empty() {
            let key = (source.process, op.point);
            self.copies.insert(key, copy);
            if let Some(hash) = self.early_hashes.remove(&key) {
                self.hashed(key, hash);
            }
        }
    }

    /// The source of an op had this hash.
    fn hashed(&mut self, key: (u32, Point), hash: u64) {
        let Some(copy) = self.copies.get_mut(&key) else {
            self.early_hashes.insert(key, hash);
            return;
        };
        let Some(transfer) = &copy.transfer else { return };
        if self.transfers.is_same_as_before(transfer, hash) && !transfer.is_repeated {
            add_repeated(&mut self.findings, copy, "the bytes had the same hash");
            self.findings.add(AdviceRule::SentTwice, copy.site, 0, 0).add_time(copy.time);
        }
    }

    /// An op has passed after it ran for `time`.
    pub(super) fn passed(&mut self, process: u32, point: Point, time: u64) {
        let Some(copy) = self.copies.get_mut(&(process, point)) else { return };
        copy.time = time;
        for rule in &copy.charged {
            self.findings.add(*rule, copy.site, 0, 0).add_time(time);
        }
    }

    /// A thread has learnt that a point has passed.
    pub(super) fn joined(&mut self, process: u32) {
        self.transfers.joined(process);
    }

    /// A thread synchronises in the call `site`; it has been blocked for `now`, not `before`.
    pub(super) fn synchronised(
        &mut self,
        source: FactSource,
        site: SiteIndex,
        is_new: bool,
        (before, now): (u64, u64),
    ) {
        if is_new {
            self.threads.synchronised(source, site, &mut self.findings);
        }
        self.threads.blocked(source, before, now, &mut self.findings);
    }

    /// Facts about memory and its contents.
    pub(super) fn take_memory(&mut self, source: FactSource, fact: &Fact) {
        match fact {
            Fact::Known { block, .. } => self.transfers.written(source.process, block.at, block.len),
            Fact::Resolved { piece, .. } => self.transfers.written(source.process, piece.dst, piece.len),
            Fact::Contents { point, end: End::Source, hash } => self.hashed((source.process, *point), *hash),
            _ => {}
        }
    }

    /// What was found, most time first. `named` are all call sites in the order of their numbers.
    pub(super) fn finish(&mut self, named: &[(CallName, &Counts)]) -> Vec<CopyAdvice> {
        self.threads.flush(&mut self.findings);
        let mut advice: Vec<CopyAdvice> = pageable(named).collect();
        for ((rule, site), finding) in &self.findings.all {
            let Some((call, counts)) = named.get(*site) else { continue };
            let of_copies = counts.traffic_of(|class| class.kind.is_copy()).calls;
            let is_seldom = finding.copies < REPEATED_SYNCS || finding.copies * 10 < of_copies * 9;
            if *rule == AdviceRule::SyncAfterEach && is_seldom {
                continue;
            }
            let other = finding.other.and_then(|other| named.get(other)).map(|(name, _)| name.clone());
            let SiteFinding { copies, bytes, time, detail, .. } = finding.clone();
            add_joined(
                &mut advice,
                CopyAdvice { rule: *rule, call: call.clone(), other, copies, bytes, time, detail },
            );
        }
        advice.sort_by_cached_key(|found| {
            (Reverse(found.time), Reverse(found.bytes), found.rule, found.call.text())
        });
        advice
    }
}

/// Adds up what calls with one name have in common, such as those of several processes of one program.
fn add_joined(advice: &mut Vec<CopyAdvice>, found: CopyAdvice) {
    let same = |known: &&mut CopyAdvice| known.rule == found.rule && known.call == found.call;
    match advice.iter_mut().find(same) {
        Some(known) => {
            known.copies += found.copies;
            known.bytes = known.bytes.saturating_add(found.bytes);
            known.time = known.time.saturating_add(found.time);
        }
        None => advice.push(found),
    }
}

fn add_repeated(findings: &mut Findings, copy: &mut WatchedCopy, why: &str) {
    let finding = findings.add(AdviceRule::SentTwice, copy.site, 1, copy.bytes);
    finding.detail = why.to_owned();
    copy.charged.push(AdviceRule::SentTwice);
}

/// Asynchronous calls with pageable memory: the counters of their sites say all.
fn pageable<'a>(named: &'a [(CallName, &'a Counts)]) -> impl Iterator<Item = CopyAdvice> + 'a {
    named.iter().filter_map(|(call, counts)| {
        let is_async = call.function.as_ref().is_some_and(|name| name.contains("Async"));
        let traffic = counts.traffic_of(|class| {
            class.route == Some(TrafficRoute::Pageable) && class.kind != TrafficKind::HostToHost
        });
        let advice = CopyAdvice {
            rule: AdviceRule::PageableAsync,
            call: call.clone(),
            other: None,
            copies: traffic.calls,
            bytes: traffic.bytes,
            time: traffic.blocked,
            detail: String::new(),
        };
        (is_async && traffic.calls > 0).then_some(advice)
    })
}

/// What keeps the rows of a rectangle from being one piece, if they are short.
fn unmerged(rows: &Rows) -> Option<String> {
    let is_merged = rows.width == rows.dst_pitch && rows.width == rows.src_pitch;
    let is_short = rows.height > 1 && rows.width < LONG_ROW && rows.width > 0;
    let Rows { width, dst_pitch, src_pitch, height, .. } = rows;
    (is_short && !is_merged).then(|| {
        format!(
            "{height} rows of {width} bytes, {dst_pitch} apart at the destination, {src_pitch} at the source"
        )
    })
}
