//! What the checker has found: a stable id, where it went wrong, the work it collides with, the memory.

use std::fmt;

use crate::fact::{CallSite, Point};
use crate::symbols;

/// What is wrong. The names are stable: reports, suppressions and pages of the documentation use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingId {
    /// The CPU reads a destination of a copy in flight.
    HostRead,
    /// The CPU writes a source or destination of a copy in flight.
    HostWrite,
    /// Memory is freed with a copy in flight on it.
    Free,
    /// Two ops touch the same bytes and nothing orders them.
    StreamRace,
    /// Two pieces of a batch touch the same bytes.
    BatchRace,
    /// Memory is used that was freed.
    UseAfterFree,
    /// Memory is freed twice.
    DoubleFree,
    /// Memory is never freed.
    Leak,
    /// Device bytes are copied out that nobody wrote.
    Uninitialised,
    /// The CPU accesses a device address.
    DevicePointer,
    /// Copies that nobody joined are lost.
    Lost,
    /// A call breaks a capture, or would.
    Capture,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingSeverity {
    /// The program is wrong.
    Error,
    /// The program may be wrong.
    Warning,
}

impl FindingId {
    /// All of them.
    pub const ALL: [FindingId; 12] = [
        FindingId::HostRead,
        FindingId::HostWrite,
        FindingId::Free,
        FindingId::StreamRace,
        FindingId::BatchRace,
        FindingId::UseAfterFree,
        FindingId::DoubleFree,
        FindingId::Leak,
        FindingId::Uninitialised,
        FindingId::DevicePointer,
        FindingId::Lost,
        FindingId::Capture,
    ];

    /// Its stable name.
    pub fn name(self) -> &'static str {
        match self {
            FindingId::HostRead => "FERRY-HOST-READ",
            FindingId::HostWrite => "FERRY-HOST-WRITE",
            FindingId::Free => "FERRY-FREE",
            FindingId::StreamRace => "FERRY-STREAM-RACE",
            FindingId::BatchRace => "FERRY-BATCH-RACE",
            FindingId::UseAfterFree => "FERRY-USE-AFTER-FREE",
            FindingId::DoubleFree => "FERRY-DOUBLE-FREE",
            FindingId::Leak => "FERRY-LEAK",
            FindingId::Uninitialised => "FERRY-UNINITIALISED",
            FindingId::DevicePointer => "FERRY-DEVICE-POINTER",
            FindingId::Lost => "FERRY-LOST",
            FindingId::Capture => "FERRY-CAPTURE",
        }
    }

    /// What it is about, in one line.
    pub fn title(self) -> &'static str {
        match self {
            FindingId::HostRead => "the CPU reads memory that a copy in flight writes",
            FindingId::HostWrite => "the CPU writes memory that a copy in flight uses",
            FindingId::Free => "memory is freed while a copy in flight uses it",
            FindingId::StreamRace => "two operations touch the same bytes and nothing orders them",
            FindingId::BatchRace => "two copies of one batch touch the same bytes",
            FindingId::UseAfterFree => "memory is used that was freed",
            FindingId::DoubleFree => "memory is freed a second time",
            FindingId::Leak => "memory is never freed",
            FindingId::Uninitialised => "device memory is copied out that nobody wrote",
            FindingId::DevicePointer => "the CPU accesses an address of a device",
            FindingId::Lost => "copies that nobody waited for are lost",
            FindingId::Capture => "a call breaks a graph capture",
        }
    }

    /// What to change, in one sentence, if nothing more is known.
    pub fn remedy(self) -> &'static str {
        match self {
            FindingId::HostRead => {
                "Synchronise with the stream, or with an event behind the copy, before this line reads."
            }
            FindingId::HostWrite => {
                "Synchronise with the stream, or with an event behind the copy, before this line writes; \
                 or give each copy a buffer of its own."
            }
            FindingId::Free => {
                "Synchronise with the stream before the memory is freed, or keep the memory until then."
            }
            FindingId::StreamRace => {
                "Record an event behind the earlier call and let the later stream wait for it \
                 (aclrtStreamWaitEvent), or synchronise in between."
            }
            FindingId::BatchRace => {
                "The copies of a batch run in any order: put these two into different calls."
            }
            FindingId::UseAfterFree => "Free the memory behind its last use, or do not use it any more.",
            FindingId::DoubleFree => "Free the memory once: clear the pointer when it is freed.",
            FindingId::Leak => "Free the memory before the program ends.",
            FindingId::Uninitialised => {
                "Write or fill the memory before it is copied out, or copy fewer bytes."
            }
            FindingId::DevicePointer => {
                "Copy the bytes to host memory first: the CPU cannot reach device memory."
            }
            FindingId::Lost => "Synchronise with the stream before it is destroyed or the program ends.",
            FindingId::Capture => "Move the call out of the capture.",
        }
    }

    /// How bad it is if nothing else is said.
    pub fn severity(self) -> FindingSeverity {
        if self == FindingId::Leak { FindingSeverity::Warning } else { FindingSeverity::Error }
    }
}

impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FindingSeverity {
    /// As reports have it.
    pub fn name(self) -> &'static str {
        match self {
            FindingSeverity::Error => "error",
            FindingSeverity::Warning => "warning",
        }
    }
}

/// A frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFrame {
    /// The function; without debug information the nearest symbol.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// `file.c:12` or `libfoo.so+0x1234`.
    pub position: String,
    /// The executable file or library that has the code, and the address as that file counts it.
    pub code: Option<(String, u64)>,
}

impl StackFrame {
    /// The innermost frame of a stack that the program's author wrote: its line is known, and it is in no
    /// header of the compiler or the system. Else the innermost with a line, else the innermost. Libraries
    /// between the program and this one have no lines as a rule: what calls them tells mistakes apart.
    pub fn place(stack: &[StackFrame]) -> Option<&StackFrame> {
        stack.get(StackFrame::place_index(stack))
    }

