//! What public programs read of each answer, by their own rule, on every product that they know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use ferry::{DeviceBuffer, Options, Runtime};

use crate::{PRODUCTS, Product, last};

/// The client, what it makes of the answers, and what it must find; `None` where it does not know the
/// product.
type Rule = (&'static str, fn(&Product) -> String, fn(&Product) -> Option<String>);

/// This process has some of this device, so that there is a process to find.
const MINE: u32 = 1;

pub fn hold() {
    static HELD: OnceLock<DeviceBuffer<u8>> = OnceLock::new();
    HELD.get_or_init(|| {
        let runtime = Runtime::open(&Options::default()).expect("devices of memory");
        let device = runtime.device(MINE).expect("the second");
        device.alloc(176 << 20).expect("room")
    });
}

const RULES: [Rule; 27] = [
    ("llama.cpp: word 3 of line 7", word_3_of_line_7, named_first),
    ("IndexSDK: the same", word_3_of_line_7, named_first),
    ("vllm-ascend, tests: exit status", exit_status, |_| Some("0".to_owned())),
    ("vllm-ascend, benchmarks: rows with a number, cell, word 2", benchmark, named_first),
    ("vllm-ascend, cpu_binding: rows of processes, by the mapping", running, |p| {
        (!p.is("310B")).then(|| "true".to_owned())
    }),
    ("op-plugin: first number and word", number_and_word, named_first),
    ("xllm: first 910 and what follows", first_910, |p| {
        p.is("910").then(|| p.name.trim_start_matches("Ascend").trim_end_matches("-1").to_owned())
    }),
    ("triton-ascend: whether it is a 950", is_950, |p| Some(p.is("950").to_string())),
    ("MindStudio Insight: pairs of rows with an address", pairs, |p| has_bus(p).then(|| "4".to_owned())),
    ("MindStudio Insight: processes", pids, |p| knows_chips(p).then(|| "true".to_owned())),
    ("monitors: every card has processes or is idle", idle, |p| (!p.is("310B")).then(|| p.cards.to_string())),
    ("DeepSpeed: first line of the list", cards_listed, |p| Some(p.cards.to_string())),
    ("vllm-ascend: first card of the list", first_card, |p| Some(format!("0 of {}", p.cards))),
    ("MindIE, UCM: mapping without its first line", mapping, |p| {
        let name = if p.is("_9391") { "1 Ascend910".to_owned() } else { format!("Ascend {}", p.name) };
        let place = if p.cards == 2 { "0 1" } else { "1 0" };
        (!p.is("950")).then(|| format!("{place} 1 {name}"))
    }),
    ("verl: version of the driver, card 1 first", driver, |_| Some("true".to_owned())),
    ("sglang: the same of card 0", driver_of_first, |_| Some("25.5.0".to_owned())),
    ("vllm-ascend, dlrover: address of a card", address, |p| {
        Some(if has_bus(p) { "0000:c1:00.0" } else { "na" }.to_owned())
    }),
    ("vllm-ascend: product by the chip", product_by_chip, |p| (!p.is("950")).then(|| p.soc.to_lowercase())),
    ("vllm-ascend, sgl-kernel-npu: product by the board", product_by_board, |p| {
        Some(if p.is("950") { p.soc.to_lowercase() } else { "nothing".to_owned() })
    }),
    ("LMCache-Ascend: identity of each chip", dies, |_| Some("4 of 4".to_owned())),
    ("MindIE, UCM: address by a key without blanks", squeezed_address, |p| {
        Some(if has_bus(p) { "0000:C1:00.0" } else { "NA" }.to_owned())
    }),
    ("sgl-kernel-npu: generation", generation, |p| p.is("910").then(|| generation_of(p).to_owned())),
    ("MindIE: capacity and rate of memory", capacity_and_rate, |p| {
        Some(format!("65536 true {}", 4 / p.cards))
    }),
    ("op-plugin: AI cores", ai_cores, |p| Some(p.ai_cores.to_string())),
    ("vllm-ascend, worker: every card is healthy", healthy, |_| Some("true".to_owned())),
    ("topology: vllm-ascend CPUs, MindIE links, MindStudio Insight rows", topology, |p| {
        let (rows, links) = (if p.is("_9391") { 0 } else { 4 }, !p.is("310"));
        Some(format!("{rows} lists of CPUs, hccs {links}, 4 x 4"))
    }),
    ("checkpoint-engine: the chip of a process", chip_of_process, |p| {
        Some(if p.cards == 2 { "card 0 of 2 chips, chip 1" } else { "card 1 of 1 chips, chip 0" }.to_owned())
    }),
];

#[test]
fn every_client_finds_what_it_looks_for() {
    std::thread::scope(|scope| {
        for product in &PRODUCTS {
            scope.spawn(|| asked_by_all(product));
        }
    });
}

fn asked_by_all(product: &Product) {
    for (client, rule, want) in &RULES {
        if let Some(want) = want(product) {
            assert_eq!(rule(product), want, "{client}, on {}", product.soc);
        }
    }
}

fn named_first(product: &Product) -> Option<String> {
    (!product.is("950")).then(|| product.name.to_owned())
}

fn has_bus(product: &Product) -> bool {
    !product.is("310B") && !product.is("950")
}

/// Whether rows of processes say the chip.
fn knows_chips(product: &Product) -> bool {
    has_bus(product)
}

fn word_3_of_line_7(product: &Product) -> String {
    let table = product.says("info");
    table
        .lines()
        .nth(6)
        .and_then(|line| line.split(' ').filter(|word| !word.is_empty()).nth(2))
        .unwrap_or("")
        .to_owned()
}

fn exit_status(product: &Product) -> String {
    product.run("info").status.code().map_or_else(String::new, |code| code.to_string())
}

fn benchmark(product: &Product) -> String {
    let table = product.says("info");
    let is_row = |line: &&str| {
        line.strip_prefix("| ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let cell = table.lines().find(is_row).and_then(|line| line.split('|').nth(1)).unwrap_or_default();
    cell.split_whitespace().nth(1).unwrap_or_default().to_owned()
}

/// Cells of a line, without blanks around them.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// NPU and chip to logical number.
fn logical(product: &Product) -> BTreeMap<(String, String), String> {
    let text = product.says("info -m");
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let header: Vec<&str> =
        lines.next().unwrap_or_default().split("  ").map(str::trim).filter(|name| !name.is_empty()).collect();
    let column = |name| header.iter().position(|column| *column == name);
    let npu = column("NPU ID").expect("a column NPU ID");
    let rows = lines.map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let rows = rows.map(|parts| {
        let chip = column("Chip ID").map_or("0".to_owned(), |at| parts[at].clone());
        let logic = column("Chip Logic ID").map_or(parts[npu].clone(), |at| parts[at].clone());
        ((parts[npu].clone(), chip), logic)
    });
    rows.filter(|(_, logic)| logic.parse::<u32>().is_ok()).collect()
}

fn running(product: &Product) -> String {
    let (table, logical) = (product.says("info"), logical(product));
    let mut lines =
        table.lines().skip_while(|line| !(line.starts_with("| NPU") && line.contains("Process id")));
    let header = cells(lines.next().expect("a header of processes"))[0]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(header == "NPU Chip" || header == "NPU ID", "{header}");
    let mut found = BTreeSet::new();
    for row in lines.filter(|line| line.starts_with("| ")).map(cells).filter(|row| row.len() > 1) {
        let words: Vec<&str> = row[0].split_whitespace().collect();
        let chips: Vec<&String> =
            logical.keys().filter(|(npu, _)| npu == words[0]).map(|(_, chip)| chip).collect();
        let chip = if header == "NPU Chip" { words[1].to_owned() } else { chips[0].clone() };
        assert!(header == "NPU Chip" || chips.len() == 1, "a row does not say which of {chips:?}");
        found.insert(logical[&(words[0].to_owned(), chip)].clone());
    }
    found.contains(&MINE.to_string()).to_string()
}

fn number_and_word(product: &Product) -> String {
    let table = product.says("info");
    let skipped = ["Health", "NPU ID", "Name", "Version", "+", "---", "="];
    let found =
        table.lines().filter(|line| !skipped.iter().any(|word| line.contains(word))).find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let pair = words.windows(2).find(|pair| {
                pair[0].bytes().all(|byte| byte.is_ascii_digit())
                    && pair[1].starts_with(|c: char| c.is_alphanumeric())
            });
            pair.map(|pair| pair[1].to_owned())
        });
    found.unwrap_or_default()
}

fn first_910(product: &Product) -> String {
    let table = product.says("info");
    let from = &table[table.find("910").expect("a 910")..];
    from.chars().take_while(char::is_ascii_alphanumeric).collect()
}

fn is_950(product: &Product) -> String {
    let table = product.says("info").to_lowercase();
    (table.contains("ascend950") || table.contains("910_958b")).to_string()
}

fn starts_with_number(cell: Option<&&str>) -> bool {
    cell.is_some_and(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
}

fn pairs(product: &Product) -> String {
    let table = product.says("info");
    let rows: Vec<Vec<&str>> = table.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let is_address = |text: &str| text.len() == 12 && text.split([':', '.']).map(str::len).eq([4, 2, 2, 1]);
    let is_pair = |pair: &&[Vec<&str>]| {
        starts_with_number(pair[0].first()) && pair[1].get(1).is_some_and(|bus| is_address(bus))
    };
    rows.windows(2).filter(is_pair).count().to_string()
}

fn pids(product: &Product) -> String {
    let table = product.says("info");
    let found = table.lines().filter(|line| line.starts_with('|')).map(cells).filter_map(|row| {
        let place: Vec<u32> = row[0].split_whitespace().map_while(|word| word.parse().ok()).collect();
        (place.len() == 2).then(|| row.get(1)?.parse::<u32>().ok()).flatten()
    });
    found.collect::<Vec<_>>().contains(&std::process::id()).to_string()
}

/// Cards that are idle or have rows, by the word that monitors look for. Sixty-four of them cannot all be in
/// use.
fn idle(product: &Product) -> String {
    let table = product.says("info");
    let processes = table.split("Process id").nth(1).expect("processes");
    let settled = |card: &usize| {
        let is_idle = processes.contains(&format!("No running processes found in NPU {card} "));
        let has_rows = processes.contains(&format!("\n| {card} "));
        is_idle != has_rows
    };
    let mut many = crate::ferry(&["npu-smi", "info"]);
    let many = crate::output(many.env("FERRY_SOC", product.soc).env("FERRY_DEVICES", "64"));
    assert!(crate::text(&many.stdout).contains("No running processes found in NPU "), "{}", product.soc);
    (0..product.cards).filter(settled).count().to_string()
}

fn cards_listed(product: &Product) -> String {
    product
        .says("info -l")
        .lines()
        .next()
        .and_then(|line| line.split(':').nth(1))
        .unwrap_or("")
        .trim()
        .to_owned()
}

/// The text behind the last colon of the first line that starts with a key.
fn value(text: &str, key: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| line.starts_with(key))?;
    line.rsplit(':').next().map(|value| value.trim().to_owned())
}

fn first_card(product: &Product) -> String {
    let list = product.says("info -l");
    format!(
        "{} of {}",
        value(&list, "NPU ID").expect("a card"),
        value(&list, "Total Count").expect("a count")
    )
}

/// The row of device 1: split(None, 3).
fn mapping(product: &Product) -> String {
    let text = product.says("info -m");
    let row = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|row| row[2] == "1");
    let row = row.expect("device 1");
    format!("{} {} {} {}", row[0], row[1], row[2], row[3..].join(" "))
}

