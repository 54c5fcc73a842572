//! What switches the hosts of a trial between the arms: the releases of a HostGoal in a cluster, or a playbook of Ansible.

use std::collections::BTreeSet;
use std::time::Duration;

use super::prove_ansible::{Arms, Playbook};
use super::prove_args::Args;
use crate::failure::Failure;

/// The engine that the fleet has already.
pub(super) enum Engine {
    #[cfg(feature = "kubernetes")]
    Cluster(Box<evenkeel_fleet::kubernetes::trial::TrialGoal>),
    Ansible(Playbook),
}

impl Engine {
    /// The engine that the arguments name.
    pub(super) async fn from_args(args: &Args) -> Result<Engine, Failure> {
        match &args.inventory {
            Some(inventory) => Ok(Engine::Ansible(Playbook::new(args, inventory)?)),
            #[cfg(feature = "kubernetes")]
            None => Ok(cluster::engine(args).await?),
            #[cfg(not(feature = "kubernetes"))]
            None => Err(crate::cluster::without_kubernetes("prove a goal on a cluster").hint(
                "--inventory proves a goal on hosts of Ansible; the container image has the client of Kubernetes",
            )),
        }
    }

    /// Takes the goal for trial `id`. Returns a number that changes with the goal's content, and the hosts.
    pub(super) async fn take(&self, id: &str) -> Result<(i64, Vec<String>), Failure> {
        match self {
            #[cfg(feature = "kubernetes")]
            Engine::Cluster(goal) => goal.take(id).await.map_err(cluster::failed),
            Engine::Ansible(playbook) => {
                let _ = id;
                Ok((playbook.generation(), playbook.hosts().await?))
            }
        }
    }

    /// Gives the hosts of `arms.with` the goal and puts it back on the others, and waits until all have done so.
    pub(super) async fn switch(&self, arms: &Arms, generation: i64, patience: Duration) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "kubernetes")]
            Engine::Cluster(goal) => cluster::switch(goal, arms, generation, patience).await,
            Engine::Ansible(playbook) => {
                let _ = generation;
                playbook.switch(arms, patience).await
            }
        }
    }

    /// Puts the goal back on all hosts. Returns a warning if a host does that later.
    pub(super) async fn put_back(
        &self,
        hosts: BTreeSet<String>,
        generation: i64,
        patience: Duration,
    ) -> Result<Option<String>, Failure> {
        let arms = Arms { with: BTreeSet::new(), without: hosts };
        match self {
            #[cfg(feature = "kubernetes")]
            Engine::Cluster(goal) => cluster::put_back(goal, &arms, generation, patience).await,
            Engine::Ansible(playbook) => {
                let _ = generation;
                playbook.put_back(&arms, patience).await.map(|()| None)
            }
        }
    }

    /// Gives the goal back if the trial could not begin.
    pub(super) async fn give_back(&self) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "kubernetes")]
            Engine::Cluster(goal) => goal.give_back().await.map_err(cluster::failed),
            Engine::Ansible(_) => Ok(()),
        }
    }
}

#[cfg(feature = "kubernetes")]
mod cluster {
    use evenkeel_fleet::kubernetes::trial::{TrialError, TrialGoal};

    use super::{Args, Arms, Duration, Engine, Failure};
    use crate::cluster::connect;
    use crate::exit;

    pub(super) async fn engine(args: &Args) -> Result<Engine, Failure> {
        let client = connect(args.kubeconfig.as_deref()).await?;
        Ok(Engine::Cluster(Box::new(TrialGoal::new(client, &args.goal))))
    }

    pub(super) async fn switch(
        goal: &TrialGoal,
        arms: &Arms,
        generation: i64,
        patience: Duration,
    ) -> Result<(), Failure> {
        goal.switch(&arms.with, generation).await.map_err(failed)?;
        goal.settle(&arms.with, &arms.without, generation, patience).await.map_err(failed)
    }

    /// Withdraws the goal from all nodes, and allows rollouts to use it again.
    pub(super) async fn put_back(
        goal: &TrialGoal,
        arms: &Arms,
        generation: i64,
        patience: Duration,
    ) -> Result<Option<String>, Failure> {
        let undo = |error: TrialError| {
            let hint = format!("put it back later: evenkeel fleet rollout {} --undo", goal.name());
            Failure { exit: exit::NOT_UNDONE, ..failed(error) }.hint(hint)
        };
        goal.switch(&arms.with, generation).await.map_err(undo)?;
        let later = match goal.settle(&arms.with, &arms.without, generation, patience).await {
            // A node has not reverted the goal, or is gone. Its agent reverts the goal when it runs again.
            Err(error @ (TrialError::Late { .. } | TrialError::Host { .. })) => {
                Some(format!("{error}; it puts the goal back when its agent runs"))
            }
            Err(TrialError::Cluster(error)) => return Err(undo(error.into())),
            _ => None,
        };
        goal.give_back().await.map_err(undo)?;
        Ok(later)
    }

    pub(super) fn failed(error: TrialError) -> Failure {
        let code = match &error {
            TrialError::NoGoal { .. } | TrialError::NotReleased | TrialError::Taken { .. } => exit::WRONG_USE,
            _ => exit::NOT_POSSIBLE,
        };
        Failure::text(code, "go on with the trial", error)
    }
}
