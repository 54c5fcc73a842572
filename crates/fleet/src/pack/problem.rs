//! The problem in whole numbers: the capacity of each CPU after the system and the interrupts, and the needs of all sessions.

use super::asked::{INTERRUPT_LOAD_MAX, InterruptCpus, Options, PACKET_US};
use super::kinds::{CPU, Kind, Need, share};
use super::machine::Machine;
use crate::cpu_load;
use crate::sessions::Session;
use crate::system::{SYSTEM_MEMORY, system_cpus};

/// One CPU in millionths, as a float.
const WHOLE: f64 = CPU as f64;

/// The assumed memory of a node of unknown size. No node has more, and the sum of 8,192 nodes does not overflow.
const MEMORY_UNKNOWN_KIB: u64 = u64::MAX >> 13;

/// A CPU that sessions may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The index of the CPU in [`Machine::cpus`].
    pub(super) at: usize,
    pub(super) node: usize,
    pub(super) cache: usize,
    /// The CPU's core. Cores without a slot have no number.
    pub(super) core: usize,
    /// The load of interrupts.
    pub(super) base: u32,
    /// The maximum load of sessions and interrupts together.
    pub(super) limit: u32,
    /// The maximum load of a session that is alone on the CPU; zero if the CPU has interrupts or system work.
    pub(super) limit_alone: u32,
    pub(super) is_isolated: bool,
}

/// The sessions to place, and the CPUs for them.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) slots: Vec<Slot>,
    pub(super) cores: usize,
    /// The memory for sessions, in KiB, by node.
    pub(super) memory: Vec<u64>,
    /// The memory for all sessions that the control group allows, in KiB.
    pub(super) memory_limit: u64,
    /// The sizes of the caches, in KiB. A cache of unknown size has room for everything.
    pub(super) caches: Vec<u64>,
    /// The CPU quota for all sessions, in millionths of a CPU.
    pub(super) quota: u64,
    pub(super) kinds: Vec<Kind>,
    /// For each kind, the minimum that a thread takes of a CPU's limit.
    /// A session with its own CPU takes all of the limit, even if its load is higher.
    pub(super) packed_loads: Vec<u32>,
    /// Whose memory limit and quota these are, in words.
    pub(super) limits_of: String,
}

/// How the system, interrupts and sessions use each CPU, before the sessions are placed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rooms {
    pub(super) rooms: Vec<Room>,
    /// Whether sessions run on CPUs that serve interrupts.
    pub(super) shares_interrupts: bool,
    pub(super) system_cpus: f64,
    pub(super) packets_per_s: Option<f64>,
    /// The share that packets take of each CPU that serves interrupts.
    pub(super) interrupt_load: Option<f64>,
    pub(super) caveats: Vec<String>,
}

/// The shares of one CPU that the system, interrupts and the hypervisor take, before sessions get the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Room {
    /// The share that the system gets.
    pub(super) system: f64,
    /// The load of interrupts.
    pub(super) interrupts: f64,
    /// The share that the hypervisor gives, where it was measured.
    pub(super) share: f64,
    pub(super) has_sessions: bool,
}

impl Rooms {
    /// Decides which CPUs sessions may use, and how much of them.
    pub(super) fn new(machine: &Machine, sessions: &[Session], options: &Options) -> Rooms {
        let mut caveats = Vec::new();
        let interrupts = machine.cpus.iter().filter(|cpu| cpu.serves_interrupts).count();
        let packets_per_s = packets(machine, sessions, options.load_max);
        let interrupt_load =
            packets_per_s.filter(|_| interrupts > 0).map(|packets| packets * PACKET_US / 1e6 / interrupts as f64);
        let shares_interrupts = match options.interrupt_cpus {
            InterruptCpus::Share => true,
            InterruptCpus::Avoid => false,
            // Without sessions on the CPUs that serve interrupts, more than half of the machine would be unused.
            InterruptCpus::Auto if 2 * interrupts > machine.cpus.len() || machine.cpus.len() == 1 => true,
            InterruptCpus::Auto => interrupt_load.is_some_and(|load| load <= INTERRUPT_LOAD_MAX),
        };
        if interrupts > 0 && shares_interrupts && interrupt_load.is_none() {
            caveats.push(
                "sessions run on CPUs that serve interrupts, and what those take is not known: give packets_per_s in the table".to_owned(),
            );
        }
        if let Some(load) = interrupt_load.filter(|load| *load > 1.0) {
            caveats.push(format!("the packets take {load:.1} times what the CPUs that serve interrupts have: spread them over more queues"));
        }
        let mut rooms = Rooms {
            rooms: machine
                .cpus
                .iter()
                .map(|cpu| Room {
                    system: 0.0,
                    interrupts: if cpu.serves_interrupts { interrupt_load.unwrap_or(0.0).min(1.0) } else { 0.0 },
                    share: options
                        .shares
                        .iter()
                        .find(|(number, _)| *number == cpu.cpu)
                        .map_or(1.0, |(_, share)| *share),
                    has_sessions: cpu.is_allowed && (shares_interrupts || !cpu.serves_interrupts),
                })
                .collect(),
            shares_interrupts: shares_interrupts && interrupts > 0,
            system_cpus: options.system_cpus.unwrap_or_else(|| system_cpus(machine.cpus.len())),
            packets_per_s,
            interrupt_load,
            caveats,
        };
        rooms.leave_system(machine);
        rooms
    }

