//! One GPU as its streams see it: its primary context, and what all of its streams share.
//!
//! Kernels are loaded when first needed, and events, doorbells, slots for lists, bounce buffers and spare
//! streams are kept here when they are not in use. What the floors above share for each GPU is theirs to
//! keep.

use crate::cuda::{
    driver::{Context, Current, ImplicitSync, KernelHandle, StreamHandle},
    stream::bounce::Bounces,
    stream::doorbell::{Completion, Doorbells},
    stream::events::{Event, Events},
    stream::list_slots::{ListSlot, ListSlots},
    stream::planner::Direction,
    stream::resident::{self, Resident},
    stream::settings::{Constants, Settings},
    stream::spare_streams::SpareStreams,
};
use crate::{litter::Litter, pool::Pool};
use ferry_core::{
    Kind, Result,
    sync::{Arc, AtomicBool, CachePadded, Mutex, Ordering, lock},
};
use std::{ffi::CStr, ops::Deref, sync::OnceLock};

/// The kernels, made of the sources of these names by regenerate.sh.
const PTX: &CStr = text(concat!(include_str!("../kernels/kernels.ptx"), "\0"));
const RESIDENT: &CStr = text(concat!(include_str!("../kernels/resident.ptx"), "\0"));
const REDUCE: &CStr = text(concat!(include_str!("../kernels/reduce.ptx"), "\0"));
/// Multiprocessors of a GPU of which the driver does not say it.
const MULTIPROCESSORS: usize = 32;

/// A text that ends with a zero.
pub const fn text(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("it ends with a zero and has no other"),
    }
}

/// A GPU with its primary context, the one that CUDA's other users in the process have too.
pub struct Device {
    /// Threads for what may block.
    pub pool: Arc<Pool>,
    /// Functions of the user's that will not run.
    pub litter: Arc<Litter>,
    /// Streams that are held, of other devices too, and calls that must not be made meanwhile.
    pub sync: Arc<ImplicitSync>,
    /// The planner's numbers for this GPU.
    pub constants: CachePadded<Constants>,
    /// Doorbells that no stream has.
    pub doorbells: Doorbells,
    /// Bounce buffers that no stream has.
    pub bounces: Arc<Bounces>,
    /// Events that are not in use.
    pub events: Events,
    lists: ListSlots,
    spare_streams: SpareStreams,
    /// Whether streams can write numbers, as far as the driver says and has shown.
    writes_numbers: AtomicBool,
    kernels: OnceLock<[KernelHandle; 4]>,
    reducing: OnceLock<[KernelHandle; 2]>,
    residing: OnceLock<[KernelHandle; 1]>,
    /// Into the GPU, and out of it; none where streams could not wait for what they do.
    residents: Option<[Resident; 2]>,
    /// Where events are recorded that stand behind work of each of these.
    marks: [Mutex<Option<StreamHandle>>; 2],
    /// Released last.
    context: Arc<Context>,
}

/// Functions of kernels.cu.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// `ferry_move`.
    pub within: KernelHandle,
    /// `ferry_pieces`.
    pub pieces: KernelHandle,
    /// `ferry_pieces_inline`.
    pub pieces_inline: KernelHandle,
    /// `ferry_rows`.
    pub rows: KernelHandle,
}

impl Device {
    /// A device with nothing in its free lists, one of so many on its GPU.
    pub fn new(
        context: Arc<Context>,
        pool: Arc<Pool>,
        sync: Arc<ImplicitSync>,
        settings: &Settings,
        sharers: usize,
    ) -> Arc<Device> {
        let multiprocessors = context.multiprocessors().unwrap_or(MULTIPROCESSORS);
        let constants = settings.constants.on(multiprocessors, sharers);
        let may_reside = context.can_wait_for_numbers();
        Arc::new(Device {
            pool,
            litter: Arc::default(),
            sync,
            constants: CachePadded(constants),
            doorbells: Doorbells::default(),
            bounces: Arc::default(),
            events: Events::default(),
            lists: ListSlots::default(),
            spare_streams: SpareStreams::default(),
            writes_numbers: AtomicBool::new(context.can_write_numbers()),
            kernels: OnceLock::new(),
            reducing: OnceLock::new(),
            residing: OnceLock::new(),
            residents: may_reside.then(Default::default),
            marks: Default::default(),
            context,
        })
    }

