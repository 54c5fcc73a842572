//! Decisions that several knobs share: the scheduler's times, the two forms of one limit, frequencies by policy, memory nodes.

use crate::fact::Fact;
use crate::facts::{Cloud, Facts, FrequencyPolicy, Lockdown, Nic, Node, reads};
use crate::finding::{Finding, State, own, own_number};
use crate::knob::{Knob, Place, file_in};

/// The number in a scheduler file, and the file's path. The file moved from /proc/sys to debugfs.
/// The kernel's lockdown disables debugfs even for root. The finding then says that the value to try, `candidate`, is blocked.
pub(crate) fn scheduler_number(facts: &Facts, knob: &Knob, candidate: i64) -> Result<(&'static str, i64), Finding> {
    let Place::FileSince { files, .. } = knob.place else {
        return Err(Finding::new(State::Unknown, knob.id, "it has no places"));
    };
    let Some(version) = facts.kernel.version.known() else {
        return Err(Finding::unknown(knob.id, "the kernel's version", &facts.kernel.version));
    };
    let Some(path) = file_in(facts, files) else {
        let since = files.iter().find(|since| since.path.is_none()).map(|since| since.kernel);
        return Err(match since {
            Some((major, minor)) if (version.major, version.minor) >= (major, minor) => {
                Finding::new(State::Removed, knob.id, format!("removed in Linux {major}.{minor}; {}", knob.kernels))
            }
            _ => Finding::not_here(knob.id, "this kernel is too old to have it"),
        });
    };
    let fact = facts.sysctl(path);
    let is_locked = facts.kernel.lockdown.known().is_some_and(|level| *level != Lockdown::None);
    match &fact {
        Fact::Forbidden { why } => Err(shut(path, candidate, why)),
        Fact::Denied { why } if is_locked => Err(shut(path, candidate, why)),
        Fact::Denied { why } => Err(Finding::new(State::Unknown, path, format!("you need root to read it: {why}"))),
        Fact::Absent { .. } if path.starts_with("/sys/kernel/debug/") => Err(Finding::not_here(
            path,
            "not present here: debugfs is not mounted, or the kernel does not show its scheduler there",
        )),
        _ => Ok((path, own_number(facts, path)?)),
    }
}

/// The finding if the kernel's lockdown prevents reading.
fn shut(path: &str, candidate: i64, why: &str) -> Finding {
    let finding =
        Finding::new(State::Blocked, path, format!("the kernel's lockdown disables debugfs, even for root: {why}"));
    Finding { wanted: Some(candidate.to_string()), ..finding }
}

/// The kernel's factor for its scheduler times (`get_update_sysctl_factor` in `kernel/sched/fair.c`).
/// The factor is 1 for one CPU, 2 for two, 3 from four on, and 4 from eight on.
pub(crate) fn scheduler_scale(facts: &Facts) -> Option<i64> {
    let online = facts.cpus.online.known()?.len().clamp(1, 8);
    Some(i64::from(online.ilog2()) + 1)
}

/// The kernel's default for one of its scheduler times, in nanoseconds. `unscaled_ns` is the value for one CPU.
pub(crate) fn times_by_cpus(facts: &Facts, knob: &Knob, unscaled_ns: i64) -> Result<i64, Finding> {
    match scheduler_scale(facts) {
        Some(scale) => Ok(scale * unscaled_ns),
        None => Err(Finding::unknown(knob.id, "how many CPUs there are", &facts.cpus.online)),
    }
}

/// The finding for a limit on dirty memory in bytes. Its partner is the same limit as a share of memory, and only one of them is in use.
pub(crate) fn spelled_in_bytes(facts: &Facts, path: &str, share: &str) -> Result<Finding, Finding> {
    let current = own_number(facts, path)?;
    let reason = match u64::try_from(current) {
        Ok(0) => format!("{share} is in use instead"),
        Ok(bytes) => format!("this one is in use, with {}", size(bytes)),
        Err(_) => "a number of bytes below 0 is not a limit".to_owned(),
    };
    Ok(Finding::keep(path, reason).at(current))
}

/// Whether CPUs may run above their nominal frequency. The file with this switch allows that with the value `fast`.
pub(crate) fn boosted(path: &str, switch: &Fact<bool>, fast: bool) -> Result<Finding, Finding> {
    let on = own(path, switch)?;
    let finding = if on == fast {
        Finding::keep(path, "cores may run above their nominal frequency, which suits a server with one busy thread")
    } else {
        let wanted = u8::from(fast);
        Finding::set(path, wanted, "cores stay at or below their nominal frequency, which slows every tick")
    };
    Ok(finding.at(u8::from(on)))
}

