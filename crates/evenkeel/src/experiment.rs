//! The functions that `prove` and `demo` share: one trial from its settings to its report, with progress and signals.

use std::cell::Cell;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_change::{State, StateError};
use evenkeel_host::{Action, Fact, Facts, Plan, Setting, Wait, knobs};
use evenkeel_hostfs::Root;
use evenkeel_sys::CpuSet;
use evenkeel_trial::search::restarts;
use evenkeel_trial::session_log::{Head, SessionLog};
use evenkeel_trial::{
    Arm, ArmName, ArmReport, Caveat, Choice, ConcurrentTrials, Design, Ended, Guard, Identity, Mishap, NetworkPath,
    Outcome, Record, Report, SessionWriter, Settle, Stretch, Switch, Titles, Trial, TrialError, Watch, Window, resume,
};
use evenkeel_workload::arena::{Arena, Config};
use evenkeel_workload::{Metric, Placement, Workload, WorkloadError};
use serde::Serialize;

use crate::args::StateArgs;
use crate::arms::{self, Arms};
use crate::exit;
use crate::failure::Failure;
use crate::progress::{Progress, Telling};
use crate::report::{ChoiceEntry, Claim, SessionAnswer, TrialEntry, choice, words};
use crate::show::Out;
use crate::times;

/// The default guard: the tail of the primary metric may get worse by at most this share.
/// Tails are noisy, so smaller differences are often chance.
pub(crate) const TAIL_HARM_RATIO: f64 = 0.25;

/// A flag that SIGINT, SIGTERM or a closed terminal sets.
/// After that, the trial finishes its current window, restores everything and reports.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let failed = |error| Failure::io(exit::NOT_POSSIBLE, "listen for signals", &error);
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // The second signal ends the program, and a later `revert` restores the host from the journal.
        // A closed terminal sends SIGHUP more than once, so a second SIGHUP must not end the program.
        if signal != SIGHUP {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag)).map_err(failed)?;
        }
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(failed)?;
    }
    Ok(flag)
}

/// At the first signal, prints that the trial will end after this window, which may take minutes.
/// Also prints the effect of a second signal.
pub(crate) fn explain_signals(out: &Out, state: &StateArgs) {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let Ok((mut heard, sender)) = UnixStream::pair() else { return };
    let sender = [SIGINT, SIGTERM].map(|signal| Ok((signal, sender.try_clone()?)));
    let registered = sender.into_iter().all(|sender: io::Result<_>| {
        sender.and_then(|(signal, sender)| signal_hook::low_level::pipe::register(signal, sender)).is_ok()
    });
    let (out, revert) = (*out, state.revert());
    if registered {
        // This thread ends only with the program.
        std::thread::spawn(move || {
            if heard.read_exact(&mut [0]).is_ok() {
                out.warn(&format!(
                    "stopping after this window, then restoring all settings. A second signal stops immediately; \
                     then run {revert}\n"
                ));
            }
        });
    }
}

/// If the user stopped the trial, a failure before the first window counts as a stop,
/// because the signal ended the wait.
/// A failure to restore the host stays an error.
pub(crate) fn stopped_or(failure: Failure, stop: &AtomicBool) -> Failure {
    match stop.load(Ordering::Relaxed) && failure.exit != exit::NOT_UNDONE {
        true => Failure::new(exit::STOPPED, WorkloadError::Stopped),
        false => failure,
    }
}

/// Announces this trial to other trials on this machine, and returns the trials that already run.
pub(crate) fn announce(out: &Out, command: &str) -> Arc<ConcurrentTrials> {
    let concurrent = ConcurrentTrials::begin(command);
    concurrent.news().iter().for_each(|words| out.warn(&format!("{words}\n")));
    Arc::new(concurrent)
}

/// Starts the reference server with its bots, from the folder that holds this program.
pub(crate) fn start_arena(bots: u8, seed: u64) -> Result<Arena, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::io(exit::NOT_POSSIBLE, "find the folder of this program", &error))?;
    let programs = program.parent().map_or_else(PathBuf::new, PathBuf::from);
    let (tick_hz, work_us, tail_us, placement) = (50, 300, 0, Placement::Apart);
    Arena::start(Config { programs, bots, tick_hz, work_us, tail_us, is_steady: false, phases: false, seed, placement })
        .map_err(not_possible)
}

fn not_possible(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(exit::NOT_POSSIBLE, error)
}

