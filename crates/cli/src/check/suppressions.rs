//! `--suppress FILE`: findings that are known and are to be left out.
//!
//! A file has paragraphs, separated by empty lines; a line that begins with `#` is a comment. The first line
//! of a paragraph is an id (`FERRY-FREE`), or `*` for all. Each line behind it is `access`, `work` or
//! `allocation` and a pattern: some frame of that stack must match. A pattern is compared with the name of
//! the function, with the file, and with `file:line`; `*` stands for any text. A file matches also by the end
//! of its path.

use std::fs;
use std::path::PathBuf;

use ferry_watch::check::{CheckFinding, FindingId, StackFrame};

/// All paragraphs of all files.
#[derive(Debug, Default, PartialEq)]
pub struct Suppressions(Vec<Suppression>);

#[derive(Debug, PartialEq)]
struct Suppression {
    /// `None` for all.
    id: Option<FindingId>,
    rules: Vec<(FrameOf, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum FrameOf {
    Access,
    Work,
    Allocation,
}

impl Suppressions {
    /// Reads files; an error names the file and the line.
    pub fn read_all(files: &[PathBuf]) -> Result<Suppressions, String> {
        let mut all = Suppressions::default();
        for file in files {
            let name = file.display();
            let text = fs::read_to_string(file).map_err(|error| format!("cannot read {name}: {error}"))?;
            all.add(&text).map_err(|(line, why)| format!("{name}:{line}: {why}"))?;
        }
        Ok(all)
    }

    fn add(&mut self, text: &str) -> Result<(), (usize, String)> {
        let mut is_inside = false;
        for (index, line) in text.lines().enumerate() {
            let at = |why: String| (index + 1, why);
            let line = line.trim();
            if line.is_empty() {
                is_inside = false;
            } else if line.starts_with('#') {
            } else if !is_inside {
                self.0.push(Suppression { id: parse_id(line).map_err(at)?, rules: Vec::new() });
                is_inside = true;
            } else {
                let rule = parse_rule(line).map_err(at)?;
                self.0.last_mut().expect("a paragraph has begun").rules.push(rule);
            }
        }
        Ok(())
    }

    /// Whether a paragraph describes the finding.
    pub fn cover(&self, finding: &CheckFinding) -> bool {
        self.0.iter().any(|one| one.covers(finding))
    }
}

impl Suppression {
    fn covers(&self, finding: &CheckFinding) -> bool {
        let stack = |of: FrameOf| match of {
            FrameOf::Access => finding.access.as_slice(),
            FrameOf::Work => finding.work.as_ref().map_or(Default::default(), |work| work.stack.as_slice()),
            FrameOf::Allocation => finding.allocation.as_deref().unwrap_or_default(),
        };
        self.id.is_none_or(|id| id == finding.id)
            && self.rules.iter().all(|(of, pattern)| stack(*of).iter().any(|frame| is_like(frame, pattern)))
    }
}

fn parse_id(line: &str) -> Result<Option<FindingId>, String> {
    if line == "*" {
        return Ok(None);
    }
    let id = FindingId::ALL.into_iter().find(|id| id.name() == line);
    id.map(Some)
        .ok_or_else(|| format!("`{line}` is no id of a finding: a paragraph begins with one, or with *"))
}

fn parse_rule(line: &str) -> Result<(FrameOf, String), String> {
    let (word, pattern) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let of = match word {
        "access" => FrameOf::Access,
        "work" => FrameOf::Work,
        "allocation" => FrameOf::Allocation,
        _ => return Err(format!("`{word}`: a line begins with access, work or allocation")),
    };
    match pattern.trim() {
        "" => Err(format!("{word} needs a pattern: part of a stack, such as main or train.py:12")),
        pattern => Ok((of, pattern.to_owned())),
    }
}

fn is_like(frame: &StackFrame, pattern: &str) -> bool {
    let file = frame.file.as_deref().unwrap_or_default();
    let by_end = format!("*/{pattern}");
    let by_path = |text: &str| matches(pattern, text) || matches(&by_end, text);
    frame.function.as_deref().is_some_and(|function| matches(pattern, function))
        || by_path(file)
        || by_path(&frame.position)
}

/// Whether the text is what the pattern says, in which `*` is any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// A file that describes these findings.
pub fn describe(findings: &[&CheckFinding]) -> String {
    let mut text =
        "# Written by ferry check --write-suppressions. Keep what is known to be harmless.\n".to_owned();
    for finding in findings {
        text += &format!("\n# {}\n{}\n", finding.message.replace('\n', " "), finding.id.name());
        let mut rule = |of: &str, frames: &[StackFrame]| {
            if let Some(frame) = StackFrame::place(frames) {
                // By the end of its path: the file is elsewhere on other machines.
                let line = frame.position.rsplit('/').next().unwrap_or(&frame.position);
                text += &format!("{of} {line}\n");
            }
        };
        rule("access", &finding.access);
        if let Some(work) = &finding.work {
            rule("work", &work.stack);
        }
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ferry_watch::check::{FindingSeverity, FoundWork, TimelineSpot};

    /// Memory that is freed in `access`, at this line, while a copy of `work` is in flight.
    pub(in crate::check) fn finding(access: &str, line: u32, work: &str) -> CheckFinding {
        let frame = |function: &str, file: &str, line: u32| StackFrame {
            function: Some(function.into()),
            file: Some(file.into()),
            line: Some(line).filter(|line| *line > 0),
            position: format!("{file}:{line}"),
            code: None,
        };
        CheckFinding {
            id: FindingId::Free,
            severity: FindingSeverity::Error,
            message: String::new(),
            remedy: FindingId::Free.remedy(),
            bytes: None,
            pid: 1,
            time: 0,
            access: vec![frame("memset", "libc", 0), frame(access, "/src/a.c", line)],
            spot: TimelineSpot::default(),
            work: Some(FoundWork { stack: vec![frame(work, "/src/b.c", 7)], ..FoundWork::default() }),
            allocation: None,
            count: 1,
            is_told: false,
        }
    }

    #[test]
    fn a_paragraph_hides_what_all_of_its_lines_match() {
        let cases = [
            ("FERRY-FREE", true),
            ("*", true),
            ("FERRY-LEAK", false),
            ("FERRY-FREE\naccess main", true),
            ("FERRY-FREE\naccess a.c:12", true),
            ("FERRY-FREE\naccess a.c:1", false),
            ("FERRY-FREE\naccess a.c:*\nwork load", true),
            ("FERRY-FREE\naccess main\nwork main", false),
            ("FERRY-FREE\nallocation *", false),
            ("# nothing\n\nFERRY-LEAK\n\n* # not a comment", false),
            ("*\naccess m*i*", true),
        ];
        for (text, expected) in cases {
            let mut suppressions = Suppressions::default();
            let read = suppressions.add(text);
            let covers = read.is_ok() && suppressions.cover(&finding("main", 12, "load"));
            assert_eq!(covers, expected, "{text}");
        }
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named() {
        for (text, line) in [("FERRY-FREEE", 1), ("# a\nFERRY-FREE\nacces main", 3), ("*\nwork", 2)] {
            assert_eq!(Suppressions::default().add(text).map_err(|(line, _)| line), Err(line), "{text}");
        }
    }

    #[test]
    fn what_the_report_writes_hides_what_it_reported() {
        let (one, other) = (finding("main", 12, "load"), finding("main", 13, "load"));
        let mut suppressions = Suppressions::default();
        suppressions.add(&describe(&[&one])).expect("our own file");
        assert!(suppressions.cover(&one) && !suppressions.cover(&other));
    }
}
