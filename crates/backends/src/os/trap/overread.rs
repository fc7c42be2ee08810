//! What a string function of the C library looks at of the vectors that it loads.
//!
//! Such a function loads whole vectors: it may begin at an aligned address before its string, and go on to
//! the next vectors before it has looked for the end of the string in the first. Only bytes from the first
//! one of the string up to its terminator count as read. A page with bytes in flight is told of each load, so
//! where a call began, and whether it is still the same one, is known by the loads before.

use super::{
    TrappedAccess,
    operand::{self, Registers},
    views,
};
use crate::os::page::page_size;
use std::{collections::HashMap, ffi::CStr, sync::OnceLock};

/// Bytes of a vector, from which on a load may have more in it than was asked for.
const VECTOR: usize = 16;
/// Bytes of the largest.
const VECTOR_MAX: usize = 64;
/// Loads of these functions before they look at the first: they go by four vectors.
const LOADS_AHEAD: usize = 4;
/// Threads whose calls are kept.
const KEPT: usize = 1 << 10;
/// Bytes that are looked through at a time.
const BLOCK: usize = 256;

/// Functions that end at a terminator, by the size of their characters. The others are given a length.
const TERMINATED: [(&[&CStr], usize); 2] = [
    (
        &[
            c"strlen",
            c"strnlen",
            c"strcpy",
            c"stpcpy",
            c"strncpy",
            c"stpncpy",
            c"strcat",
            c"strncat",
            c"strcmp",
            c"strncmp",
            c"strcasecmp",
            c"strncasecmp",
            c"strcasecmp_l",
            c"strncasecmp_l",
            c"strchr",
            c"strchrnul",
            c"strrchr",
            c"strstr",
            c"strspn",
            c"strcspn",
            c"strpbrk",
        ],
        1,
    ),
    (&[c"wcslen", c"wcsnlen", c"wcschr", c"wcsrchr", c"wcscmp", c"wcsncmp", c"wcscpy"], 4),
];

/// Those of them that look for nothing else, and go on up to it.
const TO_TERMINATOR: [&CStr; 8] =
    [c"strlen", c"strcpy", c"stpcpy", c"strcat", c"strrchr", c"wcslen", c"wcscpy", c"wcsrchr"];
/// Functions that are given neither a terminator that is known nor a length.
const ENDLESS: [&CStr; 1] = [c"rawmemchr"];
/// Functions that keep where their string begins in its vector in place of its address.
const BY_OFFSET: [&CStr; 6] = [c"strcpy", c"stpcpy", c"strncpy", c"stpncpy", c"strcat", c"strncat"];

/// Functions that end at a terminator or where their length says: those with small vectors have that address
/// in a register.
const LIMITED: [&CStr; 2] = [c"strnlen", c"wcsnlen"];

/// The registers in which functions may have the address of their string, the likeliest first: what another
/// function has left there is no address of this one. Those that are given a length alone may have its end in
/// the last two.
const OF_STRINGS: [usize; 5] = [7, 6, 0, 2, 1];
/// The register of such an offset.
const OF_OFFSETS: usize = 1;

/// A call of a string function that loads a string.
struct Scan {
    /// The function and its stack pointer.
    call: (usize, u64),
    /// The instruction of the first load.
    first: u64,
    /// The first byte that was loaded.
    low: usize,
    /// The first byte of the string.
    start: usize,
    /// How far it was loaded.
    end: usize,
    /// Up to here there is no terminator.
    clean: usize,
}

/// What threads are at.
#[derive(Default)]
pub struct StringScans {
    by_thread: HashMap<i32, Scan>,
}

impl StringScans {
    /// The same access with the bytes that count of what the function looks at: all that it loads up to the
    /// terminator, if it looks for nothing else, and otherwise the first of them. None if it looks at nothing
    /// there; without the registers the first byte that is loaded.
    pub fn looked_at(&mut self, access: TrappedAccess, registers: Option<&Registers>) -> TrappedAccess {
        let access = TrappedAccess { len: 1, ..access };
        let function = StringFunction::of(operand::function_at(access.place.pc));
        let size = operand::decoded(access.place.pc).map_or(0, |operands| operands.size());
        let Some(registers) = registers.filter(|_| size >= VECTOR) else {
            self.by_thread.remove(&access.thread);
            return access;
        };
        let call = (function.at, access.place.sp);
        let load = Load { call, pc: access.place.pc, at: access.address, size };
        match self.load(access.thread, &load, &function, registers) {
            Some(address) => {
                let unit = function.terminator.filter(|_| function.is_to_terminator);
                let len = unit.map_or(1, |unit| with_terminator(address, load.end() - address, unit));
                TrappedAccess { address, len, ..access }
            }
            None => TrappedAccess { len: 0, ..access },
        }
    }

