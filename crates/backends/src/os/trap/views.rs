//! Reads of the monitor: none may wait for a page, which only the monitor would open. Bytes of a watched view
//! are read where the engine has them, and addresses of devices not at all.
//!
//! The stack of a thread may lie right below a view, and the list of buffers of a system call inside one.

use super::devices;
use crate::os::page::{page_size, read_up_to};
use std::{
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    time::{Duration, Instant},
};

/// How long the monitor waits for the list: whoever has it may allocate, and wait for a thread that waits for
/// a page.
const PATIENCE: Duration = Duration::from_millis(50);

/// Views of the program's, with the engine's address of the first byte.
static VIEWS: Mutex<WatchedViews> = Mutex::new(Vec::new());

type WatchedViews = Vec<(Range<usize>, usize)>;

/// A view is watched from here on.
pub fn add(user: &Range<usize>, engine: usize) {
    let mut views = VIEWS.lock().unwrap_or_else(PoisonError::into_inner);
    views.push((user.clone(), engine));
}

/// Views inside this range are not watched any more.
pub fn remove(range: &Range<usize>) {
    let mut views = VIEWS.lock().unwrap_or_else(PoisonError::into_inner);
    views.retain(|(user, _)| user.start < range.start || range.end < user.end);
}

/// Reads memory of this process up to where there is none, and says how many bytes.
pub fn read(at: u64, to: &mut [u8]) -> usize {
    let mut done = 0;
    while done < to.len() {
        let Some((from, len)) = source(at as usize + done, to.len() - done) else { break };
        let got = read_up_to(from as u64, &mut to[done..done + len]);
        done += got;
        if got < len {
            break;
        }
    }
    done
}

/// Where bytes from this address on can be read, and how many of them in one go.
fn source(address: usize, most: usize) -> Option<(usize, usize)> {
    let next_device = devices::next_from(address);
    if next_device == Some(address) {
        return None;
    }
    // Without the list: as far as the same page, in which the thread is.
    let Some(views) = views_soon() else {
        return Some((address, most.min(page_size() - address % page_size())));
    };
    if let Some((user, engine)) = views.iter().rev().find(|(user, _)| user.contains(&address)) {
        return Some((engine + (address - user.start), most.min(user.end - address)));
    }
    let starts = views.iter().map(|(user, _)| user.start).chain(next_device);
    let next = starts.filter(|start| *start > address).min();
    Some((address, next.map_or(most, |next| most.min(next - address))))
}

fn views_soon() -> Option<MutexGuard<'static, WatchedViews>> {
    let since = Instant::now();
    loop {
        match VIEWS.try_lock() {
            Ok(views) => return Some(views),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if since.elapsed() > PATIENCE => return None,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_views_are_read_where_the_engine_has_them() {
        let memory: Vec<u8> = (0..=255).collect();
        let (start, engine) = (memory.as_ptr().addr(), vec![7_u8; 16]);
        add(&(start + 32..start + 48), engine.as_ptr().addr());
        let mut got = [0; 64];
        assert_eq!(read(start as u64, &mut got), 64);
        let want: Vec<u8> = (0..64).map(|byte| if (32..48).contains(&byte) { 7 } else { byte }).collect();
        assert_eq!(got[..], want);
        assert_eq!(read(start as u64 + 40, &mut got[..16]), 16);
        assert_eq!(got[..16], [[7; 8], [48, 49, 50, 51, 52, 53, 54, 55]].concat());
        remove(&(start..start + 256));
        assert_eq!(read(start as u64, &mut got), 64);
        assert_eq!(got[..], memory[..64]);
        assert_eq!(read(8, &mut got), 0, "nothing is there");
    }
}
