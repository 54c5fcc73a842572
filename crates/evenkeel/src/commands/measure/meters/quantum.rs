//! `evenkeel measure quantum`.

use clap::ValueEnum;
use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::quantum::{self, Class, Cpu, Labels, Method, Order, Report, Settings};
use evenkeel_stats::periodicity::{Count, Model};
use evenkeel_sys::CpuSet;

use crate::commands::measure::card::{CardTurn, PPM, line, with};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::blocks::Block;
use crate::show::units::percent;

/// So many CPUs' gaps are drawn.
const HISTOGRAMS: usize = 8;

/// Whether CPUs are given in slots by the hypervisor: period, share, phase
///
/// A thread spins on each CPU in short bursts and notes the gaps in which it did not run. All gaps of some seconds are folded, and the
/// answer is one of: none, fixed slot, token bucket (a CPU limit of this process's control group) or irregular. As root the thread is a
/// real-time one, which no ordinary neighbour interrupts; else gaps that other threads made are told by the kernel's mark and set aside.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// CPUs to measure, as 0-3,8; all that this process may use unless told
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,
    /// Seconds on each CPU, from 0.1 to 600
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Gaps shorter than this do not count, in microseconds
    #[arg(long, value_name = "US", default_value_t = 100, value_parser = clap::value_parser!(u64).range(20..=10_000))]
    threshold_us: u64,
    /// Which gaps count; all: those that other threads of this machine make too
    #[arg(long, value_enum, default_value_t)]
    count: Counted,
    /// The class of the thread that spins; auto: real-time where that is allowed and no CPU limit is set
    #[arg(long, value_enum, default_value_t)]
    class: Classes,
    /// All CPUs at once, not one after the other: their phases are then of one time, and the machine is slow to answer
    #[arg(long)]
    together: bool,
    /// How to find the period; siege: the first gap over 1 ms within 50 ms, for comparison
    #[arg(long, value_enum, default_value_t)]
    method: Methods,
}

impl Meter for Args {
    const NAME: &'static str = "quantum";
    const TITLE: &'static str = "Who has the CPUs, and when";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 2.0,
        run: |pace, watch| {
            let settings = quantum::Settings {
                duration_ns: pace.of(2_000_000_000, 1_000_000_000),
                order: Order::Together,
                ..quantum::Settings::default()
            };
            Ok(lines(&quantum::run(&settings, watch)?))
        },
    });
    type Report = Report;

    fn measure(&self, context: &Context<'_>) -> Result<Report, Failure> {
        let settings = Settings {
            cpus: self.cpus.clone(),
            duration_ns: (self.seconds * 1e9) as u64,
            threshold_ns: self.threshold_us * 1000,
            count: match self.count {
                Counted::Foreign => Count::Foreign,
                Counted::All => Count::All,
            },
            class: match self.class {
                Classes::Auto => Class::Auto,
                Classes::Fifo => Class::Fifo,
                Classes::Ordinary => Class::Ordinary,
            },
            order: if self.together { Order::Together } else { Order::InTurn },
            method: match self.method {
                Methods::Fold => Method::Fold,
                Methods::Siege => Method::Siege,
            },
        };
        context.measure(|watch| quantum::run(&settings, watch))
    }

    fn page(report: &Report) -> Vec<Block> {
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
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Counted {
    #[default]
    Foreign,
    All,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Classes {
    #[default]
    Auto,
    Fifo,
    Ordinary,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Methods {
    #[default]
    Fold,
    Siege,
}

fn cpus(text: &str) -> Result<CpuSet, String> {
    let set = CpuSet::parse_list(text).filter(|set| set.first().is_some());
    set.ok_or_else(|| "not a list of CPUs, as 0-3,8".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| (0.1..=600.0).contains(seconds));
    number.ok_or_else(|| "not a number from 0.1 to 600".to_owned())
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

fn lines(report: &Report) -> Vec<CardLine> {
    let named = |model: Model| report.cpus.iter().filter(|cpu| cpu.model == Some(model)).count();
    let measured = report.cpus.iter().filter(|cpu| cpu.model.is_some()).count();
    if measured == 0 {
        return Vec::new();
    }
    // Whose model is none has all of its period; what is irregular has no share that could be told.
    let share = |cpu: &quantum::Cpu| if cpu.model == Some(Model::None) { Some(1.0) } else { cpu.share };
    let least = report.cpus.iter().filter_map(share).min_by(f64::total_cmp);
    let of_all = |count: usize| count as f64 / measured as f64 * PPM;
    let slots = line("quantum_slots_ppm", "CPUs with slots", Unit::Ppm, Better::Lower, of_all(named(Model::FixedSlot)));
    let irregular = line(
        "quantum_irregular_ppm",
        "CPUs taken at times that can't be told",
        Unit::Ppm,
        Better::Lower,
        of_all(named(Model::Irregular)),
    );
    let least = least.map(|share| {
        beside_the_talk(line(
            "quantum_share_ppm",
            "the least share of a period",
            Unit::Ppm,
            Better::Higher,
            share * PPM,
        ))
    });
    let period = report.cpus.iter().filter_map(|cpu| cpu.slots.as_ref().and(cpu.period_ms)).max_by(f64::total_cmp);
    let period = period.map(|ms| line("quantum_period_ns", "the period", Unit::Ns, Better::Neither, ms * 1e6));
    [Some(slots), Some(irregular), least, period].into_iter().flatten().collect()
}

fn beside_the_talk(line: CardLine) -> CardLine {
    with(
        line,
        "4 of 10 ms, older: all 10",
        "Jalal El Mansouri, Optimizing Servers for the Cloud",
        "on Azure a virtual core got all 10 ms of each 10 on older hardware, and most of the time 4 of 10 on newer",
    )
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
        let page = anstream::adapter::strip_str(&text(&Args::page(&report))).to_string();
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
        let plain = anstream::adapter::strip_str(&text(&Args::page(&report))).to_string();
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
