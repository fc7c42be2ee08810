//! Lines of a Python thread, read from the memory of the interpreter.
//!
//! CPython 3.13 and 3.14 do not export the function that writes them, but say for debuggers and profilers
//! where their structures have which field: `_Py_DebugOffsets`, which `_PyRuntime` begins with. Nothing of
//! the interpreter is called and nothing is locked. All is read by a system call, which fails where a load
//! would fault, and every object's type is compared: if the thread goes on meanwhile, or the layout is not
//! the expected one, there are fewer lines or none.

use ferry_backends::os::page::read_up_to;
use ferry_watch::fact::Line;

/// Frames that are looked at.
const MOST_FRAMES: usize = 100;
/// Bytes of the longest table of lines, and of the longest name.
const MOST_BYTES: usize = 1 << 20;
/// Owners of frames from here on are the interpreter's own, which have no line.
const FIRST_OWN: u8 = 3;

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

const LAYOUTS: [OffsetPlaces; 2] = [
    OffsetPlaces { version: 0x030d, current_frame: 23, frame: 28, code: 34, kind_shift: 2 },
    OffsetPlaces { version: 0x030e, current_frame: 26, frame: 31, code: 39, kind_shift: 16 },
];
const WORDS: usize = 50;

/// Types of objects, by their addresses.
#[derive(Clone, Copy)]
pub(super) struct ObjectTypes {
    pub(super) code: u64,
    pub(super) text: u64,
    pub(super) bytes: u64,
}

/// Where the interpreter of this process has what.
pub(super) struct PythonFrames {
    types: ObjectTypes,
    kind_shift: u32,
    current_frame: u64,
    previous: u64,
    executable: u64,
    instruction: u64,
    owner: u64,
    file: u64,
    name: u64,
    line_table: u64,
    first_line: u64,
    instructions: u64,
}

impl PythonFrames {
    /// Reads the offsets that begin at this address; none of another version, or of an interpreter without
    /// its lock, whose objects have another head.
    pub(super) fn at(runtime: u64, types: ObjectTypes) -> Option<PythonFrames> {
        let mut bytes = [0; WORDS * 8];
        read_all(runtime, &mut bytes)?;
        let word = |index: usize| u64::from_ne_bytes(bytes[index * 8..][..8].try_into().expect("8 bytes"));
        let is_free_threaded = word(2) != 0;
        let layout = LAYOUTS.iter().find(|layout| layout.version == word(1) >> 16)?;
        let is_known = bytes.starts_with(b"xdebugpy") && !is_free_threaded;
        is_known.then(|| PythonFrames {
            types,
            kind_shift: layout.kind_shift,
            current_frame: word(layout.current_frame),
            previous: word(layout.frame + 1),
            executable: word(layout.frame + 2),
            instruction: word(layout.frame + 3),
            owner: word(layout.frame + 5),
            file: word(layout.code + 1),
            name: word(layout.code + 2),
            line_table: word(layout.code + 4),
            first_line: word(layout.code + 5),
            instructions: word(layout.code + 9),
        })
    }

    /// The lines of the thread with this state, innermost first. Their numbers are not given yet.
    pub(super) fn lines(&self, state: u64) -> Vec<Line> {
        let first = pointer(state + self.current_frame);
        let frames = std::iter::successors(first, |frame| pointer(frame + self.previous));
        frames.take(MOST_FRAMES).filter_map(|frame| self.line(frame)).collect()
    }

    fn line(&self, frame: u64) -> Option<Line> {
        let [owner] = read(frame + self.owner)?;
        // Python 3.14 has marks in the lowest bits.
        let code = pointer(frame + self.executable)? & !7;
        if owner >= FIRST_OWN || type_of(code)? != self.types.code {
            return None;
        }
        let at = pointer(frame + self.instruction)?.checked_sub(code + self.instructions)?;
        let first_line = i32::from_ne_bytes(read(code + self.first_line)?);
        let table = self.bytes(pointer(code + self.line_table)?)?;
        let line = u32::try_from(line_at(&table, first_line, at / 2)?).ok()?;
        let (file, function) =
            (self.text(pointer(code + self.file)?)?, self.text(pointer(code + self.name)?)?);
        Some(Line { number: 0, line, file, function })
    }

    /// A `bytes` object: the length behind the head of 16 bytes, and the bytes from 32 on.
    fn bytes(&self, object: u64) -> Option<Vec<u8>> {
        let len = u64::from_ne_bytes(read(object + 16)?) as usize;
        if type_of(object)? != self.types.bytes || len > MOST_BYTES {
            return None;
        }
        let mut bytes = vec![0; len];
        read_all(object + 32, &mut bytes)?;
        Some(bytes)
    }

