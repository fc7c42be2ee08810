//! `npu-smi` as programs use it: by its name, for every product, with options in any order, read by each
//! client's own rule.
//!
//! Other tests use devices meanwhile, so nothing here asks for a device that nobody uses.

#[path = "../command/mod.rs"]
mod command;
#[path = "../command/compile.rs"]
mod compile;
mod processes;
mod rules;
#[path = "../command/standin.rs"]
mod standin;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Output;
use std::sync::Mutex;

use command::{ferry, output, text};

/// A product, by what it is called in each place.
struct Product {
    soc: &'static str,
    /// In the table.
    name: &'static str,
    /// Cards of four devices.
    cards: usize,
    ai_cores: usize,
    /// The names of capacity and rate of its memory.
    memory: [&'static str; 2],
}

const HBM: [&str; 2] = ["HBM Capacity(MB)", "HBM Usage Rate(%)"];

const A2: Product = Product { soc: "Ascend910B1", name: "910B1", cards: 4, ai_cores: 24, memory: HBM };
const PRODUCTS: [Product; 7] = [
    A2,
    Product { soc: "Ascend910B4-1", name: "910B4-1", ..A2 },
    Product { soc: "Ascend910_9391", name: "Ascend910", cards: 2, ..A2 },
    Product { soc: "Ascend950PR_9599", name: "Ascend950PR", ai_cores: 32, ..A2 },
    Product {
        soc: "Ascend310P3",
        name: "310P3",
        ai_cores: 10,
        memory: ["DDR Capacity(MB)", "DDR Usage Rate(%)"],
        ..A2
    },
    Product {
        soc: "Ascend310B1",
        name: "310B1",
        ai_cores: 1,
        memory: ["Capacity(MB)", "Memory Usage Rate(%)"],
        ..A2
    },
    Product { soc: "Ascend910A", name: "910A", ai_cores: 32, ..A2 },
];

impl Product {
    fn is(&self, part: &str) -> bool {
        self.soc.contains(part)
    }

    /// Four devices of 64 GiB.
    fn run(&self, args: &str) -> Output {
        let words: Vec<&str> = ["npu-smi"].into_iter().chain(args.split_whitespace()).collect();
        let mut command = ferry(&words);
        command.env("FERRY_SOC", self.soc).env("FERRY_DEVICES", "4").env("FERRY_DEVICE_MEMORY", "64G");
        output(&mut command)
    }

    /// What it says; it must succeed. Asked once: what is looked at does not change while tests run.
    fn says(&self, args: &str) -> String {
        static SAID: Mutex<BTreeMap<(&str, String), String>> = Mutex::new(BTreeMap::new());
        let key = (self.soc, args.to_owned());
        let known = SAID.lock().expect("no panic").get(&key).cloned();
        known.unwrap_or_else(|| {
            let said = self.asked(args);
            SAID.lock().expect("no panic").entry(key).or_insert(said).clone()
        })
    }

