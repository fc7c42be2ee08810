//! Which contenders take part in a case: Ferry, and the peers that can do the same copy.

use std::rc::Rc;
use std::sync::Arc;

use ferry_abi::session::Session;
use ferry_abi::{Result, library};

use crate::copier::{Copier, Submission, TimedCopier, Timing};
use crate::copiers::acl::AclCopier;
use crate::copiers::cuda::{CudaCopier, CudaDriver};
use crate::copiers::memcpy::MemcpyCopier;
use crate::copiers::opencl::{OpenCl, OpenClCopier};
use crate::copiers::thread::ThreadCopier;
use crate::route::Route;
use crate::sampling::Contender;
use crate::shape::Shape;
use crate::sides::Sides;

/// The copy that every contender of a case does.
pub struct CopySpec {
    /// Between which sorts of memory it goes.
    pub route: Route,
    /// Where the bytes lie in a block on either side.
    pub shape: Arc<Shape>,
    /// Bytes of the block on either side.
    pub room: usize,
    /// How Ferry submits it.
    pub submission: Submission,
    /// What of it is timed.
    pub timing: Timing,
    /// Which of the processor's own peers take part.
    pub memcpy_peers: MemcpyPeers,
}

/// Which peers that copy by memcpy take part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MemcpyPeers {
    /// memcpy on one thread, and on two.
    OneAndTwoThreads,
    /// memcpy on one thread, and no other peer.
    OneThread,
    /// A thread that does memcpy for others.
    WorkerThread,
    /// None of them.
    None,
}

/// The contenders of a case, Ferry first, and a note about a peer that is missing.
type Field = (Vec<Box<dyn Contender>>, Option<String>);

/// The peers that this machine has. On the cuda backend memcpy is none of them: it does not cross to the
/// device.
#[derive(Default)]
pub struct Peers {
    has_memcpy: bool,
    opencl: Option<Rc<OpenCl>>,
    cuda: Option<Rc<CudaDriver>>,
    /// Why a peer that was asked for is missing.
    pub missing: Option<String>,
}

impl Peers {
    /// memcpy on the host backend, and where `wanted` the peer of the backend: the CUDA driver or OpenCL.
    pub fn open(session: &Session, wanted: bool) -> Result<Peers> {
        let backend = library::backend_name();
        let mut peers = Peers { has_memcpy: backend == "host", ..Peers::default() };
        let opened = match &*backend {
            _ if !wanted => Ok(()),
            "cuda" => {
                let ordinal = session.library.physical_number(0)? as i32;
                CudaDriver::open(ordinal).map(|cuda| peers.cuda = Some(cuda))
            }
            _ => OpenCl::open().map(|cl| peers.opencl = Some(cl)),
        };
        peers.missing = opened.err().map(|error| error.to_string());
        Ok(peers)
    }

    /// The GPU's name and the driver's version, where the CUDA driver is a peer.
    pub fn gpu(&self) -> Option<&str> {
        self.cuda.as_ref().map(|cuda| &*cuda.about)
    }

    /// Ferry and every peer that can do the copy.
    pub fn contenders(&self, session: &Session, spec: &CopySpec) -> Result<Field> {
        let sides = Sides::new(session, spec.route, spec.room)?;
        let ours = AclCopier::new(session, spec.route, &spec.shape, spec.submission, &sides)?;
        let (mut all, mut note) = (vec![spec.timed(ours)], None);
        if self.has_memcpy {
            spec.add_memcpy_peers(session, &mut all)?;
        }
        if spec.submission == Submission::Graph {
            return self.beside_a_graph(session, spec, &sides, all);
        }
        if spec.timing.is_a_chain() {
            return Ok((all, note));
        }
        if let Some(cuda) = &self.cuda {
            all.push(spec.timed(CudaCopier::plain(cuda, &sides, &spec.shape)));
            if spec.can_be_a_cuda_batch() {
                match CudaCopier::batch(cuda, &sides, &spec.shape) {
                    Ok(peer) => all.push(spec.timed(peer)),
                    Err(error) => note = Some(error.to_string()),
                }
            }
        }
        if let (Some(cl), true) = (&self.opencl, spec.memcpy_peers != MemcpyPeers::OneThread) {
            match OpenClCopier::new(cl, session.library, spec.route, &spec.shape, spec.room) {
                Ok(peer) => all.push(spec.timed(peer)),
                // Its devices may have less memory than ours.
                Err(error) => note = Some(format!("without {}: {error}", cl.name)),
            }
        }
        Ok((all, note))
    }
}

impl Peers {
    /// What a graph is measured beside: the same copies in a loop of calls and in a batch, and a graph of the
    /// CUDA driver's.
    fn beside_a_graph(
        &self,
        session: &Session,
        spec: &CopySpec,
        sides: &Rc<Sides>,
        mut all: Vec<Box<dyn Contender>>,
    ) -> Result<Field> {
        let forms = [("our loop", Submission::Each), ("our batch", Submission::Together)];
        // Documented: a batch within a device is refused.
        for (name, form) in forms.into_iter().take(if spec.route.crosses() { 2 } else { 1 }) {
            let other = AclCopier::new(session, spec.route, &spec.shape, form, sides)?;
            all.push(spec.timed(other.named(name)));
        }
        let mut note = None;
        if let Some(cuda) = &self.cuda {
            match CudaCopier::graph(cuda, sides, &spec.shape) {
                Ok(peer) => all.push(spec.timed(peer)),
                Err(error) => note = Some(error.to_string()),
            }
        }
        Ok((all, note))
    }
}

impl CopySpec {
    /// A copy in one call and a wait, beside memcpy on one thread and on two.
    pub fn new(route: Route, shape: Shape, room: usize) -> CopySpec {
        // Some hundred microseconds of copying on either backend.
        let least = if library::backend_name() == "host" { 4 << 20 } else { 64 << 20 };
        let timing = Timing::usual(&shape, least);
        CopySpec {
            route,
            shape: Arc::new(shape),
            room,
            submission: Submission::Together,
            timing,
            memcpy_peers: MemcpyPeers::OneAndTwoThreads,
        }
    }

    fn timed(&self, copier: impl Copier + 'static) -> Box<dyn Contender> {
        Box::new(TimedCopier::new(copier, self.shape.clone(), self.timing))
    }

    fn add_memcpy_peers(&self, session: &Session, all: &mut Vec<Box<dyn Contender>>) -> Result<()> {
        if self.memcpy_peers == MemcpyPeers::None {
            return Ok(());
        }
        let sides = Sides::of_the_host(session, self.route, self.room)?;
        if self.memcpy_peers == MemcpyPeers::WorkerThread {
            all.push(self.timed(ThreadCopier::new(&sides, self.shape.bytes())?));
            return Ok(());
        }
        all.push(self.timed(MemcpyCopier::one_thread(&sides, &self.shape)));
        if self.memcpy_peers == MemcpyPeers::OneAndTwoThreads {
            all.push(self.timed(MemcpyCopier::two_threads(&sides, &self.shape)?));
        }
        Ok(())
    }

    /// cuMemcpyBatchAsync takes segments in page-locked memory; a loop of calls is measured beside a loop
    /// only.
    fn can_be_a_cuda_batch(&self) -> bool {
        matches!(*self.shape, Shape::Segments(_))
            && self.submission != Submission::Each
            && !self.route.is_pageable()
    }
}
