//! aclAppLog, which takes variable arguments. A variadic function written in C is not exported from a Rust
//! library, and Rust cannot write one yet: the exported name jumps to C (`app_log.c`), which makes the text
//! and comes back here. The way back has hidden names, so that the library exports nothing but the functions
//! of the headers.

use crate::enter::{ends, enter, text};
use ferry_acl::{
    arguments::{not_null, readable, refuse},
    functions,
    log::{self, Level, Module, SourceLine},
};
use std::{
    arch::{global_asm, naked_asm},
    ffi::c_char,
};

unsafe extern "C" {
    /// In `app_log.c`.
    fn ferry_app_log();
}

/// Writes a line to the application's log, with `fmt` and what follows as in printf.
///
/// # Safety
/// `func` and `file` are NULL or C strings, `fmt` is NULL or a format that the arguments behind it fit.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn aclAppLog(
    logLevel: i32,
    func: *const c_char,
    file: *const c_char,
    line: u32,
    fmt: *const c_char,
) {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("jmp {body}", body = sym ferry_app_log);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("b {body}", body = sym ferry_app_log);
}

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".hidden ferry_app_log_wanted", ".globl ferry_app_log_wanted", "ferry_app_log_wanted: jmp {wanted}",
    ".hidden ferry_app_log_line", ".globl ferry_app_log_line", "ferry_app_log_line: jmp {line}",
    wanted = sym wanted, line = sym line,
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".hidden ferry_app_log_wanted", ".globl ferry_app_log_wanted", "ferry_app_log_wanted: b {wanted}",
    ".hidden ferry_app_log_line", ".globl ferry_app_log_line", "ferry_app_log_line: b {line}",
    wanted = sym wanted, line = sym line,
);

/// Whether the line is written. A function without a result can report a mistake in the messages only.
unsafe extern "C" fn wanted(level: i32, fmt: *const c_char) -> i32 {
    let mut wanted = false;
    enter(&functions::aclAppLog, |_| {
        not_null("fmt", fmt as usize)?;
        readable(("fmt", fmt as usize, 1, 1))?;
        let level = Level::of(level).ok_or_else(|| {
            refuse(format!(
                "logLevel is {level}: valid are ACL_DEBUG (0), ACL_INFO (1), ACL_WARNING (2) and \
                ACL_ERROR (3)"
            ))
        })?;
        if log::enabled(Module::App, level) {
            // C reads it next, and would not stop at the end of what is mapped.
            // SAFETY: the C contract of aclAppLog.
            unsafe { ends("fmt", fmt) }?;
            wanted = true;
        }
        Ok(())
    });
    wanted.into()
}

/// Writes the line. `message` is C's own; the other two are the program's.
unsafe extern "C" fn line(
    level: i32,
    func: *const c_char,
    file: *const c_char,
    line: u32,
    message: *const c_char,
) {
    enter(&functions::aclAppLog, |_| {
        // SAFETY: the C contract of aclAppLog.
        let (func, file) = unsafe { (text("func", func)?, text("file", file)?) };
        // SAFETY: `ferry_app_log` made it just now.
        let message = unsafe { std::ffi::CStr::from_ptr(message) }.to_string_lossy();
        let place = SourceLine { file: file.as_deref().unwrap_or("?"), line };
        let said = format!("{}: {message}", func.as_deref().unwrap_or("?"));
        log::write_from(Module::App, Level::of(level).unwrap_or(Level::Error), place, &said);
        Ok(())
    });
}
