//! Small trees in which one thing is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::offence::Offence;
use super::package::Package;
use super::{cycles, floors, map, mentions, names, openings, ratchet, traits, widths};

/// A package of files below `crates/NAME/src`.
fn package(name: &str, files: &[(&str, &str)]) -> Package {
    let folder = format!("crates/{name}");
    let text = |file: &Path| {
        let inside = file.strip_prefix(&folder).ok()?.strip_prefix("src").ok()?;
        files.iter().find(|(known, _)| Path::new(known) == inside).map(|(_, text)| (*text).to_owned())
    };
    Package::load(&text, &folder).expect("a sound tree")
}

/// The arrows of a package as `from -> to`.
fn arrows(files: &[(&str, &str)]) -> BTreeSet<String> {
    let package = package("some", files);
    let name = |at: usize| package.modules[at].file.strip_prefix("crates/some/src").expect("below").display();
    package.arrows().iter().map(|arrow| format!("{} -> {}", name(arrow.from), name(arrow.to))).collect()
}

fn keys(found: &[Offence]) -> Vec<String> {
    found.iter().map(|offence| format!("{} {} {}", offence.rule, offence.subject, offence.count)).collect()
}

fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
    let package = package("some", files);
    keys(&cycles::check(&package, &package.arrows()))
}

#[test]
fn arrows_lead_to_where_things_are_defined() {
    let tree = |uses: &str| {
        arrows(&[
            ("lib.rs", "mod a; mod b; mod c; pub use b::Thing; pub use c::*; pub use b as other;"),
            ("a.rs", uses),
            ("b.rs", "mod deep; pub use deep::Thing; pub use self::deep::{make as made, inner::Kept};"),
            ("b/deep.rs", "pub struct Thing; pub fn make() {} pub mod inner { pub struct Kept; }"),
            (
                "c.rs",
                "pub struct Other; pub enum Kind { One } macro_rules! told { () => {} } numbers! { FEW }",
            ),
        ])
    };
    let to = |target: &str| BTreeSet::from([format!("a.rs -> {target}")]);
    for (uses, want) in [
        // Through re-exports, by whatever way.
        ("use crate::Thing;", to("b/deep.rs")),
        ("use crate::b::Thing as Renamed;", to("b/deep.rs")),
        ("use crate::b::deep::Thing;", to("b/deep.rs")),
        ("use super::other::made;", to("b/deep.rs")),
        ("use super::b; fn f() { b::made() }", to("b/deep.rs")),
        ("use crate::b::Kept;", to("b/deep.rs")),
        ("use crate::{Other, b::{self}};", to("c.rs")),
        // Through globs.
        ("use crate::*; fn f(_: Thing) {}", to("b/deep.rs")),
        ("use super::c::*; fn f() { Kind::One; }", to("c.rs")),
        ("fn f() { use crate::*; let x = Other; }", to("c.rs")),
        // Paths in types, expressions, patterns, attributes and macro calls.
        ("struct S { thing: Option<crate::b::Thing> }", to("b/deep.rs")),
        ("fn f() { println!(\"{}\", super::b::deep::make()) }", to("b/deep.rs")),
        ("fn f(k: u8) { match k { crate::c::Kind::One => {} } }", to("c.rs")),
        ("#[arg(value_parser = crate::b::made)] struct S;", to("b/deep.rs")),
        ("impl crate::Other { fn f() {} }", to("c.rs")),
        ("mod inside { use super::super::c::Other; }", to("c.rs")),
        ("fn f() { told!() }", to("c.rs")),
        // What a macro has defined.
        ("use crate::c::FEW;", to("c.rs")),
        // No arrows: modules alone, re-exports alone, tests, other crates, fields and methods of the same
        // name.
        ("use crate::b;", BTreeSet::new()),
        ("pub use crate::b::Thing;", BTreeSet::new()),
        ("#[cfg(test)] mod tests { use crate::Thing; }", BTreeSet::new()),
        ("#[cfg(all(test, not(loom)))] mod tests { use crate::Thing; }", BTreeSet::new()),
        ("#[cfg(loom)] use crate::Thing;", BTreeSet::new()),
        ("use std::fmt; fn f(x: Vec<u8>) { x.Thing(); ::other::Thing; }", BTreeSet::new()),
        // A re-export that the module uses itself.
        ("pub use crate::b::Thing; fn f(_: Thing) {}", to("b/deep.rs")),
        ("#[cfg(not(test))] use crate::Thing;", to("b/deep.rs")),
        ("#[cfg(target_os = \"linux\")] use crate::Thing;", to("b/deep.rs")),
    ] {
        assert_eq!(tree(uses), want, "{uses}");
    }
}

