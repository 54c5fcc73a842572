//! An installed server that evenkeel starts for a trial, and removes after the trial.
//! The server runs on loopback only, on a free port, with its configuration and data in a folder of evenkeel.
//! The server ends gracefully, and is killed if this process ends.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_hostfs::proc::ProcessStat;
use evenkeel_sys::{CpuSet, process};
use tempfile::TempDir;

use crate::error::WorkloadError;
use crate::process_knob::ProcessKnobs;
use crate::processes::Used;

/// How long a server may take until it accepts connections.
const START_TIME: Duration = Duration::from_secs(20);
/// How long a server may take to end after a request.
const END_TIME: Duration = Duration::from_secs(3);
/// How often evenkeel tries to start the server. Another program may take the port between the check and the server's start.
const TRIES: u32 = 3;
/// How many bytes of a server's last output are stored, for the error if the server ends.
const SAID_BYTES_MAX: usize = 4 << 10;
/// The prefix of the names of evenkeel's folders.
const FOLDER: &str = "evenkeel-server-";
/// The name of the lock file. The program that uses the folder holds the lock.
const LOCK: &str = "in-use";
/// The maximum number of leftover folders to examine when a new folder is made.
const FOLDERS_MAX: usize = 1000;

/// How to start a server.
pub(crate) struct Plan<'a> {
    /// The name of the server in errors.
    pub(crate) name: &'static str,
    /// The name of the program. evenkeel searches for it in `PATH`, and where Debian puts servers and games.
    pub(crate) program: &'static str,
    /// The command that installs the server.
    pub(crate) install: &'static str,
    /// The CPUs on which the server may run. An empty set means all CPUs of this process.
    pub(crate) cpus: &'a CpuSet,
    /// How the server shows that it is ready.
    pub(crate) ready: Ready,
    /// A flag that is set when the user asks to stop.
    pub(crate) stop: &'a AtomicBool,
    /// Writes the server's files into its folder, and returns its arguments.
    pub(crate) arguments: &'a dyn Fn(&Path, SocketAddr) -> std::io::Result<Vec<String>>,
}

/// How a server shows that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// It accepts TCP connections at its address.
    Tcp,
    /// It prints this text. Its port is a UDP port.
    Says(&'static str),
}

/// A running server. The server is killed if this process ends, and is ended when this value is dropped.
pub(crate) struct Server {
    name: &'static str,
    child: Child,
    said: Arc<Mutex<Said>>,
    address: SocketAddr,
    knobs: ProcessKnobs,
    // These fields are dropped in this order after the child has ended: first the lock is released, then the folder is removed.
    _lock: File,
    _folder: TempDir,
}

/// The last output of a server, and whether the output so far contained a given text.
#[derive(Default)]
struct Said {
    last: VecDeque<u8>,
    is_ready: bool,
}

impl Server {
    pub(crate) fn start(plan: &Plan<'_>) -> Result<Server, WorkloadError> {
        let program = find(plan.program).ok_or_else(|| WorkloadError::Start {
            program: plan.program.to_owned(),
            why: format!("it is not installed; install it with: {}", plan.install),
        })?;
        let mut tries = 0;
        loop {
            tries += 1;
            match Server::try_start(plan, &program) {
                Err(Failed { why, again: Again::WithAnotherPort }) if tries < TRIES => drop(why),
                Err(_) if plan.stop.load(Ordering::Relaxed) => return Err(WorkloadError::Stopped),
                Err(Failed { why, .. }) => {
                    return Err(WorkloadError::Start { program: program.display().to_string(), why });
                }
                Ok(server) => return Ok(server),
            }
        }
    }

