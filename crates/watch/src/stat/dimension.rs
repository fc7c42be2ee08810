//! What numbers measure: bytes, times, bytes per time, or nothing; and the units that people write.

use std::fmt;

/// What a number measures. The units of values are bytes and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dimension {
    /// The exponent of bytes.
    pub bytes: i8,
    /// The exponent of time.
    pub time: i8,
}

impl Dimension {
    /// A number of things, or a ratio.
    pub const NUMBER: Dimension = Dimension { bytes: 0, time: 0 };
    /// Bytes.
    pub const BYTES: Dimension = Dimension { bytes: 1, time: 0 };
    /// A time, in nanoseconds.
    pub const TIME: Dimension = Dimension { bytes: 0, time: 1 };
    /// Bytes per nanosecond, which is GB/s.
    pub const RATE: Dimension = Dimension { bytes: 1, time: -1 };

    /// That of a product.
    pub(super) fn times(self, other: Dimension) -> Dimension {
        let bytes = self.bytes.saturating_add(other.bytes);
        Dimension { bytes, time: self.time.saturating_add(other.time) }
    }

    /// That of a quotient.
    pub(super) fn per(self, other: Dimension) -> Dimension {
        let bytes = self.bytes.saturating_sub(other.bytes);
        Dimension { bytes, time: self.time.saturating_sub(other.time) }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            Dimension::NUMBER => f.write_str("a number"),
            Dimension::BYTES => f.write_str("bytes"),
            Dimension::TIME => f.write_str("a time"),
            Dimension::RATE => f.write_str("bytes per time"),
            Dimension { bytes, time } => write!(f, "bytes^{bytes} time^{time}"),
        }
    }
}

/// Units as they are written behind a number: the name, the factor and what it makes of the number.
pub(super) const UNITS: &[(&str, f64, Dimension)] = &[
    ("%", 0.01, Dimension::NUMBER),
    ("B", 1.0, Dimension::BYTES),
    ("kB", 1e3, Dimension::BYTES),
    ("KB", 1e3, Dimension::BYTES),
    ("MB", 1e6, Dimension::BYTES),
    ("GB", 1e9, Dimension::BYTES),
    ("TB", 1e12, Dimension::BYTES),
    ("KiB", 1024.0, Dimension::BYTES),
    ("MiB", 1048576.0, Dimension::BYTES),
    ("GiB", 1073741824.0, Dimension::BYTES),
    ("TiB", 1099511627776.0, Dimension::BYTES),
    ("ns", 1.0, Dimension::TIME),
    ("us", 1e3, Dimension::TIME),
    ("µs", 1e3, Dimension::TIME),
    ("ms", 1e6, Dimension::TIME),
    ("s", 1e9, Dimension::TIME),
    ("min", 60e9, Dimension::TIME),
    ("MB/s", 1e-3, Dimension::RATE),
    ("GB/s", 1.0, Dimension::RATE),
    ("TB/s", 1e3, Dimension::RATE),
    ("MiB/s", 1048576e-9, Dimension::RATE),
    ("GiB/s", 1073741824e-9, Dimension::RATE),
];
