//! `evenkeel disturb storm`: interruptions of one kind at a fixed rate.

use std::net::SocketAddr;

use clap::ValueEnum;
use evenkeel_measure::Unit;
use evenkeel_measure::disturb::all_cpus;
use evenkeel_measure::disturb::storm::{packets, timers, wakes};
use evenkeel_sys::CpuSet;

use super::context::{Context, RunArgs, What, failure, of_threads};
use super::page::{count, went_offline};
use super::values;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::units::{part, percent, quantity, real_quantity};
use crate::view::Block;

/// Interrupt CPUs at a fixed rate: by packets and their softirqs, by timers, or by wakes from another CPU
///
/// Packets stay on this machine, unless you name a peer that agrees.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel disturb storm -- ./my-server
  sudo evenkeel disturb storm --by timers --cpus 1 --rate 50000 --seconds 30")]
pub(crate) struct Args {
    /// The kind of interruption
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// The CPUs that send the packets, or that are interrupted [default: the last that evenkeel may use]
    #[arg(long, value_name = "LIST", value_parser = values::cpus)]
    cpus: Option<CpuSet>,
    /// Rate per second: packets in total, or timers or wakes per CPU
    #[arg(long, value_name = "PER_S", default_value_t = 10_000)]
    rate: u64,
    /// Destination of the packets: an address of this host, in its network namespace [default:
    /// a port of evenkeel that nobody reads]
    #[arg(long, value_name = "IP:PORT", conflicts_with = "peer")]
    to: Option<SocketAddr>,
    /// Destination on another machine, up to 200,000 packets a second for ten minutes.
    /// The other machine agrees by running `measure udp --serve`. The address must be private or link-local
    #[arg(long, value_name = "IP:PORT")]
    peer: Option<SocketAddr>,
    /// Bytes in a packet, 1 to 1472; to a peer at least 24 [default: 100]
    #[arg(long, value_name = "N")]
    size: Option<usize>,
    #[command(flatten)]
    run: RunArgs,
}

/// The kind of interruption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum By {
    /// UDP packets, which cause softirqs
    #[default]
    Packets,
    /// Timer interrupts
    Timers,
    /// Interrupts from another CPU, by waking a thread
    Wakes,
}

of_threads!(packets, timers, wakes);

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let cpus = match &args.cpus {
        Some(cpus) => cpus.clone(),
        None => all_cpus().map_err(failure)?.iter().last().into_iter().collect(),
    };
    let rate_per_s = args.rate;
    if args.by != By::Packets && (args.to.is_some() || args.peer.is_some() || args.size.is_some()) {
        let why = "--to, --peer and --size apply only to --by packets";
        return Err(Failure::text(exit::WRONG_USE, "make a storm", why));
    }
    match args.by {
        By::Packets => {
            let to = match (args.to, args.peer) {
                (_, Some(peer)) => packets::To::Peer { peer },
                (Some(to), None) => packets::To::Own(to),
                (None, None) => packets::To::Sink,
            };
            let settings = packets::Settings { cpus, to, rate_per_s, size_bytes: args.size.unwrap_or(100) };
            let what = What { kind: "storm", by: "packets", asked: &settings, run: &args.run };
            context.disturb(what, |until_ns| packets::start(&settings, until_ns).map_err(failure), packets_page)
        }
        By::Timers => {
            let settings = timers::Settings { cpus, rate_per_s };
            let what = What { kind: "storm", by: "timers", asked: &settings, run: &args.run };
            context.disturb(what, |until_ns| timers::start(&settings, until_ns).map_err(failure), timers_page)
        }
        By::Wakes => {
            let settings = wakes::Settings { cpus, rate_per_s };
            let what = What { kind: "storm", by: "wakes", asked: &settings, run: &args.run };
            context.disturb(what, |until_ns| wakes::start(&settings, until_ns).map_err(failure), wakes_page)
        }
    }
}

fn packets_page(report: &packets::Report) -> Vec<Block> {
    let rows = report.cpus.iter().map(|cpu| {
        [
            cpu.cpu.to_string(),
            cpu.sent.to_string(),
            real_quantity(cpu.sent_per_s, Unit::PerS),
            cpu.missed.to_string(),
            cpu.refused.to_string(),
            count(cpu.softirqs),
            percent(part(cpu.taken_ns, cpu.elapsed_ns)),
        ]
    });
    let header = ["CPU", "sent", "rate", "missed", "refused", "softirqs", "CPU time"];
    let mut blocks = vec![Block::row("to", report.to.to_string()), Block::table(header, rows.collect())];
    let unheard: u64 = report.cpus.iter().map(|cpu| cpu.unheard).sum();
    if unheard > 0 {
        blocks.push(Block::Warning(format!(
            "Nobody listens on {}: {unheard} packets came back as undeliverable.",
            report.to
        )));
    }
    let arrived: Vec<u64> = report.cpus.iter().filter_map(|cpu| cpu.arrived).collect();
    if !arrived.is_empty() {
        let words = format!("{} of {} packets, by the peer's count", arrived.iter().sum::<u64>(), report.sent);
        blocks.push(Block::row("received by the peer", words));
    }
    if report.cpus.iter().any(|cpu| cpu.peer_went_away) {
        blocks.push(Block::Warning("The peer stopped answering, so the storm ended.".to_owned()));
    }
    blocks.extend(report.cpus.iter().filter_map(|cpu| {
        cpu.refused_because.as_ref().map(|why| Block::Warning(format!("CPU {}: packets were refused: {why}.", cpu.cpu)))
    }));
    blocks.extend(report.cpus.iter().filter(|cpu| cpu.went_offline).map(|cpu| went_offline(cpu.cpu)));
    blocks
}

fn timers_page(report: &timers::Report) -> Vec<Block> {
    let rows = report.cpus.iter().map(|cpu| {
        [
            cpu.cpu.to_string(),
            cpu.timers.to_string(),
            cpu.late.lost.count.to_string(),
            count(cpu.interrupts),
            cpu.policy.to_owned(),
            cpu.late.histogram.summary().map_or_else(|| "unknown".to_owned(), |late| quantity(late.p99, Unit::Ns)),
            percent(part(cpu.taken_ns, cpu.elapsed_ns)),
        ]
    });
    let header = ["CPU", "timers", "missed", "interrupts", "class", "late (p99)", "CPU time"];
    let mut blocks = vec![Block::table(header, rows.collect())];
    blocks.extend(report.cpus.iter().filter(|cpu| cpu.went_offline).map(|cpu| went_offline(cpu.cpu)));
    blocks
}

fn wakes_page(report: &wakes::Report) -> Vec<Block> {
    let rows = report.cpus.iter().map(|cpu| {
        [
            cpu.cpu.to_string(),
            cpu.from_cpu.to_string(),
            cpu.sent.to_string(),
            cpu.missed.to_string(),
            cpu.woken.to_string(),
            count(cpu.interrupts),
        ]
    });
    let mut blocks = vec![Block::table(["CPU", "from", "wakes", "missed", "woken", "interrupts"], rows.collect())];
    blocks.extend(report.cpus.iter().filter(|cpu| cpu.went_offline).map(|cpu| went_offline(cpu.cpu)));
    blocks
}