    fn try_start(plan: &Plan<'_>, program: &Path) -> Result<Server, Failed> {
        let (folder, lock) = folder()?;
        let address = free_address(plan.ready)?;
        let arguments = (plan.arguments)(folder.path(), address)?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder.path()).env("HOME", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        process::die_with_parent(&mut command);
        if !plan.cpus.is_empty() {
            process::run_on(&mut command, plan.cpus).map_err(|errno| Failed::for_good(errno.to_string()))?;
        }
        let mut child = command.spawn()?;
        let said = Arc::new(Mutex::new(Said::default()));
        let word = match plan.ready {
            Ready::Tcp => "",
            Ready::Says(word) => word,
        };
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|output| Box::new(output) as Box<dyn Read + Send>),
            child.stderr.take().map(|output| Box::new(output) as Box<dyn Read + Send>),
        ];
        for output in outputs.into_iter().flatten() {
            let said = Arc::clone(&said);
            // The thread ends with the server's output.
            std::thread::spawn(move || listen(output, word, &said));
        }
        let mut server = Server {
            name: plan.name,
            child,
            said,
            address,
            knobs: ProcessKnobs::default(),
            _lock: lock,
            _folder: folder,
        };
        server.wait_until_ready(plan.ready, plan.stop)?;
        Ok(server)
    }

    fn wait_until_ready(&mut self, ready: Ready, stop: &AtomicBool) -> Result<(), Failed> {
        let begun = Instant::now();
        loop {
            let is_ready = match ready {
                Ready::Tcp => TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_ok(),
                Ready::Says(_) => lock(&self.said).is_ready,
            };
            // Another program at this port would also answer, so check that the server still runs.
            if let Some(how) = self.has_ended() {
                // Wait a moment for the server's last output.
                std::thread::sleep(Duration::from_millis(50));
                let why = format!("{how} before it served{}", self.last_words());
                let again = if self.is_taken(ready) { Again::WithAnotherPort } else { Again::No };
                return Err(Failed { why, again });
            }
            if is_ready {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Failed::for_good("it was stopped".to_owned()));
            }
            if begun.elapsed() > START_TIME {
                let words = self.last_words();
                return Err(Failed::for_good(format!("it is not ready after {START_TIME:?}{words}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether another program has the server's address, after the server has ended.
    fn is_taken(&self, ready: Ready) -> bool {
        let bound = match ready {
            Ready::Tcp => TcpListener::bind(self.address).map(drop),
            Ready::Says(_) => UdpSocket::bind(self.address).map(drop),
        };
        bound.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The CPU time and memory that the server has used so far.
    pub(crate) fn used(&self) -> Used {
        Used::until_now(ProcessStat::read(self.pid()).as_slice())
    }

    /// Sets a property of the server's threads; see [`ProcessKnobs::set`].
    pub(crate) fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        self.knobs.set(&[self.child.id()], knob, value)
    }

    fn has_ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| format!("it ended ({status})"))
    }

    fn last_words(&self) -> String {
        let said = lock(&self.said);
        let text: Vec<u8> = said.last.iter().copied().collect();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join("; ");
        let short: String =
            last.chars().take(300).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        if short.is_empty() { String::new() } else { format!("; its last output: {short}") }
    }

    /// An error about the server's state, which explains more than the client's error.
    pub(crate) fn error(&mut self, why: &str) -> WorkloadError {
        // A server that ends closes its connections first, so wait for the server's end.
        let begun = Instant::now();
        let ended = loop {
            match self.has_ended() {
                None if begun.elapsed() < Duration::from_millis(300) => std::thread::sleep(Duration::from_millis(5)),
                ended => break ended,
            }
        };
        let state = match ended {
            Some(how) => format!("{how}; its clients got: {why}"),
            None if is_stopped(self.pid()) => format!("{why}; its process is stopped (SIGSTOP, or a debugger)"),
            None => why.to_owned(),
        };
        WorkloadError::Program { program: self.name.to_owned(), why: format!("{state}{}", self.last_words()) }
    }

    /// Checks that the server still runs.
    ///
    /// # Errors
    /// Fails if the server has ended. The error has the exit status.
    pub(crate) fn must_run(&mut self) -> Result<(), WorkloadError> {
        match self.has_ended() {
            None => Ok(()),
            Some(how) => {
                let why = format!("{how}{}", self.last_words());
                Err(WorkloadError::Program { program: self.name.to_owned(), why })
            }
        }
    }

    /// Asks the server to end, and kills it if it does not end.
    pub(crate) fn stop(&mut self) {
        if self.has_ended().is_some() {
            return;
        }
        process::ask_to_end(self.pid());
        let begun = Instant::now();
        while begun.elapsed() < END_TIME && !is_stopped(self.pid()) {
            if self.has_ended().is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Why a start failed.
struct Failed {
    why: String,
    again: Again,
}

/// Whether another attempt may succeed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    No,
    WithAnotherPort,
}

impl Failed {
    fn for_good(why: String) -> Failed {
        Failed { why, again: Again::No }
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Failed {
        Failed::for_good(error.to_string())
    }
}

fn lock(said: &Mutex<Said>) -> std::sync::MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the output of a server, and stores the last part. So the server never blocks on a full pipe, and its output needs no disk space.
fn listen(mut output: impl Read, word: &str, said: &Mutex<Said>) {
    let mut bytes = [0; 4096];
    while let Ok(length) = output.read(&mut bytes) {
        if length == 0 {
            return;
        }
        let mut said = lock(said);
        said.last.extend(bytes.iter().take(length));
        let more = said.last.len().saturating_sub(SAID_BYTES_MAX + word.len());
        // The text may arrive in two parts, so search in the joined output.
        if !word.is_empty() && !said.is_ready {
            said.is_ready = said.last.make_contiguous().windows(word.len()).any(|part| part == word.as_bytes());
        }
        said.last.drain(..more);
    }
}

/// Searches for the program in `PATH`, and in folders of servers and games that are often missing in an ordinary user's `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin", "/usr/games", "/usr/lib/ioquake3"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).chain(more);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn free_address(ready: Ready) -> std::io::Result<SocketAddr> {
    match ready {
        Ready::Tcp => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr(),
        Ready::Says(_) => UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr(),
    }
}

/// Makes a new folder and locks the folder. Also removes the folders of killed runs, whose locks are free.
fn folder() -> std::io::Result<(TempDir, File)> {
    let parent = std::env::temp_dir();
    let found = std::fs::read_dir(&parent).into_iter().flatten().flatten();
    let ours = found.filter(|entry| entry.file_name().to_string_lossy().starts_with(FOLDER)).take(FOLDERS_MAX);
    for entry in ours {
        let is_left = File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if is_left {
            // A folder of another user cannot be removed, and need not be removed.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let folder = tempfile::Builder::new().prefix(FOLDER).tempdir_in(parent)?;
    // Lock the file before it gets its name. Otherwise another start might remove the folder as a leftover.
    let unnamed = folder.path().join("new");
    let mut lock = File::create(&unnamed)?;
    lock.lock()?;
    lock.write_all(b"locked while its server runs\n")?;
    std::fs::rename(unnamed, folder.path().join(LOCK))?;
    Ok((folder, lock))
}

/// Whether a process is stopped.
fn is_stopped(pid: u32) -> bool {
    ProcessStat::read(pid).is_some_and(|stat| matches!(stat.state, 'T' | 't'))
}

/// The first line of a program's version output that is not blank. `None` if the program does not exist or prints no such line.
pub(crate) fn version(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(find(program)?).arg(argument).stdin(Stdio::null()).output().ok()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let line = String::from_utf8_lossy(&text).lines().find(|line| !line.trim().is_empty())?.trim().to_owned();
    Some(line.chars().filter(|letter| !letter.is_control()).take(60).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn shell(script: &'static str, ready: Ready) -> Result<Server, WorkloadError> {
        Server::start(&Plan {
            name: "shell",
            program: "sh",
            install: "none",
            cpus: &CpuSet::default(),
            stop: &AtomicBool::new(false),
            ready,
            arguments: &|_, _| Ok(vec!["-c".to_owned(), script.to_owned()]),
        })
    }

    fn message(script: &'static str, ready: Ready) -> String {
        shell(script, ready).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_missing_program_names_its_install_command() {
        let plan = Plan {
            name: "nothing",
            program: "evenkeel-no-such-server",
            install: "apt-get install nothing",
            cpus: &CpuSet::default(),
            stop: &AtomicBool::new(false),
            ready: Ready::Tcp,
            arguments: &|_, _| Ok(Vec::new()),
        };
        let message = Server::start(&plan).err().map(|error| error.to_string());
        let expected = "start evenkeel-no-such-server: it is not installed; install it with: apt-get install nothing";
        assert_eq!(message.as_deref(), Some(expected));
    }

    #[test]
    fn a_stop_ends_the_wait_for_a_server() {
        for ready in [Ready::Tcp, Ready::Says("up")] {
            let stopped = Server::start(&Plan {
                name: "shell",
                program: "sh",
                install: "none",
                cpus: &CpuSet::default(),
                ready,
                stop: &AtomicBool::new(true),
                arguments: &|_, _| Ok(vec!["-c".to_owned(), "exec sleep 60".to_owned()]),
            });
            assert!(matches!(stopped, Err(WorkloadError::Stopped)), "{ready:?}");
        }
    }

    #[test]
    fn a_server_that_ends_at_once_is_quoted() {
        let said = message("echo no such option >&2; exit 3", Ready::Tcp);
        assert!(
            said.ends_with("it ended (exit status: 3) before it served; its last output: no such option"),
            "{said}"
        );
        let said = message("echo Address already in use; exit 1", Ready::Tcp);
        assert!(said.ends_with("before it served; its last output: Address already in use"), "{said}");
    }

    #[test]
    fn one_whose_port_is_taken_gets_another_one_a_few_times() {
        for (is_taken, expected) in [(true, TRIES), (false, 1)] {
            let (tries, taken) = (Cell::new(0), RefCell::new(Vec::new()));
            let started = Server::start(&Plan {
                name: "shell",
                program: "sh",
                install: "none",
                cpus: &CpuSet::default(),
                stop: &AtomicBool::new(false),
                ready: Ready::Says("up"),
                arguments: &|_, address| {
                    tries.set(tries.get() + 1);
                    if is_taken {
                        taken.borrow_mut().push(UdpSocket::bind(address)?);
                    }
                    Ok(vec!["-c".to_owned(), "echo no port; exit 1".to_owned()])
                },
            });
            let said = started.err().unwrap().to_string();
            assert!(said.ends_with("before it served; its last output: no port"), "{said}");
            assert_eq!(tries.get(), expected);
        }
    }

    #[test]
    fn it_ends_when_asked_and_its_folder_is_removed() {
        let mut server = shell("pwd; echo one two; while :; do sleep 0.01; done", Ready::Says("e tw")).unwrap();
        let folder = server._folder.path().to_owned();
        assert!(folder.join(LOCK).is_file());
        let mut sample = crate::workload::Sample::new();
        server.used().put_since(&Used::default(), &mut sample);
        assert!(sample.contains_key("cpu_us"), "{sample:?}");
        server.stop();
        assert!(server.has_ended().unwrap().contains("SIGTERM"), "it ended by itself when asked");
        assert!(server.error("nothing came").to_string().starts_with("measure shell: it ended (signal: 15 (SIGTERM))"));
        drop(server);
        assert!(!folder.exists());
    }

    #[test]
    fn flooded_output_is_cut_and_the_folder_of_a_killed_run_is_removed() {
        let server = shell("yes word; :", Ready::Says("word")).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(lock(&server.said).last.len() <= SAID_BYTES_MAX + 16);
        let left = std::env::temp_dir().join(format!("{FOLDER}killed-{}", std::process::id()));
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join(LOCK), "").unwrap();
        let used = server._folder.path().to_owned();
        drop(folder().unwrap());
        // Another start may be removing the folder right now. It holds the lock until the removal is done.
        let begun = Instant::now();
        while left.exists() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!left.exists() && used.exists());
    }

    #[test]
    fn a_stopped_server_is_reported_and_ends() {
        let mut server = shell("echo up; kill -STOP $$", Ready::Says("up")).unwrap();
        while !is_stopped(server.pid()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let said = server.error("it has not answered").to_string();
        assert_eq!(
            said,
            "measure shell: it has not answered; its process is stopped (SIGSTOP, or a debugger); its last output: up"
        );
        server.stop();
        assert!(server.has_ended().is_some());
    }
}
