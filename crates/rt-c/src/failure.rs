//! `EvenkeelStatus` and the way there: every function's body is a closure whose error, or panic, becomes a status and a text that the
//! calling thread can ask for.

use std::cell::RefCell;
use std::ffi::c_char;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What became of a call. Everything but 0 says that what was asked for was not done.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelStatus {
    /// It was done.
    Ok = 0,
    /// A pointer that must point somewhere is null.
    NullPointer = 1,
    /// A pointer is not aligned for what it is to point to.
    Misaligned = 2,
    /// No handle of this kind: it was freed, is of another kind, or was never given out.
    BadHandle = 3,
    /// Another call is in the same object now, and this one may not be beside it.
    Busy = 4,
    /// The struct's size is none that it can have: was it prepared by evenkeel_init?
    BadSize = 5,
    /// The struct's version is one that this library does not know.
    BadVersion = 6,
    /// The struct asks for something in a field that this library does not know yet: it is older than its caller.
    UnknownField = 7,
    /// A number is outside of what is documented for it.
    OutOfRange = 8,
    /// A text is not UTF-8, is longer than documented, or does not say what it should.
    BadText = 9,
    /// The buffer is too small: the call says how many bytes it takes.
    TooSmall = 10,
    /// There is no room for one more: as many are there as the library allows.
    NoRoom = 11,
    /// It is not so far: the tick is not due, the lock is held, or nothing is recorded yet.
    NotYet = 12,
    /// The kernel, a file or a peer said no: evenkeel_last_error tells what.
    Refused = 13,
    /// A fault in the library, or a misuse that it cannot go on from: it was kept from unwinding into the caller. An object that it may
    /// have left half-changed answers so until it is freed.
    Panicked = 14,
}

/// Each status with its text; in the order of their numbers.
const TEXTS: [(EvenkeelStatus, &str); 15] = [
    (EvenkeelStatus::Ok, "done\0"),
    (EvenkeelStatus::NullPointer, "a pointer is null\0"),
    (EvenkeelStatus::Misaligned, "a pointer is not aligned for what it is to point to\0"),
    (EvenkeelStatus::BadHandle, "no handle of this kind: freed, of another kind, or never given out\0"),
    (EvenkeelStatus::Busy, "another call is in the same object\0"),
    (EvenkeelStatus::BadSize, "a struct has a size that it cannot have: prepare it with evenkeel_init\0"),
    (EvenkeelStatus::BadVersion, "a struct has a version that this library does not know\0"),
    (EvenkeelStatus::UnknownField, "a struct asks for something that this library does not know: it is too old\0"),
    (EvenkeelStatus::OutOfRange, "a number is out of its range\0"),
    (EvenkeelStatus::BadText, "a text is not UTF-8, is too long, or does not say what it should\0"),
    (EvenkeelStatus::TooSmall, "the buffer is too small\0"),
    (EvenkeelStatus::NoRoom, "there is no room for one more\0"),
    (EvenkeelStatus::NotYet, "not yet: not due, held, or nothing recorded\0"),
    (EvenkeelStatus::Refused, "refused by the kernel, a file or a peer\0"),
    (EvenkeelStatus::Panicked, "a fault in the library, kept from unwinding into the caller\0"),
];

/// What a status means, in a few English words. A number that is none has a text too.
///
/// Threads: any, at any time. The text lives as long as the library is loaded.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_status_text(status: u32) -> *const c_char {
    // A number, not the enum: what C hands over may be any.
    let known = TEXTS.iter().find(|(known, _)| *known as u32 == status);
    known.map_or("no status of this library\0", |(_, text)| text).as_ptr().cast()
}

/// Why a call was not done.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: EvenkeelStatus,
    /// Whether there is a text for the calling thread already: errors are small, since most of them are no surprise.
    is_told: bool,
}

impl Failure {
    /// With words of its own for [`evenkeel_last_error`].
    pub(crate) fn new(status: EvenkeelStatus, what: impl fmt::Display) -> Failure {
        let mut text = Text::default();
        // It never refuses: what does not fit is left out.
        let _ = write!(text, "{what}");
        tell(text);
        Failure { status, is_told: true }
    }
}

