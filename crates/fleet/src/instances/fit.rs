//! How many sessions fit on an instance type, by its documented figures.

use std::collections::HashMap;

use evenkeel_host::catalogue::{Instance, Kind};
use evenkeel_host::credits::CreditRates;
use serde::Serialize;

use super::asked::InstancesAsked;
use super::cores::Cores;
use super::mix::{Mix, MixKind};
use crate::cpu_load::CpuLoad;
use crate::sessions::Session;
use crate::system::SYSTEM_MEMORY;

/// The resource that limits the number of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Resource {
    /// Cores, less the part for the system.
    Cpu,
    /// The baseline CPU time of a burstable type.
    Credits,
    /// Memory, less the part for the system.
    Memory,
    /// The sustained network rate.
    Network,
}

impl Resource {
    /// The resource in words, for a page.
    pub fn words(self) -> &'static str {
        match self {
            Resource::Cpu => "CPU",
            Resource::Credits => "CPU credits",
            Resource::Memory => "memory",
            Resource::Network => "network",
        }
    }
}

/// How much of a resource a type has, and how many sessions that is enough for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// The resource.
    pub resource: Resource,
    /// The capacity for sessions: CPUs, MiB or Mbit/s.
    pub usable: f64,
    /// How many sessions of the mix this resource is enough for.
    pub sessions: f64,
}

/// How many sessions fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fit {
    /// How many sessions fit.
    /// If the table has several kinds, the proportions are those of the table: 9 sessions of a table with 8 and 1 are 8 and 1.
    pub sessions: u32,
    /// The resource that limits the number.
    pub limit: Resource,
    /// Each resource that is known, and that a session needs.
    pub shares: Vec<Share>,
    /// Figures that are unknown: no document has them for this type, or the table lacks them for a session. They do not limit the number.
    pub unknown: Vec<Unknown>,
    /// The CPU frequency of this type, divided by that of the type on which the sessions were measured; 1 if either is unknown.
    pub clock_ratio: f64,
}

/// A figure that is unknown, and so does not limit the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Unknown {
    /// The number of threads of a core; two are assumed.
    ThreadsPerCore,
    /// The CPU frequency of this type, or of the type on which the sessions were measured.
    Clock,
    /// The memory of this type.
    Memory,
    /// The memory of some sessions.
    SessionMemory,
    /// The traffic of some sessions.
    SessionNetwork,
    /// The sustained network rate.
    Network,
    /// How many packets a second the type may send: no catalogue has it.
    Packets,
}

impl Unknown {
    /// The unknown figure in words, for a page.
    pub fn words(self) -> &'static str {
        match self {
            Unknown::ThreadsPerCore => "threads per core (2 assumed)",
            Unknown::Clock => "clock",
            Unknown::Memory => "memory",
            Unknown::SessionMemory => "memory of a session",
            Unknown::SessionNetwork => "traffic of a session",
            Unknown::Network => "lasting network rate",
            Unknown::Packets => "packets a second",
        }
    }
}

impl Fit {
    /// What the sessions need, but no document states for the type: memory or the network rate. If the type has too little, fewer fit.
    pub fn unchecked(&self) -> impl Iterator<Item = Unknown> {
        self.unknown.iter().copied().filter(|one| matches!(one, Unknown::Memory | Unknown::Network))
    }
}

/// Computes for one type after the other how many sessions of a mix fit.
pub(super) struct Fitter<'a> {
    mix: Mix,
    asked: &'a InstancesAsked,
    /// The results so far, by cores and CPU frequency, because many types share both.
    held: HashMap<(Cores, u64), u64>,
}

