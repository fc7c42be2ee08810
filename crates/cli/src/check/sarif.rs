//! Findings as SARIF 2.1.0, which code review sites and editors read.

use std::path::Path;

use ferry_watch::check::{CheckFinding, FindingId, StackFrame};
use serde_json::{Value, json};

/// All findings as one run.
pub fn object(findings: &[&CheckFinding]) -> Value {
    let rules: Vec<Value> = FindingId::ALL.iter().map(|id| rule(*id)).collect();
    let results: Vec<Value> = findings.iter().map(|finding| result(finding)).collect();
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
        "help": { "text": id.remedy() },
        "defaultConfiguration": { "level": id.severity().name() },
        "helpUri": format!("docs/findings/{}.md", id.name()),
    })
}

fn result(finding: &CheckFinding) -> Value {
    let mut result = json!({
        "ruleId": finding.id.name(),
        "level": finding.severity.name(),
        "message": { "text": format!("{} {}", finding.message, finding.id.remedy()) },
        "locations": finding.place().map(location).into_iter().collect::<Vec<_>>(),
        "partialFingerprints": { "primaryLocationLineHash": fingerprint(finding) },
        "occurrenceCount": finding.count,
    });
    let stack = |text: &str, frames: &[StackFrame]| {
        let frames: Vec<Value> = frames.iter().map(|frame| json!({ "location": location(frame) })).collect();
        json!({ "message": { "text": text }, "frames": frames })
    };
    let mut stacks = vec![stack("where it went wrong", &finding.access)];
    if let Some(work) = &finding.work {
        stacks.push(stack(&work.call, &work.stack));
        let related = work.stack.iter().find(|frame| frame.line.is_some());
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

/// The file below the current folder, as a review site knows it: the same wherever the checkout lies.
fn uri(file: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = Path::new(file);
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}

/// The same for the same mistake in every run, also if lines were added above it.
fn fingerprint(finding: &CheckFinding) -> String {
    let function = |frames: &[StackFrame]| {
        let frame = frames.iter().find(|frame| frame.line.is_some());
        frame.map(|frame| (frame.function.clone(), frame.file.as_deref().map(uri)))
    };
    let work = finding.work.as_ref().map(|work| function(&work.stack));
    let key = format!("{:?}", (finding.id, function(&finding.access), work));
    // FNV-1a, which is the same on every machine and in every version.
    let hash = key
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}:1")
}
