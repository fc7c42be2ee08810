//! Findings before their addresses have names.

use std::rc::Rc;

use super::finding::{FindingId, FindingSeverity};
use super::op::CheckedOp;
use crate::fact::{CallSite, Nanos, Point};

/// Where something happened.
#[derive(Clone, Copy, Debug)]
pub enum RawPlace {
    /// In a call of the library.
    Call(CallSite),
    /// In the program itself.
    Program {
        /// The thread.
        thread: u32,
        /// The number of the stack.
        stack: u32,
    },
    /// Somewhere in the program, before this call.
    Before(CallSite),
}

/// The call that a finding collides with.
#[derive(Clone, Copy, Debug)]
pub struct RawWork {
    /// The call.
    pub site: CallSite,
    /// The op that it submitted.
    pub op: Option<Point>,
    /// The process, if it is another one.
    pub process: Option<u32>,
}

impl RawWork {
    /// The call that submitted an op.
    pub fn of(op: &CheckedOp) -> RawWork {
        RawWork { site: op.site, op: Some(op.point), process: None }
    }
}

/// One more place that a message names.
pub struct RawNote {
    /// A sentence that goes on with the place.
    pub text: String,
    /// The call that is the place.
    pub site: CallSite,
    /// The process, if it is another one.
    pub process: Option<u32>,
}

impl RawNote {
    /// The call that captured work of a graph.
    pub fn captured(what: &str, site: CallSite) -> RawNote {
        RawNote { text: format!("{what} is a task of a graph, captured"), site, process: None }
    }
}

/// One thing that is wrong.
pub struct RawFinding {
    /// What.
    pub id: FindingId,
    /// How bad it is.
    pub severity: FindingSeverity,
    /// When.
    pub time: Nanos,
    /// Where.
    pub access: RawPlace,
    /// The op that went wrong.
    pub op: Option<Point>,
    /// The work that it collides with.
    pub work: Option<RawWork>,
    /// The first byte and how many, as the program calls them.
    pub bytes: Option<(u64, u64)>,
    /// Whether the memory is still to be looked up by that address.
    pub is_program_address: bool,
    /// The call that allocated the memory.
    pub allocation: Option<CallSite>,
    /// What happened.
    pub message: String,
    /// What to change.
    pub remedy: &'static str,
    /// Other places that took part.
    pub notes: Vec<RawNote>,
    /// Whether the work has a finding already: then only its repetition counts.
    pub is_repeated: bool,
    /// The ops for which this is the finding that says that the host did not wait for them.
    pub speaks_for: Vec<Rc<CheckedOp>>,
    /// What counts as mended once the finding is in the report, so that one mistake is one finding.
    pub mended: Mended,
}

/// The mistake of a finding.
#[derive(Default)]
pub enum Mended {
    /// Nothing but that of its ops.
    #[default]
    Nothing,
    /// The second op is not ordered behind the first.
    Order(Rc<CheckedOp>, Rc<CheckedOp>),
    /// An op is not ordered before one of another process.
    Process(Rc<CheckedOp>),
    /// Nobody has written these bytes.
    Bytes(Vec<(u64, u64)>),
}

impl Mended {
    /// Whether the wait that one of these races lacks would order the ops of this one, too.
    pub fn is_by(&self, races: &[(Rc<CheckedOp>, Rc<CheckedOp>)]) -> bool {
        let Mended::Order(earlier, later) = self else { return false };
        races.iter().any(|(other, behind)| Rc::ptr_eq(behind, later) && earlier.comes_before(other))
    }
}

impl RawFinding {
    /// One with nothing but its place.
    pub fn new(id: FindingId, time: Nanos, access: RawPlace, message: String) -> RawFinding {
        RawFinding {
            id,
            severity: id.severity(),
            time,
            access,
            op: None,
            work: None,
            bytes: None,
            is_program_address: false,
            allocation: None,
            message,
            remedy: id.remedy(),
            notes: Vec::new(),
            is_repeated: false,
            speaks_for: Vec::new(),
            mended: Mended::Nothing,
        }
    }

    /// Says that the host did not wait for an op, unless another finding does.
    pub fn speak_for(&mut self, op: &Rc<CheckedOp>) {
        self.is_repeated = op.is_reported.replace(true);
        if !self.is_repeated {
            self.speaks_for.push(op.clone());
        }
    }
}
