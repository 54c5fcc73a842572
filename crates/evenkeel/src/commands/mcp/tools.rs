//! Defines each tool: its name, its description, the type of its arguments, and its command line.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::commands::schema;

/// The longest measurement.
const SECONDS_MAX: u64 = 30;
const SECONDS_USUAL: u64 = 10;
/// The time limit of a command that measures nothing.
const LIMIT: Duration = Duration::from_secs(60);
/// The time that a meter may take in addition to its measurement.
const METER_OVERHEAD: Duration = Duration::from_secs(5);
/// The number of seconds after which `apply` undoes an unconfirmed change.
const TRY_SECONDS_USUAL: u64 = 60;

/// A command line.
pub(super) struct Wanted {
    pub(super) words: Vec<String>,
    /// The last words of the line.
    pub(super) last: Vec<String>,
    /// The text for the command's standard input.
    pub(super) input: Option<String>,
    pub(super) takes_host: bool,
    pub(super) takes_state: bool,
    pub(super) limit: Duration,
}

impl Wanted {
    fn new(words: &[&str]) -> Wanted {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Wanted { words, last: Vec::new(), input: None, takes_host: true, takes_state: false, limit: LIMIT }
    }

    fn of_journal(words: &[&str]) -> Wanted {
        Wanted { takes_state: true, ..Wanted::new(words) }
    }

    fn option(mut self, name: &str, value: Option<impl ToString>) -> Wanted {
        self.words.extend(value.map(|value| format!("{name}={}", value.to_string())));
        self
    }

    /// Adds a word that the command must not read as an option.
    fn last(mut self, what: &str, word: String) -> Result<Wanted, String> {
        if word.starts_with('-') || word.is_empty() {
            return Err(format!("{what} must not be empty or begin with `-`"));
        }
        self.last.push(word);
        Ok(self)
    }
}

/// A tool.
pub(super) struct ToolSpec {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Whether the tool changes settings of the machine.
    pub(super) changes: bool,
    /// Whether the tool needs a running machine.
    is_live: bool,
    input: fn() -> JsonObject,
    /// The schemas of its answers.
    answers: &'static [&'static str],
    pub(super) line: fn(JsonObject) -> Result<Wanted, String>,
}

fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| error.to_string())
}

fn schema_of<T: JsonSchema>() -> JsonObject {
    let generator = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = generator.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.as_object().cloned().unwrap_or_default()
}

/// Defines a tool, with the type of its arguments and the function that converts them to a command line.
macro_rules! tool {
    ($name:ident($input:ty) -> $answers:expr, changes: $changes:literal, live: $live:literal, $title:literal, $description:literal) => {
        ToolSpec {
            name: stringify!($name),
            title: $title,
            description: $description,
            changes: $changes,
            is_live: $live,
            input: schema_of::<$input>,
            answers: $answers,
            line: |arguments| $name(parsed::<$input>(arguments)?),
        }
    };
}

const METERS: &[&str] = &[
    "measure-clock",
    "measure-wake",
    "measure-gaps",
    "measure-quantum",
    "measure-memory",
    "measure-frequency",
    "measure-imbalance",
    "measure-rates",
    "measure-ticks",
];

