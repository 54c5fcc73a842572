//! The effect of a trace, repeated for some days, on the credits of an instance type.

use evenkeel_host::catalogue::{Instance, Kind};
use evenkeel_host::credits::{CreditBalance, CreditMode, CreditRates, Spent};
use serde::Serialize;

use super::asked::StartCredits;
use super::trace::Trace;

/// Balances that differ by less count as equal. If two repetitions of the trace begin with equal balances, they also end with equal ones.
const SAME_CREDITS: f64 = 1e-6;

/// The credits of an instance type under a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Forecast {
    /// The cloud's name of the type.
    pub instance_type: String,
    /// What happens without credits.
    pub mode: CreditMode,
    /// Its memory in GiB, if the catalogue has it.
    pub memory_gib: Option<f64>,
    /// Its baseline: the CPU time that it may always use, in CPUs.
    pub baseline_cpus: f64,
    /// Its rates, with their sources.
    pub rates: CreditRates,
    /// How long the repeated trace lasts, in seconds.
    pub seconds: f64,
    /// The credits at the start.
    pub start_credits: f64,
    /// The lowest balance. Below 0: credits that were spent without being earned.
    pub lowest_credits: f64,
    /// The credits at the end.
    pub end_credits: f64,
    /// When the credits run out for the first time, in seconds; `null` if they do not.
    pub empty_after_s: Option<f64>,
    /// The share of the time in which it is held at its baseline.
    pub limited_share: f64,
    /// The share of the wanted CPU time that it does not get, because it lacks credits or CPUs.
    pub unserved_share: f64,
    /// CPU time beyond the credits, in hours of one CPU, including what is owed at the end.
    pub surplus_vcpu_hours: f64,
    /// The price of that CPU time, in US dollars; `null` if no document has it.
    pub surplus_usd: Option<f64>,
}

impl Forecast {
    /// Whether it does all the work, and costs no more than the instance itself.
    pub fn is_enough(&self) -> bool {
        self.unserved_share <= 0.0 && self.surplus_vcpu_hours <= 0.0
    }
}

/// Sums over several repetitions of the trace.
#[derive(Default)]
struct Sums {
    seconds: f64,
    limited_s: f64,
    unserved_cpu_s: f64,
    charged_vcpu_hours: f64,
    empty_after_s: Option<f64>,
}

impl Sums {
    fn add(&mut self, spent: &Spent, seconds: f64) {
        self.empty_after_s = self.empty_after_s.or(spent.empty_after_s.map(|after| self.seconds + after));
        self.seconds += seconds;
        self.limited_s += spent.limited_s;
        self.unserved_cpu_s += spent.unserved_cpu_s;
        self.charged_vcpu_hours += spent.charged_vcpu_hours;
    }

    /// Adds one repetition this many times.
    fn repeat(&mut self, one: &Sums, times: f64) {
        self.empty_after_s = self.empty_after_s.or(one.empty_after_s.map(|after| self.seconds + after));
        self.seconds += one.seconds * times;
        self.limited_s += one.limited_s * times;
        self.unserved_cpu_s += one.unserved_cpu_s * times;
        self.charged_vcpu_hours += one.charged_vcpu_hours * times;
    }
}

