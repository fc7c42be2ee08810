//! Lines of a Python thread, read from the memory of the interpreter.
//!
//! CPython 3.9, 3.10, 3.13 and 3.14 do not export the function that writes them. The last two say for
//! debuggers and profilers where their structures have which field: `_Py_DebugOffsets`, which `_PyRuntime`
//! begins with. The layouts of the first two are fixed (`layouts.rs`). Nothing of the interpreter is called
//! and nothing is locked: no other thread changes the frames of one that waits, with or without the global
//! lock. All is read by a system call, which fails where a load would fault, and every object's type is
//! compared: if the thread goes on meanwhile, or the layout is not the expected one, there are fewer lines or
//! none.

use ferry_backends::os::trap::read_for_monitor;
use ferry_watch::fact::Line;
use layouts::{PlaceLayout, PythonLayout};

mod layouts;
mod line_tables;

/// Frames that are looked at.
const MOST_FRAMES: usize = 100;
/// Bytes of the longest table of lines, and of the longest name.
const MOST_BYTES: usize = 1 << 20;
/// Owners of frames from here on are the interpreter's own, which have no line.
const FIRST_OWN: u8 = 3;

/// Types of objects, by their addresses.
#[derive(Clone, Copy)]
pub(super) struct ObjectTypes {
    pub(super) code: u64,
    pub(super) frame: u64,
    pub(super) text: u64,
    pub(super) bytes: u64,
}

/// Where the interpreter of this process has what.
pub(super) struct PythonFrames {
    types: ObjectTypes,
    layout: PythonLayout,
}

impl PythonFrames {
    /// Of an interpreter with this `_PyRuntime` and what it says as its version; none if its layout is not
    /// known.
    pub(super) fn of(runtime: u64, version: &str, types: ObjectTypes) -> Option<PythonFrames> {
        let layout = PythonLayout::published(runtime).or_else(|| PythonLayout::of_version(version))?;
        Some(PythonFrames { types, layout })
    }

    /// The lines of the thread with this state, innermost first. Their numbers are not given yet.
    pub(super) fn lines(&self, state: u64) -> Vec<Line> {
        let first = pointer(state + self.layout.current_frame);
        let frames = std::iter::successors(first, |frame| pointer(frame + self.layout.previous));
        frames.take(MOST_FRAMES).filter_map(|frame| self.line(frame)).collect()
    }

    fn line(&self, frame: u64) -> Option<Line> {
        let layout = &self.layout;
        // Python 3.14 has marks in the lowest bits.
        let code = pointer(frame + layout.code)? & !7;
        if type_of(code)? != self.types.code {
            return None;
        }
        let place = self.place(frame, code)?;
        let first_line = i32::from_ne_bytes(read(code + layout.first_line)?);
        let (table, form) = layout.line_table;
        let table = self.bytes(pointer(code + table)?)?;
        let line = u32::try_from(form.line_at(&table, first_line.into(), place)?).ok()?;
        let (file, function) =
            (self.text(pointer(code + layout.file)?)?, self.text(pointer(code + layout.name)?)?);
        Some(Line { number: 0, line, file, function })
    }

