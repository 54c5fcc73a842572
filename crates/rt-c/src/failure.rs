//! `EvenkeelStatus`. The body of every function is a closure. Its error or panic becomes a status, and a text for `evenkeel_last_error`.

use std::cell::RefCell;
use std::ffi::c_char;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of a call. Non-zero means that the call failed.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelStatus {
    /// The call succeeded.
    Ok = 0,
    /// A required pointer is null.
    NullPointer = 1,
    /// A pointer is not aligned for its type.
    Misaligned = 2,
    /// The handle is not valid: it was freed, has another kind, or never existed. Or the lock was not initialised.
    BadHandle = 3,
    /// The object is in use by another call that excludes this call, or this thread already holds the lock.
    Busy = 4,
    /// The struct's size is impossible. Prepare the struct with EVENKEEL_INIT.
    BadSize = 5,
    /// This library does not know the struct's version.
    BadVersion = 6,
    /// The struct uses a field that this library does not know: the library is older than its caller.
    UnknownField = 7,
    /// A number is outside its documented range.
    OutOfRange = 8,
    /// A text is not UTF-8, is too long, or has the wrong form.
    BadText = 9,
    /// The buffer is too small. The call reports how many bytes it needs.
    TooSmall = 10,
    /// There is no room for one more object of this kind.
    NoRoom = 11,
    /// The call would have to wait: the tick is not due, the lock is held, or the job is not done.
    WouldBlock = 12,
    /// The kernel, a file or a peer refused. evenkeel_last_error has the reason.
    Refused = 13,
    /// A fault in the library, or a misuse from which the library cannot continue. The panic did not unwind into the caller.
    /// An object that may be half-changed returns this status until it is freed.
    Panicked = 14,
    /// The lock to release is not held.
    NotLocked = 15,
    /// There is nothing to return: no tick has begun, nothing was recorded, or nothing is left.
    NoData = 16,
    /// No thread runs the jobs of this queue.
    NoWorker = 17,
    /// The object belongs to another thread: the thread that made or locked it.
    WrongThread = 18,
    /// This system does not support the call. Only Linux supports it.
    Unsupported = 19,
}

/// Each status with its text, in the order of the status numbers.
const TEXTS: [(EvenkeelStatus, &str); 20] = [
    (EvenkeelStatus::Ok, "success\0"),
    (EvenkeelStatus::NullPointer, "a pointer is null\0"),
    (EvenkeelStatus::Misaligned, "a pointer is not aligned for its type\0"),
    (EvenkeelStatus::BadHandle, "not a valid handle of this kind, or a lock that was not initialised\0"),
    (EvenkeelStatus::Busy, "the object is in use: by another call, or by this thread\0"),
    (EvenkeelStatus::BadSize, "a struct has an impossible size: prepare it with evenkeel_init\0"),
    (EvenkeelStatus::BadVersion, "a struct has a version that this library does not know\0"),
    (EvenkeelStatus::UnknownField, "a struct uses a field that this library does not know: update the library\0"),
    (EvenkeelStatus::OutOfRange, "a number is out of its range\0"),
    (EvenkeelStatus::BadText, "a text is not UTF-8, is too long, or has the wrong form\0"),
    (EvenkeelStatus::TooSmall, "the buffer is too small\0"),
    (EvenkeelStatus::NoRoom, "there is no room for one more\0"),
    (EvenkeelStatus::WouldBlock, "would block: the tick is not due, the lock is held, or the job is not done\0"),
    (EvenkeelStatus::Refused, "refused by the kernel, a file or a peer\0"),
    (EvenkeelStatus::Panicked, "a fault in the library, kept from unwinding into the caller\0"),
    (EvenkeelStatus::NotLocked, "the lock is not held\0"),
    (EvenkeelStatus::NoData, "no data: no tick has begun, nothing was recorded, or none is left\0"),
    (EvenkeelStatus::NoWorker, "no thread runs the jobs of this queue\0"),
    (
        EvenkeelStatus::WrongThread,
        "the object belongs to another thread: call this on the thread that made or locked it\0",
    ),
    (EvenkeelStatus::Unsupported, "only Linux has this\0"),
];

