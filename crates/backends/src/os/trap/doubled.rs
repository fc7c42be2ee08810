//! Memory of the program's own, mapped twice: when it is registered its pages move into a file in memory, of
//! which the engine has a view too; when it is unregistered the bytes move back into private memory.
//!
//! Other threads may use the memory all the time. So both moves are done while its pages are not in the page
//! table and userfaultfd is told of accesses: a thread that comes waits until the new mapping is there. Only
//! private memory without a file is moved. Shared memory (anonymous, /dev/shm, a memfd) is a file in memory
//! already, and the engine gets a view of that. Stacks and files on disks stay what they are.

use super::{
    step,
    uffd::{Opening, Uffd},
    watchdog,
};
use crate::os::{files::read_to_string, mapping::Mapping, page::page_size};
use std::{
    collections::BTreeMap,
    ffi::c_void,
    ops::Range,
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const MREMAP_DONTUNMAP: i32 = 4;

/// What files are called that memory of the program's moves into.
const NAME: &str = "ferry:registered";

/// The engine's view of memory of the program's.
struct EngineView {
    mapping: Mapping,
    /// What the program's mapping is called in the kernel's list.
    file: String,
    /// The program's mapping is its own shared memory; nothing was moved.
    is_shared: bool,
    /// The program has private memory again.
    is_united: bool,
}

/// The engine's views, by the program's address.
static DOUBLED: Mutex<BTreeMap<usize, EngineView>> = Mutex::new(BTreeMap::new());
/// The pages that are being moved: whoever accesses them waits.
static HELD: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Whether the page is being moved.
pub(super) fn is_held(address: usize) -> bool {
    let [start, end] = [0, 1].map(|word| HELD[word].load(Ordering::SeqCst));
    (start..end).contains(&address)
}

/// Opens pages, unless the first of them is being moved: whoever waits for it is woken when that is done. All
/// opening goes this way, since a page that is opened in the middle of a move would lose what is written to
/// it. Only system calls are made.
pub(super) fn open_pages(uffd: &Uffd, pages: &Range<usize>) {
    // The monitor takes the events that this may have to wait for.
    // SAFETY: lets another thread run.
    open_pages_taking(uffd, pages, Opening::Whole, || unsafe {
        libc::sched_yield();
    });
}

/// The same for the monitor, which takes the events itself.
pub(super) fn open_pages_taking(uffd: &Uffd, pages: &Range<usize>, how: Opening, take_events: impl Fn()) {
    OPENERS.fetch_add(1, Ordering::SeqCst);
    if !is_held(pages.start) {
        uffd.open_pages(pages, how, take_events);
    }
    OPENERS.fetch_sub(1, Ordering::SeqCst);
}

/// The same in one go: false if an event has to be taken first.
pub(super) fn try_open(uffd: &Uffd, pages: &Range<usize>, how: Opening) -> bool {
    OPENERS.fetch_add(1, Ordering::SeqCst);
    let is_open = is_held(pages.start) || uffd.try_open(pages, how);
    OPENERS.fetch_sub(1, Ordering::SeqCst);
    is_open
}

/// From here on nobody opens pages of the range.
fn hold(range: &Range<usize>) {
    HELD[0].store(range.start, Ordering::SeqCst);
    HELD[1].store(range.end, Ordering::SeqCst);
    // Whoever did not see that yet is done in a moment, or was interrupted by a debugger.
    let since = Instant::now();
    while OPENERS.load(Ordering::SeqCst) != 0 && since.elapsed() < Duration::from_secs(1) {
        std::thread::yield_now();
    }
}

/// Threads that are opening pages.
static OPENERS: AtomicUsize = AtomicUsize::new(0);

/// A move unmaps, too. When it is over that was told, but the monitor may still be about to look whether the
/// memory has gone, and the program may unmap it as soon as it can.
fn let_go(uffd: &Uffd, range: &Range<usize>) {
    watchdog::wait_for_event_in_work();
    HELD[1].store(0, Ordering::Release);
    uffd.wake(range);
}

/// Maps the pages of a range twice. Says the engine's address of the first page, or why they stay as they
/// are.
pub(super) fn double(uffd: &Uffd, user: &Range<usize>) -> Result<usize, String> {
    let mut doubled = DOUBLED.lock().unwrap_or_else(PoisonError::into_inner);
    // Then the program keeps the mapping that it has, and the engine its view.
    if doubled.get(&user.start).is_some_and(|engine| !engine.is_united) {
        return Err("copies of an earlier registration were in flight".into());
    }
    if let MemoryKind::Shared { file } = kind_of(user)? {
        let mapping = Mapping::again_of(user.start, user.len(), NAME).map_err(|error| error.to_string())?;
        mapping.advise(0, user.len(), libc::MADV_DONTFORK);
        let at = mapping.addr();
        doubled.insert(user.start, EngineView { mapping, file, is_shared: true, is_united: false });
        return Ok(at);
    }
    let engine = engine_view(user.len())?;
    uffd.register_missing(user).map_err(|why| format!("userfaultfd: {why}"))?;
    hold(user);
    // Nothing is allocated until all is moved: the allocator's memory may be among it.
    let is_moved = move_to(engine.addr(), user);
    let_go(uffd, user);
    if !is_moved {
        uffd.unregister(user);
        return Err("its pages cannot be moved".into());
    }
    engine.lock_on_fault(0, user.len());
    let at = engine.addr();
    doubled.insert(
        user.start,
        EngineView { mapping: engine, file: NAME.into(), is_shared: false, is_united: false },
    );
    Ok(at)
}

/// An empty view of the engine's.
fn engine_view(len: usize) -> Result<Mapping, String> {
    let (engine, _) = Mapping::shared(NAME, len).map_err(|error| error.to_string())?;
    if !engine.open(0, len) {
        return Err(std::io::Error::last_os_error().to_string());
    }
    engine.advise(0, len, libc::MADV_DONTFORK);
    engine.advise(0, len, libc::MADV_DONTDUMP);
    Ok(engine)
}

/// Moves the bytes of the program's pages to the engine's, and lays those over the program's addresses.
fn move_to(engine: usize, user: &Range<usize>) -> bool {
    let Some(taken) = take_away(user) else { return false };
    // SAFETY: the pages were taken away from everybody else; the engine's view is as long, and empty.
    unsafe { copy_pages(taken, engine, user.len()) };
    let is_laid = lay(engine, user);
    if is_laid {
        // SAFETY: the pages that were taken away; their bytes are in the engine's view.
        unsafe { libc::munmap(taken as *mut c_void, user.len()) };
    } else {
        let move_over = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let (from, to) = (taken as *mut c_void, user.start as *mut c_void);
        // SAFETY: puts the pages back.
        unsafe { libc::mremap(from, user.len(), user.len(), move_over, to) };
    }
    is_laid
}

/// Moves the bytes back into private memory; the engine's view stays until [`forget`]. What the program has
/// unmapped, or mapped anew, stays as it is.
pub(super) fn unite(uffd: &Uffd, user: &Range<usize>) {
    let mut doubled = DOUBLED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_there = |engine: &&mut EngineView| is_laid(user, &engine.file);
    let Some(engine) = doubled.get_mut(&user.start).filter(is_there) else { return };
    if engine.is_shared {
        engine.is_united = true;
        step::wait_for(user);
        return uffd.unregister(user);
    }
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the system's choice.
    let own = unsafe { libc::mmap(ptr::null_mut(), user.len(), access, flags, -1, 0) };
    if own == libc::MAP_FAILED {
        return;
    }
    hold(user);
    step::wait_for(user);
    if uffd.register_missing(user).is_ok() {
        uffd.arm(user);
        let move_over = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the bytes of the engine's view, which is as long; then the copy is moved over the view of
        // the program, whose bytes it has.
        unsafe {
            copy_pages(engine.mapping.addr(), own.addr(), user.len());
            libc::mremap(own, user.len(), user.len(), move_over, user.start as *mut c_void);
        }
    }
    engine.is_united = true;
    let_go(uffd, user);
}

/// The program has unmapped some addresses. If registered memory was there, without being unregistered, the
/// engine loses its view as well: copies fail as they would have. Says whether there was any.
///
/// Never waits: the thread that moves pages unmaps, too, and waits for the monitor.
pub(super) fn unmapped(range: &Range<usize>) -> bool {
    if is_held(range.start) {
        return false;
    }
    let Ok(mut doubled) = DOUBLED.try_lock() else { return false };
    let starts: Vec<usize> = gone(&doubled, range).map(|(start, _)| start).collect();
    for start in &starts {
        let Some(EngineView { mapping: engine, .. }) = doubled.remove(start) else { continue };
        // SAFETY: takes away the access rights of a mapping of ours; copies that meet it fail.
        unsafe { libc::mprotect(engine.addr() as *mut c_void, engine.len(), libc::PROT_NONE) };
        // The addresses stay taken: work that was submitted may still name them.
        std::mem::forget(engine);
    }
    !starts.is_empty()
}

/// Whether memory of the program's is mapped twice. False while some is being moved.
pub(super) fn is_any() -> bool {
    DOUBLED.try_lock().is_ok_and(|doubled| !doubled.is_empty())
}

/// Whether the program's mapping there is shared memory of its own, which a forked child shares, too.
pub(super) fn is_shared(start: usize) -> bool {
    let doubled = DOUBLED.lock().unwrap_or_else(PoisonError::into_inner);
    doubled.get(&start).is_some_and(|engine| engine.is_shared)
}

/// Whether the page is of the program's own memory, or may be.
pub(super) fn may_contain(page: usize) -> bool {
    DOUBLED.try_lock().map_or(true, |doubled| {
        let before = doubled.range(..=page).next_back();
        before.is_some_and(|(start, engine)| page < start + engine.mapping.len())
    })
}

/// What is no longer mapped of memory in this range that was mapped twice: of one block, if of several.
pub(super) fn gone_in(range: &Range<usize>) -> Option<Range<usize>> {
    gone(&*DOUBLED.try_lock().ok()?, range).next().map(|(_, part)| part)
}

/// The parts of blocks in this range where the program has something else now, or nothing. Moves unmap, too,
/// and may be over when that is told: what they leave is there.
fn gone(
    doubled: &BTreeMap<usize, EngineView>,
    range: &Range<usize>,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    let views = doubled.range(..range.end).filter(|(_, engine)| !engine.is_united);
    let parts = views.map(|(start, engine)| {
        (*start, range.start.max(*start)..range.end.min(start + engine.mapping.len()), &engine.file)
    });
    let gone = parts.filter(|(_, part, file)| {
        !part.is_empty() && !is_laid(&(part.start..part.start + page_size()), file)
    });
    gone.map(|(start, part, _)| (start, part))
}

/// Whether all of the program's addresses are still this file's.
fn is_laid(user: &Range<usize>, file: &str) -> bool {
    let Ok(maps) = read_to_string("/proc/self/maps") else { return true };
    let ours = maps.lines().filter(|line| line.contains(file)).filter_map(range_of);
    let covered: usize =
        ours.map(|part| part.end.min(user.end).saturating_sub(part.start.max(user.start))).sum();
    covered >= user.len()
}

/// The engine does not use its view any more. False if the range was not doubled.
pub fn forget(start: usize) -> bool {
    DOUBLED.lock().unwrap_or_else(PoisonError::into_inner).remove(&start).is_some()
}

/// Moves the pages of a mapping to other addresses; its own are empty then, and still mapped.
fn take_away(part: &Range<usize>) -> Option<usize> {
    let flags = libc::MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
    let (at, len) = (part.start as *mut c_void, part.len());
    // SAFETY: whoever accesses the pages waits until their bytes are back.
    let taken = unsafe { libc::mremap(at, len, len, flags, ptr::null_mut::<c_void>()) };
    (taken != libc::MAP_FAILED).then_some(taken.addr())
}

/// Lays the engine's memory over the program's addresses, too.
fn lay(engine: usize, user: &Range<usize>) -> bool {
    let (from, to) = (engine as *mut c_void, user.start as *mut c_void);
    // SAFETY: the bytes that were at these addresses are in the engine's view; of that, none is taken away,
    // since its length is 0 here.
    let laid = unsafe { libc::mremap(from, 0, user.len(), libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, to) };
    laid != libc::MAP_FAILED
}

/// Copies pages, but for those that are zero: the other side is empty.
///
/// # Safety
/// Both sides are whole pages that are mapped, as long as that.
unsafe fn copy_pages(from: usize, to: usize, len: usize) {
    for offset in (0..len).step_by(page_size()) {
        let (from, to) = ((from + offset) as *const u64, (to + offset) as *mut u64);
        let words = page_size() / 8;
        // SAFETY: the caller's promise.
        unsafe {
            if (0..words).any(|word| from.add(word).read() != 0) {
                ptr::copy_nonoverlapping(from, to, words);
            }
        }
    }
}

/// What memory of the program's is.
#[derive(Debug, PartialEq, Eq)]
enum MemoryKind {
    /// Without a file.
    Private,
    /// A file in memory, by its device and number.
    Shared { file: String },
}

/// The kind of memory that a range lies in, or why it cannot be mapped twice.
fn kind_of(user: &Range<usize>) -> Result<MemoryKind, String> {
    let maps = read_to_string("/proc/self/maps").map_err(|why| format!("/proc/self/maps: {why}"))?;
    let mut all = maps.lines().filter_map(|line| Some((range_of(line)?, line)));
    let found = all.find(|(range, _)| range.contains(&user.start));
    let (range, line) = found.ok_or("it is not mapped")?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, rights, _, device, inode, ref name @ ..] = words[..] else { return Err(line.to_owned()) };
    let name = name.first().copied().unwrap_or_default();
    let is_plain = name.is_empty() || name == "[heap]" || name.starts_with("[anon:");
    // What is left of an earlier registration is no memory of the program's own.
    let is_ours = name.contains(NAME);
    let is_in_memory =
        !is_ours && ["/dev/zero", "/memfd:", "/dev/shm/", "/SYSV"].iter().any(|it| name.starts_with(it));
    match rights {
        _ if user.end > range.end => Err(format!("it is not one mapping: {line}")),
        "rw-p" if is_plain => Ok(MemoryKind::Private),
        "rw-s" if is_in_memory && has_small_pages(&range) => {
            Ok(MemoryKind::Shared { file: format!(" {device} {inode} ") })
        }
        _ => Err(format!("it is neither private memory nor a file in memory: {line}")),
    }
}

