//! How long `poll`, `select` and `epoll_wait` poll the network device before they sleep.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt, TunedProfile};
use crate::facts::{CpuLimit, Facts};
use crate::finding::{Finding, own_number};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::{cpus, one, usable_cpus};

const PATH: &str = "/proc/sys/net/core/busy_poll";

/// The value that the kernel's documentation suggests for several sockets.
const WANTED_US: i64 = 50;

/// With fewer CPUs, the CPU that polls would be missing for the server or for interrupts.
const CPUS_MIN: usize = 4;

pub(super) const KNOB: Knob = Knob {
    id: "net.core.busy_poll",
    title: "device polling in poll, select and epoll",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: i32::MAX as i64, unit: "us" },
    default: "0 (off)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A server that waits for packets sleeps until the device interrupts. With this setting, the waiting thread \
        first polls the device's receive queue for this many microseconds. That saves the interrupt and the wake-up. \
        It works only in poll, select and epoll_wait; a server that only calls recv gains nothing. poll and select \
        also need SO_BUSY_POLL on the socket, which net.core.busy_read sets for new sockets. A socket without a NAPI \
        queue (loopback, veth) has nothing to poll.",
    risk: "each waiting thread spins on a CPU, takes time from the CPU's sibling, and uses power",
    shows_in: "BusyPollRxPackets in /proc/net/netstat",
    kernels: "all that are built with CONFIG_NET_RX_BUSY_POLL (the default)",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/net.rst, busy_poll",
            says: "50 for several sockets, 100 for hundreds; beyond that use epoll; default 0",
        },
        Source { title: "Linux Documentation/networking/napi.rst", says: "busy polling trades CPU time for latency" },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "test 50 first, then 100",
        },
        Source { title: "amzn-drivers, ENA_Linux_Best_Practices.rst", says: "70, against the others" },
        Source { title: "TuneD, profile network-latency", says: "50" },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "busy_read of 50 and of 100 changes nothing on loopback and veth",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/net/netstat", names: &["BusyPollRxPackets"] }],
        counter: Some(Counter::BusyPolling),
        worth_a_trial: &["50"],
        tuned: &[TunedProfile::NetworkLatency],
        risk_at: RiskAt::Except(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    let on = |us| format!("waiting threads already poll for {us} us");
    let suits = |us| {
        format!("sources recommend {us}, 70 and 100 us: run `evenkeel prove {}={us}` to measure the effect", KNOB.id)
    };
    one(decide(facts, context.goal, Polling { path: PATH, on, suits }))
}

/// One of the two settings that make a thread poll. Both settings use the same rule for whether polling is useful.
#[derive(Clone, Copy)]
pub(super) struct Polling {
    /// The file of the setting.
    pub(super) path: &'static str,
    /// The reason if the thread already polls for this many microseconds.
    pub(super) on: fn(i64) -> String,
    /// The reason if the thread should poll for this many microseconds.
    pub(super) suits: fn(i64) -> String,
}

