//! `Kind`: what a thread waits for.

/// The kind of the lock or event that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// A mutex whose holder inherits priority.
    InheritMutex,
    /// The read side of a reader-writer lock.
    Read,
    /// The write side of a reader-writer lock.
    Write,
    /// An event.
    Event,
}
