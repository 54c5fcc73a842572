//! The answer of `guide`: every line of a guide with its verdict, as JSON and as blocks of a page.

use std::collections::BTreeMap;

use evenkeel_host::guide::{Content, Guide, GuideFormat, Judged, LibraryGuide, SettingState, Skip};
use evenkeel_trial::search::{KnobAnswer, KnobOutcome, SearchEnded, WholeVerdict};
use serde::{Deserialize, Serialize};

use crate::report::{SessionAnswer, as_change};
use crate::show::tune::{self, SearchResult};
use crate::view::{Block, Text, sentence};

/// The maximum number of other lines on a page: lines without a setting, or that evenkeel did not understand.
/// JSON has all lines.
const OTHERS_MAX: usize = 40;
/// How many lines share a reason that stands only once.
const SHARED_MIN: usize = 3;
/// The probability of a wrong "hurts" among all lines of a guide.
const ERROR_MAX: f64 = 0.05;

/// The answer of `--json`.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct GuideAnswer {
    /// The result in one sentence.
    pub(crate) headline: String,
    /// The guides, in the order of the command line.
    pub(crate) guides: Vec<GuideLines>,
    /// The measurement of one guide: all lines together, then line by line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) search: Option<SearchResult>,
    /// The comparison of several guides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) comparison: Option<SessionAnswer>,
}

/// The guides of the library.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Library {
    pub(crate) guides: Vec<LibraryEntry>,
}

/// A guide in the list of the library.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct LibraryEntry {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Where its values come from.
    pub(crate) source: &'static str,
    /// Its settings, one each.
    pub(crate) settings: Vec<&'static str>,
}

/// One guide: `settings`, `other_lines` and `blank_lines` together contain every line of the guide.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct GuideLines {
    pub(crate) name: String,
    pub(crate) format: GuideFormat,
    /// The number of all lines, including the lines of included profiles.
    pub(crate) lines: usize,
    /// The settings, in their order; a line may have several.
    pub(crate) settings: Vec<GuideSetting>,
    /// Lines without a setting, or that evenkeel does not understand.
    pub(crate) other_lines: Vec<OtherLine>,
    /// How many lines are empty.
    pub(crate) blank_lines: usize,
}

/// A setting of a guide.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct GuideSetting {
    /// The included profile that contains the line; `None` for the guide itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    /// The line, from 1.
    pub(crate) line: usize,
    /// What the guide asks for.
    pub(crate) asked: String,
    /// The knob, if evenkeel has a knob for this setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) knob: Option<String>,
    /// The value in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// The state of the setting on this machine, before any measurement.
    pub(crate) state: SettingState,
    /// Why.
    pub(crate) why: String,
    /// Whether the value is the kernel's default.
    pub(crate) is_default: bool,
    /// The result of the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<MeasuredLine>,
}

/// The verdict of a measurement on one setting.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct MeasuredLine {
    /// The verdict.
    pub(crate) verdict: LineVerdict,
    /// The evidence, in words.
    pub(crate) evidence: String,
}

/// The measured effect of one line on this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LineVerdict {
    /// The line is in the smallest set with the same gain.
    Helps,
    /// The line makes the metric or a guard worse.
    Hurts,
    /// The line seems to make the metric worse, but among all lines of the guide this may be chance.
    MayHurt,
    /// It does nothing that matters.
    DoesNothing,
    /// The line changed the metric, but the set does not need it.
    NotNeeded,
    /// The counter of the line shows that the line was never engaged.
    NotEngaged,
    /// The kernel or the server refused the line.
    Refused,
    /// More time would be needed.
    Undecided,
    /// It was not tried.
    NotTried,
}

/// A judged guide in the log of its search. With this log, a continued search also answers line by line.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct GuideLog {
    pub(crate) lines: GuideLines,
    /// The search's candidate for each setting of `lines`, in the same order; `None` where the search tries nothing.
    pub(crate) tried: Vec<Option<TriedLine>>,
}

/// The search's candidate for one line of a guide.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct TriedLine {
    /// The knob's id; for a sysctl without a knob, `sysctl:NAME`.
    pub(crate) knob: String,
    /// The setting, as `KNOB=VALUE` or `KNOB@PLACE=VALUE`.
    pub(crate) setting: String,
}

