//! A file of `tests/check` as its head and its marks describe it: the finding that its buggy twin gives.

use std::path::{Path, PathBuf};

/// The ids that findings have.
pub const IDS: [&str; 12] = [
    "FERRY-HOST-READ",
    "FERRY-HOST-WRITE",
    "FERRY-FREE",
    "FERRY-STREAM-RACE",
    "FERRY-BATCH-RACE",
    "FERRY-USE-AFTER-FREE",
    "FERRY-DOUBLE-FREE",
    "FERRY-LEAK",
    "FERRY-UNINITIALISED",
    "FERRY-DEVICE-POINTER",
    "FERRY-LOST",
    "FERRY-CAPTURE",
];

/// What a program is written in, by the ending of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cxx,
    Python,
}

/// One file: two programs, and what the checker says of the first of them.
#[derive(Debug)]
pub struct Twin {
    pub path: PathBuf,
    pub language: Language,
    pub id: String,
    /// The lines that are marked.
    pub access: u64,
    pub work: Option<u64>,
    /// Options of `ferry check`, for both twins.
    pub options: Vec<String>,
    /// Flags of the compiler, for both twins.
    pub flags: Vec<String>,
    /// What the message of the finding, or its remedy, has in it.
    pub says: String,
    /// What the buggy twin exits with where nobody checks it; 128 and the number of the signal that ends it.
    pub exit: i32,
    /// Whether the access leaves nothing behind that can be seen without a privileged userfaultfd.
    pub needs_userfaultfd: bool,
}

impl Twin {
    /// Reads head and marks; an error says what is wrong with them.
    pub fn parse(path: &Path, text: &str) -> Result<Twin, String> {
        let language = language(path).ok_or("no program")?;
        let (id, _) = field(text, "CHECK").and_then(|rest| rest.split_once(": ")).ok_or("no line CHECK")?;
        if !IDS.contains(&id) {
            return Err(format!("{id} is no id"));
        }
        let exit = field(text, "EXIT").map_or(Ok(0), |number| number.parse());
        let words = |name| -> Vec<String> {
            field(text, name).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        };
        Ok(Twin {
            path: path.to_owned(),
            language,
            id: id.to_owned(),
            access: marked(text, "ACCESS")?.ok_or("no line is marked ACCESS")?,
            work: marked(text, "WORK")?,
            options: words("OPTIONS"),
            flags: words("FLAGS"),
            says: field(text, "SAYS").unwrap_or_default().to_owned(),
            exit: exit.map_err(|error| format!("EXIT: {error}"))?,
            needs_userfaultfd: field(text, "NEEDS") == Some("userfaultfd"),
        })
    }

    /// The name of the file, by which stacks are searched.
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Whether the mistake is an access of the CPU to memory in flight.
    pub fn is_access(&self) -> bool {
        ["FERRY-HOST-READ", "FERRY-HOST-WRITE"].contains(&self.id.as_str())
    }

    /// Whether no fact tells of the mistake: the CPU must be seen to make it.
    pub fn needs_sight(&self) -> bool {
        self.is_access() || self.id == "FERRY-DEVICE-POINTER"
    }

    /// Leaks do not change the exit code, nor do captures that only `--capture-lint` finds fault with.
    pub fn severity(&self) -> &'static str {
        let is_linted = self.options.iter().any(|option| option == "--capture-lint");
        if self.id == "FERRY-LEAK" || is_linted { "warning" } else { "error" }
    }
}

/// By the file's ending; the files that programs share are no programs.
pub fn language(path: &Path) -> Option<Language> {
    match path.extension()?.to_str()? {
        "c" => Some(Language::C),
        "cc" => Some(Language::Cxx),
        "py" if path.file_name()? != "kit.py" => Some(Language::Python),
        _ => None,
    }
}

/// The rest of the comment line that begins with this word.
fn field<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let comment = line.strip_prefix("/* ").or_else(|| line.strip_prefix("# "))?;
        let rest = comment.strip_prefix(word)?.strip_prefix(": ")?;
        Some(rest.strip_suffix(" */").unwrap_or(rest))
    })
}

/// The number of the one line whose last comment has this mark.
fn marked(text: &str, mark: &str) -> Result<Option<u64>, String> {
    let mut found = (1..).zip(text.lines()).filter(|(_, line)| marks(line).any(|word| word == mark));
    match (found.next(), found.next()) {
        (Some((line, _)), None) => Ok(Some(line)),
        (None, _) => Ok(None),
        _ => Err(format!("two lines are marked {mark}")),
    }
}

/// The words of the comment at the end of a line, if all of them are marks.
fn marks(line: &str) -> impl Iterator<Item = &str> {
    let c = line.strip_suffix(" */").and_then(|line| line.rsplit_once("/* "));
    let words = c.or_else(|| line.rsplit_once("  # ")).map_or("", |(_, words)| words);
    let is_mark = |word: &str| word == "ACCESS" || word == "WORK";
    words.split(' ').filter(move |_| words.split(' ').all(is_mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, text: &str) -> Result<Twin, String> {
        Twin::parse(Path::new(name), text)
    }

    #[test]
    fn heads_and_marks_are_read() {
        let text = "/* CHECK: FERRY-LEAK: a. */\n/* OPTIONS: --leaks -v */\n/* EXIT: 139 */\n\
                    f(); /* ACCESS */\n/* FLAGS: -O2 -g1 */\n";
        let twin = parse("a/b.c", text).expect("a twin");
        assert_eq!((twin.name(), twin.id.as_str(), twin.severity()), ("b.c", "FERRY-LEAK", "warning"));
        assert_eq!((twin.access, twin.work, twin.exit), (4, None, 139));
        assert_eq!(
            (twin.options, twin.flags),
            (vec!["--leaks".into(), "-v".into()], vec!["-O2".into(), "-g1".into()])
        );
        let text = "# CHECK: FERRY-LOST: a\n# b.\n# NEEDS: userfaultfd\nf()  # WORK ACCESS\n";
        let twin = parse("b.py", text).expect("a twin");
        assert_eq!((twin.access, twin.work, twin.severity()), (4, Some(4), "error"));
        assert!(twin.needs_userfaultfd && twin.language == Language::Python);
    }

    #[test]
    fn what_is_wrong_with_a_head_is_said() {
        for (text, want) in [
            ("f(); /* ACCESS */\n", "no line CHECK"),
            ("/* CHECK: FERRY-OTHER: a */\nf(); /* ACCESS */\n", "FERRY-OTHER is no id"),
            ("/* CHECK: FERRY-FREE: a */\nf(); /* an ACCESS */\n", "no line is marked ACCESS"),
            (
                "/* CHECK: FERRY-FREE: a */\nf(); /* ACCESS */\ng(); /* ACCESS */\n",
                "two lines are marked ACCESS",
            ),
        ] {
            assert_eq!(parse("a.c", text).map(|_| ()), Err(want.to_owned()), "{text}");
        }
        assert!(parse("kit.py", "").is_err() && parse("kit.h", "").is_err());
    }
}
