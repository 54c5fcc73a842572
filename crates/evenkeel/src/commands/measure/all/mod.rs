//! `evenkeel measure all`: creates the machine's card. Every meter runs briefly in each of several rounds.
//! If the machine changes over minutes, this affects all numbers alike: each number gets a larger range.

mod host;

use std::fs;
use std::path::PathBuf;

use evenkeel_host::Facts;
use evenkeel_hostfs::Root;
use evenkeel_measure::Watch;
use evenkeel_measure::card::{Card, CardLine, KIND, MeterResults, Taken};
use evenkeel_sys::clock as time;

use super::Context;
use super::card::{CardTurn, Pace};
use super::meters::{ALL, Listed};
use crate::failure::Outcome;
use crate::output_file::{self, refuse_unwritable};
use crate::show::finding::{Finding, busy};
use crate::show::{card as page, json};

/// Make the machine's card: the main numbers of all meters on one page, in about two minutes
///
/// Each meter runs briefly in each of five rounds (three with --quick).
/// The card shows the median and the range of the rounds, next to published figures of other machines.
/// It changes nothing on the machine. If a meter fails, the card shows the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel measure all --output card.json
  evenkeel measure all --quick --report card.html")]
pub(crate) struct Args {
    /// Run three shorter rounds, in about half a minute
    #[arg(long)]
    quick: bool,
    /// Also write the card to FILE, for `measure compare`
    #[arg(long, short, value_name = "FILE.json")]
    output: Option<PathBuf>,
    /// Ask the metadata service of the cloud for the instance type (EC2, Google Cloud, Azure; at most 100 ms)
    #[arg(long)]
    metadata: bool,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    // Fail now if the file can't be written, not after two minutes of measuring.
    args.output.as_deref().map_or(Ok(()), refuse_unwritable)?;
    let root = if args.metadata { Root::live_with_metadata() } else { Root::live() };
    let facts = Facts::probe(&root);
    let pace = if args.quick { Pace::Quick } else { Pace::Full };
    let turns: Vec<_> = ALL.iter().filter_map(|meter| Some((meter.name, meter.card?))).collect();
    let card = context.measure(|watch| Ok(card(&turns, pace, host::traits(&facts), watch)))?;
    if let Some(file) = &args.output {
        fs::write(file, json::answer(&card)?).map_err(|error| output_file::failure(file, &error))?;
    }
    let findings = findings(&card, context.others());
    context.answer("The machine's card", &card, |card| page::blocks(card, &findings, busy(context.others())))
}

/// The findings, with those that need attention first.
fn findings(card: &Card, others: Option<f64>) -> Vec<(&'static str, Finding)> {
    let of = |meter: &Listed| {
        let turn = meter.card?;
        let part = card.meters.iter().find(|part| part.meter == meter.name && !part.lines.is_empty())?;
        let finding = (turn.finding)(&part.lines);
        Some((meter.name, if meter.needs_idle { finding.if_idle(others) } else { finding }))
    };
    let mut findings: Vec<_> = ALL.iter().filter_map(of).collect();
    findings.sort_by_key(|(_, finding)| finding.grade);
    findings
}

