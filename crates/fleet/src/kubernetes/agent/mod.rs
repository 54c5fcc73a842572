//! The agent of one node: watches the goals, its node and its own state, and makes the host match them.
//!
//! The agent writes the status of its [`HostState`], one condition and some labels of its node, and events, each only after a change.
//! While the agent cannot reach the API server, it reverts nothing, and continues with the last state that it saw.

mod cluster;
mod node;
mod reboots;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watch_object, watcher};
use kube::{Api, Client, ResourceExt};

use self::cluster::Cluster;
pub use self::cluster::Options;
use self::node::{Brought, NodeAgent};
use self::reboots::{LOOK_EVERY, Reboots};
use super::goal::HostGoal;
use super::host::Host;
use super::names::REBOOT;
use super::reboot::{RebootPhase, RebootRecord};
use super::served::Definitions;
use super::state::HostState;
use super::why::why;

/// How long the agent collects changes before it applies them to the host.
const GATHER: Duration = Duration::from_millis(200);
/// The wait before the next attempt to write the status.
const AGAIN: Duration = Duration::from_secs(5);

/// Receives the messages of a running agent.
pub trait Log: Send {
    /// A message for people.
    fn note(&mut self, text: &str);
}

/// The agent's copy of the cluster's objects.
#[derive(Default)]
struct Seen {
    goals: Option<BTreeMap<String, HostGoal>>,
    /// The objects of a list that a restarted watch is still sending. It replaces `goals` when it is complete.
    listing: BTreeMap<String, HostGoal>,
    node: Option<Node>,
    /// The outer value is `Some` once the watch has answered, the inner one if the object exists.
    state: Option<Option<HostState>>,
}

/// The connections of an agent.
pub struct Clients {
    /// For watches, in which the API server may be silent for minutes.
    pub watches: Client,
    /// For all other requests. A request that gets no answer fails soon, because the agent looks after its host only between its requests.
    pub requests: Client,
}

/// Runs the agent until `stop` is ready. The settings then stay in force.
///
/// # Errors
/// If the first connection fails; later failures are logged and retried.
pub async fn run<H: Host>(
    clients: Clients,
    host: Arc<H>,
    options: Options,
    stop: impl Future<Output = ()>,
    log: &mut dyn Log,
) -> Result<(), kube::Error> {
    let Clients { watches, requests } = clients;
    let mut goals =
        watcher(Api::<HostGoal>::all(watches.clone()), watcher::Config::default()).default_backoff().boxed();
    let mut nodes = watch_object(Api::<Node>::all(watches.clone()), &options.node).default_backoff().boxed();
    let mut states = watch_object(Api::<HostState>::all(watches), &options.node).default_backoff().boxed();
    let reboots = options.reboots.then(|| Reboots::new(requests.clone(), &options.node));
    let mut definitions = Definitions::default();
    let cluster = Cluster::new(requests.clone(), &options);
    let mut agent = NodeAgent::new(options.version.clone());
    let mut seen = Seen::default();
    let mut due = Instant::now();
    let mut stop = pin!(stop);
    loop {
        let wait = tokio::time::sleep_until(due.into());
        let changed = tokio::select! {
            () = &mut stop => return Ok(()),
            Some(event) = goals.next() => seen.goals_changed(event, log),
            Some(node) = nodes.next() => seen.node_changed(node, log),
            Some(state) = states.next() => seen.state_changed(state, log),
            () = wait => {
                due = Instant::now() + options.verify_every;
                let line = definitions.look(&requests).await;
                line.iter().for_each(|line| log.note(line));
                let writers = Writers { cluster: &cluster, reboots: reboots.as_ref(), outdated: definitions.outdated() };
                if let Some(at) = pass(&writers, &host, &mut agent, &seen, log).await {
                    due = due.min(at);
                }
                false
            }
        };
        if changed {
            due = due.min(Instant::now() + GATHER);
        }
    }
}

/// What a pass writes to the cluster.
struct Writers<'a> {
    cluster: &'a Cluster,
    /// None if this agent may not reboot its node.
    reboots: Option<&'a Reboots>,
    /// Why the cluster's definitions do not suit this program; none if they do.
    outdated: Option<&'a str>,
}

