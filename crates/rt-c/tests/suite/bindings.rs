//! The header and the C# binding match the source. `UPDATE_EXPECT=1 cargo test -p evenkeel-rt-c` rewrites them.

use std::fs;
use std::path::PathBuf;

use crate::own;

/// The source's files, by name.
fn sources() -> Vec<PathBuf> {
    let mut folders = vec![own("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { &mut folders } else { &mut files }.push(path);
        }
    }
    files.sort();
    files
}

fn check(path: &str, made: &str) {
    let committed = own(path);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&committed, made).unwrap();
    }
    let found = fs::read_to_string(&committed).unwrap_or_default();
    let differs = found.lines().zip(made.lines()).find(|(found, made)| found != made);
    assert!(found == made, "{path} is stale (UPDATE_EXPECT=1 renews it), first at {differs:?}");
}

#[test]
fn the_header_is_fresh() {
    let config = cbindgen::Config::from_file(own("cbindgen.toml")).unwrap();
    // cbindgen finds the other files by itself. If this test passed them too, cbindgen would declare everything twice.
    let builder = cbindgen::Builder::new().with_config(config).with_src(own("src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    check("include/evenkeel_rt.h", &String::from_utf8(made).unwrap());
}

#[test]
fn the_csharp_binding_is_fresh() {
    let builder =
        sources().into_iter().fold(csbindgen::Builder::default(), |builder, file| builder.input_extern_file(file));
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("EvenkeelRt.cs");
    builder
        .csharp_namespace("Evenkeel")
        .csharp_class_name("EvenkeelRt")
        .csharp_class_accessibility("public")
        .csharp_dll_name("evenkeel_rt")
        // The compilers of Unity and Mono support neither function pointers nor `nint`.
        .csharp_use_function_pointer(false)
        .csharp_use_nint_types(false)
        .csharp_generate_const_filter(|name| name.starts_with("EVENKEEL_"))
        .always_included_types([
            "EvenkeelStatus",
            "EvenkeelAlign",
            "EvenkeelAlignment",
            "EvenkeelApplyStatus",
            "EvenkeelMemoryLock",
            "EvenkeelOverrun",
            "EvenkeelPhaseState",
            "EvenkeelProgress",
            "EvenkeelQuantumModel",
            "EvenkeelRateReason",
            "EvenkeelSpinning",
            "EvenkeelWaitKind",
            "EvenkeelIoBackend",
        ])
        .generate_csharp_file(&made)
        .unwrap();
    check("csharp/EvenkeelRt.cs", &fs::read_to_string(made).unwrap());
}
