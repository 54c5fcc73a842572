//! A capture that a stranger sends: what is one gives facts and advice, and prints as what it was read from.
#![no_main]

use evenkeel_host::{Facts, Goal, advise};
use evenkeel_sys::{Capture, Root};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(capture) = Capture::parse(text) else { return };
    let printed = capture.to_string();
    assert_eq!(Capture::parse(&printed).as_ref(), Ok(&capture), "{printed}");
    let facts = Facts::probe(&Root::captured(capture));
    for goal in Goal::ALL {
        let _ = advise(&facts, &goal.into());
    }
});