/// The forecast for a type with credits; none for a type without.
pub(super) fn forecast(
    instance: &Instance,
    mode: CreditMode,
    start: StartCredits,
    trace: &Trace,
    days: f64,
) -> Option<Forecast> {
    let rates = CreditRates::from_instance(instance)?;
    let mut balance = match start {
        StartCredits::Full => CreditBalance::new(&rates, rates.max),
        StartCredits::Launch => CreditBalance::at_launch(&rates, mode),
        StartCredits::Number(credits) => CreditBalance::new(&rates, credits),
    };
    let (start_credits, mut lowest) = (balance.credits(), balance.credits());
    let repetitions = (days * 86_400.0 / trace.seconds()).ceil().max(1.0);
    let (mut sums, mut done) = (Sums::default(), 0.0);
    while done < repetitions {
        let (before, mut one) = (balance.credits(), Sums::default());
        for (seconds, cpus) in &trace.stretches {
            let spent = balance.spend(&rates, mode, *cpus, *seconds);
            lowest = lowest.min(balance.credits());
            let beyond = (cpus - f64::from(rates.vcpus)).max(0.0);
            one.add(&Spent { unserved_cpu_s: spent.unserved_cpu_s + beyond * seconds, ..spent }, *seconds);
        }
        done += 1.0;
        sums.repeat(&one, 1.0);
        if (balance.credits() - before).abs() < SAME_CREDITS {
            sums.repeat(&one, repetitions - done);
            break;
        }
    }
    let surplus_vcpu_hours = sums.charged_vcpu_hours + balance.owed_vcpu_hours();
    let wanted_s = trace.cpus_mean() * sums.seconds;
    Some(Forecast {
        instance_type: instance.name.clone(),
        mode,
        memory_gib: instance.number(Kind::MemoryGib),
        baseline_cpus: rates.baseline_cpus(),
        seconds: sums.seconds,
        start_credits,
        lowest_credits: lowest,
        end_credits: balance.credits(),
        empty_after_s: sums.empty_after_s,
        limited_share: sums.limited_s / sums.seconds,
        unserved_share: if wanted_s > 0.0 { sums.unserved_cpu_s / wanted_s } else { 0.0 },
        surplus_vcpu_hours,
        surplus_usd: match surplus_vcpu_hours > 0.0 {
            true => rates.surplus_usd_per_vcpu_hour.map(|usd| usd * surplus_vcpu_hours),
            false => Some(0.0),
        },
        rates,
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_host::catalogue;

    use super::*;

    fn of_type(name: &str, mode: CreditMode, trace: &Trace, days: f64) -> Forecast {
        forecast(&catalogue::instance(name).unwrap(), mode, StartCredits::Full, trace, days).unwrap()
    }

    /// The example on Amazon's page: a t3.large that uses 40 % of its two CPUs pays for 10 % of them.
    #[test]
    fn what_exceeds_the_baseline_is_paid_for() {
        let trace = Trace::new([(3600.0, 0.8)]).unwrap();
        let month = of_type("t3.large", CreditMode::Unlimited, &trace, 30.0);
        // 0.2 CPUs beyond the baseline, less the 864 credits of the start.
        let expected = 0.2 * 24.0 * 30.0 - 864.0 / 60.0;
        assert!((month.surplus_vcpu_hours - expected).abs() < 1e-6, "{month:?}");
        assert!((month.surplus_usd.unwrap() - expected * 0.05).abs() < 1e-6);
        assert!((month.empty_after_s.unwrap() - 864.0 / 0.2 * 60.0).abs() < 1e-6);
        assert_eq!((month.limited_share, month.unserved_share), (0.0, 0.0));
        let held = of_type("t3.large", CreditMode::Standard, &trace, 30.0);
        assert!((held.limited_share - (1.0 - 3.0 / 30.0)).abs() < 1e-6 && !held.is_enough());
        assert!((held.unserved_share - 0.25 * 0.9).abs() < 1e-6);
        assert!(of_type("t3.xlarge", CreditMode::Standard, &trace, 30.0).is_enough());
    }

    /// The credits of the nights pay for the evenings. The balance returns each day, so a year is computed as quickly as a day.
    #[test]
    fn a_day_that_returns_is_computed_once() {
        let day = Trace::new([(4.0 * 3600.0, 1.5), (20.0 * 3600.0, 0.1)]).unwrap();
        let year = of_type("t3.medium", CreditMode::Standard, &day, 365.0);
        assert_eq!((year.empty_after_s, year.limited_share, year.seconds), (None, 0.0, 365.0 * 86_400.0));
        assert!((year.lowest_credits - (576.0 - 1.1 * 240.0)).abs() < 1e-6);
        assert!(year.is_enough() && year.surplus_usd == Some(0.0));
    }

    #[test]
    fn more_cpus_than_the_type_has_are_not_served() {
        let month = of_type("t3.xlarge", CreditMode::Unlimited, &Trace::new([(3600.0, 5.0)]).unwrap(), 1.0);
        assert!((month.unserved_share - 0.2).abs() < 1e-9 && !month.is_enough());
    }
}
