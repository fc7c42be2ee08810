//! The answers that are lines of a name and a value: `-l`, `-t board` and the like; and the table of `-m`.

use ferry::engine::usage::Process;
use ferry::products;
use ferry_abi::Result;

use super::cards::{Cards, MemoryUse, megabytes, of_device};
use super::request::CardQuery;
use super::values::{TEMPERATURE, VERSION, power, shown};

const INDENT: &str = "        ";

/// One line.
fn line(name: &str, value: impl std::fmt::Display) -> String {
    format!("{INDENT}{name:<31}: {value}\n")
}

/// `-l`.
pub fn list(cards: &Cards) -> String {
    let mut text = line("Total Count", cards.count()) + "\n";
    for card in 0..cards.count() {
        text += &line("NPU ID", card);
        text += &line("Chip Count", cards.chips(card).len());
        text += "\n";
    }
    text
}

/// `-m`: names of columns have single blanks in them and more between them; values are without blanks but for
/// the name.
pub fn mapping(cards: &Cards) -> String {
    let columns: &[&str] = match cards.product.bit {
        products::A3 => &["NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name"],
        products::B950 => &["NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name"],
        _ => &["NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"],
    };
    let mut text = columns_of(columns.iter().copied());
    for card in 0..cards.count() {
        for (chip, device) in cards.chips(card).enumerate() {
            text += &mapped(cards, card, chip, device);
        }
        // The controller of the card, which is no chip to compute with. A board and a 950 list none.
        let mcu = cards.chips(card).len();
        match cards.product.bit {
            products::B950 | products::B200I => {}
            products::A3 => text += &columns_of([&*card.to_string(), &*mcu.to_string(), "-", "-", "Mcu"]),
            _ => text += &columns_of([&*card.to_string(), &*mcu.to_string(), "-", "Mcu"]),
        }
    }
    text
}

fn mapped(cards: &Cards, card: usize, chip: usize, device: usize) -> String {
    let (name, [card, chip, device]) = (cards.name(), [card, chip, device].map(|number| number.to_string()));
    match cards.product.bit {
        products::A3 => columns_of([&*card, &*chip, &*device, &*device, &*name]),
        products::B950 => columns_of([&*card, &*card, &*chip, &*device, &*name]),
        _ => columns_of([&*card, &*chip, &*device, &*format!("Ascend {name}")]),
    }
}

fn columns_of<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let row: String = cells.into_iter().map(|cell| format!("{cell:<31}")).collect();
    format!("{INDENT}{}\n", row.trim_end())
}

/// `-t TYPE -i CARD`, with a chip or without.
pub fn of_card(cards: &Cards, query: CardQuery, card: usize, chip: Option<usize>) -> Result<String> {
    let device = cards.chips(card).start + chip.unwrap_or_default();
    match (query, chip) {
        (CardQuery::Board, None) => Ok(board(cards, card)),
        (CardQuery::Board, Some(chip)) => Ok(board_of_chip(cards, card, chip, device)),
        (CardQuery::Product, _) => Ok(line("Product Type", product_name(cards))),
        (CardQuery::Health, Some(_)) => {
            Ok(line("Health Status", "OK") + &line("Error Code", "NA") + &line("Error Information", "NA"))
        }
        (_, Some(_)) => of_chip(cards, query, device, &cards.processes()),
        (_, None) => of_all_chips(cards, query, card),
    }
}

fn of_all_chips(cards: &Cards, query: CardQuery, card: usize) -> Result<String> {
    let (chips, processes) = (cards.chips(card), cards.processes());
    let mut text = line("NPU ID", card) + &line("Chip Count", chips.len()) + "\n";
    for (chip, device) in chips.enumerate() {
        text += &of_chip(cards, query, device, &processes)?;
        text += &line("Chip ID", chip);
        text += "\n";
    }
    Ok(text)
}

fn of_chip(cards: &Cards, query: CardQuery, device: usize, processes: &[Process]) -> Result<String> {
    let memory = || cards.memory(device, processes);
    Ok(match query {
        CardQuery::Health => line("Health", "OK"),
        CardQuery::Processes => processes_of(device, processes),
        CardQuery::Memory => capacity(cards, memory()?),
        CardQuery::Usages => usages(cards, memory()?),
        _ => common(cards, device, memory()?),
    })
}

fn processes_of(device: usize, processes: &[Process]) -> String {
    let each = |(process, bytes): (&Process, u64)| {
        let (pid, name, memory) = (process.pid, shown(&process.name), megabytes(bytes));
        format!("{INDENT}Process id:{pid} Process name:{name:<18} Process memory(MB):{memory}\n")
    };
    let text: String = of_device(processes, device).map(each).collect();
    if text.is_empty() { format!("{INDENT}No process in device.\n") } else { text }
}

