//! The options that define where ticks begin and end, and the ticks that they select in processes and in a recording.

use evenkeel_profile::live::probe::{self, NoPlace, PlaceSpec, Probed, Spot, Until, parse_place};
use evenkeel_profile::recording::Recording;
use evenkeel_profile::ticks::marks::{Marks, MarksError, ThreadTicks, packets};
use serde::Serialize;

use crate::exit;
use crate::failure::Failure;
use crate::show::profile::ticks::TickSource;

/// The place in a program where ticks begin, and the place where they end.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct At {
    /// A tick begins at the entry of SYMBOL, BINARY:SYMBOL, BINARY+0xOFFSET or %PROVIDER:NAME
    #[arg(long, value_name = "PLACE", visible_alias = "tick-function", value_parser = parse_place)]
    pub(crate) at: Option<PlaceSpec>,
    /// Where a tick ends: return, wait, or a place; use wait if an exception can leave the function [default: return]
    #[arg(long, value_name = "PLACE", requires = "at", value_parser = parse_until)]
    pub(crate) until: Option<Until>,
}

fn parse_until(text: &str) -> Result<Until, String> {
    match text {
        "return" => Ok(Until::Return),
        "wait" => Ok(Until::Wait),
        _ => parse_place(text).map(Until::Place),
    }
}

impl At {
    /// The probes for these processes; empty without --at.
    pub(crate) fn probes(&self, pids: &[u32]) -> Result<Vec<Probed>, Failure> {
        let Some(asked) = &self.at else { return Ok(Vec::new()) };
        let until = self.until.clone().unwrap_or(Until::Return);
        probe::beginning_and_end(asked, &until, pids).map_err(refused)
    }
}

fn refused(error: NoPlace) -> Failure {
    let code = match &error {
        NoPlace::Unreadable { errno, .. } if errno.is_denial() => exit::NOT_ALLOWED,
        NoPlace::NoReturn { .. } | NoPlace::Odd { .. } => exit::NOT_POSSIBLE,
        _ => exit::WRONG_USE,
    };
    let hint = match &error {
        NoPlace::Unreadable { errno, .. } if errno.is_denial() => Some("run it with sudo"),
        NoPlace::Stripped { .. } => Some("or omit --at: ticks are then found by the thread's wake-ups"),
        NoPlace::Ambiguous { .. } => Some("choose one by the offset in brackets: --at BINARY+0xOFFSET"),
        _ => None,
    };
    let failure = Failure::new(code, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// How to recognize ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum By {
    /// The markers of evenkeel-rt if the server has them, else the thread's wake-ups
    #[default]
    Auto,
    /// The wake-ups of the tick thread
    Wakes,
    /// The markers of evenkeel-rt, which also give the due time
    Library,
    /// Bursts of packets that the server sends: a tick lasts from the end of one burst to the end of the next
    Packets,
}

/// The options that select ticks.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Begins {
    #[command(flatten)]
    pub(crate) at: At,
    /// A tick begins at each sample of this event in FILE, such as probe_server:tick
    #[arg(long, value_name = "NAME", requires = "file", conflicts_with = "at")]
    at_event: Option<String>,
    /// How to recognize ticks: auto, wakes, library (evenkeel-rt) or packets
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Auto, hide_possible_values = true, conflicts_with_all = ["at", "at_event"])]
    pub(crate) by: By,
}

impl Begins {
    /// The ticks of a wanted thread that events in the recording mark. `None` if no events mark ticks.
    /// The caller then uses wake-ups instead.
    pub(crate) fn ticks(
        &self,
        recording: &Recording,
        is_wanted: &dyn Fn(u32) -> bool,
    ) -> Result<(Option<ThreadTicks>, TickSource), Failure> {
        let refused = |error: MarksError| {
            let failure = Failure::text(exit::NOT_POSSIBLE, "divide the recording into ticks", &error);
            match error {
                MarksError::NoEvent { .. } => {
                    failure.hint("record with --at, or choose one of these events with --at-event")
                }
                MarksError::TooFew { .. } => failure.hint("record longer (--seconds), or name another function"),
            }
        };
        let cut = |by, marks: Marks| {
            let ticks = marks.ticks(recording, is_wanted).map_err(refused)?;
            Ok((Some(ticks), from_marks(by, &marks)))
        };
        if let Some(name) = &self.at_event {
            return cut("event", Marks::named(recording, name).map_err(refused)?);
        }
        if let Some(asked) = &self.at.at {
            return cut("place", self.place(recording, asked).map_err(refused)?);
        }
        match self.by {
            By::Wakes => Ok((None, from_wakes(None))),
            By::Library => {
                let none = || {
                    let why = "the server has no markers of evenkeel-rt, or they were not recorded";
                    Failure::text(exit::NOT_POSSIBLE, "divide the recording into ticks", why)
                        .hint("omit --by, or name a function with --at")
                };
                cut("library", Marks::of_library(recording).ok_or_else(none)?)
            }
            By::Packets => {
                let ticks = packets(recording, is_wanted).map_err(refused)?;
                Ok((Some(ticks), TickSource { by: "packets", begins_at: None, ends_at: None, caveat: None }))
            }
            By::Auto => Ok(chosen(recording, is_wanted)),
        }
    }

    fn place(&self, recording: &Recording, asked: &PlaceSpec) -> Result<Marks, MarksError> {
        let marks = Marks::named(recording, &event_of(asked))?;
        match &self.at.until {
            None | Some(Until::Return) => Ok(marks),
            Some(Until::Wait) => Ok(marks.without_end()),
            Some(Until::Place(end)) => marks.until(recording, &event_of(end)),
        }
    }
}

/// The name of the event of a place, without its group.
fn event_of(asked: &PlaceSpec) -> String {
    match &asked.spot {
        Spot::Function(name) => name.clone(),
        Spot::Offset(offset) => format!("abs_{offset:x}"),
        Spot::Mark { provider, name } => format!("sdt_{provider}:{name}"),
    }
}

/// The ticks from the library's markers, or else from the only recorded place.
/// Without either of them, the caller uses wake-ups.
fn chosen(recording: &Recording, is_wanted: &dyn Fn(u32) -> bool) -> (Option<ThreadTicks>, TickSource) {
    if let Some(marks) = Marks::of_library(recording)
        && let Ok(ticks) = marks.ticks(recording, is_wanted)
    {
        return (Some(ticks), from_marks("library", &marks));
    }
    let places = Marks::places(recording);
    let mut places = places.into_iter().filter(|marks| !marks.is_librarys);
    let (first, second) = (places.next(), places.next());
    match (first, second) {
        (Some(marks), None) => match marks.ticks(recording, is_wanted) {
            Ok(ticks) => (Some(ticks), from_marks("place", &marks)),
            Err(why) => (None, from_wakes(Some(why.to_string()))),
        },
        (Some(first), Some(second)) => {
            let why = format!(
                "the recording has more than one place ({}, {}), so ticks are recognized by wake-ups; choose one with --at-event",
                first.begin, second.begin
            );
            (None, from_wakes(Some(why)))
        }
        (None, _) => (None, from_wakes(None)),
    }
}

fn from_wakes(caveat: Option<String>) -> TickSource {
    TickSource { by: "wakes", begins_at: None, ends_at: None, caveat }
}

fn from_marks(by: &'static str, marks: &Marks) -> TickSource {
    TickSource { by, begins_at: Some(marks.begin.clone()), ends_at: marks.end.clone(), caveat: None }
}