/// Creates the file of a session. The file begins with the session's head.
pub(crate) type KeepIn<'a> = &'a dyn Fn(&Head) -> Result<SessionWriter, Failure>;

/// A trial with one or several arms.
pub(crate) struct Experiment<'a> {
    pub(crate) root: &'a Root,
    pub(crate) facts: &'a Facts,
    pub(crate) state: Option<&'a mut State>,
    /// Where the user wants the journal.
    pub(crate) state_args: &'a StateArgs,
    pub(crate) arms: &'a Arms,
    /// Compare arm A with itself.
    pub(crate) control: bool,
    /// If the trial has one other arm, the settings of that arm that are already in force, as text.
    pub(crate) same_already: Vec<String>,
    /// Knobs that have no effect here, with the reasons. If the list has any knob, the trial measures only one window.
    pub(crate) inert: Vec<(String, String)>,
    pub(crate) design: &'a Design,
    pub(crate) stop: &'a AtomicBool,
    /// The other trials on this machine.
    pub(crate) concurrent: &'a Arc<ConcurrentTrials>,
    /// How progress is shown.
    pub(crate) progress: Telling,
    /// Creates the log of the session.
    pub(crate) keep: KeepIn<'a>,
    /// The windows of the continued session; `None` for a new session.
    pub(crate) before: Option<Record>,
}

impl Experiment<'_> {
    /// Runs the trial. Afterwards the host is restored, or the error names the values that are not.
    pub(crate) fn measure(self, workload: &mut dyn Workload) -> Result<SessionAnswer, Failure> {
        if let Some(state) = &self.state {
            refuse_if_interrupted(self.root, state, self.state_args)?;
        }
        if !self.inert.is_empty() {
            return self.one_window(workload);
        }
        let plans = plans(self.facts, &self.arms.settings)?;
        refuse_if_only_observed(&plans, &self.arms.settings, workload)?;
        let arms = self.arms.levels(self.control);
        let titles = self.titles(workload);
        let watch = Watch::start(self.root, &plans).with_concurrent(self.concurrent).of_workload(workload);
        let network = NetworkPath::from_workload(workload);
        let fresh = || Record::new(self.design, arms.clone(), watch.knobs(), network);
        let before = self.before.unwrap_or_else(fresh);
        let asked = self.arms.settings.iter().map(ToString::to_string).collect();
        let writer = self.root.writer().map_err(not_possible)?;
        let mut switch = Switch::begin(self.root, &writer, self.state, &titles.title, &plans).map_err(no_switch)?;
        // From this point, dropping the switch also restores the host.
        let mut head = Head::new(asked, titles.clone(), self.design.clone(), &before);
        head.settings_by_arm = self.arms.texts();
        let mut keep = (self.keep)(&head)?;
        let mut progress = Progress::new(self.progress, self.design, &titles.title);
        let stop = || self.stop.load(Ordering::Relaxed);
        let design = self.design;
        let mut trial =
            Trial { design, arms, switch: &mut switch, workload, watch: &watch, stop: &stop, keep: &mut keep };
        let (mut planned, preview) = (Some(design.planned_for(self.arms.count())), Cell::new(false));
        let record = resume(&mut trial, before, &mut |now| {
            self.concurrent.news().iter().for_each(|words| progress.print(words));
            if now.stretch != Stretch::Settling
                && let Some(planned) = planned.take()
                && let Some(words) = longer_than(planned, now)
            {
                progress.print(&words);
            }
            if let Some(detectable) = now.detectable.filter(|_| !preview.replace(true)) {
                progress.note(&words::preview(detectable, design.stop.pairs_max()));
            }
            progress.show(now);
        });
        progress.end();
        let restored = switch.end();
        restored.map_err(|error| {
            Failure::new(exit::NOT_UNDONE, error).hint(format!("{} tries again", self.state_args.revert()))
        })?;
        let mut record = record.map_err(|error| match &error {
            TrialError::ShortBudget { least, .. } => {
                let hint = more_time(design, *least);
                Failure::new(exit::WRONG_USE, error).hint(hint)
            }
            _ => not_possible(error),
        })?;
        record.mishaps.extend(workload.caveats().into_iter().map(Mishap::from));
        let kept_in = keep.whole().map(Path::to_owned);
        Ok(SessionAnswer { kept_in, ..session_answer(self.arms, self.control, design, titles, record)? })
    }

    /// The answer for settings that have no effect here: one window of the unchanged machine, and the reasons.
    fn one_window(self, workload: &mut dyn Workload) -> Result<SessionAnswer, Failure> {
        let (design, titles) = (self.design, self.titles(workload));
        let watch = Watch::start(self.root, &[]).with_concurrent(self.concurrent).of_workload(workload);
        let network = NetworkPath::default();
        let mut record = Record::new(design, self.arms.levels(true), Vec::new(), network);
        let measured = watch.measure(workload, Duration::ZERO, design.window).map_err(not_possible)?;
        let (sample, conditions) = (measured.sample.unwrap_or_default(), measured.conditions);
        let value = sample.get(design.metric.name.as_ref()).copied();
        let window = value.map(|value| Window { pair: 0, arm: ArmName::A, start_us: 0.0, value, sample, conditions });
        record.ended = Ended::Decided;
        let mut answer = session_answer(self.arms, self.control, design, titles, record)?;
        for entry in &mut answer.trials {
            let why =
                |(knob, why): &(String, String)| Caveat::NotEngaged { knob: Some(knob.clone()), why: why.clone() };
            let report = &mut entry.report;
            report.verdict = Outcome::NotEngaged;
            report.caveats.splice(0..0, self.inert.iter().map(why));
            // No pair contains the window, so the report does not have it yet.
            report.windows.extend(window.clone());
            report.arms.iter_mut().take(1).for_each(|arm| arm.median = value);
            entry.sentence = words::inert(&entry.knob, &self.inert, value, &report.metric.unit);
        }
        Ok(answer)
    }

    fn titles(&self, workload: &dyn Workload) -> Titles {
        let as_it_was = "as it was".to_owned();
        let of_arm = |own: &Vec<Setting>| if self.control { as_it_was.clone() } else { arms::text_of(own) };
        let what = if self.control { "control of" } else { "prove" };
        let asked: Vec<String> = self.arms.asked.iter().map(|own| arms::text_of(own)).collect();
        let asked = if self.arms.settings.is_empty() { "the machine as it is".to_owned() } else { asked.join(" | ") };
        Titles {
            title: format!("{what} {asked}"),
            values: [as_it_was.clone()].into_iter().chain(self.arms.asked.iter().map(of_arm)).collect(),
            away: self.arms.away(self.root, self.facts),
            same_already: self.same_already.clone(),
            workload: workload.describe(),
            workload_identity: Some(workload.identity()).filter(|identity| *identity != workload.describe()),
            workload_events_per_s: workload.events_per_s(),
            identity: identity(self.facts),
        }
    }
}

