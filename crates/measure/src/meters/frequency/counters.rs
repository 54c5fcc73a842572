//! The processor's own counters, where they can be read:
//! the registers APERF and MPERF through /dev/cpu/N/msr, and the kernel's count of cycles.
//! Most guests have neither.

use std::fs::File;
use std::os::unix::fs::FileExt;

use evenkeel_sys::tsc::Scale;
use evenkeel_sys::{Cycles, Errno};
use serde::Serialize;

/// Register numbers (Intel SDM volume 4, AMD APM volume 2).
const MPERF: u64 = 0xe7;
const APERF: u64 = 0xe8;

/// The result of one counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// The clock in kilohertz.
    Khz(u64),
    /// Why the counter cannot be read.
    Closed(String),
}

/// The counters of one CPU and of the calling thread.
pub(crate) struct Counters {
    registers: Result<File, Errno>,
    cycles: Result<Cycles, Errno>,
}

/// One reading of the counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// MPERF and APERF.
    registers: Result<(u64, u64), Errno>,
    cycles: Result<u64, Errno>,
}

impl Counters {
    pub(crate) fn opened(cpu: usize) -> Counters {
        let registers = File::open(format!("/dev/cpu/{cpu}/msr")).map_err(|error| Errno::from(&error));
        Counters { registers, cycles: Cycles::of_this_thread() }
    }

    pub(crate) fn read(&self) -> Reading {
        let registers = self.registers.as_ref().map_err(|errno| *errno);
        let cycles = self.cycles.as_ref().map_err(|errno| *errno);
        Reading {
            registers: registers.and_then(|file| Ok((register(file, MPERF)?, register(file, APERF)?))),
            cycles: cycles.and_then(Cycles::read),
        }
    }

    /// The clocks from both counters since `before`, over `ticks` ticks of the cycle counter.
    pub(crate) fn since(&self, before: &Reading, scale: &Scale, ticks: u64) -> (Counter, Counter) {
        between(before, &self.read(), scale, ticks)
    }
}

fn between(before: &Reading, after: &Reading, scale: &Scale, ticks: u64) -> (Counter, Counter) {
    let registers = match (before.registers, after.registers) {
        (Ok(one), Ok(two)) => {
            // While the CPU is not idle, MPERF counts at the rate of the cycle counter, and APERF counts actual cycles.
            let (nominal, real) = (two.0.wrapping_sub(one.0), two.1.wrapping_sub(one.1));
            match nominal {
                0 => Counter::Closed("MPERF stands still".to_owned()),
                _ => Counter::Khz(khz(real, nominal, scale)),
            }
        }
        (Err(errno), _) | (_, Err(errno)) => Counter::Closed(format!("/dev/cpu/N/msr: {errno}")),
    };
    let cycles = match (before.cycles, after.cycles) {
        (Ok(one), Ok(two)) => Counter::Khz(khz(two.saturating_sub(one), ticks, scale)),
        (Err(errno), _) | (_, Err(errno)) => Counter::Closed(format!("perf_event_open: {errno}")),
    };
    (registers, cycles)
}

fn register(file: &File, number: u64) -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, number).map_err(|error| Errno::from(&error))?;
    Ok(u64::from_le_bytes(bytes))
}

/// The frequency in kilohertz, from a number of cycles and the counter ticks that these cycles took.
pub(crate) fn khz(cycles: u64, ticks: u64, scale: &Scale) -> u64 {
    if ticks == 0 { 0 } else { (cycles as f64 / ticks as f64 * scale.hz() / 1000.0).round() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file replaces the driver. It has a number at the register's offset.
    #[test]
    fn a_register_is_eight_bytes_at_its_number() {
        let path = std::env::temp_dir().join(format!("evenkeel-msr-{}", std::process::id()));
        let mut bytes = vec![0xff; MPERF as usize];
        bytes.extend(0x0102_0304_0506_0708_u64.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(register(&file, MPERF), Ok(0x0102_0304_0506_0708));
        assert!(register(&file, APERF).is_err(), "half a number is an error");
        let counters = Counters { registers: Err(Errno::NXIO), cycles: Err(Errno::NOENT) };
        let scale = Scale::between((0, 0), (2_000_000, 1_000_000));
        let (registers, cycles) = counters.since(&counters.read(), &scale, 1);
        assert!(matches!(registers, Counter::Closed(why) if why.starts_with("/dev/cpu/N/msr: ")));
        assert!(matches!(cycles, Counter::Closed(why) if why.starts_with("perf_event_open: ")));
    }

    #[test]
    fn counters_report_the_clock_or_why_not() {
        let scale = Scale::between((0, 0), (2_000_000, 1_000_000));
        let open = |mperf, aperf, cycles| Reading { registers: Ok((mperf, aperf)), cycles: Ok(cycles) };
        let seen = between(&open(u64::MAX, 5, 7), &open(999, 1505, 3007), &scale, 2000);
        assert_eq!(seen, (Counter::Khz(3_000_000), Counter::Khz(3_000_000)), "1,500 for 1,000, and the count wrapped");
        let closed = Reading { registers: Err(Errno::NOENT), cycles: Err(Errno::ACCESS) };
        let words = |counter| match counter {
            Counter::Closed(why) => why,
            Counter::Khz(khz) => format!("{khz} kHz"),
        };
        let (registers, cycles) = between(&closed, &closed, &scale, 1);
        assert_eq!(words(registers), "/dev/cpu/N/msr: no such file or directory (ENOENT)");
        assert_eq!(words(cycles), "perf_event_open: permission denied (EACCES)");
        assert_eq!(words(between(&open(1, 1, 1), &open(1, 9, 9), &scale, 5).0), "MPERF stands still");
    }

    #[test]
    fn cycles_over_time_give_the_clock() {
        // The scale has 3 ticks per nanosecond.
        let scale = Scale::between((0, 0), (3_000_000, 1_000_000));
        assert_eq!(khz(4_000, 3_000, &scale), 4_000_000);
        assert_eq!(khz(4_000, 0, &scale), 0);
    }
}
