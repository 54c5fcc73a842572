//! Repeats a trace until a time is over, and computes the balance of credits.
//!
//! A trace of a minute is repeated half a million times in a year.
//! Repetitions that neither empty nor fill the balance are alike, so all of them are computed as one step.
//! A repetition that empties or fills the balance is computed stretch by stretch.
//! Afterwards either each repetition returns to the same balance, or the balance moves away from the bound.

use evenkeel_host::credits::{CreditBalance, CreditMode, CreditRates, Spent};

use super::trace::Trace;

/// Balances that differ by less than this count as equal. Equal balances at the start of a repetition give equal balances at its end.
const SAME_CREDITS: f64 = 1e-9;
/// The last repetition counts as complete if less than this part of it is missing.
const ROUNDING: f64 = 1e-9;

/// The balance at the end, and what happened.
pub(super) struct Repeated {
    pub(super) balance: CreditBalance,
    pub(super) lowest_credits: f64,
    pub(super) sums: Sums,
}

/// Sums over several stretches.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) seconds: f64,
    pub(super) limited_s: f64,
    pub(super) wanted_cpu_s: f64,
    pub(super) unserved_cpu_s: f64,
    pub(super) charged_vcpu_hours: f64,
    pub(super) empty_after_s: Option<f64>,
}

impl Sums {
    fn add(&mut self, spent: &Spent, seconds: f64, cpus: f64) {
        self.empty_after_s = self.empty_after_s.or(spent.empty_after_s.map(|after| self.seconds + after));
        self.seconds += seconds;
        self.limited_s += spent.limited_s;
        self.wanted_cpu_s += cpus * seconds;
        self.unserved_cpu_s += spent.unserved_cpu_s;
        self.charged_vcpu_hours += spent.charged_vcpu_hours;
    }

    /// Adds the sums of `one` repetition, `times` times.
    fn repeat(&mut self, one: &Sums, times: f64) {
        self.empty_after_s = self.empty_after_s.or(one.empty_after_s.map(|after| self.seconds + after));
        self.seconds += one.seconds * times;
        self.limited_s += one.limited_s * times;
        self.wanted_cpu_s += one.wanted_cpu_s * times;
        self.unserved_cpu_s += one.unserved_cpu_s * times;
        self.charged_vcpu_hours += one.charged_vcpu_hours * times;
    }
}

/// A repetition during which the balance is neither empty nor full.
#[derive(Default)]
struct Free {
    sums: Sums,
    /// The credits that the repetition uses, and those that the instance earns meanwhile.
    used: f64,
    earned: f64,
    /// The lowest and the highest balance during the repetition, relative to the balance at its start.
    low: f64,
    high: f64,
}

impl Free {
    fn new(rates: &CreditRates, trace: &Trace) -> Free {
        let mut free = Free::default();
        for (seconds, cpus) in &trace.stretches {
            let served = cpus.min(f64::from(rates.vcpus));
            let spent = Spent { unserved_cpu_s: (cpus - served) * seconds, ..Spent::default() };
            free.sums.add(&spent, *seconds, *cpus);
            free.used += served * seconds / 60.0;
            free.earned += rates.baseline_cpus() * seconds / 60.0;
            free.low = free.low.min(free.earned - free.used);
            free.high = free.high.max(free.earned - free.used);
        }
        free
    }

    /// How many repetitions, from this balance on, neither empty nor fill the balance.
    /// Returns a few fewer, so that rounding does not matter.
    fn times(&self, balance: &CreditBalance, rates: &CreditRates, floor: f64) -> f64 {
        if balance.launch() > 0.0 {
            return (balance.launch() / self.used).floor() - 2.0;
        }
        let (credits, net) = (balance.credits(), self.earned - self.used);
        let (above, below) = (credits + self.low - floor, rates.max - credits - self.high);
        match above > 0.0 && below >= 0.0 {
            false => 0.0,
            true if net < 0.0 => (above / -net).floor(),
            true => (below / net).floor(),
        }
    }
}

/// Repeats the trace until `seconds` are over, or uses it once if it is longer.
pub(super) fn repeat(
    rates: &CreditRates,
    mode: CreditMode,
    mut balance: CreditBalance,
    trace: &Trace,
    seconds: f64,
) -> Repeated {
    let free = Free::new(rates, trace);
    let (mut lowest, mut sums) = (balance.credits(), Sums::default());
    let whole = (seconds / free.sums.seconds + ROUNDING).floor().max(1.0);
    let mut left = whole;
    while left > 0.0 {
        // Once empty, an unlimited balance falls to the maximum debt.
        let floor = match mode {
            CreditMode::Unlimited if sums.empty_after_s.is_some() => -rates.max,
            _ => 0.0,
        };
        let times = free.times(&balance, rates, floor).min(left);
        if times >= 1.0 {
            lowest = lowest.min(balance.credits() + free.low);
            balance.pass(rates, free.used * times, free.earned * times);
            // The balance falls, so it is lowest in the last repetition. If it rises, it is lowest in the first one.
            if free.used > free.earned {
                lowest = lowest.min(balance.credits() + (free.used - free.earned + free.low).min(0.0));
            }
            sums.repeat(&free.sums, times);
            left -= times;
            continue;
        }
        let before = balance;
        let one = once(rates, mode, &mut balance, &mut lowest, &trace.stretches, f64::INFINITY);
        left -= 1.0;
        sums.repeat(&one, 1.0);
        let is_same = |a: f64, b: f64| (a - b).abs() < SAME_CREDITS;
        if is_same(before.credits(), balance.credits()) && is_same(before.launch(), balance.launch()) {
            sums.repeat(&one, left);
            left = 0.0;
        }
    }
    let rest = seconds - whole * free.sums.seconds;
    if rest > ROUNDING * free.sums.seconds {
        let one = once(rates, mode, &mut balance, &mut lowest, &trace.stretches, rest);
        sums.repeat(&one, 1.0);
    }
    Repeated { balance, lowest_credits: lowest, sums }
}

