//! `cargo xtask abi`: the headers, the Rust signatures and the built library must say the same thing.
//!
//! Headers are compiled as C99 and C++11; prototypes are compared as text with the `extern "C"` functions
//! (the mapping of types is in [`header`]); names with what the library exports; sizes, offsets and numbers
//! by asking both compilers: a generated C program and `crates/capi/examples/layout.rs` print `name value`
//! lines. It does not check behaviour.

mod header;
mod source;
mod text;

use header::Header;
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use text::Function;

/// In the order in which they include each other.
const HEADERS: &[&str] = &[
    "error_codes/ge_error_codes.h",
    "error_codes/rt_error_codes.h",
    "acl_base.h",
    "acl_rt.h",
    "acl.h",
    "ferry_ext.h",
    "ferry_rt.h",
];

/// Headers of the companion libraries, which declare nothing that libascendcl.so exports: they only have to
/// compile.
const COMPANIONS: &[&str] = &[
    "acl/acl_mdl.h",
    "acl/acl_op.h",
    "acl/acl_op_compiler.h",
    "acl/acl_prof.h",
    "hccl/hccl.h",
    "hccl/hccl_types.h",
];

/// Size and alignment of every struct and union as documented for LP64, whether or not Rust knows it yet.
const DOCUMENTED: &[(&str, u64, u64)] = &[
    ("aclCANNPackageVersion", 512, 1),
    ("aclrtErrorInfo", 2576, 8),
    ("aclrtErrorInfoDetail", 2568, 8),
    ("aclrtIpcEventHandle", 64, 1),
    ("aclrtMallocAttrValue", 8, 4),
    ("aclrtMallocAttribute", 12, 4),
    ("aclrtMallocConfig", 16, 8),
    ("aclrtMemAccessDesc", 24, 4),
    ("aclrtMemLocation", 8, 4),
    ("aclrtMemPoolProps", 56, 8),
    ("aclrtMemUceInfo", 128, 8),
    ("aclrtMemUceInfoArray", 2568, 8),
    ("aclrtMemUsageInfo", 112, 8),
    ("aclrtMemcpyBatchAttr", 32, 4),
    ("aclrtPhysicalMemProp", 32, 8),
    ("aclrtPtrAttributes", 28, 4),
    ("aclrtServerPid", 24, 8),
    ("aclrtStreamAttrValue", 16, 8),
    ("aclrtStreamConfigHandle", 32, 8),
    ("aclrtTimeoutUs", 8, 4),
    ("aclrtUtilizationInfo", 24, 8),
    ("aclrtUuid", 16, 1),
];

/// What the library exports for the Python module and the companion libraries alone; in no header.
const PRIVATE: &[&str] = &[
    "ferryCheckWhileWaiting",
    "ferryHostRange",
    "ferryInUse",
    "ferryLaunchCallback",
    "ferryMemcpyAsyncWithCondition",
    "ferryOperator",
    "ferryOperatorFailed",
    "ferryRefuse",
    "ferryIsWatched",
    "ferryDefineLine",
    "ferrySetLines",
    "ferryStop",
    "ferryVersion",
];

/// What a check found: how much it looked at, and what differs.
struct Finding {
    looked_at: String,
    differences: Vec<String>,
}

/// Runs every check, prints a line for each, and fails if any found a difference.
pub fn run(root: &Path) -> Result<(), String> {
    let include = root.join("include");
    let library = build(root)?;
    let scratch = library.with_file_name("abi");
    fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;

    if !report("headers", &compile_headers(&include, &scratch)?) {
        return Err("the headers do not compile".to_string());
    }
    let header = read_headers(&include)?;
    let source = read_sources(&root.join("crates/capi/src"))?;
    let mut good = report("prototypes", &prototypes(&header, &source));
    good &= report("aliases", &aliases(&header, &source));
    good &= report("exports", &exports(&header, &library)?);
    let c = numbers(&c_numbers(&header, &include, &scratch)?)?;
    let rust = numbers(&rust_numbers(root)?)?;
    good &= report("layout", &layout(&header, &source, &c, &rust));
    good &= report("constants", &constants(&header, &c, &rust));
    if good { Ok(()) } else { Err("the headers, the Rust side and the library differ".to_string()) }
}

