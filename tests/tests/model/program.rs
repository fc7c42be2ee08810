//! A program as data: what two threads ask of a copy engine, step by step.
//!
//! A program says nothing about how it is carried out: an [`Executor`](crate::run::Executor) does that, and
//! the [`Oracle`](crate::oracle::Oracle) says which bytes must be seen. The list of steps is one legal
//! interleaving of the two threads; only barriers order one thread against the other. It prints like a
//! program.

use std::ops::Range;

use crate::api::Api;
use crate::ranges::Ranges;
use crate::twin::Manner;

pub const THREADS: usize = 2;

/// Bytes at both ends of nearly every allocation that no copy names: they must keep their first contents.
pub const GUARD: usize = 64;

/// Streams by number: the device they are on. [`NULL_STREAM`] is the default stream of its device's context.
/// Behind those of the program come two for each model, which only its own tasks are on: the main one that it
/// is captured on, and another that joins it.
pub const STREAMS: [usize; USER_STREAMS + 2 * MODELS] = [0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1];
pub const NULL_STREAM: usize = 2;
/// How many are the program's.
pub const USER_STREAMS: usize = 5;
/// How many models a program may capture: the first half on device 0, the others on device 1.
pub const MODELS: usize = 4;

/// The streams that the tasks of a model are on: the main one and the other.
pub fn streams_of_model(model: usize) -> [usize; 2] {
    [0, 1].map(|branch| USER_STREAMS + 2 * model + branch)
}

/// Events by number: the device they belong to.
pub const EVENTS: [usize; 4] = [0, 0, 1, 1];

/// Copy descriptors by number: the device whose copies they describe. A descriptor may be copied over its
/// neighbour.
pub const DESCS: [usize; 6] = [0, 0, 1, 1, 0, 0];
/// The last two are not descriptors but pairs of pointers to use with an offset: one in device memory, one
/// page-locked.
pub const FIRST_CELLS: usize = 4;
pub const PINNED_CELLS: usize = 5;

/// Names of the places that hold one allocation at a time.
pub const SLOTS: [(&str, Home, Form); 21] = [
    ("dev0a", Home::Device(0), Form::Plain),
    ("dev0b", Home::Device(0), Form::Plain),
    ("dev0c", Home::Device(0), Form::Plain),
    ("win0", Home::Device(0), Form::Window),
    ("dev1a", Home::Device(1), Form::Plain),
    ("dev1b", Home::Device(1), Form::Plain),
    ("win1", Home::Device(1), Form::Window),
    ("pin0", Home::Pinned, Form::Plain),
    ("pin1", Home::Pinned, Form::Plain),
    ("pin2", Home::Pinned, Form::Plain),
    ("heap0", Home::Heap, Form::Plain),
    ("heap1", Home::Heap, Form::Plain),
    ("reg0", Home::Heap, Form::Pages),
    ("reg1", Home::Heap, Form::Pages),
    ("phy0a", Home::Device(0), Form::Physical),
    ("phy0b", Home::Device(0), Form::Physical),
    ("phy0c", Home::Device(0), Form::Physical),
    ("phy0d", Home::Device(0), Form::Physical),
    ("phy1a", Home::Device(1), Form::Physical),
    ("phy1b", Home::Device(1), Form::Physical),
    ("phy1c", Home::Device(1), Form::Physical),
];

/// What physical memory and registered ranges are made of.
pub const PAGE: usize = 4096;

/// In how many places of a window physical memory can be mapped; each is as large as any physical memory of
/// the program.
pub const CELLS: usize = 4;

/// Where an allocation lives: device memory, page-locked host memory, or plain malloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    Device(usize),
    Pinned,
    Heap,
}

impl Home {
    pub fn is_device(self) -> bool {
        matches!(self, Home::Device(_))
    }
}

/// What an allocation is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// Whole pages of malloc memory, which can be registered as page-locked.
    Pages,
    /// Reserved addresses: bytes are there only where physical memory is mapped.
    Window,
    /// Physical memory, which has addresses only where it is mapped.
    Physical,
}

/// One allocation; `life` counts how often its slot was allocated before.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub slot: usize,
    pub life: usize,
    /// Whole length, guards included.
    pub len: usize,
    /// Bytes at both ends that no copy names.
    pub guard: usize,
}

impl Buffer {
    pub fn home(&self) -> Home {
        SLOTS[self.slot].1
    }

