//! Where an interpreter has which field: of 3.13 and 3.14 as it says itself, of 3.9 and 3.10 as the headers
//! of these versions say, which nothing changes any more.

use super::{line_tables::TableForm, read_all};

/// Offsets in bytes, each in the structure that its sentence names.
pub(super) struct PythonLayout {
    /// State of a thread: its innermost frame.
    pub(super) current_frame: u64,
    /// Frame: the one that called it.
    pub(super) previous: u64,
    /// Frame: its code object.
    pub(super) code: u64,
    pub(super) place: PlaceLayout,
    /// Code object: the name of its file.
    pub(super) file: u64,
    /// Code object: its own name.
    pub(super) name: u64,
    /// Code object: its table of lines, in this form.
    pub(super) line_table: (u64, TableForm),
    /// Code object: the line in which it begins.
    pub(super) first_line: u64,
    pub(super) text: TextLayout,
}

/// How a frame says where it is in its code.
pub(super) enum PlaceLayout {
    /// By a pointer into the code object, whose instructions begin at an offset. Frames are no objects, and
    /// their owner says what kind of frame it is.
    Pointer { instruction: u64, owner: u64, instructions: u64 },
    /// By a number, of units of so many bytes. Frames are objects.
    Number { number: u64, unit: i64 },
}

/// A `str` object in the compact form, as all names in code are.
pub(super) struct TextLayout {
    /// Bits of its state below its kind.
    pub(super) kind_shift: u32,
    /// The characters if they are ASCII.
    pub(super) ascii: u64,
    /// The characters if they are not.
    pub(super) wide: u64,
}

/// Words of the published offsets that are used, by their place.
struct OffsetPlaces {
    version: u64,
    current_frame: usize,
    /// The first word of those about frames.
    frame: usize,
    /// The first word of those about code objects.
    code: usize,
    /// Bits of the state of a string below its kind.
    kind_shift: u32,
}

const PUBLISHED: [OffsetPlaces; 2] = [
    OffsetPlaces { version: 0x030d, current_frame: 23, frame: 28, code: 34, kind_shift: 2 },
    OffsetPlaces { version: 0x030e, current_frame: 26, frame: 31, code: 39, kind_shift: 16 },
];
const WORDS: usize = 50;

impl PythonLayout {
    /// The offsets that begin at this address; none of another version, or of an interpreter without its
    /// lock, whose objects have another head.
    pub(super) fn published(runtime: u64) -> Option<PythonLayout> {
        let mut bytes = [0; WORDS * 8];
        read_all(runtime, &mut bytes)?;
        let word = |index: usize| u64::from_ne_bytes(bytes[index * 8..][..8].try_into().expect("8 bytes"));
        let is_free_threaded = word(2) != 0;
        let places = PUBLISHED.iter().find(|places| places.version == word(1) >> 16)?;
        let is_known = bytes.starts_with(b"xdebugpy") && !is_free_threaded;
        is_known.then(|| PythonLayout {
            current_frame: word(places.current_frame),
            previous: word(places.frame + 1),
            code: word(places.frame + 2),
            place: PlaceLayout::Pointer {
                instruction: word(places.frame + 3),
                owner: word(places.frame + 5),
                instructions: word(places.code + 9),
            },
            file: word(places.code + 1),
            name: word(places.code + 2),
            line_table: (word(places.code + 4), TableForm::Entries),
            first_line: word(places.code + 5),
            text: TextLayout { kind_shift: places.kind_shift, ascii: 40, wide: 56 },
        })
    }

    /// The offsets of a version, as the interpreter writes it: `3.10.13 (main, ...`. They are those of a
    /// build with the usual head of an object; in another one no object has the type that is expected.
    pub(super) fn of_version(version: &str) -> Option<PythonLayout> {
        let minor = version.strip_prefix("3.")?.split('.').next()?;
        let (form, place) = match minor {
            "9" => (TableForm::Increments, PlaceLayout::Number { number: 104, unit: 1 }),
            "10" => (TableForm::Pieces, PlaceLayout::Number { number: 96, unit: 2 }),
            _ => return None,
        };
        Some(PythonLayout {
            current_frame: 24,
            previous: 24,
            code: 32,
            place,
            file: 104,
            name: 112,
            line_table: (120, form),
            first_line: 40,
            text: TextLayout { kind_shift: 2, ascii: 48, wide: 72 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_those_of_known_versions_with_the_global_lock() {
        let mut words = [0_u64; WORDS];
        let is_known = |words: &[u64; WORDS]| PythonLayout::published(words.as_ptr() as u64).is_some();
        assert!(!is_known(&words));
        words[0] = u64::from_ne_bytes(*b"xdebugpy");
        for (version, free_threaded, want) in [
            (0x030c_00f0, 0, false),
            (0x030d_00f0, 0, true),
            (0x030d_00f0, 1, false),
            (0x0310_00f0, 0, false),
        ] {
            (words[1], words[2]) = (version, free_threaded);
            assert_eq!(is_known(&words), want, "{version:#x}");
        }
    }

    #[test]
    fn old_versions_are_known_by_their_name() {
        for (version, unit) in [
            ("3.9.18 (main, May  9 2026, 07:33:49) \n[GCC 12.2.0]", Some(1)),
            ("3.10.13 (main)", Some(2)),
            ("3.8.18 (main)", None),
            ("3.11.7 (main)", None),
            ("3.90.0", None),
            ("2.9.1", None),
            ("", None),
        ] {
            let found = PythonLayout::of_version(version).map(|layout| match layout.place {
                PlaceLayout::Number { unit, .. } => unit,
                PlaceLayout::Pointer { .. } => 0,
            });
            assert_eq!(found, unit, "{version}");
        }
    }
}