#[test]
fn three_modules_may_import_each_other_and_four_may_not() {
    let ring = |count: usize| {
        let names = ["a", "b", "c", "d"];
        let text: Vec<String> = (0..count)
            .map(|at| {
                format!("use crate::{}::T{}; pub struct T{at};", names[(at + 1) % count], (at + 1) % count)
            })
            .collect();
        let root: String = names[..count].iter().map(|name| format!("pub mod {name};")).collect();
        let files = ["a.rs", "b.rs", "c.rs", "d.rs"];
        let mut tree: Vec<(&str, &str)> = vec![("lib.rs", &root)];
        tree.extend(files.iter().copied().zip(text.iter().map(String::as_str)));
        cycles_of(&tree)
    };
    assert_eq!(ring(3), Vec::<String>::new());
    assert_eq!(ring(4), ["cycle some 4"]);
}

#[test]
fn a_folder_is_in_no_cycle() {
    let tree = |low: &str| {
        cycles_of(&[
            ("lib.rs", "mod high; mod low; pub use low::Low;"),
            ("high/mod.rs", "mod one; mod two; pub use two::Two;"),
            ("high/one.rs", "use crate::Low; use super::Two; pub struct One;"),
            ("high/two.rs", "use super::one::One; pub struct Two;"),
            ("low.rs", low),
        ])
    };
    assert_eq!(tree("pub struct Low;"), Vec::<String>::new());
    assert_eq!(tree("use crate::high::Two; pub struct Low;"), ["cycle some 2"]);
}

#[test]
fn the_file_of_a_folder_counts_inside_if_it_has_code() {
    let tree = |own: &str| {
        cycles_of(&[
            ("lib.rs", "mod x;"),
            ("x.rs", &format!("mod a; mod b; mod c; {own}")),
            ("x/a.rs", "use super::b::B; use super::Own; pub struct A;"),
            ("x/b.rs", "use super::c::C; pub struct B;"),
            ("x/c.rs", "use super::a::A; pub struct C;"),
        ])
    };
    assert_eq!(tree("pub use elsewhere::Own;"), Vec::<String>::new());
    assert_eq!(tree("pub struct Own(a::A);"), ["cycle some/x 4"]);
}

#[test]
fn a_name_is_defined_once_in_a_crate_and_has_one_noun() {
    let one = package(
        "one",
        &[
            ("lib.rs", "mod a; struct Lane; struct Alone; trait T { type Lane; }"),
            (
                "a.rs",
                "
        enum Lane {}
        #[cfg(test)] mod tests { struct Alone; }
        #[cfg(target_arch = \"x86_64\")] struct Wide;
        #[cfg(not(target_arch = \"x86_64\"))] struct Wide;
        impl X for Y { type Alone = u8; }
    ",
            ),
        ],
    );
    let two = package("two", &[("lib.rs", "fn f() { struct Alone; } type Stream = u8;")]);
    let three = package("three", &[("lib.rs", "union Stream { a: u8 }")]);
    let nouns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let packages = [one, two, three];
    let found = keys(&names::check(&packages, &nouns(&["Stream"])));
    assert_eq!(found, ["noun Alone 2", "name one Lane 2"]);
    let found = keys(&names::check(&packages, &nouns(&["Alone", "Lane"])));
    assert_eq!(found, ["name one Lane 2", "noun Lane 1", "noun Stream 2"]);
}

#[test]
fn a_verb_that_several_modules_use_has_a_meaning() {
    let some = package(
        "some",
        &[
            ("lib.rs", "mod a; impl X { pub(crate) unsafe fn look(&self) {} fn looks() {} }"),
            (
                "a.rs",
                "fn look() {} fn hold() {} #[cfg(test)] mod tests { fn settle() {} } trait T { fn settle(); \
                 }",
            ),
        ],
    );
    let nouns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let packages = [some];
    assert_eq!(keys(&names::check(&packages, &nouns(&[]))), ["verb look 2"]);
    assert_eq!(keys(&names::check(&packages, &nouns(&["fn look"]))), Vec::<String>::new());
}

