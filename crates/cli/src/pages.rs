//! `ferry pages DIR`: the man pages, shell completions and `set_env.sh`, made from the command's own
//! definitions.
//!
//! For those who package the command (`cargo xtask dist` does), hence hidden from help. The files go where
//! man and the shells look below a prefix; `set_env.sh` lies at its top.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use ferry_abi::{Error, Result};

use crate::{Cli, prefix};

/// Options of `ferry pages`.
#[derive(clap::Args)]
pub struct PagesArgs {
    /// The prefix: files are written to its share/, and set_env.sh
    #[arg(value_name = "DIR")]
    prefix: PathBuf,
}

/// Where each shell looks, and under which name.
const COMPLETIONS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "ferry"),
    (Shell::Zsh, "zsh/site-functions", "_ferry"),
    (Shell::Fish, "fish/vendor_completions.d", "ferry.fish"),
];

/// Writes all of them.
pub fn main(args: &PagesArgs) -> Result<ExitCode> {
    let (share, set_env) = (args.prefix.join("share"), args.prefix.join("set_env.sh"));
    let lost = |place: &Path, error| Error::Setup(format!("cannot write to {}: {error}", place.display()));
    write(&share).map_err(|error| lost(&share, error))?;
    std::fs::write(&set_env, prefix::set_env()).map_err(|error| lost(&set_env, error))?;
    Ok(ExitCode::SUCCESS)
}

fn write(share: &Path) -> io::Result<()> {
    let manual = share.join("man/man1");
    std::fs::create_dir_all(&manual)?;
    clap_mangen::generate_to(Cli::command(), &manual)?;
    for (shell, folder, name) in COMPLETIONS {
        std::fs::create_dir_all(share.join(folder))?;
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut shown(), "ferry", &mut text);
        std::fs::write(share.join(folder).join(name), text)?;
    }
    Ok(())
}

/// The command without what help hides: completions would offer it.
fn shown() -> clap::Command {
    let whole = Cli::command();
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set());
    clap::Command::new("ferry").version(env!("CARGO_PKG_VERSION")).subcommands(commands.cloned())
}
