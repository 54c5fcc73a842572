//! `prove --resume FILE`: a session is gone on with as it was decided before its first pair. What is asked otherwise now is refused: to be
//! passed over in silence is worse.

use std::path::Path;
use std::time::Duration;

use evenkeel_trial::kept::Kept;
use evenkeel_trial::{Design, Guard, Settle, Stop, Workload};

use super::{DesignArgs, named_guard};
use crate::arms::{self, Arms};
use crate::exit;
use crate::failure::Failure;
use crate::report::words::trim;

/// Refuses other settings, and another design. Nothing of this needs a server, so none has to be started for it.
pub(super) fn refuse_others(asked: &DesignArgs, arms: &Arms, kept: &Kept, file: &Path) -> Result<(), Failure> {
    let before = Arms::of_head(&kept.head)?;
    let [then, now] =
        [&before, arms].map(|arms| arms.asked.iter().map(|own| arms::told(own)).collect::<Vec<_>>().join(" | "));
    if then != now || kept.head.arms.len() != arms.count() {
        return Err(differs("settings", &then, &now));
    }
    for (option, then, now) in options(asked, &kept.head.design)? {
        if let Some(now) = now.filter(|now| *now != then) {
            let tried = format!("go on with the session {}", file.display());
            let cause = format!("{option} {now} is asked for, and it was begun with {option} {then}, which stands");
            return Err(Failure::text(exit::WRONG_USE, tried, cause)
                .hint(format!("leave {option} out to go on with it, or measure anew without --resume")));
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
    let percent = |percent: f64| format!("{} %", trim(percent));
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
            percent(kept.smallest_effect_ratio * 100.0),
            asked.smallest_effect.percent().map(percent),
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
    let told: Vec<String> = guards.iter().map(|(name, ratio)| format!("{name}={}", trim(ratio * 100.0))).collect();
    if told.is_empty() { "none".to_owned() } else { told.join(" ") }
}
