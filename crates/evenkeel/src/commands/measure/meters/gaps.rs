//! `evenkeel measure gaps`.

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::gaps::{
    self, Cause, Class, Cpu, Keep, Mode, Order, Report, Sampled, Settings, Sum, WindowSink,
};
use evenkeel_stats::Share;
use evenkeel_sys::CpuSet;

use crate::args::cpus;
use crate::commands::measure::card::{CardTurn, PPM, line, value};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::finding::{A_TICK, Finding, Grade};
use crate::show::units::{part, percent, percent_to, quantity, real_quantity};
use crate::view::{Block, Timeline};

/// The maximum number of threads and of interrupts on the page for each CPU. The JSON answer has all.
const SHOWN: usize = 5;
/// The maximum number of CPUs on the page.
/// The page shows the CPUs with the most missing time; the JSON answer has all CPUs.
const CPUS_SHOWN: usize = 8;
/// The text below the table of samples.
const WHAT_SAMPLES_SAY: &str = "Missing: the share of the time in which a thread that wakes does not get the CPU, with its 95 % interval. Windows in \
                                which the probe could not run count as missing.";

/// Measure the time that is missing on each CPU, and find out who took it
///
/// A thread on each CPU spins and records each interval in which it did not run.
/// The meter needs no privileges; as root it also reports which thread ran instead. It uses all of each CPU.
/// On a host with players, use --sample.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo evenkeel measure gaps
  evenkeel measure gaps --sample --seconds 60            on a host with players
  sudo evenkeel measure gaps --cpus 2-3 --min-us 50")]
pub(crate) struct Args {
    /// Duration
    #[arg(long, value_name = "TIME", default_value_t = 10, value_parser = crate::times::whole_seconds(1..=864_000))]
    seconds: u64,
    /// CPUs to watch, such as 0-3,8 [default: all that evenkeel may use]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,
    /// Watch one CPU after another, each for its share of the time
    #[arg(long)]
    one_at_a_time: bool,
    /// The length of the shortest recorded gap, in microseconds
    #[arg(long, value_name = "US", default_value_t = 1.0, value_parser = least_us)]
    min_us: f64,
    /// For production hosts: watch windows of 0.1 ms at random times, with less than 1 % of one CPU in total.
    /// Reports the missing share of the time with a 95 % interval
    #[arg(long, conflicts_with = "fifo")]
    sample: bool,
    /// Spin at real-time priority. Starves ordinary threads for up to 95 % of the time; needs privileges
    #[arg(long)]
    fifo: bool,
    /// List the N longest gaps of each CPU
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    keep: u64,
    /// List the newest gaps instead of the longest
    #[arg(long)]
    newest: bool,
}

impl Meter for Args {
    const NAME: &'static str = "gaps";
    const TITLE: &'static str = "Missing time";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 3.0,
        run: |pace, watch| {
            let settings = gaps::Settings {
                cpus: None,
                length_ns: pace.choose(3_000_000_000, 1_500_000_000),
                threshold_ns: 10_000,
                mode: Mode::Spin,
                order: Order::AllAtOnce,
                class: Class::Ordinary,
                keep: Keep::Longest(1),
                on_window: WindowSink::default(),
            };
            Ok(lines(&gaps::run(&settings, watch)?))
        },
        finding: |lines| {
            let share = |id| value(lines, id).unwrap_or(0.0) / PPM;
            lost(share("gaps_outside_ppm"), share("gaps_preempted_ppm"), value(lines, "gaps_longest_ns").unwrap_or(0.0))
        },
    });
    const NEEDS_IDLE: bool = false;
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
            on_window: WindowSink::default(),
        };
        context.measure(|watch| gaps::run(&settings, watch))
    }

    fn finding(report: &Report) -> Option<Finding> {
        if report.mode == Mode::Sample {
            return Some(sampled(report.sampled));
        }
        let watched_ns: u64 = report.cpus.iter().map(|cpu| cpu.watched_ns).sum();
        if watched_ns == 0 {
            return Some(Finding::unknown("no CPU was watched"));
        }
        let share = |causes: &[Cause]| part(taken_ns(report, causes), watched_ns);
        Some(lost(share(&FROM_OUTSIDE), share(&[Cause::Preemption]), report.all.longest_ns as f64))
    }

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = vec![Block::heading("Missing time")];
        blocks.push(Block::row("watched", how(report)));
        blocks.push(Block::row("cost", cost(report)));
        if report.mode == Mode::Sample {
            blocks.push(Block::table(
                ["CPU", "windows", "missing", "other threads", "host or interrupts"],
                sample_rows(report),
            ));
            blocks.push(Block::Note(WHAT_SAMPLES_SAY.to_owned()));
        } else {
            blocks.push(Block::table(["CPU", "gaps", "per second", "longest", "share of time"], cpu_rows(report)));
        }
        blocks.push(Block::heading("Causes"));
        let mut causes: Vec<(&&str, &Sum)> = report.causes.iter().collect();
        causes.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total_ns));
        let rows = causes.into_iter().map(|(cause, sum)| {
            let share = percent(part(sum.total_ns, report.all.total_ns));
            [(*cause).to_owned(), sum.count.to_string(), time(sum.total_ns), time(sum.longest_ns), share]
        });
        // Each sample counts only the part of a gap inside the sample's window. The whole gap may be longer.
        let (total, longest) = match report.mode {
            Mode::Sample => ("in the windows", "longest gap, whole"),
            Mode::Spin => ("total", "longest"),
        };
        blocks.push(Block::table(["cause", "gaps", total, longest, "of missing time"], rows.collect()));
        let mut shown: Vec<&Cpu> = report.cpus.iter().collect();
        shown.sort_by_key(|cpu| std::cmp::Reverse(cpu.all.total_ns));
        shown.truncate(CPUS_SHOWN);
        shown.sort_by_key(|cpu| cpu.cpu);
        blocks.extend(shown.iter().flat_map(|cpu| of_cpu(cpu, report)));
        if report.cpus.len() > shown.len() {
            let others = report.cpus.len() - shown.len();
            blocks.push(Block::Note(format!(
                "These are the {CPUS_SHOWN} CPUs with the most missing time; --json has {others} more."
            )));
        }
        if report.lost.count > 0 {
            let why = report.lost.why.as_deref().unwrap_or("unknown why");
            blocks.push(Block::Note(format!("Not listed: {} ({why}).", report.lost.count)));
        }
        blocks.extend(report.caveats.iter().map(|caveat| Block::Warning(caveat.to_string())));
        blocks
    }
}

