//! The pairs that are compared: work submitted by the core's own call, and the same work submitted through
//! this crate.

use crate::sample::{Hold, measured};
use ferry::{Batch, Failed, HostBuffer, InFlight, Options, Part, Result, Runtime, Stream, engine};
use ferry_core::{Home, Memory, Op, Plan, QueueOptions, Request, Rows, Stream as CoreStream, Ticket};
use std::{hint::black_box, sync::Arc, time::Duration};

/// The most that this crate may cost, as a multiple of the core.
const LIMIT: f64 = 1.10;
/// The most for rows, whose shapes are compared, and for pieces, of which empty ones are left out: the core's
/// caller does neither; and for a token made anew, which holds its stream: that is an atomic addition.
const MORE_LIMIT: f64 = 1.15;
/// The most for bytes in one piece, which go a shorter way than the core's call that everything is compared
/// with.
const SHORT_LIMIT: f64 = 0.75;

/// What every copy moves; a row of it, if it has rows.
const BYTES: usize = 64;
const ROWS: usize = 8;
const PITCH: usize = 128;
/// What a batch consists of.
const PIECES: usize = 4096;

/// One side of a comparison: submits this many times, and says how long that took. What comes before and
/// after is not counted, waiting above all. The stream is held meanwhile, or runs.
type Side<'a> = Box<dyn FnMut(usize, bool) -> Duration + 'a>;

/// A piece of work, submitted in two ways.
pub struct Pair<'a> {
    pub name: String,
    /// How many pieces one submission has: costs are given per piece.
    pub pieces: usize,
    /// The most that this crate may cost, as a multiple of the core.
    pub limit: f64,
    pub core: Side<'a>,
    pub ferry: Side<'a>,
}

/// A runtime of the core and one of this crate, opened alike.
pub struct Setup {
    core: Core,
    runtime: Runtime,
    stream: Stream,
}

struct Core {
    runtime: ferry_core::Runtime,
    stream: Arc<CoreStream>,
}

impl Core {
    fn alloc(&self, home: Home, len: usize) -> Result<usize> {
        Ok(self.runtime.alloc(&Request { home, len, page: 4096 })?.base)
    }

    /// The call that everything is compared with.
    #[inline(always)]
    fn submit(&self, pieces: impl IntoIterator<Item = Rows> + Clone) -> Ticket {
        let plan = |memory: &Memory| Plan::new(pieces.clone(), memory, |_, _| Ok(())).map(Op::Copy);
        // SAFETY: all memory of the plan is known to the runtime.
        unsafe { self.stream.submit(plan) }.expect("a good plan")
    }

    /// The side that copies `len` bytes from `src` to `dst` again and again. Nothing of it is known when this
    /// is compiled.
    fn linear<'a>(&'a self, dst: usize, src: usize, len: usize) -> Side<'a> {
        let (dst, src, len) = black_box((dst, src, len));
        self.side(move |_| {
            self.submit([Rows::linear(dst, src, len)]);
        })
    }

    /// The side that copies rows with a pitch on both sides.
    fn rows(&self) -> Result<Side<'_>> {
        let room = ROWS * PITCH;
        let (dst, src) = (self.alloc(Home::Device(0), room)?, self.alloc(Home::Host, room)?);
        let (dst_pitch, src_pitch, width, height) = black_box((PITCH, PITCH, BYTES, ROWS));
        let rows = move || Rows { dst, dst_pitch, src, src_pitch, width, height };
        Ok(self.side(move |_| {
            self.submit([rows()]);
        }))
    }

    /// The side that does `submit` again and again, with the number of the submission.
    fn side<'a>(&'a self, mut submit: impl FnMut(usize) + 'a) -> Side<'a> {
        Box::new(move |count, held| {
            let hold = held.then(|| Hold::new(|function| self.stream.call(function).map(drop)));
            let ((), took) = measured(|| (0..count).for_each(&mut submit));
            drop(hold);
            self.stream.synchronize(None).expect("the copies work");
            took
        })
    }
}

type Bytes = HostBuffer<u8>;

impl Setup {
    pub fn open() -> Result<Setup> {
        let options = Options { device_memory: Some(64 << 20), ..Options::from_env()? };
        let (core, runtime) = (engine::open(&options)?, Runtime::open(&options)?);
        let stream = runtime.device(0)?.stream()?;
        let core = Core { stream: core.stream(0, QueueOptions::default())?, runtime: core };
        Ok(Setup { core, runtime, stream })
    }

