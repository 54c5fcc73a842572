//! Handles: C holds an object as a number in the form of a pointer.
//! The number has the object's place in a table, and a count of the objects that used the place.
//! The library looks the number up and never dereferences it.
//! So an invalid handle (freed, of another kind, or nonsense) is an error instead of a crash.
//! If a second thread uses an object for one thread, that is an error too.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{RwLock, TryLockError};

use crate::failure::{self, EvenkeelStatus, Failure};
use crate::structs;

const _: () = assert!(usize::BITS == 64, "a handle holds 32 bits of generation and 32 of place and kind");

/// The lowest byte of every handle. It is odd, so that no pointer to a real object is mistaken for a handle.
const TAG: usize = 0xe1;

/// One place in a table of objects.
pub(crate) struct Slot<V> {
    /// How many objects this place has held, including the present one.
    generation: u32,
    value: Option<Box<V>>,
}

pub(crate) type Slots<V> = [RwLock<Slot<V>>];
type Place<V> = &'static RwLock<Slot<V>>;

impl<V> Slot<V> {
    #[expect(clippy::declare_interior_mutable_const, reason = "it is what each place of a table begins as")]
    pub(crate) const FREE: RwLock<Slot<V>> = RwLock::new(Slot { generation: 0, value: None });
}

/// A kind of handle.
pub(crate) trait Handle: Sized + 'static {
    /// The object that a handle of this kind stands for.
    type Value: Send + Sync + 'static;
    /// The number of this kind. No other kind has it.
    const KIND: u8;
    /// Where the search for a free place starts.
    fn cursor() -> &'static AtomicUsize;
    /// The table of all objects of this kind.
    fn slots() -> &'static Slots<Self::Value>;
}

/// Every kind of handle, by the name of its type. No two kinds may have the same number.
#[allow(clippy::enum_variant_names, reason = "each is the name of a type, by which the macro finds it")]
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    EvenkeelThread = 1,
    EvenkeelClock = 2,
    EvenkeelAgones = 7,
    EvenkeelJobs = 8,
    EvenkeelAsynchronous = 9,
    EvenkeelTelemetry = 10,
    EvenkeelRate = 11,
    EvenkeelUdp = 12,
    EvenkeelMemory = 13,
    EvenkeelTickLoop = 14,
    #[cfg(test)]
    Few = 201,
    #[cfg(test)]
    Other = 202,
}

/// Defines kinds of handles. Each kind has a type, a number of places, and a type of objects.
macro_rules! handles {
    ($($handle:ident, $count:literal of $value:ty;)*) => { $(
        impl $crate::handle::Handle for $handle {
            type Value = $value;
            const KIND: u8 = $crate::handle::Kind::$handle as u8;
            fn cursor() -> &'static std::sync::atomic::AtomicUsize {
                static CURSOR: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
                &CURSOR
            }
            fn slots() -> &'static $crate::handle::Slots<$value> {
                static SLOTS: [std::sync::RwLock<$crate::handle::Slot<$value>>; $count] =
                    [$crate::handle::Slot::<$value>::FREE; $count];
                &SLOTS
            }
        }
    )* };
}
pub(crate) use handles;

/// Stores an object in its table, and writes its handle to the caller's `place`.
///
/// # Safety
/// `place` may be written. A null `place` is an error.
pub(crate) unsafe fn give<H: Handle>(
    place: *mut *mut H,
    make: impl FnOnce() -> Result<H::Value, Failure>,
) -> Result<(), Failure> {
    structs::puttable(place)?;
    let handle = put_away(make()?)?;
    // SAFETY: as the caller promises.
    unsafe { structs::put(place, handle) }
}

/// Stores an object in its table, and returns its handle.
pub(crate) fn put_away<H: Handle>(value: H::Value) -> Result<*mut H, Failure> {
    let value = Box::new(value);
    let slots = H::slots();
    let first = H::cursor().fetch_add(1, Ordering::Relaxed);
    for at in 0..slots.len() {
        let index = first.wrapping_add(at) % slots.len();
        let Ok(mut slot) = slots[index].try_write() else { continue };
        if slot.value.is_none() {
            slot.generation = slot.generation.wrapping_add(1);
            slot.value = Some(value);
            let number = (slot.generation as usize) << 32 | index << 16 | usize::from(H::KIND) << 8 | TAG;
            return Ok(std::ptr::without_provenance_mut(number));
        }
    }
    Err(Failure::new(EvenkeelStatus::NoRoom, format_args!("there are {} of this kind", slots.len())))
}

/// The failure for a handle that names no object of this kind.
fn no_handle<H>() -> Failure {
    let name = std::any::type_name::<H>().rsplit("::").next().unwrap_or_default();
    Failure::new(EvenkeelStatus::BadHandle, format_args!("it is no {name}, or it was freed"))
}

/// The place in the table that a handle names, and the generation that the handle expects there.
fn place<H: Handle>(handle: *const H) -> Result<(Place<H::Value>, u32), Failure> {
    let number = handle.addr();
    if number == 0 {
        return Err(failure::null::<H>());
    }
    if number & 0xff != TAG || number >> 8 & 0xff != usize::from(H::KIND) {
        return Err(no_handle::<H>());
    }
    let slot = H::slots().get(number >> 16 & 0xffff).ok_or_else(no_handle::<H>)?;
    Ok((slot, (number >> 32) as u32))
}

