//! Settings of the workload itself, which a trial can compare like knobs of the host.
//! Examples are `evenkeel prove workload.placement=together`, and, for everything
//! that `--set` accepts, `evenkeel prove workload.work-us=306`.
//! They are not knobs: no advice names them, and `apply` refuses them.

use std::sync::LazyLock;

use evenkeel_host::{
    AdviceContext, Against, Area, Extras, Facts, Finding, Knob, Place, Setting, SettingError, State, TakesEffect,
    Values, knobs,
};
use evenkeel_workload::{PLACEMENT, SETTING_PREFIX, Workload};

use crate::exit;
use crate::failure::Failure;

/// The maximum length of a setting's value, in bytes.
const VALUE_BYTES_MAX: usize = 200;

/// The setting for the placement of server and load.
static WHERE: Knob = Knob {
    id: PLACEMENT,
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
    kernels: "all",
    sources: &[],
    extras: Extras::NONE,
    advise,
};

/// The settings that `--set` accepts for at least one workload, by name. Each workload accepts only its own settings.
static SETTINGS: LazyLock<Vec<Knob>> = LazyLock::new(|| {
    let mut names: Vec<(&str, &'static str)> = Vec::new();
    for (text, title) in evenkeel_workload::ALL.iter().flat_map(|entry| entry.settings) {
        match text.split_once('=') {
            Some((name, _)) if !names.iter().any(|(known, _)| *known == name) => names.push((name, title)),
            _ => {}
        }
    }
    let setting = |(name, title): (&str, &'static str)| Knob {
        // `leak` runs only once for each name of a fixed list.
        id: Box::leak(format!("{SETTING_PREFIX}{name}").into_boxed_str()),
        title,
        values: Values::Name,
        default: "as --set says",
        mechanism: "evenkeel changes it while the workload runs, or restarts the workload with the other value.",
        shows_in: "the workload's own description",
        ..WHERE
    };
    names.into_iter().map(setting).collect()
});

fn advise(_: &Facts, _: &AdviceContext) -> Vec<Finding> {
    let (place, reason) = ("server".to_owned(), "a workload's properties are not settings of a host".to_owned());
    vec![Finding {
        place,
        state: State::NotHere,
        current: None,
        wanted: None,
        reason,
        is_inert: false,
        against: Against::Nothing,
    }]
}

/// Parses a setting of the workload or of the host.
///
/// # Errors
/// If no such setting exists, or the setting does not accept the value.
pub(crate) fn parse(text: &str) -> Result<Setting, SettingError> {
    let Some((name, value)) = text.split_once('=').filter(|(name, _)| name.trim().starts_with(SETTING_PREFIX)) else {
        return Setting::parse(text);
    };
    let knob = find(name)?;
    let value = if knob.id == PLACEMENT { knob.check(value)? } else { plain(knob, value)? };
    Ok(Setting { knob, place: None, value })
}

/// Finds a setting of the workload by its name, or a knob of the host.
///
/// # Errors
/// If neither has this name.
pub(crate) fn find(name: &str) -> Result<&'static Knob, SettingError> {
    let name = name.trim();
    let all = std::iter::once(&WHERE).chain(SETTINGS.iter());
    all.into_iter().find(|knob| knob.id == name).map_or_else(|| knobs::find(name), Ok)
}

/// Checks a value that only the workload can interpret.
/// The value must be one word that fits a command line and a report.
fn plain(knob: &'static Knob, value: &str) -> Result<String, SettingError> {
    let value = value.trim();
    let is_plain = value.bytes().all(|byte| byte.is_ascii_graphic()) && (1..=VALUE_BYTES_MAX).contains(&value.len());
    match is_plain {
        true => Ok(value.to_owned()),
        false => Err(SettingError::BadValue {
            knob: knob.id,
            value: value.chars().take(VALUE_BYTES_MAX / 2).collect(),
            takes: format!("a word of at most {VALUE_BYTES_MAX} letters without spaces"),
        }),
    }
}

/// Checks that the workload accepts these settings, before any measurement.
///
/// # Errors
/// If the workload has no such setting, or does not accept the value.
pub(crate) fn rehearse(workload: &mut dyn Workload, settings: &[Setting]) -> Result<(), Failure> {
    let named = settings.iter().filter(|setting| setting.knob.id != PLACEMENT);
    let asked: Vec<(&str, &str)> = named
        .filter_map(|setting| Some((setting.knob.id.strip_prefix(SETTING_PREFIX)?, setting.value.as_str())))
        .collect();
    if asked.is_empty() {
        return Ok(());
    }
    let wanted: Vec<_> = asked.iter().map(|(name, value)| (*name, Some(*value))).collect();
    let back: Vec<_> = asked.iter().map(|(name, _)| (*name, None)).collect();
    let tried = workload.configure(&wanted).and_then(|_| workload.configure(&back));
    tried.map(drop).map_err(|error| Failure::new(exit::WRONG_USE, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_the_workload_s_or_the_host_s() {
        let table = [
            ("workload.placement=together", Ok("workload.placement=together")),
            (" workload.placement = apart ", Ok("workload.placement=apart")),
            ("workload.work-us=306", Ok("workload.work-us=306")),
            ("workload.popularity=zipf:0.99", Ok("workload.popularity=zipf:0.99")),
            ("vm.swappiness=10", Ok("vm.swappiness=10")),
            ("workload.placement=elsewhere", Err("apart, together, free")),
            ("workload.work-us=", Err("a word of at most 200 letters")),
            ("workload.work-us=3 06", Err("a word of at most 200 letters")),
            ("workload.work-us@server=1", Err("unknown knob")),
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

    #[test]
    fn whatever_a_workload_takes_has_a_name() {
        for (text, _) in evenkeel_workload::ALL.iter().flat_map(|entry| entry.settings) {
            let name = text.split_once('=').unwrap().0;
            assert_eq!(find(&format!("workload.{name}")).unwrap().id, format!("workload.{name}"));
        }
        assert!(SETTINGS.iter().all(|knob| knob.id != PLACEMENT && knobs::find(knob.id).is_err()));
    }

    #[test]
    fn what_is_taken_is_read_again_and_what_is_not_is_refused() {
        let odd = [
            "",
            " ",
            "=",
            "@",
            "workload.",
            "workload.=",
            "workload.work-us",
            "workload.=1",
            "workload.work-us@=1",
            "\u{0}",
        ];
        for text in odd {
            assert!(parse(text).is_err(), "{text:?}");
        }
        let long = "9".repeat(VALUE_BYTES_MAX + 1);
        for value in ["1", "=", "==1", "zipf:0.99", "é", "\u{7}", "a b", "-1", &long[1..], &long] {
            match parse(&format!("workload.work-us={value}")) {
                Ok(setting) => assert_eq!(parse(&setting.to_string()).unwrap().to_string(), setting.to_string()),
                Err(error) => assert!(error.to_string().contains("a word of at most"), "{value:?}: {error}"),
            }
        }
    }
}
