//! What a small copy costs apart from its bytes: to hand it over, to wait for it, to see an event after it.
//!
//! The peers are other ways to have it done by somebody else: OpenCL, and a thread that takes work from a channel.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::block::{Block, Bytes, H2D};
use super::opencl::{OpenCl, Peer};
use super::shape::{self, Shape};
use super::trial::Contender;
use crate::error::{Error, Result};
use crate::library::{Library, call};
use crate::tour::ctx::Ctx;
use crate::tour::memory::Home;
use crate::tour::stream::{Event, Stream};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Until the copy is handed over.
    Submit,
    /// Until the caller knows that it is done.
    RoundTrip,
    /// The same, when nothing has happened for a while.
    AfterQuiet,
    /// Until the caller knows that an event after it has come.
    Event,
}

/// Copies that are handed over one after another and waited for together.
pub const SUBMITTED: usize = 2_000;
/// Round trips in a sample.
const TRIPS: usize = 200;
/// How long nothing happens.
pub const QUIET: Duration = Duration::from_millis(10);

/// Somebody who copies the same few bytes from page-locked memory to a device whenever told to.
trait Lane {
    fn name(&self) -> &'static str;
    fn submit(&mut self) -> Result<()>;
    /// Waits for all that was submitted.
    fn wait(&mut self) -> Result<()>;
    /// Puts an event behind all that was submitted and waits for that.
    fn wait_by_event(&mut self) -> Result<()>;
    fn spoil(&mut self) -> Result<()>;
    fn check(&mut self) -> Result<usize>;
}

/// Ours, a thread, and OpenCL where there is one.
pub fn contenders(
    ctx: &Ctx,
    call: Call,
    len: usize,
    cl: Option<&Rc<OpenCl>>,
) -> Result<Vec<Box<dyn Contender>>> {
    let mut contenders: Vec<Box<dyn Contender>> = vec![
        Box::new(Timed { call, lane: OurLane::new(ctx, len)? }),
        Box::new(Timed { call, lane: ThreadLane::new(ctx.library, len)? }),
    ];
    if let Some(cl) = cl {
        let lane = Peer::new(cl, ctx.library, H2D, &Arc::new(Shape::line(len)), len)?;
        contenders.push(Box::new(Timed { call, lane }));
    }
    Ok(contenders)
}

struct Timed<L> {
    call: Call,
    lane: L,
}

impl<L: Lane> Contender for Timed<L> {
    fn name(&self) -> &'static str {
        self.lane.name()
    }

    fn sample(&mut self) -> Result<Duration> {
        let lane = &mut self.lane;
        if self.call == Call::AfterQuiet {
            thread::sleep(QUIET);
        }
        let begin = Instant::now();
        match self.call {
            Call::Submit => {
                for _ in 0..SUBMITTED {
                    lane.submit()?;
                }
                let time = begin.elapsed();
                lane.wait()?;
                Ok(time / SUBMITTED as u32)
            }
            Call::RoundTrip => {
                for _ in 0..TRIPS {
                    lane.submit()?;
                    lane.wait()?;
                }
                Ok(begin.elapsed() / TRIPS as u32)
            }
            Call::AfterQuiet => {
                lane.submit()?;
                lane.wait()?;
                Ok(begin.elapsed())
            }
            Call::Event => {
                for _ in 0..TRIPS {
                    lane.submit()?;
                    lane.wait_by_event()?;
                }
                Ok(begin.elapsed() / TRIPS as u32)
            }
        }
    }

    fn spoil(&mut self) -> Result<()> {
        self.lane.spoil()
    }

    fn check(&mut self) -> Result<usize> {
        self.lane.check()
    }
}

struct OurLane {
    library: &'static Library,
    stream: Stream,
    event: Event,
    dst: Block,
    src: Block,
}

