//! The calls that read the time, each as a function to measure, and a check whether a call enters the kernel.

use std::mem::MaybeUninit;

use crate::errno::Errno;

const NS: u64 = 1_000_000_000;

/// A call that reads the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The C library's `clock_gettime` of the monotonic clock, which first tries the vDSO.
    ClockGettime,
    /// The C library's `gettimeofday`.
    Gettimeofday,
}

/// The monotonic clock in nanoseconds, read with the C library's `clock_gettime`; 0 on failure.
#[inline(always)]
pub fn clock_gettime() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the call writes one timespec, and `time` has room for it. A timespec of zeros is valid.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    (time.tv_sec as u64).wrapping_mul(NS).wrapping_add(time.tv_nsec as u64)
}

/// The monotonic clock in nanoseconds by a system call, even if the vDSO works.
#[inline(always)]
pub fn clock_gettime_by_system_call() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: as above.
    let time = unsafe {
        libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    (time.tv_sec as u64).wrapping_mul(NS).wrapping_add(time.tv_nsec as u64)
}

/// The wall clock in microseconds since 1970, from the C library's `gettimeofday`; 0 on failure.
#[inline(always)]
pub fn gettimeofday() -> u64 {
    let mut time = MaybeUninit::<libc::timeval>::zeroed();
    // SAFETY: as above, with a timeval. The pointer to the time zone is null.
    let time = unsafe {
        libc::gettimeofday(time.as_mut_ptr(), std::ptr::null_mut());
        time.assume_init()
    };
    (time.tv_sec as u64).wrapping_mul(1_000_000).wrapping_add(time.tv_usec as u64)
}

/// A system call that does almost nothing (`getppid`): the cost of entering the kernel.
#[inline(always)]
pub fn empty_system_call() -> u64 {
    // SAFETY: the call has no arguments and touches no memory.
    unsafe { libc::syscall(libc::SYS_getppid) as u64 }
}

/// Whether `call` enters the kernel on this machine now.
/// The check runs in a separate thread for which the kernel refuses the system call (seccomp(2), which needs no privilege).
/// If the call still gets an answer, the kernel was not involved. The thread ends, and nothing else is affected.
///
/// # Errors
/// `ENOSYS` for an unsupported processor; otherwise the kernel's error for the filter.
pub fn enters_the_kernel(call: Call) -> Result<bool, Errno> {
    let thread = std::thread::Builder::new().name("evenkeel-vdso".to_owned()).spawn(move || {
        refuse_clock_calls()?;
        Ok(!is_answered(call))
    });
    let thread = thread.map_err(|error| Errno::from(&error))?;
    thread.join().unwrap_or(Err(Errno::IO))
}

fn is_answered(call: Call) -> bool {
    // SAFETY: each call writes one struct, and its variable has room for it.
    unsafe {
        match call {
            Call::ClockGettime => {
                let mut time = MaybeUninit::<libc::timespec>::zeroed();
                libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) == 0
            }
            Call::Gettimeofday => {
                let mut time = MaybeUninit::<libc::timeval>::zeroed();
                libc::gettimeofday(time.as_mut_ptr(), std::ptr::null_mut()) == 0
            }
        }
    }
}

/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64` of linux/audit.h. The numbers of system calls below are valid only for this architecture.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xC000_003E);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xC000_00B7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<u32> = None;

/// From now on the kernel refuses clock_gettime and gettimeofday to the calling thread with EPERM. This cannot be undone.
fn refuse_clock_calls() -> Result<(), Errno> {
    let architecture = ARCHITECTURE.ok_or(Errno::NOSYS)?;
    let load = |offset| filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let unless = |value, skip| filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, value);
    let when = |value, skip| filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, skip, 0, value);
    let answer = |value| filter(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    // `struct seccomp_data` has the number of the call at byte 0 and the architecture at byte 4.
    let mut program = [
        load(4),
        unless(architecture, 3),
        load(0),
        when(libc::SYS_clock_gettime as u32, 2),
        when(libc::SYS_gettimeofday as u32, 1),
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: both calls affect only the calling thread. The kernel checks and copies the program, which outlives the call.
    let made = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program as *const libc::sock_fprog) == 0
    };
    if made { Ok(()) } else { Err(Errno::from(&std::io::Error::last_os_error())) }
}

fn filter(code: u32, jump_if: u8, jump_else: u8, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: jump_if, jf: jump_else, k: value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn all_calls_return_the_same_time() {
        let before = clock::monotonic_ns();
        let (one, other) = (clock_gettime(), clock_gettime_by_system_call());
        assert!(before <= one && one <= other && other <= clock::monotonic_ns());
        let wall_us = clock::realtime_ns() / 1000;
        assert!(gettimeofday() >= wall_us && gettimeofday() - wall_us < 60_000_000);
        assert!(empty_system_call() < u64::from(u32::MAX));
    }

    #[test]
    fn a_refused_system_call_is_seen_as_one() {
        // In a restricted thread the forced call fails. So the filter works, and any answer came from user space.
        let seen = std::thread::spawn(|| refuse_clock_calls().map(|()| clock_gettime_by_system_call())).join().unwrap();
        match seen {
            Ok(time) => assert_eq!(time, 0),
            Err(errno) => {
                evenkeel_testkit::skipped(format_args!("this machine has no filters for system calls: {errno}"));
                return;
            }
        }
        for call in [Call::ClockGettime, Call::Gettimeofday] {
            assert!(enters_the_kernel(call).is_ok());
        }
        assert!(clock_gettime_by_system_call() > 0, "the refusal ended with its thread");
    }
}
