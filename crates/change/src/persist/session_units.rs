//! Drop-ins for the systemd services of sessions: the CPUs, the memory node and the weight of each.
//! These values come from a placement of sessions, not from a setting.

use std::fmt::Write;

use evenkeel_host::facts::{Facts, Init};
use evenkeel_host::{Action, Plan, Step, TakesEffect};
use evenkeel_hostfs::{Root, Why};
use evenkeel_sys::CpuSet;
use serde::Serialize;

use super::units;
use crate::ServiceName;
use crate::persist_plan::{Carried, Content, PersistPlan, PersistedFile};

/// The maximum number of services in one transaction. The journal holds the record of a transaction in one line.
pub const SESSION_UNITS_MAX: usize = 1000;

/// The name of our file in each service's folder.
/// A different file, `90-evenkeel.conf`, has the settings of the one server that the user names.
const FILE: &str = "91-evenkeel-pack.conf";

/// This file shows whether systemd manages version 2 of control groups, and with which controllers.
const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";

/// How systemd gives a service its CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UnitLines {
    /// By the service's control group (version 2). This takes effect at once, also for running threads.
    ControlGroup,
    /// By the service's processes, from their next start on.
    Process,
}

impl UnitLines {
    /// Finds the method that this machine offers.
    ///
    /// # Errors
    /// Why the method is unknown.
    pub fn of_machine(root: &Root) -> Result<UnitLines, String> {
        match root.text(CONTROLLERS) {
            Ok(text) if text.split_whitespace().any(|controller| controller == "cpuset") => Ok(UnitLines::ControlGroup),
            Ok(_) => Ok(UnitLines::Process),
            Err(refusal) if matches!(refusal.why, Why::Errno(errno) if errno.is_absence()) => Ok(UnitLines::Process),
            Err(refusal) => Err(refusal.to_string()),
        }
    }
}

/// The folders in which systemd finds units.
const FOLDERS: [&str; 7] = [
    units::UNITS,
    "/run/systemd/system",
    "/run/systemd/transient",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Whether systemd has a unit of this name. A drop-in alone does not create a unit.
///
/// # Errors
/// Why the answer is unknown.
pub fn has_unit_file(root: &Root, unit: &ServiceName) -> Result<bool, String> {
    let mut names = vec![unit.to_string(), unit.template()];
    names.dedup();
    let mut unknown = None;
    for path in FOLDERS.iter().flat_map(|folder| names.iter().map(move |name| format!("{folder}/{name}"))) {
        match root.text(&path) {
            Ok(_) => return Ok(true),
            Err(refusal) if matches!(refusal.why, Why::Errno(errno) if errno.is_absence()) => {}
            Err(refusal) => unknown = unknown.or(Some(refusal.to_string())),
        }
    }
    unknown.map_or(Ok(false), Err)
}

/// Whether a path is the path of a drop-in that `pack apply` wrote.
pub fn is_session_unit(path: &str) -> bool {
    path.starts_with(units::UNITS) && path.ends_with(&format!("/{FILE}"))
}

/// The service of one session, and its CPUs, memory node and weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionUnit {
    /// The service's name.
    pub unit: ServiceName,
    /// The CPUs that the service may run on.
    pub cpus: CpuSet,
    /// The memory node to which the service's memory is bound; `None` if it is not bound.
    pub node: Option<u32>,
    /// The service's weight for the scheduler; `None` keeps the default.
    pub cpu_weight: Option<u32>,
}

impl SessionUnit {
    /// The path of its drop-in.
    pub fn path(&self) -> String {
        format!("{}/{}.d/{FILE}", units::UNITS, self.unit)
    }

    /// The text of the drop-in.
    /// systemd appends a list to the list of an earlier file,
    /// so each list begins with an empty value, which clears the list.
    fn text(&self, lines: UnitLines) -> String {
        let mut text = format!("{HEAD}[Service]\n");
        let cpus = &self.cpus;
        // Writing to a String cannot fail.
        let _ = match (lines, self.node) {
            (UnitLines::ControlGroup, None) => write!(text, "AllowedCPUs=\nAllowedCPUs={cpus}\n"),
            (UnitLines::ControlGroup, Some(node)) => {
                write!(text, "AllowedCPUs=\nAllowedCPUs={cpus}\nAllowedMemoryNodes=\nAllowedMemoryNodes={node}\n")
            }
            (UnitLines::Process, None) => write!(text, "CPUAffinity=\nCPUAffinity={cpus}\n"),
            (UnitLines::Process, Some(node)) => {
                write!(text, "CPUAffinity=\nCPUAffinity={cpus}\nNUMAPolicy=bind\nNUMAMask=\nNUMAMask={node}\n")
            }
        };
        if let Some(weight) = self.cpu_weight {
            let _ = writeln!(text, "CPUWeight={weight}");
        }
        text
    }
}

/// The first line of each drop-in.
const HEAD: &str = "# Written by `evenkeel pack apply`; `evenkeel revert` removes it.\n";

/// The drop-ins of these services, and steps. With the steps, `verify` shows which services run on their CPUs.
///
/// # Errors
/// If this machine does not use systemd, or there are too many services.
/// The message continues a sentence that begins with "failed to".
pub fn session_units(facts: &Facts, lines: UnitLines, sessions: &[SessionUnit]) -> Result<(Plan, PersistPlan), String> {
    if let Some(Init::Other(init)) = facts.boot.init.known() {
        return Err(format!(
            "place services: this machine uses {init}, and evenkeel can only write drop-ins of systemd"
        ));
    }
    if sessions.len() > SESSION_UNITS_MAX {
        let count = sessions.len();
        return Err(format!("place {count} services: one transaction has at most {SESSION_UNITS_MAX}"));
    }
    let takes_effect = match lines {
        UnitLines::ControlGroup => TakesEffect::AtOnce,
        UnitLines::Process => TakesEffect::ProcessStart,
    };
    let (mut plan, mut persist) = (Plan::default(), PersistPlan::default());
    for session in sessions {
        let path = session.path();
        let text = session.text(lines);
        let mut add = |knob: &str, wanted: String| {
            let place = session.unit.to_string();
            let setting = format!("{knob}@{place}={wanted}");
            persist.carried.push(Carried { setting, by: path.clone(), takes_effect });
            plan.steps.push(Step { knob: knob.to_owned(), place, wanted, action: Action::Process });
        };
        add("process.cpu_affinity", session.cpus.to_string());
        // The kernel shows the memory policy of a process, but not the effect of its control group's nodes.
        // So evenkeel can verify only the policy.
        if let (UnitLines::Process, Some(node)) = (lines, session.node) {
            add("process.numa_policy", node.to_string());
        }
        persist.files.push(PersistedFile { path, content: Content::Whole { text, mode: 0o644 } });
    }
    if let Some(first) = persist.files.first() {
        let mut reload = units::daemon_reload(&first.path);
        reload.after = persist.files.iter().map(|file| file.path.clone()).collect();
        persist.commands.push(reload);
    }
    Ok((plan, persist))
}
