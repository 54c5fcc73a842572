//! Why sessions have no place: the resource that is scarce.

use serde::Serialize;

use super::asked::Options;
use super::greedy::Placed;
use super::kinds::{Kind, share};
use super::problem::Problem;
use super::state::State;
use crate::sessions::Session;

/// Equal sessions without a place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The name in the table.
    pub session: String,
    /// The number of these sessions.
    pub count: u32,
    /// The scarce resource.
    pub resource: Resource,
    /// The reason, in a sentence.
    pub why: String,
}

/// The scarce resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// CPUs with a load below the bound.
    Cpu,
    /// CPUs of one node, for a session that needs several CPUs.
    Node,
    /// Memory of a node, or the memory limit of the control group.
    Memory,
    /// The CPU quota of the control group.
    Quota,
    /// The time between ticks: the work of a tick, at its p99, is longer.
    Tick,
}

/// For each kind, why one session alone would not fit. `None` for kinds that would fit.
pub(super) fn never(problem: &Problem, kinds: &[Kind], options: &Options) -> Vec<Option<(Resource, String)>> {
    let empty = State::new(problem);
    let cpus = |node: usize, kind: &usize| {
        (0..problem.slots.len()).filter(|slot| problem.slots[*slot].node == node && empty.fits(*slot, *kind)).count()
            as u32
    };
    let reason = |(kind, of): (usize, &Kind)| {
        let need = &of.need;
        if need.is_tick_too_long {
            return Some((Resource::Tick, "the p99 of a tick's work is longer than the time between ticks".to_owned()));
        }
        let nodes: Vec<usize> = (0..problem.memory.len()).filter(|node| cpus(*node, &kind) >= need.width).collect();
        if nodes.is_empty() && need.width > 1 {
            let why = format!(
                "it needs {} CPUs at a load of {}, and no node has as many for sessions",
                need.width,
                share(need.load)
            );
            return Some((Resource::Node, why));
        }
        if nodes.is_empty() {
            let why = match need.is_exclusive {
                true => {
                    format!("it loads a CPU above {} by itself, and no CPU is for sessions alone", options.load_max)
                }
                false => "no CPU has room for its load".to_owned(),
            };
            return Some((Resource::Cpu, why));
        }
        if nodes.iter().all(|node| problem.memory[*node] < need.memory_kib) {
            return Some((Resource::Memory, "no node has the memory for it".to_owned()));
        }
        if !empty.is_within_memory_limit(kind) {
            return Some((Resource::Memory, format!("{} is less than it needs", memory_limit(problem))));
        }
        (!empty.has_quota(kind))
            .then(|| (Resource::Quota, format!("the CPU quota of {} is less than it needs", problem.limits_of)))
    };
    kinds.iter().enumerate().map(reason).collect()
}

/// Why one more session of this kind does not fit next to the placed ones.
pub(super) fn reason(problem: &Problem, placed: &[Placed], kind: usize) -> (Resource, String) {
    let mut state = State::new(problem);
    placed.iter().for_each(|one| state.put(&one.slots, one.kind));
    let need = &problem.kinds[kind].need;
    let fitting = |node: usize| {
        (0..problem.slots.len()).filter(|slot| problem.slots[*slot].node == node && state.fits(*slot, kind)).count()
            as u32
    };
    let with_cpus: Vec<usize> = (0..problem.memory.len()).filter(|node| fitting(*node) >= need.width).collect();
    if !state.has_quota(kind) {
        return (Resource::Quota, format!("the CPU quota of {} is used up", problem.limits_of));
    }
    if !state.is_within_memory_limit(kind) {
        return (Resource::Memory, format!("{} is used up", memory_limit(problem)));
    }
    if with_cpus.is_empty() {
        let why =
            if need.width > 1 { "no node has enough CPUs with room left" } else { "no CPU has room left for its load" };
        return (Resource::Cpu, why.to_owned());
    }
    (Resource::Memory, "no node with room on a CPU has the memory left".to_owned())
}

fn memory_limit(problem: &Problem) -> String {
    format!("the memory limit of {} ({} MiB)", problem.limits_of, problem.memory_limit / 1024)
}

/// The rows of a kind whose sessions have no place. The first `placed` sessions of the kind have a place.
pub(super) fn rows(
    sessions: &[Session],
    kind: &Kind,
    mut placed: u32,
    (resource, why): &(Resource, String),
) -> Vec<LeftOut> {
    let mut left_out = Vec::new();
    for (row, count) in &kind.rows {
        let has_place = placed.min(*count);
        placed -= has_place;
        if has_place < *count {
            left_out.push(LeftOut {
                session: sessions[*row].name.clone(),
                count: count - has_place,
                resource: *resource,
                why: why.clone(),
            });
        }
    }
    left_out
}
