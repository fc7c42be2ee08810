//! One GPU: its primary context, its kernels, and what its queues share.

use crate::cuda::{
    coalesce::sender::Sender,
    descriptors::reports::Sealing,
    driver::{Context, ImplicitSync, KernelHandle},
    memory::PinnedRanges,
    order::fence::Watcher,
    order::queue::Lane,
    shared::beforehand::Beforehand,
    shared::bounce::Bounces,
    shared::latch::Words,
    staging::{Staging, StagingPool},
    stream::bell::Bells,
    stream::events::Events,
    stream::ring::{Lists, Loan},
    stream::settings::{Constants, Settings},
    stream::streams::Spares,
};
use crate::litter::Litter;
use crate::pool::Pool;
use ferry_core::{
    Result,
    sync::{Arc, CachePadded, Mutex},
};
use std::{ffi::CStr, ops::Deref, sync::OnceLock};

/// The kernels, made of the sources of these names by regenerate.sh.
const PTX: &CStr = text(concat!(include_str!("kernels/kernels.ptx"), "\0"));
const REDUCE: &CStr = text(concat!(include_str!("kernels/reduce.ptx"), "\0"));

/// A text that ends with a zero.
pub const fn text(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("it ends with a zero and has no other"),
    }
}

/// A GPU with its primary context, the one that CUDA's other users in the process have too.
pub struct Device {
    pub workers: Arc<Pool>,
    /// Functions of the user's that will not run.
    pub litter: Arc<Litter>,
    pub watcher: Arc<Watcher>,
    /// The planner's numbers for this GPU.
    pub constants: CachePadded<Constants>,
    lists: Lists,
    pub bells: Bells,
    /// For copies of pageable memory.
    pub staging: Staging,
    /// Streams that are held, of other devices too, and calls that must not be made meanwhile.
    pub sync: Arc<ImplicitSync>,
    /// What is made before a stream is held.
    pub beforehand: Arc<Beforehand>,
    /// For those streams.
    pub words: Words,
    kernels: OnceLock<[KernelHandle; 4]>,
    reducing: OnceLock<[KernelHandle; 2]>,
    pub spares: Spares,
    /// For copies that go through memory of the host.
    pub bounces: Bounces,
    /// For descriptors that the GPU reads.
    pub sealing: Sealing,
    pub events: Events,
    pub sender: Arc<Sender<Lane>>,
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
    pub few: KernelHandle,
    /// `ferry_rows`.
    pub rows: KernelHandle,
}

impl Device {
    /// A device with nothing in its pools.
    pub fn new(
        context: Arc<Context>,
        workers: Arc<Pool>,
        watcher: Arc<Watcher>,
        sync: Arc<ImplicitSync>,
        beforehand: Arc<Beforehand>,
        pinned: Arc<Mutex<PinnedRanges>>,
        settings: &Settings,
    ) -> Device {
        const GUESS: usize = 32;
        let staging = StagingPool::new(context.clone(), workers.clone(), settings.stagers);
        let staging = Staging::new(staging, pinned);
        let constants = settings.constants.on(context.multiprocessors().unwrap_or(GUESS));
        Device {
            workers,
            litter: Arc::default(),
            watcher,
            constants: CachePadded(constants),
            lists: Lists::default(),
            bells: Bells::default(),
            staging,
            sync,
            beforehand,
            words: Words::default(),
            kernels: OnceLock::new(),
            reducing: OnceLock::new(),
            spares: Spares::default(),
            bounces: Bounces::default(),
            sealing: Sealing::default(),
            events: Events::default(),
            sender: Arc::default(),
            context,
        }
    }

    /// The kernels, loaded when first needed. The context is current.
    pub fn kernels(&self) -> Result<Kernels> {
        let names = [c"ferry_move", c"ferry_pieces", c"ferry_pieces_inline", c"ferry_rows"];
        let [within, pieces, few, rows] = self.loaded(&self.kernels, PTX, names)?;
        Ok(Kernels { within, pieces, few, rows })
    }

    /// Whether copies have to do without kernels: a stream is held, and the driver would wait for it to load them. That is so of
    /// a device that was opened while the stream was held. The context is current.
    pub fn lacks_kernels(&self) -> bool {
        let may_lack = self.kernels.get().is_none() && self.sync.may_hold();
        may_lack && self.sync.unless_held(|| self.kernels()).is_none() && self.kernels.get().is_none()
    }

    /// The kernels of reduce.cu: for runs of elements, and for one whose bytes lie apart. The context is current.
    pub fn reducing(&self) -> Result<[KernelHandle; 2]> {
        self.loaded(&self.reducing, REDUCE, [c"ferry_reduce", c"ferry_reduce_one"])
    }

    /// Room for a list of pieces, if there is some.
    pub fn lend(&self) -> Result<Option<Loan>> {
        self.lists.lend(|len| self.enter()?.own_pinned(len))
    }

    /// Loads everything that is otherwise loaded when first needed: the driver waits for all streams when it loads a kernel, and
    /// for one that we hold it would wait for ever. The context is current.
    pub fn load_all(&self) -> Result<()> {
        self.kernels()?;
        self.sealing()?;
        self.reducing()?;
        self.live()?;
        self.stock_streams()
    }

    /// Kernels of a module, loaded when first needed; to load them twice does no harm. The context is current.
    pub fn loaded<const N: usize>(
        &self,
        slot: &OnceLock<[KernelHandle; N]>,
        ptx: &CStr,
        names: [&CStr; N],
    ) -> Result<[KernelHandle; N]> {
        if let Some(loaded) = slot.get() {
            return Ok(*loaded);
        }
        // SAFETY: it is, as our caller says.
        let current = unsafe { self.assume_current() };
        let load = || match slot.get() {
            Some(loaded) => Ok(*loaded),
            None => current.load(ptx, names),
        };
        let loaded = match self.sync.unless_held(load) {
            Some(loaded) => loaded,
            // Whoever holds a stream may have loaded them just before.
            None => slot.get().map_or_else(|| self.sync.when_free(load), |loaded| Ok(*loaded)),
        };
        // Those of another thread, if it has loaded them meanwhile: then it does not matter what became of ours.
        match slot.get() {
            Some(loaded) => Ok(*loaded),
            None => loaded.map(|loaded| *slot.get_or_init(|| loaded)),
        }
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
        let words = self.words.pages();
        let Ok(current) = self.enter() else { return };
        self.events.give_back(&current);
        for at in self.lists.close().into_iter().chain(self.bells.close()).chain(words) {
            // SAFETY: made by `own_pinned`. Every kernel that knew a list or a bell has said that it is through, and the queues
            // that used the words hold this device and so are gone.
            unsafe { current.free_own_pinned(at) };
        }
        self.sealing.close(&current);
        self.bounces.close(&current);
        self.spares.close(&current);
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
