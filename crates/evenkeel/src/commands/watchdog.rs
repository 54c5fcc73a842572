//! `watchdog`: a process that `apply --try` leaves behind.
//! It waits, and undoes the change unless a user confirms the change.
//! The process needs no terminal and no parent, so it works even if the change cut the connection.
//!
//! Only SIGKILL ends the watchdog. After an error it tries again.
//! The journal also has the time limit, so the next command undoes the change if no watchdog runs.
//! With systemd, a timer starts another watchdog if this one is killed.

mod timer;

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use evenkeel_change::{Log, Remains, State, expire, is_waiting, unconfirmed};
use evenkeel_hostfs::{HostWriter, Root};
use evenkeel_sys::{clock, process};

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// How often the watchdog checks whether it is still needed, and how often it retries.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// After this time of retries, the watchdog retries less often, because the obstacle will probably last.
const HASTE_NS: u64 = 600_000_000_000;
const LATER_NS: u64 = 30_000_000_000;

/// How long the parent waits for the watchdog's first message.
const START_LIMIT: Duration = Duration::from_secs(10);

/// The watchdog's first message. It means that the watchdog is now watching.
const READY: &[u8] = b"watching\n";

/// Undo a change when its time limit has passed; `apply --try` starts this process
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The number of the transaction
    transaction: u64,
    /// Where the journal is
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// The time limit has passed: the backup timer of the first watchdog started this process
    #[arg(long)]
    late: bool,
}

pub(crate) fn run(args: &Args, _: &Out) -> Outcome {
    let not_possible = |error| Failure::text(exit::NOT_POSSIBLE, "watch", error);
    process::withstand_signals().map_err(not_possible)?;
    process::be_spared_when_memory_is_short();
    let root = Root::live();
    let writer = root.writer().map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    let mut watch = Watch { root: &root, writer: &writer, args, seen: None, held: None };
    let until_ns = match watch.look() {
        Look::Waits(until_ns) => until_ns,
        // After the time limit, a new watchdog tries to undo the change even if it can't read the journal now.
        Look::Unknown | Look::Gone if args.late => clock::boottime_ns(),
        Look::Unknown | Look::Gone | Look::Over => return Ok(exit::WELL),
    };
    if !args.late {
        process::leave_session_group();
        say_ready();
    }
    watch.wait(until_ns);
    timer::stop(args.transaction, &args.state);
    Ok(exit::WELL)
}

/// The state of the transaction in the journal.
enum Look {
    /// The transaction waits for confirmation until this time, on the clock that counts since boot.
    Waits(u64),
    /// The transaction no longer waits, because it was confirmed or undone.
    Over,
    /// The journal does not contain the transaction: somebody moved the journal, or its disk is not mounted.
    Gone,
    /// The journal can't be read, or has lost the transaction's records.
    Unknown,
}

struct Watch<'a> {
    root: &'a Root,
    writer: &'a HostWriter,
    args: &'a Args,
    /// Inode, length and time of the journal at the last read.
    /// If these are unchanged, the watchdog does not read the journal again.
    seen: Option<(u64, u64, i64, i64)>,
    /// A copy of the last journal in which the transaction waited.
    /// If the journal is gone at the time limit, this copy undoes the change.
    held: Option<Remains>,
}

impl Watch<'_> {
    /// Waits for the time limit, and then undoes the change. Returns early if nothing is left to undo.
    fn wait(&mut self, mut until_ns: u64) {
        loop {
            // This clock also counts the time of a suspend, because the user's time passes too.
            let now_ns = clock::boottime_ns();
            if now_ns >= until_ns && self.undo() {
                return;
            }
            let pause_ns = match until_ns.checked_sub(now_ns) {
                Some(left_ns) if left_ns > 0 => left_ns.min(LOOK_EVERY_NS),
                _ if now_ns - until_ns > HASTE_NS => LATER_NS,
                _ => LOOK_EVERY_NS,
            };
            clock::sleep_until_ns(clock::monotonic_ns() + pause_ns);
            match self.look_if_changed() {
                Some(Look::Waits(ns)) => until_ns = ns,
                Some(Look::Over) => return,
                Some(Look::Gone) if clock::boottime_ns() > until_ns.saturating_add(HASTE_NS) => return,
                Some(Look::Gone | Look::Unknown) | None => {}
            }
        }
    }

    fn look_if_changed(&mut self) -> Option<Look> {
        let meta = std::fs::metadata(self.args.state.join("journal")).ok();
        let now = meta.map(|meta| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()));
        (now.is_none() || now != self.seen).then(|| {
            self.seen = now;
            self.look()
        })
    }

    fn look(&mut self) -> Look {
        let Ok(log) = Log::read_damaged(&self.args.state) else { return Look::Unknown };
        let id = self.args.transaction;
        match unconfirmed(self.root, &log).into_iter().find(|(waiting, _)| *waiting == id) {
            Some((_, until)) => {
                self.held = Remains::hold(&self.args.state).ok().or(self.held.take());
                Look::Waits(until.boottime_ns)
            }
            None if !log.has(id) => Look::Gone,
            None if is_waiting(self.root, &log, id) => Look::Unknown,
            None => Look::Over,
        }
    }

    /// Undoes the change. Returns whether everything is restored.
    /// The watchdog opens the journal only here, so that a user can revert by hand at any time.
    /// If somebody removed or moved the journal, the copy undoes the change.
    fn undo(&self) -> bool {
        let id = self.args.transaction;
        let is_gone = || Log::read_damaged(&self.args.state).is_ok_and(|log| !log.has(id));
        let opened = match &self.held {
            Some(held) if is_gone() => held.open(),
            _ => State::open_to_revert(&self.args.state),
        };
        let Ok(mut journal) = opened else { return false };
        if !journal.log().has(id) {
            return false;
        }
        match expire(self.root, self.writer, &mut journal, id) {
            Ok(Some(report)) => report.transactions.iter().all(|back| back.all_undone),
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

fn say_ready() {
    let mut out = std::io::stdout();
    // If this write fails, nobody could read an error. The parent gets no message, and gives up the change.
    let _ = out.write_all(READY).and_then(|()| out.flush());
}

/// Starts the watchdog of a transaction, waits until the watchdog is ready, and then starts its backup timer.
/// If the timer is missing although this host should have one, returns why.
pub(crate) fn start(transaction: u64, dir: &Path, seconds: u64) -> Result<Option<String>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(&program);
    command.arg("watchdog").arg(transaction.to_string()).arg("--state").arg(dir);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = process::detach(&mut command).spawn().map_err(|error| error.to_string())?;
    let Some(said) = child.stdout.take() else {
        return Err("it has no standard output".to_owned());
    };
    match process::read_within(said, READY.len(), START_LIMIT) {
        Ok(words) if words == READY => Ok(timer::start(&program, transaction, dir, seconds).err()),
        Ok(_) => Err("it ended before it was ready".to_owned()),
        Err(errno) => Err(format!("it was not ready within {} s: {errno}", START_LIMIT.as_secs())),
    }
}
