//! What a plan is, and which copies have none.

use super::*;

#[test]
fn last_row_needs_width_not_pitch() {
    for (len, want) in [(2 * 64 + 16, None), (2 * 64 + 15, Some(Kind::OutOfBounds))] {
        let (runtime, _) = paper();
        let (dst, src) = (alloc(&runtime, Home::Device(0), len), alloc(&runtime, Home::Host, 48));
        let rows = Rows { dst: dst.base, dst_pitch: 64, src: src.base, src_pitch: 16, width: 16, height: 3 };
        assert_eq!(plan(&runtime, rows).err().map(|m| m.error.kind), want, "block of {len} bytes");
    }
}

#[test]
fn shapes_that_make_no_sense_are_refused() {
    let (runtime, _) = paper();
    let (dst, src) = (alloc(&runtime, Home::Device(0), 4096).base, alloc(&runtime, Home::Host, 4096).base);
    let good = Rows { dst, dst_pitch: 64, src, src_pitch: 32, width: 16, height: 4 };
    for (name, rows, want) in [
        ("good", good, None),
        ("pitch below width", Rows { dst_pitch: 15, ..good }, Some(Kind::BadShape)),
        ("source pitch below width", Rows { src_pitch: 0, ..good }, Some(Kind::BadShape)),
        ("pitch times height overflows", Rows { dst_pitch: usize::MAX / 2, ..good }, Some(Kind::BadShape)),
        ("the end wraps", Rows { src: usize::MAX - 8, height: 1, ..good }, Some(Kind::BadShape)),
        ("too many rows", Rows { height: 65, ..good }, Some(Kind::OutOfBounds)),
        ("an address nobody knows", Rows { src: 0x42, ..good }, Some(Kind::BadAddress)),
        ("no rows", Rows { height: 0, dst_pitch: 0, ..good }, None),
        ("no width", Rows { width: 0, ..good }, None),
    ] {
        assert_eq!(plan(&runtime, rows).err().map(|m| m.error.kind), want, "{name}");
    }
}

#[test]
fn plans_are_in_engine_addresses_and_straight_where_they_can_be() {
    let (runtime, _) = paper();
    let (dst, src) = (alloc(&runtime, Home::Device(1), 4096), alloc(&runtime, Home::Host, 4096));
    let rows = Rows { dst: dst.base + 8, dst_pitch: 16, src: src.base, src_pitch: 16, width: 16, height: 4 };
    let made = plan(&runtime, rows).expect("a good copy");
    assert!(made.pieces().iter().eq([Rows::linear(dst.at + 8, src.at, 64)]));
    assert_eq!((made.route(), made.is_plain(), made.bytes()), (Route::HostToDevice { to: 1 }, false, 64));
    let made = plan(&runtime, Rows { dst: PLAIN.start, src: dst.base, ..rows }).expect("plain memory");
    assert_eq!(
        (made.pieces().iter().next().map(|rows| rows.dst), made.is_plain()),
        (Some(PLAIN.start), true)
    );
    assert_eq!(made.route(), Route::DeviceToHost { from: 1 });
}

#[test]
fn memory_of_another_library_is_asked_about_once_for_many_pieces() {
    let (runtime, log) = paper();
    let host = alloc(&runtime, Home::Host, 1 << 20);
    let pieces = (0..200).map(|i| Rows::linear(THEIRS.start + 100 * i, host.base + 300 * i, 64));
    let made = Plan::new(pieces.clone(), runtime.memory(), any).expect("good pieces");
    assert_eq!((made.route(), made.pieces().iter().count()), (Route::HostToDevice { to: 1 }, 200));
    assert!(made.pieces().iter().zip(pieces).all(|(made, asked)| made.dst == asked.dst));
    let asked = log.lock().unwrap().iter().filter(|line| line.starts_with("locate")).count();
    assert_eq!(asked, 1, "once for the block that all of them lie in");
}

#[test]
fn a_copy_may_go_on_into_the_next_block_of_another_library() {
    let (runtime, _) = paper();
    let host = alloc(&runtime, Home::Host, 1 << 20);
    let border = THEIRS.start + THEIR_BLOCK;
    for (dst, len, want) in [
        (border - 64, 128, None),
        (THEIRS.start, THEIRS.len(), None),
        (THEIRS.end - 64, 65, Some(Kind::OutOfBounds)),
    ] {
        let many = [Rows::linear(border + 8, host.base, 8), Rows::linear(dst, host.base + 64, len)];
        for pieces in [&many[..], &many[1..]] {
            let made = Plan::new(pieces.iter().copied(), runtime.memory(), any);
            assert_eq!(
                made.map(drop).map_err(|misfit| misfit.error.kind).err(),
                want,
                "{len} bytes at {dst:#x}"
            );
        }
    }
}

