//! With the feature `headers`: has bindgen read the installed headers.

fn main() {
    println!("cargo:rerun-if-env-changed=ASCEND_TOOLKIT_HOME");
    #[cfg(feature = "headers")]
    bind();
}

#[cfg(feature = "headers")]
fn bind() {
    let home = std::env::var("ASCEND_TOOLKIT_HOME").expect("ASCEND_TOOLKIT_HOME names the installed tree");
    println!("cargo:rerun-if-changed={home}/include");
    let bindings = bindgen::builder()
        .header(format!("{home}/include/acl/acl.h"))
        .allowlist_item("(acl|ACL_).*")
        .prepend_enum_name(false)
        .layout_tests(true)
        .generate()
        .expect("bindgen reads the headers");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    bindings.write_to_file(format!("{out}/acl.rs")).expect("the output folder is writable");
}