    /// How far a frame is in its code, in bytes. None of a frame of the interpreter's own, or of what is no
    /// frame.
    fn place(&self, frame: u64, code: u64) -> Option<i64> {
        match self.layout.place {
            PlaceLayout::Pointer { instruction, owner, instructions } => {
                let [owner] = read(frame + owner)?;
                let place = pointer(frame + instruction)?.checked_sub(code + instructions)?;
                if owner < FIRST_OWN { i64::try_from(place).ok() } else { None }
            }
            PlaceLayout::Number { number, unit } => {
                let number = i32::from_ne_bytes(read(frame + number)?);
                (type_of(frame)? == self.types.frame).then_some(i64::from(number) * unit)
            }
        }
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

    /// A `str` object: length and state at 16 and 32, characters of one, two or four bytes each.
    fn text(&self, object: u64) -> Option<String> {
        const COMPACT: u32 = 1 << 3;
        const ASCII: u32 = 1 << 4;
        let layout = &self.layout.text;
        let len = u64::from_ne_bytes(read(object + 16)?) as usize;
        let state = u32::from_ne_bytes(read(object + 32)?) >> layout.kind_shift;
        let width = (state & 7) as usize;
        if type_of(object)? != self.types.text || len > MOST_BYTES || state & COMPACT == 0 {
            return None;
        }
        let mut bytes = vec![0; len * width];
        read_all(object + if state & ASCII != 0 { layout.ascii } else { layout.wide }, &mut bytes)?;
        let character = |bytes: &[u8]| {
            let code = bytes.iter().rev().fold(0, |code, byte| code << 8 | u32::from(*byte));
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        matches!(width, 1 | 2 | 4).then(|| bytes.chunks_exact(width).map(character).collect())
    }
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
    (read_for_monitor(at, to) == to.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: ObjectTypes = ObjectTypes { code: 0x1000, frame: 0x2000, text: 0x3000, bytes: 0x4000 };

    /// An object with this type; its size is the third word.
    fn object(of: u64) -> [u64; 20] {
        let mut words = [0; 20];
        words[1] = of;
        words
    }

    fn object_with(of: u64, (size, bytes): (usize, &[u8]), from: usize) -> [u64; 20] {
        let mut words = object(of);
        words[2] = size as u64;
        for (at, byte) in bytes.iter().enumerate() {
            words[from / 8 + at / 8] |= u64::from(*byte) << (at % 8 * 8);
        }
        words
    }

    /// Lines of a thread in Python 3.9 that is in a function in line 12, called from a module in line 7.
    fn lines_of(types: ObjectTypes) -> Vec<(String, u32, String)> {
        const ASCII: u64 = 1 << 2 | 1 << 5 | 1 << 6;
        const WIDE: u64 = 2 << 2 | 1 << 5;
        let [mut file, module] =
            ["a.py", "<module>"].map(|text| object_with(types.text, (text.len(), text.as_bytes()), 48));
        let mut module = module;
        let mut name = object_with(types.text, (2, &[0xf6, 0, 0x42, 0x04]), 72);
        (file[4], module[4], name[4]) = (ASCII, ASCII, WIDE);
        let table = object_with(types.bytes, (4, &[0, 1, 10, 1]), 32);
        let code = |name: &[u64; 20], first_line: u64| {
            let mut code = object(types.code);
            code[5] = first_line;
            code[13..16].copy_from_slice(&[&file, name, &table].map(|object| object.as_ptr() as u64));
            code
        };
        let (outer_code, inner_code) = (code(&module, 6), code(&name, 10));
        let (mut outer, mut inner) = (object(types.frame), object(types.frame));
        (outer[4], outer[13]) = (outer_code.as_ptr() as u64, 8);
        (inner[3], inner[4], inner[13]) = (outer.as_ptr() as u64, inner_code.as_ptr() as u64, 10);
        let state = [0, 0, 0, inner.as_ptr() as u64];
        let frames = PythonFrames::of(0, "3.9.18 (main)", TYPES).expect("a known version");
        let lines = frames.lines(state.as_ptr() as u64).into_iter();
        lines.map(|line| (line.file, line.line, line.function)).collect()
    }

    #[test]
    fn frames_that_are_objects_are_followed_outwards() {
        let line = |line, function: &str| ("a.py".to_owned(), line, function.to_owned());
        assert_eq!(lines_of(TYPES), [line(12, "öт"), line(7, "<module>")]);
    }

    #[test]
    fn an_object_of_another_type_is_not_believed() {
        for types in [
            ObjectTypes { code: 8, ..TYPES },
            ObjectTypes { frame: 8, ..TYPES },
            ObjectTypes { text: 8, ..TYPES },
            ObjectTypes { bytes: 8, ..TYPES },
        ] {
            assert_eq!(lines_of(types), []);
        }
    }

    #[test]
    fn what_is_not_there_has_no_lines() {
        assert!(PythonFrames::of(0, "3.11.7", TYPES).is_none(), "neither published nor known");
        let frames = PythonFrames::of(0, "3.10.13", TYPES).expect("a known version");
        assert_eq!(frames.lines(8), Vec::new());
    }
}
