//! Texts that the caller passes.

use std::ffi::c_char;

use crate::failure::{EvenkeelStatus, Failure};

/// The library reads at most this many bytes of a text.
/// If a text lacks its terminating zero, this limits how far the library reads into the caller's memory.
const TEXT_MAX: usize = 4096;

/// The caller's text, up to its zero.
///
/// # Safety
/// `text` is null, or points to bytes that may be read up to a zero. The bytes do not change while `'a` lasts.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::new(EvenkeelStatus::NullPointer, "the pointer to a text is null"));
    }
    let bytes = text.cast::<u8>();
    // SAFETY: the search stops at the first zero, and reads no byte after it.
    let length = (0..TEXT_MAX).find(|at| unsafe { bytes.add(*at).read() } == 0);
    let Some(length) = length else {
        return Err(Failure::new(EvenkeelStatus::BadText, format_args!("a text has no end within {TEXT_MAX} bytes")));
    };
    // SAFETY: the search has just read these bytes, and the caller promises that they do not change.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    std::str::from_utf8(bytes).map_err(|error| Failure::new(EvenkeelStatus::BadText, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_and_are_utf8() {
        let endless = [b'x'; TEXT_MAX + 1];
        // SAFETY: each text ends with a zero, or is longer than the limit of the search.
        unsafe {
            assert_eq!(text(c"move".as_ptr()).unwrap(), "move");
            assert_eq!(text(std::ptr::null()).unwrap_err().status, EvenkeelStatus::NullPointer);
            assert_eq!(text(c"\xff".as_ptr()).unwrap_err().status, EvenkeelStatus::BadText);
            assert_eq!(text(endless.as_ptr().cast()).unwrap_err().status, EvenkeelStatus::BadText);
        }
    }
}
