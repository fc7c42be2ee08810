//! Which source files come with compilers, interpreters and the system: a program's author does not look for
//! their lines.

/// Folders of the system's headers and of the compilers' own, from the root.
const FOLDERS: [&str; 4] = [
    "/usr/include/",
    "/usr/local/include/",
    "/usr/lib/llvm",
    // Rust's standard library, as it is delivered.
    "/rustc/",
];

/// Parts of paths: the headers of C++ and of compilers wherever these are installed, and Rust's standard
/// library where its sources are.
const PARTS: [&str; 4] = ["/include/c++/", "/lib/gcc/", "/lib/clang/", "/lib/rustlib/src/rust/library/"];

/// Packages of Python that touch memory for those who call them.
const PACKAGES: [&str; 5] = ["numpy", "torch", "torch_npu", "acl", "ferry_acl"];

/// Whether a file, as the debug information names it, is one of a compiler, of Python or of the system.
pub(super) fn is_of_toolchain(file: &str) -> bool {
    FOLDERS.iter().any(|folder| file.starts_with(folder))
        || PARTS.iter().any(|part| file.contains(part))
        || is_of_python(file)
}

/// Whether a file is one of Python's own library or of those packages.
fn is_of_python(file: &str) -> bool {
    let Some((_, inside)) = file.split_once("/lib/python3") else { return file.starts_with("<frozen ") };
    // The version ends the name of the folder.
    let Some((_, inside)) = inside.split_once('/') else { return false };
    let package = ["site-packages/", "dist-packages/"].iter().find_map(|part| inside.strip_prefix(part));
    match package {
        Some(path) => path.split('/').next().is_some_and(|name| PACKAGES.contains(&name)),
        None => inside.ends_with(".py"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_compilers_and_the_system_are_told_from_the_programs_own() {
        for (file, want) in [
            ("/usr/include/c++/13/bits/stl_algobase.h", true),
            ("/usr/include/x86_64-linux-gnu/bits/string_fortified.h", true),
            ("/usr/lib/gcc/x86_64-linux-gnu/13/include/avxintrin.h", true),
            ("/usr/bin/../lib/gcc/x86_64-linux-gnu/13/../../../../include/c++/13/bits/stl_algo.h", true),
            ("/opt/gcc-14/include/c++/14.1.0/bits/stl_vector.h", true),
            ("/opt/llvm/lib/clang/18/include/avxintrin.h", true),
            ("/rustc/0123456789abcdef/library/core/src/slice/mod.rs", true),
            ("/home/me/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/ptr/mod.rs", true),
            ("/home/me/include/pool.h", false),
            ("/usr/src/app/main.c", false),
            ("/usr/lib/python3.11/ctypes/__init__.py", true),
            ("/home/me/.venv/lib/python3.12/site-packages/numpy/core/_methods.py", true),
            ("/usr/lib/python3/dist-packages/numpy/lib/npyio.py", true),
            ("<frozen importlib._bootstrap>", true),
            ("/home/me/.venv/lib/python3.12/site-packages/vllm/worker.py", false),
            ("/home/me/lib/python3/train.py.txt", false),
            ("/home/me/lib/python/train.py", false),
            ("kit.h", false),
            ("src/rustc/main.rs", false),
        ] {
            assert_eq!(is_of_toolchain(file), want, "{file}");
        }
    }
}
