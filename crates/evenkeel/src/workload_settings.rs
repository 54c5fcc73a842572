//! Settings of the workload itself that can be compared as a knob of the host is: `evenkeel prove workload.placement=together`. They
//! are no knobs: no advice names them, and nothing applies them.

use evenkeel_host::{Area, Facts, Finding, Knob, Place, Setting, SettingError, State, TakesEffect, Values, Wish};

/// Where server and load run.
static PLACEMENT: Knob = Knob {
    id: "workload.placement",
    title: "where server and load run",
    area: Area::Process,
    place: Place::Process,
    values: Values::Words(&["apart", "together", "free"]),
    default: "as --placement says",
    takes_effect: TakesEffect::ProcessStart,
    mechanism: "The threads of the server and of its load are moved while they run: apart on CPUs of their own, together on one, \
                or wherever the kernel puts them.",
    risk: "none: it is the workload that is placed",
    shows_in: "Cpus_allowed_list in /proc/PID/status",
    counter: None,
    kernels: "all",
    side_effects: &[],
    sources: &[],
    advise,
};

fn advise(_: &Facts, _: &Wish) -> Vec<Finding> {
    let (place, reason) = ("server".to_owned(), "where a workload runs is no setting of a host".to_owned());
    vec![Finding { place, state: State::NotHere, current: None, wanted: None, reason }]
}

/// A setting of the workload or of the host.
///
/// # Errors
/// If there is neither, or it does not take the value.
pub(crate) fn parse(text: &str) -> Result<Setting, SettingError> {
    match text.split_once('=') {
        Some((name, value)) if name.trim() == PLACEMENT.id => {
            Ok(Setting { knob: &PLACEMENT, place: None, value: PLACEMENT.check(value)? })
        }
        _ => Setting::parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_the_workload_s_or_the_host_s() {
        let table = [
            ("workload.placement=together", Ok("workload.placement=together")),
            (" workload.placement = apart ", Ok("workload.placement=apart")),
            ("vm.swappiness=10", Ok("vm.swappiness=10")),
            ("workload.placement=elsewhere", Err("apart, together, free")),
            ("workload.colour=red", Err("unknown knob")),
            ("workload.placement", Err("=")),
        ];
        for (text, expected) in table {
            match (parse(text).map(|setting| setting.to_string()), expected) {
                (Ok(setting), Ok(expected)) => assert_eq!(setting, expected),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{text}: {error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