#[test]
fn plain_rows_may_have_nothing_between_them() {
    let (runtime, _) = paper();
    let src = alloc(&runtime, Home::Device(0), 4096).base;
    // The last row ends in plain memory; what would be between two rows of a larger pitch does not have to
    // exist.
    let last = PLAIN.end - 16;
    let rows = Rows { dst: last, dst_pitch: 32, src, src_pitch: 16, width: 16, height: 2 };
    assert_eq!(
        plan(&runtime, rows).err().map(|m| m.error.kind),
        Some(Kind::BadAddress),
        "the second row is outside"
    );
    assert!(plan(&runtime, Rows { height: 1, ..rows }).is_ok());
}

#[test]
fn a_batch_names_the_piece_that_does_not_fit() {
    let (runtime, _) = paper();
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let pieces =
        |bad: Rows| [Rows::linear(device.base, host.base, 8), Rows::linear(device.base, host.base, 0), bad];
    for (bad, kind) in [
        (Rows::linear(device.base, host.base + 60, 8), Kind::OutOfBounds),
        (Rows::linear(host.base, device.base, 8), Kind::BadRoute),
    ] {
        let misfit = Plan::new(pieces(bad), runtime.memory(), any).expect_err("a bad piece");
        assert_eq!((misfit.item, misfit.error.kind), (2, kind));
    }
    let refused = Plan::new(pieces(Rows::linear(PLAIN.start, host.base, 8)), runtime.memory(), |_, ends| {
        if ends.dst.is_plain() { Err(Kind::Unsupported.because("a rule of the caller's")) } else { Ok(()) }
    });
    assert_eq!(refused.expect_err("refused").item, 2);
}

#[test]
fn the_rules_of_the_caller_are_asked_for_whenever_an_end_is_of_another_sort() {
    let (runtime, _) = paper();
    let [near, also_near, far] = [0, 0, 1].map(|device| alloc(&runtime, Home::Device(device), 64).base);
    let host = alloc(&runtime, Home::Host, 64).base;
    let plain = PLAIN.start;
    let sides =
        [(near, host), (near, host), (also_near, host), (far, host), (far, plain), (near, host), (far, host)];
    let pieces = || sides.iter().map(|(dst, src)| Rows::linear(*dst, *src, 8));
    let mut asked = Vec::new();
    let mut plan = Plan::new(pieces(), runtime.memory(), |item, ends| {
        assert_eq!(ends.dst.device(), Some((sides[item].0 == far) as u32), "piece {item}");
        assert_eq!(ends.src.is_plain(), sides[item].1 == plain, "piece {item}");
        asked.push(item);
        Ok(())
    })
    .expect("all good");
    assert_eq!(asked, [0, 3, 4, 5, 6]);
    assert!(plan.is_plain());
    asked.clear();
    let add = |item, _: &ferry_core::Ends| {
        asked.push(item);
        Ok(())
    };
    plan.extend(7, pieces().skip(6), runtime.memory(), add).expect("more of the same");
    assert_eq!(
        (asked, plan.pieces().len()),
        (vec![7], sides.len() + 1),
        "a part that is added is asked for anew"
    );
}