/// The message for a trial that will take at least a quarter longer than announced, because the server settles slowly.
fn longer_than(planned: Duration, now: &evenkeel_trial::Progress) -> Option<String> {
    let all = now.elapsed + now.left;
    (all > planned.mul_f64(1.25))
        .then(|| format!("the server settles slowly after a switch: now {} in total", times::words(all)))
}

/// The hint for a budget that is shorter than the design needs.
pub(crate) fn more_time(design: &Design, least: Duration) -> String {
    let settle = match design.settle {
        Settle::Found { .. } => "set --settle, ",
        Settle::Fixed { .. } => "",
    };
    format!(
        "use at least --budget {}s (more if each switch restarts the server), {settle}or lower --window or --control-pairs",
        least.as_secs_f64().ceil()
    )
}

/// The answer of a stored session.
pub(crate) fn stored_answer(kept: SessionLog) -> Result<SessionAnswer, Failure> {
    let arms = Arms::of_head(&kept.head)?;
    if arms.count() != kept.head.arms.len() {
        let cause = format!("it names settings for {} arms, but {} were measured", arms.count(), kept.head.arms.len());
        return Err(Failure::text(exit::WRONG_USE, "read the arms of the session", cause));
    }
    session_answer(&arms, is_control(&kept.head.arms), &kept.head.design, kept.head.titles, kept.record)
}

/// Whether all arms have the same settings.
pub(crate) fn is_control(arms: &[Arm]) -> bool {
    arms.windows(2).all(|two| two[0] == two[1])
}

