//! Gives the shared library its name for the loader: programs that were linked against it ask for the ABI's number, not for the file
//! that they were linked with.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libevenkeel_rt.so.2");
}
