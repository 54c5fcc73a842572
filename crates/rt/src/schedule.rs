//! `Schedule`: when ticks are due. The code is pure: callers pass the time.

/// What happens to deadlines that pass while a tick is late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overrun {
    /// Deadlines that pass are missed. The next tick is at the next deadline, and its [`missed`](crate::Tick::missed) counts them.
    /// The phase stays.
    #[default]
    Skip,
    /// Up to `at_most` late ticks run right after one another. Earlier late ticks are missed. The phase stays.
    CatchUp {
        /// The maximum number of ticks in a row that may be behind their time.
        at_most: u32,
    },
    /// Time stretches: the next tick is one period after the late tick began, and no tick is missed. The phase moves.
    SlowDown,
}

/// Deadlines one period apart. A late tick does not move later ones, except with [`Overrun::SlowDown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// The next deadline.
    due_ns: u64,
    period_ns: u64,
    overrun: Overrun,
}

/// A deadline, and how many deadlines were missed right before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) due_ns: u64,
    pub(crate) missed: u64,
}

impl Schedule {
    pub(crate) fn new(first_ns: u64, period_ns: u64, overrun: Overrun) -> Schedule {
        Schedule { due_ns: first_ns, period_ns: period_ns.max(1), overrun }
    }

    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    pub(crate) fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Takes the next deadline. `now_ns` may be before or after it.
    pub(crate) fn next(&mut self, now_ns: u64) -> Due {
        let behind = now_ns.saturating_sub(self.due_ns) / self.period_ns;
        let missed = match self.overrun {
            // A deadline that has just passed is late, not missed; only whole periods are missed.
            Overrun::Skip => behind,
            Overrun::CatchUp { at_most } => behind.saturating_sub(at_most.into()),
            Overrun::SlowDown => {
                let due_ns = if behind > 0 { now_ns } else { self.due_ns };
                self.due_ns = due_ns.saturating_add(self.period_ns);
                return Due { due_ns, missed: 0 };
            }
        };
        let due_ns = self.due_ns.saturating_add(missed.saturating_mul(self.period_ns));
        self.due_ns = due_ns.saturating_add(self.period_ns);
        Due { due_ns, missed }
    }

    /// Sets another period, from the next deadline on.
    pub(crate) fn set_period_ns(&mut self, period_ns: u64) {
        self.due_ns = self.due_ns.saturating_sub(self.period_ns).saturating_add(period_ns.max(1));
        self.period_ns = period_ns.max(1);
    }

    /// Shifts all later deadlines. A deadline before `now_ns` moves one period later.
    pub(crate) fn shift(&mut self, by_ns: i64, now_ns: u64) {
        self.due_ns = self.due_ns.saturating_add_signed(by_ns);
        if self.due_ns < now_ns {
            self.due_ns = self.due_ns.saturating_add(self.period_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_effect_of_each_overrun_policy() {
        // The first tick is due at 100, and then every 10. A row has the policy and the time, then due, missed, and the next deadline.
        let table = [
            (Overrun::Skip, 95, (100, 0, 110)),
            (Overrun::Skip, 109, (100, 0, 110)),
            (Overrun::Skip, 135, (130, 3, 140)),
            (Overrun::CatchUp { at_most: 5 }, 135, (100, 0, 110)),
            (Overrun::CatchUp { at_most: 1 }, 135, (120, 2, 130)),
            (Overrun::SlowDown, 109, (100, 0, 110)),
            (Overrun::SlowDown, 135, (135, 0, 145)),
        ];
        for (overrun, now_ns, expected) in table {
            let mut schedule = Schedule::new(100, 10, overrun);
            let due = schedule.next(now_ns);
            assert_eq!((due.due_ns, due.missed, schedule.due_ns()), expected, "{overrun:?} at {now_ns}");
        }
    }

    #[test]
    fn the_period_and_the_phase_can_change() {
        let mut schedule = Schedule::new(100, 10, Overrun::Skip);
        schedule.next(100);
        schedule.set_period_ns(20);
        assert_eq!((schedule.due_ns(), schedule.period_ns()), (120, 20));
        schedule.shift(3, 101);
        assert_eq!(schedule.due_ns(), 123);
        schedule.shift(-30, 101);
        assert_eq!(schedule.due_ns(), 113, "not into the past");
    }

    proptest! {
        #[test]
        fn no_deadline_is_lost_or_returned_twice(
            late in prop::collection::vec(0_u64..200, 1..60), at_most in 0_u32..6, skips: bool,
        ) {
            let overrun = if skips { Overrun::Skip } else { Overrun::CatchUp { at_most } };
            let mut schedule = Schedule::new(1000, 10, overrun);
            let mut now_ns = 990;
            let mut taken = 0;
            for late_ns in late {
                let before_ns = schedule.due_ns();
                let due = schedule.next(now_ns);
                taken += 1 + due.missed;
                prop_assert_eq!(due.due_ns, before_ns + due.missed * 10);
                prop_assert_eq!(schedule.due_ns(), 1000 + taken * 10);
                // The overrun policy says how far behind a tick may begin.
                let most = if skips { 10 } else { (u64::from(at_most) + 1) * 10 };
                prop_assert!(now_ns < due.due_ns + most, "{} at {}", due.due_ns, now_ns);
                now_ns = now_ns.max(due.due_ns) + late_ns;
            }
        }

        #[test]
        fn slowing_down_misses_nothing(late in prop::collection::vec(0_u64..200, 1..60)) {
            let mut schedule = Schedule::new(1000, 10, Overrun::SlowDown);
            let (mut now_ns, mut last_ns) = (990, 0);
            for late_ns in late {
                let due = schedule.next(now_ns);
                prop_assert!(due.missed == 0 && due.due_ns >= last_ns + 10);
                prop_assert!(now_ns < due.due_ns + 10);
                last_ns = due.due_ns;
                now_ns = now_ns.max(due.due_ns) + late_ns;
            }
        }
    }
}
