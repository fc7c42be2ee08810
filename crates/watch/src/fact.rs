//! Facts: one thing that happened in a watched program, as plain data.
//!
//! Every fact belongs to the thread of the process that wrote it ([`FactSource`]). Times are nanoseconds of
//! the machine's monotonic clock; how they travel is the business of the buffers.
//!
//! Addresses in work are where the bytes are, the engine's. A block says both addresses
//! ([`Block::base`] is the program's, [`Block::at`] the engine's), so that a reader can say what the program
//! calls a byte, and still sees that two addresses of a program are one byte.

mod work;

pub use work::*;

/// A moment, in nanoseconds of the machine's monotonic clock.
pub type Nanos = u64;

/// Which thread of which process wrote a fact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FactSource {
    /// The number of the process.
    pub process: u32,
    /// The system's number of the thread.
    pub thread: u32,
}

/// A point in the work of a stream: everything up to and with the op `ticket`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    /// The number of the stream; counted from 0 in each process and never used again.
    pub stream: u32,
    /// The number of the op in its stream, counted from 1.
    pub ticket: u64,
}

/// The call that something was done in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallSite {
    /// The index of the function in the process's [`Fact::Functions`]; 0 if it is not known.
    pub function: u16,
    /// The return address of the call in the program; 0 if it is not known.
    pub caller: u64,
    /// When the call began.
    pub begin: Nanos,
    /// The [`Fact::Stack`] of this process that has the frames above it; 0 without one.
    pub stack: u32,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// The process began to be watched.
    Started(Started),
    /// The names of functions, from index 1 on: what [`CallSite::function`] counts. One string, names
    /// separated by line feeds.
    Functions(String),
    /// A part of an executable file is mapped: what return addresses are looked up in.
    Module(LoadedFile),
    /// The name of the thread that wrote this.
    Thread(String),
    /// Return addresses, the innermost first, as [`CallSite::stack`] names them.
    Stack {
        /// Its number in the process, from 1.
        number: u32,
        /// The return addresses.
        frames: Vec<u64>,
    },
    /// A line of a program in an interpreted language: what a caller's address stands for if it is the number
    /// of such a line ([`Line::ADDRESS`]).
    Line(Line),
    /// The process ended in order. Without this fact it was killed, has crashed, or goes on.
    Ended {
        /// When.
        time: Nanos,
    },

    /// A call has returned. Calls on the fast path of copies have no such fact: their op says all.
    Call(Call),
    /// The call that the thread is in fails, with this message. [`Fact::Call`] says when it has returned.
    Failure {
        /// When.
        time: Nanos,
        /// The call.
        site: CallSite,
        /// What it returns.
        code: i32,
        /// The message, which names the addresses that it is about.
        message: String,
    },

    /// The work of an op has failed, with this message. [`Fact::Passed`] comes behind it.
    WorkFailed {
        /// When.
        time: Nanos,
        /// The op.
        point: Point,
        /// The message, which names the addresses that it is about.
        message: String,
    },

    /// A stream was made.
    StreamMade(StreamMade),
    /// A stream is gone; its work may go on.
    StreamGone {
        /// When.
        time: Nanos,
        /// Its number.
        stream: u32,
    },

    /// Memory became known: allocated, registered, mapped or imported.
    Known {
        /// When.
        time: Nanos,
        /// The call.
        site: CallSite,
        /// The memory.
        block: Block,
    },
    /// The memory at `base` was freed, unregistered or unmapped. Work submitted before may still use it.
    Forgotten {
        /// When.
        time: Nanos,
        /// The call.
        site: CallSite,
        /// Its first byte, as the program calls it.
        base: u64,
    },
    /// Memory that was freed may be used for other blocks: all work that could reach it has passed.
    Reused {
        /// When.
        time: Nanos,
        /// Its first byte, as the program called it.
        base: u64,
        /// Where its bytes were.
        at: u64,
    },

    /// Physical memory of this process has a handle, or one more. It has addresses of the program's where it
    /// is mapped ([`Origin::Mapped`]), and stays while it has either.
    PhysicalNamed {
        /// When.
        time: Nanos,
        /// The call.
        site: CallSite,
        /// Where its first byte is.
        at: u64,
        /// Bytes.
        len: u64,
    },
    /// A handle of the physical memory at `at` was freed.
    PhysicalFreed {
        /// When.
        time: Nanos,
        /// Where its first byte is.
        at: u64,
    },

    /// The memory at `base` is shared between processes from here on: it was exported, or is another's.
    Lent {
        /// When.
        time: Nanos,
        /// Its first byte, as the program calls it.
        base: u64,
        /// What is the same for all that share it, in every process.
        key: u64,
    },

    /// A thread has learnt that work of another process has passed: it has waited for a record of that one,
    /// or asked, and the answer was yes.
    JoinedOutside {
        /// When.
        time: Nanos,
    },

    /// An op was given to a stream, which took it.
    Submitted(SubmittedOp),
    /// More pieces of the batch that was submitted as `point`.
    MorePieces {
        /// The op.
        point: Point,
        /// The pieces, in the order of the batch.
        pieces: Vec<Piece>,
    },
    /// An op was refused by its stream, and nothing of it happens.
    Refused {
        /// When.
        time: Nanos,
        /// The stream.
        stream: u32,
        /// The call.
        site: CallSite,
        /// What it would have done.
        work: Work,
    },
    /// An op that takes long has begun. Most ops have only [`Fact::Passed`], which says when they began.
    Begun {
        /// When.
        time: Nanos,
        /// The op.
        point: Point,
    },
    /// An op has passed. The thread that wrote this fact did the work, where a thread did it.
    Passed(Passed),
    /// The addresses of a late-bound copy have been read: what it moves.
    Resolved {
        /// When.
        time: Nanos,
        /// The op.
        point: Point,
        /// The copy.
        piece: Piece,
    },
    /// What a wait of kind [`Awaited::Later`] is for has been decided.
    Bound {
        /// When.
        time: Nanos,
        /// The number in the wait.
        promise: u64,
        /// The point; `None` if the wait is over without one.
        point: Option<Point>,
    },
    /// The thread that wrote this has learnt that a point has passed.
    Joined(Joined),

    /// A capture of a stream's work began.
    CaptureBegun {
        /// When.
        time: Nanos,
        /// The call.
        site: CallSite,
        /// The number of the capture, which the graph made of it keeps; counted from 1 in each process.
        graph: u32,
        /// The stream.
        stream: u32,
    },
    /// Work was recorded into a capture and did not run.
    Captured(Captured),
    /// The capture ended.
    CaptureEnded {
        /// When.
        time: Nanos,
        /// The call.
        site: CallSite,
        /// Its number.
        graph: u32,
        /// Whether a graph came of it.
        is_graph: bool,
    },
    /// An execution of a graph was submitted. Its ops name the graph ([`SubmittedOp::task`]).
    Launched {
        /// When.
        time: Nanos,
        /// The call.
        site: CallSite,
        /// The graph.
        graph: u32,
        /// The last op of the launching stream that belongs to it.
        point: Point,
    },

    /// What the bytes of one end of an op were when it ran.
    Contents {
        /// The op.
        point: Point,
        /// Which bytes.
        end: End,
        /// The [`ContentHasher`](crate::ContentHasher)'s hash of them.
        hash: u64,
    },
    /// The bytes of one end of an op when it ran, or a part of them.
    Bytes {
        /// The op.
        point: Point,
        /// Which bytes.
        end: End,
        /// How many bytes of that end lie before these.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Facts that were lost, since the buffers were full.
    Lost {
        /// How many.
        count: u64,
    },

    /// The CPU accessed bytes of page-locked host memory that belong to an op in flight.
    Access(HostAccess),
    /// The CPU touched bytes of page-locked host memory that belong to an op in flight, as was seen later.
    Touched(TouchedBytes),
    /// The CPU accessed a device's address; the signal takes its course afterwards.
    DevicePointer {
        /// When.
        time: Nanos,
        /// The system's number of the thread that accessed it; the fact is another thread's.
        thread: u32,
        /// The address, as the program calls it.
        address: u64,
        /// Whether it was written.
        is_write: bool,
        /// The [`Fact::Stack`] of the access; 0 without one.
        stack: u32,
    },
    /// Memory in flight was left accessible until its next use by an op, and accesses to it are not seen:
    /// the thread could not be stepped over one access, or too many accesses hit one page.
    Opened {
        /// When.
        time: Nanos,
        /// How often so far in this process.
        count: u64,
    },
    /// Something that was wanted cannot be had in this process, and why.
    Unseen {
        /// A sentence for the user, without a full stop.
        reason: String,
    },
}

