//! Finds processes to watch: by name, or because they serve sockets and use a CPU.
//! Each sample examines only a few processes, so a sample costs no more with ten thousand processes than with a hundred.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::{ProcessStat, TICK_NS, parse_process};

use super::sockets::{Tables, is_served};

/// The minimum time between the starts of two rounds through all processes.
const ROUND_NS: u64 = 10_000_000_000;
/// The maximum number of processes in a round, and of processes that one sample examines.
const PROCESSES_MAX: usize = 32_768;
const AT_ONCE: usize = 256;
/// A process that uses a smaller share of a CPU does not count as a server. Its tick could not be distinguished from a timer.
const CPU_MIN: f64 = 0.005;
/// The CPU use of a process is computed over at least this time.
const COMPARED_NS: u64 = 5_000_000_000;
/// The maximum number of processes that the search finds and keeps.
const FOUND_MAX: usize = 64;
/// The maximum length of a process name in the kernel, without its final zero. The kernel cuts longer names.
const NAME_BYTES_MAX: usize = 15;
/// How long to ignore a server without a tick after it made room for others.
const DEFERRED_NS: u64 = 600_000_000_000;

/// Whether a process has the name that the user gave. The user may give a full name that the kernel has cut.
fn has_name(wanted: &str, name: &str) -> bool {
    let wanted = wanted.as_bytes();
    wanted == name.as_bytes() || wanted.len() > NAME_BYTES_MAX && wanted.get(..NAME_BYTES_MAX) == Some(name.as_bytes())
}

/// Which processes to find.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// Processes with one of these names.
    pub(super) names: Vec<String>,
    /// Whether to find processes that serve sockets.
    pub(super) servers: bool,
}

/// The state of the search.
#[derive(Debug, Default)]
pub(super) struct Discovery {
    wanted: Wanted,
    /// The processes that are not examined yet in this round.
    left: Vec<u32>,
    round_ns: Option<u64>,
    seen: BTreeMap<u32, Seen>,
    /// The processes that were found by name, with their start times.
    named: BTreeMap<u32, u64>,
    serving: BTreeMap<u32, u64>,
    /// Processes that were dropped to make room for others. Each has its start time, and the time until which it is ignored.
    deferred: BTreeMap<u32, (u64, u64)>,
}

/// What was known of a process when it was last examined.
#[derive(Clone, Copy, Debug)]
struct Seen {
    start_ticks: u64,
    cpu_ticks: u64,
    at_ns: u64,
}

impl Discovery {
    pub(super) fn new(wanted: Wanted) -> Discovery {
        Discovery { wanted, ..Discovery::default() }
    }

    /// The processes with a wanted name.
    pub(super) fn named(&self) -> BTreeSet<u32> {
        self.named.keys().copied().collect()
    }

    /// The processes that serve sockets.
    pub(super) fn serving(&self) -> BTreeSet<u32> {
        self.serving.keys().copied().collect()
    }

    /// Examines the next few processes. `is_tickless` returns true for a process in which a search found no tick.
    pub(super) fn step(&mut self, root: &Root, tables: &mut Tables, now_ns: u64, is_tickless: impl Fn(u32) -> bool) {
        if self.wanted.names.is_empty() && !self.wanted.servers {
            return;
        }
        if self.left.is_empty() {
            if self.round_ns.is_some_and(|began_ns| now_ns.saturating_sub(began_ns) < ROUND_NS) {
                return;
            }
            let is_first = self.round_ns.replace(now_ns).is_none();
            let own = std::process::id();
            let names = root.entries("/proc").unwrap_or_default();
            let numbers = names.iter().filter_map(|name| name.parse().ok()).filter(|pid| *pid != own);
            self.left = numbers.take(PROCESSES_MAX).collect();
            if is_first && !self.wanted.names.is_empty() {
                self.find_named(root);
            }
            let there: BTreeSet<u32> = self.left.iter().copied().collect();
            self.seen.retain(|pid, _| there.contains(pid));
            self.named.retain(|pid, _| there.contains(pid));
            self.serving.retain(|pid, _| there.contains(pid));
            self.deferred.retain(|pid, (_, until_ns)| there.contains(pid) && *until_ns > now_ns);
            if self.is_full() {
                self.make_room(now_ns, is_tickless);
            }
        }
        let rest = self.left.len().saturating_sub(AT_ONCE);
        for pid in self.left.split_off(rest) {
            let Ok(text) = root.text(&format!("/proc/{pid}/stat")) else { continue };
            let Some((stat, name)) = parse_process(&text) else { continue };
            self.examine(root, tables, &stat, name, now_ns);
        }
    }

