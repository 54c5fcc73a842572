//! Short texts for the numbers of the live view.

use std::collections::BTreeMap;

use evenkeel_watch::Measured;
use evenkeel_watch::model::{CpuGaps, GapsModel, SocketsModel};
use evenkeel_watch::sample::{Cause, LateTicks, RecorderSample};

use crate::show::units::percent;

/// The maximum number of CPUs that one line lists.
const CPUS_LISTED: usize = 4;

/// A value as `show` prints it. An unknown value is `?`; the page lists the reasons elsewhere.
pub(crate) fn value<T>(measured: &Measured<T>, show: impl FnOnce(&T) -> String) -> String {
    measured.known().map_or_else(|| "?".to_owned(), show)
}

/// A number with few digits: `0`, `0.25`, `12.5`, `1280`.
pub(crate) fn number(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        size if size < 9.995 => format!("{number:.2}"),
        size if size < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// A rate as text, such as `12.5/s`.
pub(crate) fn per_s(rate: f64) -> String {
    format!("{}/s", number(rate))
}

/// A share of the time, in seconds per second, as text in milliseconds per second.
pub(crate) fn ms_per_s(share: f64) -> String {
    format!("{} ms/s", number(share * 1e3))
}

/// A number of microseconds, in the most readable unit.
pub(crate) fn short_us(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{} us", number(us)),
        us if us < 1e6 => format!("{} ms", number(us / 1e3)),
        us => format!("{} s", number(us / 1e6)),
    }
}

/// The causes with their counts, such as `preempted 12, unknown 3`.
pub(crate) fn causes(counts: &BTreeMap<Cause, u64>) -> String {
    counts.iter().map(|(cause, count)| format!("{} {count}", cause.name())).collect::<Vec<_>>().join(", ")
}

/// Late ticks as text, such as `match 7: 5 late, 1 missed: preempted (…)`.
pub(crate) fn late_ticks(late: &LateTicks) -> String {
    format!("{}: {} late, {} missed: {} ({})", late.server, late.late, late.missed, late.cause.name(), late.evidence)
}

/// The dumps as text, such as `2 dumps, the last is /d/x.data (a tick of match 7 was 8.1 ms late)`.
pub(crate) fn recorder_words(recorder: &RecorderSample) -> String {
    if let Some(why) = &recorder.failure {
        return format!("it does not run: {why}");
    }
    let mut words = format!("{} dumps", recorder.dumps);
    if let Some(last) = &recorder.last {
        let reason = recorder.last_reason.as_deref().unwrap_or("no reason");
        words.push_str(&format!(", the last is {last} ({reason})"));
    }
    if let Some(error) = &recorder.last_error {
        words.push_str(&format!("; the last one failed: {error}"));
    }
    words
}

/// What is missing among a server's UDP sockets, as text. None if nothing is.
pub(crate) fn sockets_left_out(udp: &SocketsModel) -> Option<String> {
    let sockets = (udp.sockets_beyond > 0).then(|| format!("{} more sockets, with fewer drops", udp.sockets_beyond));
    let files = (udp.files_beyond > 0).then(|| format!("{} open files were not examined", udp.files_beyond));
    let left_out: Vec<String> = sockets.into_iter().chain(files).collect();
    (!left_out.is_empty()).then(|| left_out.join("; "))
}

/// Missing time as text, such as `CPU 0: threads 2.0 %, nobody 0.1 %; 0 pauses so far`.
pub(crate) fn gaps_words(gaps: &GapsModel) -> String {
    let one = |cpu: &CpuGaps| {
        let of = |share: &Measured<f64>| value(share, |share| percent(*share));
        format!("CPU {}: threads {}, nobody {}", cpu.cpu, of(&cpu.by_threads), of(&cpu.by_nobody))
    };
    let cpus: Vec<String> = gaps.cpus.iter().take(CPUS_LISTED).map(one).collect();
    let pauses = gaps.pauses.iter().map(|pause| format!("; the machine was paused for {:.1} ms", pause.length_ms));
    format!("{}; {} pauses so far{}", cpus.join(", "), gaps.pauses_so_far, pauses.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_digits() {
        let table = [(0.0, "0"), (0.256, "0.26"), (9.999, "10.0"), (12.55, "12.6"), (99.99, "100"), (1280.4, "1280")];
        for (of, expected) in table {
            assert_eq!(number(of), expected);
        }
        assert_eq!([5.0, 1500.0, 2.5e6].map(short_us), ["5.00 us", "1.50 ms", "2.50 s"]);
        assert_eq!(ms_per_s(0.02), "20.0 ms/s");
    }
}
