//! Child processes that never outlive their parent, and our own privileges.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use rustix::process::{Pid, Signal};

use crate::clock;
use crate::cpuset::CpuSet;
use crate::errno::Errno;
use crate::thread;

/// Makes the kernel kill the child with SIGKILL when the thread that starts it ends, for any reason.
/// So a killed measurement leaves no server under load behind.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = rustix::process::getpid();
    // SAFETY: the closure runs in the forked child before exec. It makes two system calls, allocates nothing, and takes no lock.
    // The closure touches no memory that another thread could have left half changed.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the call above. In that case the child already has another parent.
            if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(std::io::ErrorKind::NotFound.into()) }
        })
    }
}

/// Restricts the child to `cpus` from its first instruction.
///
/// # Errors
/// `EINVAL` if a number is 1,024 or more. If the kernel refuses the set itself, starting the child fails with the kernel's error.
pub fn run_on<'a>(command: &'a mut Command, cpus: &CpuSet) -> Result<&'a mut Command, Errno> {
    let set = thread::kernel_set(cpus)?;
    // SAFETY: as above. The closure makes one system call on a set that was made before the fork.
    Ok(unsafe { command.pre_exec(move || Ok(rustix::thread::sched_setaffinity(None, &set)?)) })
}

/// Moves the child into the control group at `group` before its first instruction, so that all its children are in that group too.
///
/// # Errors
/// The kernel's error for the group's file. If the child cannot enter the group, starting the child fails.
pub fn enter_group<'a>(command: &'a mut Command, group: &Path) -> Result<&'a mut Command, Errno> {
    let list = std::fs::OpenOptions::new().write(true).open(group.join("cgroup.procs"));
    let list = list.map_err(|error| Errno::from(&error))?;
    // SAFETY: as above. The closure makes one system call on a file that was opened before the fork. Zero means the writing process.
    Ok(unsafe { command.pre_exec(move || Ok(rustix::io::write(&list, b"0").map(|_| ())?)) })
}

/// The state of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The child still runs.
    Runs,
    /// The child has ended, so waiting for it returns at once.
    Ended,
}

/// Waits until the child ends, a signal arrives, or the monotonic clock reaches `until_ns`. No other code may wait for the child.
/// The call does not wake in between, because a wake-up would disturb the measurement.
///
/// # Errors
/// The kernel's error.
pub fn await_end(child: &std::process::Child, until_ns: u64) -> Result<Doing, Errno> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
    let held = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
    let left = rustix::time::Timespec {
        tv_sec: (left_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (left_ns % 1_000_000_000).cast_signed(),
    };
    match rustix::event::poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&left)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(Doing::Runs),
        Ok(_) => Ok(Doing::Ended),
        Err(errno) => Err(errno.into()),
    }
}

/// The signals that this program does not handle. No process can handle the first two, and waiting for children needs the last one.
const NOT_WITHSTOOD: [i32; 3] = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD];

/// The kernel sends these signals when this program makes an error. If another process sends them, this program ignores them.
const FAULTS: [i32; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Ignores a signal. If the kernel sent it because of an error in this program, ends the process.
/// Otherwise the program would repeat the error without end.
extern "C" fn withstand(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid struct that lives while the handler runs.
    let is_of_kernel = unsafe { (*info).si_code } > 0;
    if is_of_kernel && FAULTS.contains(&signal) {
        // SAFETY: a handler may call `signal`. The instruction then fails again, and ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Makes this process survive every signal except SIGKILL and SIGSTOP. Programs that it starts have the default handling again.
/// Started programs would inherit ignored signals, so this function uses a handler.
///
/// # Errors
/// The kernel's error.
pub fn withstand_signals() -> Result<(), Errno> {
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| !NOT_WITHSTOOD.contains(signal)) {
        // The C library reserves these signals for its threads.
        if (32..libc::SIGRTMIN()).contains(&signal) {
            continue;
        }
        // SAFETY: the struct is plain data. A struct of zeros is valid, with an empty set of signals.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = withstand;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        // SAFETY: the struct lives for the call, and the call does not return the old action.
        // The handler does nothing that could not happen at any moment.
        if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(Errno::from(&std::io::Error::last_os_error()));
        }
    }
    Ok(())
}

/// Asks the kernel to kill other processes first when memory runs out. If that is not allowed, nothing happens.
pub fn be_spared_when_memory_is_short() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
}