impl GuideLog {
    pub(crate) fn new(lines: GuideLines, judged: &[Judged]) -> GuideLog {
        let tried = |judged: &Judged| {
            let setting = judged.setting.as_ref()?;
            Some(TriedLine { knob: setting.knob.id.to_owned(), setting: setting.to_string() })
        };
        GuideLog { lines, tried: judged.iter().map(tried).collect() }
    }

    /// The lines, each with the result of the search.
    pub(crate) fn measured(self, result: &SearchResult) -> GuideLines {
        let GuideLog { mut lines, tried } = self;
        for (line, tried) in lines.settings.iter_mut().zip(tried) {
            let Some(TriedLine { knob: id, setting }) = tried else { continue };
            let knob = result.answer.knobs.iter().find(|knob| knob.settings.contains(&setting));
            let not_tried = || result.not_tried.iter().find(|left| left.knob == id);
            line.measured = match knob {
                Some(knob) => {
                    Some(MeasuredLine { verdict: verdict(knob, result), evidence: evidence_of(knob, result) })
                }
                None => not_tried()
                    .map(|left| MeasuredLine { verdict: LineVerdict::NotTried, evidence: left.why.to_string() }),
            };
        }
        lines
    }
}

/// A line that is not a setting.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct OtherLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    pub(crate) line: usize,
    pub(crate) text: String,
    /// The kind of line, if it is not a setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) is: Option<Skip>,
    /// Why evenkeel does not understand the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_understood: Option<String>,
}

impl GuideLines {
    pub(crate) fn new(guide: &Guide, judged: &[Judged]) -> GuideLines {
        let setting = |judged: &Judged| {
            let line = guide.lines.get(judged.line);
            GuideSetting {
                file: line.and_then(|line| line.file.clone()),
                line: line.map_or(0, |line| line.number),
                asked: judged.asked.clone(),
                knob: judged.knob.map(str::to_owned),
                current: judged.current.clone(),
                state: judged.state,
                why: judged.why.clone(),
                is_default: judged.is_default,
                measured: None,
            }
        };
        let other = |line: &evenkeel_host::guide::GuideLine| {
            // Some lines have a setting and also a part that evenkeel does not understand.
            // Such a line is in both lists.
            let not_understood = line.not_understood();
            let is = match &line.content {
                Content::NotASetting(Skip::Blank) => return None,
                Content::Settings(_) if not_understood.is_none() => return None,
                Content::NotASetting(skip) => Some(*skip),
                Content::Settings(_) | Content::NotUnderstood(_) => None,
            };
            Some(OtherLine { file: line.file.clone(), line: line.number, text: line.text.clone(), is, not_understood })
        };
        let is_blank = |line: &&evenkeel_host::guide::GuideLine| line.content == Content::NotASetting(Skip::Blank);
        GuideLines {
            name: guide.name.clone(),
            format: guide.format,
            lines: guide.lines.len(),
            settings: judged.iter().map(setting).collect(),
            other_lines: guide.lines.iter().filter_map(other).collect(),
            blank_lines: guide.lines.iter().filter(is_blank).count(),
        }
    }

    fn count(&self, state: SettingState) -> usize {
        self.settings.iter().filter(|line| line.state == state).count()
    }