    pub fn form(&self) -> Form {
        SLOTS[self.slot].2
    }

    /// The bytes that copies may name.
    pub fn usable(&self) -> Range<usize> {
        self.guard..self.len - self.guard
    }
}

/// `len` bytes of a buffer, from offset `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub buffer: usize,
    pub at: usize,
    pub len: usize,
}

impl Span {
    pub fn bytes(&self) -> Range<usize> {
        self.at..self.at + self.len
    }
}

/// Where a 2-D copy starts in a buffer, and how far apart its rows are.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub buffer: usize,
    pub at: usize,
    pub pitch: usize,
}

impl Rows {
    pub fn row(&self, i: usize, width: usize) -> Span {
        Span { buffer: self.buffer, at: self.at + i * self.pitch, len: width }
    }
}

/// A copy's `aclrtMemcpyKind`, as the number it has in the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub i32);

impl Kind {
    pub const HOST_TO_DEVICE: Kind = Kind(1);
    pub const DEVICE_TO_HOST: Kind = Kind(2);
    pub const DEVICE_TO_DEVICE: Kind = Kind(3);
    pub const DEFAULT: Kind = Kind(4);
    pub const HOST_TO_BUF_TO_DEVICE: Kind = Kind(5);
    pub const INNER_DEVICE_TO_DEVICE: Kind = Kind(6);
    pub const INTER_DEVICE_TO_DEVICE: Kind = Kind(7);
}

/// How a call is made: handed to a stream, or carried out before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Now,
    On(usize),
    /// Handed to a stream, and the call waits for it: plain host memory takes part.
    Awaited(usize),
}

#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    Byte(u8),
    Word(u32),
}

/// What one call does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Allocates, and gives the bytes their first contents before going on.
    Alloc {
        buffer: usize,
    },
    Free {
        buffer: usize,
    },
    /// Maps physical memory in a cell of a window.
    Map {
        window: usize,
        cell: usize,
        physical: usize,
    },
    Unmap {
        window: usize,
        cell: usize,
        /// What is mapped there.
        physical: usize,
    },
    /// Page-locks some of a buffer's pages.
    Register {
        buffer: usize,
        bytes: Range<usize>,
    },
    Unregister {
        buffer: usize,
    },
    /// A copy or fill by the second process, of memory exported to it.
    Abroad {
        act: Box<Act>,
        manner: Manner,
    },
    /// A call that must be refused, and change nothing.
    Refused(Box<Act>),
    /// The CPU writes host memory.
    Poke {
        dst: Span,
        seed: usize,
    },
    Copy {
        dst: Span,
        src: Span,
        kind: Kind,
        way: Way,
        with_condition: bool,
    },
    Copy2d {
        dst: Rows,
        src: Rows,
        width: usize,
        height: usize,
        kind: Kind,
        way: Way,
    },
    Batch {
        items: Vec<(Span, Span)>,
        how: Batching,
        way: Way,
    },
    Fill {
        dst: Span,
        with: Pattern,
        way: Way,
    },
    SetDesc {
        desc: usize,
        dst: Span,
        src: Span,
    },
    /// Sets a descriptor when the task runs.
    PutDesc {
        desc: usize,
        dst: Span,
        src: Span,
        stream: usize,
    },
    /// Copies the bytes of one descriptor over another.
    CopyDesc {
        dst: usize,
        src: usize,
        stream: usize,
    },
    /// Copies what the descriptor says when the task runs; `dst` and `src` are what it will say then.
    RunDesc {
        desc: usize,
        dst: Span,
        src: Span,
        stream: usize,
    },
    Record {
        event: usize,
        stream: usize,
    },
    Wait {
        stream: usize,
        event: usize,
    },
    /// From here on the event counts as not recorded: a wait called afterwards is for the next record.
    Reset {
        event: usize,
        stream: usize,
    },
    SyncEvent {
        event: usize,
    },
    SyncStream {
        stream: usize,
    },
    SyncDevice {
        device: usize,
    },
    /// A host function that keeps its stream waiting until the gate is released.
    Hold {
        gate: usize,
        stream: usize,
    },
    Release {
        gate: usize,
    },
    /// Drops the tasks that a stream has not done.
    Abort {
        stream: usize,
    },
    /// Destroys a stream by force and makes another in its place.
    Renew {
        stream: usize,
    },
    /// Work of the stream fails that is to stop all streams of its context: they drop what they have, and
    /// take nothing more.
    Halt {
        stream: usize,
    },
    /// An execution of a model begins: its main stream follows a stream of the program. `captures` if its
    /// tasks are captured now; else they are those of the capture.
    Launch {
        model: usize,
        stream: usize,
        captures: bool,
    },
    /// One stream of a model follows the other.
    Link {
        from: usize,
        to: usize,
    },
    /// An execution of a model ends: the stream that launched it goes on behind it.
    Done {
        model: usize,
        stream: usize,
    },
    /// Waits for the stream, and launches a model whose memory was freed, which fails and does nothing.
    Stale {
        model: usize,
        stream: usize,
    },
    /// Both threads meet; everything called before is before everything called after.
    Barrier,
    /// Waits for the copy that has a page-locked buffer, and takes it back with those that travel with it:
    /// all of these.
    Land {
        buffers: Vec<usize>,
    },
    /// From here on the page-locked buffer is only read, by everybody.
    Share {
        buffer: usize,
    },
    /// Looks at every byte of these buffers that is settled for this thread.
    Check {
        buffers: Vec<usize>,
    },
}

