//! The return address of a call from C, as cheap as a load.
//!
//! Rust has no word for it. A function that is about to ask notes where it is and where its stack ends
//! ([`CodePosition::note`], inlined into it); the unwinding tables of the library say how far above that the
//! return address lies, which is the same for every call of the function. So the tables are read once for
//! each function, and every later call is two comparisons and a load.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, NativeEndian, RegisterRule, UnwindContext, UnwindSection,
};
use std::{
    ffi::c_void,
    mem,
    ops::Range,
    slice,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
};

/// A place in a function, and its registers there.
#[derive(Clone, Copy, Debug)]
pub struct CodePosition {
    pc: u64,
    stack: u64,
    frame: u64,
}

impl CodePosition {
    /// The place where this is inlined.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn note() -> CodePosition {
        let (pc, stack, frame): (u64, u64, u64);
        // SAFETY: it reads three registers.
        unsafe {
            std::arch::asm!(
                "lea {pc}, [rip]", "mov {stack}, rsp", "mov {frame}, rbp",
                pc = out(reg) pc, stack = out(reg) stack, frame = out(reg) frame,
                options(nomem, nostack, preserves_flags)
            );
        }
        CodePosition { pc, stack, frame }
    }

    /// The place where this is inlined.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub fn note() -> CodePosition {
        let (pc, stack, frame): (u64, u64, u64);
        // SAFETY: it reads three registers.
        unsafe {
            std::arch::asm!(
                "adr {pc}, .", "mov {stack}, sp", "mov {frame}, x29",
                pc = out(reg) pc, stack = out(reg) stack, frame = out(reg) frame,
                options(nomem, nostack, preserves_flags)
            );
        }
        CodePosition { pc, stack, frame }
    }

    /// Nowhere: callers are not known on this architecture.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[inline(always)]
    pub fn note() -> CodePosition {
        CodePosition { pc: 0, stack: 0, frame: 0 }
    }
}

impl CodePosition {
    /// The instruction, the stack pointer and the frame pointer.
    #[cfg(test)]
    pub(crate) fn parts(self) -> (u64, u64, u64) {
        (self.pc, self.stack, self.frame)
    }
}

/// DWARF's numbers of the stack pointer, the frame pointer and what holds the return address.
#[cfg(target_arch = "x86_64")]
const REGISTERS: [u16; 3] = [7, 6, 16];
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: [u16; 3] = [31, 29, 30];

/// How the return address is found in one function, which notes its place at one point.
#[derive(Default)]
pub struct Slot {
    /// The place that the rule is for; 0 before one is known.
    pc: AtomicU64,
    /// Bytes from the register to the return address, doubled; odd if it is the frame pointer, even for the
    /// stack pointer.
    rule: AtomicI64,
}

/// A rule for a place that has none.
const UNKNOWN: i64 = i64::MIN;

impl Slot {
    /// A slot that knows nothing yet. Each function has one of its own.
    pub const fn new() -> Slot {
        Slot { pc: AtomicU64::new(0), rule: AtomicI64::new(UNKNOWN) }
    }

    /// The return address of the function that `here` was noted in; 0 if it is not known.
    #[inline]
    pub fn return_address(&self, here: CodePosition) -> u64 {
        let rule = match self.pc.load(Ordering::Acquire) == here.pc {
            true => self.rule.load(Ordering::Relaxed),
            false => self.learn(here.pc),
        };
        if rule == UNKNOWN {
            return 0;
        }
        let register = if rule & 1 == 1 { here.frame } else { here.stack };
        // SAFETY: the tables of the compiler say that the return address of the running function is there.
        unsafe { (register.wrapping_add_signed(rule >> 1) as *const u64).read() }
    }

    #[cold]
    fn learn(&self, pc: u64) -> i64 {
        let rule = rule_at(pc).unwrap_or(UNKNOWN);
        // Written before the place: a thread that finds the place finds the rule. All threads write the same.
        self.rule.store(rule, Ordering::Release);
        self.pc.store(pc, Ordering::Release);
        rule
    }
}

