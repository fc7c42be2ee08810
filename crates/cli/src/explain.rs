//! `ferry explain CODE`: what an error code means, what usually causes it, and what helps.
//!
//! Codes, names and meanings are read from the headers, which come with the command; causes and ways out are in `advice.rs`.

use std::process::ExitCode;
use std::sync::OnceLock;

use crate::error::Result;
use crate::terminal::{put, tell};

use advice::{ADVICE, Advice};

mod advice;

/// Options of `ferry explain`.
#[derive(clap::Args)]
#[command(after_help = "Exit code: 0; 2 when there is no such code.")]
pub struct Args {
    /// Codes by number or name: 107000, ACL_ERROR_RT_PARAM_INVALID, rt_param_invalid
    #[arg(required = true, value_name = "CODE")]
    codes: Vec<String>,
}

/// A code that the headers declare.
struct Code {
    number: i32,
    name: &'static str,
    meaning: String,
}

/// Explains each; those that are unknown are named at the end.
pub fn main(args: &Args) -> Result<ExitCode> {
    let mut unknown = Vec::new();
    let mut texts = Vec::new();
    for word in &args.codes {
        match find(word) {
            Some(code) => texts.push(code.text()),
            None => unknown.push(word.as_str()),
        }
    }
    put(&texts.join("\n"));
    if unknown.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for word in unknown {
        tell(&format!("ferry explain: {word} is no error code: {}\n", nearest(word)));
    }
    Ok(ExitCode::from(2))
}

/// The name of a code, as the headers spell it first.
pub fn name(number: i32) -> Option<&'static str> {
    codes().iter().find(|code| code.number == number).map(|code| code.name)
}

/// Every code of the headers, in their order.
fn codes() -> &'static [Code] {
    static CODES: OnceLock<Vec<Code>> = OnceLock::new();
    CODES.get_or_init(|| {
        let headers = [
            include_str!("../../../include/acl/acl_base.h"),
            include_str!("../../../include/acl/error_codes/rt_error_codes.h"),
            include_str!("../../../include/acl/error_codes/ge_error_codes.h"),
        ];
        headers.iter().flat_map(|header| header.lines().filter_map(code)).collect()
    })
}

/// `#define ACL_ERROR_X 1 /**< Meaning. */`. Those of the graph engine have no comment: their names say what happened.
fn code(line: &'static str) -> Option<Code> {
    let mut words = line.strip_prefix("#define ")?.splitn(3, ' ');
    let (name, number) = (words.next()?, words.next()?.parse().ok()?);
    if !name.starts_with("ACL_ERROR_") && !name.ends_with("_SUCCESS") && !name.ends_with("_FAIL") {
        return None;
    }
    let comment = words.next().and_then(|text| text.strip_prefix("/**< ")?.strip_suffix(" */"));
    let meaning = comment.map_or_else(|| in_words(name), str::to_owned);
    Some(Code { number, name, meaning })
}

/// What a name without a comment says: `ACL_ERROR_GE_LOAD_MODEL` is "The graph engine says: load model."
fn in_words(name: &str) -> String {
    let said = |rest: &str| rest.replace('_', " ").to_lowercase();
    match name.strip_prefix("ACL_ERROR_GE_") {
        Some(rest) => format!("The graph engine says: {}.", said(rest)),
        None => format!("The operator library says: {}.", said(name.trim_start_matches("ACLNN_"))),
    }
}

/// By number, or by name in any case, with or without its first words.
fn find(word: &str) -> Option<&'static Code> {
    let word = word.trim();
    if let Ok(number) = word.parse::<i32>() {
        return codes().iter().find(|code| code.number == number);
    }
    let wanted = word.to_ascii_uppercase();
    let is = |code: &&Code| code.name == wanted || code.name.strip_prefix("ACL_ERROR_") == Some(&wanted);
    codes().iter().find(is)
}

/// What the user may have meant.
fn nearest(word: &str) -> String {
    let wanted = word.trim().to_ascii_uppercase();
    let like: Vec<&str> = codes()
        .iter()
        .map(|code| code.name)
        .filter(|name| wanted.len() > 2 && name.contains(&wanted))
        .collect();
    if !like.is_empty() {
        return format!("did you mean {}?", like.iter().take(5).copied().collect::<Vec<_>>().join(", "));
    }
    "codes have six digits, such as 107000, or a name, such as ACL_ERROR_RT_PARAM_INVALID (acl/acl_base.h and acl/error_codes have all)"
        .to_owned()
}

impl Code {
    /// The first row of advice that has the code: those for single codes come before those for families.
    fn advice(&self) -> &'static Advice {
        let has = |advice: &&Advice| advice.codes.iter().any(|range| range.contains(&self.number));
        ADVICE.iter().find(has).expect("the last row has every code")
    }

    fn text(&self) -> String {
        let others = codes().iter().filter(|code| code.number == self.number && code.name != self.name);
        let others: Vec<&str> = others.map(|code| code.name).collect();
        let also = if others.is_empty() { String::new() } else { format!(" (also {})", others.join(", ")) };
        let advice = self.advice();
        let mut text = format!("{} {}{also}\n", self.number, self.name);
        text += &format!("  meaning   {}\n", self.meaning);
        text += &list("causes", advice.causes);
        text += &list("ways out", advice.ways);
        if !advice.ours {
            text += "  Ferry itself never answers this code.\n";
        }
        text
    }
}

/// `causes` and then a line for each.
fn list(title: &str, lines: &[&str]) -> String {
    let line =
        |(index, line): (usize, &&str)| format!("  {:<10}- {line}\n", if index == 0 { title } else { "" });
    lines.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_the_library_answers_has_advice_of_its_own() {
        let constants = include_str!("../../acl/src/constants.rs");
        let code = |line: &str| {
            let (name, value) = line.trim().strip_suffix(';')?.split_once(" = ")?;
            name.starts_with("ACL_ERROR_").then(|| value.parse::<i32>().ok()).flatten()
        };
        let answered: Vec<i32> = constants.lines().filter_map(code).collect();
        assert!(answered.len() > 30, "{answered:?}");
        for number in answered {
            let code = codes().iter().find(|code| code.number == number).expect("the headers have it");
            assert!(code.advice().ours, "{number} {}: add a row to explain/advice.rs", code.name);
        }
    }

    #[test]
    fn a_code_is_found_by_number_and_by_name() {
        for word in [
            "107000",
            " 107000 ",
            "ACL_ERROR_RT_PARAM_INVALID",
            "acl_error_rt_param_invalid",
            "rt_param_invalid",
        ] {
            assert_eq!(find(word).map(|code| code.number), Some(107000), "{word:?}");
        }
        for word in ["", "1", "-1", "107", "107999", "ACL", "99999999999999", "ACL_ERROR_"] {
            assert!(find(word).is_none(), "{word:?}");
        }
    }
}
