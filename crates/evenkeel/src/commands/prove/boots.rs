//! `prove boots`: compares settings that need a reboot, A-B-B-A over boots.
//! A systemd unit continues the trial after each boot.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_change::Log;
use evenkeel_host::Place;
use evenkeel_hostfs::Root;
use evenkeel_sys::{clock, process};
use evenkeel_trial::boots::{
    BootTransactions, BootsDesign, BootsEnded, BootsState, EXTRA_BOOTS, Ending, go_on, read, write,
};
use evenkeel_trial::{ArmName, Guard};
use evenkeel_workload::{Metric, Sample, Workload, WorkloadError};

use super::design::DecisionArgs;
use crate::args::{HostArgs, StateArgs};
use crate::arms::parse;
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome};
use crate::overdue;
use crate::session_files::TrialLock;
use crate::show::{self, Out};
use crate::workload_args::workload_of;

mod context;
mod live;
pub(crate) mod planned;
mod start_args;
mod status;

use context::{BootsContext, not_possible};
use planned::{Decides, plan, words};
use start_args::StartArgs;

/// The maximum duration of a boot without its windows, in seconds. Bare metal tests its memory for minutes.
const BOOT_LIMIT_S: u64 = 1800;
/// The time limit if the user reboots, in seconds. It is 30 days, because a user reboots only when nobody plays.
const BY_HAND_LIMIT_S: u64 = 30 * 86_400;
const SETTLE: Duration = Duration::from_secs(60);
const WINDOWS: u16 = 20;

/// Compare settings that need a reboot, over boots in the order A-B-B-A
#[derive(Clone, Debug, clap::Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    Start(Box<StartArgs>),
    Status(status::StatusArgs),
    Cancel(CancelArgs),
    /// Continue after a boot; the systemd unit runs this command
    #[command(hide = true)]
    Resume(StateArgs),
}

/// Cancel the trial over boots and restore all settings
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo evenkeel prove boots cancel")]
pub(super) struct CancelArgs {
    #[command(flatten)]
    state: StateArgs,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let state = match &args.what {
        What::Start(start) => &start.state,
        What::Status(status) => &status.state,
        What::Cancel(CancelArgs { state }) | What::Resume(state) => state,
    };
    overdue::settle(&Root::live(), state, out);
    match &args.what {
        What::Start(start) => begin(start, out),
        What::Status(status) => status::status(status, out),
        What::Cancel(CancelArgs { state }) => cancel(state, out),
        What::Resume(state) => go_on_after_boot(state, out),
    }
}

/// Refuses a setting that needs a reboot, and names `prove boots` in the hint.
pub(super) fn refuse_reboots(asked: &[String], decision: &DecisionArgs) -> Result<(), Failure> {
    let settings = parse(asked)?;
    let Some(setting) = settings.iter().find(|setting| matches!(setting.knob.place, Place::KernelArgument { .. }))
    else {
        return Ok(());
    };
    let cause = "a kernel argument takes effect only after a reboot, so evenkeel can't switch it between windows";
    let measuring = SETTLE + u32::from(WINDOWS) * decision.window();
    Err(Failure::text(exit::NOT_POSSIBLE, format!("prove {setting}"), cause).hint(format!(
        "evenkeel prove boots start {} compares four boots, A-B-B-A: {} min of measuring and normally at most five boots. \
         It waits for you to reboot; with --reboot it reboots itself; --plan-only shows the plan",
        asked.join(" "),
        (measuring * 4).as_secs().div_ceil(60)
    )))
}

fn design(args: &StartArgs, metric: Metric, guards: Vec<Guard>) -> BootsDesign {
    let (boots, settle) = (args.boots, args.boots_settle.unwrap_or(SETTLE));
    let (windows, window_ms) =
        (args.boots_windows.unwrap_or(WINDOWS).into(), args.decision.window().as_millis() as u64);
    // The trial measures dropped windows again, so it measures up to twice as many windows.
    let a_boot_s = settle.as_secs() + 2 * windows as u64 * window_ms / 1000 + BOOT_LIMIT_S;
    let limit_s = (boots + EXTRA_BOOTS) as u64 * a_boot_s;
    BootsDesign {
        settings: args.settings.clone(),
        smallest_effect_ratio: args.decision.smallest_effect.ratio(&metric),
        metric,
        guards,
        boots,
        windows,
        window_ms,
        settle_ms: u64::try_from(settle.as_millis()).unwrap_or(u64::MAX).min(3_600_000),
        seed: args.decision.seed.unwrap_or_else(experiment::fresh_seed),
        reboots: args.reboot,
        limit_s: if args.reboot { limit_s } else { limit_s.max(BY_HAND_LIMIT_S) },
    }
}

