//! What the cuda backend can be told: the planner's numbers and how many threads stage pageable memory. Read
//! from text here; the environment is read by the code that opens the backend.

use crate::cuda::{stream::list_slots::INLINE_MAX, stream::planner::Direction};
use ferry_core::{Error, Kind, Result};
use std::{fmt, ops::RangeInclusive, str::FromStr};

/// All of it. The default is what an H200 was measured to want.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The planner's numbers.
    pub constants: Constants,
    /// Threads that stage pageable memory; `None` is as many as the CPUs suggest.
    pub stagers: Option<usize>,
}

impl Settings {
    /// What copies take from other work of a GPU, in words.
    pub fn footprint(&self) -> String {
        let Constants { blocks_in, blocks_out, resident_in, resident_out, .. } = &self.constants;
        let staying = format!("{resident_in} and {resident_out} for batches in a row");
        format!(" (copy kernels of {blocks_in} blocks in, {blocks_out} out; {staying})")
    }
}

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident = $value:expr,)*) => {
        /// The numbers by which the planner chooses between copy engines and kernels. As text: `name=value`,
        /// with commas between them; what is not named keeps its default.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Constants { $($(#[$doc])* pub $name: usize,)* }

        impl Default for Constants {
            fn default() -> Self {
                Constants::DEFAULT
            }
        }

        impl Constants {
            const DEFAULT: Constants = Constants { $($name: $value,)* };
            /// The names, in the order of the text.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            fn by_name(&mut self, name: &str) -> Option<&mut usize> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }

            fn values(&self) -> Vec<usize> {
                vec![$(self.$name),*]
            }
        }
    };
}

constants! {
    /// Fewer pieces than this go to the copy engine one by one, between host and device.
    list_from = 4,
    /// Fewer pieces than this go to the copy engine one by one, inside a device.
    list_from_within = 2,
    /// Up to so many pieces go into the parameters of a launch; more are a list in pinned memory.
    inline_most = INLINE_MAX,
    /// Pieces of at least this size, on average, go to the copy engine, between host and device.
    engine_from = 2 << 20,
    /// Pieces of at least this size, on average, go to the copy engine, inside a device.
    engine_from_within = 32 << 20,
    /// Pieces of at least this size, on average, go to several copy engines at once, between host and device,
    /// where the driver takes them all in one call. Where no kernel has blocks, pieces of any size do.
    together_size = 512 << 10,
    /// Fewer pieces than this do not go to several copy engines at once.
    together_from = 2,
    /// Pieces up to this size are never cut for a kernel.
    share_least = 4 << 10,
    /// Pieces longer than this are always cut for a kernel.
    share_most = 32 << 10,
    /// Single copies up to this size are coalesced with their neighbours.
    gather_most = 64 << 10,
    /// Blocks of a kernel that copies to the device; 0 is no kernels.
    blocks_in = 32,
    /// Blocks of a kernel that copies from the device; 0 is no kernels.
    blocks_out = 32,
    /// Blocks of a kernel that copies inside the device, the GPU's multiprocessors at most; 0 is no kernels.
    blocks_within = usize::MAX,
    /// Blocks of the kernel that stays on the GPU between batches to the device; 0 is no such kernel.
    resident_in = 6,
    /// Blocks of that kernel for batches from the device: stores over the link cost others more than loads.
    resident_out = 4,
    /// A batch of so many bytes has that kernel launched. Smaller ones do if they come in a row.
    resident_from = 256 << 10,
    /// Microseconds with nothing to do after which it ends.
    resident_idle = 300,
    /// Microseconds after which it ends behind the batches that it has, to be launched anew: what waits for
    /// all streams waits no longer.
    resident_life = 10_000,
    /// After so many pieces it waits for what it wrote to the host, so that this does not hold up the memory
    /// of others; 0 does not wait, 15 is the most.
    resident_pause = 15,
    /// Rows of at least this width go to a kernel on their way to the device, whatever their pitch.
    rows_in_from = 1,
    /// Rows of at most this width go to a kernel on their way to the device, whatever their pitch.
    rows_in_most = 40,
    /// Rows of at least this width go to a kernel on their way from the device, whatever their pitch.
    rows_out_from = 1,
    /// Rows of at most this width go to a kernel on their way from the device, whatever their pitch.
    rows_out_most = 0,
    /// Rectangles with fewer bytes than this do not go to a kernel by their width alone.
    rows_bytes = 128 << 10,
    /// Rows of at most this width go to a kernel if they are packed in host memory, with no gaps between
    /// them.
    rows_packed_most = 64,
    /// Rows with at least this pitch in host memory count as far apart.
    rows_far = 4 << 10,
    /// Rows of at most this width go to a kernel if they are far apart in host memory.
    rows_far_most = 128,
    /// Rectangles with fewer bytes than this do not go to a kernel for being packed or far apart.
    rows_other_bytes = 1 << 20,
    /// Rows of at most this width go to a kernel inside a device.
    rows_within_most = usize::MAX,
    /// Rectangles with fewer bytes than this do not go to a kernel inside a device.
    rows_within_bytes = 64 << 10,
    /// Rows that do not all start at multiples of this power of two go to the copy engine, between host and
    /// device.
    rows_unit = 4,
}

