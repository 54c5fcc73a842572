//! The settings that a user selects for a change: settings, a plan file, or all advice.
//! All commands that plan share these options. The change lasts until the next reboot, or persists.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use evenkeel_change::persist::{PersistContext, boot_files};
use evenkeel_change::{Cannot, Log, MAX_PLAN_BYTES, PlanFile, PlanFileError, ServiceName};
use evenkeel_host::{
    Action, Advice, Clash, Facts, Knob, SYSCTL_PREFIX, Setting, SettingError, State as Advised, Step, advise, knobs,
};
use evenkeel_hostfs::{Root, RootKind, user_file};
use evenkeel_workload::SETTING_PREFIX;

use crate::args::{Completed, GoalArgs, settings};
use crate::exit;
use crate::failure::Failure;

/// The maximum length of a transaction's title, in characters.
/// It is enough to recognise the transaction in the history.
const TITLE_CHARS_MAX: usize = 200;

/// What to set.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Selection {
    /// What to set, KNOB@PLACE=VALUE for one queue or interrupt alone;
    /// or the file of one plan, as `evenkeel plan` writes it
    #[arg(value_name = "KNOB=VALUE|PLAN", conflicts_with = "advised", value_parser = Completed(settings), hide_possible_values = true)]
    what: Vec<String>,
    /// Set everything that `evenkeel audit` advises
    #[arg(long)]
    pub(crate) advised: bool,
    #[command(flatten)]
    pub(crate) goal: GoalArgs,
    /// The systemd unit of the server, such as memcached.service: settings of its process go to a drop-in of that unit
    #[arg(long, value_name = "UNIT")]
    pub(crate) unit: Option<ServiceName>,
}

/// A plan for a machine, and its origin.
pub(crate) struct Selected {
    pub(crate) plan: PlanFile,
    /// Why the user's plan file no longer fits this machine; `None` if it fits.
    pub(crate) stale: Option<PlanFileError>,
    /// The content of the user's plan file; `None` if the user named no file.
    pub(crate) given: Option<PlanFile>,
}

/// How long a change lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// Until the next boot.
    Runtime,
    /// Beyond the next boot.
    Lasting,
}

impl Selection {
    /// The selection of these settings, for this server.
    pub(crate) fn of_settings(what: Vec<String>, unit: Option<ServiceName>) -> Selection {
        Selection { what, unit, ..Selection::default() }
    }

    /// The plan for the machine at `root`. `log` contains the earlier changes of that machine.
    pub(crate) fn plan(&self, root: &Root, facts: &Facts, log: &Log, term: Term) -> Result<Selected, Failure> {
        let Some(file) = self.file() else {
            let settings = self.settings(facts)?;
            let title = self.title(&settings);
            return self.make(root, facts, log, Wanted { settings, title, term, unit: self.unit.clone() });
        };
        let read = read_plan(file)?;
        let settings = read.settings().map_err(|error| Failure::new(exit::WRONG_USE, error))?;
        let term = if read.persist.is_some() { Term::Lasting } else { term };
        let unit = read.unit().map_err(|error| Failure::new(exit::WRONG_USE, error))?.or_else(|| self.unit.clone());
        let selected = self.make(root, facts, log, Wanted { settings, title: read.title.clone(), term, unit })?;
        let stale = read.agrees_with(&selected.plan).err();
        Ok(Selected { stale, given: Some(read), ..selected })
    }

    fn make(&self, root: &Root, facts: &Facts, log: &Log, wanted: Wanted) -> Result<Selected, Failure> {
        let Wanted { settings, title, term, unit } = wanted;
        refuse_clash(&settings, "plan the change")?;
        let program = program(root);
        let boot_files = if root.kind() == RootKind::Mounted { boot_files(root) } else { Vec::new() };
        let own_arguments = log.own_arguments();
        let context = PersistContext {
            facts,
            unit: unit.as_ref(),
            program: program.as_deref(),
            is_image: root.kind() == RootKind::Mounted,
            boot_files: &boot_files,
            own_arguments: &own_arguments,
        };
        let before = log.lasting_settings(context.unit.map(ServiceName::as_str));
        let plan = if context.is_image {
            PlanFile::of_image(root, facts, &settings, &title, &context, &before)
        } else {
            let lasting = (term == Term::Lasting).then_some((&context, before.as_slice()));
            PlanFile::new(root, facts, &settings, &title, lasting).map_err(|error| {
                Failure::new(exit::NOT_POSSIBLE, error).hint("`evenkeel inspect --all` shows queues and interrupts")
            })?
        };
        Ok(Selected { plan, stale: None, given: None })
    }

    /// The plan file that the user named; `None` if the user named no file.
    fn file(&self) -> Option<&Path> {
        match self.what.as_slice() {
            [one] if is_file(one) => Some(Path::new(one)),
            _ => None,
        }
    }

