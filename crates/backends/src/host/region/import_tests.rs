//! What another process maps of a region: tests of `os/ranges/imported.rs` with a region as the exporter.

use super::{MappingSize, Region};
use crate::os::ranges::Imports;
use ferry_core::{Home, Origin, Request, Shared};

#[test]
fn imported_bytes_are_the_exporters() {
    let region =
        Region::device(0, 1 << 20, MappingSize::up_to(usize::MAX), false, false).expect("a small device");
    let block = region.alloc(&Request { home: Home::Device(0), len: 5000, page: 4096 }).expect("room");
    let shared = region.share(&block).expect("a file");
    let imports = Imports::default();
    let there = imports.import(&shared, 1, Origin::Imported, false, None).expect("mapped");
    // SAFETY: both are engine's addresses of live memory.
    unsafe {
        std::ptr::write_bytes(block.at as *mut u8, 7, 5000);
        assert_eq!(*((there.at + 4999) as *const u8), 7);
    }
    assert_ne!(there.base, there.at);
    for len in [0, 1 << 50, usize::MAX] {
        let bad = Shared { len, ..region.share(&block).expect("a file") };
        assert!(imports.import(&bad, 1, Origin::Imported, false, None).is_err(), "{len} bytes");
    }
    imports.remove(there.base);

    let there = imports.import(&shared, 0, Origin::Imported, true, None).expect("mapped for the CPU");
    // SAFETY: as above; where memory is one, the user's address is the engine's.
    assert_eq!((there.base, unsafe { *((there.base + 4999) as *const u8) }), (there.at, 7));
    imports.remove(there.base);
    assert!(!imports.meets(there.base, 1), "given back");
}

#[test]
fn bytes_have_one_engine_address_however_often_they_are_imported() {
    let region =
        Region::device(0, 1 << 20, MappingSize::up_to(usize::MAX), false, false).expect("a small device");
    let block = region.alloc(&Request { home: Home::Device(0), len: 8192, page: 4096 }).expect("room");
    let shared = region.share(&block).expect("a file");
    let other = region.alloc(&Request { home: Home::Device(0), len: 8192, page: 4096 }).expect("room");
    for is_unified in [false, true] {
        let imports = Imports::default();
        let import = |shared: &Shared, own| {
            imports.import(shared, 0, Origin::Imported, is_unified, own).expect("mapped")
        };
        let (first, second) = (import(&shared, None), import(&shared, None));
        assert!(first.at == second.at && first.base != second.base, "unified: {is_unified}");
        assert_ne!(import(&region.share(&other).expect("a file"), None).at, first.at);
        let own = import(&shared, region.holding(&shared));
        assert!(own.at == block.at && own.base != block.base, "unified: {is_unified}");
        imports.remove(first.base);
        assert!(imports.meets(second.at, 1), "the second still has it");
        // SAFETY: one memory under three addresses of the engine's and the user's, two of them mapped.
        unsafe {
            ((second.at + 100) as *mut u8).write(9);
            assert_eq!(((own.at + 100) as *const u8).read(), 9);
        }
        imports.remove(second.base);
        assert!(!imports.meets(second.at, 1) && !imports.meets(second.base, 1));
        let anew = import(&shared, None);
        // SAFETY: just mapped.
        assert_eq!(unsafe { ((anew.at + 100) as *const u8).read() }, 9);
    }
    let beyond = Shared { len: 1 << 40, ..shared };
    assert_eq!(region.holding(&beyond), None, "more than is open");
}

#[test]
fn all_addresses_of_imported_memory_are_told_from_others() {
    let region =
        Region::device(0, 1 << 20, MappingSize::up_to(usize::MAX), false, false).expect("a small device");
    let block = region.alloc(&Request { home: Home::Device(0), len: 8192, page: 4096 }).expect("room");
    let imports = Imports::default();
    let shared = region.share(&block).expect("a file");
    let there = imports.import(&shared, 0, Origin::Imported, false, None).expect("mapped");
    for base in [there.base, there.at] {
        for (addr, len) in [(base, 0), (base + 8191, 1), (base - 4096, 4097), (base - 1, usize::MAX)] {
            assert!(imports.meets(addr, len), "{len} bytes at {addr:#x}");
        }
    }
    let (first, last) = (there.base.min(there.at), there.base.max(there.at) + 8192);
    for (addr, len) in [(first - 1, 1), (first - 4096, 4096), (last, 1), (0, 0)] {
        assert!(!imports.meets(addr, len), "{len} bytes at {addr:#x}");
    }
    imports.remove(there.base);
    assert!(!imports.meets(there.base, 1) && !imports.meets(there.at, 1));
}