    /// All pairs, of which each is submitted up to `most` times at once.
    pub fn pairs(&self, most: usize) -> Result<Vec<Pair<'_>>> {
        Ok(vec![
            self.upload()?,
            self.download()?,
            self.kept(most)?,
            self.scoped()?,
            self.matrix()?,
            self.scoped_matrix()?,
            self.copy()?,
            self.batch(64)?,
            self.batch(4096)?,
        ])
    }

    fn hold(&self, held: bool) -> Option<Hold> {
        held.then(|| Hold::new(|function| self.stream.call(function)))
    }

    fn upload(&self) -> Result<Pair<'_>> {
        let (device, host) = (self.core.alloc(Home::Device(0), BYTES)?, self.core.alloc(Home::Host, BYTES)?);
        let core = self.core.linear(device, host, BYTES);
        let there = self.runtime.device(0)?.alloc::<u8>(BYTES)?;
        let first = self.stream.upload(&there, self.runtime.alloc_host(BYTES)?)?;
        let ferry = self.handed_on(first, move |token| self.stream.upload(&there, token));
        Ok(Pair { name: "upload, token handed on".into(), pieces: 1, limit: SHORT_LIMIT, core, ferry })
    }

    fn download(&self) -> Result<Pair<'_>> {
        let (device, host) = (self.core.alloc(Home::Device(0), BYTES)?, self.core.alloc(Home::Host, BYTES)?);
        let core = self.core.linear(host, device, BYTES);
        let there = self.runtime.device(0)?.alloc::<u8>(BYTES)?;
        let first = self.stream.upload(&there, self.runtime.alloc_host(BYTES)?)?;
        let ferry = self.handed_on(first, move |token| self.stream.download(token, &there));
        Ok(Pair { name: "download, token handed on".into(), pieces: 1, limit: SHORT_LIMIT, core, ferry })
    }

    /// Rows that have a pitch on both sides.
    fn matrix(&self) -> Result<Pair<'_>> {
        let room = ROWS * PITCH;
        let core = self.core.rows()?;
        // Kept for ever, since what is measured borrows it.
        let there = Box::leak(Box::new(self.runtime.device(0)?.alloc::<u8>(room)?));
        let there = there.matrix_pitched(ROWS, BYTES, PITCH)?;
        let host = self.runtime.alloc_host(room)?.into_matrix(ROWS, BYTES, PITCH)?;
        let first = self.stream.upload(there, host)?;
        let ferry =
            self.handed_on(first, move |token: InFlight<Part<Bytes>>| self.stream.upload(there, token));
        Ok(Pair { name: "2-D upload, token handed on".into(), pieces: 1, limit: MORE_LIMIT, core, ferry })
    }

    /// The side that gives the token of each copy to the next one.
    fn handed_on<'a, B: 'a>(
        &'a self,
        first: InFlight<B>,
        copy: impl Fn(InFlight<B>) -> Result<InFlight<B>, Failed<InFlight<B>>> + 'a,
    ) -> Side<'a> {
        let mut kept = Some(first);
        Box::new(move |count, held| {
            let hold = self.hold(held);
            let token = kept.take().expect("kept at the end");
            let (token, took) = measured(|| {
                // A variable of the loop's own, as a program has it.
                let mut token = token;
                for _ in 0..count {
                    token = match copy(token) {
                        Ok(next) => next,
                        Err(failed) => panic!("{failed}"),
                    };
                }
                token
            });
            drop(hold);
            self.stream.synchronize().expect("the copies work");
            kept = Some(token);
            took
        })
    }

    /// A buffer for each copy, and all tokens kept until the end.
    fn kept(&self, most: usize) -> Result<Pair<'_>> {
        let device = self.core.alloc(Home::Device(0), BYTES)?;
        let hosts = (0..most).map(|_| self.core.alloc(Home::Host, BYTES)).collect::<Result<Vec<_>>>()?;
        // Who wants to wait for each of them and free it keeps what it is, as large as a buffer, and its
        // ticket.
        let mut blocks: Vec<_> = black_box(hosts.into_iter().map(|host| (host, BYTES, 0_usize)).collect());
        let mut kept = Vec::with_capacity(most);
        let core = move |count, held: bool| {
            let hold = held.then(|| Hold::new(|function| self.core.stream.call(function).map(drop)));
            let ((), took) = measured(|| {
                for block in blocks.drain(..count) {
                    kept.push((block, self.core.submit([Rows::linear(device, block.0, block.1)])));
                }
            });
            drop(hold);
            self.core.stream.synchronize(None).expect("the copies work");
            blocks.extend(kept.drain(..).map(|(block, _)| block));
            took
        };
        let there = self.runtime.device(0)?.alloc::<u8>(BYTES)?;
        let mut buffers =
            (0..most).map(|_| self.runtime.alloc_host(BYTES)).collect::<Result<Vec<Bytes>>>()?;
        let mut tokens = Vec::with_capacity(most);
        let ferry = move |count, held| {
            let hold = self.hold(held);
            let ((), took) = measured(|| {
                for buffer in buffers.drain(..count) {
                    tokens.push(self.stream.upload(&there, buffer).expect("a good copy"));
                }
            });
            drop(hold);
            buffers.extend(tokens.drain(..).map(|token| token.wait().expect("the copies work")));
            took
        };
        let (core, ferry) = (Box::new(core), Box::new(ferry));
        Ok(Pair { name: "upload, tokens kept".into(), pieces: 1, limit: SHORT_LIMIT, core, ferry })
    }

    /// A buffer that is lent.
    fn scoped(&self) -> Result<Pair<'_>> {
        let (device, host) = (self.core.alloc(Home::Device(0), BYTES)?, self.core.alloc(Home::Host, BYTES)?);
        let core = self.core.linear(device, host, BYTES);
        let there = self.runtime.device(0)?.alloc::<u8>(BYTES)?;
        let buffer: Bytes = self.runtime.alloc_host(BYTES)?;
        let ferry = move |count, held| {
            let hold = self.hold(held);
            let scoped = self.stream.scope(|scope| {
                let submit = |_| drop(scope.upload(&there, &buffer).expect("a good copy"));
                let ((), took) = measured(|| (0..count).for_each(submit));
                drop(hold);
                Ok(took)
            });
            scoped.expect("the copies work")
        };
        Ok(Pair { name: "scoped upload".into(), pieces: 1, limit: SHORT_LIMIT, core, ferry: Box::new(ferry) })
    }

    /// Rows that are lent.
    fn scoped_matrix(&self) -> Result<Pair<'_>> {
        let room = ROWS * PITCH;
        let there = self.runtime.device(0)?.alloc::<u8>(room)?;
        let buffer: Bytes = self.runtime.alloc_host(room)?;
        let ferry = move |count, held| {
            let hold = self.hold(held);
            let there = there.matrix_pitched(ROWS, BYTES, PITCH).expect("it fits");
            let rows = buffer.matrix_pitched(ROWS, BYTES, PITCH).expect("it fits");
            let scoped = self.stream.scope(|scope| {
                let submit = |_| drop(scope.upload(there, rows).expect("a good copy"));
                let ((), took) = measured(|| (0..count).for_each(submit));
                drop(hold);
                Ok(took)
            });
            scoped.expect("the copies work")
        };
        let (name, core) = ("2-D scoped upload".into(), self.core.rows()?);
        Ok(Pair { name, pieces: 1, limit: MORE_LIMIT, core, ferry: Box::new(ferry) })
    }

    /// From one place of a device to another.
    fn copy(&self) -> Result<Pair<'_>> {
        let (dst, src) = (self.core.alloc(Home::Device(0), BYTES)?, self.core.alloc(Home::Device(0), BYTES)?);
        let core = self.core.linear(dst, src, BYTES);
        let device = self.runtime.device(0)?;
        let (to, from) = (device.alloc::<u8>(BYTES)?, device.alloc::<u8>(BYTES)?);
        let ferry = move |count, held| {
            let hold = self.hold(held);
            let submit = |_| self.stream.copy(&to, &from).expect("a good copy");
            let ((), took) = measured(|| (0..count).for_each(submit));
            drop(hold);
            self.stream.synchronize().expect("the copies work");
            took
        };
        Ok(Pair {
            name: "copy inside a device".into(),
            pieces: 1,
            limit: LIMIT,
            core,
            ferry: Box::new(ferry),
        })
    }

    /// Many pieces of `len` bytes, in one submission.
    fn batch(&self, len: usize) -> Result<Pair<'_>> {
        let room = PIECES * len;
        let (device, host) = (self.core.alloc(Home::Device(0), room)?, self.core.alloc(Home::Host, room)?);
        let pieces: Vec<_> = (0..PIECES).map(|i| (device + i * len, host + i * len, len)).collect();
        let core = self.core.side(move |_| {
            self.core.submit(pieces.iter().map(|(dst, src, len)| Rows::linear(*dst, *src, *len)));
        });
        let there = self.runtime.device(0)?.alloc::<u8>(room)?;
        let mut first = Some(self.stream.upload(&there, self.runtime.alloc_host(room)?)?);
        let ferry = move |count, held| {
            let hold = self.hold(held);
            let mut token = first.take().expect("kept at the end");
            let mut took = Duration::ZERO;
            for _ in 0..count {
                let mut batch = Batch::new(token);
                for i in 0..PIECES {
                    let part = i * len..(i + 1) * len;
                    batch.push(there.slice(part.clone()).expect("it fits"), part).expect("as many");
                }
                let (next, one) = measured(|| self.stream.upload_batch(batch));
                token = next.expect("a good batch");
                took += one;
            }
            drop(hold);
            self.stream.synchronize().expect("the copies work");
            first = Some(token);
            took
        };
        let name = format!("batch of {PIECES} x {len} B, a piece");
        Ok(Pair { name, pieces: PIECES, limit: MORE_LIMIT, core, ferry: Box::new(ferry) })
    }
}
