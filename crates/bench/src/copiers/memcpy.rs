//! memcpy as a peer, row by row or segment by segment, on one thread or on two: what a program does without
//! Ferry.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ferry_abi::{Error, Result};

use crate::bytes::Bytes;
use crate::copier::Copier;
use crate::shape::Shape;
use crate::sides::Sides;

/// A loop of memcpy calls.
pub struct MemcpyCopier {
    sides: Rc<Sides>,
    shape: Arc<Shape>,
    second: Option<SecondThread>,
}

/// A second thread, which lives as long as the peer: starting it is not measured.
struct SecondThread {
    jobs: Sender<MemcpyJob>,
    done: Receiver<()>,
}

/// A share of the copy for one thread. Addresses are numbers, since raw pointers are not `Send`.
struct MemcpyJob {
    shape: Arc<Shape>,
    dst: usize,
    src: usize,
    half: Half,
}

#[derive(Clone, Copy)]
enum Half {
    Whole,
    First,
    Rest,
}

impl MemcpyCopier {
    /// All of it on the calling thread.
    pub fn one_thread(sides: &Rc<Sides>, shape: &Arc<Shape>) -> MemcpyCopier {
        MemcpyCopier { sides: sides.clone(), shape: shape.clone(), second: None }
    }

    /// Half of it on a second thread.
    pub fn two_threads(sides: &Rc<Sides>, shape: &Arc<Shape>) -> Result<MemcpyCopier> {
        let second = Some(SecondThread::start()?);
        Ok(MemcpyCopier { second, ..MemcpyCopier::one_thread(sides, shape) })
    }

    fn job(&self, half: Half) -> MemcpyJob {
        let (dst, src) = (self.sides.dst.all().at() as usize, self.sides.src.all().at() as usize);
        MemcpyJob { shape: self.shape.clone(), dst, src, half }
    }

    fn run(&self) -> Result<()> {
        let Some(second) = &self.second else {
            // SAFETY: the blocks live, hold the shape, and nothing else uses them.
            unsafe { self.job(Half::Whole).run() };
            return Ok(());
        };
        let gone = |_| Error::Setup("the second memcpy thread has ended".to_owned());
        second.jobs.send(self.job(Half::Rest)).map_err(|_| gone(()))?;
        // SAFETY: as above; the other thread writes other bytes.
        unsafe { self.job(Half::First).run() };
        second.done.recv().map_err(|_| gone(()))
    }
}

impl Copier for MemcpyCopier {
    fn name(&self) -> &'static str {
        if self.second.is_some() { "2 threads" } else { "memcpy" }
    }

    /// Copies at once: nothing is left to wait for.
    fn submit(&mut self) -> Result<()> {
        self.run()
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn targets(&self) -> Vec<&dyn Bytes> {
        vec![&self.sides.dst]
    }
}

impl SecondThread {
    fn start() -> Result<SecondThread> {
        let ((jobs, incoming), (answer, done)) = (channel::<MemcpyJob>(), channel());
        let work = move || {
            for job in incoming {
                // SAFETY: the sender waits for the answer and keeps the blocks until then.
                unsafe { job.run() };
                if answer.send(()).is_err() {
                    return;
                }
            }
        };
        let started = thread::Builder::new().name("second memcpy".to_owned()).spawn(work);
        started.map_err(|error| Error::Setup(format!("cannot start a thread: {error}")))?;
        Ok(SecondThread { jobs, done })
    }
}

impl MemcpyJob {
    /// # Safety
    /// Both addresses are of host memory that holds the shape, and no other thread uses this share of it
    /// meanwhile.
    unsafe fn run(&self) {
        match &*self.shape {
            Shape::Line(piece) => {
                let part = self.half.of(piece.len);
                let (dst, src) = (piece.dst + part.start, piece.src + part.start);
                // SAFETY: passed on to the caller.
                unsafe { self.copy(dst, src, part.len()) };
            }
            Shape::Grid(rows) => {
                for row in self.half.of(rows.height) {
                    // SAFETY: passed on to the caller.
                    unsafe { self.copy(row * rows.dst_pitch, row * rows.src_pitch, rows.width) };
                }
            }
            Shape::Segments(pieces) => {
                for piece in &pieces[self.half.of(pieces.len())] {
                    // SAFETY: passed on to the caller.
                    unsafe { self.copy(piece.dst, piece.src, piece.len) };
                }
            }
        }
    }

    /// # Safety
    /// As for `run`.
    unsafe fn copy(&self, dst: usize, src: usize, len: usize) {
        let (dst, src) = ((self.dst + dst) as *mut _, (self.src + src) as *const _);
        // SAFETY: passed on to the caller.
        unsafe { libc::memcpy(dst, src, len) };
    }
}

impl Half {
    fn of(self, count: usize) -> Range<usize> {
        match self {
            Half::Whole => 0..count,
            Half::First => 0..count / 2,
            Half::Rest => count / 2..count,
        }
    }
}
