//! The command line of npu-smi: a command and its options, in any order.

use std::ffi::OsString;

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub enum SmiRequest {
    /// `-h`.
    Help,
    /// `-v`.
    Version,
    /// `info`.
    Info(Topic),
}

/// What `info` is to be about.
#[derive(Debug, PartialEq, Eq)]
pub enum Topic {
    /// All devices and the processes that use them.
    All,
    /// `-l`: the cards.
    List,
    /// `-m`: which card and chip each device is.
    Mapping,
    /// `-t topo`: how the devices are connected.
    Topology,
    /// `-t TYPE` of a card, or of one chip of it.
    Card { query: CardQuery, card: usize, chip: Option<usize> },
}

/// What can be asked about a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardQuery {
    Board,
    Common,
    Health,
    Memory,
    Processes,
    Product,
    Usages,
}

const QUERIES: [(&str, CardQuery); 7] = [
    ("board", CardQuery::Board),
    ("common", CardQuery::Common),
    ("health", CardQuery::Health),
    ("memory", CardQuery::Memory),
    ("proc-mem", CardQuery::Processes),
    ("product", CardQuery::Product),
    ("usages", CardQuery::Usages),
];

/// The options of `info` as they were given.
#[derive(Default)]
struct InfoOptions {
    list: bool,
    mapping: bool,
    kind: Option<String>,
    card: Option<usize>,
    chip: Option<usize>,
}

impl SmiRequest {
    /// Reads the arguments behind the command's name; an error is a sentence for the person.
    pub fn parse(arguments: &[OsString]) -> Result<SmiRequest, String> {
        let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let is_asked = |names: [&str; 2]| words.iter().any(|word| names.contains(&word.as_str()));
        if is_asked(["-h", "--help"]) {
            return Ok(SmiRequest::Help);
        }
        match words.first().map(String::as_str) {
            None => Err("no command".to_owned()),
            Some("-v" | "--version") => Ok(SmiRequest::Version),
            Some("info") => InfoOptions::parse(&words[1..])?.topic().map(SmiRequest::Info),
            Some(other) => Err(format!("unknown command '{other}'")),
        }
    }
}

impl InfoOptions {
    fn parse(words: &[String]) -> Result<InfoOptions, String> {
        let (mut options, mut words) = (InfoOptions::default(), words.iter());
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            match word.as_str() {
                "-l" => options.list = true,
                "-m" => options.mapping = true,
                "-t" => options.kind = Some(value()?.clone()),
                "-i" => options.card = Some(number(word, value()?)?),
                "-c" => options.chip = Some(number(word, value()?)?),
                other => return Err(format!("unknown option '{other}' of info")),
            }
        }
        Ok(options)
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
