//! Carries programs out through the safe Rust API, with no unsafe code: programs for
//! [`Api::Rust`](crate::api::Api) only.
//!
//! A page-locked buffer is at hand, owned by a copy in flight, or shared: [`Held`]. Most calls can be made in
//! several ways that must make no difference to the bytes: a part of a buffer or a batch of one piece, owned
//! or lent to a scope, waited for or awaited. Which one it is, the numbers of the step decide, so that a
//! program does the same each time.

#![forbid(unsafe_code)]

mod lane;
mod owned;
mod tasks;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferry::{Descriptor, DeviceBuffer, Event, Runtime, Stream};

use crate::oracle::{first_bytes, noise};
use crate::program::*;
use crate::run::{Blocker, Executor};
use owned::Held;
use tasks::block_on;

type Outcome<T> = Result<T, ferry::Error>;

/// One program's streams, events, descriptors and memory, as the values that the API gives.
pub struct Safe<'a> {
    program: &'a Program,
    runtime: Runtime,
    streams: Vec<Stream>,
    /// For each thread a stream that nothing else is on, to look at device memory.
    spies: Vec<Stream>,
    /// How often each stream was aborted.
    aborts: [AtomicUsize; STREAMS.len()],
    /// Whether a synchronise may still tell of an abort: each is told once.
    untold: [AtomicBool; STREAMS.len()],
    events: [Mutex<Option<Event>>; EVENTS.len()],
    descs: Vec<Descriptor>,
    gates: Vec<Arc<Blocker>>,
    buffers: Vec<Mutex<Memory>>,
}

