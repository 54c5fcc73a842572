//! `watchdog`: the process that `apply --try` leaves running. It waits, and undoes the change unless a user confirms it. It has no
//! terminal and no parent, so it works even if the change cut the connection.
//!
//! Only SIGKILL ends it; after an error it tries again. The time limit is in the journal, where the next command sees it. With systemd, a
//! timer replaces the watchdog if it is killed.

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

/// How often it checks whether it is still needed, and tries again.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// After trying for this long, the watchdog tries less often, because the obstacle will not be gone in a second.
const HASTE_NS: u64 = 600_000_000_000;
const LATER_NS: u64 = 30_000_000_000;

/// How long its parent waits for its first message.
const START_LIMIT: Duration = Duration::from_secs(10);

/// The sign that it watches.
const READY: &[u8] = b"watching\n";

/// Put a change back when its time is over; started by `apply --try`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The number of the transaction
    transaction: u64,
    /// Where the journal is
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// The time is over: started by the timer that stands behind the first watchdog
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
        // A watchdog that was started late tries to undo even if the journal can't be read now.
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
    /// The transaction waits until this time, on the clock that counts since boot.
    Waits(u64),
    /// Nobody waits for it any more.
    Over,
    /// The journal has no such transaction: somebody moved it away, or its disk is not there.
    Gone,
    /// The journal can't be read, or has lost the transaction's records.
    Unknown,
}

struct Watch<'a> {
    root: &'a Root,
    writer: &'a HostWriter,
    args: &'a Args,
    /// The inode, length and time of the journal that was read last. If they are unchanged, it is not read again.
    seen: Option<(u64, u64, i64, i64)>,
    /// The last journal in which the transaction still waits. If the journal is gone by the deadline, this copy undoes the change.
    held: Option<Remains>,
}

impl Watch<'_> {
    /// Returns when there is nothing left to undo.
    fn wait(&mut self, mut until_ns: u64) {
        loop {
            // The clock that counts the time a machine sleeps, since its users wait in that time too.
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

    /// Whether everything is restored. The journal is opened anew each time, so that a user who reverts by hand does not find it locked.
    /// If it was removed or moved away, the held copy undoes the change.
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
    // If this fails, no one can read an error; the parent then gives up the change.
    let _ = out.write_all(READY).and_then(|()| out.flush());
}

/// Starts the watchdog of a transaction, waits until it watches, then starts its backup timer. Returns why there is no timer, if there
/// should be one.
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
