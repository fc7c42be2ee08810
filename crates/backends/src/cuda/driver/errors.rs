//! What the driver's result codes mean to a caller: the numbers are those of its documentation.

use super::table::Code;
use ferry_core::Kind;

/// What a code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// What a caller could act on.
    pub kind: Kind,
    /// Whether the GPU's context is gone for this process: every later call fails, and there is no use in
    /// making one.
    pub is_final: bool,
}

const fn passes(kind: Kind) -> Meaning {
    Meaning { kind, is_final: false }
}

const fn stays(kind: Kind) -> Meaning {
    Meaning { kind, is_final: true }
}

/// Ranges of codes that mean something of their own, in order. All others: the driver failed us. An unknown
/// error (999) is among those: the next call tells whether it stays.
const TABLE: &[(Code, Code, Meaning)] = &[
    (2, 2, passes(Kind::OutOfMemory)),
    (4, 4, stays(Kind::Lost)),              // the driver is shutting down
    (34, 34, passes(Kind::Unsupported)),    // a stub library in place of the driver
    (46, 46, stays(Kind::Lost)),            // the device is unavailable
    (100, 101, passes(Kind::NoDevice)),     // none, or none of this number
    (200, 200, passes(Kind::Unsupported)),  // a kernel image that it does not take
    (201, 201, stays(Kind::Lost)),          // no such context: the device was reset
    (209, 209, passes(Kind::Unsupported)),  // no kernel for this GPU
    (214, 214, stays(Kind::BadMemory)),     // an error of its memory that could not be corrected
    (218, 218, passes(Kind::Unsupported)),  // kernels that it does not understand
    (220, 220, stays(Kind::Lost)),          // an error of its link to other GPUs
    (221, 225, passes(Kind::Unsupported)),  // no compiler for kernels, or an older one
    (226, 226, stays(Kind::BadMemory)),     // an error of its memory, kept to this process
    (700, 700, stays(Kind::Fault)),         // an address where nothing is mapped
    (701, 701, passes(Kind::LimitReached)), // more than a kernel may use
    (702, 702, stays(Kind::Fault)),         // a kernel took too long
    (709, 709, stays(Kind::Lost)),          // the context was destroyed
    (710, 710, stays(Kind::Fault)),         // an assertion in a kernel
    // Stack, instruction, alignment, address space, program counter, unspecified.
    (714, 719, stays(Kind::Fault)),
    (801, 803, passes(Kind::Unsupported)), // not on this GPU, or driver and system do not fit
    (900, 908, passes(Kind::Captured)),    // not while a stream is captured
];

/// What the code means.
pub fn meaning(code: Code) -> Meaning {
    let row = TABLE.partition_point(|(_, last, _)| *last < code);
    match TABLE.get(row) {
        Some((first, _, meaning)) if *first <= code => *meaning,
        _ => passes(Kind::Device),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(TABLE.iter().all(|(first, last, _)| first <= last));
        assert!(TABLE.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    #[test]
    fn codes_mean_what_a_caller_can_act_on() {
        for (code, kind, is_final) in [
            (1, Kind::Device, false),
            (2, Kind::OutOfMemory, false),
            (3, Kind::Device, false),
            (46, Kind::Lost, true),
            (101, Kind::NoDevice, false),
            (214, Kind::BadMemory, true),
            (222, Kind::Unsupported, false),
            (400, Kind::Device, false),
            (600, Kind::Device, false),
            (700, Kind::Fault, true),
            (703, Kind::Device, false),
            (709, Kind::Lost, true),
            (716, Kind::Fault, true),
            (719, Kind::Fault, true),
            (720, Kind::Device, false),
            (801, Kind::Unsupported, false),
            (906, Kind::Captured, false),
            (999, Kind::Device, false),
        ] {
            assert_eq!(meaning(code), Meaning { kind, is_final }, "{code}");
        }
    }
}
