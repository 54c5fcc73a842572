//! Patience with another evenkeel that holds the journal, or a place that has to be written: a trial over boots has taken hours, and the
//! other one ends.

use std::time::Duration;

/// What StateError::Busy says of the one who holds it. What could not be written because of it is told in words alone.
const HELD: &str = ": another evenkeel (";
/// As long as the watchdog of `apply --try` asks.
const LIMIT: Duration = Duration::from_secs(600);
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Each time that it is asked for in vain is a transaction in the journal.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Waits so long, since there is what the words say; gives false if it is to end instead.
pub type Wait<'w> = dyn FnMut(&str, Duration) -> bool + 'w;

/// Tries again while another evenkeel holds what it needs.
///
/// # Errors
/// What went wrong otherwise; or who holds it, when the time is over or it is to end.
pub(super) fn patiently(wait: &mut Wait<'_>, mut attempt: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let (mut waited, mut pause) = (Duration::ZERO, PAUSE_MIN);
    loop {
        match attempt() {
            Err(why) if why.contains(HELD) && waited < LIMIT => {
                if !wait(&why, pause) {
                    return Err(why);
                }
                waited += pause;
                pause = (2 * pause).min(PAUSE_MAX);
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use evenkeel_change::{State, StateError};

    use super::*;

    fn held() -> String {
        let holder = "process 7, journal in /x".to_owned();
        StateError::Busy { path: "/proc/sys/vm/swappiness".to_owned(), holder }.to_string()
    }

    /// How often it was tried, how long it waited, and what came of it; `end` says when the waiting is to end.
    fn told(
        results: &[Result<(), String>],
        mut end: impl FnMut(Duration) -> bool,
    ) -> (usize, Duration, Result<(), String>) {
        let (mut tries, mut waited) = (0, Duration::ZERO);
        let mut wait = |why: &str, pause: Duration| {
            assert!(why.contains("process 7"), "{why}");
            waited += pause;
            !end(waited)
        };
        let done = patiently(&mut wait, || {
            tries += 1;
            results[(tries - 1).min(results.len() - 1)].clone()
        });
        (tries, waited, done)
    }

    #[test]
    fn it_waits_for_who_holds_it_and_for_nothing_else() {
        let seconds = Duration::from_secs;
        let busy = Err(format!("set vm.swappiness to 10: {}; nothing was changed", held()));
        let other: Result<(), String> = Err("set vm.swappiness to 10: permission denied (EACCES)".to_owned());
        let never = |_| false;
        assert_eq!(told(&[Ok(())], never), (1, Duration::ZERO, Ok(())));
        assert_eq!(told(&[busy.clone(), busy.clone(), Ok(())], never), (3, seconds(3), Ok(())));
        assert_eq!(told(&[busy.clone(), other.clone()], never), (2, seconds(1), other.clone()));
        assert_eq!(told(from_ref(&other), never), (1, Duration::ZERO, other.clone()));
        // Somebody ends it while it waits.
        assert_eq!(told(from_ref(&busy), |waited| waited > seconds(2)), (2, seconds(3), busy.clone()));
        // And it does not wait for ever, nor ask all the time; who holds it is told.
        let (tries, waited, done) = told(&[busy], never);
        assert!((10..=30).contains(&tries) && waited >= LIMIT && waited < LIMIT + PAUSE_MAX, "{tries} {waited:?}");
        assert!(done.is_err_and(|why| why.contains("process 7, journal in /x")));
    }

    /// By the journal itself: what it says of who holds it is what is waited for.
    #[test]
    fn a_journal_that_is_held_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = Some(State::open(dir.path()).unwrap());
        let mut pauses = 0;
        let mut wait = |_: &str, _| {
            pauses += 1;
            first = None;
            true
        };
        let open = || State::open(dir.path()).map(drop).map_err(|error| error.to_string());
        assert_eq!(patiently(&mut wait, open), Ok(()));
        assert_eq!(pauses, 1);
    }
}
