//! Judges each setting of a guide for one machine, before anything runs: its state there, and whether evenkeel can try it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::line::{Ask, Bound, Guide, Target};
use super::readings::Readings;
use super::{arguments, outdated, places};
use crate::advice::advise_on;
use crate::fact::Fact;
use crate::facts::{Facts, Version};
use crate::finding::{Against, State};
use crate::goal::AdviceContext;
use crate::knob::{Knob, Place, TakesEffect};
use crate::knobs;
use crate::never::{self, Never};
use crate::number::kernel_number;
use crate::plan::{Action, Plan};
use crate::setting::Setting;
use crate::sysctl;
use crate::value::SettingError;

/// The state of a guide's setting on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SettingState {
    /// It would change the machine, and can be tried.
    Try,
    /// It is in force already.
    AlreadySo,
    /// A later line sets the same thing, and wins.
    Overridden,
    /// It takes effect after a reboot.
    NeedsReboot,
    /// evenkeel does not set it; the user can.
    ByHand,
    /// This machine or its container does not have it, or it has no effect here.
    NotHere,
    /// It would take effect, and do harm on this machine.
    NotAdvised,
    /// The kernel has removed or renamed it, or ignores it.
    Outdated,
    /// evenkeel does not accept the value: it is out of range, or of another form.
    BadValue,
    /// It can cut the connection, stop the machine or open it: evenkeel never writes it.
    Dangerous,
    /// Its present value is not known, so it could not be restored.
    Unknown,
}

impl SettingState {
    /// Every state, in the order of pages.
    pub const ALL: [SettingState; 11] = [
        SettingState::Try,
        SettingState::AlreadySo,
        SettingState::Overridden,
        SettingState::NeedsReboot,
        SettingState::ByHand,
        SettingState::NotHere,
        SettingState::NotAdvised,
        SettingState::Outdated,
        SettingState::BadValue,
        SettingState::Dangerous,
        SettingState::Unknown,
    ];
}

/// One setting of a guide, judged.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The index of its line in the guide.
    pub line: usize,
    /// The setting, as the guide has it.
    pub asked: String,
    /// The knob's id, if evenkeel has one. For a sysctl without a knob in the list, `sysctl:NAME`.
    pub knob: Option<&'static str>,
    /// The setting, if evenkeel can try it.
    pub setting: Option<Setting>,
    /// The value in force.
    pub current: Option<String>,
    /// Its state on this machine.
    pub state: SettingState,
    /// Why.
    pub why: String,
    /// Whether the value is the kernel's default.
    pub is_default: bool,
}

/// The maximum number of settings that the patterns of places in one guide may add.
const MORE_MAX: usize = 20_000;

/// Judges every setting of a guide.
pub fn judge(facts: &Facts, readings: &Readings, context: &AdviceContext, guide: &Guide) -> Vec<Judged> {
    let judge = Judge { facts, readings, context };
    let mut more = MORE_MAX;
    let at_each = guide.asks().flat_map(|(line, ask)| {
        places::at_each_place(facts, ask, &mut more).into_iter().map(move |ask| (line, ask)).collect::<Vec<_>>()
    });
    let mut all: Vec<Judged> = at_each.map(|(line, ask)| judge.ask(line, &ask)).collect();
    override_earlier(guide, &mut all);
    all
}

struct Judge<'a> {
    facts: &'a Facts,
    readings: &'a Readings,
    context: &'a AdviceContext,
}

/// A state with its reason.
type Because = (SettingState, String);

