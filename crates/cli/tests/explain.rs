//! `ferry explain`: every code that the headers declare.

use std::collections::BTreeSet;
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
fn the_codes_of_captures_have_causes_of_their_own() {
    let codes = ["107024", "107025", "107027", "107030", "107038", "107041", "507903"];
    let causes = |said: &String| said.split_once("\n  causes ").expect("causes").1.to_owned();
    let all: BTreeSet<String> = explained(&codes).iter().map(causes).collect();
    assert_eq!(all.len(), codes.len(), "{all:?}");
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

#[test]
fn findings_are_explained_beside_codes() {
    let run = output(&mut ferry(&["explain", "107002", "ferry-lost"]));
    let said = text(&run.stdout);
    assert!(run.status.success() && said.starts_with("107002 "), "{said}");
    assert!(said.contains("\n# FERRY-LOST: ") && said.contains("How to fix it"), "{said}");
}

/// The names of codes in a source file, or in all below a folder.
fn names_in(path: &Path, found: &mut BTreeSet<String>) {
    if path.is_dir() {
        std::fs::read_dir(path).expect("a folder").flatten().for_each(|entry| names_in(&entry.path(), found));
        return;
    }
    let text = std::fs::read_to_string(path).expect("a file");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    // The table of all codes says nothing about those that are answered.
    let is_table = path.ends_with("constants.rs");
    found.extend(words.filter(|word| word.starts_with("ACL_ERROR_") && !is_table).map(str::to_owned));
}

#[test]
fn what_the_library_answers_is_not_said_to_be_anothers() {
    let mut used = BTreeSet::new();
    for folder in ["../acl/src", "../capi/src", "../companions/src"] {
        names_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut used);
    }
    let declared: BTreeSet<String> = codes().into_iter().map(|(name, _)| name).collect();
    let names: Vec<&str> = used.intersection(&declared).map(String::as_str).collect();
    assert!(names.len() > 30, "{names:?}");
    for (name, said) in names.iter().zip(explained(&names)) {
        assert!(!said.contains("never answers"), "{said} ({name})");
    }
}
