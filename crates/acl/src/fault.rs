//! One line for a program that died on a device pointer. Installed only under `ferry run`.

use std::{mem, ptr};

/// Says what happened if the faulting address is a device's, then lets the signal take its course.
pub fn install() {
    // SAFETY: the handler uses only system calls and its own stack.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
    }
}

extern "C" fn on_fault(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo to a SA_SIGINFO handler, and SIGSEGV fills in the address.
    let addr = unsafe { (*info).si_addr() } as usize;
    let mut text = Line::default();
    if let Some(device) = device_of(addr) {
        text.push(b"ferry: the program touched ");
        text.push_hex(addr);
        text.push(b", memory of device ");
        text.push(&[b'0' + device / 10, b'0' + device % 10][usize::from(device < 10)..]);
        text.push(b", from the CPU: device pointers can only be copied from and to (aclrtMemcpy)\n");
        // SAFETY: writes our own bytes to standard error.
        unsafe { libc::write(2, text.bytes.as_ptr().cast(), text.len) };
    }
    // The handler was reset on entry: returning repeats the access, which now ends the process as it would have.
}

/// The number of the device whose reserved addresses hold `addr`, read from the maps by name, without allocating.
fn device_of(addr: usize) -> Option<u8> {
    // SAFETY: a constant path.
    let fd = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
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
            found = found.or_else(|| device_in(&line.bytes[..line.len], addr));
            line.len = 0;
        }
    }
    // SAFETY: our own descriptor.
    unsafe { libc::close(fd) };
    found
}

/// The device that a line of the maps is about, if `addr` lies in it.
fn device_in(line: &[u8], addr: usize) -> Option<u8> {
    const NAME: &[u8] = b"ferry:device";
    let dash = line.iter().position(|byte| *byte == b'-')?;
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (start, end) = (hex(&line[..dash])?, hex(&line[dash + 1..space])?);
    let name = line.windows(NAME.len()).position(|window| window == NAME)?;
    let digits = line[name + NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let device = digits.fold(0_u8, |number, digit| number.wrapping_mul(10).wrapping_add(digit - b'0'));
    (start..end).contains(&addr).then_some(device % 100)
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
    fn maps_lines_tell_the_device() {
        let line = b"7f0000000000-7f0000100000 ---s 00000000 00:01 12 /memfd:ferry:device1 (deleted)";
        assert_eq!(device_in(line, 0x7f00_0000_0010), Some(1));
        assert_eq!(device_in(line, 0x7f00_0010_0000), None, "past the end");
        assert_eq!(device_in(b"7f0000000000-7f0000100000 rw-p 00000000 00:00 0", 0x7f00_0000_0010), None);
    }
}
