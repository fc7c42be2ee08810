//! Offences that are known and wait to be mended: `xtask/shape.allow` names each with its measure. Whatever
//! is not in it, or has grown, is an error; so is what is in it and no longer there, or smaller: the list
//! only shrinks.

use std::collections::BTreeMap;

use super::offence::Offence;

/// Offences by rule and subject.
pub type Known = BTreeMap<(String, String), usize>;

/// Reads a list: a rule, a subject and a measure on each line; `#` begins a comment.
pub fn parse(text: &str) -> Result<Known, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(parse_line).collect()
}

fn parse_line(line: &str) -> Result<((String, String), usize), String> {
    let parts = line.split_once(' ').zip(line.rsplit_once(' '));
    let parsed = parts.and_then(|((rule, _), (rest, count))| {
        let subject = rest.strip_prefix(rule)?.trim();
        Some(((rule.to_owned(), subject.to_owned()), count.parse().ok()?))
    });
    parsed.ok_or_else(|| format!("xtask/shape.allow: not a rule, a subject and a number: {line}"))
}

/// What is wrong beside what is known.
pub fn compare(found: &[Offence], known: &Known) -> Vec<String> {
    let mut wrong = Vec::new();
    for offence in found {
        let allowed = known.get(&offence.key()).copied().unwrap_or(0);
        if offence.count > allowed || !known.contains_key(&offence.key()) {
            wrong.push(format!("{}: {}", offence.rule, offence.text));
        }
    }
    for ((rule, subject), &count) in known {
        let now = found.iter().find(|offence| offence.rule == rule && offence.subject == *subject);
        let now = now.map_or(0, |offence| offence.count);
        if now < count {
            wrong.push(format!(
                "{rule}: {subject} is better than xtask/shape.allow says ({now}, not {count}): \
                 `cargo xtask shape --prune` takes it out"
            ));
        }
    }
    wrong
}

/// The list with what was mended taken out, nothing added, comments kept.
pub fn prune(text: &str, found: &[Offence]) -> Result<String, String> {
    let mut kept = String::new();
    for line in text.lines() {
        let is_entry = !line.trim().is_empty() && !line.trim().starts_with('#');
        if !is_entry {
            kept += &format!("{line}\n");
            continue;
        }
        let ((rule, subject), count) = parse_line(line.trim())?;
        let now = found.iter().find(|offence| offence.rule == rule && offence.subject == subject);
        if let Some(offence) = now {
            kept += &format!("{rule} {subject} {}\n", offence.count.min(count));
        }
    }
    Ok(kept)
}