fn begin(args: &StartArgs, out: &Out) -> Outcome {
    if args.plan_only {
        let root = HostArgs { host: args.host.clone(), root: None }.open()?;
        let log = if args.host.is_some() { Log::default() } else { args.state.read()? };
        let decides = Decides::asked(&args.decision)?;
        let design = design(args, BootsDesign::default_metric(), Vec::new());
        let planned = plan(args, &root, &log, design, decides)?;
        out.answer(&planned, || words(&planned, &args.state.again()) + &show::plan::page(&planned.plan))?;
        return Ok(exit::WELL);
    }
    if !process::is_root() {
        let error = anyhow::anyhow!(
            "prove {} over boots: you need root to change what the machine boots",
            args.settings.join(" ")
        );
        return Err(Failure::new(exit::NOT_ALLOWED, error).hint("run it with sudo; --plan-only needs no root"));
    }
    let context = BootsContext::new(&args.state)?;
    context.refuse_gone()?;
    let _alone = TrialLock::take(&args.state)?;
    experiment::refuse_if_interrupted(&context.root, &args.state.open()?, &args.state)?;
    context.refuse_second()?;
    let (line, folder) = (workload_line(args)?, current_folder()?);
    let (metric, guards, workload_words) = try_workload(args)?;
    let design = design(args, metric, guards);
    design.check().map_err(|why| Failure::text(exit::WRONG_USE, "prove it over boots", why))?;
    let decides = Decides::from_design(&design);
    let planned = plan(args, &context.root, &args.state.read()?, design, decides)?;
    let boot_id = live::boot_id(&context.root).ok_or_else(|| not_possible("the kernel does not report a boot id"))?;
    let mut state = BootsState::begin(planned.design.clone(), clock::realtime_ns() / 1_000_000_000, &boot_id);
    state.workload = line;
    state.workload_words = workload_words;
    state.folder = folder;
    out.status(&words(&planned, &args.state.again()));
    write(&context.file, &state).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    let hands = context.hands(&state)?;
    let mut wait = live::waiting(out, live::sleep);
    if let Err(why) = hands.begin(&context.program, &context.file, &mut wait) {
        let undone = hands.put_back(&mut wait);
        let _ = std::fs::remove_file(&context.file);
        undone.map_err(|why| Failure::text(exit::NOT_UNDONE, "restore all settings", why))?;
        return Err(Failure::text(exit::NOT_POSSIBLE, "write the unit", why));
    }
    on(&mut state, &context, hands, out)
}

fn current_folder() -> Result<String, Failure> {
    let folder =
        std::env::current_dir().map_err(|error| Failure::io(exit::NOT_POSSIBLE, "find this folder", &error))?;
    folder.to_str().map(str::to_owned).ok_or_else(|| not_possible("the name of this folder is not UTF-8"))
}

/// The workload's arguments as one line. After a boot, parsing the line must give the same arguments.
fn workload_line(args: &StartArgs) -> Result<String, Failure> {
    let asked = &args.workload;
    let line = format!("{}{}", asked.again(), asked.command_again());
    let again = workload_of(&line)?;
    let is_same = again.again() == asked.again() && again.command == asked.command && again.set == asked.set;
    if is_same { Ok(line) } else { Err(not_possible(format!("the workload{line} can't be stored as arguments"))) }
}

/// Measures one window of the workload before any change. If the workload fails now, it would also fail after a boot.
fn try_workload(args: &StartArgs) -> Result<(Metric, Vec<Guard>, String), Failure> {
    // There is no signal handler yet, so a signal ends the process at once.
    let mut workload = args.workload.start(args.decision.seed.unwrap_or(1), &Arc::default())?;
    let tried = (|| {
        let metric = match &args.decision.metric {
            Some(name) => experiment::metric(workload.as_ref(), name)?,
            None => experiment::usual_metric(workload.as_ref(), &[])?,
        };
        // Without a window length, the default guard is the p99.
        // That is right here, because a boot's value is the median over all its windows.
        // The plan also uses the p99, because it is made without a workload.
        let guards = args.decision.guards(workload.as_ref(), &metric, None)?;
        let window = args.decision.window();
        let sample = try_window(workload.as_mut(), window).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
        let number = |metric: &Metric| sample.get(metric.name.as_ref()).copied().filter(|value| value.is_finite());
        // One window may have too few values for the default guard. That is no reason to refuse the trial.
        // A guard that the user named must have a value.
        let unread = guards.iter().find(|guard| number(&guard.metric).is_none() && !args.decision.guard.is_empty());
        if let Some(guard) = unread {
            return Err(not_possible(format!("the guard {} had no value in a test window", guard.metric.name)));
        }
        match number(&metric) {
            Some(value) if value > 0.0 => Ok((metric, guards, workload.describe())),
            Some(value) => Err(not_possible(format!(
                "{} was {value} in a test window, but a comparison needs values above 0",
                metric.name
            ))),
            None => Err(not_possible(format!("{} had no value in a test window", metric.name))),
        }
    })();
    workload.stop();
    tried
}

/// Measures one window.
/// If the server got no CPU in the window, measures a second window:
/// the first may be chance, and a trial would drop it.
fn try_window(workload: &mut dyn Workload, window: Duration) -> Result<Sample, WorkloadError> {
    let mut once = || workload.window(Duration::from_millis(200), window, &mut || {});
    match once() {
        Err(WorkloadError::NoCpu { .. } | WorkloadError::NoValue { .. }) => once(),
        tried => tried,
    }
}

