//! The calls of the program that did something, by the place they were made from; their number is bounded.

use std::sync::Arc;

use crate::fact::CallSite;
use crate::symbols::{CodePlace, Symbols};

use super::counts::Counts;
use super::generations::FastMap;

/// Call sites that are told apart; what others do is counted as one.
const TOLD_APART: usize = 4096;
/// Frames above a call that are told.
const TOLD_FRAMES: usize = 8;

/// The number of a call site in [`Sites`].
pub(super) type SiteIndex = usize;

/// The call site that stands for all that are too many.
const OTHERS: SiteIndex = 0;

/// All call sites; the first one stands for those that are too many.
pub(super) struct Sites {
    indices: FastMap<SiteKey, SiteIndex>,
    all: Vec<CountedSite>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SiteKey {
    process: u32,
    function: u16,
    caller: u64,
}

struct CountedSite {
    key: SiteKey,
    stack: u32,
    counts: Counts,
    /// Its name, once it has been asked for or is about to be lost.
    name: Option<CallName>,
}

/// A call of the program, by name and place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallName {
    /// The function that was called; `None` if it is not known, or if these are several calls.
    pub function: Option<String>,
    /// Where it was called; `None` if that is not known.
    pub place: Option<Arc<CodePlace>>,
    /// The calls above it, the innermost first; only those that it was inlined into if stacks were not asked
    /// for.
    pub frames: Vec<Arc<CodePlace>>,
    /// Whether it stands for all calls that are too many to be told apart.
    pub is_others: bool,
}

impl CallName {
    /// `copy.c:12: aclrtMemcpyAsync in upload`, as far as it is known.
    pub fn text(&self) -> String {
        if self.is_others {
            return "other calls".to_owned();
        }
        let function = self.function.as_deref().unwrap_or("a call");
        let Some(place) = &self.place else { return format!("{function} (caller unknown)") };
        let within = place.function.as_ref().map(|within| match place.file {
            Some(_) => format!(" in {within}"),
            None => format!(" near {within}"),
        });
        format!("{}: {function}{}", place.position(), within.unwrap_or_default())
    }
}

impl Sites {
    pub(super) fn new() -> Sites {
        let key = SiteKey { process: 0, function: 0, caller: 0 };
        let name = Some(CallName { is_others: true, ..CallName::default() });
        Sites {
            indices: FastMap::default(),
            all: vec![CountedSite { key, stack: 0, counts: Counts::default(), name }],
        }
    }

    /// The number of a call site, which is new perhaps.
    pub(super) fn index(&mut self, process: u32, site: &CallSite) -> SiteIndex {
        let key = SiteKey { process, function: site.function, caller: site.caller };
        if let Some(index) = self.indices.get(&key) {
            return *index;
        }
        if self.all.len() > TOLD_APART {
            return OTHERS;
        }
        self.all.push(CountedSite { key, stack: site.stack, counts: Counts::default(), name: None });
        self.indices.insert(key, self.all.len() - 1);
        self.all.len() - 1
    }

    pub(super) fn counts(&mut self, index: SiteIndex) -> &mut Counts {
        &mut self.all[index].counts
    }

    /// Finds the names of a process's calls while they can be found: its number is going to be another's.
    pub(super) fn close(&mut self, process: u32, symbols: &mut Symbols) {
        self.indices.retain(|key, _| key.process != process);
        let open = self.all.iter_mut().filter(|site| site.key.process == process && site.name.is_none());
        open.for_each(|site| site.name = Some(site.find_name(symbols)));
    }

    /// Every call site that did something, by name.
    pub(super) fn named<'a>(
        &'a self,
        symbols: &'a mut Symbols,
    ) -> impl Iterator<Item = (CallName, &'a Counts)> + 'a {
        self.all.iter().map(|site| {
            let name = site.name.clone().unwrap_or_else(|| site.find_name(symbols));
            (name, &site.counts)
        })
    }

    /// How many call sites are told apart, with the one that stands for the others.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

impl CountedSite {
    fn find_name(&self, symbols: &mut Symbols) -> CallName {
        let SiteKey { process, function, caller } = self.key;
        let stack = symbols.stack(process, self.stack).to_vec();
        let (place, mut frames) = match caller {
            0 => (None, Vec::new()),
            _ => {
                let mut places = symbols.authored(process, caller);
                (Some(places.remove(0)), places)
            }
        };
        for address in stack.into_iter().filter(|address| *address != caller).take(TOLD_FRAMES) {
            frames.extend(symbols.places(process, address).iter().cloned());
        }
        frames.truncate(TOLD_FRAMES);
        CallName {
            function: symbols.function(process, function).map(str::to_owned),
            place,
            frames,
            is_others: false,
        }
    }
}
