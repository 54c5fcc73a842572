//! `Finding`: what a knob's file says of one place on one machine, and how such files write it.

use serde::Serialize;

use crate::fact::Fact;
use crate::facts::Facts;

/// The most of a text from outside that is kept to be shown, in characters.
pub(crate) const SHOWN_CHARS_MAX: usize = 100;

/// What to do about a knob at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Another value would suit the goal better: worth proving and setting.
    Set,
    /// Another program or file sets it; change it there.
    OwnedBy,
    /// It would help, but this machine does not let it be changed.
    Blocked,
    /// Not enough is known to advise.
    Unknown,
    /// It is well as it is.
    Keep,
    /// It does not apply to this machine.
    NotHere,
    /// This kernel no longer has it.
    Removed,
}

/// What a knob finds for one place of its knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where: the file's path, `eth0/rx-0`, the interrupt's number, the argument or the process.
    pub place: String,
    /// What to do about it.
    pub state: State,
    /// The value in force, where it is known.
    pub current: Option<String>,
    /// The value advised; `None` unless `state` is [`State::Set`] or a value would be advised elsewhere.
    pub wanted: Option<String>,
    /// Why, for this machine.
    pub reason: String,
    /// Whether no value of it does anything here, which a trial would only find again.
    pub is_inert: bool,
}

/// Findings as the knobs' files write them; [`Finding::at`] adds the value in force.
impl Finding {
    pub(crate) fn new(state: State, place: impl ToString, reason: impl Into<String>) -> Finding {
        Finding { place: place.to_string(), state, current: None, wanted: None, reason: reason.into(), is_inert: false }
    }

    pub(crate) fn set(place: impl ToString, wanted: impl ToString, reason: impl Into<String>) -> Finding {
        Finding { wanted: Some(wanted.to_string()), ..Finding::new(State::Set, place, reason) }
    }

    pub(crate) fn keep(place: impl ToString, reason: impl Into<String>) -> Finding {
        Finding::new(State::Keep, place, reason)
    }

    pub(crate) fn not_here(place: impl ToString, reason: impl Into<String>) -> Finding {
        Finding::new(State::NotHere, place, reason)
    }

    /// What does not apply since no value of it does anything here.
    pub(crate) fn inert(place: impl ToString, reason: impl Into<String>) -> Finding {
        Finding { is_inert: true, ..Finding::not_here(place, reason) }
    }

    /// For want of a fact that the decision hangs on; `what` names the fact.
    pub(crate) fn unknown<T>(place: impl ToString, what: &str, fact: &Fact<T>) -> Finding {
        let why = fact.unknown_why().unwrap_or("it is not in the expected form");
        let unseen = match fact {
            Fact::Unseen { .. } => ", which is older than this check: capture the machine again",
            _ => "",
        };
        Finding::new(State::Unknown, place, format!("{what} is not known: {why}{unseen}"))
    }

    /// With what a counter reads behind the reason; it never decides.
    pub(crate) fn counting(self, as_text: &str) -> Finding {
        Finding { reason: self.reason + as_text, ..self }
    }

    pub(crate) fn at(self, current: impl ToString) -> Finding {
        Finding { current: Some(current.to_string()), ..self }
    }
}

/// What a knob's own file holds; else the finding for a file that is missing or tells nothing.
pub(crate) fn own<T: Clone>(place: &str, fact: &Fact<T>) -> Result<T, Finding> {
    match fact {
        Fact::Known(value) => Ok(value.clone()),
        Fact::Absent { why } => Err(Finding::not_here(place, format!("not present here: {why}"))),
        _ => Err(Finding::unknown(place, "the value in force", fact)),
    }
}

/// The number in a file under /proc/sys that is a knob's own.
pub(crate) fn own_number(facts: &Facts, path: &str) -> Result<i64, Finding> {
    let text = own(path, &facts.sysctl(path))?;
    text.parse().map_err(|_| {
        Finding::new(State::Unknown, path, format!("the value in force is not a whole number: {:?}", shown(&text)))
    })
}

/// As much of a text from outside as a message shows. No id and no place is longer, so what is cut still names none.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}
