//! What the GPU does by itself, put into the stream of a lane.

use crate::bytes::{nontemporal, overlap::is_overlapping};
use crate::cuda::{
    driver::{Current, KernelHandle},
    order::queue::Lane,
    stream::memset::Memset,
    stream::page::Page,
    stream::planner::{self, Engine, Shape, Way},
    stream::ring::{Entry, FEW, Loan, ROOM},
    stream::settings::Constants,
};
use ferry_core::{Kind, Pieces, Plan, Result, Rows, Sizes};
use std::{ffi::c_void, ptr};

/// Threads of a block: kernels.cu allows no more.
const THREADS: u32 = 1024;

/// How pieces are sent.
enum Sending {
    Each,
    Together,
    Launch(Launch),
}

/// How a list of pieces is launched.
#[derive(Clone, Copy)]
struct Launch {
    /// Threads for each piece.
    lanes: u32,
    blocks: u32,
    /// In the parameters of the kernel.
    is_inline: bool,
    /// Pieces that are longer are cut, if there are any.
    share: Option<u64>,
}

impl Lane {
    /// A copy between device memory and page-locked or device memory; of pageable memory as the driver does it. A list that lies
    /// where kernels read it is taken out of the plan.
    pub fn copy(&self, plan: &mut Plan) -> Result<()> {
        let way = self.way(plan.route());
        let is_in_reach = !plan.is_plain() && plan.has_one_route();
        let constants = if is_in_reach { self.constants() } else { &Constants::NO_KERNELS };
        let Pieces::Segments(segments) = plan.pieces() else {
            return plan.pieces().iter().try_for_each(|rows| self.copy_rows(&rows, way, constants));
        };
        let entries = Entry::of(segments);
        let Sizes { bytes, longest } = plan.sizes();
        if plan.is_ordered() {
            return self.send_each(entries, way, constants);
        }
        match sending(entries, (bytes, longest), way, constants) {
            Sending::Launch(launch) if !launch.is_inline && launch.share.is_none() => {
                self.launch_plan(plan, launch)
            }
            sending => self.send_so(entries, sending, (bytes, longest), way, constants),
        }
    }

    /// Launches a list as it lies in its plan.
    fn launch_plan(&self, plan: &mut Plan, launch: Launch) -> Result<()> {
        if let Some(loan) = plan.sink().and_then(|sink| Page::take(sink, &self.device)) {
            return self.launch_loan(loan, launch);
        }
        match plan.pieces() {
            Pieces::Segments(segments) => self.launch_list(Entry::of(segments), launch),
            Pieces::Rows(_) => unreachable!("they are segments"),
        }
    }

    /// Copies pieces that are independent of each other, none of them pageable memory. The context is current.
    pub fn send(&self, entries: &[Entry], way: Way) -> Result<()> {
        let sizes = entries.iter().map(|entry| entry.len as usize);
        let sizes = sizes.fold((0, 0), |(bytes, most), len| (bytes + len, len.max(most)));
        let sending = sending(entries, sizes, way, self.constants());
        self.send_so(entries, sending, sizes, way, self.constants())
    }

    fn send_so(
        &self,
        entries: &[Entry],
        so: Sending,
        sizes: (usize, usize),
        way: Way,
        constants: &Constants,
    ) -> Result<()> {
        match so {
            Sending::Each => self.send_each(entries, way, constants),
            Sending::Launch(launch) => self.launch_list(entries, launch),
            Sending::Together if self.send_together(entries)? => Ok(()),
            Sending::Together => match sending(entries, sizes, way, &constants.clone().apart()) {
                Sending::Launch(launch) => self.launch_list(entries, launch),
                _ => self.send_each(entries, way, constants),
            },
        }
    }

    fn constants(&self) -> &Constants {
        let has_none = self.is_beside || self.device.lacks_kernels();
        if has_none { &Constants::NO_KERNELS } else { &self.device.constants }
    }

    fn send_each(&self, entries: &[Entry], way: Way, constants: &Constants) -> Result<()> {
        entries.iter().try_for_each(|entry| {
            let rows = Rows::linear(entry.dst as usize, entry.src as usize, entry.len as usize);
            self.copy_rows(&rows, way, constants)
        })
    }