/// Computes the stretches one after the other, until `left_s` seconds are over.
fn once(
    rates: &CreditRates,
    mode: CreditMode,
    balance: &mut CreditBalance,
    lowest: &mut f64,
    stretches: &[(f64, f64)],
    mut left_s: f64,
) -> Sums {
    let mut sums = Sums::default();
    for (seconds, cpus) in stretches {
        let seconds = seconds.min(left_s);
        if seconds <= 0.0 {
            break;
        }
        left_s -= seconds;
        let spent = balance.spend(rates, mode, *cpus, seconds);
        *lowest = lowest.min(balance.credits());
        let beyond = (cpus - f64::from(rates.vcpus)).max(0.0);
        sums.add(&Spent { unserved_cpu_s: spent.unserved_cpu_s + beyond * seconds, ..spent }, seconds, *cpus);
    }
    sums
}

#[cfg(test)]
mod tests {
    use evenkeel_host::catalogue;
    use proptest::prelude::*;

    use super::*;

    fn rates(name: &str) -> CreditRates {
        CreditRates::from_instance(&catalogue::instance(name).unwrap()).unwrap()
    }

    /// Computes all repetitions stretch by stretch, as a reference.
    fn one_by_one(
        rates: &CreditRates,
        mode: CreditMode,
        mut balance: CreditBalance,
        trace: &Trace,
        seconds: f64,
    ) -> Repeated {
        let (mut lowest, mut sums, mut left) = (balance.credits(), Sums::default(), seconds.max(trace.seconds()));
        while left > 1e-6 {
            let one = once(rates, mode, &mut balance, &mut lowest, &trace.stretches, left);
            sums.repeat(&one, 1.0);
            left -= one.seconds;
        }
        Repeated { balance, lowest_credits: lowest, sums }
    }

    fn check(
        rates: &CreditRates,
        mode: CreditMode,
        start: CreditBalance,
        trace: &Trace,
        seconds: f64,
    ) -> Result<(), TestCaseError> {
        let (found, expected) =
            (repeat(rates, mode, start, trace, seconds), one_by_one(rates, mode, start, trace, seconds));
        let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-4 + 1e-6 * b.abs();
        let numbers = |one: &Repeated| {
            [
                one.balance.credits(),
                one.lowest_credits,
                one.sums.seconds,
                one.sums.limited_s,
                one.sums.wanted_cpu_s,
                one.sums.unserved_cpu_s,
                one.sums.charged_vcpu_hours,
            ]
        };
        for (a, b) in numbers(&found).into_iter().zip(numbers(&expected)) {
            prop_assert!(is_near(a, b), "{:?} {:?} {:?}", numbers(&found), numbers(&expected), trace);
        }
        match (found.sums.empty_after_s, expected.sums.empty_after_s) {
            (Some(a), Some(b)) => prop_assert!(is_near(a, b), "{} {}", a, b),
            (a, b) => prop_assert_eq!(a, b),
        }
        Ok(())
    }

    /// A load just above the baseline, so that each repetition takes almost nothing.
    #[test]
    fn a_balance_that_falls_slowly_is_empty_in_the_end() {
        let medium = rates("t3.medium");
        let trace = Trace::new([(1e-5, 0.1), (1e-5, 1.0)]).unwrap();
        for mode in [CreditMode::Standard, CreditMode::Unlimited] {
            let found = repeat(&medium, mode, CreditBalance::new(&medium, 576.0), &trace, 30.0 * 86_400.0);
            // 0.55 CPUs use 0.15 credits a minute more than are earned.
            assert!((found.sums.empty_after_s.unwrap() / 3600.0 - 64.0).abs() < 1e-3, "{:?}", found.sums);
        }
    }

    #[test]
    fn a_full_balance_without_load_stays_full() {
        let micro = rates("t2.micro");
        let trace = Trace::new([(1.0, 0.0)]).unwrap();
        let full = CreditBalance::new(&micro, 1e6);
        check(&micro, CreditMode::Standard, full, &trace, 864.0).unwrap();
    }

    proptest! {
        #[test]
        fn steps_over_many_repetitions_lose_nothing(
            stretches in prop::collection::vec((1.0..7200.0_f64, 0.0..2.5_f64), 1..6),
            near in 0..3_u32,
            name in 0..3_usize,
            is_unlimited: bool,
            start in 0..4_u32,
            days in 0.01..20.0_f64,
        ) {
            let rates = rates(["t3.medium", "t2.micro", "Standard_B2s"][name]);
            let mut stretches = stretches;
            // If the mean load is near the baseline, the balance moves slowly, and most repetitions are needed.
            if near > 0 {
                let mean = Trace::new(stretches.clone()).unwrap().cpus_mean();
                let factor = rates.baseline_cpus() * (1.0 + 0.01 * f64::from(near) - 0.015) / mean.max(1e-3);
                stretches.iter_mut().for_each(|(_, cpus)| *cpus *= factor);
            }
            let trace = Trace::new(stretches).unwrap();
            let mode = if is_unlimited && rates.can_be_unlimited { CreditMode::Unlimited } else { CreditMode::Standard };
            let start = match start {
                0 => CreditBalance::at_launch(&rates, mode),
                1 => CreditBalance::new(&rates, 0.0),
                2 => CreditBalance::new(&rates, 20.0),
                _ => CreditBalance::new(&rates, 1e6),
            };
            check(&rates, mode, start, &trace, days * 86_400.0)?;
        }
    }
}
