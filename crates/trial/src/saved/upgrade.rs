//! Converts reports of older formats, and of later versions of the same format, to today's form. No other code handles older formats.
//!
//! | file | becomes |
//! |---|---|
//! | format 1: the sentences of caveats in `doubts` | caveats of the kind *other* |
//! | format 1: a level instead of a list of levels in `arms[].does` | a list of one |
//! | format 1, first versions: `design.pairs`, `design.settle_ms`, no A/A phase | `design.stop`, `design.settle`, `settle` |
//! | a rule, an end, a reason or a caveat that only a later version knows | its text, if it has one |

use evenkeel_hostfs::json_words;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{RunReport, SavedError, numbers};
use crate::caveat::Caveat;
use crate::engaged::Engaged;
use crate::rules::DropReason;
use crate::session::{Ended, LeftWhy, SettleHow};

type Object = Map<String, Value>;

/// Reads a report of any format.
pub(super) fn read(mut file: Value) -> Result<RunReport, SavedError> {
    let words = |error: serde_json::Error| json_words::plain(&error);
    let list = file.get_mut("trials").and_then(Value::as_array_mut).map(std::mem::take);
    if let Some(choice) = file.get_mut("choice") {
        without_nulls(choice);
    }
    let mut report: RunReport = serde_json::from_value(file).map_err(|error| SavedError::Shape(words(error)))?;
    for (at, mut entry) in list.into_iter().flatten().enumerate() {
        without_nulls(&mut entry);
        if let Value::Object(entry) = &mut entry {
            trial(entry);
        }
        let entry = serde_json::from_value(entry);
        let entry = entry.map_err(|error| SavedError::Shape(format!("trial {}: {}", at + 1, words(error))))?;
        report.trials.push(entry);
    }
    Ok(report)
}

/// JSON cannot represent infinite numbers, so the file has null for them. Without the nulls, these fields become None.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Array(list) => {
            list.retain(|value| !value.is_null());
            list.iter_mut().for_each(without_nulls);
        }
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(without_nulls);
        }
        _ => {}
    }
}

fn is_known<'de, T: Deserialize<'de>>(value: &'de Value) -> bool {
    T::deserialize(value).is_ok()
}

fn objects<'v>(of: &'v mut Object, list: &str) -> impl Iterator<Item = &'v mut Object> {
    of.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn trial(entry: &mut Object) {
    for arm in objects(entry, "arms") {
        if let Some(does) = arm.get_mut("does").filter(|does| !does.is_array()) {
            *does = json!([does.take()]);
        }
    }
    caveats(entry);
    design(entry);
    for dropped in objects(entry, "dropped") {
        if let Some(reason) = dropped.get_mut("reason").filter(|reason| !is_known::<DropReason>(reason)) {
            *reason = other_rule(reason);
        }
    }
    for knob in objects(entry, "mechanism") {
        unless_known::<Engaged>(knob, "engaged", || json!("unknown"));
    }
    if let Some(left) = entry.get_mut("left").and_then(Value::as_object_mut) {
        unless_known::<LeftWhy>(left, "why", || json!("other"));
    }
    let ended = match entry.get("ended") {
        Some(Value::Object(_)) => json!({ "failed": { "why": "the report does not say why" } }),
        _ => json!("whole"),
    };
    unless_known::<Ended>(entry, "ended", || ended);
}

/// Replaces a value that is missing, or that this version does not know.
fn unless_known<T: for<'de> Deserialize<'de>>(object: &mut Object, field: &str, otherwise: impl FnOnce() -> Value) {
    if !object.get(field).is_some_and(is_known::<T>) {
        object.insert(field.to_owned(), otherwise());
    }
}

/// Keeps the sentences of the file, even if this version would write other sentences for the same figures.
fn caveats(entry: &mut Object) {
    let other = |what: &Value| json!({ "kind": "other", "what": what.as_str().unwrap_or_default() });
    let written = entry.get("caveats").and_then(Value::as_array).cloned().unwrap_or_default();
    let caveat = |caveat: Value| {
        let words = caveat.get("text").and_then(Value::as_str);
        match Caveat::deserialize(&caveat) {
            Ok(known) if words.is_none_or(|words| words == known.to_string()) => caveat,
            _ => other(caveat.get("text").unwrap_or(&Value::Null)),
        }
    };
    let caveats: Vec<Value> = match written.is_empty() {
        true => entry.get("doubts").and_then(Value::as_array).into_iter().flatten().map(other).collect(),
        false => written.into_iter().map(caveat).collect(),
    };
    if entry.get("caveats").is_none_or(Value::is_array) {
        entry.insert("caveats".to_owned(), caveats.into());
    }
}

/// The first versions had a fixed number of pairs and a fixed settle time.
fn design(entry: &mut Object) {
    let Some(design) = entry.get_mut("design").and_then(Value::as_object_mut) else { return };
    let (pairs, settle_ms) = (design.get("pairs").cloned(), design.get("settle_ms").cloned());
    let mut missing = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            design.entry(field).or_insert(value);
        }
    };
    missing("stop", pairs.map(|pairs| json!({ "after": { "pairs": pairs } })));
    missing("settle", settle_ms.as_ref().map(|ms| json!({ "fixed": { "ms": ms } })));
    missing("control_pairs", Some(json!(0)));
    if let Some(ms) = settle_ms {
        entry.entry("settle").or_insert(json!({ "settle_ms": ms, "how": "asked" }));
    }
    if let Some(settle) = entry.get_mut("settle").and_then(Value::as_object_mut) {
        unless_known::<SettleHow>(settle, "how", || json!({ "guessed": { "why": "the report does not say how" } }));
    }
}

/// A rule that this version does not know, as its name and its numbers.
fn other_rule(reason: &Value) -> Value {
    let (rule, inside) = match reason {
        Value::String(name) => (name.as_str(), &Value::Null),
        Value::Object(object) => object.iter().next().map_or(("unknown", &Value::Null), |(name, value)| (name, value)),
        _ => ("unknown", &Value::Null),
    };
    json!({ "other": { "rule": rule, "numbers": numbers(inside) } })
}