/// The choices of a batch call that must make no difference to the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Batching {
    /// One attribute per item, instead of one per run of equal ones.
    pub split: bool,
    /// malloc memory is called UNREGISTERED instead of HOST.
    pub unregistered: bool,
    pub v2: bool,
}

/// When the work of a call happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Inside the call.
    Call,
    /// As a task of the stream; the call waits for it if `waits`.
    Task { stream: usize, waits: bool },
    /// The source is read inside the call, the destination written by a task.
    Staged { stream: usize },
}

/// One call by one thread. A barrier belongs to both.
#[derive(Clone, Debug)]
pub struct Step {
    pub thread: usize,
    pub act: Act,
}

#[derive(Clone, Default)]
pub struct Program {
    pub api: Api,
    pub buffers: Vec<Buffer>,
    pub gates: usize,
    pub steps: Vec<Step>,
}

impl Program {
    pub fn home(&self, buffer: usize) -> Home {
        self.buffers[buffer].home()
    }

    pub fn form(&self, buffer: usize) -> Form {
        self.buffers[buffer].form()
    }

    /// When the bytes of `act` move; `None` for calls that move none.
    pub fn timing(&self, act: &Act) -> Option<Timing> {
        let by = |way: Way| match way {
            Way::Now => Timing::Call,
            Way::On(stream) => Timing::Task { stream, waits: false },
            Way::Awaited(stream) => Timing::Task { stream, waits: true },
        };
        Some(match act {
            Act::Alloc { .. } | Act::Poke { .. } | Act::SetDesc { .. } | Act::Check { .. } => Timing::Call,
            Act::Free { .. } | Act::Map { .. } | Act::Unmap { .. } => Timing::Call,
            Act::Register { .. } | Act::Unregister { .. } | Act::Refused(_) => Timing::Call,
            Act::Abroad { .. } | Act::Share { .. } => Timing::Call,
            Act::Copy {
                kind: Kind::HOST_TO_BUF_TO_DEVICE,
                way: Way::On(stream) | Way::Awaited(stream),
                ..
            } => Timing::Staged { stream: *stream },
            // documented: a D32 fill of host memory is not put on the stream
            Act::Fill { dst, with: Pattern::Word(_), .. } if !self.home(dst.buffer).is_device() => {
                Timing::Call
            }
            Act::Copy { way, .. }
            | Act::Copy2d { way, .. }
            | Act::Batch { way, .. }
            | Act::Fill { way, .. } => by(*way),
            Act::CopyDesc { stream, .. } | Act::PutDesc { stream, .. } | Act::RunDesc { stream, .. } => {
                Timing::Task { stream: *stream, waits: false }
            }
            _ => return None,
        })
    }

