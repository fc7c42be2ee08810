//! Which files are loaded where: the facts that return addresses are looked up in.
//!
//! A program loads files while it runs. So every caller's address is looked for in the files that were told
//! of before, and when it is in none of them, the loader is asked again.

use crate::{
    fact::{Fact, LoadedFile},
    local::Local,
    writer::FactWriter,
};
use std::{
    ffi::{CStr, c_void},
    fs, slice,
    sync::{Mutex, PoisonError},
};

/// The executable parts that were told of, as `(base, end)`.
static TOLD: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Has a reader know the file that `address` is in.
#[inline]
pub(crate) fn tell(local: &Local, writer: &FactWriter, address: u64) {
    let (base, end) = local.module.get();
    if !(base..end).contains(&address) && address != 0 {
        local.module.set(find(writer, address));
    }
}

/// The part that the address is in. A reader knows it afterwards.
#[cold]
fn find(writer: &FactWriter, address: u64) -> (u64, u64) {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let has = |part: &&(u64, u64)| (part.0..part.1).contains(&address);
    if told.iter().find(has).is_none() {
        for file in loaded() {
            let part = (file.base, file.end);
            if !told.contains(&part) {
                told.push(part);
                writer.write(&Fact::Module(file));
            }
        }
    }
    // An address in no file, of code that was made at run time, is not looked for again and again.
    told.iter().rev().find(has).copied().unwrap_or((address, address + 1))
}

/// The executable parts of all files that are loaded now.
fn loaded() -> Vec<LoadedFile> {
    let mut files: Vec<LoadedFile> = Vec::new();
    // SAFETY: the callback gets the pointer that is passed here, and only during the call.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut files).cast()) };
    files
}

/// Called for each loaded file.
unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, files: *mut c_void) -> i32 {
    // SAFETY: both are valid during the call: `loaded` passes a list, and the loader the rest.
    let (info, files) = unsafe { (&*info, &mut *files.cast::<Vec<LoadedFile>>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader's own list of the file's segments.
    let segments = unsafe { slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let path = path_of(info);
    for segment in segments {
        if segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0 {
            let base = info.dlpi_addr.wrapping_add(segment.p_vaddr);
            let (end, offset) = (base.wrapping_add(segment.p_memsz), segment.p_vaddr);
            files.push(LoadedFile { base, end, offset, path: path.clone() });
        }
    }
    0
}

/// The file's name; the loader has none for the program itself.
fn path_of(info: &libc::dl_phdr_info) -> String {
    // SAFETY: the loader's name of the file, a C string or null.
    let name = (!info.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(info.dlpi_name) });
    match name.filter(|name| !name.is_empty()) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => fs::read_link("/proc/self/exe").unwrap_or_default().to_string_lossy().into_owned(),
    }
}
