//! The page of `measure quantum`.

use evenkeel_measure::meters::quantum::{Cpu, Labels, Report};
use evenkeel_stats::periodicity::Model;

use crate::show::blocks::Block;

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::heading("Who has the CPUs, and when")];
    let header = ["CPU", "model", "period", "share", "phase", "offset", "confidence", "gone"];
    blocks.push(Block::table(header, report.cpus.iter().map(row).collect()));
    if let Some(limit) = &report.limit {
        let words = format!("{} of every {} ms, set in {}", limit.quota_ms, limit.period_ms, limit.folder);
        blocks.push(Block::row("CPU limit", words));
    }
    for cpu in &report.cpus {
        blocks.extend(notes(cpu));
        blocks.extend(cpu.gaps.iter().cloned().map(|mut samples| {
            samples.conditions.insert("cpu".to_owned(), cpu.cpu.to_string());
            Block::Histogram(samples)
        }));
    }
    blocks
}

fn row(cpu: &Cpu) -> [String; 8] {
    let or_dash = |shown: Option<String>| shown.unwrap_or_else(|| "-".to_owned());
    let model = match cpu.model {
        None => "not measured",
        Some(Model::None) => "none: ours",
        Some(Model::FixedSlot) => "fixed slot",
        Some(Model::TokenBucket) => "token bucket",
        Some(Model::Irregular) => "irregular",
    };
    let gone = cpu.seen.filter(|seen| seen.watched_ns > 0).map(|seen| format!("{:.1} %", seen.lost_share * 100.0));
    [
        cpu.cpu.to_string(),
        model.to_owned(),
        or_dash(cpu.period_ms.map(|ms| format!("{ms:.3} ms"))),
        or_dash(cpu.share.map(|share| format!("{:.1} %", share * 100.0))),
        or_dash(cpu.phase_ms.map(|ms| format!("{ms:.2} ms"))),
        or_dash(cpu.offset_ms.map(|ms| format!("{ms:+.2} ms"))),
        or_dash(cpu.confidence.map(|confidence| format!("{confidence:.2}"))),
        or_dash(gone),
    ]
}

fn notes(cpu: &Cpu) -> Vec<Block> {
    let mut notes = Vec::new();
    let class = if cpu.is_real_time { "real-time probe" } else { "ordinary probe" };
    let told_apart = match &cpu.labels {
        None => String::new(),
        Some(Labels::Rseq) => ", gaps told apart by rseq".to_owned(),
        Some(Labels::Turns(why)) => format!(", gaps told apart by counted turns ({why})"),
        Some(Labels::None(why)) => format!(", gaps not told apart ({why})"),
    };
    let aside = match cpu.seen {
        Some(seen) if seen.set_aside > 0 => {
            format!(", {} gaps set aside (other threads, or pauses of the whole machine)", seen.set_aside)
        }
        _ => String::new(),
    };
    notes.push(Block::Note(format!("CPU {}: {}; {class}{told_apart}{aside}.", cpu.cpu, cpu.why)));
    if let Some(why) = &cpu.lost.why {
        notes.push(Block::Warning(format!("CPU {}: lost {} gaps: {why}.", cpu.cpu, cpu.lost.count)));
    }
    notes
}
