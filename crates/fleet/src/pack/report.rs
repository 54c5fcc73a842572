//! The report: the place of each session, the use of each CPU, the sessions that did not fit, and the proven bounds.

use std::collections::BTreeMap;

use evenkeel_host::CpuSet;
use serde::Serialize;

use super::asked::{CpuSets, HEAVY_CPUS, Options};
use super::kinds::share;
use super::left_out::{LeftOut, Resource};
use super::machine::{Machine, MachineCpu};
use super::problem::{Problem, Rooms, Slot};
use super::search::{EXACT_SESSIONS_MAX, Found};
use crate::sessions::Session;

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The number of sessions in the table.
    pub sessions: u32,
    /// The number of sessions that have a place.
    pub placed: u32,
    /// The highest load of a CPU with sessions, as a share of the CPU. `null` if no CPU has sessions.
    pub load: Option<f64>,
    /// Pairs of heavy threads that share a core: on one CPU, or on siblings.
    pub heavy_pairs: u64,
    /// Proven bounds on all placements.
    pub proof: Proof,
    /// The rules that the placement follows.
    pub rules: Rules,
    /// The slice whose limits the placement keeps; absent for the control group of evenkeel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// The sessions that have a place. Equal ones on the same CPUs are one entry.
    pub placements: Vec<Placement>,
    /// The sessions that have no place, with the reason.
    pub left_out: Vec<LeftOut>,
    /// Each CPU that runs.
    pub cpus: Vec<CpuUse>,
    /// Each node that has CPUs.
    pub nodes: Vec<NodeUse>,
    /// What to consider before you use the answer.
    pub caveats: Vec<String>,
}

impl Report {
    /// Whether every session has a place, and the CPUs that serve interrupts have enough time for all packets.
    pub fn is_enough(&self) -> bool {
        self.left_out.is_empty() && self.packets_over().is_none()
    }

    /// The share of a CPU that the packets need of each CPU that serves interrupts. None unless it is above 1.
    pub fn packets_over(&self) -> Option<f64> {
        self.cpus.iter().map(|cpu| cpu.interrupt_load).find(|load| *load > 1.0)
    }
}

/// Proven bounds on all placements. Earlier fields are more important: a placement never gives up a session for fewer heavy pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proof {
    /// Whether the placement is proven to be best: no other placement has more sessions, or as many with fewer heavy pairs,
    /// or as many of both with a lower highest load.
    pub is_best: bool,
    /// Whether it is also proven that no equally good placement uses fewer nodes and caches.
    pub are_ties_proven: bool,
    /// No placement has more sessions than this.
    pub placed_max: u32,
    /// No placement with as many sessions as `placed_max` has fewer heavy pairs.
    pub heavy_pairs_min: u64,
    /// No placement with as many sessions as `placed_max` has a lower highest load, as a share of a CPU.
    pub load_min: f64,
    /// How many states the search visited; 0 if a bound was enough.
    pub visited: u32,
}

/// The rules that a placement follows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rules {
    /// The maximum load of a CPU with several sessions, as a share of the CPU.
    pub load_max: f64,
    /// A session with at least this load on a CPU is heavy.
    pub heavy_cpus: f64,
    /// CPUs that are left for the system.
    pub system_cpus: f64,
    /// Which CPUs each session may run on.
    pub cpu_sets: CpuSets,
    /// Whether sessions run on CPUs that serve interrupts.
    pub shares_interrupt_cpus: bool,
    /// Packets a second of all sessions that fit; `null` if the table does not name a rate.
    pub packets_per_s: Option<f64>,
    /// The quota of the control group, in CPUs; `null` without a quota.
    pub quota_cpus: Option<f64>,
    /// The memory limit of the control group, in MiB; `null` without a limit.
    #[cfg_attr(feature = "schema", schemars(extend("x-since" = "0.1.0")))]
    pub memory_limit_mib: Option<f64>,
}