/// Runs all rounds. Does not run a failed meter again.
fn card(turns: &[(&str, CardTurn)], pace: Pace, host: Vec<evenkeel_measure::card::Trait>, watch: &Watch<'_>) -> Card {
    let start_ns = time::monotonic_ns();
    let mut said: Vec<Vec<Vec<CardLine>>> = turns.iter().map(|_| Vec::new()).collect();
    let mut failed: Vec<Option<String>> = turns.iter().map(|_| None).collect();
    let of_a_round: f64 = turns.iter().map(|(_, turn)| turn.seconds).sum();
    let whole = of_a_round * pace.rounds() as f64;
    let mut interrupted = false;
    for round in 0..pace.rounds() {
        let mut done = of_a_round * round as f64;
        for ((_, turn), (said, failed)) in turns.iter().zip(said.iter_mut().zip(&mut failed)) {
            let (from, to) = (done / whole, (done + turn.seconds) / whole);
            done += turn.seconds;
            interrupted |= watch.stopped();
            if failed.is_some() || interrupted {
                continue;
            }
            match watch.part(from, to, |part| (turn.run)(pace, part)) {
                // Ignore the numbers of an interrupted meter,
                // because they are not comparable with the numbers of complete runs.
                Ok(_) if watch.stopped() => interrupted = true,
                Ok(lines) => said.push(lines),
                Err(error) => *failed = Some(error.to_string()),
            }
        }
    }
    let parts = turns.iter().zip(said.iter().zip(failed));
    Card {
        kind: KIND.to_owned(),
        taken: Taken {
            at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            by: concat!("evenkeel ", env!("CARGO_PKG_VERSION")).to_owned(),
            pace: pace.name().to_owned(),
            rounds: pace.rounds() as u32,
            seconds: (time::monotonic_ns().saturating_sub(start_ns)) as f64 / 1e9,
            interrupted,
        },
        host,
        meters: parts.map(|((name, _), (said, failed))| MeterResults::of_rounds(name, said, failed)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use evenkeel_measure::card::{Better, Line};
    use evenkeel_measure::{MeterError, Unit};

    use super::super::card::line;
    use super::*;
    use crate::show::finding::Grade;

    static STOP: AtomicBool = AtomicBool::new(false);

    fn one(_: Pace, _: &Watch<'_>) -> Result<Vec<CardLine>, MeterError> {
        Ok(vec![line("one_ns", "one", Unit::Ns, Better::Lower, 1.0)])
    }

    fn none(_: Pace, _: &Watch<'_>) -> Result<Vec<CardLine>, MeterError> {
        Err(MeterError::not_possible("count", "nobody can"))
    }

    fn stopped(_: Pace, _: &Watch<'_>) -> Result<Vec<CardLine>, MeterError> {
        STOP.store(true, Ordering::Relaxed);
        Ok(vec![line("half_ns", "half", Unit::Ns, Better::Lower, 1.0)])
    }

    fn finding(lines: &[Line]) -> Finding {
        Finding::unknown(lines.len().to_string())
    }

    #[test]
    fn the_worst_is_found_first_and_a_busy_machine_has_no_grade() {
        let line = |id: &str, value| Line {
            id: id.to_owned(),
            title: String::new(),
            unit: "ns".to_owned(),
            better: Better::Lower,
            value,
            low: value,
            high: value,
            rounds: 1,
            reference: None,
        };
        let stop = AtomicBool::new(false);
        let mut card = super::card(&[], Pace::Quick, Vec::new(), &Watch::new(&stop, &|_, _| ()));
        let part = |meter: &str, lines| MeterResults { meter: meter.to_owned(), lines, failed: None };
        card.meters = vec![
            part("clock", vec![line("clock_gettime_ps_p50", 25_000.0)]),
            part("disk", vec![line("disk_sync_write_ns_p50", 9e6), line("disk_sync_write_ns_p99", 90e6)]),
            part("imbalance", vec![line("uneven_ppm", 400_000.0)]),
            part("wake", Vec::new()),
        ];
        let of = |others| {
            findings(&card, others).into_iter().map(|(meter, finding)| (meter, finding.grade)).collect::<Vec<_>>()
        };
        assert_eq!(of(None), [("disk", Grade::Poor), ("imbalance", Grade::Fair), ("clock", Grade::Good)]);
        // Imbalance keeps its grade, because it measures how other programs use the CPUs.
        assert_eq!(of(Some(0.5)), [("imbalance", Grade::Fair), ("disk", Grade::Unknown), ("clock", Grade::Good)]);
    }

    #[test]
    fn a_meter_that_fails_leaves_its_reason_and_the_others_go_on() {
        let turn = |name, run| (name, CardTurn { seconds: 1.0, run, finding });
        let stop = AtomicBool::new(false);
        let watch = Watch::new(&stop, &|share, _| assert!((0.0..=1.0).contains(&share)));
        let card = super::card(&[turn("none", none), turn("one", one)], Pace::Quick, Vec::new(), &watch);
        assert_eq!(card.meters[0].failed.as_deref(), Some("count: nobody can"));
        assert!(card.meters[0].lines.is_empty());
        assert_eq!((card.meters[1].lines[0].rounds, card.taken.interrupted), (3, false));
        assert_eq!(Card::parse(&json::answer(&card).unwrap()).unwrap(), card, "what is written is read");
    }

    #[test]
    fn a_meter_that_was_cut_short_is_not_reported() {
        let turns = [("half", CardTurn { seconds: 1.0, run: stopped, finding })];
        let card = super::card(&turns, Pace::Full, Vec::new(), &Watch::new(&STOP, &|_, _| ()));
        assert!(card.taken.interrupted && card.meters[0].lines.is_empty(), "{card:?}");
    }
}