/// The rule of a place, from the tables of the file that it is loaded from.
fn rule_at(pc: u64) -> Option<i64> {
    let table = UnwindTables::of(pc)?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(table.header).set_eh_frame(table.frames);
    // SAFETY: the loader has mapped the tables, which end inside the segment.
    let header =
        unsafe { slice::from_raw_parts(table.header as *const u8, (table.end - table.header) as usize) };
    // SAFETY: as above.
    let frames =
        unsafe { slice::from_raw_parts(table.frames as *const u8, (table.end - table.frames) as usize) };
    let eh_frame = EhFrame::new(frames, NativeEndian);
    let parsed = EhFrameHdr::new(header, NativeEndian).parse(&bases, 8).ok()?;
    let index = parsed.table()?;
    let mut context = UnwindContext::new();
    let row =
        index.unwind_info_for_address(&eh_frame, &bases, &mut context, pc, EhFrame::cie_from_offset).ok()?;
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    let Some(RegisterRule::Offset(saved)) = row.register(gimli::Register(REGISTERS[2])) else { return None };
    let is_frame = match register.0 {
        found if found == REGISTERS[0] => 0,
        found if found == REGISTERS[1] => 1,
        _ => return None,
    };
    Some((offset + saved) << 1 | is_frame)
}

/// Where the unwinding tables of a loaded file are.
#[derive(Default)]
pub(crate) struct UnwindTables {
    pc: u64,
    /// The index of the tables.
    pub(crate) header: u64,
    /// The tables.
    pub(crate) frames: u64,
    /// The end of the mapped segment that they lie in.
    pub(crate) end: u64,
    /// The segment that the address lies in.
    code: Range<u64>,
}

impl UnwindTables {
    /// Whether the address lies in the same segment as the one that was asked for.
    pub(crate) fn is_inside(&self, address: u64) -> bool {
        self.code.contains(&address)
    }

    /// The tables of the file that has this address.
    pub(crate) fn of(pc: u64) -> Option<UnwindTables> {
        let mut found = UnwindTables { pc, ..UnwindTables::default() };
        // SAFETY: the callback gets the pointer that is passed here, and only during the call.
        unsafe { libc::dl_iterate_phdr(Some(find), (&raw mut found).cast()) };
        (found.header != 0 && found.frames != 0).then_some(found)
    }
}

/// Called for each loaded file; ends the search at the one that has the address.
unsafe extern "C" fn find(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> i32 {
    // SAFETY: both are valid during the call: `of` passes a `UnwindTables`, and the loader the rest.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<UnwindTables>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader's own list of the file's segments.
    let segments = unsafe { slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let range = |segment: &libc::Elf64_Phdr| {
        let start = info.dlpi_addr.wrapping_add(segment.p_vaddr);
        start..start.wrapping_add(segment.p_memsz)
    };
    let is_loaded = |segment: &&libc::Elf64_Phdr| segment.p_type == libc::PT_LOAD;
    let code = segments.iter().filter(is_loaded).map(range).find(|range| range.contains(&found.pc));
    let Some(code) = code else { return 0 };
    found.code = code;
    let Some(header) = segments.iter().find(|segment| segment.p_type == libc::PT_GNU_EH_FRAME) else {
        return 1;
    };
    let header = range(header).start;
    let Some(around) = segments.iter().filter(is_loaded).map(range).find(|range| range.contains(&header))
    else {
        return 1;
    };
    (found.header, found.end) = (header, around.end);
    found.frames = frames_of(header).unwrap_or_default();
    1
}

/// The address of the frames, which the header has as an offset from its second word, as all linkers write
/// it.
fn frames_of(header: u64) -> Option<u64> {
    /// Signed, four bytes, relative to where it stands.
    const RELATIVE: u8 = 0x1b;
    // SAFETY: the header is mapped, and has eight bytes at least.
    let bytes: [u8; 8] = unsafe { (header as *const [u8; 8]).read() };
    let [_, encoding, _, _, rest @ ..] = bytes;
    (encoding == RELATIVE).then(|| (header + 4).wrapping_add_signed(i64::from(i32::from_ne_bytes(rest))))
}

const _: () = assert!(mem::size_of::<Slot>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    static SLOT: Slot = Slot::new();

    #[inline(never)]
    extern "C" fn asks(depth: u64) -> u64 {
        let room = [depth; 40];
        let address = SLOT.return_address(CodePosition::note());
        std::hint::black_box(room);
        address
    }

    /// Both calls lie in the test, or in a closure of it, which the compiler puts nearby.
    #[test]
    fn a_function_knows_where_it_returns_to() {
        let first = asks(1);
        let again: Vec<u64> = (0..3).map(|_| asks(2)).collect();
        let start = a_function_knows_where_it_returns_to as fn() as usize as u64;
        assert!(first.abs_diff(start) < 1 << 14, "{first:#x} is not near {start:#x}");
        assert!(
            again.iter().all(|address| *address == again[0] && *address != first),
            "{first:#x} {again:x?}"
        );
    }
}