#[test]
fn pieces_that_touch_inside_two_blocks_become_one() {
    let (runtime, _) = paper();
    let device = alloc(&runtime, Home::Device(0), 1 << 20);
    let neighbour = alloc(&runtime, Home::Device(0), 4096);
    assert_eq!(neighbour.at, device.at + device.len, "blocks that touch for the engine too");
    let host = alloc(&runtime, Home::Host, 1 << 20);
    let linear = |dst: usize, src: usize, len| Rows::linear(device.base + dst, host.base + src, len);
    let there = |dst: usize, src: usize, len| Rows::linear(device.at + dst, host.at + src, len);
    let last = device.len - 8;
    for (name, pieces, want) in [
        ("on both sides", vec![linear(0, 8, 8), linear(8, 16, 4), linear(12, 20, 1)], vec![there(0, 8, 13)]),
        (
            "an empty one between",
            vec![linear(0, 0, 8), linear(8, 8, 0), linear(8, 8, 8)],
            vec![there(0, 0, 16)],
        ),
        ("on one side", vec![linear(0, 0, 8), linear(8, 9, 8)], vec![there(0, 0, 8), there(8, 9, 8)]),
        ("turned round", vec![linear(8, 8, 8), linear(0, 0, 8)], vec![there(8, 8, 8), there(0, 0, 8)]),
        (
            "two blocks",
            vec![linear(last, 0, 8), linear(last + 8, 8, 8)],
            vec![there(last, 0, 8), there(last + 8, 8, 8)],
        ),
    ] {
        let made = Plan::new(pieces, runtime.memory(), any).expect("good pieces");
        assert_eq!(made.pieces().iter().collect::<Vec<_>>(), want, "{name}");
    }
    let many: Vec<_> = (0..1000).map(|i| linear(i * 16, i * 8, 8)).collect();
    for _ in 0..3 {
        let made = Plan::new(many.iter().copied(), runtime.memory(), any).expect("good pieces");
        assert!(made.pieces().iter().eq((0..1000).map(|i| there(i * 16, i * 8, 8))));
    }
}

/// Runs in arrays are planned by another way than pieces one by one. Whatever the pieces are, both agree to
/// the same ones, move the same bytes and refuse the same piece.
#[test]
fn runs_in_arrays_are_planned_as_pieces_are() {
    let (runtime, _) = paper();
    let devices: Vec<_> = (0..3).map(|_| alloc(&runtime, Home::Device(0), 1 << 16)).collect();
    let hosts: Vec<_> = (0..2).map(|_| alloc(&runtime, Home::Host, 1 << 16)).collect();
    let mut state = 7_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut seen = [0; 3];
    for round in 0..400 {
        let count = 2 + random(300);
        // Most batches are of good pieces in few blocks; some have one that is not.
        let (odd, blocks, apart) = (random(3 * count), 1 + random(3), random(4));
        let (mut dsts, mut srcs, mut lens) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..count {
            let len = random(5) * 16;
            let (dst, src) = match dsts.len().checked_sub(1) {
                Some(last) if random(4) > apart && index != odd && last != odd => {
                    (dsts[last] + lens[last], srcs[last] + lens[last])
                }
                _ => (
                    devices[index % blocks].base + random(1 << 15),
                    hosts[index % 2 % blocks].base + random(1 << 15),
                ),
            };
            let (dst, len) = match index == odd {
                true => [(devices[2].base + (1 << 16) - 8, 9), (PLAIN.start, 8), (8, 0), (dst, usize::MAX)]
                    [random(4)],
                false => (dst, len),
            };
            dsts.push(dst);
            srcs.push(src);
            lens.push(len);
        }
        let one_by_one = (0..count).map(|i| Rows::linear(dsts[i], srcs[i], lens[i]));
        let want = Plan::new(one_by_one, runtime.memory(), any);
        let mut got = Plan::default();
        let runs = Runs { dsts: &dsts, srcs: &srcs, lens: &lens, rooms: &lens };
        let got = got.extend_runs(0, &runs, runtime.memory(), any).map(|()| got);
        match (want, got) {
            (Ok(want), Ok(got)) => {
                let same = joined(&want) == joined(&got);
                assert!(
                    same && (want.route(), want.is_plain()) == (got.route(), got.is_plain()),
                    "round {round}"
                );
                seen[usize::from(got.pieces().len() < count / 2)] += 1;
            }
            (Err(want), Err(got)) => {
                assert_eq!((want.item, want.error), (got.item, got.error), "round {round}");
                seen[2] += 1;
            }
            (want, got) => panic!("round {round}: {want:?} and {got:?}"),
        }
    }
    assert!(seen.iter().all(|count| *count > 20), "all kinds of batches: {seen:?}");
}

/// The pieces of a plan, with those that touch made one.
fn joined(plan: &Plan) -> Vec<Rows> {
    let mut all: Vec<Rows> = Vec::new();
    for rows in plan.pieces().iter() {
        match all.last_mut() {
            Some(last) if (rows.dst, rows.src) == (last.dst + last.width, last.src + last.width) => {
                *last = Rows::linear(last.dst, last.src, last.width + rows.width);
            }
            _ => all.push(rows),
        }
    }
    all
}
