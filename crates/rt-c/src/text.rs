//! Texts that the caller hands over.

use std::ffi::c_char;

use crate::failure::{EvenkeelStatus, Failure};

/// The most bytes of a text that are looked at: a text without its zero must not send us through the caller's memory for long.
const TEXT_MAX: usize = 4096;

/// The caller's text, up to its zero.
///
/// # Safety
/// `text` is null, or points to bytes that may be read up to a zero, and that stay as they are while `'a` lasts.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(EvenkeelStatus::NullPointer.into());
    }
    let bytes = text.cast::<u8>();
    // SAFETY: no byte behind the first zero is read.
    let length = (0..TEXT_MAX).find(|at| unsafe { bytes.add(*at).read() } == 0);
    let Some(length) = length else {
        return Err(Failure::new(EvenkeelStatus::BadText, format_args!("a text has no end within {TEXT_MAX} bytes")));
    };
    // SAFETY: they were just read, and stay as the caller promises.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    std::str::from_utf8(bytes).map_err(|error| Failure::new(EvenkeelStatus::BadText, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_and_are_utf8() {
        let endless = [b'x'; TEXT_MAX + 1];
        // SAFETY: each has its zero, or more bytes than are looked at.
        unsafe {
            assert_eq!(text(c"move".as_ptr()).unwrap(), "move");
            assert_eq!(text(std::ptr::null()).unwrap_err().status, EvenkeelStatus::NullPointer);
            assert_eq!(text(c"\xff".as_ptr()).unwrap_err().status, EvenkeelStatus::BadText);
            assert_eq!(text(endless.as_ptr().cast()).unwrap_err().status, EvenkeelStatus::BadText);
        }
    }
}
