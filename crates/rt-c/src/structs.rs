//! Reads and writes structs in the caller's memory. Every struct begins with its version, and with its size in the caller's compiler.
//! So the caller and the library may have different versions.

use std::ffi::{c_char, c_void};
use std::mem::{MaybeUninit, align_of, size_of};

use crate::failure::{self, EvenkeelStatus, Failure};

/// The version of the header: what its structs and functions mean. New fields at the end of a struct do not change the version.
pub const EVENKEEL_ABI_VERSION: u32 = 2;

/// A size larger than this means that the struct was not prepared, whatever the struct's version says.
const SIZE_MAX: usize = 4096;
/// The size of the fields that every struct begins with.
const HEAD: usize = size_of::<Head>();

#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    size: u32,
    version: u32,
}

/// A struct of the header.
///
/// # Safety
/// The type is `repr(C)`, begins with `size: u32` and `version: u32`, and has no padding. Any bytes are a valid value.
pub(crate) unsafe trait Struct: Copy {}

/// Implements `Struct`, and checks at compile time that the listed fields leave no padding between them.
macro_rules! structs {
    ($($name:ident { $($field:ident: $type:ty),* $(,)? })*) => { $(
        // SAFETY: `repr(C)` and the field types are visible at the struct itself; the constant below checks the rest.
        unsafe impl $crate::structs::Struct for $name {}
        const _: () = {
            assert!(std::mem::offset_of!($name, size) == 0 && std::mem::offset_of!($name, version) == 4);
            assert!(std::mem::size_of::<$name>() == 8 $(+ std::mem::size_of::<$type>())*);
            assert!(std::mem::size_of::<$name>() <= 4096);
            // If a listed type is not the field's type, this does not compile.
            const fn same(it: &$name) { $(let _: &$type = &it.$field;)* }
            let _: fn(&$name) = same;
        };
    )* };
}
pub(crate) use structs;

/// Zeroes a struct, except for its size and version.
///
/// # Safety
/// `structure` is null or points to `size` bytes that may be written.
pub(crate) unsafe fn init(structure: *mut c_void, size: usize) -> Result<(), Failure> {
    checked(structure.cast::<Head>())?;
    if !(HEAD..=SIZE_MAX).contains(&size) {
        return Err(EvenkeelStatus::BadSize.into());
    }
    let head = Head { size: size as u32, version: EVENKEEL_ABI_VERSION };
    // SAFETY: the caller promises `size` bytes, and the check above made sure that a head fits in them.
    unsafe {
        structure.cast::<u8>().write_bytes(0, size);
        structure.cast::<Head>().write(head);
    }
    Ok(())
}

/// Checks that a pointer is neither null nor misaligned. The library cannot check anything else about a pointer.
fn checked<T>(pointer: *const T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(failure::null::<T>());
    }
    if !(pointer as usize).is_multiple_of(align_of::<T>()) {
        return Err(EvenkeelStatus::Misaligned.into());
    }
    Ok(())
}

/// Reads the head of a struct, and checks its size and version.
///
/// # Safety
/// `structure` is null or points to a struct that may be read.
unsafe fn head<T: Struct>(structure: *const T) -> Result<Head, Failure> {
    checked(structure)?;
    // SAFETY: the caller promises a struct, and every struct begins with a head.
    let head = unsafe { structure.cast::<Head>().read() };
    if !(HEAD..=SIZE_MAX).contains(&(head.size as usize)) {
        let what = format_args!("a struct says that it has {} bytes: prepare it with evenkeel_init", head.size);
        return Err(Failure::new(EvenkeelStatus::BadSize, what));
    }
    if !(1..=EVENKEEL_ABI_VERSION).contains(&head.version) {
        let what =
            format_args!("a struct has version {}, and the library knows up to {EVENKEEL_ABI_VERSION}", head.version);
        return Err(Failure::new(EvenkeelStatus::BadVersion, what));
    }
    Ok(head)
}

