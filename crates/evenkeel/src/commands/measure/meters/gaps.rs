//! `evenkeel measure gaps`.

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::gaps::{self, Cause, Class, Cpu, Keep, Mode, Order, Report, Sampled, Settings, Sum};
use evenkeel_stats::Share;
use evenkeel_sys::CpuSet;

use crate::commands::measure::card::{CardTurn, PPM, line};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::blocks::{Block, Timeline};
use crate::show::units::{part, percent, percent_to, quantity};

/// So many takers and sources of interrupts are shown of each CPU; JSON has all.
const SHOWN: usize = 5;
/// So many CPUs are shown one by one, those with the most missing; JSON has all.
const CPUS_SHOWN: usize = 8;
/// Below the table of samples.
const WHAT_SAMPLES_SAY: &str = "Missing is the share of the time at which a thread that wakes does not have the CPU, with its 95 % interval. Windows in \
                                which the probe could not run count as missing.";

/// Time that was missing on each CPU, and who took it
///
/// A thread on each CPU spins and notes each moment in which it did not run. It needs no rights; as root it also tells which thread ran
/// instead. It takes the whole of each CPU while it runs: on a host with players, use --sample.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=864_000))]
    seconds: u64,
    /// CPUs to watch, as 0-3,8 [default: all that may be used]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,
    /// One CPU after the other, each for its share of the time
    #[arg(long)]
    one_at_a_time: bool,
    /// The shortest gap that is told of, in microseconds
    #[arg(long, value_name = "US", default_value_t = 1.0, value_parser = least_us)]
    min_us: f64,
    /// For a production host: windows of 0.1 ms at random moments, less than 1 % of one CPU in all. Reports the share of the time that is
    /// missing with its 95 % interval
    #[arg(long, conflicts_with = "fifo")]
    sample: bool,
    /// Spin in real time, before all ordinary threads (starves them for 95 % of the time; needs rights)
    #[arg(long)]
    fifo: bool,
    /// List so many of the longest gaps of each CPU one by one
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    keep: u64,
    /// List the newest instead of the longest
    #[arg(long)]
    newest: bool,
}

impl Meter for Args {
    const NAME: &'static str = "gaps";
    const TITLE: &'static str = "Time that was missing";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 3.0,
        run: |pace, watch| {
            let settings = gaps::Settings {
                cpus: None,
                length_ns: pace.of(3_000_000_000, 1_500_000_000),
                threshold_ns: 10_000,
                mode: Mode::Spin,
                order: Order::AllAtOnce,
                class: Class::Ordinary,
                keep: Keep::Longest(1),
            };
            Ok(lines(&gaps::run(&settings, watch)?))
        },
    });
    type Report = Report;

    fn measure(&self, context: &Context<'_>) -> Result<Report, Failure> {
        let keep = usize::try_from(self.keep).unwrap_or(usize::MAX);
        let settings = Settings {
            cpus: self.cpus.clone(),
            length_ns: self.seconds * 1_000_000_000,
            threshold_ns: (self.min_us * 1000.0) as u64,
            mode: if self.sample { Mode::Sample } else { Mode::Spin },
            order: if self.one_at_a_time { Order::OneAtATime } else { Order::AllAtOnce },
            class: if self.fifo { Class::Fifo } else { Class::Ordinary },
            keep: if self.newest { Keep::Newest(keep) } else { Keep::Longest(keep) },
        };
        context.measure(|watch| gaps::run(&settings, watch))
    }

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = vec![Block::heading("Time that was missing")];
        blocks.push(Block::row("watched", how(report)));
        blocks.push(Block::row("cost", cost(report)));
        if report.mode == Mode::Sample {
            blocks.push(Block::table(
                ["CPU", "windows", "missing", "by other threads", "by nobody inside"],
                sample_rows(report),
            ));
            blocks.push(Block::Note(WHAT_SAMPLES_SAY.to_owned()));
        } else {
            blocks.push(Block::table(["CPU", "gaps", "a second", "longest", "of the time"], cpu_rows(report)));
        }
        blocks.push(Block::heading("Who took it"));
        let mut causes: Vec<(&&str, &Sum)> = report.causes.iter().collect();
        causes.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total_ns));
        let rows = causes.into_iter().map(|(cause, sum)| {
            let share = percent(part(sum.total_ns, report.all.total_ns));
            [(*cause).to_owned(), sum.count.to_string(), time(sum.total_ns), time(sum.longest_ns), share]
        });
        blocks.push(Block::table(["cause", "gaps", "in all", "longest", "of what is missing"], rows.collect()));
        let mut shown: Vec<&Cpu> = report.cpus.iter().collect();
        shown.sort_by_key(|cpu| std::cmp::Reverse(cpu.all.total_ns));
        shown.truncate(CPUS_SHOWN);
        shown.sort_by_key(|cpu| cpu.cpu);
        blocks.extend(shown.iter().flat_map(|cpu| of_cpu(cpu, report)));
        if report.cpus.len() > shown.len() {
            let others = report.cpus.len() - shown.len();
            blocks.push(Block::Note(format!(
                "The {CPUS_SHOWN} CPUs with the most missing are shown; --json has {others} more."
            )));
        }
        if report.lost.count > 0 {
            let why = report.lost.why.as_deref().unwrap_or("unknown why");
            blocks.push(Block::Note(format!("Not listed: {} ({why}).", report.lost.count)));
        }
        blocks.extend(report.doubts.iter().map(|caveat| Block::Warning(caveat.to_string())));
        blocks
    }
}

