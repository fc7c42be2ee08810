//! Findings as programs read them: one JSON object.

use ferry_watch::check::{CheckFinding, StackFrame};
use serde_json::{Value, json};

/// All findings.
pub fn object(findings: &[&CheckFinding]) -> Value {
    let findings: Vec<Value> = findings.iter().map(|finding| one(finding)).collect();
    json!({ "ferry_check": 1, "findings": findings })
}

/// One finding.
pub fn one(finding: &CheckFinding) -> Value {
    let mut object = json!({
        "id": finding.id.name(),
        "severity": finding.severity.name(),
        "message": finding.message,
        "remedy": finding.remedy,
        "bytes": finding.bytes.map(|(_, len)| len),
        "address": finding.bytes.map(|(start, _)| format!("{start:#x}")),
        "pid": finding.pid,
        "access": { "stack": stack(&finding.access) },
        "count": finding.count,
    });
    if let Some(work) = &finding.work {
        object["work"] = json!({ "call": work.call, "stream": work.stream, "stack": stack(&work.stack) });
    }
    if let Some(allocation) = &finding.allocation {
        object["allocation"] = json!({ "stack": stack(allocation) });
    }
    object
}

fn stack(frames: &[StackFrame]) -> Vec<Value> {
    let frame = |frame: &StackFrame| {
        let mut object = json!({ "function": frame.function, "file": frame.file, "line": frame.line });
        if frame.file.is_none() {
            object["position"] = json!(frame.position);
        }
        object
    };
    frames.iter().map(frame).collect()
}