    /// Looks at the names of all processes, once.
    /// A round takes many samples on a host with many processes, but `--once` takes only two samples.
    fn find_named(&mut self, root: &Root) {
        for pid in &self.left {
            let Ok(text) = root.text(&format!("/proc/{pid}/stat")) else { continue };
            let Some((stat, name)) = parse_process(&text) else { continue };
            if self.wanted.names.iter().any(|wanted| has_name(wanted, name)) && self.named.len() < FOUND_MAX {
                self.named.insert(*pid, stat.start_ticks);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.named.len() + self.serving.len() >= FOUND_MAX
    }

    /// Drops servers without a tick. Many such servers run for months.
    /// Such servers would fill the list, and a game server that starts later would not be watched.
    fn make_room(&mut self, now_ns: u64, is_tickless: impl Fn(u32) -> bool) {
        let deferred = &mut self.deferred;
        self.serving.retain(|pid, started| {
            let stays = !is_tickless(*pid);
            if !stays {
                deferred.insert(*pid, (*started, now_ns.saturating_add(DEFERRED_NS)));
            }
            stays
        });
    }

    fn examine(&mut self, root: &Root, tables: &mut Tables, stat: &ProcessStat, name: &str, now_ns: u64) {
        let (pid, start_ticks) = (stat.pid, stat.start_ticks);
        for found in [&mut self.named, &mut self.serving] {
            // The kernel has reused the number of the process.
            found.retain(|of, started| *of != pid || *started == start_ticks);
        }
        // The maximum is counted separately for processes that the user named, so servers that the search found do not use it up.
        if self.wanted.names.iter().any(|wanted| has_name(wanted, name)) && self.named.len() < FOUND_MAX {
            self.named.insert(pid, start_ticks);
            return;
        }
        let is_deferred = self.deferred.get(&pid).is_some_and(|(started, _)| *started == start_ticks);
        if !self.wanted.servers || self.is_full() || is_deferred || self.serving.contains_key(&pid) {
            return;
        }
        let seen = Seen { start_ticks, cpu_ticks: stat.cpu_ticks, at_ns: now_ns };
        let Some(before) = self.seen.get(&pid).filter(|before| before.start_ticks == start_ticks).copied() else {
            self.seen.insert(pid, seen);
            return;
        };
        let elapsed_ns = now_ns.saturating_sub(before.at_ns);
        if elapsed_ns < COMPARED_NS {
            return;
        }
        self.seen.insert(pid, seen);
        let used_ns = stat.cpu_ticks.saturating_sub(before.cpu_ticks).saturating_mul(TICK_NS);
        if used_ns as f64 >= elapsed_ns as f64 * CPU_MIN && is_served(root, pid, tables) {
            self.serving.insert(pid, start_ticks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(processes: &[(u32, &str, u64)], socket: u64) -> Root {
        let stat = |pid: u32, name: &str, cpu: u64| {
            format!(
                "{pid} ({name}) S 1 7 7 0 -1 0 0 0 0 0 {cpu} 0 0 0 20 0 1 0 {pid} 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0\n"
            )
        };
        let mut files: BTreeMap<String, String> =
            processes.iter().map(|(pid, name, cpu)| (format!("/proc/{pid}/stat"), stat(*pid, name, *cpu))).collect();
        let udp = "head\n 1: 0100007F:6D38 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 4711 2 0 0\n";
        for (pid, ..) in processes {
            files.insert(format!("/proc/{pid}/net/udp"), udp.to_owned());
        }
        let mut capture = Root::from(files).capture();
        for (pid, ..) in processes {
            capture.saw_entries(&format!("/proc/{pid}/fd"), Ok(vec!["3".to_owned()]));
            capture.saw_link(&format!("/proc/{pid}/fd/3"), Ok(format!("socket:[{socket}]")));
        }
        Root::captured(capture)
    }

    #[test]
    fn processes_are_found_by_name_and_by_what_they_serve() {
        let mut search = Discovery::new(Wanted { names: vec!["game".to_owned()], servers: true });
        let s = 1_000_000_000;
        let processes = |cpu| [(3, "game", 0), (4, "idle", 0), (5, "server", cpu)];
        search.step(&host(&processes(0), 4711), &mut Tables::default(), s, |_| false);
        assert_eq!((search.named(), search.serving()), ([3].into(), [].into()), "use of a CPU takes two looks");
        search.step(&host(&processes(100), 4711), &mut Tables::default(), 5 * s, |_| false);
        assert_eq!(search.serving(), [].into(), "the next round is not due");
        search.step(&host(&processes(100), 4711), &mut Tables::default(), 11 * s, |_| false);
        assert_eq!(search.serving(), [5].into());
        search.step(&host(&[(3, "game", 0)], 4711), &mut Tables::default(), 22 * s, |_| false);
        assert_eq!((search.named(), search.serving()), ([3].into(), [].into()), "it has ended");
        // The process uses a CPU, but other programs cannot reach its socket.
        let mut search = Discovery::new(Wanted { names: Vec::new(), servers: true });
        search.step(&host(&processes(0), 9), &mut Tables::default(), s, |_| false);
        search.step(&host(&processes(100), 9), &mut Tables::default(), 12 * s, |_| false);
        assert_eq!((search.named(), search.serving()), ([].into(), [].into()));
    }

    #[test]
    fn a_named_process_is_found_with_the_first_sample() {
        let mut many: Vec<(u32, &str, u64)> = (1..=3_000).map(|pid| (pid, "idle", 0)).collect();
        many[1_499].1 = "a-long-game-ser";
        let names = vec!["a-long-game-server".to_owned(), "a-long".to_owned()];
        let mut search = Discovery::new(Wanted { names, servers: false });
        search.step(&host(&many, 1), &mut Tables::default(), 0, |_| false);
        assert_eq!(search.named(), [1_500].into());
    }

    #[test]
    fn servers_without_a_tick_make_room_for_others() {
        let s = 1_000_000_000;
        let many = |cpu: u64, late: &[(u32, &'static str, u64)]| {
            let mut all: Vec<(u32, &str, u64)> = (1..=70).map(|pid| (pid, "worker", cpu)).collect();
            all.extend_from_slice(late);
            host(&all, 4711)
        };
        let mut search = Discovery::new(Wanted { names: vec!["game".to_owned()], servers: true });
        search.step(&many(0, &[]), &mut Tables::default(), s, |_| false);
        search.step(&many(100, &[]), &mut Tables::default(), 12 * s, |_| false);
        let first = search.serving();
        assert_eq!(first.len(), FOUND_MAX);
        let late = |cpu| [(200, "game", cpu), (201, "other", cpu)];
        search.step(&many(200, &late(0)), &mut Tables::default(), 23 * s, |_| false);
        assert_eq!((search.named(), search.serving()), ([200].into(), first.clone()), "all may still show a tick");
        // Of the first 70 processes, only process 3 has a tick.
        let is_tickless = |pid| pid <= 70 && pid != 3;
        search.step(&many(300, &late(100)), &mut Tables::default(), 34 * s, is_tickless);
        search.step(&many(400, &late(200)), &mut Tables::default(), 45 * s, is_tickless);
        let rest: BTreeSet<u32> = (1..=70).filter(|pid| *pid == 3 || !first.contains(pid)).chain([201]).collect();
        assert_eq!(search.serving(), rest, "there is room, and those without a tick are left alone");
        search.step(&many(500, &late(300)), &mut Tables::default(), 34 * s + DEFERRED_NS, |_| false);
        search.step(&many(600, &late(400)), &mut Tables::default(), 45 * s + DEFERRED_NS, |_| false);
        assert_eq!(search.serving().len(), FOUND_MAX - 1, "they are looked at again later");
    }

    #[test]
    fn ten_thousand_processes_are_examined_a_few_at_a_time() {
        let many: Vec<(u32, &str, u64)> = (1..=10_000).map(|pid| (pid, "idle", 0)).collect();
        let root = host(&many, 1);
        let mut search = Discovery::new(Wanted { names: vec!["none".to_owned()], servers: true });
        let mut steps = 0_u64;
        while steps == 0 || !search.left.is_empty() {
            let before = search.seen.len();
            search.step(&root, &mut Tables::default(), steps * 1_000_000_000, |_| false);
            assert!(search.seen.len() - before <= AT_ONCE);
            steps += 1;
        }
        assert_eq!(steps, 10_000_u64.div_ceil(AT_ONCE as u64));
        assert!(search.seen.len() <= 10_000);
    }
}