    /// The guide in one sentence: the state of its settings here, and their effect.
    pub(crate) fn sentence(&self) -> String {
        let mut verdicts: BTreeMap<LineVerdict, usize> = BTreeMap::new();
        for line in self.settings.iter().filter_map(|line| line.measured.as_ref()) {
            *verdicts.entry(line.verdict).or_default() += 1;
        }
        let of = |verdict| verdicts.get(&verdict).copied().unwrap_or(0);
        let not_measured = if verdicts.is_empty() { self.count(SettingState::Try) } else { 0 };
        let away =
            [SettingState::NotHere, SettingState::Outdated, SettingState::BadValue].map(|state| self.count(state));
        let parts = [
            (of(LineVerdict::Helps), "helps", "help"),
            (of(LineVerdict::Hurts), "hurts", "hurt"),
            (of(LineVerdict::MayHurt), "may hurt", "may hurt"),
            (of(LineVerdict::DoesNothing) + of(LineVerdict::NotEngaged), "does nothing here", "do nothing here"),
            (of(LineVerdict::NotNeeded), "is not needed", "are not needed"),
            (of(LineVerdict::Undecided), "is undecided", "are undecided"),
            (of(LineVerdict::Refused) + of(LineVerdict::NotTried), "was not tried", "were not tried"),
            (not_measured, "can be tried", "can be tried"),
            (self.count(SettingState::AlreadySo), "is in force already", "are in force already"),
            (away.iter().sum(), "does not apply", "do not apply"),
            (self.count(SettingState::NotAdvised), "is not advised here", "are not advised here"),
            (self.count(SettingState::NeedsReboot), "needs a reboot", "need a reboot"),
            (self.count(SettingState::ByHand), "is left to you", "are left to you"),
            (self.count(SettingState::Overridden), "is overridden", "are overridden"),
            (self.count(SettingState::Dangerous), "is dangerous", "are dangerous"),
            (self.count(SettingState::Unknown), "is unknown", "are unknown"),
        ];
        let said: Vec<String> = parts
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        match (self.settings.len(), said.is_empty()) {
            (0, _) | (_, true) => format!("{}: no line is a setting that evenkeel knows", self.name),
            (1, _) => format!("{}: of 1 setting {}", self.name, said.join(", ")),
            (all, _) => format!("{}: of {all} settings {}", self.name, said.join(", ")),
        }
    }
}

/// The reason for the verdict, as text. If the guide as a whole has no effect, the search did not screen its lines.
fn evidence_of(knob: &KnobAnswer, result: &SearchResult) -> String {
    match (&knob.outcome, &knob.screening) {
        (KnobOutcome::NoEffect, None) => "all lines together change nothing that matters".to_owned(),
        _ => tune::outcome(knob, result.design.smallest_effect_ratio),
    }
}

fn verdict(knob: &KnobAnswer, result: &SearchResult) -> LineVerdict {
    let knobs = result.answer.knobs.len() as f64;
    let is_sure =
        knob.screening.as_ref().and_then(|seen| seen.p_value).is_some_and(|p_value| p_value * knobs <= ERROR_MAX);
    match &knob.outcome {
        KnobOutcome::InTheSet => LineVerdict::Helps,
        KnobOutcome::Hurts if is_sure => LineVerdict::Hurts,
        KnobOutcome::Hurts => LineVerdict::MayHurt,
        KnobOutcome::Stopped | KnobOutcome::Vetoed { .. } => LineVerdict::Hurts,
        KnobOutcome::NoEffect => LineVerdict::DoesNothing,
        KnobOutcome::LeftOut { .. } => LineVerdict::NotNeeded,
        KnobOutcome::NotEngaged { .. } => LineVerdict::NotEngaged,
        KnobOutcome::Refused { .. } => LineVerdict::Refused,
        KnobOutcome::NotTried { .. } => LineVerdict::NotTried,
        KnobOutcome::Unclear => LineVerdict::Undecided,
    }
}

impl LineVerdict {
    fn word(self) -> &'static str {
        match self {
            LineVerdict::Helps => "helps",
            LineVerdict::Hurts => "hurts",
            LineVerdict::MayHurt => "may hurt",
            LineVerdict::DoesNothing => "does nothing here",
            LineVerdict::NotNeeded => "not needed",
            LineVerdict::NotEngaged => "not engaged",
            LineVerdict::Refused => "refused",
            LineVerdict::Undecided => "undecided",
            LineVerdict::NotTried => "not tried",
        }
    }
}

fn heading(state: SettingState) -> &'static str {
    match state {
        SettingState::Try => "Can be tried",
        SettingState::AlreadySo => "In force already",
        SettingState::Overridden => "Overridden by a later line",
        SettingState::NeedsReboot => "Needs a reboot",
        SettingState::ByHand => "Left to you",
        SettingState::NotHere => "Does nothing on this machine",
        SettingState::NotAdvised => "Not advised on this machine",
        SettingState::Outdated => "Outdated",
        SettingState::BadValue => "A value that evenkeel does not accept",
        SettingState::Dangerous => "Dangerous: never written",
        SettingState::Unknown => "Unknown",
    }
}