static TOOLS: [ToolSpec; 11] = [
    tool!(inspect(Inspect) -> &["inspect"], changes: false, live: false, "Inspect the machine",
        "What this machine is: hypervisor, cloud instance, CPUs, memory nodes, clock, idle and frequency states, network interfaces, \
         interrupts, disks, kernel. A fact that cannot be read is an object with `unknown` and `why`."),
    tool!(audit(Audit) -> &["audit"], changes: false, live: false, "Advice on settings",
        "Which kernel settings suit a latency-sensitive server on this machine: each with its state (set, keep, blocked, …), the value in \
         force, the recommended value, the reason, the risk and sources. The most urgent come first."),
    tool!(explain(Explain) -> &["explain"], changes: false, live: false, "Explain a setting",
        "Everything about one setting (knob): how it works, its risk, its values here, the counters that show its effect, how to undo it."),
    tool!(guide(GuideText) -> &["guide"], changes: false, live: false, "Judge a tuning guide",
        "What each line of a tuning guide is on this machine: already so, the kernel's default, outdated, dangerous, not here and why, or a \
         setting to try. Pass `text` (a sysctl.conf, a TuneD profile, a shell script, a page in Markdown or HTML, Ansible tasks) or `name` (a \
         file, or a guide of the library such as `tuned:network-latency`). evenkeel reads a guide as text and runs nothing of it."),
    tool!(verify(NoArguments) -> &["verify"], changes: false, live: false, "Verify applied settings",
        "Whether the settings that evenkeel applied are still in force. `drift` lists those that are not, and the command that restores them."),
    tool!(history(NoArguments) -> &["history"], changes: false, live: false, "History of changes",
        "All transactions that evenkeel applied to this machine, with their status."),
    tool!(report(Report) -> &["prove"], changes: false, live: false, "Report of a trial",
        "The result of a stored `evenkeel prove` session: the verdict (better, worse, same, undecided, not-engaged), its confidence \
         interval and caveats."),
    tool!(measure(Measure) -> METERS, changes: false, live: true, "Measure the machine",
        "Measures what this machine does to a server, for at most 30 s: pauses of CPUs (gaps), the hypervisor's time slices (quantum), \
         wake-up latency (wake), cost of the clock (clock), CPU time and pressure (rates), load by CPU (imbalance), memory, frequency, and \
         the ticks of a running server (ticks, needs `pid`)."),
    tool!(apply(Apply) -> &["apply"], changes: true, live: true, "Apply settings",
        "Sets values until the next boot, as one transaction: if one fails, all are undone. The change undoes itself after `try_seconds` \
         (60 by default) unless `confirm` follows."),
    tool!(revert(Transaction) -> &["revert"], changes: true, live: true, "Revert settings",
        "Restores the values from before a transaction, or from before all of them."),
    tool!(confirm(Transaction) -> &["confirm"], changes: true, live: true, "Confirm settings",
        "Keeps what `apply` set: it does not undo itself any more."),
];

/// The tools for a live machine, or for a captured or mounted one.
pub(super) fn offered(is_live: bool, allow_changes: bool) -> Vec<&'static ToolSpec> {
    TOOLS.iter().filter(|tool| (is_live || !tool.is_live) && (allow_changes || !tool.changes)).collect()
}

impl ToolSpec {
    /// The description of the tool in `tools/list`.
    pub(super) fn described(&self) -> Tool {
        let mut tool = Tool::new(self.name, self.description, Arc::new((self.input)()));
        tool.title = Some(self.title.to_owned());
        tool.output_schema = Some(Arc::new(self.output()));
        let hints = ToolAnnotations::new().read_only(!self.changes).open_world(false);
        tool.annotations = Some(if self.changes { hints.destructive(true) } else { hints });
        tool
    }

    /// The schema of the tool's answer. The root is an object, even if the tool has several answers.
    fn output(&self) -> JsonObject {
        let mut schema = Value::Object(match self.answers {
            [name] => schema::parsed(name).unwrap_or_default(),
            names => alternatives(names),
        });
        remove_descriptions(&mut schema);
        match schema {
            Value::Object(schema) => schema,
            _ => JsonObject::new(),
        }
    }
}

/// Removes the descriptions of fields.
/// A client passes the list of tools to a model, and these descriptions would double its length.
/// `evenkeel schema` prints them.
fn remove_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            // Keep a field that is named `description`: its value is a schema, not a text.
            map.retain(|key, value| key != "description" || !value.is_string());
            map.values_mut().for_each(remove_descriptions);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_descriptions),
        _ => {}
    }
}

