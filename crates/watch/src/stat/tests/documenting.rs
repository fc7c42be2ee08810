//! What docs/watching.md says about statistics is so.

use super::super::advice::AdviceRule;
use super::*;

const PAGE: &str = include_str!("../../../../../docs/watching.md");

#[test]
fn every_example_of_a_condition_is_one() {
    let (_, rest) = PAGE.split_once("```expressions\n").expect("examples");
    let (examples, _) = rest.split_once("```").expect("their end");
    assert!(examples.lines().count() >= 5);
    for text in examples.lines() {
        Assertion::parse(text).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_name_is_told() {
    let words: HashSet<&str> = PAGE.split('`').skip(1).step_by(2).collect();
    for (name, of) in Statistic::all() {
        let is_told = match of {
            Statistic::Traffic(..) => {
                name.split('_').all(|word| words.iter().any(|told| told.contains(word)))
            }
            _ => words.contains(name.as_str()),
        };
        assert!(is_told, "{name}");
    }
    for rule in AdviceRule::ALL {
        assert!(words.contains(rule.id()), "{}", rule.id());
    }
    for (unit, ..) in dimension::UNITS.iter().filter(|(unit, ..)| !["kB", "µs"].contains(unit)) {
        assert!(words.contains(unit), "{unit}");
    }
}