/// Whether a mapping has pages of the usual size.
fn has_small_pages(range: &Range<usize>) -> bool {
    let Ok(smaps) = read_to_string("/proc/self/smaps") else { return false };
    let mut lines = smaps.lines().skip_while(|line| range_of(line).as_ref() != Some(range));
    let size = lines.find_map(|line| line.strip_prefix("KernelPageSize:"));
    let kibibytes = size.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kibibytes.is_some_and(|size| size << 10 == page_size())
}

fn range_of(line: &str) -> Option<Range<usize>> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_private_memory_without_a_file_is_moved() {
        let page = page_size();
        let own = vec![1_u8; 8 * page];
        let start = (own.as_ptr() as usize).next_multiple_of(page);
        assert_eq!(kind_of(&(start..start + 4 * page)), Ok(MemoryKind::Private), "memory of an allocator");
        let code = kind_of as fn(&Range<usize>) -> Result<MemoryKind, String> as usize / page * page;
        for other in [code, page] {
            assert!(kind_of(&(other..other + page)).is_err(), "{other:#x}");
        }
    }

    #[test]
    fn shared_memory_is_a_file_by_its_number() {
        let (memory, _) = Mapping::shared("ferry:test", 4 * page_size()).expect("memory");
        assert!(memory.open(0, 4 * page_size()));
        let user = memory.addr()..memory.addr() + 4 * page_size();
        let Ok(MemoryKind::Shared { file }) = kind_of(&user) else { panic!("{:?}", kind_of(&user)) };
        assert!(is_laid(&user, &file));
        assert!(!is_laid(&(user.start..user.end + page_size()), &file), "behind its end");
        drop(memory);
        assert!(!is_laid(&user, &file), "unmapped");
    }
}
