//! Batch copies that go well: which attribute covers which copy, and what a batch may be made of.

use ferry_tests::*;

const LEN: usize = 4096;
const POISON: u8 = 0xa5;

/// Calls all four functions on `batch`, each on poisoned destinations, and has `check` look at the result.
fn everywhere(batch: &Batch, poison: &[Memory], mut check: impl FnMut(&str)) {
    let stream = stream();
    for form in BatchForm::ALL {
        poison.iter().for_each(|memory| memory.fill(POISON));
        let (code, fail) = batch.clone().call(form, stream);
        expect(&format!("{form:?}"), code, 0);
        assert_eq!(fail, form.tells_index().then_some(usize::MAX), "failIndex of a batch that went well");
        finish(stream);
        check(&format!("{form:?}"));
    }
}

// proves: R41 R42 R43 R47 R48 R54 R56
#[test]
fn each_source_goes_to_its_destination() {
    use_device();
    let data = pattern(LEN, 1);
    for (host, turned) in
        [(Home::Pinned, false), (Home::Heap, false), (Home::Pinned, true), (Home::Heap, true)]
    {
        let (to, from) = if turned { (host, Home::Device) } else { (Home::Device, host) };
        let (dst, src) = (Memory::new(to, LEN), Memory::holding(from, &data));
        // Sizes that differ, places in another order than the sources, and gaps that must stay.
        let moves = [(3000, 10, 100), (0, 500, 1), (100, 700, 999), (2000, 2000, 0), (1500, 3000, 64)];
        let items: Vec<_> = moves.iter().map(|(to, from, n)| (dst.addr + to, src.addr + from, *n)).collect();
        let mut batch = Batch::of(&items, if turned { DEVICE_TO_HOST } else { HOST_TO_DEVICE });
        // destMaxs may be larger than sizes, as far as the memory goes.
        batch.maxs = moves.iter().map(|(to, _, _)| LEN - to).collect();
        let mut want = vec![POISON; LEN];
        moves.iter().for_each(|&(to, from, n)| want[to..to + n].copy_from_slice(&data[from..from + n]));
        everywhere(&batch, &[dst], |form| {
            dst.assert_holds(&want, &format!("{form}, {host:?}, turned {turned}"))
        });
    }
}

// proves: R49 R50 R57 R58
#[test]
fn attributes_cover_the_copies_from_their_index_on() {
    use_device();
    // Ten copies, the first six out of page-locked memory, the last four out of memory that acl did not make.
    // Only the right borders make the second attribute true, because UNREGISTERED is wrong for page-locked
    // memory.
    let (dst, pinned, heap) = (Memory::device(LEN), Memory::pinned(LEN), Memory::heap(LEN));
    let data = pattern(LEN, 2);
    pinned.write(&data);
    heap.write(&data);
    let part = |i: usize| (dst.addr + i * 100, if i < 6 { pinned.addr } else { heap.addr } + i * 300, 100);
    let items: Vec<_> = (0..10).map(part).collect();
    let unregistered = aclrtMemcpyBatchAttr { srcLoc: location(2, 0), ..HOST_TO_DEVICE };
    let batch = Batch::of(&items, HOST_TO_DEVICE).with_attrs(&[(0, HOST_TO_DEVICE), (6, unregistered)]);
    let mut want = vec![POISON; LEN];
    (0..10).for_each(|i| want[i * 100..][..100].copy_from_slice(&data[i * 300..][..100]));
    everywhere(&batch, &[dst], |form| dst.assert_holds(&want, form));

    let stream = stream();
    for form in BatchForm::ALL {
        dst.fill(POISON);
        let mut early = batch.clone();
        early.indexes[1] = 5;
        let (code, fail) = early.call(form, stream);
        expect("the second attribute from 5 on covers a page-locked source", code, 107000);
        assert_eq!(fail, form.tells_index().then_some(5));
        dst.assert_all(POISON, "a refused batch");
    }
}

