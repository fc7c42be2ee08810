//! libruntime.so, as the build script makes it: kernels are refused with a sentence, and what libascendcl.so
//! has is found through it.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

use ferry_tests::code::FEATURE_NOT_SUPPORT;

/// Builds the companions into a folder with libascendcl.so in it, as they are installed.
fn built() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("companion-runtime");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/companions/build.sh");
    let done = Command::new("sh").arg(script).arg(&folder).output().expect("a shell");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let library = std::env::current_exe().expect("a path").with_file_name("libascendcl.so");
    let beside = folder.join("libascendcl.so");
    let _ = std::fs::remove_file(&beside);
    std::os::unix::fs::symlink(library, beside).expect("a link");
    folder
}

fn find(library: *mut c_void, name: &str) -> *mut c_void {
    let text = CString::new(name).expect("no NUL");
    // SAFETY: the handle is open.
    let found = unsafe { libc::dlsym(library, text.as_ptr()) };
    assert!(!found.is_null(), "{name} is missing");
    found
}

type Any = extern "C" fn(usize, usize, usize, usize, usize, usize) -> i32;

#[test]
fn kernels_are_refused_and_the_rest_is_found_through_it() {
    let path = CString::new(built().join("libruntime.so").to_str().expect("text")).expect("no NUL");
    // SAFETY: loads libraries of ours.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "libruntime.so cannot be loaded");
    // SAFETY: a function without arguments that gives text.
    let message: extern "C" fn() -> *const c_char =
        unsafe { std::mem::transmute(find(library, "aclGetRecentErrMsg")) };
    let names = ["rtDevBinaryRegister", "rtFunctionRegister", "rtKernelLaunch", "rtGetC2cCtrlAddr"];
    // The arguments of each that are outputs.
    for (name, outs) in names.into_iter().zip([&[1][..], &[], &[], &[0, 1]]) {
        // SAFETY: takes at most six numbers and addresses, and must answer any of them with a code.
        let function: Any = unsafe { std::mem::transmute(find(library, name)) };
        let mut made = [77_usize, 77];
        let at = &raw mut made as usize;
        for place in [[at, at + 8], [0; 2], [8; 2], [find as *const () as usize; 2], [usize::MAX - 3; 2]] {
            let mut given = [0; 6];
            outs.iter().zip(place).for_each(|(out, address)| given[*out] = address);
            let [a, b, c, d, e, f] = given;
            assert_eq!(function(a, b, c, d, e, f), FEATURE_NOT_SUPPORT, "{name}");
            // SAFETY: the text stays until the next call of this thread.
            let said = unsafe { CStr::from_ptr(message()) }.to_string_lossy();
            assert!(said.contains(name) && said.contains("runs no kernels"), "{said}");
        }
        // The second output of rtGetC2cCtrlAddr has 32 bits.
        let written = made.map(|cell| cell as u32 == 0);
        assert_eq!(written, [!outs.is_empty(), outs.len() > 1], "{name}: its outputs are 0 or NULL");
    }
    for name in ["rtDeviceGetBareTgid", "rtIpcOpenMemory", "rtMemcpyAsyncWithoutCheckKind", "aclrtMalloc"] {
        find(library, name);
    }
}
