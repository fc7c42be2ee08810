//! What a run knows: handles, memory, and what is ordered after what; every call is made and judged through
//! here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use super::choose::Choose;
use super::clock::Clock;
use super::mirror::{Bytes, Conflict, Mirror, Spot};
use super::{Difference, Report, Slip};
use crate::products::Row;
use crate::{Blocker, aclrtSetCurrentContext, aclrtSynchronizeDevice, code::*, message};

pub(super) type Outcome<T = ()> = Result<T, Difference>;

/// Makes a call and judges its code by those that are allowed; the value is the code.
macro_rules! call {
    ($world:expr, $want:expr, $name:ident($($arg:expr),*)) => {{
        let want = $want;
        let code = $name($($arg),*);
        $world.judge(stringify!($name), &[$($arg as usize),*], &want, code)
    }};
}
pub(super) use call;

/// Calls that a failure tells of.
const REMEMBERED: usize = 24;
/// Devices that take part.
pub(super) const DEVICES: u32 = 2;

pub(super) struct Context {
    pub(super) handle: usize,
    pub(super) device: u32,
    pub(super) is_explicit: bool,
    pub(super) is_alive: bool,
    pub(super) default_stream: usize,
}

/// What the next wait for a stream may say besides 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// Work failed, and nobody was told.
    Certain,
    /// Perhaps somebody was told.
    Possible,
}

pub(super) struct Stream {
    pub(super) handle: usize,
    pub(super) context: usize,
    pub(super) device: u32,
    pub(super) is_alive: bool,
    pub(super) clock: Clock,
    pub(super) trouble: Trouble,
    /// It was aborted, and a wait may say so.
    pub(super) was_aborted: bool,
}

/// Queued work that depends on more than its arguments; each also stands for those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Late {
    Nothing,
    /// A function looks at a byte, which must be there.
    Look,
    /// A copy reads its addresses: what is in them must be what was planned, and the memory there.
    Copy,
    /// Such a copy fails, since an address in it is nobody's.
    Failing,
}

/// The latest record of an event.
#[derive(Clone)]
pub(super) struct Mark {
    pub(super) clock: Clock,
    /// Work before it failed, was dropped, or may have been: what queries and clocks say is open.
    pub(super) is_doubtful: bool,
}

pub(super) struct Event {
    pub(super) handle: usize,
    pub(super) device: u32,
    pub(super) flags: u32,
    pub(super) made: &'static str,
    pub(super) mark: Option<Mark>,
    /// A reset is queued or done, and nothing was recorded since.
    pub(super) is_reset: bool,
    pub(super) is_alive: bool,
}

/// A call that was made.
struct Made {
    name: &'static str,
    args: Vec<usize>,
    code: i32,
    at: Instant,
}

pub(super) struct World {
    pub(super) choose: Choose,
    pub(super) row: &'static Row,
    pub(super) is_strict: bool,
    pub(super) slip: Option<Slip>,
    pub(super) report: Report,
    pub(super) mirror: Mirror,
    pub(super) contexts: Vec<Context>,
    /// The thread's, if it has one that lives.
    pub(super) current: Option<usize>,
    pub(super) streams: Vec<Stream>,
    pub(super) events: Vec<Event>,
    /// What the host has seen done.
    pub(super) host: Clock,
    /// Functions that hold a stream until they are opened: the stream, the number of the op, the gate.
    pub(super) gates: Vec<(usize, u64, Blocker)>,
    /// Device pairs (from, to) with access.
    pub(super) peers: BTreeSet<(u32, u32)>,
    /// How often each device was set.
    pub(super) set_counts: [usize; DEVICES as usize],
    /// What is queued that looks at memory when it runs.
    pub(super) late: Late,
    /// What the bytes of a descriptor mean: destination, source, count.
    pub(super) descriptors: BTreeMap<Vec<u8>, (usize, usize, usize)>,
    pub(super) holdings: super::memory::Holdings,
    pub(super) looks: std::sync::Arc<super::looks::Tally>,
    pub(super) held_back: Option<[usize; 6]>,
    history: VecDeque<Made>,
}

impl World {
    pub(super) fn new(choose: Choose, slip: Option<Slip>) -> World {
        World {
            choose,
            row: Row::current(),
            is_strict: std::env::var("FERRY_STRICT").is_ok_and(|value| value == "1"),
            slip,
            report: Report::default(),
            mirror: Mirror::default(),
            contexts: vec![],
            current: None,
            streams: vec![],
            events: vec![],
            host: Clock::default(),
            gates: vec![],
            peers: BTreeSet::new(),
            set_counts: [0; DEVICES as usize],
            late: Late::Nothing,
            descriptors: BTreeMap::new(),
            holdings: Default::default(),
            looks: Default::default(),
            held_back: None,
            history: VecDeque::new(),
        }
    }

