//! Carries a program out on an executor, with real threads, and compares what the checks see.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Condvar, Mutex, mpsc};
use std::time::Duration;

use crate::oracle::Expected;
use crate::program::{Act, Program, Span, THREADS};
use crate::show::Shown;

/// Something that can carry out the steps of one program: an API of the engine, or a stand-in.
pub trait Executor: Sync {
    /// Makes the call of one step, on the thread that makes it. Never given barriers or checks.
    fn perform(&self, thread: usize, act: &Act) -> Result<(), String>;

    /// Reads bytes of a buffer now, without waiting for any stream.
    fn read(&self, thread: usize, buffer: usize, at: usize, out: &mut [u8]) -> Result<(), String>;

    /// Opens every gate, so that a program that failed half-way can end.
    fn open_gates(&self);
}

/// What a host function that holds a stream waits for.
#[derive(Default)]
pub struct Blocker {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Blocker {
    pub fn release(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    pub fn wait(&self) {
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }
}

/// Runs the program; the error names the step that failed or saw wrong bytes.
pub fn run(program: &Program, expected: &Expected, executor: &dyn Executor) -> Result<(), String> {
    let barrier = Barrier::new(THREADS);
    let (failed, failure) = (AtomicBool::new(false), Mutex::new(None));
    let walk = |thread: usize| {
        for (i, step) in program.steps.iter().enumerate() {
            if matches!(step.act, Act::Barrier) {
                barrier.wait();
            } else if step.thread == thread && !failed.load(Ordering::Acquire) {
                let done = match &step.act {
                    Act::Check { .. } => check(program, expected, executor, i),
                    act => executor.perform(thread, act),
                };
                if let Err(why) = done {
                    let text = format!("step {i}, {}: {why}", Shown(program, step));
                    failure.lock().unwrap().get_or_insert(text);
                    failed.store(true, Ordering::Release);
                }
            }
            if failed.load(Ordering::Acquire) {
                executor.open_gates();
            }
        }
    };
    let watch = Watch::new(program);
    std::thread::scope(|scope| {
        (1..THREADS).for_each(|t| {
            scope.spawn(move || walk(t));
        });
        walk(0);
    });
    drop(watch);
    failure.into_inner().unwrap().map_or(Ok(()), Err)
}

/// Compares every byte that is certain for this check.
fn check(program: &Program, expected: &Expected, executor: &dyn Executor, step: usize) -> Result<(), String> {
    let thread = program.steps[step].thread;
    for sight in expected.sights.get(&step).into_iter().flatten() {
        let mut got = vec![0; sight.bytes.len()];
        executor.read(thread, sight.buffer, sight.at, &mut got)?;
        if got == sight.bytes {
            continue;
        }
        let fits = |i: &usize| got[*i] == sight.bytes[*i] || got[*i] == sight.others[*i];
        let wrong: Vec<_> = (0..got.len()).filter(|i| !fits(i)).collect();
        if let Some(&i) = wrong.first() {
            let wrong = wrong.len();
            let at = Span { buffer: sight.buffer, at: sight.at + i, len: 1 };
            return Err(format!(
                "{} is {:#04x}, not {:#04x}{} ({wrong} bytes wrong)",
                Shown(program, &program.steps[step]).span(&at),
                got[i],
                sight.bytes[i],
                match sight.others[i] {
                    other if other == sight.bytes[i] => String::new(),
                    other => format!(" or {other:#04x}"),
                }
            ));
        }
    }
    Ok(())
}

/// Ends the process with the program's text if a program never ends: a hang cannot be shrunk, but it can be
/// read.
pub struct Watch(Option<(mpsc::Sender<()>, std::thread::JoinHandle<()>)>);

impl Watch {
    const PATIENCE: Duration = Duration::from_secs(120);

    pub fn new(program: &Program) -> Watch {
        let (done, wait) = mpsc::channel();
        let text = format!("{program:?}");
        Watch(Some((
            done,
            std::thread::spawn(move || {
                if wait.recv_timeout(Watch::PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                    // Straight to the file: what print macros write is lost with the process.
                    let _ = writeln!(std::io::stderr(), "this program hangs:\n{text}");
                    std::process::abort();
                }
            }),
        )))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let (done, thread) = self.0.take().expect("dropped once");
        drop(done);
        thread.join().expect("the watch does not panic");
    }
}

impl<E: Executor> Executor for &E {
    fn perform(&self, thread: usize, act: &Act) -> Result<(), String> {
        (**self).perform(thread, act)
    }

    fn read(&self, thread: usize, buffer: usize, at: usize, out: &mut [u8]) -> Result<(), String> {
        (**self).read(thread, buffer, at, out)
    }

    fn open_gates(&self) {
        (**self).open_gates();
    }
}