    /// How many frames are inside of that one.
    pub fn place_index(stack: &[StackFrame]) -> usize {
        symbols::authored(stack.iter().map(|frame| (frame.file.as_deref(), frame.line)))
    }

    /// What tells mistakes apart. The mistake is in the function in which the two stacks part: up to there
    /// they are told apart by their lines, and above by the functions. So a function that is wrong in itself
    /// and called from several lines makes one mistake, and lines that are wrong through the same helpers
    /// make one each. Stacks that never meet, or that are one, count by their first line.
    pub(super) fn paths(access: &[StackFrame], work: &[StackFrame]) -> [String; 2] {
        let pairs = access.iter().rev().zip(work.iter().rev());
        let common = pairs.take_while(|(one, other)| one.is_at(other)).count();
        let [one, other] = [access, work].map(|stack| stack.len().checked_sub(common + 1));
        let parting = one.zip(other).filter(|(one, other)| access[*one].function == work[*other].function);
        match parting {
            Some((one, other)) => [StackFrame::path(access, one), StackFrame::path(work, other)],
            None => [access, work].map(|stack| StackFrame::path(stack, 0)),
        }
    }

    fn is_at(&self, other: &StackFrame) -> bool {
        (&self.function, &self.position) == (&other.function, &other.position)
    }

    /// The lines up to the frame of this number, the first that is the program's at least, and the functions
    /// above.
    fn path(stack: &[StackFrame], last: usize) -> String {
        const CALLERS: usize = 8;
        let first = StackFrame::place_index(stack);
        let last = last.max(first);
        let lines = stack.iter().take(last + 1).skip(first).map(|frame| frame.position.as_str());
        let callers = stack.iter().skip(last + 1).take(CALLERS).filter_map(|frame| frame.function.as_deref());
        lines.chain(callers).collect::<Vec<_>>().join(" < ")
    }
}

/// Where on a timeline something stands, as far as that is known: for readers of the same facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineSpot {
    /// The process.
    pub process: u32,
    /// The thread, if it was an access of the CPU.
    pub thread: Option<u32>,
    /// The call.
    pub call: Option<CallSite>,
    /// The op.
    pub op: Option<Point>,
}

/// The call that a finding is about, or that it collides with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundWork {
    /// The function of the library, such as `aclrtMemcpyAsync`.
    pub call: String,
    /// The number of the stream, if it is about work of one.
    pub stream: Option<u32>,
    /// Where the call is, the innermost frame first.
    pub stack: Vec<StackFrame>,
    /// Its place on a timeline.
    pub spot: TimelineSpot,
}

/// One mistake of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFinding {
    /// What is wrong.
    pub id: FindingId,
    /// How bad it is.
    pub severity: FindingSeverity,
    /// What happened, in a sentence or two.
    pub message: String,
    /// What to change, in one sentence.
    pub remedy: &'static str,
    /// The bytes in question, as the program calls them: the first, and how many.
    pub bytes: Option<(u64, u64)>,
    /// The process.
    pub pid: u32,
    /// When it was first seen, in nanoseconds of the monotonic clock.
    pub time: u64,
    /// Where it went wrong, the innermost frame first.
    pub access: Vec<StackFrame>,
    /// The place of that on a timeline.
    pub spot: TimelineSpot,
    /// What it collides with.
    pub work: Option<FoundWork>,
    /// Where the memory was allocated.
    pub allocation: Option<Vec<StackFrame>>,
    /// How often it was seen.
    pub count: u64,
    /// Whether somebody who asked while the program ran was told of it.
    pub is_told: bool,
}

impl CheckFinding {
    /// The frame of the access that the program's author looks for ([`StackFrame::place`]). Where the access
    /// is not known, that of the work.
    pub fn place(&self) -> Option<&StackFrame> {
        let work = self.work.as_ref().map_or(&[][..], |work| &work.stack);
        StackFrame::place(if self.access.is_empty() { work } else { &self.access })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[(&str, u32)]) -> Vec<StackFrame> {
        let frame = |(function, line): &(&str, u32)| StackFrame {
            function: Some((*function).to_owned()),
            file: Some("a.c".to_owned()),
            line: Some(*line),
            position: format!("a.c:{line}"),
            code: None,
        };
        frames.iter().map(frame).collect()
    }

    #[test]
    fn mistakes_are_told_apart_by_lines_up_to_where_their_stacks_part() {
        let through_helpers = |access: u32, work: u32| {
            [stack(&[("set", 1), ("main", access)]), stack(&[("copy", 2), ("main", work)])]
        };
        let inside = |caller: u32| {
            [stack(&[("step", 1), ("main", caller)]), stack(&[("copy", 2), ("step", 3), ("main", caller)])]
        };
        let threads =
            |line: u32| [stack(&[("read", 1), ("loop", line)]), stack(&[("copy", 2), ("main", line)])];
        let alone = |caller: u32| [stack(&[("step", 1), ("main", caller)]), Vec::new()];
        let paths = |stacks: [Vec<StackFrame>; 2]| StackFrame::paths(&stacks[0], &stacks[1]);
        assert_ne!(paths(through_helpers(6, 5)), paths(through_helpers(9, 8)), "two places in main");
        assert_eq!(paths(inside(5)), paths(inside(8)), "one place in step");
        assert_eq!(paths(threads(5)), paths(threads(8)), "no function has both");
        assert_eq!(paths(alone(5)), paths(alone(8)), "no work");
        let [one, _] = inside(5);
        assert_eq!(paths([one.clone(), one.clone()]), [StackFrame::path(&one, 0), StackFrame::path(&one, 0)]);
    }
}