    /// Compares a code with those that are allowed, and counts the call.
    pub(super) fn judge(
        &mut self,
        name: &'static str,
        args: &[usize],
        want: &[i32],
        code: i32,
    ) -> Outcome<i32> {
        let code = match self.slip {
            Some(Slip::AcceptsBad) if code == RT_PARAM_INVALID && want == [RT_PARAM_INVALID] => SUCCESS,
            Some(Slip::OtherCode) if code == INVALID_HANDLE => RT_PARAM_INVALID,
            _ => code,
        };
        let only = [FEATURE_NOT_SUPPORT];
        let want = if self.row.has(name) { want } else { &only };
        self.report.count(name, code);
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        self.history.push_back(Made { name, args: args.to_vec(), code, at: Instant::now() });
        if !want.contains(&code) {
            let said = message().unwrap_or_default();
            return Err(self.difference(format!("the code is {code}, and should be one of {want:?}: {said}")));
        }
        if code != SUCCESS && self.report.calls.is_multiple_of(8) && message().is_none() {
            return Err(self.difference("a refused call leaves no message".into()));
        }
        Ok(code)
    }

    /// Something is not as it must be: tells so, with the calls before.
    pub(super) fn difference(&self, what: String) -> Difference {
        let mut last = self.history.front().map(|made| made.at);
        let line = |made: &Made| {
            let args: Vec<_> = made.args.iter().map(|arg| format!("{arg:#x}")).collect();
            let took = made.at.duration_since(last.replace(made.at).unwrap_or(made.at)).as_secs();
            let late = if took > 0 { format!(" after {took} s") } else { String::new() };
            format!("    {}({}) = {}{late}\n", made.name, args.join(", "), made.code)
        };
        let history = self.history.iter().map(line).collect();
        Difference { call: self.report.calls, what, history }
    }

    /// The code of what is undefined in the documents and works because public programs do it: FERRY_STRICT=1
    /// refuses it.
    pub(super) fn customary(&self) -> Vec<i32> {
        vec![if self.is_strict { RT_PARAM_INVALID } else { SUCCESS }]
    }

    /// The current context, or the code of calls that need one.
    pub(super) fn context(&self) -> Result<usize, i32> {
        self.current.ok_or(CONTEXT_NULL)
    }

    pub(super) fn current_device(&self) -> Option<u32> {
        self.current.map(|context| self.contexts[context].device)
    }

    /// The stream that a handle names here, or the code of a call that is given it.
    pub(super) fn stream_of(&self, handle: usize) -> Result<usize, i32> {
        let context = self.context()?;
        if handle == 0 {
            return Ok(self.contexts[context].default_stream);
        }
        let found = self.streams.iter().position(|s| s.is_alive && s.handle == handle);
        let slot = found.ok_or(INVALID_HANDLE)?;
        if self.streams[slot].context == context { Ok(slot) } else { Err(STREAM_CONTEXT) }
    }

    pub(super) fn event_of(&self, handle: usize) -> Result<usize, i32> {
        if handle == 0 {
            return Err(INVALID_PARAM);
        }
        self.events.iter().position(|e| e.is_alive && e.handle == handle).ok_or(INVALID_HANDLE)
    }

    /// What work submitted to the stream now comes after; without one, what a call on this thread comes
    /// after.
    fn clock(&self, stream: Option<usize>) -> Clock {
        let mut clock = self.host.clone();
        if let Some(stream) = stream {
            clock.join(&self.streams[stream].clock);
        }
        clock
    }

    /// An op of the stream: its number.
    pub(super) fn tick(&mut self, slot: usize) -> (usize, u64) {
        let stream = &mut self.streams[slot];
        stream.clock.join(&self.host);
        (slot, stream.clock.tick(slot))
    }

    /// Makes sure that the op, which reads and writes these, comes after everything it meets. True if it was
    /// left to race: then what it writes is unknown.
    pub(super) fn arrange(
        &mut self,
        uses: &[(&Spot, bool)],
        on: Option<usize>,
        may_race: bool,
    ) -> Outcome<bool> {
        let mut all = Conflict::default();
        let clock = self.clock(on);
        uses.iter().for_each(|(spot, writes)| self.mirror.conflicts(spot, *writes, &clock, &mut all));
        if all.streams.is_empty() {
            return Ok(false);
        }
        if may_race && !all.spoils && self.choose.one_in(4) {
            self.report.races += 1;
            return Ok(true);
        }
        for other in all.streams {
            self.order(other, on)?;
        }
        Ok(false)
    }

