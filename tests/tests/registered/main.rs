//! Host memory that was registered: page-locked by aclrtHostRegisterV2 it is copied asynchronously, mapped it
//! is not.

mod alone;
mod anew;
mod rules;
mod views;
mod waits;

use ferry_tests::*;

const PAGE: usize = 4096;
const POISON: u8 = 0xa5;
const MAPPED: u32 = 0x2;
const PINNED: u32 = 0x1000_0000;

/// Memory of the program's, alone on its pages, that can be registered.
fn mine(len: usize) -> Memory {
    Memory::new(Home::Mapped, len)
}

/// Memory of the program's that is registered.
fn registered(len: usize, flag: u32) -> Memory {
    let memory = mine(len);
    ok(aclrtHostRegisterV2(memory.addr, len, flag));
    memory
}

fn location_of(addr: usize) -> i32 {
    let mut attributes = aclrtPtrAttributes::default();
    ok(aclrtPointerGetAttributes(addr, &mut attributes));
    attributes.location.type_
}

/// The child's part.
#[test]
#[ignore = "run by alone and views"]
fn one_case() {
    use_device();
    children::play(&[alone::CASES, views::DEADLY].concat());
}
