//! What a site does in its stream: every kind of copy and fill, each followed by a copy back of what it
//! changed.

use ferry_tests::kind::*;
use ferry_tests::*;

use crate::random::Random;
use crate::site::{MOST, Part, Site};

/// An act of one stream, by its name.
pub type Act = (&'static str, fn(&mut Site, &mut Random));

/// Acts whose order in the stream is all that matters.
pub const ACTS: [Act; 12] = [
    ("write", write),
    ("write from pageable memory", write_pageable),
    ("write through a buffer", write_buffered),
    ("write rows", write_rows),
    ("write a batch", write_batch),
    ("write from registered memory", write_registered),
    ("move inside the device", move_inside),
    ("move by descriptor", move_by_descriptor),
    ("move by offset", move_by_offset),
    ("fill", fill),
    ("fill words", fill_words),
    ("launch", |site, _| site.launch()),
];

/// ACL_HOST_REG_PINNED, alone and with ACL_HOST_REG_MAPPED.
const PINNED: [u32; 2] = [0x1000_0000, 0x1000_0002];

/// The outcome of an act: the shadow follows, and the part comes back.
fn changed(site: &mut Site, part: Part, bytes: &[u8], random: &mut Random) {
    let act = site.history.last().copied().unwrap_or_default();
    site.shadow[part.at..part.at + part.len].copy_from_slice(bytes);
    match random.within(0..6) {
        0 => read_rows(site, part, act, random),
        1 => read_batch(site, part, act, random),
        2 => read_pageable(site, part, act),
        _ => site.read_back(part, 1, act, random),
    }
}

fn write(site: &mut Site, random: &mut Random) {
    let part = site.part(random);
    let bytes = site.stamped(part.len);
    let from = site.post(&bytes, random);
    let call = if random.one_in(2) { aclrtMemcpyAsync } else { aclrtMemcpyAsyncWithCondition };
    let kind = random.pick(&[H2D, DEFAULT]);
    site.accept(call(site.addr(part), site.room(part), from, part.len, kind, site.stream));
    changed(site, part, &bytes, random);
}

fn write_pageable(site: &mut Site, random: &mut Random) {
    let part = site.part(random);
    let mut bytes = site.stamped(part.len);
    let from = bytes.as_ptr() as usize;
    site.accept(aclrtMemcpyAsync(site.addr(part), site.room(part), from, part.len, H2D, site.stream));
    let kept = bytes.clone();
    // Pageable memory is done with when the call returns.
    bytes.fill(0x99);
    changed(site, part, &kept, random);
}

fn write_buffered(site: &mut Site, random: &mut Random) {
    let part = site.part(random);
    let bytes = site.stamped(part.len);
    let from = site.post(&bytes, random);
    site.accept(aclrtMemcpyAsync(site.addr(part), site.room(part), from, part.len, BUFFERED, site.stream));
    // Documented: this kind is done with the host memory when the call returns.
    Memory { addr: from, len: part.len, home: Home::Pinned }.fill(0x99);
    changed(site, part, &bytes, random);
}

/// Rows that fit a part: width, height and pitch.
fn rows(part: Part, random: &mut Random) -> (usize, usize, usize) {
    let height = random.within(1..9).min(part.len);
    let pitch = part.len / height;
    (random.within(1..pitch + 1), height, pitch)
}

fn write_rows(site: &mut Site, random: &mut Random) {
    let part = site.part(random);
    let (width, height, pitch) = rows(part, random);
    let tight = site.stamped(width * height);
    let from = site.post(&tight, random);
    let code = aclrtMemcpy2dAsync(site.addr(part), pitch, from, width, width, height, H2D, site.stream);
    site.accept(code);
    let mut bytes = site.shadow[part.at..part.at + part.len].to_vec();
    for (row, new) in tight.chunks(width).enumerate() {
        bytes[row * pitch..row * pitch + width].copy_from_slice(new);
    }
    changed(site, part, &bytes, random);
}

/// The pieces of a part, one behind the other.
fn pieces(part: Part, random: &mut Random) -> Vec<Part> {
    let step = part.len.div_ceil(random.within(1..9));
    let piece = |at: usize| Part { at: part.at + at, len: step.min(part.len - at) };
    (0..part.len).step_by(step).map(piece).collect()
}

fn write_batch(site: &mut Site, random: &mut Random) {
    let part = site.part(random);
    let bytes = site.stamped(part.len);
    let from = site.post(&bytes, random);
    let item = |piece: &Part| (site.addr(*piece), from + piece.at - part.at, piece.len);
    let items: Vec<_> = pieces(part, random).iter().map(item).collect();
    let mut attr = HOST_TO_DEVICE;
    attr.dstLoc.id = site.device;
    let form = random.pick(&[BatchForm::Async, BatchForm::AsyncV2]);
    let (code, _) = Batch::of(&items, attr).call(form, site.stream);
    site.accept(code);
    changed(site, part, &bytes, random);
}

fn write_registered(site: &mut Site, random: &mut Random) {
    let part = site.part(random);
    let bytes = site.stamped(part.len);
    let memory = Memory::new(Home::Mapped, MOST.next_multiple_of(4096));
    memory.write(&bytes);
    let code = aclrtHostRegisterV2(memory.addr, memory.len, random.pick(&PINNED));
    site.must(code, "aclrtHostRegisterV2");
    site.accept(aclrtMemcpyAsync(site.addr(part), site.room(part), memory.addr, part.len, H2D, site.stream));
    site.must(aclrtHostUnregister(memory.addr), "aclrtHostUnregister");
    site.outlived.push(memory);
    changed(site, part, &bytes, random);
}

/// Two parts of the same length that do not overlap: where to, and where from.
fn two_parts(site: &Site, random: &mut Random) -> (Part, Part) {
    let half = site.shadow.len() / 2;
    let len = random.within(1..half.min(MOST) + 1);
    let first = Part { at: random.within(0..half - len + 1), len };
    let second = Part { at: half + random.within(0..half - len + 1), len };
    if random.one_in(2) { (first, second) } else { (second, first) }
}

fn move_inside(site: &mut Site, random: &mut Random) {
    let (to, from) = two_parts(site, random);
    let kind = random.pick(&[D2D, INNER, DEFAULT]);
    let code = aclrtMemcpyAsync(site.addr(to), site.room(to), site.addr(from), to.len, kind, site.stream);
    site.accept(code);
    moved(site, to, from, random);
}

fn moved(site: &mut Site, to: Part, from: Part, random: &mut Random) {
    let bytes = site.shadow[from.at..from.at + from.len].to_vec();
    changed(site, to, &bytes, random);
}

fn move_by_descriptor(site: &mut Site, random: &mut Random) {
    let (to, from) = two_parts(site, random);
    let (descriptor, _) = site.next_late(random);
    let code = aclrtSetMemcpyDesc(descriptor, INNER, site.addr(from), site.addr(to), to.len, 0);
    site.must(code, "aclrtSetMemcpyDesc");
    site.accept(aclrtMemcpyAsyncWithDesc(descriptor, INNER, site.stream));
    moved(site, to, from, random);
}

fn move_by_offset(site: &mut Site, random: &mut Random) {
    let (to, from) = two_parts(site, random);
    let (_, cells) = site.next_late(random);
    let base = site.ground.base();
    Memory { addr: cells, len: 16, home: Home::Pinned }
        .write(&[base.to_ne_bytes(), base.to_ne_bytes()].concat());
    let (room, stream) = (site.room(to), site.stream);
    let code = aclrtMemcpyAsyncWithOffset(cells, room, to.at, cells + 8, to.len, from.at, INNER, stream);
    site.accept(code);
    moved(site, to, from, random);
}

fn fill(site: &mut Site, random: &mut Random) {
    let (part, byte) = (site.part(random), random.next() as u8);
    site.accept(aclrtMemsetAsync(site.addr(part), site.room(part), byte.into(), part.len, site.stream));
    changed(site, part, &vec![byte; part.len], random);
}

fn fill_words(site: &mut Site, random: &mut Random) {
    let mut part = site.part(random);
    part.len &= !3;
    let word = random.next() as u32;
    let bytes = word.to_ne_bytes().repeat(part.len / 4);
    site.accept(aclrtMemsetD32Async(site.addr(part), site.room(part), word, part.len / 4, site.stream));
    if part.len > 0 {
        changed(site, part, &bytes, random);
    } else {
        // Nothing to see, and nothing to lose.
        site.seen += 1;
    }
}

fn read_rows(site: &mut Site, part: Part, act: &'static str, random: &mut Random) {
    let height = (1..9).rev().find(|height| part.len.is_multiple_of(*height)).unwrap_or(1);
    let width = part.len / height;
    let at = site.outbox(part.len, random);
    let (to, from) = (site.outbox_addr(at), site.addr(part));
    site.accept(aclrtMemcpy2dAsync(to, width, from, width, width, height, D2H, site.stream));
    expect_part(site, at, part, act);
}

fn read_batch(site: &mut Site, part: Part, act: &'static str, random: &mut Random) {
    let at = site.outbox(part.len, random);
    let item = |piece: &Part| (site.outbox_addr(at) + piece.at - part.at, site.addr(*piece), piece.len);
    let items: Vec<_> = pieces(part, random).iter().map(item).collect();
    let mut attr = DEVICE_TO_HOST;
    attr.srcLoc.id = site.device;
    let (code, _) = Batch::of(&items, attr).call(BatchForm::Async, site.stream);
    site.accept(code);
    expect_part(site, at, part, act);
}

fn expect_part(site: &mut Site, at: usize, part: Part, act: &'static str) {
    let want = site.shadow[part.at..part.at + part.len].to_vec();
    site.expect_at(at, want, 2, act);
}

/// Pageable memory holds the bytes when the call returns.
fn read_pageable(site: &mut Site, part: Part, act: &'static str) {
    let mut bytes = vec![0xa5; part.len];
    let to = bytes.as_mut_ptr() as usize;
    site.accept(aclrtMemcpyAsync(to, part.len, site.addr(part), part.len, D2H, site.stream));
    let want = site.shadow[part.at..part.at + part.len].to_vec();
    site.same(&bytes, &want, act);
    site.seen += 2;
}