    /// The settings that the user named, or all advised settings.
    fn settings(&self, facts: &Facts) -> Result<Vec<Setting>, Failure> {
        if self.what.is_empty() && !self.advised {
            let hint = "name settings as KNOB=VALUE, a plan's file, or --advised; `evenkeel explain` lists the knobs";
            return Err(Failure::text(exit::WRONG_USE, "plan the change", "nothing was named to set").hint(hint));
        }
        if let Some(file) = self.what.iter().find(|word| self.what.len() > 1 && is_file(word)) {
            let cause = "a plan's file stands alone: it has all settings of the change";
            return Err(Failure::text(exit::WRONG_USE, format_args!("plan {file} with other settings"), cause)
                .hint("apply one after the other, or name settings as KNOB=VALUE"));
        }
        let settings: Result<Vec<Setting>, SettingError> = if self.advised {
            let advice = self.advice(facts).into_iter();
            advice.filter(|advice| advice.state == Advised::Set).filter_map(setting_of).collect()
        } else {
            self.refuse_spaces()?;
            self.what.iter().map(|text| Setting::parse(text)).collect()
        };
        settings.map_err(|error| wrong_setting("plan the change", error))
    }

    /// Refuses `KNOB = VALUE`, because the shell splits it into three words.
    fn refuse_spaces(&self) -> Result<(), Failure> {
        let split = self.what.windows(3).find(|words| words[1] == "=" && !words[0].contains('='));
        let Some(words) = split else { return Ok(()) };
        let cause = format!("{:?} is not a setting: expected KNOB=VALUE", words.join(" "));
        Err(Failure::text(exit::WRONG_USE, "plan the change", cause)
            .hint(format!("write it without spaces: {}", words.concat())))
    }

    /// The advice for this machine, for the goal of this selection.
    pub(crate) fn advice(&self, facts: &Facts) -> Vec<Advice> {
        advise(facts, &self.goal.context())
    }

    fn title(&self, settings: &[Setting]) -> String {
        if self.advised {
            return format!("advised for {}", self.goal.goal);
        }
        let settings: Vec<String> = settings.iter().map(Setting::to_string).collect();
        settings.join(" ").chars().take(TITLE_CHARS_MAX).collect()
    }
}

/// Whether a word names a file.
/// It does if the file exists, or if the word can't be a knob without a value:
/// a knob has no slash before an `@`, and no extension.
fn is_file(word: &str) -> bool {
    let path = Path::new(word);
    let is_path = || !word.contains('@') && (word.contains('/') || path.extension().is_some_and(|end| end == "json"));
    !word.contains('=') && (path.exists() || is_path())
}

/// The hint for a knob without a value; `None` if the word is not a knob.
pub(crate) fn add_value(word: &str) -> Option<String> {
    let knob = knobs::find(word.split('@').next().unwrap_or(word)).ok()?;
    Some(format!("write {word}=VALUE; `evenkeel explain {}` shows the values it takes", knob.id))
}

/// The failure for a text that is not a setting. `tried` follows "failed to".
pub(crate) fn wrong_setting(tried: &str, error: SettingError) -> Failure {
    let hint = match &error {
        SettingError::NoValue { text } => add_value(text).unwrap_or_else(|| {
            "`evenkeel explain` lists the knobs; a plan's file ends in .json or has a / in its path".to_owned()
        }),
        SettingError::BadValue { knob, .. } => format!("`evenkeel explain {knob}` shows what each value does"),
        SettingError::Never { .. } => "other settings can be planned without it".to_owned(),
        SettingError::UnknownKnob { id, nearest } => unknown_knob(id, *nearest),
    };
    Failure::text(exit::WRONG_USE, tried, error).hint(hint)
}

/// The hint for an unknown knob. If the knob is a sysctl, the hint shows how to write it.
/// But if the name is close to a knob's name, it is probably misspelt, and the hint does not assume a sysctl.
pub(crate) fn unknown_knob(id: &str, nearest: Option<&str>) -> String {
    const SLIPS_MAX: usize = 2;
    if id.starts_with(SETTING_PREFIX) {
        return format!(
            "write {SETTING_PREFIX}NAME=VALUE; `evenkeel prove workloads` lists the settings of each workload"
        );
    }
    let is_misspelt = nearest.is_some_and(|nearest| strsim::osa_distance(id, nearest) <= SLIPS_MAX);
    match knobs::find(&format!("{SYSCTL_PREFIX}{id}")) {
        Ok(sysctl) if !is_misspelt && sysctl.id.starts_with(SYSCTL_PREFIX) => {
            format!("a sysctl that has no knob is written as {}=VALUE", sysctl.id)
        }
        Ok(knob) if !is_misspelt => format!("write it as {}=VALUE", knob.id),
        Err(never @ SettingError::Never { .. }) => format!("leave it out: {never}"),
        _ => "write KNOB=VALUE; `evenkeel explain KNOB` shows the values that it takes".to_owned(),
    }
}

