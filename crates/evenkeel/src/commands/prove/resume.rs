//! `prove --resume FILE`: a session is gone on with as it was decided before its first pair. What is asked otherwise now is refused: to be
//! passed over in silence is worse.

use std::path::Path;
use std::time::Duration;

use evenkeel_trial::kept::Kept;
use evenkeel_trial::{Design, Guard, Settle, Stop};
use evenkeel_workload::Workload;

use super::{DesignArgs, named_guard, percent_of};
use crate::arms::{self, Arms};
use crate::exit;
use crate::failure::Failure;

/// Refuses other settings, and another design than `typed`, which is what the user wrote: what a goal file says besides is not asked for, and
/// to be told to leave it out would be of no use. Nothing of this needs a server, so none has to be started for it.
pub(super) fn refuse_others(typed: &DesignArgs, arms: &Arms, kept: &Kept, file: &Path) -> Result<(), Failure> {
    let before = Arms::of_head(&kept.head)?;
    let [then, now] =
        [&before, arms].map(|arms| arms.asked.iter().map(|own| arms::told(own)).collect::<Vec<_>>().join(" | "));
    if then != now || kept.head.arms.len() != arms.count() {
        return Err(differs("settings", &then, &now));
    }
    let tried = format!("go on with the session {}", file.display());
    refuse_design(typed, &kept.head.design, &tried, "to go on with it, or measure anew without --resume")
}

/// Refuses another design than the one of a session that is told once more.
pub(super) fn refuse_to_tell_otherwise(typed: &DesignArgs, kept: &Kept, file: &Path) -> Result<(), Failure> {
    let tried = format!("tell of the session {}", file.display());
    refuse_design(typed, &kept.head.design, &tried, "to be told of it, or measure anew without --from")
}

fn refuse_design(typed: &DesignArgs, kept: &Design, tried: &str, leave_out: &str) -> Result<(), Failure> {
    for (option, then, now) in options(typed, kept)? {
        if let Some(now) = now.filter(|now| *now != then) {
            let cause = format!("{option} {now} is asked for, and it was begun with {option} {then}, which stands");
            return Err(
                Failure::text(exit::WRONG_USE, tried.to_owned(), cause).hint(format!("leave {option} out {leave_out}"))
            );
        }
    }
    Ok(())
}

/// Refuses another workload.
pub(super) fn refuse_another(workload: &dyn Workload, kept: &Kept) -> Result<(), Failure> {
    let (then, now) = (&kept.head.titles.workload, workload.describe());
    if *then == now { Ok(()) } else { Err(differs("workload", then, &now)) }
}

fn differs(what: &str, then: &str, now: &str) -> Failure {
    let cause = format!("its {what} was {then:?}, and this is {now:?}: pairs of both can't be put together");
    Failure::text(exit::WRONG_USE, "go on with the session", cause)
}

/// An option, as it was, and as it is asked for now, if it is.
type Twice = (&'static str, String, Option<String>);

/// Each option of the design.
fn options(asked: &DesignArgs, kept: &Design) -> Result<Vec<Twice>, Failure> {
    let ms = |time: Duration| format!("{}ms", time.as_millis());
    let percent = |ratio: f64| format!("{} %", percent_of(ratio));
    let (is_fixed, budget) = match kept.stop {
        Stop::After { .. } => (true, None),
        Stop::Sequential { budget, .. } => (false, budget),
    };
    let settle = match kept.settle {
        Settle::Fixed { time } => ms(time),
        Settle::Found { .. } => "found by itself".to_owned(),
    };
    Ok(vec![
        ("--metric", kept.metric.name.to_string(), asked.metric.clone()),
        ("--guard", guards(&kept.guards), named(&asked.guard)?),
        ("--pairs", kept.stop.pairs_max().to_string(), asked.pairs.map(|pairs| pairs.to_string())),
        ("--budget", budget.map_or_else(|| "none".to_owned(), ms), asked.budget.map(ms)),
        ("--fixed", is_fixed.to_string(), asked.fixed.then(|| true.to_string())),
        ("--settle", settle, asked.settle.map(ms)),
        ("--window-ms", kept.window.as_millis().to_string(), asked.window_ms.map(|ms| ms.to_string())),
        ("--turns", kept.turns.to_string(), asked.turns.map(|turns| turns.to_string())),
        (
            "--smallest-effect",
            percent(kept.smallest_effect_ratio),
            asked.smallest_effect.percent().map(|asked| percent(asked / 100.0)),
        ),
        ("--control-pairs", kept.control_pairs.to_string(), asked.control_pairs.map(|pairs| pairs.to_string())),
    ])
}

fn guards(guards: &[Guard]) -> String {
    let told = guards.iter().map(|guard| (guard.metric.name.to_string(), guard.harm_ratio));
    of_guards(told.collect())
}

/// The guards that were named, if some were.
fn named(texts: &[String]) -> Result<Option<String>, Failure> {
    Ok(match texts {
        [] => None,
        [none] if none == "none" => Some(of_guards(Vec::new())),
        texts => {
            let named = texts.iter().map(|text| named_guard(text).map(|(name, ratio)| (name.to_owned(), ratio)));
            Some(of_guards(named.collect::<Result<_, _>>()?))
        }
    })
}

/// In one order, since nobody means another one by it.
fn of_guards(mut guards: Vec<(String, f64)>) -> String {
    guards.sort_by(|(one, _), (other, _)| one.cmp(other));
    let told: Vec<String> = guards.iter().map(|(name, ratio)| format!("{name}={}", percent_of(*ratio))).collect();
    if told.is_empty() { "none".to_owned() } else { told.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harms_are_compared_as_numbers() {
        let told = |text: &str| named(&[text.to_owned()]).unwrap().unwrap();
        for (text, expected) in [("lat_us=7", "lat_us=7"), ("lat_us=5.004", "lat_us=5.004"), ("lat_us", "lat_us=25")] {
            assert_eq!(told(text), expected);
        }
        assert_eq!(told("lat_us=7.0%"), told("lat_us=7"));
        assert_ne!(told("lat_us=5.004"), told("lat_us=5"));
    }
}
