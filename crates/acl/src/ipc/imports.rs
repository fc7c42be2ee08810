//! What this process has imported, and how often. To import again what is here already gives the same address
//! or handle; each import is undone by itself, and the memory goes with the last.

use super::{exports::Source, wire::Name};
use crate::{Result, arguments::refuse, constants as c, error::fail, interrupt, state::Here};
use ferry_core::{Kind, sync::lock};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Condvar, LazyLock, Mutex, OnceLock},
    thread::{self, ThreadId},
};

#[derive(Default)]
struct ImportTable {
    by_name: HashMap<Name, ImportEntry>,
    /// By the address or handle. The two are told apart: a number may come from the program.
    by_source: HashMap<Source, Name>,
}

enum ImportEntry {
    /// A thread is importing it.
    Underway(Arc<ImportOutcome>),
    /// Where the memory is, or what its handle is, and how often it was imported.
    Here { value: usize, count: usize },
}

/// The result of an import, once there is one, and the thread that imports.
struct ImportOutcome {
    thread: ThreadId,
    value: OnceLock<Result<usize>>,
}

/// The result of undoing an import.
pub enum Ended {
    /// Nothing: there is no such import.
    None,
    /// There are others of the same memory.
    OneOfMany,
    /// It was the last one, of this address or handle.
    Last(usize),
}

static IMPORTS: LazyLock<Mutex<ImportTable>> = LazyLock::new(Mutex::default);
/// An import is no longer under way.
static FINISHED: Condvar = Condvar::new();

/// The address or handle of what goes under `name`: what is here already, or what `import` brings. Other
/// threads that ask meanwhile wait for that, and get the same.
pub fn begin(here: &Here, name: Name, import: impl FnOnce() -> Result<usize>) -> Result<usize> {
    let mut importing = loop {
        match enter(name) {
            ImportStart::Here(value) => return Ok(value),
            ImportStart::First(importing) => break importing,
            ImportStart::Second(outcome) => wait_for(here, &outcome)?,
        }
    };
    importing.result = import();
    importing.result.clone()
}

/// The state in which a thread finds an import that it wants to begin.
enum ImportStart {
    Here(usize),
    First(Importing),
    Second(Arc<ImportOutcome>),
}

fn enter(name: Name) -> ImportStart {
    match lock(&IMPORTS).by_name.entry(name) {
        Entry::Vacant(vacant) => {
            let outcome = Arc::new(ImportOutcome { thread: thread::current().id(), value: OnceLock::new() });
            vacant.insert(ImportEntry::Underway(outcome.clone()));
            ImportStart::First(Importing {
                name,
                outcome,
                result: Err(fail(c::ACL_ERROR_RT_IPC_ERROR, "it was not finished")),
            })
        }
        Entry::Occupied(mut there) => match there.get_mut() {
            ImportEntry::Underway(outcome) => ImportStart::Second(outcome.clone()),
            ImportEntry::Here { value, count } => {
                *count += 1;
                ImportStart::Here(*value)
            }
        },
    }
}

/// The right to import something. When dropped, it gives the result to the threads that wait for it.
struct Importing {
    name: Name,
    outcome: Arc<ImportOutcome>,
    result: Result<usize>,
}

impl Drop for Importing {
    fn drop(&mut self) {
        let mut all = lock(&IMPORTS);
        match self.result {
            Ok(value) => {
                all.by_source.insert((self.name.what, value), self.name);
                all.by_name.insert(self.name, ImportEntry::Here { value, count: 1 });
            }
            Err(_) => drop(all.by_name.remove(&self.name)),
        }
        let _ = self.outcome.value.set(self.result.clone());
        FINISHED.notify_all();
    }
}

/// Waits until another thread's import is over, and fails as it did. A signal may end that.
fn wait_for(here: &Here, outcome: &ImportOutcome) -> Result<()> {
    if outcome.thread == thread::current().id() {
        return Err(refuse("this thread is importing it: a signal's handler cannot wait for that"));
    }
    let is_open = |_: &mut ImportTable| outcome.value.get().is_none();
    interrupt::wait(here, None, |limit| {
        let all = lock(&IMPORTS);
        match limit {
            None => drop(FINISHED.wait_while(all, is_open)),
            Some(limit) => drop(FINISHED.wait_timeout_while(all, limit, is_open)),
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
    let Some(ImportEntry::Here { value, count }) = all.by_name.get_mut(name) else { return Ended::None };
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

/// Undoes one import of what is about to be freed. Whether it stays, since it was imported more than once.
pub fn stays(source: Source) -> bool {
    name_of(source).is_some_and(|name| matches!(end(&name), Ended::OneOfMany))
}
