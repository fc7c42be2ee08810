//! A tree is put over nothing, over an older one, and beside files of others.

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
    tree.program("any-linux/lib64/libascendcl.so", library);
    tree.link("any-linux/lib64/libacl_rt.so", "libascendcl.so");
    tree.link("lib", "any-linux/lib64");
    tree.link("lib64", "any-linux/lib64");
    for path in more {
        tree.file(path, *path);
    }
    tree
}

/// As it was when `lib` was the folder and `lib64` its only other name.
fn flat_tree(library: &str) -> Tree {
    let mut tree = Tree::default();
    tree.program("lib/libascendcl.so", library);
    tree.link("lib/libacl_rt.so", "libascendcl.so");
    tree.file("lib/pkgconfig/ascendcl.pc", "old");
    tree.link("lib64", "lib");
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
    assert_eq!(
        hidden("any-linux/lib64") + hidden(".") + hidden("share/doc"),
        0,
        "something was left beside its place"
    );
    fs::remove_dir_all(prefix).expect("ours");
}

#[test]
fn an_attempt_that_was_cut_short_can_be_repeated() {
    let prefix = scratch("cut");
    fs::create_dir_all(&prefix).expect("writable");
    fs::write(prefix.join("zone"), "in the way").expect("writable");
    let why = tree("one", &["zone/file"]).put(&prefix).expect_err("a file where a folder must be");
    assert!(why.contains("zone/file"), "{why}");
    assert!(prefix.join("any-linux/lib64/libascendcl.so").exists());
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
fn second_names_suit_what_the_prefix_has() {
    type Case = (&'static str, &'static [&'static str], Option<(&'static str, &'static str)>);
    let table: [Case; 5] = [
        ("fresh", &[], None),
        ("own", &["lib64/theirs"], None),
        ("both", &["lib64/theirs", "lib/deep/theirs"], None),
        ("turned", &["lib64/"], Some(("lib", "lib64"))),
        ("kept", &["lib/theirs"], Some(("lib64", "lib"))),
    ];
    for (name, files, link) in table {
        let prefix = scratch(name);
        for file in files {
            let place = prefix.join(file);
            fs::create_dir_all(if file.ends_with('/') { &place } else { place.parent().expect("below") })
                .expect("writable");
            let _ = file.ends_with('/') || fs::write(&place, "theirs").is_ok();
        }
        if let Some((link, target)) = link {
            symlink(target, prefix.join(link)).expect("writable");
        }
        for library in ["one", "two"] {
            tree(library, &[]).put(&prefix).unwrap_or_else(|why| panic!("{name}: {why}"));
            for file in ["lib/libascendcl.so", "lib64/libascendcl.so", "lib64/libacl_rt.so"] {
                assert_eq!(text(prefix.join(file)), library, "{file}, {name}");
            }
            for file in files.iter().filter(|file| !file.ends_with('/')) {
                assert_eq!(text(prefix.join(file)), "theirs", "{file}, {name}");
            }
        }
        fs::remove_dir_all(prefix).expect("ours");
    }
}

#[test]
fn a_link_of_others_that_leads_elsewhere_is_left_alone() {
    let prefix = scratch("elsewhere");
    fs::create_dir_all(prefix.join("other")).expect("writable");
    symlink("other", prefix.join("lib64")).expect("writable");
    let why = tree("one", &[]).put(&prefix).expect_err("lib64 is theirs");
    assert!(why.contains("lib64 leads elsewhere"), "{why}");
    assert!(!prefix.join("any-linux").exists(), "refused, and written all the same");
    fs::remove_dir_all(prefix).expect("ours");
}

#[test]
fn the_flat_tree_of_before_becomes_the_new_one() {
    for (name, theirs) in [("ours-alone", None), ("with-theirs", Some("lib/theirs"))] {
        let prefix = scratch(name);
        flat_tree("one").put(&prefix).expect("an empty prefix");
        if let Some(file) = theirs {
            fs::write(prefix.join(file), "theirs").expect("writable");
        }
        // Cut short after the list of both was written, and once more.
        for attempt in ["two", "three"] {
            let mut list = text(prefix.join(LIST));
            list += "lib/libascendcl.so\nlib/pkgconfig/ascendcl.pc\n";
            fs::write(prefix.join(LIST), list).expect("ours");
            tree(attempt, &[]).put(&prefix).expect("over the flat one");
            for file in ["lib/libascendcl.so", "lib64/libacl_rt.so", "any-linux/lib64/libascendcl.so"] {
                assert_eq!(text(prefix.join(file)), attempt, "{file}, {name}");
            }
            assert!(!prefix.join("lib/pkgconfig").exists(), "{name}");
        }
        assert_eq!(prefix.join("lib").is_symlink(), theirs.is_none(), "{name}");
        fs::remove_dir_all(prefix).expect("ours");
    }
}

#[test]
fn a_library_of_others_is_left_alone() {
    for folder in ["lib", "lib64", "any-linux/lib64"] {
        let prefix = scratch(&format!("foreign-{}", folder.replace('/', "-")));
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
