//! One program: which AscendCL libraries it and its libraries need, what the loader finds for each and by
//! which rule, and which symbols no library defines.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferry_abi::library;

use super::elf;
use super::finding::{Finding, fine, note, wrong};
use super::packages::{ASKED, PLUGIN, Packages};
use super::search::{Closure, Found, Search};
use crate::prefix::Prefix;

/// Packages that load AscendCL's libraries when Python imports them.
const PACKAGES: [&str; 2] = ["acl", "torch_npu"];

/// How many names a line lists at most.
const LISTED: usize = 12;

pub fn inspect(command: &[OsString]) -> Vec<Finding> {
    let Some(program) = locate(Path::new(&command[0])) else {
        let text = format!("{}: no such program", Path::new(&command[0]).display());
        return vec![wrong("program", text, "give its path, or put its folder into PATH")];
    };
    let (starts, mut findings) = starts(&program);
    if starts.is_empty() {
        return vec![unusable(&program)];
    }
    let closure = Search::here().closure(&starts);
    let ours = OwnLibraries::here();
    findings.extend(libraries(&closure, &ours));
    findings.extend(names(&closure, &ours));
    findings
}

/// The ELF files to start from, with lines that say why these.
fn starts(program: &Path) -> (Vec<PathBuf>, Vec<Finding>) {
    let script = behind(program);
    let python = [Some(program), script.as_deref()].into_iter().flatten().find(|file| is_python(file));
    if let Some(python) = python {
        return packages(python);
    }
    let mut text = program.display().to_string();
    if let Some(interpreter) = &script {
        text += &format!(": a script of {}", interpreter.display());
    }
    (files(script.as_deref().unwrap_or(program)), vec![fine("program", text)])
}

/// Why there is nothing to start from.
fn unusable(program: &Path) -> Finding {
    let file = program.display();
    match behind(program).filter(|interpreter| files(interpreter).is_empty()) {
        Some(interpreter) => {
            let text = format!("{file}: a script of {}, which is no program", interpreter.display());
            wrong("program", text, "install it, or give its first line another path")
        }
        None => {
            let text = format!("{file}: neither a program nor a library for this machine");
            wrong("program", text, "give an ELF file, a script, or a folder of libraries")
        }
    }
}

/// The file of a program, by its path or in PATH.
fn locate(program: &Path) -> Option<PathBuf> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        return program.exists().then(|| program.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.or_else(|| program.exists().then(|| program.to_owned()))
}

/// The ELF files to start from: the file itself, or every library below a folder.
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return elf::read(path).map(|object| object.path).into_iter().collect();
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let path = entry.path();
        // A link to a folder may lead around in a circle.
        let is_library =
            path.is_file() && path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) || is_library {
            found.extend(files(&path));
        }
    }
    found
}

/// The extension modules in a package's folder.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|kind| kind == "so")).collect()
}

/// What runs a script: what its `#!` names, which may be a script again, as often as the system follows that.
fn behind(script: &Path) -> Option<PathBuf> {
    std::iter::successors(interpreter(script), |file| interpreter(file)).take(5).last()
}

/// What `#!` names, with `env` seen through.
fn interpreter(script: &Path) -> Option<PathBuf> {
    // The kernel reads no more of the first line than this, and a program may have gigabytes.
    let mut text = Vec::new();
    let file = script.is_file().then(|| File::open(script).ok()).flatten()?;
    file.take(256).read_to_end(&mut text).ok()?;
    let line = text.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_whitespace();
    let first = Path::new(words.next()?);
    if first.ends_with("env") {
        return locate(Path::new(words.find(|word| !word.starts_with('-'))?));
    }
    Some(first.to_owned())
}

/// Whether a program is Python, by its name: only that is started.
fn is_python(program: &Path) -> bool {
    let called_so = |path: &Path| path.file_name().is_some_and(|name| is_pythons(&name.to_string_lossy()));
    called_so(program) || program.canonicalize().is_ok_and(|path| called_so(&path))
}

