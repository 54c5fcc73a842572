//! The scheduling class of a thread. The real-time class is for a meter that only a hypervisor should interrupt.
//! An ordinary thread with a shorter slice needs no privilege. You can also set threads of other processes of the same user.

use crate::errno::Errno;

/// The scheduling classes used here (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Ordinary.
    Other,
    /// Real-time: a thread runs until it sleeps, before all threads of lower priority.
    Fifo,
    /// A thread runs only when the CPU would otherwise be idle.
    Idle,
    /// Another class, by its number.
    Unnamed(u32),
}

/// `struct sched_attr` of sched_setattr(2), in its first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const SIZE: u32 = size_of::<Attributes>() as u32;

/// Makes the calling thread real-time (`SCHED_FIFO`) with a priority from 1 to 99.
///
/// # Errors
/// `EPERM` without CAP_SYS_NICE, or in a control group without a real-time share; `EINVAL` for a priority out of range.
pub fn set_fifo(priority: u8) -> Result<(), Errno> {
    set(&Attributes { size: SIZE, policy: libc::SCHED_FIFO as u32, priority: priority.into(), ..Attributes::default() })
}

/// Makes the calling thread ordinary, with time slices of `slice_ns`. `None` means the kernel's default.
/// Kernels before 6.12 accept the number without effect: check with [`slice_ns`].
///
/// # Errors
/// The kernel's error.
pub fn set_ordinary(slice_ns: Option<u64>) -> Result<(), Errno> {
    let nice = current()?.nice;
    let runtime_ns = slice_ns.unwrap_or(0);
    set(&Attributes { size: SIZE, policy: libc::SCHED_OTHER as u32, nice, runtime_ns, ..Attributes::default() })
}

/// Makes the calling thread run only when the CPU would otherwise be idle (`SCHED_IDLE`).
/// The thread keeps a CPU from going idle, and yields it to any waking thread. This change cannot always be undone.
///
/// # Errors
/// The kernel's error.
pub fn set_idle() -> Result<(), Errno> {
    set(&Attributes { size: SIZE, policy: libc::SCHED_IDLE as u32, ..Attributes::default() })
}

/// The calling thread's class.
///
/// # Errors
/// The kernel's error.
pub fn policy() -> Result<Policy, Errno> {
    policy_of(0)
}

/// The class of any thread by its number. 0 is the calling thread.
///
/// # Errors
/// `ESRCH` if the thread does not exist.
pub fn policy_of(tid: u32) -> Result<Policy, Errno> {
    Ok(match attributes_of(tid)?.policy {
        policy if policy == libc::SCHED_OTHER as u32 => Policy::Other,
        policy if policy == libc::SCHED_FIFO as u32 => Policy::Fifo,
        policy if policy == libc::SCHED_IDLE as u32 => Policy::Idle,
        other => Policy::Unnamed(other),
    })
}

/// The time slice of the calling ordinary thread, in nanoseconds. `None` if the kernel does not report it.
///
/// # Errors
/// The kernel's error.
pub fn slice_ns() -> Result<Option<u64>, Errno> {
    Ok(Some(current()?.runtime_ns).filter(|ns| *ns > 0))
}

/// The time slice of any ordinary thread, in nanoseconds. `None` for other classes, or if the kernel does not report it.
///
/// # Errors
/// `ESRCH` if the thread does not exist.
pub fn slice_ns_of(tid: u32) -> Result<Option<u64>, Errno> {
    let attributes = attributes_of(tid)?;
    Ok(Some(attributes.runtime_ns).filter(|ns| *ns > 0 && attributes.has_slice()))
}

/// Sets the time slice of any ordinary thread, and keeps its class and nice value. `None` means the kernel's default.
/// Kernels before 6.12 accept the number without effect: check with [`slice_ns_of`].
///
/// # Errors
/// `EINVAL` for a thread of another class; `EPERM` for another user's thread without CAP_SYS_NICE; `ESRCH` if the thread does not exist.
pub fn set_slice_ns_of(tid: u32, slice_ns: Option<u64>) -> Result<(), Errno> {
    let attributes = attributes_of(tid)?;
    if !attributes.has_slice() {
        return Err(Errno::INVAL);
    }
    set_of(tid, &Attributes { size: SIZE, runtime_ns: slice_ns.unwrap_or(0), ..attributes })
}

