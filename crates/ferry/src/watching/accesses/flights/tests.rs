//! What is in flight, by hand-made ops.

use super::*;

const PAGE: usize = 4096;
const USER: usize = 0x10_0000;
const AT: usize = 0x80_0000;

fn flights(len: usize) -> Flights {
    let mut flights = Flights::new(PAGE);
    flights.viewed(USER..USER + (1 << 20), AT);
    flights.known(USER..USER + len, AT);
    flights
}

fn at(ticket: u64) -> Point {
    Point { stream: 1, ticket }
}

#[test]
fn an_access_that_began_before_an_op_does_not_collide_with_it() {
    let mut flights = flights(PAGE);
    flights.submitted(at(1), &[], 5);
    flights.add(at(1), AT, 8, true, &mut Vec::new());
    for (moment, want) in [(4, None), (5, Some(at(1))), (6, Some(at(1)))] {
        let hit = flights.hit(&(USER..USER + 1), true, (1, moment)).map(|flight| flight.point);
        assert_eq!(hit, want, "moment {moment}");
    }
}

#[test]
fn an_access_hits_bytes_and_not_pages() {
    let mut flights = flights(3 * PAGE);
    let mut pages = Vec::new();
    flights.add(at(1), AT + 100, 50, false, &mut pages);
    flights.add(at(2), AT + 200, 50, true, &mut pages);
    assert_eq!(pages, [ViewPages { user: USER..USER + PAGE, at: AT, is_new: true, block: AT }]);
    for (offset, is_write, want) in [
        (99, true, None),
        (100, true, Some(1)),
        (149, true, Some(1)),
        (150, true, None),
        (100, false, None),
        (200, false, Some(2)),
        (249, true, Some(2)),
        (PAGE, true, None),
    ] {
        let byte = USER + offset;
        let hit = flights.hit(&(byte..byte + 1), is_write, (1, u64::MAX)).map(|flight| flight.point.ticket);
        assert_eq!(hit, want, "{offset} {is_write}");
    }
    flights.joins().joined(at(1));
    assert_eq!(flights.hit(&(USER + 100..USER + 101), true, (1, u64::MAX)), None, "joined");
    assert_eq!(
        flights.hit(&(USER + 100..USER + 300), false, (1, u64::MAX)).map(|flight| flight.point),
        Some(at(2))
    );
}

#[test]
fn pages_are_armed_again_once_they_were_opened_or_accessed_in_flight() {
    let mut flights = flights(64 * PAGE);
    let armed = |flights: &mut Flights, ticket: u64| {
        let mut pages = Vec::new();
        flights.add(at(ticket), AT, 4 * PAGE, true, &mut pages);
        let number = |pages: ViewPages| (pages.user.start - USER) / PAGE..(pages.user.end - USER) / PAGE;
        pages.into_iter().flat_map(number).collect::<Vec<_>>()
    };
    assert_eq!(armed(&mut flights, 1), [0, 1, 2, 3]);
    assert_eq!(armed(&mut flights, 2), [0; 0], "they are armed");
    flights.joined(at(2), |_| ());
    assert_eq!(flights.free_around(USER + 2 * PAGE), Some(USER + 2 * PAGE..USER + 18 * PAGE));
    assert_eq!(armed(&mut flights, 3), [2, 3], "an access has opened them");
    // The next ops are opened when they are joined, since the program uses the memory.
    let mut opened = Vec::new();
    flights.joined(at(3), |pages| opened.push(pages.clone()));
    assert_eq!(opened, vec![Range { start: USER, end: USER + 4 * PAGE }]);
    assert_eq!(armed(&mut flights, 4), [0, 1, 2, 3], "a join has opened them");
    flights.count_pass(USER + PAGE);
    assert_eq!([armed(&mut flights, 5), armed(&mut flights, 6)], [[1], [1]], "opened by a thread");
    flights.opened(&(USER + 3 * PAGE..USER + 4 * PAGE));
    assert_eq!(armed(&mut flights, 7), [1, 3]);
    flights.arm_all();
    assert_eq!(armed(&mut flights, 8), [0, 1, 2, 3]);
}

