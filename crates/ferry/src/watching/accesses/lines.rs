//! Lines of a Python program in the stack of an access.
//!
//! The interpreter that is loaded in the process can write a thread's lines to a descriptor from inside a
//! signal handler; that is what `faulthandler` does. The handler of the thread that is asked has it write
//! into a pipe of ours, and the monitor reads and parses it. Where that function is not exported, the handler
//! leaves the thread's state, and the monitor reads the lines from memory (`python_frames.rs`). In the stack
//! the lines stand in place of the interpreter's own frames, behind those of libraries that were called from
//! Python.

use super::{
    python_frames::{ObjectTypes, PythonFrames},
    python_threads::{FirstThread, MainInterpreter, PythonThreads},
};
use ferry_watch::{Fact, fact::Line, writer::FactWriter};
use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
    ffi::{CStr, c_char, c_int, c_void},
    fs::File,
    io::Read,
    mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Numbers of lines begin here: those of calls are counted from 1.
const FIRST_NUMBER: u32 = 1 << 24;
/// Lines that are told of in one process.
const MOST_LINES: usize = 1 << 16;

type ThisThread = unsafe extern "C" fn() -> *mut c_void;
type Dump = unsafe extern "C" fn(c_int, *mut c_void);
type GetVersion = unsafe extern "C" fn() -> *const c_char;

/// The interpreter in this process.
struct Interpreter {
    this_thread: ThisThread,
    lines: LineSource,
    threads: Option<PythonThreads>,
}

/// How the lines of a thread are had.
enum LineSource {
    /// The interpreter writes them into a pipe.
    Pipe { dump: Dump, write_end: OwnedFd, read_end: File },
    /// They are read from its memory, for the thread state that was left here; 0 for none.
    Memory { frames: PythonFrames, state: AtomicUsize },
}

static INTERPRETER: OnceLock<Option<Interpreter>> = OnceLock::new();

/// Looks for an interpreter, once.
pub(super) fn find() {
    INTERPRETER.get_or_init(|| {
        let this_thread = symbol(c"PyGILState_GetThisThreadState");
        // SAFETY: a function of the interpreter's C interface, of this type in all versions of Python 3.
        let this_thread = unsafe { mem::transmute::<*mut c_void, Option<ThisThread>>(this_thread)? };
        let lines = LineSource::pipe().or_else(LineSource::memory)?;
        Some(Interpreter { this_thread, lines, threads: threads() })
    });
}

/// The interpreter's list of threads.
fn threads() -> Option<PythonThreads> {
    let [main, first] = [c"PyInterpreterState_Main", c"PyInterpreterState_ThreadHead"].map(symbol);
    // SAFETY: functions of the interpreter's C interface, of these types in all versions since Python 3.7.
    unsafe {
        let main = mem::transmute::<*mut c_void, Option<MainInterpreter>>(main)?;
        let first = mem::transmute::<*mut c_void, Option<FirstThread>>(first)?;
        Some(PythonThreads::new(main, first))
    }
}

impl LineSource {
    fn pipe() -> Option<LineSource> {
        let dump = symbol(c"_Py_DumpTraceback");
        // SAFETY: a function of the interpreter, of this type in all versions of Python 3.
        let dump = unsafe { mem::transmute::<*mut c_void, Option<Dump>>(dump)? };
        let mut ends = [0; 2];
        // SAFETY: makes two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return None;
        }
        // SAFETY: the call just returned these descriptors, which have no other owner.
        let [read_end, write_end] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        Some(LineSource::Pipe { dump, write_end, read_end: read_end.into() })
    }

    fn memory() -> Option<LineSource> {
        let [runtime, code, frame, text, bytes] =
            [c"_PyRuntime", c"PyCode_Type", c"PyFrame_Type", c"PyUnicode_Type", c"PyBytes_Type"]
                .map(|name| symbol(name) as u64);
        let frames = PythonFrames::of(runtime, &version()?, ObjectTypes { code, frame, text, bytes })?;
        Some(LineSource::Memory { frames, state: AtomicUsize::new(0) })
    }

    /// Has the lines of a thread be there for `take`.
    ///
    /// # Safety
    /// The state is that of a thread which lives, and is this one or does not run.
    unsafe fn leave(&self, thread: *mut c_void) {
        match self {
            // SAFETY: the function is made for signal handlers; the rest is the caller's promise.
            LineSource::Pipe { dump, write_end, .. } => unsafe { dump(write_end.as_raw_fd(), thread) },
            LineSource::Memory { state, .. } => state.store(thread.addr(), Ordering::Release),
        }
    }

    /// The lines that were left last, innermost first.
    fn take(&self) -> Vec<Line> {
        match self {
            LineSource::Pipe { read_end, .. } => {
                let (mut text, mut part, mut from) = (Vec::new(), [0; 4096], read_end);
                while let Ok(got @ 1..) = from.read(&mut part) {
                    text.extend_from_slice(&part[..got]);
                }
                String::from_utf8_lossy(&text).lines().filter_map(parse).collect()
            }
            LineSource::Memory { frames, state } => match state.swap(0, Ordering::Acquire) {
                0 => Vec::new(),
                state => frames.lines(state as u64),
            },
        }
    }
}

fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: looks a name up in what is loaded.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// What the interpreter says as its version.
fn version() -> Option<String> {
    let version = symbol(c"Py_GetVersion");
    // SAFETY: a function of the interpreter's C interface, of this type in all versions of Python 3.
    let version = unsafe { mem::transmute::<*mut c_void, Option<GetVersion>>(version)? };
    // SAFETY: documented: it may be called at any time, and returns text that stays.
    let text = unsafe { CStr::from_ptr(version()) };
    Some(text.to_string_lossy().into_owned())
}

/// Has the interpreter write the lines of the calling thread, if it runs Python. Called in a signal handler.
pub(super) fn dump() {
    let Some(Some(python)) = INTERPRETER.get() else { return };
    // SAFETY: it reads a variable of this thread.
    let state = unsafe { (python.this_thread)() };
    if !state.is_null() {
        // SAFETY: the state is this thread's.
        unsafe { python.lines.leave(state) };
    }
}

/// The interpreter's states of threads that have submitted ops, by the system's number of the thread.
static STATES: Mutex<BTreeMap<i32, usize>> = Mutex::new(BTreeMap::new());

thread_local! {
    static NOTED: NotedThread = NotedThread::new();
}

/// A thread whose state was told, as long as it lives.
struct NotedThread {
    thread: i32,
    /// What was told last; 0 for none.
    state: Cell<usize>,
}

impl NotedThread {
    fn new() -> NotedThread {
        // SAFETY: asks for a number.
        NotedThread { thread: unsafe { libc::gettid() }, state: Cell::new(0) }
    }

    /// Tells the state of this thread if it is another one: threads that an interpreter did not start have
    /// one only while they run Python, and a new one the next time.
    fn note(&self) {
        let Some(Some(python)) = INTERPRETER.get() else { return };
        // SAFETY: it reads a variable of this thread.
        let state = unsafe { (python.this_thread)() }.addr();
        if self.state.replace(state) != state {
            if let (Some(threads), 1..) = (&python.threads, state) {
                threads.learn(state as u64, self.thread);
            }
            STATES.lock().unwrap_or_else(PoisonError::into_inner).insert(self.thread, state);
        }
    }
}

impl Drop for NotedThread {
    fn drop(&mut self) {
        // In a forked child a thread that is not there may have the lock, for ever.
        let me = self.thread;
        // SAFETY: asks for a number.
        if me == unsafe { libc::gettid() } {
            STATES.lock().unwrap_or_else(PoisonError::into_inner).remove(&me);
        }
    }
}

/// Remembers the calling thread: it may be inside a system call when its lines are wanted.
pub(super) fn note_thread() {
    let _ = NOTED.try_with(NotedThread::note);
}

/// Has the interpreter write the lines of another thread, which waits.
pub(super) fn dump_of(thread: i32) {
    let Some(Some(python)) = INTERPRETER.get() else { return };
    let states = STATES.lock().unwrap_or_else(PoisonError::into_inner);
    let noted = states.get(&thread).copied().filter(|state| *state != 0);
    let listed = || python.threads.as_ref()?.state_of(thread).map(|state| state as usize);
    if let Some(state) = noted.or_else(listed) {
        // SAFETY: the state of a thread that lives and does not run.
        unsafe { python.lines.leave(state as *mut c_void) };
    }
}

