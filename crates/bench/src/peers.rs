//! Who takes part in a case: ours, and whoever else could move the bytes.

use std::rc::Rc;
use std::sync::Arc;

use ferry_abi::session::Session;
use ferry_abi::{Result, library};

use crate::block::{Route, Sides};
use crate::copies::{Form, Ours};
use crate::cuda::{self, Cuda};
use crate::lane::{Clock, Lane, Timed};
use crate::opencl::{self, OpenCl};
use crate::plain::Plain;
use crate::shape::Shape;
use crate::thread::Thread;
use crate::trial::Contender;

/// What a case asks of everybody.
pub struct Errand {
    pub route: Route,
    pub shape: Arc<Shape>,
    /// Bytes on either side.
    pub room: usize,
    pub form: Form,
    pub clock: Clock,
    pub beside: Beside,
}

/// Who of those that are always here is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// memcpy, on one thread and on two.
    Memcpy,
    /// memcpy alone, and no other peer.
    OneMemcpy,
    /// A thread that does memcpy for others.
    Thread,
    /// Nobody.
    Nobody,
}

/// The contenders of a case, ours first, and who is missing and why.
type Field = (Vec<Box<dyn Contender>>, Option<String>);

/// The peers there are. On a GPU none of the processor's own is among them: a copy that does not cross says
/// nothing there.
#[derive(Default)]
pub struct Peers {
    has_memcpy: bool,
    opencl: Option<Rc<OpenCl>>,
    cuda: Option<Rc<Cuda>>,
    /// Why there is none that was asked for.
    pub missing: Option<String>,
}

impl Peers {
    /// Those that are always here, and if asked for those that the backend is measured with.
    pub fn open(session: &Session, wanted: bool) -> Result<Peers> {
        let backend = library::backend_name();
        let mut peers = Peers { has_memcpy: backend == "host", ..Peers::default() };
        let opened = match &*backend {
            _ if !wanted => Ok(()),
            "cuda" => {
                let ordinal = session.library.physical_number(0)? as i32;
                Cuda::open(ordinal).map(|cuda| peers.cuda = Some(cuda))
            }
            _ => OpenCl::open().map(|cl| peers.opencl = Some(cl)),
        };
        peers.missing = opened.err().map(|error| error.to_string());
        Ok(peers)
    }

    /// The GPU, where there is a peer to ask.
    pub fn gpu(&self) -> Option<&str> {
        self.cuda.as_ref().map(|cuda| &*cuda.about)
    }

    /// Everybody who does the errand.
    pub fn contenders(&self, session: &Session, errand: &Errand) -> Result<Field> {
        let sides = Sides::new(session, errand.route, errand.room)?;
        let ours = Ours::new(session, errand.route, &errand.shape, errand.form, &sides)?;
        let (mut all, mut note) = (vec![errand.timed(ours)], None);
        if self.has_memcpy {
            errand.add_the_hosts(session, &mut all)?;
        }
        if let Some(cuda) = &self.cuda {
            all.push(errand.timed(cuda::Peer::plain(cuda, &sides, &errand.shape)));
            if errand.can_be_a_cuda_batch() {
                match cuda::Peer::batch(cuda, &sides, &errand.shape) {
                    Ok(peer) => all.push(errand.timed(peer)),
                    Err(error) => note = Some(error.to_string()),
                }
            }
        }
        if let (Some(cl), true) = (&self.opencl, errand.beside != Beside::OneMemcpy) {
            match opencl::Peer::new(cl, session.library, errand.route, &errand.shape, errand.room) {
                Ok(peer) => all.push(errand.timed(peer)),
                // Its devices may have less memory than ours.
                Err(error) => note = Some(format!("without {}: {error}", cl.name)),
            }
        }
        Ok((all, note))
    }
}

impl Errand {
    /// The usual one: a copy in one call, and a wait, beside memcpy.
    pub fn new(route: Route, shape: Shape, room: usize) -> Errand {
        // Either is some hundred microseconds: a GPU moves more in that time.
        let least = if library::backend_name() == "host" { 4 << 20 } else { 64 << 20 };
        let clock = Clock::usual(&shape, least);
        Errand { route, shape: Arc::new(shape), room, form: Form::Together, clock, beside: Beside::Memcpy }
    }

    fn timed(&self, lane: impl Lane + 'static) -> Box<dyn Contender> {
        Box::new(Timed { lane, shape: self.shape.clone(), clock: self.clock })
    }

    fn add_the_hosts(&self, session: &Session, all: &mut Vec<Box<dyn Contender>>) -> Result<()> {
        if self.beside == Beside::Nobody {
            return Ok(());
        }
        let sides = Sides::of_the_host(session, self.route, self.room)?;
        if self.beside == Beside::Thread {
            all.push(self.timed(Thread::new(&sides, self.shape.bytes())?));
            return Ok(());
        }
        all.push(self.timed(Plain::one_thread(&sides, &self.shape)));
        if self.beside == Beside::Memcpy {
            all.push(self.timed(Plain::two_threads(&sides, &self.shape)?));
        }
        Ok(())
    }

    /// Its batches take pieces in page-locked memory; a loop is beside a loop only.
    fn can_be_a_cuda_batch(&self) -> bool {
        matches!(*self.shape, Shape::Pieces(_)) && self.form != Form::Each && !self.route.is_pageable()
    }
}