#[test]
fn what_is_unmapped_in_flight_is_told_by_its_newest_op() {
    for (unmapped, is_joined, want) in [
        (USER..USER + 2 * PAGE, false, Some(2)),
        (USER..USER + PAGE, false, Some(1)),
        (USER + PAGE..USER + 2 * PAGE, false, Some(2)),
        (USER + 2 * PAGE..USER + 3 * PAGE, false, None),
        (USER..USER + 2 * PAGE, true, None),
    ] {
        let mut flights = flights(3 * PAGE);
        for ticket in [1, 2] {
            flights.submitted(at(ticket), &[], ticket);
            flights.add(at(ticket), AT + (ticket as usize - 1) * PAGE, 8, false, &mut Vec::new());
        }
        if is_joined {
            flights.joins().joined(at(2));
        }
        let newest = flights.newest_in(&unmapped).map(|flight| flight.point.ticket);
        flights.unmapped(&unmapped);
        assert_eq!((newest, flights.newest_in(&unmapped)), (want, None), "{unmapped:x?}");
        let mut pages = Vec::new();
        flights.add(at(3), AT, 3 * PAGE, true, &mut pages);
        let new = pages.iter().filter(|pages| pages.is_new).map(|pages| pages.user.clone());
        assert!(new.clone().any(|new| new.contains(&unmapped.start)), "not armed before: {unmapped:x?}");
        assert!(flights.hit(&(USER + PAGE..USER + PAGE + 1), true, (0, 9)).is_some(), "watched anew");
    }
}

#[test]
fn a_host_function_does_not_collide_with_what_comes_after_it() {
    let mut flights = flights(PAGE);
    flights.function_begun(7, at(2));
    flights.add(at(1), AT, 8, true, &mut Vec::new());
    flights.add(at(3), AT + 8, 8, true, &mut Vec::new());
    let hit = |offset, thread| {
        flights.hit(&(USER + offset..USER + offset + 1), false, (thread, u64::MAX)).is_some()
    };
    assert_eq!([hit(0, 7), hit(8, 7), hit(8, 1)], [true, false, true]);
    flights.function_over(at(2));
    assert!(flights.hit(&(USER + 8..USER + 9), false, (7, u64::MAX)).is_some());
}

#[test]
fn a_function_that_runs_inside_another_ends_alone() {
    let mut flights = flights(PAGE);
    let (outer, inner) = (at(1), Point { stream: 2, ticket: 1 });
    flights.add(at(2), AT, 8, false, &mut Vec::new());
    flights.add(Point { ticket: 2, ..inner }, AT + 8, 8, false, &mut Vec::new());
    let hits = |flights: &Flights| {
        [0, 8].map(|offset| flights.hit(&(USER + offset..USER + offset + 1), true, (7, u64::MAX)).is_some())
    };
    flights.function_begun(7, outer);
    assert_eq!(hits(&flights), [false, true]);
    flights.function_begun(7, inner);
    assert_eq!(hits(&flights), [false, false], "both wait for the thread");
    assert_eq!((flights.function_over(inner), hits(&flights)), (1, [false, true]));
    assert_eq!((flights.function_over(outer), hits(&flights)), (1, [true, true]));
}

#[test]
fn pages_are_opened_up_to_what_is_in_flight_and_more_when_accesses_go_on() {
    let mut flights = flights(200 * PAGE);
    assert_eq!(flights.free_around(USER + 5), Some(USER..USER + 16 * PAGE));
    assert_eq!(flights.free_around(USER + 16 * PAGE), Some(USER + 16 * PAGE..USER + 48 * PAGE));
    flights.add(at(1), AT + 60 * PAGE + 7, 1, true, &mut Vec::new());
    assert_eq!(flights.free_around(USER + 48 * PAGE), Some(USER + 48 * PAGE..USER + 60 * PAGE));
    assert_eq!(flights.free_around(USER + 60 * PAGE), None);
    let last = USER + 199 * PAGE;
    assert_eq!(flights.free_around(last), Some(last..last + PAGE));
    assert_eq!(flights.free_around(0x5000), Some(0x5000..0x6000), "no block of ours");
}

#[test]
fn pages_of_sources_are_opened_for_reading_up_to_a_destination() {
    let mut flights = flights(20 * PAGE);
    flights.add(at(1), AT, 4 * PAGE, false, &mut Vec::new());
    flights.add(at(2), AT + 2 * PAGE + 9, 1, true, &mut Vec::new());
    assert_eq!(flights.free_around(USER + 5), None);
    assert_eq!(flights.readable_around(USER + 5), Some(USER..USER + 2 * PAGE));
    assert_eq!(flights.readable_around(USER + 2 * PAGE), None);
    let all = USER..USER + 20 * PAGE;
    for (how, want) in [
        (Opening::Whole, vec![USER..USER + 4 * PAGE, USER + 2 * PAGE..USER + 3 * PAGE]),
        (Opening::ForReading, vec![Range { start: USER + 2 * PAGE, end: USER + 3 * PAGE }]),
    ] {
        assert_eq!(flights.wrongly_open(&all, how), want);
    }
    assert_eq!(flights.wrongly_open(&(USER + 4 * PAGE..all.end), Opening::Whole), []);
    flights.joined(at(2), |_| ());
    assert_eq!(flights.wrongly_open(&all, Opening::ForReading), []);
}

