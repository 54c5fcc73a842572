//! The arguments of `prove boots start`.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_stats::{BOOTS_BLOCK, BOOTS_MAX};
use evenkeel_trial::boots::WINDOWS_MAX;

use crate::args::StateArgs;
use crate::commands::prove::design::DecisionArgs;
use crate::times::time;
use crate::workload_args::WorkloadArgs;

/// Begin a trial over boots; a systemd unit continues it after each boot
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel prove boots start cmdline.processor.max_cstate=1 --plan-only
  sudo evenkeel prove boots start cmdline.processor.max_cstate=1 --boots 8 --reboot

The trial waits for you to reboot; with --reboot it reboots the machine itself. `evenkeel prove boots status`
shows its progress. `evenkeel prove boots cancel` cancels the trial and restores all settings.")]
pub(super) struct StartArgs {
    /// The setting to prove, such as cmdline.processor.max_cstate=1
    #[arg(value_name = "KNOB=VALUE", required = true)]
    pub(super) settings: Vec<String>,
    /// Number of boots: 4, 8, 12 or 16
    #[arg(long, value_name = "N", value_parser = blocks, default_value = "4")]
    pub(super) boots: usize,
    /// Reboot this machine automatically; otherwise each boot waits for you
    #[arg(long)]
    pub(super) reboot: bool,
    /// Wait this long after each boot before measuring [default: 60s]
    #[arg(long = "settle", value_name = "TIME", value_parser = time)]
    pub(super) boots_settle: Option<Duration>,
    /// Windows per boot; their median is the value of the boot [default: 20]
    #[arg(long = "windows", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=WINDOWS_MAX as i64))]
    pub(super) boots_windows: Option<u16>,
    /// Show the plan without changing anything
    #[arg(long)]
    pub(super) plan_only: bool,
    /// With --plan-only: plan for the captured machine in FILE
    #[arg(long, value_name = "FILE", requires = "plan_only")]
    pub(super) host: Option<PathBuf>,
    #[command(flatten)]
    pub(super) state: StateArgs,
    #[command(flatten)]
    pub(super) decision: DecisionArgs,
    #[command(flatten)]
    pub(super) workload: WorkloadArgs,
}

/// Parses a number of boots. The boots must form whole blocks.
fn blocks(text: &str) -> Result<usize, String> {
    let boots = text.parse::<usize>().ok().filter(|boots| (1..=BOOTS_MAX).contains(boots));
    boots
        .filter(|boots| boots.is_multiple_of(BOOTS_BLOCK))
        .ok_or_else(|| format!("expected 4, 8, 12 or {BOOTS_MAX} (blocks of A-B-B-A)"))
}