    /// The kernels, loaded when first needed.
    pub fn kernels(&self, current: &Current<'_>) -> Result<Kernels> {
        let names = [c"ferry_move", c"ferry_pieces", c"ferry_pieces_inline", c"ferry_rows"];
        let [within, pieces, pieces_inline, rows] = self.loaded(current, &self.kernels, PTX, names)?;
        Ok(Kernels { within, pieces, pieces_inline, rows })
    }

    /// Whether copies have to do without kernels: a stream is held, and the driver would wait for it to load
    /// them. That is so of a device that was opened while the stream was held.
    pub fn lacks_kernels(&self, current: &Current<'_>) -> bool {
        let may_lack = self.kernels.get().is_none() && self.sync.may_hold();
        may_lack && self.sync.unless_held(|| self.kernels(current)).is_none() && self.kernels.get().is_none()
    }

    /// Whether streams of ours may write numbers for threads that wait. Not where another stream may be held:
    /// what a number comes behind could be done, and the number itself stand still behind the held one.
    pub fn may_ring(&self) -> bool {
        self.writes_numbers.load(Ordering::Relaxed) && !self.sync.may_hold()
    }

    /// The driver has refused a number: it is asked for none any more.
    pub fn refuse_numbers(&self) {
        self.writes_numbers.store(false, Ordering::Relaxed);
    }

    /// The kernels of reduce.cu: for runs of elements, and for one whose bytes lie apart.
    pub fn reducing(&self, current: &Current<'_>) -> Result<[KernelHandle; 2]> {
        self.loaded(current, &self.reducing, REDUCE, [c"ferry_reduce", c"ferry_reduce_one"])
    }

    /// The kernel of resident.cu.
    pub fn resident_kernel(&self, current: &Current<'_>) -> Result<KernelHandle> {
        self.loaded(current, &self.residing, RESIDENT, [c"ferry_resident"]).map(|[kernel]| kernel)
    }

    /// The resident kernel for this direction, if there may be one now: not where a shared stream could wait
    /// for it.
    pub fn resident(&self, direction: Direction) -> Option<&Resident> {
        let [into, out] = self.residents.as_ref().filter(|_| !self.sync.may_hold())?;
        let resident = if place_of(direction)? == 0 { into } else { out };
        (resident::blocks(direction, &self.constants) > 0).then_some(resident)
    }

    /// The failure of a resident kernel, if one has failed.
    pub fn failure_of_residents(&self, current: &Current<'_>) -> Result<()> {
        self.residents.iter().flatten().try_for_each(|resident| resident.failure(current))
    }

    /// Whether events can be recorded behind batches of the resident kernel of this direction: they have a
    /// stream of their own, made here, unless the driver would wait for a held stream to make it.
    pub fn can_record_behind(&self, current: &Current<'_>, direction: Direction) -> bool {
        let mut marks = lock(self.marks(direction));
        if marks.is_none() {
            *marks = self.sync.unless_held(|| current.create_urgent_stream().ok()).flatten();
        }
        marks.is_some()
    }

    fn marks(&self, direction: Direction) -> &Mutex<Option<StreamHandle>> {
        &self.marks[place_of(direction).unwrap_or_default()]
    }

    /// An event that is reached when `completion` of the resident kernel of this direction is done and
    /// `older` was reached, whatever stands in the streams.
    pub fn record_behind(
        self: &Arc<Self>,
        current: &Current<'_>,
        (direction, completion): (Direction, Completion),
        older: Option<&Event>,
        is_timed: bool,
    ) -> Result<Arc<Event>> {
        let marks = lock(self.marks(direction));
        let stream =
            (*marks).ok_or_else(|| Kind::Device.because("there is no stream for events behind batches"))?;
        // SAFETY: doorbells stay where they are as long as the device, and streams are gone before.
        unsafe { current.wait_for_number(stream, completion.at, completion.number)? };
        older.map_or(Ok(()), |older| older.wait_in(current, stream))?;
        Event::record(self, current, stream, is_timed)
    }

    /// Room for a list of pieces, if there is some.
    pub fn list_slot(&self) -> Result<Option<ListSlot>> {
        self.lists.lend(|len| self.enter()?.own_pinned(len))
    }

    /// A CUDA stream, from the spare ones where the driver would wait for a held stream to make it.
    pub(super) fn make_stream(&self) -> Result<StreamHandle> {
        if let Some(made) = self.sync.unless_held(|| self.enter()?.create_stream()) {
            return made;
        }
        self.spare_streams.take().map_or_else(|| self.enter()?.create_stream(), Ok)
    }