#[test]
fn backends_keep_apart() {
    let tree = |floor: &str, host: &str, cuda: &str| {
        let package = package(
            "backends",
            &[
                ("lib.rs", "pub mod host; pub mod cuda; pub mod os; pub use host::Host;"),
                ("host/mod.rs", &format!("pub mod copy; pub struct Host; {host}")),
                ("host/copy.rs", "pub fn copy() {} use crate::os::Map;"),
                ("cuda/mod.rs", &format!("pub struct Cuda; {cuda}")),
                ("os.rs", &format!("pub struct Map; {floor}")),
            ],
        );
        keys(&floors::check_backends(&package, &package.arrows()))
    };
    assert_eq!(tree("", "use crate::os::Map;", "use crate::os::Map;"), Vec::<String>::new());
    assert_eq!(tree("", "", "fn f() { crate::host::copy::copy() }"), ["side backends cuda host/copy 1"]);
    assert_eq!(tree("", "use crate::cuda::Cuda;", ""), ["side backends host cuda 1"]);
    assert_eq!(tree("use crate::Host;", "", ""), ["side backends os host 1"]);
}

#[test]
fn no_floor_of_cuda_reaches_a_higher_one() {
    let tree = |driver: &str, settings: &str| {
        let package = package(
            "backends",
            &[
                ("lib.rs", "pub mod cuda;"),
                ("cuda/mod.rs", "mod driver; mod order; mod shared; mod settings; pub struct Cuda;"),
                ("cuda/driver.rs", driver),
                ("cuda/order.rs", "use super::driver::D; pub struct O;"),
                ("cuda/shared.rs", "use super::order::O; pub struct S;"),
                ("cuda/settings.rs", settings),
            ],
        );
        keys(&floors::check_floors(&package, &package.arrows()))
    };
    assert_eq!(tree("use super::settings::N; pub struct D;", "pub struct N;"), Vec::<String>::new());
    assert_eq!(tree("use super::order::O; pub struct D;", ""), ["floor driver order 1"]);
    assert_eq!(tree("use super::Cuda; pub struct D;", ""), ["floor driver mod 1"]);
    // By a way round.
    let around = tree("use super::settings::N; pub struct D;", "use super::shared::S; pub struct N;");
    assert_eq!(around, ["floor driver shared 1"]);
}

