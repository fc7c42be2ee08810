//! What the GPU does by itself, put into the stream of a lane.

use super::{
    driver::{Handle, Rectangle},
    host::Piece,
    planner::{self, Engine, Shape, Way},
    queue::Lane,
    ring::{Entry, FEW, Loan, ROOM},
    settings::Constants,
};
use ferry_core::{Kind, Pieces, Plan, Result, Rows};
use std::{ffi::c_void, mem::MaybeUninit, ptr};

/// Threads of a block: kernels.cu allows no more.
const THREADS: u32 = 1024;

/// How a list of pieces is launched.
#[derive(Clone, Copy)]
struct Launch {
    /// Threads for each piece.
    lanes: u32,
    blocks: u32,
    /// In the parameters of the kernel.
    is_inline: bool,
}

impl Lane {
    /// A copy between device memory and page-locked or device memory; of pageable memory as the driver does it.
    pub(super) fn copy(&self, plan: &Plan) -> Result<()> {
        let (way, pieces) = (self.way(plan.route()), plan.pieces());
        let is_in_reach = !plan.is_plain() && plan.has_one_route();
        let constants = if is_in_reach { self.constants() } else { &Constants::NO_KERNELS };
        match pieces {
            Pieces::Lines(lines) if !plan.is_ordered() => self.send_all(Entry::of(lines), way, constants),
            pieces => pieces.iter().try_for_each(|rows| self.copy_rows(&rows, way, constants)),
        }
    }

    /// Copies pieces that are independent of each other, none of them pageable memory. The context is current.
    pub(super) fn send(&self, entries: &[Entry], way: Way) -> Result<()> {
        self.send_all(entries, way, self.constants())
    }

    fn constants(&self) -> &Constants {
        if self.is_beside { &Constants::NO_KERNELS } else { &self.device.constants }
    }

    fn send_all(&self, entries: &[Entry], way: Way, constants: &Constants) -> Result<()> {
        let (count, sizes) = (entries.len(), entries.iter().map(|entry| entry.len as usize));
        let (bytes, most) = sizes.fold((0, 0), |(bytes, most), len| (bytes + len, len.max(most)));
        let (blocks, is_inline) = match planner::choose(&Shape::Pieces { count, bytes, most }, way, constants)
        {
            Engine::Inline { blocks } => (blocks, true),
            Engine::List { blocks } => (blocks, false),
            _ => return self.send_each(entries, way, constants),
        };
        // What a kernel reads and writes at once has no order.
        if way == Way::Within && entries.iter().any(Entry::meets) {
            return self.send_each(entries, way, constants);
        }
        let share = planner::share(bytes, way, constants);
        let launch = Launch { lanes: planner::lanes((bytes / count).min(share)), blocks, is_inline };
        if most <= share {
            let mut left = entries;
            return self.launch_list(|room| copy_some(room, &mut left), launch);
        }
        let mut parts = entries.iter().flat_map(|entry| entry.cut(share as u64));
        self.launch_list(|room| fill(room, &mut parts), launch)
    }

    fn send_each(&self, entries: &[Entry], way: Way, constants: &Constants) -> Result<()> {
        entries.iter().try_for_each(|entry| {
            let rows = Rows::linear(entry.dst as usize, entry.src as usize, entry.len as usize);
            self.copy_rows(&rows, way, constants)
        })
    }

