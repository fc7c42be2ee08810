//! `npu-smi info -t topo`: how devices reach each other, and the CPUs beside them.

use ferry::products;

use super::cards::Cards;

const LEGEND: [(&str, &str); 9] = [
    ("X", "the device itself"),
    ("SYS", "over PCIe and the link between NUMA nodes"),
    ("PHB", "over PCIe and the CPU's own bridge"),
    ("PIX", "over one PCIe switch"),
    ("PXB", "over several PCIe switches"),
    ("HCCS", "over HCCS"),
    ("SIO", "inside a card"),
    ("HCCS_SW", "over an HCCS switch"),
    ("NA", "not known"),
];

/// The matrix, and what its words mean.
pub fn text(cards: &Cards) -> String {
    let word = if cards.product.bit == products::A3 { "Phy-ID" } else { "NPU" };
    let (names, cpus) = ((0..cards.devices()).map(|device| format!("{word}{device}")), cpus());
    let mut text: String = [String::new()].into_iter().chain(names.clone()).map(|name| cell(&name)).collect();
    text += "CPU Affinity\n";
    for (device, name) in names.enumerate() {
        text += &cell(&name);
        text += &(0..cards.devices()).map(|other| cell(link(cards, device, other))).collect::<String>();
        text += &format!("{cpus}\n");
    }
    text += "\nLegend:\n\n";
    text + &LEGEND.map(|(word, meaning)| format!("  {word:<8}= {meaning}\n")).concat()
}

fn cell(text: &str) -> String {
    format!("{text:<11}")
}

/// What a real machine with such devices has between two of them.
fn link(cards: &Cards, device: usize, other: usize) -> &'static str {
    match cards.product.bit {
        _ if device == other => "X",
        products::INF | products::B200I => "PHB",
        products::A3 if cards.place(device).0 == cards.place(other).0 => "SIO",
        products::A3 => "HCCS_SW",
        _ => "HCCS",
    }
}

/// The CPUs of this machine, all equally near.
fn cpus() -> String {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online");
    online.map(|text| text.trim().to_owned()).ok().filter(|text| !text.is_empty()).unwrap_or_else(|| {
        let count = std::thread::available_parallelism().map_or(1, |count| count.get());
        format!("0-{}", count - 1)
    })
}