fn session_answer(
    arms: &Arms,
    control: bool,
    design: &Design,
    titles: Titles,
    record: Record,
) -> Result<SessionAnswer, Failure> {
    let same_already = titles.same_already.clone();
    let opening = |report: &Report, same: &[String]| {
        words::opening(same, &report.ended, report.pairs, report.design.stop.pairs_max())
    };
    let answers = record.answers(design, titles).map_err(not_possible)?;
    let entry = |(report, own): (Report, &Vec<Setting>)| {
        let of_arm = |arm: &ArmReport| Claim::new(&report, &arm.values, control).sentence();
        let sentence = report.arms.get(1).map_or_else(String::new, of_arm);
        let sentence = opening(&report, &same_already) + &sentence;
        TrialEntry { knob: arms::text_of(own), control, sentence, report }
    };
    let trials: Vec<TrialEntry> = answers.reports.into_iter().zip(&arms.asked).map(entry).collect();
    let said = |which: Choice| {
        let names: Vec<(ArmName, &str)> =
            ArmName::further(arms.count()).zip(trials.iter().map(|entry| entry.knob.as_str())).collect();
        let is_claimed = |entry: &TrialEntry| matches!(entry.report.verdict, Outcome::Better | Outcome::Worse);
        let sentence = match control {
            true => choice::of_control(trials.iter().any(is_claimed)),
            false => choice::of_choice(&which, &names, &design.metric.title),
        };
        let longest = trials.iter().max_by_key(|entry| entry.report.pairs);
        let opening = longest.map_or_else(String::new, |entry| opening(&entry.report, &[]));
        ChoiceEntry { sentence: opening + &sentence, choice: which }
    };
    let choice = answers.choice.map(said);
    Ok(SessionAnswer { trials, choice, kept_in: None })
}

/// The identity of this program and of this machine, for the report.
pub(crate) fn identity(facts: &Facts) -> Identity {
    // A value in the spelling of the JSON output. `None` if the value is unknown.
    fn named<T: Serialize>(fact: &Fact<T>) -> Option<String> {
        serde_json::to_value(fact.known()?).ok()?.as_str().map(str::to_owned)
    }
    Identity {
        evenkeel: env!("CARGO_PKG_VERSION").to_owned(),
        begun: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        kernel: named(&facts.kernel.release),
        processor: named(&facts.cpus.model),
        cpus: facts.cpus.online.known().map(ToString::to_string),
        hypervisor: named(&facts.machine.hypervisor),
        cloud: named(&facts.machine.cloud),
        instance: named(&facts.machine.instance_type),
    }
}

/// One plan for each setting.
pub(crate) fn plans(facts: &Facts, settings: &[Setting]) -> Result<Vec<Plan>, Failure> {
    let plan = |setting: &Setting| Plan::from_settings(facts, std::slice::from_ref(setting)).map_err(not_possible);
    settings.iter().map(plan).collect()
}

/// Refuses a setting that needs a restart of the server, if evenkeel did not start the server.
fn refuse_if_only_observed(plans: &[Plan], settings: &[Setting], workload: &dyn Workload) -> Result<(), Failure> {
    let Some(setting) = restarts(plans).first().and_then(|at| settings.get(*at)).filter(|_| !workload.can_restart())
    else {
        return Ok(());
    };
    let cause = "it takes effect when the server starts or opens sockets, and evenkeel only observes this server";
    let failure = Failure::text(exit::NOT_POSSIBLE, format!("switch {setting}"), cause);
    Err(failure.hint(format!("let evenkeel start the server: `evenkeel prove {setting} -- COMMAND`")))
}

/// Refuses a knob with two values. The trial would measure only the last value, but the report would name both.
pub(crate) fn refuse_twice(plan: &Plan) -> Result<(), Failure> {
    let steps = &plan.steps;
    let is_twice = |(at, step): &(usize, &evenkeel_host::Step)| {
        steps[..*at].iter().any(|before| (&before.knob, &before.place) == (&step.knob, &step.place))
    };
    match steps.iter().enumerate().find(is_twice) {
        Some((_, step)) => {
            let cause = format!("{} is set twice at {}", step.knob, step.place);
            Err(Failure::text(exit::WRONG_USE, "read the settings", cause))
        }
        None => Ok(()),
    }
}

/// The settings that are already in force. Both arms would have them.
pub(crate) fn same_already(root: &Root, plans: &[Plan]) -> Vec<String> {
    let is_so = |step: &evenkeel_host::Step| match &step.action {
        Action::Write { path, reading, .. } => {
            root.text(path).is_ok_and(|text| reading.value(&text).as_deref() == Some(&step.wanted))
        }
        _ => false,
    };
    let same = plans.iter().filter(|plan| !plan.steps.is_empty() && plan.steps.iter().all(is_so));
    let words = |plan: &Plan| {
        let step = plan.steps.first()?;
        Some(format!("{} is already {} here, so both arms have it", step.knob, step.wanted))
    };
    same.filter_map(words).collect()
}

