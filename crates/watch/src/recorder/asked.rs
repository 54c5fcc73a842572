//! Requests for a dump, and the result of each.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use evenkeel_sys::clock;

use super::ring::Ring;
use crate::locked::locked;
use crate::sample::RecorderSample;

/// The minimum time between two dumps.
pub(super) const APART_NS: u64 = 60_000_000_000;

/// The state that the recorder's thread shares with other threads.
#[derive(Debug, Default)]
pub(super) struct Shared {
    samples: Mutex<Ring>,
    asked: Mutex<AskedState>,
    pub(super) stop: AtomicBool,
}

#[derive(Debug, Default)]
struct AskedState {
    /// The reason of a requested dump, until the recorder begins it.
    wanted: Option<String>,
    /// The time of the last request.
    last_ns: Option<u64>,
    state: RecorderSample,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The dump will be written.
    Accepted,
    /// The last request was less than a minute ago.
    TooSoon {
        /// The remaining time of that minute, in seconds.
        wait_s: u64,
    },
    /// The recorder does not run, for this reason.
    Failed(String),
}

impl Shared {
    pub(super) fn samples(&self) -> MutexGuard<'_, Ring> {
        locked(&self.samples)
    }

    pub(super) fn state(&self) -> RecorderSample {
        locked(&self.asked).state.clone()
    }

    /// Stores that the recorder ended, and why.
    pub(super) fn failed(&self, why: String) {
        locked(&self.asked).state.failure = Some(why);
    }

    /// Requests a dump. At most one dump per minute is written.
    pub(super) fn ask(&self, reason: &str, now_ns: u64) -> Answer {
        let mut asked = locked(&self.asked);
        if let Some(why) = &asked.state.failure {
            return Answer::Failed(why.clone());
        }
        if let Some(since_ns) = asked.last_ns.map(|last_ns| now_ns.saturating_sub(last_ns))
            && since_ns < APART_NS
        {
            asked.state.refused = asked.state.refused.saturating_add(1);
            return Answer::TooSoon { wait_s: (APART_NS - since_ns).div_ceil(1_000_000_000) };
        }
        asked.last_ns = Some(now_ns);
        asked.wanted = Some(reason.chars().filter(|letter| !letter.is_control()).take(200).collect());
        Answer::Accepted
    }

    /// Takes the reason of the pending request, so that each request is served once.
    pub(super) fn take_wanted(&self) -> Option<String> {
        locked(&self.asked).wanted.take()
    }

    /// Stores that a dump was written, or why it was not.
    pub(super) fn written(&self, reason: &str, result: Result<PathBuf, String>) {
        let mut asked = locked(&self.asked);
        match result {
            Ok(path) => {
                asked.state.dumps = asked.state.dumps.saturating_add(1);
                asked.state.last = Some(path.display().to_string());
                asked.state.last_reason = Some(reason.to_owned());
                asked.state.last_error = None;
            }
            // The disk may have room again later, so the recorder continues.
            Err(why) => asked.state.last_error = Some(why),
        }
    }
}

/// A handle to request dumps.
#[derive(Clone, Debug)]
pub struct Dumper(Arc<Shared>);

impl Dumper {
    pub(super) fn new(shared: Arc<Shared>) -> Dumper {
        Dumper(shared)
    }

    /// Requests a dump. At most one dump per minute is written.
    pub fn ask(&self, reason: &str) -> Answer {
        self.0.ask(reason, clock::monotonic_ns())
    }

    /// The number of dumps, and the errors, so far.
    pub fn state(&self) -> RecorderSample {
        self.0.state()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_dump_a_minute_is_accepted() {
        let shared = Shared::default();
        let s = 1_000_000_000;
        assert_eq!(shared.ask("one\n\u{1b}[31m", 5 * s), Answer::Accepted);
        assert_eq!(shared.ask("two", 35 * s + 1), Answer::TooSoon { wait_s: 30 });
        assert_eq!((shared.take_wanted().as_deref(), shared.take_wanted()), (Some("one[31m"), None));
        assert_eq!(shared.ask("three", 65 * s), Answer::Accepted);
        shared.written("three", Err("no space".to_owned()));
        shared.written("three", Ok("dump".into()));
        let state = shared.state();
        assert_eq!((state.dumps, state.refused, state.last.as_deref(), state.last_error), (1, 1, Some("dump"), None));
        shared.failed("not allowed".to_owned());
        assert_eq!(shared.ask("four", 500 * s), Answer::Failed("not allowed".to_owned()));
    }
}