impl Fact {
    /// When it happened; for work that took a while, when that ended. `None` for facts that belong to the one
    /// before them in their thread.
    pub fn time(&self) -> Option<Nanos> {
        match self {
            Fact::Started(started) => Some(started.time),
            Fact::Call(call) => Some(call.end),
            Fact::StreamMade(made) => Some(made.time),
            Fact::Submitted(submitted) => Some(submitted.time),
            Fact::Passed(passed) => Some(passed.end),
            Fact::Joined(joined) => Some(joined.time),
            Fact::Captured(captured) => Some(captured.time),
            Fact::Access(access) => Some(access.time),
            Fact::Touched(touched) => Some(touched.time),
            Fact::Ended { time }
            | Fact::StreamGone { time, .. }
            | Fact::Known { time, .. }
            | Fact::Forgotten { time, .. }
            | Fact::Reused { time, .. }
            | Fact::PhysicalNamed { time, .. }
            | Fact::PhysicalFreed { time, .. }
            | Fact::Lent { time, .. }
            | Fact::JoinedOutside { time }
            | Fact::Failure { time, .. }
            | Fact::WorkFailed { time, .. }
            | Fact::Refused { time, .. }
            | Fact::Begun { time, .. }
            | Fact::Resolved { time, .. }
            | Fact::Bound { time, .. }
            | Fact::CaptureBegun { time, .. }
            | Fact::CaptureEnded { time, .. }
            | Fact::Launched { time, .. }
            | Fact::DevicePointer { time, .. }
            | Fact::Opened { time, .. } => Some(*time),
            Fact::Functions(_)
            | Fact::Module(_)
            | Fact::Thread(_)
            | Fact::Stack { .. }
            | Fact::Line(_)
            | Fact::MorePieces { .. }
            | Fact::Contents { .. }
            | Fact::Bytes { .. }
            | Fact::Lost { .. }
            | Fact::Unseen { .. } => None,
        }
    }
}

