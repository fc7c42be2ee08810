//! One line for a program that touched a device pointer; `ferry run` asks for it. Written by a signal
//! handler: nothing is allocated, and nothing but system calls is used.

/// Says so on standard error if `addr` is a device's.
pub fn write(addr: usize) {
    let Some(owner) = owner_of(addr) else { return };
    let mut text = NoteText::default();
    text.push(b"ferry: the program touched ");
    text.push_hex(addr);
    match owner {
        Owner::Device(device) => {
            text.push(b", memory of device ");
            text.push_number(device);
            text.push(b", from the CPU: device pointers can only be copied from and to (aclrtMemcpy)\n");
        }
        Owner::Devices => text.push(
            b", addresses for devices (aclrtReserveMemAddress, aclrtHostRegister), from the CPU: it cannot \
                use them\n",
        ),
    }
    // SAFETY: writes our own bytes to standard error.
    unsafe { libc::write(2, text.bytes.as_ptr().cast(), text.len) };
}

/// Whether `addr` is a device's.
pub fn is_device(addr: usize) -> bool {
    owner_of(addr).is_some()
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
    let (mut found, mut line, mut piece) = (None, NoteText::default(), [0_u8; 512]);
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
struct NoteText {
    bytes: [u8; 256],
    len: usize,
}

impl Default for NoteText {
    fn default() -> Self {
        NoteText { bytes: [0; 256], len: 0 }
    }
}

impl NoteText {
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

#[cfg(all(test, not(loom)))]
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
