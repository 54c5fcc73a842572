//! Where ticks begin and end: what was asked for, where that is in the processes that are recorded, and in a recording.

use evenkeel_profile::live::probe::{self, Asked, NoPlace, Probed, Spot, Until, parse_place};
use evenkeel_profile::recording::Recording;
use evenkeel_profile::ticks::told::{Marks, NotTold, OfThread, packets};
use serde::Serialize;

use crate::exit;
use crate::failure::Failure;

/// A place in a program, and what ticks that begin there end with.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct At {
    /// A tick begins each time that this function is entered: SYMBOL of the process's own program, BINARY:SYMBOL of a file that it runs;
    /// BINARY+0xOFFSET, where the function's first byte is in a file without names; %PROVIDER:NAME, a mark that it was built with (USDT)
    #[arg(long, value_name = "PLACE", visible_alias = "tick-function", value_parser = parse_place)]
    pub(crate) at: Option<Asked>,
    /// A tick ends when the function returns (return), when the thread waits for the next one (wait), or when another one is entered. Of
    /// one that exceptions or panics leave, name another or `wait`: with its return being watched they end the program
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
    /// Where that is, in these processes; nothing if nothing was asked for.
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
        NoPlace::Unreadable { errno, .. } if errno.is_denial() => Some("run it as root (sudo)"),
        NoPlace::Stripped { .. } => Some("or cut by the thread's wake-ups: leave --at out"),
        NoPlace::Ambiguous { .. } => Some("name one of them as in the brackets: --at BINARY+0xOFFSET"),
        _ => None,
    };
    let failure = Failure::new(code, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// By what ticks are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum By {
    /// The marks of evenkeel-rt where the server has them, else its thread's wake-ups
    #[default]
    Auto,
    /// The wake-ups of the thread that keeps time
    Wakes,
    /// The marks of evenkeel-rt, which tell when a tick was due too
    Library,
    /// The bursts of packets that the server sends: from the end of one to the end of the next
    Packets,
}

/// By what they were told apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Told {
    /// `wakes`, `library`, `packets`, `place` or `event`.
    pub(crate) by: &'static str,
    /// The event at which they begin.
    pub(crate) begins_at: Option<String>,
    /// The one at which they are done.
    pub(crate) ends_at: Option<String>,
    /// What is to be known of the choice.
    #[serde(skip)]
    pub(crate) why: Option<String>,
}

impl Told {
    /// Whether it is known when each was due, and so how late it began.
    pub(crate) fn is_due_known(&self) -> bool {
        matches!(self.by, "wakes" | "library")
    }

    fn wakes(why: Option<String>) -> Told {
        Told { by: "wakes", begins_at: None, ends_at: None, why }
    }

    fn of(by: &'static str, marks: &Marks) -> Told {
        Told { by, begins_at: Some(marks.begin.clone()), ends_at: marks.end.clone(), why: None }
    }
}

/// Which ticks are asked for.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Begins {
    #[command(flatten)]
    pub(crate) at: At,
    /// A tick begins at each sample of this event of FILE, such as probe_server:tick of `perf probe`
    #[arg(long, value_name = "NAME", requires = "file", conflicts_with = "at")]
    at_event: Option<String>,
    /// By what ticks are told apart
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Auto, conflicts_with_all = ["at", "at_event"])]
    pub(crate) by: By,
}

impl Begins {
    /// The ticks that something in the recording tells, of a thread that is wanted; none where they are to be told by its wake-ups.
    pub(crate) fn told(
        &self,
        recording: &Recording,
        is_wanted: &dyn Fn(u32) -> bool,
    ) -> Result<(Option<OfThread>, Told), Failure> {
        let refused = |error: NotTold| {
            let failure = Failure::text(exit::NOT_POSSIBLE, "cut the recording by ticks", &error);
            match error {
                NotTold::NoEvent { .. } => {
                    failure.hint("record it with --at, or name one of those events with --at-event")
                }
                NotTold::TooFew { .. } => failure.hint("record for longer (--seconds), or name another function"),
            }
        };
        let cut = |by, marks: Marks| {
            let ticks = marks.ticks(recording, is_wanted).map_err(refused)?;
            Ok((Some(ticks), Told::of(by, &marks)))
        };
        if let Some(name) = &self.at_event {
            return cut("event", Marks::named(recording, name).map_err(refused)?);
        }
        if let Some(asked) = &self.at.at {
            return cut("place", self.place(recording, asked).map_err(refused)?);
        }
        match self.by {
            By::Wakes => Ok((None, Told::wakes(None))),
            By::Library => {
                let none = || {
                    let why = "the server has no marks of evenkeel-rt, or they were not recorded";
                    Failure::text(exit::NOT_POSSIBLE, "cut the recording by ticks", why)
                        .hint("leave --by out, or name a function with --at")
                };
                cut("library", Marks::of_library(recording).ok_or_else(none)?)
            }
            By::Packets => {
                let ticks = packets(recording, is_wanted).map_err(refused)?;
                Ok((Some(ticks), Told { by: "packets", begins_at: None, ends_at: None, why: None }))
            }
            By::Auto => Ok(chosen(recording, is_wanted)),
        }
    }

    fn place(&self, recording: &Recording, asked: &Asked) -> Result<Marks, NotTold> {
        let marks = Marks::named(recording, &event_of(asked))?;
        match &self.at.until {
            None | Some(Until::Return) => Ok(marks),
            Some(Until::Wait) => Ok(marks.without_end()),
            Some(Until::Place(end)) => marks.until(recording, &event_of(end)),
        }
    }
}

/// What a place's event is called behind the group.
fn event_of(asked: &Asked) -> String {
    match &asked.spot {
        Spot::Function(name) => name.clone(),
        Spot::Offset(offset) => format!("abs_{offset:x}"),
        Spot::Mark { provider, name } => format!("sdt_{provider}:{name}"),
    }
}

/// The library's marks, else the one place that was recorded, else wake-ups.
fn chosen(recording: &Recording, is_wanted: &dyn Fn(u32) -> bool) -> (Option<OfThread>, Told) {
    if let Some(marks) = Marks::of_library(recording)
        && let Ok(ticks) = marks.ticks(recording, is_wanted)
    {
        return (Some(ticks), Told::of("library", &marks));
    }
    let places = Marks::places(recording);
    let mut places = places.into_iter().filter(|marks| !marks.is_librarys);
    let (first, second) = (places.next(), places.next());
    match (first, second) {
        (Some(marks), None) => match marks.ticks(recording, is_wanted) {
            Ok(ticks) => (Some(ticks), Told::of("place", &marks)),
            Err(why) => (None, Told::wakes(Some(why.to_string()))),
        },
        (Some(first), Some(second)) => {
            let why = format!(
                "the recording has more than one place ({}, {}): --at-event names one",
                first.begin, second.begin
            );
            (None, Told::wakes(Some(why)))
        }
        (None, _) => (None, Told::wakes(None)),
    }
}
