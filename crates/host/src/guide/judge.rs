//! Judges each setting of a guide for one machine, before anything runs: the setting's state there, and whether evenkeel can try it.

use evenkeel_sys::CpuSet;

use super::compare::{is_alike, is_so, one_line};
use super::library::LibraryGuide;
use super::line::{Ask, Bound, Branch, Guide, Target};
use super::overrides::override_earlier;
use super::readings::Readings;
use super::reservations::Reservations;
use super::state::{Because, Judged, SettingState};
use super::{arguments, commands, config, hazards, outdated, places, refused, sysctls};
use crate::advice::advise_on;
use crate::fact::Fact;
use crate::facts::{Facts, Version};
use crate::finding::{Against, State};
use crate::goal::AdviceContext;
use crate::knob::{Knob, Place, TakesEffect, Values};
use crate::knobs;
use crate::number::kernel_number;
use crate::plan::{Action, Plan};
use crate::setting::Setting;
use crate::sysctl;
use crate::value::SettingError;

/// Why a setting that only the user can make is not tried.
const NO_KNOB: &str = "evenkeel has no knob for it";
/// The maximum number of settings that the patterns of places in one guide may add.
const MORE_MAX: usize = 20_000;

/// Judges every setting of a guide.
pub fn judge(facts: &Facts, readings: &Readings, context: &AdviceContext, guide: &Guide) -> Vec<Judged> {
    let judge = Judge { facts, readings, context };
    let mut more = MORE_MAX;
    let at_each = guide.asks().flat_map(|(line, ask)| {
        places::at_each_place(facts, ask, &mut more).into_iter().map(move |ask| (line, ask)).collect::<Vec<_>>()
    });
    let at_each = at_each.collect();
    let at_each = places::apart(facts, at_each, &mut more);
    let mut reservations = Reservations::new(facts);
    let one = |(line, ask): (usize, Ask)| {
        let mut judged = judge.ask(line, &ask);
        if let Some(why) = reservations.refusal(line, &ask) {
            (judged.state, judged.why, judged.setting) = (SettingState::Dangerous, why, None);
        }
        (judged, ask.branch)
    };
    let (mut all, branches): (Vec<Judged>, Vec<Branch>) = at_each.into_iter().map(one).unzip();
    override_earlier(guide, &mut all, &branches);
    all
}