impl From<EvenkeelStatus> for Failure {
    fn from(status: EvenkeelStatus) -> Failure {
        Failure { status, is_told: false }
    }
}

/// A text of bounded length that takes no memory of its own: a tick that fails must not allocate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    bytes: [u8; 256],
    length: usize,
}

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Default for Text {
    fn default() -> Text {
        Text { bytes: [0; 256], length: 0 }
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            // Whole characters, and a zero at the end.
            if self.length + char.len_utf8() >= self.bytes.len() {
                break;
            }
            self.length += char.encode_utf8(&mut self.bytes[self.length..]).len();
        }
        Ok(())
    }
}

thread_local! {
    static LAST: RefCell<Text> = const { RefCell::new(Text { bytes: [0; 256], length: 0 }) };
}

/// Runs a function's body. Neither an error nor a panic goes further than here.
pub(crate) fn caught(body: impl FnOnce() -> Result<(), Failure>) -> EvenkeelStatus {
    // What a panic leaves half-done is behind a lock that then says so: `handle`.
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return EvenkeelStatus::Ok,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            let said = payload.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without words");
            let failure = Failure::new(EvenkeelStatus::Panicked, said);
            // A payload may panic again where it is dropped; that one is lost with what it holds.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
            failure
        }
    };
    if !failure.is_told {
        tell(Text::default());
    }
    failure.status
}

/// What the last call of this thread that failed said; nothing where it said nothing.
pub(crate) fn last() -> Text {
    LAST.try_with(|last| last.try_borrow().map(|last| *last).unwrap_or_default()).unwrap_or_default()
}

fn tell(text: Text) {
    // A thread that is about to end has no such place any more.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = text;
        }
    });
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::failure_text::evenkeel_last_error;

    fn last() -> String {
        let mut buffer = [1_u8; 300];
        // SAFETY: the buffer is ours and as long as said.
        let status = unsafe { evenkeel_last_error(buffer.as_mut_ptr().cast(), buffer.len()) };
        assert_eq!(status, EvenkeelStatus::Ok);
        CStr::from_bytes_until_nul(&buffer).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_goes_no_further() {
        struct Twice;
        impl Drop for Twice {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert_eq!(caught(|| panic!("it broke at {}", 7)), EvenkeelStatus::Panicked);
        assert_eq!(last(), "it broke at 7");
        assert_eq!(caught(|| std::panic::panic_any(Twice)), EvenkeelStatus::Panicked);
        assert_eq!(last(), "a panic without words");
        assert_eq!(caught(|| Ok(())), EvenkeelStatus::Ok);
        assert_eq!(caught(|| Err(EvenkeelStatus::Busy.into())), EvenkeelStatus::Busy);
        assert_eq!(last(), "", "an older text is not that of a newer failure");
        let long = "ä".repeat(1000);
        assert_eq!(caught(|| Err(Failure::new(EvenkeelStatus::Refused, &long))), EvenkeelStatus::Refused);
        assert_eq!(last(), "ä".repeat(127));
        let mut short = [1_u8; 4];
        // SAFETY: as above.
        assert_eq!(unsafe { evenkeel_last_error(short.as_mut_ptr().cast(), 4) }, EvenkeelStatus::Ok);
        assert_eq!(short, [0xc3, 0xa4, 0, 1]);
    }

    #[test]
    fn every_number_has_a_text() {
        let mut seen = std::collections::BTreeSet::new();
        for status in (0..20).chain([u32::MAX]) {
            // SAFETY: a text of ours, with its zero.
            let text = unsafe { CStr::from_ptr(evenkeel_status_text(status)) }.to_str().unwrap();
            assert!(!text.is_empty());
            seen.insert(text);
        }
        assert_eq!(seen.len(), TEXTS.len() + 1);
        assert!(TEXTS.iter().zip(0..).all(|((status, _), number)| *status as u32 == number));
    }
}
