//! Runs a new trial, or resumes a stored one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel_host::Facts;
use evenkeel_hostfs::Root;
use evenkeel_trial::session_log::{Asked, Head, SessionLog};
use evenkeel_trial::{ConcurrentTrials, Design, SessionWriter, Titles};
use evenkeel_workload::source::outside_ticks::METRICS;
use evenkeel_workload::{Metric, Workload};

use super::answer::{self, Answer};
use super::asked::TrialArgs;
use super::design::DesignArgs;
use super::{boots, goal, inert};
use crate::args::StateArgs;
use crate::arms::{self, Arms};
use crate::commands::capture;
use crate::exit;
use crate::experiment::{self, Experiment};
use crate::failure::{Failure, Outcome};
use crate::needs::Needs;
use crate::output_file;
use crate::overdue;
use crate::report::{self, SessionAnswer};
use crate::selection;
use crate::session_files::{self, TrialLock};
use crate::show::Out;
use crate::times;
use crate::workload_args::WorkloadArgs;
use crate::workload_settings;
use crate::wrong_use;

pub(super) fn run(args: &TrialArgs, out: &Out) -> Outcome {
    overdue::settle(&Root::live(), &args.state, out);
    refuse_words(&args.settings)?;
    boots::refuse_reboots(&args.settings, &args.plan.decision)?;
    let root = Root::live();
    let facts = Facts::probe(&root);
    let by_goal = args.goal.as_ref().map(|file| goal::asked_by(args, file, &facts, out)).transpose()?;
    let args = by_goal.as_ref().unwrap_or(args);
    let control = args.plan.control;
    let arms = match (args.settings.is_empty() && args.plan.arm.is_empty(), control) {
        (true, true) => Arms::nothing(),
        (true, false) => return Err(nothing_named()),
        (false, _) => Arms::parse(&args.settings, &args.plan.arm)?,
    };
    let needs = Needs::from_settings(&facts, &arms.settings)?;
    needs.refuse_without_root("prove", &arms.settings)?;
    args.keep.as_deref().map_or(Ok(()), output_file::refuse_unwritable)?;
    let _alone = TrialLock::take(&args.state)?;
    let session = Session {
        out,
        root: &root,
        facts: &facts,
        arms: &arms,
        needs,
        control,
        workload: &args.workload,
        anyway: args.plan.anyway,
        report: args.report.as_deref(),
        state: &args.state,
        begins: Begins::Anew { plan: &args.plan, keep: args.keep.as_deref() },
    };
    session.run()
}

/// The result of a comparison of several arms.
pub(crate) struct Compared {
    pub(crate) session: SessionAnswer,
    /// The text that `prove` would print.
    pub(crate) text: String,
    pub(crate) exit: exit::Exit,
}

/// Compares arms of settings with each other and with the unchanged machine, and writes the report into `folder`.
pub(crate) fn compare_arms(
    arms: &Arms,
    plan: &DesignArgs,
    (state, workload): (&StateArgs, &WorkloadArgs),
    folder: Option<&Path>,
    out: &Out,
) -> Result<Compared, Failure> {
    let root = Root::live();
    overdue::settle(&root, state, out);
    let facts = Facts::probe(&root);
    let needs = Needs::from_settings(&facts, &arms.settings)?;
    needs.refuse_without_root("guide", &arms.settings)?;
    let _alone = TrialLock::take(state)?;
    let session = Session {
        out,
        root: &root,
        facts: &facts,
        arms,
        needs,
        control: false,
        workload,
        anyway: true,
        report: folder,
        state,
        begins: Begins::Anew { plan, keep: None },
    };
    let (answer, mut measured) = session.answered("guide")?;
    let (text, exit) = (answer::text(&measured), answer::exit_of(&measured));
    if let Some(folder) = folder {
        let mut full = report::begin(answer.again, facts.clone(), Vec::new());
        full.capture = answer.capture;
        (full.trials, full.choice) = (measured.trials, measured.choice);
        report::write(&full, folder)?;
        (measured.trials, measured.choice) = (full.trials, full.choice);
    }
    Ok(Compared { session: measured, text, exit })
}

const SUBCOMMANDS: [&str; 5] = ["boots", "compare", "report", "resume", "workloads"];

/// Refuses words that are not settings, for example a subcommand after an option.
fn refuse_words(settings: &[String]) -> Result<(), Failure> {
    let Some(word) = settings.iter().find(|text| !text.contains('=')) else { return Ok(()) };
    let cause = format!("{word:?} is not a setting: expected KNOB=VALUE");
    let meant = wrong_use::nearest(word, &SUBCOMMANDS.map(str::to_owned));
    let meant =
        meant.first().map(|name| format!("did you mean `evenkeel prove {name}`? It stands directly after `prove`"));
    let hint = selection::add_value(word).or(meant).unwrap_or_else(|| {
        "`evenkeel explain` lists the knobs. A subcommand (boots, compare, report, resume, workloads) stands directly \
         after `prove`, and a time has no space: `--budget 90s`"
            .to_owned()
    });
    Err(Failure::text(exit::WRONG_USE, "read the settings", cause).hint(hint))
}

