//! `evenkeel measure quantum`.

use clap::ValueEnum;
use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::quantum::{self, Class, Cpu, Labels, Method, Order, Report, Settings};
use evenkeel_stats::periodicity::{Count, Model};
use evenkeel_sys::CpuSet;

use crate::args::cpus;
use crate::commands::measure::card::{CardTurn, PPM, line, value, with};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::finding::{Finding, Grade};
use crate::show::units::percent;
use crate::view::Block;

/// The maximum number of CPUs with a histogram on the page.
const HISTOGRAMS: usize = 8;

/// Detect whether the hypervisor runs CPUs in time slots, with period, share and phase
///
/// A thread spins on each CPU in short bursts and records the gaps in which it did not run.
/// The meter looks for a period in the gaps.
/// The answer is fixed slot, token bucket (a CPU limit of this process's control group), irregular or none.
/// As root, the meter uses a real-time thread, which ordinary threads can't preempt.
/// Otherwise it uses kernel marks to exclude gaps that other threads caused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo evenkeel measure quantum
  evenkeel measure quantum --cpus 1 --seconds 10")]
pub(crate) struct Args {
    /// CPUs to measure, such as 0-3,8 [default: all that evenkeel may use]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,
    /// Duration on each CPU, from 0.1 to 600
    #[arg(long, value_name = "TIME", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Ignore gaps shorter than this, in microseconds
    #[arg(long, value_name = "US", default_value_t = 100, value_parser = crate::times::whole_us(20..=10_000))]
    threshold_us: u64,
    /// The gaps that count. `all` includes gaps that other threads of this machine caused
    #[arg(long, value_enum, default_value_t)]
    count: Counted,
    /// Scheduling class of the spinning thread. `auto`: real-time if allowed and no CPU limit is set
    #[arg(long, value_enum, default_value_t)]
    class: Classes,
    /// Measure all CPUs at once, so their phases are comparable. The machine responds slowly during the measurement
    #[arg(long)]
    together: bool,
    /// Method to find the period. `threshold-baseline` takes the first gap over 1 ms within 50 ms, for comparison
    #[arg(long, value_enum, default_value_t)]
    method: Methods,
}

impl Meter for Args {
    const NAME: &'static str = "quantum";
    const TITLE: &'static str = "Time slots of the CPUs";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 2.0,
        run: |pace, watch| {
            let settings = quantum::Settings {
                duration_ns: pace.choose(2_000_000_000, 1_000_000_000),
                order: Order::Together,
                ..quantum::Settings::default()
            };
            Ok(lines(&quantum::run(&settings, watch)?))
        },
        finding: |lines| {
            let share = |id| value(lines, id).map(|ppm| ppm / PPM);
            slots_left(share("quantum_slots_ppm"), share("quantum_irregular_ppm"), share("quantum_share_ppm"))
        },
    });
    const NEEDS_IDLE: bool = false;
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
                Methods::ThresholdBaseline => Method::ThresholdBaseline,
            },
        };
        context.measure(|watch| quantum::run(&settings, watch))
    }

    fn finding(report: &Report) -> Option<Finding> {
        let measured: Vec<&Cpu> = report.cpus.iter().filter(|cpu| cpu.model.is_some()).collect();
        let of = |model: Model| {
            let count = measured.iter().filter(|cpu| cpu.model == Some(model)).count();
            (!measured.is_empty()).then_some(count as f64 / measured.len() as f64)
        };
        Some(slots_left(of(Model::FixedSlot), of(Model::Irregular), least_share(report)))
    }

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = vec![Block::heading("Time slots of the CPUs")];
        let header = ["CPU", "model", "period", "jitter", "share", "phase", "offset", "confidence", "missing"];
        blocks.push(Block::table(header, report.cpus.iter().map(row).collect()));
        if let Some(limit) = &report.limit {
            let words = format!("{} of every {} ms, set in {}", limit.quota_ms, limit.period_ms, limit.folder);
            blocks.push(Block::row("CPU limit", words));
        }
        blocks.extend(alike(&report.cpus));
        // Show only the CPUs with the most missing time. A large machine would have hundreds of histograms.
        let mut shown: Vec<&Cpu> = report.cpus.iter().filter(|cpu| !cpu.gaps.is_empty()).collect();
        let missing = |cpu: &Cpu| cpu.seen.map_or(0.0, |seen| seen.lost_share);
        shown.sort_by(|one, other| missing(other).total_cmp(&missing(one)));
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
                "These are the {HISTOGRAMS} CPUs with the most missing time; --json has {others} more."
            )));
        }
        blocks
    }
}

/// Derives the finding from the shares of CPUs with slots and with irregular gaps,
/// and from the smallest share of a period in which a CPU runs.
fn slots_left(slots: Option<f64>, irregular: Option<f64>, share: Option<f64>) -> Finding {
    let comparison = "compared with 10 of 10 ms on older Azure hosts and 4 of 10 ms on newer ones (El Mansouri)";
    let ran = share.map_or_else(|| "an unknown part".to_owned(), percent);
    match (slots, irregular) {
        (Some(slots), _) if slots > 0.0 => Finding::new(
            if share.is_some_and(|share| share >= 0.95) { Grade::Fair } else { Grade::Poor },
            format!("the hypervisor runs a CPU for {ran} of each period, {comparison}"),
        ),
        (Some(_), Some(irregular)) if irregular > 0.0 => {
            Finding::unknown("a CPU is taken at irregular times, so there is no period to compare")
        }
        (Some(_), Some(_)) if share.is_some_and(|share| share < 1.0) => Finding::new(
            Grade::Fair,
            format!("a CPU limit of this control group leaves {ran} of each period; there are no hypervisor slots"),
        ),
        (Some(_), Some(_)) => Finding::new(Grade::Good, format!("the CPUs run all of the time, {comparison}")),
        _ => Finding::unknown("no CPU was measured"),
    }
}

