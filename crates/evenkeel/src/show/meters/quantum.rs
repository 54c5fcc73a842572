//! The page of `measure quantum`.

use evenkeel_measure::meters::quantum::{Cpu, Labels, Report};
use evenkeel_stats::periodicity::Model;
use evenkeel_sys::CpuSet;

use crate::show::blocks::Block;
use crate::show::units::percent;

/// So many CPUs' gaps are drawn.
const HISTOGRAMS: usize = 8;

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::heading("Who has the CPUs, and when")];
    let header = ["CPU", "model", "period", "jitter", "share", "phase", "offset", "confidence", "gone"];
    blocks.push(Block::table(header, report.cpus.iter().map(row).collect()));
    if let Some(limit) = &report.limit {
        let words = format!("{} of every {} ms, set in {}", limit.quota_ms, limit.period_ms, limit.folder);
        blocks.push(Block::row("CPU limit", words));
    }
    blocks.extend(alike(&report.cpus));
    // Those of whom the most is gone: two hundred histograms would bury them.
    let mut shown: Vec<&Cpu> = report.cpus.iter().filter(|cpu| !cpu.gaps.is_empty()).collect();
    let gone = |cpu: &Cpu| cpu.seen.map_or(0.0, |seen| seen.lost_share);
    shown.sort_by(|one, other| gone(other).total_cmp(&gone(one)));
    let others = shown.len().saturating_sub(HISTOGRAMS);
    shown.truncate(HISTOGRAMS);
    shown.sort_by_key(|cpu| cpu.cpu);
    for cpu in shown {
        blocks.extend(cpu.gaps.iter().cloned().map(|mut samples| {
            samples.conditions.insert("cpu".to_owned(), cpu.cpu.to_string());
            Block::Histogram(samples)
        }));
    }
    if others > 0 {
        blocks.push(Block::Note(format!(
            "Gaps of {others} more CPUs are in --json: of these {HISTOGRAMS} the most is gone."
        )));
    }
    blocks
}

/// What is to be said of each CPU, once for all of whom it is the same.
fn alike(cpus: &[Cpu]) -> Vec<Block> {
    let mut said: Vec<(CpuSet, Vec<Words>)> = Vec::new();
    for cpu in cpus {
        let words = notes(cpu);
        match said.iter_mut().find(|(_, same)| *same == words) {
            Some((set, _)) => set.insert(cpu.cpu),
            None => said.push(([cpu.cpu].into_iter().collect(), words)),
        }
    }
    let block = |set: &CpuSet, words: Words| {
        let whose = if set.len() == 1 { "CPU" } else { "CPUs" };
        match words {
            Words::Note(words) => Block::Note(format!("{whose} {set}: {words}")),
            Words::Warning(words) => Block::Warning(format!("{whose} {set}: {words}")),
        }
    };
    said.into_iter().flat_map(|(set, words)| words.into_iter().map(move |words| block(&set, words))).collect()
}

#[derive(PartialEq, Eq)]
enum Words {
    Note(String),
    Warning(String),
}

fn row(cpu: &Cpu) -> [String; 9] {
    let or_dash = |shown: Option<String>| shown.unwrap_or_else(|| "-".to_owned());
    let model = match cpu.model {
        None => "not measured",
        Some(Model::None) => "none: ours",
        Some(Model::FixedSlot) => "fixed slot",
        Some(Model::TokenBucket) => "token bucket",
        Some(Model::Irregular) => "irregular",
    };
    let gone = cpu.seen.filter(|seen| seen.watched_ns > 0).map(|seen| percent(seen.lost_share));
    [
        cpu.cpu.to_string(),
        model.to_owned(),
        or_dash(cpu.period_ms.map(|ms| format!("{ms:.3} ms"))),
        or_dash(cpu.jitter.map(percent)),
        or_dash(cpu.share.map(percent)),
        or_dash(cpu.phase_ms.map(|ms| format!("{ms:.2} ms"))),
        or_dash(cpu.offset_ms.map(|ms| format!("{ms:+.2} ms"))),
        or_dash(cpu.confidence.map(|confidence| format!("{confidence:.2}"))),
        or_dash(gone),
    ]
}

fn notes(cpu: &Cpu) -> Vec<Words> {
    if cpu.model.is_none() {
        return vec![Words::Warning(format!("{}.", cpu.why))];
    }
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
    notes.push(Words::Note(format!("{}; {class}{told_apart}{aside}.", cpu.why)));
    if let Some(why) = &cpu.lost.why {
        notes.push(Words::Warning(match cpu.lost.count {
            0 => format!("ended early: {why}."),
            count => format!("lost {count} gaps: {why}."),
        }));
    }
    notes
}

