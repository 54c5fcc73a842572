//! `watchdog`: the process that `apply --try` leaves behind. It waits, and puts the change back unless somebody confirmed it.
//! It belongs to no terminal and to no parent, so a line that was cut by the change does not keep it from healing.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use evenkeel_change::{Log, State, StateError, expire, unconfirmed};
use evenkeel_sys::{Root, clock, process};

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;
use crate::state;

/// Somebody else may hold the journal when the time is over: another evenkeel, or the one that made the change and hangs.
const LOCK_TRIES: u32 = 600;
const LOCK_PAUSE_NS: u64 = 1_000_000_000;

/// How often it looks whether it is still wanted.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// How long its parent waits for its first sign.
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
}

pub(crate) fn run(args: &Args, _: &Out) -> Outcome {
    let root = Root::live();
    let hand = root.hand().map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    let Some(boottime_ns) = deadline(&root, args)? else {
        return Ok(exit::WELL);
    };
    process::leave_session_group();
    say_ready();
    // The clock that counts the time a machine sleeps, since its users wait in that time too.
    while clock::boottime_ns() < boottime_ns {
        let left_ns = boottime_ns.saturating_sub(clock::boottime_ns());
        clock::sleep_until_ns(clock::monotonic_ns() + left_ns.min(LOOK_EVERY_NS));
        if deadline(&root, args)?.is_none() {
            return Ok(exit::WELL);
        }
    }
    for _ in 0..LOCK_TRIES {
        // Opened anew each time: whoever wants to put it back by hand must not find the journal locked.
        let mut journal = open(&args.state)?;
        match expire(&root, &hand, &mut journal, args.transaction) {
            // Another journal's trial may hold what is to be put back. What is back already is passed over the next time.
            Ok(Some(report)) if !report.all_undone => {}
            Ok(_) => return Ok(exit::WELL),
            Err(error) => return Err(Failure::new(exit::NOT_UNDONE, error)),
        }
        drop(journal);
        clock::sleep_until_ns(clock::monotonic_ns() + LOCK_PAUSE_NS);
    }
    Ok(exit::NOT_UNDONE)
}

/// When the transaction's time is over; none if nobody waits for that any more.
fn deadline(root: &Root, args: &Args) -> Result<Option<u64>, Failure> {
    let log = Log::read(&args.state).map_err(state::failure)?;
    let waiting = unconfirmed(root, &log).into_iter().find(|(id, _)| *id == args.transaction);
    Ok(waiting.map(|(_, until)| until.boottime_ns))
}

fn open(dir: &Path) -> Result<State, Failure> {
    for _ in 1..LOCK_TRIES {
        match State::open(dir) {
            Err(StateError::Busy { .. }) => clock::sleep_until_ns(clock::monotonic_ns() + LOCK_PAUSE_NS),
            opened => return opened.map_err(state::failure),
        }
    }
    State::open(dir).map_err(state::failure)
}

fn say_ready() {
    let mut out = std::io::stdout();
    // Nobody is left to tell if this fails; the parent then gives the change up.
    let _ = out.write_all(READY).and_then(|()| out.flush());
}

/// Starts the watchdog of a transaction, and waits until it watches.
pub(crate) fn start(transaction: u64, dir: &Path) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg("watchdog").arg(transaction.to_string()).arg("--state").arg(dir);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = process::detach(&mut command).spawn().map_err(|error| error.to_string())?;
    let Some(said) = child.stdout.take() else {
        return Err("it has no voice".to_owned());
    };
    match process::read_within(said, READY.len(), START_LIMIT) {
        Ok(words) if words == READY => Ok(()),
        Ok(_) => Err("it ended before it watched".to_owned()),
        Err(errno) => Err(format!("it gave no sign within {} s: {errno}", START_LIMIT.as_secs())),
    }
}