/// The blocks of a page.
pub(crate) fn blocks(answer: &GuideAnswer) -> Vec<Block> {
    let mut blocks = vec![Block::heading(sentence(&answer.headline))];
    for guide in &answer.guides {
        if answer.guides.len() > 1 {
            blocks.push(Block::heading(sentence(&guide.sentence())));
        }
        blocks.extend(guide_blocks(guide));
    }
    blocks
}

fn guide_blocks(guide: &GuideLines) -> Vec<Block> {
    let mut blocks = measured_blocks(guide);
    for state in SettingState::ALL {
        let lines: Vec<&GuideSetting> =
            guide.settings.iter().filter(|line| line.state == state && line.measured.is_none()).collect();
        if !lines.is_empty() {
            blocks.push(Block::section(heading(state), by_reason(state, &lines)));
        }
    }
    let others = |skips: &[Option<Skip>]| {
        let found: Vec<Text> = guide.other_lines.iter().filter(|line| skips.contains(&line.is)).map(other).collect();
        let more = found.len().saturating_sub(OTHERS_MAX);
        let mut items: Vec<Text> = found.into_iter().take(OTHERS_MAX).collect();
        if more > 0 {
            items.push(Text::from(format!("and {more} more; --json lists all")));
        }
        items
    };
    for (title, skips) in [
        ("Not understood", vec![None]),
        ("Switched off by the guide", vec![Some(Skip::SwitchedOff)]),
        ("No setting that evenkeel knows", vec![Some(Skip::Command), Some(Skip::Elsewhere)]),
    ] {
        let items = others(&skips);
        if !items.is_empty() {
            blocks.push(Block::section(title, vec![Block::List(items)]));
        }
    }
    let quiet = guide
        .other_lines
        .iter()
        .filter(|line| matches!(line.is, Some(Skip::Comment | Skip::Prose | Skip::Structure | Skip::Blank)));
    let lines = if guide.lines == 1 { "line" } else { "lines" };
    blocks.push(Block::Note(format!(
        "{} {lines}, read as {}. Comments, text or structure: {}. Empty: {}.",
        guide.lines,
        format_name(guide.format),
        quiet.count(),
        guide.blank_lines
    )));
    if guide.settings.is_empty() && guide.lines > guide.blank_lines {
        blocks.push(Block::Note("If that is the wrong format, name the right one with --format.".to_owned()));
    }
    blocks
}

/// The lines of one state. A reason of several lines stands once, before them.
fn by_reason(state: SettingState, lines: &[&GuideSetting]) -> Vec<Block> {
    if state == SettingState::AlreadySo {
        return vec![Block::List(lines.iter().map(|line| said(line, None)).collect())];
    }
    let mut shared: Vec<(&str, Vec<Text>)> = Vec::new();
    let mut single = Vec::new();
    for line in lines {
        let why = line.why.as_str();
        if lines.iter().filter(|other| other.why == why).count() < SHARED_MIN {
            single.push(said(line, Some(why)));
            continue;
        }
        match shared.iter_mut().find(|(of, _)| *of == why) {
            Some((_, items)) => items.push(said(line, None)),
            None => shared.push((why, vec![said(line, None)])),
        }
    }
    let mut blocks = if single.is_empty() { Vec::new() } else { vec![Block::List(single)] };
    for (why, items) in shared {
        blocks.extend([Block::Note(format!("{why}:")), Block::List(items)]);
    }
    blocks
}

/// The verdicts of the measurement, the most important first.
fn measured_blocks(guide: &GuideLines) -> Vec<Block> {
    let mut lines: Vec<(&GuideSetting, &MeasuredLine)> =
        guide.settings.iter().filter_map(|line| Some((line, line.measured.as_ref()?))).collect();
    if lines.is_empty() {
        return Vec::new();
    }
    lines.sort_by_key(|(line, measured)| (measured.verdict, line.line));
    let item = |(line, measured): &(&GuideSetting, &MeasuredLine)| {
        Text::from(format!("{}: {}: ", place(line), measured.verdict.word()))
            .and(Text::code(line.asked.clone()))
            .and(evidence(measured))
    };
    vec![Block::section("What each line does to this server", vec![Block::List(lines.iter().map(item).collect())])]
}

