//! Findings as SARIF 2.1.0, which code review sites and editors read.
//!
//! Viewers drop results that have no place in a file. Where no line is known, as in stripped programs, the
//! file is the executable or library, with the address in it, and the function is a logical location. Where
//! there is no stack at all, it is the program.

use std::collections::HashMap;
use std::path::Path;

use ferry_watch::check::{CheckFinding, FindingId, StackFrame};
use serde_json::{Value, json};

/// All findings of this program as one run.
pub fn object(findings: &[&CheckFinding], program: &Path) -> Value {
    let mut run = SarifRun { program, lines: SeenLines::new(), modules: Vec::new() };
    let rules: Vec<Value> = FindingId::ALL.iter().map(|id| rule(*id)).collect();
    let results: Vec<Value> = findings.iter().map(|finding| run.result(finding)).collect();
    let modules = run.modules.iter().map(|module| json!({ "kind": "module", "fullyQualifiedName": module }));
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "ferry",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "addresses": modules.collect::<Vec<_>>(),
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

/// A run, result by result.
struct SarifRun<'a> {
    program: &'a Path,
    lines: SeenLines,
    /// The executable files that addresses lie in, as results count them.
    modules: Vec<String>,
}

impl SarifRun<'_> {
    fn result(&mut self, finding: &CheckFinding) -> Value {
        let location = match finding.place() {
            Some(frame) => self.location(frame),
            None => json!({ "physicalLocation": artifact(&self.program.to_string_lossy()) }),
        };
        let mut result = json!({
            "ruleId": finding.id.name(),
            "level": finding.severity.name(),
            "message": { "text": format!("{} {}", finding.message, finding.remedy) },
            "locations": [location],
            "partialFingerprints": { "primaryLocationLineHash": fingerprint(finding, &mut self.lines) },
            "occurrenceCount": finding.count,
        });
        let mut stacks = vec![self.stack("where it went wrong", &finding.access)];
        if let Some(work) = &finding.work {
            stacks.push(self.stack(&work.call, &work.stack));
            let related = StackFrame::place(&work.stack).map(|frame| self.location(frame));
            result["relatedLocations"] = related.into_iter().collect();
        }
        if let Some(allocation) = &finding.allocation {
            stacks.push(self.stack("where the memory was allocated", allocation));
        }
        result["stacks"] = stacks.into_iter().flatten().collect();
        result
    }

    fn stack(&mut self, text: &str, frames: &[StackFrame]) -> Option<Value> {
        let frame = |frame: &StackFrame| {
            let mut object = json!({ "location": self.location(frame) });
            if let Some((module, _)) = &frame.code {
                object["module"] = json!(module);
            }
            object
        };
        let all: Vec<Value> = frames.iter().map(frame).collect();
        (!all.is_empty()).then(|| json!({ "message": { "text": text }, "frames": all }))
    }

    /// Where the code of a frame is: its line, else the address in its executable file.
    fn location(&mut self, frame: &StackFrame) -> Value {
        let mut location = json!({});
        if let Some(function) = &frame.function {
            location["message"] = json!({ "text": function });
            location["logicalLocations"] = json!([{ "fullyQualifiedName": function, "kind": "function" }]);
        }
        let physical = match (&frame.file, &frame.code) {
            (Some(file), _) => {
                let mut physical = artifact(file);
                frame.line.into_iter().for_each(|line| physical["region"] = json!({ "startLine": line }));
                physical
            }
            (None, Some((module, offset))) => {
                let mut physical = artifact(module);
                physical["address"] = json!({
                    "kind": "instruction",
                    "fullyQualifiedName": frame.position,
                    "relativeAddress": offset,
                    "offsetFromParent": offset,
                    "parentIndex": self.module(module),
                });
                physical
            }
            // Code that was made at run time is in no file.
            (None, None) => {
                json!({ "address": { "kind": "instruction", "fullyQualifiedName": frame.position } })
            }
        };
        location["physicalLocation"] = physical;
        location
    }

    /// The index of a file among those that have addresses.
    fn module(&mut self, path: &str) -> usize {
        self.modules.iter().position(|module| module == path).unwrap_or_else(|| {
            self.modules.push(path.to_owned());
            self.modules.len() - 1
        })
    }
}

/// All of a file.
fn artifact(file: &str) -> Value {
    json!({ "artifactLocation": { "uri": uri(file) } })
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
            let results = object(findings, Path::new("prog"))["runs"][0]["results"].clone();
            let hash = |result: &Value| result["partialFingerprints"]["primaryLocationLineHash"].clone();
            results.as_array().expect("a list").iter().map(hash).collect::<Vec<_>>()
        };
        let all = hashes(&[&first, &second, &other, &first]);
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2], "{all:?}");
        assert_eq!(all[0], all[3], "found by two tests");
        assert_eq!(hashes(&[&second]), all[..1], "wherever the line is");
    }

    #[test]
    fn every_result_has_a_place_in_a_file() {
        let line = finding("main", 12, "load");
        let (mut stripped, mut unknown) = (line.clone(), line.clone());
        let frame = StackFrame {
            function: Some("step".into()),
            position: "libstep.so+0x1234".into(),
            code: Some(("/opt/lib/libstep.so".into(), 0x1234)),
            ..StackFrame::default()
        };
        stripped.access = vec![frame];
        (unknown.access, unknown.work) = (Vec::new(), None);
        let of_finding = |finding: &CheckFinding| {
            let result = object(&[finding], Path::new("/opt/prog"))["runs"][0]["results"][0].clone();
            let [location] = result["locations"].as_array().expect("a list").as_slice() else {
                panic!("one location: {result}")
            };
            let stacks = result["stacks"].as_array().expect("a list").clone();
            assert!(stacks.iter().all(|stack| stack["frames"][0]["location"].is_object()), "{stacks:?}");
            location.clone()
        };
        let file = |uri: &str| json!({ "uri": uri });
        let physical = |finding| of_finding(finding)["physicalLocation"].clone();
        let region = json!({ "startLine": 12 });
        assert_eq!(physical(&line), json!({ "artifactLocation": file("file:///src/a.c"), "region": region }));
        let address = json!({
            "kind": "instruction",
            "fullyQualifiedName": "libstep.so+0x1234",
            "relativeAddress": 0x1234,
            "offsetFromParent": 0x1234,
            "parentIndex": 0,
        });
        let uri = file("file:///opt/lib/libstep.so");
        assert_eq!(physical(&stripped), json!({ "artifactLocation": uri, "address": address }));
        let modules = object(&[&stripped], Path::new("prog"))["runs"][0]["addresses"].clone();
        assert_eq!(modules, json!([{ "kind": "module", "fullyQualifiedName": "/opt/lib/libstep.so" }]));
        let function = json!([{ "fullyQualifiedName": "step", "kind": "function" }]);
        assert_eq!(of_finding(&stripped)["logicalLocations"], function);
        assert_eq!(physical(&unknown), json!({ "artifactLocation": file("file:///opt/prog") }));
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
