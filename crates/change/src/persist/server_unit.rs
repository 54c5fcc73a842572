//! Persists properties of the server's own process, in a drop-in for its systemd unit. The user must name the unit.

use std::fmt::Write;

use evenkeel_host::{Lasts, Place, ServerUnit, Setting, TakesEffect, UnitLimit};

use super::recipe::{HEAD, PersistContext, Recipe, refuse};
use super::units;
use crate::persist_plan::{Carried, Content, PersistPlan, PersistedFile};

pub(super) const RECIPE: Recipe = Recipe { takes: |setting| in_unit(setting).is_some(), plan };

fn in_unit(setting: &Setting) -> Option<ServerUnit> {
    match setting.knob.extras.lasts {
        Some(Lasts::ServerUnit(unit)) => Some(unit),
        _ => None,
    }
}

fn plan(context: &PersistContext<'_>, settings: &[&Setting]) -> PersistPlan {
    let mut plan = PersistPlan::default();
    let unit = match unit(context) {
        Ok(unit) => unit,
        Err((why, todo)) => {
            let refused = settings.iter().map(|setting| refuse(setting, why.clone(), by_hand(setting, &todo)));
            plan.cannot.extend(refused);
            return plan;
        }
    };
    let path = format!("{}/{unit}.d/90-evenkeel.conf", units::UNITS);
    let mut text = format!("{HEAD}[Service]\n");
    let mut along = Vec::new();
    for setting in settings {
        let Some(of_knob) = in_unit(setting) else { continue };
        let Some(lines) = (of_knob.lines)(&setting.value) else {
            plan.cannot.push(no_line(setting, &of_knob));
            continue;
        };
        text.push_str(&lines);
        along.extend(of_knob.along);
        plan.carried.push(Carried {
            setting: setting.to_string(),
            by: path.clone(),
            takes_effect: TakesEffect::ProcessStart,
        });
        if let Some(UnitLimit { why, todo }) = of_knob.only_permits {
            let why = format!("{path} only allows it: {why}");
            plan.cannot.push(refuse(setting, why, todo.unwrap_or_default()));
        }
    }
    for (key, value) in along {
        if !text.contains(&format!("\n{key}=")) {
            let _ = writeln!(text, "{key}=\n{key}={value}");
        }
    }
    if !plan.carried.is_empty() {
        plan.files.push(PersistedFile { path: path.clone(), content: Content::Whole { text, mode: 0o644 } });
        plan.commands.push(units::daemon_reload(&path));
    }
    plan
}

/// The server's unit, or why no unit can be used and what to do.
fn unit<'a>(context: &PersistContext<'a>) -> Result<&'a str, (String, String)> {
    if let Some(init) = units::other_init(context) {
        return Err((format!("this system uses {init}, and evenkeel can only create systemd units"), String::new()));
    }
    let todo = "name the server's systemd unit: --unit NAME.service".to_owned();
    match context.unit {
        None => Err(("it belongs to the server's process, and you gave no unit that starts it".to_owned(), todo)),
        Some(unit) => Ok(unit.as_str()),
    }
}

/// What to do without a unit.
fn by_hand(setting: &Setting, todo: &str) -> String {
    let how = match setting.knob.place {
        Place::ByHand { how } => how.replace("{}", &setting.value),
        _ => format!("start the server so that {setting} holds from its start"),
    };
    let has_no_lines =
        in_unit(setting).and_then(|unit| unit.without_lines).is_some_and(|without| without.todo.is_none());
    match todo {
        _ if has_no_lines => how,
        "" => how,
        todo => format!("{todo}; or {how}"),
    }
}

fn no_line(setting: &Setting, unit: &ServerUnit) -> crate::persist_plan::Cannot {
    let by_hand = || by_hand(setting, "");
    match unit.without_lines {
        Some(without) => refuse(setting, without.why, without.todo.map_or_else(by_hand, str::to_owned)),
        None => refuse(setting, "no line of a unit can set this value", by_hand()),
    }
}