/// Sets the class of any thread, and keeps its nice value. Real-time classes get the lowest priority, 1.
///
/// # Errors
/// `EPERM` without the privilege (CAP_SYS_NICE for real-time); `EINVAL` for a class that the kernel does not know.
/// `ESRCH` if the thread does not exist.
pub fn set_policy_of(tid: u32, policy: Policy) -> Result<(), Errno> {
    let (policy, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER as u32, 0),
        Policy::Idle => (libc::SCHED_IDLE as u32, 0),
        Policy::Fifo => (libc::SCHED_FIFO as u32, 1),
        Policy::Unnamed(policy) => (policy, u32::from(policy == libc::SCHED_RR as u32)),
    };
    let Attributes { nice, flags, .. } = attributes_of(tid)?;
    set_of(tid, &Attributes { size: SIZE, policy, priority, nice, flags, ..Attributes::default() })
}

impl Attributes {
    fn has_slice(&self) -> bool {
        self.policy == libc::SCHED_OTHER as u32 || self.policy == libc::SCHED_BATCH as u32
    }
}

fn set(attributes: &Attributes) -> Result<(), Errno> {
    set_of(0, attributes)
}

fn set_of(tid: u32, attributes: &Attributes) -> Result<(), Errno> {
    // SAFETY: the kernel reads `size` bytes, which is exactly the struct's length, and keeps no pointer.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, attributes as *const Attributes, 0) };
    if done == 0 { Ok(()) } else { Err(Errno::from(&std::io::Error::last_os_error())) }
}

fn current() -> Result<Attributes, Errno> {
    attributes_of(0)
}

fn attributes_of(tid: u32) -> Result<Attributes, Errno> {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most `SIZE` bytes, which is the struct's length. Every bit pattern of the struct is valid.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &mut attributes as *mut Attributes, SIZE, 0) };
    if done == 0 { Ok(attributes) } else { Err(Errno::from(&std::io::Error::last_os_error())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_class_that_it_took() {
        let ours = std::thread::spawn(|| {
            assert_eq!(policy(), Ok(Policy::Other));
            set_ordinary(Some(300_000)).unwrap();
            // Older kernels have no slice per thread. Newer kernels clamp the slice to their limits.
            assert!(slice_ns().unwrap().is_none_or(|ns| ns == 300_000));
            set_ordinary(None).unwrap();
            set_fifo(200).unwrap_err()
        });
        assert_eq!(ours.join().unwrap(), Errno::INVAL);
        let idle = std::thread::spawn(|| set_idle().map(|()| policy().unwrap()));
        assert_eq!(idle.join().unwrap(), Ok(Policy::Idle));
        let fifo = std::thread::spawn(|| set_fifo(1).map(|()| policy().unwrap()));
        match fifo.join().unwrap() {
            Ok(policy) => assert_eq!(policy, Policy::Fifo),
            Err(errno) => assert!(errno.is_denial(), "{errno:?}"),
        }
    }

    #[test]
    fn another_thread_is_set_as_one_s_own() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            sender.send(crate::thread::id()).unwrap();
            let _ = ended.recv();
            (slice_ns().unwrap(), policy().unwrap())
        });
        let tid = receiver.recv().unwrap();
        let before = slice_ns_of(tid).unwrap();
        set_slice_ns_of(tid, Some(300_000)).unwrap();
        assert_eq!(slice_ns_of(tid).unwrap(), before.map(|_| 300_000));
        set_slice_ns_of(tid, None).unwrap();
        assert_eq!(slice_ns_of(tid).unwrap(), before);
        set_policy_of(tid, Policy::Unnamed(libc::SCHED_BATCH as u32)).unwrap();
        set_slice_ns_of(tid, Some(200_000)).unwrap();
        match set_policy_of(tid, Policy::Fifo) {
            Ok(()) => {
                assert_eq!((policy_of(tid), slice_ns_of(tid)), (Ok(Policy::Fifo), Ok(None)));
                assert_eq!(set_slice_ns_of(tid, None), Err(Errno::INVAL), "a real-time thread has none");
            }
            Err(errno) => assert!(errno.is_denial(), "{errno:?}"),
        }
        set_policy_of(tid, Policy::Other).unwrap();
        drop(end);
        assert_eq!(other.join().unwrap(), (before, Policy::Other));
    }
}
