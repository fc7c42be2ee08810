//! Running other programs: cargo, gcc and valgrind, always from the top of the repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::limit;

/// Where cargo puts what it builds.
pub fn target_dir(root: &Path) -> PathBuf {
    // Joining keeps an absolute path as it is.
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// A cargo command, given as the words one would type.
pub fn cargo(root: &Path, words: &str) -> Command {
    let mut command = program(root, &std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.args(words.split_whitespace());
    command
}

/// A cargo command whose products do not name the folders of this machine that packages come from. Whatever
/// builds for release does it this way: other flags would build all of it a second time.
pub fn cargo_for_release(root: &Path, words: &str) -> Command {
    let mut command = cargo(root, words);
    command.env(RELEASE_FLAGS, release_flags(root));
    command
}

/// The variable that holds compiler flags which may have spaces in them, and goes before `RUSTFLAGS`.
pub const RELEASE_FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";

/// What [`cargo_for_release`] sets it to.
pub fn release_flags(root: &Path) -> String {
    let given = std::env::var(RELEASE_FLAGS).unwrap_or_else(|_| {
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        flags.split_whitespace().collect::<Vec<_>>().join("\u{1f}")
    });
    let hide = |(folder, name): (PathBuf, &str)| format!("--remap-path-prefix={}={name}", folder.display());
    let hidden = sources(root).into_iter().map(hide);
    [given].into_iter().filter(|given| !given.is_empty()).chain(hidden).collect::<Vec<_>>().join("\u{1f}")
}

/// Where cargo keeps packages.
pub fn cargo_home() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")))
}

/// The folders that the compiler takes sources of others from, and what they are called in what is built.
pub fn sources(root: &Path) -> Vec<(PathBuf, &'static str)> {
    let home = cargo_home();
    let sysroot = output(program(root, "rustc").args(["--print", "sysroot"])).unwrap_or_default();
    let mut folders: Vec<(PathBuf, &str)> = home.into_iter().map(|home| (home, "/cargo")).collect();
    if !sysroot.trim().is_empty() {
        folders.push((Path::new(sysroot.trim()).join("lib/rustlib/src/rust"), "/rustc"));
    }
    folders
}

/// A program that starts at the top of the repository.
pub fn program(root: &Path, name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root);
    command
}

/// The words of a line as a shell takes them: blanks separate, unless a backslash or quotes are before or
/// around them.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = line.chars();
    while let Some(letter) = rest.next() {
        match (letter, quote) {
            (' ' | '\t' | '\n', None) => words.extend(word.take()),
            ('\'' | '"', None) => (quote, word) = (Some(letter), Some(word.unwrap_or_default())),
            (_, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(rest.next()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Adds to the compiler flags that the caller's environment may already hold.
pub fn add_rustflags<'a>(command: &'a mut Command, flags: &str) -> &'a mut Command {
    let given = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{given} {flags}").trim())
}

/// Runs to the end with its output on our terminal; an error if it does not end.
pub fn run(command: &mut Command) -> Result<(), String> {
    println!("$ {}", shown(command));
    let mut child = command.spawn().map_err(|e| format!("{} does not start: {e}", shown(command)))?;
    let status = limit::wait(&mut child).map_err(|why| format!("{}: {why}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", shown(command))) }
}

/// Runs to the end and gives back what it wrote to its standard output.
pub fn output(command: &mut Command) -> Result<String, String> {
    let out = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{} does not start: {e}", shown(command)))?;
    if !out.status.success() {
        return Err(format!("{} ended with {}", shown(command), out.status));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Whether a program is there at all.
pub fn exists(name: &str) -> bool {
    exists_with(name, &["--version"])
}

/// The same for one that has no option `--version`.
pub fn exists_with(name: &str, args: &[&str]) -> bool {
    quiet(Command::new(name).args(args))
}

/// Whether a command ends well; what it says is of no interest.
pub fn quiet(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Makes sure of valgrind, installing it where that needs no questions; otherwise says why it is not there.
pub fn need_valgrind() -> Result<(), String> {
    if exists("valgrind") { Ok(()) } else { apt_get("valgrind", "valgrind") }
}

/// Installs what brings the program `name` from the system's packages, or says why not.
pub fn apt_get(name: &str, package: &str) -> Result<(), String> {
    let user = Command::new("id").arg("-u").output().map(|out| out.stdout).unwrap_or_default();
    if user.trim_ascii() != b"0" || !exists("apt-get") {
        return Err(format!("{name} is not installed, and installing it needs root and apt-get"));
    }
    println!("{name} is missing: apt-get install -y {package}");
    let install = || quiet(Command::new("apt-get").args(["install", "-y", package]));
    let update = || quiet(Command::new("apt-get").arg("update"));
    if install() || (update() && install()) {
        return Ok(());
    }
    Err(format!("{name} is not installed, and apt-get could not install it"))
}

/// Whether a part of the toolchain is there, after asking rustup for it when it is not.
pub fn rustup_has(words: &[&str], is_there: impl Fn() -> bool) -> bool {
    is_there() || (quiet(Command::new("timeout").args(["60", "rustup"]).args(words)) && is_there())
}

/// Whether the toolchain has the libraries of a target.
pub fn has_target(root: &Path, target: &str) -> bool {
    let mut ask = program(root, "rustc");
    let said = ask.args(["--print", "target-libdir", "--target", target]).stderr(Stdio::null()).output();
    said.is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_dir())
}

/// Whether the toolchain has the source of the standard library.
pub fn has_rust_source(root: &Path) -> bool {
    let sysroot = output(program(root, "rustc").args(["--print", "sysroot"])).unwrap_or_default();
    Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library").is_dir()
}

fn shown(command: &Command) -> String {
    let env = command.get_envs().filter_map(|(k, v)| Some((k.to_str()?, v?.to_str()?)));
    // Long, and the same everywhere.
    let env = env.filter(|(key, _)| ![RELEASE_FLAGS, "PATH", "VIRTUAL_ENV"].contains(key));
    let env = env.map(|(key, value)| format!("{key}={value:?} "));
    let name =
        Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let args = command.get_args().map(|arg| format!(" {}", arg.to_string_lossy()));
    env.chain([name]).chain(args).collect()
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_those_of_a_shell() {
        for (line, want) in [
            ("-I/a -L/b  -lc\n", &["-I/a", "-L/b", "-lc"][..]),
            ("-I/x\\ y/a -lc", &["-I/x y/a", "-lc"]),
            ("-I'/x y/a' \"-L/it's\"", &["-I/x y/a", "-L/it's"]),
            ("'' a", &["", "a"]),
        ] {
            assert_eq!(words(line), want, "{line}");
        }
    }
}