    /// Leaves CPUs to the system: first the CPUs that sessions do not use, then those with interrupts, then the lowest numbers.
    /// Isolated CPUs do not count, because the scheduler does not use them.
    fn leave_system(&mut self, machine: &Machine) {
        let mut order: Vec<usize> = (0..machine.cpus.len()).filter(|at| !machine.cpus[*at].is_isolated).collect();
        order.sort_by_key(|at| (self.rooms[*at].has_sessions, !machine.cpus[*at].serves_interrupts, *at));
        let mut left = self.system_cpus;
        for at in order {
            let room = &mut self.rooms[at];
            room.system = if room.has_sessions { left.clamp(0.0, 1.0) } else { left.clamp(0.0, 1.0 - room.interrupts) };
            left -= room.system;
        }
        if left > 1e-9 {
            self.caveats.push(format!("the machine has {left:.2} CPUs fewer than are to be left for the system"));
        }
    }

    /// The problem that remains for the sessions.
    pub(super) fn problem(&self, machine: &Machine, kinds: Vec<Kind>, load_max: u32) -> Problem {
        let mut cores: Vec<usize> = Vec::new();
        let mut slots = Vec::new();
        for (at, (cpu, room)) in machine.cpus.iter().zip(&self.rooms).enumerate() {
            let limit = cpu_load::usable(share(load_max) * (1.0 - room.system) * room.share);
            let base = (room.interrupts * WHOLE).ceil() as u32;
            if !room.has_sessions || limit <= base {
                continue;
            }
            let core = cores.iter().position(|core| *core == cpu.core).unwrap_or_else(|| {
                cores.push(cpu.core);
                cores.len() - 1
            });
            let limit_alone = if base == 0 && room.system == 0.0 { cpu_load::usable(room.share) } else { 0 };
            slots.push(Slot {
                at,
                node: cpu.node,
                cache: cpu.cache,
                core,
                base,
                limit,
                limit_alone,
                is_isolated: cpu.is_isolated,
            });
        }
        let free = |bytes: u64| (bytes as f64 * (1.0 - SYSTEM_MEMORY) / 1024.0) as u64;
        Problem {
            cores: cores.len(),
            memory: machine.nodes.iter().map(|node| node.memory_bytes.map_or(MEMORY_UNKNOWN_KIB, free)).collect(),
            memory_limit: machine.memory_limit_bytes.map_or(u64::MAX, |bytes| bytes / 1024),
            limits_of: machine
                .slice
                .as_ref()
                .map_or_else(|| "the control group".to_owned(), |slice| format!("slice {slice}")),
            caches: machine
                .caches
                .iter()
                .map(|cache| cache.size_bytes.map_or(u64::MAX, |bytes| bytes / 1024))
                .collect(),
            quota: machine.quota_cpus.map_or(u64::MAX, |quota| (quota * f64::from(load_max)) as u64),
            packed_loads: kinds.iter().map(|kind| packed_load(&slots, &kind.need)).collect(),
            kinds,
            slots,
        }
    }
}

fn packed_load(slots: &[Slot], need: &Need) -> u32 {
    let limits = slots.iter().filter(|slot| slot.limit_alone >= need.load).map(|slot| slot.limit);
    if need.is_exclusive { limits.min().map_or(need.load, |limit| limit.min(need.load)) } else { need.load }
}

/// An upper bound for the packets per second of the placed sessions. None if the table has no packets.
/// If not all sessions fit, it counts the sessions with the most packets for their load, so that no placement has more.
fn packets(machine: &Machine, sessions: &[Session], load_max: f64) -> Option<f64> {
    let mut rates: Vec<(f64, f64)> = sessions
        .iter()
        .filter_map(|session| {
            Some((session.packets_per_s?, session.cpus * f64::from(session.count), f64::from(session.count)))
        })
        .map(|(packets, load, count)| (packets * count, load))
        .collect();
    if rates.is_empty() {
        return None;
    }
    rates.sort_by(|a, b| (b.0 / b.1).total_cmp(&(a.0 / a.1)));
    // A session with a CPU of its own may use the whole CPU.
    let whole = if sessions.iter().any(|session| session.cpus > load_max) { 1.0 } else { load_max };
    let mut room = whole * machine.cpus.iter().filter(|cpu| cpu.is_allowed).count() as f64;
    let mut packets = 0.0;
    for (rate, load) in rates {
        let part = (room / load).clamp(0.0, 1.0);
        packets += rate * part;
        room -= load * part;
    }
    Some(packets)
}
