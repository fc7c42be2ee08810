//! Gives the library its SONAME, asks the loader never to unload it (its threads outlive any `dlclose`), and
//! compiles the one piece that only C can write.
use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libascendcl.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");

    println!("cargo:rerun-if-changed=src/app_log.c");
    let mut c = cc::Build::new();
    c.file("src/app_log.c").std("c99").warnings(true).extra_warnings(true).warnings_into_errors(true);
    if let Err(why) = c.try_compile("ferry_app_log") {
        // Checking the Rust code for another machine needs no compiler for it; a build there will miss the
        // symbol.
        let foreign = env::var("TARGET") != env::var("HOST");
        assert!(foreign, "src/app_log.c: {why}");
        println!("cargo:warning=src/app_log.c was not compiled: {why}");
    }
}