    /// A `str` object in the compact form, as all names in code are: length and state at 16 and 32, the
    /// characters from 40 on if they are ASCII, else from 56 on, of one, two or four bytes each.
    fn text(&self, object: u64) -> Option<String> {
        const COMPACT: u32 = 1 << 3;
        const ASCII: u32 = 1 << 4;
        let len = u64::from_ne_bytes(read(object + 16)?) as usize;
        let state = u32::from_ne_bytes(read(object + 32)?) >> self.kind_shift;
        let width = (state & 7) as usize;
        if type_of(object)? != self.types.text || len > MOST_BYTES || state & COMPACT == 0 {
            return None;
        }
        let mut bytes = vec![0; len * width];
        read_all(object + if state & ASCII != 0 { 40 } else { 56 }, &mut bytes)?;
        let character = |bytes: &[u8]| {
            let code = bytes.iter().rev().fold(0, |code, byte| code << 8 | u32::from(*byte));
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        matches!(width, 1 | 2 | 4).then(|| bytes.chunks_exact(width).map(character).collect())
    }
}

/// The line of an instruction, by its number, in a table of a code object. An entry begins with the only byte
/// of it that has the highest bit: its form in bits 3 to 6, and for how many instructions it is, less one,
/// below.
fn line_at(table: &[u8], first_line: i32, instruction: u64) -> Option<i32> {
    let (mut line, mut begin, mut at) = (first_line, 0, 0);
    while let Some(head) = table.get(at) {
        let (form, count) = (head >> 3 & 15, u64::from(head & 7) + 1);
        let rest = &table[at + 1..];
        let len = rest.iter().take_while(|byte| **byte & 0x80 == 0).count();
        line += match form {
            13 | 14 => signed(&rest[..len])?,
            10..=12 => i32::from(form) - 10,
            _ => 0,
        };
        if (begin..begin + count).contains(&instruction) {
            return (form != 15).then_some(line);
        }
        (begin, at) = (begin + count, at + 1 + len);
    }
    None
}

/// The number at the beginning: six bits in a byte, the lowest first, the next bit set if there are more. Its
/// lowest bit is the sign.
fn signed(bytes: &[u8]) -> Option<i32> {
    let last = bytes.iter().take(6).position(|byte| byte & 0x40 == 0)?;
    let value = bytes[..=last].iter().rev().fold(0_u64, |value, byte| value << 6 | u64::from(byte & 0x3f));
    let size = i32::try_from(value >> 1).ok()?;
    Some(if value & 1 == 1 { -size } else { size })
}

/// The type of an object, behind its count of references.
fn type_of(object: u64) -> Option<u64> {
    pointer(object + 8)
}

fn pointer(at: u64) -> Option<u64> {
    Some(u64::from_ne_bytes(read(at)?)).filter(|value| (1..=i64::MAX as u64).contains(value))
}

fn read<const N: usize>(at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    read_all(at, &mut bytes).map(|()| bytes)
}

fn read_all(at: u64, to: &mut [u8]) -> Option<()> {
    (read_up_to(at, to) == to.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_lines_says_the_line_of_each_instruction() {
        // What Python 3.13 makes of `def f():`, in line 10, with `g(1)`, a loop and a line of 100 behind it.
        let table = [
            0x80,
            0, // Instruction 0, short form.
            0xd8 | 1,
            4,
            5, // 1 and 2, the next line.
            0xf0,
            0x42,
            0x02,
            0,
            1,
            1, // 3, long form: 65 lines on.
            0xe8 | 2,
            0x05, // 4 to 6, without columns: two lines back.
            0xf8, // 7 has none.
        ];
        let lines: Vec<_> = (0..9).map(|instruction| line_at(&table, 10, instruction)).collect();
        let behind = Some(11 + 65);
        let back = Some(11 + 65 - 2);
        let want = [Some(10), Some(11), Some(11), behind, back, back, back, None, None];
        assert_eq!(lines, want);
    }

    #[test]
    fn what_is_no_interpreter_has_no_offsets_and_no_lines() {
        let types = ObjectTypes { code: 1, text: 2, bytes: 3 };
        let mut words = [0_u64; WORDS];
        let at = |words: &[u64; WORDS]| PythonFrames::at(words.as_ptr() as u64, types);
        assert!(at(&words).is_none());
        words[0] = u64::from_ne_bytes(*b"xdebugpy");
        for (version, free_threaded, is_known) in [
            (0x030c_00f0, 0, false),
            (0x030d_00f0, 0, true),
            (0x030d_00f0, 1, false),
            (0x0310_00f0, 0, false),
        ] {
            (words[1], words[2]) = (version, free_threaded);
            assert_eq!(at(&words).is_some(), is_known, "{version:#x}");
        }
        words[1..3].copy_from_slice(&[0x030d_00f0, 0]);
        let frames = at(&words).expect("a known version");
        assert_eq!(frames.lines(8), Vec::new());
    }
}