pub(super) fn decide(facts: &Facts, goal: Goal, polling: Polling) -> Result<Finding, Finding> {
    let path = polling.path;
    let off = |current, well: fn(&'static str, String) -> Finding, why| off(Polled { path, current }, well, why);
    let current = own_number(facts, path)?;
    if facts.network.nics.known().is_none() {
        return Err(Finding::unknown(path, "which network interfaces there are", &facts.network.nics).at(current));
    }
    let Some(nic) = facts.network.hardware().next() else {
        return Ok(off(current, Finding::not_here, "no interface has hardware to poll behind it".to_owned()));
    };
    let Some(count) = usable_cpus(facts) else {
        return Err(Finding::unknown(path, "how many CPUs there are", &facts.cpus.online).at(current));
    };
    if count <= 1 {
        return Ok(off(
            current,
            Finding::not_here,
            "1 CPU: polling would take CPU time from the server itself".to_owned(),
        ));
    }
    if let Some(CpuLimit::Quota { quota_us, period_us }) = facts.limits.cpu.known() {
        let why =
            format!("the control group gives {quota_us} us of CPU in each {period_us} us, and polling would use it up");
        return Ok(off(current, Finding::not_here, why));
    }
    if goal != Goal::Latency {
        return Ok(off(current, Finding::keep, format!("polling uses CPU time that the goal {goal} needs for work")));
    }
    if count < CPUS_MIN {
        return Ok(off(current, Finding::keep, format!("{}: the server needs the CPU that would poll", cpus(count))));
    }
    if current > 0 {
        return Ok(Finding::keep(path, (polling.on)(current)).at(current));
    }
    let suits = (polling.suits)(WANTED_US);
    let reason = format!("{} and {}, a device with queues to poll: {suits}", cpus(count), nic.name);
    Ok(Finding::set(path, WANTED_US, reason).at(current))
}

/// A file and its content.
struct Polled {
    path: &'static str,
    current: i64,
}

/// Recommends to keep the setting if it is off, and to switch it off if it is on.
fn off(polled: Polled, well: fn(&'static str, String) -> Finding, why: String) -> Finding {
    let Polled { path, current } = polled;
    let finding = if current == 0 { well(path, why) } else { Finding::set(path, 0, why) };
    finding.at(current)
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::CpuSet;
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check, nics, with_cpus, with_sysctl};

    #[test]
    fn it_polls_only_where_there_is_a_device_and_cpus_to_spare() {
        let quota = |facts: &mut Facts| {
            facts.limits.cpu = Fact::Known(CpuLimit::Quota { quota_us: 150_000, period_us: 100_000 });
        };
        check(
            &KNOB,
            &[
                ("4 CPUs", Goal::Latency, &|_| {}),
                ("4 CPUs", Goal::Throughput, &|_| {}),
                ("already on", Goal::Latency, &with_sysctl(PATH, "70")),
                ("already on", Goal::Density, &with_sysctl(PATH, "50")),
                ("2 CPUs", Goal::Latency, &with_cpus(2)),
                ("1 CPU", Goal::Latency, &with_cpus(1)),
                ("a set of 1 CPU of 4", Goal::Latency, &|facts| {
                    facts.limits.cpus_allowed = Fact::Known([3].into_iter().collect::<CpuSet>());
                }),
                ("a quota", Goal::Latency, &quota),
                ("a quota, on", Goal::Latency, &|facts| {
                    quota(facts);
                    with_sysctl(PATH, "50")(facts);
                }),
                ("loopback only", Goal::Latency, &|facts| nics(facts).retain(|nic| nic.name == "lo")),
                ("interfaces unknown", Goal::Latency, &|facts| facts.network.nics = Fact::absent("no /sys here")),
                ("CPUs unknown", Goal::Latency, &|facts| facts.cpus.online = Fact::odd("/x", "?", "no list")),
            ],
            expect![[r#"
                4 CPUs (latency)
                  set /proc/sys/net/core/busy_poll "0" -> "50": 4 CPUs and eth0, a device with queues to poll: sources recommend 50, 70 and 100 us: run `evenkeel prove net.core.busy_poll=50` to measure the effect
                4 CPUs (throughput)
                  keep /proc/sys/net/core/busy_poll "0": polling uses CPU time that the goal throughput needs for work
                already on (latency)
                  keep /proc/sys/net/core/busy_poll "70": waiting threads already poll for 70 us
                already on (density)
                  set /proc/sys/net/core/busy_poll "50" -> "0": polling uses CPU time that the goal density needs for work
                2 CPUs (latency)
                  keep /proc/sys/net/core/busy_poll "0": 2 CPUs: the server needs the CPU that would poll
                1 CPU (latency)
                  not-here /proc/sys/net/core/busy_poll "0": 1 CPU: polling would take CPU time from the server itself
                a set of 1 CPU of 4 (latency)
                  not-here /proc/sys/net/core/busy_poll "0": 1 CPU: polling would take CPU time from the server itself
                a quota (latency)
                  not-here /proc/sys/net/core/busy_poll "0": the control group gives 150000 us of CPU in each 100000 us, and polling would use it up
                a quota, on (latency)
                  set /proc/sys/net/core/busy_poll "50" -> "0": the control group gives 150000 us of CPU in each 100000 us, and polling would use it up
                loopback only (latency)
                  not-here /proc/sys/net/core/busy_poll "0": no interface has hardware to poll behind it
                interfaces unknown (latency)
                  unknown /proc/sys/net/core/busy_poll "0": which network interfaces there are is not known: no /sys here
                CPUs unknown (latency)
                  unknown /proc/sys/net/core/busy_poll "0": how many CPUs there are is not known: no list
            "#]],
        );
    }
}