/// Returns a short English text for a status. An unknown number has a text too.
///
/// Threads: any, at any time. The text lives as long as the library is loaded.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_status_text(status: u32) -> *const c_char {
    // This function does not read the number as the enum, because C can pass any number.
    let known = TEXTS.iter().find(|(known, _)| *known as u32 == status);
    known.map_or("no status of this library\0", |(_, text)| text).as_ptr().cast()
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: EvenkeelStatus,
    /// Whether the calling thread's text is set already.
    has_text: bool,
}

impl Failure {
    /// A failure with a text for [`evenkeel_last_error`].
    pub(crate) fn new(status: EvenkeelStatus, what: impl fmt::Display) -> Failure {
        let mut text = Text::default();
        // `write!` never fails here, because `Text` leaves out what does not fit.
        let _ = write!(text, "{what}");
        set_last(text);
        Failure { status, has_text: true }
    }
}

/// The failure for a null pointer in place of a function.
pub(crate) fn no_function() -> Failure {
    Failure::new(EvenkeelStatus::NullPointer, "the pointer to a function is null")
}

/// The failure for a null pointer to this type.
/// If a function takes several pointers, the type's name in C shows which one was null.
pub(crate) fn null<T: ?Sized>() -> Failure {
    let name = match std::any::type_name::<T>().rsplit("::").next().unwrap_or_default() {
        "i8" => "char",
        "u8" => "uint8_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        other => other,
    };
    Failure::new(EvenkeelStatus::NullPointer, format_args!("the pointer to {name} is null"))
}

impl From<EvenkeelStatus> for Failure {
    fn from(status: EvenkeelStatus) -> Failure {
        Failure { status, has_text: false }
    }
}

/// A text of bounded length, without an allocation, because a call that fails in a tick must not allocate.
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
            // Adds whole characters only, and leaves room for the zero at the end.
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

/// Runs a function's body, and turns its error or panic into a status.
pub(crate) fn caught(body: impl FnOnce() -> Result<(), Failure>) -> EvenkeelStatus {
    // If a panic leaves an object half-changed, the lock around the object reports the panic: see `handle`.
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return EvenkeelStatus::Ok,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            let said = payload.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without words");
            let failure = Failure::new(EvenkeelStatus::Panicked, said);
            // Dropping the panic's payload may panic again. We leak that second payload, because dropping it could panic too.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
            failure
        }
    };
    if !failure.has_text {
        set_last(Text::default());
    }
    failure.status
}

/// The text of this thread's last failed call. Empty if that call had no text.
pub(crate) fn last() -> Text {
    LAST.try_with(|last| last.try_borrow().map(|last| *last).unwrap_or_default()).unwrap_or_default()
}

fn set_last(text: Text) {
    // A thread that is ending may have lost its thread-local text.
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
        // SAFETY: the buffer belongs to this function and has the given length.
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
        // SAFETY: the buffer belongs to this function and has the given length.
        assert_eq!(unsafe { evenkeel_last_error(short.as_mut_ptr().cast(), 4) }, EvenkeelStatus::Ok);
        assert_eq!(short, [0xc3, 0xa4, 0, 1]);
    }

    #[test]
    fn every_number_has_a_text() {
        let mut seen = std::collections::BTreeSet::new();
        for status in (0..30).chain([u32::MAX]) {
            // SAFETY: the status text is a constant that ends with a zero.
            let text = unsafe { CStr::from_ptr(evenkeel_status_text(status)) }.to_str().unwrap();
            assert!(!text.is_empty());
            seen.insert(text);
        }
        assert_eq!(seen.len(), TEXTS.len() + 1);
        assert!(TEXTS.iter().zip(0..).all(|((status, _), number)| *status as u32 == number));
    }
}