// proves: R49 R57
#[test]
fn one_attribute_for_each_copy_is_a_normal_call() {
    ok(aclrtSetDevice(1));
    let elsewhere = Memory::device(LEN);
    use_device();
    let (here, src) = (Memory::device(LEN), Memory::holding(Home::Pinned, &pattern(LEN, 3)));
    let items: Vec<_> =
        (0..8).map(|i| ([here, elsewhere][i % 2].addr + i * 512, src.addr + i * 512, 512)).collect();
    let to = |id| aclrtMemcpyBatchAttr { dstLoc: location(1, id), srcLoc: location(0, 12345), rsv: [0; 16] };
    let attrs: Vec<_> = (0..8).map(|i| (i, to(i as u32 % 2))).collect();
    let batch = Batch::of(&items, HOST_TO_DEVICE).with_attrs(&attrs);
    let data = pattern(LEN, 3);
    everywhere(&batch, &[here, elsewhere], |form| {
        for (parity, memory) in [here, elsewhere].into_iter().enumerate() {
            let mut want = vec![POISON; LEN];
            for i in (parity..8).step_by(2) {
                want[i * 512..][..512].copy_from_slice(&data[i * 512..][..512]);
            }
            memory.assert_holds(&want, &format!("{form}, device {parity}"));
        }
    });
}

#[test]
fn a_batch_may_be_longer_than_some_hardware_takes() {
    use_device();
    let n = 5000;
    let data = pattern(n * 16, 4);
    let (dst, src) = (Memory::device(n * 16), Memory::holding(Home::Pinned, &data));
    let items: Vec<_> = (0..n).map(|i| (dst.addr + i * 16, src.addr + i * 16, 16)).collect();
    everywhere(&Batch::of(&items, HOST_TO_DEVICE), &[dst], |form| dst.assert_holds(&data, form));
}

// proves: R55
#[test]
fn copies_to_one_place_leave_the_rest_alone() {
    use_device();
    let (dst, src) = (Memory::device(LEN), Memory::pinned(LEN));
    src.part(0, 64).fill(1);
    src.part(64, 64).fill(2);
    let items = [(dst.addr + 1000, src.addr, 64), (dst.addr + 1000, src.addr + 64, 64)];
    everywhere(&Batch::of(&items, HOST_TO_DEVICE), &[dst], |form| {
        let got = dst.read();
        assert!(
            got[1000..1064].iter().all(|b| [1, 2].contains(b)),
            "{form}: bytes that neither copy brought"
        );
        assert!(got[..1000].iter().chain(&got[1064..]).all(|b| *b == POISON), "{form}: bytes outside");
    });
}

/// So many pieces that plain memory is asked about by mapping and not by piece.
const MANY: usize = 300;

// proves: R41 R43 R56
#[test]
fn many_pieces_of_plain_memory_go_where_they_should() {
    use_device();
    let (piece, gap) = (700, 5000);
    let data = pattern(MANY * gap, 8);
    for turned in [false, true] {
        let (to, from) = if turned { (Home::Heap, Home::Device) } else { (Home::Device, Home::Heap) };
        let (dst, src) = (Memory::new(to, MANY * gap), Memory::holding(from, &data));
        let place = |i: usize| (i * 7 % MANY) * gap;
        let items: Vec<_> = (0..MANY).map(|i| (dst.addr + place(i), src.addr + i * gap, piece)).collect();
        let batch = Batch::of(&items, if turned { DEVICE_TO_HOST } else { HOST_TO_DEVICE });
        let mut want = vec![POISON; MANY * gap];
        (0..MANY).for_each(|i| want[place(i)..][..piece].copy_from_slice(&data[i * gap..][..piece]));
        everywhere(&batch, &[dst], |form| dst.assert_holds(&want, &format!("{form}, turned {turned}")));
    }
}

// proves: R54
#[test]
fn one_bad_piece_among_many_of_plain_memory_refuses_all_and_is_named() {
    use_device();
    let (stream, dst, src) = (stream(), Memory::device(MANY * LEN), Memory::heap(MANY * LEN));
    let page = 4096;
    // SAFETY: new memory, at a place that the kernel picks.
    let walled = unsafe {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = libc::mmap(std::ptr::null_mut(), 3 * page, rights, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(at.add(page), page, libc::PROT_NONE), 0);
        at as usize
    };
    for (bad, what) in [(8, "nothing is mapped"), (walled + page, "protected"), (walled + page - 9, "half")] {
        for index in [0, 5, 63, 64, 200, MANY - 1] {
            dst.fill(POISON);
            let place = |i: usize| if i == index { bad } else { src.addr + i * LEN };
            let items: Vec<_> = (0..MANY).map(|i| (dst.addr + i * LEN, place(i), 100)).collect();
            for form in BatchForm::ALL {
                let (code, fail) = Batch::of(&items, HOST_TO_DEVICE).call(form, stream);
                expect(&format!("{form:?}, piece {index}: {what}"), code, 107000);
                assert_eq!(fail, form.tells_index().then_some(index), "{form:?}: {what}");
            }
            dst.assert_all(POISON, "a refused batch");
        }
    }
}
