//! The page of `audit`: the most urgent findings first, each with its reason and the recommended change.
//! The other formats use the same values.

use anstyle::Style;
use evenkeel_host::{
    Advice, Effect, Facts, Goal, Lasts, Place, Plan, Server, Setting, State, Step, TakesEffect, When, knobs,
};
use serde::Serialize;

use crate::show::page::{BAD, DIM, GOOD, HEADING, Indent, PLAIN, Page, WARN};
use crate::show::step::{has_places, how, value};
use crate::waivers::Waiver;

/// The column at which the text of a finding begins.
const TEXT_COLUMN: usize = 10;

/// The answer of `audit`.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Audit<'a> {
    pub(crate) goal: Goal,
    pub(crate) server: Server,
    #[serde(rename = "advice")]
    pub(crate) findings: Vec<Finding<'a>>,
    /// The file of waivers; absent without such a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waivers: Option<WaiversView>,
}

/// A piece of advice, and the waiver that accepts it, if any.
#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
pub(crate) struct Finding<'a> {
    #[serde(flatten)]
    pub(crate) advice: &'a Advice,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waived: Option<&'a Waiver>,
}

/// The waiver file, and its problems.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct WaiversView {
    pub(crate) file: String,
    pub(crate) warnings: Vec<String>,
}

/// Findings that differ only in their place.
pub(crate) type Group<'a> = Vec<Finding<'a>>;

/// Groups of findings under one title.
pub(crate) struct Section<'a> {
    pub(crate) title: &'static str,
    pub(crate) groups: Vec<Group<'a>>,
}

impl Audit<'_> {
    /// The findings that are not waived.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Finding<'_>> {
        self.findings.iter().filter(|finding| finding.waived.is_none())
    }

    pub(crate) fn warnings(&self) -> &[String] {
        self.waivers.as_ref().map_or(&[], |waivers| &waivers.warnings)
    }

    /// A title such as `Advice for latency: 2 set, 5 keep`.
    pub(crate) fn title(&self) -> String {
        let groups = groups(self.findings.iter().copied());
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for group in &groups {
            let name = if group[0].waived.is_some() { "waived" } else { group[0].advice.state.name() };
            match counts.iter_mut().find(|(counted, _)| *counted == name) {
                Some((_, count)) => *count += 1,
                None => counts.push((name, 1)),
            }
        }
        let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        format!("Advice for {}: {}", self.goal, counts.join(", "))
    }

    /// Every finding, in the order in which a reader would act:
    /// first the settings that the reader can change, by effort, then the rest by state.
    pub(crate) fn sections(&self) -> Vec<Section<'_>> {
        let section = |title, holds: &dyn Fn(&Finding<'_>) -> bool| Section {
            title,
            groups: groups(self.findings.iter().copied().filter(holds)),
        };
        let open = |states: &'static [State]| {
            move |finding: &Finding<'_>| finding.waived.is_none() && states.contains(&finding.advice.state)
        };
        let mut sections: Vec<Section<'_>> = When::ALL
            .into_iter()
            .map(|when| section(title(when), &|finding| open(&[State::Set])(finding) && finding.advice.when == when))
            .collect();
        sections.push(section("Not to be set here", &open(&[State::OwnedBy, State::Blocked])));
        sections.push(section("Not known", &open(&[State::Unknown])));
        sections.push(section("Waived", &|finding| finding.waived.is_some()));
        sections.push(section("Well as it is", &open(&[State::Keep])));
        sections.push(section("Does not apply here", &open(&[State::NotHere, State::Removed])));
        sections.retain(|section| !section.groups.is_empty());
        sections
    }
}

fn title(when: When) -> &'static str {
    match when {
        When::AtOnce => "Takes effect at once",
        When::NewSockets => "Takes effect for sockets created afterwards",
        When::ServerRestart => "Takes effect when the server is restarted",
        When::Reboot => "Takes effect after a reboot",
        When::ByHand => "To be done by hand, in the cloud's settings or with other tools",
    }
}

