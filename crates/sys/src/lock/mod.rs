//! Locks for server loops. Waiters sleep in the kernel rather than yield, and take no tickets.
//! Waiters spin only briefly, and only if another CPU could release the lock meanwhile.
//! On a single CPU a spinning waiter keeps the holder from running. We measured a loss of a third to nine tenths of the CPU's time.
//! A yield gives away a whole time slice.

mod event;
#[cfg(not(loom))]
#[cfg_attr(not(target_os = "linux"), path = "inherit_portable.rs")]
mod inherit;
/// The portable version, whose tests also run on Linux.
#[cfg(all(test, target_os = "linux", not(loom)))]
mod inherit_portable;
#[cfg(not(loom))]
mod kind;
mod plain;
mod primitive;
#[cfg(not(loom))]
mod raw;
mod read_write;
#[cfg(not(loom))]
pub mod tick_waits;
#[cfg(not(loom))]
pub mod waits;

pub use event::Event;
#[cfg(not(loom))]
pub use raw::{
    InheritMutex, InheritMutexGuard, Mutex, MutexGuard, RawInherit, RawPlain, RawReadWrite, RwLock, RwLockReadGuard,
    RwLockWriteGuard,
};
