//! Page-locked memory that is mapped twice, when the program forks: the child's is its own.

use ferry_backends::os::trap::{Snapshot, at_fork, devices};
use std::{cell::RefCell, sync::Once};

thread_local! {
    /// What the calling thread has copied for the child that it is about to make.
    static COPIED: RefCell<Vec<Snapshot>> = const { RefCell::new(Vec::new()) };
}

/// From here on children have page-locked memory of their own.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        at_fork(before, in_parent, in_child);
    });
}

/// Without the lock when it returns: handlers of the program's may call the library until the fork is done.
extern "C" fn before() {
    ferry_core::fence::survives(|| {
        let Some(watch) = super::OPENED.get().and_then(Option::as_ref) else { return };
        let pages = watch.pages();
        let copies = pages.into_iter().filter_map(|(user, at)| Snapshot::take(user, at)).collect();
        let _ = COPIED.try_with(|copied| *copied.borrow_mut() = copies);
    });
}

extern "C" fn in_parent() {
    let _ = COPIED.try_with(|copied| copied.borrow_mut().clear());
}

extern "C" fn in_child() {
    devices::close_in_child();
    let _ = COPIED.try_with(|copied| copied.borrow_mut().drain(..).for_each(Snapshot::lay_over_view));
}
