//! `SuspendedChild`: a command whose process exists but does not start its program yet, so that a recorder sees the first instruction.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdout, Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::process::{ask_to_end, die_with_parent};

const GO: u8 = b'g';
const STAY: u8 = b's';

/// A command that has not started. If this value is dropped, the command never starts.
#[derive(Debug)]
pub struct SuspendedChild {
    pid: u32,
    go: OwnedFd,
    begun: Receiver<io::Result<Option<ChildStdout>>>,
    ended: Receiver<io::Result<ExitStatus>>,
}

/// A running command. The kernel kills it when this process ends.
#[derive(Debug)]
pub struct Running {
    pid: u32,
    ended: Receiver<io::Result<ExitStatus>>,
}

impl SuspendedChild {
    /// Creates the process. The kernel kills the process when this process ends, for any reason.
    ///
    /// # Errors
    /// If no process can be created.
    pub fn new(mut command: Command) -> io::Result<SuspendedChild> {
        let (pid_in, pid_out) = pipe_with(PipeFlags::CLOEXEC)?;
        let (wait, go) = pipe_with(PipeFlags::CLOEXEC)?;
        die_with_parent(&mut command);
        // SAFETY: the closure runs in the new process before its program. It makes system calls on descriptors that were opened before.
        // The closure allocates nothing, takes no lock, and touches no memory that another thread could have left half changed.
        unsafe {
            command.pre_exec(move || {
                let pid = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned();
                rustix::io::write(&pid_out, &pid.to_ne_bytes())?;
                let mut said = [STAY];
                while let Err(errno) = rustix::io::read(&wait, &mut said) {
                    if errno != rustix::io::Errno::INTR {
                        return Err(errno.into());
                    }
                }
                if said == [GO] { Ok(()) } else { Err(rustix::io::Errno::CANCELED.into()) }
            })
        };
        let (say_begun, begun) = channel();
        let (say_ended, ended) = channel();
        // Use a separate thread, because creating a process returns only when its program has started.
        // The thread stays until the end, because the kernel kills the process when its creating thread ends.
        std::thread::Builder::new()
            .name("evenkeel-hold".to_owned())
            .spawn(move || run(command, &say_begun, &say_ended))?;
        let mut bytes = [0; 4];
        match rustix::io::read(&pid_in, &mut bytes)? {
            4 => Ok(SuspendedChild { pid: u32::from_ne_bytes(bytes), go, begun, ended }),
            _ => Err(begun.recv().ok().and_then(Result::err).unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Starts the command. If the command's standard output is piped, returns the pipe.
    ///
    /// # Errors
    /// If the program does not exist or cannot be run.
    pub fn start(mut self) -> io::Result<(Running, Option<ChildStdout>)> {
        rustix::io::write(&self.go, &[GO])?;
        let begun = self.begun.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()));
        let stdout = begun?;
        // This type has a destructor, so we cannot move a field out of it.
        let ended = std::mem::replace(&mut self.ended, channel().1);
        Ok((Running { pid: self.pid, ended }, stdout))
    }
}

impl Drop for SuspendedChild {
    fn drop(&mut self) {
        // If the command has started, no code reads this byte any more.
        let _ = rustix::io::write(&self.go, &[STAY]);
    }
}

fn run(mut command: Command, begun: &Sender<io::Result<Option<ChildStdout>>>, ended: &Sender<io::Result<ExitStatus>>) {
    let child = command.spawn();
    // Drops this process's ends of the command's pipes.
    drop(command);
    match child {
        Ok(mut child) => {
            let _ = begun.send(Ok(child.stdout.take()));
            let _ = ended.send(child.wait());
        }
        Err(error) => {
            let _ = begun.send(Err(error));
        }
    }
}

impl Running {
    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How the command ended. `None` while it runs, and after the first call that returned its end.
    pub fn ended(&self) -> Option<io::Result<ExitStatus>> {
        match self.ended.try_recv() {
            Ok(status) => Some(status),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Asks the command to end (SIGTERM) and waits this long. If the command does not end, the kernel kills it when this process ends.
    pub fn end(&self, limit: Duration) -> Option<io::Result<ExitStatus>> {
        ask_to_end(self.pid);
        self.ended.recv_timeout(limit).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_command_starts_on_request() {
        let mut command = Command::new("echo");
        command.arg("here").stdout(Stdio::piped());
        let held = SuspendedChild::new(command).unwrap();
        let program = || std::fs::read_to_string(format!("/proc/{}/comm", held.pid())).unwrap();
        assert_ne!(program(), "echo\n", "its program has not begun");
        let pid = held.pid();
        let (running, stdout) = held.start().unwrap();
        assert_eq!(running.pid(), pid);
        let mut said = String::new();
        stdout.unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "here\n");
        // Do not send SIGTERM here. The command ends by itself, but a signal could arrive first, even though the output is closed.
        assert!(running.ended.recv_timeout(Duration::from_secs(60)).unwrap().unwrap().success());
    }

    #[test]
    fn a_missing_program_is_reported_and_a_dropped_one_never_starts() {
        let held = SuspendedChild::new(Command::new("/nowhere/at-all")).unwrap();
        assert_eq!(held.start().unwrap_err().kind(), io::ErrorKind::NotFound);
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun > \"$1\"", "sh"]).arg(file.path());
        let held = SuspendedChild::new(command).unwrap();
        let at = std::path::PathBuf::from(format!("/proc/{}", held.pid()));
        drop(held);
        let tries = (0..1000).take_while(|_| at.exists()).map(|_| std::thread::sleep(Duration::from_millis(5)));
        assert!(tries.count() < 1000, "it is gone");
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "");
    }

    #[test]
    fn a_running_child_can_be_ended() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let (running, _) = SuspendedChild::new(command).unwrap().start().unwrap();
        assert!(running.ended().is_none());
        assert!(!running.end(Duration::from_secs(60)).unwrap().unwrap().success());
    }
}