fn report(check: &str, finding: &Finding) -> bool {
    let verdict = match finding.differences.len() {
        0 => "same".to_string(),
        n => format!("{n} DIFFER"),
    };
    println!("abi {check:<10} {verdict:<10} {}", finding.looked_at);
    for difference in &finding.differences {
        println!("    {difference}");
    }
    finding.differences.is_empty()
}

/// Runs a command; its standard output, or everything it said if it failed.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("{name}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if out.status.success() {
        Ok(text(&out.stdout))
    } else {
        Err(format!("{name} failed:\n{}", text(&out.stderr)))
    }
}

fn cargo(root: &Path, args: &[&str]) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    output(Command::new(cargo).current_dir(root).args(args).stderr(Stdio::inherit()))
}

/// Builds the library and finds it in what cargo says it made, wherever the target folder is.
fn build(root: &Path) -> Result<PathBuf, String> {
    let said =
        cargo(root, &["build", "--package", "ferry-capi", "--message-format=json-render-diagnostics"])?;
    let path = said.split('"').rfind(|piece| piece.ends_with("/libascendcl.so"));
    path.map(PathBuf::from).ok_or_else(|| "cargo built no libascendcl.so".to_string())
}

/// Compiles each header alone, twice included, in both languages. One unknown to [`HEADERS`] is a difference.
fn compile_headers(include: &Path, scratch: &Path) -> Result<Finding, String> {
    let mut differences = Vec::new();
    let all = files(include, "h")?;
    for file in &all {
        let name = file.strip_prefix(include).map_err(|e| e.to_string())?.to_string_lossy().into_owned();
        let is_ours = name.strip_prefix("acl/").is_some_and(|name| HEADERS.contains(&name));
        if !is_ours && !COMPANIONS.contains(&name.as_str()) {
            differences.push(format!("{name}: not in the lists of xtask/src/abi.rs"));
        }
        // The typedef is there because C wants at least one declaration in a file.
        let probe = format!("#include \"{name}\"\n#include \"{name}\"\ntypedef int abi_probe;\n");
        let c = write(&scratch.join("header.c"), &probe)?;
        for (compiler, language, standard) in [("gcc", "c", "c99"), ("g++", "c++", "c++11")] {
            let mut command = Command::new(compiler);
            command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-fmax-errors=3"]);
            command.args(["-x", language, &format!("-std={standard}"), "-I"]).arg(include).arg(&c);
            if let Err(said) = output(&mut command) {
                differences.push(format!("{name} as {standard}: {}", said.replace('\n', "\n        ")));
            }
        }
    }
    Ok(Finding { looked_at: format!("{} headers, each as C99 and as C++11", all.len()), differences })
}

