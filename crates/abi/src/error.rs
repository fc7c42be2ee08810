//! Errors of programs that use the library: a call that failed, a value that is wrong, something that is
//! missing.

use std::fmt;

use crate::codes::named;

/// 207000: the function, kind or form is not supported here.
pub const NOT_SUPPORTED: i32 = 207000;
/// 100000: an argument is wrong; some functions also say this of a kind that a product lacks.
pub const INVALID_PARAM: i32 = 100000;

/// What went wrong, displayed so that a person can act on it.
#[derive(Debug)]
pub enum Error {
    /// A call of the library answered with a code other than 0.
    Call {
        /// The function.
        name: &'static str,
        /// What it returned.
        code: i32,
        /// What aclGetRecentErrMsg says of it, if anything.
        message: String,
    },
    /// Something was not as it must be.
    Wrong {
        /// What it is.
        what: String,
        /// How it must be.
        expected: String,
        /// How it was.
        seen: String,
        /// The library's code, if what was seen is one.
        code: Option<i32>,
    },
    /// This machine lacks what is needed (a second device); nothing was tried.
    NotHere(String),
    /// The command could not get as far as calling the library.
    Setup(String),
}

/// The result of what can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The library's code, where the library answered.
    pub fn code(&self) -> Option<i32> {
        match self {
            Error::Call { code, .. } => Some(*code),
            Error::Wrong { code, .. } => *code,
            Error::NotHere(_) | Error::Setup(_) => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The library's words name the call and the code themselves, unless it is an earlier call's
            // failure.
            Error::Call { name, message, .. } if message.starts_with(name) => f.write_str(message),
            Error::Call { name, code, message } if message.is_empty() => {
                write!(f, "{name} answered {}", named(*code))
            }
            Error::Call { name, code, message } => write!(f, "{name} answered {}: {message}", named(*code)),
            Error::Wrong { what, expected, seen, .. } => write!(f, "{what}: expected {expected}, saw {seen}"),
            Error::NotHere(text) | Error::Setup(text) => f.write_str(text),
        }
    }
}

/// `Ok` if `good`, else an error with what was expected and seen.
pub fn ensure(good: bool, what: &str, expected: impl fmt::Display, seen: impl fmt::Display) -> Result<()> {
    if good { Ok(()) } else { Err(wrong(what, expected, seen, None)) }
}

/// `Ok` if the call was refused with exactly this code.
pub fn refused(what: &str, code: i32, outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.code() == Some(code) => Ok(()),
        Err(error) => Err(wrong(what, named(code), &error, error.code())),
        Ok(()) => Err(wrong(what, named(code), named(0), Some(0))),
    }
}

fn wrong(what: &str, expected: impl fmt::Display, seen: impl fmt::Display, code: Option<i32>) -> Error {
    Error::Wrong { what: what.to_owned(), expected: expected.to_string(), seen: seen.to_string(), code }
}
