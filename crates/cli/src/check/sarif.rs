//! Findings as SARIF 2.1.0, which code review sites and editors read.

use std::collections::HashMap;
use std::path::Path;

use ferry_watch::check::{CheckFinding, FindingId, StackFrame};
use serde_json::{Value, json};

/// All findings as one run.
pub fn object(findings: &[&CheckFinding]) -> Value {
    let rules: Vec<Value> = FindingId::ALL.iter().map(|id| rule(*id)).collect();
    let mut seen = HashMap::new();
    let results: Vec<Value> = findings.iter().map(|finding| result(finding, &mut seen)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "ferry",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "results": results,
        }],
    })
}

fn rule(id: FindingId) -> Value {
    json!({
        "id": id.name(),
        "shortDescription": { "text": id.title() },
        "help": { "text": format!("{} More: ferry explain {}", id.remedy(), id.name()) },
        "defaultConfiguration": { "level": id.severity().name() },
    })
}

/// The lines of results so far, by their hash.
type SeenLines = HashMap<u64, Vec<[Option<String>; 2]>>;

fn result(finding: &CheckFinding, seen: &mut SeenLines) -> Value {
    let mut result = json!({
        "ruleId": finding.id.name(),
        "level": finding.severity.name(),
        "message": { "text": format!("{} {}", finding.message, finding.remedy) },
        "locations": finding.place().map(location).into_iter().collect::<Vec<_>>(),
        "partialFingerprints": { "primaryLocationLineHash": fingerprint(finding, seen) },
        "occurrenceCount": finding.count,
    });
    let stack = |text: &str, frames: &[StackFrame]| {
        let frames: Vec<Value> = frames.iter().map(|frame| json!({ "location": location(frame) })).collect();
        json!({ "message": { "text": text }, "frames": frames })
    };
    let mut stacks = vec![stack("where it went wrong", &finding.access)];
    if let Some(work) = &finding.work {
        stacks.push(stack(&work.call, &work.stack));
        let related = StackFrame::place(&work.stack).filter(|frame| frame.line.is_some());
        result["relatedLocations"] = related.map(location).into_iter().collect();
    }
    if let Some(allocation) = &finding.allocation {
        stacks.push(stack("where the memory was allocated", allocation));
    }
    result["stacks"] = json!(stacks);
    result
}

fn location(frame: &StackFrame) -> Value {
    let mut location = json!({ "message": { "text": frame.function.clone().unwrap_or_default() } });
    if let (Some(file), Some(line)) = (&frame.file, frame.line) {
        location["physicalLocation"] = json!({
            "artifactLocation": { "uri": uri(file) },
            "region": { "startLine": line },
        });
    }
    location
}

/// The file below the current folder, as a review site knows it: the same wherever the checkout lies. Others
/// are absolute.
fn uri(file: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = Path::new(file).strip_prefix(&here).unwrap_or(Path::new(file));
    let scheme = if path.is_absolute() { "file://" } else { "" };
    scheme.to_owned() + &path.to_string_lossy().bytes().map(encoded).collect::<String>()
}

/// A byte of a path as a URI has it.
fn encoded(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' | b'+' => {
            char::from(byte).into()
        }
        _ => format!("%{byte:02X}"),
    }
}

/// The same for the same mistake in every run, also if lines were added above it. Mistakes at several lines
/// of one function are numbered.
fn fingerprint(finding: &CheckFinding, seen: &mut SeenLines) -> String {
    let hash = hash(finding);
    let line = |frames: &[StackFrame]| StackFrame::place(frames).map(|frame| frame.position.clone());
    let lines = [line(&finding.access), finding.work.as_ref().and_then(|work| line(&work.stack))];
    let all = seen.entry(hash).or_default();
    let number = all.iter().position(|other| *other == lines).unwrap_or_else(|| {
        all.push(lines);
        all.len() - 1
    });
    format!("{hash:016x}:{}", number + 1)
}

fn hash(finding: &CheckFinding) -> u64 {
    let function = |frames: &[StackFrame]| {
        let frame = StackFrame::place(frames).filter(|frame| frame.line.is_some());
        frame.map(|frame| (frame.function.clone(), frame.file.as_deref().map(uri)))
    };
    let work = finding.work.as_ref().map(|work| function(&work.stack));
    let key = format!("{:?}", (finding.id, function(&finding.access), work));
    // FNV-1a, which is the same on every machine and in every version.
    key.bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::suppressions::tests::finding;

    #[test]
    fn mistakes_of_one_function_are_told_apart() {
        let (first, second, other) =
            (finding("main", 12, "load"), finding("main", 15, "load"), finding("f", 12, "load"));
        let hashes = |findings: &[&CheckFinding]| {
            let results = object(findings)["runs"][0]["results"].clone();
            let hash = |result: &Value| result["partialFingerprints"]["primaryLocationLineHash"].clone();
            results.as_array().expect("a list").iter().map(hash).collect::<Vec<_>>()
        };
        let all = hashes(&[&first, &second, &other, &first]);
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2], "{all:?}");
        assert_eq!(all[0], all[3], "found by two tests");
        assert_eq!(hashes(&[&second]), all[..1], "wherever the line is");
    }

    #[test]
    fn files_are_named_as_uris_have_it() {
        let here = std::env::current_dir().expect("a folder");
        for (file, want) in [
            (here.join("src/a b.c").display().to_string(), "src/a%20b.c"),
            ("kit.h".to_owned(), "kit.h"),
            ("/usr/include/c++/x:1.h".to_owned(), "file:///usr/include/c++/x%3A1.h"),
        ] {
            assert_eq!(uri(&file), want);
        }
    }
}
