//! Debug information and symbol tables of one ELF file.
//!
//! Sections are read from the file when it is opened, each into memory of its own, so that a file that is
//! replaced or cut meanwhile cannot fault this process. Whatever is damaged counts as not there.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, RunTimeEndian, SectionId};
use object::read::ReadCache;
use object::{Object, ObjectSection, ObjectSymbol};

use super::CodePlace;

/// Debug information of more bytes than this is not read: names come from the symbol table.
const READ_DEBUG_INFORMATION: u64 = 1 << 30;
/// Functions inlined into each other that are told of one address.
const KEPT_INLINED: usize = 64;

type Section = EndianArcSlice<RunTimeEndian>;

/// What one ELF file says about addresses in it.
pub(super) struct ObjectFile {
    lines: Option<Context<Section>>,
    /// Address and mangled name of functions, sorted.
    functions: Vec<(u64, Box<str>)>,
}

impl ObjectFile {
    /// Reads a file. `None` if it cannot be read or is no ELF file; pipes and devices are not opened.
    pub(super) fn open(path: &str) -> Option<ObjectFile> {
        let path = Path::new(path);
        let cache = ReadCache::new(path.is_file().then(|| File::open(path).ok()).flatten()?);
        let file = object::File::parse(&cache).ok()?;
        let mut functions: Vec<_> = file.symbols().filter_map(function).collect();
        if functions.is_empty() {
            functions = file.dynamic_symbols().filter_map(function).collect();
        }
        functions.sort_unstable();
        Some(ObjectFile { lines: lines(&file), functions })
    }

    /// Function, file and line of an address, as the file counts addresses: of the function that was inlined
    /// there, then of the one that it was inlined into, and so on. At least one.
    pub(super) fn find(&self, address: u64) -> Vec<CodePlace> {
        let mut places = self.inlined(address).unwrap_or_default();
        if places.is_empty() {
            places.push(CodePlace::default());
        }
        // Only the outermost function has a symbol of its own.
        let outermost = places.last_mut().expect("at least one");
        if outermost.function.is_none() {
            outermost.function = self.nearest(address);
        }
        places
    }

    fn inlined(&self, address: u64) -> Option<Vec<CodePlace>> {
        let mut frames = self.lines.as_ref()?.find_frames(address).skip_all_loads().ok()?;
        let mut places = Vec::new();
        while let Ok(Some(frame)) = frames.next()
            && places.len() < KEPT_INLINED
        {
            let location = frame.location.as_ref();
            let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
            places.push(CodePlace {
                file: location.and_then(|location| location.file).map(str::to_owned),
                line: location.and_then(|location| location.line).filter(|line| *line > 0),
                function: name.map(|name| demangled(&name)),
                ..CodePlace::default()
            });
        }
        Some(places)
    }

    fn nearest(&self, address: u64) -> Option<String> {
        let behind = self.functions.partition_point(|(start, _)| *start <= address);
        self.functions.get(behind.checked_sub(1)?).map(|(_, name)| demangled(name))
    }
}

fn demangled(name: &str) -> String {
    // A name of C may be the code of a type: `w` would become `wchar_t`.
    let is_mangled = ["_Z", "__Z", "_R"].iter().any(|start| name.starts_with(start));
    if is_mangled { addr2line::demangle_auto(name.into(), None).into_owned() } else { name.to_owned() }
}

fn function<'a>(symbol: impl ObjectSymbol<'a>) -> Option<(u64, Box<str>)> {
    let is_function = symbol.is_definition() && symbol.kind() == object::SymbolKind::Text;
    let name = symbol.name().ok().filter(|name| !name.is_empty())?;
    is_function.then(|| (symbol.address(), name.into()))
}

/// The debug information; `None` if there is none.
fn lines<'a>(file: &impl Object<'a>) -> Option<Context<Section>> {
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let debug = file.sections().filter(|section| section.name().is_ok_and(|name| name.starts_with(".debug")));
    let size = debug.fold(0u64, |size, section| size.saturating_add(section.size()));
    if size == 0 || size > READ_DEBUG_INFORMATION {
        return None;
    }
    let read = |id: SectionId| -> Result<Section, gimli::Error> {
        let section = file.section_by_name(id.name());
        let data = section.and_then(|section| section.data().ok()).unwrap_or_default();
        Ok(Section::new(Arc::from(data), endian))
    };
    Context::from_dwarf(Dwarf::load(read).ok()?).ok()
}
