//! What the program has mapped, from the kernel's list.

use crate::os::{files::read_to_string, page::page_size};
use std::ops::Range;

/// What memory of the program's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Without a file.
    Private,
    /// A file in memory.
    Shared,
}

/// What is mapped at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The file's device and number, as the kernel writes them.
    file: String,
    /// From the address to the place in the file.
    shift: usize,
}

/// A line of the list.
#[derive(Clone, Debug)]
pub struct ProgramMapping {
    /// The addresses.
    pub range: Range<usize>,
    /// What is mapped there.
    pub file: FilePlace,
    rights: String,
    name: String,
    line: String,
}

/// All mappings, in order.
pub struct Maps(Vec<ProgramMapping>);

impl Maps {
    /// As they are now.
    pub fn read() -> Result<Maps, String> {
        let text = read_to_string("/proc/self/maps").map_err(|why| format!("/proc/self/maps: {why}"))?;
        Ok(Maps(text.lines().filter_map(parse).collect()))
    }

    /// The mappings that have addresses of the range.
    pub fn in_range(&self, range: &Range<usize>) -> impl Iterator<Item = &ProgramMapping> {
        let (start, end) = (range.start, range.end);
        self.0.iter().filter(move |mapped| mapped.range.start < end && start < mapped.range.end)
    }

    /// The one that the address is in.
    pub fn at(&self, address: usize) -> Option<&ProgramMapping> {
        self.0.iter().find(|mapped| mapped.range.contains(&address))
    }

    /// The parts of a range where there is something else than this, or nothing.
    pub fn not_of(&self, range: &Range<usize>, file: &FilePlace) -> Vec<Range<usize>> {
        let (mut others, mut start) = (Vec::new(), range.start);
        for mapped in self.in_range(range).filter(|mapped| mapped.file == *file) {
            others.push(start..mapped.range.start);
            start = mapped.range.end;
        }
        others.push(start..range.end);
        others.retain(|part| part.start < part.end);
        others
    }
}

impl FilePlace {
    /// The same at another address.
    pub fn moved(&self, from: usize, to: usize) -> FilePlace {
        FilePlace { file: self.file.clone(), shift: self.shift.wrapping_add(from).wrapping_sub(to) }
    }
}

impl ProgramMapping {
    /// What memory it is, or why it cannot be mapped twice. `is_ours` says of a name that it is of a file
    /// of the library's.
    pub fn kind(&self, is_ours: impl Fn(&str) -> bool) -> Result<MemoryKind, String> {
        let name = self.name.as_str();
        let is_plain = name.is_empty() || name == "[heap]" || name.starts_with("[anon:");
        let is_in_memory =
            ["/dev/zero", "/memfd:", "/dev/shm/", "/SYSV"].iter().any(|it| name.starts_with(it));
        match self.rights.as_str() {
            "rw-p" if is_plain => Ok(MemoryKind::Private),
            "rw-s" if is_in_memory && !is_ours(name) && self.has_small_pages() => Ok(MemoryKind::Shared),
            _ => Err(format!("it is neither private memory nor a file in memory: {}", self.line)),
        }
    }

    /// Whether it has pages of the usual size.
    fn has_small_pages(&self) -> bool {
        let Ok(smaps) = read_to_string("/proc/self/smaps") else { return false };
        let mut lines = smaps.lines().skip_while(|line| range_of(line).as_ref() != Some(&self.range));
        let size = lines.find_map(|line| line.strip_prefix("KernelPageSize:"));
        let kibibytes = size.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        kibibytes.is_some_and(|size| size << 10 == page_size())
    }

    /// The line.
    pub fn line(&self) -> &str {
        &self.line
    }
}

fn parse(line: &str) -> Option<ProgramMapping> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, rights, offset, device, inode, ref name @ ..] = words[..] else { return None };
    let (range, offset) = (range_of(line)?, usize::from_str_radix(offset, 16).ok()?);
    let shift = offset.wrapping_sub(range.start);
    Some(ProgramMapping {
        range,
        file: FilePlace { file: format!("{device} {inode}"), shift },
        rights: rights.into(),
        name: name.first().copied().unwrap_or_default().into(),
        line: line.into(),
    })
}

fn range_of(line: &str) -> Option<Range<usize>> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::os::mapping::Mapping;

    #[test]
    fn only_private_memory_without_a_file_and_files_in_memory_are_mapped_twice() {
        let page = page_size();
        let own = vec![1_u8; 8 * page];
        let start = (own.as_ptr() as usize).next_multiple_of(page);
        let maps = Maps::read().expect("a list");
        let kind = |at| maps.at(at).map(|mapped| mapped.kind(|_| false));
        assert_eq!(kind(start), Some(Ok(MemoryKind::Private)), "memory of an allocator");
        let code = parse as fn(&str) -> Option<ProgramMapping> as usize;
        assert!(kind(code).expect("code").is_err());
        assert_eq!(kind(page), None);
    }

    #[test]
    fn what_is_not_of_a_file_is_told_part_by_part() {
        let page = page_size();
        let (memory, _) = Mapping::shared("ferry:test", 8 * page).expect("memory");
        assert!(memory.open(0, 8 * page));
        let (start, all) = (memory.addr(), memory.addr()..memory.addr() + 8 * page);
        let maps = Maps::read().expect("a list");
        let mapped = maps.at(start).expect("it is mapped");
        assert_eq!(mapped.kind(|_| false), Ok(MemoryKind::Shared));
        assert!(mapped.kind(|name| name.contains("ferry:test")).is_err());
        let file = mapped.file.clone();
        assert_eq!(maps.not_of(&all, &file), []);
        memory.bare_again(start + 2 * page, page);
        memory.bare_again(start + 7 * page, page);
        let others = Maps::read().expect("a list").not_of(&all, &file);
        assert_eq!(others, [start + 2 * page..start + 3 * page, start + 7 * page..start + 8 * page]);
        let again = Mapping::again_of(start + page, page, "again").expect("a second mapping");
        let (other, maps) = (again.addr()..again.addr() + page, Maps::read().expect("a list"));
        assert_eq!(maps.not_of(&other, &file), std::slice::from_ref(&other), "another place of the file");
        assert_eq!(maps.not_of(&other, &file.moved(start + page, other.start)), []);
        drop(memory);
        assert_eq!(Maps::read().expect("a list").not_of(&all, &file), [all]);
    }
}
