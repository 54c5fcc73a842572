//! `ConcurrentTrials`: other trials that run on this machine at the same time.
//! Trials with journals in different folders do not know each other, and disturb each other.
//!
//! Each trial binds a socket whose name contains its process and its command. It reads the names of other trials from the kernel's table.
//! The announcement needs no privileges and no folder that all users may write to.
//! Nothing remains, because the kernel removes the name when the process ends.
//! Trials in another network namespace, as in most containers, stay unknown.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};

use evenkeel_sys::clock;

use crate::caveat::Caveat;

/// The kernel's table of the Unix sockets of this network namespace, which any user may read.
const TABLE: &str = "/proc/net/unix";
/// The maximum number of bytes to read of the table, which is enough for tens of thousands of sockets.
const TABLE_BYTES_MAX: u64 = 4 << 20;
/// The prefix of a trial's name. The table shows the NUL before it as `@`.
const MARK: &str = "evenkeel-trial/";
/// The maximum length of a socket name in Linux, after the NUL, in bytes.
const NAME_BYTES_MAX: usize = 107;
/// The maximum number of other trials to report. Any user may bind any number of such names.
const OTHERS_MAX: usize = 4;

/// The announcement of this trial to other trials, until this value is dropped, and the other trials that it saw.
pub struct ConcurrentTrials {
    own: String,
    /// The socket with this trial's name. None if the kernel refuses it. Then others do not see this trial, but this trial still sees others.
    _socket: Option<UnixDatagram>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Trials that were already reported.
    reported: Vec<String>,
    /// Trials that were seen but not reported yet.
    news: Vec<String>,
}

impl ConcurrentTrials {
    /// Announces a trial of this process to others, and finds other trials.
    /// `command` is its command, such as `prove vm.swappiness=10`, without arguments that may be private.
    pub fn begin(command: &str) -> ConcurrentTrials {
        // Processes of two containers may have the same number, so the time makes the name unique.
        let mut own = format!("{MARK}{}/{}/{}", std::process::id(), clock::monotonic_ns(), shown(command));
        own.truncate(NAME_BYTES_MAX);
        let socket = SocketAddr::from_abstract_name(&own).and_then(|name| UnixDatagram::bind_addr(&name)).ok();
        let concurrent = ConcurrentTrials { own, _socket: socket, known: Mutex::default() };
        concurrent.look();
        concurrent
    }

    /// Describes the other trials that run now.
    pub fn look(&self) -> Vec<String> {
        let mut table = Vec::new();
        // If the table can't be read, other trials are unknown. This trial then continues as if it were alone.
        let _ = File::open(TABLE).and_then(|file| file.take(TABLE_BYTES_MAX).read_to_end(&mut table));
        let others = others_in(&table, &self.own);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for other in &others {
            // This limit also applies to a process that binds many names.
            let is_known = known.reported.contains(other) || known.news.contains(other);
            if !is_known && known.reported.len() + known.news.len() < OTHERS_MAX {
                known.news.push(other.clone());
            }
        }
        others
    }

    /// A sentence for each trial that began since the last call.
    pub fn news(&self) -> Vec<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let news = std::mem::take(&mut known.news);
        known.reported.extend(news.iter().cloned());
        news.iter().map(|who| format!("another trial ({who}) runs at the same time: each disturbs the other")).collect()
    }
}

impl fmt::Debug for ConcurrentTrials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConcurrentTrials({:?})", self.own)
    }
}

/// Makes a text safe for a terminal. Another user chose the name, so only harmless characters are copied.
fn shown(text: &str) -> String {
    text.chars().map(|letter| if letter == ' ' || letter.is_ascii_graphic() { letter } else { '?' }).collect()
}

/// The other trials in the kernel's table, sorted by name, up to the limit.
fn others_in(table: &[u8], own: &str) -> Vec<String> {
    let named = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        let name = &line[line.find(&format!(" @{MARK}"))? + 2..];
        if name == own { None } else { other(name.strip_prefix(MARK)?) }
    };
    let mut others: Vec<String> = table.split(|byte| *byte == b'\n').filter_map(named).collect();
    others.sort();
    others.dedup();
    others.truncate(OTHERS_MAX);
    others
}

/// The description of the other trial.
/// The function turns the socket name `12/3456/prove vm.swappiness=10` into `evenkeel prove vm.swappiness=10 (pid 12)`.
fn other(name: &str) -> Option<String> {
    let mut parts = name.splitn(3, '/');
    let pid: u32 = parts.next()?.parse().ok()?;
    let command: String = shown(parts.nth(1)?).chars().take(NAME_BYTES_MAX).collect();
    Some(format!("evenkeel {command} (pid {pid})"))
}