pub(crate) fn page(audit: &Audit<'_>, facts: &Facts) -> String {
    let mut page = Page::default();
    page.heading(&audit.title());
    for section in audit.sections() {
        page.heading(section.title);
        for group in &section.groups {
            finding(&mut page, group, facts);
            if is_to_set(group) {
                for command in commands(group, audit) {
                    page.line(PLAIN, &format!("{:TEXT_COLUMN$}{command}", ""));
                }
            }
        }
    }
    if let Some(waivers) = &audit.waivers {
        page.heading(&format!("Waivers in {}", waivers.file));
        for warning in &waivers.warnings {
            page.paragraph(Indent { first: 2, rest: 4 }, WARN, warning);
        }
        if waivers.warnings.is_empty() {
            page.paragraph(Indent::all(2), DIM, "all of them hold");
        }
    }
    page.finish()
}

/// The maximum number of lines of the summary, its heading included.
const SUMMARY_LINES_MAX: usize = 15;
/// The lines of the summary besides the findings:
/// the heading, the number of hidden findings, how to see all, and empty lines.
const SUMMARY_OTHER_LINES: usize = 6;

/// The settings to change, one per line, and how to see the rest. The summary has at most [`SUMMARY_LINES_MAX`] lines.
/// `again` has the options that name the same machine; each option follows a space.
pub(crate) fn summary(audit: &Audit<'_>, again: &str) -> String {
    let mut page = Page::default();
    page.heading(&audit.title());
    let to_set = groups_to_set(audit);
    let of_server = to_set.iter().any(|group| is_of_server(group[0].advice));
    let (mut shown, mut left) = (0, SUMMARY_LINES_MAX - SUMMARY_OTHER_LINES);
    if of_server {
        left -= page.lines_of(Indent::all(0), OF_SERVER);
    }
    for group in &to_set {
        let advice = group[0].advice;
        // Several places may have different values, so show only how many places there are.
        let what = match group.len() {
            1 => values(advice),
            places => format!(" at {places} places"),
        };
        let line = format!("{}{what} ({} effect, {})", advice.knob, effect(advice.effect), soon(advice.when));
        let indent = Indent { first: 2, rest: 6 };
        let lines = page.lines_of(indent, &line);
        if lines > left {
            break;
        }
        left -= lines;
        shown += 1;
        page.paragraph(indent, PLAIN, &line);
    }
    match to_set.len() - shown {
        0 if to_set.is_empty() => page.line(GOOD, "  Nothing to set."),
        0 => {}
        more => page.line(PLAIN, &format!("  and {more} more to set")),
    }
    let warnings = audit.warnings().len();
    if warnings > 0 {
        page.line(WARN, &format!("  {warnings} warning{} about waivers", if warnings == 1 { "" } else { "s" }));
    }
    page.line(PLAIN, "");
    page.paragraph(Indent::all(0), PLAIN, &format!("Reasons, risks and commands: evenkeel audit --all{again}"));
    if !to_set.is_empty() {
        let what = format!("What would change: evenkeel apply --advised --plan-only{again}");
        page.paragraph(Indent::all(0), PLAIN, &what);
    }
    if of_server {
        page.paragraph(Indent::all(0), PLAIN, OF_SERVER);
    }
    page.finish()
}

/// The last line of a summary that advises a setting of the server's own process.
const OF_SERVER: &str = "A systemd server's process: evenkeel apply KNOB=VALUE --persist --unit NAME";

/// Whether only a start of the server can set the value.
fn is_of_server(advice: &Advice) -> bool {
    advice
        .wanted
        .as_deref()
        .and_then(|value| only_lasting(advice.knob, value))
        .is_some_and(|options| options.contains("--unit"))
}

/// The settings to change. Each knob is one group.
fn groups_to_set<'a>(audit: &'a Audit<'a>) -> Vec<Group<'a>> {
    let mut knobs: Vec<Group<'a>> = Vec::new();
    for group in groups(audit.findings.iter().copied()).into_iter().filter(|group| is_to_set(group)) {
        match knobs.iter_mut().find(|knob| knob[0].advice.knob == group[0].advice.knob) {
            Some(knob) => knob.extend(group),
            None => knobs.push(group),
        }
    }
    knobs
}

fn soon(when: When) -> &'static str {
    match when {
        When::AtOnce => "at once",
        When::NewSockets => "for new sockets",
        When::ServerRestart => "after a restart of the server",
        When::Reboot => "after a reboot",
        When::ByHand => "by hand",
    }
}

