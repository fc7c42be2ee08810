//! The built command, for the tests that run it as a person would.

use std::process::{Command, Output};

/// The command with nothing of the caller's settings.
pub fn ferry(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferry"));
    for name in [
        "FERRY_LIBRARY",
        "FERRY_BACKEND",
        "FERRY_DEVICES",
        "FERRY_DEVICE_MEMORY",
        "FERRY_DEVICE_SHARED",
        "FERRY_SOC",
        "FERRY_FORM",
        "FERRY_QUIRKS",
        "FERRY_LIMIT_STREAMS",
        "FERRY_SCHEDULE",
        "FERRY_SEED",
        "FERRY_FAULT",
        "ASCEND_RT_VISIBLE_DEVICES",
        "ASCEND_TOOLKIT_HOME",
        "ASCEND_HOME_PATH",
        "ASCEND_OPP_PATH",
    ] {
        command.env_remove(name);
    }
    command.args(args);
    command
}

/// What it says until it ends.
pub fn output(command: &mut Command) -> Output {
    command.output().expect("the command starts")
}

/// Bytes that should be text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
