//! `ferry explain`: every code that the headers declare.

use std::path::Path;

use command::{ferry, output, text};

mod command;

/// Names and numbers of every code, read from the headers as the compiler would.
fn codes() -> Vec<(String, String)> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/acl");
    let headers = ["acl_base.h", "error_codes/rt_error_codes.h", "error_codes/ge_error_codes.h"];
    let mut codes = Vec::new();
    for header in headers {
        let lines = std::fs::read_to_string(include.join(header)).expect("a header");
        for line in lines.lines() {
            let words: Vec<&str> = line.split_whitespace().take(3).collect();
            if let ["#define", name, number] = words[..]
                && number.len() >= 6
                && number.bytes().all(|digit| digit.is_ascii_digit())
            {
                codes.push((name.to_owned(), number.to_owned()));
            }
        }
    }
    assert!(codes.len() > 250, "{} codes", codes.len());
    codes
}

/// What the command says of each word: blank lines are between them.
fn explained(words: &[&str]) -> Vec<String> {
    let run = output(ferry(&["explain"]).args(words));
    assert!(run.status.success(), "{}", text(&run.stderr));
    text(&run.stdout).split("\n\n").map(str::to_owned).collect()
}

#[test]
fn every_code_of_the_headers_has_meaning_causes_and_ways_out() {
    let codes = codes();
    let names: Vec<&str> = codes.iter().map(|(name, _)| name.as_str()).collect();
    let numbers: Vec<&str> = codes.iter().map(|(_, number)| number.as_str()).collect();
    let (by_name, by_number) = (explained(&names), explained(&numbers));
    assert_eq!((by_name.len(), by_number.len()), (codes.len(), codes.len()));
    for (((name, number), said), other) in codes.iter().zip(&by_name).zip(&by_number) {
        assert!(said.starts_with(&format!("{number} {name}")), "{name}: {said}");
        assert!(other.starts_with(number.as_str()) && other.contains(name.as_str()), "{number}: {other}");
        for part in ["\n  meaning   ", "\n  causes    - ", "\n  ways out  - "] {
            let rest = said.split_once(part).unwrap_or_else(|| panic!("{name} has no {part:?}: {said}")).1;
            assert!(rest.trim().len() > 5, "{name}: {said}");
        }
    }
}

#[test]
fn an_unknown_code_is_named_and_the_exit_code_is_2() {
    for (word, hint) in
        [("107999", "six digits"), ("STREAM_ABORT", "ACL_ERROR_RT_STREAM_ABORT"), ("", "six digits")]
    {
        let run = output(&mut ferry(&["explain", word]));
        assert_eq!(run.status.code(), Some(2), "{word:?}");
        let said = text(&run.stderr);
        assert!(
            said.starts_with("ferry explain: ") && said.contains(word) && said.contains(hint),
            "{word:?}: {said}"
        );
        assert_eq!(text(&run.stdout), "", "{word:?}");
    }
}

#[test]
fn known_codes_are_explained_beside_unknown_ones() {
    let run = output(&mut ferry(&["explain", "107002", "1"]));
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stdout).starts_with("107002 ACL_ERROR_RT_CONTEXT_NULL\n"), "{}", text(&run.stdout));
    assert!(text(&run.stderr).contains("1 is no error code"), "{}", text(&run.stderr));
}
