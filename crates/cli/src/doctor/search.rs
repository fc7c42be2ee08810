//! Where the loader will find the libraries of a program: its rules, applied to files, so that each answer
//! can say which rule it was.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::elf::{self, Object};

/// A library that was found, and by which rule.
#[derive(Clone)]
pub struct Found {
    pub path: PathBuf,
    pub by: &'static str,
}

/// Where libraries are looked for.
pub struct Search {
    /// Folders of LD_LIBRARY_PATH.
    listed: Vec<PathBuf>,
    /// The system's cache, as ldconfig prints it.
    cached: BTreeMap<String, PathBuf>,
}

/// A program or library with all that it needs.
#[derive(Default)]
pub struct Closure {
    /// Every object that was read, the program first.
    pub objects: Vec<Object>,
    /// The objects that need a library, and where it was found.
    pub libraries: BTreeMap<String, (Vec<String>, Option<Found>)>,
}

impl Search {
    /// The rules in the environment that this command has.
    pub fn here() -> Search {
        let list = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let listed = std::env::split_paths(&list).filter(|folder| !folder.as_os_str().is_empty()).collect();
        Search { listed, cached: cache() }
    }

    /// The file that the loader takes for a name that `object` needs; names with a slash are paths.
    pub fn find(&self, name: &str, object: &Object) -> Option<Found> {
        if name.contains('/') {
            return Path::new(name).exists().then(|| Found { path: name.into(), by: "its path" });
        }
        let standard = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from);
        let rpath: &[PathBuf] = if object.runpath.is_empty() { &object.rpath } else { &[] };
        let first =
            self.among(name, rpath, "RPATH").or_else(|| self.among(name, &self.listed, "LD_LIBRARY_PATH"));
        let second = first.or_else(|| self.among(name, &object.runpath, "RUNPATH"));
        let cached =
            || self.cached.get(name).map(|path| Found { path: path.clone(), by: "the system's cache" });
        second.or_else(cached).or_else(|| self.among(name, &standard, "the system's folders"))
    }

    fn among(&self, name: &str, folders: &[PathBuf], by: &'static str) -> Option<Found> {
        let path = folders.iter().map(|folder| folder.join(name)).find(|path| path.exists())?;
        Some(Found { path, by })
    }

    /// Everything that these files need, breadth first as the loader does it.
    pub fn closure(&self, files: &[PathBuf]) -> Closure {
        let mut closure = Closure::default();
        let mut waiting: VecDeque<PathBuf> = files.iter().cloned().collect();
        let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
        while let Some(path) = waiting.pop_front() {
            if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
                continue;
            }
            let Some(object) = elf::read(&path) else { continue };
            let user = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for name in &object.needed {
                let (users, found) = closure.libraries.entry(name.clone()).or_default();
                users.push(user.clone());
                if found.is_none() {
                    *found = self.find(name, &object);
                    waiting.extend(found.iter().map(|found| found.path.clone()));
                }
            }
            closure.objects.push(object);
        }
        closure
    }
}

/// `libc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6`, for each library. Empty where there is no
/// ldconfig.
fn cache() -> BTreeMap<String, PathBuf> {
    let word = if cfg!(target_arch = "aarch64") { "AArch64" } else { "x86-64" };
    let ask =
        |program: &str| Command::new(program).arg("-p").output().ok().filter(|out| out.status.success());
    let said = ask("ldconfig").or_else(|| ask("/sbin/ldconfig")).map(|out| out.stdout).unwrap_or_default();
    let mut cache = BTreeMap::new();
    for line in String::from_utf8_lossy(&said).lines() {
        let Some((name, path)) = line.trim().split_once(" => ") else { continue };
        let Some((name, kind)) = name.split_once(' ') else { continue };
        if kind.contains(word) {
            cache.entry(name.to_owned()).or_insert_with(|| path.into());
        }
    }
    cache
}
