//! One line for a program that died on a device pointer. Installed only under `ferry run`.

use std::{mem, ptr, sync::OnceLock};

/// What the program itself had for this signal.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Says what happened if the faulting address is a device's, then lets the signal take the course it would have taken.
pub fn install() {
    // SAFETY: the handler uses only system calls and its own stack; both actions are valid for the calls.
    unsafe {
        let mut before: libc::sigaction = mem::zeroed();
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, ptr::null(), &mut before);
        if BEFORE.set(before).is_ok() {
            libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
        }
    }
}

extern "C" fn on_fault(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo to a SA_SIGINFO handler, and SIGSEGV fills in the address.
    let addr = unsafe { (*info).si_addr() } as usize;
    let mut text = Line::default();
    if let Some(owner) = owner_of(addr) {
        text.push(b"ferry: the program touched ");
        text.push_hex(addr);
        match owner {
            Owner::Device(device) => {
                text.push(b", memory of device ");
                text.push_number(device);
                text.push(b", from the CPU: device pointers can only be copied from and to (aclrtMemcpy)\n");
            }
            Owner::Devices => text.push(
                b", addresses for devices (aclrtReserveMemAddress, aclrtHostRegister), from the CPU: it cannot use them\n",
            ),
        }
        // SAFETY: writes our own bytes to standard error.
        unsafe { libc::write(2, text.bytes.as_ptr().cast(), text.len) };
    }
    if let Some(before) = BEFORE.get() {
        // Returning repeats the access, which then meets what the program had: its own handler, or the end.
        // SAFETY: an action that the kernel gave us.
        unsafe { libc::sigaction(libc::SIGSEGV, before, ptr::null_mut()) };
    }
}

/// Whose addresses the CPU has no business with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Memory of this device.
    Device(usize),
    /// Reserved for mappings, or the devices' addresses of registered memory.
    Devices,
}

/// Whose addresses hold `addr`, read from the maps by name, without allocating.
fn owner_of(addr: usize) -> Option<Owner> {
    // SAFETY: a constant path.
    let fd = unsafe { libc::open(c"/proc/thread-self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let (mut found, mut line, mut piece) = (None, Line::default(), [0_u8; 512]);
    loop {
        // SAFETY: reads into our own buffer.
        let got = unsafe { libc::read(fd, piece.as_mut_ptr().cast(), piece.len()) };
        let Some(got) = usize::try_from(got).ok().filter(|got| *got > 0) else { break };
        for byte in &piece[..got] {
            if *byte != b'\n' {
                line.push(&[*byte]);
                continue;
            }
            found = found.or_else(|| owner_in(&line.bytes[..line.len], addr));
            line.len = 0;
        }
    }
    // SAFETY: our own descriptor.
    unsafe { libc::close(fd) };
    found
}

/// Whom a line of the maps is about, if `addr` lies in it.
fn owner_in(line: &[u8], addr: usize) -> Option<Owner> {
    let dash = line.iter().position(|byte| *byte == b'-')?;
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (start, end) = (hex(&line[..dash])?, hex(&line[dash + 1..space])?);
    if !(start..end).contains(&addr) {
        return None;
    }
    if after(line, b":ferry:reserved").is_some() {
        return Some(Owner::Devices);
    }
    let digits = after(line, b":ferry:device")?.iter().take_while(|byte| byte.is_ascii_digit());
    Some(Owner::Device(digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))))
}

/// What follows `name` in a line.
fn after<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    line.windows(name.len()).position(|window| window == name).map(|at| &line[at + name.len()..])
}

fn hex(digits: &[u8]) -> Option<usize> {
    digits
        .iter()
        .try_fold(0_usize, |number, digit| Some(number << 4 | (*digit as char).to_digit(16)? as usize))
}

/// A line of text on the stack; what does not fit is cut.
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Line { bytes: [0; 256], len: 0 }
    }
}

impl Line {
    fn push(&mut self, text: &[u8]) {
        for byte in text {
            if self.len < self.bytes.len() {
                self.bytes[self.len] = *byte;
                self.len += 1;
            }
        }
    }

    fn push_number(&mut self, number: usize) {
        if number >= 10 {
            self.push_number(number / 10);
        }
        self.push(&[b'0' + (number % 10) as u8]);
    }

    fn push_hex(&mut self, number: usize) {
        self.push(b"0x");
        let digits = (usize::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for place in (0..digits).rev() {
            self.push(&[b"0123456789abcdef"[number >> (4 * place) & 15]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_lines_tell_the_owner() {
        let line = |name: &str| format!("7f0000000000-7f0000100000 ---s 00000000 00:01 12 {name}");
        for (name, owner) in [
            ("/memfd:ferry:device1 (deleted)", Some(Owner::Device(1))),
            ("/memfd:ferry:device12-imported (deleted)", Some(Owner::Device(12))),
            ("/memfd:ferry:reserved (deleted)", Some(Owner::Devices)),
            ("/usr/bin/ferry", None),
            ("/home/me/ferry:device1/libx.so", None),
            ("", None),
        ] {
            assert_eq!(owner_in(line(name).as_bytes(), 0x7f00_0000_0010), owner, "{name}");
            assert_eq!(owner_in(line(name).as_bytes(), 0x7f00_0010_0000), None, "past the end");
        }
    }
}
