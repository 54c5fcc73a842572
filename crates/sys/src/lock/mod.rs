//! Locks for server loops: they sleep in the kernel rather than yield, take no tickets, and spin only a moment, and only where there is
//! another CPU that could let the lock go meanwhile. On one CPU a spinning waiter keeps the holder from running: a third to nine tenths
//! of the CPU's time were measured to go that way. A yield gives a whole turn of the scheduler away.

mod event;
#[cfg(not(loom))]
mod inherit;
mod plain;
mod primitive;
#[cfg(not(loom))]
mod raw;
mod read_write;
#[cfg(not(loom))]
pub mod waits;

pub use event::Event;
#[cfg(not(loom))]
pub use raw::{
    InheritMutex, InheritMutexGuard, Mutex, MutexGuard, RawInherit, RawPlain, RawReadWrite, RwLock, RwLockReadGuard,
    RwLockWriteGuard,
};
