//! The messages between exporter and importer, and the names of exports. Nothing here touches a socket.
//!
//! One question, one answer, both of fixed size and sent whole. An answer that shares memory brings the
//! descriptor.

/// Bytes of a question, the longest message of an importer.
pub const QUESTION: usize = 32;
/// Bytes of an answer.
pub const ANSWER: usize = 40;
/// The message that ends a lease.
pub const GOODBYE: [u8; 1] = [0];
/// Length of an export key without its NUL.
pub const KEY_TEXT: usize = 64;

/// Marks messages of this protocol, in this version.
const MAGIC: u64 = u64::from_le_bytes(*b"ferry-1\n");

/// What is exported. Each kind has secrets of its own, so that one is never taken for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExportKind {
    /// An allocation, under an export key.
    Allocation = 1,
    /// Physical memory, under a shareable handle.
    Physical = 2,
    /// An event, under the bytes of its handle.
    Event = 3,
    /// A notify, under an export key.
    Notify = 4,
}

impl ExportKind {
    /// What the export keys of this kind begin with, 24 characters.
    fn key_head(self) -> &'static str {
        match self {
            ExportKind::Allocation => "ferry-device-memory-key-",
            ExportKind::Physical => "ferry-physical-memory---",
            ExportKind::Event => "ferry-ipc-event-handle--",
            ExportKind::Notify => "ferry-notify-export-key-",
        }
    }

    /// The kind of this number.
    fn of_number(number: u64) -> Option<ExportKind> {
        let all = [ExportKind::Allocation, ExportKind::Physical, ExportKind::Event, ExportKind::Notify];
        all.into_iter().find(|kind| *kind as u64 == number)
    }
}

/// The name of an export: the number of the exporter's socket, and a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The exporter's socket.
    pub socket: u32,
    /// What is exported.
    pub what: ExportKind,
    /// A random number that only the key or handle tells; 32 bits of it for a shareable handle.
    pub secret: u128,
}

impl Name {
    /// The export key: 64 printable characters.
    pub fn to_key(self) -> String {
        format!("{}{:08x}{:032x}", self.what.key_head(), self.socket, self.secret)
    }

    /// The name that an export key of this kind stands for.
    pub fn from_key(what: ExportKind, key: &str) -> Option<Name> {
        let digits = key.strip_prefix(what.key_head()).filter(|_| key.len() == KEY_TEXT)?;
        if !digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let (socket, secret) = digits.split_at(8);
        let socket = u32::from_str_radix(socket, 16).ok()?;
        let secret = u128::from_str_radix(secret, 16).ok()?;
        Some(Name { socket, what, secret })
    }

    /// The shareable handle.
    pub fn to_handle(self) -> u64 {
        u64::from(self.socket) << 32 | (self.secret as u32) as u64
    }

    /// The name that a shareable handle stands for. Neither half of one that was given out is 0.
    pub fn from_handle(handle: u64) -> Option<Name> {
        let (socket, secret) = ((handle >> 32) as u32, handle as u32);
        (socket != 0 && secret != 0).then_some(Name {
            socket,
            what: ExportKind::Physical,
            secret: secret.into(),
        })
    }

    /// The question that an importer sends.
    pub fn to_question(self) -> [u8; QUESTION] {
        let mut bytes = [0; QUESTION];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&(self.what as u64).to_le_bytes());
        bytes[16..].copy_from_slice(&self.secret.to_le_bytes());
        bytes
    }

    /// The name that a question to the exporter at `socket` asks for; `None` for anything that no importer
    /// sends.
    pub fn from_question(socket: u32, bytes: &[u8]) -> Option<Name> {
        let bytes: &[u8; QUESTION] = bytes.try_into().ok()?;
        let what = ExportKind::of_number(word(bytes, 1)).filter(|_| word(bytes, 0) == MAGIC)?;
        let secret = u128::from(word(bytes, 3)) << 64 | u128::from(word(bytes, 2));
        Some(Name { socket, what, secret })
    }
}

/// The answer of an exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The memory is shared: its descriptor comes with this answer.
    Shared {
        /// The physical number of the device.
        device: u32,
        /// Where in the file it begins.
        offset: u64,
        /// Bytes of it.
        len: u64,
    },
    /// Nothing is exported under this name (any more).
    Unknown,
    /// It was exported, and has been freed since.
    Freed,
    /// The importer's process is not on the white list.
    NotListed,
    /// The exporter serves as many importers as it can, or the system gives it no descriptors.
    Full,
}

