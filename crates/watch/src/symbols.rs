//! Symbolisation: return addresses of a watched program as function, file and line.
//!
//! A [`Symbols`] takes the facts about what a process has mapped ([`Fact::Module`]), its interpreted lines,
//! its stacks and the names of its functions, and answers questions about addresses afterwards. Debug
//! information is read on the first question about a file, from the file's path: a file that has changed
//! since is not recognised, one that is gone or stripped gives the name of the file and an offset.
//!
//! It does not read memory of the program, follow links to separate debug files, or unpack compressed ones.
//! What it keeps is bounded, whatever the facts say. Arrows: it knows facts; the readers know it.

mod object_file;

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
    answers: HashMap<(u32, u64), Arc<CodePlace>>,
}

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

    /// The place of the call that returns to `address`: a return address, or a [`Line::ADDRESS`].
    pub fn place(&mut self, process: u32, address: u64) -> Arc<CodePlace> {
        if let Some(known) = self.answers.get(&(process, address)) {
            return known.clone();
        }
        let place = Arc::new(self.find(process, address));
        if self.answers.len() >= KEPT_ANSWERS {
            self.answers.clear();
        }
        self.answers.insert((process, address), place.clone());
        place
    }

    fn find(&mut self, process: u32, address: u64) -> CodePlace {
        let unknown = CodePlace { offset: address, ..CodePlace::default() };
        let Some(names) = self.processes.get(&process) else { return unknown };
        if address & Line::ADDRESS != 0 {
            let number = (address & !Line::ADDRESS) as u32;
            return names.lines.get(&number).map_or(unknown, of_line);
        }
        // The instruction behind a call may belong to the next line, or to the next function.
        let Some(call) = address.checked_sub(1) else { return unknown };
        let Some(module) = names.module(call) else { return unknown };
        let offset = module.offset.wrapping_add(call - module.base);
        let path = module.path.clone();
        let object = self.files.entry(path).or_insert_with_key(|path| ObjectFile::open(path));
        let mut place = object.as_ref().map(|object| object.find(offset)).unwrap_or_default();
        place.module = module.path.clone();
        place.offset = offset.wrapping_add(1);
        place
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

fn of_line(line: &Line) -> CodePlace {
    let function = Some(line.function.clone()).filter(|name| !name.is_empty());
    CodePlace { file: Some(line.file.clone()), line: Some(line.line), function, ..CodePlace::default() }
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
