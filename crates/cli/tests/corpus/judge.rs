//! Compares what the checker reported with what a twin expects. Works on text alone, so that its own tests
//! need no checker.

use serde_json::Value;

use crate::twin::Twin;

/// The exit code of `ferry check` when there are errors.
const ERRORS: i32 = 99;

/// What came of one run.
pub struct Run {
    pub is_fixed: bool,
    pub exit: i32,
    /// The file of `--json`; empty if it was not written.
    pub json: String,
    /// Whether the lines of accesses of the CPU can be known.
    pub has_lines: bool,
}

/// A difference: what was expected, and what came.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub expected: String,
    pub given: String,
}

/// Everything that is wrong with a run of this twin.
pub fn judge(twin: &Twin, run: &Run) -> Vec<Fault> {
    let findings = match findings(&run.json) {
        Ok(findings) => findings,
        Err(why) => return vec![fault("a file of JSON with \"findings\"", why)],
    };
    let exit = match (run.is_fixed, twin.severity()) {
        (true, _) => 0,
        (false, "error") => ERRORS,
        (false, _) => twin.exit,
    };
    let mut faults = differs("exit code", exit, run.exit);
    match (run.is_fixed, findings.as_slice()) {
        (true, []) => {}
        (true, _) => faults.push(fault("no finding", summary(twin, &findings))),
        (false, [finding]) => faults.extend(compare(twin, finding, run.has_lines)),
        (false, _) => faults.push(fault(format!("one {}", twin.id), summary(twin, &findings))),
    }
    faults
}

/// The findings of a file.
pub fn findings(json: &str) -> Result<Vec<Value>, String> {
    let file: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    file["findings"].as_array().cloned().ok_or_else(|| "no \"findings\"".to_owned())
}

/// A line for each finding: its id and its lines in the file of the twin.
fn summary(twin: &Twin, findings: &[Value]) -> String {
    let one = |finding: &Value| {
        let line = |end: &str| line(twin, finding, end).map_or("?".to_owned(), |line| line.to_string());
        format!("{} access {} work {}", finding["id"].as_str().unwrap_or("?"), line("access"), line("work"))
    };
    let all: Vec<String> = findings.iter().map(one).collect();
    if all.is_empty() { "no finding".to_owned() } else { all.join("; ") }
}

fn compare(twin: &Twin, finding: &Value, has_lines: bool) -> Vec<Fault> {
    let mut faults = differs("id", twin.id.as_str(), finding["id"].as_str().unwrap_or("?"));
    faults.extend(differs("severity", twin.severity(), finding["severity"].as_str().unwrap_or("?")));
    let access = Some(twin.access).filter(|_| has_lines || !twin.is_access());
    faults.extend(differs("access line", access, line(twin, finding, "access")));
    if twin.work.is_some() {
        faults.extend(differs("work line", twin.work, line(twin, finding, "work")));
    }
    let said = ["message", "remedy"].map(|name| finding[name].as_str().unwrap_or_default()).join(" ");
    if !said.contains(&twin.says) {
        faults.push(fault(format!("a text with: {}", twin.says), said));
    }
    if twin.id == "FERRY-DEVICE-POINTER" && !finding["work"].is_null() {
        faults.push(fault("no work", finding["work"].to_string()));
    }
    faults
}

/// The line of the innermost frame that lies in the file of the twin.
fn line(twin: &Twin, finding: &Value, end: &str) -> Option<u64> {
    let frames = finding[end]["stack"].as_array()?;
    let is_here = |frame: &&Value| {
        frame["file"].as_str().is_some_and(|file| file.rsplit('/').next() == Some(twin.name()))
    };
    frames.iter().find(is_here)?["line"].as_u64()
}

fn differs<T: PartialEq + std::fmt::Debug>(what: &str, want: T, got: T) -> Vec<Fault> {
    match want == got {
        true => Vec::new(),
        false => vec![fault(format!("{what} {want:?}"), format!("{got:?}"))],
    }
}

fn fault(expected: impl Into<String>, given: impl Into<String>) -> Fault {
    Fault { expected: expected.into(), given: given.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const SOURCE: &str = "/* CHECK: FERRY-FREE: a. */\nf(); /* WORK */\ng(); /* ACCESS */\n";
    const RIGHT: &str = r#"{"findings":[{"id":"FERRY-FREE","severity":"error",
        "access":{"stack":[{"function":"h","file":"kit.h","line":9},{"function":"g","file":"/x/a.c","line":3},
                           {"function":"main","file":"/x/a.c","line":80}]},
        "work":{"stack":[{"function":"aclrtFree","file":null,"line":null},
                         {"function":"f","file":"a.c","line":2}]}}]}"#;

    fn verdict(source: &str, is_fixed: bool, exit: i32, json: &str) -> Vec<String> {
        let twin = Twin::parse(Path::new("tests/check/a.c"), source).expect("a twin");
        let faults = judge(&twin, &Run { is_fixed, exit, json: json.to_owned(), has_lines: true });
        faults.into_iter().map(|fault| format!("{} != {}", fault.expected, fault.given)).collect()
    }

    #[test]
    fn the_expected_finding_and_silence_pass() {
        assert_eq!(verdict(SOURCE, false, 99, RIGHT), [""; 0]);
        assert_eq!(verdict(SOURCE, true, 0, r#"{"findings":[]}"#), [""; 0]);
        let leak = RIGHT.replace("FREE", "LEAK").replace("error", "warning");
        assert_eq!(verdict(&SOURCE.replace("FREE", "LEAK"), false, 0, &leak), [""; 0]);
    }

    #[test]
    fn every_difference_is_told() {
        let none = r#"{"findings":[]}"#;
        for (json, exit, want) in [
            (none.to_owned(), 99, "one FERRY-FREE != no finding"),
            (RIGHT.to_owned(), 0, "exit code 99 != 0"),
            (RIGHT.replace("FREE", "LOST"), 99, "id \"FERRY-FREE\" != \"FERRY-LOST\""),
            (RIGHT.replace("error", "warning"), 99, "severity \"error\" != \"warning\""),
            (RIGHT.replace("\"line\":3", "\"line\":4"), 99, "access line Some(3) != Some(4)"),
            (RIGHT.replace("\"line\":2", "\"line\":3"), 99, "work line Some(2) != Some(3)"),
            (RIGHT.replace("\"work\"", "\"other\""), 99, "work line Some(2) != None"),
            ("{".to_owned(), 99, "a file of JSON with \"findings\" != EOF while parsing an object"),
        ] {
            let told = verdict(SOURCE, false, exit, &json);
            assert!(told.len() == 1 && told[0].starts_with(want), "{told:?} is not {want}");
        }
        let told = verdict(&format!("/* SAYS: 4 bytes */\n{SOURCE}"), false, 99, RIGHT);
        assert!(told.contains(&"a text with: 4 bytes !=  ".to_owned()), "{told:?}");
        let told = verdict(SOURCE, true, 0, RIGHT);
        assert_eq!(told, ["no finding != FERRY-FREE access 3 work 2"]);
        let twice = RIGHT.replace("]}}]}", "]}},{\"id\":\"FERRY-LOST\"}]}");
        let told = verdict(SOURCE, false, 99, &twice);
        assert_eq!(told, ["one FERRY-FREE != FERRY-FREE access 3 work 2; FERRY-LOST access ? work ?"]);
    }
}