/// Equal sessions on the same CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Placement {
    /// The name in the table.
    pub session: String,
    /// The number of these sessions.
    pub count: u32,
    /// The CPUs that each of these sessions may run on.
    pub cpus: CpuSet,
    /// The node of the CPUs; `null` if the machine's nodes are not known.
    pub node: Option<u32>,
    /// The load that each session adds to each of its CPUs, on average.
    pub load: f64,
    /// The start of a command line that sets these CPUs.
    pub taskset: String,
    /// Lines for the session's systemd unit.
    pub unit: Vec<String>,
    /// The systemd services of these sessions, if the table names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<String>,
    /// The scheduler's weight for the services, if the table has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<u32>,
}

/// A CPU with its roles and its load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuUse {
    /// The kernel's number of the CPU.
    pub cpu: usize,
    /// The node of the CPU; `null` if the machine's nodes are not known.
    pub node: Option<u32>,
    /// The number of the core. CPUs of one core have the same number.
    pub core: usize,
    /// The number of the last-level cache. CPUs that share it have the same number.
    pub cache: usize,
    /// The roles of the CPU; empty if it has none.
    pub roles: Vec<Role>,
    /// The load of sessions and interrupts, as a share of the CPU. Above 1 if the packets need more than the whole CPU.
    pub load: f64,
    /// The part of the load that interrupts cause. Only packets are counted.
    pub interrupt_load: f64,
    /// The maximum load. A session that has a CPU without other roles to itself may use all of it.
    pub load_max: f64,
    /// The share that is left for the system.
    pub system: f64,
    /// The number of sessions that the placement counts on this CPU. They may also run on the other CPUs of their sets.
    pub sessions: u32,
}

/// A role of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sessions run there.
    Sessions,
    /// The CPU serves interrupts of a network interface.
    Interrupts,
    /// The CPU is left for the system, partly or completely.
    System,
    /// The control group does not allow the CPU.
    NotAllowed,
}

/// The memory of a node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeUse {
    /// The kernel's number of the node; `null` if the machine's nodes are not known.
    pub node: Option<u32>,
    /// The number of sessions on the node.
    pub sessions: u32,
    /// The memory that sessions may have, in MiB; `null` if it is not known.
    pub memory_mib: Option<f64>,
    /// The memory that sessions have, in MiB.
    pub memory_used_mib: f64,
}

/// The inputs of a report.
pub(super) struct Parts<'a> {
    pub(super) machine: &'a Machine,
    pub(super) sessions: &'a [Session],
    pub(super) options: &'a Options,
    pub(super) rooms: &'a Rooms,
    pub(super) problem: &'a Problem,
    pub(super) found: &'a Found,
    pub(super) left_out: Vec<LeftOut>,
}

