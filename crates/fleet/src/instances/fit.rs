//! How many sessions fit on an instance type, by its documented figures.

use evenkeel_host::catalogue::{Instance, Kind};
use evenkeel_host::credits::CreditRates;
use serde::Serialize;

use super::asked::InstancesAsked;
use crate::sessions::Session;
use crate::system::{SYSTEM_MEMORY, system_cpus};

/// What limits the number of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Resource {
    /// Cores, without what the system needs.
    Cpu,
    /// The baseline CPU time of a burstable type.
    Credits,
    /// Memory, without what the system needs.
    Memory,
    /// The sustained network rate.
    Network,
}

impl Resource {
    /// For people.
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
    /// What sessions may use: CPUs, MiB or Mbit/s.
    pub usable: f64,
    /// How many sessions this resource is enough for; a fraction if the sessions differ.
    pub sessions: f64,
}

/// How many sessions fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fit {
    /// How many sessions of the mix fit.
    pub sessions: u32,
    /// The resource that limits the number.
    pub limit: Resource,
    /// Each resource that is known.
    pub shares: Vec<Share>,
    /// Figures that no document has for this type, or that the table lacks for a session. They were left out.
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
    /// The memory of a session.
    SessionMemory,
    /// The traffic of a session.
    SessionNetwork,
    /// The sustained network rate.
    Network,
    /// How many packets a second the type may send: no catalogue has it.
    Packets,
}

impl Unknown {
    /// For people.
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

/// How many sessions of the mix fit; none if not even its CPUs are known.
pub(super) fn fit(instance: &Instance, sessions: &[Session], asked: &InstancesAsked) -> Option<Fit> {
    let mut unknown = Vec::new();
    let vcpus = instance.number(Kind::Vcpus)?;
    let threads = instance.number(Kind::ThreadsPerCore).unwrap_or_else(|| {
        unknown.push(Unknown::ThreadsPerCore);
        2.0
    });
    let clock_ratio = clock_ratio(instance, asked, &mut unknown);
    let mix = Mix { sessions };
    let cores = cores(vcpus, threads, asked.second_thread_share);
    let mut shares = vec![Share {
        resource: Resource::Cpu,
        usable: cores,
        sessions: mix.harmonic(|one| sessions_on(cores, one.cpus / clock_ratio, asked.load_max)),
    }];
    if let Some(rates) = CreditRates::from_instance(instance) {
        let usable = rates.baseline_cpus();
        let sessions = mix.harmonic(|one| (usable / (one.cpus / clock_ratio)).floor());
        shares.push(Share { resource: Resource::Credits, usable, sessions });
    }
    match (mix.mean(|one| one.memory_mib), instance.number(Kind::MemoryGib)) {
        (Some(mib), Some(gib)) => {
            let usable = gib * 1024.0 * (1.0 - SYSTEM_MEMORY);
            shares.push(Share { resource: Resource::Memory, usable, sessions: usable / mib });
        }
        (Some(_), None) => unknown.push(Unknown::Memory),
        (None, _) => unknown.push(Unknown::SessionMemory),
    }
    match (mix.mean(|one| one.network_mbps), instance.number(Kind::NetworkMbpsBaseline)) {
        (Some(mbps), Some(usable)) => {
            shares.push(Share { resource: Resource::Network, usable, sessions: usable / mbps });
        }
        (Some(_), None) => unknown.push(Unknown::Network),
        (None, _) => unknown.push(Unknown::SessionNetwork),
    }
    if mix.mean(|one| one.packets_per_s).is_some() {
        unknown.push(Unknown::Packets);
    }
    let least = *shares.iter().min_by(|a, b| a.sessions.total_cmp(&b.sessions))?;
    // Rounding may leave a sum of fractions just below its true value.
    let sessions = (least.sessions + 1e-9).floor() as u32;
    Some(Fit { sessions, limit: least.resource, shares, unknown, clock_ratio })
}

/// The cores for sessions. The second thread of a core counts for `second_thread_share` of one.
fn cores(vcpus: f64, threads: f64, second_thread_share: f64) -> f64 {
    let worth = (1.0 + second_thread_share * (threads - 1.0)) / threads;
    (vcpus - system_cpus(vcpus as usize)) * worth
}

/// How many equal sessions these cores hold. Each core holds a whole number of them, so that no session moves between cores.
fn sessions_on(cores: f64, cpus: f64, load_max: f64) -> f64 {
    if cpus > load_max {
        return (cores / (cpus / load_max).ceil()).floor();
    }
    let on = |core: f64| (core * load_max / cpus + 1e-9).floor();
    cores.floor() * on(1.0) + on(cores.fract())
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

/// Sessions in fixed proportions.
struct Mix<'a> {
    sessions: &'a [Session],
}

impl Mix<'_> {
    fn count(&self) -> f64 {
        self.sessions.iter().map(|one| f64::from(one.count)).sum()
    }

