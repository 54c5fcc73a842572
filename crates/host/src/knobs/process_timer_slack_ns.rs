//! How late the kernel may end a sleep of the server, so that several sleeps end together.

use crate::extras::{Counter, Extras, Lasts, Owner, Process, ProcessValue, ServerUnit, Wait};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

/// The place of all properties of the server's own process.
const PLACE: &str = "server";

pub(super) const KNOB: Knob = Knob {
    id: "process.timer_slack_ns",
    title: "how late the server's sleeps may end",
    area: Area::Process,
    place: Place::Process,
    values: Values::Number { min: 1, max: 1_000_000_000, unit: "ns" },
    default: "50000, inherited from the process that starts the server",
    takes_effect: TakesEffect::ProcessStart,
    mechanism: "The kernel may end a sleep later than requested, by up to this much, so that nearby timers end together. At \
        the default, every tick that a server starts with nanosleep, poll or epoll_wait is up to 50 us late. Real-time \
        threads have no slack, and timerfd does not use it. systemd sets it with TimerSlackNSec=.",
    risk: "more wake-ups in a process with many timers",
    shows_in: "/proc/PID/timerslack_ns, the lateness of the server's ticks",
    kernels: "all",
    sources: &[
        Source {
            title: "prctl(2), PR_SET_TIMERSLACK",
            says: "default 50000 ns, inherited; real-time threads have none",
        },
        Source { title: "systemd.exec(5), TimerSlackNSec=", says: "sets it for a service" },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "from 50000 to 1, the median lateness of a 1 ms timer falls from 69.8 to 20.1 us; timerfd is not \
                affected",
        },
    ],
    extras: Extras {
        read_in: &[],
        // No counter shows sleeps that ended late, so the threads' values are read back.
        counter: Some(Counter::ReadBack),
        shortens: Some(Wait::LateTimer),
        process: Some(Process {
            of: Owner::Server,
            while_it_runs: true,
            has: Some(|file, wanted| {
                let slack_ns = file("timerslack_ns")?;
                Some(ProcessValue::new(slack_ns.trim() == wanted, slack_ns.trim()))
            }),
            reset_by: None,
        }),
        lasts: Some(Lasts::ServerUnit(ServerUnit {
            lines: |slack_ns| Some(format!("TimerSlackNSec={slack_ns}\n")),
            ..ServerUnit::NONE
        })),
        called: &["systemd TimerSlackNSec"],
        ..Extras::NONE
    },
    advise,
};

fn advise(_: &Facts, context: &AdviceContext) -> Vec<Finding> {
    vec![match context.goal {
        Goal::Latency => {
            let reason =
                "by default the server's sleeps end up to 50000 ns late; real-time threads and timerfd have no slack";
            Finding::set(PLACE, 1, reason)
        }
        Goal::Throughput | Goal::Density => Finding::keep(
            PLACE,
            format!("timers that end together cost fewer wake-ups, which suits the goal {}", context.goal),
        ),
    }]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::check;

    #[test]
    fn ticks_want_no_slack() {
        let rows = Goal::ALL.map(|goal| ("any machine", goal, &(|_: &mut Facts| {}) as &dyn Fn(&mut Facts)));
        check(
            &KNOB,
            &rows,
            expect![[r#"
                any machine (latency)
                  set server ? -> "1": by default the server's sleeps end up to 50000 ns late; real-time threads and timerfd have no slack
                any machine (throughput)
                  keep server: timers that end together cost fewer wake-ups, which suits the goal throughput
                any machine (density)
                  keep server: timers that end together cost fewer wake-ups, which suits the goal density
            "#]],
        );
    }
}
