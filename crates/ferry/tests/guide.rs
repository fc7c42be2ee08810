//! The guide's table for those who come from C has every function of the headers in it, and no other.

use std::{collections::BTreeSet, fs, path::Path};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a line of a header declares: `aclError aclrtFree(void *devPtr);` is aclrtFree.
fn declared(line: &str) -> Option<&str> {
    if !line.starts_with(|first: char| first.is_ascii_alphabetic()) || line.starts_with("typedef") {
        return None;
    }
    let (before, _) = line.split_once('(')?;
    before.rsplit([' ', '*']).next()
}

/// The functions that a text names, each in backticks of its own.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let is_function =
        |word: &&str| word.starts_with("acl") && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.split('`').filter(is_function)
}

#[test]
fn the_table_from_c_names_every_function_and_no_other() {
    let headers = read("../../include/acl/acl_base.h") + &read("../../include/acl/acl_rt.h");
    let functions: BTreeSet<&str> = headers.lines().filter_map(declared).collect();
    assert!(functions.len() > 100, "the headers are not read right: {functions:?}");
    let chapter = read("src/guide/from_aclrt.md");
    assert_eq!(named(&chapter).collect::<BTreeSet<_>>(), functions);
}