#[test]
fn the_pieces_of_a_batch_are_one_range_where_they_touch() {
    let mut flights = flights(64 * PAGE);
    let mut pages = Vec::new();
    (0..64).for_each(|piece| flights.add(at(1), AT + piece * PAGE, PAGE, true, &mut pages));
    assert_eq!(pages.len(), 1);
    assert_eq!(flights.blocks[&AT].flights.len(), 1);
    flights.refused(at(1));
    assert_eq!(flights.hit(&(USER..USER + 1), true, (1, u64::MAX)), None);
}

#[test]
fn what_is_joined_is_not_kept() {
    let mut flights = flights(PAGE);
    for ticket in 1..10_000 {
        flights.submitted(at(ticket), &[], 0);
        flights.add(at(ticket), AT, 8, true, &mut Vec::new());
        flights.joins().joined(at(ticket));
    }
    assert!(flights.blocks[&AT].flights.len() <= 2 * PRUNE_FROM);
    flights.forgotten(USER);
    assert!(flights.blocks.is_empty() && flights.by_user.is_empty());
}

#[test]
fn of_what_nobody_joins_the_first_and_the_last_are_kept() {
    let mut flights = flights(PAGE);
    for ticket in 1..10_000 {
        flights.submitted(at(ticket), &[], ticket);
        flights.add(at(ticket), AT, 8, true, &mut Vec::new());
        flights.add(at(ticket), AT + 8 * (ticket as usize % 4), 8, false, &mut Vec::new());
    }
    assert!(flights.blocks[&AT].flights.len() <= 2 * PRUNE_FROM);
    let hit = |flights: &Flights| flights.hit(&(USER..USER + 1), true, (1, u64::MAX)).map(|hit| hit.point);
    assert_eq!(hit(&flights), Some(at(9_999)));
    flights.joins().joined(at(9_998));
    assert_eq!(hit(&flights), Some(at(9_999)));
    flights.joins().joined(at(9_999));
    assert_eq!(hit(&flights), None);
}

#[test]
fn memory_that_is_used_after_joins_is_opened_at_the_next_ones() {
    let mut flights = flights(8 * PAGE);
    let opened = |flights: &mut Flights, ticket| {
        let mut opened = Vec::new();
        flights.joined(at(ticket), |pages| opened.push(pages.clone()));
        opened
    };
    flights.add(at(1), AT, 8, false, &mut Vec::new());
    assert_eq!(opened(&mut flights, 1), [], "nobody has used it");
    assert!(flights.free_around(USER).is_some());
    flights.add(at(2), AT, 8, false, &mut Vec::new());
    flights.add(at(3), AT + 100, 8, false, &mut Vec::new());
    assert_eq!(opened(&mut flights, 2), [], "another op owns bytes of the page");
    assert_eq!(opened(&mut flights, 3), vec![Range { start: USER, end: USER + PAGE }]);
    for ticket in 4..4 + 2 * u64::from(EAGER_TURNS) {
        flights.add(at(ticket), AT, 8, false, &mut Vec::new());
        let count = opened(&mut flights, ticket).len();
        assert_eq!(count, usize::from(ticket < u64::from(EAGER_TURNS) + 2), "{ticket}");
    }
}

#[test]
fn scattered_pieces_are_armed_together_once_they_are_in_memory() {
    let mut flights = flights(200 * PAGE);
    flights.known(USER + 200 * PAGE..USER + 256 * PAGE, AT + 200 * PAGE);
    for (want, ticket) in [(4, 1), (3, 2)] {
        let mut pages = Vec::new();
        for piece in [60, 0, 2, 201] {
            flights.add(at(ticket), AT + piece * PAGE, PAGE, true, &mut pages);
        }
        ViewPages::merge(&mut pages, PAGE);
        assert_eq!(pages.len(), want, "{pages:x?}");
        assert!(ticket == 1 || pages[0].user == (USER..USER + 3 * PAGE), "{pages:x?}");
        flights.opened(&(USER..USER + 256 * PAGE));
    }
}

#[test]
fn other_memory_does_not_count() {
    let mut flights = flights(PAGE);
    flights.known(0x9_0000..0x9_1000, 0x9_0000);
    let mut pages = Vec::new();
    flights.add(at(1), 0x9_0000, 8, true, &mut pages);
    flights.add(at(1), AT + PAGE, 8, true, &mut pages);
    flights.add(at(1), AT, 0, true, &mut pages);
    assert!(pages.is_empty());
}
