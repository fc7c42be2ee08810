//! `cargo xtask requirements`: which test proves which documented statement.
//!
//! `docs/requirements.txt` lists every numbered statement of the documents with its state. A test claims
//! numbers by a comment `// proves: R7 R44` (`# proves:` in Python) right above its function, or at the top
//! of a C file or an example. This collects the claims, writes `docs/requirements.md`, and complains when
//! list, claims and page do not fit together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const LIST: &str = "docs/requirements.txt";
const PAGE: &str = "docs/requirements.md";
const FOLDERS: &[&str] = &["tests", "crates", "examples"];

/// Every number there is; a line that gets lost from the list must be noticed.
const NUMBERS: &[(char, u32, u32)] = &[
    ('R', 1, 18),
    ('R', 20, 34),
    ('R', 40, 64),
    ('R', 70, 78),
    ('N', 1, 16),
    ('D', 1, 26),
    ('G', 1, 39),
    ('Y', 1, 17),
    ('X', 1, 10),
    ('F', 1, 4),
    ('F', 6, 9),
    ('F', 12, 12),
];

#[derive(Debug, PartialEq)]
enum State {
    /// Some test fails when the statement does not hold.
    Test,
    /// As `Test`, for the part that is built; the rest comes later.
    Partly(String),
    /// Nothing of it is built yet.
    Later(String),
    /// It states nothing that a test could see.
    NothingToTest(String),
}

#[derive(Debug)]
enum Line {
    Heading(String),
    Entry { number: String, state: State, statement: String },
}

/// Number to the places that claim it.
type Claims = BTreeMap<String, BTreeSet<String>>;

/// Writes the page; fails when a number has no proof or a claim fits no number.
pub fn write(root: &Path) -> Result<(), String> {
    let (page, problems) = examine(root)?;
    std::fs::write(root.join(PAGE), page).map_err(|e| format!("{PAGE}: {e}"))?;
    println!("wrote {PAGE}");
    report(problems)
}

/// Writes nothing; fails also when the page on disk is not what `write` would write.
pub fn check(root: &Path) -> Result<(), String> {
    let (page, mut problems) = examine(root)?;
    if std::fs::read_to_string(root.join(PAGE)).ok() != Some(page) {
        problems.push(format!("{PAGE} is stale: run `cargo xtask requirements`"));
    }
    report(problems)
}

fn report(problems: Vec<String>) -> Result<(), String> {
    match problems.len() {
        0 => Ok(()),
        n => Err(format!("{n} problem(s) with the requirements:\n  {}", problems.join("\n  "))),
    }
}

fn examine(root: &Path) -> Result<(String, Vec<String>), String> {
    let text = std::fs::read_to_string(root.join(LIST)).map_err(|e| format!("{LIST}: {e}"))?;
    let lines = parse(&text)?;
    let mut claims = Claims::new();
    let mut problems = Vec::new();
    for path in FOLDERS.iter().flat_map(|folder| files(&root.join(folder))) {
        // Not text, so not a test.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        problems.extend(collect(&name, &text, &mut claims));
    }
    problems.extend(judge(&lines, &claims));
    Ok((page(&lines, &claims), problems))
}

/// Reads `number | state | statement` lines, `## ` headings, and `#` comments.
fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let bad = |what: &str| format!("{LIST}, line {}: {what}: {line}", index + 1);
        if let Some(heading) = line.strip_prefix("## ") {
            lines.push(Line::Heading(heading.to_owned()));
        } else if !line.is_empty() && !line.starts_with('#') {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            let [number, state, statement] = fields[..] else {
                return Err(bad("not `number | state | statement`"));
            };
            let state =
                parse_state(state).ok_or_else(|| bad("unknown state, or a state without its reason"))?;
            lines.push(Line::Entry { number: number.to_owned(), state, statement: statement.to_owned() });
        }
    }
    Ok(lines)
}

fn parse_state(text: &str) -> Option<State> {
    if text == "test" {
        return Some(State::Test);
    }
    let (word, reason) = text.split_once(':')?;
    let reason = reason.trim();
    let state = match word {
        "partly" => State::Partly,
        "later" => State::Later,
        "nothing-to-test" => State::NothingToTest,
        _ => return None,
    };
    (!reason.is_empty()).then(|| state(reason.to_owned()))
}