/// Returns a caveat for each other trial, with the number of windows during which that trial ran.
pub(crate) fn caveats<'a>(windows: impl Iterator<Item = &'a [String]>) -> Vec<Caveat> {
    let (mut all, mut other_trials) = (0, BTreeMap::<&str, usize>::new());
    for others in windows {
        all += 1;
        for other in others {
            *other_trials.entry(other).or_default() += 1;
        }
    }
    let mut other_trials: Vec<(&str, usize)> = other_trials.into_iter().collect();
    other_trials.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = other_trials.len().saturating_sub(OTHERS_MAX);
    let one =
        |(who, count): &(&str, usize)| Caveat::ConcurrentTrial { who: (*who).to_owned(), windows: *count, of: all };
    let mut caveats: Vec<Caveat> = other_trials.iter().take(OTHERS_MAX).map(one).collect();
    if more > 0 {
        caveats.push(Caveat::ConcurrentTrials { more });
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_in_the_kernels_table_until_it_ends() {
        let ours = ConcurrentTrials::begin("prove ours");
        let who = |what: &str| format!("evenkeel {what} (pid {})", std::process::id());
        let sees = |what: &str| ours.look().contains(&who(what));
        assert!(!sees("prove ours"), "itself is no other");
        let theirs = ConcurrentTrials::begin("tune\n\u{1b}[31m");
        assert!(sees("tune??[31m") && theirs.look().contains(&who("prove ours")), "{:?} {theirs:?}", ours.look());
        let sentence = format!("another trial ({}) runs at the same time: each disturbs the other", who("tune??[31m"));
        assert!(ours.news().contains(&sentence), "reported when it is seen");
        // Other trials may begin in the meantime. They are then reported.
        assert!(!ours.look().is_empty() && !ours.news().contains(&sentence), "and once");
        drop(theirs);
        // If another test starts a child now, the child inherits the socket and keeps it open until the child calls exec.
        let begun = std::time::Instant::now();
        while sees("tune??[31m") {
            assert!(begun.elapsed() < std::time::Duration::from_secs(20));
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        // A name that is too long is cut off. The trial still recognizes its own name.
        let long = ConcurrentTrials::begin(&"x".repeat(500));
        assert!(
            sees(&long.own[long.own.rfind('/').unwrap() + 1..]) && !long.look().iter().any(|who| who.contains("xx"))
        );
    }

    #[test]
    fn hostile_names_in_the_table_do_no_harm() {
        let line = |name: &str| format!("0000000000000000: 00000002 00000000 00000000 0002 01 12345 {name}\n");
        let own = "evenkeel-trial/7/8/prove";
        let names = [
            "@evenkeel-trial/7/8/prove",
            "@evenkeel-trial/7/9/tune\u{1b}[2J\u{202e}<b>",
            "@evenkeel-trial/-1/9/x",
            "@evenkeel-trial/99999999999/9/x",
            "@evenkeel-trial/5",
            "@evenkeel-trial/",
            "/evenkeel-trial/5/5/x",
            "@other",
            "",
        ];
        let mut table: Vec<u8> = names.into_iter().map(line).collect::<String>().into();
        table.extend(b"0: 2 0 0 2 1 5 @\xff\xfe\x00\n\n0: 2 0 0 2 1 5 @evenkeel-trial/3/1/\xff");
        assert_eq!(others_in(&table, own), ["evenkeel ? (pid 3)", "evenkeel tune?[2J?<b> (pid 7)"]);
        let many: String =
            (0..1000).map(|pid| line(&format!("@evenkeel-trial/{pid}/1/{}", "y".repeat(9000)))).collect();
        let others = others_in(many.as_bytes(), own);
        assert!(others.len() == OTHERS_MAX && others.iter().all(|who| who.len() < 2 * NAME_BYTES_MAX), "{others:?}");
    }

    #[test]
    fn the_windows_of_each_other_trial_are_counted() {
        let windows: [&[&str]; 4] = [&[], &["a"], &["a", "b"], &["a"]];
        let windows = windows.map(|window| window.iter().map(|who| (*who).to_owned()).collect::<Vec<_>>());
        let sentences = |windows: &[Vec<String>]| {
            caveats(windows.iter().map(Vec::as_slice)).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let said = sentences(&windows);
        let caveat =
            |who, count| format!("another trial ({who}) ran during {count} of 4 windows: each disturbs the other");
        assert_eq!(said, [caveat("a", 3), caveat("b", 1)]);
        let changing: Vec<Vec<String>> = (0..9).map(|at| vec![at.to_string()]).collect();
        let said = sentences(&changing);
        assert_eq!(said.len(), OTHERS_MAX + 1);
        assert_eq!(said[OTHERS_MAX], "5 more trials ran during some of the windows");
        assert!(caveats([[].as_slice(); 3].into_iter()).is_empty());
    }
}
