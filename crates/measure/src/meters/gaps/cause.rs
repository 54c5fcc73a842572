//! Assigns a gap to a cause. This needs no tracer: the kernel's counts of our own thread suffice for most gaps.

use serde::Serialize;

/// Who took the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Another thread of this machine ran.
    Preemption,
    /// A control group's limit on CPU time.
    Throttle,
    /// The kernel's limit on real-time threads, which throttles the meter's own `fifo` probes. This is not a problem of the machine.
    OwnRealTimeThrottle,
    /// The hypervisor ran another guest and reported it as steal time.
    Steal,
    /// All CPUs stopped at once and no counter shows it, so the whole virtual machine was paused.
    Pause,
    /// An interrupt, including the deferred work after it if the two cannot be separated.
    Interrupt,
    /// Deferred work of interrupts.
    Softirq,
    /// A page fault of our thread.
    PageFault,
    /// The hypervisor, without steal time: no counter shows the gap, and the gap is too long for an interrupt.
    Hypervisor,
    /// An interrupt or the hypervisor: no counter shows the gap, and interrupts were not read.
    InterruptOrHypervisor,
}

impl Cause {
    /// All causes, in display order.
    pub const ALL: [Cause; 10] = [
        Cause::Preemption,
        Cause::Throttle,
        Cause::OwnRealTimeThrottle,
        Cause::Steal,
        Cause::Pause,
        Cause::Hypervisor,
        Cause::Interrupt,
        Cause::Softirq,
        Cause::InterruptOrHypervisor,
        Cause::PageFault,
    ];

    /// The name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Preemption => "preemption",
            Cause::Throttle => "throttle",
            Cause::OwnRealTimeThrottle => "own-real-time-throttle",
            Cause::Steal => "steal",
            Cause::Pause => "pause",
            Cause::Interrupt => "interrupt",
            Cause::Softirq => "softirq",
            Cause::PageFault => "page-fault",
            Cause::Hypervisor => "hypervisor",
            Cause::InterruptOrHypervisor => "interrupt-or-hypervisor",
        }
    }

    /// Whether a gap of this cause on one CPU may be a pause of the machine if all CPUs stopped at once.
    pub fn may_be_pause(self) -> bool {
        matches!(
            self,
            Cause::Interrupt | Cause::Softirq | Cause::InterruptOrHypervisor | Cause::Hypervisor | Cause::PageFault
        )
    }
}

/// The owner of the CPU while our thread waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// Unknown, because the kernel does not show it.
    Unknown,
    /// No thread had the CPU: our thread was ready, but the kernel held it back.
    Nobody,
    /// A thread of the ordinary class had the CPU.
    Ordinary,
    /// A thread of a higher class had the CPU.
    RealTime,
}

/// How our own thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The ordinary class, as of most threads.
    Ordinary,
    /// The real-time class (`SCHED_FIFO`), above all ordinary threads.
    Fifo,
}

/// What is known about interrupts around a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupts {
    /// The interrupts were not read.
    NotLooked,
    /// The number of interrupts on this CPU in the window that contains the gap.
    Counted(u64),
    /// The time of interrupts within the gap, from tracepoints.
    Traced {
        /// Time in interrupt handlers.
        hard_ns: u64,
        /// Time in the deferred work of interrupts (softirqs).
        soft_ns: u64,
    },
}

/// The counters around a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The length of the gap.
    pub length_ns: u64,
    /// Time in which our thread neither ran nor waited for a CPU.
    pub steal_ns: u64,
    /// Time that our thread waited for a CPU.
    pub run_delay_ns: u64,
    /// Time for which the limits of our control groups report throttling.
    pub throttled_ns: u64,
    /// The owner of the CPU for most of the wait.
    pub taker: Taker,
    /// Our own class.
    pub class: Class,
    /// Page faults of our thread.
    pub faults: u64,
    /// The interrupts.
    pub interrupts: Interrupts,
}

