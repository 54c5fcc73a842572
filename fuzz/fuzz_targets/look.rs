//! One file of a machine that says something strange: the first line of the input is its path, the rest its text.
#![no_main]

use std::sync::LazyLock;

use evenkeel_host::{Facts, Goal, advise};
use evenkeel_sys::{Capture, Root};
use libfuzzer_sys::fuzz_target;

static MACHINE: LazyLock<Capture> = LazyLock::new(|| {
    Capture::parse(include_str!("../../hosts/qemu-4-queues-6.1.txt")).expect("a captured host is a capture")
});

fuzz_target!(|input: &str| {
    let Some((path, text)) = input.split_once('\n') else { return };
    let mut capture = MACHINE.clone();
    capture.saw_text(path, Ok(text.to_owned()));
    let facts = Facts::probe(&Root::captured(capture));
    for goal in Goal::ALL {
        let _ = advise(&facts, &goal.into());
    }
});
