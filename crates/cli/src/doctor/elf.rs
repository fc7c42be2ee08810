//! What one program or library wants from others, read from its ELF file: libraries, names, and names that it
//! may look up itself.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, SectionHeader, Sym};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, SectionIndex};

type Header = FileHeader64<Endianness>;
type Sections<'a, R> = object::read::elf::SectionTable<'a, Header, R>;

const MACHINE: elf::Machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };

/// Read-only data past this many bytes is not searched for names that dlsym may look up.
const SEARCHED_CONSTANTS: u64 = 64 << 20;

/// What the loader and this report need of an ELF file. Of the symbols, only those of AscendCL's libraries.
#[derive(Default)]
pub struct Object {
    pub path: PathBuf,
    /// The libraries that the loader is to find.
    pub needed: Vec<String>,
    /// Where it says they are: the old way, which comes before LD_LIBRARY_PATH, and the new way, which comes
    /// after.
    pub rpath: Vec<PathBuf>,
    pub runpath: Vec<PathBuf>,
    /// Names without which it does not start.
    pub wants: BTreeSet<String>,
    /// Names that it has for others.
    pub has: BTreeSet<String>,
    /// Names among its constants: it may look these up with dlsym.
    pub asks: BTreeSet<String>,
}

/// Reads a file; `None` if it is no program or library of this processor, with sections. Pipes and devices
/// may have no end, and are not opened.
pub fn read(path: &Path) -> Option<Object> {
    let cache = ReadCache::new(path.is_file().then(|| File::open(path).ok()).flatten()?);
    let mut object = Object { path: path.to_owned(), ..Object::default() };
    let is_ours = object.fill(&cache).ok()?;
    is_ours.then_some(object)
}

impl Object {
    /// Reads all of it; false if another processor, or no loader, is meant to read it.
    fn fill<'a, R: ReadRef<'a>>(&mut self, data: R) -> object::Result<bool> {
        let header = Header::parse(data)?;
        let endian = header.endian()?;
        if header.e_machine(endian) != MACHINE || !matches!(header.e_type(endian), elf::ET_EXEC | elf::ET_DYN)
        {
            return Ok(false);
        }
        let sections = header.sections(endian, data)?;
        self.read_dynamic(endian, data, &sections)?;
        let mut looks_up = false;
        let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
        for symbol in symbols.iter() {
            let Ok(name) = std::str::from_utf8(symbol.name(endian, symbols.strings())?) else { continue };
            looks_up |= matches!(name, "dlsym" | "dlvsym");
            if !is_acls(name) || symbol.st_bind() == elf::STB_LOCAL {
                continue;
            }
            if symbol.st_shndx(endian) != elf::SHN_UNDEF {
                self.has.insert(name.to_owned());
            } else if symbol.st_bind() != elf::STB_WEAK {
                self.wants.insert(name.to_owned());
            } else {
                self.asks.insert(name.to_owned());
            }
        }
        if looks_up {
            self.read_constants(endian, data, &sections)?;
        }
        Ok(true)
    }

    fn read_dynamic<'a, R: ReadRef<'a>>(
        &mut self,
        endian: Endianness,
        data: R,
        sections: &Sections<'a, R>,
    ) -> object::Result<()> {
        let Some((entries, link)): Option<(_, SectionIndex)> = sections.dynamic(endian, data)? else {
            return Ok(());
        };
        let strings = sections.strings(endian, data, link)?;
        for entry in entries {
            let Ok(text) = entry.string(endian, strings) else { continue };
            let text = String::from_utf8_lossy(text).into_owned();
            match entry.d_tag(endian) {
                elf::DT_NEEDED => self.needed.push(text),
                elf::DT_RPATH => self.rpath = self.folders(&text),
                elf::DT_RUNPATH => self.runpath = self.folders(&text),
                _ => {}
            }
        }
        Ok(())
    }

    /// The folders of a list, in which `$ORIGIN` is where the file lies.
    fn folders(&self, list: &str) -> Vec<PathBuf> {
        let origin = self.path.parent().unwrap_or(Path::new("/")).to_string_lossy();
        let folder = |part: &str| part.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin).into();
        list.split(':').filter(|part| !part.is_empty()).map(folder).collect()
    }

    fn read_constants<'a, R: ReadRef<'a>>(
        &mut self,
        endian: Endianness,
        data: R,
        sections: &Sections<'a, R>,
    ) -> object::Result<()> {
        for section in sections.iter() {
            let is_constants = sections.section_name(endian, section)?.starts_with(b".rodata");
            if !is_constants || section.sh_size(endian) > SEARCHED_CONSTANTS {
                continue;
            }
            let texts = section.data(endian, data)?.split(|byte| *byte == 0);
            let texts = texts.filter_map(|text| std::str::from_utf8(text).ok());
            // Operators are not here, by the thousand.
            let names = texts.filter(|text| is_function(text) && !text.starts_with("aclnn"));
            self.asks.extend(names.map(str::to_owned));
        }
        Ok(())
    }
}

/// Whether a symbol is one of those that AscendCL's libraries have.
fn is_acls(name: &str) -> bool {
    const NAMESPACES: [&str; 4] = ["_ZN2ge", "_ZNK2ge", "_ZN4adxl", "_ZNK4adxl"];
    is_function(name) || NAMESPACES.iter().any(|start| name.starts_with(start))
}

/// `aclInit`, `aclrtMalloc`, `rtMemcpy`, `HcclAllReduce`, `MsprofReportApi`: a family, then a word with a
/// capital.
fn is_function(name: &str) -> bool {
    const FAMILIES: [&str; 12] = [
        "aclrt", "aclmdl", "aclop", "aclnn", "aclprof", "acltdt", "aclsys", "acldump", "acl", "rt", "Hccl",
        "Msprof",
    ];
    let is_word = |rest: &str| rest.starts_with(|first: char| first.is_ascii_uppercase());
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && FAMILIES.iter().any(|family| name.strip_prefix(family).is_some_and(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_acl_are_told_from_others() {
        for name in
            ["aclInit", "aclrtMemcpyAsync", "rtMemcpyAsync", "HcclSend", "MsprofReportApi", "aclnnAdd"]
        {
            assert!(is_acls(name), "{name}");
        }
        assert!(is_acls("_ZN2ge12AscendStringC1EPKc"));
        for name in
            ["acl", "acl_get_file", "aclrt", "rtld_lock", "Hccl", "malloc", "aclrtMalloc failed", "art", ""]
        {
            assert!(!is_acls(name), "{name}");
        }
    }

    #[test]
    fn what_is_no_elf_file_is_not_read() {
        assert!(read(Path::new("/etc/passwd")).is_none() && read(Path::new("/does/not/exist")).is_none());
        let ours = read(&std::env::current_exe().expect("a path")).expect("this test is an ELF file");
        assert!(ours.needed.iter().any(|name| name.starts_with("libc.so")), "{:?}", ours.needed);
    }
}