/// Drops what the interpreter wrote: nobody wants it.
pub(super) fn discard() {
    if let Some(Some(python)) = INTERPRETER.get() {
        drop(python.lines.take());
    }
}

/// Puts what the interpreter wrote into a stack.
pub(super) fn put_into(frames: Vec<u64>, writer: &FactWriter) -> Vec<u64> {
    static LINES: OnceLock<Mutex<Lines>> = OnceLock::new();
    let lines = LINES.get_or_init(Mutex::default);
    lines.lock().unwrap_or_else(PoisonError::into_inner).put_into(frames, writer)
}

/// Numbers of lines that were told of, by file, line and function: a lambda shares its line with others.
#[derive(Default)]
struct Lines(HashMap<(String, u32, String), u32>);

impl Lines {
    fn put_into(&mut self, frames: Vec<u64>, writer: &FactWriter) -> Vec<u64> {
        let Some(Some(python)) = INTERPRETER.get() else { return frames };
        let lines = python.lines.take().into_iter();
        let lines: Vec<u64> = lines.filter_map(|line| self.number(line, writer)).collect();
        if lines.is_empty() {
            return frames;
        }
        let module = module_of(python.this_thread as usize);
        let own = frames.into_iter().take_while(|frame| module_of(*frame as usize - 1) != module);
        own.chain(lines).collect()
    }

    fn number(&mut self, line: Line, writer: &FactWriter) -> Option<u64> {
        let next = FIRST_NUMBER + self.0.len() as u32;
        let is_full = self.0.len() >= MOST_LINES;
        let key = (line.file.clone(), line.line, line.function.clone());
        let known = self.0.get(&key).copied();
        let number = known.or_else(|| {
            (!is_full).then(|| {
                self.0.insert(key, next);
                writer.write(&Fact::Line(Line { number: next, ..line }));
                next
            })
        })?;
        Some(Line::ADDRESS | u64::from(number))
    }
}

/// The first address of the loaded file that has this one; 0 without one.
fn module_of(address: usize) -> usize {
    // SAFETY: plain data, which the loader fills if it knows the address.
    unsafe {
        let mut info: libc::Dl_info = mem::zeroed();
        libc::dladdr(address as *const c_void, &mut info);
        info.dli_fbase.addr()
    }
}

/// A line as the interpreter writes it: `  File "x.py", line 3 in f`.
fn parse(text: &str) -> Option<Line> {
    let (file, rest) = text.trim_start().strip_prefix("File \"")?.rsplit_once("\", line ")?;
    let (line, function) = rest.split_once(" in ")?;
    let (file, function) = (unescaped(file), unescaped(function));
    Some(Line { number: 0, line: line.parse().ok()?, file, function })
}

/// The interpreter writes what is not ASCII as `\xfc`, `\u20ac` or `\U0001f600`.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = match part.as_bytes().first() {
            Some(b'x') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => 0,
        };
        let code = part.get(1..=digits).and_then(|code| u32::from_str_radix(code, 16).ok());
        match code.and_then(char::from_u32).filter(|character| !character.is_ascii()) {
            Some(character) => {
                whole.push(character);
                whole.push_str(&part[1 + digits..]);
            }
            None => {
                whole.push('\\');
                whole.push_str(part);
            }
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_interpreter_are_read() {
        for (text, want) in [
            ("  File \"/a b/x.py\", line 3 in f", Some(("/a b/x.py", 3, "f"))),
            ("  File \"x.py\", line 12 in <module>", Some(("x.py", 12, "<module>"))),
            (r#"  File "/\xfc/\u20ac.py", line 1 in gr\xf6\U0001f600e"#, Some(("/ü/€.py", 1, "grö😀e"))),
            (r#"  File "a\b\x4\udc80.py", line 1 in f"#, Some((r"a\b\x4\udc80.py", 1, "f"))),
            ("Stack (most recent call first):", None),
            ("  File \"x.py\", line ??? in f", None),
            ("  ...", None),
        ] {
            let line = parse(text);
            let line = line.as_ref().map(|line| (line.file.as_str(), line.line, line.function.as_str()));
            assert_eq!(line, want, "{text}");
        }
    }
}