/// Derives the finding from shares of the time of all CPUs, and from the longest gap.
/// `measure quantum` looks for slots if the share is 2 % or more.
fn lost(outside: f64, preempted: f64, longest_ns: f64) -> Finding {
    let longest = real_quantity(longest_ns, Unit::Ns);
    let (by_host, by_threads) = (percent_to(2, outside), percent_to(2, preempted));
    let says = format!(
        "the hypervisor took {by_host} of the CPUs' time and other threads took {by_threads}; the longest gap was {longest}, and {A_TICK}"
    );
    // While another thread has the CPU, the meter can't measure the time that the hypervisor takes.
    let grade = if preempted > 0.5 { Grade::Unknown } else { Grade::of_low(outside, 0.001, 0.02) };
    Finding::new(grade, says)
}

fn sampled(sampled: Option<Sampled>) -> Finding {
    let Some(Sampled { by_nobody_inside, hidden, .. }) = sampled else {
        return Finding::unknown("no window was watched");
    };
    let Share { share, low, high } = by_nobody_inside;
    let says = format!(
        "the hypervisor, interrupts and slow wakes took {} of the time (95 % interval {} to {}); over 2 % delays ticks",
        percent(share),
        percent(low),
        percent(high)
    );
    let grade = match by_nobody_inside {
        _ if hidden > 0.5 => Grade::Unknown,
        Share { high, .. } if high <= 0.01 => Grade::Good,
        Share { high, .. } if high <= 0.02 => Grade::Fair,
        Share { low, .. } if low > 0.02 => Grade::Poor,
        _ => Grade::Unknown,
    };
    Finding::new(grade, says)
}

fn taken_ns(report: &Report, causes: &[Cause]) -> u64 {
    causes.iter().filter_map(|cause| report.causes.get(cause.name())).map(|sum| sum.total_ns).sum()
}

fn least_us(text: &str) -> Result<f64, String> {
    let us = crate::times::us(text).filter(|us| (0.5..=1e6).contains(us));
    us.ok_or_else(|| "expected 0.5 to 1,000,000 microseconds, or a time such as 1ms".to_owned())
}

fn how(report: &Report) -> String {
    let mode = match (report.mode, report.class) {
        (Mode::Spin, Class::Ordinary) => "continuously, by an ordinary thread",
        (Mode::Spin, Class::Fifo) => "continuously, by a real-time thread",
        (Mode::Sample, _) => "by samples",
    };
    format!("{}, {mode}, gaps of {} or more", time(report.length_ns), time(report.threshold_ns))
}

