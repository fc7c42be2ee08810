//! Checks of arguments that all functions share: NULL, memory that can be read or written, limits and
//! timeouts.

use crate::{Error, Result, constants as c, error::fail};
use ferry::engine::probe;
use ferry_core::Access;
use std::{borrow::Cow, ops::Range, time::Duration};

/// Refuses an argument whose value breaks a rule of the runtime.
pub fn refuse(note: impl Into<Cow<'static, str>>) -> Error {
    fail(c::ACL_ERROR_RT_PARAM_INVALID, note)
}

/// Refuses NULL.
#[inline]
pub fn not_null(name: &'static str, addr: usize) -> Result<()> {
    if addr != 0 { Ok(()) } else { Err(is_null(name)) }
}

/// The error of an argument that is NULL.
#[cold]
pub fn is_null(name: &'static str) -> Error {
    fail(c::ACL_ERROR_INVALID_PARAM, format!("{name} is NULL"))
}

/// Refuses `value` if it is more than `most`.
#[inline]
pub(crate) fn within(name: &str, value: usize, most_name: &str, most: usize) -> Result<()> {
    if value <= most { Ok(()) } else { Err(exceeds(name, value, most_name, most)) }
}

#[cold]
fn exceeds(name: &str, value: usize, most_name: &str, most: usize) -> Error {
    refuse(format!("{name} is {value}, more than {most_name}, which is {most}"))
}

/// A timeout in milliseconds as the C functions take it: -1 for no limit, or more than 0.
pub(crate) fn limit_ms(timeout: i32) -> Result<Option<Duration>> {
    match timeout {
        -1 => Ok(None),
        1.. => Ok(Some(Duration::from_millis(timeout as u64))),
        _ => Err(refuse(format!("timeout is {timeout}: give -1 to wait for ever, or milliseconds above 0"))),
    }
}

/// Makes sure that `len` bytes at an output argument can be written.
pub fn writable(name: &'static str, addr: usize, len: usize) -> Result<()> {
    not_null(name, addr)?;
    probe::accessible(addr, len, Access::Write).map_err(|why| refuse(format!("{name}: {why}")))
}

/// An array that a caller gave: its name, its address, how many elements it has and how large they are.
pub type ArrayArgument = (&'static str, usize, usize, usize);

/// Makes sure that an array of `count` elements of `size` bytes can be read.
pub fn readable((name, addr, count, size): ArrayArgument) -> Result<()> {
    not_null(name, addr)?;
    let len = count.checked_mul(size).ok_or_else(|| refuse(format!("{name}: {count} elements overflow")))?;
    probe::accessible(addr, len, Access::Read).map_err(|why| refuse(format!("{name}: {why}")))
}

/// Makes sure of several arrays. Asking costs a system call, so those whose pages touch, as they mostly do,
/// are asked for at once; if that is refused, one by one. Those on the stack are readable anyway.
pub fn all_readable<const N: usize>(arrays: [ArrayArgument; N]) -> Result<()> {
    if together(arrays).is_some_and(|mut ranges| {
        ranges.all(|range| probe::accessible(range.start, range.len(), Access::Read).is_ok())
    }) {
        return Ok(());
    }
    arrays.into_iter().try_for_each(readable)
}

/// The pages of the arrays as few ranges; `None` if one is no array at all.
fn together<const N: usize>(arrays: [ArrayArgument; N]) -> Option<impl Iterator<Item = Range<usize>>> {
    let page = probe::page_size();
    let (mut pages, mut found) = ([const { 0..0 }; N], 0);
    for (_, addr, count, size) in arrays {
        let len = count.checked_mul(size)?;
        let end = addr.checked_add(len)?.checked_next_multiple_of(page)?;
        let start = (addr != 0).then_some(addr & !(page - 1))?;
        if !probe::is_on_stack(addr, len) {
            pages[found] = start..end;
            found += 1;
        }
    }
    pages[..found].sort_unstable_by_key(|range| range.start);
    let mut last = 0;
    for index in 1..found {
        let range = pages[index].clone();
        if range.start <= pages[last].end {
            pages[last].end = pages[last].end.max(range.end);
        } else {
            last += 1;
            pages[last] = range;
        }
    }
    Some(pages.into_iter().take(found.min(last + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_about_the_stack() {
        let (page, words) = (probe::page_size(), [0_u64; 4]);
        let here = ("a", words.as_ptr() as usize, 4, 8);
        let asked =
            |arrays| together::<2>(arrays).expect("arrays").map(|range| range.start).collect::<Vec<_>>();
        assert!(asked([here, here]).is_empty());
        assert_eq!(asked([("b", 1000 * page, 1, 1), here]), [1000 * page]);
        assert!(all_readable([here, here]).is_ok());
    }

    #[test]
    fn arrays_whose_pages_touch_are_asked_for_at_once() {
        let page = probe::page_size();
        let at = |first: usize, offset: usize| 1000 * page + first * page + offset;
        let few = |arrays: [ArrayArgument; 3]| {
            let found = together(arrays)?;
            Some(found.map(|range| (range.start / page - 1000, range.end / page - 1000)).collect::<Vec<_>>())
        };
        let array = |addr, bytes| ("a", addr, bytes, 1);
        for (arrays, want) in [
            // Next to each other, given in any order; one inside another; one on its own.
            ([array(at(2, 0), page), array(at(0, 8), 8), array(at(1, 0), page)], Some(vec![(0, 3)])),
            (
                [array(at(0, 0), 4 * page), array(at(1, 5), 9), array(at(9, 0), 1)],
                Some(vec![(0, 4), (9, 10)]),
            ),
            (
                [array(at(0, 0), 1), array(at(2, 0), 1), array(at(4, 0), 1)],
                Some(vec![(0, 1), (2, 3), (4, 5)]),
            ),
            ([array(at(0, 0), 1), array(0, 8), array(at(0, 0), 1)], None),
            ([array(at(0, 0), 1), array(usize::MAX - 8, 9), array(at(0, 0), 1)], None),
        ] {
            assert_eq!(few(arrays), want);
        }
    }
}
