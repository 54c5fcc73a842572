//! Gives the shared library its name for the loader. That name contains the ABI number.
//! So programs that were linked against the library ask for the ABI number, not for the file that they were linked with.
//! Only the linkers of Linux know such names.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libevenkeel_rt.so.2");
    }
}