fn driver(product: &Product) -> String {
    let text = product.says("info -t board -i 1");
    let line = text.lines().find(|line| line.contains("Software Version")).expect("a version");
    let version = line.rsplit(':').next().unwrap_or_default().trim().to_lowercase();
    let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    (numbers >= vec![25, 3]).to_string()
}

fn driver_of_first(product: &Product) -> String {
    value(&product.says("info -t board -i 0"), "Software Version").unwrap_or_default()
}

fn address(product: &Product) -> String {
    let text = product.says("info -t board -i 0");
    text.lines().find(|line| line.contains("PCIe Bus Info")).map(last).unwrap_or_default().to_lowercase()
}

fn product_by_chip(product: &Product) -> String {
    let card = value(&product.says("info -l"), "NPU ID").expect("a card");
    let text = product.says(&format!("info -t board -i {card} -c 0"));
    let chip = value(&text, "Chip Name").expect("a chip's name");
    match (value(&text, "Chip Type"), value(&text, "NPU Name")) {
        (Some(kind), None) => kind + &chip,
        (None, Some(rest)) => format!("{chip}_{rest}"),
        both => format!("{both:?}"),
    }
    .to_lowercase()
}

fn product_by_board(product: &Product) -> String {
    let text = product.says("info -t board -i 0");
    let name = value(&text, "Chip Name").zip(value(&text, "NPU Name"));
    name.map_or("nothing".to_owned(), |(chip, rest)| format!("{chip}_{rest}").to_lowercase())
}

