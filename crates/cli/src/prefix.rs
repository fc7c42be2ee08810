//! The installed tree as programs see it, a CANN toolkit: which variables say where it is, and with which
//! values.
//!
//! One table has them. `ferry run` sets them for a program, `set_env.sh` for a shell (`ferry pages` writes it
//! from the table), and `ferry doctor` compares them with what is set.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Variables that name the tree or a folder of it. The first five are set by every toolkit; the others are
/// names that single programs read instead.
pub const HOMES: [(&str, &str); 9] = [
    ("ASCEND_TOOLKIT_HOME", ""),
    ("ASCEND_HOME_PATH", ""),
    ("ASCEND_AICPU_PATH", ""),
    ("ASCEND_OPP_PATH", "opp"),
    ("TOOLCHAIN_HOME", "toolkit"),
    ("ASCEND_HOME", ""),
    ("ASCEND_INSTALL_PATH", ""),
    ("NPU_HOME_PATH", ""),
    ("NPU_TOOLKIT_HOME", ""),
];

/// Lists that folders of the tree are put in front of, with ARCH for the processor. Folders of operators do
/// not exist here; they are named as every toolkit names them.
pub const LISTS: [(&str, &[&str]); 4] = [
    (
        "LD_LIBRARY_PATH",
        &[
            "lib64",
            "lib64/plugin/opskernel",
            "lib64/plugin/nnengine",
            "opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/ARCH",
            "tools/aml/lib64",
            "tools/aml/lib64/plugin",
            "driver/lib64",
            "driver/lib64/common",
            "driver/lib64/driver",
        ],
    ),
    ("PYTHONPATH", &["python/site-packages", "opp/built-in/op_impl/ai_core/tbe"]),
    ("PATH", &["bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin"]),
    ("CMAKE_PREFIX_PATH", &["lib64/cmake"]),
];

/// The tree that a library lies in.
pub struct Prefix {
    pub home: PathBuf,
}

impl Prefix {
    /// The tree around a library's real path, which is `<arch>-linux/lib64/libascendcl.so` in it; `None` for
    /// a library that was only built.
    fn around(library: &Path) -> Option<Prefix> {
        let inner = format!("{}-linux/lib64", std::env::consts::ARCH);
        let folder = library.parent()?;
        let home = folder.ends_with(&inner).then(|| folder.ancestors().nth(2)).flatten()?;
        home.join("set_env.sh").exists().then(|| Prefix { home: home.to_owned() })
    }

    /// The tree around a library, or that of the wheel that this command lies in.
    pub fn of(library: &Path) -> Option<Prefix> {
        Prefix::around(library).or_else(Prefix::around_command)
    }

    /// The tree of a wheel that this command lies in, as `bin/ferry`: it has no library of its own.
    fn around_command() -> Option<Prefix> {
        let command = std::env::current_exe().and_then(|path| path.canonicalize()).ok()?;
        let home = command.ends_with("ferry_acl/toolkit/bin/ferry").then(|| command.ancestors().nth(2))??;
        Some(Prefix { home: home.to_owned() })
    }

    /// The toolkit's version, as the files say it.
    pub fn version(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.home.join("runtime/version.info")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Version=")).map(str::to_owned)
    }

    /// Each variable with its value: lists go on with what they have now.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let home = |folder: &str| match folder {
            "" => self.home.clone(),
            folder => self.home.join(folder),
        };
        let homes = HOMES.iter().map(|(name, folder)| (*name, home(folder).into_os_string()));
        let lists = LISTS.iter().filter(|(name, _)| !self.breaks(name));
        let list = |folders: &[&str]| {
            let folders: Vec<OsString> = folders.iter().map(|f| home(&with_arch(f)).into()).collect();
            folders.join(OsStr::new(":"))
        };
        let lists = lists.map(|(name, folders)| (*name, before(&list(folders), std::env::var_os(name))));
        homes.chain(lists).chain(self.above()).collect()
    }

    /// The variables that are left alone since they cannot name the tree.
    pub fn left_out(&self) -> Vec<&'static str> {
        LISTS.iter().map(|(name, _)| *name).filter(|name| self.breaks(name)).collect()
    }

    /// Whether the tree's name cannot be in a list: lists are split at colons, and LD_LIBRARY_PATH at
    /// semicolons too.
    fn breaks(&self, list: &str) -> bool {
        let splits = |byte: &u8| *byte == b':' || *byte == b';' && list == "LD_LIBRARY_PATH";
        self.home.as_os_str().as_bytes().iter().any(splits)
    }

    /// The folder above a tree called `latest`, for programs that look for that name below it.
    fn above(&self) -> Option<(&'static str, OsString)> {
        let above = self.home.parent().filter(|_| self.home.ends_with("latest"))?;
        Some(("ASCEND_CUSTOM_PATH", above.into()))
    }
}

/// `first:rest`, as lists in variables are written.
pub fn before(first: &OsStr, rest: Option<OsString>) -> OsString {
    let mut list = first.to_owned();
    if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
        list.push(":");
        list.push(rest);
    }
    list
}

/// The text of `set_env.sh`.
pub fn set_env() -> String {
    let homes = HOMES.iter().map(|(name, folder)| match *folder {
        "" => format!("export {name}=\"$_ferry_home\"\n"),
        folder => format!("export {name}=\"$_ferry_home/{folder}\"\n"),
    });
    let lists = LISTS.iter().map(|(name, folders)| {
        let folders = folders.iter().map(|folder| format!(" \\\n    \"$_ferry_home/{}\"", with_arch(folder)));
        format!("_ferry_before {name}{}\n", folders.collect::<String>())
    });
    include_str!("prefix/set_env.sh").replace("@VARIABLES@\n", &homes.chain(lists).collect::<String>())
}

fn with_arch(folder: &str) -> String {
    folder.replace("ARCH", std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_comes_first_and_the_rest_stays() {
        for (rest, want) in [(None, "/a"), (Some(""), "/a"), (Some("/b:/c"), "/a:/b:/c")] {
            assert_eq!(before(OsStr::new("/a"), rest.map(OsString::from)), want, "{rest:?}");
        }
    }

    #[test]
    fn only_an_installed_library_has_a_tree() {
        for path in ["/", "/x/libascendcl.so", "/x/lib64/libascendcl.so", "/target/debug/deps/libascendcl.so"]
        {
            assert!(Prefix::around(Path::new(path)).is_none(), "{path}");
        }
    }
}