fn read_headers(include: &Path) -> Result<Header, String> {
    let mut header = Header::default();
    for name in HEADERS {
        let path = include.join("acl").join(name);
        header.read(&read(&path)?).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(header)
}

fn read_sources(folder: &Path) -> Result<Source, String> {
    let mut source = Source::default();
    for path in files(folder, "rs")? {
        source.read(&read(&path)?).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(source)
}

/// Same functions, same parameter types in the same order, same result.
fn prototypes(header: &Header, source: &Source) -> Finding {
    let mut differences = Vec::new();
    let by_name = |list: &[Function]| -> BTreeMap<String, Function> {
        list.iter().map(|f| (f.name.clone(), f.clone())).collect()
    };
    let (c, rust) = (by_name(&header.functions), by_name(&source.functions));
    for (list, found, side) in [(&header.functions, &c, "headers"), (&source.functions, &rust, "sources")] {
        if list.len() != found.len() {
            differences.push(format!("the {side} have {} functions but {} names", list.len(), found.len()));
        }
    }
    for (name, function) in &c {
        match rust.get(name) {
            None => differences.push(format!("{name}: in the headers, not in Rust")),
            Some(other) => differences.extend(signature(function, other)),
        }
    }
    differences.extend(
        rust.keys()
            .filter(|n| !c.contains_key(*n) && !PRIVATE.contains(&n.as_str()))
            .map(|n| format!("{n}: in Rust, not in the headers")),
    );
    let params: usize = header.functions.iter().map(|f| f.params.len()).sum();
    Finding { looked_at: format!("{} functions, {params} parameters", c.len()), differences }
}

fn signature(c: &Function, rust: &Function) -> Vec<String> {
    let mut differences = Vec::new();
    let mut differ = |what: String, c: &str, rust: &str| {
        if c != rust {
            differences.push(format!("{what}: headers say {c}, Rust says {rust}"));
        }
    };
    let name = &c.name;
    differ(
        format!("{name} number of parameters"),
        &c.params.len().to_string(),
        &rust.params.len().to_string(),
    );
    for (at, (c, rust)) in c.params.iter().zip(&rust.params).enumerate() {
        differ(format!("{name} parameter {} ({})", at + 1, c.name), &c.ty, &rust.ty);
    }
    differ(format!("{name} result"), &c.ret, &rust.ret);
    // Types cannot see two swapped sizes; names can, if both sides use the same ones.
    let names = |f: &Function| -> Vec<String> {
        f.params.iter().map(|p| p.name.replace('_', "").to_lowercase()).collect()
    };
    let (c, rust) = (names(c), names(rust));
    if c.iter().collect::<BTreeSet<_>>() == rust.iter().collect::<BTreeSet<_>>() {
        differ(format!("{name} order of parameters"), &c.join(", "), &rust.join(", "));
    }
    differences
}

/// Every typedef that a prototype uses is the same type in Rust.
fn aliases(header: &Header, source: &Source) -> Finding {
    let used = used_names(header);
    let used: Vec<_> = header.aliases.iter().filter(|(name, _)| used.contains(*name)).collect();
    let mut differences = Vec::new();
    for (name, c) in &used {
        match source.aliases.get(*name) {
            Some(rust) if rust == *c => {}
            Some(rust) => differences.push(format!("{name}: headers say {c}, Rust says {rust}")),
            None => differences.push(format!("{name}: no `type {name} = {c};` in Rust")),
        }
    }
    Finding { looked_at: format!("{} typedefs that prototypes use", used.len()), differences }
}

/// Names of types in prototypes.
fn used_names(header: &Header) -> BTreeSet<String> {
    let types = header.functions.iter().flat_map(|f| f.params.iter().map(|p| &p.ty).chain([&f.ret]));
    types.filter_map(|ty| ty.rsplit(' ').next()).map(str::to_string).collect()
}

/// The library exports the headers' functions, what it has for the Python module, and nothing else.
fn exports(header: &Header, library: &Path) -> Result<Finding, String> {
    let said = output(Command::new("nm").args(["-D", "--defined-only"]).arg(library))?;
    let exported: BTreeSet<&str> = said.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let mut declared: BTreeSet<&str> = header.functions.iter().map(|f| f.name.as_str()).collect();
    declared.extend(PRIVATE);
    let missing = declared.difference(&exported).map(|n| format!("{n}: declared, not exported"));
    let extra = exported.difference(&declared).map(|n| format!("{n}: exported, not declared"));
    let differences = missing.chain(extra).collect();
    Ok(Finding { looked_at: format!("{} names in libascendcl.so", exported.len()), differences })
}

/// Compiles and runs a program that prints what C makes of the headers.
fn c_numbers(header: &Header, include: &Path, scratch: &Path) -> Result<String, String> {
    let mut c = String::from("#include \"acl/acl.h\"\n#include <stdio.h>\nint main(void)\n{\n");
    let mut print = |name: &str, value: &str| {
        let _ = writeln!(c, "    printf(\"{name} %lld\\n\", (long long)({value}));");
    };
    for (name, fields) in &header.structs {
        print(&format!("{name}.size"), &format!("sizeof({name})"));
        print(&format!("{name}.align"), &format!("__alignof__({name})"));
        for field in fields {
            print(&format!("{name}.{field}.offset"), &format!("offsetof({name}, {field})"));
            print(&format!("{name}.{field}.size"), &format!("sizeof((({name} *)0)->{field})"));
        }
    }
    for name in header.enums.keys() {
        print(&format!("{name}.size"), &format!("sizeof({name})"));
    }
    for name in header.constants() {
        print(name, name);
    }
    c.push_str("    return 0;\n}\n");
    let (file, program) = (write(&scratch.join("layout.c"), &c)?, scratch.join("layout"));
    output(Command::new("gcc").args(["-std=c99", "-I"]).arg(include).arg("-o").arg(&program).arg(&file))?;
    output(&mut Command::new(&program))
}

/// Runs the program that prints what Rust makes of the same types.
fn rust_numbers(root: &Path) -> Result<String, String> {
    cargo(root, &["run", "--quiet", "--package", "ferry-capi", "--example", "layout"])
}

fn numbers(text: &str) -> Result<BTreeMap<String, i64>, String> {
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_string(), value.parse().ok()?))
    };
    text.lines().map(|l| line(l).ok_or_else(|| format!("not a name and a number: {l}"))).collect()
}

