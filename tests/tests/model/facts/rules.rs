//! What holds for the ops of every program: each is submitted once, passes once, and not before what it
//! follows.

use std::collections::{HashMap, HashSet};

use ferry_watch::fact::{Outcome, Passed, Point, StreamMade, StreamPurpose};
use ferry_watch::{Fact, FactSource};

/// All streams of this process, with the ticket of the newest op of each.
#[derive(Default)]
pub struct Streams {
    made: HashMap<u32, StreamMade>,
    submitted: HashMap<u32, u64>,
    passed: HashMap<u32, u64>,
}

impl Streams {
    /// Whether the stream is that of the synchronous calls of a thread.
    pub fn is_hidden(&self, stream: u32) -> bool {
        self.made.get(&stream).is_some_and(|made| made.purpose == StreamPurpose::Synchronous)
    }

    /// Takes all facts of a program; the first that breaks a rule is the error.
    pub fn take(&mut self, facts: &[(FactSource, Fact)]) -> Result<(), String> {
        let (mut submitted, mut passed, mut broken) = (vec![], vec![], vec![]);
        let mut begun = HashSet::new();
        for (_, fact) in facts {
            match fact {
                Fact::StreamMade(made) => drop(self.made.insert(made.stream, *made)),
                Fact::Submitted(op) => submitted.push(op.point),
                Fact::Passed(op) => passed.push(*op),
                Fact::Begun { point, .. } if !begun.insert(*point) => {
                    broken.push(format!("{point:?} begins twice"));
                }
                Fact::Lost { count } => broken.push(format!("{count} facts were lost")),
                _ => {}
            }
        }
        submitted.sort_unstable();
        passed.sort_unstable_by_key(|op| op.point);
        broken.extend(submitted.iter().filter_map(|op| follow(&mut self.submitted, *op, "submitted")));
        broken.extend(passed.iter().filter_map(|op| follow(&mut self.passed, op.point, "passed")));
        broken.extend(passed.iter().filter_map(ends_after_it_begins));
        let unknown = submitted.iter().find(|op| !self.made.contains_key(&op.stream));
        broken.extend(unknown.map(|op| format!("{op:?} is in a stream that was never made")));
        if self.submitted != self.passed {
            let open = |(stream, ticket): &(&u32, &u64)| self.passed.get(*stream) != Some(*ticket);
            let stuck: Vec<_> = self.submitted.iter().filter(open).collect();
            broken.push(format!("streams with ops that have not passed, and the newest of each: {stuck:?}"));
            // Told once.
            self.passed = self.submitted.clone();
        }
        broken.into_iter().next().map_or(Ok(()), Err)
    }
}

/// Ops of a stream are numbered without a gap.
fn follow(newest: &mut HashMap<u32, u64>, op: Point, what: &str) -> Option<String> {
    let before = newest.insert(op.stream, op.ticket).unwrap_or(0);
    (op.ticket != before + 1).then(|| format!("{op:?} was {what} after op {before} of the stream"))
}

fn ends_after_it_begins(op: &Passed) -> Option<String> {
    let has_begun = op.begin != 0 || op.outcome != Outcome::Done;
    (has_begun && op.begin > op.end).then(|| format!("{op:?} ends before it begins"))
}