impl Constants {
    /// For memory that kernels cannot reach.
    pub const NO_KERNELS: Constants =
        Constants { blocks_in: 0, blocks_out: 0, blocks_within: 0, ..Constants::DEFAULT.without_batches() };

    /// These numbers for a driver that does not take all pieces in one call.
    pub const fn without_batches(self) -> Constants {
        Constants { together_from: usize::MAX, ..self }
    }

    /// Blocks of a kernel that copies in this direction.
    pub fn blocks(&self, direction: Direction) -> usize {
        match direction {
            Direction::In => self.blocks_in,
            Direction::Out => self.blocks_out,
            Direction::Within => self.blocks_within,
            Direction::Across => 0,
        }
    }

    /// Fewer pieces than this go one by one.
    pub fn list_from(&self, direction: Direction) -> usize {
        if direction == Direction::Within { self.list_from_within } else { self.list_from }
    }

    /// Pieces of this size are the copy engine's.
    pub fn engine_from(&self, direction: Direction) -> usize {
        if direction == Direction::Within { self.engine_from_within } else { self.engine_from }
    }

    /// Widths of rows that go to a kernel however they lie.
    pub fn widths(&self, direction: Direction) -> RangeInclusive<usize> {
        match direction {
            Direction::In => self.rows_in_from..=self.rows_in_most,
            Direction::Out => self.rows_out_from..=self.rows_out_most,
            Direction::Within => 1..=self.rows_within_most,
            Direction::Across => RangeInclusive::new(1, 0),
        }
    }

    /// These numbers with this many blocks for kernels between host and device, those that stay included: few
    /// leave the GPU to others, many are fast alone.
    pub fn with_blocks(self, blocks: usize) -> Constants {
        let [blocks_in, blocks_out, resident_in, resident_out] = [blocks; 4];
        Constants { blocks_in, blocks_out, resident_in, resident_out, ..self }
    }

    /// These numbers for one of so many devices that share a GPU with so many multiprocessors.
    pub fn on(&self, multiprocessors: usize, sharers: usize) -> Constants {
        // All blocks of all resident kernels are there at once, beside others, and where they can in pairs.
        let most = multiprocessors / 4 / sharers.max(1);
        let most = if most > 1 { most & !1 } else { most };
        Constants {
            blocks_within: self.blocks_within.min(multiprocessors),
            resident_in: self.resident_in.min(most),
            resident_out: self.resident_out.min(most),
            ..self.clone()
        }
    }
}

impl fmt::Display for Constants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<_> = Self::NAMES
            .iter()
            .zip(self.values())
            .map(|(name, value)| match value {
                usize::MAX => format!("{name}=any"),
                value => format!("{name}={value}"),
            })
            .collect();
        f.write_str(&pairs.join(","))
    }
}

