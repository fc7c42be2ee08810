//! What this process has imported, and how often. To import again what is here already gives the same address or handle; each
//! import is undone by itself, and the memory goes with the last.

use super::wire::Name;
use crate::{Result, state::lock};
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, OnceLock},
};

#[derive(Default)]
struct Imports {
    by_name: HashMap<Name, Import>,
    by_value: HashMap<usize, Name>,
}

#[derive(Default)]
struct Import {
    count: usize,
    /// Where the memory is, or what its handle is; unset while somebody imports it.
    value: Arc<OnceLock<Result<usize>>>,
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

/// The address or handle of what goes under `name`: what is here already, or what `import` brings. Whoever asks meanwhile waits for
/// that, and is told the same.
pub fn begin(name: Name, import: impl FnOnce() -> Result<usize>) -> Result<usize> {
    let value = {
        let mut all = lock(&IMPORTS);
        let entry = all.by_name.entry(name).or_default();
        entry.count += 1;
        entry.value.clone()
    };
    let imported = value.get_or_init(|| {
        let imported = import();
        if let Ok(value) = imported {
            lock(&IMPORTS).by_value.insert(value, name);
        }
        imported
    });
    if imported.is_err() {
        let all = &mut lock(&IMPORTS).by_name;
        if all.get(&name).is_some_and(|entry| Arc::ptr_eq(&entry.value, &value)) {
            all.remove(&name);
        }
    }
    imported.clone()
}

/// Undoes one import.
pub fn end(name: &Name) -> Ended {
    let mut all = lock(&IMPORTS);
    let Some(entry) = all.by_name.get_mut(name) else { return Ended::None };
    let Some(Ok(value)) = entry.value.get().cloned() else { return Ended::None };
    entry.count -= 1;
    if entry.count > 0 {
        return Ended::OneOfMany;
    }
    all.by_name.remove(name);
    all.by_value.remove(&value);
    Ended::Last(value)
}

/// The name under which something was imported.
pub fn name_of(value: usize) -> Option<Name> {
    lock(&IMPORTS).by_value.get(&value).copied()
}
