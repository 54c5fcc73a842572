//! Waits while another evenkeel has locked the journal or a setting. A trial over boots takes hours, and the other process ends soon.

use std::time::Duration;

use super::error::BootsError;

/// The maximum total wait. The watchdog of `apply --try` has the same limit.
const LIMIT: Duration = Duration::from_secs(600);
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The maximum pause between attempts. Pauses get longer, because each failed attempt adds a transaction to the journal.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Shows the reason and waits for this duration. Returns false if the caller should stop waiting.
pub type Wait<'w> = dyn FnMut(&str, Duration) -> bool + 'w;

/// Calls a function again while it fails because another evenkeel has locked a file.
///
/// # Errors
/// Returns any other error. If the time is over or the wait was ended, the error names the process that has the lock.
pub(super) fn patiently(
    wait: &mut Wait<'_>,
    mut attempt: impl FnMut() -> Result<(), BootsError>,
) -> Result<(), BootsError> {
    let (mut waited, mut pause) = (Duration::ZERO, PAUSE_MIN);
    loop {
        match attempt() {
            Err(held) if held.is_held() && waited < LIMIT => {
                if !wait(&held.to_string(), pause) {
                    return Err(held);
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
    use evenkeel_change::{State, StateError};

    use super::*;

    /// The result of an attempt.
    #[derive(Clone, Copy)]
    enum Try {
        Done,
        Busy,
        Held,
        Other,
    }

    impl Try {
        fn result(self) -> Result<(), BootsError> {
            let holder = || "process 7, journal in /x".to_owned();
            match self {
                Try::Done => Ok(()),
                Try::Busy => Err(StateError::Busy { path: "/var/lib/evenkeel".to_owned(), holder: holder() }.into()),
                Try::Held => Err(BootsError::Held { why: format!("set vm.swappiness to 10: {}", holder()) }),
                Try::Other => {
                    Err(BootsError::NotMeasured { why: "another evenkeel (process 7) was heard of".to_owned() })
                }
            }
        }
    }

    /// Runs attempts with these results. Returns the number of attempts, the time waited, and the result.
    /// `end` returns whether the wait should end.
    fn retried(tries: &[Try], mut end: impl FnMut(Duration) -> bool) -> (usize, Duration, Result<(), BootsError>) {
        let (mut tried, mut waited) = (0, Duration::ZERO);
        let mut wait = |why: &str, pause: Duration| {
            assert!(why.contains("process 7"), "{why}");
            waited += pause;
            !end(waited)
        };
        let done = patiently(&mut wait, || {
            tried += 1;
            tries[(tried - 1).min(tries.len() - 1)].result()
        });
        (tried, waited, done)
    }

    #[test]
    fn it_waits_for_who_holds_it_and_for_nothing_else() {
        let seconds = Duration::from_secs;
        let never = |_| false;
        assert!(matches!(retried(&[Try::Done], never), (1, Duration::ZERO, Ok(()))));
        let (tried, waited, done) = retried(&[Try::Busy, Try::Held, Try::Done], never);
        assert!((tried, waited) == (3, seconds(3)) && done.is_ok());
        let (tried, waited, done) = retried(&[Try::Held, Try::Other], never);
        assert!((tried, waited) == (2, seconds(1)) && done.is_err());
        assert!(matches!(retried(&[Try::Other], never), (1, Duration::ZERO, Err(BootsError::NotMeasured { .. }))));
        // `end` ends the wait after two seconds.
        let (tried, waited, done) = retried(&[Try::Busy], |waited| waited > seconds(2));
        assert!((tried, waited) == (2, seconds(3)) && done.is_err_and(|error| error.is_held()));
        // If the lock is never released, the wait is limited and attempts are rare. The error names the process that has the lock.
        let (tried, waited, done) = retried(&[Try::Busy], never);
        assert!((10..=30).contains(&tried) && waited >= LIMIT && waited < LIMIT + PAUSE_MAX, "{tried} {waited:?}");
        assert!(done.is_err_and(|error| error.to_string().contains("process 7, journal in /x")));
    }

    /// Opening the journal fails while another process has locked it, so evenkeel retries this too.
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
        patiently(&mut wait, || Ok(State::open(dir.path()).map(drop)?)).unwrap();
        assert_eq!(pauses, 1);
    }
}