#[cfg(test)]
mod tests {
    use evenkeel_measure::Lost;
    use evenkeel_measure::meters::quantum::{LimitSeen, Method};
    use evenkeel_stats::periodicity::Count;
    use expect_test::expect;

    use super::*;
    use crate::show::blocks::text;

    fn unmeasured() -> Cpu {
        Cpu {
            cpu: 0,
            model: None,
            period_ms: None,
            share: None,
            jitter: None,
            period_error_ms: None,
            phase_ms: None,
            confidence: None,
            offset_ms: None,
            phase_error_ms: None,
            why: "run on CPU 0: EINVAL".to_owned(),
            slots: None,
            seen: None,
            is_real_time: false,
            labels: None,
            gaps: Vec::new(),
            lost: Lost::default(),
        }
    }

    fn sliced() -> Cpu {
        Cpu {
            cpu: 1,
            model: Some(Model::FixedSlot),
            period_ms: Some(10.00012),
            share: Some(0.3989),
            jitter: Some(0.0115),
            period_error_ms: Some(0.0001),
            phase_ms: Some(6.011),
            confidence: Some(0.987),
            offset_ms: Some(-2.5),
            why: "gaps come at set times".to_owned(),
            is_real_time: true,
            labels: Some(Labels::Rseq),
            lost: Lost::of(3, "more gaps than are kept"),
            ..unmeasured()
        }
    }

    #[test]
    fn two_hundred_cpus_are_told_of_together() {
        let limit = None;
        let mut cpus: Vec<Cpu> = (0..200).map(|cpu| Cpu { cpu, ..sliced() }).collect();
        for cpu in &mut cpus {
            let mut samples = evenkeel_measure::Samples::new("gap_ns", evenkeel_measure::Unit::Ns, []);
            samples.record(6_000_000);
            cpu.gaps.push(samples);
        }
        cpus[7] = Cpu { cpu: 7, ..unmeasured() };
        let report = Report { method: Method::Fold, count: Count::Foreign, reference_ns: 1, limit, cpus };
        let page = anstream::adapter::strip_str(&text(&blocks(&report))).to_string();
        for words in
            ["CPUs 0-6,8-199: gaps come at set times", "CPU 7: run on CPU 0", "Gaps of 191 more CPUs are in --json"]
        {
            assert!(page.contains(words), "{page}");
        }
        assert!(page.lines().count() < 300, "{page}");
    }

    #[test]
    fn a_page_of_every_answer() {
        let (unmeasured, sliced) = (unmeasured(), sliced());
        let bucket = Cpu {
            cpu: 2,
            model: Some(Model::TokenBucket),
            period_ms: Some(100.0),
            share: Some(0.4),
            jitter: None,
            period_error_ms: None,
            phase_ms: None,
            confidence: Some(0.9),
            offset_ms: None,
            is_real_time: false,
            labels: Some(Labels::Turns("the C library has none".to_owned())),
            lost: Lost::default(),
            ..sliced.clone()
        };
        let limit = LimitSeen { quota_ms: 40.0, period_ms: 100.0, folder: "/sys/fs/cgroup/pod".to_owned() };
        let report = Report {
            method: Method::Fold,
            count: Count::Foreign,
            reference_ns: 1,
            limit: Some(limit),
            cpus: vec![unmeasured, sliced, bucket],
        };
        let plain = anstream::adapter::strip_str(&text(&blocks(&report))).to_string();
        expect![[r#"
            Who has the CPUs, and when
              CPU  model         period      jitter  share   phase    offset    confidence  gone
              0    not measured  -           -       -       -        -         -           -
              1    fixed slot    10.000 ms   1.1 %   39.9 %  6.01 ms  -2.50 ms  0.99        -
              2    token bucket  100.000 ms  -       40.0 %  -        -         0.90        -
              CPU limit         40 of every 100 ms, set in /sys/fs/cgroup/pod
              CPU 0: run on CPU 0: EINVAL.
              CPU 1: gaps come at set times; real-time probe, gaps told apart by rseq.
              CPU 1: lost 3 gaps: more gaps than are kept.
              CPU 2: gaps come at set times; ordinary probe, gaps told apart by counted
              turns (the C library has none).
        "#]]
        .assert_eq(&plain);
    }
}
