//! The answer of `audit` as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format),
//! for services that collect findings of many tools.
//! Rules are knobs, results are findings that need action, and suppressions are waivers.

use std::collections::BTreeMap;

use evenkeel_host::{Action, Advice, Facts, Knob, Plan, Setting, State, knobs};
use percent_encoding::{AsciiSet, utf8_percent_encode};
use serde_json::{Value, json};

use crate::exit;
use crate::failure::Failure;
use crate::show::advice::{Audit, Finding, effect};
use crate::show::escape::RESERVED;
use crate::show::json;

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The name of the fingerprint. A new method of computing ids would change its version.
const FINGERPRINT: &str = "evenkeelFindingId/v1";

pub(crate) fn log(audit: &Audit<'_>, facts: &Facts) -> Result<String, Failure> {
    let files = Files::from_audit(audit, facts);
    let mut results: Vec<Value> = audit.findings.iter().filter_map(|finding| result(finding, &files)).collect();
    if audit.waivers.is_some() {
        // An empty list means that the result was checked and is not suppressed.
        // SARIF requires such a list for all results of a run, or for none.
        for result in results.iter_mut().filter_map(Value::as_object_mut) {
            result.entry("suppressions").or_insert_with(|| json!([]));
        }
    }
    let notifications: Vec<Value> =
        audit.warnings().iter().map(|warning| json!({"level": "warning", "message": {"text": warning}})).collect();
    let mut log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "evenkeel",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": knobs::ALL.iter().map(|knob| rule(knob)).collect::<Vec<_>>(),
            }},
            "automationDetails": {"id": format!("evenkeel-audit/{}/", audit.goal)},
            "invocations": [{"executionSuccessful": true, "toolExecutionNotifications": notifications}],
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    if let Some(page) = page() {
        log["runs"][0]["tool"]["driver"]["informationUri"] = page.into();
    }
    json::document(&log).map_err(|error| Failure::text(exit::NOT_POSSIBLE, "write the answer as SARIF", error))
}

/// The address of the project's page, from the workspace's manifest. `None` if the manifest has no address.
fn page() -> Option<&'static str> {
    Some(env!("CARGO_PKG_REPOSITORY")).filter(|page| !page.is_empty())
}

fn rule(knob: &Knob) -> Value {
    let sources: String = knob.sources.iter().map(|source| format!("\n- {}: {}", source.title, source.says)).collect();
    let mut rule = json!({
        "id": knob.id,
        "shortDescription": {"text": knob.title},
        "fullDescription": {"text": knob.mechanism},
        "help": {
            "text": format!("{}\nRisk: {}\nShows in: {}\nSources:{sources}", knob.mechanism, knob.risk, knob.shows_in),
        },
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": [knob.area]},
    });
    if let Some(page) = page() {
        rule["helpUri"] = format!("{page}/blob/main/docs/knobs.md#{}", knob.id.replace('.', "")).into();
    }
    rule
}

/// The result for a finding. `None` if the finding needs no action, because services show every result as a problem.
fn result(finding: &Finding<'_>, files: &Files) -> Option<Value> {
    let advice = finding.advice;
    // A result that is not a failure has the level "none" (section 3.27.10).
    let (kind, level) = match advice.state {
        State::Set => ("fail", "warning"),
        State::OwnedBy | State::Blocked => ("fail", "note"),
        State::Unknown => ("open", "none"),
        State::Keep | State::NotHere | State::Removed => return None,
    };
    let mut location = json!({"logicalLocations": [{"fullyQualifiedName": advice.id, "kind": "resource"}]});
    if let Some(file) = files.of_advice(advice) {
        location["physicalLocation"] = json!({"artifactLocation": {"uri": file_uri(file)}});
    }
    let mut result = json!({
        "ruleId": advice.knob,
        "ruleIndex": knobs::ALL.iter().position(|knob| knob.id == advice.knob),
        "kind": kind,
        "level": level,
        "message": {"text": message(advice)},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: advice.id},
        "properties": {
            "state": advice.state.name(),
            "effect": effect(advice.effect),
            "when": advice.when,
            "current": advice.current,
            "wanted": advice.wanted,
        },
    });
    if let Some(waiver) = finding.waived {
        result["suppressions"] = json!([{
            "kind": "external",
            "status": "accepted",
            "justification": format!("{} (until {})", waiver.reason, waiver.expires),
        }]);
    }
    Some(result)
}

fn message(advice: &Advice) -> String {
    let values = match (&advice.current, &advice.wanted) {
        (Some(current), Some(wanted)) => format!(" is {current:?}, {wanted:?} would suit better"),
        (None, Some(wanted)) => format!(": {wanted:?} would suit"),
        _ => String::new(),
    };
    format!("{}{values}: {}", advice.id, advice.reason)
}

/// The file of each setting whose finding needs action, by knob and place.
struct Files(BTreeMap<(&'static str, String), String>);

impl Files {
    fn from_audit(audit: &Audit<'_>, facts: &Facts) -> Files {
        let mut files = BTreeMap::new();
        for knob in knobs::ALL.iter().copied() {
            let asks = |finding: &Finding<'_>| finding.advice.knob == knob.id && finding.advice.state.is_finding();
            if !audit.findings.iter().any(asks) {
                continue;
            }
            // Only the path matters here, so the value is arbitrary.
            let setting = Setting { knob, place: None, value: String::new() };
            for step in Plan::from_settings(facts, &[setting]).map(|plan| plan.steps).unwrap_or_default() {
                let path = match step.action {
                    Action::Write { path, .. } | Action::Hold { path } => path,
                    Action::KernelArgument { .. } => "/proc/cmdline".to_owned(),
                    Action::Process | Action::ByHand { .. } => continue,
                };
                files.insert((knob.id, step.place), path);
            }
        }
        Files(files)
    }

    fn of_advice(&self, advice: &Advice) -> Option<&str> {
        self.0.get(&(advice.knob, advice.place.clone())).map(String::as_str)
    }
}

/// The URI of an absolute path.
fn file_uri(path: &str) -> String {
    const IN_A_PATH: &AsciiSet = &RESERVED.remove(b'/');
    format!("file://{}", utf8_percent_encode(path, IN_A_PATH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uris() {
        let table = [
            ("/proc/sys/net/core/rmem_max", "file:///proc/sys/net/core/rmem_max"),
            ("/sys/class/net/a:1 ä/x", "file:///sys/class/net/a%3A1%20%C3%A4/x"),
        ];
        for (path, uri) in table {
            assert_eq!(file_uri(path), uri);
        }
    }
}