fn dies(product: &Product) -> String {
    let places = (0..product.cards).flat_map(|card| (0..4 / product.cards).map(move |chip| (card, chip)));
    let texts: Vec<String> =
        places.map(|(card, chip)| product.says(&format!("info -t board -i {card} -c {chip}"))).collect();
    let is_die =
        |die: &String| die.bytes().all(|byte| b"0123456789ABCDEF ".contains(&byte)) && die.len() == 44;
    let dies: BTreeSet<String> =
        texts.iter().filter_map(|text| value(text, "VDie ID")).filter(is_die).collect();
    format!("{} of {}", dies.len(), texts.len())
}

fn squeezed_address(product: &Product) -> String {
    let text = product.says("info -t board -i 0 -c 0").replace(' ', "");
    let found = text.lines().find_map(|line| line.strip_prefix("PCIeBusInfo:"));
    found.unwrap_or_default().to_owned()
}

fn generation(product: &Product) -> String {
    let name = value(&product.says("info -t board -i 0 -c 0"), "Chip Name").unwrap_or_default();
    match name.as_str() {
        "Ascend910" => "A3",
        name if name.starts_with("910B") => "A2",
        _ => "older",
    }
    .to_owned()
}

fn generation_of(product: &Product) -> &'static str {
    match product.soc {
        "Ascend910_9391" => "A3",
        "Ascend910A" => "older",
        _ => "A2",
    }
}

