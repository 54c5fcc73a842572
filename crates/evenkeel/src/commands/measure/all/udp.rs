//! UDP between two threads of this machine, on the card: what the kernel and the CPUs make of it, without a network.

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::udp::{self, Part, Receive, Report};

use super::entry::{Entry, Pace, line, percentiles};

const PPM: f64 = 1e6;

pub(super) const ENTRY: Entry = Entry {
    name: "udp",
    seconds: 2.5,
    turn: |pace: Pace, watch| {
        let settings = udp::Settings {
            to: None,
            rate_hz: 1000.0,
            bytes: 100,
            seconds: pace.of(1.5, 0.6),
            pace: udp::Pace::Sleep,
            receive: Receive::Sleep,
            cpu: None,
            receive_buffer_bytes: None,
            parts: vec![Part::Echo, Part::Ceiling],
        };
        Ok(lines(&udp::run(&settings, watch)?))
    },
};

fn lines(report: &Report) -> Vec<CardLine> {
    let mut lines = Vec::new();
    if let Some(echo) = &report.echo {
        let trips = percentiles("udp_echo_ns", "echo over loopback", Better::Lower, &echo.from_send_ns);
        lines.extend(trips.into_iter().flatten());
        let ways: Vec<_> = [&echo.there, &echo.back].into_iter().flatten().collect();
        let (sent, lost) = ways.iter().fold((0, 0), |(sent, lost), way| (sent + way.sent, lost + way.lost));
        if sent > 0 {
            let share = lost as f64 / sent as f64 * PPM;
            lines.push(line("udp_echo_lost_ppm", "lost on the way", Unit::Ppm, Better::Lower, share));
        }
    }
    if let Some(ceiling) = &report.ceiling {
        let send = ceiling.send.per_cpu_s;
        lines.push(line("udp_send_per_cpu_s", "packets a core sends", Unit::PerS, Better::Higher, send));
        let receive = ceiling.receive.map(|rate| rate.per_cpu_s);
        let receive =
            receive.map(|rate| line("udp_receive_per_cpu_s", "packets a core takes", Unit::PerS, Better::Higher, rate));
        lines.extend(receive);
    }
    lines
}