/// The smallest share of the time in which a CPU runs. A CPU without a period has the share 1.
/// A CPU with irregular gaps has no share.
fn least_share(report: &Report) -> Option<f64> {
    let share = |cpu: &Cpu| if cpu.model == Some(Model::None) { Some(1.0) } else { cpu.share };
    report.cpus.iter().filter_map(share).min_by(f64::total_cmp)
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
    #[value(alias = "siege")]
    ThresholdBaseline,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = crate::times::seconds(text).filter(|seconds| (0.1..=600.0).contains(seconds));
    number.ok_or_else(|| "expected 0.1 to 600 seconds, or a time such as 250ms or 90s".to_owned())
}

/// The notes of the CPUs. CPUs with the same notes share one entry.
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
        Some(Model::None) => "none",
        Some(Model::FixedSlot) => "fixed slot",
        Some(Model::TokenBucket) => "token bucket",
        Some(Model::Irregular) => "irregular",
    };
    let missing = cpu.seen.filter(|seen| seen.watched_ns > 0).map(|seen| percent(seen.lost_share));
    [
        cpu.cpu.to_string(),
        model.to_owned(),
        or_dash(cpu.period_ms.map(|ms| format!("{ms:.3} ms"))),
        or_dash(cpu.jitter.map(percent)),
        or_dash(cpu.share.map(percent)),
        or_dash(cpu.phase_ms.map(|ms| format!("{ms:.2} ms"))),
        or_dash(cpu.offset_ms.map(|ms| format!("{ms:+.2} ms"))),
        or_dash(cpu.confidence.map(|confidence| format!("{confidence:.2}"))),
        or_dash(missing),
    ]
}

fn notes(cpu: &Cpu) -> Vec<Words> {
    if cpu.model.is_none() {
        return vec![Words::Warning(format!("{}.", cpu.why))];
    }
    let mut notes = Vec::new();
    let class = if cpu.is_real_time { "real-time probe" } else { "ordinary probe" };
    let attributed = match &cpu.labels {
        None => String::new(),
        Some(Labels::Rseq) => ", gaps attributed by rseq".to_owned(),
        Some(Labels::Turns(why)) => format!(", gaps attributed by context switch counts ({why})"),
        Some(Labels::None(why)) => format!(", gaps not attributed ({why})"),
    };
    let excluded = match cpu.seen {
        Some(seen) if seen.set_aside > 0 => {
            format!(", {} gaps excluded (other threads, or pauses of the whole machine)", seen.set_aside)
        }
        _ => String::new(),
    };
    notes.push(Words::Note(format!("{}; {class}{attributed}{excluded}.", cpu.why)));
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
    let least = least_share(report);
    let of_all = |count: usize| count as f64 / measured as f64 * PPM;
    let slots = line("quantum_slots_ppm", "CPUs with slots", Unit::Ppm, Better::Lower, of_all(named(Model::FixedSlot)));
    let irregular = line(
        "quantum_irregular_ppm",
        "CPUs with irregular gaps",
        Unit::Ppm,
        Better::Lower,
        of_all(named(Model::Irregular)),
    );
    let least = least.map(|share| {
        with_talk_figure(line(
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

fn with_talk_figure(line: CardLine) -> CardLine {
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
    use crate::view::terminal::text;

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
            lost: Lost::new(3, "more gaps than are kept"),
            ..unmeasured()
        }
    }

    #[test]
    fn two_hundred_cpus_have_one_note() {
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
        for words in ["CPUs 0-6,8-199: gaps come at set times", "CPU 7: run on CPU 0", "--json has 191 more"] {
            assert!(page.contains(words), "{page}");
        }
        assert!(page.lines().count() < 300, "{page}");
    }

    #[test]
    fn slots_are_graded_by_the_share_that_is_left() {
        let of = |slots, irregular, share| slots_left(Some(slots), Some(irregular), share).grade;
        assert_eq!([of(0.0, 0.0, Some(1.0)), of(0.0, 0.0, Some(0.4))], [Grade::Good, Grade::Fair]);
        assert_eq!([of(0.5, 0.0, Some(0.4)), of(1.0, 0.0, Some(0.96))], [Grade::Poor, Grade::Fair]);
        assert_eq!(of(0.0, 0.5, Some(1.0)), Grade::Unknown);
        assert_eq!(slots_left(None, None, None).grade, Grade::Unknown);
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
            Time slots of the CPUs
              CPU  model         period      jitter  share   phase    offset    confidence  missing
              0    not measured  -           -       -       -        -         -           -
              1    fixed slot    10.000 ms   1.1 %   39.9 %  6.01 ms  -2.50 ms  0.99        -
              2    token bucket  100.000 ms  -       40.0 %  -        -         0.90        -
              CPU limit         40 of every 100 ms, set in /sys/fs/cgroup/pod
              CPU 0: run on CPU 0: EINVAL.
              CPU 1: gaps come at set times; real-time probe, gaps attributed by rseq.
              CPU 1: lost 3 gaps: more gaps than are kept.
              CPU 2: gaps come at set times; ordinary probe, gaps attributed by context
              switch counts (the C library has none).
        "#]]
        .assert_eq(&plain);
    }
}
