//! A program's memory, made and freed through the C ABI: allocations, windows, physical and registered
//! memory.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ascendcl::*;

use crate::basics::{HUGE_FIRST, device_malloc, host_malloc, ok, pointer, set_device};
use crate::oracle::first_bytes;
use crate::program::*;
use crate::twin::{self, Exports, Manner};

const NORMAL_ONLY: i32 = 2;
const NORMAL_ONLY_P2P: i32 = 5;
const POLICIES: [i32; 3] = [HUGE_FIRST, NORMAL_ONLY, NORMAL_ONLY_P2P];
const ACL_HBM_MEM_NORMAL: i32 = 5;
const ACL_HOST_REG_PINNED: u32 = 0x1000_0000;
const LOCATION_DEVICE: u32 = 1;

/// Where one buffer is.
#[derive(Default)]
struct Holding {
    /// Its address, or its handle if it is physical memory; 0 if it is not allocated.
    at: AtomicUsize,
    /// Where physical memory is mapped.
    mapped: Mutex<Vec<usize>>,
    /// The address from which memory is registered, or 0.
    registered: AtomicUsize,
}

pub struct Holdings<'a> {
    program: &'a Program,
    all: Vec<Holding>,
    exports: Exports,
    /// Reserved addresses through which physical memory is reached that is mapped nowhere.
    peephole: Mutex<usize>,
}

