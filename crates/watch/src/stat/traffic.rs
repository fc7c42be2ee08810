//! The classes that work which moves bytes is counted in: kind, route and size; and the counters of one.

use crate::fact::{Route, Work};

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrafficKind {
    /// From the host to a device.
    HostToDevice,
    /// From a device to the host.
    DeviceToHost,
    /// From a device to the same or another one.
    DeviceToDevice,
    /// From host memory to host memory.
    HostToHost,
    /// A pattern is written.
    Fill,
    /// Device memory is combined with other memory of the device.
    Reduce,
}

impl TrafficKind {
    /// All of them.
    pub const ALL: [TrafficKind; 6] = [
        TrafficKind::HostToDevice,
        TrafficKind::DeviceToHost,
        TrafficKind::DeviceToDevice,
        TrafficKind::HostToHost,
        TrafficKind::Fill,
        TrafficKind::Reduce,
    ];

    /// As a part of a statistic's name.
    pub fn name(self) -> &'static str {
        ["h2d", "d2h", "d2d", "h2h", "fill", "reduce"][self as usize]
    }

    /// In words.
    pub fn title(self) -> &'static str {
        const TITLES: [&str; 6] =
            ["host to device", "device to host", "device to device", "host to host", "fill", "reduce"];
        TITLES[self as usize]
    }

    /// Whether it has a source and a destination: everything but fills and reductions.
    pub fn is_copy(self) -> bool {
        !matches!(self, TrafficKind::Fill | TrafficKind::Reduce)
    }
}

/// What kind of memory decides how fast a copy can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrafficRoute {
    /// All host memory that takes part is page-locked.
    Pinned,
    /// Pageable host memory takes part.
    Pageable,
    /// Both ends are memory of one device.
    WithinDevice,
    /// The ends are memory of two devices.
    BetweenDevices,
}

impl TrafficRoute {
    /// All of them.
    pub const ALL: [TrafficRoute; 4] = [
        TrafficRoute::Pinned,
        TrafficRoute::Pageable,
        TrafficRoute::WithinDevice,
        TrafficRoute::BetweenDevices,
    ];

    /// As a part of a statistic's name.
    pub fn name(self) -> &'static str {
        ["pinned", "pageable", "within_device", "between_devices"][self as usize]
    }

    /// In words.
    pub fn title(self) -> &'static str {
        ["page-locked", "pageable", "within a device", "between devices"][self as usize]
    }

    fn of(route: Route) -> TrafficRoute {
        match (route.src, route.dst) {
            (Some(src), Some(dst)) if src == dst => TrafficRoute::WithinDevice,
            (Some(_), Some(_)) => TrafficRoute::BetweenDevices,
            _ if route.is_pageable => TrafficRoute::Pageable,
            _ => TrafficRoute::Pinned,
        }
    }
}

/// How many bytes one op moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SizeClass {
    /// Less than 4 KiB.
    Tiny,
    /// Less than 64 KiB.
    Small,
    /// Less than 1 MiB.
    Medium,
    /// Less than 16 MiB.
    Large,
    /// 16 MiB and more.
    Huge,
}

impl SizeClass {
    /// All of them.
    pub const ALL: [SizeClass; 5] =
        [SizeClass::Tiny, SizeClass::Small, SizeClass::Medium, SizeClass::Large, SizeClass::Huge];

    /// As a part of a statistic's name.
    pub fn name(self) -> &'static str {
        ["tiny", "small", "medium", "large", "huge"][self as usize]
    }

    /// Its limits.
    pub fn title(self) -> &'static str {
        ["below 4 KiB", "4 - 64 KiB", "64 KiB - 1 MiB", "1 - 16 MiB", "from 16 MiB"][self as usize]
    }

    fn of(bytes: u64) -> SizeClass {
        const LIMITS: [u64; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];
        SizeClass::ALL[LIMITS.iter().filter(|limit| bytes >= **limit).count()]
    }
}

/// What one op is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrafficClass {
    /// Which way the bytes go.
    pub kind: TrafficKind,
    /// Through what kind of memory; `None` for fills and reductions.
    pub route: Option<TrafficRoute>,
    /// How many they are.
    pub size: SizeClass,
}

impl TrafficClass {
    /// The class of work that moves `bytes`; `None` if it moves none by its nature.
    pub fn of(work: &Work, bytes: u64) -> Option<TrafficClass> {
        let size = SizeClass::of(bytes);
        let route = work.route();
        let kind = match (work, route) {
            (Work::Fill { .. }, _) => TrafficKind::Fill,
            (Work::Reduce { .. }, _) => TrafficKind::Reduce,
            (_, None) => return None,
            (_, Some(Route { src: None, dst: None, .. })) => TrafficKind::HostToHost,
            (_, Some(Route { src: None, .. })) => TrafficKind::HostToDevice,
            (_, Some(Route { dst: None, .. })) => TrafficKind::DeviceToHost,
            _ => TrafficKind::DeviceToDevice,
        };
        Some(TrafficClass { kind, route: route.map(TrafficRoute::of), size })
    }

    /// The same but for another number of bytes.
    pub fn of_size(self, bytes: u64) -> TrafficClass {
        TrafficClass { size: SizeClass::of(bytes), ..self }
    }
}

/// What the ops of one class, or of several, came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounts {
    /// Ops that were submitted: a batch is one, and so is each task of a graph that is executed.
    pub calls: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of those that have been done.
    pub done_bytes: u64,
    /// Nanoseconds that those which have passed ran, each for itself. Of ops that were sent as one, each
    /// has its share.
    pub time: u64,
    /// Nanoseconds that their callers were blocked.
    pub blocked: u64,
}

impl TrafficCounts {
    /// Adds the figures of `other`.
    pub fn add(&mut self, other: &TrafficCounts) {
        self.calls += other.calls;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.done_bytes = self.done_bytes.saturating_add(other.done_bytes);
        self.time = self.time.saturating_add(other.time);
        self.blocked = self.blocked.saturating_add(other.blocked);
    }

    /// Bytes per nanosecond, which is GB/s, while they ran; 0 if nothing ran.
    pub fn rate(&self) -> f64 {
        if self.time == 0 { 0.0 } else { self.done_bytes as f64 / self.time as f64 }
    }
}
