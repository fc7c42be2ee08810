//! Words, numbers and signs of an assertion, each with its column.

use std::fmt;

use super::dimension::{Dimension, UNITS};

/// What is wrong with an assertion, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// The assertion.
    pub text: String,
    /// The column of the first character that is wrong, from 1.
    pub column: usize,
    /// What was expected and what was given.
    pub message: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        // One line, whatever is in the text, so that the mark below is under the right character.
        let text: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(f, "column {}: {}", self.column, self.message)?;
        write!(f, "  {text}\n  {}^", " ".repeat(self.column.saturating_sub(1)))
    }
}

impl std::error::Error for ExpressionError {}

/// One word of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number { value: f64, dimension: Dimension },
    Name(String),
    Sign(&'static str),
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Token::Number { .. } => f.write_str("a number"),
            Token::Name(name) => write!(f, "`{name}`"),
            Token::Sign(sign) => write!(f, "`{sign}`"),
            Token::End => f.write_str("the end"),
        }
    }
}

/// A word and where it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed {
    pub(super) token: Token,
    /// The bytes of the text that it takes.
    pub(super) from: usize,
    pub(super) to: usize,
}

const SIGNS: [&str; 15] = ["==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "+", "-", "*", "/"];
/// What other languages write, and what we do.
const ALMOST: [(&str, &str); 3] = [("=", "=="), ("&", "&&"), ("|", "||")];

/// Cuts an expression into words. The last one is [`Token::End`].
pub(super) fn words(text: &str) -> Result<Vec<Placed>, ExpressionError> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else { break };
        let (token, len) = if first.is_ascii_digit() || first == '.' {
            number(text, at)?
        } else if first.is_alphabetic() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Token::Name(rest[..len].to_owned()), len)
        } else {
            sign(text, at)?
        };
        words.push(Placed { token, from: at, to: at + len });
        at += len;
    }
    words.push(Placed { token: Token::End, from: text.len(), to: text.len() });
    Ok(words)
}

/// The error at a byte of the text.
pub(super) fn error(text: &str, at: usize, message: impl Into<String>) -> ExpressionError {
    let column = text[..at].chars().count() + 1;
    ExpressionError { text: text.to_owned(), column, message: message.into() }
}

fn sign(text: &str, at: usize) -> Result<(Token, usize), ExpressionError> {
    let rest = &text[at..];
    if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        return Ok((Token::Sign(sign), sign.len()));
    }
    let almost = ALMOST.iter().find(|(sign, _)| rest.starts_with(sign));
    Err(match almost {
        Some((sign, ours)) => error(text, at, format!("`{sign}` is not an operator; `{ours}` is")),
        None => {
            let given = rest.chars().next().unwrap_or(' ');
            error(text, at, format!("expected a name, a number or an operator, not {given:?}"))
        }
    })
}

/// A number with its unit, if there is one directly behind it or after a blank.
fn number(text: &str, at: usize) -> Result<(Token, usize), ExpressionError> {
    let rest = &text[at..];
    let digits = digits(rest);
    let plain: String = rest[..digits].chars().filter(|c| *c != '_').collect();
    let value: f64 = plain.parse().map_err(|_| error(text, at, format!("`{plain}` is not a number")))?;
    let behind = &rest[digits..];
    let blanks = behind.len() - behind.trim_start().len();
    let word = unit_word(&behind[blanks..]);
    // A name after a blank is no unit: then something is missing between, which the parser says.
    let unit = UNITS.iter().find(|(name, ..)| *name == word);
    match unit {
        Some((name, factor, dimension)) if blanks == 0 || *name != "%" => {
            Ok((Token::Number { value: value * factor, dimension: *dimension }, digits + blanks + name.len()))
        }
        _ if blanks == 0 && !word.is_empty() => {
            let names: Vec<&str> = UNITS.iter().map(|(name, ..)| *name).collect();
            let message = format!("`{word}` is not a unit; units are {}", names.join(", "));
            Err(error(text, at + digits, message))
        }
        _ => Ok((Token::Number { value, dimension: Dimension::NUMBER }, digits)),
    }
}

/// How many bytes a number takes: digits, one point, an exponent; `_` between digits is for the eye.
fn digits(text: &str) -> usize {
    let of = |text: &str| text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let mut len = of(text);
    if text[len..].starts_with('.') {
        len += 1 + of(&text[len + 1..]);
    }
    if let Some(exponent) = text[len..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let digits = of(&exponent[sign..]);
        len += if digits > 0 { 1 + sign + digits } else { 0 };
    }
    len
}

/// The letters that may be a unit, with `/s` behind them if it is there.
fn unit_word(text: &str) -> &str {
    if text.starts_with('%') {
        return &text[..1];
    }
    let letters = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let rest = &text[letters..];
    let is_rate = letters > 0
        && rest.starts_with("/s")
        && !rest[2..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    if is_rate { &text[..letters + 2] } else { &text[..letters] }
}
