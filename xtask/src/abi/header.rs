//! Reads the C headers: prototypes, typedefs, enums, structs and `#define`d numbers.
//!
//! The mapping to Rust, the whole of it:
//!
//! | C | Rust |
//! |---|---|
//! | `int`, `int32_t`, any enum | `i32` |
//! | `uint8_t` .. `uint64_t`, `int64_t`, `size_t` | `u8` .. `u64`, `i64`, `usize` |
//! | `float`, `double`, `char`, `void` | `f32`, `f64`, `c_char`, `c_void`; `void` as result: `()` |
//! | `T *`, `const T *` | `*mut T`, `*const T`, at every level |
//! | any other typedef or struct | the same name |
//! | `...` at the end | a naked function, which leaves its arguments as they are |
//! | typedef of a function pointer | `Option<unsafe extern "C" fn(..)>` behind the same name |

use super::text::{Function, Param, closing, is_word, joined, split, tokens, without_comments};
use std::collections::BTreeMap;

/// What the headers declare.
#[derive(Debug, Default)]
pub struct Header {
    pub functions: Vec<Function>,
    /// Typedef to the Rust type it stands for; enums, structs and unions are not in here.
    pub aliases: BTreeMap<String, String>,
    /// Enum to its members.
    pub enums: BTreeMap<String, Vec<String>>,
    /// Struct or union to its fields.
    pub structs: BTreeMap<String, Vec<String>>,
    /// Structs that only their name is known of.
    pub opaque: Vec<String>,
    /// Macros that are numbers.
    pub macros: Vec<String>,
}

impl Header {
    /// Adds what one file declares; files come in the order in which they include each other.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        let text = without_comments(text);
        let (directives, code): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.trim_start().starts_with('#'));
        for line in directives {
            self.directive(line)?;
        }
        let code = tokens(&code.join("\n"));
        let mut at = 0;
        while at < code.len() {
            match code[at].as_str() {
                "extern" => at += 3, // extern "C" {
                "}" => at += 1,
                _ => {
                    let end = statement(&code, at)?;
                    self.declaration(&code[at..end])?;
                    at = end + 1;
                }
            }
        }
        Ok(())
    }

    /// Every name that is a number: members of enums, and macros.
    pub fn constants(&self) -> impl Iterator<Item = &String> {
        self.enums.values().flatten().chain(&self.macros)
    }

    fn directive(&mut self, line: &str) -> Result<(), String> {
        let words = tokens(line);
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [.., "\\"] => Err(format!("macro over several lines: {line}")),
            ["#", "define", name, value] if value.starts_with(|c: char| c.is_ascii_digit()) => {
                self.macros.push(name.to_string());
                Ok(())
            }
            // The one macro that is a call.
            ["#", "define", "ACL_APP_LOG", ..] => Ok(()),
            // A lone name is an include guard.
            ["#", "define", _] => Ok(()),
            ["#", "define", ..] => Err(format!("macro that is not a number: {line}")),
            _ => Ok(()),
        }
    }

    fn declaration(&mut self, code: &[String]) -> Result<(), String> {
        let [first, rest @ ..] = code else { return Ok(()) };
        match first.as_str() {
            "typedef" => self.typedef(rest),
            _ => {
                let function = self.function(code)?;
                self.functions.push(function);
                Ok(())
            }
        }
    }

    fn typedef(&mut self, code: &[String]) -> Result<(), String> {
        let bad = || format!("typedef not understood: {}", joined(code));
        let name = code.last().ok_or_else(bad)?.clone();
        let body = code.iter().position(|t| t == "{");
        match (code[0].as_str(), body) {
            ("enum", Some(open)) => {
                let members = split(&code[open + 1..code.len() - 2], ",");
                let members = members.into_iter().map(|member| member[0].clone()).collect();
                self.enums.insert(name, members);
            }
            ("struct" | "union", Some(open)) => {
                let fields = split(&code[open + 1..code.len() - 2], ";");
                let fields =
                    fields.into_iter().map(|f| field(f).ok_or_else(bad)).collect::<Result<_, _>>()?;
                self.structs.insert(name, fields);
            }
            ("struct", None) if code.len() == 3 => self.opaque.push(name),
            _ => {
                let (name, ty) = match code.windows(2).position(|pair| pair[0] == "(" && pair[1] == "*") {
                    Some(open) => self.function_pointer(code, open)?,
                    None => (name, self.rust_type(&code[..code.len() - 1])?),
                };
                self.aliases.insert(name, ty);
            }
        }
        Ok(())
    }

    /// `R (*name)(params)`
    fn function_pointer(&self, code: &[String], open: usize) -> Result<(String, String), String> {
        let name = code[open + 2].clone();
        let flat = [&code[..open], std::slice::from_ref(&name), &code[open + 4..]].concat();
        let function = self.function(&flat)?;
        let params: Vec<String> = function.params.into_iter().map(|p| p.ty).collect();
        let result = if function.ret == "()" { String::new() } else { format!(" -> {}", function.ret) };
        Ok((name, format!("Option<unsafe extern \"C\" fn({}){result}>", params.join(", "))))
    }

    fn function(&self, code: &[String]) -> Result<Function, String> {
        let bad = || format!("declaration not understood: {}", joined(code));
        let open = code.iter().position(|t| t == "(").filter(|&open| open > 1).ok_or_else(bad)?;
        let close = closing(code, open).filter(|&close| close + 1 == code.len()).ok_or_else(bad)?;
        let ret = match &code[..open - 1] {
            [void] if void == "void" => "()".to_string(),
            ty => self.rust_type(ty)?,
        };
        let list = &code[open + 1..close];
        let mut params = Vec::new();
        let (list, variadic) = match list {
            [first @ .., a, b, c] if [a, b, c].into_iter().all(|t| t == ".") => (first, true),
            list => (list, false),
        };
        for param in if joined(list) == "void" { vec![] } else { split(list, ",") } {
            let (name, ty) =
                param.split_last().filter(|(name, ty)| is_word(name) && !ty.is_empty()).ok_or_else(bad)?;
            params.push(Param { name: name.clone(), ty: self.rust_type(ty)? });
        }
        params.extend(variadic.then(Param::variable));
        Ok(Function { name: code[open - 1].clone(), params, ret })
    }

    /// The mapping of this module's table.
    fn rust_type(&self, c: &[String]) -> Result<String, String> {
        let bad = || format!("C type not known: {}", joined(c));
        let stars = c.iter().position(|t| t == "*").unwrap_or(c.len());
        let (base, stars) = c.split_at(stars);
        let mut words = base.iter().filter(|t| *t != "const");
        let name = words.next().filter(|_| words.next().is_none()).ok_or_else(bad)?;
        let mut ty = match name.as_str() {
            "int" | "int32_t" => "i32".to_string(),
            "int64_t" => "i64".to_string(),
            "size_t" => "usize".to_string(),
            "float" => "f32".to_string(),
            "double" => "f64".to_string(),
            "char" | "void" => format!("c_{name}"),
            "uint8_t" | "uint16_t" | "uint32_t" | "uint64_t" => format!("u{}", &name[4..name.len() - 2]),
            _ if self.enums.contains_key(name) => "i32".to_string(),
            _ if self.aliases.contains_key(name) || self.structs.contains_key(name) => name.clone(),
            _ if self.opaque.contains(name) => name.clone(),
            _ => return Err(bad()),
        };
        // A const behind a star makes that pointer const, which the next star passes on.
        let mut constant = base.len() > 1;
        for token in stars {
            match token.as_str() {
                "*" => ty = format!("*{} {ty}", if constant { "const" } else { "mut" }),
                "const" => {}
                _ => return Err(bad()),
            }
            constant = token == "const";
        }
        Ok(ty)
    }
}

