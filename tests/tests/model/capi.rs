//! Carries programs out through the C ABI.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ascendcl::*;

use crate::basics::*;
use crate::holdings::Holdings;
use crate::oracle::noise;
use crate::program::*;
use crate::run::{Blocker, Executor};

const EVENT_SYNC: u32 = 1;
const STOP_ON_FAILURE: u64 = 1;
const STREAM_ABORT: i32 = 107023;
const STREAM_COMPLETE: i32 = 0;
const EVENT_COMPLETE: i32 = 1;

unsafe extern "C" fn wait_for_gate(gate: *mut c_void) {
    // SAFETY: the launch gave a count of the gate away for this one call.
    let gate = unsafe { Arc::from_raw(gate.cast::<Blocker>()) };
    gate.wait();
}

/// One program's streams, events, descriptors and memory, as addresses and handles.
pub struct Capi<'a> {
    program: &'a Program,
    streams: [AtomicUsize; STREAMS.len()],
    /// Streams of which nobody has been told that they were aborted.
    aborted: [AtomicBool; STREAMS.len()],
    /// Contexts of its own, if a failure is to stop one of them.
    contexts: Vec<Stoppable>,
    stopped: [AtomicBool; 2],
    events: [usize; EVENTS.len()],
    descs: [usize; DESCS.len()],
    memory: Holdings<'a>,
    gates: Vec<Arc<Blocker>>,
    models: [AtomicUsize; MODELS],
    /// A capture goes on: no other thread makes calls meanwhile.
    captures: AtomicBool,
}