/// Refuses a trial after an interrupted run,
/// because the values of that run would count as values of the unchanged host.
pub(crate) fn refuse_if_interrupted(root: &Root, state: &State, args: &StateArgs) -> Result<(), Failure> {
    let interrupted = evenkeel_change::interrupted(root, state.log());
    let Some(first) = interrupted.first() else { return Ok(()) };
    let error = anyhow::anyhow!("begin a trial: transaction {first} was interrupted and is not reverted yet");
    Err(Failure::new(exit::NOT_POSSIBLE, error).hint(format!("run {} first", args.revert())))
}

/// The same check before a server starts.
/// It takes no lock and creates no journal, unless it finds an interrupted transaction.
/// Then it takes the lock, to find out whether another evenkeel still works on that transaction.
pub(crate) fn refuse_early_if_interrupted(root: &Root, args: &StateArgs) -> Result<(), Failure> {
    match evenkeel_change::interrupted(root, &args.read()?).is_empty() {
        true => Ok(()),
        false => refuse_if_interrupted(root, &args.open()?, args),
    }
}

/// The failure if evenkeel can switch no setting. If it can't write the journal, the failure has a hint.
fn no_switch(error: TrialError) -> Failure {
    let has_no_room = matches!(error, TrialError::Journal(StateError::Add { .. }));
    let failure = not_possible(error);
    match has_no_room {
        true => failure.hint("free disk space, or use a folder on another disk with --state DIR"),
        false => failure,
    }
}

/// The metric of this name.
pub(crate) fn metric(workload: &dyn Workload, name: &str) -> Result<Metric, Failure> {
    let metrics = workload.metrics();
    let names = || metrics.iter().map(|metric| metric.name.as_ref()).collect::<Vec<_>>().join(", ");
    let found = metrics.iter().find(|metric| metric.name == name).cloned();
    found.ok_or_else(|| {
        Failure::text(exit::WRONG_USE, format!("measure {name:?}"), format!("the workload measures {}", names()))
    })
}

/// The default metric.
/// It is the metric on which the compared knobs act most directly,
/// if the workload has it, or else the workload's first choice.
pub(crate) fn usual_metric(workload: &dyn Workload, knobs: &[&str]) -> Result<Metric, Failure> {
    usual_among(workload.metrics(), knobs).cloned().ok_or_else(|| {
        Failure::text(exit::NOT_POSSIBLE, "choose a metric", "the workload measures nothing")
            .hint("name a metric with --metric")
    })
}

fn usual_among<'m>(metrics: &'m [Metric], knobs: &[&str]) -> Option<&'m Metric> {
    // For an empty list, `all` would return true.
    let ends_sleeps = |knob: &&str| knobs::find(knob).is_ok_and(|knob| knob.extras.shortens == Some(Wait::LateTimer));
    let of_ticks = !knobs.is_empty() && knobs.iter().all(ends_sleeps);
    let by_knob = metrics.iter().find(|metric| of_ticks && metric.name == "tick_lateness_us_p50");
    by_knob.or_else(|| metrics.first())
}

/// The minimum number of ticks in a window of default length.
/// With fewer ticks, the median would be little more than a single tick.
const TICKS_IN_WINDOW: f64 = 12.0;

/// The default length of a window: `usual`, or longer if the server has a low tick rate.
pub(crate) fn window_with_ticks(workload: &dyn Workload, usual: Duration) -> Duration {
    let ms = workload.events_per_s().map_or(0.0, |hz| TICKS_IN_WINDOW / hz.max(0.1) * 1e3);
    usual.max(Duration::from_millis((ms / 50.0).ceil() as u64 * 50))
}

/// The default guard of a metric: the tail of the same measurement,
/// if a window of this length has enough ticks for the tail.
/// `None` means windows of any length. A better median with a worse tail is no gain.
/// But a tail of two ticks differs by chance, and would reject settings that help.
pub(crate) fn usual_guards(workload: &dyn Workload, metric: &Metric, window: Option<Duration>) -> Vec<Guard> {
    let ticks = workload.ticks_per_s().zip(window).map(|(hz, window)| hz * window.as_secs_f64());
    let tail = fitting_tail(&metric.name, ticks);
    let found = tail.and_then(|tail| workload.metrics().iter().find(|metric| metric.name == tail));
    found.map(|metric| Guard { metric: metric.clone(), harm_ratio: TAIL_HARM_RATIO }).into_iter().collect()
}

