//! Symbolisation: return addresses of a watched program as function, file and line. Optimised code has
//! several of them at one address: the function that was inlined there, and those that it was inlined into.
//!
//! A [`Symbols`] takes the facts about what a process has mapped ([`Fact::Module`]), its interpreted lines,
//! its stacks and the names of its functions, and answers questions about addresses afterwards. Debug
//! information is read on the first question about a file, from the file's path: a file that has changed
//! since is not recognised, one that is gone or stripped gives the name of the file and an offset.
//!
//! It does not read memory of the program, follow links to separate debug files, or unpack compressed ones.
//! What it keeps is bounded, whatever the facts say. Arrows: it knows facts; the readers know it.

mod object_file;
mod toolchain;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::fact::{Fact, FactReader, FactSource, Line, LoadedFile};

use object_file::ObjectFile;

/// Stacks, lines and mapped files of one process past this number are not kept.
const KEPT_PER_PROCESS: usize = 1 << 16;
/// Processes past this number have no names.
const KEPT_PROCESSES: usize = 1 << 12;
/// Answers that are remembered; past this number they are found again.
const KEPT_ANSWERS: usize = 1 << 16;

/// Names for addresses, by process.
#[derive(Default)]
pub struct Symbols {
    processes: HashMap<u32, ProcessNames>,
    files: HashMap<String, Option<ObjectFile>>,
    answers: HashMap<(u32, u64), Inlined>,
}

/// The places of one address, the innermost first; never empty.
type Inlined = Arc<[Arc<CodePlace>]>;

/// What one process said about its addresses.
#[derive(Default)]
struct ProcessNames {
    has_started: bool,
    /// The names of functions, from index 1 on.
    functions: Vec<String>,
    /// Mapped files by their first address; none overlaps another.
    modules: BTreeMap<u64, LoadedFile>,
    lines: HashMap<u32, Line>,
    stacks: HashMap<u32, Vec<u64>>,
}

/// The place in a program's code that an address belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodePlace {
    /// The source file, as the debug information or the interpreter names it.
    pub file: Option<String>,
    /// The line in it, from 1; `None` if only the file is known.
    pub line: Option<u32>,
    /// The function, demangled. Without debug information the nearest symbol before the address.
    pub function: Option<String>,
    /// The path of the executable file or library; empty if the address is in none.
    pub module: String,
    /// The address as the file `module` counts it, or as it is if there is no such file.
    pub offset: u64,
}

impl CodePlace {
    /// `file.c:12` where that is known, else `libfoo.so+0x1234`.
    pub fn position(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            _ if self.module.is_empty() => format!("{:#x}", self.offset),
            _ => format!("{}+{:#x}", file_name(&self.module), self.offset),
        }
    }
}

impl fmt::Display for CodePlace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.position())?;
        match &self.function {
            Some(function) if self.file.is_some() => write!(f, " in {function}"),
            Some(function) => write!(f, " near {function}"),
            None => Ok(()),
        }
    }
}

impl FactReader for Symbols {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        let is_named = matches!(
            fact,
            Fact::Functions(_) | Fact::Module(_) | Fact::Line(_) | Fact::Stack { .. } | Fact::Started(_)
        );
        let is_full = self.processes.len() >= KEPT_PROCESSES;
        if !is_named || is_full && !self.processes.contains_key(&source.process) {
            return;
        }
        if let Fact::Started(_) | Fact::Module(_) = fact {
            self.answers.retain(|(process, _), _| *process != source.process);
        }
        let process = self.processes.entry(source.process).or_default();
        match fact {
            // The number of a process that is gone may be that of a new one. Names that come before the first
            // such fact belong to the same process.
            Fact::Started(_) if process.has_started => {
                *process = ProcessNames { has_started: true, ..ProcessNames::default() };
            }
            Fact::Started(_) => process.has_started = true,
            Fact::Functions(names) => process.functions = names.lines().map(str::to_owned).collect(),
            Fact::Module(module) => process.map(module),
            Fact::Line(line) if process.lines.len() < KEPT_PER_PROCESS => {
                process.lines.insert(line.number, line.clone());
            }
            Fact::Stack { number, frames } if process.stacks.len() < KEPT_PER_PROCESS => {
                process.stacks.insert(*number, frames.clone());
            }
            _ => {}
        }
    }
}

impl Symbols {
    /// The name of the function with that index ([`CallSite::function`](crate::fact::CallSite::function)).
    pub fn function(&self, process: u32, index: u16) -> Option<&str> {
        let names = &self.processes.get(&process)?.functions;
        names.get(usize::from(index).checked_sub(1)?).map(String::as_str)
    }

    /// The return addresses of a stack, the innermost first; none if it is not known.
    pub fn stack(&self, process: u32, number: u32) -> &[u64] {
        let stack = self.processes.get(&process).and_then(|process| process.stacks.get(&number));
        stack.map_or(&[], Vec::as_slice)
    }