impl FromStr for Constants {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut constants = Constants::default();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| bad(pair))?;
            let place = constants.by_name(name).ok_or_else(|| bad(pair))?;
            *place = number(value).ok_or_else(|| bad(pair))?;
        }
        constants.check()?;
        Ok(constants)
    }
}

impl Constants {
    /// What the kernels cannot do.
    fn check(&self) -> Result<()> {
        let refuse = |note| Err(Kind::BadSetting.because(note));
        if self.share_least.min(self.share_most) < SHARE_MIN {
            return refuse(format!("share_least and share_most are {SHARE_MIN} at least"));
        }
        if self.inline_most > INLINE_MAX {
            return refuse(format!("inline_most is {INLINE_MAX} at most"));
        }
        if self.resident_idle > IDLE_MOST {
            return refuse(format!("resident_idle is {IDLE_MOST} microseconds at most"));
        }
        Ok(())
    }
}

/// A kernel with nothing to do is waited for no longer, by other libraries and at the end.
const IDLE_MOST: usize = 10_000_000;
/// Pieces are not cut into smaller ones than these.
const SHARE_MIN: usize = 256;

/// A number, with K, M or G behind it for powers of 1024; or `any`, which is more than there can be.
fn number(text: &str) -> Option<usize> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ if text == "any" => return Some(usize::MAX),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

fn bad(pair: &str) -> Error {
    let names = Constants::NAMES.join(", ");
    Kind::BadSetting.because(format!("'{pair}' is not name=number with one of the names: {names}"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn text_changes_what_it_names_and_nothing_else() {
        let read: Constants = "engine_from=1M, blocks_in=8,rows_in_most=any".parse().expect("good text");
        let want = Constants {
            engine_from: 1 << 20,
            blocks_in: 8,
            rows_in_most: usize::MAX,
            ..Constants::default()
        };
        assert_eq!(read, want);
        assert_eq!("".parse(), Ok(Constants::default()));
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let odd = Constants { list_from: 7, rows_far: usize::MAX, ..Constants::default() };
        for constants in [Constants::default(), odd] {
            assert_eq!(constants.to_string().parse(), Ok(constants));
        }
        assert!(Constants::default().to_string().starts_with("list_from=4,list_from_within=2,"));
    }

    #[test]
    fn bad_text_is_refused_with_the_names() {
        for text in
            ["engine_from", "engine_from=", "engine_from=2T", "engines=2", "=2", "blocks_in=-1", "a=b=c"]
        {
            let why = text.parse::<Constants>().err().unwrap_or_else(|| panic!("'{text}' was taken"));
            assert_eq!(why.kind, Kind::BadSetting);
            assert!(why.note.contains("inline_most, engine_from, "), "{why}");
        }
        for (text, says) in [
            ("share_most=16", "256 at least"),
            ("inline_most=161", "160 at most"),
            ("resident_idle=any", "10000000 "),
        ] {
            let why = text.parse::<Constants>().expect_err(text);
            assert!(why.note.contains(says), "{why}");
        }
    }

    #[test]
    fn a_gpu_bounds_the_blocks_inside_it() {
        let constants = Constants::default().with_blocks(24).on(132, 1);
        assert_eq!((constants.blocks_in, constants.blocks_out, constants.blocks_within), (24, 24, 132));
        assert_eq!((constants.resident_in, constants.resident_out), (24, 24));
        let most = |multiprocessors, sharers| {
            let constants = Constants::default().with_blocks(64).on(multiprocessors, sharers);
            assert_eq!(constants.resident_in, constants.resident_out);
            constants.resident_in
        };
        assert_eq!([most(132, 1), most(132, 2), most(132, 3)], [32, 16, 10], "in pairs, all at once");
        assert_eq!([most(20, 3), most(20, 9), most(3, 1)], [1, 0, 0], "none where there is no room");
        let fewer: Constants = "blocks_within=40".parse().expect("good text");
        assert_eq!(fewer.on(132, 1).blocks_within, 40);
    }
}