    /// A thread loads a vector: the first byte of it that counts.
    fn load(
        &mut self,
        thread: i32,
        load: &Load,
        function: &StringFunction,
        registers: &Registers,
    ) -> Option<usize> {
        if self.by_thread.len() >= KEPT {
            self.by_thread.clear();
        }
        let known = self.by_thread.get_mut(&thread).filter(|scan| scan.may_go_on_with(load));
        if let Some(scan) = known {
            let group = load.at.saturating_sub((LOADS_AHEAD - 1) * load.size);
            let end = function.terminator.and_then(|unit| scan.terminator_before(load.at, unit));
            if end.is_none_or(|end| end >= group) {
                scan.end = scan.end.max(load.at + load.size);
                return scan.first_of(load).filter(|_| end.is_none());
            }
        }
        let start = load.start(function, registers);
        let (call, first, low, end) = (load.call, load.pc, load.at, load.at + load.size);
        let scan = Scan { call, first, low, start, end, clean: start };
        let from = scan.first_of(load);
        self.by_thread.insert(thread, scan);
        from
    }
}

/// A load of a vector.
struct Load {
    call: (usize, u64),
    pc: u64,
    at: usize,
    size: usize,
}

impl Load {
    /// Where it ends; all of it is in one page.
    fn end(&self) -> usize {
        (self.at + self.size).min((self.at / page_size() + 1) * page_size())
    }

    /// Where the string begins of which this is the first vector: at an address that the function holds, if
    /// one lies in it. Functions with small vectors begin with four of them. Whoever goes on to a terminator
    /// begins before the string at aligned addresses only.
    fn start(&self, function: &StringFunction, registers: &Registers) -> usize {
        let is_block = self.size == VECTOR && self.at.is_multiple_of(LOADS_AHEAD * VECTOR);
        let end = self.at + if is_block { LOADS_AHEAD * VECTOR } else { self.size };
        if function.terminator.is_some() && !self.at.is_multiple_of(VECTOR) {
            return self.at;
        }
        let held = || function.addresses(self.at, registers);
        // The last byte of the vector may be an aligned address as well: all of its lower bits are set.
        let last = self.at + self.size - 1;
        let inside = held().find(|address| (self.at + 1..end).contains(address) && *address != last);
        let inside = inside.or_else(|| held().find(|address| *address == last));
        let is_held =
            function.is_limited && self.size == VECTOR && registers[OF_STRINGS[0]] == self.at as u64;
        inside.filter(|_| !is_held).unwrap_or(self.at)
    }
}

impl Scan {
    /// Whether the load may be of the same call: the first one is made once, and the others lie in a row.
    fn may_go_on_with(&self, load: &Load) -> bool {
        self.call == load.call
            && self.first != load.pc
            && (self.low..=self.end + LOADS_AHEAD * load.size).contains(&load.at)
    }

    /// The first byte of the string in a load.
    fn first_of(&self, load: &Load) -> Option<usize> {
        (load.at + load.size > self.start).then(|| load.at.max(self.start))
    }

    /// The first terminator of the string before this address.
    fn terminator_before(&mut self, address: usize, unit: usize) -> Option<usize> {
        let mut bytes = [0; BLOCK];
        while self.clean + unit <= address {
            let len = (address - self.clean).min(BLOCK) / unit * unit;
            let got = views::read(self.clean as u64, &mut bytes[..len]) / unit * unit;
            let mut units = bytes[..got].chunks_exact(unit);
            if let Some(index) = units.position(|unit| unit.iter().all(|byte| *byte == 0)) {
                self.clean += index * unit;
                return Some(self.clean);
            }
            if got == 0 {
                break;
            }
            self.clean += got;
        }
        None
    }
}

/// How many of these bytes there are up to the terminator, and with it.
fn with_terminator(address: usize, len: usize, unit: usize) -> usize {
    let mut bytes = [0; VECTOR_MAX];
    let len = len.min(VECTOR_MAX);
    let got = views::read(address as u64, &mut bytes[..len]);
    let mut units = bytes[..got].chunks_exact(unit);
    let end = units.position(|unit| unit.iter().all(|byte| *byte == 0));
    end.map_or(len, |index| (index + 1) * unit)
}