fn nothing_named() -> Failure {
    let hint = "`evenkeel audit` lists settings worth a trial, each with its command; `--control` compares A with A";
    Failure::text(exit::WRONG_USE, "read the arguments", "KNOB=VALUE is missing: the setting to prove").hint(hint)
}

/// How a session starts.
pub(super) enum Begins<'a> {
    /// A new session with this plan. evenkeel stores it in the file `keep`, or in a default file.
    Anew { plan: &'a DesignArgs, keep: Option<&'a Path> },
    /// A continued session: its file, and its content.
    After(&'a Path, &'a SessionLog),
}

/// A trial that can start or continue.
pub(super) struct Session<'a> {
    pub(super) out: &'a Out,
    pub(super) root: &'a Root,
    pub(super) facts: &'a Facts,
    pub(super) arms: &'a Arms,
    pub(super) needs: Needs,
    pub(super) control: bool,
    pub(super) workload: &'a WorkloadArgs,
    /// Whether to also measure settings that have no effect here.
    pub(super) anyway: bool,
    pub(super) report: Option<&'a Path>,
    pub(super) state: &'a StateArgs,
    pub(super) begins: Begins<'a>,
}

impl Session<'_> {
    /// Measures, prints the answer and writes the report. A lock excludes other trials.
    pub(super) fn run(&self) -> Outcome {
        let (output, session) = self.answered("prove")?;
        output.print(self.out, session)
    }

    /// Measures, and returns the answer. The caller prints it.
    fn answered(&self, command: &str) -> Result<(Answer<'_>, SessionAnswer), Failure> {
        let capture = capture::text_of(self.root);
        if let Some(folder) = self.report {
            output_file::make_folder(folder)?;
        }
        let concurrent = experiment::announce(self.out, &format!("{command} {}", arms::text_of(&self.arms.settings)));
        let stop = experiment::stop_flag()?;
        experiment::explain_signals(self.out, self.state);
        let session = self.measure(&stop, &concurrent)?;
        let again = answer::again(self.workload, self.anyway, &session);
        let output = Answer { facts: self.facts, capture: Some(capture), report: self.report, again, was_kept: false };
        Ok((output, session))
    }

    fn before(&self) -> Option<&SessionLog> {
        match self.begins {
            Begins::After(_, kept) => Some(kept),
            Begins::Anew { .. } => None,
        }
    }

    fn measure(&self, stop: &Arc<AtomicBool>, concurrent: &Arc<ConcurrentTrials>) -> Result<SessionAnswer, Failure> {
        let seed = match self.begins {
            Begins::After(_, kept) => kept.head.design.seed,
            Begins::Anew { plan, .. } => plan.decision.seed.unwrap_or_else(experiment::fresh_seed),
        };
        let or_stopped = |failure| experiment::stopped_or(failure, stop);
        if self.needs.journal {
            experiment::refuse_early_if_interrupted(self.root, self.state)?;
        }
        let mut workload = self.workload.start(seed, stop).map_err(or_stopped)?;
        for own in &self.arms.asked {
            workload_settings::rehearse(workload.as_mut(), own).map_err(or_stopped)?;
        }
        let design = self.design(workload.as_ref(), seed)?;
        let inert = match self.before().is_some() || self.control || self.anyway {
            true => Vec::new(),
            false => inert::inert_knobs(self.facts, self.arms),
        };
        self.announce(workload.as_ref(), &design, inert.is_empty());
        let same = match !self.control && self.arms.count() == 2 {
            true => experiment::same_already(self.root, &experiment::plans(self.facts, &self.arms.settings)?),
            false => Vec::new(),
        };
        same.iter().for_each(|words| self.out.status(words));
        let mut state = if self.needs.journal { Some(self.state.open()?) } else { None };
        let experiment = Experiment {
            root: self.root,
            facts: self.facts,
            state: state.as_mut(),
            state_args: self.state,
            arms: self.arms,
            control: self.control,
            same_already: same,
            inert,
            design: &design,
            stop,
            concurrent,
            progress: self.out.telling(),
            keep: &|head| self.keep_in(head),
            before: self.before().map(|kept| kept.record.clone()),
        };
        let session = experiment.measure(workload.as_mut());
        workload.stop();
        session
    }

    fn design(&self, workload: &dyn Workload, seed: u64) -> Result<Design, Failure> {
        match self.begins {
            Begins::Anew { plan, .. } => plan.design(workload, self.arms, seed),
            Begins::After(_, kept) => {
                refuse_another(workload, &kept.head.titles, &kept.head.design.metric)?;
                Ok(kept.head.design.clone())
            }
        }
    }

    /// Prints what the trial will measure, and its duration.
    fn announce(&self, workload: &dyn Workload, design: &Design, in_pairs: bool) {
        let at_most = if design.stop.is_sequential() { "at most" } else { "about" };
        let time = match in_pairs {
            true => format!(
                "{at_most} {}",
                times::words(Duration::from_secs(design.planned_for(self.arms.count()).as_secs()))
            ),
            false => "one window".to_owned(),
        };
        self.out.status(&format!("{}\n{time}", workload.describe()));
    }

    /// The file of the session: the file of the continued session, or a new file.
    fn keep_in(&self, head: &Head) -> Result<SessionWriter, Failure> {
        let keep = match self.begins {
            Begins::After(path, kept) => {
                SessionWriter::go_on(path, kept).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?
            }
            Begins::Anew { keep, .. } => {
                let head = Head { asked: Some(self.asked()), ..head.clone() };
                session_files::begin(self.state, keep, &head)?
            }
        };
        if let Some(path) = keep.path() {
            self.out.status(&format!("session stored in {}", path.display()));
        }
        Ok(keep)
    }

    /// The options that `prove resume` needs in addition to the design.
    fn asked(&self) -> Asked {
        let text = |path: PathBuf| path.to_str().map(str::to_owned);
        Asked {
            workload: self.workload.line(),
            folder: std::env::current_dir().ok().and_then(text),
            report: self.report.and_then(|folder| std::path::absolute(folder).ok()).and_then(text),
        }
    }
}