impl Judge<'_> {
    fn ask(&self, line: usize, ask: &Ask) -> Judged {
        let mut judged = Judged {
            line,
            asked: ask.to_string(),
            knob: None,
            setting: None,
            current: None,
            state: SettingState::ByHand,
            why: String::new(),
            is_default: false,
        };
        let (state, why) = match &ask.target {
            Target::Knob { id, place } => match knobs::find(id) {
                Ok(knob) => self.knob(&mut judged, knob, place.clone(), ask),
                Err(error) => (SettingState::BadValue, error.to_string()),
            },
            Target::Sysctl(path) => self.sysctl(&mut judged, path, ask),
            Target::Argument(name) => self.argument(&mut judged, name, &ask.value),
            Target::NoMask { id, .. } => {
                judged.knob = Some(id);
                (
                    SettingState::BadValue,
                    "the kernel reads a hexadecimal mask of CPUs there, such as c for CPUs 2-3".to_owned(),
                )
            }
            Target::File(path) => (SettingState::ByHand, format!("evenkeel has no knob for {path}")),
            Target::Tool(_) => (SettingState::ByHand, "evenkeel has no knob for it".to_owned()),
        };
        (judged.state, judged.why) = (state, why);
        if state != SettingState::Try {
            judged.setting = None;
        }
        judged
    }

    fn kernel(&self) -> Option<(u32, u32)> {
        self.facts.kernel.version.known().map(|version: &Version| (version.major, version.minor))
    }

    fn sysctl(&self, judged: &mut Judged, path: &str, ask: &Ask) -> Because {
        let present = self.readings.value(&format!("{}{path}", sysctl::FOLDER));
        let kernel = self.kernel();
        let is_past = |old: &&outdated::Outdated| {
            !old.is_gone || present.is_absent() || kernel.is_some() && present.known().is_none()
        };
        if let Some(old) = outdated::sysctl(path, kernel).filter(is_past) {
            return (SettingState::Outdated, old.why());
        }
        match never::reason(path) {
            Some(Never::Harm(_)) if never::protects(path, &ask.value) => {
                let why = "it protects the machine and does not make it faster: evenkeel leaves it to you";
                return (SettingState::ByHand, why.to_owned());
            }
            Some(Never::Harm(why)) => return (SettingState::Dangerous, format!("evenkeel never writes it: {why}")),
            Some(Never::Outside) => {
                return (SettingState::ByHand, format!("evenkeel does not try it: {}", Never::Outside.why()));
            }
            None => {}
        }
        if path.contains('*') {
            return (SettingState::ByHand, "it is a pattern of several sysctls: name each".to_owned());
        }
        match &present {
            Fact::Absent { .. } => (
                SettingState::NotHere,
                "this kernel has no such sysctl: the name is wrong, or its module is not loaded".to_owned(),
            ),
            Fact::Known(text) if text.trim().is_empty() => {
                (SettingState::Unknown, "its value is empty, which a write could not restore".to_owned())
            }
            Fact::Known(text) => match sysctl::find(&sysctl::dotted(path)) {
                Ok(_) if !is_alike(text, &ask.value) => (
                    SettingState::BadValue,
                    format!("the kernel has {:?} there, which is of another form", one_line(text)),
                ),
                Ok(knob) => self.knob(judged, knob, None, ask),
                Err(error) => (SettingState::Dangerous, error.to_string()),
            },
            unknown => (SettingState::Unknown, unknown.unknown_why().unwrap_or_default().to_owned()),
        }
    }

    fn argument(&self, judged: &mut Judged, name: &str, value: &str) -> Because {
        if let Some(why) = arguments::danger(name, value) {
            return (SettingState::Dangerous, why.to_owned());
        }
        if let Some(old) = outdated::argument(name, self.kernel()) {
            return (SettingState::Outdated, old.why());
        }
        judged.current = self.facts.kernel.argument(name).map(str::to_owned);
        match judged.current.as_deref() == Some(value) {
            true => (SettingState::AlreadySo, "the kernel was started with it".to_owned()),
            false => (SettingState::NeedsReboot, "a kernel argument takes effect after a reboot".to_owned()),
        }
    }

    fn knob(&self, judged: &mut Judged, knob: &'static Knob, place: Option<String>, ask: &Ask) -> Because {
        judged.knob = Some(knob.id);
        if let Place::KernelArgument { name } = knob.place
            && let Some(why) = arguments::danger(name, &ask.value)
        {
            return (SettingState::Dangerous, why.to_owned());
        }
        let value = match knob.check(&ask.value) {
            Ok(value) => value,
            Err(SettingError::BadValue { takes, .. }) => {
                return (SettingState::BadValue, format!("evenkeel accepts {takes} there"));
            }
            Err(error) => return (SettingState::Dangerous, error.to_string()),
        };
        if let Some(why) = knob.extras.max_before.and_then(|most| most.refusal(self.facts, &value)) {
            return (SettingState::BadValue, why);
        }
        judged.is_default = knob.default.split([' ', ',', ';', ':']).next() == Some(value.as_str());
        if knob.extras.dangerous_values.contains(&value.as_str()) {
            return (SettingState::Dangerous, knob.risk.to_owned());
        }
        if let Some(why) = knob.extras.reject_for.and_then(|reject_for| reject_for(self.facts, &value)) {
            return (SettingState::Dangerous, why);
        }
        if let Some(because) = self.not_here(knob, place.as_deref(), &value) {
            return because;
        }
        let setting = Setting { knob, place, value };
        match Plan::from_settings(self.facts, std::slice::from_ref(&setting)) {
            Ok(plan) => self.planned(judged, setting, &plan, ask.bound),
            Err(error) => (SettingState::NotHere, error.why),
        }
    }

    /// The state and the reason, if the knob's advice speaks against this setting at every place that it covers: the value does harm, the
    /// kernel no longer has the knob, or the knob does not apply or cannot be changed here.
    fn not_here(&self, knob: &'static Knob, place: Option<&str>, value: &str) -> Option<Because> {
        let mut advice = advise_on(knob, self.facts, self.context);
        if advice.iter().any(|advice| Some(advice.place.as_str()) == place) {
            advice.retain(|advice| Some(advice.place.as_str()) == place);
        }
        let first = advice.first()?;
        if advice.iter().all(|advice| advice.against.has(value)) {
            return Some((SettingState::NotAdvised, first.reason.clone()));
        }
        // The reason of the advice concerns other values.
        if advice.iter().any(|advice| advice.against != Against::Nothing) {
            return None;
        }
        let all = |states: &[State]| advice.iter().all(|advice| states.contains(&advice.state));
        if all(&[State::Removed]) {
            return Some((SettingState::Outdated, first.reason.clone()));
        }
        all(&[State::NotHere, State::Removed, State::Blocked]).then(|| (SettingState::NotHere, first.reason.clone()))
    }

    fn planned(&self, judged: &mut Judged, setting: Setting, plan: &Plan, bound: Bound) -> Because {
        let (mut all_so, mut reboot, mut unknown) = (true, false, None);
        for step in &plan.steps {
            let present = match &step.action {
                Action::Write { path, reading, .. } => match self.readings.value(path) {
                    Fact::Known(text) => reading.value(&text),
                    other => {
                        unknown = unknown.or_else(|| other.unknown_why().map(str::to_owned));
                        None
                    }
                },
                Action::KernelArgument { .. } => {
                    reboot = true;
                    self.facts.kernel.argument(&step.place).map(str::to_owned)
                }
                Action::ByHand { todo } => {
                    if !setting.knob.extras.process.is_some_and(|process| process.while_it_runs) {
                        return (SettingState::ByHand, todo.clone());
                    }
                    None
                }
                Action::Hold { .. } | Action::Process => None,
            };
            all_so &= present.as_deref().is_some_and(|present| is_so(present, &step.wanted, bound));
            judged.current = judged.current.take().or(present);
        }
        match unknown {
            _ if all_so => (SettingState::AlreadySo, "it is in force already".to_owned()),
            _ if reboot => {
                let risk = risk_of(&setting, judged.current.as_deref()).map(|risk| format!("; risk: {risk}"));
                let why = format!("a kernel argument takes effect after a reboot{}", risk.unwrap_or_default());
                (SettingState::NeedsReboot, why)
            }
            Some(why) => (SettingState::Unknown, why),
            None if setting.knob.takes_effect == TakesEffect::NewInterfaces => {
                (SettingState::NotHere, "it takes effect only on interfaces that come up later".to_owned())
            }
            None => {
                let why = said(&setting, plan, judged.current.as_deref());
                judged.setting = Some(setting);
                (SettingState::Try, why)
            }
        }
    }
}