    /// A row of page-locked memory, by a copy engine.
    pub(super) fn copy_alone(&self, copy: Entry, way: Way) -> Result<()> {
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
        let is_apart = rows.height == 1 && rows.dst.abs_diff(rows.src) >= rows.width;
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

    /// Pieces in as few launches as hold them: `fill` puts as many as fit into the room it is given, and says how many.
    fn launch_list(
        &self,
        mut fill: impl FnMut(&mut [MaybeUninit<Entry>]) -> u32,
        launch: Launch,
    ) -> Result<()> {
        loop {
            // Where page-locked memory is short, pieces go with the launches.
            let loan = if launch.is_inline { None } else { self.device.lend().unwrap_or(None) };
            let is_full = match loan {
                Some(loan) => self.launch_pieces(loan, &mut fill, launch)?,
                None => self.launch_few(&mut fill, launch)?,
            };
            if !is_full {
                return Ok(());
            }
        }
    }

    /// Launches as many pieces as there is room for; whether that was full.
    fn launch_pieces(
        &self,
        mut loan: Loan,
        fill: &mut impl FnMut(&mut [MaybeUninit<Entry>]) -> u32,
        launch: Launch,
    ) -> Result<bool> {
        let (count, lanes, list) = (fill(loan.room()), launch.lanes, loan.list());
        if count > 0 {
            let mut args =
                [arg(&list), arg(&count), arg(&lanes), arg(&loan.slot), arg(&loan.number), arg(&loan.back)];
            self.start_blocks(self.device.kernels()?.pieces, launch.blocks, &mut args)?;
            loan.sent();
        }
        Ok(count as usize == ROOM)
    }

    /// The same with the pieces in the parameters.
    fn launch_few(
        &self,
        fill: &mut impl FnMut(&mut [MaybeUninit<Entry>]) -> u32,
        launch: Launch,
    ) -> Result<bool> {
        let mut few = [MaybeUninit::new(Entry::default()); FEW];
        let (count, lanes) = (fill(&mut few), launch.lanes);
        if count > 0 {
            let mut args = [arg(&few), arg(&count), arg(&lanes)];
            self.start_blocks(self.device.kernels()?.few, launch.blocks, &mut args)?;
        }
        Ok(count as usize == FEW)
    }

    fn launch_rows(&self, rows: &Rows, blocks: u32) -> Result<()> {
        let Rows { dst, dst_pitch, src, src_pitch, width, height } = *rows;
        let rectangle = [dst, dst_pitch, src, src_pitch, width, height].map(|field| field as u64);
        self.start_blocks(self.device.kernels()?.rows, blocks, &mut [arg(&rectangle)])
    }

    pub(super) fn copy_row(&self, dst: usize, src: usize, len: usize) -> Result<()> {
        // SAFETY: a row of a plan: both ranges stay valid until the op has passed.
        let code = unsafe { (self.device.driver.calls.cuMemcpyAsync)(dst, src, len, self.stream) };
        self.device.check(format_args!("cuMemcpyAsync of {len} bytes from {src:#x} to {dst:#x}"), code)
    }

    fn copy_rectangle(&self, rows: &Rows) -> Result<()> {
        let rectangle = Rectangle::from(rows);
        // SAFETY: a rectangle of a plan: all rows stay valid until the op has passed.
        let code = unsafe { (self.device.driver.calls.cuMemcpy2DAsync)(&rectangle, self.stream) };
        let Rows { dst, src, width, height, .. } = rows;
        let call =
            format_args!("cuMemcpy2DAsync of {height} rows of {width} bytes from {src:#x} to {dst:#x}");
        self.device.check(call, code)
    }

    /// A piece of a fill of device memory.
    pub(super) fn fill(&self, piece: Piece) -> Result<()> {
        let calls = &self.device.driver.calls;
        match piece {
            Piece::Bytes { dst, byte, count } => {
                // SAFETY: a piece of a fill: it stays valid until the op has passed.
                let code = unsafe { (calls.cuMemsetD8Async)(dst, byte, count, self.stream) };
                self.device.check(format_args!("cuMemsetD8Async of {count} bytes at {dst:#x}"), code)
            }
            Piece::Words { dst, word, count } => {
                // SAFETY: as above, and aligned to its words.
                let code = unsafe { (calls.cuMemsetD32Async)(dst, word, count, self.stream) };
                self.device.check(format_args!("cuMemsetD32Async of {count} words at {dst:#x}"), code)
            }
        }
    }

    /// Launches a kernel of ours as one block.
    pub(super) fn start(&self, kernel: Handle, args: &[u64]) -> Result<()> {
        let mut args: Vec<_> = args.iter().map(arg).collect();
        self.start_blocks(kernel, 1, &mut args)
    }

    pub(super) fn start_blocks(&self, kernel: Handle, blocks: u32, args: &mut [*mut c_void]) -> Result<()> {
        // SAFETY: the kernel takes these arguments, of these sizes, and they are copied before the call returns; what they
        // point at stays valid until the op has passed.
        let code = unsafe {
            let launch = self.device.driver.calls.cuLaunchKernel;
            launch(kernel, blocks, 1, 1, THREADS, 1, 1, 0, self.stream, args.as_mut_ptr(), ptr::null_mut())
        };
        self.device.check("cuLaunchKernel", code)
    }
}

/// Where an argument of a kernel is. The driver only reads it.
pub(super) fn arg<T>(value: &T) -> *mut c_void {
    ptr::from_ref(value).cast_mut().cast()
}

/// Takes as many entries as there is room for; how many that were.
fn fill(room: &mut [MaybeUninit<Entry>], entries: &mut impl Iterator<Item = Entry>) -> u32 {
    let mut count = 0;
    for (place, entry) in room.iter_mut().zip(entries) {
        place.write(entry);
        count += 1;
    }
    count
}

/// The same from a slice, in one go.
fn copy_some(room: &mut [MaybeUninit<Entry>], left: &mut &[Entry]) -> u32 {
    let (now, later) = left.split_at(left.len().min(room.len()));
    *left = later;
    // SAFETY: the room is as long at least, and nobody else's.
    unsafe { ptr::copy_nonoverlapping(now.as_ptr(), room.as_mut_ptr().cast(), now.len()) };
    now.len() as u32
}