/// What is known of a function of the C library.
#[derive(Clone, Copy, Default)]
struct StringFunction {
    /// Its first address.
    at: usize,
    /// The size of the characters, if it ends at a terminator.
    terminator: Option<usize>,
    /// Whether it goes on up to that whatever it finds.
    is_to_terminator: bool,
    /// Whether it is given no length alone.
    is_endless: bool,
    /// Whether it is given a length beside.
    is_limited: bool,
    /// Whether it keeps an offset in place of an address.
    is_by_offset: bool,
}

impl StringFunction {
    /// The function that begins at this address.
    fn of(at: usize) -> StringFunction {
        static FUNCTIONS: OnceLock<HashMap<usize, StringFunction>> = OnceLock::new();
        let functions = FUNCTIONS.get_or_init(|| {
            let all =
                TERMINATED.iter().flat_map(|(names, unit)| names.iter().map(|name| (*name, Some(*unit))));
            let endless = ENDLESS.iter().map(|name| (*name, None));
            let known = all.chain(endless).map(|(name, terminator)| {
                let at = operand::function_named(name);
                let function = StringFunction {
                    at,
                    terminator,
                    is_to_terminator: TO_TERMINATOR.contains(&name),
                    is_endless: true,
                    is_limited: LIMITED.contains(&name),
                    is_by_offset: BY_OFFSET.contains(&name),
                };
                (at, function)
            });
            known.filter(|(at, _)| *at != 0).collect()
        });
        functions.get(&at).copied().unwrap_or(StringFunction { at, ..StringFunction::default() })
    }

    /// Where its string may begin, of which it loads a vector at this address.
    fn addresses(&self, load: usize, registers: &Registers) -> impl Iterator<Item = usize> {
        let count = if self.is_endless { OF_STRINGS.len() } else { OF_STRINGS.len() - 2 };
        let held = OF_STRINGS[..count].iter().map(|number| registers[*number] as usize);
        let offset = self.is_by_offset.then(|| load.wrapping_add(registers[OF_OFFSETS] as usize));
        offset.into_iter().chain(held)
    }
}

#[cfg(all(test, target_arch = "x86_64", not(loom)))]
mod tests {
    use super::*;

    const VEC: usize = 32;
    const RDI: usize = 7;

    /// The loads of calls, each at an instruction and an offset of some text, and what counts of them.
    #[test]
    fn a_string_counts_from_its_first_byte_to_its_terminator() {
        let mut text = vec![b'a'; 1024];
        let base = text.as_ptr().addr().next_multiple_of(4 * VEC) - text.as_ptr().addr();
        let at = text.as_ptr().addr() + base;
        text[base + 140] = 0;
        let load = |pc, offset: usize| Load { call: (1, 0x7000), pc, at: at + offset, size: VEC };
        let registers = |offset: usize| {
            let mut registers = [0; 16];
            registers[RDI] = (at + offset) as u64;
            registers
        };
        let none = registers(900);
        let function = |terminator| StringFunction { terminator, is_endless: true, ..Default::default() };
        type Loads<'a> = &'a [(u64, usize, Registers, Option<usize>)];
        let table: [(&str, Option<usize>, Loads); 6] = [
            ("it begins where it is loaded", Some(1), &[(1, 5, registers(5), Some(5))]),
            ("it begins inside of the vector", Some(1), &[(1, 32, registers(40), Some(40))]),
            (
                "vectors behind the terminator are loaded and not looked at",
                Some(1),
                &[
                    (1, 100, registers(100), Some(100)),
                    (2, 128, none, Some(128)),
                    (3, 160, none, None),
                    (4, 192, none, None),
                ],
            ),
            (
                "another call begins behind it",
                Some(1),
                &[(1, 100, registers(100), Some(100)), (2, 128, none, Some(128)), (3, 256, none, Some(256))],
            ),
            (
                "and so does the same instruction",
                Some(1),
                &[(1, 100, registers(100), Some(100)), (1, 160, registers(160), Some(160))],
            ),
            (
                "without a terminator all counts",
                None,
                &[(1, 100, registers(100), Some(100)), (2, 128, none, Some(128)), (3, 160, none, Some(160))],
            ),
        ];
        for (what, terminator, loads) in table {
            let mut scans = StringScans::default();
            for (pc, offset, registers, want) in loads {
                let got = scans.load(7, &load(*pc, *offset), &function(terminator), registers);
                assert_eq!(got.map(|address| address - at), *want, "{what}: {offset}");
            }
        }
    }

    #[test]
    fn functions_are_known_by_their_names() {
        let of = |name| StringFunction::of(operand::function_named(name)).terminator;
        assert_eq!([c"strlen", c"wcslen", c"memchr", c"memmove"].map(of), [Some(1), Some(4), None, None]);
    }
}