    /// Pieces in one call of the driver, which then uses several copy engines. False if it has none or does not take them, such as
    /// ranges over joints: what it may have begun is in the stream, as all of a batch is, and is then done once more. In a shared stream
    /// they keep to that one: others may stand still behind it.
    fn send_together(&self, entries: &[Entry]) -> Result<bool> {
        let current = self.current();
        if self.is_shared || !current.has_copy_batch() {
            return Ok(false);
        }
        self.bell.ends_with(None);
        let [dsts, srcs, lens] =
            [|entry: &Entry| entry.dst, |entry: &Entry| entry.src, |entry: &Entry| entry.len]
                .map(|word| entries.iter().map(|entry| word(entry) as usize).collect::<Vec<_>>());
        // SAFETY: the pieces of a plan stay valid until the op has passed.
        unsafe { current.copy_batch([&dsts, &srcs, &lens], self.stream) }
    }

    /// A row of page-locked memory, by a copy engine.
    pub fn copy_alone(&self, copy: Entry, way: Way) -> Result<()> {
        let rows = Rows::linear(copy.dst as usize, copy.src as usize, copy.len as usize);
        let done = self.copy_row(rows.dst, rows.src, rows.width);
        self.or_by_kernel(done, &rows, way, self.constants())
    }

    /// A rectangle, which may be a single row.
    fn copy_rows(&self, rows: &Rows, way: Way, constants: &Constants) -> Result<()> {
        let done = self.try_rows(rows, way, constants);
        self.or_by_kernel(done, rows, way, constants)
    }

    /// The driver refuses ranges over the joints between allocations, of page-locked memory that was registered in parts and of
    /// neighbours that were gathered into one; a kernel does not see the joints.
    fn or_by_kernel(&self, done: Result<()>, rows: &Rows, way: Way, constants: &Constants) -> Result<()> {
        let is_apart = rows.height == 1 && !is_overlapping(rows.dst, rows.src, rows.width);
        let has_kernel = matches!(way, Way::In | Way::Out) || way == Way::Within && is_apart;
        let has_kernel = has_kernel && ptr::eq(constants, &*self.device.constants);
        match done {
            Err(why) if why.kind == Kind::Device && has_kernel && self.device.lost().is_none() => {
                self.launch_rows(rows, 1)
            }
            done => done,
        }
    }

    fn try_rows(&self, rows: &Rows, way: Way, constants: &Constants) -> Result<()> {
        let Rows { dst, dst_pitch, src, src_pitch, width, height } = *rows;
        match planner::choose(&Shape::of(rows), way, constants) {
            Engine::Move => {
                self.start(self.device.kernels()?.within, &[dst, src, width].map(|arg| arg as u64))
            }
            Engine::Bounce => self.copy_bounced(dst, src, width),
            Engine::Grid { blocks } => self.launch_rows(rows, blocks),
            Engine::Each => (0..height)
                .try_for_each(|row| self.copy_row(dst + row * dst_pitch, src + row * src_pitch, width)),
            _ => self.copy_rectangle(rows),
        }
    }

    /// Pieces in as few launches as hold them.
    fn launch_list(&self, entries: &[Entry], launch: Launch) -> Result<()> {
        match launch.share {
            None => self.launch_chunks(entries, launch),
            Some(share) => {
                let mut parts = entries.iter().flat_map(|entry| entry.cut(share));
                std::iter::repeat_with(|| parts.by_ref().take(ROOM).collect::<Vec<_>>())
                    .take_while(|some| !some.is_empty())
                    .try_for_each(|some| self.launch_chunks(&some, launch))
            }
        }
    }

    fn launch_chunks(&self, mut left: &[Entry], launch: Launch) -> Result<()> {
        while !left.is_empty() {
            // Where page-locked memory is short, pieces go with the launches.
            let loan = if launch.is_inline { None } else { self.device.lend().unwrap_or(None) };
            let now =
                left.split_off(..left.len().min(if loan.is_some() { ROOM } else { FEW })).unwrap_or_default();
            match loan {
                Some(mut loan) => {
                    loan.add(now);
                    self.launch_loan(loan, launch)?;
                }
                None => self.launch_few(now, launch)?,
            }
        }
        Ok(())
    }

    /// Launches what was added to a slot.
    fn launch_loan(&self, loan: Loan, launch: Launch) -> Result<()> {
        let (list, count, lanes) = (loan.list(), loan.count(), launch.lanes);
        let Loan { slot, number, back, .. } = &loan;
        let bell = self.bell.next(&self.device, launch.blocks);
        let mut args = [
            arg(&list),
            arg(&count),
            arg(&lanes),
            arg(slot),
            arg(number),
            arg(back),
            arg(&bell.at),
            arg(&bell.number),
        ];
        nontemporal::fence();
        self.start_blocks(self.device.kernels()?.pieces, launch.blocks, &mut args)?;
        self.bell.ends_with(Some(bell));
        loan.sent();
        Ok(())
    }

