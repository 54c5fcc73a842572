//! `agent`: applies the goals of a cluster to the host of one Kubernetes node.

use std::path::PathBuf;
use std::time::Duration;

use crate::args::StateArgs;
use crate::failure::Outcome;
use crate::host_command::HostCommand;
use crate::show::Out;
use crate::times;

/// Apply the HostGoals of a Kubernetes cluster to the host of this node
///
/// One agent runs on each node.
/// It applies each goal for this node as a transaction in the journal of the host, verifies the goals,
/// and writes the result of each to the HostState of the node.
/// It reverts a goal's settings when the goal is deleted.
/// When the agent ends, the settings stay in force, and `evenkeel revert` on the host undoes them.
/// If a goal asks for it, and with --reboot-command, it drains the node and reboots the host.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel agent --node worker-1
  evenkeel agent --node worker-1 --root /host      in a container that has the host's root at /host
  evenkeel agent --node worker-1 --reboot-command '/usr/bin/systemctl reboot'")]
pub(crate) struct Args {
    /// Name of this host's node
    #[arg(long, value_name = "NAME")]
    node: String,
    /// Root of the host, mounted with its /proc and /sys [default: this machine's]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// File of the cluster's address and credentials [default: those of the pod, or $KUBECONFIG]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How often to verify the settings in force
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = verify_every)]
    verify_every: Duration,
    /// Command that reboots the host, in the host's root:
    /// an absolute path and its arguments, such as "/usr/bin/systemctl reboot".
    /// Without it, this agent drains and reboots nothing
    #[arg(long, value_name = "COMMAND")]
    reboot_command: Option<HostCommand>,
    /// Make the host's folder /run/evenkeel-phases, through
    /// which pods of `evenkeel pack agones --phases` spread their ticks
    #[arg(long)]
    phases: bool,
    #[command(flatten)]
    state: StateArgs,
}

/// Parses a duration from one second to one hour.
fn verify_every(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(1)..=Duration::from_secs(3600);
    times::time(text)
        .ok()
        .filter(|time| range.contains(time))
        .ok_or_else(|| "expected a time from 1s to 60min".to_owned())
}

#[cfg(not(feature = "kubernetes"))]
pub(crate) fn run(_: &Args, _: &Out) -> Outcome {
    Err(crate::cluster::without_kubernetes("run the agent"))
}

#[cfg(feature = "kubernetes")]
pub(crate) use self::with_kubernetes::run;

#[cfg(feature = "kubernetes")]
#[path = "agent_host.rs"]
mod host;

#[cfg(feature = "kubernetes")]
#[path = "agent_labels.rs"]
mod labels;

#[cfg(feature = "kubernetes")]
#[path = "agent_phases.rs"]
mod phases;

#[cfg(feature = "kubernetes")]
mod with_kubernetes {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use evenkeel_fleet::kubernetes::{Requests, agent};

    use super::host::ThisHost;
    use super::{Args, Out, Outcome, phases};
    use crate::cluster::connect;
    use crate::exit;
    use crate::experiment::stop_flag;
    use crate::failure::Failure;

    pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
        let stop = stop_flag()?;
        if args.phases {
            // Only pods that share the folder need it. Goals do not need it, so a failure here does not end the agent.
            let made = phases::make(args.root.as_deref().unwrap_or(Path::new("/")));
            made.unwrap_or_else(|error| out.warn(&format!("failed to make the folder of phases: {error}\n")));
        }
        let host = Arc::new(ThisHost::new(args.root.as_deref(), &args.state, args.reboot_command.clone())?);
        let options = agent::Options {
            node: args.node.clone(),
            verify_every: args.verify_every,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            reboots: args.reboot_command.is_some(),
            labels: host.labels(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::io(exit::NOT_POSSIBLE, "start the agent", &error))?;
        let ran = runtime.block_on(async {
            let file = args.kubeconfig.as_deref();
            let clients = agent::Clients {
                watches: connect(file, Requests::Watches).await?,
                requests: connect(file, Requests::Single).await?,
            };
            let mut log = Notes(out);
            let ran = agent::run(clients, host, options, stopped(&stop), &mut log).await;
            ran.map_err(|error| Failure::text(exit::NOT_POSSIBLE, "watch the cluster", error))
        });
        runtime.shutdown_timeout(Duration::from_secs(10));
        ran.map(|()| exit::WELL)
    }

    struct Notes<'a>(&'a Out);

    impl agent::Log for Notes<'_> {
        fn note(&mut self, text: &str) {
            self.0.status(text);
        }
    }

    async fn stopped(stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
