//! How late one is woken, on the card: as a program that sets nothing is.

use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::wake::{self, Cell, Kind, Report, Variant};

use super::entry::{Entry, Pace, percentiles, with};

const GAPS_US: [u64; 2] = [100, 5000];

pub(super) const ENTRY: Entry = Entry {
    name: "wake",
    seconds: 3.0,
    turn: |pace: Pace, watch| {
        let settings = wake::Settings {
            duration_ns: pace.of(3_000_000_000, 1_000_000_000),
            gaps_ns: GAPS_US.iter().map(|gap_us| gap_us * 1000).collect(),
            kinds: vec![Kind::Timer, Kind::Futex, Kind::Udp],
            variants: vec![Variant::Plain],
            cpus: None,
            plain_slack_ns: None,
            waker_delay_ns: 0,
            seed: 1,
        };
        Ok(lines(&wake::run(&settings, watch)?))
    },
};

fn lines(report: &Report) -> Vec<CardLine> {
    report.cells.iter().filter_map(of).flatten().collect()
}

fn of(cell: &Cell) -> Option<[CardLine; 2]> {
    let (kind, gap_us) = (cell.kind.name(), cell.gap_ns / 1000);
    let title = format!("{kind} after {gap_us} us");
    let [p50, p99] = percentiles(&format!("wake_{kind}_{gap_us}us_ns"), &title, Better::Lower, &cell.latency)?;
    let is_another_cpu = cell.kind == Kind::Futex && gap_us == GAPS_US[1];
    Some([if is_another_cpu { beside_the_paper(p50) } else { p50 }, p99])
}

fn beside_the_paper(line: CardLine) -> CardLine {
    with(
        line,
        "leaving C1: 2 us, C6: 133 us",
        "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
        "the kernel tells for a c4.8xlarge that it takes 133 microseconds to leave C6 and 2 to leave C1, which is a part of a wake-up",
    )
}
