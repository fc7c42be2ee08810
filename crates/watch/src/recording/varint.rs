//! Numbers and strings in as few bytes as they need: LEB128, with the sign in the lowest bit where there is
//! one.

/// The bytes are no record of this format; says what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

/// Appends values to bytes.
#[derive(Default)]
pub struct Encoder {
    /// What was written so far.
    pub bytes: Vec<u8>,
}

impl Encoder {
    /// A number.
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// A number that may be negative.
    pub fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63) as u64);
    }

    /// The difference between two numbers, modulo 2^64.
    pub fn difference(&mut self, value: u64, before: u64) {
        self.signed(value.wrapping_sub(before) as i64);
    }

    /// A string of bytes, with its length.
    pub fn string(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// A number that may be missing.
    pub fn optional(&mut self, value: Option<u32>) {
        self.number(value.map_or(0, |value| u64::from(value) + 1));
    }
}

/// Takes values from bytes.
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Of all these bytes.
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: bytes }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| Malformed("a record ends early".into()))?;
        self.rest = rest;
        Ok(*first)
    }

    /// A number.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed("a number has more than 64 bits".into()))
    }

    /// A number below 2^32.
    pub fn small(&mut self) -> Result<u32, Malformed> {
        let value = self.number()?;
        u32::try_from(value).map_err(|_| Malformed(format!("{value} where a number below 2^32 belongs")))
    }

    /// A number that may be negative.
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The number that has this difference from another one.
    pub fn difference(&mut self, before: u64) -> Result<u64, Malformed> {
        Ok(before.wrapping_add(self.signed()? as u64))
    }

    /// A string of bytes.
    pub fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.count()?;
        let (string, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(string)
    }

    /// Text.
    pub fn text(&mut self) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.string()?).into_owned())
    }

    /// How many things follow, each of which has at least one byte.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.number()?;
        usize::try_from(count).ok().filter(|count| *count <= self.left()).ok_or_else(|| {
            Malformed(format!("a record announces {count} things, and {} bytes are left", self.left()))
        })
    }

    /// A number that may be missing.
    pub fn optional(&mut self) -> Result<Option<u32>, Malformed> {
        let value = self.number()?;
        let value = value.checked_sub(1).map(u32::try_from).transpose();
        value.map_err(|_| Malformed("a number below 2^32 belongs here".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), 1 << 63, u64::MAX];
        let mut encoder = Encoder::default();
        for number in numbers {
            encoder.number(number);
            encoder.signed(number as i64);
            encoder.difference(number, 77);
            encoder.optional(u32::try_from(number).ok());
        }
        encoder.string(b"text");
        let mut decoder = Decoder::new(&encoder.bytes);
        for number in numbers {
            assert_eq!(decoder.number(), Ok(number));
            assert_eq!(decoder.signed(), Ok(number as i64));
            assert_eq!(decoder.difference(77), Ok(number));
            assert_eq!(decoder.optional(), Ok(u32::try_from(number).ok()));
        }
        assert_eq!(decoder.text().as_deref(), Ok("text"));
        assert_eq!(decoder.left(), 0);
        assert!(decoder.byte().is_err());
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(Decoder::new(&[0xff; 10]).number().is_err(), "70 bits");
        assert!(Decoder::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).number().is_err());
        assert!(Decoder::new(&[5, b'a', b'b']).string().is_err(), "5 bytes, of which 2 are there");
        assert!(Decoder::new(&[0x80]).number().is_err(), "cut");
    }
}
