//! The stand-in for the CUDA driver, for tests of the cuda backend on a machine without a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::command::text;

/// The folder of the stand-in, built once. Each test program has its own: they may run at the same time.
pub fn stand_in() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(concat!("standin-", env!("CARGO_CRATE_NAME")));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/standin/build.sh");
        let built = Command::new("sh").arg(script).arg(&folder).output().expect("there is a shell");
        assert!(built.status.success(), "{}", text(&built.stderr));
        folder
    })
}
