//! Reads the Rust side: exported functions, type aliases and `repr(C)` structs, as text.

use super::text::{Function, Param, closing, joined, split, tokens};
use std::collections::{BTreeMap, BTreeSet};

/// What the sources of the C library define.
#[derive(Debug, Default)]
pub struct Source {
    pub functions: Vec<Function>,
    pub aliases: BTreeMap<String, String>,
    /// `repr(C)` structs.
    pub structs: BTreeSet<String>,
}

impl Source {
    /// Adds what one file defines.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        let code = tokens(text);
        for at in 0..code.len() {
            match code[at..].iter().map(String::as_str).take(4).collect::<Vec<_>>()[..] {
                // A name of "(" is a parameter's type.
                ["extern", "\"C\"", "fn", name]
                    if name.starts_with("acl") || (name != "(" && has(&code[..at], "no_mangle")) =>
                {
                    let mut function = function(&code[at + 3..])?;
                    function.params.extend(has(&code[..at], "naked").then(Param::variable));
                    self.functions.push(function);
                }
                ["type", name, "=", ..] => {
                    let end = code[at..].iter().position(|t| t == ";").ok_or("type without end")?;
                    self.aliases.insert(name.to_string(), rust_type(&code[at + 3..at + end]));
                }
                ["struct", name, ..] if has(&code[..at], "repr") => {
                    self.structs.insert(name.to_string());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Does the item whose attributes and qualifiers end `before` carry `word`?
fn has(before: &[String], word: &str) -> bool {
    before.iter().rev().take_while(|t| !matches!(t.as_str(), ";" | "}" | "{")).any(|t| t == word)
}

/// `name(params) -> R {`
fn function(code: &[String]) -> Result<Function, String> {
    let name = code[0].clone();
    let bad = || format!("{name}: signature not understood");
    if code.get(1).is_none_or(|t| t != "(") {
        return Err(bad());
    }
    let close = closing(code, 1).ok_or_else(bad)?;
    let mut params = Vec::new();
    for param in split(&code[2..close], ",") {
        let colon = param.iter().position(|t| t == ":").filter(|&at| at > 0).ok_or_else(bad)?;
        params.push(Param { name: param[colon - 1].clone(), ty: rust_type(&param[colon + 1..]) });
    }
    let body = code[close..].iter().position(|t| t == "{").ok_or_else(bad)? + close;
    let ret = match &code[close + 1..body] {
        [] => "()".to_string(),
        [_arrow, ty @ ..] => rust_type(ty),
    };
    Ok(Function { name, params, ret })
}

/// A type without paths and parameter names: `std::ffi::c_void` is `c_void`, `fn(args: T)` is `fn(T)`.
fn rust_type(code: &[String]) -> String {
    let mut plain: Vec<String> = Vec::new();
    for token in code {
        match token.as_str() {
            "::" | ":" => drop(plain.pop()),
            "c_int" => plain.push("i32".to_string()),
            "c_float" => plain.push("f32".to_string()),
            _ => plain.push(token.clone()),
        }
    }
    joined(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_crosses_the_border_is_taken() {
        let mut source = Source::default();
        source
            .read(
                r#"
                pub type H = *mut std::ffi::c_void; // extern "C" fn aclNot(a: u8) {}
                pub type F = Option<unsafe extern "C" fn(args: *mut c_void)>;
                #[repr(C)] #[derive(Clone)] pub struct S { a: u32 }
                struct Private;
                extern "C" fn on_signal(n: i32) {}
                #[unsafe(no_mangle)]
                pub unsafe extern "C" fn aclF(dst: *mut ffi::c_void, _n: usize, f: super::F,) -> aclError
                { 0 }
                #[unsafe(no_mangle)] pub extern "C" fn ferryG() {}
                #[unsafe(no_mangle)] #[unsafe(naked)] pub extern "C" fn aclV(a: u8) {}
                "#,
            )
            .expect("the sample is well formed");
        let param = |name: &str, ty: &str| Param { name: name.into(), ty: ty.into() };
        let params = vec![param("dst", "*mut c_void"), param("_n", "usize"), param("f", "F")];
        let want = [
            Function { name: "aclF".into(), params, ret: "aclError".into() },
            Function { name: "ferryG".into(), params: vec![], ret: "()".into() },
            Function {
                name: "aclV".into(),
                params: vec![param("a", "u8"), param("...", "...")],
                ret: "()".into(),
            },
        ];
        assert_eq!(source.functions, want);
        assert_eq!(source.aliases["H"], "*mut c_void");
        assert_eq!(source.aliases["F"], "Option<unsafe extern \"C\" fn(*mut c_void)>");
        assert_eq!(source.structs.into_iter().collect::<Vec<_>>(), ["S"]);
    }
}
