//! Output of the command: colours and a progress line where it is a terminal, numbers with units, and write
//! errors.
//!
//! Everything that the command prints goes through here. The first write error on standard output is
//! remembered, so that the command can fail at its end.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first error of a write to standard output.
static LOST: OnceLock<io::Error> = OnceLock::new();
/// Whether the command was started with standard output closed.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's runtime starts, which opens /dev/null in place of a descriptor that is closed.
extern "C" fn check_standard_output() {
    // SAFETY: asks whether a descriptor is open.
    CLOSED.store(unsafe { libc::fcntl(1, libc::F_GETFD) } < 0, Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = check_standard_output;

/// What standard output, or standard error, can show.
#[derive(Clone, Copy)]
pub struct Terminal {
    live: bool,
    colours: bool,
    put: fn(&str),
}

/// A colour by its meaning.
#[derive(Clone, Copy)]
pub enum Colour {
    /// Green: right.
    Good = 32,
    /// Red: wrong.
    Bad = 31,
    /// Yellow: neither.
    Unsure = 33,
    /// Dim: of less interest.
    Quiet = 2,
    /// Bold: above others.
    Heading = 1,
}

impl Terminal {
    /// Standard output, with colours unless `NO_COLOR` or `TERM` say otherwise.
    pub fn stdout() -> Terminal {
        Terminal::new(io::stdout().is_terminal(), put)
    }

    /// Standard error, for where standard output carries data; its colours follow the rules of
    /// [`stdout`](Self::stdout).
    pub fn stderr() -> Terminal {
        Terminal::new(io::stderr().is_terminal(), tell)
    }

    /// No terminal at all, for text that goes elsewhere: without colours.
    pub fn plain() -> Terminal {
        Terminal { live: false, colours: false, put }
    }

    fn new(is_terminal: bool, put: fn(&str)) -> Terminal {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let live = is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Terminal { live, colours: live && !set("NO_COLOR"), put }
    }

    /// `text` in that colour, or as it is.
    pub fn paint(&self, colour: Colour, text: &str) -> String {
        if self.colours { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_owned() }
    }

    /// Shows a line that the next `say` or `show` replaces; nothing where output is not a terminal.
    pub fn show(&self, line: &str) {
        if self.live {
            (self.put)(&format!("\r\x1b[K{line}"));
        }
    }

    /// Prints a line that stays.
    pub fn say(&self, line: &str) {
        self.show("");
        (self.put)(&format!("{line}\n"));
    }
}

/// Writes to standard output.
pub fn put(text: &str) {
    put_by(|out| out.write_all(text.as_bytes()));
}

/// Lets `write` write to standard output, and remembers an error. A closed pipe (`ferry tour | head`) is
/// none.
pub fn put_by(write: impl FnOnce(&mut io::Stdout) -> io::Result<()>) {
    let mut out = io::stdout();
    let done = is_open().and_then(|()| write(&mut out)).and_then(|()| out.flush());
    if let Err(error) = done
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error);
    }
}

/// Fails if the command was started without a standard output.
pub fn is_open() -> io::Result<()> {
    let closed = || io::Error::from_raw_os_error(libc::EBADF);
    if CLOSED.load(Ordering::Relaxed) { Err(closed()) } else { Ok(()) }
}

/// The first error of a write to standard output, if there was one.
pub fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// Writes to standard error. An error there is ignored: it could not be reported.
pub fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Bytes with a binary unit and three figures: `512 B`, `11.7 MiB`.
pub fn bytes(count: usize) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{} {}", figures(value), UNITS[unit]) }
}

/// A time with a unit and three figures: `850 ns`, `1.20 ms`.
pub fn time(nanos: u64) -> String {
    const UNITS: [&str; 3] = ["us", "ms", "s"];
    if nanos < 1000 {
        return format!("{nanos} ns");
    }
    let mut value = nanos as f64 / 1e3;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", figures(value), UNITS[unit])
}

/// Three figures at most, and at most two after the point: `0.18`, `9.81`, `64.0`, `512`.
pub fn figures(value: f64) -> String {
    let decimals = [(100.0, 0), (10.0, 1)].iter().find(|(least, _)| value >= *least);
    format!("{value:.*}", decimals.map_or(2, |(_, decimals)| *decimals))
}

#[cfg(test)]
mod tests {
    use super::{bytes, figures, time};

    #[test]
    fn bytes_keep_three_figures() {
        for (count, want) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (1024, "1.00 KiB"),
            (12 << 20, "12.0 MiB"),
            (1000 << 20, "0.98 GiB"),
            (usize::MAX, "16777216 TiB"),
        ] {
            assert_eq!(bytes(count), want);
        }
    }

    #[test]
    fn times_keep_three_figures() {
        for (nanos, want) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1000, "1.00 us"),
            (1_234_567, "1.23 ms"),
            (60_000_000_000, "60.0 s"),
            (7_200_000_000_000, "7200 s"),
        ] {
            assert_eq!(time(nanos), want);
        }
    }

    #[test]
    fn figures_follow_the_size() {
        for (value, want) in [(0.1824, "0.18"), (9.814, "9.81"), (64.0, "64.0"), (512.3, "512")] {
            assert_eq!(figures(value), want);
        }
    }
}
