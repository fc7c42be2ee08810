//! `ferry explain CODE`: what an error code means, what usually causes it, and what helps; or what a finding
//! of `ferry check` means (`findings`).
//!
//! Codes, names and meanings are read from the headers, which are compiled into the command
//! (`ferry_abi::codes`); causes and ways out are rows of tables in `advice` and `captures`. A code that the
//! library answers has a row of its own: a test compares the tables with the library's constants. Nothing is
//! opened and nothing is loaded.

use std::process::ExitCode;

use ferry_abi::Result;
use ferry_abi::codes::{ErrorCode, codes};
use ferry_terminal::{put, tell};

use advice::{ADVICE, Advice};
use captures::CAPTURES;

mod advice;
mod captures;
mod findings;

/// Options of `ferry explain`.
#[derive(clap::Args)]
#[command(after_help = "Exit code: 0; 2 when there is no such code or finding.")]
pub struct ExplainArgs {
    /// Codes by number or name, and findings: 107000, ACL_ERROR_RT_PARAM_INVALID, FERRY-HOST-READ
    #[arg(required = true, value_name = "CODE")]
    codes: Vec<String>,
}

/// Explains each; those that are unknown are named at the end.
pub fn main(args: &ExplainArgs) -> Result<ExitCode> {
    let mut unknown = Vec::new();
    let mut texts = Vec::new();
    for word in &args.codes {
        match find(word).map(text).or_else(|| findings::find(word)) {
            Some(text) => texts.push(text),
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

/// By number, or by name in any case, with or without its first words.
fn find(word: &str) -> Option<&'static ErrorCode> {
    let word = word.trim();
    if let Ok(number) = word.parse::<i32>() {
        return codes().iter().find(|code| code.number == number);
    }
    let wanted = word.to_ascii_uppercase();
    let is = |code: &&ErrorCode| code.name == wanted || code.name.strip_prefix("ACL_ERROR_") == Some(&wanted);
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
    "codes have six digits, such as 107000, or a name, such as ACL_ERROR_RT_PARAM_INVALID (acl/acl_base.h \
     and acl/error_codes have all); findings are called as in FERRY-HOST-READ"
        .to_owned()
}

/// The first row of advice that has the code: those for single codes come before those for families.
fn advice(code: &ErrorCode) -> &'static Advice {
    let has = |advice: &&Advice| advice.codes.iter().any(|range| range.contains(&code.number));
    CAPTURES.iter().chain(ADVICE).find(has).expect("the last row has every code")
}

fn text(code: &ErrorCode) -> String {
    let others = codes().iter().filter(|other| other.number == code.number && other.name != code.name);
    let others: Vec<&str> = others.map(|code| code.name).collect();
    let also = if others.is_empty() { String::new() } else { format!(" (also {})", others.join(", ")) };
    let advice = advice(code);
    let mut text = format!("{} {}{also}\n", code.number, code.name);
    text += &format!("  meaning   {}\n", code.meaning);
    text += &list("causes", advice.causes);
    text += &list("ways out", advice.ways);
    if !advice.ours {
        text += "  Ferry itself never answers this code.\n";
    }
    text
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
            assert!(advice(code).ours, "{number} {}: add a row to explain/advice.rs", code.name);
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
