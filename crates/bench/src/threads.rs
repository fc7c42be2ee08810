//! Threads that each make a stream, copy a batch, wait, and end, as a program does that starts a thread for
//! each request: what setting up costs is in the sample.

use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferry_abi::session::Session;
use ferry_abi::stream::Stream;
use ferry_abi::{Error, Result};

use crate::copiers::acl::BatchArrays;
use crate::copiers::cuda::{CudaBatch, CudaDriver, CudaStream};
use crate::peers::Peers;
use crate::route::Route;
use crate::sampling::Contender;
use crate::shape::{self, Segment, Shape};
use crate::sides::Sides;

/// What one thread does.
type ThreadWork = Box<dyn FnMut() -> Result<()> + Send>;

/// Ferry, and the CUDA driver in loops and in batches. Each thread has an equal share of the shape, which
/// lies in `room` bytes.
pub fn contenders(
    session: &Session,
    peers: &Peers,
    (route, threads, shape, room): (Route, usize, Shape, usize),
) -> Result<Vec<Box<dyn Contender>>> {
    let (sides, shape) = (Sides::new(session, route, room)?, Arc::new(shape));
    let segments = sides.addresses(&shape);
    let shares = || segments.chunks(segments.len() / threads);
    let contender = |name, work: Vec<ThreadWork>| -> Box<dyn Contender> {
        Box::new(ThreadsContender { name, work, shape: shape.clone(), sides: sides.clone() })
    };
    let ours = shares().map(|share| our_thread(session, route, share)).collect();
    let mut all = vec![contender("ferry", ours)];
    if let Some(cuda) = peers.cuda() {
        let loops = shares().map(|share| cuda_thread(cuda, CudaThread::Loop(share.to_vec()))).collect();
        all.push(contender("CUDA loop", loops));
        if cuda.must_have_batches().is_ok() {
            let batch = |share: &[Segment]| cuda_thread(cuda, CudaThread::Batch(CudaBatch::new(share)));
            all.push(contender("CUDA batch", shares().map(batch).collect()));
        }
    }
    Ok(all)
}

fn our_thread(session: &Session, route: Route, share: &[Segment]) -> ThreadWork {
    let (library, enter, mut arrays) = (session.library, session.entry(), BatchArrays::new(share, route));
    Box::new(move || {
        enter()?;
        let stream = Stream::new(library)?;
        // SAFETY: the pieces lie in blocks of the contender, which waits for the threads.
        unsafe { arrays.submit(library, stream.handle()) }?;
        stream.synchronise()
    })
}

/// How a thread of the driver's copies.
enum CudaThread {
    Loop(Vec<Segment>),
    Batch(CudaBatch),
}

fn cuda_thread(cuda: &Arc<CudaDriver>, mut copies: CudaThread) -> ThreadWork {
    let cuda = cuda.clone();
    Box::new(move || {
        cuda.within(|| {
            let stream = CudaStream::new(&cuda)?;
            // SAFETY: as for ours; the context is current.
            unsafe {
                match &mut copies {
                    CudaThread::Loop(share) => {
                        share.iter().try_for_each(|one| stream.copy(one.dst, one.src, one.len))
                    }
                    CudaThread::Batch(batch) => stream.copy_batch(batch),
                }
            }?;
            stream.synchronise()
        })
    })
}

/// Starts all threads and waits for them.
struct ThreadsContender {
    name: &'static str,
    work: Vec<ThreadWork>,
    shape: Arc<Shape>,
    sides: Rc<Sides>,
}

impl Contender for ThreadsContender {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&mut self) -> Result<Duration> {
        let begin = Instant::now();
        let panicked = |_| Err(Error::Setup("a thread that copies has panicked".to_owned()));
        thread::scope(|scope| {
            let started: Vec<_> = self.work.iter_mut().map(|work| scope.spawn(work)).collect();
            let joined = started.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
            joined.fold(Ok(()), Result::and)
        })?;
        Ok(begin.elapsed())
    }

    fn spoil(&mut self) -> Result<()> {
        shape::spoil(&self.sides.dst)
    }

    fn check(&mut self) -> Result<usize> {
        self.shape.check(self.name, &self.sides.dst)
    }
}
