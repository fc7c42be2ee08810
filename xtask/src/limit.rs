//! A time limit for the programs that steps run: one that hangs fails, and says where.
//!
//! A test that waits for ever would otherwise take all the time that CI has, and leave no word about which
//! it was. Before the program is killed, every process that it has started is printed with what each of its
//! threads waits for, and with stacks where gdb is there.

use std::fs;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::shell;

/// No command of any step takes as long on two cores; CI gives all steps together 90 minutes.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// Waits for the end of a program; an error if it had to be killed.
pub fn wait(child: &mut Child) -> Result<ExitStatus, String> {
    wait_for(child, LIMIT)
}

fn wait_for(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let (done, is_done) = mpsc::channel::<()>();
    let first = child.id();
    let watch = thread::spawn(move || {
        let hangs = is_done.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
        if hangs {
            end(first);
        }
        hangs
    });
    let status = child.wait().map_err(|e| format!("waiting for it: {e}"));
    drop(done);
    match watch.join() {
        Ok(false) => status,
        _ => Err(format!("it did not end within {} s; above is what it was doing", limit.as_secs())),
    }
}

/// Says what a process and all below it are doing, and kills them.
fn end(first: u32) {
    let all = below(first);
    all.iter().for_each(|&process| describe(process));
    // The first one last: nobody above starts another in place of one that is gone.
    for process in all.iter().rev() {
        shell::quiet(Command::new("kill").args(["-KILL", &process.to_string()]));
    }
}

/// The process and its descendants, parents first.
fn below(first: u32) -> Vec<u32> {
    let pairs: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|process| Some((process, parent(process)?)))
        .collect();
    let mut all = vec![first];
    let mut next = 0;
    while let Some(&above) = all.get(next) {
        all.extend(pairs.iter().filter(|(_, parent)| *parent == above).map(|(process, _)| process));
        next += 1;
    }
    all
}

fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may have any letter in it.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn describe(process: u32) {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let command = read(format!("/proc/{process}/cmdline")).replace('\0', " ");
    println!("\n---- process {process}: {command}");
    for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let of = |name: &str| read(thread.path().join(name).display().to_string()).trim().to_owned();
        let name = thread.file_name();
        println!("  {} {}: {} [{}]", name.display(), of("comm"), of("wchan"), of("syscall"));
    }
    let stacks = ["-batch", "-ex", "thread apply all backtrace 30", "-p", &process.to_string()];
    if let Ok(said) = Command::new("timeout").args(["60", "gdb"]).args(stacks).output() {
        println!("{}", String::from_utf8_lossy(&said.stdout));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn what_hangs_is_killed_with_all_that_it_started() {
        let mut shell = Command::new("sh").args(["-c", "sleep 600 & sleep 600"]).spawn().expect("a shell");
        let since = Instant::now();
        let result = wait_for(&mut shell, Duration::from_millis(500));
        assert!(result.is_err_and(|why| why.contains("did not end")));
        assert!(since.elapsed() < Duration::from_secs(500), "it was waited for");
        assert_eq!(below(shell.id()), [shell.id()], "processes below it are left");
    }

    #[test]
    fn what_ends_in_time_says_how() {
        for (command, want) in [("exit 0", 0), ("exit 3", 3)] {
            let mut shell = Command::new("sh").args(["-c", command]).spawn().expect("a shell");
            let status = wait_for(&mut shell, Duration::from_secs(500)).expect("it ended");
            assert_eq!(status.code(), Some(want), "{command}");
        }
    }
}
