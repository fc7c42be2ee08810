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
use crate::duplex::BothWays;
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
    cuda: Option<Arc<CudaDriver>>,
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

    /// The CUDA driver, where it is a peer.
    pub fn cuda(&self) -> Option<&Arc<CudaDriver>> {
        self.cuda.as_ref()
    }

    /// Ferry and every peer that can do the copy.
    pub fn contenders(&self, session: &Session, spec: &CopySpec) -> Result<Field> {
        self.contenders_in(&self.memory(session, spec)?, session, spec)
    }

    /// The memory that the contenders of a case copy between. Cases that are not larger may share it.
    pub fn memory(&self, session: &Session, spec: &CopySpec) -> Result<CaseMemory> {
        let ways = spec.route.ways();
        let side = |route: &Route| Ok((*route, Sides::new(session, *route, spec.room)?));
        let host = |route: &Route| Ok((*route, Sides::of_the_host(session, *route, spec.room)?));
        let is_used_by_memcpy = self.has_memcpy && spec.memcpy_peers != MemcpyPeers::None;
        Ok(CaseMemory {
            ours: ways.iter().map(side).collect::<Result<_>>()?,
            host: ways.iter().filter(|_| is_used_by_memcpy).map(host).collect::<Result<_>>()?,
        })
    }

    /// As `contenders`, in memory that is there already.
    pub fn contenders_in(&self, memory: &CaseMemory, session: &Session, spec: &CopySpec) -> Result<Field> {
        let (mut all, mut note) = (vec![spec.ours(session, memory)?], None);
        spec.add_memcpy_peers(memory, &mut all)?;
        if spec.submission == Submission::Graph {
            return self.beside_a_graph(session, spec, memory, all);
        }
        if let Some(cuda) = &self.cuda {
            let plain =
                |route, sides: &_| CudaCopier::plain(cuda, route, &spec.shape, spec.submission, sides);
            all.push(spec.timed(each(&memory.ours, plain)?));
            if spec.can_be_a_cuda_batch() {
                note = spec.add_cuda_batch(cuda, memory, &mut all)?;
            }
        }
        if let (Some(cl), true) = (&self.opencl, spec.can_be_opencl()) {
            match OpenClCopier::new(cl, session.library, spec.route, &spec.shape, spec.room) {
                Ok(peer) => all.push(spec.timed(vec![peer])),
                // Its devices may have less memory than ours.
                Err(error) => note = Some(format!("without {}: {error}", cl.name)),
            }
        }
        Ok((all, note))
    }

    /// What a graph is measured beside: the same copies in a loop of calls and in a batch, and a graph of the
    /// CUDA driver's.
    fn beside_a_graph(
        &self,
        session: &Session,
        spec: &CopySpec,
        memory: &CaseMemory,
        mut all: Vec<Box<dyn Contender>>,
    ) -> Result<Field> {
        let forms = [("our loop", Submission::Each), ("our batch", Submission::Together)];
        // Documented: a batch within a device is refused.
        for (name, form) in forms.into_iter().take(if spec.route.crosses() { 2 } else { 1 }) {
            let other = |route, sides: &_| AclCopier::new(session, route, &spec.shape, form, sides);
            let other = each(&memory.ours, |route, sides| Ok(other(route, sides)?.named(name)))?;
            all.push(spec.timed(other));
        }
        let mut note = None;
        if let Some(cuda) = &self.cuda {
            match each(&memory.ours, |_, sides| CudaCopier::graph(cuda, &spec.shape, sides)) {
                Ok(peer) => all.push(spec.timed(peer)),
                Err(error) => note = Some(error.to_string()),
            }
        }
        Ok((all, note))
    }

    /// What copies are measured beside while a matrix product runs: the driver's batches, or its loop where
    /// it has none, and one contiguous copy of as many bytes, which a copy engine does.
    pub fn beside_a_product(&self, session: &Session, spec: &CopySpec) -> Result<Field> {
        let memory = self.memory(session, spec)?;
        let (mut all, mut note) = (vec![spec.ours(session, &memory)?], None);
        if let Some(cuda) = &self.cuda {
            let line = CopySpec { shape: Arc::new(Shape::line(spec.shape.bytes())), ..*spec };
            let plain = |spec: &CopySpec, route, sides: &_| {
                CudaCopier::plain(cuda, route, &spec.shape, spec.submission, sides)
            };
            note = spec.add_cuda_batch(cuda, &memory, &mut all)?;
            if note.is_some() {
                all.push(spec.timed(each(&memory.ours, |route, sides| plain(spec, route, sides))?));
            }
            let copy = |route, sides: &_| Ok(plain(&line, route, sides)?.named("CUDA copy"));
            all.push(line.timed(each(&memory.ours, copy)?));
        }
        Ok((all, note))
    }
}

