//! `npu-smi info`: two rows for each chip, then the processes.

use ferry::engine::usage::Process;
use ferry::products;
use ferry_abi::Result;

use super::cards::{Cards, megabytes, of_device};
use super::values::{TEMPERATURE, VERSION, power, shown};

/// How wide things are; it differs between products.
struct Layout {
    /// The columns, without the lines between them.
    columns: [usize; 3],
    /// What stands before the second word of the first column.
    number: usize,
    /// What stands before the second and the third value of the last column.
    values: [usize; 2],
    /// What stands before the version.
    title: usize,
    /// Whether the first column is two.
    is_split: bool,
    /// Whether there is a value for HBM.
    has_hbm: bool,
}

/// What a chip says in the first row and the second: three cells, and three values in the last of them.
type ChipRows = [([String; 2], String, [String; 3]); 2];

/// The whole answer.
pub fn text(cards: &Cards) -> Result<String> {
    let (layout, processes) = (Layout::of(cards), cards.processes());
    let mut text = layout.head(cards);
    for card in 0..cards.count() {
        for device in cards.chips(card) {
            if device > cards.chips(card).start {
                text += &format!("+{}+\n", "-".repeat(layout.width()));
            }
            for (first, second, values) in rows(cards, device, &processes)? {
                text += &layout.row(&first, &second, &values);
            }
        }
        text += &layout.rule('=', false);
    }
    if cards.product.bit != products::B200I {
        text += &layout.processes(cards, &processes);
    }
    Ok(text)
}

fn rows(cards: &Cards, device: usize, processes: &[Process]) -> Result<ChipRows> {
    let (card, chip) = cards.place(device);
    let memory = cards.memory(device, processes)?;
    let (used, nothing) = (pair(memory.used, memory.total), pair(0, 0));
    let second = match cards.product.bit {
        products::B950 => [String::new(), String::new()],
        products::A3 | products::INF | products::B200I => [chip.to_string(), device.to_string()],
        _ => [chip.to_string(), String::new()],
    };
    let (memory, hbm) = if cards.product.has_hbm { (nothing.clone(), used) } else { (used, String::new()) };
    Ok([
        (
            [card.to_string(), cards.name()],
            "OK".to_owned(),
            [power(cards, chip).to_owned(), TEMPERATURE.to_owned(), nothing],
        ),
        (second, cards.bus(device), ["0".to_owned(), memory, hbm]),
    ])
}

fn pair(used: u64, total: u64) -> String {
    format!("{used:<5}/ {total}")
}

impl Layout {
    fn of(cards: &Cards) -> Layout {
        let has_hbm = cards.product.has_hbm;
        let is_split = cards.product.bit == products::B950;
        if has_hbm {
            return Layout {
                columns: [27, 15, 52],
                number: 6,
                values: [12, 18],
                title: 33,
                is_split,
                has_hbm,
            };
        }
        Layout { columns: [31, 17, 54], number: 8, values: [13, 18], title: 49, is_split, has_hbm }
    }

    /// All columns and the lines between them.
    fn width(&self) -> usize {
        self.columns.iter().sum::<usize>() + 2
    }

    fn head(&self, cards: &Cards) -> String {
        let title = format!("{:<1$}Version: {VERSION}", format!("npu-smi {VERSION}"), self.title);
        let mut text = format!("+{}+\n", "-".repeat(self.width()));
        text += &format!("| {title:<0$}|\n", self.width() - 1);
        text += &self.rule('-', self.is_split);
        let words = |words: [&str; 2]| words.map(str::to_owned);
        let values = |values: [&str; 3]| values.map(str::to_owned);
        let [first, second] = match cards.product.bit {
            products::B950 => [["NPU ID", "Name"], ["", ""]],
            products::A3 => [["NPU", "Name"], ["Chip", "Phy-ID"]],
            products::INF | products::B200I => [["NPU", "Name"], ["Chip", "Device"]],
            _ => [["NPU", "Name"], ["Chip", ""]],
        };
        let hbm = if self.has_hbm { "HBM-Usage(MB)" } else { "" };
        let busy = if cards.product.bit == products::B950 { "NPU Util(%)" } else { "AICore(%)" };
        text += &self.row(&words(first), "Health", &values(["Power(W)", "Temp(C)", "Hugepages-Usage(page)"]));
        text += &self.row(&words(second), "Bus-Id", &values([busy, "Memory-Usage(MB)", hbm]));
        text + &self.rule('=', self.is_split)
    }

    fn row(&self, first: &[String; 2], second: &str, values: &[String; 3]) -> String {
        let [number, name] = first;
        let first = match self.is_split {
            true => format!("{number:<6} | {name}"),
            false => format!("{number:<0$}{name}", self.number),
        };
        let [a, b, c] = values;
        let values = format!("{a:<0$}{b:<1$}{c}", self.values[0], self.values[1]);
        self.cells(&[(&first, self.columns[0]), (second, self.columns[1]), (&values, self.columns[2])])
    }

    fn cells(&self, cells: &[(&str, usize)]) -> String {
        let mut text = String::new();
        for (cell, width) in cells {
            text += &format!("| {cell:<0$}", width - 1);
        }
        text + "|\n"
    }

    fn rule(&self, line: char, is_split: bool) -> String {
        let of = |width: usize| line.to_string().repeat(width);
        let [first, second, last] = self.columns;
        let first = if is_split { format!("{}+{}", of(8), of(first - 9)) } else { of(first) };
        format!("+{first}+{}+{}+\n", of(second), of(last))
    }

    fn processes(&self, cards: &Cards, processes: &[Process]) -> String {
        let head = match cards.product.bit {
            products::B950 => "NPU ID".to_owned(),
            _ => format!("{:<8}Chip", "NPU"),
        };
        let mut text = self.rule('-', false);
        text += &self.process(&head, "Process id", "Process name", "Process memory(MB)");
        text += &self.rule('=', false);
        for card in 0..cards.count() {
            text += &self.processes_of(cards, card, processes);
            text += &self.rule('=', false);
        }
        text
    }

    fn processes_of(&self, cards: &Cards, card: usize, processes: &[Process]) -> String {
        let mut text = String::new();
        for (chip, device) in cards.chips(card).enumerate() {
            let place = match cards.product.bit {
                products::B950 => card.to_string(),
                _ => format!("{card:<8}{chip}"),
            };
            for (process, bytes) in of_device(processes, device) {
                let (pid, memory) = (process.pid.to_string(), megabytes(bytes).to_string());
                text += &self.process(&place, &pid, &shown(&process.name), &memory);
            }
        }
        if text.is_empty() {
            let idle = format!("No running processes found in NPU {card}");
            return self.cells(&[(&idle, self.width())]);
        }
        text
    }

    fn process(&self, place: &str, pid: &str, name: &str, memory: &str) -> String {
        const NAME: usize = 26;
        let [first, second, last] = self.columns;
        self.cells(&[(place, first), (pid, second), (name, NAME), (memory, last - NAME - 1)])
    }
}