/// The failure for an object whose lock cannot be taken now. The same failure serves for a part of an object.
pub(crate) fn refused<G>(error: TryLockError<G>) -> Failure {
    match error {
        TryLockError::WouldBlock => EvenkeelStatus::Busy.into(),
        TryLockError::Poisoned(_) => {
            Failure::new(EvenkeelStatus::Panicked, "an earlier call broke this object: free it and make another")
        }
    }
}

/// Calls `work` on an object that only one thread may use at a time.
pub(crate) fn alone<H: Handle, R>(
    handle: *const H,
    work: impl FnOnce(&mut H::Value) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let (slot, generation) = place(handle)?;
    let mut slot = slot.try_write().map_err(refused)?;
    if slot.generation != generation {
        return Err(no_handle::<H>());
    }
    work(slot.value.as_mut().ok_or_else(no_handle::<H>)?)
}

/// Calls `work` on an object that several threads may use at once.
pub(crate) fn shared<H: Handle, R>(
    handle: *const H,
    work: impl FnOnce(&H::Value) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let (slot, generation) = place(handle)?;
    let slot = slot.try_read().map_err(refused)?;
    if slot.generation != generation {
        return Err(no_handle::<H>());
    }
    work(slot.value.as_ref().ok_or_else(no_handle::<H>)?)
}

/// Takes an object out of the table, so its handle is no longer valid. The caller drops the object later, outside of any lock.
pub(crate) fn take<H: Handle>(handle: *const H) -> Result<Box<H::Value>, Failure> {
    let (lock, generation) = place(handle)?;
    let mut slot = match lock.try_write() {
        Ok(slot) => slot,
        Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
        Err(busy) => return Err(refused(busy)),
    };
    if slot.generation != generation {
        return Err(no_handle::<H>());
    }
    let value = slot.value.take().ok_or_else(no_handle::<H>)?;
    lock.clear_poison();
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut, without_provenance};

    use proptest::prelude::*;

    use super::*;
    use crate::failure::caught;

    #[derive(Debug)]
    struct Few(());
    struct Other(());
    handles! {
        Few, 4 of u64;
        Other, 4 of u64;
    }

    fn make(value: u64) -> Result<*mut Few, EvenkeelStatus> {
        let mut handle = null_mut();
        // SAFETY: the place is a variable of this function.
        match caught(|| unsafe { give(&raw mut handle, || Ok(value)) }) {
            EvenkeelStatus::Ok => Ok(handle),
            refused => Err(refused),
        }
    }

    fn read(handle: *const Few) -> Result<u64, EvenkeelStatus> {
        shared(handle, |value| Ok(*value)).map_err(|failure| failure.status)
    }

    #[test]
    fn only_what_was_given_out_and_lives_is_a_handle() {
        let handles: Vec<_> = (0..4).map(|value| make(value).unwrap()).collect();
        assert_eq!(make(4), Err(EvenkeelStatus::NoRoom));
        for (handle, value) in handles.iter().zip(0..) {
            assert_eq!(read(*handle), Ok(value));
            assert_eq!(shared(handle.cast::<Other>(), |_| Ok(())).unwrap_err().status, EvenkeelStatus::BadHandle);
        }
        assert_eq!(read(null()), Err(EvenkeelStatus::NullPointer));
        let gone = handles[2];
        // An object in use cannot be freed, and a second call cannot use it.
        let inside = alone(gone, |value| {
            *value = 7;
            assert_eq!(take(gone).unwrap_err().status, EvenkeelStatus::Busy);
            assert_eq!(read(gone), Err(EvenkeelStatus::Busy));
            Ok(())
        });
        assert!(inside.is_ok());
        assert_eq!(shared(gone, |_| Ok(read(gone))).unwrap(), Ok(7));
        assert_eq!(*take(gone).unwrap(), 7);
        let after = || [read(gone), take(gone).map(|value| *value).map_err(|failure| failure.status)];
        assert_eq!(after(), [Err(EvenkeelStatus::BadHandle); 2]);
        let new = make(9).unwrap();
        assert_eq!(after(), [Err(EvenkeelStatus::BadHandle); 2], "the place has another now");
        assert_eq!(read(new), Ok(9));
        // A panic may have left an object half-changed. No call may use the object again, but the caller can free it.
        assert_eq!(caught(|| alone(new, |_| panic!("half-done"))), EvenkeelStatus::Panicked);
        assert_eq!(read(new), Err(EvenkeelStatus::Panicked));
        assert!(take(new).is_ok());
        assert_eq!(read(new), Err(EvenkeelStatus::BadHandle));
        assert!(make(1).is_ok());
    }

    proptest! {
        #[test]
        fn nonsense_is_no_handle(number in any::<usize>(), generation in 1_u32..) {
            prop_assert!(shared(without_provenance::<Other>(number), |_| Ok(())).is_err());
            // The number has the form of a handle, but no such handle was ever given out.
            let number = (generation as usize) << 32 | (number & 0xffff_0000) | 202 << 8 | TAG;
            let other = without_provenance::<Other>(number);
            prop_assert_eq!(shared(other, |_| Ok(())).unwrap_err().status, EvenkeelStatus::BadHandle);
            prop_assert_eq!(alone(other, |_| Ok(())).unwrap_err().status, EvenkeelStatus::BadHandle);
            prop_assert_eq!(take(other).unwrap_err().status, EvenkeelStatus::BadHandle);
        }
    }
}
