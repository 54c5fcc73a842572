//! Describes a step of a plan as text.

use evenkeel_host::{Action, Place, Step, knobs};

/// What a step does to the machine.
pub(crate) fn how(step: &Step) -> String {
    match &step.action {
        Action::Write { path, reading, .. } => format!("write {:?} to {path}", reading.text(&step.wanted)),
        Action::KernelArgument { argument } => format!("add {argument} to the kernel's command line, by hand"),
        Action::Hold { path } => {
            format!("hold {path} open: `--persist` installs a service that does, and `prove` does while it runs")
        }
        Action::ByHand { todo } => format!("by hand: {todo}"),
        Action::Process => {
            "start the server so: `--persist --unit NAME.service` does for a systemd service, and `prove` while it runs"
                .to_owned()
        }
    }
}

/// Whether the knob has several places. Otherwise pages do not show its place.
pub(crate) fn has_places(knob: &str) -> bool {
    knobs::find(knob)
        .is_ok_and(|knob| matches!(knob.place, Place::Each { .. } | Place::EachNetworkIrq | Place::ByHandEach { .. }))
}

/// A value as text. The text of an empty value is a word, so that a reader does not overlook it.
pub(crate) fn value(value: &str) -> &str {
    if value.is_empty() { "empty" } else { value }
}
