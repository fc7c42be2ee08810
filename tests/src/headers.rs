//! The headers as text: every function they declare, what its arguments look like, and every code they know;
//! and the library, to call those functions by name. A function that a header gains is known here at once.

use std::collections::BTreeSet;
use std::ffi::{CString, c_void};
use std::path::Path;

const FILES: [&str; 7] = [
    "error_codes/rt_error_codes.h",
    "error_codes/ge_error_codes.h",
    "acl_base.h",
    "acl_rt.h",
    "acl.h",
    "ferry_ext.h",
    "ferry_rt.h",
];

/// A function of the headers.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The type of its result, as written.
    pub result: String,
    /// Its arguments; the dots of a variable list are not among them, nor is a struct by value.
    pub arguments: Vec<Argument>,
}

/// An argument of a function.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its type, as written.
    pub type_: String,
    /// What kind of value it takes.
    pub kind: Kind,
}

/// What kind of value an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that is not an enum's.
    Number,
    /// A member of an enum.
    Enum,
    /// The address of something.
    Pointer,
    /// A handle: a typedef of `void *`.
    Handle,
    /// A function to be called.
    Function,
}

/// All functions, in the order of the headers.
pub fn functions() -> Vec<Function> {
    let text = all();
    let statements = statements(&text);
    let typedefs = Typedefs::of(&statements);
    let named = |s: &str| s.contains("acl") || s.starts_with("int32_t rt");
    let of_acl = |s: &&String| !s.starts_with("typedef") && s.contains('(') && named(s);
    statements.iter().filter(of_acl).map(|statement| typedefs.function(statement)).collect()
}

/// Every code that a function may return.
pub fn codes() -> BTreeSet<i32> {
    let text = all();
    let macros = text.lines().filter_map(|line| line.strip_prefix("#define ACL_"));
    let codes = macros.filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let is_code = name.starts_with("ERROR_") || name.ends_with("SUCCESS");
        is_code.then(|| rest.split_whitespace().next()?.parse().ok()).flatten()
    });
    codes.collect()
}

fn all() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include/acl");
    FILES.map(|file| std::fs::read_to_string(folder.join(file)).expect("a header")).concat()
}

/// What ends with a semicolon outside of braces, without comments, directives and needless space.
fn statements(text: &str) -> Vec<String> {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").expect("a comment that ends").1;
    }
    code.push_str(rest);
    let lines = code.lines().filter(|line| !line.starts_with('#') && !line.starts_with("extern \"C\""));
    let (mut all, mut one, mut depth) = (Vec::new(), String::new(), 0);
    for c in lines.flat_map(|line| line.chars().chain([' '])) {
        match c {
            ';' if depth == 0 => all.push(std::mem::take(&mut one)),
            // The brace that ends `extern "C"` closes nothing of ours.
            '}' if depth == 0 => {}
            _ => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                one.push(c);
            }
        }
    }
    all.iter().map(|one| one.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[derive(Default)]
struct Typedefs {
    handles: BTreeSet<String>,
    functions: BTreeSet<String>,
    enums: BTreeSet<String>,
    structs: BTreeSet<String>,
}

impl Typedefs {
    fn of(statements: &[String]) -> Typedefs {
        let mut all = Typedefs::default();
        for text in statements.iter().filter_map(|statement| statement.strip_prefix("typedef ")) {
            let last = text.rsplit([' ', '*']).next().unwrap_or_default().to_owned();
            if let Some((_, rest)) = text.split_once("(*") {
                all.functions.insert(rest.split(')').next().unwrap_or_default().to_owned());
            } else if text.starts_with("enum") {
                all.enums.insert(last);
            } else if text.starts_with("struct") {
                all.structs.insert(last);
            } else if text.starts_with("void *") {
                all.handles.insert(last);
            }
        }
        all
    }

    /// `R name(T a, U b)`
    fn function(&self, statement: &str) -> Function {
        let (before, list) = statement.split_once('(').expect("a function has arguments");
        let at = before.rfind([' ', '*']).expect("a function has a result") + 1;
        let list = list.trim_end_matches(')');
        let is_struct = |one: &str| {
            self.structs.contains(one.split(' ').next().unwrap_or_default()) && !one.contains('*')
        };
        let arguments = list.split(',').map(str::trim).filter(|one| !matches!(*one, "void" | "..." | ""));
        // A struct by value takes no register: the call below passes zeros where it lies on the stack.
        let arguments = arguments.filter(|one| !is_struct(one));
        Function {
            name: before[at..].to_owned(),
            result: before[..at].trim().to_owned(),
            arguments: arguments.map(|one| self.argument(one)).collect(),
        }
    }

    fn argument(&self, text: &str) -> Argument {
        let at = text.rfind([' ', '*']).expect("an argument has a type and a name") + 1;
        let (type_, name) = (text[..at].trim(), &text[at..]);
        let plain = type_.trim_start_matches("const ");
        let kind = match plain {
            _ if type_.contains('*') => Kind::Pointer,
            "int" | "int32_t" | "uint32_t" | "int64_t" | "uint64_t" | "size_t" => Kind::Number,
            _ if self.handles.contains(plain) => Kind::Handle,
            _ if self.functions.contains(plain) => Kind::Function,
            _ if self.enums.contains(plain) => Kind::Enum,
            // A float comes in a register of its own, which the call below leaves as it is: any float will
            // do.
            "float" | "aclFloat16" => Kind::Number,
            _ => panic!("{text}: an argument of a type that is not understood here"),
        };
        Argument { name: name.to_owned(), type_: type_.to_owned(), kind }
    }
}

/// libascendcl.so, as programs load it: another engine than the one that tests are linked with.
pub struct Library(*mut c_void);

impl Library {
    /// Loads the library that lies beside this test.
    pub fn open() -> Library {
        let test = std::env::current_exe().expect("a running program has a path");
        let path = test.with_file_name("libascendcl.so");
        let text = CString::new(path.to_str().expect("a plain path")).expect("no NUL in it");
        // SAFETY: loading the library runs no code of ours that needs care.
        let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{} cannot be loaded", path.display());
        Library(handle)
    }

    /// Calls a function by its name with these numbers and addresses and zeros behind them; the result as 64
    /// bits.
    pub fn call(&self, name: &str, given: &[usize]) -> usize {
        type Any = extern "C" fn(
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
        ) -> usize;
        let text = CString::new(name).expect("no NUL in it");
        // SAFETY: the handle is open and the name ends with a zero.
        let function = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        assert!(!function.is_null(), "the headers declare {name}, which the library lacks");
        // SAFETY: a C function of the headers takes at most twelve numbers and addresses, each in a register
        // or a word of the stack, or six and a struct of eight words, and must answer any of them with a
        // code.
        let function: Any = unsafe { std::mem::transmute(function) };
        let mut all = [0; 14];
        all[..given.len()].copy_from_slice(given);
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = all;
        function(a, b, c, d, e, f, g, h, i, j, k, l, m, n)
    }
}