    /// Has the stream, or this thread, wait for all that `other` has been given.
    fn order(&mut self, other: usize, on: Option<usize>) -> Outcome {
        match on {
            Some(stream) if self.choose.below(4) != 0 && self.link(other, stream)? => Ok(()),
            _ => self.wait_for(other),
        }
    }

    /// Waits for one stream on this thread. Where its context is not current, or it is gone, for everything.
    pub(super) fn wait_for(&mut self, slot: usize) -> Outcome {
        let stream = &self.streams[slot];
        if !stream.is_alive || Some(stream.context) != self.current {
            return self.wait_for_all();
        }
        self.synchronize(stream.handle)
    }

    /// Waits for everything, whatever it says of failures.
    pub(super) fn wait_for_all(&mut self) -> Outcome {
        self.open_gates();
        let before = self.current;
        for device in 0..DEVICES {
            let context = self.contexts.iter().position(|c| c.is_alive && c.device == device);
            let Some(context) = context else { continue };
            self.make_current(context)?;
            let want = self.device_codes(device);
            let code = call!(self, want, aclrtSynchronizeDevice())?;
            self.told_device(device, code);
        }
        let all: Vec<_> = self.streams.iter().map(|stream| stream.clock.clone()).collect();
        all.iter().for_each(|clock| self.host.join(clock));
        self.late = Late::Nothing;
        match before {
            Some(context) => self.make_current(context),
            None => Ok(()),
        }
    }

    pub(super) fn make_current(&mut self, context: usize) -> Outcome {
        let handle = self.contexts[context].handle;
        call!(self, [SUCCESS], aclrtSetCurrentContext(handle))?;
        self.current = Some(context);
        Ok(())
    }

    /// What a wait for the device may say.
    pub(super) fn device_codes(&self, device: u32) -> Vec<i32> {
        let here = || self.streams.iter().filter(|s| s.is_alive && s.device == device);
        let mut codes = vec![];
        if here().all(|s| s.trouble != Trouble::Certain) || here().any(|s| s.was_aborted) {
            codes.push(SUCCESS);
        }
        if here().any(|s| s.trouble != Trouble::None) {
            codes.push(RT_PARAM_INVALID);
        }
        if here().any(|s| s.was_aborted) {
            codes.push(STREAM_ABORT);
        }
        codes
    }

    /// One of the device's streams may have told its trouble.
    pub(super) fn told_device(&mut self, device: u32, code: i32) {
        for stream in self.streams.iter_mut().filter(|s| s.device == device) {
            if stream.trouble == Trouble::Certain && code != SUCCESS {
                stream.trouble = Trouble::Possible;
            }
        }
    }

    /// What a wait for the stream may say.
    pub(super) fn stream_codes(&self, slot: usize) -> Vec<i32> {
        let stream = &self.streams[slot];
        let mut codes = match stream.trouble {
            Trouble::None => vec![SUCCESS],
            Trouble::Certain => vec![RT_PARAM_INVALID],
            Trouble::Possible => vec![SUCCESS, RT_PARAM_INVALID],
        };
        if stream.was_aborted {
            codes.extend([SUCCESS, STREAM_ABORT]);
        }
        codes
    }

    /// The stream is done, and has told what it had to tell.
    pub(super) fn told(&mut self, slot: usize, code: i32) {
        let stream = &mut self.streams[slot];
        if code != STREAM_ABORT {
            (stream.trouble, stream.was_aborted) = (Trouble::None, false);
        }
        stream.was_aborted = false;
        let clock = stream.clock.clone();
        self.host.join(&clock);
    }

    /// Lets every stream go on that is held.
    pub(super) fn open_gates(&mut self) {
        for (.., gate) in std::mem::take(&mut self.gates) {
            let in_time = gate.release();
            assert!(in_time, "a call waited behind a gate: {}", self.difference(String::new()));
        }
    }

    /// Whether what has this clock is certainly not done: it comes after a gate that is shut.
    pub(super) fn is_held(&self, clock: &Clock) -> bool {
        self.gates.iter().any(|(stream, number, _)| clock.of(*stream) >= *number)
    }

    /// An op of the stream writes these bytes; the rest of its work is already noted.
    pub(super) fn wrote(&mut self, spot: &Spot, bytes: Option<&Bytes>, op: Option<(usize, u64)>) {
        match bytes {
            Some(bytes) => self.mirror.write(spot, bytes),
            None => self.mirror.lose(spot),
        }
        if let Some(op) = op {
            self.mirror.touch(spot, true, op, &self.host);
        }
    }

    pub(super) fn reads(&mut self, spot: &Spot, op: Option<(usize, u64)>) {
        if let Some(op) = op {
            self.mirror.touch(spot, false, op, &self.host);
        }
    }
}