/// What the product calls its memory, before the name of a value: it has HBM, DDR, or one memory for all.
fn kind_of_memory(cards: &Cards) -> &'static str {
    match cards.product.bit {
        products::B200I => "",
        _ if cards.product.has_hbm => "HBM ",
        _ => "DDR ",
    }
}

fn capacity(cards: &Cards, memory: MemoryUse) -> String {
    let kind = kind_of_memory(cards);
    let mut text = String::new();
    if cards.product.has_hbm {
        text += &line("DDR Capacity(MB)", 0);
        text += &line("DDR Clock Speed(MHz)", 0);
    }
    text += &line(&format!("{kind}Capacity(MB)"), memory.total);
    text += &line(&format!("{kind}Clock Speed(MHz)"), "NA");
    if cards.product.has_hbm {
        text += &line("HBM Temperature(C)", "NA");
        text += &line("HBM Manufacturer ID", "NA");
    }
    text
}

fn usages(cards: &Cards, memory: MemoryUse) -> String {
    let (kind, has_hbm) = (kind_of_memory(cards), cards.product.has_hbm);
    let mut text = String::new();
    if has_hbm {
        text += &line("DDR Capacity(MB)", 0);
    }
    text += &line(&format!("{kind}Capacity(MB)"), memory.total);
    if has_hbm {
        text += &line("DDR Usage Rate(%)", 0);
    }
    let kind = if kind.is_empty() { "Memory " } else { kind };
    text += &line(&format!("{kind}Usage Rate(%)"), memory.rate());
    text += &line("Aicore Usage Rate(%)", 0);
    if cards.product.cores.vector > 0 && has_hbm {
        text += &line("Aivector Usage Rate(%)", 0);
    }
    text += &line("Aicpu Usage Rate(%)", 0);
    text += &line("Ctrlcpu Usage Rate(%)", 0);
    text += &line(&format!("{kind}Bandwidth Usage Rate(%)"), 0);
    text + &line("NPU Utilization(%)", 0)
}

fn common(cards: &Cards, device: usize, memory: MemoryUse) -> String {
    let mut text = match cards.product.has_hbm {
        true => line("Memory Usage Rate(%)", 0) + &line("HBM Usage Rate(%)", memory.rate()),
        false => line("Memory Usage Rate(%)", memory.rate()),
    };
    text += &line("Aicore Usage Rate(%)", 0);
    text += &line("Aicore Freq(MHZ)", "NA");
    text += &line("Aicore curFreq(MHZ)", "NA");
    text += &line("Aicore Count", cards.product.cores.ai);
    text += &line("Temperature(C)", TEMPERATURE);
    text + &line("NPU Real-time Power(W)", power(cards, cards.place(device).1))
}

/// What says that there is no card.
fn product_name(cards: &Cards) -> String {
    format!("Ferry {}", cards.soc())
}

fn board(cards: &Cards, card: usize) -> String {
    let device = cards.chips(card).start;
    let mut text = line("NPU ID", card);
    text += &line("Product Name", product_name(cards));
    text += &["Model", "Manufacturer", "Serial Number"].map(|name| line(name, "NA")).concat();
    text += &line("Software Version", VERSION);
    text += &line("Firmware Version", "NA");
    text += &line("Compatibility", "OK");
    text += &["Board ID", "PCB ID", "BOM ID"].map(|name| line(name, "NA")).concat();
    text += &line("PCIe Bus Info", cards.bus(device));
    text += &line("Slot ID", card);
    text += &line("Class ID", "NA");
    text += &line("PCI Vendor ID", "0x19E5");
    text += &line("PCI Device ID", "NA");
    text += &line("Chip Count", cards.chips(card).len());
    if cards.product.bit == products::B950 {
        text += &line("NPU Name", cards.npu_name());
        text += &line("Chip Name", cards.name());
    }
    text
}

/// Programs put the product's name together from two lines, and tell by the names of these which two: one
/// that has both is refused.
fn board_of_chip(cards: &Cards, card: usize, chip: usize, device: usize) -> String {
    let mut text = line("NPU ID", card);
    if cards.has_npu_name() {
        text += &line("NPU Name", cards.npu_name());
    }
    text += &line("Chip ID", chip);
    if !cards.has_npu_name() {
        text += &line("Chip Type", "Ascend");
    }
    text += &line("Chip Name", cards.name());
    text += &line("Chip Version", "V1");
    text += &["Board ID", "PCB ID", "BOM ID"].map(|name| line(name, "NA")).concat();
    text += &line("VDie ID", die(device));
    text += &line("Chip Position ID", chip);
    text += &line("PCIe Bus Info", cards.bus(device));
    text + &line("Firmware Version", "NA")
}

/// Programs tell devices of a machine apart by this: five groups of eight digits, another for each device and
/// the same every time.
fn die(device: usize) -> String {
    format!("46455252 59000000 00000000 00000000 {:08X}", device + 1)
}