fn cpus(text: &str) -> Result<CpuSet, String> {
    CpuSet::parse_list(text).filter(|set| !set.is_empty()).ok_or_else(|| "not a list of CPUs such as 0-3,8".to_owned())
}

fn least_us(text: &str) -> Result<f64, String> {
    let us: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.5..=1e6).contains(&us) { Ok(us) } else { Err("outside 0.5 to 1,000,000".to_owned()) }
}

fn how(report: &Report) -> String {
    let mode = match (report.mode, report.class) {
        (Mode::Spin, Class::Ordinary) => "all the time, as an ordinary thread",
        (Mode::Spin, Class::Fifo) => "all the time, in real time",
        (Mode::Sample, _) => "in samples",
    };
    format!("{}, {mode}, gaps from {} on", time(report.length_ns), time(report.threshold_ns))
}

fn cost(report: &Report) -> String {
    let cpu = percent_to(2, report.observer_cpu_share);
    let blind_ns: u64 = report.cpus.iter().map(|cpu| cpu.blind_ns).sum();
    let watched_ns: u64 = report.cpus.iter().map(|cpu| cpu.watched_ns).sum();
    if report.mode == Mode::Sample {
        let windows: u64 = report.cpus.iter().filter_map(|cpu| cpu.sampled).map(|sampled| sampled.windows).sum();
        return format!("{cpu} of one CPU; {windows} windows of {} in all", time(watched_ns / windows.max(1)));
    }
    let blind = percent_to(3, part(blind_ns, blind_ns + watched_ns));
    format!("{cpu} of one CPU; did not look for {blind} of the time")
}

fn cpu_rows(report: &Report) -> Vec<[String; 5]> {
    let row = |name: String, sum: &Sum, watched_ns: u64| {
        let a_second = sum.count as f64 / (watched_ns.max(1) as f64 / 1e9);
        let share = percent_to(3, part(sum.total_ns, watched_ns));
        [name, sum.count.to_string(), format!("{a_second:.0}"), time(sum.longest_ns), share]
    };
    let mut rows: Vec<_> = report.cpus.iter().map(|cpu| row(cpu.cpu.to_string(), &cpu.all, cpu.watched_ns)).collect();
    if report.cpus.len() > 1 {
        rows.push(row("all".to_owned(), &report.all, report.cpus.iter().map(|cpu| cpu.watched_ns).sum()));
    }
    rows
}

/// Each CPU's shares with their 95 % intervals.
fn sample_rows(report: &Report) -> Vec<[String; 5]> {
    let row = |name: String, sampled: Option<Sampled>| match sampled {
        None => [name, "0".to_owned(), "not known".to_owned(), "-".to_owned(), "-".to_owned()],
        Some(Sampled { windows, missing, by_threads, by_nobody_inside, .. }) => {
            [name, windows.to_string(), interval(missing), interval(by_threads), interval(by_nobody_inside)]
        }
    };
    let mut rows: Vec<_> = report.cpus.iter().map(|cpu| row(cpu.cpu.to_string(), cpu.sampled)).collect();
    if report.cpus.len() > 1 {
        rows.push(row("all".to_owned(), report.sampled));
    }
    rows
}

fn interval(Share { share, low, high }: Share) -> String {
    format!("{} ({:.1} to {:.1})", percent(share), low * 100.0, high * 100.0)
}

