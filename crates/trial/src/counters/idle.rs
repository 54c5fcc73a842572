//! How CPUs idled: the entries of each idle state, and the time in the polling state.

use std::collections::BTreeMap;

use evenkeel_hostfs::Root;

const CPUS: &str = "/sys/devices/system/cpu";
/// The file with the name of the idle driver. If the name is `none`, idle knobs have no effect.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// The name of the counter that gives the number of idle states.
pub(crate) const IDLE_STATES: &str = "idle_states";

/// How all CPUs together idled since boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct IdleEntries {
    /// How often the states were entered, by exit latency in microseconds.
    entries: BTreeMap<u64, u64>,
    /// The time in the polling states, in microseconds.
    polled_us: Option<u64>,
    /// The number of CPUs with idle statistics.
    cpus: usize,
}

/// How CPUs idled between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Idled {
    pub(crate) entries: u64,
    /// The mean exit latency of the states entered, in microseconds.
    pub(crate) exit_latency_us: Option<f64>,
    /// The time in the polling states, in microseconds of one CPU.
    pub(crate) polled_us: Option<f64>,
    pub(crate) cpus: usize,
    /// The number of idle states.
    pub(crate) states: usize,
}

impl IdleEntries {
    /// `None` if the kernel does not report idle states. Without a driver, no state is ever entered, so the count is 0.
    pub(crate) fn read(root: &Root) -> Option<IdleEntries> {
        let number = |path: String| root.text(&path).ok()?.trim().parse::<u64>().ok();
        let mut idle = IdleEntries::default();
        for cpu in root.entries(CPUS).ok()?.iter().filter(|name| is_numbered(name, "cpu")) {
            let Ok(states) = root.entries(&format!("{CPUS}/{cpu}/cpuidle")) else { continue };
            idle.cpus += 1;
            for state in states.iter().filter(|name| is_numbered(name, "state")) {
                let at = format!("{CPUS}/{cpu}/cpuidle/{state}");
                let (latency_us, usage) = (number(format!("{at}/latency"))?, number(format!("{at}/usage"))?);
                let sum: &mut u64 = idle.entries.entry(latency_us).or_default();
                *sum = sum.saturating_add(usage);
                // Only a polling state has an exit latency of 0.
                if latency_us == 0
                    && let Some(time_us) = number(format!("{at}/time"))
                {
                    idle.polled_us = Some(idle.polled_us.unwrap_or(0).saturating_add(time_us));
                }
            }
        }
        let has_none = idle.entries.is_empty() && root.text(DRIVER).is_ok_and(|text| text.trim() == "none");
        (!idle.entries.is_empty() || has_none).then_some(idle)
    }

    /// The change since `start`.
    pub(crate) fn since(&self, start: &IdleEntries) -> Idled {
        let mut entries = 0_u64;
        let mut latency_us = 0.0;
        for (exit_us, usage) in &self.entries {
            let since = usage.saturating_sub(start.entries.get(exit_us).copied().unwrap_or(0));
            entries = entries.saturating_add(since);
            latency_us += *exit_us as f64 * since as f64;
        }
        let polled = self.polled_us.zip(start.polled_us).map(|(end, start)| end.saturating_sub(start) as f64);
        Idled {
            entries,
            exit_latency_us: (entries > 0).then(|| latency_us / entries as f64),
            polled_us: polled,
            cpus: self.cpus,
            states: self.entries.len(),
        }
    }
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::Capture;

    use super::*;

    fn read(text: &str) -> Option<IdleEntries> {
        IdleEntries::read(&Root::captured(Capture::parse(&format!("evenkeel-capture 1\n{text}end\n")).unwrap()))
    }

    fn entries(usage: [u64; 3], polled_us: u64) -> IdleEntries {
        let [poll, c1, c6] = usage;
        read(&format!(
            "{CPUS}/cpufreq/boost = 1\n{CPUS}/cpu0/cpuidle/state0/latency = 0\n{CPUS}/cpu0/cpuidle/state0/time = {polled_us}\n\
             {CPUS}/cpu0/cpuidle/state0/usage = {poll}\n{CPUS}/cpu0/cpuidle/state1/latency = 2\n\
             {CPUS}/cpu0/cpuidle/state1/usage = {c1}\n{CPUS}/cpu1/cpuidle/state1/latency = 2\n\
             {CPUS}/cpu1/cpuidle/state1/usage = 5\n{CPUS}/cpu1/cpuidle/state2/latency = 133\n\
             {CPUS}/cpu1/cpuidle/state2/usage = {c6}\n"
        ))
        .unwrap()
    }

    #[test]
    fn entries_are_weighed_by_exit_latency() {
        let start = entries([100, 10, 7], 50);
        let idled = |usage, polled_us| {
            let since = entries(usage, polled_us).since(&start);
            (since.entries, since.exit_latency_us, since.polled_us)
        };
        assert_eq!(idled([100, 10, 7], 50), (0, None, Some(0.0)));
        assert_eq!(idled([100, 15, 12], 50), (10, Some((5.0 * 2.0 + 5.0 * 133.0) / 10.0), Some(0.0)));
        assert_eq!(idled([150, 10, 7], 950), (50, Some(0.0), Some(900.0)));
        assert_eq!(read(""), None, "no file");
        let none = read(&format!("{CPUS}/cpu0/online = 1\n{DRIVER} = none\n")).unwrap();
        assert_eq!(none.since(&none).entries, 0, "without a driver no state is entered");
    }
}
