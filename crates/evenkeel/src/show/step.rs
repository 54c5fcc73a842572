//! A step of a plan in words.

use evenkeel_host::{Action, Place, Step, knobs};

/// The effect of a step on the machine.
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

/// Whether a knob is set at several places. A single place is not shown.
pub(crate) fn has_places(knob: &str) -> bool {
    knobs::find(knob)
        .is_ok_and(|knob| matches!(knob.place, Place::Each { .. } | Place::EachNetworkIrq | Place::ByHandEach { .. }))
}

/// A value in a form in which no character is overlooked.
pub(crate) fn value(value: &str) -> &str {
    if value.is_empty() { "empty" } else { value }
}