/// Builds one schema for several alternative answers. Each answer keeps its definitions, with its own name as a prefix.
fn alternatives(names: &[&str]) -> JsonObject {
    let (mut schemas, mut definitions) = (Vec::new(), JsonObject::new());
    for name in names {
        let mut schema = Value::Object(schema::parsed(name).unwrap_or_default());
        prefix_references(&mut schema, name);
        let own = schema.as_object_mut().and_then(|schema| schema.remove("$defs"));
        for (key, value) in own.as_ref().and_then(Value::as_object).into_iter().flatten() {
            definitions.insert(format!("{name}.{key}"), value.clone());
        }
        schemas.push(schema);
    }
    let whole = json!({ "type": "object", "anyOf": schemas, "$defs": definitions });
    whole.as_object().cloned().unwrap_or_default()
}

fn prefix_references(schema: &mut Value, name: &str) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(path)) = map.get_mut("$ref") {
                *path = path.replacen("#/$defs/", &format!("#/$defs/{name}."), 1);
            }
            map.values_mut().for_each(|value| prefix_references(value, name));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| prefix_references(value, name)),
        _ => {}
    }
}

/// What the host is wanted for.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum GoalName {
    Latency,
    Throughput,
    Density,
}

impl GoalName {
    fn name(self) -> &'static str {
        match self {
            GoalName::Latency => "latency",
            GoalName::Throughput => "throughput",
            GoalName::Density => "density",
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Inspect {
    /// Also return the counters of the kernel and of the network drivers.
    #[serde(default)]
    counters: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Audit {
    /// What to favour if settings conflict. The default is latency.
    goal: Option<GoalName>,
    /// What you know about the server, for example `pps=3840,cpus=2,players=64`.
    server: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Explain {
    /// The id of the setting, for example `net.core.busy_poll`. `audit` returns the ids as `knob`.
    knob: String,
    /// What to favour if settings conflict. The default is latency.
    goal: Option<GoalName>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GuideText {
    /// The text of the guide.
    text: Option<String>,
    /// A file, or a guide of the library.
    name: Option<String>,
    /// What to favour if settings conflict. The default is latency.
    goal: Option<GoalName>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Report {
    /// The file of the session. The default is the last session.
    file: Option<String>,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum MeterName {
    Clock,
    Wake,
    Gaps,
    Quantum,
    Memory,
    Frequency,
    Imbalance,
    Rates,
    Ticks,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Measure {
    /// The meter.
    meter: MeterName,
    /// How long to measure. The default is 10.
    /// The meters clock, memory and frequency choose their durations themselves.
    #[schemars(range(min = 1, max = 30))]
    seconds: Option<u64>,
    /// The process to measure, for `ticks` (required) and `rates`.
    #[schemars(range(min = 1))]
    pid: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Apply {
    /// What to set, each as `KNOB=VALUE` or `KNOB@PLACE=VALUE`.
    #[schemars(length(min = 1))]
    settings: Vec<String>,
    /// After how many seconds the change undoes itself unless `confirm` follows. The default is 60.
    #[schemars(range(min = 1))]
    try_seconds: Option<u64>,
    /// Apply without a time limit. `revert` still undoes the change.
    #[serde(default)]
    without_limit: bool,
    /// Only return the plan, and change nothing.
    #[serde(default)]
    plan_only: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Transaction {
    /// The number of the transaction, as `history` returns it. The default is all transactions.
    transaction: Option<u64>,
}

fn inspect(input: Inspect) -> Result<Wanted, String> {
    Ok(Wanted::new(if input.counters { &["inspect", "--counters"] } else { &["inspect"] }))
}

fn audit(input: Audit) -> Result<Wanted, String> {
    Ok(Wanted::new(&["audit"]).option("--goal", input.goal.map(GoalName::name)).option("--server", input.server))
}

fn explain(input: Explain) -> Result<Wanted, String> {
    Wanted::new(&["explain"]).option("--goal", input.goal.map(GoalName::name)).last("knob", input.knob)
}

fn guide(input: GuideText) -> Result<Wanted, String> {
    let wanted = Wanted::new(&["guide"]).option("--goal", input.goal.map(GoalName::name));
    match (input.text, input.name) {
        (Some(text), None) => Ok(Wanted { last: vec!["-".to_owned()], input: Some(text), ..wanted }),
        (None, Some(name)) => wanted.last("name", name),
        _ => Err("pass either text or name".to_owned()),
    }
}

fn verify(_: NoArguments) -> Result<Wanted, String> {
    Ok(Wanted::of_journal(&["verify"]))
}

fn history(_: NoArguments) -> Result<Wanted, String> {
    Ok(Wanted::of_journal(&["history"]))
}

fn report(input: Report) -> Result<Wanted, String> {
    let wanted = Wanted { takes_host: false, ..Wanted::of_journal(&["prove", "report"]) };
    match input.file {
        Some(file) => wanted.last("file", file),
        None => Ok(wanted),
    }
}

fn measure(input: Measure) -> Result<Wanted, String> {
    use MeterName as M;
    let (name, takes_seconds, takes_pid) = match input.meter {
        M::Clock => ("clock", false, false),
        M::Wake => ("wake", true, false),
        M::Gaps => ("gaps", true, false),
        M::Quantum => ("quantum", true, false),
        M::Memory => ("memory", false, false),
        M::Frequency => ("frequency", false, false),
        M::Imbalance => ("imbalance", true, false),
        M::Rates => ("rates", true, true),
        M::Ticks => ("ticks", true, true),
    };
    let seconds = input.seconds.unwrap_or(SECONDS_USUAL);
    if !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("seconds must be 1 to {SECONDS_MAX}"));
    }
    match (takes_seconds, takes_pid, input.meter, input.pid) {
        (false, _, _, _) if input.seconds.is_some() => return Err(format!("{name} takes no seconds")),
        (_, false, _, Some(_)) => return Err(format!("{name} takes no pid")),
        (_, _, M::Ticks, None) => return Err("ticks needs pid".to_owned()),
        _ => {}
    }
    let limit = Duration::from_secs(if takes_seconds { seconds } else { SECONDS_MAX }) + METER_OVERHEAD;
    let wanted = Wanted { limit, takes_host: false, ..Wanted::new(&["measure", name]) };
    Ok(wanted.option("--seconds", takes_seconds.then_some(seconds)).option("--pid", input.pid))
}

fn apply(input: Apply) -> Result<Wanted, String> {
    if input.settings.is_empty() {
        return Err("settings must not be empty".to_owned());
    }
    let mut wanted = Wanted { takes_host: false, ..Wanted::of_journal(&["apply"]) };
    wanted = match (input.plan_only, input.without_limit, input.try_seconds) {
        (_, true, Some(_)) => return Err("try_seconds and without_limit exclude each other".to_owned()),
        (true, _, _) => Wanted { words: vec!["apply".to_owned(), "--plan-only".to_owned()], ..wanted },
        (false, true, None) => wanted,
        (false, false, seconds) => wanted.option("--try", Some(seconds.unwrap_or(TRY_SECONDS_USUAL))),
    };
    for setting in input.settings {
        // Without `=`, the word would be the name of a plan file.
        if !setting.contains('=') {
            return Err(format!("{setting:?} is no KNOB=VALUE"));
        }
        wanted = wanted.last("a setting", setting)?;
    }
    Ok(wanted)
}

fn revert(input: Transaction) -> Result<Wanted, String> {
    transaction("revert", input)
}

fn confirm(input: Transaction) -> Result<Wanted, String> {
    transaction("confirm", input)
}

fn transaction(command: &str, input: Transaction) -> Result<Wanted, String> {
    let wanted = Wanted { takes_host: false, ..Wanted::of_journal(&[command]) };
    match input.transaction {
        Some(number) => wanted.last("transaction", number.to_string()),
        None => Ok(wanted),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(name: &str, arguments: Value, expected: Expect) {
        let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
        let line = match (tool.line)(arguments.as_object().cloned().unwrap()) {
            Ok(wanted) => format!("{} ({} s)", [wanted.words, wanted.last].concat().join(" "), wanted.limit.as_secs()),
            Err(why) => why,
        };
        expected.assert_eq(&line);
    }

    #[test]
    fn arguments_become_a_command_line() {
        check("inspect", json!({ "counters": true }), expect!["inspect --counters (60 s)"]);
        check(
            "audit",
            json!({ "goal": "density", "server": "cpus=2" }),
            expect!["audit --goal=density --server=cpus=2 (60 s)"],
        );
        check("explain", json!({ "knob": "vm.swappiness" }), expect!["explain vm.swappiness (60 s)"]);
        check("guide", json!({ "text": "vm.swappiness=1" }), expect!["guide - (60 s)"]);
        check(
            "guide",
            json!({ "name": "tuned:network-latency", "goal": "latency" }),
            expect!["guide --goal=latency tuned:network-latency (60 s)"],
        );
        check("report", json!({}), expect!["prove report (60 s)"]);
        check("measure", json!({ "meter": "gaps", "seconds": 30 }), expect!["measure gaps --seconds=30 (35 s)"]);
        check("measure", json!({ "meter": "ticks", "pid": 7 }), expect!["measure ticks --seconds=10 --pid=7 (15 s)"]);
        check("apply", json!({ "settings": ["a=1", "b@c=2"] }), expect!["apply --try=60 a=1 b@c=2 (60 s)"]);
        check("apply", json!({ "settings": ["a=1"], "plan_only": true }), expect!["apply --plan-only a=1 (60 s)"]);
        check("apply", json!({ "settings": ["a=1"], "without_limit": true }), expect!["apply a=1 (60 s)"]);
        check("revert", json!({ "transaction": 3 }), expect!["revert 3 (60 s)"]);
    }

    #[test]
    fn no_argument_becomes_an_option_or_a_file() {
        check(
            "explain",
            json!({ "knob": "--output=/etc/passwd" }),
            expect!["knob must not be empty or begin with `-`"],
        );
        check("guide", json!({ "name": "-" }), expect!["name must not be empty or begin with `-`"]);
        check("guide", json!({ "text": "", "name": "x" }), expect!["pass either text or name"]);
        check("report", json!({ "file": "-x" }), expect!["file must not be empty or begin with `-`"]);
        check(
            "apply",
            json!({ "settings": ["--persist=1"] }),
            expect!["a setting must not be empty or begin with `-`"],
        );
        check("apply", json!({ "settings": ["/etc/plan.json"] }), expect![[r#""/etc/plan.json" is no KNOB=VALUE"#]]);
        check("apply", json!({ "settings": [] }), expect!["settings must not be empty"]);
        check("measure", json!({ "meter": "gaps", "seconds": 31 }), expect!["seconds must be 1 to 30"]);
        check("measure", json!({ "meter": "ticks" }), expect!["ticks needs pid"]);
        check(
            "measure",
            json!({ "meter": "disk" }),
            expect![
                "unknown variant `disk`, expected one of `clock`, `wake`, `gaps`, `quantum`, `memory`, `frequency`, `imbalance`, `rates`, `ticks`"
            ],
        );
        check("inspect", json!({ "x": 1 }), expect!["unknown field `x`, expected `counters`"]);
        check("verify", json!({ "x": 1 }), expect!["unknown field `x`, there are no fields"]);
    }

    #[test]
    fn every_tool_has_the_schemas_of_its_answers() {
        for tool in &TOOLS {
            assert!(tool.answers.iter().all(|name| schema::parsed(name).is_some()), "{}", tool.name);
            let described = tool.described();
            assert_eq!(described.input_schema["type"], "object", "{}", tool.name);
            let output = described.output_schema.unwrap();
            assert_eq!(output["type"], "object", "{}", tool.name);
            assert!(!serde_json::to_string(&output).unwrap().contains("\"description\":\""), "{}", tool.name);
        }
    }

    #[test]
    fn a_field_named_description_stays() {
        let mut schema = json!({ "description": "Gone.", "properties": { "description": { "type": "string", "description": "Gone." } } });
        remove_descriptions(&mut schema);
        assert_eq!(schema, json!({ "properties": { "description": { "type": "string" } } }));
    }
}
