//! The error codes that the headers declare: number, name and meaning, read from the headers themselves.

use std::sync::OnceLock;

/// A code that the headers declare.
pub struct ErrorCode {
    /// What functions return.
    pub number: i32,
    /// How the headers spell it.
    pub name: &'static str,
    /// The comment beside it, or the words of its name.
    pub meaning: String,
}

/// Every code of the headers, in their order.
pub fn codes() -> &'static [ErrorCode] {
    static CODES: OnceLock<Vec<ErrorCode>> = OnceLock::new();
    CODES.get_or_init(|| {
        let headers = [
            include_str!("../../../include/acl/acl_base.h"),
            include_str!("../../../include/acl/error_codes/rt_error_codes.h"),
            include_str!("../../../include/acl/error_codes/ge_error_codes.h"),
        ];
        headers.iter().flat_map(|header| header.split("\n#define ").skip(1).filter_map(code)).collect()
    })
}

/// A code with its name, as the headers spell it first: `107000 (ACL_ERROR_RT_PARAM_INVALID)`.
pub fn named(number: i32) -> String {
    if number == 0 {
        return "0 (success)".to_owned();
    }
    let code = codes().iter().find(|code| code.number == number);
    code.map_or_else(|| number.to_string(), |code| format!("{number} ({})", code.name))
}

/// Reads what follows a `#define`, as in `ACL_ERROR_X 1 /**< Meaning. */`. Codes of the graph engine have no
/// comment: their names say what happened.
fn code(definition: &'static str) -> Option<ErrorCode> {
    let mut words = definition.split_whitespace();
    let (name, number) = (words.next()?, words.next()?.parse().ok()?);
    if !name.starts_with("ACL_ERROR_") && !name.ends_with("_SUCCESS") && !name.ends_with("_FAIL") {
        return None;
    }
    let comment = words.next().is_some_and(|word| word == "/**<");
    let comment: Vec<&str> = words.take_while(|word| comment && *word != "*/").collect();
    let meaning = if comment.is_empty() { in_words(name) } else { comment.join(" ") };
    Some(ErrorCode { number, name, meaning })
}

/// What a name without a comment says: `ACL_ERROR_GE_LOAD_MODEL` is "The graph engine says: load model."
fn in_words(name: &str) -> String {
    let said = |rest: &str| rest.replace('_', " ").to_lowercase();
    match name.strip_prefix("ACL_ERROR_GE_") {
        Some(rest) => format!("The graph engine says: {}.", said(rest)),
        None => format!("The operator library says: {}.", said(name.trim_start_matches("ACLNN_"))),
    }
}