impl<'a> Holdings<'a> {
    pub fn new(program: &'a Program) -> Result<Holdings<'a>, String> {
        let lens = program.buffers.iter().filter(|b| b.form() == Form::Physical).map(|b| b.len);
        let peephole = match lens.max() {
            Some(len) => reserve(len)?,
            None => 0,
        };
        let all = program.buffers.iter().map(|_| Holding::default()).collect();
        Ok(Holdings { program, all, exports: Exports::default(), peephole: Mutex::new(peephole) })
    }

    /// Frees what is left. Goes on after a failure, and reports the first.
    pub fn close(&self) -> Result<(), String> {
        let mut results = vec![set_device(0), self.exports.close()];
        for holding in &self.all {
            let mapped = std::mem::take(&mut *holding.mapped());
            results.extend(mapped.into_iter().map(|at| ok("aclrtUnmapMem", aclrtUnmapMem(pointer(at)))));
        }
        for (buffer, holding) in self.all.iter().enumerate() {
            if holding.registered.load(Ordering::Relaxed) != 0 {
                results.push(self.unregister(buffer));
            }
            if self.address(buffer) != 0 {
                results.push(self.free(buffer));
            }
        }
        let peephole = *self.peephole.lock().unwrap_or_else(PoisonError::into_inner);
        if peephole != 0 {
            results.push(ok("aclrtReleaseMemAddress", aclrtReleaseMemAddress(pointer(peephole))));
        }
        results.into_iter().collect()
    }

    pub fn address(&self, buffer: usize) -> usize {
        self.all[buffer].at.load(Ordering::Relaxed)
    }

    pub fn at(&self, span: &Span) -> *mut c_void {
        pointer(self.address(span.buffer) + span.at)
    }

    /// Bytes from the start of a span to the end of its buffer.
    pub fn room(&self, span: &Span) -> usize {
        self.program.buffers[span.buffer].len - span.at
    }

    pub fn alloc(&self, buffer: usize) -> Result<(), String> {
        let Buffer { len, .. } = self.program.buffers[buffer];
        let (home, form) = (self.program.home(buffer), self.program.form(buffer));
        if let Home::Device(device) = home {
            set_device(device)?;
        }
        let at = match (home, form) {
            (_, Form::Window) => reserve(len)?,
            (Home::Device(device), Form::Physical) => physical_malloc(device, len)?,
            (Home::Device(_), _) => device_malloc(len, POLICIES[buffer % POLICIES.len()])?,
            (Home::Pinned, _) => {
                set_device(0)?;
                host_malloc(len)?
            }
            // SAFETY: a power of two, and a multiple of it.
            (Home::Heap, Form::Pages) => unsafe { libc::aligned_alloc(PAGE, len) }.expose_provenance(),
            // SAFETY: any length will do.
            (Home::Heap, _) => unsafe { libc::malloc(len) }.expose_provenance(),
        };
        self.all[buffer].at.store(at, Ordering::Relaxed);
        match form {
            Form::Window => Ok(()),
            _ => self.write(&Span { buffer, at: 0, len }, first_bytes(buffer, len)),
        }
    }

    pub fn free(&self, buffer: usize) -> Result<(), String> {
        let at = pointer(self.address(buffer));
        self.exports.end(buffer)?;
        match (self.program.home(buffer), self.program.form(buffer)) {
            (_, Form::Window) => ok("aclrtReleaseMemAddress", aclrtReleaseMemAddress(at))?,
            (_, Form::Physical) => ok("aclrtFreePhysical", aclrtFreePhysical(at))?,
            (Home::Device(_), _) => ok("aclrtFree", aclrtFree(at))?,
            (Home::Pinned, _) => ok("aclrtFreeHost", aclrtFreeHost(at))?,
            // SAFETY: came from malloc, and every call that named it has returned.
            (Home::Heap, _) => unsafe { libc::free(std::ptr::with_exposed_provenance_mut(at.addr())) },
        }
        self.all[buffer].at.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Has the second process copy or fill.
    pub fn abroad(&self, act: &Act, manner: Manner) -> Result<(), String> {
        let there = |span: &Span| {
            let Home::Device(device) = self.program.home(span.buffer) else {
                return Err("only device memory is exported".to_string());
            };
            let len = self.program.buffers[span.buffer].len;
            let at = self.exports.address(span.buffer, self.address(span.buffer), len, device)?;
            Ok((device, at + span.at))
        };
        match act {
            Act::Copy { dst, src, .. } => {
                let ((device, to), (_, from)) = (there(dst)?, there(src)?);
                twin::copy(device, to, from, dst.len, manner)
            }
            Act::Fill { dst, with: Pattern::Byte(byte), .. } => {
                let (device, to) = there(dst)?;
                twin::fill(device, to, *byte, dst.len, manner)
            }
            other => unreachable!("{other:?} is not done by the second process"),
        }
    }

    fn cell(&self, window: usize, cell: usize) -> usize {
        self.address(window) + cell * (self.program.buffers[window].len / CELLS)
    }

    pub fn map(&self, window: usize, cell: usize, physical: usize) -> Result<(), String> {
        let (at, len) = (self.cell(window, cell), self.program.buffers[physical].len);
        map(at, len, self.address(physical))?;
        self.all[physical].mapped().push(at);
        Ok(())
    }

    pub fn unmap(&self, window: usize, cell: usize, physical: usize) -> Result<(), String> {
        let at = self.cell(window, cell);
        self.all[physical].mapped().retain(|other| *other != at);
        ok("aclrtUnmapMem", aclrtUnmapMem(pointer(at)))
    }

    pub fn register(&self, buffer: usize, from: usize, len: usize) -> Result<(), String> {
        let at = self.address(buffer) + from;
        // SAFETY: the pages are this buffer's, and it is unregistered before it is freed.
        let code = unsafe { aclrtHostRegisterV2(pointer(at), len as u64, ACL_HOST_REG_PINNED) };
        ok("aclrtHostRegisterV2", code)?;
        self.all[buffer].registered.store(at, Ordering::Relaxed);
        Ok(())
    }

    pub fn unregister(&self, buffer: usize) -> Result<(), String> {
        let at = self.all[buffer].registered.swap(0, Ordering::Relaxed);
        ok("aclrtHostUnregister", aclrtHostUnregister(pointer(at)))
    }

    /// Puts bytes into a buffer before going on: the CPU where it can, a synchronous copy where it cannot.
    pub fn write(&self, dst: &Span, bytes: &[u8]) -> Result<(), String> {
        if self.program.home(dst.buffer).is_device() {
            return self.visit(dst, |at| {
                let (len, kind) = (bytes.len(), Kind::HOST_TO_DEVICE.0);
                // SAFETY: both ranges are valid for the length of the call.
                ok("aclrtMemcpy", unsafe { aclrtMemcpy(at, len, bytes.as_ptr().cast(), len, kind) })
            });
        }
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(self.at(dst).addr());
        // SAFETY: the buffer is allocated and, by the program's order, nobody else uses these bytes.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Reads bytes of a buffer now.
    pub fn read(&self, src: &Span, out: &mut [u8]) -> Result<(), String> {
        if let Home::Device(device) = self.program.home(src.buffer) {
            set_device(device)?;
            return self.visit(src, |at| {
                let (len, kind) = (out.len(), Kind::DEVICE_TO_HOST.0);
                // SAFETY: both ranges are valid for the length of the call.
                ok("aclrtMemcpy", unsafe { aclrtMemcpy(out.as_mut_ptr().cast(), len, at, len, kind) })
            });
        }
        let from: *const u8 = std::ptr::with_exposed_provenance(self.at(src).addr());
        // SAFETY: the buffer is allocated and, by the program's order, nobody writes these bytes now.
        unsafe { from.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Calls `act` with an address of the span: its own, or one where physical memory is mapped, if need be
    /// for this.
    fn visit(&self, span: &Span, act: impl FnOnce(*mut c_void) -> Result<(), String>) -> Result<(), String> {
        if self.program.form(span.buffer) != Form::Physical {
            return act(self.at(span));
        }
        let mapped = self.all[span.buffer].mapped().last().copied();
        if let Some(at) = mapped {
            return act(pointer(at + span.at));
        }
        let peephole = self.peephole.lock().unwrap_or_else(PoisonError::into_inner);
        map(*peephole, self.program.buffers[span.buffer].len, self.address(span.buffer))?;
        let done = act(pointer(*peephole + span.at));
        done.and(ok("aclrtUnmapMem", aclrtUnmapMem(pointer(*peephole))))
    }
}

impl Holding {
    fn mapped(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reserve(len: usize) -> Result<usize, String> {
    let mut at = null_mut();
    // SAFETY: `at` is a valid place for a pointer.
    ok("aclrtReserveMemAddress", unsafe { aclrtReserveMemAddress(&mut at, len, 0, null_mut(), 0) })?;
    Ok(at.addr())
}

fn physical_malloc(device: usize, len: usize) -> Result<usize, String> {
    let location = aclrtMemLocation { id: device as u32, type_: LOCATION_DEVICE as _ };
    let properties = aclrtPhysicalMemProp { memAttr: ACL_HBM_MEM_NORMAL, location, ..Default::default() };
    let mut handle = null_mut();
    // SAFETY: both are valid for the length of the call.
    ok("aclrtMallocPhysical", unsafe { aclrtMallocPhysical(&mut handle, len, &properties, 0) })?;
    Ok(handle.addr())
}

fn map(at: usize, len: usize, handle: usize) -> Result<(), String> {
    ok("aclrtMapMem", aclrtMapMem(pointer(at), len, 0, pointer(handle), 0))
}