/// Adds the claims of one file; gives back complaints about claims that stand nowhere.
fn collect(name: &str, text: &str, claims: &mut Claims) -> Vec<String> {
    let mut problems = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some(numbers) = marker(line) else { continue };
        let place = match place(name, line, &lines[index + 1..]) {
            Some(place) => place,
            None => {
                problems.push(format!("{name}: `{}` stands above no function", line.trim()));
                continue;
            }
        };
        for number in numbers.split([' ', ',']).filter(|word| !word.is_empty()) {
            claims.entry(number.to_owned()).or_default().insert(place.clone());
        }
    }
    problems
}

/// The numbers of a marker line in any of our languages.
fn marker(line: &str) -> Option<&str> {
    let line = line.trim();
    let text = ["//", "/*", "*", "#"].iter().find_map(|start| line.strip_prefix(start))?;
    Some(text.trim_start().strip_prefix("proves:")?.trim_end_matches("*/"))
}

/// A claim in Rust, or in a test of Python's, belongs to the function below it, any other to its file.
fn place(name: &str, claim: &str, below: &[&str]) -> Option<String> {
    let rest = match name.rsplit_once('.') {
        Some((_, "rs")) => {
            let function = below.iter().find(|line| !between(line))?;
            function.split_once("fn ")?.1
        }
        Some((_, "py")) if name.split('/').next_back()?.starts_with("test_") => {
            let function = below.iter().find(|line| !between_python(line, indent(claim)))?.trim_start();
            // What is no test proves nothing.
            function.trim_start_matches("async ").strip_prefix("def ").filter(|it| it.starts_with("test"))?
        }
        _ => return Some(name.to_owned()),
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(format!("{name}: {}", &rest[..end]))
}

/// Lines that may stand between a claim and its function.
fn between(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("//") || line.starts_with("#[") || line == "proptest! {"
}

/// The same in Python, where a decorator may take several lines.
fn between_python(line: &str, margin: usize) -> bool {
    let start = line.trim_start().chars().next();
    indent(line) > margin || matches!(start, Some('#' | '@' | ')' | ']' | '}'))
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn judge(lines: &[Line], claims: &Claims) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for line in lines {
        let Line::Entry { number, state, .. } = line else { continue };
        if !seen.insert(number.clone()) {
            problems.push(format!("{number} is listed twice in {LIST}"));
        }
        match (state, claims.get(number)) {
            (State::Test | State::Partly(_), None) => problems.push(format!("{number} is proved by no test")),
            (State::Later(_) | State::NothingToTest(_), Some(places)) => {
                let places = places.iter().cloned().collect::<Vec<_>>().join(", ");
                problems.push(format!("{number} is listed as not tested, but is claimed by {places}"));
            }
            _ => {}
        }
    }
    let all: BTreeSet<String> = NUMBERS
        .iter()
        .flat_map(|&(letter, from, to)| (from..=to).map(move |n| format!("{letter}{n}")))
        .collect();
    problems.extend(all.difference(&seen).map(|number| format!("{number} is missing from {LIST}")));
    problems.extend(
        seen.difference(&all).map(|number| format!("{number} in {LIST} is no number of the documents")),
    );
    for (number, places) in claims.iter().filter(|(number, _)| !all.contains(*number)) {
        let places = places.iter().cloned().collect::<Vec<_>>().join(", ");
        problems.push(format!("{number:?} is no number of the documents, but is claimed by {places}"));
    }
    problems
}

fn page(lines: &[Line], claims: &Claims) -> String {
    let mut page = String::from(
        "# What the documents say, and which test proves it\n\n\
         Written by `cargo xtask requirements` from `docs/requirements.txt` and the `proves:` comments of \
         the\ntests; do not edit. R numbers come from the founding documents, N numbers from newer \
         ones, D numbers are about\nthe runtime around the copies, Y numbers about notifies and IPC \
         events, X numbers are rules that cut across \
         functions,\nF numbers are what real cards do against the documents (`FERRY_QUIRKS`).\n",
    );
    for line in lines {
        match line {
            Line::Heading(text) => {
                let _ = write!(page, "\n## {text}\n\n| number | statement | proved by |\n|---|---|---|\n");
            }
            Line::Entry { number, state, statement } => {
                let proof = proof(state, claims.get(number));
                let _ = writeln!(page, "| {number} | {statement} | {proof} |");
            }
        }
    }
    page
}

fn proof(state: &State, places: Option<&BTreeSet<String>>) -> String {
    let none = BTreeSet::new();
    let mut parts: Vec<String> = places.unwrap_or(&none).iter().map(|place| format!("`{place}`")).collect();
    match state {
        State::Test | State::Partly(_) if parts.is_empty() => parts.push("**no test**".into()),
        State::Test => {}
        State::Partly(rest) => parts.push(format!("*not yet: {rest}*")),
        State::Later(why) => parts.push(format!("*not built yet: {why}*")),
        State::NothingToTest(why) => parts.push(format!("*nothing to test: {why}*")),
    }
    parts.join("<br>")
}

/// Every file below a folder, in order; none when the folder is not there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(list: &str, file: &str) -> String {
        let mut claims = Claims::new();
        let mut problems = collect("tests/a.rs", file, &mut claims);
        problems.extend(judge(&parse(list).expect("a good list"), &claims));
        // The numbers that these small lists leave out are not what is tested here.
        problems.retain(|problem| !problem.contains("is missing from"));
        problems.join("\n")
    }

    #[test]
    fn list_and_claims_must_fit_together() {
        let proof = "// proves: R1\n#[test]\nfn good() {}\n";
        for (list, file, want) in [
            ("R1 | test | a", proof, ""),
            ("R1 | partly: half | a", proof, ""),
            ("R1 | later: soon | a", "", ""),
            ("R1 | test | a", "", "R1 is proved by no test"),
            ("R1 | later: soon | a", proof, "R1 is listed as not tested, but is claimed by tests/a.rs: good"),
            (
                "R1 | nothing-to-test: x | a",
                proof,
                "R1 is listed as not tested, but is claimed by tests/a.rs: good",
            ),
            ("R1 | test | a\nR1 | test | a", proof, "R1 is listed twice in docs/requirements.txt"),
            ("R19 | later: x | a", "", "R19 in docs/requirements.txt is no number of the documents"),
            (
                "",
                "// proves: R19\nfn f() {}",
                "\"R19\" is no number of the documents, but is claimed by tests/a.rs: f",
            ),
            (
                "R1 | later: x | a",
                "// proves: R1\nlet x;",
                "tests/a.rs: `// proves: R1` stands above no function",
            ),
        ] {
            assert_eq!(complaints(list, file), want, "{list:?} with {file:?}");
        }
    }

    #[test]
    fn a_claim_in_python_must_stand_above_a_test() {
        for text in [
            "",
            "\ndef test_f():",
            "import acl\ndef test_f():",
            "def helper():",
            "class TestAll:\n    def test_f():",
        ] {
            let problems = collect("test_a.py", &format!("# proves: R1\n{text}"), &mut Claims::new());
            assert_eq!(problems, ["test_a.py: `# proves: R1` stands above no function"], "{text:?}");
        }
    }

    #[test]
    fn a_lost_line_is_noticed() {
        let problems = judge(&[], &Claims::new());
        let all: u32 = NUMBERS.iter().map(|(_, from, to)| to - from + 1).sum();
        assert_eq!(problems.len(), all as usize);
        assert!(problems.contains(&format!("R34 is missing from {LIST}")));
    }

    #[test]
    fn lists_that_cannot_be_read_are_refused() {
        for list in ["R1 | test", "R1 | tset | a", "R1 | later | a", "R1 | later: | a", "R1 | test | a | b"] {
            assert!(parse(list).is_err(), "{list}");
        }
    }

    #[test]
    fn a_claim_is_found_in_every_language() {
        for (name, text, place) in [
            ("a.rs", "    // proves: R1 N2\n    // why\n    #[test]\n    fn f() {}", "a.rs: f"),
            ("a.rs", "// proves: R1 N2\npub(crate) unsafe fn g<T>() {}", "a.rs: g"),
            ("a.c", "// proves: R1 N2\n#include <acl/acl.h>", "a.c"),
            ("a.c", "/* proves: R1 N2 */", "a.c"),
            ("examples/python/a.py", "# proves: R1, N2\nimport acl", "examples/python/a.py"),
            ("tests/test_a.py", "# proves: R1 N2\n# why\ndef test_f(stream):", "tests/test_a.py: test_f"),
            ("test_a.py", "    # proves: R1 N2\n    async def test_f(self):", "test_a.py: test_f"),
            (
                "test_a.py",
                "# proves: R1 N2\n@mark.slow\n@mark.each(\n    'x', [\n    ]\n)\ndef test_f(x):",
                "test_a.py: test_f",
            ),
            ("test_a.py", "# proves: R1\n# proves: N2\ndef test_f():", "test_a.py: test_f"),
        ] {
            let mut claims = Claims::new();
            assert_eq!(collect(name, text, &mut claims), Vec::<String>::new(), "{text}");
            let want = BTreeSet::from([place.to_owned()]);
            assert_eq!(claims, BTreeMap::from([("R1".into(), want.clone()), ("N2".into(), want)]), "{text}");
        }
    }
}
