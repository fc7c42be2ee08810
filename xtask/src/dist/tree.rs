//! A tree of files to be put below a prefix: complete in memory, then written file by file, each of them at
//! once.
//!
//! A file is written beside its place and renamed into it, so that whoever opens it sees the old one or the
//! new one. The tree leaves a list of its files behind; the next one put there removes what it no longer has.
//! It never touches anything else, and it does not replace a library that is not ours.
//!
//! A folder may have a second name, which is a link to it. Where the prefix has a folder of that name with
//! files of others (`include` of /usr/local), each of our files in it is a link instead.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// Where the list of files is kept, below the prefix.
const LIST: &str = "share/ferry/files";

/// What is at one place of the tree.
#[derive(Clone)]
enum Entry {
    File { bytes: Vec<u8>, mode: u32 },
    Link(PathBuf),
}

/// Files and links by their path below the prefix.
#[derive(Clone, Default)]
pub struct Tree(BTreeMap<PathBuf, Entry>);

impl Tree {
    /// A file to read.
    pub fn file(&mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Entry::File { bytes: bytes.into(), mode: 0o644 });
    }

    /// A file to run or to load.
    pub fn program(&mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Entry::File { bytes: bytes.into(), mode: 0o755 });
    }

    /// A symbolic link.
    pub fn link(&mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) {
        self.0.insert(path.into(), Entry::Link(target.into()));
    }

    /// Every file below `folder`, below `at`.
    pub fn folder(&mut self, at: &Path, folder: &Path) -> Result<(), String> {
        for entry in fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))? {
            let entry = entry.map_err(|e| format!("{}: {e}", folder.display()))?;
            let (path, place) = (entry.path(), at.join(entry.file_name()));
            if path.is_dir() {
                self.folder(&place, &path)?;
            } else {
                self.file(place, read(&path)?);
            }
        }
        Ok(())
    }

    /// Takes what is below a folder out again.
    pub fn remove_below(&mut self, folder: &Path) {
        self.0.retain(|path, _| !path.starts_with(folder));
    }

    /// Puts the tree below `prefix`, which need not exist, in place of the one that was put there before.
    pub fn put(&self, prefix: &Path) -> Result<(), String> {
        self.put_listed(prefix, LIST)
    }

    /// The same with the list of files at `list`.
    pub fn put_listed(&self, prefix: &Path, list: &str) -> Result<(), String> {
        let before = list_of(prefix, list);
        self.refuse_foreign_library(prefix, &before)?;
        let mut tree = self.clone();
        tree.suit_folders(prefix, &before)?;
        // First the list, with old and new: if this is cut short, the next attempt knows what is ours.
        let paths: BTreeSet<&Path> = before.iter().chain(tree.0.keys()).map(PathBuf::as_path).collect();
        put_list(prefix, list, paths)?;
        let put = |wants_links: bool| {
            let is_wanted = |entry: &Entry| matches!(entry, Entry::Link(_)) == wants_links;
            tree.0.iter().filter(|(_, entry)| is_wanted(entry)).try_for_each(|(path, entry)| {
                let place = prefix.join(path);
                entry.put(&place).map_err(|e| format!("{}: {e}", place.display()))
            })
        };
        put(false)?;
        // A link may take the place of a folder of the old tree, which has to be empty then.
        let is_old = |path: &&PathBuf| !tree.0.contains_key(*path) && *path != Path::new(list);
        for old in before.iter().filter(is_old).filter(|old| !tree.is_behind_a_link(prefix, old)) {
            let place = prefix.join(old);
            remove(&place).map_err(|e| format!("{}: {e}", place.display()))?;
        }
        put(true)?;
        put_list(prefix, list, tree.0.keys().map(PathBuf::as_path).collect())?;
        println!("installed to {}", prefix.display());
        Ok(())
    }

    /// The folder that a link of the tree leads to, if it is one.
    fn folder_behind(&self, link: &Path) -> Option<PathBuf> {
        let Entry::Link(target) = self.0.get(link)? else { return None };
        let folder = plain(&link.parent().unwrap_or(Path::new("")).join(target));
        self.0.keys().any(|path| path.starts_with(&folder) && *path != folder).then_some(folder)
    }

    /// Whether `path` passes through a link of this tree that is there already: then it is not the file that
    /// was listed.
    fn is_behind_a_link(&self, prefix: &Path, path: &Path) -> bool {
        let is_link =
            |above: &Path| matches!(self.0.get(above), Some(entry) if entry.is_at(&prefix.join(above)));
        path.ancestors().skip(1).any(is_link)
    }

    /// Finds out for each second name of a folder what the prefix has there. Somebody's link to the same
    /// place stays; one that leads elsewhere is an error. In a folder with others' files, ours are links one
    /// by one.
    fn suit_folders(&mut self, prefix: &Path, ours: &[PathBuf]) -> Result<(), String> {
        let is_folder = |path: &&PathBuf| self.folder_behind(path).is_some();
        let names: Vec<PathBuf> = self.0.keys().filter(is_folder).cloned().collect();
        for name in &names {
            let place = prefix.join(name);
            let Ok(found) = fs::symlink_metadata(&place) else { continue };
            if found.is_symlink() && !ours.contains(name) {
                let Ok(leads) = place.canonicalize() else { continue };
                let same = |other: &PathBuf| {
                    other != name && prefix.join(other).canonicalize().is_ok_and(|at| at == leads)
                };
                if !names.iter().any(same) {
                    return Err(format!(
                        "{} leads elsewhere than into this tree: remove it, or choose another prefix",
                        place.display()
                    ));
                }
                self.0.remove(name);
            } else if found.is_dir() && has_others(&place, prefix, ours) {
                self.expand(name);
            }
        }
        Ok(())
    }

    /// Replaces the link to a folder by links to each of its files.
    fn expand(&mut self, name: &Path) {
        let Some(folder) = self.folder_behind(name) else { return };
        let inside: Vec<PathBuf> = self.0.keys().filter(|path| path.starts_with(&folder)).cloned().collect();
        self.0.remove(name);
        for path in inside {
            let Ok(rest) = path.strip_prefix(&folder) else { continue };
            let place = name.join(rest);
            let up: PathBuf = place.components().skip(1).map(|_| "..").collect();
            self.link(place, up.join(&path));
        }
    }

    /// A prefix may be the home of another AscendCL; taking its library away must not be a slip of the
    /// keyboard.
    fn refuse_foreign_library(&self, prefix: &Path, ours: &[PathBuf]) -> Result<(), String> {
        let real = self.0.keys().filter(|path| path.ends_with("libascendcl.so")).cloned();
        for name in real.chain(["lib/libascendcl.so".into(), "lib64/libascendcl.so".into()]) {
            let path = prefix.join(&name);
            let same = path.canonicalize().ok();
            let known = ours.iter().any(|our| *our == name || prefix.join(our).canonicalize().ok() == same);
            if fs::symlink_metadata(&path).is_ok() && !known {
                return Err(format!(
                    "{} is there and did not come from here ({LIST} does not list it): choose another \
                     prefix, or move it away",
                    path.display()
                ));
            }
        }
        Ok(())
    }
}

