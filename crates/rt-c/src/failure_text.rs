//! The text of a thread's last failure.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::{EvenkeelStatus, last};
use crate::structs;

/// Writes details of the calling thread's last failed call to `buffer`, cut to `size` bytes with the zero at the end.
/// The text is empty if the status already says everything.
///
/// Threads: any. Each thread has its own text.
///
/// # Safety
/// `buffer` is null or points to `size` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_last_error(buffer: *mut c_char, size: usize) -> EvenkeelStatus {
    let put = || {
        let text = last();
        let whole = text.as_str();
        let mut length = whole.len().min(size.saturating_sub(1));
        while !whole.is_char_boundary(length) {
            length -= 1;
        }
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(buffer, size, &whole[..length], &mut 0) }
    };
    // This call does not use `caught`: an error of this call must not replace the text that the caller asked for.
    match catch_unwind(AssertUnwindSafe(put)) {
        Ok(Ok(())) => EvenkeelStatus::Ok,
        Ok(Err(failure)) => failure.status,
        Err(_) => EvenkeelStatus::Panicked,
    }
}