/// Copies the caller's struct. Fields beyond the end of that struct become zero.
///
/// # Safety
/// `structure` is null, or points to as many readable bytes as its size says.
pub(crate) unsafe fn get<T: Struct>(structure: *const T) -> Result<T, Failure> {
    // SAFETY: the caller promises the whole struct, and this reads only its head.
    let head = unsafe { head(structure) }?;
    let size = head.size as usize;
    let mut taken = MaybeUninit::<T>::zeroed();
    let bytes = structure.cast::<u8>();
    // SAFETY: both sides have at least this many bytes, and `taken` is a variable of this function.
    unsafe { bytes.copy_to_nonoverlapping(taken.as_mut_ptr().cast(), size.min(size_of::<T>())) };
    // SAFETY: the bytes up to `size` belong to the caller's struct. A newer caller's extra fields are zero unless it uses them.
    let beyond = (size_of::<T>()..size).any(|at| unsafe { bytes.add(at).read() } != 0);
    if beyond {
        return Err(EvenkeelStatus::UnknownField.into());
    }
    // SAFETY: all bytes are set, and `Struct` promises that any bytes are a valid value.
    Ok(unsafe { taken.assume_init() })
}

/// Checks that [`fill`] will succeed, before an action that cannot be undone.
///
/// # Safety
/// As for [`fill`].
pub(crate) unsafe fn fillable<T: Struct>(structure: *const T) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    unsafe { head(structure) }.map(drop)
}

/// Copies the value into the caller's struct as far as there is room. Sets the struct's size to the number of bytes copied.
///
/// # Safety
/// `structure` is null, or points to as many writable bytes as its size says.
pub(crate) unsafe fn fill<T: Struct>(structure: *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: the caller promises the whole struct, and this reads only its head.
    let head = unsafe { head(structure) }?;
    let size = (head.size as usize).min(size_of::<T>());
    let head = Head { size: size as u32, version: EVENKEEL_ABI_VERSION };
    // SAFETY: both sides have at least this many bytes. The value belongs to this function, and every struct begins with a head.
    unsafe {
        (&raw const value).cast::<u8>().copy_to_nonoverlapping(structure.cast(), size);
        structure.cast::<Head>().write(head);
    }
    Ok(())
}

/// Writes one value.
///
/// # Safety
/// `place` may be written. A null `place` is an error.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Failure> {
    checked(place)?;
    // SAFETY: the caller promises that it may be written, and it is neither null nor misaligned.
    unsafe { place.write(value) };
    Ok(())
}

/// Checks that [`put`] will succeed.
pub(crate) fn puttable<T>(place: *const T) -> Result<(), Failure> {
    checked(place)
}

