//! A worker thread as a peer: it takes copies from a channel and does memcpy, which is asynchrony made by
//! hand. Joined copies are done by two such threads, of which the first tells the second.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ferry_abi::{Error, Result};

use crate::bytes::Bytes;
use crate::copier::Copier;
use crate::sides::Sides;

/// A worker thread that does memcpy.
pub struct ThreadCopier {
    tasks: Sender<ThreadTask>,
    told: Receiver<()>,
    /// A second thread, which waits for the first; started when it is first used.
    second: OnceCell<Box<ThreadCopier>>,
    sides: Rc<Sides>,
    len: usize,
}

/// A message to the thread. Addresses are numbers, since raw pointers are not `Send`.
enum ThreadTask {
    Copy {
        dst: usize,
        src: usize,
        len: usize,
    },
    Tell,
    /// This task goes to another thread.
    Send(Sender<ThreadTask>, Box<ThreadTask>),
    Call(fn()),
}

impl ThreadCopier {
    /// Starts a thread that copies `len` bytes from the start of one side to the start of the other.
    pub fn new(sides: &Rc<Sides>, len: usize) -> Result<ThreadCopier> {
        let ((tasks, incoming), (tell, told)) = (channel(), channel());
        let work = move || {
            for task in incoming {
                match task {
                    // SAFETY: the sender waits for the thread before it frees the blocks.
                    ThreadTask::Copy { dst, src, len } => unsafe {
                        libc::memcpy(dst as *mut _, src as *const _, len);
                    },
                    ThreadTask::Tell if tell.send(()).is_err() => return,
                    ThreadTask::Tell => {}
                    ThreadTask::Send(other, task) => {
                        if other.send(*task).is_err() {
                            return;
                        }
                    }
                    ThreadTask::Call(function) => function(),
                }
            }
        };
        let started = thread::Builder::new().name("memcpy".to_owned()).spawn(work);
        started.map_err(|error| Error::Setup(format!("cannot start a thread: {error}")))?;
        Ok(ThreadCopier { tasks, told, second: OnceCell::new(), sides: sides.clone(), len })
    }

    /// The copy as a task.
    fn copy(&self) -> ThreadTask {
        let (dst, src) = (self.sides.dst.all().at() as usize, self.sides.src.all().at() as usize);
        ThreadTask::Copy { dst, src, len: self.len }
    }

    fn send(&self, task: ThreadTask) -> Result<()> {
        self.tasks.send(task).map_err(|_| ended())
    }
}

impl Copier for ThreadCopier {
    fn name(&self) -> &'static str {
        "thread"
    }

    fn submit(&mut self) -> Result<()> {
        self.send(self.copy())
    }

    fn submit_joined(&mut self) -> Result<()> {
        if self.second.get().is_none() {
            drop(self.second.set(Box::new(ThreadCopier::new(&self.sides, self.len)?)));
        }
        let second = self.second.get().expect("made above").tasks.clone();
        self.submit()?;
        self.send(ThreadTask::Send(second, Box::new(self.copy())))
    }

    /// The second thread tells; what it is to do comes by the first.
    fn wait_joined(&mut self) -> Result<()> {
        let Some(second) = self.second.get() else { return self.wait() };
        self.send(ThreadTask::Send(second.tasks.clone(), Box::new(ThreadTask::Tell)))?;
        second.told.recv().map_err(|_| ended())
    }

    fn submit_around_function(&mut self) -> Result<()> {
        self.submit()?;
        self.send(ThreadTask::Call(|| ()))?;
        self.submit()
    }

    fn wait(&mut self) -> Result<()> {
        self.send(ThreadTask::Tell)?;
        self.told.recv().map_err(|_| ended())
    }

    fn targets(&self) -> Vec<&dyn Bytes> {
        vec![&self.sides.dst]
    }
}

fn ended() -> Error {
    Error::Setup("the memcpy thread has ended".to_owned())
}
