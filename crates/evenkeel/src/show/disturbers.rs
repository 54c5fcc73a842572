//! The pages of the disturbers: what each really did.

use evenkeel_measure::Unit;
use evenkeel_measure::disturb::memory::{bandwidth, pressure};
use evenkeel_measure::disturb::storm::{packets, timers, wakes};
use evenkeel_measure::disturb::{quantum, quota, sibling, spinner};

use crate::show::blocks::Block;
use crate::show::units::{bytes, part, percent, quantity, real_quantity};

pub(crate) fn quantum(report: &quantum::Report) -> Vec<Block> {
    let rows = report.cpus.iter().map(|cpu| {
        [
            cpu.cpu.to_string(),
            cpu.turns.to_string(),
            cpu.missed_turns.to_string(),
            cpu.period_ns_mean.map_or_else(|| "unknown".to_owned(), |ns| real_quantity(ns, Unit::Ns)),
            percent(cpu.share_taken),
            cpu.late.histogram.summary().map_or_else(|| "unknown".to_owned(), |late| quantity(late.p99, Unit::Ns)),
        ]
    });
    let mut blocks =
        vec![Block::table(["CPU", "slots", "missed", "period", "taken", "late (p99)"], rows.collect::<Vec<_>>())];
    blocks.extend(report.cpus.iter().filter(|cpu| cpu.went_offline).map(|cpu| went_offline(cpu.cpu)));
    blocks
}

pub(crate) fn quota(report: &quota::Report) -> Vec<Block> {
    let counted = |count: Option<u64>| count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    vec![
        Block::row("control group", report.group.display().to_string()),
        Block::row("limit", format!("{} us of every {} us", report.quota_us, report.period_us)),
        Block::row("periods", counted(report.periods)),
        Block::row("of them stopped", counted(report.throttled_periods)),
        Block::row(
            "stopped for",
            report.throttled_ns.map_or_else(|| "unknown".to_owned(), |ns| quantity(ns, Unit::Ns)),
        ),
    ]
}

pub(crate) fn spinner(report: &spinner::Report) -> Vec<Block> {
    let rows = report.threads.iter().map(|thread| {
        [
            thread.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()),
            thread.turns.to_string(),
            percent(part(thread.wanted_ns, thread.elapsed_ns)),
            percent(thread.share_taken),
        ]
    });
    let mut blocks = vec![Block::table(["CPU", "turns", "wanted", "had"], rows.collect())];
    let gone = report.threads.iter().filter(|thread| thread.went_offline).filter_map(|thread| thread.cpu);
    blocks.extend(gone.map(went_offline));
    blocks
}

pub(crate) fn sibling(report: &sibling::Report) -> Vec<Block> {
    let rows = report.cpus.iter().map(|cpu| {
        let per_s = cpu.lines as f64 * 1e9 / cpu.elapsed_ns.max(1) as f64;
        [cpu.cpu.to_string(), real_quantity(per_s, Unit::PerS), format!("{:.1}", cpu.passes), percent(cpu.share_taken)]
    });
    let mut blocks = vec![Block::table(["CPU", "lines", "passes", "had of the CPU"], rows.collect())];
    blocks.extend(report.cpus.iter().filter(|cpu| cpu.went_offline).map(|cpu| went_offline(cpu.cpu)));
    blocks
}

pub(crate) fn bandwidth(report: &bandwidth::Report) -> Vec<Block> {
    let rows = report.cpus.iter().map(|cpu| {
        [
            cpu.cpu.to_string(),
            real_quantity(cpu.copied_bytes_per_s, Unit::BytesPerS),
            percent(part(cpu.taken_ns, cpu.elapsed_ns)),
        ]
    });
    let mut blocks = vec![Block::table(["CPU", "copied", "had of the CPU"], rows.collect())];
    blocks.extend(report.cpus.iter().filter(|cpu| cpu.went_offline).map(|cpu| went_offline(cpu.cpu)));
    blocks
}

pub(crate) fn pressure(report: &pressure::Report) -> Vec<Block> {
    let mut blocks = vec![
        Block::row("held at most", bytes(report.held_bytes_max)),
        Block::row("filled in", quantity(report.filled_ns, Unit::Ns)),
        Block::row("left at least", report.left_bytes_min.map_or_else(|| "unknown".to_owned(), bytes)),
    ];
    if report.held_back {
        blocks.push(Block::row("given back", bytes(report.given_back_bytes)));
        blocks.push(Block::Warning("The reserve kept it from holding all that it was asked for.".to_owned()));
    }
    if let Some(why) = &report.ended_because {
        blocks.push(Block::Warning(format!("It ended before its time: {why}.")));
    }
    blocks
}

pub(crate) fn packets(report: &packets::Report) -> Vec<Block> {
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
    let header = ["CPU", "sent", "rate", "missed", "refused", "softirqs", "had of the CPU"];
    let mut blocks = vec![Block::row("to", report.to.to_string()), Block::table(header, rows.collect())];
    let unheard: u64 = report.cpus.iter().map(|cpu| cpu.unheard).sum();
    if unheard > 0 {
        blocks.push(Block::Warning(format!("Nobody listens on {}: it said so {unheard} times.", report.to)));
    }
    let arrived: Vec<u64> = report.cpus.iter().filter_map(|cpu| cpu.arrived).collect();
    if !arrived.is_empty() {
        let words = format!("{} of {} packets, by its own count", arrived.iter().sum::<u64>(), report.sent);
        blocks.push(Block::row("the peer got", words));
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

pub(crate) fn timers(report: &timers::Report) -> Vec<Block> {
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
    let header = ["CPU", "timers", "missed", "interrupts", "class", "late (p99)", "had of the CPU"];
    let mut blocks = vec![Block::table(header, rows.collect())];
    blocks.extend(report.cpus.iter().filter(|cpu| cpu.went_offline).map(|cpu| went_offline(cpu.cpu)));
    blocks
}

pub(crate) fn wakes(report: &wakes::Report) -> Vec<Block> {
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

fn went_offline(cpu: usize) -> Block {
    Block::Warning(format!("CPU {cpu} went offline; its disturbance ended there."))
}

fn count(count: Option<u64>) -> String {
    count.map_or_else(|| "unknown".to_owned(), |count| count.to_string())
}
