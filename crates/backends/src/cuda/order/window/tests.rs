use super::*;

/// Numbers that look random: the same ones for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn shuffled(&mut self, segments: &[Segment]) -> Vec<Segment> {
        let mut segments = segments.to_vec();
        (1..segments.len()).for_each(|at| segments.swap(at, self.below(at + 1)));
        segments
    }
}

fn copy(dst: usize, src: usize, len: usize) -> Segment {
    Segment { dst, src, len }
}

fn run(copies: &[Segment]) -> Run {
    let mut run = Run::default();
    (1..).zip(copies).for_each(|(ticket, copy)| run.add(ticket, Direction::Within, *copy));
    run
}

fn do_it(memory: &mut [u8], copy: &Segment) {
    memory.copy_within(copy.src..copy.src + copy.len, copy.dst);
}

/// Copies inside `size` bytes whose ends do not overlap. Neighbours go on where the last one ended every
/// other time.
fn random_copies(dice: &mut Dice, size: usize) -> Vec<Segment> {
    let (count, most) = (1 + dice.below(24), 1 + dice.below(size / 4));
    let mut copies: Vec<Segment> = Vec::new();
    while copies.len() < count {
        let (dst, src) = match copies.last() {
            Some(last) if dice.below(2) == 0 => (last.dst + last.len, last.src + last.len),
            _ => (dice.below(size), dice.below(size)),
        };
        let next = copy(dst, src, 1 + dice.below(most));
        if next.dst.max(next.src) + next.len <= size && next.dst.abs_diff(next.src) >= next.len {
            copies.push(next);
        } else if dst.max(src) >= size - 1 {
            copies.push(copy(0, size / 2, 1));
        }
    }
    copies
}

#[test]
fn portions_keep_the_order_of_copies_that_meet() {
    let mut dice = Dice(7);
    let mut cuts = 0;
    for round in 0..20_000 {
        let size = 16 + dice.below(400);
        let copies = random_copies(&mut dice, size);
        let mut want: Vec<u8> = (0..size).map(|at| at as u8).collect();
        let mut got = want.clone();
        copies.iter().for_each(|copy| do_it(&mut want, copy));
        let run = run(&copies);
        for portion in run.portions() {
            dice.shuffled(portion).iter().for_each(|copy| do_it(&mut got, copy));
            cuts += 1;
        }
        assert_eq!(got, want, "round {round}: {copies:?}");
        let bytes: usize = run.segments.iter().map(|copy| copy.len).sum();
        assert_eq!((bytes, run.count()), (copies.iter().map(|copy| copy.len).sum(), copies.len()));
    }
    assert!(cuts > 30_000, "{cuts}: copies that meet are rare here");
}

#[test]
fn copies_that_are_apart_are_one_portion_in_any_order() {
    let mut dice = Dice(3);
    let scattered: Vec<Segment> =
        (0..100).map(|index| copy(0x10_0000 + 8192 * index, 0x1000 + 64 * index, 64)).collect();
    for copies in [scattered.clone(), scattered.iter().rev().copied().collect(), dice.shuffled(&scattered)] {
        let run = run(&copies);
        let portions: Vec<_> = run.portions().collect();
        assert_eq!(portions, [&copies[..]]);
    }
    // Sources between the destinations, and sources that overlap each other.
    let woven: Vec<Segment> = (0..100).map(|index| copy(128 * index, 128 * (index / 2) + 64, 64)).collect();
    assert_eq!(run(&dice.shuffled(&woven)).portions().count(), 1);
}

#[test]
fn copies_from_elsewhere_are_one_portion_unless_they_write_the_same() {
    let (mut dice, mut whole) = (Dice(11), 0);
    for round in 0..5_000 {
        let (count, step) = (2 + dice.below(8), [1, 64, 4096][round % 3]);
        let copies: Vec<Segment> = (0..count)
            .map(|index| copy(dice.below(60) * step, (1 << 40) + 0x10_0000 * index, 1 + dice.below(3 * step)))
            .collect();
        let meet = |a: &Segment, b: &Segment| a.dst < b.dst + b.len && b.dst < a.dst + a.len;
        let apart =
            |list: &[Segment]| (1..list.len()).all(|at| !list[..at].iter().any(|a| meet(a, &list[at])));
        let run = run(&copies);
        let portions: Vec<_> = run.portions().collect();
        assert!(portions.iter().all(|portion| apart(portion)), "{copies:?}");
        assert_eq!(portions.len() == 1, apart(&copies), "{copies:?}");
        whole += usize::from(portions.len() == 1);
    }
    assert!((1_000..4_000).contains(&whole), "{whole} of both kinds");
}