/// What a buffer of the program is.
#[derive(Default)]
enum Memory {
    #[default]
    None,
    Device(DeviceBuffer<u8>),
    Pinned(Held),
    Heap(Vec<u8>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that a step's numbers make, to choose between calls that come to the same.
fn any(act: &Act) -> usize {
    let spans = act.moves().into_iter().flat_map(|(dst, src)| [dst, src]);
    let mixed = spans.fold(act.moves().len(), |sum, span| {
        (sum ^ span.at ^ span.len << 8 ^ span.buffer << 16).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    mixed >> 40
}

impl<'a> Safe<'a> {
    pub fn new(program: &'a Program) -> Result<Safe<'a>, String> {
        Safe::open(program).map_err(|error| format!("{error:?}"))
    }

    fn open(program: &'a Program) -> Outcome<Safe<'a>> {
        let runtime = Runtime::new()?;
        let device = |device: usize| runtime.device(device as u32);
        let stream = |on: usize| device(on)?.stream();
        Ok(Safe {
            program,
            streams: STREAMS[..USER_STREAMS].iter().copied().map(stream).collect::<Outcome<_>>()?,
            spies: (0..THREADS).map(stream).collect::<Outcome<_>>()?,
            aborts: Default::default(),
            untold: Default::default(),
            events: Default::default(),
            descs: DESCS[..FIRST_CELLS].iter().map(|on| device(*on)?.descriptor()).collect::<Outcome<_>>()?,
            gates: (0..program.gates).map(|_| Arc::default()).collect(),
            buffers: program.buffers.iter().map(|_| Mutex::default()).collect(),
            runtime,
        })
    }

    fn device(&self, buffer: usize) -> DeviceBuffer<u8> {
        match &*lock(&self.buffers[buffer]) {
            Memory::Device(device) => device.clone(),
            _ => panic!("buffer {buffer} is not in device memory"),
        }
    }

    /// Takes a page-locked buffer, or its token, from its place.
    fn take(&self, buffer: usize) -> Held {
        match std::mem::take(&mut *lock(&self.buffers[buffer])) {
            Memory::Pinned(held) => held,
            _ => panic!("buffer {buffer} is not page-locked"),
        }
    }

    fn put(&self, buffer: usize, held: Held) {
        *lock(&self.buffers[buffer]) = Memory::Pinned(held);
    }

    fn alloc(&self, buffer: usize) -> Outcome<()> {
        let len = self.program.buffers[buffer].len;
        let (bytes, plainly) = (first_bytes(buffer, len), buffer.is_multiple_of(2));
        *lock(&self.buffers[buffer]) = match self.program.home(buffer) {
            Home::Device(device) if plainly => {
                Memory::Device(self.runtime.device(device as u32)?.alloc_from(bytes)?)
            }
            Home::Device(device) => {
                let memory = self.runtime.device(device as u32)?.alloc(len)?;
                self.spies[device].write(&memory, bytes)?;
                Memory::Device(memory)
            }
            Home::Pinned if plainly => Memory::Pinned(Held::Here(self.runtime.alloc_host_from(bytes)?)),
            Home::Pinned => {
                let mut memory = self.runtime.alloc_host(len)?;
                memory.copy_from_slice(bytes);
                Memory::Pinned(Held::Here(memory))
            }
            Home::Heap => Memory::Heap(bytes.to_vec()),
        };
        Ok(())
    }

    fn poke(&self, dst: &Span, bytes: &[u8]) {
        match &mut *lock(&self.buffers[dst.buffer]) {
            Memory::Heap(memory) => memory[dst.bytes()].copy_from_slice(bytes),
            Memory::Pinned(Held::Here(memory)) => memory[dst.bytes()].copy_from_slice(bytes),
            _ => panic!("the CPU can write only what is at hand"),
        }
    }

    fn look(&self, thread: usize, span: &Span, out: &mut [u8]) -> Outcome<()> {
        match &*lock(&self.buffers[span.buffer]) {
            Memory::Device(memory) => return self.spies[thread].read(out, memory.slice(span.bytes())?),
            Memory::Heap(memory) => out.copy_from_slice(&memory[span.bytes()]),
            Memory::Pinned(Held::Here(memory)) => out.copy_from_slice(&memory[span.bytes()]),
            Memory::Pinned(Held::Shared(memory)) => out.copy_from_slice(&memory[span.bytes()]),
            _ => panic!("the CPU can see only what is at hand"),
        }
        Ok(())
    }

    /// A copy or batch: between devices, of plain memory, or of page-locked memory.
    fn copy(&self, act: &Act, way: Way) -> Outcome<()> {
        let (Way::On(stream) | Way::Awaited(stream)) = way else { panic!("every copy is on a stream") };
        let (dst, src) = act.moves()[0];
        match (self.program.home(dst.buffer), self.program.home(src.buffer)) {
            (Home::Device(_), Home::Device(_)) => self.copy_on_devices(act, stream),
            (Home::Heap, _) | (_, Home::Heap) => self.copy_plain(act, stream),
            (Home::Device(_), _) if matches!(act, Act::Copy { kind: Kind::HOST_TO_BUF_TO_DEVICE, .. }) => {
                self.stage(dst, src, stream)
            }
            _ => self.copy_owned(act, stream, matches!(way, Way::Awaited(_))),
        }
    }

    fn copy_on_devices(&self, act: &Act, stream: usize) -> Outcome<()> {
        let stream = &self.streams[stream];
        match act {
            Act::Copy { dst, src, .. } => {
                let (to, from) = (self.device(dst.buffer), self.device(src.buffer));
                stream.copy(to.slice(dst.bytes())?, from.slice(src.bytes())?)
            }
            Act::Copy2d { dst, src, width, height, .. } => {
                let (to, from) = (self.device(dst.buffer), self.device(src.buffer));
                let to = to.slice(dst.at..)?.matrix_pitched(*height, *width, dst.pitch)?;
                stream.copy(to, from.slice(src.at..)?.matrix_pitched(*height, *width, src.pitch)?)
            }
            other => panic!("{other:?} is not for devices alone"),
        }
    }

    /// Plain memory is linear; the device's end may be a matrix.
    fn copy_plain(&self, act: &Act, stream: usize) -> Outcome<()> {
        let (dst, src) = act.moves()[0];
        let up = self.program.home(dst.buffer).is_device();
        let (near, far) = if up { (src, dst) } else { (dst, src) };
        let len: usize = act.moves().iter().map(|(dst, _)| dst.len).sum();
        let mut plain = match std::mem::take(&mut *lock(&self.buffers[near.buffer])) {
            Memory::Heap(plain) => plain,
            _ => panic!("buffer {} is not plain memory", near.buffer),
        };
        let done = self.copy_slice(act, stream, &mut plain[near.at..near.at + len], far);
        *lock(&self.buffers[near.buffer]) = Memory::Heap(plain);
        done
    }

    fn copy_slice(&self, act: &Act, stream: usize, near: &mut [u8], far: Span) -> Outcome<()> {
        let (far_end, stream) = (self.device(far.buffer), &self.streams[stream]);
        match act {
            Act::Copy { dst, kind: Kind::HOST_TO_BUF_TO_DEVICE, .. } => {
                stream.write_staged(far_end.slice(dst.bytes())?, near)
            }
            Act::Copy { dst, .. } if *dst == far => stream.write(far_end.slice(dst.bytes())?, near),
            Act::Copy { .. } if any(act).is_multiple_of(2) => {
                near.copy_from_slice(&stream.read_vec(far_end.slice(far.bytes())?)?);
                Ok(())
            }
            Act::Copy { .. } => stream.read(near, far_end.slice(far.bytes())?),
            Act::Copy2d { dst, src, width, height, .. } => {
                let up = dst.buffer == far.buffer;
                let pitch = if up { dst.pitch } else { src.pitch };
                let matrix = far_end.slice(far.at..)?.matrix_pitched(*height, *width, pitch)?;
                if up { stream.write(matrix, near) } else { stream.read(near, matrix) }
            }
            other => panic!("{other:?} is not for plain memory"),
        }
    }

    /// Of page-locked memory as a plain slice.
    fn stage(&self, dst: Span, src: Span, stream: usize) -> Outcome<()> {
        let device = self.device(dst.buffer);
        let (device, stream) = (device.slice(dst.bytes())?, &self.streams[stream]);
        match &*lock(&self.buffers[src.buffer]) {
            Memory::Pinned(Held::Here(memory)) => stream.write_staged(device, &memory[src.bytes()]),
            Memory::Pinned(Held::Shared(memory)) => stream.write_staged(device, &memory[src.bytes()]),
            _ => panic!("only what is at hand can be staged"),
        }
    }

    fn fill(&self, dst: &Span, with: Pattern, stream: usize) -> Outcome<()> {
        let (device, stream) = (self.device(dst.buffer), &self.streams[stream]);
        let slice = device.slice(dst.bytes())?;
        match with {
            Pattern::Byte(byte) if byte.is_multiple_of(2) => stream.fill_bytes(slice, byte),
            Pattern::Byte(byte) => stream.fill(slice, byte),
            Pattern::Word(word) if word.is_multiple_of(2) => stream.fill(slice.cast::<u32>()?, word),
            // The same again, seen as two rows.
            Pattern::Word(word) => {
                let words = slice.cast::<i32>()?;
                let rows = if words.len().is_multiple_of(2) { 2 } else { 1 };
                stream.fill(words.matrix(rows, words.len() / rows)?, word as i32)
            }
        }
    }

    /// Now, or when a stream comes to it.
    fn set(&self, desc: usize, dst: &Span, src: &Span, stream: Option<usize>) -> Outcome<()> {
        let (desc, to, from) = (&self.descs[desc], self.device(dst.buffer), self.device(src.buffer));
        let (to, from) = (to.slice(dst.bytes())?, from.slice(src.bytes())?);
        match stream {
            Some(stream) => self.streams[stream].set_descriptor(desc, to, from),
            None => desc.set(to, from),
        }
    }

    /// Waits; a stream that was aborted may say so, once.
    fn synchronize(&self, stream: usize, by_task: bool) -> Outcome<()> {
        let waited = match by_task {
            true => block_on(self.streams[stream].synchronized()),
            false => self.streams[stream].synchronize(),
        };
        match waited {
            Err(error)
                if error.kind == ferry::Kind::Aborted
                    && self.untold[stream].swap(false, Ordering::SeqCst) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    fn has_aborted(&self, stream: usize, since: usize) -> bool {
        self.aborts[stream].load(Ordering::SeqCst) != since
    }

    fn event(&self, event: usize) -> Event {
        lock(&self.events[event]).clone().expect("only events that were recorded are waited for")
    }

    fn carry_out(&self, thread: usize, act: &Act) -> Outcome<()> {
        match act {
            Act::Alloc { buffer } => self.alloc(*buffer)?,
            Act::Free { buffer } => *lock(&self.buffers[*buffer]) = Memory::None,
            Act::Poke { dst, seed } => self.poke(dst, noise(*seed, dst.len)),
            Act::Copy { way, .. } | Act::Copy2d { way, .. } | Act::Batch { way, .. } => {
                self.copy(act, *way)?;
            }
            Act::Fill { dst, with, way: Way::On(stream) } => self.fill(dst, *with, *stream)?,
            Act::SetDesc { desc, dst, src } => self.set(*desc, dst, src, None)?,
            Act::PutDesc { desc, dst, src, stream } => self.set(*desc, dst, src, Some(*stream))?,
            Act::RunDesc { desc, stream, .. } => self.streams[*stream].run(&self.descs[*desc])?,
            Act::Record { event, stream } => {
                *lock(&self.events[*event]) = Some(self.streams[*stream].record()?);
            }
            Act::Wait { stream, event } => self.streams[*stream].wait_for(&self.event(*event))?,
            Act::SyncEvent { event } if thread == 1 => block_on(self.event(*event)),
            Act::SyncEvent { event } => self.event(*event).wait()?,
            Act::SyncStream { stream } => self.synchronize(*stream, thread == 1)?,
            Act::Hold { gate, stream } => {
                let gate = self.gates[*gate].clone();
                self.streams[*stream].call(move || gate.wait())?;
            }
            Act::Release { gate } => self.gates[*gate].release(),
            Act::Abort { stream } => {
                self.aborts[*stream].fetch_add(1, Ordering::SeqCst);
                self.untold[*stream].store(true, Ordering::SeqCst);
                self.streams[*stream].abort();
            }
            Act::Land { buffers } => self.land(buffers[0])?,
            Act::Share { buffer } => self.share(*buffer),
            other => panic!("{other:?} is not for programs in Rust"),
        }
        Ok(())
    }
}

impl Executor for Safe<'_> {
    fn perform(&self, thread: usize, act: &Act) -> Result<(), String> {
        // A panic would leave the other thread waiting.
        let done = catch_unwind(AssertUnwindSafe(|| self.carry_out(thread, act)));
        let done = done.map_err(|_| "a panic, see above".to_string())?;
        done.map_err(|error| format!("{:?}: {error}", error.kind))
    }

    fn read(&self, thread: usize, buffer: usize, at: usize, out: &mut [u8]) -> Result<(), String> {
        let span = Span { buffer, at, len: out.len() };
        self.look(thread, &span, out).map_err(|error| format!("{:?}: {error}", error.kind))
    }

    fn open_gates(&self) {
        self.gates.iter().for_each(|gate| gate.release());
    }
}