/// The longest time for an interrupt handler plus its deferred work, which the kernel ends after 2 ms (`MAX_SOFTIRQ_TIME`).
const INTERRUPT_MAX_NS: u64 = 3_000_000;
/// The time that passes around a handler when an interrupt goes through the hypervisor.
const AROUND_HANDLER_NS: u64 = 5_000;
/// The counters are read one after another, so a smaller difference between them is not steal.
const STEAL_MIN_NS: u64 = 2_000;

/// The cause of the largest part of a gap.
pub fn classify(seen: &Evidence) -> Cause {
    let run_delay_ns = seen.run_delay_ns.min(seen.length_ns);
    let steal_ns = seen.steal_ns.min(seen.length_ns - run_delay_ns);
    let rest_ns = seen.length_ns - run_delay_ns - steal_ns;
    if run_delay_ns > 0 && run_delay_ns >= steal_ns && run_delay_ns >= rest_ns {
        return waited(seen);
    }
    if steal_ns >= STEAL_MIN_NS && steal_ns >= rest_ns {
        return Cause::Steal;
    }
    if let Interrupts::Traced { hard_ns, soft_ns } = seen.interrupts {
        let reported_ns = hard_ns.saturating_add(soft_ns);
        let unreported_ns = rest_ns.saturating_sub(reported_ns);
        // If a handler seems to take many milliseconds, the hypervisor interrupted the handler.
        if reported_ns > 0 && rest_ns <= INTERRUPT_MAX_NS && unreported_ns <= AROUND_HANDLER_NS.max(rest_ns / 2) {
            return if soft_ns > hard_ns { Cause::Softirq } else { Cause::Interrupt };
        }
    }
    if seen.faults > 0 {
        return Cause::PageFault;
    }
    match seen.interrupts {
        Interrupts::Counted(0) | Interrupts::Traced { .. } => Cause::Hypervisor,
        _ if rest_ns > INTERRUPT_MAX_NS => Cause::Hypervisor,
        Interrupts::Counted(_) => Cause::Interrupt,
        Interrupts::NotLooked => Cause::InterruptOrHypervisor,
    }
}

