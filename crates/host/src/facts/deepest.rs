//! The deepest idle state that a CPU may use, and what excludes deeper states.
//! A kernel argument, a disabled state, or a limit on the wake-up time may exclude states.

use super::idle::{DeepestAllowed, Idle, IdleState};
use super::kernel::Kernel;
use crate::fact::Fact;

/// Adds the deepest allowed state to the idle states.
pub(super) fn judged(idle: Idle, kernel: &Kernel) -> Idle {
    Idle { deepest_allowed: allowed(&idle, kernel), ..idle }
}

/// Selects from the states of CPU 0 as the governors do (`menu_select` of `drivers/cpuidle/governors/menu.c`).
/// A disabled state is not selected, and neither is a state with an exit latency above the lowest limit.
fn allowed(idle: &Idle, kernel: &Kernel) -> Fact<DeepestAllowed> {
    let mut limited_by = arguments(idle, kernel);
    match &idle.driver {
        Fact::Known(driver) if driver == "none" => {
            return Fact::absent(match limited_by.first() {
                Some(limit) => format!("there is no idle driver: {limit}"),
                None => "there is no idle driver: the hypervisor decides how deep CPUs sleep".to_owned(),
            });
        }
        Fact::Known(_) => {}
        unknown => return unknown.clone().map(|_| nothing()),
    }
    let states = match &idle.states {
        Fact::Known(states) => states,
        unknown => return unknown.clone().map(|_| nothing()),
    };
    let mut unseen = Vec::new();
    let bound_us = bound(idle, &mut limited_by, &mut unseen);
    let mut best: Option<(String, u64)> = None;
    for state in states {
        let name = name(state);
        let Fact::Known(exit_us) = state.exit_latency_us else {
            unseen.push(format!("how long {name} takes to leave"));
            continue;
        };
        match state.disabled {
            Fact::Known(true) => limited_by.push(format!("{name} is disabled")),
            Fact::Known(false) if bound_us.is_none_or(|bound| exit_us <= bound) => {
                best = best.filter(|(_, other)| *other > exit_us).or(Some((name, exit_us)));
            }
            Fact::Known(false) => {}
            _ => unseen.push(format!("whether {name} is disabled")),
        }
    }
    let (name, exit_latency_us) = best.unwrap_or(("none".to_owned(), 0));
    Fact::Known(DeepestAllowed { name, exit_latency_us, limited_by, unseen })
}

fn nothing() -> DeepestAllowed {
    DeepestAllowed { name: String::new(), exit_latency_us: 0, limited_by: Vec::new(), unseen: Vec::new() }
}

fn name(state: &IdleState) -> String {
    state.name.known().cloned().unwrap_or_else(|| format!("state {}", state.index))
}

/// The arguments of the driver in use. Arguments of other drivers limit nothing.
fn arguments(idle: &Idle, kernel: &Kernel) -> Vec<String> {
    let is_driver = |name: &str| idle.driver.known().is_some_and(|driver| driver == name);
    let heeded = [
        ("intel_idle.max_cstate", is_driver("intel_idle") || kernel.argument("intel_idle.max_cstate") == Some("0")),
        ("processor.max_cstate", is_driver("acpi_idle")),
        ("idle", true),
        ("cpuidle.off", true),
    ];
    let stands = |(name, is_heeded): (&str, bool)| {
        let value = kernel.argument(name).filter(|_| is_heeded)?;
        Some(format!("{name}={value} on the kernel's command line"))
    };
    heeded.into_iter().filter_map(stands).collect()
}

