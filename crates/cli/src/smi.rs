//! `npu-smi`: the devices, in the words and tables of the command that programs for Ascend run and read.
//!
//! The `ferry` command under the name `npu-smi`, or `ferry npu-smi`. Numbers of devices, memory and processes
//! are true; what has no meaning without a card (power, temperature) is a constant or NA. What clients read
//! of each answer is tested in `tests/smi`.

mod cards;
mod queries;
mod request;
mod table;
mod topology;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use ferry_abi::Result;
use ferry_terminal::{put, tell};

use cards::Cards;
use request::{SmiRequest, Topic};
use values::VERSION;

/// Options of `ferry npu-smi`: all of them are npu-smi's own.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct SmiArgs {
    /// What npu-smi is given, as in: info -t board -i 0
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

const USAGE: &str = "\
Usage: npu-smi info [-l | -m | -t TYPE] [-i CARD] [-c CHIP]
       npu-smi -h | -v

  info               all devices, their memory and the processes that use them
  info -l            the cards and how many chips each has
  info -m            which card and chip each device is
  info -t TYPE       one of: board, common, health, memory, proc-mem, product, topo, usages
  -i CARD            the card; every type but topo wants one
  -c CHIP            the chip of the card

Options come in any order. This npu-smi is Ferry's: its devices are those of FERRY_DEVICES, FERRY_SOC and \
FERRY_BACKEND.
";

/// The arguments, if the command was started under the name `npu-smi`.
pub fn by_name() -> Option<Vec<OsString>> {
    let mut arguments = std::env::args_os();
    let name = arguments.next()?;
    let is_ours = std::path::Path::new(&name).file_name().is_some_and(|name| name == "npu-smi");
    is_ours.then(|| arguments.collect())
}

/// `ferry npu-smi`.
pub fn main(args: &SmiArgs) -> ExitCode {
    run(&args.arguments)
}

/// Answers, or says why not.
pub fn run(arguments: &[OsString]) -> ExitCode {
    match SmiRequest::parse(arguments) {
        Err(why) => {
            tell(&format!("npu-smi: {why}\n\n{USAGE}"));
            ExitCode::FAILURE
        }
        Ok(request) => answer(&request).map_or_else(
            |why| {
                tell(&format!("npu-smi: {why}\n"));
                ExitCode::FAILURE
            },
            |text| {
                put(&text);
                ExitCode::SUCCESS
            },
        ),
    }
}

fn answer(request: &SmiRequest) -> Result<String> {
    let topic = match request {
        SmiRequest::Help => return Ok(USAGE.to_owned()),
        SmiRequest::Version => return Ok(format!("npu-smi version: {VERSION}\n")),
        SmiRequest::Info(topic) => topic,
    };
    let cards = Cards::open()?;
    match topic {
        Topic::All => table::text(&cards),
        Topic::List => Ok(queries::list(&cards)),
        Topic::Mapping => Ok(queries::mapping(&cards)),
        Topic::Topology => Ok(topology::text(&cards)),
        Topic::Card { query, card, chip } => {
            let (card, chip) = cards.find(*card, *chip)?;
            queries::of_card(&cards, *query, card, chip)
        }
    }
}
