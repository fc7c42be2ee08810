//! The clock of facts: ticks that cost a few nanoseconds to read, and how a reader turns them into time.
//!
//! Where the CPU has a counter that runs at one rate on all cores, ticks are that counter; elsewhere they are
//! nanoseconds of the system's monotonic clock. Nothing is calibrated in the program that is watched: every
//! buffer has a [`Sample`] of both clocks, and a reader draws a line through the earliest and the latest.

use std::sync::atomic::{AtomicU8, Ordering};

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The counter.
    pub ticks: u64,
    /// Nanoseconds of the monotonic clock.
    pub nanos: u64,
}

impl Sample {
    /// Now. Of several readings that is taken in which least time has passed between the two clocks: a
    /// thread may lose its core there.
    pub fn now() -> Sample {
        let read = |_| {
            let (before, nanos, after) = (ticks(), monotonic(), ticks());
            (after.wrapping_sub(before), Sample { ticks: before, nanos })
        };
        (0..3).map(read).min_by_key(|(took, _)| *took).map_or_else(Sample::default, |(_, sample)| sample)
    }
}

/// The time now, in ticks.
#[inline]
pub fn ticks() -> u64 {
    if has_counter() { counter() } else { monotonic() }
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic() -> u64 {
    system_clock(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since the Unix epoch.
pub fn epoch() -> u64 {
    system_clock(libc::CLOCK_REALTIME)
}

fn system_clock(which: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes the timespec and nothing else.
    unsafe { libc::clock_gettime(which, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Whether the CPU's counter can be used: asked once.
#[inline]
fn has_counter() -> bool {
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let has = is_invariant();
            KNOWN.store(1 + u8::from(has), Ordering::Relaxed);
            has
        }
        known => known == 2,
    }
}

/// The kernel uses the counter as its own clock: then it is synchronous on all cores.
#[cfg(target_arch = "x86_64")]
fn is_invariant() -> bool {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
}

/// The architecture has it so.
#[cfg(target_arch = "aarch64")]
fn is_invariant() -> bool {
    true
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn is_invariant() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and the kernel lets programs use it where it is its own
    // clock.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn counter() -> u64 {
    let count: u64;
    // SAFETY: it reads the virtual counter, which Linux lets programs read.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
    count
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    monotonic()
}

/// How ticks become nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    base: Sample,
    nanos_per_tick: f64,
}

impl Rate {
    /// The line through two samples; it is most exact near the later one. Those of one moment say nothing
    /// about the rate: one tick is a nanosecond then.
    pub fn between(first: Sample, last: Sample) -> Rate {
        let ticks = last.ticks.wrapping_sub(first.ticks) as i64;
        let nanos = last.nanos.wrapping_sub(first.nanos) as i64;
        let is_known = ticks > 0 && nanos > 0;
        let nanos_per_tick = if is_known { nanos as f64 / ticks as f64 } else { 1.0 };
        Rate { base: last, nanos_per_tick }
    }

    /// Nanoseconds of the monotonic clock; 0, which stands for no time, stays 0.
    pub fn nanos(&self, ticks: u64) -> u64 {
        if ticks == 0 {
            return 0;
        }
        let since = ticks.wrapping_sub(self.base.ticks) as i64 as f64;
        self.base.nanos.saturating_add_signed((since * self.nanos_per_tick) as i64)
    }

    /// So many ticks as nanoseconds.
    pub fn duration(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.nanos_per_tick) as u64
    }

    /// The ticks of a moment of the monotonic clock.
    pub fn ticks(&self, nanos: u64) -> u64 {
        let since = nanos.wrapping_sub(self.base.nanos) as i64 as f64;
        self.base.ticks.saturating_add_signed((since / self.nanos_per_tick) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_the_time_of_the_system() {
        let first = Sample::now();
        while monotonic() < first.nanos + 2_000_000 {}
        let rate = Rate::between(first, Sample::now());
        let (before, ticks, after) = (monotonic(), ticks(), monotonic());
        let found = rate.nanos(ticks);
        let slack = 100_000;
        assert!(before - slack <= found && found <= after + slack, "{before} {found} {after}");
        assert!(rate.ticks(found).abs_diff(ticks) < 1000, "there and back");
    }

    #[test]
    fn no_time_stays_no_time() {
        let rate = Rate::between(Sample { ticks: 10, nanos: 1000 }, Sample { ticks: 20, nanos: 1030 });
        assert_eq!([0, 10, 20, 30, 5].map(|ticks| rate.nanos(ticks)), [0, 1000, 1030, 1060, 985]);
    }
}
