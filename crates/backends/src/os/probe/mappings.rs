//! The mappings of this process, asked of the kernel one by one (Linux 6.11 and later), or read from its list
//! of all of them.

use crate::os::files::{above, read_to_string};
use std::{fs::File, os::fd::AsRawFd};

/// The list, as the calling thread has it: `/proc/self` is empty once the main thread is gone.
pub const LIST: &str = "/proc/thread-self/maps";
/// `PROCMAP_QUERY`: reads and writes a [`Query`]. The number's parts are its direction, size, group and place
/// in the group.
const ASK: libc::Ioctl = (3 << 30 | size_of::<Query>() << 16 | (b'f' as usize) << 8 | 17) as libc::Ioctl;

/// Bits of [`Query::rights`].
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// Its first address.
    pub start: usize,
    /// The first behind it.
    pub end: usize,
    /// Nothing but memory is behind it: no file, which could be shorter than it was, and no device.
    pub is_anonymous: bool,
    /// Whether it may be read.
    pub is_readable: bool,
    /// Whether it may be written.
    pub is_writable: bool,
}

/// What `PROCMAP_QUERY` reads and writes.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    addr: u64,
    start: u64,
    end: u64,
    rights: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_and_build: [u32; 2],
    name_and_build_at: [u64; 2],
}

/// A way to learn about mappings. Opened for one look and closed after it, so that no descriptor of ours
/// stays in the process.
pub enum Mappings {
    /// The kernel answers for one address.
    Asked(File),
    /// All of them, as they were a moment ago.
    Read(Vec<MappedRange>),
}

impl Mappings {
    /// The quick way, if this kernel has it.
    pub fn ask() -> Option<Mappings> {
        let asked = Mappings::Asked(above(|| File::open(LIST)).ok()?);
        // Whether something is mapped at the start of the address space or not, a kernel that can be asked
        // answers.
        asked.around(0).is_some().then_some(asked)
    }

    /// The slow way: its cost grows with the process.
    pub fn read() -> Option<Mappings> {
        let list = read_to_string(LIST).ok()?;
        Some(Mappings::Read(lines(&list).map(|line| line.mapping).collect()))
    }

    /// The mapping around `addr`, or `Some(None)` where nothing is mapped; `None` if that cannot be said.
    pub fn around(&self, addr: usize) -> Option<Option<MappedRange>> {
        match self {
            Mappings::Asked(file) => ask(file, addr),
            Mappings::Read(list) => {
                let next = list.get(list.partition_point(|mapping| mapping.end <= addr));
                Some(next.copied().filter(|mapping| mapping.start <= addr))
            }
        }
    }
}

fn ask(file: &File, addr: usize) -> Option<Option<MappedRange>> {
    let mut query = Query { size: size_of::<Query>() as u64, addr: addr as u64, ..Query::default() };
    // SAFETY: `query` is as large as it says, and asks for no name that would be written elsewhere.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), ASK, &raw mut query) };
    if answer == 0 {
        let is_anonymous = query.inode == 0 && query.device == [0; 2];
        return Some(Some(MappedRange {
            start: query.start as usize,
            end: query.end as usize,
            is_anonymous,
            is_readable: query.rights & READABLE != 0,
            is_writable: query.rights & WRITABLE != 0,
        }));
    }
    let nothing = std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT);
    nothing.then_some(None)
}

/// A line of the list.
pub struct MapsLine<'a> {
    /// Where.
    pub mapping: MappedRange,
    /// What may be done with it: `r`, `w`, `x`.
    pub rights: &'a str,
    /// The file behind it, or nothing.
    pub name: &'a str,
}

impl MapsLine<'_> {
    /// Whether there is a file behind it that could be shorter than the mapping, and no device, which reading
    /// could change.
    pub fn is_of_file(&self) -> bool {
        let is_memory = |name: &str| name.starts_with("/dev/shm/") || name == "/dev/zero";
        self.name.starts_with('/') && (!self.name.starts_with("/dev/") || is_memory(self.name))
    }
}

/// The mappings of a list. Lines that cannot be read are passed over.
pub fn lines(list: &str) -> impl Iterator<Item = MapsLine<'_>> {
    list.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (rights, _, device, inode) = (words.next()?, words.next()?, words.next()?, words.next());
        let is_anonymous = (device, inode) == ("00:00", Some("0"));
        let number = |text| usize::from_str_radix(text, 16).ok();
        let (is_readable, is_writable) = (rights.contains('r'), rights.contains('w'));
        let mapping =
            MappedRange { start: number(start)?, end: number(end)?, is_anonymous, is_readable, is_writable };
        Some(MapsLine { mapping, rights, name: words.next().unwrap_or_default() })
    })
}
