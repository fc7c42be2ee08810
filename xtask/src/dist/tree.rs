//! A tree of files to be put below a prefix: complete in memory, then written file by file, each of them at once.
//!
//! A file is written beside its place and renamed into it, so that whoever opens it sees the old one or the new one. The
//! tree leaves a list of its files behind; the next one put there removes what it no longer has. It never touches
//! anything else, and it does not replace a library that is not ours.

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

    /// Puts the tree below `prefix`, which need not exist, in place of the one that was put there before.
    pub fn put(&self, prefix: &Path) -> Result<(), String> {
        let before = list_of(prefix);
        refuse_foreign_library(prefix, &before)?;
        let mut tree = self.clone();
        tree.suit_lib64(prefix)?;
        // First the list, with old and new: if this is cut short, the next attempt knows what is ours.
        let paths: BTreeSet<&Path> = before.iter().chain(tree.0.keys()).map(PathBuf::as_path).collect();
        put_list(prefix, paths)?;
        for (path, entry) in &tree.0 {
            let place = prefix.join(path);
            entry.put(&place).map_err(|e| format!("{}: {e}", place.display()))?;
        }
        for old in before.iter().filter(|old| !tree.0.contains_key(*old) && *old != Path::new(LIST)) {
            let place = prefix.join(old);
            remove(&place).map_err(|e| format!("{}: {e}", place.display()))?;
        }
        put_list(prefix, tree.0.keys().map(PathBuf::as_path).collect())?;
        println!("installed to {}", prefix.display());
        Ok(())
    }

    /// Where `lib64` is a folder of its own, the libraries in it are links, in place of the whole folder being one.
    fn suit_lib64(&mut self, prefix: &Path) -> Result<(), String> {
        let (lib, lib64) = (prefix.join("lib"), prefix.join("lib64"));
        let Ok(found) = fs::symlink_metadata(&lib64) else { return Ok(()) };
        let same = lib64.canonicalize().is_ok_and(|at| Some(at) == lib.canonicalize().ok());
        if found.is_symlink() {
            let elsewhere = !same && lib64.exists();
            return if elsewhere {
                Err(format!("{} leads elsewhere than to lib", lib64.display()))
            } else {
                Ok(())
            };
        }
        self.0.remove(Path::new("lib64"));
        for name in ["libascendcl.so", "libacl_rt.so"].iter().filter(|_| !same) {
            self.link(Path::new("lib64").join(name), Path::new("../lib").join(name));
        }
        Ok(())
    }
}

