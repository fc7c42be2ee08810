//! How many bytes an instruction accesses: the kernel names the first byte in a page, and no more.
//!
//! The instruction is decoded from the program's memory. Where an access may have begun in the page before,
//! only the thread's registers say where; these come with its answer. What cannot be told counts as one byte,
//! so that no access is taken to be larger than it is. What string functions of the C library look at of the
//! vectors that they load is said by `overread`.

use super::views;
use std::{
    ffi::{CStr, c_void},
    mem,
    sync::OnceLock,
};

/// The longest instruction.
const LONGEST: usize = 15;

/// The general registers of a thread, in the order of their numbers in instructions.
pub type Registers = [u64; 16];

/// Where the kernel has them in the context of a signal.
#[cfg(target_arch = "x86_64")]
pub const IN_CONTEXT: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// How the address of an operand is made of general registers, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandAddress {
    /// The base.
    pub base: usize,
    /// The instruction overwrites the base with what it has read.
    pub is_overwritten: bool,
    /// The index.
    pub index: Option<usize>,
    /// What the index is multiplied by.
    pub scale: usize,
    /// What is added.
    pub displacement: usize,
}

impl OperandAddress {
    /// The address, where the registers have these values.
    pub fn of(&self, registers: &Registers) -> usize {
        let index = self.index.map_or(0, |index| (registers[index] as usize).wrapping_mul(self.scale));
        (registers[self.base] as usize).wrapping_add(index).wrapping_add(self.displacement)
    }
}

/// The instruction at `pc`, if it was read and its operands in memory have a known size, all of which is
/// used, but for what [`reads_beyond`].
pub fn decoded(pc: u64) -> Option<MemoryOperands> {
    let mut code = [0; LONGEST];
    let got = views::read(pc, &mut code);
    MemoryOperands::decode(&code[..got], pc)
}

pub use decoder::MemoryOperands;

unsafe extern "C" {
    fn _Unwind_FindEnclosingFunction(pc: *mut c_void) -> *mut c_void;
}

/// Whether an instruction may read more than its function was asked to: those of the C library, but for the
/// function that copies.
pub fn reads_beyond(pc: u64) -> bool {
    static COPY: OnceLock<[usize; 2]> = OnceLock::new();
    let [library, copy] = *COPY.get_or_init(|| {
        let copy = symbol(c"memmove");
        [library_of(copy), function_of(copy)]
    });
    library != 0 && library_of(pc as *mut c_void) == library && function_at(pc) != copy
}

/// The first address of the function that has this instruction; 0 for none.
pub fn function_at(pc: u64) -> usize {
    function_of(pc as *mut c_void)
}

/// The first address of the function that the program calls by this name; 0 for none.
pub fn function_named(name: &CStr) -> usize {
    function_of(symbol(name))
}

/// A function of the C library's own: of several implementations, the chosen one. A sanitizer has functions
/// of these names, too, in the program itself.
fn symbol(name: &CStr) -> *mut c_void {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    // SAFETY: the library is in the process, and stays; nothing is loaded.
    let open = || unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    let library = *LIBRARY.get_or_init(|| open().addr());
    // SAFETY: looks a name up, in the library or where there is no such file in all.
    unsafe { libc::dlsym(library as *mut c_void, name.as_ptr()) }
}

/// Where the file is loaded that has this address; 0 for none.
fn library_of(address: *mut c_void) -> usize {
    // SAFETY: plain data, for which zeroes are a value.
    let mut info: libc::Dl_info = unsafe { mem::zeroed() };
    // SAFETY: asks about an address, and writes to a local.
    let is_known = unsafe { libc::dladdr(address, &mut info) } != 0;
    if is_known { info.dli_fbase.addr() } else { 0 }
}

/// The first address of the function that has this one, by the unwinding tables.
fn function_of(address: *mut c_void) -> usize {
    // It takes return addresses, behind a call.
    // SAFETY: looks an address up in the tables of loaded files.
    unsafe { _Unwind_FindEnclosingFunction(address.wrapping_byte_add(1)) }.addr()
}

#[cfg(target_arch = "x86_64")]
mod decoder {
    use super::{OperandAddress, Registers};
    use iced_x86::{
        Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
        OpKind, Register,
    };

    /// The operands of an instruction that lie in memory.
    pub struct MemoryOperands {
        instruction: Instruction,
        size: usize,
    }