struct Judge<'a> {
    facts: &'a Facts,
    readings: &'a Readings,
    context: &'a AdviceContext,
}

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
            Target::File(path) => match (hazards::file(path, &ask.value), hazards::remark(path, &ask.value)) {
                (Some(why), _) => (SettingState::Dangerous, why.to_owned()),
                (None, Some(why)) => (SettingState::ByHand, format!("{NO_KNOB}: {why}")),
                (None, None) => (SettingState::ByHand, NO_KNOB.to_owned()),
            },
            Target::Tool(text) => self.tool(text),
            Target::Unclear(_) => (SettingState::ByHand, NO_KNOB.to_owned()),
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
        let file = format!("{}{path}", sysctl::FOLDER);
        let present = self.readings.value(&file);
        if let Some(because) = sysctls::before_value(self.readings, self.kernel(), (path, &file), ask) {
            // A secret, such as a key, is not a number.
            let is_number = |text: &str| text.split_whitespace().all(|word| kernel_number(word).is_some());
            let is_shown = match because.0 {
                SettingState::AlreadySo => true,
                SettingState::ByHand | SettingState::Dangerous => present.known().is_some_and(|text| is_number(text)),
                _ => false,
            };
            judged.current = present.known().map(|text| one_line(text)).filter(|_| is_shown);
            return because;
        }
        if let Some(why) = refused::too_large(path, &ask.value) {
            return (SettingState::BadValue, why);
        }
        match &present {
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
        judged.current = self.facts.kernel.argument(name).map(str::to_owned);
        let is_so = judged.current.as_deref() == Some(value);
        if let Some(why) = arguments::danger(name, value).filter(|_| !(is_so && arguments::is_of_this_machine(name))) {
            return (SettingState::Dangerous, why.to_owned());
        }
        if let Some(why) = hazards::argument(self.facts, name, value) {
            return (SettingState::Dangerous, why);
        }
        if let Some(old) = outdated::argument(name, self.kernel()) {
            return (SettingState::Outdated, old.why());
        }
        if is_so {
            return (SettingState::AlreadySo, "the kernel was started with it".to_owned());
        }
        self.list_of_cpus(judged.current.as_deref(), name, value)
            .unwrap_or_else(|| (SettingState::NeedsReboot, after_reboot(None)))
    }

    /// Judges an argument whose knob takes a list of CPUs. The value may have words before the list, or the kernel's words in the list.
    fn list_of_cpus(&self, present: Option<&str>, name: &str, value: &str) -> Option<Because> {
        let is_it = |knob: &&&'static Knob| {
            matches!(knob.place, Place::KernelArgument { name: own } if own == name)
                && matches!(knob.values, Values::Cpus { .. })
        };
        let knob = *knobs::ALL.iter().find(is_it)?;
        let last = self.facts.cpus.possible.known()?.iter().last()?;
        let value = arguments::cpus(value, last)?.to_string();
        if let Some(because) = self.not_here(knob, None, &value) {
            return Some(because);
        }
        let setting = Setting { knob, place: None, value };
        Some(match Plan::from_settings(self.facts, std::slice::from_ref(&setting)) {
            Ok(_) => (SettingState::NeedsReboot, after_reboot(risk_of(&setting, present))),
            Err(error) => (SettingState::NotHere, error.why),
        })
    }

    fn tool(&self, text: &str) -> Because {
        let words: Vec<&str> = text.split_whitespace().collect();
        if let Some(why) = hazards::command(&words) {
            return (SettingState::Dangerous, why.to_owned());
        }
        let Some((called, why)) = commands::remark(&words) else {
            let why = profile(&words).or_else(|| config::remark(&words).map(str::to_owned));
            return (SettingState::ByHand, why.unwrap_or_else(|| NO_KNOB.to_owned()));
        };
        let knob = knobs::ALL.iter().find(|knob| knob.extras.called.contains(&called));
        knob.and_then(|knob| self.not_here(knob, None, "1")).unwrap_or((SettingState::ByHand, why))
    }

    fn knob(&self, judged: &mut Judged, knob: &'static Knob, place: Option<String>, ask: &Ask) -> Because {
        judged.knob = Some(knob.id);
        if let Place::KernelArgument { name } = knob.place
            && let Some(why) = arguments::danger(name, &ask.value)
        {
            return (SettingState::Dangerous, why.to_owned());
        }
        let (value, note) = match knob.check(&ask.value) {
            Ok(value) => self.narrowed(knob, value),
            Err(SettingError::BadValue { takes, .. }) => {
                return (SettingState::BadValue, format!("evenkeel accepts {takes} there"));
            }
            Err(error) => return (SettingState::Dangerous, error.to_string()),
        };
        if let Some(why) = knob.extras.max_before.and_then(|most| most.refusal(self.facts, &value)) {
            return (SettingState::BadValue, why);
        }
        judged.is_default = is_default(knob.default, &value);
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
            Ok(plan) => {
                let (state, why) = self.planned(judged, setting, &plan, ask.bound);
                (state, note.map_or_else(|| why.clone(), |note| format!("{note}; {why}")))
            }
            Err(error) => (SettingState::NotHere, error.why),
        }
    }

    /// The CPUs of a process that this machine has, and a note about the other CPUs: the kernel ignores them.
    fn narrowed(&self, knob: &Knob, value: String) -> (String, Option<String>) {
        let kept = || {
            let is_of_process = knob.extras.process.is_some() && matches!(knob.values, Values::Cpus { .. });
            let online = self.facts.cpus.online.known().filter(|_| is_of_process)?;
            let asked = CpuSet::parse_list(&value)?;
            let kept = asked.and(online);
            (!kept.is_empty() && kept != asked).then(|| {
                let noun = if kept.len() == 1 { "CPU" } else { "CPUs" };
                let note = format!("this machine runs CPUs {online}, so the kernel keeps {noun} {kept} of the list");
                (kept.to_string(), note)
            })
        };
        match kept() {
            Some((kept, note)) => (kept, Some(note)),
            None => (value, None),
        }
    }

    /// The state and the reason, if the knob's advice speaks against this setting at every place that it covers.
    /// The value does harm, the kernel no longer has the knob, or the knob does not apply or cannot be changed here.
    fn not_here(&self, knob: &'static Knob, place: Option<&str>, value: &str) -> Option<Because> {
        let mut advice = advise_on(knob, self.facts, self.context);
        if advice.iter().any(|advice| Some(advice.place.as_str()) == place) {
            advice.retain(|advice| Some(advice.place.as_str()) == place);
        }
        let first = advice.first()?;
        if advice.iter().all(|advice| advice.against.has(value)) {
            return Some((SettingState::NotAdvised, first.reason.clone()));
        }
        // The reason of the advice is about other values.
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
        let refusal = plan.steps.iter().find_map(|step| match &step.action {
            Action::Write { path, .. } => {
                let why = refused::not_offered(self.readings, path, &step.wanted)?;
                Some(match refused::may_load(path, &step.wanted) {
                    true => (SettingState::ByHand, loaded(&step.wanted, &why)),
                    false => (SettingState::NotHere, why),
                })
            }
            _ => None,
        });
        match unknown {
            _ if all_so => (SettingState::AlreadySo, "it is in force already".to_owned()),
            _ if reboot => (SettingState::NeedsReboot, after_reboot(risk_of(&setting, judged.current.as_deref()))),
            Some(why) => (SettingState::Unknown, why),
            None if setting.knob.takes_effect == TakesEffect::NewInterfaces => {
                (SettingState::NotHere, "it takes effect only on interfaces that come up later".to_owned())
            }
            None => refusal.unwrap_or_else(|| {
                let why = said(&setting, plan, judged.current.as_deref());
                judged.setting = Some(setting);
                (SettingState::Try, why)
            }),
        }
    }
}

