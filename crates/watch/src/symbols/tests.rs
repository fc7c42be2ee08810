//! Addresses of this test program itself, and of files that are not what they were.

use std::fs;

use super::*;
use crate::caller::CodePosition;
use crate::fact::Started;

const PROCESS: u32 = 7;

fn take(symbols: &mut Symbols, fact: Fact) {
    symbols.take(FactSource { process: PROCESS, thread: 1 }, &fact);
}

fn module(base: u64, end: u64, offset: u64, path: &str) -> Fact {
    Fact::Module(LoadedFile { base, end, offset, path: path.to_owned() })
}

/// Where this program is mapped: its first address, and the last one behind it.
fn this_program() -> (u64, u64, String) {
    let path = std::env::current_exe().expect("a path").to_string_lossy().into_owned();
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let ours: Vec<_> = maps.lines().filter(|line| line.ends_with(&path)).collect();
    let range = |line: &str| {
        let (first, last) = line.split(' ').next().expect("a range").split_once('-').expect("two ends");
        let number = |text| u64::from_str_radix(text, 16).expect("an address");
        (number(first), number(last))
    };
    (range(ours[0]).0, range(ours[ours.len() - 1]).1, path)
}

/// An address inside the code of this function, its line, and the one behind a call of its own.
#[inline(never)]
fn here() -> (u64, u32) {
    let address = here as *const () as u64;
    (std::hint::black_box(address), line!() - 2)
}

#[test]
fn an_address_of_a_program_has_function_file_and_line() {
    let (base, end, path) = this_program();
    let mut symbols = Symbols::default();
    take(&mut symbols, module(base, end, 0, &path));
    let (address, line) = here();
    // One behind the first instruction, as a return address is one behind its call.
    let place = symbols.place(PROCESS, address + 1);
    assert!(place.file.as_ref().is_some_and(|file| file.ends_with("symbols/tests.rs")), "{place:?}");
    assert_eq!(place.line, Some(line), "{place:?}");
    assert!(place.function.as_ref().is_some_and(|name| name.ends_with("::here")), "{place:?}");
    // The same address before the function is another function's: a return address is looked up one before.
    let before = symbols.place(PROCESS, address);
    assert_ne!(before.function, place.function);
}

/// An address inside of this function, wherever it is inlined, and its line.
#[inline(always)]
fn inlined() -> (u64, u32) {
    (CodePosition::note().parts().0, line!())
}

/// The same, and the line that `inlined` is inlined at.
#[inline(never)]
fn outer() -> (u64, u32, u32) {
    let (address, line) = inlined();
    (address, line, line!() - 1)
}

#[test]
fn an_address_in_an_inlined_function_has_the_places_it_was_inlined_into() {
    let (base, end, path) = this_program();
    let mut symbols = Symbols::default();
    take(&mut symbols, module(base, end, 0, &path));
    let (address, inner, outer) = outer();
    let places = symbols.places(PROCESS, address + 1);
    let told: Vec<_> = places.iter().map(|place| (place.function.as_deref(), place.line)).collect();
    let is = |index: usize, name: &str, line: u32| {
        told[index].0.is_some_and(|function| function.ends_with(name)) && told[index].1 == Some(line)
    };
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].0.is_some_and(|function| function.ends_with("note")), "{told:?}");
    assert!(is(1, "inlined", inner) && is(2, "symbols::tests::outer", outer), "{told:?}");
    assert!(places.iter().all(|place| place.module == path && place.offset == address + 1 - base));
    let text = symbols.text(PROCESS, address + 1);
    assert!(text.contains(&format!("tests.rs:{inner} in ")) && text.contains(", inlined at "), "{text}");
}

#[test]
fn the_authors_line_is_the_innermost_outside_of_headers() {
    let header = Some("/usr/include/c++/13/bits/stl_algobase.h");
    for (frames, want) in [
        (vec![(None, None), (header, Some(3)), (Some("a.c"), Some(7)), (Some("b.c"), Some(9))], 2),
        (vec![(None, None), (header, Some(3)), (Some("a.c"), None)], 1),
        (vec![(None, None), (None, None)], 0),
        (vec![(Some("pool.h"), Some(3)), (Some("a.c"), Some(7))], 0),
        (vec![(Some("/gone/callproc.c"), Some(3)), (Some("a.py"), Some(7))], 1),
        (vec![(Some("/gone/callproc.c"), Some(3)), (Some("/gone/a.c"), Some(7))], 0),
        (vec![], 0),
    ] {
        assert_eq!(authored(frames.iter().copied()), want, "{frames:?}");
    }
}

#[test]
fn a_file_that_is_gone_gives_its_name_and_an_offset() {
    let mut symbols = Symbols::default();
    take(&mut symbols, module(0x1000, 0x3000, 0x200, "/no/where/libfoo.so"));
    assert_eq!(symbols.place(PROCESS, 0x1834).to_string(), "libfoo.so+0xa34");
    // Outside of it, in another process, and address 0: the address as it is.
    assert_eq!(symbols.place(PROCESS, 0x3001).to_string(), "0x3001");
    assert_eq!(symbols.place(PROCESS + 1, 0x1834).to_string(), "0x1834");
    assert_eq!(symbols.place(PROCESS, 0).to_string(), "0x0");
}

#[test]
fn without_debug_information_the_nearest_dynamic_symbol_is_named() {
    let (symbol, path) = libc_symbol();
    let mut symbols = Symbols::default();
    let (first, last, offset) = mapping_of(symbol, &path);
    take(&mut symbols, module(first, last, offset, &path));
    let text = symbols.place(PROCESS, symbol + 1).to_string();
    assert!(text.contains("libc.so") && text.contains("getpid"), "{text}");
}