/// Takes the facts of a program and makes something of them.
pub trait FactReader {
    /// One fact more. Facts of one thread come in the order in which they were written. Facts of several come
    /// in the order of their times, but for those that were written late: an op may be seen to have passed
    /// before it is seen to have been submitted.
    fn take(&mut self, source: FactSource, fact: &Fact);
}

/// The process began to be watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Started {
    /// When.
    pub time: Nanos,
    /// Nanoseconds of the Unix epoch at that moment.
    pub epoch: u64,
    /// The parent process.
    pub parent: u32,
    /// How many devices there are.
    pub devices: u32,
    /// The backend: `host`, `cuda`, or the name of another implementation.
    pub backend: String,
    /// The command line, arguments separated by spaces.
    pub command: String,
}

/// A mapped part of an executable file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedFile {
    /// The first address.
    pub base: u64,
    /// The first address behind it.
    pub end: u64,
    /// What the file's own addresses begin with there: add `address - base`.
    pub offset: u64,
    /// The file.
    pub path: String,
}

/// A line of an interpreted program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its number in the process: what a caller has beside [`Line::ADDRESS`].
    pub number: u32,
    /// The line in the file, from 1.
    pub line: u32,
    /// The file.
    pub file: String,
    /// The function that it belongs to.
    pub function: String,
}

impl Line {
    /// Set in a caller's address that is the number of a line: no address of a program has this bit.
    pub const ADDRESS: u64 = 1 << 63;
}

/// A call has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Which, from where, since when.
    pub site: CallSite,
    /// When it returned.
    pub end: Nanos,
    /// How long it was blocked because it waited for work, in nanoseconds.
    pub blocked: u64,
    /// What it returned; 0 is success.
    pub code: i32,
}

/// A stream was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamMade {
    /// When.
    pub time: Nanos,
    /// Its number.
    pub stream: u32,
    /// The device.
    pub device: u32,
    /// What it is for.
    pub purpose: StreamPurpose,
    /// What the program calls it, if it knows it.
    pub handle: u64,
}

/// What a stream is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamPurpose {
    /// The program's.
    #[default]
    User,
    /// The default stream of a device.
    Default,
    /// The synchronous calls of one thread.
    Synchronous,
    /// A branch of a graph.
    Graph,
}

/// Memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The program's address of the first byte.
    pub base: u64,
    /// Where the first byte is.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// How many of them were added to what the program asked for.
    pub padding: u64,
    /// The device, if it is device memory.
    pub device: Option<u32>,
    /// How it came to be known.
    pub origin: Origin,
}

impl Block {
    /// The bytes that the program asked for.
    pub fn asked(&self) -> u64 {
        self.len - self.padding.min(self.len)
    }
}

/// How memory came to be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// It was allocated.
    #[default]
    Allocated,
    /// The program's own host memory was page-locked.
    Registered,
    /// Physical memory was mapped at reserved addresses.
    Mapped,
    /// It belongs to another process.
    Imported,
}

/// The CPU accessed bytes of an op in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostAccess {
    /// When.
    pub time: Nanos,
    /// The system's number of the thread that accessed them; the fact is another thread's.
    pub thread: u32,
    /// The first byte of the access, as the program calls it. A system call's address is the first byte in a
    /// page that it touches.
    pub address: u64,
    /// How many bytes of the op it reaches from there, within a page.
    pub len: u64,
    /// Whether it was written.
    pub is_write: bool,
    /// The op.
    pub point: Point,
    /// Whether the op writes the bytes; otherwise it reads them.
    pub is_destination: bool,
    /// The [`Fact::Stack`] of the access; 0 without one. The first frame is the accessing instruction and 1,
    /// as if it were a return address.
    pub stack: u32,
    /// Whether a system call of the thread accessed them.
    pub is_system_call: bool,
    /// Whether the program unmapped them: registered memory that it did not unregister.
    pub is_unmapped: bool,
}

/// The CPU touched bytes of an op between the call that submitted it and another one, in which that was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TouchedBytes {
    /// When it was seen.
    pub time: Nanos,
    /// The call in which it was seen; it may be one of any thread.
    pub site: CallSite,
    /// The first byte, as the program calls it.
    pub address: u64,
    /// How many bytes; of pages that were touched, all.
    pub len: u64,
    /// Whether bytes have changed. Otherwise they were read, or written with what was there.
    pub is_write: bool,
    /// The op.
    pub point: Point,
    /// Whether the op writes the bytes; otherwise it reads them.
    pub is_destination: bool,
}