/// Makes the host match the goals in the cluster, and writes its status. Returns the latest time of the next call.
async fn pass<H: Host>(
    writers: &Writers<'_>,
    host: &Arc<H>,
    agent: &mut NodeAgent,
    seen: &Seen,
    log: &mut dyn Log,
) -> Option<Instant> {
    let (Some(goals), Some(node), Some(state)) = (&seen.goals, &seen.node, &seen.state) else { return None };
    let Writers { cluster, reboots, outdated } = *writers;
    let goals: Vec<HostGoal> = goals.values().cloned().collect();
    let released = state.as_ref().map(|state| state.spec.released.clone()).unwrap_or_default();
    let labels = node.labels().clone();
    let worker = Arc::clone(host);
    let mut working = std::mem::take(agent);
    // The host's program takes seconds, in which this thread keeps the connections of the watches alive.
    let done = tokio::task::spawn_blocking(move || {
        let status = working.bring(&*worker, &goals, &labels, &released, Instant::now());
        (working, status, goals)
    });
    let (working, brought, goals) = done.await.ok()?;
    *agent = working;
    let mut brought = match brought {
        Ok(brought) => brought,
        Err(error) => {
            log.note(&error.to_string());
            let spec = state.as_ref().map(|state| state.spec.released.as_slice()).unwrap_or_default();
            let before = state.as_ref().and_then(|state| state.status.as_ref());
            let status = agent.unknown(&goals, node.labels(), spec, before, &error);
            let missed = cluster.write(node, state.as_ref(), &status, &goals, false).await;
            missed.lines.iter().for_each(|line| log.note(line));
            return missed.state.then(|| Instant::now() + AGAIN);
        }
    };
    for line in &brought.notes {
        log.note(line);
    }
    note_reboot(&mut brought, node, reboots.is_some());
    if let Some(why) = outdated {
        brought.status.summary += &format!("; {why}");
    }
    let missed = cluster.write(node, state.as_ref(), &brought.status, &goals, true).await;
    for line in &missed.lines {
        log.note(line);
    }
    let mut again = if missed.state { Some(Instant::now() + AGAIN) } else { brought.again };
    if let Some(reboots) = reboots {
        let rebooted = reboots.step(node, &brought, host).await;
        for line in &rebooted.lines {
            log.note(line);
        }
        let soon = rebooted.is_under_way.then(|| Instant::now() + LOOK_EVERY);
        again = again.into_iter().chain(soon).min();
    }
    again
}

/// Adds to the status how far the reboot of the node is, or that this agent may not reboot it.
fn note_reboot(brought: &mut Brought, node: &Node, may_reboot: bool) {
    if !may_reboot {
        for wanted in &brought.reboots {
            let mut states = brought.status.goals.iter_mut();
            if let Some(state) = states.find(|state| state.is_of(&wanted.goal.goal, &wanted.goal.uid)) {
                state.message += "; this agent was started without --reboot-command, so it does not reboot the node";
            }
        }
        return;
    }
    match RebootRecord::read(node.annotations()) {
        Ok(Some(record)) if record.phase != RebootPhase::Done => {
            let message = if record.message.is_empty() { String::new() } else { format!(": {}", record.message) };
            brought.status.summary += &format!("; reboot {:?}{message}", record.phase);
        }
        Ok(_) => {}
        Err(error) => brought.status.summary += &format!("; {error}"),
    }
}

impl Seen {
    fn goals_changed(&mut self, event: watcher::Result<Event<HostGoal>>, log: &mut dyn Log) -> bool {
        match event {
            Ok(Event::Init) => self.listing.clear(),
            Ok(Event::InitApply(goal)) => {
                self.listing.insert(goal.name_any(), goal);
            }
            Ok(Event::InitDone) => {
                self.goals = Some(std::mem::take(&mut self.listing));
                return true;
            }
            Ok(Event::Apply(goal)) => {
                let goals = self.goals.get_or_insert_default();
                let before = goals.insert(goal.name_any(), goal.clone());
                // A rollout often writes the goal's status. The agent does not use the status.
                return before.is_none_or(|before| {
                    before.metadata.generation != goal.metadata.generation || before.uid() != goal.uid()
                });
            }
            Ok(Event::Delete(goal)) => {
                self.goals.get_or_insert_default().remove(&goal.name_any());
                return true;
            }
            Err(error) => log.note(&format!("failed to watch the goals: {}", why(&error))),
        }
        false
    }

    fn node_changed(&mut self, node: watcher::Result<Option<Node>>, log: &mut dyn Log) -> bool {
        match node {
            Ok(Some(node)) => {
                let is_new = self.node.as_ref().is_none_or(|before| {
                    before.labels() != node.labels()
                        || before.annotations().get(REBOOT) != node.annotations().get(REBOOT)
                });
                self.node = Some(node);
                is_new
            }
            // Either the node returns, or its pods end, this agent among them. Until then, the goals stay in force.
            Ok(None) => {
                log.note("this node is not in the cluster");
                self.node = None;
                false
            }
            Err(error) => {
                log.note(&format!("failed to watch the node: {}", why(&error)));
                false
            }
        }
    }

    fn state_changed(&mut self, state: watcher::Result<Option<HostState>>, log: &mut dyn Log) -> bool {
        match state {
            Ok(state) => {
                let is_new = self.state.as_ref().is_none_or(|before| *before != state);
                self.state = Some(state);
                is_new
            }
            Err(error) => {
                log.note(&format!("failed to watch the state of this node: {}", why(&error)));
                false
            }
        }
    }
}
