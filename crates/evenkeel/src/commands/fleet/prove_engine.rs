//! The engine switches the hosts of a trial between the arms.
//! It is the releases of a HostGoal in a cluster, or an Ansible playbook.

#![cfg_attr(
    not(feature = "kubernetes"),
    allow(unused_variables, reason = "only a cluster needs the trial's id and the goal's identity")
)]

use std::collections::BTreeSet;
use std::time::Duration;

use super::prove_ansible::{Arms, Playbook};
use super::prove_args::Args;
use super::prove_log::Identity;
use crate::failure::Failure;

/// An engine that the fleet already uses.
pub(super) enum Engine {
    #[cfg(feature = "kubernetes")]
    Cluster(cluster::Cluster),
    Ansible(Playbook),
}

impl Engine {
    /// The engine that the arguments name, for the trial `id`.
    pub(super) async fn from_args(args: &Args, id: &str) -> Result<Engine, Failure> {
        match &args.inventory {
            Some(inventory) => Ok(Engine::Ansible(Playbook::new(args, inventory)?)),
            #[cfg(feature = "kubernetes")]
            None => Ok(Engine::Cluster(cluster::Cluster::connect(args, id).await?)),
            #[cfg(not(feature = "kubernetes"))]
            None => Err(crate::cluster::without_kubernetes("prove a goal on a cluster").hint(
                "--inventory proves a goal on hosts of Ansible; the container image has the client of Kubernetes",
            )),
        }
    }

    /// Reserves the goal for the trial. Returns the identity of the goal, and the hosts.
    /// A continued trial passes the identity from before.
    pub(super) async fn take(&self, known: Option<&Identity>) -> Result<(Identity, Vec<String>), Failure> {
        match self {
            #[cfg(feature = "kubernetes")]
            Engine::Cluster(cluster) => cluster.take(known).await,
            Engine::Ansible(playbook) => playbook.take(known).await,
        }
    }

    /// Applies the goal to the hosts of `arms.with`, reverts it on the others, and waits until all hosts have finished.
    pub(super) async fn switch(&self, arms: &Arms, identity: &Identity, patience: Duration) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "kubernetes")]
            Engine::Cluster(cluster) => cluster.switch(arms, identity, patience).await,
            Engine::Ansible(playbook) => playbook.switch(arms, patience).await,
        }
    }

    /// Checks after a block that no host has left its arm. The playbook makes this check before the next switch.
    pub(super) async fn check(&self, arms: &Arms, identity: &Identity) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "kubernetes")]
            Engine::Cluster(cluster) => cluster.check(arms, identity).await,
            Engine::Ansible(_) => Ok(()),
        }
    }

    /// Reverts the goal on all hosts. Returns a warning if a host will revert it later, or if somebody else reverts it.
    pub(super) async fn put_back(
        &self,
        hosts: BTreeSet<String>,
        identity: &Identity,
        patience: Duration,
    ) -> Result<Option<String>, Failure> {
        let arms = Arms { with: BTreeSet::new(), without: hosts };
        match self {
            #[cfg(feature = "kubernetes")]
            Engine::Cluster(cluster) => cluster.put_back(&arms, identity, patience).await,
            Engine::Ansible(playbook) => playbook.put_back(&arms, patience).await.map(|()| None),
        }
    }

    /// Releases the goal if the trial could not begin.
    pub(super) async fn give_back(&self) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "kubernetes")]
            Engine::Cluster(cluster) => cluster.give_back().await,
            Engine::Ansible(_) => Ok(()),
        }
    }
}

#[cfg(feature = "kubernetes")]
mod cluster {
    use evenkeel_fleet::kubernetes::trial::{TrialError, TrialGoal};
    use evenkeel_fleet::kubernetes::{Release, Requests};

    use super::{Args, Arms, Duration, Failure, Identity};
    use crate::cluster::connect;
    use crate::exit;

    /// A goal of a cluster.
    pub(in super::super) struct Cluster {
        name: String,
        goal: Box<TrialGoal>,
    }

    impl Cluster {
        pub(super) async fn connect(args: &Args, id: &str) -> Result<Cluster, Failure> {
            let client = connect(args.kubeconfig.as_deref(), Requests::Lists).await?;
            Ok(Cluster { name: args.goal.clone(), goal: Box::new(TrialGoal::new(client, &args.goal, id)) })
        }

        pub(super) async fn take(&self, known: Option<&Identity>) -> Result<(Identity, Vec<String>), Failure> {
            let released = known.map(|identity| self.release(identity));
            let taken = self.goal.take(released.as_ref()).await.map_err(|error| match known {
                Some(_) => failed(error).hint(format!(
                    "end it, so that every node puts the goal back: evenkeel fleet rollout {} --undo",
                    self.name
                )),
                None => failed(error),
            });
            let (release, nodes) = taken?;
            Ok((Identity { generation: release.generation, uid: release.uid }, nodes))
        }

        pub(super) async fn switch(&self, arms: &Arms, identity: &Identity, patience: Duration) -> Result<(), Failure> {
            self.goal.switch(&arms.with, &self.release(identity)).await.map_err(failed)?;
            self.goal.settle(&arms.with, &arms.without, identity.generation, patience).await.map_err(failed)
        }

        pub(super) async fn check(&self, arms: &Arms, identity: &Identity) -> Result<(), Failure> {
            self.goal.check(&arms.with, &arms.without, identity.generation).await.map_err(failed)
        }

        /// Withdraws the goal from all nodes, and allows rollouts to use it again.
        pub(super) async fn put_back(
            &self,
            arms: &Arms,
            identity: &Identity,
            patience: Duration,
        ) -> Result<Option<String>, Failure> {
            // If another trial has taken the goal, that trial also decides when to revert it.
            let is_ours =
                self.goal.is_ours().await.map_err(|error| Failure { exit: exit::NOT_UNDONE, ..failed(error) })?;
            if !is_ours {
                let why = "the goal is deleted, or was taken from this trial: the trial puts nothing back itself";
                return Ok(Some(why.to_owned()));
            }
            let undo = |error: TrialError| {
                let hint = format!("put it back later: evenkeel fleet rollout {} --undo", self.name);
                Failure { exit: exit::NOT_UNDONE, ..failed(error) }.hint(hint)
            };
            self.goal.switch(&arms.with, &self.release(identity)).await.map_err(undo)?;
            let later = match self.goal.settle(&arms.with, &arms.without, identity.generation, patience).await {
                // A node has not reverted the goal, or the node is gone.
                // Its agent reverts the goal when the agent runs again.
                Err(error @ (TrialError::Late { .. } | TrialError::Host { .. })) => {
                    Some(format!("{error}; it puts the goal back when its agent runs"))
                }
                Err(TrialError::Cluster(error)) => return Err(undo(error.into())),
                _ => None,
            };
            self.goal.give_back().await.map_err(undo)?;
            Ok(later)
        }

        pub(super) async fn give_back(&self) -> Result<(), Failure> {
            self.goal.give_back().await.map_err(failed)
        }

        /// The part of the goal that the trial releases to nodes.
        fn release(&self, identity: &Identity) -> Release {
            Release { goal: self.name.clone(), generation: identity.generation, uid: identity.uid.clone() }
        }
    }

    fn failed(error: TrialError) -> Failure {
        let code = match &error {
            TrialError::NoGoal { .. } | TrialError::NotReleased | TrialError::Taken { .. } => exit::WRONG_USE,
            _ => exit::NOT_POSSIBLE,
        };
        Failure::text(code, "go on with the trial", error)
    }
}