/// Structs have their documented size; where Rust has them too, every field lies at the same place. Enums are
/// `i32`.
fn layout(
    header: &Header,
    source: &Source,
    c: &BTreeMap<String, i64>,
    rust: &BTreeMap<String, i64>,
) -> Finding {
    let mut differences = Vec::new();
    let documented: BTreeMap<&str, (u64, u64)> =
        DOCUMENTED.iter().map(|&(n, size, align)| (n, (size, align))).collect();
    for name in header.structs.keys() {
        let found = ["size", "align"].map(|part| c.get(&format!("{name}.{part}")).map_or(0, |&n| n as u64));
        match documented.get(name.as_str()) {
            Some(&(size, align)) if found == [size, align] => {}
            Some(want) => {
                differences.push(format!("{name}: size and alignment {found:?}, documented {want:?}"))
            }
            None => differences.push(format!("{name}: its documented size is not in xtask/src/abi.rs")),
        }
    }
    for name in header.enums.keys().filter(|name| c.get(&format!("{name}.size")) != Some(&4)) {
        differences.push(format!("{name}: an enum that is not 4 bytes"));
    }

    let in_rust: BTreeSet<&str> =
        rust.keys().filter_map(|key| key.split_once('.')).map(|(name, _)| name).collect();
    let used = used_names(header);
    for name in header.structs.keys().filter(|n| used.contains(*n)).chain(&source.structs) {
        if !in_rust.contains(name.as_str()) {
            differences.push(format!("{name}: crates/capi/examples/layout.rs does not print it"));
        }
    }
    let of_rust = |key: &&String| key.split_once('.').is_some_and(|(name, _)| in_rust.contains(name));
    let keys: BTreeSet<&String> = c.keys().chain(rust.keys()).filter(of_rust).collect();
    for key in &keys {
        let show = |value: Option<&i64>| value.map_or("nothing".to_string(), i64::to_string);
        if c.get(*key) != rust.get(*key) {
            differences.push(format!(
                "{key}: C says {}, Rust says {}",
                show(c.get(*key)),
                show(rust.get(*key))
            ));
        }
    }
    let (structs, enums) = (header.structs.len(), header.enums.len());
    let looked_at =
        format!("{structs} structs ({} in Rust, {} numbers), {enums} enums", in_rust.len(), keys.len());
    Finding { looked_at, differences }
}

/// Every number that Rust knows has the same name and value in the headers.
fn constants(header: &Header, c: &BTreeMap<String, i64>, rust: &BTreeMap<String, i64>) -> Finding {
    let known: Vec<_> = rust.iter().filter(|(name, _)| !name.contains('.')).collect();
    let mut differences = Vec::new();
    for (name, value) in &known {
        match c.get(*name) {
            Some(same) if same == *value => {}
            Some(other) => differences.push(format!("{name}: C says {other}, Rust says {value}")),
            None => differences.push(format!("{name}: in Rust, not in the headers")),
        }
    }
    if known.is_empty() {
        differences.push("Rust knows no constants at all".to_string());
    }
    let looked_at =
        format!("{} of the headers' {} are used by Rust", known.len(), header.constants().count());
    Finding { looked_at, differences }
}

/// Files under `folder` whose name ends in `.extension`, sorted.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<PathBuf, String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path.to_path_buf())
}
