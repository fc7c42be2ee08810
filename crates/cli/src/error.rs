//! What can go wrong in the command, said so that a person can act on it.

use std::fmt;

/// 207000: the function, kind or form is not supported here.
pub const NOT_SUPPORTED: i32 = 207000;
/// 100000: an argument is wrong; some functions also say this of a kind that a product lacks.
pub const INVALID_PARAM: i32 = 100000;

/// Everything the command reports.
#[derive(Debug)]
pub enum Error {
    /// A call of the library answered with a code other than 0.
    Call { name: &'static str, code: i32, message: String },
    /// Something was not as it must be. The code is there if what was seen is a code of the library.
    Wrong { what: String, expected: String, seen: String, code: Option<i32> },
    /// This machine lacks what is needed (a second device); nothing was tried.
    NotHere(String),
    /// The command could not get as far as calling the library.
    Setup(String),
}

/// The result of anything in the command.
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
            // The library's words name the call and the code themselves, unless it is an earlier call's failure.
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

/// `Ok` if `good`, else says what was expected and seen.
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

/// A code with its name, for the codes a person is likely to meet here.
pub fn named(code: i32) -> String {
    let name = match code {
        0 => "success",
        INVALID_PARAM => "ACL_ERROR_INVALID_PARAM",
        100002 => "ACL_ERROR_REPEAT_INITIALIZE",
        100033 => "ACL_ERROR_REPEAT_SUBSCRIBE",
        100037 => "ACL_ERROR_REPEAT_FINALIZE",
        107000 => "ACL_ERROR_RT_PARAM_INVALID",
        107001 => "ACL_ERROR_RT_INVALID_DEVICEID",
        107002 => "ACL_ERROR_RT_CONTEXT_NULL",
        107003 => "ACL_ERROR_RT_STREAM_CONTEXT",
        107006 => "ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID",
        107008 => "ACL_ERROR_RT_ADDR_UNALIGNED",
        107011 => "ACL_ERROR_RT_STREAM_SUBSCRIBE",
        107015 => "ACL_ERROR_RT_STREAM_NO_CB_REG",
        107017 => "ACL_ERROR_RT_INVALID_HANDLE",
        107021 => "ACL_ERROR_RT_SYSPARAMOPT_NOT_SET",
        107023 => "ACL_ERROR_RT_STREAM_ABORT",
        NOT_SUPPORTED => "ACL_ERROR_RT_FEATURE_NOT_SUPPORT",
        207001 => "ACL_ERROR_RT_MEMORY_ALLOCATION",
        207006 => "ACL_ERROR_RT_NO_PERMISSION",
        507006 => "ACL_ERROR_RT_EVENT_NOT_COMPLETE",
        507012 => "ACL_ERROR_RT_REPORT_TIMEOUT",
        507022 => "ACL_ERROR_RT_IPC_ERROR",
        507046 => "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT",
        507047 => "ACL_ERROR_RT_EVENT_SYNC_TIMEOUT",
        507910 => "ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        507911 => "ACL_ERROR_HOST_MEMORY_NOT_REGISTERED",
        _ => return code.to_string(),
    };
    format!("{code} ({name})")
}
