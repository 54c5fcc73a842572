//! `fleet rollout`: brings goals of a Kubernetes cluster to their nodes in waves.

use std::path::PathBuf;
use std::time::Duration;

use crate::failure::Outcome;
use crate::show::Out;
use crate::times;

/// Bring goals of a Kubernetes cluster to their nodes in waves, and halt when something gets worse
///
/// The canaries come first.
/// Each later wave is twice as large as all before it, up to the goal's maxUnavailable,
/// with the goal's pause between waves.
/// The rollout halts when a node refuses the goal, drifts or is not ready, or when a guard's number gets worse.
/// The state is in the cluster, so you can stop and restart this command at any time.
/// With --forever it runs as a Deployment.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel fleet rollout steady-games
  evenkeel fleet rollout steady-games --prometheus http://prometheus:9090
  evenkeel fleet rollout steady-games --undo      every node puts the goal back
  evenkeel fleet rollout --forever                all goals, as they come")]
pub(super) struct Args {
    /// The goals by name; without them, all
    #[arg(value_name = "GOAL", required_unless_present_any = ["forever", "definitions"])]
    goals: Vec<String>,
    /// Continue with new goals and new nodes until a signal arrives
    #[arg(long, conflicts_with_all = ["undo", "again", "go_on"])]
    forever: bool,
    /// Withdraw the goals, so that every node reverts them
    #[arg(long, conflicts_with_all = ["again", "go_on"])]
    undo: bool,
    /// Roll out undone goals once more
    #[arg(long, conflicts_with = "go_on")]
    again: bool,
    /// Continue halted rollouts
    #[arg(long = "continue")]
    go_on: bool,
    /// Address of the Prometheus server that has the numbers of the guards
    #[arg(long, value_name = "http://HOST:PORT")]
    prometheus: Option<String>,
    /// How often to check the cluster
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = times::time)]
    every: Duration,
    /// File of the cluster's address and credentials [default: those of the pod, or $KUBECONFIG]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Print the definitions of HostGoal and HostState for `kubectl apply`, and exit
    #[arg(long, conflicts_with_all = ["goals", "forever", "undo", "again", "go_on", "prometheus", "every", "kubeconfig"])]
    definitions: bool,
}

#[cfg(not(feature = "kubernetes"))]
pub(super) fn run(_: &Args, _: &Out) -> Outcome {
    Err(crate::cluster::without_kubernetes("roll out goals"))
}

#[cfg(feature = "kubernetes")]
pub(super) use self::with_kubernetes::run;

#[cfg(feature = "kubernetes")]
mod with_kubernetes {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use evenkeel_fleet::kubernetes::controller::{Controller, Progress};
    use evenkeel_fleet::kubernetes::{Requests, RolloutPhase, manifests, why};

    use super::super::answers::{GoalAnswer, RolloutAnswer};
    use super::super::prometheus::Prometheus;
    use super::{Args, Out, Outcome};
    use crate::cluster::connect;
    use crate::exit::{self, Exit};
    use crate::experiment::stop_flag;
    use crate::failure::Failure;

    pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
        if args.definitions {
            // Print the format of Kubernetes, with or without --json.
            let text = serde_json::to_string_pretty(&manifests::definitions()).unwrap_or_default() + "\n";
            out.text(&text)?;
            return Ok(exit::WELL);
        }
        let stop = stop_flag()?;
        let prometheus = args.prometheus.as_deref().map(Prometheus::at).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::io(exit::NOT_POSSIBLE, "start the rollout", &error))?;
        runtime.block_on(async {
            let client = connect(args.kubeconfig.as_deref(), Requests::Lists).await?;
            let mut controller = Controller::new(client, prometheus);
            prepare(args, &controller).await?;
            follow(args, out, &mut controller, &stop).await
        })
    }

    async fn prepare(args: &Args, controller: &Controller<Prometheus>) -> Result<(), Failure> {
        for goal in &args.goals {
            let asked = match (args.undo || args.again, args.go_on) {
                (true, _) => controller.ask_undo(goal, args.undo).await,
                (false, true) => controller.resume(goal).await,
                (false, false) => continue,
            };
            if !asked.map_err(failed)? {
                return Err(no_goal(goal));
            }
        }
        Ok(())
    }

    fn failed(error: impl std::error::Error + 'static) -> Failure {
        Failure::text(exit::NOT_POSSIBLE, "roll out", why(&error))
            .hint("the rollout is as far as the cluster says; start this command again")
    }

    fn no_goal(name: &str) -> Failure {
        Failure::text(exit::WRONG_USE, "roll out", format_args!("no HostGoal is named {name:?}"))
            .hint("kubectl get hostgoals")
    }

    /// The failure for a goal that a trial uses. Otherwise the rollout would wait until the trial ends.
    fn in_trial(progress: &Progress) -> Option<Failure> {
        let (goal, trial) = (&progress.goal, progress.trial.as_ref()?);
        let failure = Failure::text(exit::WRONG_USE, "roll out", format_args!("the goal {goal} is in trial {trial}"));
        Some(failure.hint(format!("end the trial: evenkeel fleet rollout {goal} --undo")))
    }

    /// Takes rollout steps until every named goal has ended.
    async fn follow(args: &Args, out: &Out, controller: &mut Controller<Prometheus>, stop: &AtomicBool) -> Outcome {
        let mut said: BTreeMap<String, String> = BTreeMap::new();
        let is_wanted = |name: &str| args.goals.is_empty() || args.goals.iter().any(|goal| goal == name);
        loop {
            if let Some(line) = controller.look_at_definitions().await {
                out.warn(&format!("{line}\n"));
            }
            match controller.step(is_wanted).await {
                Ok(progress) => {
                    if let Some(missing) = args.goals.iter().find(|goal| !progress.iter().any(|one| one.goal == **goal))
                    {
                        return Err(no_goal(missing));
                    }
                    if let Some(refusal) = progress.iter().find_map(in_trial).filter(|_| !args.forever) {
                        return Err(refusal);
                    }
                    for one in &progress {
                        let line = line_of(one);
                        if said.insert(one.goal.clone(), line.clone()).as_ref() != Some(&line) {
                            out.status(&line);
                        }
                    }
                    if !args.forever && progress.iter().all(|one| is_over(args, one)) {
                        return answer(out, &progress);
                    }
                }
                // The API server may come back.
                Err(error) if args.forever => out.warn(&format!("{}\n", why(&error))),
                Err(error) => return Err(failed(error)),
            }
            if wait(args.every, stop).await {
                return Ok(if args.forever { exit::WELL } else { exit::STOPPED });
            }
        }
    }

    /// Waits, and returns whether a signal arrived.
    async fn wait(time: Duration, stop: &AtomicBool) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(50).min(time)).await;
        }
        stop.load(Ordering::Relaxed)
    }

    fn is_over(args: &Args, progress: &Progress) -> bool {
        match progress.rollout.as_ref().map(|rollout| rollout.phase) {
            // Without a rollout, every node applies the goal by itself, so the command need not wait.
            None => true,
            Some(RolloutPhase::Halted | RolloutPhase::Complete) => !args.undo,
            Some(RolloutPhase::Undone) => {
                let nodes = progress.nodes;
                progress.still_released == 0 && nodes.in_force + nodes.drifted + nodes.pending_reboot == 0
            }
            Some(RolloutPhase::Progressing) => false,
        }
    }

    fn line_of(progress: &Progress) -> String {
        let nodes = progress.nodes;
        let rollout = progress.rollout.as_ref();
        let phase =
            rollout.map_or("no rollout".to_owned(), |rollout| format!("{:?}, wave {}", rollout.phase, rollout.wave));
        let phase = progress.trial.as_ref().map_or(phase, |trial| format!("in trial {trial}"));
        let message = rollout.map(|rollout| rollout.message.as_str()).filter(|message| !message.is_empty());
        let mut line = format!("{}: {phase}: {} of {} nodes in force", progress.goal, nodes.in_force, nodes.selected);
        if nodes.not_put_back > 0 {
            line += &format!("; {} could not put it back: kubectl get hoststates", nodes.not_put_back);
        }
        for text in message.into_iter().chain(progress.without_numbers.iter().map(String::as_str)) {
            line += "; ";
            line += text;
        }
        line
    }

    fn answer(out: &Out, progress: &[Progress]) -> Outcome {
        let goals = progress.iter().map(|one| GoalAnswer {
            goal: one.goal.clone(),
            phase: one.rollout.as_ref().map(|rollout| format!("{:?}", rollout.phase)),
            message: one.rollout.as_ref().map(|rollout| rollout.message.clone()).unwrap_or_default(),
            selected: one.nodes.selected,
            in_force: one.nodes.in_force,
        });
        out.answer(&RolloutAnswer { goals: goals.collect() }, String::new)?;
        let is_halted =
            |one: &Progress| one.rollout.as_ref().is_some_and(|rollout| rollout.phase == RolloutPhase::Halted);
        let is_left = |one: &Progress| one.nodes.not_put_back > 0 && !is_halted(one);
        let code: Exit = match () {
            () if progress.iter().any(is_left) => exit::NOT_UNDONE,
            () if progress.iter().any(is_halted) => exit::NO,
            () => exit::WELL,
        };
        Ok(code)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_goal_in_a_trial_is_not_rolled_out_and_the_hint_ends_the_trial() {
            let progress = |trial: Option<&str>| Progress {
                goal: "steady".to_owned(),
                nodes: evenkeel_fleet::kubernetes::Counts::default(),
                rollout: None,
                still_released: 0,
                without_numbers: Vec::new(),
                trial: trial.map(str::to_owned),
            };
            assert!(in_trial(&progress(None)).is_none());
            let failure = in_trial(&progress(Some("0123"))).unwrap();
            assert_eq!(failure.message(), "failed to roll out: the goal steady is in trial 0123");
            assert_eq!(failure.hint.as_deref(), Some("end the trial: evenkeel fleet rollout steady --undo"));
            assert_eq!(line_of(&progress(Some("0123"))), "steady: in trial 0123: 0 of 0 nodes in force");
        }
    }
}