struct Wanted {
    settings: Vec<Setting>,
    title: String,
    term: Term,
    unit: Option<ServiceName>,
}

fn setting_of(advice: Advice) -> Option<Result<Setting, SettingError>> {
    let value = advice.wanted?;
    let setting = |knob: &'static Knob| Ok(Setting { knob, place: Some(advice.place), value: knob.check(&value)? });
    Some(knobs::find(advice.knob).and_then(setting))
}

/// Reads a plan or goal file that the user named.
pub(crate) fn read_plan(file: &Path) -> Result<PlanFile, Failure> {
    let hint = "`evenkeel plan --output FILE KNOB=VALUE` writes a plan";
    let tried = format!("read the plan {}", file.display());
    let text = user_file::read_text(file, MAX_PLAN_BYTES as u64)
        .map_err(|error| Failure::user_file(&tried, &error).or_hint(hint))?;
    let no_plan = |why: String| Failure::text(exit::WRONG_USE, &tried, why).hint(hint);
    if text.trim().is_empty() {
        return Err(no_plan("the file is empty".to_owned()));
    }
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        let (line, column) = (error.line(), error.column());
        return Err(no_plan(format!("the file is not JSON, or is cut short: see line {line}, column {column}")));
    }
    PlanFile::parse(&text).map_err(|error| no_plan(error.cause()))
}

/// The path of this program, for units that start it.
/// `None` if the program may disappear, for example because it is in a build folder.
/// Also `None` if the program is not in this root: the agent of a node runs it from its container.
fn program(root: &Root) -> Option<String> {
    let path: PathBuf = match root.kind() {
        RootKind::Live => std::env::current_exe().ok()?,
        RootKind::Mounted | RootKind::Captured => return None,
    };
    let (there, running) = (std::fs::metadata(&path).ok()?, std::fs::metadata("/proc/self/exe").ok()?);
    let is_here = (there.dev(), there.ino()) == (running.dev(), running.ino());
    let path = path.to_str().filter(|_| is_here)?;
    ["/usr/", "/opt/"].iter().any(|top| path.starts_with(top)).then(|| path.to_owned())
}

/// Refuses settings that exclude each other. `tried` follows "failed to".
pub(crate) fn refuse_clash(settings: &[Setting], tried: &str) -> Result<(), Failure> {
    match Clash::find(settings) {
        None => Ok(()),
        Some(clash) => Err(Failure::text(exit::WRONG_USE, tried, &clash).hint(clash.todo())),
    }
}

impl Selection {
    /// Refuses settings that can't be set on this machine at all. With --advised, evenkeel skips them.
    /// But if a user names such a setting, the exit code must not mean success.
    /// With `keep_going`, evenkeel sets the other settings, if any.
    pub(crate) fn refuse_what_can_not_be(&self, plan: &PlanFile, keep_going: bool) -> Result<(), Failure> {
        let goes_on =
            keep_going && plan.persist.is_none() && plan.steps.iter().any(|planned| can_be_set(&planned.step));
        if self.advised || goes_on { Ok(()) } else { refuse_what_can_not_be(plan) }
    }
}

/// Whether `apply` without `--persist` can set the value of a step.
pub(crate) fn can_be_set(step: &Step) -> bool {
    matches!(step.action, Action::Write { .. } | Action::KernelArgument { .. })
}

fn refuse_what_can_not_be(plan: &PlanFile) -> Result<(), Failure> {
    if let Some(lasting) = &plan.persist {
        let is_ours = |cannot: &&Cannot| plan.settings.contains(&cannot.setting);
        return match lasting.persist.cannot.iter().find(is_ours) {
            None => Ok(()),
            Some(Cannot { setting, why, todo }) => {
                Err(Failure::text(exit::NOT_POSSIBLE, format_args!("make {setting} outlive a boot"), why).hint(todo))
            }
        };
    }
    for step in plan.steps.iter().map(|planned| &planned.step) {
        let cause = match &step.action {
            Action::Hold { path } => format!("it lasts only while a process holds {path} open"),
            Action::ByHand { todo } => format!("it is done by hand: {todo}"),
            Action::Process => "the server itself sets it when it starts".to_owned(),
            Action::Write { .. } | Action::KernelArgument { .. } => continue,
        };
        let setting = format!("{}={}", step.knob, step.wanted);
        let lasts = match &step.action {
            Action::Process => {
                format!("`evenkeel apply {setting} --persist --unit NAME.service` sets it for a systemd service")
            }
            Action::Hold { .. } => "--persist installs a service that holds it".to_owned(),
            _ => "--persist may make it last".to_owned(),
        };
        return Err(Failure::text(exit::NOT_POSSIBLE, format_args!("apply {setting}"), cause)
            .hint(format!("`evenkeel prove {setting}` measures what it does; {lasts}")));
    }
    Ok(())
}