/// The cause of a gap in which our thread waited for a CPU.
fn waited(seen: &Evidence) -> Cause {
    let is_limited = seen.throttled_ns >= seen.run_delay_ns / 2 && seen.throttled_ns > 0;
    match (seen.class, seen.taker) {
        // Only the limit on real-time threads lets an ordinary thread, or the idle task, run while a real-time thread is ready.
        (Class::Fifo, Taker::Ordinary | Taker::Nobody) => Cause::OwnRealTimeThrottle,
        // The kernel holds real-time threads back for 50 ms of each second.
        // A shorter wait counts only if the record shows an ordinary thread.
        (Class::Fifo, Taker::Unknown) if seen.run_delay_ns > 10_000_000 => Cause::OwnRealTimeThrottle,
        (Class::Fifo, _) => Cause::Preemption,
        _ if is_limited => Cause::Throttle,
        (Class::Ordinary, Taker::Nobody) => Cause::Throttle,
        (Class::Ordinary, _) => Cause::Preemption,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NONE: Evidence = Evidence {
        length_ns: 100_000,
        steal_ns: 0,
        run_delay_ns: 0,
        throttled_ns: 0,
        taker: Taker::Unknown,
        class: Class::Ordinary,
        faults: 0,
        interrupts: Interrupts::Counted(4),
    };

    #[test]
    fn numbers_show_the_cause() {
        let waited = Evidence { run_delay_ns: 95_000, ..NONE };
        let long = Evidence { length_ns: 50_000_000, run_delay_ns: 49_900_000, ..NONE };
        let traced = |hard_ns, soft_ns, length_ns| Evidence {
            length_ns,
            interrupts: Interrupts::Traced { hard_ns, soft_ns },
            ..NONE
        };
        let fifo = Evidence { class: Class::Fifo, ..long };
        let table = [
            ("nothing but an interrupt", NONE, Cause::Interrupt),
            ("nobody looked", Evidence { interrupts: Interrupts::NotLooked, ..NONE }, Cause::InterruptOrHypervisor),
            ("no interrupt at all", Evidence { interrupts: Interrupts::Counted(0), ..NONE }, Cause::Hypervisor),
            ("a tick", traced(1_500, 800, 3_000), Cause::Interrupt),
            ("its deferred work", traced(1_500, 60_000, 70_000), Cause::Softirq),
            (
                "a handler in which the hypervisor ran another guest",
                traced(20_000_000, 0, 20_010_000),
                Cause::Hypervisor,
            ),
            ("a handler that did not take it", traced(1_500, 800, 60_000), Cause::Hypervisor),
            ("none", traced(0, 0, 3_000), Cause::Hypervisor),
            ("none, and a fault", Evidence { faults: 1, ..traced(0, 0, 3_000) }, Cause::PageFault),
            ("too long for one", Evidence { length_ns: 17_100_000, ..NONE }, Cause::Hypervisor),
            ("a fault", Evidence { faults: 1, ..NONE }, Cause::PageFault),
            ("another thread, unseen", waited, Cause::Preemption),
            ("another thread", Evidence { taker: Taker::RealTime, ..waited }, Cause::Preemption),
            (
                "a wait and a longer steal",
                Evidence { steal_ns: 7_110_000, run_delay_ns: 3_025_000, length_ns: 10_170_000, ..NONE },
                Cause::Steal,
            ),
            ("readings that are apart", Evidence { steal_ns: 900, length_ns: 1_500, ..NONE }, Cause::Interrupt),
            ("steal", Evidence { steal_ns: 90_000, ..NONE }, Cause::Steal),
            ("a limit that counted", Evidence { throttled_ns: 49_000_000, ..long }, Cause::Throttle),
            ("a limit's turn of a moment", Evidence { throttled_ns: 1_000, ..long }, Cause::Preemption),
            ("ready, and nobody ran", Evidence { taker: Taker::Nobody, ..long }, Cause::Throttle),
            ("fifo, and nobody ran", Evidence { taker: Taker::Nobody, ..fifo }, Cause::OwnRealTimeThrottle),
            ("fifo, and an ordinary one ran", Evidence { taker: Taker::Ordinary, ..fifo }, Cause::OwnRealTimeThrottle),
            ("fifo, and who is unknown", fifo, Cause::OwnRealTimeThrottle),
            ("fifo, shortly", Evidence { class: Class::Fifo, ..waited }, Cause::Preemption),
            ("fifo, and a higher one ran", Evidence { taker: Taker::RealTime, ..fifo }, Cause::Preemption),
            ("nothing", Evidence { length_ns: 0, ..NONE }, Cause::Interrupt),
        ];
        for (what, seen, cause) in table {
            assert_eq!(classify(&seen), cause, "{what}");
        }
    }

    #[test]
    fn every_cause_is_shown_under_the_name_that_answers_have() {
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_string(&cause).unwrap(), format!("\"{}\"", cause.name()));
        }
        let mut all = Cause::ALL.to_vec();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), Cause::ALL.len());
    }

    proptest! {
        #[test]
        fn any_numbers_have_a_cause(length_ns: u64, steal_ns: u64, run_delay_ns: u64, throttled_ns: u64, faults: u64, count: u64) {
            for taker in [Taker::Unknown, Taker::Nobody, Taker::Ordinary, Taker::RealTime] {
                for class in [Class::Ordinary, Class::Fifo] {
                    for interrupts in [Interrupts::Counted(count), Interrupts::Traced { hard_ns: count, soft_ns: faults }] {
                        let seen = Evidence { length_ns, steal_ns, run_delay_ns, throttled_ns, taker, class, faults, interrupts };
                        let cause = classify(&seen);
                        // If the thread never waited, no other thread preempted it.
                        if run_delay_ns == 0 {
                            prop_assert!(!matches!(cause, Cause::Preemption | Cause::Throttle | Cause::OwnRealTimeThrottle));
                        }
                    }
                }
            }
        }
    }
}
