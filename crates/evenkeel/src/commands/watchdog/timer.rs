//! The transient systemd timer that backs up a watchdog.
//! If the watchdog is killed, the timer starts another watchdog shortly after the time limit.
//! systemd removes the timer after it has fired and at a reboot; the watchdog removes it when the watchdog ends.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

use evenkeel_sys::process;

/// This folder exists if the init system is systemd.
const IS_BOOTED: &str = "/run/systemd/system";

/// How many seconds after the time limit the timer fires. The delay lets the watchdog act first.
const BEHIND: u64 = 5;

/// The search path for systemd's programs. The user's PATH must not choose a program that runs as root.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The maximum length of a systemd error text in our message, in bytes.
const WORDS_MAX: usize = 300;

/// Starts the timer of a transaction. Does nothing if systemd does not run, or would refuse this user.
pub(crate) fn start(program: &Path, transaction: u64, dir: &Path, seconds: u64) -> Result<(), String> {
    if !is_here() {
        return Ok(());
    }
    let mut command = Command::new("systemd-run");
    command.args(words(transaction, dir, seconds)).arg("--").arg(literal(program.as_os_str()));
    command.arg("watchdog").arg(transaction.to_string()).arg("--late").arg("--state").arg(literal(dir.as_os_str()));
    let done = quiet(&mut command).stderr(Stdio::piped()).output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    let words = &done.stderr[..done.stderr.len().min(WORDS_MAX)];
    Err(format!("{}: {}", done.status, String::from_utf8_lossy(words).trim()))
}

/// Stops the timer, if it exists.
pub(crate) fn stop(transaction: u64, dir: &Path) {
    if is_here() {
        let unit = format!("{}.timer", unit(transaction, dir));
        let _ = quiet(Command::new("systemctl").args(["--quiet", "stop", &unit])).status();
    }
}

fn is_here() -> bool {
    process::is_root() && Path::new(IS_BOOTED).is_dir()
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8")
}

/// Escapes a word of a command line for systemd, which reads `$NAME` as a variable, and `$$` as one `$`.
fn literal(word: &OsStr) -> OsString {
    let bytes =
        word.as_bytes().iter().flat_map(|byte| if *byte == b'$' { &b"$$"[..] } else { std::slice::from_ref(byte) });
    OsString::from_vec(bytes.copied().collect())
}

/// The name of the unit.
/// The name depends on the folder, because two journals may have transactions with the same number.
fn unit(transaction: u64, dir: &Path) -> String {
    let sum = crc32fast::hash(dir.as_os_str().as_encoded_bytes());
    format!("evenkeel-try-{transaction}-{sum:08x}")
}

/// The options of `systemd-run`.
fn words(transaction: u64, dir: &Path, seconds: u64) -> Vec<String> {
    vec![
        "--quiet".to_owned(),
        // Remove the unit even if it failed.
        "--collect".to_owned(),
        format!("--unit={}", unit(transaction, dir)),
        format!("--description=undo of evenkeel's transaction {transaction}, which nobody confirmed"),
        format!("--on-active={}s", seconds + BEHIND),
        "--timer-property=AccuracySec=1s".to_owned(),
        "--property=OOMScoreAdjust=-1000".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transaction_of_each_journal_has_a_unit_of_its_own() {
        let (one, other) = (Path::new("/var/lib/evenkeel"), Path::new("/srv/state"));
        let units = [unit(1, one), unit(2, one), unit(1, other)];
        assert!(units.iter().all(|unit| unit.len() < 60), "{units:?}");
        assert_ne!(units[0], units[1]);
        assert_ne!(units[0], units[2]);
        assert_eq!(literal(OsStr::new("/srv/$HOME/$")), "/srv/$$HOME/$$");
        assert!(words(1, one, 60).contains(&"--on-active=65s".to_owned()));
    }
}
