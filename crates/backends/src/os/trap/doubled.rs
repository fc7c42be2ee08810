//! Memory of the program's own, mapped twice: when it is registered its pages move into a file in memory, of
//! which the engine has a view too; when it is unregistered the bytes move back into private memory
//! (`moving`).
//!
//! Only private memory without a file is moved. Shared memory (anonymous, /dev/shm, a memfd) is a file in
//! memory already, and the engine gets a view of that. Stacks and files on disks stay what they are.
//!
//! A program may unmap registered memory without unregistering it. The engine loses its view of that part
//! then, and copies fail as they would have. It may get the same addresses again, for other memory: without
//! us a copy would use that. So when a copy is made there, that memory is mapped twice in its turn
//! ([`renew`]).

use super::{
    mapped::{FilePlace, Maps, MemoryKind, ProgramMapping},
    moving, step,
    uffd::{PageView, Uffd},
    views,
};
use crate::os::{mapping::Mapping, page::page_size};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// What files are called that memory of the program's moves into.
const NAME: &str = "ferry:registered";
/// How long the monitor waits for the list of views: whoever has it may allocate, and wait for a thread that
/// waits for a page.
const PATIENCE: Duration = Duration::from_millis(50);

/// The engine's view of memory of the program's.
struct EngineView {
    mapping: Mapping,
    /// The program's addresses.
    user: Range<usize>,
    /// What the program has of it, in order: it may have unmapped some.
    parts: Vec<ViewPart>,
    /// It is not registered any more, and the program has its memory back.
    is_united: bool,
}

/// Pages that both have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ViewPart {
    user: Range<usize>,
    file: FilePlace,
    /// The program's mapping is its own shared memory; nothing was moved.
    is_shared: bool,
}

/// The engine's views, by the program's address. Held for moments, and never while pages are moved.
static DOUBLED: Mutex<BTreeMap<usize, EngineView>> = Mutex::new(BTreeMap::new());
/// Whoever moves pages has this.
static MOVING: Mutex<()> = Mutex::new(());
/// How many views lack parts.
static LACKING: AtomicUsize = AtomicUsize::new(0);
/// The program may have unmapped some of a view, and nobody has looked.
static IS_UNSEEN: AtomicBool = AtomicBool::new(false);

