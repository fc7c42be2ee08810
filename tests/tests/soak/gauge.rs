//! What the process holds, as the kernel counts it, and whether that grows.

use std::fmt;
use std::fs;

use crate::heap;

/// One look at the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauge {
    /// Resident memory in KiB.
    pub resident: usize,
    /// Allocated on the heap, in KiB.
    pub heap: usize,
    /// Lines of /proc/self/maps.
    pub mappings: usize,
    pub threads: usize,
    pub descriptors: usize,
}

/// How far a number may be above another before that counts as growth.
#[derive(Clone, Copy)]
pub struct Margin {
    name: &'static str,
    of: fn(&Gauge) -> usize,
    /// Hundredths of the number, and a few more whatever the number.
    percent: usize,
    more: usize,
}

impl Margin {
    /// During the soak: work in flight makes each number go up and down; what leaks goes up with every act,
    /// and there are many.
    pub const BUSY: [Margin; 5] = [
        Margin { name: "KiB resident", of: |g| g.resident, percent: 4, more: 24 * 1024 },
        Margin { name: "KiB of heap", of: |g| g.heap, percent: 20, more: 24 * 1024 },
        Margin { name: "mappings", of: |g| g.mappings, percent: 4, more: 64 },
        Margin { name: "threads", of: |g| g.threads, percent: 50, more: 24 },
        Margin { name: "file descriptors", of: |g| g.descriptors, percent: 0, more: 4 },
    ];
    /// With everything given back: tables and lists keep the room that they needed once, and the C library's
    /// heap keeps pages with one small thing in each, not always as many. A byte kept by every act would be
    /// more than this.
    pub const AT_REST: [Margin; 5] = [
        Margin { name: "KiB resident", of: |g| g.resident, percent: 0, more: 32 * 1024 },
        Margin { name: "KiB of heap", of: |g| g.heap, percent: 0, more: 4 * 1024 },
        Margin { name: "mappings", of: |g| g.mappings, percent: 0, more: 32 },
        Margin { name: "threads", of: |g| g.threads, percent: 0, more: 1 },
        Margin { name: "file descriptors", of: |g| g.descriptors, percent: 0, more: 1 },
    ];
}

impl Gauge {
    pub fn read() -> Gauge {
        let status = fs::read_to_string("/proc/self/status").expect("the process has a status");
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
                .expect("a number of the status")
        };
        let maps = fs::read_to_string("/proc/self/maps").expect("the process has mappings");
        Gauge {
            resident: value("VmRSS:"),
            heap: heap::in_use() / 1024,
            mappings: maps.lines().count(),
            threads: value("Threads:"),
            // The folder itself is open while it is read.
            descriptors: fs::read_dir("/proc/self/fd").expect("the process has files").count() - 1,
        }
    }

    /// The middle of several looks, number by number, so that one odd look decides nothing.
    fn middle(looks: &[Gauge]) -> Gauge {
        let of = |number: fn(&Gauge) -> usize| {
            let mut all: Vec<usize> = looks.iter().map(number).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or_default()
        };
        Gauge {
            resident: of(|g| g.resident),
            heap: of(|g| g.heap),
            mappings: of(|g| g.mappings),
            threads: of(|g| g.threads),
            descriptors: of(|g| g.descriptors),
        }
    }

    /// Asserts that no number is above `earlier`'s by more than its margin.
    #[track_caller]
    pub fn assert_not_above(&self, earlier: &Gauge, margins: [Margin; 5], what: &str) {
        for Margin { name, of, percent, more } in margins {
            let (now, then) = (of(self), of(earlier));
            let most = then + then * percent / 100 + more;
            assert!(now <= most, "{what}: {now} {name} after {then}: at most {most} would be no growth");
        }
    }
}

impl fmt::Display for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gauge { resident, heap, mappings, threads, descriptors } = self;
        write!(f, "{} MiB resident, {heap} KiB of heap, ", resident / 1024)?;
        write!(f, "{mappings} mappings, {threads} threads, {descriptors} files")
    }
}

/// Asserts that the last third of the looks is not above the second.
#[track_caller]
pub fn assert_no_growth(looks: &[Gauge]) {
    let third = looks.len() / 3;
    assert!(third > 0, "{} looks are too few to tell a trend", looks.len());
    let (second, last) = (Gauge::middle(&looks[third..2 * third]), Gauge::middle(&looks[2 * third..]));
    println!("the second third: {second}\nthe last third:   {last}");
    last.assert_not_above(&second, Margin::BUSY, "the last third of the soak compared with the second");
}