/// The note for the user about a setting that can be tried.
fn said(setting: &Setting, plan: &Plan, present: Option<&str>) -> String {
    match (setting.knob.place, plan.steps.first().map(|step| &step.action)) {
        (Place::FileSince { .. }, Some(Action::Write { path, .. })) if !path.starts_with(sysctl::FOLDER) => {
            format!("in this kernel it is {path}")
        }
        _ if setting.knob.id.starts_with(sysctl::PREFIX) => {
            "evenkeel has no advice for this sysctl; the kernel checks the value".to_owned()
        }
        _ => risk_of(setting, present).map_or_else(
            || "evenkeel can try it, and restores the present value".to_owned(),
            |risk| format!("risk: {risk}"),
        ),
    }
}

/// The risk of the knob, if the value has it.
fn risk_of(setting: &Setting, present: Option<&str>) -> Option<&'static str> {
    let Setting { knob, value, .. } = setting;
    knob.extras.risk_at.has(value, present).then_some(knob.risk)
}

/// Whether the present value already satisfies the guide.
fn is_so(present: &str, wanted: &str, bound: Bound) -> bool {
    let numbers = || Some((present.parse::<i64>().ok()?, wanted.parse::<i64>().ok()?));
    let as_read = |word: &str| kernel_number(word).map_or_else(|| word.to_owned(), |number| number.to_string());
    let is_same = present.split_whitespace().map(as_read).eq(wanted.split_whitespace().map(as_read));
    is_same
        || match bound {
            Bound::Exactly => false,
            Bound::AtLeast => numbers().is_some_and(|(present, wanted)| present >= wanted),
            Bound::AtMost => numbers().is_some_and(|(present, wanted)| present <= wanted),
        }
}