impl Answer {
    /// As it is sent.
    pub fn to_bytes(self) -> [u8; ANSWER] {
        let words = match self {
            Answer::Shared { device, offset, len } => [MAGIC, 0, device.into(), offset, len],
            Answer::Unknown => [MAGIC, 1, 0, 0, 0],
            Answer::Freed => [MAGIC, 2, 0, 0, 0],
            Answer::NotListed => [MAGIC, 3, 0, 0, 0],
            Answer::Full => [MAGIC, 4, 0, 0, 0],
        };
        let mut bytes = [0; ANSWER];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// As it was received; `None` for anything that no exporter sends.
    pub fn from_bytes(bytes: &[u8]) -> Option<Answer> {
        let bytes: &[u8; ANSWER] = bytes.try_into().ok()?;
        if word(bytes, 0) != MAGIC {
            return None;
        }
        let (device, offset, len) = (word(bytes, 2).try_into().ok()?, word(bytes, 3), word(bytes, 4));
        Some(match word(bytes, 1) {
            0 => Answer::Shared { device, offset, len },
            1 => Answer::Unknown,
            2 => Answer::Freed,
            3 => Answer::NotListed,
            4 => Answer::Full,
            _ => return None,
        })
    }
}

fn word(bytes: &[u8], index: usize) -> u64 {
    let bytes = bytes[index * 8..][..8].try_into().expect("eight bytes");
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: u128 = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;

    #[test]
    fn a_key_is_64_printable_characters_and_comes_back() {
        let from_key = |key: &str| Name::from_key(ExportKind::Allocation, key);
        for what in [ExportKind::Event, ExportKind::Notify, ExportKind::Allocation] {
            let name = Name { socket: 0xfe_dcba, what, secret: SECRET };
            let key = name.to_key();
            assert_eq!(key.len(), KEY_TEXT);
            assert!(key.bytes().all(|c| c.is_ascii_graphic()));
            assert_eq!(Name::from_key(what, &key), Some(name));
            assert_eq!(from_key(&key).is_some(), what == ExportKind::Allocation, "a key of another kind");
        }
        let key = Name { socket: 0xfe_dcba, what: ExportKind::Allocation, secret: SECRET }.to_key();
        let upper = key.to_uppercase();
        let signed = key.replace("key-0", "key-+");
        for garbage in
            ["", "x", &key[1..], &key[..63], &upper, &signed, &"f".repeat(64), &key.replace('e', "é")]
        {
            assert_eq!(from_key(garbage), None, "{garbage}");
        }
    }

    #[test]
    fn a_handle_comes_back_and_has_no_empty_half() {
        let name = Name { socket: 0x8000_0001, what: ExportKind::Physical, secret: 0xf000_0002 };
        assert_eq!(name.to_handle(), 0x8000_0001_f000_0002);
        assert_eq!(Name::from_handle(name.to_handle()), Some(name));
        for garbage in [0, 1, 1 << 32] {
            assert_eq!(Name::from_handle(garbage), None);
        }
    }

    #[test]
    fn questions_come_back_and_junk_does_not() {
        for what in [ExportKind::Allocation, ExportKind::Physical, ExportKind::Event, ExportKind::Notify] {
            let name = Name { socket: 7, what, secret: SECRET };
            let question = name.to_question();
            assert_eq!(Name::from_question(7, &question), Some(name));
            assert_eq!(Name::from_question(7, &question[..31]), None);
            for flip in [0, 7, 8, 15] {
                let mut bent = question;
                bent[flip] ^= 0x40;
                assert_eq!(Name::from_question(7, &bent), None, "byte {flip}");
            }
        }
        assert_eq!(Name::from_question(7, &[0; QUESTION]), None);
    }

    #[test]
    fn answers_come_back_and_junk_does_not() {
        let shared = Answer::Shared { device: 3, offset: 1 << 40, len: 5 };
        for answer in [shared, Answer::Unknown, Answer::Freed, Answer::NotListed, Answer::Full] {
            assert_eq!(Answer::from_bytes(&answer.to_bytes()), Some(answer));
        }
        let mut bent = shared.to_bytes();
        bent[8] = 9;
        assert_eq!(Answer::from_bytes(&bent), None);
        assert_eq!(Answer::from_bytes(&[]), None);
        bent = shared.to_bytes();
        bent[20] = 1;
        assert_eq!(Answer::from_bytes(&bent), None, "a device beyond 32 bits");
    }
}