/// The lowest limit on the wake-up time, in microseconds. `None` if there is no limit.
fn bound(idle: &Idle, limited_by: &mut Vec<String>, unseen: &mut Vec<String>) -> Option<u64> {
    /// `PM_QOS_CPU_LATENCY_DEFAULT_VALUE`: the device has this value if no process requests less.
    const NO_BOUND_US: u64 = 2_000_000_000;
    let held = match &idle.dma_latency_us {
        Fact::Known(held) => Some(*held).filter(|held| *held < NO_BOUND_US),
        // If the kernel does not have the device, no process holds it.
        Fact::Absent { .. } => None,
        unknown => {
            unseen.push(unknown.unknown_why().unwrap_or_default().to_owned());
            None
        }
    };
    limited_by.extend(held.map(|held| format!("a process holds /dev/cpu_dma_latency at {held} us")));
    let own = match &idle.resume_latency_us {
        Fact::Known(text) if text == "0" => None,
        Fact::Known(text) if text == "n/a" => Some(0),
        Fact::Known(text) => {
            let own = text.parse().ok();
            if own.is_none() {
                unseen.push(format!("pm_qos_resume_latency_us says {text:?}"));
            }
            own
        }
        Fact::Absent { .. } => None,
        unknown => {
            unseen.push(unknown.unknown_why().unwrap_or_default().to_owned());
            None
        }
    };
    limited_by.extend(own.map(|own: u64| format!("pm_qos_resume_latency_us of CPU 0 allows {own} us")));
    held.into_iter().chain(own).min()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{base, with_idle};

    /// The deepest allowed state on an Intel machine with three states, with these arguments, limits and disabled states.
    fn as_text(arguments: &str, held: Fact<u64>, own: &str, off: &[usize]) -> String {
        let mut facts = base();
        with_idle("intel_idle", &[("POLL", 0), ("C1", 2), ("C6", 133)])(&mut facts);
        facts.kernel.command_line = Fact::Known(arguments.split_whitespace().map(str::to_owned).collect());
        (facts.idle.dma_latency_us, facts.idle.resume_latency_us) = (held, Fact::Known(own.to_owned()));
        if let Fact::Known(states) = &mut facts.idle.states {
            off.iter().for_each(|at| states[*at].disabled = Fact::Known(true));
        }
        serde_json::to_string(&allowed(&facts.idle, &facts.kernel)).unwrap() + "\n"
    }

    #[test]
    fn the_limit_of_idle_states_is_named() {
        let free = || Fact::Known(2_000_000_000);
        let denied = Fact::Denied { why: "/dev/cpu_dma_latency: permission denied (EACCES)".to_owned() };
        let seen = [
            as_text("", free(), "0", &[]),
            as_text("intel_idle.max_cstate=1 processor.max_cstate=1", free(), "0", &[2]),
            as_text("", Fact::Known(2), "0", &[]),
            as_text("", free(), "1", &[]),
            as_text("", free(), "n/a", &[]),
            as_text("", free(), "n/a", &[0]),
            as_text("idle=nomwait", denied, "0", &[2]),
            as_text("", Fact::absent("no such device"), "strange", &[]),
        ];
        expect![[r#"
            {"name":"C6","exit_latency_us":133,"limited_by":[],"unseen":[]}
            {"name":"C1","exit_latency_us":2,"limited_by":["intel_idle.max_cstate=1 on the kernel's command line","C6 is disabled"],"unseen":[]}
            {"name":"C1","exit_latency_us":2,"limited_by":["a process holds /dev/cpu_dma_latency at 2 us"],"unseen":[]}
            {"name":"POLL","exit_latency_us":0,"limited_by":["pm_qos_resume_latency_us of CPU 0 allows 1 us"],"unseen":[]}
            {"name":"POLL","exit_latency_us":0,"limited_by":["pm_qos_resume_latency_us of CPU 0 allows 0 us"],"unseen":[]}
            {"name":"none","exit_latency_us":0,"limited_by":["pm_qos_resume_latency_us of CPU 0 allows 0 us","POLL is disabled"],"unseen":[]}
            {"name":"C1","exit_latency_us":2,"limited_by":["idle=nomwait on the kernel's command line","C6 is disabled"],"unseen":["/dev/cpu_dma_latency: permission denied (EACCES)"]}
            {"name":"C6","exit_latency_us":133,"limited_by":[],"unseen":["pm_qos_resume_latency_us says \"strange\""]}
        "#]].assert_eq(&seen.concat());
    }

    #[test]
    fn without_a_driver_nothing_is_allowed_or_forbidden() {
        let as_text = |driver: Fact<String>, arguments: &str| {
            let mut facts = base();
            facts.idle.driver = driver;
            facts.kernel.command_line = Fact::Known(arguments.split_whitespace().map(str::to_owned).collect());
            serde_json::to_string(&allowed(&facts.idle, &facts.kernel)).unwrap() + "\n"
        };
        let none = || Fact::Known("none".to_owned());
        let seen = [
            as_text(none(), ""),
            as_text(none(), "idle=poll"),
            as_text(none(), "intel_idle.max_cstate=1"),
            as_text(Fact::absent("no cpuidle"), ""),
            as_text(Fact::Unseen { why: "it is not in the capture".to_owned() }, ""),
        ];
        expect![[r#"
            {"unknown":"absent","why":"there is no idle driver: the hypervisor decides how deep CPUs sleep"}
            {"unknown":"absent","why":"there is no idle driver: idle=poll on the kernel's command line"}
            {"unknown":"absent","why":"there is no idle driver: the hypervisor decides how deep CPUs sleep"}
            {"unknown":"absent","why":"no cpuidle"}
            {"unknown":"absent","why":"it is not in the capture"}
        "#]]
        .assert_eq(&seen.concat());
    }
}