    /// Loads and makes everything that is otherwise made when first needed: the driver waits for all streams
    /// when it loads a kernel, and for one that we hold it would wait for ever.
    pub fn load_all(&self, current: &Current<'_>) -> Result<()> {
        self.kernels(current)?;
        self.reducing(current)?;
        self.resident_kernel(current)?;
        self.spare_streams.stock(|| self.sync.unless_held(|| current.create_stream()))
    }

    /// Kernels of a module, loaded when first needed; to load them twice does no harm.
    pub fn loaded<const N: usize>(
        &self,
        current: &Current<'_>,
        slot: &OnceLock<[KernelHandle; N]>,
        ptx: &CStr,
        names: [&CStr; N],
    ) -> Result<[KernelHandle; N]> {
        if let Some(loaded) = slot.get() {
            return Ok(*loaded);
        }
        let load = || match slot.get() {
            Some(loaded) => Ok(*loaded),
            None => current.load(ptx, names),
        };
        let loaded = match self.sync.unless_held(load) {
            Some(loaded) => loaded,
            // The thread that holds a stream may have loaded them just before.
            None => slot.get().map_or_else(|| self.sync.when_free(load), |loaded| Ok(*loaded)),
        };
        // Those of another thread, if it has loaded them meanwhile: then it does not matter what became of
        // ours.
        match slot.get() {
            Some(loaded) => Ok(*loaded),
            None => loaded.map(|loaded| *slot.get_or_init(|| loaded)),
        }
    }
}

/// Which of the resident kernels does batches of this direction.
fn place_of(direction: Direction) -> Option<usize> {
    match direction {
        Direction::In => Some(0),
        Direction::Out => Some(1),
        Direction::Within | Direction::Across => None,
    }
}

impl Deref for Device {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let Ok(current) = self.enter() else { return };
        self.residents.iter().flatten().for_each(|resident| resident.close(&current));
        for stream in self.marks.iter().filter_map(|marks| lock(marks).take()) {
            // SAFETY: ours, and not used any more.
            unsafe { current.destroy_stream(stream) };
        }
        self.events.give_back(&current);
        for at in self.lists.close().into_iter().chain(self.doorbells.close()) {
            // SAFETY: made by `own_pinned`, and every kernel that knew it has said that it is done.
            unsafe { current.free_own_pinned(at) };
        }
        self.bounces.close(&current);
        self.spare_streams.close(&current);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{fs, path::Path};

    /// What the POSIX tool `cksum` says of these bytes.
    fn cksum(bytes: &[u8]) -> u32 {
        let len = (0..8).map(|byte| (bytes.len() >> (8 * byte)) as u8);
        let len = len.take(bytes.len().ilog2() as usize / 8 + 1);
        !bytes.iter().copied().chain(len).fold(0_u32, |sum, byte| {
            (0..8).fold(sum ^ u32::from(byte) << 24, |sum, _| {
                sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 }
            })
        })
    }

    /// What regenerate.sh sums up: the flags, the headers, the source.
    fn made_of(folder: &Path, source: &str) -> Vec<u8> {
        let script = fs::read_to_string(folder.join("regenerate.sh")).expect("the script");
        let flags = script.lines().find_map(|line| line.strip_prefix("flags='")?.strip_suffix("'"));
        let headers = source.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
        let headers = headers.map(|name| fs::read_to_string(folder.join(name)).expect(name));
        let flags = format!("{}\n", flags.expect("its flags"));
        [flags].into_iter().chain(headers).chain([source.into()]).collect::<String>().into_bytes()
    }

    #[test]
    fn the_shipped_kernels_were_made_of_the_shipped_sources() {
        assert_eq!(cksum(b"123456789"), 930_766_865, "as POSIX has it");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda/kernels");
        let files = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let sources: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "cu")).collect();
        assert!(!sources.is_empty(), "{}", folder.display());
        for path in sources {
            let source = fs::read_to_string(&path).expect("a source");
            let ptx = fs::read_to_string(path.with_extension("ptx")).expect("run regenerate.sh");
            let want = format!("cksum {}", cksum(&made_of(&folder, &source)));
            let first = ptx.lines().next().unwrap_or_default();
            assert!(first.ends_with(&want), "run regenerate.sh: {} wants {want}: {first}", path.display());
            let names = source.lines().filter_map(|line| line.strip_prefix("KERNEL ")?.split('(').next());
            for name in names {
                assert!(ptx.contains(&format!(".visible .entry {name}(")), "{name}");
            }
        }
    }
}