/// Puts the child into a new session without a terminal. The child gets no signal when the caller's terminal ends, and outlives its creator.
pub fn detach(command: &mut Command) -> &mut Command {
    // SAFETY: `pre_exec` runs in the forked child, and may call only functions that are safe in a signal handler.
    // The closure makes one system call (setsid), whose error allocates nothing.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        })
    }
}

/// Leaves the control group of the login session, which systemd may kill as a whole when its user logs out.
/// If that is not allowed or there is no such group, nothing happens.
pub fn leave_session_group() {
    let pid = rustix::process::getpid().as_raw_nonzero().to_string();
    for group in ["/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/systemd/cgroup.procs"] {
        let _ = std::fs::OpenOptions::new().write(true).open(group).and_then(|mut file| file.write_all(pid.as_bytes()));
    }
}

/// Reads this many bytes of a child's output, or fewer if the output ends before.
///
/// # Errors
/// `ETIMEDOUT` if the child writes less within `limit`; otherwise the kernel's error.
pub fn read_within(mut from: impl Read + AsFd, len_bytes: usize, limit: Duration) -> Result<Vec<u8>, Errno> {
    let deadline_ns = clock::monotonic_ns().saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let mut said = Vec::new();
    while said.len() < len_bytes {
        let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
        let left = rustix::time::Timespec {
            tv_sec: (left_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (left_ns % 1_000_000_000).cast_signed(),
        };
        let mut fds = [PollFd::new(&from, PollFlags::IN)];
        if rustix::event::poll(&mut fds, Some(&left))? == 0 {
            return Err(Errno::TIMEDOUT);
        }
        let mut bytes = [0; 256];
        let room = bytes.len().min(len_bytes - said.len());
        match from.read(&mut bytes[..room]) {
            Ok(0) => break,
            Ok(length) => said.extend_from_slice(&bytes[..length]),
            Err(error) => return Err(Errno::from(&error)),
        }
    }
    Ok(said)
}

/// Whether the effective user is root. Other users may not change most settings. Only trying shows which settings they may change.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this program runs with more privileges than its user has (set-user-ID, set-group-ID).
pub fn is_set_id() -> bool {
    rustix::process::getuid() != rustix::process::geteuid() || rustix::process::getgid() != rustix::process::getegid()
}

/// Asks a process that we started to end (SIGTERM). It is not an error if the process has already ended.
pub fn ask_to_end(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        // The kernel sends the signal when the starting thread ends, so in this test a thread plays the parent.
        let starter = std::thread::spawn(|| die_with_parent(Command::new("sleep").arg("60")).spawn().unwrap());
        let mut child = starter.join().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[test]
    fn a_child_runs_on_its_cpus() {
        let ours = thread::affinity().unwrap();
        let last: CpuSet = ours.iter().last().into_iter().collect();
        let mut command = Command::new("cat");
        run_on(&mut command, &last).unwrap();
        let output = command.arg("/proc/self/status").output().unwrap();
        let allowed = String::from_utf8(output.stdout).unwrap();
        assert!(allowed.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{allowed}");
        assert!(run_on(&mut command, &CpuSet::from_iter([5000])).is_err());
    }

    #[test]
    fn the_output_of_a_detached_child_is_read() {
        let say = |script: &str, limit| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(std::process::Stdio::piped());
            let mut child = detach(&mut command).spawn().unwrap();
            let said = read_within(child.stdout.take().unwrap(), 3, limit);
            ask_to_end(child.id());
            child.wait().unwrap();
            said
        };
        let long = Duration::from_secs(60);
        assert_eq!(say("printf ab; printf cd", long), Ok(b"abc".to_vec()));
        assert_eq!(say("printf a", long), Ok(b"a".to_vec()));
        assert_eq!(say("exec sleep 60", Duration::from_millis(20)), Err(Errno::TIMEDOUT));
        let session =
            "read -r pid name state parent group session rest </proc/self/stat; test $session = $$ && printf yes";
        assert_eq!(say(session, long), Ok(b"yes".to_vec()), "it leads a session of its own");
    }

    #[test]
    fn a_child_is_awaited_until_it_ends_or_the_time_is_over() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(await_end(&child, clock::monotonic_ns() + 1_000_000), Ok(Doing::Runs));
        ask_to_end(child.id());
        while await_end(&child, clock::monotonic_ns() + 60_000_000_000).unwrap() == Doing::Runs {}
        assert!(!child.wait().unwrap().success());
        assert!(enter_group(&mut Command::new("true"), Path::new("/nowhere")).is_err());
    }

    #[test]
    fn asking_a_child_to_end_ends_it() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        ask_to_end(child.id());
        assert!(!child.wait().unwrap().success());
    }
}
