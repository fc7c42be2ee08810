//! Uses of memory that was freed: by a call, or by work that reads its addresses when it runs.
//!
//! Both are told as failures with a message that names the address.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use super::memory::{ForgottenBlock, OwnedMemory};
use super::messages;
use super::names::CheckNames;
use super::raw::RawFinding;
use crate::fact::{CallSite, Nanos, Origin};

/// Uses of unknown addresses that are kept.
const KEPT_REFUSED: usize = 1 << 8;
/// Messages of failed work that are kept.
const KEPT_FAILURES: usize = 1 << 8;

/// A call that has failed, or whose work has.
#[derive(Clone, Copy)]
pub struct FailedCall {
    /// When it failed.
    pub time: Nanos,
    /// The call.
    pub site: CallSite,
    /// Whether it was its work that failed, which has read its addresses when it ran.
    pub is_late_bound: bool,
}

/// Failures that were about addresses.
#[derive(Default)]
pub struct FreedUses {
    /// The messages of work that has failed, and when its calls began: calls that wait repeat them.
    of_work: VecDeque<(Nanos, String)>,
    /// Failures about addresses at which nothing is known: another thread may be freeing that memory, and
    /// tell of it later.
    refused: Vec<(FailedCall, u64)>,
}

impl FreedUses {
    /// How many are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.of_work.len() + self.refused.len()
    }

    /// The work of a call has failed: what used the memory is that call, and not the one that waits.
    pub fn work_failed(
        &mut self,
        (names, memory): (&CheckNames, &OwnedMemory),
        call: FailedCall,
        message: String,
    ) -> Option<RawFinding> {
        // The tasks of an execution fail one by one, and the execution with them.
        let begin = call.site.begin;
        let is_told = self.of_work.iter().any(|(other, text)| *other == begin && *text == message);
        let found = if is_told { None } else { self.used((names, memory), call, &message) };
        self.of_work.push_back((begin, message));
        if self.of_work.len() > KEPT_FAILURES {
            self.of_work.pop_front();
        }
        found
    }

    /// A call has failed, with the message of work that has a finding of its own or without.
    pub fn call_failed(
        &mut self,
        (names, memory): (&CheckNames, &OwnedMemory),
        call: FailedCall,
        message: &str,
    ) -> Option<RawFinding> {
        let is_of_work = names.tells_of_work(call.site)
            || self.of_work.iter().any(|(_, text)| message.contains(text.as_str()));
        if is_of_work { None } else { self.used((names, memory), call, message) }
    }

    /// Memory is freed, in a call that took this time: the uses that failed meanwhile.
    pub fn freed(
        &mut self,
        (names, memory): (&CheckNames, &OwnedMemory),
        freed: &Range<u64>,
        meanwhile: &RangeInclusive<Nanos>,
    ) -> Vec<RawFinding> {
        let is_of_it = |(call, address): &mut (FailedCall, u64)| {
            freed.contains(address) && meanwhile.contains(&call.time)
        };
        let refused: Vec<_> = self.refused.extract_if(.., is_of_it).collect();
        refused.iter().filter_map(|(call, address)| used_freed((names, memory), call, *address)).collect()
    }

    fn used(
        &mut self,
        known: (&CheckNames, &OwnedMemory),
        call: FailedCall,
        message: &str,
    ) -> Option<RawFinding> {
        let found = addresses(message).find_map(|address| used_freed(known, &call, address));
        if found.is_none() {
            self.refused.extend(addresses(message).map(|address| (call, address)));
        }
        if self.refused.len() > KEPT_REFUSED {
            self.refused.drain(..KEPT_REFUSED / 2);
        }
        found
    }
}

/// The finding that this call used memory behind its end, if the address was that memory's.
fn used_freed(
    (names, memory): (&CheckNames, &OwnedMemory),
    &FailedCall { time, site, is_late_bound }: &FailedCall,
    address: u64,
) -> Option<RawFinding> {
    // Memory that is not registered any more is still the program's, which may use it.
    let is_gone =
        |freed: &&ForgottenBlock| freed.owned.block.origin != Origin::Registered || names.unregisters(site);
    let freed = memory.freed_at(address).filter(is_gone)?;
    // The work is older than the free: nobody had waited for it then.
    Some(match is_late_bound && site.begin < freed.freed.begin {
        true => messages::freed_in_flight(site, freed),
        false => messages::after_free(names, (time, site), address, freed),
    })
}

/// The addresses that a message names.
fn addresses(message: &str) -> impl Iterator<Item = u64> {
    message.split("0x").skip(1).filter_map(|rest| {
        let end = rest.find(|digit: char| !digit.is_ascii_hexdigit()).unwrap_or(rest.len());
        u64::from_str_radix(&rest[..end], 16).ok()
    })
}