type Views = BTreeMap<usize, EngineView>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The views, for the monitor.
fn views_soon() -> Option<MutexGuard<'static, Views>> {
    let since = Instant::now();
    loop {
        match DOUBLED.try_lock() {
            Ok(views) => return Some(views),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if since.elapsed() > PATIENCE => return None,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

/// The views have changed.
fn count_lacking(views: &Views) {
    let lacking = views.values().filter(|view| !view.is_united && !view.lacks().is_empty()).count();
    LACKING.store(lacking, Ordering::SeqCst);
}

impl EngineView {
    /// The engine's address of one of the program's.
    fn at(&self, user: usize) -> usize {
        self.mapping.addr() + (user - self.user.start)
    }

    /// What the program has unmapped of it.
    fn lacks(&self) -> Vec<Range<usize>> {
        let (mut lacks, mut start) = (Vec::new(), self.user.start);
        for part in &self.parts {
            lacks.push(start..part.user.start);
            start = part.user.end;
        }
        lacks.push(start..self.user.end);
        lacks.retain(|part| part.start < part.end);
        lacks
    }

    /// The program has this no longer: copies that use it fail.
    fn lose(&mut self, gone: &Range<usize>) {
        let parts = std::mem::take(&mut self.parts);
        let cut = parts.into_iter().flat_map(|part| {
            let ViewPart { user, file, is_shared } = part;
            let before = user.start..user.end.min(gone.start);
            let behind = user.start.max(gone.end)..user.end;
            [before, behind].map(|user| ViewPart { user, file: file.clone(), is_shared })
        });
        self.parts = cut.filter(|part| part.user.start < part.user.end).collect();
        self.mapping.bare_again(self.at(gone.start), gone.len());
    }

    /// Both have this again.
    fn gain(&mut self, part: ViewPart) {
        self.parts.push(part);
        self.parts.sort_unstable_by_key(|part| part.user.start);
    }
}

/// Maps the pages of a range twice. Says the engine's address of the first page, or why they stay as they
/// are.
pub fn double(uffd: &Uffd, user: &Range<usize>) -> Result<usize, String> {
    let _moving = lock(&MOVING);
    // Then the program keeps the mapping that it has, and the engine its view.
    if lock(&DOUBLED).get(&user.start).is_some_and(|engine| !engine.is_united) {
        return Err("copies of an earlier registration were in flight".into());
    }
    let maps = Maps::read()?;
    let mapped = maps.at(user.start).ok_or("it is not mapped")?;
    if user.end > mapped.range.end {
        return Err(format!("it is not one mapping: {}", mapped.line()));
    }
    let (mapping, part) = match kind(mapped)? {
        MemoryKind::Shared => {
            let mapping = Mapping::again_of(user.start, user.len(), NAME).map_err(|why| why.to_string())?;
            mapping.advise(0, user.len(), libc::MADV_DONTFORK);
            (mapping, ViewPart { user: user.clone(), file: mapped.file.clone(), is_shared: true })
        }
        MemoryKind::Private => moved(uffd, user)?,
    };
    let at = mapping.addr();
    let view = EngineView { mapping, user: user.clone(), parts: vec![part], is_united: false };
    let mut views = lock(&DOUBLED);
    let before = views.insert(user.start, view);
    count_lacking(&views);
    drop(views);
    drop(before);
    Ok(at)
}

/// What is left of an earlier registration is no memory of the program's own.
fn kind(mapped: &ProgramMapping) -> Result<MemoryKind, String> {
    mapped.kind(|name| name.contains(NAME))
}

/// Moves private memory into a new file, of which the engine has a view.
fn moved(uffd: &Uffd, user: &Range<usize>) -> Result<(Mapping, ViewPart), String> {
    let len = user.len();
    let (engine, _) = Mapping::shared(NAME, len).map_err(|error| error.to_string())?;
    if !engine.open(0, len) {
        return Err(std::io::Error::last_os_error().to_string());
    }
    engine.advise(0, len, libc::MADV_DONTFORK);
    engine.advise(0, len, libc::MADV_DONTDUMP);
    let file = Maps::read()?.at(engine.addr()).map(|mapped| mapped.file.moved(engine.addr(), user.start));
    let file = file.ok_or("the engine's view is not mapped")?;
    moving::move_to_engine(uffd, engine.addr(), user)?;
    engine.lock_on_fault(0, len);
    Ok((engine, ViewPart { user: user.clone(), file, is_shared: false }))
}

/// Moves the bytes back into private memory; the engine's view stays until [`forget`]. What the program has
/// unmapped, or mapped anew, stays as it is.
pub fn unite(uffd: &Uffd, user: &Range<usize>) {
    let _moving = lock(&MOVING);
    let parts = {
        let mut views = lock(&DOUBLED);
        let Some(view) = views.get_mut(&user.start) else { return };
        view.is_united = true;
        let parts: Vec<_> = view.parts.iter().map(|part| (part.clone(), view.at(part.user.start))).collect();
        count_lacking(&views);
        parts
    };
    let Ok(maps) = Maps::read() else { return };
    for (ViewPart { user, file, is_shared }, at) in parts {
        if !maps.not_of(&user, &file).is_empty() {
            continue;
        }
        views::remove(&user);
        if is_shared {
            step::wait_for(&user);
            uffd.unregister(&user);
        } else {
            moving::move_to_program(uffd, at, &user);
        }
    }
}

/// What the program has unmapped of memory that is mapped twice, or mapped over; of several parts of one view
/// each. What is being moved is left out: moves unmap, too.
pub fn gone() -> Vec<Range<usize>> {
    let Some(views) = views_soon() else { return look_later() };
    let views = views.values().filter(|view| !view.is_united && !moving::is_held(view.user.start));
    let parts: Vec<ViewPart> = views.flat_map(|view| view.parts.clone()).collect();
    match Maps::read() {
        Ok(maps) => parts.iter().flat_map(|part| maps.not_of(&part.user, &part.file)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Whether parts of views are in this range, as far as is known.
pub fn has_parts_in(range: &Range<usize>) -> bool {
    let Some(views) = views_soon() else { return true };
    let parts = views.values().filter(|view| !view.is_united).flat_map(|view| &view.parts);
    parts.into_iter().any(|part| part.user.start < range.end && range.start < part.user.end)
}

fn look_later() -> Vec<Range<usize>> {
    IS_UNSEEN.store(true, Ordering::SeqCst);
    Vec::new()
}

/// The engine loses what the program has unmapped. Nobody arms it any more.
pub fn lose(gone: &[Range<usize>]) {
    if gone.is_empty() {
        return;
    }
    gone.iter().for_each(super::after_call::leave);
    let Some(mut views) = views_soon() else {
        look_later();
        return;
    };
    for gone in gone {
        let is_met = |view: &&mut EngineView| view.user.start < gone.end && gone.start < view.user.end;
        views.values_mut().filter(is_met).for_each(|view| view.lose(gone));
        views::remove(gone);
    }
    count_lacking(&views);
}

/// Whether the program has unmapped some of a view.
pub fn is_lacking() -> bool {
    LACKING.load(Ordering::Relaxed) > 0 || IS_UNSEEN.load(Ordering::Relaxed)
}

/// The program has lost these bytes of the engine's view, and may have other memory there: that is mapped
/// twice, if it can be. Says what was unmapped without being seen.
pub fn renew(uffd: &Uffd, engine: &Range<usize>) -> Vec<Range<usize>> {
    let _moving = lock(&MOVING);
    let unseen = if IS_UNSEEN.swap(false, Ordering::SeqCst) { gone() } else { Vec::new() };
    lose(&unseen);
    let (lacks, Ok(maps)) = (lacks_in(engine), Maps::read()) else { return unseen };
    for (start, lacks) in lacks {
        for mapped in maps.in_range(&lacks) {
            let part = lacks.start.max(mapped.range.start)..lacks.end.min(mapped.range.end);
            renew_part(uffd, start, &part, mapped);
        }
    }
    count_lacking(&lock(&DOUBLED));
    unseen
}

/// What is lacking of views that have bytes of this range of the engine's and lack some of them, with the
/// start of each.
fn lacks_in(engine: &Range<usize>) -> Vec<(usize, Range<usize>)> {
    let views = lock(&DOUBLED);
    let lacking = views.values().filter(|view| !view.is_united).flat_map(|view| {
        let lacks = view.lacks();
        let meets =
            |lack: &Range<usize>| view.at(lack.start) < engine.end && engine.start < view.at(lack.end);
        let is_met = lacks.iter().any(meets);
        lacks.into_iter().filter(move |_| is_met).map(|lack| (view.user.start, lack))
    });
    lacking.collect()
}

fn renew_part(uffd: &Uffd, start: usize, part: &Range<usize>, mapped: &ProgramMapping) {
    let new = match kind(mapped) {
        Ok(MemoryKind::Private) => moved(uffd, part).map(|(engine, part)| (Some(engine), part)),
        Ok(MemoryKind::Shared) => {
            Ok((None, ViewPart { user: part.clone(), file: mapped.file.clone(), is_shared: true }))
        }
        Err(why) => Err(why),
    };
    let Ok((engine, new)) = new else { return };
    let mut views = lock(&DOUBLED);
    let Some(view) = views.get_mut(&start) else { return };
    let from = engine.as_ref().map_or(part.start, Mapping::addr);
    if view.mapping.lay(view.at(part.start), from, part.len()).is_ok() && uffd.register(part).is_ok() {
        views::add(part, view.at(part.start));
        view.gain(new);
    }
}

/// Whether memory of the program's is mapped twice.
pub fn is_any() -> bool {
    DOUBLED.try_lock().map_or(true, |views| !views.is_empty())
}

/// The parts of a range that a forked child has to itself: not the program's own shared memory, nor what it
/// has unmapped.
pub fn own_parts(range: &Range<usize>) -> Vec<Range<usize>> {
    let views = lock(&DOUBLED);
    let Some(view) = view_of(&views, range.start) else { return vec![range.clone()] };
    let own = view.parts.iter().filter(|part| !part.is_shared);
    let clipped = own.map(|part| part.user.start.max(range.start)..part.user.end.min(range.end));
    clipped.filter(|part| part.start < part.end).collect()
}

/// Whether the page is of a view that the program has still. It may be open afterwards.
pub fn is_there(uffd: &Uffd, page: usize) -> bool {
    let part = {
        let views = lock(&DOUBLED);
        let Some(view) = view_of(&views, page) else { return true };
        view.parts.iter().find(|part| part.user.contains(&page)).cloned()
    };
    let Some(ViewPart { user, file, .. }) = part else { return false };
    let is_laid =
        || Maps::read().is_ok_and(|maps| maps.not_of(&(page..page + page_size()), &file).is_empty());
    match uffd.view_of(page) {
        PageView::Watched => true,
        // The monitor may wait for what the caller has: so the event is not waited for.
        PageView::Unmapping => is_laid(),
        // The program has unmapped shared memory, and mapped the same at the same address again.
        PageView::Other => is_laid() && uffd.register(&user).is_ok(),
    }
}

fn view_of(views: &Views, address: usize) -> Option<&EngineView> {
    let (_, view) = views.range(..=address).next_back()?;
    view.user.contains(&address).then_some(view)
}

/// The engine does not use its view any more. False if the range was not doubled.
pub fn forget(start: usize) -> bool {
    let _moving = lock(&MOVING);
    let mut views = lock(&DOUBLED);
    let view = views.remove(&start);
    count_lacking(&views);
    drop(views);
    view.is_some()
}