impl<'a> Capi<'a> {
    pub fn new(program: &'a Program) -> Result<Capi<'a>, String> {
        start()?;
        let mut capi = Capi {
            program,
            streams: Default::default(),
            aborted: Default::default(),
            contexts: match program.steps.iter().any(|step| matches!(step.act, Act::Halt { .. })) {
                true => (0..2).map(Stoppable::new).collect::<Result<_, _>>()?,
                false => vec![],
            },
            stopped: Default::default(),
            events: [0; EVENTS.len()],
            descs: [0; DESCS.len()],
            memory: {
                set_device(0)?;
                Holdings::new(program)?
            },
            gates: (0..program.gates).map(|_| Arc::default()).collect(),
            models: Default::default(),
            captures: AtomicBool::new(false),
        };
        for (i, device) in STREAMS.into_iter().enumerate().filter(|(i, _)| *i != NULL_STREAM) {
            set_device(device)?;
            capi.streams[i] = AtomicUsize::new(create_stream()?);
        }
        for (i, device) in EVENTS.into_iter().enumerate() {
            set_device(device)?;
            let mut event = null_mut();
            // SAFETY: `event` is a valid place for a handle.
            ok("aclrtCreateEventWithFlag", unsafe { aclrtCreateEventWithFlag(&mut event, EVENT_SYNC) })?;
            capi.events[i] = event.addr();
        }
        for (i, device) in DESCS.into_iter().enumerate() {
            set_device(device)?;
            let len = desc_len(i)?;
            capi.descs[i] =
                if i == PINNED_CELLS { host_malloc(len)? } else { device_malloc(len, HUGE_FIRST)? };
        }
        Ok(capi)
    }

    /// Ends everything the program left: the streams' work, then the handles and the memory. Goes on after a
    /// failure, so that a program that went wrong takes nothing from the next, and reports the first.
    pub fn close(self) -> Result<(), String> {
        self.open_gates();
        let mut results = vec![];
        for (i, device) in STREAMS.into_iter().enumerate() {
            results.push(set_device(device));
            if i >= USER_STREAMS && self.captures.load(Ordering::Relaxed) {
                // A program that failed in the middle of a capture; no capture on this stream is no failure.
                // SAFETY: a valid place for a handle.
                unsafe { aclmdlRICaptureEnd(self.stream(i), &mut null_mut()) };
            }
            if !self.stopped[device].load(Ordering::Relaxed) {
                results.push(self.order(&Act::SyncStream { stream: i }));
            }
            if i != NULL_STREAM {
                results.push(ok("aclrtDestroyStream", aclrtDestroyStream(self.stream(i))));
            }
        }
        for model in self.models.iter().map(|model| model.load(Ordering::Relaxed)).filter(|model| *model != 0)
        {
            results.push(ok("aclmdlRIDestroy", aclmdlRIDestroy(pointer(model))));
        }
        for event in self.events {
            results.push(ok("aclrtDestroyEvent", aclrtDestroyEvent(pointer(event))));
        }
        for (i, desc) in self.descs.map(pointer).into_iter().enumerate() {
            let code = if i == PINNED_CELLS { aclrtFreeHost(desc) } else { aclrtFree(desc) };
            results.push(ok("free of a descriptor", code));
        }
        results.push(self.memory.close());
        results.extend(self.contexts.iter().enumerate().map(|(device, context)| context.close(device)));
        results.into_iter().collect()
    }

    fn stream(&self, stream: usize) -> aclrtStream {
        pointer(self.streams[stream].load(Ordering::Relaxed))
    }

    /// Waits; if one of the streams was aborted, the call may say so once for each.
    fn wait(&self, call: &str, streams: &[usize], wait: impl Fn() -> i32) -> Result<(), String> {
        for _ in streams {
            let code = wait();
            let aborted = streams.iter().any(|s| self.aborted[*s].load(Ordering::SeqCst));
            if code != STREAM_ABORT || !aborted {
                return ok(call, code);
            }
            if let [stream] = streams {
                self.aborted[*stream].store(false, Ordering::SeqCst);
            }
        }
        ok(call, wait())
    }

    /// Fails with a descriptor that was never set, and waits until all streams of the context have said so.
    fn halt(&self, stream: usize) -> Result<(), String> {
        let (device, kind) = (STREAMS[stream], Kind::INNER_DEVICE_TO_DEVICE.0);
        self.stopped[device].store(true, Ordering::Relaxed);
        ok("aclrtSetStreamFailureMode", aclrtSetStreamFailureMode(self.stream(stream), STOP_ON_FAILURE))?;
        let bad = pointer(self.contexts[device].bad);
        // SAFETY: device memory of the size of a descriptor.
        let code = unsafe { aclrtMemcpyAsyncWithDesc(bad, kind, self.stream(stream)) };
        ok("aclrtMemcpyAsyncWithDesc", code)?;
        std::iter::once(stream)
            .chain(streams_of(device))
            .try_for_each(|s| refused(ok("aclrtSynchronizeStream", aclrtSynchronizeStream(self.stream(s)))))
    }

    /// Whether what the step waits for is over, for steps that can ask in place of waiting.
    pub fn is_over(&self, act: &Act) -> bool {
        let mut status = -1;
        match act {
            Act::SyncStream { stream } => {
                // SAFETY: a valid place for a number.
                let code = unsafe { aclrtStreamQuery(self.stream(*stream), &mut status) };
                code == 0 && status == STREAM_COMPLETE
            }
            Act::SyncEvent { event } => {
                // SAFETY: as above.
                let code = unsafe { aclrtQueryEventStatus(pointer(self.events[*event]), &mut status) };
                code == 0 && status == EVENT_COMPLETE
            }
            _ => false,
        }
    }

    fn abort(&self, stream: usize, renew: bool) -> Result<(), String> {
        if !renew {
            self.aborted[stream].store(true, Ordering::SeqCst);
            return ok("aclrtStreamAbort", aclrtStreamAbort(self.stream(stream)));
        }
        ok("aclrtDestroyStreamForce", aclrtDestroyStreamForce(self.stream(stream)))?;
        self.aborted[stream].store(false, Ordering::SeqCst);
        self.streams[stream].store(create_stream()?, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the device current that a call needs: its stream's, or that of the first device buffer it names.
    fn enter(&self, act: &Act, way: Way) -> Result<(), String> {
        let device = |b: &usize| if let Home::Device(d) = self.program.home(*b) { Some(d) } else { None };
        set_device(match way {
            Way::On(stream) | Way::Awaited(stream) => STREAMS[stream],
            Way::Now => act.buffers().iter().find_map(device).unwrap_or(0),
        })
    }

    fn copy(&self, dst: &Span, src: &Span, kind: i32, way: Way, with_condition: bool) -> Result<(), String> {
        let (to, room, from, len) =
            (self.memory.at(dst), self.memory.room(dst), self.memory.at(src), src.len);
        match way {
            // SAFETY: both ranges are allocated for the length of the call.
            Way::Now => ok("aclrtMemcpy", unsafe { aclrtMemcpy(to, room, from, len, kind) }),
            Way::On(stream) | Way::Awaited(stream) if with_condition => {
                let stream = self.stream(stream);
                // SAFETY: the engine keeps what is freed until its tasks have passed; malloc memory is waited
                // for.
                let code = unsafe { aclrtMemcpyAsyncWithCondition(to, room, from, len, kind, stream) };
                ok("aclrtMemcpyAsyncWithCondition", code)
            }
            Way::On(stream) | Way::Awaited(stream) => {
                // SAFETY: as above.
                let code = unsafe { aclrtMemcpyAsync(to, room, from, len, kind, self.stream(stream)) };
                ok("aclrtMemcpyAsync", code)
            }
        }
    }

    fn copy_2d(
        &self,
        dst: &Rows,
        src: &Rows,
        (width, height): (usize, usize),
        kind: i32,
        way: Way,
    ) -> Result<(), String> {
        let (to, from) = (self.memory.at(&dst.row(0, 0)), self.memory.at(&src.row(0, 0)));
        match way {
            Way::Now => {
                // SAFETY: all rows are allocated for the length of the call.
                let code = unsafe { aclrtMemcpy2d(to, dst.pitch, from, src.pitch, width, height, kind) };
                ok("aclrtMemcpy2d", code)
            }
            Way::On(stream) | Way::Awaited(stream) => {
                let stream = self.stream(stream);
                // SAFETY: the engine keeps what is freed until its tasks have passed; malloc memory is waited
                // for.
                let code = unsafe {
                    aclrtMemcpy2dAsync(to, dst.pitch, from, src.pitch, width, height, kind, stream)
                };
                ok("aclrtMemcpy2dAsync", code)
            }
        }
    }

    fn location(&self, buffer: usize, unregistered: bool) -> aclrtMemLocation {
        match self.program.home(buffer) {
            Home::Device(device) => aclrtMemLocation { id: device as u32, type_: 1 },
            // That it is registered makes no difference to HOST, but it is not UNREGISTERED then.
            Home::Heap if unregistered && self.program.form(buffer) == Form::Plain => {
                aclrtMemLocation { id: 0, type_: 2 }
            }
            // the id of a host location is ignored
            _ => aclrtMemLocation { id: 7, type_: 0 },
        }
    }

    fn batch(&self, items: &[(Span, Span)], how: Batching, way: Way) -> Result<(), String> {
        let mut dsts: Vec<_> = items.iter().map(|(d, _)| self.memory.at(d)).collect();
        let mut srcs: Vec<_> = items.iter().map(|(_, s)| self.memory.at(s)).collect();
        let mut rooms: Vec<_> = items.iter().map(|(d, _)| self.memory.room(d)).collect();
        let mut sizes: Vec<_> = items.iter().map(|(d, _)| d.len).collect();
        let (mut attrs, mut firsts, mut last) = (vec![], vec![], None);
        for (i, (dst, src)) in items.iter().enumerate() {
            let places = [dst, src].map(|s| self.location(s.buffer, how.unregistered));
            let key = places.map(|l| (l.id, l.type_));
            if how.split || last != Some(key) {
                attrs.push(aclrtMemcpyBatchAttr { dstLoc: places[0], srcLoc: places[1], rsv: [0; 16] });
                firsts.push(i);
                last = Some(key);
            }
        }
        let (d, m, s, z) = (dsts.as_mut_ptr(), rooms.as_mut_ptr(), srcs.as_mut_ptr(), sizes.as_mut_ptr());
        let (a, f, n, k) = (attrs.as_mut_ptr(), firsts.as_mut_ptr(), items.len(), attrs.len());
        let mut failed = 0;
        // SAFETY: the arrays have the lengths given; the memory they name is allocated for the length of the
        // call, and the engine keeps what is freed afterwards until its tasks have passed.
        let code = unsafe {
            match (way, how.v2) {
                (Way::Now, false) => aclrtMemcpyBatch(d, m, s, z, n, a, f, k, &mut failed),
                (Way::Now, true) => aclrtMemcpyBatchV2(d, m, s, z, n, a, f, k),
                (Way::On(q) | Way::Awaited(q), false) => {
                    aclrtMemcpyBatchAsync(d, m, s, z, n, a, f, k, &mut failed, self.stream(q))
                }
                (Way::On(q) | Way::Awaited(q), true) => {
                    aclrtMemcpyBatchAsyncV2(d, m, s, z, n, a, f, k, self.stream(q))
                }
            }
        };
        ok(&format!("batch of {n} with {k} attributes (failIndex {failed})"), code)
    }

    fn fill(&self, dst: &Span, with: Pattern, way: Way) -> Result<(), String> {
        let (to, room, len) = (self.memory.at(dst), self.memory.room(dst), dst.len);
        // Only the low byte of the value counts.
        let value = |b: u8| i32::from(b) | 0x7700;
        // SAFETY: the range is allocated for the length of the call, and kept by the engine until its task
        // has passed.
        let code = unsafe {
            match (with, way) {
                (Pattern::Byte(b), Way::Now) => aclrtMemset(to, room, value(b), len),
                (Pattern::Byte(b), Way::On(s) | Way::Awaited(s)) => {
                    aclrtMemsetAsync(to, room, value(b), len, self.stream(s))
                }
                (Pattern::Word(w), Way::Now) => aclrtMemsetD32(to, room, w, len / 4),
                (Pattern::Word(w), Way::On(s) | Way::Awaited(s)) => {
                    aclrtMemsetD32Async(to, room, w, len / 4, self.stream(s))
                }
            }
        };
        ok("fill", code)
    }

    fn set_desc(&self, desc: usize, dst: &Span, src: &Span) -> Result<(), String> {
        set_device(DESCS[desc])?;
        let at = pointer(self.descs[desc]);
        if desc < FIRST_CELLS {
            let kind = Kind::INNER_DEVICE_TO_DEVICE.0;
            // SAFETY: the descriptor is device memory of the size asked for; the spans are allocated.
            let code = unsafe {
                aclrtSetMemcpyDesc(at, kind, self.memory.at(src), self.memory.at(dst), src.len, null_mut())
            };
            return ok("aclrtSetMemcpyDesc", code);
        }
        let cells = [dst, src].map(|span| self.memory.address(span.buffer));
        let (from, len, kind) = (cells.as_ptr().cast(), size_of_val(&cells), Kind::DEFAULT.0);
        // SAFETY: both ranges are valid for the length of the call.
        ok("aclrtMemcpy", unsafe { aclrtMemcpy(at, len, from, len, kind) })
    }

    fn run_desc(&self, desc: usize, dst: &Span, src: &Span, stream: usize) -> Result<(), String> {
        let (at, kind, stream) = (self.descs[desc], Kind::INNER_DEVICE_TO_DEVICE.0, self.stream(stream));
        if desc < FIRST_CELLS {
            // SAFETY: the descriptor lives as long as the executor; what it names is freed after the task.
            let code = unsafe { aclrtMemcpyAsyncWithDesc(pointer(at), kind, stream) };
            return ok("aclrtMemcpyAsyncWithDesc", code);
        }
        let (to, from) = (pointer(at).cast(), pointer(at + size_of::<usize>()).cast());
        // SAFETY: the cells live as long as the executor; what they name is freed after the task.
        let code = unsafe {
            aclrtMemcpyAsyncWithOffset(to, self.memory.room(dst), dst.at, from, src.len, src.at, kind, stream)
        };
        ok("aclrtMemcpyAsyncWithOffset", code)
    }

    fn copy_desc(&self, dst: usize, src: usize, stream: usize) -> Result<(), String> {
        let len = desc_len(dst)?;
        let (to, from, kind) = (pointer(self.descs[dst]), pointer(self.descs[src]), Kind::DEFAULT.0);
        // SAFETY: both live as long as the executor.
        ok("aclrtMemcpyAsync", unsafe { aclrtMemcpyAsync(to, len, from, len, kind, self.stream(stream)) })
    }

    /// The calls that order others.
    fn order(&self, act: &Act) -> Result<(), String> {
        let event = |event: usize| pointer(self.events[event]);
        match *act {
            Act::Record { event: e, stream } => {
                ok("aclrtRecordEvent", aclrtRecordEvent(event(e), self.stream(stream)))
            }
            Act::Wait { stream, event: e } => {
                ok("aclrtStreamWaitEvent", aclrtStreamWaitEvent(self.stream(stream), event(e)))
            }
            Act::Reset { event: e, stream } => {
                ok("aclrtResetEvent", aclrtResetEvent(event(e), self.stream(stream)))
            }
            Act::SyncEvent { event: e } => ok("aclrtSynchronizeEvent", aclrtSynchronizeEvent(event(e))),
            Act::SyncStream { stream } => {
                self.wait("aclrtSynchronizeStream", &[stream], || aclrtSynchronizeStream(self.stream(stream)))
            }
            Act::SyncDevice { .. } => {
                let streams = self.program.streams(act);
                self.wait("aclrtSynchronizeDevice", &streams, || aclrtSynchronizeDevice())
            }
            Act::Abort { stream } => self.abort(stream, false),
            Act::Renew { stream } => self.abort(stream, true),
            Act::Halt { stream } => self.halt(stream),
            Act::Hold { gate, stream } => {
                // An abort does not wait for a function that runs, so the gate is the function's too. One
                // that is dropped leaves its count behind.
                let gate = Arc::into_raw(self.gates[gate].clone()).cast_mut().cast();
                // SAFETY: the function takes the count that it is given.
                let code = unsafe { aclrtLaunchHostFunc(self.stream(stream), Some(wait_for_gate), gate) };
                ok("aclrtLaunchHostFunc", code)
            }
            ref other => unreachable!("{other:?} orders nothing"),
        }
    }
}

/// Models.
impl Capi<'_> {
    /// Begins the capture of a model, or nothing: it is launched at the end.
    fn launch(&self, model: usize, captures: bool) -> Result<(), String> {
        let main = streams_of_model(model)[0];
        set_device(STREAMS[main])?;
        self.captures.store(captures, Ordering::Relaxed);
        if !captures {
            return Ok(());
        }
        ok("aclmdlRICaptureBegin", aclmdlRICaptureBegin(self.stream(main), (model % 3) as i32))
    }

    fn link(&self, from: usize, to: usize) -> Result<(), String> {
        if !self.captures.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut event = null_mut();
        // SAFETY: `event` is a valid place for a handle.
        ok("aclrtCreateEventWithFlag", unsafe { aclrtCreateEventWithFlag(&mut event, EVENT_SYNC) })?;
        ok("aclrtRecordEvent", aclrtRecordEvent(event, self.stream(from)))?;
        ok("aclrtStreamWaitEvent", aclrtStreamWaitEvent(self.stream(to), event))?;
        ok("aclrtDestroyEvent", aclrtDestroyEvent(event))
    }

    fn done(&self, model: usize, stream: usize) -> Result<(), String> {
        if self.captures.swap(false, Ordering::Relaxed) {
            let (mut handle, main) = (null_mut(), streams_of_model(model)[0]);
            // SAFETY: `handle` is a valid place for a handle.
            ok("aclmdlRICaptureEnd", unsafe { aclmdlRICaptureEnd(self.stream(main), &mut handle) })?;
            self.models[model].store(handle.addr(), Ordering::Relaxed);
        }
        ok("aclmdlRIExecuteAsync", aclmdlRIExecuteAsync(self.model(model), self.stream(stream)))
    }

    /// The execution fails in its stream, because memory of the model was freed.
    fn stale(&self, model: usize, stream: usize) -> Result<(), String> {
        set_device(STREAMS[stream])?;
        self.order(&Act::SyncStream { stream })?;
        ok("aclmdlRIExecuteAsync", aclmdlRIExecuteAsync(self.model(model), self.stream(stream)))?;
        refused(ok("aclrtSynchronizeStream", aclrtSynchronizeStream(self.stream(stream))))
    }

    fn model(&self, model: usize) -> aclmdlRI {
        pointer(self.models[model].load(Ordering::Relaxed))
    }

    /// Whether the task is of an execution that is not captured: it runs with the model.
    fn is_replayed(&self, act: &Act) -> bool {
        let on_model = |stream: &usize| *stream >= USER_STREAMS;
        self.program.timing(act).is_some()
            && self.program.streams(act).iter().any(on_model)
            && !self.captures.load(Ordering::Relaxed)
    }
}

impl Executor for Capi<'_> {
    fn perform(&self, _thread: usize, act: &Act) -> Result<(), String> {
        match act {
            act if self.is_replayed(act) => Ok(()),
            Act::Launch { model, captures, .. } => self.launch(*model, *captures),
            Act::Link { from, to } => self.link(*from, *to),
            Act::Done { model, stream } => self.done(*model, *stream),
            Act::Stale { model, stream } => self.stale(*model, *stream),
            Act::Alloc { buffer } => self.memory.alloc(*buffer),
            Act::Free { buffer } => self.memory.free(*buffer),
            Act::Map { window, cell, physical } => {
                set_device(0)?;
                self.memory.map(*window, *cell, *physical)
            }
            Act::Unmap { window, cell, physical } => self.memory.unmap(*window, *cell, *physical),
            Act::Register { buffer, bytes } => {
                set_device(0)?;
                self.memory.register(*buffer, bytes.start, bytes.len())
            }
            Act::Unregister { buffer } => self.memory.unregister(*buffer),
            Act::Abroad { act, manner } => self.memory.abroad(act, *manner),
            Act::Refused(act) => refused(self.perform(0, act)),
            Act::Poke { dst, seed } => self.memory.write(dst, noise(*seed, dst.len)),
            Act::Copy { dst, src, kind, way, with_condition } => {
                self.enter(act, *way)?;
                self.copy(dst, src, kind.0, *way, *with_condition)
            }
            Act::Copy2d { dst, src, width, height, kind, way } => {
                self.enter(act, *way)?;
                self.copy_2d(dst, src, (*width, *height), kind.0, *way)
            }
            Act::Batch { items, how, way } => {
                self.enter(act, *way)?;
                self.batch(items, *how, *way)
            }
            Act::Fill { dst, with, way } => {
                self.enter(act, *way)?;
                self.fill(dst, *with, *way)
            }
            Act::SetDesc { desc, dst, src } => self.set_desc(*desc, dst, src),
            Act::RunDesc { desc, dst, src, stream } => {
                set_device(STREAMS[*stream])?;
                self.run_desc(*desc, dst, src, *stream)
            }
            Act::CopyDesc { dst, src, stream } => {
                set_device(STREAMS[*stream])?;
                self.copy_desc(*dst, *src, *stream)
            }
            Act::Release { gate } => {
                self.gates[*gate].release();
                Ok(())
            }
            Act::SyncEvent { event } => {
                set_device(EVENTS[*event])?;
                self.order(act)
            }
            Act::SyncDevice { device } => {
                set_device(*device)?;
                self.order(act)
            }
            Act::Record { stream, .. }
            | Act::Wait { stream, .. }
            | Act::Reset { stream, .. }
            | Act::SyncStream { stream }
            | Act::Abort { stream }
            | Act::Renew { stream }
            | Act::Halt { stream }
            | Act::Hold { stream, .. } => {
                set_device(STREAMS[*stream])?;
                self.order(act)
            }
            Act::Land { .. } | Act::Share { .. } | Act::PutDesc { .. } => unreachable!("not in C"),
            Act::Barrier | Act::Check { .. } => unreachable!("done by the one who runs the program"),
        }
    }

    fn read(&self, _thread: usize, buffer: usize, at: usize, out: &mut [u8]) -> Result<(), String> {
        self.memory.read(&Span { buffer, at, len: out.len() }, out)
    }

    fn open_gates(&self) {
        self.gates.iter().for_each(|gate| gate.release());
    }
}