/// A path without `.` and `..`, worked out from its words alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Whether anything below `folder` is not on the list.
fn has_others(folder: &Path, prefix: &Path, ours: &[PathBuf]) -> bool {
    let Ok(mut entries) = fs::read_dir(folder) else { return true };
    entries.any(|entry| {
        let Ok(entry) = entry else { return true };
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return has_others(&path, prefix, ours);
        }
        !path.strip_prefix(prefix).is_ok_and(|path| ours.iter().any(|our| our == path))
    })
}

impl Entry {
    /// Makes it so at `place`; does nothing where it is so.
    fn put(&self, place: &Path) -> io::Result<()> {
        if self.is_at(place) {
            return Ok(());
        }
        let folder = place.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        if matches!(self, Entry::Link(_)) {
            remove_empty(place);
        }
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let fresh = folder.join(format!(".{name}.{}", std::process::id()));
        let put = self.make(&fresh).and_then(|()| fs::rename(&fresh, place));
        if put.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        put
    }

    fn make(&self, place: &Path) -> io::Result<()> {
        match self {
            Entry::Link(target) => symlink(target, place),
            Entry::File { bytes, mode } => {
                fs::write(place, bytes)?;
                fs::set_permissions(place, fs::Permissions::from_mode(*mode))
            }
        }
    }

    fn is_at(&self, place: &Path) -> bool {
        match self {
            Entry::Link(target) => fs::read_link(place).is_ok_and(|found| found == *target),
            Entry::File { bytes, mode } => {
                let plain = fs::symlink_metadata(place)
                    .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o7777 == *mode);
                plain && fs::read(place).is_ok_and(|found| found == *bytes)
            }
        }
    }
}

/// Writes the list of files, itself among them.
fn put_list<'a>(prefix: &Path, list: &'a str, mut paths: BTreeSet<&'a Path>) -> Result<(), String> {
    paths.insert(Path::new(list));
    let lines: Vec<String> = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    let place = prefix.join(list);
    let list = Entry::File { bytes: lines.concat().into_bytes(), mode: 0o644 };
    list.put(&place).map_err(|e| format!("{}: {e}", place.display()))
}

/// What an earlier tree put below `prefix`. A path that would lead out of it is nothing that a tree wrote.
fn list_of(prefix: &Path, list: &str) -> Vec<PathBuf> {
    let list = fs::read_to_string(prefix.join(list)).unwrap_or_default();
    let inside = |path: &PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
    list.lines().map(PathBuf::from).filter(inside).collect()
}

/// Removes a file or link, and the folders that it leaves empty.
fn remove(place: &Path) -> io::Result<()> {
    // Gone already, or somebody's folder now: no longer ours.
    if fs::symlink_metadata(place).is_ok_and(|data| !data.is_dir()) {
        fs::remove_file(place)?;
    }
    for folder in place.ancestors().skip(1) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

/// Removes a folder in which there is no file, and nothing else.
fn remove_empty(folder: &Path) {
    if fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir()) {
        fs::read_dir(folder).into_iter().flatten().flatten().for_each(|entry| remove_empty(&entry.path()));
        let _ = fs::remove_dir(folder);
    }
}

/// A whole file, or an error that names it.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests;
