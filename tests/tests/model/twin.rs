//! A second process, this test binary started again, that works on memory of the first one.
//!
//! It imports what the first exports and does one thing at a time: a line says what, a line answers when it
//! is done. So its copies are calls of the first process as far as order goes, and the same mirror says what
//! must be seen.

use std::collections::HashMap;
use std::ffi::CString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use ascendcl::*;

use crate::basics::{create_stream, host_malloc, ok, pointer, set_device};
use crate::program::Kind;

const ROLE: &str = "FERRY_MODEL_TWIN";
const ANSWER: &str = "the second process says ";
const KEY_LEN: usize = 65;
const NO_WHITE_LIST: u64 = 1;

/// How the second process carries something out: it must make no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Call,
    Stream,
    /// By way of host memory of its own.
    Detour,
}

/// The second process, as the first one sees it.
struct Twin {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

static TWIN: Mutex<Option<Twin>> = Mutex::new(None);

impl Twin {
    fn start() -> Result<Twin, String> {
        let this = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new(this);
        command.args(["--exact", "twin::the_second_process", "--nocapture"]).env(ROLE, "1");
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("no second process: {e}"))?;
        let (to, from) = process.stdin.take().zip(process.stdout.take()).expect("both are piped");
        Ok(Twin { process, to, from: BufReader::new(from) })
    }

    fn ask(&mut self, what: &str) -> Result<String, String> {
        writeln!(self.to, "{what}").map_err(|e| e.to_string())?;
        let mut line = String::new();
        while self.from.read_line(&mut line).map_err(|e| e.to_string())? > 0 {
            // The test harness says things of its own.
            if let Some((_, answer)) = line.trim_end_matches('\n').split_once(ANSWER) {
                let failure = || format!("in the second process, {what}: {answer}");
                return answer.strip_prefix("ok ").map(String::from).ok_or_else(failure);
            }
            line.clear();
        }
        Err(format!("the second process ended: {what}"))
    }
}

/// Asks the second process, and starts it the first time.
fn ask(what: &str) -> Result<String, String> {
    let mut twin = TWIN.lock().unwrap_or_else(PoisonError::into_inner);
    if twin.is_none() {
        *twin = Some(Twin::start()?);
    }
    twin.as_mut().expect("just started").ask(what)
}

fn twin_pid() -> Result<i32, String> {
    ask("hello")?;
    let twin = TWIN.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(twin.as_ref().map_or(0, |twin| twin.process.id() as i32))
}

/// What a program has exported to the second process: the key, and the address over there.
#[derive(Default)]
pub struct Exports {
    held: Mutex<HashMap<usize, (CString, usize)>>,
    /// Keys of memory that was freed here while the second process still has it.
    left: Mutex<Vec<CString>>,
}

impl Exports {
    /// The second process's address of a buffer at `at`, which is exported the first time.
    pub fn address(&self, buffer: usize, at: usize, len: usize, device: usize) -> Result<usize, String> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, there)) = held.get(&buffer) {
            return Ok(*there);
        }
        set_device(device)?;
        let flags = if buffer.is_multiple_of(2) { NO_WHITE_LIST } else { 0 };
        let mut key = [0u8; KEY_LEN];
        // SAFETY: the key is as long as is said.
        let code =
            unsafe { aclrtIpcMemGetExportKey(pointer(at), len, key.as_mut_ptr().cast(), KEY_LEN, flags) };
        ok("aclrtIpcMemGetExportKey", code)?;
        let end = key.iter().position(|b| *b == 0).unwrap_or(KEY_LEN);
        let key = CString::new(&key[..end]).map_err(|e| e.to_string())?;
        if flags != NO_WHITE_LIST {
            let mut pid = twin_pid()?;
            // SAFETY: one number, and a string that ends.
            let code = unsafe { aclrtIpcMemSetImportPid(key.as_ptr(), &mut pid, 1) };
            ok("aclrtIpcMemSetImportPid", code)?;
        }
        let there = ask(&format!("import {device} {}", key.to_string_lossy()))?;
        let there = there.parse().map_err(|_| format!("{there} is no address"))?;
        held.insert(buffer, (key, there));
        Ok(there)
    }

    /// A buffer is about to be freed: it is given back first, or left to the second process for the time
    /// being.
    pub fn end(&self, buffer: usize) -> Result<(), String> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&buffer);
        match held {
            Some((key, _)) if buffer.is_multiple_of(3) => {
                self.left.lock().unwrap_or_else(PoisonError::into_inner).push(key);
                Ok(())
            }
            Some((key, _)) => close(&key),
            None => Ok(()),
        }
    }

    pub fn close(&self) -> Result<(), String> {
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        let results: Vec<_> =
            held.into_values().map(|(key, _)| key).chain(left).map(|key| close(&key)).collect();
        results.into_iter().collect()
    }
}

