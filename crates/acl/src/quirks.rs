//! Deviations of real cards from the documents, each switched on by its id in `FERRY_QUIRKS`.
//!
//! The ids are those of the table in `docs/ENVIRONMENT.md`, which has the sources. The rules ask by what a
//! quirk does, not by its id. All are off by default; where one concerns a call that `FERRY_STRICT` changes
//! too, the quirk wins.

use ferry_core::{Kind, Result};

/// What real cards were seen to do against the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// A call refused with 107030 leaves the capture alive.
    F1,
    /// A synchronous host-to-device copy of another thread invalidates a THREAD_LOCAL capture.
    F2,
    /// Synchronous copies between two devices fail.
    F3,
    /// White lists of memory between processes do not work.
    F4,
    /// A batch has at most 4096 pieces.
    F6,
    /// aclrtPointerGetAttributes fails for memory that acl did not allocate.
    F7,
    /// One call page-locks a limited number of bytes.
    F8,
    /// Unaligned registration fails with the driver's code.
    F9,
    /// A device without a free stream is reported with the driver's text.
    F12,
}

use Quirk::*;

/// Every quirk with its id.
const IDS: [(&str, Quirk); 9] = [
    ("F1", F1),
    ("F2", F2),
    ("F3", F3),
    ("F4", F4),
    ("F6", F6),
    ("F7", F7),
    ("F8", F8),
    ("F9", F9),
    ("F12", F12),
];

/// The quirks that are on, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks(u16);

impl Quirks {
    /// Reads a list of ids with commas between them, or `all`; an empty list has none.
    pub fn parse(text: &str) -> Result<Quirks> {
        if text.trim().eq_ignore_ascii_case("all") {
            return Ok(Quirks(IDS.iter().fold(0, |set, (_, quirk)| set | quirk.bit())));
        }
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(one).try_fold(Quirks::default(), |set, quirk| Ok(Quirks(set.0 | quirk?.bit())))
    }

    /// Whether this quirk is on.
    pub fn has(self, quirk: Quirk) -> bool {
        self.0 & quirk.bit() != 0
    }

    /// F1: a call that a capture refuses with 107030 does not invalidate the capture.
    pub fn capture_survives_unsafe_calls(self) -> bool {
        self.has(F1)
    }

    /// F2: another thread's synchronous host-to-device copy invalidates a capture of mode THREAD_LOCAL.
    pub fn thread_local_capture_breaks_on_other_threads_uploads(self) -> bool {
        self.has(F2)
    }

    /// F3: synchronous copies between two devices fail with 507899 and change nothing.
    pub fn synchronous_peer_copies_fail(self) -> bool {
        self.has(F3)
    }

    /// F4: aclrtIpcMemSetImportPid fails with 507899, and so does an import with default flags of memory that
    /// was exported with the check of process ids.
    pub fn ipc_white_lists_fail(self) -> bool {
        self.has(F4)
    }

    /// F6: the most pieces of a batch.
    pub fn batch_limit(self) -> Option<usize> {
        self.has(F6).then_some(4096)
    }

    /// F7: aclrtPointerGetAttributes knows only memory that acl allocated, and fails for any other.
    pub fn foreign_pointers_have_no_attributes(self) -> bool {
        self.has(F7)
    }

    /// F8: the most bytes that one aclrtMallocHost allocates.
    pub fn host_allocation_limit(self) -> Option<usize> {
        self.has(F8).then_some(200 << 30)
    }

    /// F8: the most bytes that one call registers.
    pub fn registration_limit(self) -> Option<usize> {
        self.has(F8).then_some(128 << 20)
    }

    /// F9: unaligned registration fails with 507899 instead of 107008.
    pub fn unaligned_registration_is_a_driver_error(self) -> bool {
        self.has(F9)
    }

    /// F12: a device that has no more streams is reported with 207008 and the text "alloc sq cq fail".
    pub fn stream_shortage_has_driver_text(self) -> bool {
        self.has(F12)
    }
}

impl Quirk {
    fn bit(self) -> u16 {
        1 << self as u16
    }
}

fn one(word: &str) -> Result<Quirk> {
    let found = IDS.iter().find(|(id, _)| id.eq_ignore_ascii_case(word));
    found.map(|(_, quirk)| *quirk).ok_or_else(|| {
        let valid = IDS.map(|(id, _)| id).join(", ");
        Kind::BadSetting.because(format!("'{word}' is no quirk: give all, or some of {valid}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        assert_eq!(Quirks::parse("").expect("none"), Quirks::default());
        let some = Quirks::parse("F1, f12,,F6").expect("three");
        for (id, quirk) in IDS {
            assert_eq!(some.has(quirk), ["F1", "F12", "F6"].contains(&id), "{id}");
            assert!(Quirks::parse("all").expect("all").has(quirk), "{id}");
        }
        assert!(some.capture_survives_unsafe_calls() && some.stream_shortage_has_driver_text());
        assert_eq!((some.batch_limit(), some.registration_limit()), (Some(4096), None));
    }

    #[test]
    fn unknown_ids_are_refused_with_the_valid_ones() {
        for text in ["F5", "F10", "F1,F99", "1", "F1;F2", "none", "all,F1"] {
            let error = Quirks::parse(text).expect_err(text);
            assert_eq!(error.kind, Kind::BadSetting);
            assert!(error.note.contains("F1, F2, F3, F4, F6, F7, F8, F9, F12"), "{}", error.note);
        }
    }
}