impl OurLane {
    fn new(ctx: &Ctx, len: usize) -> Result<OurLane> {
        let library = ctx.library;
        let (dst, src) = (Block::new(library, Home::Device, len)?, Block::new(library, Home::Locked, len)?);
        shape::write_source(&src)?;
        Ok(OurLane { library, stream: ctx.stream()?, event: ctx.event()?, dst, src })
    }
}

impl Lane for OurLane {
    fn name(&self) -> &'static str {
        "ferry"
    }

    fn submit(&mut self) -> Result<()> {
        let (dst, src, len) = (self.dst.at(), self.src.at(), self.dst.len());
        let stream = self.stream.handle();
        // SAFETY: both blocks live until the stream has passed this copy: whoever submits also waits.
        unsafe { call!(self.library, aclrtMemcpyAsync(dst, len, src, len, H2D.kind, stream)) }
    }

    fn wait(&mut self) -> Result<()> {
        self.stream.synchronise()
    }

    fn wait_by_event(&mut self) -> Result<()> {
        self.stream.record(&self.event)?;
        self.event.synchronise()
    }

    fn spoil(&mut self) -> Result<()> {
        shape::spoil(&self.dst)
    }

    fn check(&mut self) -> Result<usize> {
        Shape::line(self.dst.len()).check(self.name(), &self.dst)
    }
}

impl Lane for Peer {
    fn name(&self) -> &'static str {
        Contender::name(self)
    }

    fn submit(&mut self) -> Result<()> {
        Peer::submit(self)
    }

    fn wait(&mut self) -> Result<()> {
        self.queue().finish()
    }

    fn wait_by_event(&mut self) -> Result<()> {
        self.queue().mark()
    }

    fn spoil(&mut self) -> Result<()> {
        Contender::spoil(self)
    }

    fn check(&mut self) -> Result<usize> {
        Contender::check(self)
    }
}

/// A thread that does memcpy for others.
struct ThreadLane {
    tasks: Sender<Task>,
    told: Receiver<()>,
    dst: Block,
    src: Block,
}

/// What the thread is asked for; addresses are numbers: raw pointers do not go to another thread.
enum Task {
    Copy { dst: usize, src: usize, len: usize },
    Tell,
}

impl ThreadLane {
    fn new(library: &'static Library, len: usize) -> Result<ThreadLane> {
        let (dst, src) = (Block::new(library, Home::Locked, len)?, Block::new(library, Home::Locked, len)?);
        shape::write_source(&src)?;
        let ((tasks, incoming), (tell, told)) = (channel(), channel());
        let work = move || {
            for task in incoming {
                match task {
                    // SAFETY: whoever sent it waits before it lets the blocks go.
                    Task::Copy { dst, src, len } => unsafe {
                        libc::memcpy(dst as *mut _, src as *const _, len);
                    },
                    Task::Tell if tell.send(()).is_err() => return,
                    Task::Tell => {}
                }
            }
        };
        let started = thread::Builder::new().name("memcpy".to_owned()).spawn(work);
        started.map_err(|error| Error::Setup(format!("cannot start a thread: {error}")))?;
        Ok(ThreadLane { tasks, told, dst, src })
    }

    fn send(&self, task: Task) -> Result<()> {
        self.tasks.send(task).map_err(|_| ended())
    }
}

impl Lane for ThreadLane {
    fn name(&self) -> &'static str {
        "thread"
    }

    fn submit(&mut self) -> Result<()> {
        let (dst, src) = (self.dst.at() as usize, self.src.at() as usize);
        self.send(Task::Copy { dst, src, len: self.dst.len() })
    }

    fn wait(&mut self) -> Result<()> {
        self.send(Task::Tell)?;
        self.told.recv().map_err(|_| ended())
    }

    fn wait_by_event(&mut self) -> Result<()> {
        self.wait()
    }

    fn spoil(&mut self) -> Result<()> {
        shape::spoil(&self.dst)
    }

    fn check(&mut self) -> Result<usize> {
        Shape::line(self.dst.len()).check(self.name(), &self.dst)
    }
}

fn ended() -> Error {
    Error::Setup("the memcpy thread has ended".to_owned())
}