/// The exact key, before the colon of a line.
fn exact(text: &str, key: &str) -> Option<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned()).next()
}

fn capacity_and_rate(product: &Product) -> String {
    let (memory, usages) = (product.says("info -i 0 -t memory"), product.says("info -i 0 -t usages"));
    let [capacity, rate] = product.memory;
    let capacity = exact(&memory, capacity).expect("a capacity");
    let rate: u32 = exact(&usages, rate).and_then(|rate| rate.parse().ok()).expect("a rate");
    let chips = usages.lines().find(|line| line.contains("Chip Count")).map(last).unwrap_or_default();
    format!("{capacity} {} {chips}", rate <= 100)
}

fn ai_cores(product: &Product) -> String {
    let text = product.says("info -t common -i 0");
    let line = text.lines().find(|line| line.contains("Aicore Count")).expect("a count");
    line[line.len() - 2..].trim().to_owned()
}

fn healthy(product: &Product) -> String {
    let text: String =
        (0..product.cards).map(|card| product.says(&format!("info -t health -i {card}"))).collect();
    let mut lines = text.lines().filter(|line| line.contains("Health")).peekable();
    (lines.peek().is_some() && lines.all(|line| line.ends_with(": OK"))).to_string()
}

fn is_cpu_list(text: &str) -> bool {
    let is_range = |part: &str| part.split('-').all(|number| number.parse::<u32>().is_ok());
    text.split(',').all(is_range)
}

fn topology(product: &Product) -> String {
    let text = product.says("info -t topo");
    let numbered = |line: &str, word: &str| {
        line.strip_prefix(word).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let lists = text.lines().filter(|line| numbered(line, "NPU") && is_cpu_list(last(line))).count();
    let before = text.split("Legend").next().unwrap_or_default().to_lowercase();
    let links = before.contains("hccs") || before.contains("xlink");
    let is_name = |word: &&str| numbered(word, "NPU") || numbered(word, "Phy-ID");
    let columns = text.lines().next().unwrap_or_default().split_whitespace().filter(is_name).count();
    let rows = text.lines().skip(1).filter(is_name).count();
    format!("{lists} lists of CPUs, hccs {links}, {columns} x {rows}")
}

fn chip_of_process(product: &Product) -> String {
    let pid = format!("{}", std::process::id());
    let texts = (0..product.cards).map(|card| (card, product.says(&format!("info -t proc-mem -i {card}"))));
    let digits = |text: &str| -> String {
        text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect()
    };
    let found = texts.filter(|(_, text)| text.contains(&format!("Process id:{pid} "))).map(|(card, text)| {
        let after = &text[text.find(&pid).expect("it is there")..];
        let count = text.split("Chip Count").nth(1).map(digits).unwrap_or_default();
        let chip = after.split("Chip ID").nth(1).map(digits).unwrap_or_default();
        assert!(after.lines().next().is_some_and(|line| line.ends_with("Process memory(MB):176")), "{text}");
        format!("card {card} of {count} chips, chip {chip}")
    });
    found.collect::<Vec<_>>().join("; ")
}