/// Gives memory back: the importer first, as documented, then the exporter.
fn close(key: &CString) -> Result<(), String> {
    ask(&format!("close {}", key.to_string_lossy()))?;
    // SAFETY: a string that ends.
    ok("aclrtIpcMemClose", unsafe { aclrtIpcMemClose(key.as_ptr()) })
}

/// A copy over there.
pub fn copy(device: usize, dst: usize, src: usize, len: usize, manner: Manner) -> Result<(), String> {
    ask(&format!("copy {device} {dst} {src} {len} {}", manner as usize)).map(drop)
}

/// A fill over there.
pub fn fill(device: usize, dst: usize, byte: u8, len: usize, manner: Manner) -> Result<(), String> {
    ask(&format!("fill {device} {dst} {byte} {len} {}", manner as usize)).map(drop)
}

/// What the second process is: it does what it is told until nobody is left to tell it.
#[test]
fn the_second_process() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut streams = HashMap::new();
    for line in std::io::stdin().lines() {
        let line = line.expect("the first process writes text");
        let answer = match obey(&line.split(' ').collect::<Vec<_>>(), &mut streams) {
            Ok(text) => format!("ok {text}"),
            Err(why) => why.replace('\n', " "),
        };
        println!("{ANSWER}{answer}");
    }
    // The harness would still report to somebody who has gone.
    std::process::exit(0);
}

fn obey(words: &[&str], streams: &mut HashMap<usize, usize>) -> Result<String, String> {
    let number = |i: usize| words[i].parse::<usize>().map_err(|e| format!("{}: {e}", words[i]));
    let key = |i: usize| CString::new(words[i]).map_err(|e| e.to_string());
    match words[0] {
        "hello" => Ok(String::new()),
        "import" => {
            set_device(number(1)?)?;
            let (mut at, key) = (null_mut(), key(2)?);
            // SAFETY: a place for a pointer, and a string that ends.
            ok("aclrtIpcMemImportByKey", unsafe { aclrtIpcMemImportByKey(&mut at, key.as_ptr(), 0) })?;
            Ok(at.addr().to_string())
        }
        "close" => {
            // SAFETY: a string that ends.
            ok("aclrtIpcMemClose", unsafe { aclrtIpcMemClose(key(1)?.as_ptr()) })?;
            Ok(String::new())
        }
        what => {
            let device = number(1)?;
            set_device(device)?;
            let stream = match streams.get(&device) {
                Some(stream) => *stream,
                None => *streams.entry(device).or_insert(create_stream()?),
            };
            let numbers = [number(2)?, number(3)?, number(4)?, number(5)?];
            carry_out(what == "copy", numbers, stream)?;
            Ok(String::new())
        }
    }
}

/// Copies from or fills with the second number.
fn carry_out(copies: bool, numbers: [usize; 4], stream: usize) -> Result<(), String> {
    let [dst, what, len, manner] = numbers;
    let (to, from, stream) = (pointer(dst), pointer(what), pointer(stream));
    let kind = Kind::DEVICE_TO_DEVICE.0;
    // SAFETY: both ranges are imported memory, which stays until the first process has it closed.
    let code = unsafe {
        match (copies, manner) {
            (true, 0) => aclrtMemcpy(to, len, from, len, kind),
            (true, 1) => aclrtMemcpyAsync(to, len, from, len, kind, stream),
            (true, _) => return detour(dst, what, len),
            (false, 1) => aclrtMemsetAsync(to, len, what as i32, len, stream),
            (false, _) => aclrtMemset(to, len, what as i32, len),
        }
    };
    ok("copy or fill", code)?;
    ok("aclrtSynchronizeStream", aclrtSynchronizeStream(stream))
}

fn detour(dst: usize, src: usize, len: usize) -> Result<(), String> {
    let own = pointer(host_malloc(len.max(1))?);
    // SAFETY: as above, and as long as is said.
    let codes = unsafe {
        [
            aclrtMemcpy(own, len, pointer(src), len, Kind::DEVICE_TO_HOST.0),
            aclrtMemcpy(pointer(dst), len, own, len, Kind::HOST_TO_DEVICE.0),
        ]
    };
    ok("aclrtFreeHost", aclrtFreeHost(own))?;
    codes.into_iter().try_for_each(|code| ok("aclrtMemcpy", code))
}