impl Entry {
    /// Makes it so at `place`; does nothing where it is so.
    fn put(&self, place: &Path) -> io::Result<()> {
        if self.is_at(place) {
            return Ok(());
        }
        let folder = place.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
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
fn put_list(prefix: &Path, mut paths: BTreeSet<&Path>) -> Result<(), String> {
    paths.insert(Path::new(LIST));
    let lines: Vec<String> = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    let list = Entry::File { bytes: lines.concat().into_bytes(), mode: 0o644 };
    list.put(&prefix.join(LIST)).map_err(|e| format!("{}: {e}", prefix.join(LIST).display()))
}

/// What an earlier tree put below `prefix`. A path that would lead out of it is nothing that a tree wrote.
fn list_of(prefix: &Path) -> Vec<PathBuf> {
    let list = fs::read_to_string(prefix.join(LIST)).unwrap_or_default();
    let inside = |path: &PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
    list.lines().map(PathBuf::from).filter(inside).collect()
}

/// A prefix may be the home of another AscendCL; taking its library away must not be a slip of the keyboard.
fn refuse_foreign_library(prefix: &Path, ours: &[PathBuf]) -> Result<(), String> {
    for name in ["lib/libascendcl.so", "lib64/libascendcl.so"] {
        let path = prefix.join(name);
        let same = path.canonicalize().ok();
        let known =
            ours.iter().any(|our| our == Path::new(name) || prefix.join(our).canonicalize().ok() == same);
        if fs::symlink_metadata(&path).is_ok() && !known {
            return Err(format!(
                "{} is there and did not come from here ({LIST} does not list it): choose another prefix, or move it away",
                path.display()
            ));
        }
    }
    Ok(())
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

/// A whole file, or an error that names it.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder of this test's own, below cargo's.
    fn scratch(name: &str) -> PathBuf {
        let test = std::env::current_exe().expect("a running program has a path");
        let folder = test.with_file_name(format!("tree-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a writable target folder");
        folder
    }

    fn tree(library: &str, more: &[&str]) -> Tree {
        let mut tree = Tree::default();
        tree.program("lib/libascendcl.so", library);
        tree.link("lib/libacl_rt.so", "libascendcl.so");
        tree.link("lib64", "lib");
        for path in more {
            tree.file(path, *path);
        }
        tree
    }

    fn text(path: PathBuf) -> String {
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn a_new_tree_replaces_the_old_one_and_nothing_else() {
        let prefix = scratch("replace");
        fs::create_dir_all(prefix.join("share/mine")).expect("writable");
        fs::write(prefix.join("share/mine/notes"), "mine").expect("writable");
        tree("one", &["share/doc/old", "share/doc/kept"]).put(&prefix).expect("an existing prefix");
        let open = fs::File::open(prefix.join("lib/libascendcl.so")).expect("it was put there");
        tree("two", &["share/doc/kept"]).put(&prefix).expect("over the first");

        for name in ["lib/libascendcl.so", "lib/libacl_rt.so", "lib64/libascendcl.so", "lib64/libacl_rt.so"] {
            assert_eq!(text(prefix.join(name)), "two", "{name}");
        }
        assert_eq!(io::read_to_string(&open).expect("still open"), "one", "a user of the old one keeps it");
        assert!(!prefix.join("share/doc/old").exists());
        assert_eq!(text(prefix.join("share/mine/notes")), "mine");
        let mode = fs::metadata(prefix.join("lib64/libacl_rt.so")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        let hidden = |folder: &str| {
            let names = fs::read_dir(prefix.join(folder)).expect("a folder").flatten();
            names.filter(|entry| entry.file_name().to_string_lossy().starts_with('.')).count()
        };
        assert_eq!(hidden("lib") + hidden("share/doc"), 0, "something was left beside its place");
        fs::remove_dir_all(prefix).expect("ours");
    }

    #[test]
    fn an_attempt_that_was_cut_short_can_be_repeated() {
        let prefix = scratch("cut");
        fs::create_dir_all(&prefix).expect("writable");
        fs::write(prefix.join("zone"), "in the way").expect("writable");
        let why = tree("one", &["zone/file"]).put(&prefix).expect_err("a file where a folder must be");
        assert!(why.contains("zone/file"), "{why}");
        assert!(prefix.join("lib/libascendcl.so").exists());
        fs::remove_file(prefix.join("zone")).expect("ours");
        tree("two", &["zone/file"]).put(&prefix).expect("nothing is in the way any more");
        assert_eq!(text(prefix.join("lib64/libacl_rt.so")), "two");
        fs::remove_dir_all(prefix).expect("ours");
    }

    #[test]
    fn folders_that_a_new_tree_leaves_empty_go() {
        let prefix = scratch("empty");
        tree("one", &["share/a/b/c"]).put(&prefix).expect("an empty prefix");
        tree("one", &[]).put(&prefix).expect("over the first");
        assert!(!prefix.join("share/a").exists());
        assert!(prefix.join("share/ferry/files").exists());
        fs::remove_dir_all(prefix).expect("ours");
    }

    #[test]
    fn lib64_may_be_a_folder_of_its_own_or_the_real_one() {
        for (name, real, link) in
            [("own", "lib64", None), ("turned", "lib64", Some("lib")), ("fresh", "", None)]
        {
            let prefix = scratch(name);
            fs::create_dir_all(prefix.join(real)).expect("writable");
            if let Some(link) = link {
                symlink(real, prefix.join(link)).expect("writable");
            }
            for library in ["one", "two"] {
                tree(library, &[]).put(&prefix).unwrap_or_else(|why| panic!("{name}: {why}"));
                for file in ["lib/libascendcl.so", "lib64/libascendcl.so", "lib64/libacl_rt.so"] {
                    assert_eq!(text(prefix.join(file)), library, "{file}, lib64 {name}");
                }
            }
            fs::remove_dir_all(prefix).expect("ours");
        }
    }

    #[test]
    fn a_library_of_others_is_left_alone() {
        for folder in ["lib", "lib64"] {
            let prefix = scratch(&format!("foreign-{folder}"));
            fs::create_dir_all(prefix.join(folder)).expect("writable");
            fs::write(prefix.join(folder).join("libascendcl.so"), "theirs").expect("writable");
            let why = tree("ours", &["include/acl.h"]).put(&prefix).expect_err("theirs is in the way");
            assert!(why.contains("did not come from here"), "{why}");
            assert_eq!(text(prefix.join(folder).join("libascendcl.so")), "theirs");
            assert!(!prefix.join("include").exists(), "refused, and written all the same");
            fs::remove_dir_all(prefix).expect("ours");
        }
    }

    #[test]
    fn a_list_cannot_lead_out_of_its_prefix() {
        let prefix = scratch("list");
        fs::create_dir_all(prefix.join("inner/share/ferry")).expect("writable");
        fs::write(prefix.join("outside"), "mine").expect("writable");
        let list = format!("../outside\n{}\n", prefix.join("outside").display());
        fs::write(prefix.join("inner").join(LIST), list).expect("writable");
        tree("one", &[]).put(&prefix.join("inner")).expect("a prefix with a bad list");
        assert_eq!(text(prefix.join("outside")), "mine");
        fs::remove_dir_all(prefix).expect("ours");
    }
}