    /// The places of the call that returns to `address`, which is a return address or a [`Line::ADDRESS`]:
    /// the innermost first, then those of the functions that it was inlined into. At least one.
    pub fn places(&mut self, process: u32, address: u64) -> Arc<[Arc<CodePlace>]> {
        if let Some(known) = self.answers.get(&(process, address)) {
            return known.clone();
        }
        let places: Inlined = self.find(process, address).into_iter().map(Arc::new).collect();
        if self.answers.len() >= KEPT_ANSWERS {
            self.answers.clear();
        }
        self.answers.insert((process, address), places.clone());
        places
    }

    /// The one of them that the program's author looks for: the innermost whose line is known and that is not
    /// in a header of the compiler or the system.
    pub fn place(&mut self, process: u32, address: u64) -> Arc<CodePlace> {
        self.authored(process, address).swap_remove(0)
    }

    /// That place, and those of the functions that it was inlined into.
    pub fn authored(&mut self, process: u32, address: u64) -> Vec<Arc<CodePlace>> {
        let places = self.places(process, address);
        let first = authored(places.iter().map(|place| (place.file.as_deref(), place.line)));
        places[first..].to_vec()
    }

    /// The same as one line of text.
    pub fn text(&mut self, process: u32, address: u64) -> String {
        let places = self.authored(process, address);
        let told: Vec<String> = places.iter().map(|place| place.to_string()).collect();
        told.join(", inlined at ")
    }

    fn find(&mut self, process: u32, address: u64) -> Vec<CodePlace> {
        let unknown = || vec![CodePlace { offset: address, ..CodePlace::default() }];
        let Some(names) = self.processes.get(&process) else { return unknown() };
        if address & Line::ADDRESS != 0 {
            let number = (address & !Line::ADDRESS) as u32;
            return names.lines.get(&number).map_or_else(unknown, |line| vec![of_line(line)]);
        }
        // The instruction behind a call may belong to the next line, or to the next function.
        let Some(call) = address.checked_sub(1) else { return unknown() };
        let Some(module) = names.module(call) else { return unknown() };
        let offset = module.offset.wrapping_add(call - module.base);
        let path = module.path.clone();
        let object = self.files.entry(path).or_insert_with_key(|path| ObjectFile::open(path));
        let places = object.as_ref().map_or_else(|| vec![CodePlace::default()], |object| object.find(offset));
        let (module, offset) = (&module.path, offset.wrapping_add(1));
        places.into_iter().map(|place| CodePlace { module: module.clone(), offset, ..place }).collect()
    }
}

impl Symbols {
    /// All processes are over: their numbers may be those of others. What is known of files stays.
    pub fn forget_all(&mut self) {
        self.processes.clear();
        self.answers.clear();
    }
}

impl ProcessNames {
    /// Takes a mapping, in place of those that were at its addresses before.
    fn map(&mut self, module: &LoadedFile) {
        let overlapping = self.modules.range(..module.end).rev();
        let overlapping = overlapping.take_while(|(_, other)| other.end > module.base);
        for base in overlapping.map(|(base, _)| *base).collect::<Vec<_>>() {
            self.modules.remove(&base);
        }
        if module.base < module.end && self.modules.len() < KEPT_PER_PROCESS {
            self.modules.insert(module.base, module.clone());
        }
    }

    fn module(&self, address: u64) -> Option<&LoadedFile> {
        let (_, module) = self.modules.range(..=address).next_back()?;
        (address < module.end).then_some(module)
    }
}

/// The index of the innermost frame, by its file and line, that the program's author wrote: its line is known
/// and it is in no header of the compiler or the system. Files that are not on this machine, as those that an
/// interpreter was built from, come second. Else it is the innermost with a line, else the first.
pub(crate) fn authored<'a>(frames: impl Iterator<Item = (Option<&'a str>, Option<u32>)> + Clone) -> usize {
    let has_line = |(_, line): (Option<&str>, Option<u32>)| line.is_some();
    let is_authored = |frame: (Option<&str>, Option<u32>)| {
        has_line(frame) && !frame.0.is_some_and(toolchain::is_of_toolchain)
    };
    let is_gone = |file: &str| file.starts_with('/') && !Path::new(file).exists();
    let is_here = |frame: (Option<&str>, Option<u32>)| is_authored(frame) && !frame.0.is_some_and(is_gone);
    let here = frames.clone().position(is_here);
    here.or_else(|| frames.clone().position(is_authored))
        .or_else(|| frames.clone().position(has_line))
        .unwrap_or_default()
}

fn of_line(line: &Line) -> CodePlace {
    let function = Some(line.function.clone()).filter(|name| !name.is_empty());
    CodePlace { file: Some(line.file.clone()), line: Some(line.line), function, ..CodePlace::default() }
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