/// The memory of a case: a target and a source for each way.
pub struct CaseMemory {
    ours: Vec<(Route, Rc<Sides>)>,
    /// In place of the device's also host memory, where peers copy by memcpy.
    host: Vec<(Route, Rc<Sides>)>,
}

/// A copier for each way.
fn each<C>(ways: &[(Route, Rc<Sides>)], make: impl Fn(Route, &Rc<Sides>) -> Result<C>) -> Result<Vec<C>> {
    ways.iter().map(|(route, sides)| make(*route, sides)).collect()
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

    /// The copiers of all ways, timed as one.
    fn timed<C: Copier + 'static>(&self, mut ways: Vec<C>) -> Box<dyn Contender> {
        let (shape, timing, room) = (self.shape.clone(), self.timing, self.room);
        match ways.len() {
            1 => Box::new(TimedCopier::new(ways.remove(0), shape, timing, room)),
            _ => Box::new(TimedCopier::new(BothWays(ways), shape, timing, room)),
        }
    }

    fn ours(&self, session: &Session, memory: &CaseMemory) -> Result<Box<dyn Contender>> {
        let ours = |route, sides: &_| AclCopier::new(session, route, &self.shape, self.submission, sides);
        Ok(self.timed(each(&memory.ours, ours)?))
    }

    /// Those that there is memory for.
    fn add_memcpy_peers(&self, memory: &CaseMemory, all: &mut Vec<Box<dyn Contender>>) -> Result<()> {
        if memory.host.is_empty() {
            return Ok(());
        }
        if self.memcpy_peers == MemcpyPeers::WorkerThread {
            all.push(
                self.timed(each(&memory.host, |_, sides| ThreadCopier::new(sides, self.shape.bytes()))?),
            );
            return Ok(());
        }
        all.push(
            self.timed(each(&memory.host, |_, sides| Ok(MemcpyCopier::one_thread(sides, &self.shape)))?),
        );
        if self.memcpy_peers == MemcpyPeers::OneAndTwoThreads {
            all.push(
                self.timed(each(&memory.host, |_, sides| MemcpyCopier::two_threads(sides, &self.shape))?),
            );
        }
        Ok(())
    }

    /// The driver's batches; where it has none, the note that says so.
    fn add_cuda_batch(
        &self,
        cuda: &Arc<CudaDriver>,
        memory: &CaseMemory,
        all: &mut Vec<Box<dyn Contender>>,
    ) -> Result<Option<String>> {
        match each(&memory.ours, |_, sides| CudaCopier::batch(cuda, &self.shape, sides)) {
            Ok(peer) => all.push(self.timed(peer)),
            Err(error) => return Ok(Some(error.to_string())),
        }
        Ok(None)
    }

    /// cuMemcpyBatchAsync takes segments in page-locked memory; a loop of calls is measured beside a loop
    /// only.
    fn can_be_a_cuda_batch(&self) -> bool {
        matches!(*self.shape, Shape::Segments(_))
            && matches!(self.submission, Submission::Together | Submission::Descriptors)
            && !self.route.is_pageable()
    }

    /// OpenCL has one queue here, which calls no functions and does not block.
    fn can_be_opencl(&self) -> bool {
        let is_plain = !matches!(self.submission, Submission::InTurn | Submission::Synchronous);
        let has_peers = self.memcpy_peers != MemcpyPeers::OneThread;
        is_plain && has_peers && !self.timing.is_a_chain() && !self.route.is_duplex()
    }
}
