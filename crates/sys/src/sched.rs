//! What class the calling thread is scheduled in: real-time, for a meter that nobody but a hypervisor should interrupt; ordinary with a
//! shorter slice, which needs no right.

use crate::errno::Errno;

/// The scheduling classes that are used here (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The ordinary one.
    Other,
    /// Real-time: runs until it sleeps, before all of lower priority.
    Fifo,
    /// Runs only where nobody else would.
    Idle,
    /// Another one, by its number.
    Unnamed(u32),
}

/// `struct sched_attr` of sched_setattr(2), as of its first version.
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

/// Makes the calling thread real-time (`SCHED_FIFO`), of a priority from 1 to 99.
///
/// # Errors
/// `EPERM` without CAP_SYS_NICE, or in a control group that has no real-time share; `EINVAL` for another priority.
pub fn set_fifo(priority: u8) -> Result<(), Errno> {
    set(&Attributes { size: SIZE, policy: libc::SCHED_FIFO as u32, priority: priority.into(), ..Attributes::default() })
}

/// Makes the calling thread an ordinary one, which is given the CPU for `slice_ns` at a time; none is the kernel's own length. Kernels
/// before 6.12 take the number and do nothing with it: [`slice_ns`] tells.
///
/// # Errors
/// What the kernel said.
pub fn set_ordinary(slice_ns: Option<u64>) -> Result<(), Errno> {
    let nice = current()?.nice;
    let runtime_ns = slice_ns.unwrap_or(0);
    set(&Attributes { size: SIZE, policy: libc::SCHED_OTHER as u32, nice, runtime_ns, ..Attributes::default() })
}

/// Makes the calling thread one that runs only where nobody else would (`SCHED_IDLE`): it keeps a CPU from going idle, and gives it up to
/// whoever wakes. It can't always be taken back.
///
/// # Errors
/// What the kernel said.
pub fn set_idle() -> Result<(), Errno> {
    set(&Attributes { size: SIZE, policy: libc::SCHED_IDLE as u32, ..Attributes::default() })
}

/// The calling thread's class.
///
/// # Errors
/// What the kernel said.
pub fn policy() -> Result<Policy, Errno> {
    policy_of(0)
}

/// The class of any thread by its number, 0 for the calling one.
///
/// # Errors
/// `ESRCH` if there is none.
pub fn policy_of(tid: u32) -> Result<Policy, Errno> {
    Ok(match attributes_of(tid)?.policy {
        policy if policy == libc::SCHED_OTHER as u32 => Policy::Other,
        policy if policy == libc::SCHED_FIFO as u32 => Policy::Fifo,
        policy if policy == libc::SCHED_IDLE as u32 => Policy::Idle,
        other => Policy::Unnamed(other),
    })
}

/// How long the calling ordinary thread is given the CPU at a time, in nanoseconds; none where the kernel does not tell.
///
/// # Errors
/// What the kernel said.
pub fn slice_ns() -> Result<Option<u64>, Errno> {
    Ok(Some(current()?.runtime_ns).filter(|ns| *ns > 0))
}

fn set(attributes: &Attributes) -> Result<(), Errno> {
    // SAFETY: the kernel reads `size` bytes of the struct, which is exactly its length; it keeps no pointer.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, attributes as *const Attributes, 0) };
    if done == 0 { Ok(()) } else { Err(Errno::from(&std::io::Error::last_os_error())) }
}

fn current() -> Result<Attributes, Errno> {
    attributes_of(0)
}

fn attributes_of(tid: u32) -> Result<Attributes, Errno> {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most `SIZE` bytes, which is the struct's length; every bit pattern of it is a value.
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
            // Older kernels have no slice of a thread's own; newer ones keep it within their bounds.
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
}