    /// The mean of a need; none if a session lacks it.
    fn mean(&self, need: impl Fn(&Session) -> Option<f64>) -> Option<f64> {
        let sum = self.sessions.iter().map(|one| Some(need(one)? * f64::from(one.count))).sum::<Option<f64>>();
        Some(sum? / self.count())
    }

    /// How many sessions of the mix fit, from how many of each kind would fit alone.
    fn harmonic(&self, alone: impl Fn(&Session) -> f64) -> f64 {
        let part: f64 = self.sessions.iter().map(|one| f64::from(one.count) / alone(one)).sum();
        // If none of one kind fits, the sum is infinite and the answer 0.
        self.count() / part
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_host::catalogue;

    use super::*;

    fn sessions(table: &str) -> Vec<Session> {
        crate::sessions::read_sessions(table.as_bytes()).unwrap()
    }

    fn seen(name: &str, table: &str, asked: &InstancesAsked) -> (u32, Resource) {
        let found = fit(&catalogue::instance(name).unwrap(), &sessions(table), asked).unwrap();
        (found.sessions, found.limit)
    }

    #[test]
    fn the_scarcest_resource_ends_it() {
        let asked = InstancesAsked::default();
        // 2 cores of 4 CPUs, less half a core: 1.5 cores; on the whole one 5 sessions of 0.12, on the half 2.
        assert_eq!(seen("c5.xlarge", "cpus\n0.12\n", &asked), (7, Resource::Cpu));
        assert_eq!(seen("c5.xlarge", "cpus,memory_mib\n0.12,2000\n", &asked), (3, Resource::Memory));
        assert_eq!(seen("c5.xlarge", "cpus,network_mbps\n0.01,300\n", &asked), (4, Resource::Network));
        // A session of 1.2 CPUs takes two of the eight cores.
        assert_eq!(seen("c6g.2xlarge", "cpus\n1.2\n", &asked), (4, Resource::Cpu));
        assert_eq!(seen("c5.large", "cpus\n0.5\n", &asked), (0, Resource::Cpu));
        assert_eq!(seen("t3.medium", "cpus\n0.12\n", &asked), (2, Resource::Cpu));
        assert_eq!(seen("t3.2xlarge", "cpus\n0.9\n", &asked), (2, Resource::Cpu));
        let threads = InstancesAsked { second_thread_share: 1.0, ..asked };
        assert_eq!(seen("c5.xlarge", "cpus\n0.12\n", &threads), (15, Resource::Cpu));
        // The baseline is 0.2 CPUs.
        assert_eq!(seen("t3.micro", "cpus\n0.05\n", &threads), (4, Resource::Credits));
    }

    #[test]
    fn a_mix_is_between_its_kinds() {
        let asked = InstancesAsked::default();
        let alone = |table: &str| seen("c6g.4xlarge", table, &asked).0;
        let (small, large) = (alone("cpus\n0.1\n"), alone("cpus\n0.6\n"));
        let mix = alone("cpus,count\n0.1,9\n0.6,1\n");
        // Nothing of 16 cores is left for the system: 7 of the small ones on each, or one of the large ones.
        assert_eq!((small, large), (112, 16));
        assert!(large < mix && mix < small, "{mix}");
        assert_eq!(alone("cpus\n50\n"), 0);
    }

    #[test]
    fn a_faster_clock_holds_more() {
        let asked = InstancesAsked { measured_on: catalogue::instance("t3.large"), ..InstancesAsked::default() };
        let found = fit(&catalogue::instance("c5.4xlarge").unwrap(), &sessions("cpus\n0.12\n"), &asked).unwrap();
        assert!((found.clock_ratio - 3.4 / 2.5).abs() < 1e-9);
        let unknown = fit(&catalogue::instance("n2-standard-8").unwrap(), &sessions("cpus\n0.12\n"), &asked).unwrap();
        assert!(unknown.unknown.contains(&Unknown::Clock) && unknown.clock_ratio == 1.0);
    }
}
