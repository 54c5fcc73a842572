//! `helper`: a helper process of a built-in workload. A trial starts it as a server, or as the load for a server.
//! The helper ends when its input closes, so a killed trial leaves no helper behind.

mod tick;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::chroot;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_workload::helper::{
    DrainLoad, DrainServer, DrainSettings, EchoLoad, EchoServer, EchoSettings, Helper, serve,
};

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// Run as a server or its load; a trial starts this process
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, clap::Subcommand)]
enum Role {
    /// Send every packet back
    EchoServer,
    /// Send packets, each after the reply to the previous one
    EchoLoad {
        /// Where the server listens
        #[arg(long)]
        to: SocketAddr,
        /// Bytes of a packet
        #[arg(long)]
        bytes: usize,
        /// Maximum round trips per second; 0 for no limit
        #[arg(long)]
        rate_hz: u32,
    },
    /// Empty a socket once a period
    DrainServer {
        /// The period in milliseconds
        #[arg(long)]
        drain_ms: u64,
        /// The receive buffer to request; 0 for none
        #[arg(long)]
        ask_bytes: u32,
    },
    /// Send a steady stream
    DrainLoad {
        /// Where the server listens
        #[arg(long)]
        to: SocketAddr,
        /// Packets a second
        #[arg(long)]
        pps: u32,
        /// Bytes of a packet
        #[arg(long)]
        bytes: usize,
    },
    /// Tick
    Tick(tick::Settings),
    /// Run a command of this program with DIR as the root; the agent of a node uses it for its host
    InRoot {
        /// Instead, run a program of the new root, by its absolute path
        #[arg(long, value_name = "PATH")]
        program: Option<PathBuf>,
        /// The host's root
        dir: PathBuf,
        /// The command
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

pub(crate) fn run(args: &Args, _: &Out) -> Outcome {
    if let Role::InRoot { program, dir, command } = &args.role {
        return Err(in_root(dir, program.as_deref(), command));
    }
    let helper =
        start(&args.role).map_err(|error| Failure::io(exit::NOT_POSSIBLE, "start a helper of a workload", &error));
    // If this write fails, the parent has ended, so nobody could read the error.
    let _ = serve(helper?.as_mut(), io::stdin().lock(), io::stdout().lock());
    Ok(exit::WELL)
}

fn start(role: &Role) -> io::Result<Box<dyn Helper>> {
    Ok(match *role {
        Role::EchoServer => Box::new(EchoServer::start()?),
        Role::EchoLoad { to, bytes, rate_hz } => Box::new(EchoLoad::start(to, EchoSettings { bytes, rate_hz })?),
        Role::DrainServer { drain_ms, ask_bytes } => {
            let ask_bytes = Some(ask_bytes).filter(|bytes| *bytes > 0);
            Box::new(DrainServer::start(DrainSettings { period_ms: drain_ms, ask_bytes })?)
        }
        Role::DrainLoad { to, pps, bytes } => Box::new(DrainLoad::start(to, pps, bytes)?),
        Role::Tick(settings) => Box::new(tick::Tick::start(settings)?),
        Role::InRoot { .. } => return Err(io::ErrorKind::InvalidInput.into()),
    })
}

/// Replaces this process with the command. Returns only if that fails.
/// `/proc/self/exe` leads to this program even if the new root does not contain it.
fn in_root(dir: &Path, program: Option<&Path>, command: &[OsString]) -> Failure {
    let program = program.unwrap_or(Path::new("/proc/self/exe"));
    let entered = chroot(dir).and_then(|()| std::env::set_current_dir("/"));
    let error = match entered {
        Ok(()) => Command::new(program).args(command).exec(),
        Err(error) => error,
    };
    Failure::io(exit::NOT_POSSIBLE, format_args!("run {} in {}", program.display(), dir.display()), &error)
}