/// The memory nodes, if there are several. Otherwise the finding with the reason.
pub(crate) fn several_nodes<'a>(facts: &'a Facts, place: &str) -> Result<&'a [Node], Finding> {
    match &facts.numa.nodes {
        Fact::Known(nodes) if nodes.len() > 1 => Ok(nodes),
        Fact::Known(_) => Err(Finding::inert(place, "there is one memory node: all memory is equally close")),
        unknown => Err(Finding::unknown(place, "how many memory nodes there are", unknown)),
    }
}

/// The smallest number of CPUs of any memory node.
pub(crate) fn cpus_of_a_node(nodes: &[Node]) -> Option<u64> {
    nodes.iter().filter_map(|node| node.cpus.known()).map(|cpus| cpus.len() as u64).filter(|count| *count > 0).min()
}

/// One finding per group of CPUs that share a frequency. Without such groups, one finding for the machine.
pub(crate) fn each_policy(
    facts: &Facts,
    knob: &Knob,
    decide: impl Fn(&FrequencyPolicy) -> Result<Finding, Finding>,
) -> Vec<Finding> {
    match &facts.frequency.policies {
        Fact::Known(policies) if !policies.is_empty() => {
            policies.iter().map(|policy| decide(policy).unwrap_or_else(|finding| finding)).collect()
        }
        Fact::Known(_) | Fact::Absent { .. } => {
            vec![Finding::not_here(
                knob.id,
                "there is no frequency driver here: the hypervisor or the firmware controls the frequency",
            )]
        }
        unknown => vec![Finding::unknown(knob.id, "which CPUs share a frequency", unknown)],
    }
}

/// `12.3 GiB`, `64 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        _ if bytes >= 1 << 30 => format!("{:.1} GiB", bytes as f64 / (1 << 30) as f64),
        _ if bytes >= MIB => format!("{} MiB", bytes / MIB),
        _ => format!("{} KiB", bytes / 1024),
    }
}

/// The finding of a knob with one place, as a list.
pub(crate) fn one(found: Result<Finding, Finding>) -> Vec<Finding> {
    vec![found.unwrap_or_else(|finding| finding)]
}

/// Applies `decide` to each interface with hardware.
pub(crate) fn each_interface(
    facts: &Facts,
    id: &str,
    decide: impl Fn(&Nic) -> Result<Finding, Finding>,
) -> Vec<Finding> {
    if facts.network.nics.known().is_none() {
        return vec![Finding::unknown(id, "which network interfaces there are", &facts.network.nics)];
    }
    let findings: Vec<Finding> =
        facts.network.hardware().map(|nic| decide(nic).unwrap_or_else(|finding| finding)).collect();
    if findings.is_empty() {
        return vec![Finding::not_here(id, "no interface has hardware")];
    }
    findings
}

/// A text for a reason: the count of packets that were dropped because a socket buffer was full.
pub(crate) fn full_buffers(facts: &Facts) -> String {
    let count = facts.counters.udp_sum(|udp| Some(udp.rcvbuf_errors));
    reads(
        "RcvbufErrors",
        count,
        "no packet was lost this way",
        "this many packets were dropped because a socket's buffer was full",
    )
}

/// How many CPUs a server may use here: running CPUs that the control group allows.
pub(crate) fn usable_cpus(facts: &Facts) -> Option<usize> {
    let online = facts.cpus.online.known()?;
    Some(facts.limits.cpus_allowed.known().map_or(online.len(), |allowed| online.and(allowed).len()))
}

/// `1 CPU`, `2 CPUs`.
pub(crate) fn cpus(count: usize) -> String {
    if count == 1 { "1 CPU".to_owned() } else { format!("{count} CPUs") }
}

/// The instance type, if it has CPU credits (Amazon's T family). Polling spends these credits.
pub(crate) fn burstable(facts: &Facts) -> Option<&str> {
    let instance = facts.machine.instance_type.known()?;
    let mut letters = instance.bytes();
    let is_t = letters.next() == Some(b't') && letters.next().is_some_and(|letter| letter.is_ascii_digit());
    (facts.machine.cloud.known() == Some(&Cloud::Aws) && is_t).then_some(instance)
}