fn cost(report: &Report) -> String {
    let cpu = percent_to(2, report.observer_cpu_share);
    let blind_ns: u64 = report.cpus.iter().map(|cpu| cpu.blind_ns).sum();
    let watched_ns: u64 = report.cpus.iter().map(|cpu| cpu.watched_ns).sum();
    if report.mode == Mode::Sample {
        let windows: u64 = report.cpus.iter().filter_map(|cpu| cpu.sampled).map(|sampled| sampled.windows).sum();
        return format!("{cpu} of one CPU; {windows} windows of {} in all", time(watched_ns / windows.max(1)));
    }
    let unwatched = percent_to(3, part(blind_ns, blind_ns + watched_ns));
    format!("{cpu} of one CPU; unwatched for {unwatched} of the time")
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

/// For each CPU, the shares with their 95 % intervals.
fn sample_rows(report: &Report) -> Vec<[String; 5]> {
    let row = |name: String, sampled: Option<Sampled>| match sampled {
        None => [name, "0".to_owned(), "unknown".to_owned(), "-".to_owned(), "-".to_owned()],
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
        blocks.push(Block::table(["ran instead", "times", "total", "longest"], rows));
    }
    let mut sources: Vec<_> = cpu.interrupted_by.iter().collect();
    sources.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total_ns));
    let rows = sources.into_iter().take(SHOWN);
    let rows = rows.map(|(name, sum)| [name.clone(), sum.count.to_string(), time(sum.total_ns), time(sum.longest_ns)]);
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        blocks.push(Block::table(["interrupted by", "gaps", "total", "longest"], rows));
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
        let title = "length of gaps over time".to_owned();
        blocks.push(Block::Timeline(Timeline { title, total_ns: report.length_ns, unit: Unit::Ns, points }));
    }
    blocks.extend(cpu.wake_late.clone().filter(|late| late.histogram.count() > 0).map(Block::Histogram));
    blocks
}

fn time(ns: u64) -> String {
    quantity(ns, Unit::Ns)
}

/// Causes outside of this machine.
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
    use crate::view::terminal::text;

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
            lost: Lost::new(39, "only the 2 longest of each CPU are listed"),
            limits: Vec::new(),
            observer_cpu_share: 0.98,
            caveats: vec![GapsCaveat::Ended { why: "CPU 1 went away while it was measured".to_owned() }],
        }
    }

    fn page(report: &Report) -> String {
        anstream::adapter::strip_str(&text(&Args::page(report))).to_string()
    }

    #[test]
    fn a_page_of_all_that_there_may_be() {
        expect![[r#"
            Missing time
              watched           2.00 s, continuously, by an ordinary thread, gaps of 1.00 us
                                or more
              cost              98.00 % of one CPU; unwatched for 0.050 % of the time
              CPU  gaps  per second  longest  share of time
              0    41    20          6.00 ms  0.306 %

            Causes
              cause       gaps  total    longest  of missing time
              preemption  1     6.00 ms  6.00 ms  98.0 %
              interrupt   39    117 us   3.10 us  1.9 %
              softirq     1     3.00 us  3.00 us  0.0 %

            CPU 0
              ran instead  times  total    longest
              thief        1      6.00 ms  6.00 ms
              interrupted by              gaps  total    longest
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
              length of gaps over time
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
        let head: Vec<&str> = page.lines().take_while(|line| !line.starts_with("Causes")).collect();
        expect![[r#"
            Missing time
              watched           2.00 s, by samples, gaps of 1.00 us or more
              cost              98.00 % of one CPU; 120 windows of 100 us in all
              CPU  windows  missing                other threads       host or interrupts
              0    120      49.8 % (40.5 to 59.1)  1.2 % (0.1 to 5.0)  48.6 % (39.4 to 58.0)
              1    0        unknown                -                   -
              all  120      49.8 % (40.5 to 59.1)  1.2 % (0.1 to 5.0)  48.6 % (39.4 to 58.0)
              Missing: the share of the time in which a thread that wakes does not get the
              CPU, with its 95 % interval. Windows in which the probe could not run count as
              missing.
        "#]]
        .assert_eq(&head.join("\n"));
    }

    #[test]
    fn visible_time_of_the_hypervisor_is_graded() {
        assert_eq!(Args::finding(&report(vec![cpu(0)])).unwrap().grade, Grade::Good);
        assert_eq!(
            lost(0.041, 0.02, 6e6).says,
            "the hypervisor took 4.10 % of the CPUs' time and other threads took 2.00 %; the longest gap was 6.00 ms, and a tick at \
             60 Hz lasts 16.7 ms"
        );
        let of = |outside, preempted| lost(outside, preempted, 6e6).grade;
        assert_eq!([of(0.041, 0.02), of(0.02, 0.0), of(0.041, 0.6)], [Grade::Poor, Grade::Fair, Grade::Unknown]);
        let share = |share, low, high| Share { share, low, high };
        let sample = |by_nobody_inside, hidden| {
            let (window_ns, lead_ns, any) = (100_000, 60_000, share(0.5, 0.4, 0.6));
            Some(Sampled { windows: 9, window_ns, lead_ns, missing: any, by_threads: any, by_nobody_inside, hidden })
        };
        let grade = |low, high, hidden| sampled(sample(share(low, low, high), hidden)).grade;
        assert_eq!([grade(0.0, 0.009, 0.0), grade(0.03, 0.2, 0.0)], [Grade::Good, Grade::Poor]);
        // Either the meter took too few windows, or other threads used the CPU in too many windows.
        assert_eq!([grade(0.0, 0.2, 0.0), grade(0.0, 0.009, 0.7)], [Grade::Unknown; 2]);
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
