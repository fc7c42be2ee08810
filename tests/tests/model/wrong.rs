//! An executor made wrong on purpose: it changes some calls on their way to a right one.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::program::{Act, Pattern};
use crate::run::Executor;

/// How calls are changed.
#[derive(Clone, Copy, Debug)]
pub enum Slip {
    /// Copies leave their last byte out.
    ShortCopy,
    /// Copies take one byte more.
    LongCopy,
    /// Only one copy of the program, the third, is short.
    OneShortCopy,
    /// 2-D copies use the source's pitch on both sides.
    SamePitch,
    /// 2-D copies run as one row of all the bytes.
    Flat,
    /// 2-D copies leave out their last row.
    RowMissing,
    /// Batches leave out their last item.
    ItemMissing,
    /// Every item of a batch comes from the first item's source.
    FirstSource,
    /// 32-bit fills use only the low byte.
    LowByte,
    /// Streams do not wait for events.
    NoWait,
    /// Synchronising a stream does nothing.
    NoSync,
    /// Synchronising on an event does nothing.
    NoSyncEvent,
    /// Descriptors cannot be set a second time.
    FirstDesc,
}

impl Slip {
    pub const ALL: [Slip; 13] = [
        Slip::ShortCopy,
        Slip::LongCopy,
        Slip::OneShortCopy,
        Slip::SamePitch,
        Slip::Flat,
        Slip::RowMissing,
        Slip::ItemMissing,
        Slip::FirstSource,
        Slip::LowByte,
        Slip::NoWait,
        Slip::NoSync,
        Slip::NoSyncEvent,
        Slip::FirstDesc,
    ];
}

/// Hands calls to `inner`, changed by `slip`.
pub struct Wrong<E> {
    pub inner: E,
    pub slip: Slip,
    copies: AtomicUsize,
    descs: AtomicUsize,
}

impl<E> Wrong<E> {
    pub fn new(inner: E, slip: Slip) -> Wrong<E> {
        Wrong { inner, slip, copies: AtomicUsize::new(0), descs: AtomicUsize::new(0) }
    }

    /// The call to make instead, if any.
    fn slipped(&self, act: &Act) -> Option<Act> {
        let mut act = act.clone();
        match (self.slip, &mut act) {
            (Slip::NoWait, Act::Wait { .. })
            | (Slip::NoSync, Act::SyncStream { .. })
            | (Slip::NoSyncEvent, Act::SyncEvent { .. }) => return None,
            (Slip::ShortCopy, Act::Copy { dst, src, .. }) => resize(&mut dst.len, &mut src.len, -1),
            (Slip::LongCopy, Act::Copy { dst, src, .. }) => resize(&mut dst.len, &mut src.len, 1),
            (Slip::OneShortCopy, Act::Copy { dst, src, .. })
                if self.copies.fetch_add(1, Ordering::Relaxed) == 2 =>
            {
                resize(&mut dst.len, &mut src.len, -1);
            }
            (Slip::SamePitch, Act::Copy2d { dst, src, .. }) if dst.pitch > src.pitch => dst.pitch = src.pitch,
            (Slip::Flat, Act::Copy2d { dst, src, width, .. }) => (dst.pitch, src.pitch) = (*width, *width),
            (Slip::RowMissing, Act::Copy2d { height, .. }) => *height -= 1,
            (Slip::ItemMissing, Act::Batch { items, .. }) if items.len() > 1 => drop(items.pop()),
            (Slip::FirstSource, Act::Batch { items, .. }) => {
                let first = items[0].1;
                items.iter_mut().for_each(|(dst, src)| {
                    src.buffer = first.buffer;
                    src.at = first.at;
                    src.len = src.len.min(first.len);
                    dst.len = src.len;
                });
            }
            (Slip::LowByte, Act::Fill { with, .. }) => {
                if let Pattern::Word(word) = *with {
                    *with = Pattern::Byte(word as u8);
                }
            }
            (Slip::FirstDesc, Act::SetDesc { desc, .. }) => {
                let bit = 1 << *desc;
                if self.descs.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
                    return None;
                }
            }
            _ => {}
        }
        Some(act)
    }
}

fn resize(dst: &mut usize, src: &mut usize, by: isize) {
    *dst = dst.saturating_add_signed(by);
    *src = src.saturating_add_signed(by);
}

impl<E: Executor> Executor for Wrong<E> {
    fn perform(&self, thread: usize, act: &Act) -> Result<(), String> {
        self.slipped(act).map_or(Ok(()), |act| self.inner.perform(thread, &act))
    }

    fn read(&self, thread: usize, buffer: usize, at: usize, out: &mut [u8]) -> Result<(), String> {
        self.inner.read(thread, buffer, at, out)
    }

    fn open_gates(&self) {
        self.inner.open_gates();
    }
}
