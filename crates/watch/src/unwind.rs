//! The stack of another thread, from its instruction, its stack pointer and a copy of its stack.
//!
//! The unwinding tables say how a frame finds its caller. They may need registers that are not known: a
//! function that counts its frame from the frame pointer, called by one that left that register alone. Then
//! the frame is looked for: the nearest pair of words above that could be a saved frame pointer and a return
//! address, where the instruction before that address is a call of this function, or one whose target cannot
//! be told. Only x86_64 is walked; elsewhere a stack is its first frame.

use crate::caller::UnwindTables;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, FrameDescriptionEntry, NativeEndian, RegisterRule,
    UnwindContext, UnwindSection, UnwindTableRow,
};
use std::slice;

/// Frames that are kept of a stack.
const MAX_FRAMES: usize = 64;
/// DWARF's numbers of registers: frame pointer, stack pointer, return address; there are no more than 17.
const FRAME: usize = 6;
const STACK: usize = 7;
const RETURN: usize = 16;
const REGISTERS: usize = 17;

/// Where a thread is.
#[derive(Clone, Copy, Debug)]
pub struct StoppedAt {
    /// The next instruction.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// Whether the instruction before that one is what the thread is in: a system call.
    pub is_behind: bool,
}

/// A copy of memory from an address on.
struct Memory<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl Memory<'_> {
    fn word(&self, at: u64) -> Option<u64> {
        let offset = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(offset..offset.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// The frames of a thread, the innermost first, each as a return address: the first is the instruction itself
/// and 1, unless the thread is behind it. `stack` is a copy of its memory from the stack pointer on.
pub fn walk(from: StoppedAt, stack: &[u8]) -> Vec<u64> {
    let first = if from.is_behind { from.pc } else { from.pc + 1 };
    let memory = Memory { start: from.sp, bytes: stack };
    let mut registers = [None; REGISTERS];
    registers[STACK] = Some(from.sp);
    let mut frames = vec![first];
    while cfg!(target_arch = "x86_64") && frames.len() < MAX_FRAMES {
        let inside = frames[frames.len() - 1] - 1;
        let is_code = |caller: &u64| *caller > 1 && UnwindTables::of(*caller - 1).is_some();
        let Some(caller) = caller_of(inside, &mut registers, &memory).filter(is_code) else { break };
        frames.push(caller);
    }
    frames
}

/// The return address of the frame that `pc` is in; the registers become those of the caller.
fn caller_of(pc: u64, registers: &mut [Option<u64>; REGISTERS], memory: &Memory<'_>) -> Option<u64> {
    let table = UnwindTables::of(pc)?;
    with_row(&table, pc, |function, row| {
        let frame = frame_address(row, registers).or_else(|| {
            let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
            let guess = find_frame(function, registers[STACK]?, memory);
            let guess = guess.filter(|_| usize::from(register.0) == FRAME)?;
            registers[FRAME] = Some(guess);
            Some(guess.wrapping_add_signed(*offset))
        })?;
        let before = *registers;
        for (number, register) in registers.iter_mut().enumerate() {
            *register = match row.register(gimli::Register(number as u16)) {
                Some(RegisterRule::Offset(offset)) => memory.word(frame.wrapping_add_signed(offset)),
                Some(RegisterRule::SameValue) => before[number],
                None if matches!(number, 3 | 6 | 12..=15) => before[number],
                _ => None,
            };
        }
        registers[STACK] = Some(frame);
        registers[RETURN]
    })?
}

/// What the tables count the saved registers from.
fn frame_address(row: &UnwindTableRow<usize>, registers: &[Option<u64>; REGISTERS]) -> Option<u64> {
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    let base = registers.get(usize::from(register.0)).copied().flatten()?;
    Some(base.wrapping_add_signed(*offset))
}

/// Calls `with` with the first address of the function that `pc` is in, and what the tables say of `pc`.
fn with_row<T>(
    table: &UnwindTables,
    pc: u64,
    with: impl FnOnce(u64, &UnwindTableRow<usize>) -> T,
) -> Option<T> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(table.header).set_eh_frame(table.frames);
    let part = |start: u64| {
        // SAFETY: the loader has mapped the tables, which end inside the segment.
        unsafe { slice::from_raw_parts(start as *const u8, (table.end - start) as usize) }
    };
    let frames = EhFrame::new(part(table.frames), NativeEndian);
    let parsed = EhFrameHdr::new(part(table.header), NativeEndian).parse(&bases, 8).ok()?;
    let find = parsed.table()?.fde_for_address(&frames, &bases, pc, EhFrame::cie_from_offset);
    let entry: FrameDescriptionEntry<_> = find.ok()?;
    let mut context = UnwindContext::new();
    let row = entry.unwind_info_for_address(&frames, &bases, &mut context, pc).ok()?;
    Some(with(entry.initial_address(), row))
}

/// The first address of the function that `pc` is in.
fn function_at(pc: u64) -> Option<u64> {
    with_row(&UnwindTables::of(pc)?, pc, |function, _| function)
}

/// Where the frame pointer of `function` points to, which is at `sp` or above.
fn find_frame(function: u64, sp: u64, memory: &Memory<'_>) -> Option<u64> {
    (sp.next_multiple_of(8)..memory.end()).step_by(8).find(|at| {
        let words = memory.word(*at).zip(memory.word(at + 8));
        words.is_some_and(|(saved, back)| (saved == 0 || saved > *at) && is_call_of(function, back))
    })
}

/// Whether a call that returns to `back` may be one of `function`.
fn is_call_of(function: u64, back: u64) -> bool {
    const DIRECT: u8 = 0xe8;
    const INDIRECT: u8 = 0xff;
    let Some(table) = (back > 8).then(|| UnwindTables::of(back - 1)).flatten() else { return false };
    if !table.is_inside(back - 8) {
        return false;
    }
    // SAFETY: eight bytes of a loaded file's code, which can be read.
    let code: [u8; 8] = unsafe { ((back - 8) as *const [u8; 8]).read() };
    if code[3] == DIRECT {
        let distance = i32::from_le_bytes([code[4], code[5], code[6], code[7]]);
        let target = back.wrapping_add_signed(i64::from(distance));
        // A target that begins no function is a stub that leads to one.
        return target == function
            || function_at(target) != Some(target)
                && behind_stub(target).is_none_or(|behind| behind == function);
    }
    // A call through a register or memory takes two to seven bytes, with its number in the second one.
    (2..=7).any(|len| {
        let (first, operand, scaled) = (code[8 - len], code[9 - len], code[10 - len.max(3)]);
        first == INDIRECT && operand >> 3 & 7 == 2 && len == indirect_len(operand, scaled)
    })
}

/// The length of a call through a register or memory, from its second byte and its third.
fn indirect_len(operand: u8, scaled: u8) -> usize {
    let (mode, base) = (operand >> 6, operand & 7);
    let has_scale = mode != 3 && base == 4;
    let distance = match mode {
        0 if base == 5 || has_scale && scaled & 7 == 5 => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    2 + usize::from(has_scale) + distance
}

/// The function that a stub of the procedure linkage table jumps to. Who has returned there has been called,
/// so the loader has filled its slot. `None` if it is another kind of stub.
fn behind_stub(stub: u64) -> Option<u64> {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const BND: u8 = 0xf2;
    const JUMP: [u8; 2] = [0xff, 0x25];
    let table = UnwindTables::of(stub).filter(|table| table.is_inside(stub + 16))?;
    // SAFETY: sixteen bytes of a loaded file's code, which can be read.
    let code: [u8; 16] = unsafe { (stub as *const [u8; 16]).read() };
    let marked = if code.starts_with(&ENDBR64) { 4 } else { 0 };
    let jump = marked + usize::from(code[marked] == BND);
    let distance = code[jump..].strip_prefix(&JUMP)?.first_chunk().copied().map(i32::from_le_bytes)?;
    let behind = stub + (jump + JUMP.len() + 4) as u64;
    let slot = behind.wrapping_add_signed(i64::from(distance));
    let is_word = table.is_inside(slot) || UnwindTables::of(slot).is_some();
    // SAFETY: a word of the loaded file, which its own code reads.
    is_word.then(|| unsafe { (slot as *const u64).read_unaligned() })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::caller::CodePosition;

    /// A copy of this thread's stack from here on.
    #[inline(never)]
    fn innermost(to: &mut Vec<u64>) {
        let here = CodePosition::note();
        let (pc, sp, _) = here.parts();
        // SAFETY: the stack of this thread, far from its end: a test has many frames above it.
        let stack = unsafe { slice::from_raw_parts(sp as *const u8, 4096) }.to_vec();
        *to = walk(StoppedAt { pc, sp, is_behind: true }, &stack);
        std::hint::black_box(&stack);
    }

    #[inline(never)]
    fn outer(to: &mut Vec<u64>) -> usize {
        innermost(to);
        to.len()
    }

    /// Whether the compiler uses frame pointers or not.
    #[test]
    fn a_stack_is_walked_from_two_registers() {
        let mut frames = Vec::new();
        assert!(outer(&mut frames) > 2, "{frames:x?}");
        let functions =
            [innermost as fn(&mut Vec<u64>) as usize, outer as fn(&mut Vec<u64>) -> usize as usize];
        for (frame, function) in frames.iter().zip(functions) {
            assert_eq!(function_at(*frame - 1), Some(function as u64), "{frames:x?}");
        }
    }

    #[test]
    fn calls_through_registers_and_memory_have_their_length() {
        for (name, code, want) in [
            ("call *%rax", [0xff, 0xd0, 0], 2),
            ("call *(%rax)", [0xff, 0x10, 0], 2),
            ("call *(%rsp)", [0xff, 0x14, 0x24], 3),
            ("call *8(%rax)", [0xff, 0x50, 8], 3),
            ("call *8(%rsp)", [0xff, 0x54, 0x24], 4),
            ("call *x(%rip)", [0xff, 0x15, 0], 6),
            ("call *x(%rax)", [0xff, 0x90, 0], 6),
            ("call *x(,%rax,8)", [0xff, 0x14, 0xc5], 7),
            ("call *x(%rax,%rax,8)", [0xff, 0x94, 0xc0], 7),
        ] {
            assert_eq!(indirect_len(code[1], code[2]), want, "{name}");
        }
    }

    #[test]
    fn a_stack_of_garbage_has_one_frame() {
        let pc = a_stack_of_garbage_has_one_frame as fn() as usize as u64;
        for bytes in [vec![], vec![0xab; 4096]] {
            let frames = walk(StoppedAt { pc: pc + 1, sp: 0x1000, is_behind: true }, &bytes);
            assert_eq!(frames, [pc + 1]);
        }
        assert_eq!(walk(StoppedAt { pc: 0x10, sp: 0x1000, is_behind: false }, &[]), [0x11]);
    }
}