/// The name of the tail of a metric for which this many ticks are enough; `None` if no tail fits.
fn fitting_tail(metric: &str, ticks: Option<f64>) -> Option<String> {
    let is_of_ticks = ["tick_", "due_to_done_"].iter().any(|begin| metric.starts_with(begin));
    let nearer = metric.strip_suffix("_p50").map(|stem| format!("{stem}_p90"));
    let fits = |tail: &String| !is_of_ticks || ticks.is_none_or(|ticks| ticks >= evenkeel_trial::ticks_wanted(tail));
    [tail_of(metric), nearer].into_iter().flatten().find(fits)
}

/// The name of the p99 of the same measurement; `None` if the metric's name has no such form.
pub(crate) fn tail_of(metric: &str) -> Option<String> {
    let stem = ["_p50", "_p90"].iter().find_map(|tail| metric.strip_suffix(tail));
    stem.map(|stem| format!("{stem}_p99"))
}

/// A new seed, for a user who chose no seed. The report names the seed.
pub(crate) fn fresh_seed() -> u64 {
    evenkeel_sys::clock::realtime_ns() % 1_000_000_000
}

/// Whether the machine has only one CPU, which the server and its load share.
pub(crate) fn is_cramped(facts: &Facts) -> bool {
    facts.cpus.online.known().is_some_and(|online: &CpuSet| online.len() < 2)
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::Errno;

    use super::*;

    /// Regression: the hint appeared for any error whose text contained certain words,
    /// such as the words in a knob's path.
    #[test]
    fn only_a_journal_without_room_has_the_hint_to_make_some() {
        let hint = |error| no_switch(error).hint;
        let (path, errno) = ("/x/journal.draft".to_owned(), Errno::NOSPC);
        let error = TrialError::Journal(StateError::Add { path: path.clone(), errno });
        assert!(hint(error).is_some_and(|hint| hint.contains("free disk space")));
        assert_eq!(hint(TrialError::Journal(StateError::Busy { path, holder: "process 7".to_owned() })), None);
        let text = "read /sys/add to /x/journal: no such file or directory (ENOENT)";
        assert_eq!(hint(TrialError::Change(text.to_owned())), None);
    }

    #[test]
    fn the_tail_has_enough_ticks_beyond_it() {
        let table = [
            ("tick_lateness_us_p50", Some(15.0), None),
            ("tick_lateness_us_p50", Some(50.0), Some("tick_lateness_us_p90")),
            ("tick_lateness_us_p50", Some(200.0), Some("tick_lateness_us_p99")),
            ("due_to_done_us_p90", Some(50.0), None),
            ("due_to_done_us_p90", Some(500.0), Some("due_to_done_us_p99")),
            ("tick_lateness_us_p50", None, Some("tick_lateness_us_p99")),
            ("round_trip_us_p50", Some(15.0), Some("round_trip_us_p99")),
        ];
        for (metric, ticks, expected) in table {
            assert_eq!(fitting_tail(metric, ticks).as_deref(), expected, "{metric} {ticks:?}");
        }
    }

    #[test]
    fn the_knobs_alone_choose_the_metric() {
        const ARENA: &[Metric] = &[Metric::us("round_trip_us_p50", "a"), Metric::us("tick_lateness_us_p50", "b")];
        const ECHO: &[Metric] = &[Metric::us("round_trip_us_p50", "a")];
        const SLACK: &str = "process.timer_slack_ns";
        let table: [(&[Metric], &[&str], Option<&str>); 6] = [
            (ARENA, &[], Some("round_trip_us_p50")),
            (ARENA, &[SLACK], Some("tick_lateness_us_p50")),
            (ARENA, &[SLACK, "vm.swappiness"], Some("round_trip_us_p50")),
            (ARENA, &["vm.swappiness"], Some("round_trip_us_p50")),
            (ECHO, &[SLACK], Some("round_trip_us_p50")),
            (&[], &[SLACK], None),
        ];
        for (metrics, knobs, expected) in table {
            let usual = usual_among(metrics, knobs).map(|metric| metric.name.as_ref());
            assert_eq!(usual, expected, "{knobs:?}");
        }
    }
}
