//! The outer layer of a recording's file: frames, compressed and with checksums.
//!
//! A file that was cut, or in which bytes have changed, is good up to the first frame that is not what its
//! checksum says. What the frames hold is the business of `record`.

use crate::ContentHasher;
use std::io::{self, Write};

/// The first bytes of every recording.
pub const MAGIC: [u8; 8] = *b"ferryrec";
/// The version of the format.
pub const VERSION: u32 = 1;
/// Bytes before the first frame: magic, version, zeros.
pub const FILE_HEADER: usize = 16;
/// Bytes before what a frame holds: how many follow, how many they are unpacked, checksum.
pub const FRAME_HEADER: usize = 16;
/// A frame is written when it has this many bytes.
const FRAME_TARGET: usize = 256 << 10;
/// No frame has more unpacked bytes: a record has at most [`LONGEST_STRING`] and a little.
const FRAME_LIMIT: usize = 64 << 20;
/// No string of bytes in a record is longer: what is longer is cut into several records.
pub const LONGEST_STRING: usize = 1 << 20;

/// Writes frames.
pub struct FrameWriter<W> {
    file: W,
    pending: Vec<u8>,
}

impl<W: Write> FrameWriter<W> {
    /// Begins a file.
    pub fn new(mut file: W) -> io::Result<FrameWriter<W>> {
        let mut header = [0; FILE_HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        file.write_all(&header)?;
        Ok(FrameWriter { file, pending: Vec::new() })
    }

    /// One record more. Records do not go on in another frame.
    pub fn record(&mut self, record: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(record);
        if self.pending.len() >= FRAME_TARGET { self.flush() } else { Ok(()) }
    }

    /// Writes a frame of what came since the last one.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let packed = lz4_flex::block::compress(&self.pending);
        // Bytes that do not become fewer stay as they are, which their two lengths show.
        let payload = if packed.len() < self.pending.len() { &packed } else { &self.pending };
        write_frame(&mut self.file, payload, self.pending.len())?;
        self.pending.clear();
        self.file.flush()
    }

    /// The file, without what is left.
    pub fn into_file(self) -> W {
        self.file
    }

    /// Writes what is left, and the frame that ends a file.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        write_frame(&mut self.file, &[], 0)?;
        self.file.flush()?;
        Ok(self.file)
    }
}

fn write_frame(file: &mut impl Write, payload: &[u8], unpacked: usize) -> io::Result<()> {
    let lengths = [payload.len() as u32, unpacked as u32];
    let mut header = [0; FRAME_HEADER];
    header[..4].copy_from_slice(&lengths[0].to_le_bytes());
    header[4..8].copy_from_slice(&lengths[1].to_le_bytes());
    let checksum = checksum(&header[..8], payload);
    header[8..].copy_from_slice(&checksum.to_le_bytes());
    file.write_all(&header)?;
    file.write_all(payload)
}

fn checksum(lengths: &[u8], payload: &[u8]) -> u64 {
    let mut hasher = ContentHasher::default();
    hasher.add(lengths);
    hasher.add(payload);
    hasher.finish()
}

/// Checks the first bytes of a file; returns those behind them.
pub fn open(file: &[u8]) -> Result<&[u8], String> {
    if file.get(..8) != Some(&MAGIC[..]) {
        return Err("this is no recording: a file that `ferry record` wrote begins with \"ferryrec\"".into());
    }
    let Some((header, frames)) = file.split_at_checked(FILE_HEADER) else {
        return Err(format!("the recording ends after {} bytes, within its header", file.len()));
    };
    let version = word(header, 8);
    match version {
        VERSION if word(header, 12) == 0 => Ok(frames),
        VERSION => Err("the header of the recording is damaged: its last four bytes are not 0".into()),
        _ => Err(format!(
            "the recording has version {version} of the format, and this ferry reads version {VERSION}"
        )),
    }
}

/// A frame, unpacked, and what is behind it.
pub type UnpackedFrame<'a> = (Vec<u8>, &'a [u8]);

/// The first frame. `None` at the one that ends the file.
pub fn next_frame(rest: &[u8]) -> Result<Option<UnpackedFrame<'_>>, String> {
    let Some((header, rest)) = rest.split_at_checked(FRAME_HEADER) else {
        return Err(match rest.len() {
            0 => "the file ends without the frame that marks its end".into(),
            left => format!("the file ends {left} bytes into the header of a frame"),
        });
    };
    let (stored, unpacked) = (word(header, 0) as usize, word(header, 4) as usize);
    let Some((payload, rest)) = rest.split_at_checked(stored) else {
        return Err(format!(
            "a frame of {stored} bytes begins {} bytes before the end of the file",
            rest.len()
        ));
    };
    let expected = u64::from(word(header, 8)) | u64::from(word(header, 12)) << 32;
    if checksum(&header[..8], payload) != expected {
        return Err("the bytes of a frame are not what its checksum says".into());
    }
    if (stored, unpacked) == (0, 0) {
        return match rest.len() {
            0 => Ok(None),
            left => Err(format!("{left} bytes follow the frame that marks the end")),
        };
    }
    if unpacked > FRAME_LIMIT {
        return Err(format!("a frame claims {unpacked} bytes, and the format allows {FRAME_LIMIT}"));
    }
    let unpacked = match stored == unpacked {
        true => payload.to_vec(),
        false => lz4_flex::block::decompress(payload, unpacked)
            .map_err(|why| format!("a frame cannot be unpacked: {why}"))?,
    };
    Ok(Some((unpacked, rest)))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}
