//! Just enough reading of C and Rust for the signatures of this project: tokens, and lists of tokens cut at
//! commas.
//!
//! No preprocessor, no macros, no grammar: both sides are ours, and what is not understood is an error, never
//! skipped.

/// A function as both sides can state it; types are in Rust's spelling.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    pub name: String,
    pub params: Vec<Param>,
    pub ret: String,
}

/// One parameter of a [`Function`].
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    pub name: String,
    pub ty: String,
}

impl Param {
    /// What stands for variable arguments at the end.
    pub fn variable() -> Param {
        Param { name: "...".to_string(), ty: "...".to_string() }
    }
}

/// Cuts C or Rust text into words, string literals and punctuation; comments are dropped.
pub fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            comment(rest)
        } else {
            let len = token(rest, first);
            out.push(rest[..len].to_string());
            len
        };
        rest = &rest[len..];
    }
    out
}

fn token(rest: &str, first: char) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word = |from: usize| rest[from..].find(|c| !is_word(c)).map_or(rest.len(), |n| n + from);
    match first {
        '"' => quoted(rest, '"'),
        // A quote opens a character if one closes it, else it is a lifetime.
        '\'' if rest[1..].starts_with('\\') || rest[1..].chars().nth(1) == Some('\'') => quoted(rest, '\''),
        '\'' => word(1),
        c if is_word(c) => word(0),
        _ if rest.starts_with("->") || rest.starts_with("::") || rest.starts_with("=>") => 2,
        c => c.len_utf8(),
    }
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The same text without block comments, so that a directive whose comment goes on is one line.
pub fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find("/*") {
        out.push_str(&rest[..start]);
        rest = &rest[start + comment(&rest[start..])..];
    }
    out + rest
}

/// Length of a block comment; Rust's nest.
fn comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Index of the token that closes the bracket at `open`.
pub fn closing(tokens: &[String], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" | ">" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Cuts a list at `separator`, not inside brackets; empty pieces are dropped.
pub fn split<'a>(list: &'a [String], separator: &str) -> Vec<&'a [String]> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < list.len() {
        match list[at].as_str() {
            t if t == separator => {
                pieces.push(&list[start..at]);
                start = at + 1;
            }
            "(" | "[" | "{" | "<" => at = closing(list, at).unwrap_or(list.len() - 1),
            _ => {}
        }
        at += 1;
    }
    pieces.push(&list[start..]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Is it a name, rather than punctuation?
pub fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Writes tokens the way rustfmt would, so that two spellings of one type read the same.
pub fn joined(tokens: &[String]) -> String {
    let mut out = String::new();
    for token in tokens {
        let tight = |edge: char| "*(<[&".contains(edge);
        let space = !out.is_empty()
            && !out.ends_with(tight)
            && !matches!(token.as_str(), ")" | ">" | "]" | "," | "(" | "<" | ";" | ":");
        if space {
            out.push(' ');
        }
        out.push_str(token);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_vanish_and_quotes_hold_together() {
        for (text, want) in [
            ("a /* b /* c */ d */ e", vec!["a", "e"]),
            ("a // b\n c", vec!["a", "c"]),
            (r#"extern "C /*" fn"#, vec!["extern", "\"C /*\"", "fn"]),
            (r"'{' 'a '\'' x", vec!["'{'", "'a", "'\\''", "x"]),
            ("fn f()->a::B", vec!["fn", "f", "(", ")", "->", "a", "::", "B"]),
        ] {
            assert_eq!(tokens(text), want, "{text}");
        }
    }

    #[test]
    fn lists_are_cut_outside_brackets_only() {
        let list = tokens("a: *mut c_void, f: Option<fn(u8, u8)>,");
        let pieces: Vec<String> = split(&list, ",").into_iter().map(joined).collect();
        assert_eq!(pieces, ["a: *mut c_void", "f: Option<fn(u8, u8)>"]);
    }
}