impl Fitter<'_> {
    pub(super) fn new<'a>(sessions: &[Session], asked: &'a InstancesAsked) -> Fitter<'a> {
        Fitter { mix: Mix::new(sessions), asked, held: HashMap::new() }
    }

    /// How many sessions of the mix fit. `None` if not even the CPUs of the type are known.
    pub(super) fn fit(&mut self, instance: &Instance) -> Option<Fit> {
        let mut unknown = Vec::new();
        let vcpus = instance.number(Kind::Vcpus)?;
        let threads = instance.number(Kind::ThreadsPerCore).unwrap_or_else(|| {
            unknown.push(Unknown::ThreadsPerCore);
            2.0
        });
        let clock_ratio = clock_ratio(instance, self.asked, &mut unknown);
        let cores = Cores::new(vcpus, threads, self.asked.second_thread_share, self.asked.load_max);
        let (held, mix) = (self.on_cores(&cores, clock_ratio), &self.mix);
        let mut shares = vec![Share { resource: Resource::Cpu, usable: cores.number(), sessions: held as f64 }];
        if let Some(rates) = CreditRates::from_instance(instance) {
            let cpus = |kind: &MixKind| Some(kind.cpus / clock_ratio);
            shares.extend(share(mix, Resource::Credits, rates.baseline_cpus(), cpus));
        }
        let has = |need: fn(&MixKind) -> Option<f64>| mix.kinds.iter().all(|kind| need(kind).is_some());
        match instance.number(Kind::MemoryGib) {
            Some(gib) => {
                let usable = gib * 1024.0 * (1.0 - SYSTEM_MEMORY);
                shares.extend(share(mix, Resource::Memory, usable, |kind| kind.memory_mib));
            }
            None => unknown.push(Unknown::Memory),
        }
        if !has(|kind| kind.memory_mib) {
            unknown.push(Unknown::SessionMemory);
        }
        match instance.number(Kind::NetworkMbpsBaseline) {
            Some(usable) => shares.extend(share(mix, Resource::Network, usable, |kind| kind.network_mbps)),
            None => unknown.push(Unknown::Network),
        }
        if !has(|kind| kind.network_mbps) {
            unknown.push(Unknown::SessionNetwork);
        }
        if mix.kinds.iter().any(|kind| kind.packets_per_s.is_some()) {
            unknown.push(Unknown::Packets);
        }
        unknown.retain(|one| match one {
            Unknown::Memory => mix.kinds.iter().any(|kind| kind.memory_mib > Some(0.0)),
            Unknown::Network => mix.kinds.iter().any(|kind| kind.network_mbps > Some(0.0)),
            _ => true,
        });
        let least = *shares.iter().min_by(|a, b| a.sessions.total_cmp(&b.sessions))?;
        Some(Fit { sessions: least.sessions as u32, limit: least.resource, shares, unknown, clock_ratio })
    }

    /// How many sessions of the mix the cores can run. Each session stays on its cores.
    fn on_cores(&mut self, cores: &Cores, clock_ratio: f64) -> u64 {
        let key = (*cores, clock_ratio.to_bits());
        if let Some(held) = self.held.get(&key) {
            return *held;
        }
        let loads: Vec<CpuLoad> = self.mix.kinds.iter().map(|kind| cores.load(kind.cpus / clock_ratio)).collect();
        // If the type has no room for one kind, it cannot run the mix.
        let is_held = loads.iter().all(|load| cores.hold(&[(*load, 1)]));
        let with = |first: &[u64]| loads.iter().copied().zip(first.iter().copied()).collect::<Vec<_>>();
        let mut held = if is_held { self.mix.most(|first| cores.hold(&with(first))) } else { 0 };
        // With one kind, the result is exact without a search.
        while is_held && loads.len() > 1 && cores.hold_by_search(&with(&self.mix.first(held + 1))) == Some(true) {
            held += 1;
        }
        self.held.insert(key, held);
        held
    }
}

/// How many sessions of the mix `usable` is enough for. `None` if the need of no session is known.
fn share(mix: &Mix, resource: Resource, usable: f64, need: impl Fn(&MixKind) -> Option<f64>) -> Option<Share> {
    if !mix.kinds.iter().any(|kind| need(kind) > Some(0.0)) {
        return None;
    }
    // A sum of fractions may be slightly above its true value.
    let is_within = |sum: f64| sum <= usable * (1.0 + 1e-9);
    let is_held = mix.kinds.iter().all(|kind| is_within(need(kind).unwrap_or(0.0)));
    let sessions = if is_held { mix.most(|first| is_within(mix.sum(first, &need))) } else { 0 };
    Some(Share { resource, usable, sessions: sessions as f64 })
}

