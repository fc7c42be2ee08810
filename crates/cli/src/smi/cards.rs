//! The devices as cards with chips. They are those that a program would get without
//! ASCEND_RT_VISIBLE_DEVICES: the card's own command does not heed that either, and programs that set it look
//! for a device by its number on the machine.

use std::ops::Range;

use ferry::engine::usage::{self, Process};
use ferry::products::{self, Product};
use ferry::{Options, Runtime};
use ferry_abi::{Error, Result};

/// The devices of this machine.
pub struct Cards {
    runtime: Runtime,
    /// The product that the devices are of.
    pub product: &'static Product,
    /// The SoC name without the word in front: `910B1`, `910_9391`.
    model: String,
}

/// How much of a device's memory is in use, in megabytes of 2^20 bytes.
#[derive(Clone, Copy)]
pub struct MemoryUse {
    /// In use.
    pub used: u64,
    /// All that the device has.
    pub total: u64,
}

impl Cards {
    /// Opens what the environment asks for.
    pub fn open() -> Result<Cards> {
        let options = Options { visible: None, ..Options::from_env().map_err(failed)? };
        let model = options.soc.trim_start_matches("Ascend").to_owned();
        let product = options.product;
        Ok(Cards { runtime: Runtime::open(&options).map_err(failed)?, product, model })
    }

    /// Chips of a whole card.
    fn chips_of_card(&self) -> usize {
        if self.product.bit == products::A3 { 2 } else { 1 }
    }

    /// How many cards.
    pub fn count(&self) -> usize {
        self.devices().div_ceil(self.chips_of_card())
    }

    /// How many devices: chips of all cards.
    pub fn devices(&self) -> usize {
        self.runtime.device_count()
    }

    /// The devices of a card: chip `i` is the `i`th.
    pub fn chips(&self, card: usize) -> Range<usize> {
        let (first, whole) = (card * self.chips_of_card(), self.chips_of_card());
        first..(first + whole).min(self.devices())
    }

    /// The card and chip of a device.
    pub fn place(&self, device: usize) -> (usize, usize) {
        (device / self.chips_of_card(), device % self.chips_of_card())
    }

    /// Makes sure that there is such a card, and such a chip of it.
    pub fn find(&self, card: usize, chip: Option<usize>) -> Result<(usize, Option<usize>)> {
        let count = self.count();
        if card >= count {
            return Err(Error::Setup(format!("there is no card {card}: there are {count}, numbered from 0")));
        }
        let chips = self.chips(card).len();
        match chip.filter(|chip| *chip >= chips) {
            Some(chip) => {
                Err(Error::Setup(format!("card {card} has no chip {chip}: it has {chips}, numbered from 0")))
            }
            None => Ok((card, chip)),
        }
    }

    /// What the product calls itself: `910B1`, `Ascend910`, `Ascend950PR`.
    pub fn name(&self) -> String {
        let family = self.model.split('_').next().unwrap_or_default();
        if self.has_npu_name() { format!("Ascend{family}") } else { self.model.clone() }
    }

    /// The SoC name.
    pub fn soc(&self) -> String {
        format!("Ascend{}", self.model)
    }

    /// The rest of its name, where that is told apart: `9391`.
    pub fn npu_name(&self) -> &str {
        self.model.split_once('_').map_or("", |(_, rest)| rest)
    }

    /// Whether the product's name is told in two parts.
    pub fn has_npu_name(&self) -> bool {
        self.product.bit & (products::A3 | products::B950) != 0
    }

    /// The address of a device on a bus that there is not.
    pub fn bus(&self, device: usize) -> String {
        match self.product.bit {
            products::B200I | products::B950 => "NA".to_owned(),
            _ => format!("0000:{:02X}:00.0", (0xC1 + 2 * device) & 0xFF),
        }
    }

    /// What a device has, and what of it is in use. Where processes share its memory the backend knows. Else
    /// it is what the backend knows of others (a GPU) or what the processes say, whichever is more; they may
    /// say more than there is, since each has a device's memory for itself: then it is all in use.
    pub fn memory(&self, device: usize, processes: &[Process]) -> Result<MemoryUse> {
        let info =
            self.runtime.device(device as u32).and_then(|device| device.memory_info()).map_err(failed)?;
        let taken = match self.runtime.options().device_shared {
            Some(_) => 0,
            None => of_device(processes, device).fold(0, |sum: u64, (_, bytes)| sum.saturating_add(bytes)),
        };
        let total = info.total as u64 >> 20;
        let used = taken.max((info.total - info.free) as u64);
        Ok(MemoryUse { used: megabytes(used).min(total), total })
    }

    /// The processes that use devices.
    pub fn processes(&self) -> Vec<Process> {
        usage::processes(self.runtime.backend())
    }
}

impl MemoryUse {
    /// In per cent.
    pub fn rate(&self) -> u64 {
        self.used * 100 / self.total.max(1)
    }
}

/// The processes that use a device, and their bytes.
pub fn of_device(processes: &[Process], device: usize) -> impl Iterator<Item = (&Process, u64)> {
    processes.iter().filter_map(move |process| Some((process, *process.devices.get(&(device as u32))?)))
}

/// Bytes in whole megabytes of 2^20 bytes: what is begun counts.
pub fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

fn failed(error: ferry::Error) -> Error {
    Error::Setup(error.to_string())
}