    impl MemoryOperands {
        /// `None` for bytes that are no instruction, and where a mask in a register says which bytes are
        /// accessed.
        pub fn decode(code: &[u8], pc: u64) -> Option<MemoryOperands> {
            let instruction = Decoder::with_ip(64, code, pc, DecoderOptions::NONE).decode();
            let size = instruction.memory_size().size();
            let has_any = instruction.op_kinds().any(is_memory);
            (has_any && size > 0 && !is_masked(&instruction)).then_some(MemoryOperands { instruction, size })
        }

        /// The bytes of one operand. An instruction that repeats is seen before each repetition.
        pub fn size(&self) -> usize {
            self.size
        }

        /// How the address of the one operand in memory is made, if the instruction uses its base for nothing
        /// else, but to overwrite it: then the operand can be had elsewhere, by another value of the base.
        pub fn address(&self) -> Option<OperandAddress> {
            let instruction = &self.instruction;
            let (base, index) = (instruction.memory_base(), instruction.memory_index());
            let is_one = instruction.op_kinds().filter(|kind| is_memory(*kind)).eq([OpKind::Memory]);
            let is_plain = instruction.flow_control() == FlowControl::Next && !is_unusual(instruction);
            let is_known =
                base.is_gpr64() && base != Register::RSP && (index == Register::None || index.is_gpr64());
            if !(is_one && is_plain && is_known && index != base) {
                return None;
            }
            let named: Vec<Register> =
                (0..instruction.op_count()).map(|it| instruction.op_register(it)).collect();
            let mut factory = InstructionInfoFactory::new();
            let used = factory.info(instruction).used_registers();
            // A write of 32 bits clears the rest. Loads write their first operand, and do not read it.
            let first = named.first().copied().unwrap_or_default();
            let is_loaded = first.full_register() == base && (first.is_gpr64() || first.is_gpr32());
            let others = if is_loaded { &named[1..] } else { &named[..] };
            let accesses = used.iter().filter(|used| used.register().full_register() == base);
            let is_written = accesses.clone().any(|used| used.access() == OpAccess::Write);
            let is_alone = others.iter().all(|other| other.full_register() != base)
                && is_loaded == is_written
                && accesses.clone().all(|used| match used.access() {
                    OpAccess::Read => true,
                    OpAccess::Write => is_loaded,
                    _ => false,
                });
            // What is used without being named may be the base, too.
            let is_named = |register: Register| {
                let mut all = named.iter().chain([&base, &index]);
                all.any(|one| one.full_register() == register.full_register())
            };
            let mut general = used.iter().filter(|used| used.register().is_gpr());
            (is_alone && general.all(|used| is_named(used.register()))).then(|| OperandAddress {
                base: base.number(),
                is_overwritten: is_loaded,
                index: (index != Register::None).then(|| index.number()),
                scale: instruction.memory_index_scale() as usize,
                displacement: instruction.memory_displacement64() as usize,
            })
        }

        /// How many bytes are accessed from `address` on, which is in an operand, if the registers say so.
        pub fn len_from(&self, address: usize, registers: &Registers) -> Option<usize> {
            let value = |register: Register, _, _| match register {
                Register::RIP | Register::EIP => Some(self.instruction.next_ip()),
                // The bases of these segments are 0; those of FS and GS are not known.
                Register::ES | Register::CS | Register::SS | Register::DS => Some(0),
                _ if register.is_gpr64() => Some(registers[register.number()]),
                _ if register.is_gpr32() => Some(registers[register.number()] & u64::from(u32::MAX)),
                _ => None,
            };
            let operands = (0..self.instruction.op_count()).zip(self.instruction.op_kinds());
            let in_memory = operands.filter(|(_, kind)| is_memory(*kind)).map(|(number, _)| number);
            in_memory.filter_map(|operand| self.instruction.virtual_address(operand, 0, value)).find_map(
                |start| {
                    let before = address.checked_sub(start as usize)?;
                    self.size.checked_sub(before).filter(|len| *len > 0)
                },
            )
        }
    }

    /// Whether an instruction accesses more than its operand, or counts its address otherwise.
    fn is_unusual(instruction: &Instruction) -> bool {
        instruction.is_stack_instruction()
            || instruction.is_vsib()
            || instruction.has_rep_prefix()
            || instruction.has_repne_prefix()
            || instruction.segment_prefix() != Register::None
    }