/// The audit's remark about a step; `None` if the step sets the recommended value.
pub(crate) fn opinion(step: &Step, advice: &[Advice]) -> Option<String> {
    let advice = advice.iter().find(|advice| advice.knob == step.knob && advice.place == step.place)?;
    let is_wanted = |value: &Option<String>| value.as_deref() == Some(step.wanted.as_str());
    let shown = |text: &Option<String>| text.as_deref().map_or("the present value", value).to_owned();
    let says = match advice.state {
        State::Keep if is_wanted(&advice.current) => return None,
        State::Set if is_wanted(&advice.wanted) => "audit advises this value".to_owned(),
        State::Set => format!("audit advises {}", shown(&advice.wanted)),
        State::Keep => format!("audit advises to keep {}", shown(&advice.current)),
        State::OwnedBy => "audit: another program or file sets it".to_owned(),
        State::Blocked => "audit: it cannot be changed here".to_owned(),
        State::Unknown => "audit cannot judge it".to_owned(),
        State::NotHere => "audit: it does not apply here".to_owned(),
        State::Removed => "audit: this kernel does not have it".to_owned(),
    };
    Some(format!("{says}: {}", advice.reason))
}

/// Writes a finding. One line has its state, knob, places and values. The next lines have the reason and the command.
pub(crate) fn finding(page: &mut Page, group: &[Finding<'_>], facts: &Facts) {
    let Finding { advice: first, waived } = group[0];
    let state = format!("{:TEXT_COLUMN$}", first.state.name());
    page.parts(&[(style(first.state), &state), (HEADING, first.knob), (PLAIN, &values(first))]);
    let places: Vec<String> = group.iter().filter_map(|finding| place(finding.advice)).collect();
    if !places.is_empty() {
        page.paragraph(Indent::all(TEXT_COLUMN), PLAIN, &format!("at {}", places.join(", ")));
    }
    if let Some(waiver) = waived {
        let note = format!("waived until {}: {}", waiver.expires, waiver.reason);
        page.paragraph(Indent::all(TEXT_COLUMN), WARN, &note);
    }
    page.paragraph(Indent::all(TEXT_COLUMN), PLAIN, &first.reason);
    if is_to_set(group) {
        let effect = format!("expected effect: {}; risk: {}", effect(first.effect), first.risk);
        page.paragraph(Indent::all(TEXT_COLUMN), PLAIN, &effect);
        if let Some(deed) = deed(group, facts) {
            page.paragraph(Indent { first: TEXT_COLUMN, rest: TEXT_COLUMN + 2 }, PLAIN, &format!("does: {deed}"));
        }
    }
}

/// The current and the wanted value, such as `: 0 -> 50`.
fn values(advice: &Advice) -> String {
    match (advice.current.as_deref().map(value), advice.wanted.as_deref().map(value)) {
        (Some(current), Some(wanted)) if current != wanted => format!(": {current} -> {wanted}"),
        (Some(current), _) => format!(": {current}"),
        (None, Some(wanted)) => format!(": ? -> {wanted}"),
        (None, None) => String::new(),
    }
}

/// The place of a finding; `None` if the knob has only one place. Adds the id if the place does not end with the id.
fn place(advice: &Advice) -> Option<String> {
    let is_one_of_several = has_places(advice.knob) && advice.id != advice.knob;
    is_one_of_several.then(|| match advice.id.strip_prefix(advice.knob) == Some(&format!("@{}", advice.place)) {
        true => advice.place.clone(),
        false => format!("{} ({})", advice.place, advice.id),
    })
}

/// Whether the reader should change these settings.
pub(crate) fn is_to_set(group: &[Finding<'_>]) -> bool {
    group[0].advice.state == State::Set && group[0].waived.is_none()
}

/// Groups the findings. Neighbours that differ only in their place become one group.
pub(crate) fn groups<'a>(findings: impl Iterator<Item = Finding<'a>>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for finding in findings {
        match groups.last_mut() {
            Some(group) if is_alike(&group[0], &finding) => group.push(finding),
            _ => groups.push(vec![finding]),
        }
    }
    groups
}

fn is_alike(one: &Finding<'_>, other: &Finding<'_>) -> bool {
    let key = |advice: &Advice| (advice.knob, advice.state, advice.current.clone(), advice.wanted.clone());
    one.waived == other.waived && one.advice.reason == other.advice.reason && key(one.advice) == key(other.advice)
}

/// The commands that prove and apply a group.
/// If the group has all places of the knob, one setting is enough; otherwise each place needs a setting.
pub(crate) fn commands(group: &[Finding<'_>], audit: &Audit<'_>) -> Vec<String> {
    let id = group[0].advice.knob;
    let is_all = audit.findings.iter().filter(|finding| finding.advice.knob == id).count() == group.len();
    let setting = |advice: &Advice| {
        let value = advice.wanted.as_deref()?;
        let setting = if is_all { format!("{id}={value}") } else { format!("{id}@{}={value}", advice.place) };
        // Quote a value with spaces. Values contain no other character that a shell interprets.
        Some(if setting.contains(' ') { format!("'{setting}'") } else { setting })
    };
    let mut settings: Vec<String> = group.iter().filter_map(|finding| setting(finding.advice)).collect();
    settings.dedup();
    let verbs = verbs(id);
    let lasting = group[0].advice.wanted.as_deref().and_then(|value| only_lasting(id, value));
    let of_setting = |setting: &String| {
        let lines = verbs.iter().map(|verb| format!("evenkeel {verb} {setting}"));
        lines.chain(lasting.map(|options| format!("evenkeel apply {setting} {options}"))).collect::<Vec<_>>()
    };
    settings.iter().flat_map(of_setting).collect()
}

/// The options with which `apply` sets a value that can't be written while the server runs.
/// A process gets such a value only at its start, or the value lasts only while a process holds it.
/// `None` for all other values.
fn only_lasting(knob: &str, value: &str) -> Option<&'static str> {
    let knob = knobs::find(knob).ok()?;
    match (knob.place, knob.extras.lasts) {
        (Place::Held { .. }, _) => Some("--persist"),
        (Place::Process | Place::ByHand { .. }, Some(Lasts::ServerUnit(unit))) if unit.only_permits.is_none() => {
            (unit.lines)(value).map(|_| "--persist --unit NAME.service")
        }
        _ => None,
    }
}

/// The commands that accept a setting of this knob.
pub(crate) fn verbs(knob: &str) -> &'static [&'static str] {
    let Ok(knob) = knobs::find(knob) else { return &["prove", "apply"] };
    match knob.place {
        // The value lasts only as long as a process, so only a trial can set it.
        Place::Held { .. } | Place::Process => &["prove"],
        // The server itself should set the value, but a trial can set it in the running server.
        Place::ByHand { .. } | Place::ByHandEach { .. } if knob.is_set_while_it_runs() => &["prove"],
        Place::ByHand { .. } | Place::ByHandEach { .. } => &[],
        // A trial does not reboot the machine, so it can't set a kernel argument. A trial also brings no interface up.
        Place::KernelArgument { .. } => &["apply"],
        _ if knob.takes_effect == TakesEffect::NewInterfaces => &["apply"],
        _ => &["prove", "apply"],
    }
}

/// The effect of applying the first finding of a group, and the number of other findings.
fn deed(group: &[Finding<'_>], facts: &Facts) -> Option<String> {
    let advice = group[0].advice;
    let knob = knobs::find(advice.knob).ok()?;
    let place = has_places(advice.knob).then(|| advice.place.clone());
    let setting = Setting { knob, place, value: advice.wanted.clone()? };
    let plan = Plan::from_settings(facts, &[setting]).ok()?;
    let more = match group.len() {
        1 => String::new(),
        count => format!(", and so at {} more", count - 1),
    };
    plan.steps.first().map(|step| how(step) + &more)
}

/// The name of the effect in JSON.
pub(crate) fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Large => "large",
        Effect::Medium => "medium",
        Effect::Small => "small",
    }
}

fn style(state: State) -> Style {
    match state {
        State::Set => WARN,
        State::OwnedBy | State::Blocked => BAD,
        State::Keep => GOOD,
        State::Unknown | State::NotHere | State::Removed => DIM,
    }
}
