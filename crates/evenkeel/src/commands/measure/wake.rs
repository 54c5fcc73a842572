//! `evenkeel measure wake`.

use std::num::NonZeroU64;

use evenkeel_measure::meters::wake::{self, Kind, Variant};
use evenkeel_sys::CpuSet;

use super::Context;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::meters;

/// How late one is woken, by idle gap and by CPU, told apart into timer slack, scheduling class and leaving idle
///
/// A timer (clock_nanosleep, timerfd), another CPU (futex), a UDP packet on the loopback. Ways to wait are taken in turns within each
/// round: as a program that sets nothing; with a timer slack of 1 ns; real-time; with /dev/cpu_dma_latency held at 0; with the CPU kept
/// awake by a thread of the idle class; and without any sleep, which is the floor. The differences are the parts. Real-time and
/// /dev/cpu_dma_latency take root; what can't be had is left out and told. The CPU that wakes is busy all the time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long in all
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Idle gaps in microseconds, from 1 to 100000
    #[arg(long, value_name = "US,…", value_delimiter = ',', default_values_t = [50, 100, 200, 500, 1000, 5000, 20_000])]
    gaps_us: Vec<u64>,
    /// Timers on each of these CPUs, and wakes from each to each other; otherwise the first wakes the last
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,
    /// What wakes: timer, timerfd, futex, udp
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = kind, default_values = ["timer", "timerfd", "futex", "udp"])]
    kinds: Vec<Kind>,
    /// Ways to wait: plain, slack-1ns, fifo, dma-latency-0, kept-awake, spinning; and fifo-dma-latency-0, as cyclictest does it
    #[arg(long, value_name = "WAY,…", value_delimiter = ',', value_parser = variant, default_values = Variant::USUAL.map(Variant::name))]
    variants: Vec<Variant>,
    /// Timer slack of the plain wait, in nanoseconds; otherwise the one that evenkeel was started with
    #[arg(long, value_name = "NS")]
    slack_ns: Option<NonZeroU64>,
    /// Of the order of turns
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

fn cpus(text: &str) -> Result<CpuSet, String> {
    CpuSet::parse_list(text).filter(|cpus| !cpus.is_empty()).ok_or_else(|| "a list of CPUs is like 0,2-3".to_owned())
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::of(text).ok_or_else(|| format!("one of {}", Kind::ALL.map(|(_, name)| name).join(", ")))
}

fn variant(text: &str) -> Result<Variant, String> {
    Variant::of(text).ok_or_else(|| format!("one of {}", Variant::ALL.map(|(_, name)| name).join(", ")))
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let gaps_ns: Option<Vec<u64>> = args.gaps_us.iter().map(|us| us.checked_mul(1000)).collect();
    let Some(gaps_ns) = gaps_ns else {
        return Err(Failure::text(exit::WRONG_USE, "read --gaps-us", "an idle gap is from 1 us to 100 ms"));
    };
    let settings = wake::Settings {
        duration_ns: args.seconds * 1_000_000_000,
        gaps_ns,
        kinds: args.kinds.clone(),
        variants: args.variants.clone(),
        cpus: args.cpus.as_ref().map(|cpus| cpus.iter().collect()),
        plain_slack_ns: args.slack_ns,
        waker_delay_ns: 0,
        seed: args.seed.unwrap_or_else(wake::any_seed),
    };
    let report = context.measure(|watch| wake::run(&settings, watch))?;
    context.answer("How late one is woken", &report, meters::wake::blocks)
}
