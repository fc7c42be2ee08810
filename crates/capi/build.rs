//! Gives the library its SONAME and asks the loader never to unload it: its threads outlive any `dlclose`.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libascendcl.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
