//! The systemd services of a placement, from a report or from the saved answer of `evenkeel pack plan --json`.
//! A saved answer can come from anywhere.
//! So its services are checked like those of a table, and its CPUs and nodes are compared with the machine.

use evenkeel_change::ServiceName;
use evenkeel_change::persist::SessionUnit;
use evenkeel_host::CpuSet;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::asked::SESSIONS_MAX;
use super::machine::Machine;
use super::report::{Placement, Report};
use crate::sessions::CPU_WEIGHT_MAX;

/// The format of a saved answer.
const FORMAT: u32 = 1;
/// The maximum size of a saved answer, in bytes. It is enough for 10,000 sessions on 8,192 CPUs.
pub const PLAN_BYTES_MAX: u64 = 16 << 20;

/// A session and the service that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The session's name in the table.
    pub session: String,
    /// The service, with its CPUs, memory node and weight.
    pub unit: SessionUnit,
}

/// Why a placement has no services, or none for this machine.
/// The message continues a sentence that begins with "failed to place the services of FILE: ".
#[derive(Debug, thiserror::Error)]
pub enum ServicesError {
    /// The text is not an answer of `pack plan`.
    #[error("it is not an answer of `evenkeel pack plan --json`: {0}")]
    Text(serde_json::Error),
    /// A newer program wrote it.
    #[error("this evenkeel does not know format {0}; use the version that wrote it")]
    Format(u32),
    /// There are more sessions than a placement may have.
    #[error("more than {SESSIONS_MAX} sessions")]
    TooMany,
    /// Some sessions have no place.
    #[error("{0} of the sessions have no place")]
    LeftOut(u64),
    /// A session has no service.
    #[error("session {0:?} has no unit")]
    NoUnit(String),
    /// The number of services differs from the number of sessions, a name is wrong, or two services have one name.
    #[error("session {session:?}: {why}")]
    Unit {
        /// The name of the session.
        session: String,
        /// What is wrong.
        why: String,
    },
    /// The plan was made for another machine.
    #[error("session {session:?}: {why}; the plan was made for another machine, or this one has changed")]
    Machine {
        /// The name of the session.
        session: String,
        /// The CPU or node that this machine does not have, as text.
        why: String,
    },
}

/// The fields of a saved answer that evenkeel uses. It computes the lines for units and for `taskset` again.
#[derive(Deserialize)]
struct Saved {
    format: u32,
    placements: Vec<SavedPlacement>,
    left_out: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct SavedPlacement {
    session: String,
    count: u32,
    cpus: String,
    node: Option<u32>,
    #[serde(default)]
    units: Vec<String>,
    cpu_weight: Option<u32>,
}

impl SavedPlacement {
    fn from_report(one: &Placement) -> SavedPlacement {
        SavedPlacement {
            session: one.session.clone(),
            count: one.count,
            cpus: one.cpus.to_string(),
            node: one.node,
            units: one.units.clone(),
            cpu_weight: one.cpu_weight,
        }
    }

    fn services(&self) -> Result<Vec<Service>, ServicesError> {
        let wrong = |why: String| ServicesError::Unit { session: self.session.clone(), why };
        if self.units.is_empty() {
            return Err(ServicesError::NoUnit(self.session.clone()));
        }
        if self.units.len() != self.count as usize {
            return Err(wrong(format!("{} units for {} sessions", self.units.len(), self.count)));
        }
        let cpus = CpuSet::parse_list(&self.cpus).filter(|cpus| !cpus.is_empty());
        let cpus = cpus.ok_or_else(|| wrong(format!("{:?} is not a list of CPUs", self.cpus)))?;
        if self.cpu_weight.is_some_and(|weight| !(1..=CPU_WEIGHT_MAX).contains(&weight)) {
            return Err(wrong(format!("a weight is from 1 to {CPU_WEIGHT_MAX}")));
        }
        let service = |name: &String| {
            let unit: ServiceName = name.parse().map_err(|error| wrong(format!("{error}")))?;
            let unit = SessionUnit { unit, cpus: cpus.clone(), node: self.node, cpu_weight: self.cpu_weight };
            Ok(Service { session: self.session.clone(), unit })
        };
        self.units.iter().map(service).collect()
    }
}

/// The services of a placement.
///
/// # Errors
/// If a session has no place or no service.
pub fn services(report: &Report, machine: &Machine) -> Result<Vec<Service>, ServicesError> {
    let left_out = report.left_out.iter().map(|one| u64::from(one.count)).sum();
    let placements = report.placements.iter().map(SavedPlacement::from_report).collect();
    checked(placements, left_out, machine)
}

/// The services in a saved answer of `evenkeel pack plan --json`.
///
/// # Errors
/// If the text is not such an answer, a session has no place or no service, or the machine does not have a session's CPUs.
pub fn parse_services(text: &str, machine: &Machine) -> Result<Vec<Service>, ServicesError> {
    let saved: Saved = serde_json::from_str(text).map_err(ServicesError::Text)?;
    if saved.format != FORMAT {
        return Err(ServicesError::Format(saved.format));
    }
    checked(saved.placements, saved.left_out.len() as u64, machine)
}

fn checked(placements: Vec<SavedPlacement>, left_out: u64, machine: &Machine) -> Result<Vec<Service>, ServicesError> {
    if left_out > 0 {
        return Err(ServicesError::LeftOut(left_out));
    }
    let mut all: Vec<Service> = Vec::new();
    let mut seen = rustc_hash::FxHashSet::default();
    for placement in &placements {
        for mut service in placement.services()? {
            if !seen.insert(service.unit.unit.to_string()) {
                let why = format!("another session has the unit {} too", service.unit.unit);
                return Err(ServicesError::Unit { session: service.session, why });
            }
            if all.len() as u64 == SESSIONS_MAX {
                return Err(ServicesError::TooMany);
            }
            fit(&mut service, machine)?;
            all.push(service);
        }
    }
    Ok(all)
}

/// Checks that the machine has the service's CPUs and nodes.
fn fit(service: &mut Service, machine: &Machine) -> Result<(), ServicesError> {
    let unit = &mut service.unit;
    let missing = |why: String| Err(ServicesError::Machine { session: service.session.clone(), why });
    for cpu in unit.cpus.iter() {
        match machine.cpus.binary_search_by_key(&cpu, |one| one.cpu).ok().map(|at| &machine.cpus[at]) {
            None => return missing(format!("CPU {cpu} does not run here")),
            Some(one) if !one.is_allowed => return missing(format!("the control group may not use CPU {cpu}")),
            Some(one) if unit.node.is_some() && machine.nodes[one.node].node != unit.node => {
                return missing(format!("CPU {cpu} is not in node {}", unit.node.unwrap_or_default()));
            }
            Some(_) => {}
        }
    }
    // On a machine with one node, a line that names the node would have no effect.
    unit.node = unit.node.filter(|_| machine.nodes.len() > 1);
    Ok(())
}