/// `python`, `python3`, `python3.13t`: a version at most, and letters of builds.
fn is_pythons(name: &str) -> bool {
    let version = name.strip_prefix("python").map(|rest| rest.trim_end_matches(['d', 'm', 't', 'u']));
    version.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Asks Python, which imports nothing for it, where it is itself and where the packages are.
fn packages(python: &Path) -> (Vec<PathBuf>, Vec<Finding>) {
    // What starts with it, such as a sitecustomize, may print as well.
    const MARK: &str = "ferry doctor: ";
    const ASK: &str = include_str!("ask.py");
    let words = [PACKAGES.join(","), ASKED.join(","), PLUGIN.to_owned()];
    let said = Command::new(python).args(["-c", ASK, MARK]).args(words).output().map(|out| out.stdout);
    let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
    let mut lines = said.lines().filter_map(|line| line.strip_prefix(MARK));
    let real = lines.next().map_or(python.to_owned(), PathBuf::from);
    let mut findings = vec![fine("program", real.display().to_string())];
    let mut starts = files(&real);
    let mut lines = lines.chain(std::iter::repeat(""));
    for (name, origin) in PACKAGES.iter().zip(lines.by_ref()) {
        let Some(folder) = Path::new(origin).parent().filter(|_| !origin.is_empty()) else {
            let remedy = "only if the program imports it: docs/clients.md";
            findings.push(note("python", format!("there is no module {name}"), remedy));
            continue;
        };
        findings.push(fine("python", format!("{name} in {}", folder.display())));
        // OwnLibraries takes the library that is loaded, or its own. Of others, the modules at the top are
        // what an import loads; what lies deeper is loaded by those, or never.
        if *name != "acl" {
            starts.extend(modules(folder));
        }
    }
    let versions = lines.by_ref().take(ASKED.len()).map(str::to_owned).collect();
    let has_plugin = lines.next() == Some("seen");
    let is_autoload_off =
        std::env::var_os("PYTEST_DISABLE_PLUGIN_AUTOLOAD").is_some_and(|set| !set.is_empty());
    findings.extend(Packages { versions, has_plugin, is_autoload_off }.judge());
    (starts, findings)
}

/// Ferry's own files: the library, and the companions beside it.
struct OwnLibraries {
    /// The folders with all of them: one, or in a wheel that of the library and that of the others.
    folders: Vec<PathBuf>,
    /// The names that they have for others.
    has: BTreeSet<String>,
    /// Whether the folder is that of an installed tree.
    is_installed: bool,
}

impl OwnLibraries {
    fn here() -> OwnLibraries {
        let library = library::find().unwrap_or_default();
        let folder = library.parent().unwrap_or(Path::new("/")).to_owned();
        let prefix = Prefix::of(&library);
        let mut folders = vec![folder];
        folders.extend(prefix.iter().filter_map(|prefix| prefix.home.join("lib64").canonicalize().ok()));
        let is_installed = prefix.is_some();
        let beside = if is_installed {
            folders.iter().flat_map(|folder| files(folder)).collect()
        } else {
            vec![library]
        };
        let has = beside.iter().filter_map(|file| elf::read(file)).flat_map(|object| object.has).collect();
        OwnLibraries { folders, has, is_installed }
    }

    fn is(&self, found: &Found) -> bool {
        let is_in = |path: PathBuf| self.folders.iter().any(|folder| path.parent() == Some(folder));
        found.path.canonicalize().is_ok_and(is_in)
    }

    /// Whether this is the name of a library that toolkits have and that AscendCL's programs are linked with.
    fn knows(&self, name: &str) -> bool {
        const NAMES: [&str; 18] = [
            "libascendcl.so",
            "libacl_rt.so",
            "libruntime.so",
            "libhccl.so",
            "libacl_op_compiler.so",
            "libge_runner.so",
            "libgraph.so",
            "libacl_tdt_channel.so",
            "libacl_tdt_queue.so",
            "libmsprofiler.so",
            "libascend_dump.so",
            "libopapi.so",
            "libnnopbase.so",
            "libascend_hal.so",
            "libllm_datadist.so",
            "libmetadef.so",
            "libcann_hixl.so",
            "libascendalog.so",
        ];
        NAMES.contains(&name)
    }

    fn remedy(&self, name: &str) -> String {
        let is_there = self.folders.iter().any(|folder| folder.join(name).exists());
        let has = is_there || matches!(name, "libascendcl.so" | "libacl_rt.so");
        match (has, self.is_installed) {
            (true, true) => "ferry run -- PROGRAM, or source set_env.sh".into(),
            (true, false) => "ferry run -- PROGRAM".into(),
            (false, false) => "an installed tree may have it: cargo xtask install --prefix DIR".into(),
            (false, true) => "Ferry has no such library (docs/clients.md)".into(),
        }
    }
}

/// A line for each AscendCL library that is needed.
fn libraries(closure: &Closure, ours: &OwnLibraries) -> Vec<Finding> {
    let needed = closure.libraries.iter().filter(|(name, _)| ours.knows(name));
    let lines = needed.map(|(name, (users, found))| {
        let users = few(users.iter().map(String::as_str));
        match found {
            Some(found) if ours.is(found) => {
                fine("loader", format!("{name} for {users}: {}, by {}", found.path.display(), found.by))
            }
            Some(found) => {
                let text =
                    format!("{name} for {users}: {}, by {}, is not ours", found.path.display(), found.by);
                wrong("loader", text, ours.remedy(name))
            }
            None => wrong("loader", format!("{name} for {users} is not found"), ours.remedy(name)),
        }
    });
    let lines: Vec<Finding> = lines.collect();
    if lines.is_empty() {
        let text = "neither the program nor its libraries are linked with an AscendCL library";
        return vec![note(
            "loader",
            text,
            "they may load one later: name it (ferry doctor -- FILE.so, or its folder)",
        )];
    }
    lines
}

/// Names that are wanted, and that neither we nor another library of the program have.
fn names(closure: &Closure, ours: &OwnLibraries) -> Vec<Finding> {
    // Symbols of the program's other libraries count as defined; those of a library that stands where one of
    // Ferry's would do not.
    let is_theirs = |object: &&elf::Object| {
        object.path.file_name().is_none_or(|name| !ours.knows(&name.to_string_lossy()))
    };
    let theirs: BTreeSet<&String> =
        closure.objects.iter().filter(is_theirs).flat_map(|object| &object.has).collect();
    let lacks = |name: &&String| !ours.has.contains(*name) && !theirs.contains(*name);
    let mut findings = Vec::new();
    let (mut wanted, mut asked) = (0, 0);
    for object in closure.objects.iter().filter(is_theirs) {
        let file = object.path.file_name().unwrap_or_default().to_string_lossy();
        let missing: Vec<&str> = object.wants.iter().filter(lacks).map(String::as_str).collect();
        if !missing.is_empty() {
            let text = format!("{file} wants {} that nobody has: {}", count(missing.len()), few(missing));
            findings.push(wrong(
                "names",
                text,
                "it will not start, or end at the first call: docs/clients.md has what is known",
            ));
        }
        let optional: Vec<&str> = object.asks.iter().filter(lacks).map(String::as_str).collect();
        if !optional.is_empty() {
            let text =
                format!("{file} may look up {} that Ferry lacks: {}", count(optional.len()), few(optional));
            findings.push(note("names", text, "fine if it can do without; if not, it says so itself"));
        }
        wanted += object.wants.iter().filter(|name| ours.has.contains(*name)).count();
        asked += object.asks.iter().filter(|name| ours.has.contains(*name)).count();
    }
    if wanted + asked > 0 {
        let text =
            format!("Ferry has {} that are wanted, and {} that may be looked up", count(wanted), asked);
        findings.push(fine("names", text));
    }
    findings
}

fn count(names: usize) -> String {
    if names == 1 { "1 name".into() } else { format!("{names} names") }
}

/// The first few of a list, and how many more there are.
fn few<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    let more = words.len().saturating_sub(LISTED);
    let shown = words[..words.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}