#[test]
fn traits_count_with_what_they_build_on() {
    let body = |count: usize| "fn f(&self) -> u8 { 0 } ".repeat(count);
    let tree = |fence: usize, above: usize| {
        let text = format!(
            "pub trait Backend {{}} pub trait Queue: Send {{}} pub trait Above {{ type T; {} }}
             pub unsafe trait Fence: Any + Above {{ /// Said.\n {} const N: u8; }}",
            body(above),
            body(fence)
        );
        keys(&traits::check(&package("core", &[("lib.rs", &text)])))
    };
    assert_eq!(tree(3, 2), Vec::<String>::new());
    assert_eq!(tree(3, 3), ["trait Fence 6"]);
}

#[test]
fn lines_have_at_most_110_columns() {
    let file = Path::new("a.rs");
    let words = |columns: usize| "é ".repeat(columns / 2);
    let wide = |text: &str| widths::wide_lines(file, text);
    assert_eq!(wide(&words(110)), Vec::<String>::new());
    let found = wide(&format!("\n{}\n{}\n", words(112), words(200)));
    assert_eq!(found, ["\n    a.rs:2: 112", "\n    a.rs:3: 200"]);
    assert_eq!(wide(&format!("// https://{}", "x".repeat(120))), Vec::<String>::new(), "an address");
    assert_eq!(wide(&format!("    /// | a row {}|", words(120))), Vec::<String>::new(), "of a table");
}

#[test]
fn modules_open_with_what_they_are_for() {
    let tree = |folder: &str, inside: &str| {
        let files = [("lib.rs", "//! Root.\nmod x;"), ("x.rs", folder), ("x/a.rs", inside)];
        keys(&openings::check(&package("some", &files)))
    };
    let five = "//! 1\n//! 2\n//!\n//! 4\n//! 5\nmod a;";
    assert_eq!(tree(five, "//! A."), [""; 0]);
    assert_eq!(tree(five, "struct A;"), ["opening some 1"]);
    assert_eq!(tree("//! 1\n//! 2\nmod a;", "//! A."), ["opening some 1"]);
}

#[test]
fn files_that_comments_and_documents_name_are_there() {
    let known: Vec<_> = ["crates/core/src/plan/runs.rs", "docs/cuda.md"].map(mentions::words).into();
    let names = |text: &str| -> Vec<String> {
        mentions::stale(text, false, &known).into_iter().map(|(_, name)| name).collect()
    };
    assert_eq!(names("// see `runs.rs`, `plan/runs.rs`, `core/plan/runs.rs` and `../cuda.md`"), [""; 0]);
    assert_eq!(names("code `gone.rs`\n/// `*.rs`, `.rs`, `/etc/x.h` and `a b.rs`"), [""; 0]);
    assert_eq!(names("    //! `gone.rs` and `acl/runs.rs`"), ["gone.rs", "acl/runs.rs"]);
    assert_eq!(mentions::stale("a\n`gone.md`", true, &known), [(2, "gone.md".to_owned())]);
}

#[test]
fn types_and_constants_that_comments_of_kernels_name_are_defined() {
    let known =
        mentions::defined("pub struct GrowingList {\nconst SLOTS_MAX: usize\n#define FACTS 9\nenum Kind {}");
    let text = "// `GrowingList`, `SLOTS_MAX`, `FACTS`, `Kind`; `taken` is a field\n// `List`\ncode `Gone`";
    assert_eq!(mentions::undefined(text, &known), [(2, "List".to_owned())]);
}

#[test]
fn the_list_of_known_offences_only_shrinks() {
    let offence = |count| vec![Offence::new("width", "a b.rs".to_owned(), count, "too wide".to_owned())];
    let known = ratchet::parse("# known\nwidth a b.rs 3\n").expect("a list");
    assert_eq!(ratchet::compare(&offence(3), &known), Vec::<String>::new());
    assert_eq!(ratchet::compare(&offence(4), &known), ["width: too wide"]);
    assert_eq!(ratchet::compare(&offence(2), &known).len(), 1, "the list is longer than it needs to be");
    assert_eq!(ratchet::compare(&[], &known).len(), 1);
    assert_eq!(ratchet::compare(&offence(1), &BTreeMap::new()), ["width: too wide"]);
    let pruned = |found: &[Offence]| ratchet::prune("# known\nwidth a b.rs 3\n", found).expect("a list");
    assert_eq!(pruned(&offence(5)), "# known\nwidth a b.rs 3\n");
    assert_eq!(pruned(&offence(1)), "# known\nwidth a b.rs 1\n");
    assert_eq!(pruned(&[]), "# known\n");
    assert!(ratchet::parse("width").is_err());
}

#[test]
fn the_map_has_each_module_with_its_first_sentence() {
    let package = package(
        "backends",
        &[
            ("lib.rs", "//! Ways to reach [`devices`](crate::a). More.\nmod host; mod os; mod tests;"),
            ("host/mod.rs", "//! A\n//! backend: of memory\n//!\n//! Later.\nmod lane;"),
            ("host/lane.rs", "//! Work | order."),
            ("os.rs", &format!("//! Pages: {}.", "and more ".repeat(12))),
            ("tests.rs", "//! Tests."),
        ],
    );
    let want = "\n### `crates/backends/src`\n\n| module | is |\n|---|---|\n\
                | `lib.rs` | Ways to reach `devices` |\n| `os.rs` | Pages |\n| `tests.rs` | Tests |\n\
                \n### `crates/backends/src/host`\n\n| module | is |\n|---|---|\n\
                | `mod.rs` | A backend: of memory |\n| `lane.rs` | Work \\| order |\n\n";
    assert_eq!(map::draw(&[package]), want);
}

#[test]
fn dependencies_of_a_manifest_are_those_of_the_product() {
    let text = "[package]\nname = \"ferry-acl\"\n[dependencies]\nferry.workspace = true\n\
                ferry-core = { path = \"x\" }\nlibc = \"1\"\n\
                [target.\"cfg(loom)\".dependencies]\nferry-abi.workspace = true\n\
                [dev-dependencies]\nferry-capi.workspace = true\n";
    assert_eq!(floors::dependencies(text), ["ferry", "core", "abi"]);
}
