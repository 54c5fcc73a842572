//! Child processes that never outlive their parent, and who we are.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal};

use crate::cpuset::CpuSet;
use crate::errno::Errno;
use crate::thread;

/// Makes the kernel kill the child with SIGKILL when the thread that starts it ends, however it ends: a measuring run that
/// is killed must not leave a server under load behind.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = rustix::process::getpid();
    // SAFETY: the closure runs in the forked child before exec. It makes two system calls and allocates nothing, takes no
    // lock and touches no memory that another thread could have left half changed.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the call above: the child then already has another.
            if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(std::io::ErrorKind::NotFound.into()) }
        })
    }
}

/// Makes the child run on `cpus` only, from its first instruction.
///
/// # Errors
/// `EINVAL` if one of them is 1,024 or more. What the kernel says to the set itself comes from starting the child.
pub fn run_on<'a>(command: &'a mut Command, cpus: &CpuSet) -> Result<&'a mut Command, Errno> {
    let set = thread::kernel_set(cpus)?;
    // SAFETY: as above: one system call on a set that was made before the fork.
    Ok(unsafe { command.pre_exec(move || Ok(rustix::thread::sched_setaffinity(None, &set)?)) })
}

/// Whether the effective user is root. With fewer rights most writes are refused; ask the kernel by trying.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this program was started with more rights than its user has (set-user-ID, set-group-ID).
pub fn is_set_id() -> bool {
    rustix::process::getuid() != rustix::process::geteuid() || rustix::process::getgid() != rustix::process::getegid()
}

/// Asks a process that we started to end (SIGTERM). One that has ended already is no error.
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
        // The signal is sent when the starting thread ends, so a thread stands in for the whole parent.
        let starter = std::thread::spawn(|| die_with_parent(Command::new("sleep").arg("60")).spawn().unwrap());
        let mut child = starter.join().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[test]
    fn a_child_runs_where_it_is_told_to() {
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
    fn asking_a_child_to_end_ends_it() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        ask_to_end(child.id());
        assert!(!child.wait().unwrap().success());
    }
}
