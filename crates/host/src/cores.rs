//! Cores as sets of running CPUs, and the cores that could be reserved for a server.
//! CPU numbers differ between machines, but the kernel's list of siblings is reliable.

use evenkeel_sys::CpuSet;

use crate::facts::Facts;

/// The cores of the CPUs that run, ascending by their first CPU.
pub(crate) struct Cores(Vec<CpuSet>);

impl Cores {
    /// The cores of a machine. `None` if the running CPUs are unknown, or the siblings of one of these CPUs.
    pub(crate) fn from_facts(facts: &Facts) -> Option<Cores> {
        let online = facts.cpus.online.known()?;
        let mut cores = Vec::new();
        for cpu in facts.cpus.cpus.iter().filter(|cpu| online.contains(cpu.cpu)) {
            let core = cpu.siblings.known()?.and(online);
            if core.first() == Some(cpu.cpu) {
                cores.push(core);
            }
        }
        let as_text: usize = cores.iter().map(CpuSet::len).sum();
        (as_text == online.len()).then_some(Cores(cores))
    }

    /// The number of cores.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The largest number of CPUs that share one core.
    pub(crate) fn threads(&self) -> usize {
        self.0.iter().map(CpuSet::len).max().unwrap_or(1)
    }

    /// The first CPU of each core.
    pub(crate) fn first_threads(&self) -> CpuSet {
        self.0.iter().filter_map(CpuSet::first).collect()
    }

    /// Whole cores with at least this many CPUs together, starting from the last core.
    /// The core of CPU 0 is left out, and so are cores with a CPU in `busy`. `None` if too few cores remain.
    pub(crate) fn apart(&self, cpus: usize, busy: &CpuSet) -> Option<CpuSet> {
        let mut chosen = CpuSet::default();
        let is_free = |core: &&CpuSet| !core.contains(0) && core.and(busy).is_empty();
        for core in self.0.iter().rev().filter(is_free) {
            if chosen.len() >= cpus {
                break;
            }
            chosen = chosen.or(core);
        }
        (chosen.len() >= cpus).then_some(chosen)
    }
}

/// The CPUs that serve an interrupt of a network interface.
pub(crate) fn network_cpus(facts: &Facts) -> CpuSet {
    let irqs = facts.network.hardware().flat_map(|nic| &nic.irqs);
    irqs.filter_map(|irq| irq.effective.known()?.first()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{base, cpus, set};

    #[test]
    fn a_server_gets_whole_cores() {
        let mut facts = base();
        facts.cpus = cpus(8, 2);
        let cores = Cores::from_facts(&facts).unwrap();
        assert_eq!((cores.len(), cores.threads(), cores.first_threads()), (4, 2, set("0-3")));
        let table = [
            (1, "", Some("3,7")),
            (2, "", Some("3,7")),
            (3, "", Some("2-3,6-7")),
            (2, "7", Some("2,6")),
            (6, "", Some("1-3,5-7")),
            (7, "", None),
            (6, "1", None),
        ];
        for (wanted, busy, expected) in table {
            assert_eq!(cores.apart(wanted, &set(busy)), expected.map(set), "{wanted} without {busy:?}");
        }
    }

    #[test]
    fn a_core_of_unknown_siblings_makes_them_all_unknown() {
        let mut facts = base();
        facts.cpus.cpus[2].siblings = crate::fact::Fact::absent("left out");
        assert!(Cores::from_facts(&facts).is_none());
    }
}
