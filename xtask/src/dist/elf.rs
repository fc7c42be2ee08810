//! What a built file says about itself to the loader, read with readelf: its name, its flags, the C library
//! it needs.

use std::collections::BTreeMap;
use std::path::Path;

use crate::shell;

/// The oldest C library that what we build runs with. It is the one in which glibc became a single library: a
/// build on anything newer needs it for its threads. Lower would need an older machine to build on.
pub const GLIBC_FLOOR: (u32, u32) = (2, 34);

/// The library has its name, and stays once it is loaded: its threads would outlive it.
pub fn check_library(root: &Path, library: &Path) -> Result<(), String> {
    let said = readelf(root, "-d", library)?;
    for (tag, want) in [("(SONAME)", "[libascendcl.so]"), ("(FLAGS_1)", "NODELETE")] {
        let line = said.lines().find(|line| line.contains(tag)).unwrap_or_default();
        if !line.contains(want) {
            return Err(format!("{}: {tag} must have {want}, it says {line:?}", library.display()));
        }
    }
    Ok(())
}

/// The file needs nothing that came after [`GLIBC_FLOOR`]; otherwise an error with the names of the
/// functions. Says which version it does need.
pub fn check_glibc(root: &Path, file: &Path) -> Result<String, String> {
    let needs = needs(&readelf(root, "-V", file)?);
    let highest = needs.iter().filter_map(|name| number(name)).max();
    let highest = highest.ok_or_else(|| format!("{}: readelf shows no version of glibc", file.display()))?;
    let users = users(&readelf(root, "--dyn-syms", file)?);
    let late: Vec<String> = needs
        .iter()
        .filter(|name| number(name).is_none_or(|version| version > GLIBC_FLOOR))
        .map(|name| format!("{name} ({})", users.get(name).map_or("itself".into(), |names| names.join(", "))))
        .collect();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let floor = format!("{}.{}", GLIBC_FLOOR.0, GLIBC_FLOOR.1);
    if late.is_empty() {
        return Ok(format!("{name} needs glibc {}.{}, the floor is {floor}", highest.0, highest.1));
    }
    Err(format!("{name} needs more than glibc {floor}: {}", late.join("; ")))
}

fn readelf(root: &Path, what: &str, file: &Path) -> Result<String, String> {
    shell::output(shell::program(root, "readelf").env("LC_ALL", "C").args([what, "-W"]).arg(file))
}

/// The versions of glibc that the loader insists on. One that only weak symbols use is marked, and may be
/// missing.
fn needs(said: &str) -> Vec<String> {
    let name = |line: &str| {
        let rest = line.split_once("Name: GLIBC_")?.1;
        let (name, rest) = rest.split_once(' ')?;
        let weak = rest.split_once("Flags:")?.1.trim_start().starts_with("WEAK");
        (!weak).then(|| format!("GLIBC_{name}"))
    };
    let mut names: Vec<String> = said.lines().filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

/// `GLIBC_2.34` as numbers; the third one of old versions does not matter here. Names without numbers stand
/// for features of a newer loader.
fn number(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.strip_prefix("GLIBC_")?.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// Which symbols come from which version.
fn users(said: &str) -> BTreeMap<String, Vec<String>> {
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let symbols = said.split_whitespace().filter_map(|word| word.split_once('@'));
    for (symbol, version) in symbols {
        users.entry(version.trim_start_matches('@').to_owned()).or_default().push(symbol.to_owned());
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_readelf_shows_them() {
        let said = "\
Version needs section '.gnu.version_r' contains 2 entries:
  000000: Version: 1  File: libc.so.6  Cnt: 3
  0x0010:   Name: GLIBC_2.3.4  Flags: none  Version: 20
  0x0020:   Name: GLIBC_2.39  Flags: WEAK   Version: 19
  0x0030:   Name: GLIBC_ABI_DT_RELR  Flags: none  Version: 18
  0x0040: Version: 1  File: libgcc_s.so.1  Cnt: 1
  0x0050:   Name: GCC_3.0  Flags: none  Version: 5
";
        assert_eq!(needs(said), ["GLIBC_2.3.4", "GLIBC_ABI_DT_RELR"]);
    }

    #[test]
    fn versions_compare_as_numbers() {
        let table = [
            ("GLIBC_2.2.5", Some((2, 2))),
            ("GLIBC_2.34", Some((2, 34))),
            ("GLIBC_2.4", Some((2, 4))),
            ("GLIBC_ABI_DT_RELR", None),
            ("GLIBC_PRIVATE", None),
        ];
        for (name, want) in table {
            assert_eq!(number(name), want, "{name}");
        }
        assert!(number("GLIBC_2.4") < number("GLIBC_2.34"));
    }

    #[test]
    fn symbols_are_found_by_their_version() {
        let said = "\
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     4: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND fmod@GLIBC_2.38 (7)
     5: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND read@GLIBC_2.2.5 (2)
     6: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND pow@GLIBC_2.38 (7)
";
        assert_eq!(users(said)["GLIBC_2.38"], ["fmod", "pow"]);
    }
}
