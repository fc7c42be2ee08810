//! Assertions: what they mean, why they fail, and errors that point at their place.

use super::*;

/// A run with 3 pinned copies of 1 MiB, 2 pageable ones of 4 KiB and 3 KiB, and 2 synchronisations.
fn example() -> Report {
    let mut program = Program::start(Statistics::new());
    for _ in 0..3 {
        program.copy(10, 0, linear(PINNED_H2D, 0, 0, 1 << 20));
    }
    program.copy(30, 0, linear(PAGEABLE_H2D, 0, 0, 3 << 10));
    let point = program.copy(20, 0, linear(PAGEABLE_H2D, 0, 0, 4 << 10));
    program.wait(SYNC, 40, point);
    program.wait(SYNC, 40, point);
    program.report()
}

#[test]
fn expressions_mean_what_they_say() {
    let report = example();
    for (text, want) in [
        ("pageable_bytes == 7KiB", true),
        ("pageable_bytes == 7168", true),
        ("pageable_bytes == 0", false),
        ("syncs <= 2 && pageable_calls == 2", true),
        ("syncs < 2 || pageable_calls == 2", true),
        ("syncs < 2 || pageable_calls != 2", false),
        ("!(syncs < 2)", true),
        ("!!(syncs < 2)", false),
        ("syncs == 1 + 1 * 1", true),
        ("syncs == (1 + 1) * 1", true),
        ("syncs == 7 - 3 - 2", true),
        ("syncs == 8 / 2 / 2", true),
        ("-syncs == -2", true),
        ("h2d_bytes > 3MiB && h2d_bytes < 3.01 MiB", true),
        ("sync_blocked == 60ns", true),
        ("sync_blocked == 0.06us && sync_blocked == 6e-5ms", true),
        ("sync_blocked > 0", true),
        ("h2d_pageable_rate < 1GB/s || h2d_pageable_rate >= 1GB/s", true),
        ("h2d_bytes / h2d_time == h2d_rate", true),
        ("h2d_time * 10GB/s < 1TiB", true),
        ("overlap < 10% && overlap + 0.5 < 51%", true),
        ("true_story == 1", false),
        ("1_000_000 == 1e6", true),
        ("syncs==2&&pageable_bytes>0", true),
        ("bytes/time>1MB/s", true),
        ("syncs <= 2 && (pageable_bytes == 0 || h2d_calls > 4)", true),
    ] {
        let Ok(assertion) = Assertion::parse(text) else {
            assert!(!want, "{text}");
            continue;
        };
        assert_eq!(assertion.check(&report).is_empty(), want, "{text}");
    }
}

#[test]
fn errors_name_the_column_and_what_was_expected() {
    for (text, column, message) in [
        ("", 1, "expected a name, a number or `(`, not the end"),
        ("syncs", 1, "expected a condition, but `syncs` is a number"),
        ("syncs <= ", 10, "not the end"),
        ("syncs <= 2 &&", 14, "not the end"),
        ("syncs = 2", 7, "`==` is"),
        ("syncs == 2 & calls == 1", 12, "`&&` is"),
        ("syncs == 2 calls == 1", 12, "expected an operator or the end, not `calls`"),
        ("syncs == 2 $", 12, "not '$'"),
        ("(syncs == 2", 12, "expected `)`, not the end"),
        ("syncs == 2)", 11, "not `)`"),
        ("1 < syncs < 3", 11, "`a < b && b < c`"),
        ("pagable_bytes == 0", 1, "`pageable_bytes`"),
        ("calls > 1 && sync == 0", 14, "`syncs`"),
        ("blocked < 5", 11, "such as 1.5ms"),
        ("h2d_rate > 5", 12, "such as 10GB/s"),
        ("blocked < 4KiB", 11, "`blocked`, a time, and `4KiB`, bytes"),
        ("blocked + bytes > 0", 11, "`+` between"),
        ("bytes < 4Kib", 10, "`Kib` is not a unit; units are %, B"),
        ("bytes < 1.2.3", 12, "expected an operator or the end"),
        ("bytes < .", 9, "`.` is not a number"),
        ("!syncs == 0", 2, "expected a condition"),
        ("(syncs == 1) + 1 > 0", 1, "`+` takes numbers, but `(syncs == 1)` is a condition"),
        ("syncs && calls > 1", 1, "expected a condition"),
        ("größe == 1", 1, "no statistic `größe`"),
        ("calls == 1 && größe2 == 1 §", 27, "not '§'"),
    ] {
        let error = Assertion::parse(text).expect_err(text);
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
        let mark = error.to_string().lines().last().expect("a line").chars().count();
        assert_eq!(mark, 2 + column, "the mark is under the column");
    }
}

#[test]
fn what_is_too_deep_or_too_long_is_refused() {
    for text in ["(".repeat(100_000), "-".repeat(100_000), "!".repeat(100_000), "syncs+".repeat(10_000)] {
        Assertion::parse(&text).expect_err("too much");
    }
    for sign in ["(", "-", "!"] {
        let error = Assertion::parse(&sign.repeat(500)).expect_err("too deep");
        assert!(error.message.contains("100 levels") && error.column == 101, "{error}");
    }
    let long = vec!["1 == 1"; 400].join(" && ");
    assert!(Assertion::parse(&long).expect("long enough").check(&example()).is_empty());
}

#[test]
fn a_failure_names_the_calls_that_have_a_part_in_it_most_bytes_first() {
    let report = example();
    let failures = Assertion::parse("pageable_bytes == 0 && syncs <= 2").expect("right").check(&report);
    assert_eq!(failures.len(), 1, "the other half holds: {failures:?}");
    assert_eq!(failures[0].text, "pageable_bytes == 0");
    assert_eq!(failures[0].values, [("pageable_bytes".to_owned(), 7168.0, Dimension::BYTES)]);
    let calls: Vec<_> =
        failures[0].calls.iter().map(|call| (call.site.name.text(), call.parts[0].1, call.bytes)).collect();
    let of = |line| format!("train.py:{line}: aclrtMemcpyAsync in load");
    assert_eq!(calls, [(of(20), 4096.0, 4096), (of(30), 3072.0, 3072)]);

    let failures = Assertion::parse("!(syncs == 2 || bytes == 0)").expect("right").check(&report);
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].calls.len(), 1);
    assert_eq!(failures[0].calls[0].site.name.text(), "train.py:40: aclrtSynchronizeStream in load");
    assert_eq!(failures[0].calls[0].parts, [("syncs".to_owned(), 2.0, Dimension::NUMBER)]);
    // Of the run as a whole no call has a part.
    let failures = Assertion::parse("overlap > 10%").expect("right").check(&report);
    assert!(failures[0].calls.is_empty());
}

#[test]
fn a_division_by_zero_is_a_failure_that_says_so() {
    let failures = Assertion::parse("calls / refused < 1").expect("right").check(&example());
    assert_eq!(failures[0].trouble.as_deref(), Some("it divides by 0"));
    assert!(
        Assertion::parse("refused == 0 || calls / refused < 1").expect("right").check(&example()).is_empty()
    );
}
