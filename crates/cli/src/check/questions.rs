//! `--answer`: a process of the program asks which findings it has made so far, and is told at once. The
//! plugin of pytest asks at the end of each part of a test, so that a finding fails the test that made it.
//!
//! A question is a line with the number of the process that asks, on a socket whose path is in
//! [`VARIABLE`]; the answer is a line of JSON. A process is told of its own findings and of those of the
//! processes that it started, each once.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use ferry_terminal::Terminal;
use ferry_watch::clock::Sample;
use ferry_watch::collector::Collector;
use serde_json::json;

use super::suppressions::Suppressions;
use super::{CheckReader, json as findings, text};
use crate::run;

/// The variable that names the socket.
pub const VARIABLE: &str = "FERRY_CHECK_SOCKET";
/// How long other threads have to complete a fact that they were writing when the question came.
const GRACE: Duration = Duration::from_millis(4);
/// How long one that asked may take to read its answer: meanwhile nobody's facts are read.
const MOST_WRITING: Duration = Duration::from_secs(5);

/// A socket for questions, and who asked.
pub struct Questions {
    folder: PathBuf,
    /// Until the first answer: a thread that listens must have the signals blocked that are passed on to the
    /// program, and they are when it was started.
    listener: Option<UnixListener>,
    sender: Sender<CheckQuestion>,
    receiver: Receiver<CheckQuestion>,
    family: Family,
}

struct CheckQuestion {
    process: u32,
    /// When it came, in nanoseconds of the monotonic clock.
    time: u64,
    stream: UnixStream,
}

impl Questions {
    /// A socket that nobody listens at yet, in a folder that only this user can enter.
    pub fn bind() -> io::Result<Questions> {
        let folder = run::fresh_folder()?;
        let (sender, receiver) = mpsc::channel();
        let listener = Some(UnixListener::bind(folder.join("questions"))?);
        Ok(Questions { folder, listener, sender, receiver, family: Family::default() })
    }

    /// Where the socket is.
    pub fn path(&self) -> PathBuf {
        self.folder.join("questions")
    }

    /// Answers the questions that come within `pause`.
    pub fn answer(
        &mut self,
        pause: Duration,
        collector: &mut Collector,
        reader: &mut CheckReader,
        suppressions: &Suppressions,
    ) {
        if let Some(listener) = self.listener.take() {
            let sender = self.sender.clone();
            thread::spawn(move || listen(&listener, &sender));
        }
        reader.checker.processes().for_each(|process| self.family.note(process));
        let Ok(mut question) = self.receiver.recv_timeout(pause) else { return };
        collector.catch_up(question.time, GRACE, reader);
        reader.checker.processes().for_each(|process| self.family.note(process));
        self.family.askers.insert(question.process);
        let told = reader.checker.tell(|process| self.family.answers_for(question.process, process));
        let told = told.into_iter().filter(|finding| !suppressions.cover(finding)).map(|finding| {
            let mut object = findings::one(finding);
            object["text"] = json!(text::finding(finding, &Terminal::plain()).join("\n").trim_end());
            object
        });
        let answer = json!({ "findings": told.collect::<Vec<_>>() });
        // One that is gone or stopped needs no answer.
        let _ = question.stream.set_write_timeout(Some(MOST_WRITING));
        let _ = writeln!(question.stream, "{answer}");
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Takes questions from everybody, a thread for each connection, until the command ends.
fn listen(listener: &UnixListener, sender: &Sender<CheckQuestion>) {
    for stream in listener.incoming().flatten() {
        let sender = sender.clone();
        thread::spawn(move || -> Option<()> {
            let lines = BufReader::new(stream.try_clone().ok()?).lines();
            for line in lines.map_while(Result::ok) {
                let process = line.trim().parse().ok()?;
                let (time, stream) = (Sample::now().nanos, stream.try_clone().ok()?);
                sender.send(CheckQuestion { process, time, stream }).ok()?;
            }
            None
        });
    }
}

/// Which process started which.
#[derive(Default)]
struct Family {
    parents: HashMap<u32, u32>,
    askers: HashSet<u32>,
}

impl Family {
    /// Looks up the ancestors of a process when it is first seen: later it may be gone.
    fn note(&mut self, process: u32) {
        let mut child = process;
        while child > 1 && !self.parents.contains_key(&child) {
            let Some(parent) = parent(child) else { return };
            self.parents.insert(child, parent);
            child = parent;
        }
    }

    /// Whether `asker` is the one to be told of what `process` did: it did it itself, or is the nearest of
    /// those who ask above it. If only one has ever asked, it is.
    fn answers_for(&self, asker: u32, process: u32) -> bool {
        let ancestors = std::iter::successors(Some(process), |child| self.parents.get(child).copied());
        let nearest = ancestors.take(64).find(|process| self.askers.contains(process));
        nearest == Some(asker) || nearest.is_none() && self.askers.len() == 1
    }
}

/// The process that started one which still runs.
fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    // Behind the name, which may hold anything: the state, and then the parent.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_one_that_asks_is_told() {
        let family = |askers: &[u32]| Family {
            parents: HashMap::from([(2, 1), (3, 2), (4, 3), (5, 1)]),
            askers: askers.iter().copied().collect(),
        };
        for (askers, process, want) in [
            (&[2, 3][..], 4, Some(3)),
            (&[2, 3], 3, Some(3)),
            (&[2, 3], 2, Some(2)),
            (&[2, 3], 5, None),
            (&[2, 3], 99, None),
            (&[2], 99, Some(2)),
        ] {
            let family = family(askers);
            let told: Vec<u32> =
                askers.iter().copied().filter(|asker| family.answers_for(*asker, process)).collect();
            assert_eq!(told, Vec::from_iter(want), "{askers:?} {process}");
        }
    }

    #[test]
    fn a_process_that_runs_has_a_parent() {
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
        assert_eq!(parent(u32::MAX), None);
    }
}
