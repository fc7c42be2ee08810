//! A second process for parts that need one: the command starts itself again, and the two exchange lines of
//! text. What the other process does is a role. It compares bytes as parts do, and reports at its end how
//! many; an error there is the failure of the part here.

use std::io::{BufRead, BufReader, Lines, Read, StdinLock, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use ferry_abi::error::ensure;
use ferry_abi::{Error, Result};
use ferry_terminal::put;

use crate::ctx::Ctx;

/// What a second process does, with its own setting and a connection to its parent.
pub type Role = fn(&mut Ctx, &mut Parent) -> Result<()>;

/// The process that started this one.
pub struct Parent {
    lines: Lines<StdinLock<'static>>,
}

impl Parent {
    /// The parent, by standard input and output.
    pub fn new() -> Parent {
        Parent { lines: std::io::stdin().lock().lines() }
    }

    /// Sends it a line.
    pub fn say(&self, line: impl std::fmt::Display) {
        put(&format!("{line}\n"));
    }

    /// The next line that it sends.
    pub fn hear(&mut self) -> Result<String> {
        let line = self.lines.next().and_then(|line| line.ok());
        line.ok_or_else(|| Error::Setup("the process that started this one has gone".to_owned()))
    }

    /// The next line, which is a number.
    pub fn hear_number<T: std::str::FromStr>(&mut self) -> Result<T> {
        let line = self.hear()?;
        line.parse().map_err(|_| Error::Setup(format!("expected a number, heard {line:?}")))
    }
}

/// A second process in its role; ended on drop.
pub struct Child {
    process: std::process::Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Child {
    /// Starts this command again in a role, with more environment variables.
    pub fn start(role: &str, variables: &[(&str, &str)]) -> Result<Child> {
        let failed = |error| Error::Setup(format!("cannot start this command again: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["role", role]).envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(failed)?;
        let to = process.stdin.take().expect("it is piped");
        let from = BufReader::new(process.stdout.take().expect("it is piped"));
        Ok(Child { process, to, from })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    /// Sends it a line. If it has ended, the next `hear` fails.
    pub fn say(&mut self, line: impl std::fmt::Display) {
        let _ = writeln!(self.to, "{line}");
    }

    /// Its next line; if it has ended instead, what it said about that.
    pub fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(1..) => Ok(line.trim_end().to_owned()),
            _ => Err(self.last_words()),
        }
    }

    /// Fails unless its next line is this one.
    pub fn expect(&mut self, word: &str) -> Result<()> {
        let heard = self.hear()?;
        ensure(heard == word, "the other process", format!("{word:?}"), format!("{heard:?}"))
    }

    /// Waits for its end, and counts what it has verified.
    pub fn end(mut self, ctx: &mut Ctx) -> Result<()> {
        let verified = self.hear()?;
        let ended = self.process.wait().map_err(|error| Error::Setup(error.to_string()))?;
        ensure(ended.success(), "the end of the other process", "success", ended)?;
        ctx.verified_elsewhere(verified.parse().unwrap_or(0));
        Ok(())
    }

    fn last_words(&mut self) -> Error {
        let mut words = String::new();
        if let Some(mut errors) = self.process.stderr.take() {
            let _ = errors.read_to_string(&mut words);
        }
        let words = words.trim_end().trim_start_matches("ferry: ").to_owned();
        let ended = self.process.wait().map(|status| status.to_string()).unwrap_or_default();
        Error::Setup(format!("the other process ended ({ended}): {words}"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