/// What to do about a congestion control that the kernel does not offer yet.
fn loaded(name: &str, why: &str) -> String {
    format!(
        "{why}; when root writes it, the kernel loads tcp_{name} if the machine has it: `modprobe tcp_{name}` lets evenkeel try it"
    )
}

/// Whether the kernel's default is this value on every machine. A text with more than a remark in parentheses names conditions, such as the
/// version of the kernel or the kind of disk.
fn is_default(default: &str, value: &str) -> bool {
    let rest = default.strip_prefix(value);
    rest.is_some_and(|rest| {
        rest.is_empty()
            || rest.strip_prefix(" (").is_some_and(|rest| rest.find(')').is_some_and(|at| at + 1 == rest.len()))
    })
}

/// How evenkeel judges the profile that `tuned-adm` would switch to.
fn profile(words: &[&str]) -> Option<String> {
    let ["tuned-adm", "profile", names @ ..] = words else { return None };
    let one = |name: &&str| match LibraryGuide::find(&format!("tuned:{name}")) {
        Some(guide) => format!("`evenkeel guide {}` judges its lines", guide.name),
        None => format!("`evenkeel guide` judges the lines of /usr/lib/tuned/{name}/tuned.conf"),
    };
    names.first().map(one)
}

fn after_reboot(risk: Option<&str>) -> String {
    risk.map_or_else(|| "a kernel argument takes effect after a reboot".to_owned(), |risk| format!("risk: {risk}"))
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

/// The risk of the knob, if this value has the risk.
fn risk_of(setting: &Setting, present: Option<&str>) -> Option<&'static str> {
    let Setting { knob, value, .. } = setting;
    knob.extras.risk_at.has(value, present).then_some(knob.risk)
}

#[cfg(test)]
mod tests {
    use super::is_default;

    #[test]
    fn a_default_with_conditions_is_none() {
        for (default, value, expected) in [
            ("60", "60", true),
            ("60", "6", false),
            ("0 (off)", "0", true),
            ("9 (every state that the driver knows)", "9", true),
            ("212992 up to Linux 6.12, 4194304 by 6.18", "212992", false),
            ("none for NVMe and other disks with several queues, mq-deadline for those with one", "none", false),
            ("1 with several nodes, 0 with one", "1", false),
            ("750000 (CFS) or 700000 (EEVDF)", "750000", false),
            ("always or madvise, depending on the distribution's kernel", "always", false),
        ] {
            assert_eq!(is_default(default, value), expected, "{default} {value}");
        }
    }
}