/// Index of the `;` that ends the declaration at `start`.
fn statement(code: &[String], start: usize) -> Result<usize, String> {
    let mut at = start;
    while at < code.len() {
        match code[at].as_str() {
            ";" => return Ok(at),
            "{" | "(" => at = closing(code, at).ok_or("bracket without end")?,
            _ => {}
        }
        at += 1;
    }
    Err(format!("declaration without end: {}", joined(&code[start..])))
}

/// Name of a field: the last word before an array's bracket.
fn field(code: &[String]) -> Option<String> {
    let end = code.iter().position(|t| t == "[").unwrap_or(code.len());
    code[..end].last().filter(|name| is_word(name)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Header {
        let mut header = Header::default();
        header.read(text).expect("the sample is well formed");
        header
    }

    #[test]
    fn types_map_as_the_table_says() {
        let text = "typedef enum { A = 0, B } E; typedef struct { int x; char y[4]; } S; typedef void *H;
            typedef void (*F)(void *args);\n";
        for (c, want) in [
            ("void *a", "*mut c_void"),
            ("const void *a", "*const c_void"),
            ("void **a", "*mut *mut c_void"),
            ("const void **a", "*mut *const c_void"),
            ("void *const *a", "*const *mut c_void"),
            ("E a", "i32"),
            ("E *a", "*mut i32"),
            ("S *a", "*mut S"),
            ("H a", "H"),
            ("H *a", "*mut H"),
            ("F a", "F"),
            ("size_t *a", "*mut usize"),
            ("uint32_t a", "u32"),
            ("const char *a", "*const c_char"),
        ] {
            let header = header(&format!("{text}int f({c});"));
            assert_eq!(header.functions[0].params[0].ty, want, "{c}");
            assert_eq!(header.aliases["F"], "Option<unsafe extern \"C\" fn(*mut c_void)>");
        }
    }

    #[test]
    fn members_fields_and_macros_are_found() {
        let header = header(
            "#ifndef G\n#define G\n#define N 0x4U /**< n\n    and more */\nextern \"C\" {\n\
             typedef enum { A = 0, /* a */ B = 2 } E;\ntypedef union { int x; int y[2]; } U;\n\
             void f(void);\n}\n#endif",
        );
        assert_eq!(header.constants().collect::<Vec<_>>(), ["A", "B", "N"]);
        assert_eq!(header.structs["U"], ["x", "y"]);
        let variadic = self::header("void v(int a, ...);").functions.remove(0);
        assert_eq!(variadic.params.last(), Some(&Param::variable()), "{variadic:?}");
        assert_eq!(header.functions, [Function { name: "f".into(), params: vec![], ret: "()".into() }]);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in
            ["int f(Unknown a);", "int f(int a[]);", "int x;", "#define M(a) a", "typedef enum { A } E"]
        {
            assert!(Header::default().read(text).is_err(), "{text}");
        }
    }
}
