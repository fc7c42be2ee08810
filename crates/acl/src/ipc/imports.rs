//! What this process has imported, and how often. To import again what is here already gives the same address or handle; each
//! import is undone by itself, and the memory goes with the last.

use super::{service::Source, wire::Name};
use crate::{Result, call::refuse, constants as c, error::fail, interrupt, state::lock};
use ferry_core::Kind;
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Condvar, LazyLock, Mutex, OnceLock},
    thread::{self, ThreadId},
};

#[derive(Default)]
struct Imports {
    by_name: HashMap<Name, Import>,
    /// By the address or handle. The two are told apart: a number may come from the program.
    by_source: HashMap<Source, Name>,
}

enum Import {
    /// Somebody imports it.
    Underway(Arc<Outcome>),
    /// Where the memory is, or what its handle is, and how often it was imported.
    Here { value: usize, count: usize },
}

/// What comes of an import, and the thread that is at it.
struct Outcome {
    thread: ThreadId,
    value: OnceLock<Result<usize>>,
}

/// What came of undoing an import.
pub enum Ended {
    /// Nothing: there is no such import.
    None,
    /// There are others of the same memory.
    OneOfMany,
    /// It was the last one, of this address or handle.
    Last(usize),
}

static IMPORTS: LazyLock<Mutex<Imports>> = LazyLock::new(Mutex::default);
/// An import is no longer under way.
static SETTLED: Condvar = Condvar::new();

/// The address or handle of what goes under `name`: what is here already, or what `import` brings. Whoever asks meanwhile waits for
/// that, and is told the same.
pub fn begin(name: Name, import: impl FnOnce() -> Result<usize>) -> Result<usize> {
    let mut turn = loop {
        match enter(name) {
            Entered::Here(value) => return Ok(value),
            Entered::First(turn) => break turn,
            Entered::Second(outcome) => wait_for(&outcome)?,
        }
    };
    turn.came = import();
    turn.came.clone()
}

/// What somebody finds who wants to import.
enum Entered {
    Here(usize),
    First(Turn),
    Second(Arc<Outcome>),
}

fn enter(name: Name) -> Entered {
    match lock(&IMPORTS).by_name.entry(name) {
        Entry::Vacant(vacant) => {
            let outcome = Arc::new(Outcome { thread: thread::current().id(), value: OnceLock::new() });
            vacant.insert(Import::Underway(outcome.clone()));
            Entered::First(Turn {
                name,
                outcome,
                came: Err(fail(c::ACL_ERROR_RT_IPC_ERROR, "it was not finished")),
            })
        }
        Entry::Occupied(mut there) => match there.get_mut() {
            Import::Underway(outcome) => Entered::Second(outcome.clone()),
            Import::Here { value, count } => {
                *count += 1;
                Entered::Here(*value)
            }
        },
    }
}

/// The right to import something. Tells those who wait what came of it when dropped.
struct Turn {
    name: Name,
    outcome: Arc<Outcome>,
    came: Result<usize>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut all = lock(&IMPORTS);
        match self.came {
            Ok(value) => {
                all.by_source.insert((self.name.what, value), self.name);
                all.by_name.insert(self.name, Import::Here { value, count: 1 });
            }
            Err(_) => drop(all.by_name.remove(&self.name)),
        }
        let _ = self.outcome.value.set(self.came.clone());
        SETTLED.notify_all();
    }
}

/// Waits until another thread's import is over, and fails as it did. A signal may end that.
fn wait_for(outcome: &Outcome) -> Result<()> {
    if outcome.thread == thread::current().id() {
        return Err(refuse("this thread is importing it: a signal's handler cannot wait for that"));
    }
    let is_open = |_: &mut Imports| outcome.value.get().is_none();
    interrupt::wait(None, |limit| {
        let all = lock(&IMPORTS);
        match limit {
            None => drop(SETTLED.wait_while(all, is_open)),
            Some(limit) => drop(SETTLED.wait_timeout_while(all, limit, is_open)),
        }
        if outcome.value.get().is_some() { Ok(()) } else { Err(Kind::Timeout.because("not imported yet")) }
    })?;
    match outcome.value.get() {
        Some(Err(error)) => Err(error.clone()),
        _ => Ok(()),
    }
}

/// Undoes one import.
pub fn end(name: &Name) -> Ended {
    let mut all = lock(&IMPORTS);
    let Some(Import::Here { value, count }) = all.by_name.get_mut(name) else { return Ended::None };
    let value = *value;
    *count -= 1;
    if *count > 0 {
        return Ended::OneOfMany;
    }
    all.by_name.remove(name);
    all.by_source.remove(&(name.what, value));
    Ended::Last(value)
}

/// The name under which something was imported.
pub fn name_of(source: Source) -> Option<Name> {
    lock(&IMPORTS).by_source.get(&source).copied()
}