/// The address of a function of the C library, and the file that it is in.
fn libc_symbol() -> (u64, String) {
    let address = libc::getpid as *const () as u64;
    // SAFETY: an all-zero Dl_info is a valid value, which dladdr overwrites; its name is a C string.
    let path = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        assert_ne!(libc::dladdr(address as *const _, &mut info), 0);
        std::ffi::CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned()
    };
    (address, fs::canonicalize(path).expect("the C library").to_string_lossy().into_owned())
}

/// The mapping that holds `address`. Its offset in the file is that of its addresses for the C library.
fn mapping_of(address: u64, path: &str) -> (u64, u64, u64) {
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    for line in maps.lines().filter(|line| line.ends_with(path)) {
        let words: Vec<_> = line.split_whitespace().collect();
        let (first, last) = words[0].split_once('-').expect("two ends");
        let number = |text| u64::from_str_radix(text, 16).expect("an address");
        if (number(first)..number(last)).contains(&address) {
            return (number(first), number(last), number(words[2]));
        }
    }
    panic!("{path} is not mapped at {address:#x}");
}

#[test]
fn damaged_files_count_as_gone() {
    let (base, end, path) = this_program();
    let folder = std::env::temp_dir().join(format!("ferry-symbols-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let whole = fs::read(&path).expect("this program");
    let (address, _) = here();
    for (name, bytes) in [
        ("empty", Vec::new()),
        ("text", b"no program".to_vec()),
        ("cut", whole[..whole.len() / 2].to_vec()),
        ("header", whole[..64].to_vec()),
        ("noise", whole.iter().enumerate().map(|(at, byte)| byte ^ (at % 251 == 7) as u8).collect()),
    ] {
        let file = folder.join(name);
        fs::write(&file, bytes).expect("a file");
        let mut symbols = Symbols::default();
        take(&mut symbols, module(base, end, 0, &file.to_string_lossy()));
        let place = symbols.place(PROCESS, address + 1);
        assert_eq!(place.offset, address + 1 - base, "{name}");
    }
    fs::remove_dir_all(&folder).expect("the folder is ours");
}

#[test]
fn a_later_mapping_replaces_what_was_there() {
    let mut symbols = Symbols::default();
    take(&mut symbols, module(0x1000, 0x2000, 0, "/x/first.so"));
    take(&mut symbols, module(0x4000, 0x5000, 0, "/x/other.so"));
    assert_eq!(symbols.place(PROCESS, 0x1801).position(), "first.so+0x801");
    take(&mut symbols, module(0x1800, 0x4000, 0x10, "/x/second.so"));
    assert_eq!(symbols.place(PROCESS, 0x1801).position(), "second.so+0x11");
    assert_eq!(symbols.place(PROCESS, 0x1701).position(), "0x1701");
    assert_eq!(symbols.place(PROCESS, 0x4801).position(), "other.so+0x801");
}

#[test]
fn lines_stacks_and_functions_are_those_of_their_process() {
    let mut symbols = Symbols::default();
    take(&mut symbols, Fact::Functions("aclInit\naclrtMemcpyAsync".into()));
    let line = Line { number: 3, line: 12, file: "train.py".into(), function: "load".into() };
    take(&mut symbols, Fact::Line(line));
    take(&mut symbols, Fact::Stack { number: 1, frames: vec![5, 6] });
    assert_eq!(symbols.function(PROCESS, 2), Some("aclrtMemcpyAsync"));
    assert_eq!((symbols.function(PROCESS, 0), symbols.function(PROCESS, 3)), (None, None));
    assert_eq!(symbols.place(PROCESS, Line::ADDRESS | 3).to_string(), "train.py:12 in load");
    assert_eq!(symbols.stack(PROCESS, 1), [5, 6]);
    assert!(symbols.stack(PROCESS, 2).is_empty() && symbols.stack(PROCESS + 1, 1).is_empty());
    // Names may come before the process is known to have started.
    take(&mut symbols, Fact::Started(Started::default()));
    assert_eq!(symbols.function(PROCESS, 2), Some("aclrtMemcpyAsync"));
    // A new process with the number of an old one.
    take(&mut symbols, Fact::Started(Started::default()));
    assert_eq!(symbols.function(PROCESS, 2), None);
    assert!(symbols.stack(PROCESS, 1).is_empty());
}

#[test]
fn names_are_bounded_whatever_the_facts_say() {
    let mut symbols = Symbols::default();
    for number in 0..2 * KEPT_PROCESSES as u32 {
        let source = FactSource { process: number, thread: 1 };
        symbols.take(source, &Fact::Functions("aclInit".into()));
    }
    for number in 0..2 * KEPT_PER_PROCESS as u32 {
        symbols.take(FactSource::default(), &Fact::Stack { number, frames: vec![1] });
        symbols.take(FactSource::default(), &Fact::Line(Line { number, ..Line::default() }));
        let base = u64::from(number) * 4096;
        let file = LoadedFile { base, end: base + 1, offset: 0, path: "x".into() };
        symbols.processes.entry(0).or_default().map(&file);
    }
    let kept = &symbols.processes[&0];
    assert_eq!((kept.stacks.len(), kept.lines.len()), (KEPT_PER_PROCESS, KEPT_PER_PROCESS));
    assert_eq!((kept.modules.len(), symbols.processes.len()), (KEPT_PER_PROCESS, KEPT_PROCESSES));
}