/// Whether the wanted value has the form of the present one: the same number of numbers, or a word.
fn is_alike(present: &str, wanted: &str) -> bool {
    let numbers = |text: &str| text.split_whitespace().map(|word| kernel_number(word).is_some()).collect::<Vec<_>>();
    let (present, wanted) = (numbers(present), numbers(wanted));
    if present.iter().all(|is_number| *is_number) { present == wanted } else { wanted.len() == 1 || present.len() > 1 }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect()
}

/// If several lines set the same thing, the last one counts, as for `sysctl`. This also holds for the two knobs of an exclusive pair.
fn override_earlier(guide: &Guide, all: &mut [Judged]) {
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for at in (0..all.len()).rev() {
        let Some(key) = key_of(&all[at]) else { continue };
        let rival = last.get(&key).or_else(|| {
            let own = all[at].setting.as_ref().filter(|own| !own.knob.extras.side_effects.is_empty());
            own.and_then(|own| {
                let later =
                    last.values().find(|later| all[**later].setting.as_ref().is_some_and(|later| excludes(own, later)));
                later.filter(|later| **later > at)
            })
        });
        match rival.copied() {
            Some(later) => {
                let line = guide.lines.get(all[later].line);
                let own = guide.lines.get(all[at].line).and_then(|line| line.file.as_ref());
                let file = match line.and_then(|line| line.file.as_ref()) {
                    Some(file) if Some(file) != own => format!(" of {file}"),
                    None if own.is_some() => format!(" of {}", guide.name),
                    _ => String::new(),
                };
                let line = line.map_or(0, |line| line.number);
                let same = all[later].asked == all[at].asked;
                let how = if same { "repeats it" } else { "sets another value, and wins" };
                all[at].why = format!("line {line}{file} {how}: {}", all[later].asked);
                all[at].state = SettingState::Overridden;
                all[at].setting = None;
            }
            None => {
                last.insert(key, at);
            }
        }
    }
}

/// What a setting changes, for settings that could take effect.
fn key_of(judged: &Judged) -> Option<String> {
    let counts = matches!(
        judged.state,
        SettingState::Try | SettingState::AlreadySo | SettingState::NeedsReboot | SettingState::ByHand
    );
    let name = judged.asked.split(['=', '>', '<']).next()?;
    (counts && judged.knob.is_some()).then(|| name.to_owned())
}

/// Whether two knobs are two forms of one limit: each resets the other.
fn excludes(one: &Setting, other: &Setting) -> bool {
    let resets =
        |one: &Knob, other: &Knob| other.place.files().iter().any(|path| one.extras.side_effects.contains(path));
    resets(one.knob, other.knob) && resets(other.knob, one.knob)
}