    fn is_memory(kind: OpKind) -> bool {
        !matches!(
            kind,
            OpKind::Register
                | OpKind::NearBranch16
                | OpKind::NearBranch32
                | OpKind::NearBranch64
                | OpKind::FarBranch16
                | OpKind::FarBranch32
                | OpKind::Immediate8
                | OpKind::Immediate8_2nd
                | OpKind::Immediate16
                | OpKind::Immediate32
                | OpKind::Immediate64
                | OpKind::Immediate8to16
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32to64
        )
    }

    /// Whether only some bytes of the operand are accessed.
    fn is_masked(instruction: &Instruction) -> bool {
        instruction.has_op_mask()
            || matches!(
                instruction.mnemonic(),
                Mnemonic::Vmaskmovps
                    | Mnemonic::Vmaskmovpd
                    | Mnemonic::Vpmaskmovd
                    | Mnemonic::Vpmaskmovq
                    | Mnemonic::Maskmovdqu
                    | Mnemonic::Vmaskmovdqu
                    | Mnemonic::Maskmovq
            )
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod decoder {
    use super::{OperandAddress, Registers};

    /// No instruction is known.
    pub struct MemoryOperands;

    impl MemoryOperands {
        /// Nothing is known.
        pub fn decode(_: &[u8], _: u64) -> Option<MemoryOperands> {
            None
        }

        /// One byte.
        pub fn size(&self) -> usize {
            1
        }

        /// Nothing is known.
        pub fn address(&self) -> Option<OperandAddress> {
            None
        }

        /// Nothing is known.
        pub fn len_from(&self, _: usize, _: &Registers) -> Option<usize> {
            None
        }
    }
}

#[cfg(all(test, target_arch = "x86_64", not(loom)))]
mod tests {
    use super::*;

    const RAX: usize = 0;
    const RSI: usize = 6;
    const RDI: usize = 7;

    #[test]
    fn sizes_are_those_of_operands_in_memory() {
        for (name, code, want) in [
            ("mov [rdi], al", &[0x88, 0x07][..], Some(1)),
            ("mov [rdi], rax", &[0x48, 0x89, 0x07], Some(8)),
            ("vmovdqu [rdi], ymm0", &[0xc5, 0xfe, 0x7f, 0x07], Some(32)),
            ("vmovdqu64 [rdi], zmm0", &[0x62, 0xf1, 0xfe, 0x48, 0x7f, 0x07], Some(64)),
            ("rep stosb", &[0xf3, 0xaa], Some(1)),
            ("rep movsq", &[0xf3, 0x48, 0xa5], Some(8)),
            ("lock cmpxchg16b [rdi]", &[0xf0, 0x48, 0x0f, 0xc7, 0x0f], Some(16)),
            ("vmovdqu8 [rdi]{k1}, zmm0", &[0x62, 0xf1, 0x7f, 0x49, 0x7f, 0x07], None),
            ("vpmaskmovd [rdi], ymm0, ymm1", &[0xc4, 0xe2, 0x7d, 0x8e, 0x0f], None),
            ("mov rax, rdi", &[0x48, 0x89, 0xf8], None),
            ("half of an instruction", &[0x48], None),
            ("nothing", &[], None),
        ] {
            let size = MemoryOperands::decode(code, 0x1000).map(|operands| operands.size());
            assert_eq!(size, want, "{name}");
        }
    }

    #[test]
    fn registers_say_where_an_access_began() {
        let mut registers = [0; 16];
        (registers[RAX], registers[RSI], registers[RDI]) = (3, 0x5ff8, 0x1ff0);
        let store = [0xc5, 0xfe, 0x7f, 0x07]; // vmovdqu [rdi], ymm0
        let scaled = [0x48, 0x89, 0x4c, 0xc7, 0xf8]; // mov [rdi + rax * 8 - 8], rcx
        let relative = [0x48, 0x89, 0x05, 0xf9, 0x0f, 0, 0]; // mov [rip + 0xff9], rax
        let moves = [0xa5]; // movsd
        for (name, code, address, want) in [
            ("its first byte", &store[..], 0x1ff0, Some(32)),
            ("the page behind", &store, 0x2000, Some(16)),
            ("behind its end", &store, 0x2010, None),
            ("before it", &store, 0x1fef, None),
            ("index and offset", &scaled, 0x2004, Some(4)),
            ("beside the instruction", &relative, 0x9000 + 7 + 0xff9, Some(8)),
            ("the destination of a move", &moves, 0x1ff1, Some(3)),
            ("the source of a move", &moves, 0x5ff8, Some(4)),
        ] {
            let operands = MemoryOperands::decode(code, 0x9000).expect(name);
            assert_eq!(operands.len_from(address, &registers), want, "{name}");
        }
        let through_fs =
            MemoryOperands::decode(&[0x64, 0x48, 0x89, 0x07], 0x9000).expect("mov fs:[rdi], rax");
        assert_eq!(through_fs.len_from(0x1ff0, &registers), None, "the base is not known");
    }

    #[test]
    fn an_operand_can_be_had_elsewhere_if_its_base_is_used_for_nothing_else() {
        let mut registers = [0; 16];
        (registers[RAX], registers[RDI]) = (3, 0x1000);
        for (name, code, want) in [
            ("mov [rdi], al", &[0x88, 0x07][..], Some((RDI, false, 0x1000))),
            ("mov rax, [rdi + 8]", &[0x48, 0x8b, 0x47, 0x08], Some((RDI, false, 0x1008))),
            ("mov rcx, [rdi - 8]", &[0x48, 0x8b, 0x4f, 0xf8], Some((RDI, false, 0xff8))),
            ("movzx eax, byte [rdi + rax * 2]", &[0x0f, 0xb6, 0x04, 0x47], Some((RDI, false, 0x1006))),
            ("vmovdqu [rdi], ymm0", &[0xc5, 0xfe, 0x7f, 0x07], Some((RDI, false, 0x1000))),
            ("lock add [rdi], eax", &[0xf0, 0x01, 0x07], Some((RDI, false, 0x1000))),
            ("cmp byte [rdi], 0", &[0x80, 0x3f, 0x00], Some((RDI, false, 0x1000))),
            ("mov rdi, [rdi]", &[0x48, 0x8b, 0x3f], Some((RDI, true, 0x1000))),
            ("movzx edi, byte [rdi]", &[0x0f, 0xb6, 0x3f], Some((RDI, true, 0x1000))),
            ("add rdi, [rdi]", &[0x48, 0x03, 0x3f], None),
            ("cmp rdi, [rdi]", &[0x48, 0x3b, 0x3f], None),
            ("mov dil, [rdi]", &[0x40, 0x8a, 0x3f], None),
            ("mov [rdi], rdi", &[0x48, 0x89, 0x3f], None),
            ("mov rax, [rdi + rdi]", &[0x48, 0x8b, 0x04, 0x3f], None),
            ("mov rax, [rdi * 8]", &[0x48, 0x8b, 0x04, 0xfd, 0, 0, 0, 0], None),
            ("mov rax, [rsp]", &[0x48, 0x8b, 0x04, 0x24], None),
            ("push [rdi]", &[0xff, 0x37], None),
            ("lock cmpxchg [rdi], rcx", &[0xf0, 0x48, 0x0f, 0xb1, 0x0f], None),
            ("mul qword [rax]", &[0x48, 0xf7, 0x20], None),
            ("lock cmpxchg16b [rbx]", &[0xf0, 0x48, 0x0f, 0xc7, 0x0b], None),
            ("xchg [rdi], rdi", &[0x48, 0x87, 0x3f], None),
            ("movsb", &[0xa4], None),
            ("rep stosb", &[0xf3, 0xaa], None),
            ("mov rax, [rip]", &[0x48, 0x8b, 0x05, 0, 0, 0, 0], None),
            ("mov rax, fs:[rdi]", &[0x64, 0x48, 0x8b, 0x07], None),
            ("jmp [rdi]", &[0xff, 0x27], None),
            ("mov eax, [edi]", &[0x67, 0x8b, 0x07], None),
        ] {
            let address = MemoryOperands::decode(code, 0x9000).and_then(|operands| operands.address());
            let found = address.map(|it| (it.base, it.is_overwritten, it.of(&registers)));
            assert_eq!(found, want, "{name}");
        }
    }

    #[test]
    fn string_functions_read_beyond_and_copies_do_not() {
        let [copy, length] =
            [libc::memmove as *const (), libc::strlen as *const ()].map(|it| it.addr() as u64);
        let own = reads_beyond as fn(u64) -> bool as usize as u64;
        assert_eq!([copy, length, own, 8].map(reads_beyond), [false, true, false, false]);
        assert_eq!([copy + 40, length + 40].map(reads_beyond), [false, true], "inside");
    }

    #[test]
    fn instructions_are_read_from_the_process_where_there_are_any() {
        let code = [0x48_u8, 0x89, 0x07, 0xcc]; // mov [rdi], rax
        let size = |pc: u64| decoded(pc).map(|operands| operands.size());
        assert_eq!([size(code.as_ptr().addr() as u64), size(8)], [Some(8), None]);
    }
}