#[test]
fn a_portion_ends_where_a_copy_meets_an_earlier_one() {
    let cuts = |copies: &[Segment]| run(copies).portions().map(<[Segment]>::len).collect::<Vec<_>>();
    let first = copy(100, 1000, 50);
    assert_eq!(cuts(&[first, copy(149, 2000, 1)]), [1, 1], "writes where the first writes");
    assert_eq!(cuts(&[first, copy(150, 2000, 1)]), [2], "beside it");
    assert_eq!(cuts(&[first, copy(1049, 2000, 1)]), [1, 1], "writes where the first reads");
    assert_eq!(cuts(&[first, copy(2000, 149, 1)]), [1, 1], "reads where the first writes");
    assert_eq!(cuts(&[first, copy(2000, 1049, 1)]), [2], "reads where the first reads");
    let again = [first, copy(300, 2000, 50), first, copy(400, 3000, 1), first];
    assert_eq!(cuts(&again), [2, 2, 1]);
}

#[test]
fn neighbours_that_go_on_are_one_copy() {
    let segments = |copies: &[Segment]| run(copies).into_list();
    let four: Vec<_> = (0..4).map(|index| copy(0x1000 + 64 * index, 0x8000 + 64 * index, 64)).collect();
    assert_eq!(segments(&four), [copy(0x1000, 0x8000, 256)]);
    let other_source = [four[0], copy(four[1].dst, 0x9000, 64)];
    assert_eq!(segments(&other_source), other_source);
    let other_target = [four[0], copy(0x2000, four[1].src, 64)];
    assert_eq!(segments(&other_target), other_target);
    let chain = [copy(64, 0, 64), copy(128, 64, 64)];
    assert_eq!(segments(&chain), chain, "the second reads what the first writes");
    assert_eq!(run(&chain).portions().count(), 2);
}

#[test]
fn a_run_is_of_one_kind_and_not_too_long() {
    let mut run = Run::default();
    assert!(run.has_room(RunKind::Descriptors) && run.has_room(RunKind::Copies(Direction::In)));
    run.add(5, Direction::In, copy(0, 1000, 8));
    assert!(!run.has_room(RunKind::Copies(Direction::Out)) && !run.has_room(RunKind::Descriptors));
    assert_eq!((run.first(), run.last(), run.kind()), (5, 5, Some(RunKind::Copies(Direction::In))));
    (6..5 + WINDOW_MAX.0 as Ticket)
        .for_each(|ticket| run.add(ticket, Direction::In, copy(16 * ticket as usize, 1 << 20, 8)));
    assert_eq!((run.count(), run.last()), (WINDOW_MAX.0, 5 + WINDOW_MAX.0 as Ticket - 1));
    assert!(
        !run.has_room_up_to(WINDOW_MAX, RunKind::Copies(Direction::In))
            && run.has_room(RunKind::Copies(Direction::In))
    );
    let mut run = Run::default();
    run.add(1, Direction::In, copy(1 << 30, 1 << 40, WINDOW_MAX.1));
    assert!(!run.has_room_up_to(WINDOW_MAX, RunKind::Copies(Direction::In)));
}

#[test]
fn descriptors_are_kept_one_by_one() {
    let mut run = Run::default();
    let ops = [7, 8].map(|ticket| DescriptorOp { ticket, at: 64 * ticket as usize, key: 1 });
    ops.iter().for_each(|op| run.add_descriptor(*op));
    assert_eq!((run.descriptors(), run.kind(), run.last()), (&ops[..], Some(RunKind::Descriptors), 8));
    assert!(run.has_room(RunKind::Descriptors) && !run.has_room(RunKind::Copies(Direction::Within)));
}

/// Offers a copy to a lane that has passed `passed`.
fn offer(window: &Window, direction: Direction, copy: Segment, passed: Ticket) -> Offered {
    window.offer(RunKind::Copies(direction), || passed, |run, ticket| run.add(ticket, direction, copy))
}

/// An open window of a queue that has passed nothing of its first three ops.
fn busy() -> Window {
    let window = Window::default();
    window.set_open(true);
    assert_eq!([window.count(), window.count(), window.count()], [1, 2, 3]);
    window
}

