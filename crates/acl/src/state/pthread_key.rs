//! The pthread key under which a thread's state is stored, and its destructor.
//!
//! The library needs two keys: one of its own, and one of Rust's standard library, which aborts when it gets
//! none. A process has 1024 in all, and other libraries may take every one, so both are created when the
//! library is loaded.

use crate::{Error, constants as c, error::fail};
use ferry_core::sync::lock;
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// What pthread calls when a thread ends, with the value it has under a key.
pub type Destructor = unsafe extern "C" fn(*mut libc::c_void);

/// The library's own key, plus one; 0 until both exist.
static KEY: AtomicU64 = AtomicU64::new(0);

/// The key of the library, created with this destructor if it does not exist yet. Fails as long as there is
/// none left.
pub fn get_or_create(destructor: Destructor) -> Result<libc::pthread_key_t, Error> {
    match KEY.load(Ordering::Acquire) {
        0 => create_both(destructor),
        key => Ok((key - 1) as libc::pthread_key_t),
    }
}

#[cold]
fn create_both(destructor: Destructor) -> Result<libc::pthread_key_t, Error> {
    static CREATING: Mutex<()> = Mutex::new(());
    let _creating = lock(&CREATING);
    if let key @ 1.. = KEY.load(Ordering::Acquire) {
        return Ok((key - 1) as libc::pthread_key_t);
    }
    let key = create(Some(destructor))?;
    if let Err(why) = let_std_create_its_own() {
        // SAFETY: created above, and nothing was stored under it.
        unsafe { libc::pthread_key_delete(key) };
        return Err(why);
    }
    KEY.store(u64::from(key) + 1, Ordering::Release);
    Ok(key)
}

/// Has the standard library create its key, if there is one left.
fn let_std_create_its_own() -> Result<(), Error> {
    // Two: it takes no notice of key 0, and tries again.
    let first = create(None)?;
    let second = create(None);
    let free = [Some(first), second.as_ref().ok().copied()];
    for key in free.into_iter().flatten() {
        // SAFETY: created above, and nothing was stored under it. It exists, so this cannot fail.
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
    let note = "other libraries have taken every pthread key of the process before this one was loaded, and \
                it needs two: load it earlier";
    fail(c::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, format!("{why}: {note}"))
}