/// The evidence, without the verdict before it.
fn evidence(measured: &MeasuredLine) -> String {
    let word = measured.verdict.word();
    let rest = measured
        .evidence
        .strip_prefix(word)
        .map_or(measured.evidence.as_str(), |rest| rest.trim_start_matches([':', ' ']));
    if rest.is_empty() { String::new() } else { format!(": {rest}") }
}

fn place(line: &GuideSetting) -> String {
    match &line.file {
        Some(file) => format!("{file} line {}", line.line),
        None => format!("line {}", line.line),
    }
}

/// A setting with the value in force, and its reason.
fn said(line: &GuideSetting, why: Option<&str>) -> Text {
    let now = line.current.as_ref().filter(|_| line.state != SettingState::AlreadySo);
    let now = now.map_or_else(String::new, |now| {
        let now = now.split_whitespace().collect::<Vec<_>>().join(" ");
        format!(" (now {})", if now.is_empty() { "none" } else { now.as_str() })
    });
    let default = if line.is_default { ", the kernel's default" } else { "" };
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    Text::from(format!("{}: ", place(line))).and(Text::code(line.asked.clone())).and(format!("{default}{now}{why}"))
}

fn other(line: &OtherLine) -> Text {
    let file = line.file.as_ref().map_or_else(String::new, |file| format!("{file} "));
    let why = line.not_understood.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    Text::from(format!("{file}line {}: ", line.line)).and(Text::code(line.text.clone())).and(why)
}

/// The name of a format, as an argument of `--format`.
pub(crate) fn format_name(format: GuideFormat) -> &'static str {
    GuideFormat::ALL.iter().find(|(_, of)| *of == format).map_or("", |(name, _)| name)
}

/// The headline of a measured guide: its sentence, and the effect of the whole guide and of the smallest set.
pub(crate) fn headline(guide: &GuideLines, result: &SearchResult) -> String {
    let metric = &result.design.metric.title;
    let whole = result.answer.whole.as_ref().map(|whole| match whole.verdict {
        WholeVerdict::Better | WholeVerdict::Worse => {
            format!("; the guide as a whole: {metric} {}", as_change(whole.effect.ratio))
        }
        WholeVerdict::Same => format!("; the guide as a whole has no effect on {metric} that matters"),
        WholeVerdict::Undecided => format!("; the effect of the guide as a whole on {metric} is undecided"),
    });
    let set = result.answer.effect.as_ref().filter(|_| !result.answer.set.is_empty());
    let set = set.map(|effect| format!("; the smallest set that helps: {metric} {}", as_change(effect.ratio)));
    let ended = match &result.answer.ended {
        SearchEnded::Whole => String::new(),
        SearchEnded::OutOfBudget => "; the budget ended before all was decided".to_owned(),
        SearchEnded::Stopped => "; it was stopped".to_owned(),
        SearchEnded::Failed { why } => format!("; it failed: {why}"),
    };
    format!("{}{}{}{ended}", guide.sentence(), whole.unwrap_or_default(), set.unwrap_or_default())
}

/// The list of the library.
pub(crate) fn library() -> Library {
    let entry = |guide: LibraryGuide| LibraryEntry {
        name: guide.name,
        title: guide.title,
        source: guide.source,
        settings: guide.text.lines().collect(),
    };
    Library { guides: LibraryGuide::all().map(entry).collect() }
}

/// The page of the library.
pub(crate) fn library_blocks(library: &Library) -> Vec<Block> {
    let item = |guide: &LibraryEntry| {
        Text::code(guide.name).and(format!(": {} ({} settings); {}", guide.title, guide.settings.len(), guide.source))
    };
    vec![
        Block::heading("Guides that evenkeel has"),
        Block::List(library.guides.iter().map(item).collect()),
        Block::Note("Name one in place of a file: `evenkeel guide tuned:network-latency`.".replace('`', "")),
    ]
}