#[test]
fn a_window_that_is_open_and_looked_at_takes_copies() {
    let (window, one) = (busy(), copy(0, 100, 8));
    assert_eq!(
        offer(&window, Direction::In, one, 2),
        Offered::No { asks_sender: false },
        "no thread polls it"
    );
    window.start_polling();
    window.set_open(false);
    assert_eq!(offer(&window, Direction::In, one, 2), Offered::No { asks_sender: false });
    window.set_open(true);
    assert_eq!(window.view(), WindowView::Empty);
    assert_eq!(offer(&window, Direction::In, one, 2), Offered::Yes { ticket: 4, must_send: false });
    assert_eq!(
        offer(&window, Direction::In, copy(8, 200, 8), 3),
        Offered::Yes { ticket: 5, must_send: false },
        "behind the first"
    );
    assert_eq!(offer(&window, Direction::Out, one, 3), Offered::Full, "no ticket is lost");
    assert_eq!(window.view(), WindowView::Waiting { first: 4, is_due: false });
    let run = window.take().expect("two copies");
    assert_eq!((run.first(), run.last(), window.view()), (4, 5, WindowView::Empty));
    assert_eq!((window.take().map(|run| run.count()), window.count()), (None, 6));
}

#[test]
fn the_sender_is_asked_once_when_there_may_be_many() {
    let (window, one) = (busy(), copy(0, 100, 8));
    let miss = |passed| {
        let taken = offer(&window, Direction::In, one, passed);
        let last = window.count();
        (taken, last)
    };
    for ticket in [4, 5, 6] {
        assert_eq!(miss(0), (Offered::No { asks_sender: false }, ticket));
    }
    assert_eq!(miss(6), (Offered::No { asks_sender: false }, 7), "nothing to wait for: counted anew");
    for ticket in [8, 9, 10] {
        assert_eq!(miss(0), (Offered::No { asks_sender: false }, ticket));
    }
    assert_eq!(miss(0), (Offered::No { asks_sender: true }, 11));
    assert_eq!(miss(0), (Offered::No { asks_sender: false }, 12), "asked already");
    window.start_polling();
    assert_eq!(offer(&window, Direction::In, one, 0), Offered::Yes { ticket: 13, must_send: false });
    assert!(!window.stop_polling(), "there is something in it");
    assert_eq!(offer(&window, Direction::In, one, 0), Offered::Yes { ticket: 14, must_send: false });
    drop(window.take());
    assert!(window.stop_polling());
    for ticket in [15, 16, 17] {
        assert_eq!(
            miss(0),
            (Offered::No { asks_sender: false }, ticket),
            "counted anew, though nobody knows what has passed"
        );
    }
    assert_eq!(miss(0), (Offered::No { asks_sender: true }, 18));
}

#[test]
fn the_sender_is_not_asked_where_something_comes_behind_each_copy() {
    let (window, one) = (busy(), copy(0, 100, 8));
    for _ in 0..100 {
        assert_eq!(offer(&window, Direction::In, one, 0), Offered::No { asks_sender: false });
        assert_eq!(window.count() + 1, window.count(), "the copy, and an event");
    }
    let mut asked = false;
    for _ in 0..10 {
        asked |= offer(&window, Direction::In, one, 0) == Offered::No { asks_sender: true };
        window.count();
        asked |= offer(&window, Direction::In, one, 0) == Offered::No { asks_sender: true };
        assert_eq!(window.count() + 1, window.count(), "two copies, and an event");
    }
    assert!(asked, "two can go as one");
}

#[test]
fn a_window_says_when_it_is_due() {
    let window = busy();
    window.start_polling();
    let mut next = 0;
    let mut sends = || {
        next += 1;
        match offer(&window, Direction::Out, copy(100 * next, 1 << 30, 8), 0) {
            Offered::Yes { must_send, .. } => must_send,
            other => panic!("{other:?}"),
        }
    };
    assert!((0..SEND_AT.0 - 1).all(|_| !sends()));
    assert_eq!(window.view(), WindowView::Waiting { first: 4, is_due: false });
    assert_eq!((sends(), window.view()), (false, WindowView::Waiting { first: 4, is_due: true }));
    assert!((SEND_AT.0..SUBMITTER_SENDS_AT.0 - 1).all(|_| !sends()));
    assert_eq!((sends(), sends()), (true, true));
}