/// Two tick rates that differ by more than this share belong to different loops.
const RATE_APART_MAX: f64 = 0.05;

/// Refuses a workload that changed since the session began:
/// its file or program differs, or its tick is in another loop.
fn refuse_another(workload: &dyn Workload, titles: &Titles, decides: &Metric) -> Result<(), Failure> {
    let refused = |cause| Failure::text(exit::WRONG_USE, "continue the session", cause);
    let is_same = match &titles.workload_identity {
        Some(then) => *then == workload.identity(),
        None => titles.workload == workload.describe(),
    };
    if !is_same {
        let (then, now) = (&titles.workload, workload.describe());
        return Err(refused(format!("it measured the workload {then:?}, but this is {now:?}")));
    }
    if let Some((then, now)) = titles.workload_events_per_s.zip(workload.events_per_s())
        && (now / then - 1.0).abs() > RATE_APART_MAX
    {
        return Err(refused(format!("the tick rate was {then:.1} Hz, but now it is {now:.1} Hz"))
            .hint("run it again: evenkeel looks for the tick at every start"));
    }
    let is = |metric: &Metric| metric.name == decides.name;
    if METRICS.iter().any(is) && !workload.metrics().iter().any(is) {
        let cause = format!(
            "{} needs ticks at set times, but evenkeel could not confirm that this start has them",
            decides.name
        );
        return Err(refused(cause).hint("run it again when other programs use less CPU time"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {

    use evenkeel_workload::{Sample, WorkloadError};

    use super::*;

    /// A fake server: the thread and the rate of its tick, and its metrics.
    struct Server(u32, f64, Vec<Metric>);

    impl Workload for Server {
        fn describe(&self) -> String {
            format!("server; tick of thread {}, {:.1} Hz", self.0, self.1)
        }

        fn identity(&self) -> String {
            "server; tick".to_owned()
        }

        fn events_per_s(&self) -> Option<f64> {
            Some(self.1)
        }

        fn metrics(&self) -> &[Metric] {
            &self.2
        }

        fn window(&mut self, _: Duration, _: Duration, _: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
            Ok(Sample::new())
        }

        fn stop(&mut self) {}
    }

    #[test]
    fn a_session_continues_whatever_thread_ticks_now() {
        let lateness = Metric::us("tick_lateness_us_p50", "");
        let server = |thread, hz| Server(thread, hz, vec![lateness.clone()]);
        let begun = server(100, 20.0);
        let titles = Titles {
            workload: begun.describe(),
            workload_identity: Some(begun.identity()),
            workload_events_per_s: begun.events_per_s(),
            ..Titles::default()
        };
        let refused = |server: Server, titles: &Titles| {
            let refusal = refuse_another(&server, titles, &lateness).err();
            refusal.map_or(String::new(), |failure| failure.message())
        };
        assert_eq!(refused(server(207, 20.3), &titles), "");
        assert!(refused(server(100, 30.0), &titles).contains("20.0 Hz, but now it is 30.0 Hz"));
        let without_due = Server(207, 20.0, vec![Metric::us("tick_wall_us_p50", "")]);
        assert!(refused(without_due, &titles).contains("tick_lateness_us_p50 needs ticks at set times"));
        let other = Titles { workload_identity: Some("another; tick".to_owned()), ..titles.clone() };
        assert!(refused(server(100, 20.0), &other).contains("but this is"));
        // The head of an older session contains only the workload's description.
        let older = Titles { workload_identity: None, workload_events_per_s: None, ..titles };
        assert_eq!(refused(server(100, 20.0), &older), "");
        assert!(refused(server(207, 20.0), &older).contains("but this is"));
    }
}