    /// The streams that a call names.
    pub fn streams(&self, act: &Act) -> Vec<usize> {
        match act {
            Act::Record { stream, .. } | Act::Wait { stream, .. } | Act::Hold { stream, .. } => vec![*stream],
            Act::Reset { stream, .. } => vec![*stream],
            Act::SyncStream { stream } | Act::Abort { stream } | Act::Renew { stream } => vec![*stream],
            Act::SyncDevice { device } => streams_of(*device),
            Act::Launch { model, stream, .. } | Act::Done { model, stream } => {
                [*stream].into_iter().chain(streams_of_model(*model)).collect()
            }
            Act::Link { from, to } => vec![*from, *to],
            Act::Stale { stream, .. } => vec![*stream],
            Act::Halt { stream } => streams_of(STREAMS[*stream]),
            _ => match self.timing(act) {
                Some(Timing::Task { stream, .. } | Timing::Staged { stream }) => vec![stream],
                _ => vec![],
            },
        }
    }

    /// The streams that must be there for a call: also one that is refused looks its stream up first.
    pub fn needs(&self, act: &Act) -> Vec<usize> {
        self.streams(if let Act::Refused(act) = act { act } else { act })
    }

    /// Whether the calling thread may sleep in `act` until some stream has moved on.
    pub fn waits(&self, act: &Act) -> bool {
        matches!(act, Act::SyncEvent { .. } | Act::SyncStream { .. } | Act::SyncDevice { .. } | Act::Barrier)
            || matches!(act, Act::Halt { .. } | Act::Land { .. } | Act::Stale { .. })
            || matches!(self.timing(act), Some(Timing::Task { waits: true, .. }))
    }
}

impl Act {
    /// The pieces a copy consists of, destination first.
    pub fn moves(&self) -> Vec<(Span, Span)> {
        match self {
            Act::Copy { dst, src, .. } | Act::RunDesc { dst, src, .. } => vec![(*dst, *src)],
            Act::Copy2d { dst, src, width, height, .. } => {
                (0..*height).map(|i| (dst.row(i, *width), src.row(i, *width))).collect()
            }
            Act::Batch { items, .. } => items.clone(),
            Act::Abroad { act, .. } => act.moves(),
            _ => vec![],
        }
    }

    /// The buffers a call names.
    pub fn buffers(&self) -> Vec<usize> {
        match self {
            Act::Alloc { buffer } | Act::Free { buffer } | Act::Share { buffer } => vec![*buffer],
            Act::Register { buffer, .. } | Act::Unregister { buffer } => vec![*buffer],
            Act::Map { window, physical, .. } | Act::Unmap { window, physical, .. } => {
                vec![*window, *physical]
            }
            Act::Refused(act) | Act::Abroad { act, .. } => act.buffers(),
            Act::Poke { dst, .. } | Act::Fill { dst, .. } => vec![dst.buffer],
            Act::SetDesc { dst, src, .. } | Act::PutDesc { dst, src, .. } => vec![dst.buffer, src.buffer],
            Act::Check { buffers } | Act::Land { buffers } => buffers.clone(),
            _ => self.moves().iter().flat_map(|(d, s)| [d.buffer, s.buffer]).collect(),
        }
    }

    /// The buffers whose addresses become, or cease to be, something else: who uses them at the same time is
    /// in trouble.
    pub fn remakes(&self) -> Vec<usize> {
        match self {
            Act::Alloc { .. } | Act::Free { .. } | Act::Share { .. } => self.buffers(),
            Act::Map { .. } | Act::Unmap { .. } => self.buffers(),
            Act::Register { .. } | Act::Unregister { .. } => self.buffers(),
            _ => vec![],
        }
    }

    /// What is done, whichever process does it.
    pub fn deed(&self) -> &Act {
        if let Act::Abroad { act, .. } = self { act } else { self }
    }

    /// Whether tasks are dropped by this.
    pub fn drops(&self) -> bool {
        matches!(self, Act::Abort { .. } | Act::Renew { .. } | Act::Halt { .. })
    }

    pub fn event(&self) -> Option<usize> {
        match self {
            Act::Record { event, .. } | Act::Wait { event, .. } | Act::SyncEvent { event } => Some(*event),
            Act::Reset { event, .. } => Some(*event),
            _ => None,
        }
    }
}

/// The program's streams on a device.
pub fn streams_of(device: usize) -> Vec<usize> {
    (0..USER_STREAMS).filter(|s| STREAMS[*s] == device).collect()
}

/// The bytes of `spans` that lie in `buffer`.
pub fn bytes_in(buffer: usize, spans: impl Iterator<Item = Span>) -> Ranges {
    spans.filter(|s| s.buffer == buffer).map(|s| s.bytes()).collect()
}