fn of_cpu(cpu: &Cpu, report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::heading(format!("CPU {}", cpu.cpu))];
    let mut takers: Vec<_> = cpu.takers.iter().collect();
    takers.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total_ns));
    let rows = takers.into_iter().take(SHOWN);
    let rows = rows.map(|(name, sum)| [name.clone(), sum.count.to_string(), time(sum.total_ns), time(sum.longest_ns)]);
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        blocks.push(Block::table(["ran instead", "times", "in all", "longest"], rows));
    }
    let mut sources: Vec<_> = cpu.interrupted_by.iter().collect();
    sources.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total_ns));
    let rows = sources.into_iter().take(SHOWN);
    let rows = rows.map(|(name, sum)| [name.clone(), sum.count.to_string(), time(sum.total_ns), time(sum.longest_ns)]);
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        blocks.push(Block::table(["interrupted by", "gaps", "in all", "longest"], rows));
    }
    if !cpu.interrupts.is_empty() {
        let seconds = (cpu.watched_ns.max(1) as f64) / 1e9;
        let most = cpu.interrupts.iter().take(SHOWN);
        let most = most.map(|source| format!("{} {:.0}/s", source.name, source.count as f64 / seconds));
        blocks.push(Block::row("interrupts", most.collect::<Vec<_>>().join(", ")));
    }
    if cpu.all.count > 0 {
        blocks.push(Block::Histogram(cpu.lengths.clone()));
        let since = |at_ns: u64| at_ns.saturating_sub(report.start_ns);
        let points = cpu.gaps.iter().map(|gap| (since(gap.start_ns), gap.length_ns)).collect();
        let title = "gaps over time, by their length".to_owned();
        blocks.push(Block::Timeline(Timeline { title, total_ns: report.length_ns, unit: Unit::Ns, points }));
    }
    blocks.extend(cpu.wake_late.clone().filter(|late| late.histogram.count() > 0).map(Block::Histogram));
    blocks
}

fn time(ns: u64) -> String {
    quantity(ns, Unit::Ns)
}

/// Those that nothing inside of this machine takes.
const FROM_OUTSIDE: [Cause; 3] = [Cause::Steal, Cause::Pause, Cause::Hypervisor];