fn clock_ratio(instance: &Instance, asked: &InstancesAsked, unknown: &mut Vec<Unknown>) -> f64 {
    let Some(measured) = &asked.measured_on else { return 1.0 };
    let clock = |instance: &Instance| instance.number(Kind::ClockGhzSustained);
    match clock(instance).zip(clock(measured)) {
        Some((own, measured)) => own / measured,
        None if instance.name == measured.name => 1.0,
        None => {
            unknown.push(Unknown::Clock);
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_host::catalogue;
    use proptest::prelude::*;

    use super::*;
    use crate::pack::{self, Machine, MachineCache, MachineCpu, MachineNode};

    fn sessions(table: &str) -> Vec<Session> {
        crate::sessions::read_sessions(table.as_bytes()).unwrap()
    }

    fn fit(name: &str, table: &str, asked: &InstancesAsked) -> Fit {
        Fitter::new(&sessions(table), asked).fit(&catalogue::instance(name).unwrap()).unwrap()
    }

    fn seen(name: &str, table: &str, asked: &InstancesAsked) -> (u32, Resource) {
        let found = fit(name, table, asked);
        (found.sessions, found.limit)
    }

    #[test]
    fn the_scarcest_resource_ends_it() {
        let asked = InstancesAsked::default();
        // 2 cores of 4 CPUs, less half a core, are 1.5 cores. The whole core holds 5 sessions of 0.12, and the half core 2.
        assert_eq!(seen("c5.xlarge", "cpus\n0.12\n", &asked), (7, Resource::Cpu));
        assert_eq!(seen("c5.xlarge", "cpus,memory_mib\n0.12,2000\n", &asked), (3, Resource::Memory));
        assert_eq!(seen("c5.xlarge", "cpus,network_mbps\n0.01,300\n", &asked), (4, Resource::Network));
        // A session of 1.2 CPUs takes two of the eight cores.
        assert_eq!(seen("c6g.2xlarge", "cpus\n1.2\n", &asked), (4, Resource::Cpu));
        assert_eq!(seen("c5.large", "cpus\n0.5\n", &asked), (0, Resource::Cpu));
        assert_eq!(seen("t3.medium", "cpus\n0.12\n", &asked), (2, Resource::Cpu));
        // The four cores are enough for four sessions, and the baseline of 3.2 CPUs for three.
        assert_eq!(seen("t3.2xlarge", "cpus\n0.9\n", &asked), (3, Resource::Credits));
        // As in `pack plan`, a session that alone loads a CPU above the bound has a core to itself.
        assert_eq!(seen("a1.xlarge", "cpus\n0.8\n", &asked), (3, Resource::Cpu));
        let threads = InstancesAsked { second_thread_share: 1.0, ..asked };
        assert_eq!(seen("c5.xlarge", "cpus\n0.12\n", &threads), (15, Resource::Cpu));
        // The baseline of 0.2 CPUs is enough for four sessions.
        assert_eq!(seen("t3.micro", "cpus\n0.05\n", &threads), (4, Resource::Credits));
    }

    #[test]
    fn a_mix_is_between_its_kinds() {
        let asked = InstancesAsked::default();
        let alone = |table: &str| seen("c6g.4xlarge", table, &asked).0;
        let (small, large) = (alone("cpus\n0.1\n"), alone("cpus\n0.6\n"));
        let mix = alone("cpus,count\n0.1,9\n0.6,1\n");
        // The system keeps none of 16 cores. Each core holds 7 small sessions or one large session.
        assert_eq!((small, large), (112, 16));
        assert!(large < mix && mix < small, "{mix}");
        assert_eq!(alone("cpus\n50\n"), 0);
    }

    #[test]
    fn kinds_share_what_a_type_has() {
        let asked = InstancesAsked::default();
        let fit = |table: &str| fit("c6g.large", table, &asked);
        // One of two cores is left for sessions. It holds 0.12 and 0.5 together.
        assert_eq!(fit("cpus,memory_mib,count\n0.12,300,1\n0.5,,2\n").sessions, 2);
        // 4 GiB less a tenth: two large sessions and two small ones need 3,400 MiB, and one more large one does not fit.
        let found = fit("cpus,memory_mib,count\n0.01,1500,1\n0.01,200,1\n");
        assert_eq!((found.sessions, found.limit), (4, Resource::Memory));
        // A session with an unknown memory need does not count.
        let found = fit("cpus,memory_mib,count\n0.01,3000,1\n0.01,,1\n");
        assert_eq!((found.sessions, found.limit), (2, Resource::Memory));
        assert!(found.unknown.contains(&Unknown::SessionMemory) && !found.unknown.contains(&Unknown::Network));
        // If the type has no room for one kind, it holds no mix with that kind.
        assert_eq!(fit("cpus,count\n0.1,9\n1.1,1\n").sessions, 0);
        assert_eq!(fit("cpus,memory_mib,count\n0.01,10,99\n0.01,5000,1\n").sessions, 0);
        let found = fit("cpus,network_mbps\n0.1,0\n");
        assert!(found.sessions == 7 && !found.unknown.contains(&Unknown::SessionNetwork), "{found:?}");
    }

    /// A machine as the catalogue describes it, for `pack plan`.
    fn machine(vcpus: usize) -> Machine {
        let cpu = |cpu| MachineCpu {
            cpu,
            node: 0,
            cache: 0,
            core: cpu,
            is_allowed: true,
            is_isolated: false,
            serves_interrupts: false,
        };
        Machine {
            cpus: (0..vcpus).map(cpu).collect(),
            nodes: vec![MachineNode { node: None, memory_bytes: None }],
            caches: vec![MachineCache { size_bytes: None }],
            ..Machine::default()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// `instances` and `pack plan` count the same sessions on cores without second threads.
        #[test]
        fn pack_plan_places_as_many(which in 0..4_usize, kinds in prop::collection::vec((5..170_u32, 1..4_u32), 1..4)) {
            let (name, vcpus) = [("a1.medium", 1), ("c6g.large", 2), ("a1.xlarge", 4), ("c6g.2xlarge", 8)][which];
            let table = |counts: &[u64]| {
                let rows = kinds.iter().zip(counts).filter(|(_, count)| **count > 0);
                let rows: String = rows.map(|((cpus, _), count)| format!("{},{count}\n", f64::from(*cpus) / 100.0)).collect();
                sessions(&format!("cpus,count\n{rows}"))
            };
            let asked = sessions(&format!(
                "cpus,count\n{}",
                kinds.iter().map(|(cpus, count)| format!("{},{count}\n", f64::from(*cpus) / 100.0)).collect::<String>()
            ));
            prop_assume!(Mix::new(&asked).kinds.len() == kinds.len());
            let found = Fitter::new(&asked, &InstancesAsked::default()).fit(&catalogue::instance(name).unwrap()).unwrap();
            let placed = |n: u64| {
                let first = Mix::new(&asked).first(n);
                pack::plan(&machine(vcpus), &table(&first), &pack::Options::default()).unwrap()
            };
            let n = u64::from(found.sessions);
            prop_assert!(n == 0 || placed(n).left_out.is_empty(), "{} of {:?}", n, kinds);
            if n == 0 {
                let alone = |at: usize| {
                    let mut one = vec![0; kinds.len()];
                    one[at] = 1;
                    pack::plan(&machine(vcpus), &table(&one), &pack::Options::default()).unwrap().left_out.is_empty()
                };
                prop_assert!(!(0..kinds.len()).all(alone), "{:?}", kinds);
                return Ok(());
            }
            let more = placed(n + 1);
            prop_assert!(!more.left_out.is_empty() || n + 1 > 64, "{} of {:?} fit", n + 1, kinds);
        }
    }

    #[test]
    fn a_faster_clock_holds_more() {
        let asked = InstancesAsked { measured_on: catalogue::instance("t3.large"), ..InstancesAsked::default() };
        let found = fit("c5.4xlarge", "cpus\n0.12\n", &asked);
        assert!((found.clock_ratio - 3.4 / 2.5).abs() < 1e-9);
        let unknown = fit("n2-standard-8", "cpus\n0.12\n", &asked);
        assert!(unknown.unknown.contains(&Unknown::Clock) && unknown.clock_ratio == 1.0);
    }
}
