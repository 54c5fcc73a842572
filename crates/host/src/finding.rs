//! `Finding`: the result of a knob for one place on one machine, and helpers for the knobs' files.

use serde::Serialize;

use crate::fact::Fact;
use crate::facts::Facts;

/// The maximum number of characters of a text from outside that a message shows.
pub(crate) const SHOWN_CHARS_MAX: usize = 100;

/// The recommended action for a knob at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Another value suits the goal better: prove it and set it.
    Set,
    /// Another program or file sets the knob: change it there.
    OwnedBy,
    /// A change would help, but this machine does not allow it.
    Blocked,
    /// Too little is known for advice.
    Unknown,
    /// Keep the present value.
    Keep,
    /// The knob does not apply to this machine.
    NotHere,
    /// This kernel no longer has it.
    Removed,
}

impl State {
    /// The state's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            State::Set => "set",
            State::OwnedBy => "owned-by",
            State::Blocked => "blocked",
            State::Unknown => "unknown",
            State::Keep => "keep",
            State::NotHere => "not-here",
            State::Removed => "removed",
        }
    }

    /// Whether the user may have to act: the levels of `audit --fail-on`.
    pub fn is_finding(self) -> bool {
        self <= State::Unknown
    }
}

/// The values of a knob that evenkeel advises against on a machine, because they would take effect there and do harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Against {
    /// No value.
    #[default]
    Nothing,
    /// Every value.
    Every,
    /// These values. The reference to a slice is small, so that a finding stays small enough to be an error.
    Values(&'static &'static [&'static str]),
}

impl Against {
    /// Whether evenkeel advises against this value.
    pub fn has(self, value: &str) -> bool {
        match self {
            Against::Nothing => false,
            Against::Every => true,
            Against::Values(values) => values.contains(&value),
        }
    }
}

/// The result of a knob for one of its places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The place: the file's path, `eth0/rx-0`, the interrupt's number, the argument or the process.
    pub place: String,
    /// The recommended action.
    pub state: State,
    /// The value in force, if known.
    pub current: Option<String>,
    /// The recommended value. `None` unless `state` is [`State::Set`], or the value would be recommended elsewhere.
    pub wanted: Option<String>,
    /// Why, for this machine.
    pub reason: String,
    /// Whether no value has an effect here. A trial would only confirm that.
    pub is_inert: bool,
    /// The values that would do harm here, as `reason` says.
    pub against: Against,
}

/// Constructors for the knobs' files. [`Finding::at`] adds the value in force.
impl Finding {
    pub(crate) fn new(state: State, place: impl ToString, reason: impl Into<String>) -> Finding {
        Finding {
            place: place.to_string(),
            state,
            current: None,
            wanted: None,
            reason: reason.into(),
            is_inert: false,
            against: Against::Nothing,
        }
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

    /// The knob does not apply because no value has an effect here.
    pub(crate) fn inert(place: impl ToString, reason: impl Into<String>) -> Finding {
        Finding { is_inert: true, ..Finding::not_here(place, reason) }
    }

    /// Marks the reason as a warning against some values, which would take effect here and do harm.
    pub(crate) fn against(self, against: Against) -> Finding {
        Finding { against, ..self }
    }

    /// The decision needs a fact that is missing. `what` names the fact.
    pub(crate) fn unknown<T>(place: impl ToString, what: &str, fact: &Fact<T>) -> Finding {
        let why = fact.unknown_why().unwrap_or("it is not in the expected form");
        let unseen = match fact {
            Fact::Unseen { .. } => ", which is older than this check: capture the machine again",
            _ => "",
        };
        Finding::new(State::Unknown, place, format!("{what} is not known: {why}{unseen}"))
    }

    /// Adds the value of a counter to the reason. Counters never decide.
    pub(crate) fn counting(self, as_text: &str) -> Finding {
        Finding { reason: self.reason + as_text, ..self }
    }

    pub(crate) fn at(self, current: impl ToString) -> Finding {
        Finding { current: Some(current.to_string()), ..self }
    }
}

/// The content of a knob's own file. The error is the finding for a missing or unreadable file.
pub(crate) fn own<T: Clone>(place: &str, fact: &Fact<T>) -> Result<T, Finding> {
    match fact {
        Fact::Known(value) => Ok(value.clone()),
        Fact::Absent { why } => Err(Finding::not_here(place, format!("not present here: {why}"))),
        _ => Err(Finding::unknown(place, "the value in force", fact)),
    }
}

/// The number in a knob's own file under /proc/sys.
pub(crate) fn own_number(facts: &Facts, path: &str) -> Result<i64, Finding> {
    let text = own(path, &facts.sysctl(path))?;
    text.parse().map_err(|_| {
        Finding::new(State::Unknown, path, format!("the value in force is not a whole number: {:?}", shown(&text)))
    })
}

/// The part of a text from outside that a message shows.
/// Every id and place is shorter than the limit, so a shortened text never equals an id or place.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}