    /// The same with the pieces, which are few, in the parameters.
    fn launch_few(&self, entries: &[Entry], launch: Launch) -> Result<()> {
        let mut few = [Entry::default(); FEW];
        few[..entries.len()].copy_from_slice(entries);
        let (count, lanes) = (entries.len() as u32, launch.lanes);
        let bell = self.bell.next(&self.device, launch.blocks);
        let mut args = [arg(&few), arg(&count), arg(&lanes), arg(&bell.at), arg(&bell.number)];
        self.start_blocks(self.device.kernels()?.few, launch.blocks, &mut args)?;
        self.bell.ends_with(Some(bell));
        Ok(())
    }

    fn launch_rows(&self, rows: &Rows, blocks: u32) -> Result<()> {
        let Rows { dst, dst_pitch, src, src_pitch, width, height } = *rows;
        let rectangle = [dst, dst_pitch, src, src_pitch, width, height].map(|field| field as u64);
        self.start_blocks(self.device.kernels()?.rows, blocks, &mut [arg(&rectangle)])
    }

    pub fn copy_row(&self, dst: usize, src: usize, len: usize) -> Result<()> {
        self.bell.ends_with(None);
        // SAFETY: a row of a plan: both ranges stay valid until the op has passed.
        unsafe { self.current().copy(dst, src, len, self.stream) }
    }

    fn copy_rectangle(&self, rows: &Rows) -> Result<()> {
        self.bell.ends_with(None);
        // SAFETY: a rectangle of a plan: all rows stay valid until the op has passed.
        unsafe { self.current().copy_rows(rows, self.stream) }
    }

    /// A piece of a fill of device memory.
    pub fn fill(&self, piece: Memset) -> Result<()> {
        self.bell.ends_with(None);
        let (current, stream) = (self.current(), self.stream);
        match piece {
            // SAFETY: a piece of a fill: it stays valid until the op has passed.
            Memset::Bytes { dst, byte, count } => unsafe { current.fill_bytes(dst, byte, count, stream) },
            // SAFETY: as above, and aligned to its words.
            Memset::Words { dst, word, count } => unsafe { current.fill_words(dst, word, count, stream) },
        }
    }

    /// Launches a kernel of ours as one block.
    pub fn start(&self, kernel: KernelHandle, args: &[u64]) -> Result<()> {
        let mut args: Vec<_> = args.iter().map(arg).collect();
        self.start_blocks(kernel, 1, &mut args)
    }

    pub fn start_blocks(&self, kernel: KernelHandle, blocks: u32, args: &mut [*mut c_void]) -> Result<()> {
        self.bell.ends_with(None);
        // SAFETY: the kernel takes these arguments, of these sizes, and they are copied before the call returns; what they
        // point at stays valid until the op has passed.
        unsafe { self.current().launch(kernel, (blocks, THREADS), args, self.stream) }
    }

    /// The proof that the context is current, as all callers here say it is.
    pub fn current(&self) -> Current<'_> {
        // SAFETY: whoever puts work into the stream has entered the device.
        unsafe { self.device.assume_current() }
    }
}

/// Where an argument of a kernel is. The driver only reads it.
pub fn arg<T>(value: &T) -> *mut c_void {
    ptr::from_ref(value).cast_mut().cast()
}

/// How to send pieces that have so many bytes together and `most` at most.
fn sending(entries: &[Entry], (bytes, most): (usize, usize), way: Way, constants: &Constants) -> Sending {
    let count = entries.len();
    let (blocks, is_inline) = match planner::choose(&Shape::Pieces { count, bytes, most }, way, constants) {
        Engine::Inline { blocks } => (blocks, true),
        Engine::List { blocks } => (blocks, false),
        Engine::Together => return Sending::Together,
        _ => return Sending::Each,
    };
    // What a kernel reads and writes at once has no order.
    if way == Way::Within && entries.iter().any(Entry::meets) {
        return Sending::Each;
    }
    let share = planner::share(bytes, way, constants);
    let lanes = planner::lanes((bytes / count).min(share));
    Sending::Launch(Launch { lanes, blocks, is_inline, share: (most > share).then_some(share as u64) })
}