/// Continues the trial as far as possible in this boot.
fn on(state: &mut BootsState, context: &BootsContext, hands: BootTransactions<'_>, out: &Out) -> Outcome {
    let stop = experiment::stop_flag()?;
    let ending = {
        let mut machine = live::Live::new(&context.root, hands, &context.file, state, stop, out);
        go_on(state, &mut machine)
    };
    let undone = |why| {
        Failure::text(exit::NOT_UNDONE, "continue the trial over boots", why).hint(format!("run {}", context.revert))
    };
    match ending.map_err(undone)? {
        Ending::Reboot => {
            let counted = state.measured().count();
            out.status(&format!("{counted} of {} boots count; the next boot is prepared", state.design.boots));
            if state.design.reboots { live::reboot(out) } else { wait_for_reboot(out) }
        }
        Ending::Stopped => {
            out.status("stopped; it continues after the next boot, or with: systemctl start evenkeel-boots.service");
            Ok(exit::WELL)
        }
        Ending::Ended { ended, reboot_left } => {
            status::report(state, None, out)?;
            match (reboot_left, &ended) {
                (true, BootsEnded::Whole) if state.design.reboots => live::reboot(out),
                (true, _) => {
                    out.status("all settings are restored, effective from the next boot: reboot when it suits you");
                    Ok(exit::PENDING)
                }
                (false, BootsEnded::GivenUp { .. }) => Ok(exit::UNDONE),
                (false, _) => Ok(exit::WELL),
            }
        }
    }
}

fn wait_for_reboot(out: &Out) -> Outcome {
    out.status("reboot this machine when it suits you; the trial then continues by itself");
    Ok(exit::WELL)
}

fn go_on_after_boot(state: &StateArgs, out: &Out) -> Outcome {
    let context = BootsContext::new(state)?;
    let _alone = TrialLock::take(state)?;
    let state = match read(&context.file) {
        Ok(None) => {
            out.status("no trial over boots is running");
            return Ok(exit::WELL);
        }
        Ok(Some(state)) => state,
        Err(error) => return put_away(&context, &error, out),
    };
    match context.hands(&state) {
        Ok(hands) => on(&mut state.clone(), &context, hands, out),
        Err(failure) => put_away(&context, &failure.message(), out),
    }
}

/// Handles a state that cannot continue: restores all settings of the trial, and removes the unit.
fn put_away(context: &BootsContext, why: &dyn std::fmt::Display, out: &Out) -> Outcome {
    out.warn(&format!("failed to {why}; giving up and restoring all settings\n"));
    let all = BootTransactions::new(&context.root, &context.dir, "", Vec::new()).map_err(not_possible)?;
    all.put_back(&mut live::waiting(out, live::sleep)).map_err(|why| {
        Failure::text(exit::NOT_UNDONE, "restore the settings of the trial over boots", why)
            .hint(format!("run {}", context.revert))
    })?;
    let moved = context.file.with_extension("damaged");
    std::fs::rename(&context.file, &moved)
        .map_err(|error| Failure::io(exit::NOT_POSSIBLE, format!("move {} aside", context.file.display()), &error))?;
    out.warn(&format!("its state is in {}\n", moved.display()));
    Ok(exit::UNDONE)
}

fn cancel(state: &StateArgs, out: &Out) -> Outcome {
    let context = BootsContext::new(state)?;
    let mut state = match read(&context.file) {
        Ok(None) => {
            out.status("no trial over boots is running");
            return Ok(exit::WELL);
        }
        Ok(Some(state)) => state,
        Err(error) => return put_away(&context, &error, out),
    };
    let hands = context.hands(&state)?;
    // Store this first, because a measuring trial reads the state, and then ends.
    if state.ended.is_none() {
        state.ended = Some(BootsEnded::Cancelled);
        write(&context.file, &state).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    }
    hands.put_back(&mut live::waiting(out, live::sleep)).map_err(|why| {
        Failure::text(exit::NOT_UNDONE, "restore the settings of the trial over boots", why)
            .hint(format!("run {}", context.revert))
    })?;
    status::report(&state, None, out)?;
    if hands.reads_back(ArmName::A).is_err() {
        out.status("all settings are restored, effective from the next boot: reboot when it suits you");
        return Ok(exit::PENDING);
    }
    Ok(exit::WELL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that gets no CPU in its first windows. The number is the count of these windows.
    struct Starved(u32);

    impl Workload for Starved {
        fn describe(&self) -> String {
            "starved".to_owned()
        }

        fn metrics(&self) -> &[Metric] {
            &[]
        }

        fn window(&mut self, _: Duration, _: Duration, _: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
            let Some(left) = self.0.checked_sub(1) else { return Ok(Sample::new()) };
            self.0 = left;
            Err(WorkloadError::NoCpu { program: "starved".to_owned(), waited_ms: 390, span_ms: 400 })
        }

        fn stop(&mut self) {}
    }

    #[test]
    fn one_window_without_a_cpu_refuses_no_trial() {
        for (starved, is_fit) in [(0, true), (1, true), (2, false)] {
            assert_eq!(try_window(&mut Starved(starved), Duration::from_secs(1)).is_ok(), is_fit, "{starved}");
        }
    }
}