impl Parts<'_> {
    pub(super) fn report(self) -> Report {
        let (found, problem, rooms) = (self.found, self.problem, self.rooms);
        let asked: u32 = self.sessions.iter().map(|session| session.count).sum();
        let searched: u32 = problem.kinds.iter().map(|kind| kind.count).sum();
        let (left_out, pairs, load) = found.bound;
        let proof = Proof {
            is_best: found.bound == found.score.first_levels(),
            are_ties_proven: found.are_ties_proven,
            placed_max: searched - left_out,
            heavy_pairs_min: pairs,
            load_min: share(load),
            visited: found.visited,
        };
        let mut report = Report {
            sessions: asked,
            placed: found.placed.len() as u32,
            load: (!found.placed.is_empty()).then(|| share(found.score.load)),
            heavy_pairs: found.score.heavy_pairs,
            proof,
            rules: Rules {
                load_max: self.options.load_max,
                heavy_cpus: HEAVY_CPUS,
                system_cpus: rooms.system_cpus,
                cpu_sets: self.options.cpu_sets,
                shares_interrupt_cpus: rooms.shares_interrupts,
                packets_per_s: rooms.packets_per_s,
                quota_cpus: self.machine.quota_cpus,
                memory_limit_mib: self.machine.memory_limit_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20)),
            },
            slice: self.machine.slice.clone(),
            placements: self.placements(),
            cpus: self.cpus(),
            nodes: self.nodes(),
            left_out: self.left_out.clone(),
            caveats: Vec::new(),
        };
        report.caveats = self.caveats(&report, searched);
        report
    }

    fn placements(&self) -> Vec<Placement> {
        // For each row and set of CPUs: the numbers of the sessions within their row.
        let mut joined: BTreeMap<(usize, Vec<usize>), Vec<u32>> = BTreeMap::new();
        let mut numbers = vec![0; self.sessions.len()];
        for (kind, of) in self.problem.kinds.iter().enumerate() {
            let mut places: Vec<Vec<usize>> =
                self.found.placed.iter().filter(|one| one.kind == kind).map(|one| one.slots.clone()).collect();
            places.iter_mut().for_each(|slots| slots.sort_unstable());
            places.sort();
            // Equal sessions may have several names: the first rows get the first places.
            let rows = of.rows.iter().flat_map(|(row, count)| std::iter::repeat_n(*row, *count as usize));
            for (row, slots) in rows.zip(places) {
                numbers[row] += 1;
                joined.entry((row, self.cpu_set(slots))).or_default().push(numbers[row]);
            }
        }
        joined.into_iter().map(|((row, slots), numbers)| self.placement(row, &slots, &numbers)).collect()
    }

    /// All slots that a session may use, if the placement counts the session on `slots`.
    /// The scheduler moves no thread to or from isolated CPUs, so a set never mixes them with others.
    fn cpu_set(&self, slots: Vec<usize>) -> Vec<usize> {
        let of = |slot: &usize| &self.problem.slots[*slot];
        if slots.iter().any(|slot| of(slot).is_isolated) {
            return slots;
        }
        let shares = |one: &Slot| match self.options.cpu_sets {
            CpuSets::One => false,
            CpuSets::Cache => slots.iter().any(|slot| of(slot).cache == one.cache),
            CpuSets::Node => slots.iter().any(|slot| of(slot).node == one.node),
        };
        let all = self.problem.slots.iter().enumerate();
        let wider: Vec<usize> = all.filter(|(_, one)| !one.is_isolated && shares(one)).map(|(at, _)| at).collect();
        if wider.is_empty() { slots } else { wider }
    }

    fn placement(&self, row: usize, slots: &[usize], numbers: &[u32]) -> Placement {
        let at = |slot: &usize| &self.machine.cpus[self.problem.slots[*slot].at];
        let cpus: CpuSet = slots.iter().map(|slot| at(slot).cpu).collect();
        let node = slots.first().and_then(|slot| self.machine.nodes[at(slot).node].node);
        let session = &self.sessions[row];
        let mut unit = vec![format!("AllowedCPUs={cpus}")];
        // On a machine with one node, `AllowedMemoryNodes=` would have no effect.
        unit.extend(node.filter(|_| self.machine.nodes.len() > 1).map(|node| format!("AllowedMemoryNodes={node}")));
        unit.extend(session.cpu_weight.map(|weight| format!("CPUWeight={weight}")));
        Placement {
            session: session.name.clone(),
            count: numbers.len() as u32,
            node,
            load: session.cpus / cpus.len().max(1) as f64,
            taskset: format!("taskset --cpu-list {cpus}"),
            unit,
            units: numbers.iter().filter_map(|number| session.unit(*number)).collect(),
            cpu_weight: session.cpu_weight,
            cpus,
        }
    }

    fn cpus(&self) -> Vec<CpuUse> {
        let mut load = vec![0; self.machine.cpus.len()];
        let mut sessions = vec![0; self.machine.cpus.len()];
        for one in &self.found.placed {
            for slot in &one.slots {
                load[self.problem.slots[*slot].at] += self.problem.kinds[one.kind].need.load;
                sessions[self.problem.slots[*slot].at] += 1;
            }
        }
        let interrupts = |cpu: &MachineCpu| self.rooms.interrupt_load.filter(|_| cpu.serves_interrupts).unwrap_or(0.0);
        let all = self.machine.cpus.iter().zip(&self.rooms.rooms).enumerate();
        all.map(|(at, (cpu, room))| {
            let roles = [
                (sessions[at] > 0, Role::Sessions),
                (cpu.serves_interrupts, Role::Interrupts),
                (room.system > 0.0, Role::System),
                (!cpu.is_allowed, Role::NotAllowed),
            ];
            let slot = self.problem.slots.iter().find(|slot| slot.at == at);
            CpuUse {
                cpu: cpu.cpu,
                node: self.machine.nodes[cpu.node].node,
                core: cpu.core,
                cache: cpu.cache,
                roles: roles.into_iter().filter(|(has, _)| *has).map(|(_, role)| role).collect(),
                load: share(load[at]) + interrupts(cpu),
                interrupt_load: interrupts(cpu),
                load_max: slot.map_or(0.0, |slot| share(slot.limit)),
                system: room.system,
                sessions: sessions[at],
            }
        })
        .collect()
    }

    fn nodes(&self) -> Vec<NodeUse> {
        let nodes = self.machine.nodes.iter().enumerate();
        nodes
            .map(|(at, node)| {
                let here = self.found.placed.iter().filter(|one| self.problem.slots[one.slots[0]].node == at);
                let used: u64 = here.clone().map(|one| self.problem.kinds[one.kind].need.memory_kib).sum();
                NodeUse {
                    node: node.node,
                    sessions: here.count() as u32,
                    memory_mib: node.memory_bytes.map(|_| self.problem.memory[at] as f64 / 1024.0),
                    memory_used_mib: used as f64 / 1024.0,
                }
            })
            .collect()
    }

    fn caveats(&self, report: &Report, searched: u32) -> Vec<String> {
        let mut caveats = self.machine.caveats.clone();
        caveats.extend(self.rooms.caveats.iter().cloned());
        if self.options.shares.is_empty() {
            caveats.push(
                "time slices of a hypervisor are not in the facts: if `evenkeel measure quantum` finds some, give its answer with --slices"
                    .to_owned(),
            );
        }
        if !report.proof.is_best {
            let why = if searched > EXACT_SESSIONS_MAX {
                "there are too many sessions for a search"
            } else {
                "the search ended by its bound on work"
            };
            caveats.push(format!(
                "the placement is not proven, because {why}: another one may be better, within the bounds of the proof"
            ));
        }
        if self.sessions.iter().any(|session| session.memory_mib.is_none()) && !self.is_left_out_by(Resource::Memory) {
            caveats.push("the memory of some sessions is not in the table, and was not counted".to_owned());
        }
        if self.machine.quota_cpus.is_some() {
            caveats.push(format!(
                "the CPU quota of {} stops all sessions at once when it is used up; raise or remove it",
                self.problem.limits_of
            ));
        }
        let needs_alone = |one: &&super::greedy::Placed| self.problem.kinds[one.kind].need.is_exclusive;
        let alone = self.found.placed.iter().filter(needs_alone).count();
        if alone > 0 {
            caveats.push(format!(
                "{alone} of the sessions load a CPU above {} by themselves, and have one each: a longer tick makes the next one late",
                self.options.load_max
            ));
        }
        let isolated = self.machine.cpus.iter().filter(|cpu| cpu.is_isolated).map(|cpu| cpu.cpu).collect::<CpuSet>();
        if !isolated.is_empty() {
            caveats.push(format!(
                "CPU {isolated}: isolated, so the scheduler moves no thread there or away; sessions with several CPUs are not placed there"
            ));
        }
        if self.sessions.iter().any(|session| session.network_mbps.is_some()) {
            caveats.push("the network's bandwidth was not compared with what the machine has".to_owned());
        }
        caveats
    }

    fn is_left_out_by(&self, resource: Resource) -> bool {
        self.left_out.iter().any(|one| one.resource == resource)
    }
}
