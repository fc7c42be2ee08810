//! Physical memory that is mapped twice: a copy from one mapping to the other meets its own bytes, and is as
//! memmove.

use ferry_tests::kind::{D2D, INNER};
use ferry_tests::*;

use crate::PAGE;

/// The same physical memory again, in the same order, at addresses of its own.
fn mapped_again(first: &Mapped) -> Memory {
    let base = reserve(first.all.len);
    for ((start, len), handle) in first.pieces.iter().zip(&first.handles) {
        ok(aclrtMapMem(base + start, *len, 0, *handle, 0));
    }
    Memory { addr: base, ..first.all }
}

#[test]
fn copies_between_two_mappings_of_the_same_memory_are_as_memmove() {
    use_device();
    let stream = stream();
    for lens in [&[16 * PAGE][..], &[8 * PAGE, 8 * PAGE], &[PAGE, 6 * PAGE, PAGE, 5 * PAGE, 3 * PAGE]] {
        let mapped = Mapped::scattered(lens);
        let (first, second) = (mapped.all, mapped_again(&mapped));
        let data = pattern(first.len, 3);
        for (to, from) in [(first, second), (second, first)] {
            for shift in [1, 64, PAGE - 1, PAGE, 3 * PAGE + 5] {
                for (dst, src) in [(0, shift), (shift, 0)] {
                    let len = first.len - shift;
                    let (dst_addr, src_addr) = (to.addr + dst, from.addr + src);
                    let mut want = data.clone();
                    want.copy_within(src..src + len, dst);
                    for kind in [None, Some(D2D), Some(INNER)] {
                        first.write(&data);
                        match kind {
                            None => ok(aclrtMemcpy(dst_addr, len, src_addr, len, D2D)),
                            Some(kind) => ok(aclrtMemcpyAsync(dst_addr, len, src_addr, len, kind, stream)),
                        }
                        finish(stream);
                        let what = format!(
                            "{lens:?}: from {src} to {dst}, up in addresses: {}",
                            to.addr > from.addr
                        );
                        second.assert_holds(&want, &what);
                    }
                }
            }
        }
    }
}
