//! What npu-smi is asked: a command and its options, in any order.

use std::ffi::OsString;

/// What is wanted.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    Help,
    Version,
    Info(Topic),
}

/// What `info` is to be about.
#[derive(Debug, PartialEq, Eq)]
pub enum Topic {
    All,
    List,
    Mapping,
    Topology,
    Card { query: Query, card: usize, chip: Option<usize> },
}

/// What can be asked about a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    Board,
    Common,
    Health,
    Memory,
    Processes,
    Product,
    Usages,
}

const QUERIES: [(&str, Query); 7] = [
    ("board", Query::Board),
    ("common", Query::Common),
    ("health", Query::Health),
    ("memory", Query::Memory),
    ("proc-mem", Query::Processes),
    ("product", Query::Product),
    ("usages", Query::Usages),
];

/// The options of `info` as they were given.
#[derive(Default)]
struct Given {
    list: bool,
    mapping: bool,
    kind: Option<String>,
    card: Option<usize>,
    chip: Option<usize>,
}

impl Request {
    /// Reads the arguments behind the command's name; an error is a sentence for the person.
    pub fn parse(arguments: &[OsString]) -> Result<Request, String> {
        let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let is_asked = |names: [&str; 2]| words.iter().any(|word| names.contains(&word.as_str()));
        if is_asked(["-h", "--help"]) {
            return Ok(Request::Help);
        }
        match words.first().map(String::as_str) {
            None => Err("no command".to_owned()),
            Some("-v" | "--version") => Ok(Request::Version),
            Some("info") => Given::parse(&words[1..])?.topic().map(Request::Info),
            Some(other) => Err(format!("unknown command '{other}'")),
        }
    }
}

impl Given {
    fn parse(words: &[String]) -> Result<Given, String> {
        let (mut given, mut words) = (Given::default(), words.iter());
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            match word.as_str() {
                "-l" => given.list = true,
                "-m" => given.mapping = true,
                "-t" => given.kind = Some(value()?.clone()),
                "-i" => given.card = Some(number(word, value()?)?),
                "-c" => given.chip = Some(number(word, value()?)?),
                other => return Err(format!("unknown option '{other}' of info")),
            }
        }
        Ok(given)
    }

    fn topic(self) -> Result<Topic, String> {
        let Some(kind) = self.kind else { return self.without_type() };
        if self.list || self.mapping {
            return Err("-t goes with neither -l nor -m".to_owned());
        }
        if kind == "topo" {
            return Ok(Topic::Topology);
        }
        let known = QUERIES.iter().find(|(name, _)| *name == kind);
        let (_, query) = known.ok_or_else(|| format!("unknown type '{kind}'"))?;
        let card = self.card.ok_or_else(|| format!("-t {kind} wants a card: -i CARD"))?;
        Ok(Topic::Card { query: *query, card, chip: self.chip })
    }

    fn without_type(self) -> Result<Topic, String> {
        match (self.list, self.mapping, self.card.or(self.chip)) {
            (_, _, Some(_)) => Err("-i and -c want a type: -t TYPE".to_owned()),
            (true, true, None) => Err("-l does not go with -m".to_owned()),
            (true, false, None) => Ok(Topic::List),
            (false, true, None) => Ok(Topic::Mapping),
            (false, false, None) => Ok(Topic::All),
        }
    }
}

fn number(option: &str, text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{option} {text}: not a number"))
}
