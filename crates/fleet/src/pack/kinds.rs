//! The CPU needs of sessions, in whole numbers, with equal sessions as one kind.

use super::asked::HEAVY_CPUS;
pub(super) use crate::cpu_load::CPU;
use crate::cpu_load::CpuLoad;
use crate::sessions::Session;

/// A load as a share of a CPU.
pub(super) fn share(load: u32) -> f64 {
    f64::from(load) / f64::from(CPU)
}

/// Equal sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) need: Need,
    /// Rows of the table with this need, and the number of sessions of each row.
    pub(super) rows: Vec<(usize, u32)>,
    pub(super) count: u32,
}

/// The needs of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Need {
    /// The number of CPUs that the session gets.
    pub(super) width: u32,
    /// The session's load on each of its CPUs, in millionths of a CPU.
    pub(super) load: u32,
    /// The maximum load of each of the session's CPUs, including all sessions on it.
    /// Above one CPU if the ticks of the session set no limit.
    pub(super) limit: u32,
    /// Whether the session alone loads a CPU above the bound, and so gets its own CPU.
    pub(super) is_exclusive: bool,
    /// Whether the session is heavy: it should not share a core with another heavy session.
    pub(super) is_heavy: bool,
    /// Whether the work of a tick, at its p99, is longer than the time between ticks.
    pub(super) is_tick_too_long: bool,
    pub(super) memory_kib: u64,
    /// The part of the last-level cache that the session needs for each of its CPUs.
    pub(super) cache_kib: u64,
}

/// The kinds of a table, the largest needs first. `load_max` is in millionths.
pub(super) fn kinds(sessions: &[Session], load_max: u32) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut places = rustc_hash::FxHashMap::default();
    for (row, session) in sessions.iter().enumerate() {
        let need = Need::new(session, load_max);
        let at = *places.entry(need).or_insert_with(|| {
            kinds.push(Kind { need, rows: Vec::new(), count: 0 });
            kinds.len() - 1
        });
        kinds[at].rows.push((row, session.count));
        kinds[at].count += session.count;
    }
    // Place the sessions with the largest needs first: that leaves the search the fewest branches.
    let size = |kind: &Kind| (u64::from(kind.need.width) * u64::from(kind.need.load), kind.need.memory_kib);
    kinds.sort_by_key(|kind| std::cmp::Reverse((kind.need.width, size(kind))));
    kinds
}

impl Need {
    fn new(session: &Session, load_max: u32) -> Need {
        let CpuLoad { width, load, is_exclusive } = CpuLoad::new(session.cpus, load_max);
        let peak = session.work_us_p99.zip(session.tick_hz).map(|(work_us, hz)| work_us * hz);
        // While a long tick runs, the other sessions of the CPU take their share.
        // The limit on the CPU's load leaves enough time for the tick to end before the next one is due.
        let limit =
            peak.map_or(2.0 * f64::from(CPU), |peak| (f64::from(CPU + load) - peak).clamp(0.0, 2.0 * f64::from(CPU)));
        Need {
            width,
            load,
            limit: if is_exclusive { load } else { limit as u32 },
            is_exclusive,
            is_heavy: f64::from(load) >= HEAVY_CPUS * f64::from(CPU),
            is_tick_too_long: peak.is_some_and(|peak| peak > f64::from(CPU)),
            memory_kib: session.memory_mib.map_or(0, |mib| (mib * 1024.0).ceil() as u64),
            cache_kib: session.cache_kib.map_or(0, |kib| (kib / f64::from(width)).ceil() as u64),
        }
    }

    /// The load of the session on all of its CPUs together.
    pub(super) fn total_load(&self) -> u64 {
        u64::from(self.width) * u64::from(self.load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::read_sessions;

    fn needs(rows: &str) -> Vec<Need> {
        let table = format!("cpus,tick_hz,work_us_p99,memory_mib,count\n{rows}");
        kinds(&read_sessions(table.as_bytes()).unwrap(), 700_000).into_iter().map(|kind| kind.need).collect()
    }

    #[test]
    fn a_session_of_up_to_one_cpu_gets_one_and_a_larger_one_as_many_as_keep_the_bound() {
        for (cpus, width, load) in [(0.12, 1, 120_000), (1.0, 1, 1_000_000), (1.2, 2, 600_000), (1.5, 3, 500_000)] {
            let need = needs(&format!("{cpus},,,,\n"))[0];
            assert_eq!((need.width, need.load), (width, load), "{cpus}");
            assert_eq!((need.is_exclusive, need.is_heavy), (load > 700_000, load >= 250_000), "{cpus}");
        }
    }

    #[test]
    fn a_tick_ends_before_the_next_is_due() {
        // A tick works for a third of the period on average, and for 90 % at its p99. So other sessions may take a tenth of the CPU.
        let need = needs("0.33,50,18000,,\n")[0];
        assert_eq!((need.limit, need.is_tick_too_long), (430_000, false));
        assert!(needs("0.33,50,20001,,\n")[0].is_tick_too_long);
        assert_eq!(needs("0.33,50,,,\n")[0].limit, 2_000_000);
    }

    #[test]
    fn equal_rows_are_one_kind() {
        let kinds =
            kinds(&read_sessions("session,cpus,count\na,0.1,3\nb,0.2,1\nc,0.1,2\n".as_bytes()).unwrap(), 700_000);
        assert_eq!(kinds.len(), 2);
        assert_eq!((kinds[1].count, &kinds[1].rows), (5, &vec![(0, 3), (2, 2)]));
    }
}