    fn asked(&self, args: &str) -> String {
        rules::hold();
        let run = self.run(args);
        assert!(run.status.success(), "{} {args}: {}", self.soc, text(&run.stderr));
        text(&run.stdout)
    }
}

#[test]
fn the_command_answers_under_the_name_npu_smi() {
    let mut by_name = ferry(&["info", "-l"]);
    by_name.arg0("/usr/local/sbin/npu-smi");
    let by_name = output(&mut by_name);
    assert!(by_name.status.success(), "{}", text(&by_name.stderr));
    assert_eq!(text(&by_name.stdout), text(&output(&mut ferry(&["npu-smi", "info", "-l"])).stdout));
}

#[test]
fn options_come_in_any_order() {
    let want = A2.says("info -t board -i 1 -c 0");
    for args in ["info -i 1 -c 0 -t board", "info -c 0 -t board -i 1", "info -c 0 -i 1 -t board"] {
        assert_eq!(A2.says(args), want, "{args}");
    }
    assert_eq!(A2.says("info -i 0 -t health"), A2.says("info -t health -i 0"));
}

#[test]
fn what_there_is_not_is_an_error_with_a_message() {
    for (args, says, has_usage) in [
        ("", "no command", true),
        ("list", "unknown command 'list'", true),
        ("set -t mode -i 0", "unknown command 'set'", true),
        ("info -x", "unknown option '-x'", true),
        ("info -t colour -i 0", "unknown type 'colour'", true),
        ("info -t board", "-t board wants a card", true),
        ("info -i 0", "want a type", true),
        ("info -l -m", "-l does not go with -m", true),
        ("info -t", "-t wants a value", true),
        ("info -t board -i one", "-i one: not a number", true),
        ("info -t board -i -1", "-i -1: not a number", true),
        ("info -t board -i 4", "there is no card 4: there are 4", false),
        ("info -t board -i 99999", "there is no card 99999", false),
        ("info -t usages -i 4", "there is no card 4", false),
        ("info -t board -i 3 -c 1", "card 3 has no chip 1: it has 1", false),
    ] {
        let run = A2.run(args);
        let errors = text(&run.stderr);
        assert!(!run.status.success() && run.stdout.is_empty(), "{args}: {}", text(&run.stdout));
        assert!(errors.contains(says), "{args}: {errors}");
        assert_eq!(errors.contains("Usage: npu-smi info"), has_usage, "{args}: {errors}");
    }
}

#[test]
fn help_and_version_succeed() {
    for (args, says) in [("-h", "Usage: npu-smi info"), ("info --help", "Usage:"), ("-v", "25.5.0")] {
        assert!(A2.says(args).contains(says), "{args}");
    }
}

#[test]
fn a_setting_that_makes_no_sense_is_told() {
    let run = output(ferry(&["npu-smi", "info"]).env("FERRY_SOC", "Ascend999"));
    assert!(!run.status.success());
    assert!(text(&run.stderr).contains("FERRY_SOC=Ascend999"), "{}", text(&run.stderr));
}

#[test]
fn cards_are_all_devices_whatever_is_visible() {
    for (devices, visible, want) in [("3", "1", "3"), ("5", "", "5"), ("1", "0", "1"), ("64", "7", "64")] {
        let mut command = ferry(&["npu-smi", "info", "-l"]);
        command.env("FERRY_DEVICES", devices).env("ASCEND_RT_VISIBLE_DEVICES", visible);
        let list = text(&output(&mut command).stdout);
        assert_eq!(list.lines().next().and_then(|line| line.split(": ").nth(1)), Some(want), "{list}");
    }
    // As many as a program gets that does not say: two.
    let (list, devices) =
        (output(&mut ferry(&["npu-smi", "info", "-l"])), output(&mut ferry(&["devices", "--json"])));
    let devices: serde_json::Value = serde_json::from_slice(&devices.stdout).expect("it is JSON");
    assert_eq!(devices["devices"].as_array().map(Vec::len), Some(2));
    assert!(text(&list.stdout).contains("Total Count                    : 2\n"));
}

#[test]
fn lines_of_the_table_are_equally_long_for_every_product() {
    for product in &PRODUCTS {
        let table = product.says("info");
        let width = table.lines().next().map_or(0, str::len);
        assert!(table.lines().all(|line| line.len() == width && line.is_ascii()), "{}\n{table}", product.soc);
        assert_eq!(table.matches(" OK ").count(), 4, "{table}");
        assert_eq!(table.contains("Process id"), !product.is("310B"), "{table}");
        assert_eq!(table.contains("HBM-Usage"), product.memory == HBM, "{table}");
    }
}

#[test]
fn a_card_of_two_chips_may_have_one_only() {
    let mut command = ferry(&["npu-smi", "info", "-l"]);
    command.env("FERRY_SOC", "Ascend910_9391").env("FERRY_DEVICES", "3");
    let list = text(&output(&mut command).stdout);
    let counts: Vec<&str> = list.lines().filter(|line| line.contains("Count")).map(last).collect();
    assert_eq!(counts, ["2", "2", "1"], "cards, and chips of each: {list}");
}

/// The last word of a line.
fn last(line: &str) -> &str {
    line.split_whitespace().last().unwrap_or_default()
}
