//! Chooses the CPUs of each session on a machine: as many sessions as possible, then few heavy ones on one core, then a low load.
//!
//! `machine` makes a tree of the facts, `kinds` and `problem` turn needs and rules into whole numbers,
//! `greedy` and `exchange` find a placement, `search` improves it until `bounds` prove that none is better,
//! and the report shows where each session is.

mod asked;
mod bounds;
mod exchange;
mod greedy;
mod kinds;
mod left_out;
mod machine;
mod problem;
mod report;
mod search;
mod services;
mod state;
#[cfg(test)]
mod tests;

pub use self::asked::{CpuSets, HEAVY_CPUS, InterruptCpus, LOAD_MAX, Options, PackError, SESSIONS_MAX};
pub use self::left_out::{LeftOut, Resource};
pub use self::machine::{Machine, MachineCache, MachineCpu, MachineNode};
use self::problem::Rooms;
use self::report::Parts;
pub use self::report::{CpuUse, NodeUse, Placement, Proof, Report, Role, Rules};
pub use self::services::{PLAN_BYTES_MAX, Service, ServicesError, parse_services, services};
use crate::cpu_load;
use crate::sessions::Session;

/// Places sessions on the CPUs of a machine.
///
/// # Errors
/// If there are too many sessions, or it is not known which CPUs run.
pub fn plan(machine: &Machine, sessions: &[Session], options: &Options) -> Result<Report, PackError> {
    let count: u64 = sessions.iter().map(|session| u64::from(session.count)).sum();
    if count > SESSIONS_MAX {
        return Err(PackError::TooManySessions(count));
    }
    if let Some(twice) = unit_twice(sessions) {
        return Err(PackError::UnitTwice(twice));
    }
    if machine.cpus.is_empty() {
        let why = machine.caveats.first().cloned();
        return Err(PackError::NoCpus(why.unwrap_or_else(|| "the machine has no CPUs".to_owned())));
    }
    let load_max = cpu_load::usable(options.load_max.clamp(0.0, 1.0));
    let rooms = Rooms::new(machine, sessions, options);
    let all = kinds::kinds(sessions, load_max.max(1));
    let whole = rooms.problem(machine, all, load_max);
    let reasons = left_out::never(&whole, &whole.kinds, options);
    let mut left_out = Vec::new();
    let mut kinds = Vec::new();
    for (kind, reason) in whole.kinds.iter().zip(&reasons) {
        match reason {
            Some(reason) => left_out.extend(left_out::rows(sessions, kind, 0, reason)),
            None => kinds.push(kind.clone()),
        }
    }
    let problem = rooms.problem(machine, kinds, load_max);
    let found = search::solve(&problem, options.work);
    for (at, kind) in problem.kinds.iter().enumerate() {
        let placed = found.placed.iter().filter(|one| one.kind == at).count() as u32;
        if placed < kind.count {
            left_out.extend(left_out::rows(sessions, kind, placed, &left_out::reason(&problem, &found.placed, at)));
        }
    }
    Ok(Parts { machine, sessions, options, rooms: &rooms, problem: &problem, found: &found, left_out }.report())
}

/// A service that two sessions name.
fn unit_twice(sessions: &[Session]) -> Option<String> {
    let mut seen = rustc_hash::FxHashSet::default();
    let all = sessions.iter().flat_map(|session| (1..=session.count).map_while(|number| session.unit(number)));
    all.into_iter().find(|unit| !seen.insert(unit.clone()))
}
