//! The two keys of pthread that the library needs: one of its own, for the state of threads, and one of Rust's standard library, which aborts
//! when it gets none. A process has 1024 in all, and other libraries may take every one: so both are taken when the library is loaded.

use crate::{Error, constants as c, error::fail};
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// What pthread calls when a thread ends, with the value it has under a key.
pub type Destructor = unsafe extern "C" fn(*mut libc::c_void);

/// The library's own key, plus one; 0 until both are taken.
static KEY: AtomicU64 = AtomicU64::new(0);

/// The key of the library, taken now if it was not before, with this destructor. Fails as long as there are none to be had.
pub fn take(destructor: Destructor) -> Result<libc::pthread_key_t, Error> {
    match KEY.load(Ordering::Acquire) {
        0 => take_both(destructor),
        key => Ok((key - 1) as libc::pthread_key_t),
    }
}

#[cold]
fn take_both(destructor: Destructor) -> Result<libc::pthread_key_t, Error> {
    static TAKING: Mutex<()> = Mutex::new(());
    let _taking = crate::state::lock(&TAKING);
    if let key @ 1.. = KEY.load(Ordering::Acquire) {
        return Ok((key - 1) as libc::pthread_key_t);
    }
    let key = create(Some(destructor))?;
    if let Err(why) = has_std_its_own() {
        // SAFETY: nobody has stored anything under it.
        unsafe { libc::pthread_key_delete(key) };
        return Err(why);
    }
    KEY.store(u64::from(key) + 1, Ordering::Release);
    Ok(key)
}

/// Has the standard library take its key, if there is one to be had.
fn has_std_its_own() -> Result<(), Error> {
    // Two: it takes no notice of key 0, and tries again.
    let first = create(None)?;
    let second = create(None);
    let free = [Some(first), second.as_ref().ok().copied()];
    for key in free.into_iter().flatten() {
        // SAFETY: nobody has stored anything under it. It exists, so this cannot fail.
        unsafe { libc::pthread_key_delete(key) };
    }
    second?;
    drop(std::thread::current());
    Ok(())
}

fn create(destructor: Option<Destructor>) -> Result<libc::pthread_key_t, Error> {
    let mut key = 0;
    // SAFETY: the key is written, and the destructor takes what is stored under it.
    match unsafe { libc::pthread_key_create(&mut key, destructor) } {
        0 => Ok(key),
        why => Err(none_left(&format!("pthread_key_create: {}", std::io::Error::from_raw_os_error(why)))),
    }
}

/// Stores the state of this thread under the key.
pub fn store(key: libc::pthread_key_t, value: *mut libc::c_void) -> Result<(), Error> {
    // SAFETY: the key is ours; its destructor takes what this stores.
    match unsafe { libc::pthread_setspecific(key, value) } {
        0 => Ok(()),
        why => Err(none_left(&format!("pthread_setspecific: {}", std::io::Error::from_raw_os_error(why)))),
    }
}

#[cold]
fn none_left(why: &str) -> Error {
    let note = "other libraries have taken every pthread key of the process before this one was loaded, and it needs two: load it earlier";
    fail(c::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, format!("{why}: {note}"))
}