/// Writes a text and a zero to `buffer`. Writes their number of bytes to `needed`, even if they do not fit.
///
/// # Safety
/// `buffer` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
pub(crate) unsafe fn put_text(buffer: *mut c_char, size: usize, text: &str, needed: *mut usize) -> Result<(), Failure> {
    // SAFETY: as the caller promises. Write `needed` first, because a caller without a buffer asks only for that number.
    unsafe { put(needed, text.len() + 1) }?;
    checked(buffer)?;
    if text.len() >= size {
        return Err(Failure::new(EvenkeelStatus::TooSmall, format_args!("it takes {} bytes", text.len() + 1)));
    }
    // SAFETY: the check above made sure that the buffer has room for the text and a zero, and `text` does not overlap it.
    unsafe {
        text.as_ptr().copy_to_nonoverlapping(buffer.cast(), text.len());
        buffer.add(text.len()).write(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Old {
        size: u32,
        version: u32,
        first: u64,
    }

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct New {
        size: u32,
        version: u32,
        first: u64,
        second: u64,
    }

    structs! {
        Old { first: u64 }
        New { first: u64, second: u64 }
    }

    fn status<T>(result: Result<T, Failure>) -> EvenkeelStatus {
        result.err().map_or(EvenkeelStatus::Ok, |failure| failure.status)
    }

    #[test]
    fn either_side_may_be_older() {
        // The caller is older than the library: no byte beyond the end of the short struct may be touched.
        let mut old = [Old { size: 16, version: 1, first: 7 }, Old { size: 9, version: 9, first: 9 }];
        // SAFETY: the struct has 16 bytes, as its size says.
        let taken = unsafe { get((&raw const old[0]).cast::<New>()) }.unwrap();
        assert_eq!((taken.first, taken.second), (7, 0));
        let value = New { size: 0, version: 0, first: 3, second: 4 };
        // SAFETY: the struct has 16 bytes, as its size says.
        unsafe { fill((&raw mut old[0]).cast::<New>(), value) }.unwrap();
        let version = EVENKEEL_ABI_VERSION;
        assert_eq!(old, [Old { size: 16, version, first: 3 }, Old { size: 9, version: 9, first: 9 }]);
        // The caller is newer than the library.
        let mut new = New { size: 24, version: 1, first: 7, second: 0 };
        // SAFETY: the struct has 24 bytes, as its size says.
        unsafe {
            assert_eq!(get((&raw const new).cast::<Old>()).unwrap().first, 7);
            new.second = 1;
            assert_eq!(status(get((&raw const new).cast::<Old>())), EvenkeelStatus::UnknownField);
            fill((&raw mut new).cast::<Old>(), Old { size: 0, version: 0, first: 8 }).unwrap();
        }
        assert_eq!(new, New { size: 16, version, first: 8, second: 1 }, "it says how far it is filled");
    }

    #[test]
    fn unprepared_structs_are_refused() {
        let with = |size, version| New { size, version, first: 0, second: 0 };
        let table = [
            (with(0, 1), EvenkeelStatus::BadSize),
            (with(7, 1), EvenkeelStatus::BadSize),
            (with(4097, 1), EvenkeelStatus::BadSize),
            (with(u32::MAX, 1), EvenkeelStatus::BadSize),
            (with(24, 0), EvenkeelStatus::BadVersion),
            (with(24, EVENKEEL_ABI_VERSION + 1), EvenkeelStatus::BadVersion),
            (with(8, 1), EvenkeelStatus::Ok),
        ];
        for (mut value, expected) in table {
            // SAFETY: the structs are as long as their sizes say, or the call refuses them before it reads further.
            unsafe {
                assert_eq!(status(get(&raw const value)), expected, "{value:?}");
                assert_eq!(status(fillable(&raw const value)), expected, "{value:?}");
                assert_eq!(status(fill(&raw mut value, with(0, 0))), expected, "{value:?}");
            }
        }
        let mut value = with(24, 1);
        let odd = (&raw mut value).cast::<u8>().wrapping_add(1).cast::<New>();
        // SAFETY: the calls do not follow either pointer.
        unsafe {
            assert_eq!(status(get(std::ptr::null::<New>())), EvenkeelStatus::NullPointer);
            assert_eq!(status(get(odd)), EvenkeelStatus::Misaligned);
            assert_eq!(status(put(std::ptr::null_mut::<u64>(), 1)), EvenkeelStatus::NullPointer);
            assert_eq!(status(init(std::ptr::null_mut(), 24)), EvenkeelStatus::NullPointer);
            assert_eq!(status(init((&raw mut value).cast(), 4)), EvenkeelStatus::BadSize);
            assert_eq!(status(init((&raw mut value).cast(), 24)), EvenkeelStatus::Ok);
        }
        assert_eq!(value, with(24, EVENKEEL_ABI_VERSION));
    }

    #[test]
    fn a_text_fits_or_says_what_it_takes() {
        let (mut buffer, mut needed) = ([9_u8; 5], 0);
        // SAFETY: the buffer has the given length.
        unsafe {
            assert_eq!(
                status(put_text(buffer.as_mut_ptr().cast(), 5, "abcde", &raw mut needed)),
                EvenkeelStatus::TooSmall
            );
            assert_eq!((buffer, needed), ([9; 5], 6));
            assert_eq!(status(put_text(buffer.as_mut_ptr().cast(), 5, "abcd", &raw mut needed)), EvenkeelStatus::Ok);
            assert_eq!((&buffer, needed), (b"abcd\0", 5));
            assert_eq!(status(put_text(std::ptr::null_mut(), 0, "", &raw mut needed)), EvenkeelStatus::NullPointer);
            assert_eq!(status(put_text(buffer.as_mut_ptr().cast(), 0, "", &raw mut needed)), EvenkeelStatus::TooSmall);
        }
    }
}
