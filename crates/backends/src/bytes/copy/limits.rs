//! The sizes from which on rows are prefetched, moved by libc, or written by non-temporal stores. The one
//! place for these numbers; `benches/copy.rs` measures them.

// The plain routine leaves them to libc.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use ferry_core::Pieces;
#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

/// Plans of more bytes are written by non-temporal stores: what they write would evict itself from the
/// second-level cache before it is read (1 to 2 MiB on the machines of today, and half of it is the
/// source's), and a store that goes through the cache first reads what it overwrites. Measured with 1.25
/// MiB a core and 48 MiB shared: 1.5 times as fast as memcpy from 4 to 32 MiB.
pub const NONTEMPORAL_FROM: usize = 4 << 20;
/// The same on AMD's processors, whose shared cache takes what leaves the second-level one: on an EPYC of
/// 2024 (Zen 5, 1 MiB a core, 32 MiB shared) 4 and 8 MiB are copied at 0.6 of memcpy's speed past the caches,
/// and at 0.9 to 1.4 through them.
pub const NONTEMPORAL_FROM_AMD: usize = 12 << 20;

/// As [`NONTEMPORAL_FROM`], for fills. Those have no source to make room for, and libc's memset does not read
/// what it overwrites: as long as a shared cache holds the target, it is twice as fast as non-temporal stores
/// (81 against 42 GB/s for 16 MiB on one core of an EPYC with 32 MiB of shared cache).
pub const FILL_NONTEMPORAL_FROM: usize = 32 << 20;

/// Plans of more bytes do not find their rows in the first-level cache: rows to come are prefetched while
/// one is moved.
pub const PREFETCH_FROM: usize = 64 << 10;

/// How far ahead of the bytes being moved the source is prefetched.
pub const PREFETCH_BYTES: usize = 1 << 10;

/// How far ahead the source is prefetched in each of four pages that are moved side by side.
pub const PAGE_PREFETCH_DISTANCE: usize = 512;

/// From here on libc's memcpy moves a row that fits the caches: it is as fast as any loop, and knows more
/// machines. It may use `rep movsb`, from 2 KiB on at the earliest. Below, the call costs more than it gains.
pub const LIBC_FROM: usize = 2 << 10;

/// 4 KiB aliasing: a destination less than so far past its source, modulo the page size. There a forward
/// copy loads from addresses whose low twelve bits match a store just made, and waits for it. `rep movsb`
/// falls to a twentieth of its speed on some machines, and to half on others; a backward loop does not meet
/// it. Where both begin at the same place in a cache line, `rep movsb` moves whole lines and keeps its
/// speed.
pub const ALIASING_PAST: usize = 768;

/// Whether 4 KiB aliasing costs a forward copy anything on this processor. Not on AMD's: on an EPYC of 2024
/// (Zen 5) libc copies 64 to 512 KiB as fast there as elsewhere, and the backward loop at half of that.
#[inline]
pub fn aliasing_costs() -> bool {
    !is_amd()
}

#[inline]
fn nontemporal_from() -> usize {
    if is_amd() { NONTEMPORAL_FROM_AMD } else { NONTEMPORAL_FROM }
}

/// Whether AMD made the processor. Asked once, since a hypervisor answers in its stead, in microseconds.
#[cfg(target_arch = "x86_64")]
#[inline]
fn is_amd() -> bool {
    static ANSWER: LazyLock<bool> = LazyLock::new(|| {
        let about = std::arch::x86_64::__cpuid(0);
        let maker = [about.ebx, about.edx, about.ecx].map(u32::to_le_bytes);
        maker.as_flattened() == b"AuthenticAMD"
    });
    *ANSWER
}

#[cfg(not(target_arch = "x86_64"))]
fn is_amd() -> bool {
    false
}

/// How the rows of a plan are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manner {
    /// They are probably in the first cache.
    Near,
    /// They come from further away, and fit a cache.
    Far,
    /// They do not fit.
    Streamed,
}

impl Manner {
    /// How fills of so many bytes are written.
    pub fn of_fill(bytes: usize) -> Manner {
        if bytes >= FILL_NONTEMPORAL_FROM { Manner::Streamed } else { Manner::of(bytes).min(Manner::Far) }
    }

    /// How plans of so many bytes are moved.
    pub fn of(bytes: usize) -> Manner {
        match bytes {
            ..PREFETCH_FROM => Manner::Near,
            _ if bytes >= nontemporal_from() => Manner::Streamed,
            _ => Manner::Far,
        }
    }
}

/// About how many bytes the plan has. Looks at a few of its pieces, since it is asked for with every slice.
pub fn estimate(pieces: Pieces) -> usize {
    match pieces {
        Pieces::Rows(rows) => estimate_by(rows, |rows| rows.width.saturating_mul(rows.height)),
        Pieces::Segments(lines) => estimate_by(lines, |line| line.len),
    }
}

fn estimate_by<P>(pieces: &[P], bytes: impl Fn(&P) -> usize) -> usize {
    const SAMPLES: usize = 16;
    let step = pieces.len().div_ceil(SAMPLES).max(1);
    let (count, sum) = (pieces.iter().step_by(step))
        .fold((0, 0_usize), |(count, sum), piece| (count + 1, sum.saturating_add(bytes(piece))));
    sum.checked_div(count).map_or(0, |mean| mean.saturating_mul(pieces.len()))
}