fn lines(report: &Report) -> Vec<CardLine> {
    let watched_ns: u64 = report.cpus.iter().map(|cpu| cpu.watched_ns).sum();
    if watched_ns == 0 {
        return Vec::new();
    }
    let share = |ns: u64| ns as f64 / watched_ns as f64 * PPM;
    let of = |causes: &[Cause]| -> u64 {
        let sums = causes.iter().filter_map(|cause| report.causes.get(cause.name()));
        sums.map(|sum| sum.total_ns).sum()
    };
    let longest = report.all.longest_ns as f64;
    vec![
        line("gaps_longest_ns", "the longest", Unit::Ns, Better::Lower, longest),
        line(
            "gaps_missing_ppm",
            "missing in all, over 10 us each",
            Unit::Ppm,
            Better::Lower,
            share(report.all.total_ns),
        ),
        line("gaps_outside_ppm", "taken from outside", Unit::Ppm, Better::Lower, share(of(&FROM_OUTSIDE))),
        line("gaps_preempted_ppm", "taken by other threads", Unit::Ppm, Better::Lower, share(of(&[Cause::Preemption]))),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evenkeel_measure::meters::gaps::{Cause, Gap, GapsCaveat, Source};
    use evenkeel_measure::{Lost, Samples};
    use expect_test::expect;

    use super::*;
    use crate::show::blocks::text;

    const MS: u64 = 1_000_000;

    fn sum(count: u64, total_ns: u64, longest_ns: u64) -> Sum {
        Sum { count, total_ns, longest_ns }
    }

    fn cpu(number: usize) -> Cpu {
        let mut lengths = Samples::new("gap_ns", Unit::Ns, [("cpu", number.to_string())]);
        (0..40).for_each(|_| lengths.record(3_000));
        lengths.record(6 * MS);
        let gap = |start_ns, length_ns, cause| Gap {
            start_ns,
            length_ns,
            around_ns: 0,
            cause,
            by: None,
            source: None,
            run_delay_ns: 0,
            steal_ns: 0,
        };
        Cpu {
            cpu: number,
            watched_ns: 2_000 * MS,
            blind_ns: MS,
            all: sum(41, 6_120_000, 6 * MS),
            share: 0.003_06,
            sampled: None,
            causes: BTreeMap::new(),
            takers: [("thief".to_owned(), sum(1, 6 * MS, 6 * MS))].into(),
            interrupts: vec![Source { name: "LOC Local timer interrupts".to_owned(), count: 500 }],
            interrupted_by: [
                ("LOC Local timer interrupts".to_owned(), sum(39, 117_000, 3_100)),
                ("softirq NET_RX".to_owned(), sum(1, 3_000, 3_000)),
            ]
            .into(),
            gaps: vec![gap(5 + 500 * MS, 3_000, Cause::Softirq), gap(5 + 1_500 * MS, 6 * MS, Cause::Preemption)],
            lost: Lost::default(),
            lengths,
            wake_late: None,
            switch_records_lost: 0,
            trace_records_lost: 0,
            ended: None,
        }
    }

    fn report(cpus: Vec<Cpu>) -> Report {
        let causes = [
            ("preemption", sum(1, 6 * MS, 6 * MS)),
            ("interrupt", sum(39, 117_000, 3_100)),
            ("softirq", sum(1, 3_000, 3_000)),
        ];
        Report {
            mode: Mode::Spin,
            class: Class::Ordinary,
            threshold_ns: 1_000,
            start_ns: 5,
            length_ns: 2_000 * MS,
            all: sum(41, 6_120_000, 6 * MS),
            causes: causes.into(),
            sampled: None,
            cpus,
            lost: Lost::of(39, "only the 2 longest of each CPU are listed"),
            limits: Vec::new(),
            observer_cpu_share: 0.98,
            doubts: vec![GapsCaveat::Ended { why: "CPU 1 went away while it was measured".to_owned() }],
        }
    }

    fn page(report: &Report) -> String {
        anstream::adapter::strip_str(&text(&Args::page(report))).to_string()
    }

    #[test]
    fn a_page_of_all_that_there_may_be() {
        expect![[r#"
            Time that was missing
              watched           2.00 s, all the time, as an ordinary thread, gaps from 1.00
                                us on
              cost              98.00 % of one CPU; did not look for 0.050 % of the time
              CPU  gaps  a second  longest  of the time
              0    41    20        6.00 ms  0.306 %

            Who took it
              cause       gaps  in all   longest  of what is missing
              preemption  1     6.00 ms  6.00 ms  98.0 %
              interrupt   39    117 us   3.10 us  1.9 %
              softirq     1     3.00 us  3.00 us  0.0 %

            CPU 0
              ran instead  times  in all   longest
              thief        1      6.00 ms  6.00 ms
              interrupted by              gaps  in all   longest
              LOC Local timer interrupts  39    117 us   3.10 us
              softirq NET_RX              1     3.00 us  3.00 us
              interrupts        LOC Local timer interrupts 250/s
              gap_ns cpu 0
              <=   5.00 us         40  ████████████████████████████████████████
              <=   10.0 us          0
              <=   20.0 us          0
              <=   50.0 us          0
              <=    100 us          0
              <=    200 us          0
              <=    500 us          0
              <=   1.00 ms          0
              <=   2.00 ms          0
              <=   5.00 ms          0
              <=   10.0 ms          1  █
              gaps over time, by their length
                                ▁                                   █
              0                                                                 2.00 s
              Not listed: 39 (only the 2 longest of each CPU are listed).
              CPU 1 went away while it was measured
        "#]]
        .assert_eq(&page(&report(vec![cpu(0)])));
    }

    #[test]
    fn samples_are_shown_with_their_intervals() {
        let share = |share, low, high| Share { share, low, high };
        let sampled = Sampled {
            windows: 120,
            window_ns: 100_000,
            lead_ns: 60_000,
            missing: share(0.498, 0.405, 0.591),
            by_threads: share(0.012, 0.001, 0.05),
            by_nobody_inside: share(0.486, 0.394, 0.58),
            hidden: 0.02,
        };
        let unseen = Cpu {
            watched_ns: 0,
            all: Sum::default(),
            takers: BTreeMap::new(),
            interrupts: Vec::new(),
            interrupted_by: BTreeMap::new(),
            ..cpu(1)
        };
        let seen = Cpu { watched_ns: 12 * MS, sampled: Some(sampled), ..cpu(0) };
        let sample = Report { mode: Mode::Sample, sampled: Some(sampled), ..report(vec![seen, unseen]) };
        let page = page(&sample);
        let head: Vec<&str> = page.lines().take_while(|line| !line.starts_with("Who took it")).collect();
        expect![[r#"
            Time that was missing
              watched           2.00 s, in samples, gaps from 1.00 us on
              cost              98.00 % of one CPU; 120 windows of 100 us in all
              CPU  windows  missing                by other threads    by nobody inside
              0    120      49.8 % (40.5 to 59.1)  1.2 % (0.1 to 5.0)  48.6 % (39.4 to 58.0)
              1    0        not known              -                   -
              all  120      49.8 % (40.5 to 59.1)  1.2 % (0.1 to 5.0)  48.6 % (39.4 to 58.0)
              Missing is the share of the time at which a thread that wakes does not have
              the CPU, with its 95 % interval. Windows in which the probe could not run
              count as missing.
        "#]]
        .assert_eq(&head.join("\n"));
    }

    #[test]
    fn two_hundred_cpus_are_one_table_and_the_worst_of_them() {
        let mut cpus: Vec<Cpu> = (0..200).map(cpu).collect();
        (100..108).for_each(|worst| cpus[worst].all.total_ns *= 2);
        let page = page(&report(cpus));
        let shown: Vec<&str> = page.lines().filter(|line| line.starts_with("CPU ")).collect();
        assert_eq!(shown, (100..108).map(|cpu| format!("CPU {cpu}")).collect::<Vec<_>>());
        assert!(page.contains("--json has 192 more") && page.lines().count() < 400, "{page}");
    }
}
