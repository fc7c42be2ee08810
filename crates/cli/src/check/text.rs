//! Findings as a person reads them: a paragraph each.
//!
//! The first line of a paragraph is what compilers print (`file:line: error: ... [ID]`), so that editors and
//! CI services find it.

use ferry_terminal::{Colour, Terminal};
use ferry_watch::check::{CheckFinding, Checker, FindingId, FindingSeverity, StackFrame};

/// Frames of a stack that are shown.
const SHOWN_FRAMES: usize = 12;
/// Frames that are shown in any case from the program's own line on: headers may have many inside of it.
const SHOWN_CALLERS: usize = 4;

/// One finding.
pub fn finding(finding: &CheckFinding, terminal: &Terminal) -> Vec<String> {
    let colour = if finding.severity == FindingSeverity::Error { Colour::Bad } else { Colour::Unsure };
    let place = finding.place().map_or_else(|| "unknown:0".to_owned(), |frame| frame.position.clone());
    let head =
        format!("{place}: {}: {} [{}]", finding.severity.name(), finding.id.title(), finding.id.name());
    let mut lines = vec![terminal.paint(colour, &head)];
    lines.push(format!("  {}", finding.message));
    if finding.count > 1 {
        lines.push(format!("  Seen {} times.", finding.count));
    }
    if !finding.access.is_empty() || finding.work.is_none() {
        lines.extend(stack(access_title(finding.id), &finding.access));
    }
    let is_one_call = matches!(finding.id, FindingId::BatchRace | FindingId::Uninitialised | FindingId::Lost);
    if let Some(work) = finding.work.as_ref().filter(|work| !is_one_call || work.stack != finding.access) {
        let stream = work.stream.map(|stream| format!(" in stream {stream}")).unwrap_or_default();
        lines.extend(stack(&format!("{}{stream}", work.call), &work.stack));
    }
    if let Some(allocation) = finding.allocation.as_ref().filter(|_| finding.id != FindingId::Leak) {
        lines.extend(stack("the memory was allocated", allocation));
    }
    if let Some((start, len)) = finding.bytes.filter(|(_, len)| *len > 1) {
        lines.push(format!("  bytes {start:#x} to {:#x}", start + len - 1));
    }
    lines.push(format!("  {}", finding.remedy));
    lines.push(String::new());
    lines
}

fn access_title(id: FindingId) -> &'static str {
    match id {
        FindingId::HostRead | FindingId::DevicePointer => "the CPU accesses it",
        FindingId::HostWrite => "the CPU writes it",
        FindingId::Free => "it is freed",
        FindingId::StreamRace => "the later operation",
        FindingId::Leak => "it was allocated",
        _ => "the call",
    }
}

fn stack(title: &str, frames: &[StackFrame]) -> Vec<String> {
    let mut lines = vec![format!("  {title}:")];
    if frames.is_empty() {
        lines.push("    (no stack)".to_owned());
    }
    let shown = SHOWN_FRAMES.max(StackFrame::place_index(frames) + SHOWN_CALLERS);
    for (number, frame) in frames.iter().take(shown).enumerate() {
        let function = frame.function.as_deref().unwrap_or("?");
        lines.push(format!("    #{number} {function}  {}", frame.position));
    }
    if frames.len() > shown {
        lines.push(format!("    ({} more frames)", frames.len() - shown));
    }
    lines
}

/// The last lines: how much was found, and what could not be seen.
pub fn summary(
    findings: &[&CheckFinding],
    hidden: usize,
    checker: &Checker,
    lost: u64,
    is_precise: bool,
) -> Vec<String> {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(FindingSeverity::Error), count(FindingSeverity::Warning));
    let mut line = format!("ferry check: {}", counted(errors, "error"));
    if warnings > 0 {
        line += &format!(", {}", counted(warnings, "warning"));
    }
    if hidden > 0 {
        line += &format!(", {hidden} suppressed");
    }
    let mut lines = vec![line];
    if !checker.has_seen_calls() {
        lines.push(
            "ferry check: not seen: any call of the library. Either the program makes none, or it cannot \
             reach the file that it is to be watched by: it has dropped its privileges before its first \
             call, or has a /proc of its own (unshare --mount-proc)"
                .into(),
        );
    }
    lines.extend(checker.unseen().iter().map(|reason| format!("ferry check: not seen: {reason}")));
    if checker.opened() > 0 {
        let times = if checker.opened() == 1 { "once".into() } else { format!("{} times", checker.opened()) };
        let more = if is_precise { "" } else { "; --precise sees more" };
        lines.push(format!(
            "ferry check: {times} memory in flight was left open until its next copy, and later accesses \
             to it were not seen (docs/checking.md says when{more})"
        ));
    }
    if lost > 0 {
        lines.push(format!("ferry check: {lost} facts were lost: there may be more or fewer findings"));
    }
    lines
}

fn counted(count: usize, what: &str) -> String {
    match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
