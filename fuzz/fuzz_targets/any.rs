//! Every target is built from this file, and gets its name from its program.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| evenkeel_fuzz::run(env!("CARGO_BIN_NAME"), text));
