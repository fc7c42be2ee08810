//! Plain memory that runs into memory of the library, and the library's own mappings: each test in a process
//! of its own, because finding a place right in front of the library's addresses needs a process in which
//! nothing else moves.

use std::ffi::c_void;

use ferry_tests::children::{self, Case};
use ferry_tests::code::RT_PARAM_INVALID;
use ferry_tests::kind::{D2H, H2D};
use ferry_tests::*;

/// A line of /proc/self/maps.
struct Mapping {
    from: usize,
    to: usize,
    name: String,
}

impl Mapping {
    /// Whether the engine named it. Files on disk, whose folder may be called anything, are named by their
    /// path.
    fn is_of_the_engine(&self) -> bool {
        const NAMED: [&str; 3] = ["[anon:ferry:", "[anon_shmem:ferry:", "/memfd:ferry:"];
        NAMED.iter().any(|begin| self.name.starts_with(begin))
    }
}

fn mappings() -> Vec<Mapping> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux lists a process's mappings");
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let number = |hex| usize::from_str_radix(hex, 16).ok();
        Some(Mapping {
            from: number(from)?,
            to: number(to)?,
            name: words.skip(4).collect::<Vec<_>>().join(" "),
        })
    };
    maps.lines().filter_map(parse).collect()
}

/// Where the mappings without a name begin that hold `addr`, touch each other and were not there `before`.
fn begin_of_range(addr: usize, before: &[Mapping]) -> usize {
    let (mut begin, mut end) = (0, 0);
    for mapping in mappings() {
        let old = before.iter().any(|b| b.to == mapping.from || (b.from..b.to).contains(&mapping.from));
        if mapping.from != end || old || !mapping.name.is_empty() {
            begin = mapping.from;
        }
        end = mapping.to;
        if (mapping.from..mapping.to).contains(&addr) {
            return begin;
        }
    }
    panic!("{addr:#x} is not mapped");
}

/// A page that ends at `end`, where nothing was mapped.
fn page_in_front_of(end: usize) -> Memory {
    let (page, access) = (page_size(), libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: NOREPLACE makes the kernel refuse a place that is taken.
    let got = unsafe { libc::mmap((end - page) as *mut c_void, page, access, flags, -1, 0) };
    assert_eq!(got as usize, end - page, "the place in front of the library's memory is taken");
    Memory { addr: end - page, len: page, home: Home::Mapped }
}

/// Every copy and fill that could be given `host` memory, in both directions; all must be refused.
fn refused(what: &str, host: usize, len: usize) {
    let (device, stream) = (Memory::device(len), stream());
    device.fill(0x44);
    let d = device.addr;
    let one = |dst, src, attr, form, stream| Batch::of(&[(dst, src, len)], attr).call(form, stream).0;
    let codes = [
        ("aclrtMemcpy in", aclrtMemcpy(d, len, host, len, H2D)),
        ("aclrtMemcpy out", aclrtMemcpy(host, len, d, len, D2H)),
        ("aclrtMemcpyAsync in", aclrtMemcpyAsync(d, len, host, len, H2D, stream)),
        ("aclrtMemcpyAsync out", aclrtMemcpyAsync(host, len, d, len, D2H, stream)),
        ("aclrtMemcpyAsyncWithCondition in", aclrtMemcpyAsyncWithCondition(d, len, host, len, H2D, stream)),
        ("aclrtMemcpyAsyncWithCondition out", aclrtMemcpyAsyncWithCondition(host, len, d, len, D2H, stream)),
        ("aclrtMemcpy2d in", aclrtMemcpy2d(d, 16, host, 16, 16, len / 16, H2D)),
        ("aclrtMemcpy2d out", aclrtMemcpy2d(host, 16, d, 16, 16, len / 16, D2H)),
        ("aclrtMemcpy2dAsync in", aclrtMemcpy2dAsync(d, 16, host, 16, 16, len / 16, H2D, stream)),
        ("aclrtMemcpy2dAsync out", aclrtMemcpy2dAsync(host, 16, d, 16, 16, len / 16, D2H, stream)),
        ("aclrtMemcpyBatch in", one(d, host, HOST_TO_DEVICE, BatchForm::Sync, 0)),
        ("aclrtMemcpyBatch out", one(host, d, DEVICE_TO_HOST, BatchForm::Sync, 0)),
        ("aclrtMemcpyBatchAsync in", one(d, host, HOST_TO_DEVICE, BatchForm::Async, stream)),
        ("aclrtMemcpyBatchAsync out", one(host, d, DEVICE_TO_HOST, BatchForm::Async, stream)),
        ("aclrtMemset", aclrtMemset(host, len, 1, len)),
        ("aclrtMemsetAsync", aclrtMemsetAsync(host, len, 1, len, stream)),
    ];
    for (name, code) in codes {
        assert_eq!(code, RT_PARAM_INVALID, "{name}: {what}");
    }
    finish(stream);
    device.assert_all(0x44, what);
}

const CASES: [Case; 2] = [("the end of plain memory", ends_where_the_library_begins), ("a name", has_a_name)];

#[test]
fn plain_memory_ends_where_the_library_begins() {
    children::run(CASES[0].0, &[]);
}

#[test]
fn device_memory_has_a_name_and_is_nobodys() {
    children::run(CASES[1].0, &[]);
}

/// The child's part.
#[test]
#[ignore = "run by the others"]
fn one_case() {
    children::play(&CASES);
}

fn ends_where_the_library_begins() {
    // SAFETY: sets one number of malloc's: threads get no heaps of their own that could move in next to the
    // library.
    assert_eq!(unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) }, 1);
    let before = mappings();
    use_device();
    let pinned = Memory::pinned(4096);
    pinned.fill(0x55);
    let front = page_in_front_of(begin_of_range(pinned.addr, &before));
    front.fill(0x66);

    let last = front.part(front.len - 64, 64);
    ok(aclrtMemcpy(Memory::device(64).addr, 64, last.addr, 64, H2D));
    refused("plain memory that runs into page-locked memory", last.addr, 80);
    front.assert_all(0x66, "plain memory in front");
    pinned.assert_all(0x55, "page-locked memory behind");
}

/// Device memory has addresses that cannot be used and a mapping of the engine's own; both have a name, and
/// neither is plain memory to a caller who got there by accident.
fn has_a_name() {
    use_device();
    Memory::pinned(4096).fill(0x55);
    let device = Memory::device(4096);
    device.fill(0x77);
    let ours: Vec<Mapping> = mappings().into_iter().filter(Mapping::is_of_the_engine).collect();
    assert!(
        ours.iter().any(|m| (m.from..m.to).contains(&device.addr)),
        "device memory shows in /proc/self/maps"
    );
    for mapping in ours.iter().filter(|m| !(m.from..m.to).contains(&device.addr)) {
        refused(&format!("an address in {}", mapping.name), mapping.from, 4096);
        refused(&format!("the last addresses of {}", mapping.name), mapping.to - 4096, 4096);
    }
    device.assert_all(0x77, "an allocation that nobody named");
}
