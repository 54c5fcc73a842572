//! The effect of a trace, repeated for some days, on the credits of an instance type.

use evenkeel_host::catalogue::{Instance, Kind};
use evenkeel_host::credits::{CreditBalance, CreditMode, CreditRates};
use serde::Serialize;

use super::asked::StartCredits;
use super::repeat::{Repeated, repeat};
use super::trace::Trace;

/// The credits of an instance type under a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Forecast {
    /// The cloud's name of the type.
    pub instance_type: String,
    /// What happens when the credits run out: the instance is limited to its baseline, or more CPU time is charged.
    pub mode: CreditMode,
    /// The memory of the type in GiB, if the catalogue has it.
    pub memory_gib: Option<f64>,
    /// The baseline: the CPU time that the instance may always use, in CPUs.
    pub baseline_cpus: f64,
    /// The rates of the type, with their sources.
    pub rates: CreditRates,
    /// How long the repeated trace lasts, in seconds.
    pub seconds: f64,
    /// The credits at the start.
    pub start_credits: f64,
    /// The lowest balance. A negative balance is a debt: credits that were spent before they were earned.
    pub lowest_credits: f64,
    /// The credits at the end.
    pub end_credits: f64,
    /// The time until the credits run out for the first time, in seconds; `null` if they do not.
    pub empty_after_s: Option<f64>,
    /// The share of the time in which the instance is limited to its baseline.
    pub limited_share: f64,
    /// The share of the wanted CPU time that the instance does not get, because it lacks credits or CPUs.
    pub unserved_share: f64,
    /// Charged CPU time in hours of one CPU: the use beyond the credits, including the debt at the end.
    pub surplus_vcpu_hours: f64,
    /// The price of that CPU time, in US dollars; `null` if no document has it.
    pub surplus_usd: Option<f64>,
}

impl Forecast {
    /// Whether the instance does all the work, and costs no more than its own price.
    pub fn is_enough(&self) -> bool {
        self.unserved_share <= 0.0 && self.surplus_vcpu_hours <= 0.0
    }
}

/// The forecast for a type; none if the type has no credits.
pub(super) fn forecast(
    instance: &Instance,
    mode: CreditMode,
    start: StartCredits,
    trace: &Trace,
    days: f64,
) -> Option<Forecast> {
    let rates = CreditRates::from_instance(instance)?;
    let balance = match start {
        StartCredits::Full => CreditBalance::new(&rates, rates.max),
        StartCredits::Launch => CreditBalance::at_launch(&rates, mode),
        StartCredits::Number(credits) => CreditBalance::new(&rates, credits),
    };
    let start_credits = balance.credits();
    let Repeated { balance, lowest_credits, sums } = repeat(&rates, mode, balance, trace, days * 86_400.0);
    let surplus_vcpu_hours = sums.charged_vcpu_hours + balance.owed_vcpu_hours();
    Some(Forecast {
        instance_type: instance.name.clone(),
        mode,
        memory_gib: instance.number(Kind::MemoryGib),
        baseline_cpus: rates.baseline_cpus(),
        seconds: sums.seconds,
        start_credits,
        lowest_credits,
        end_credits: balance.credits(),
        empty_after_s: sums.empty_after_s,
        limited_share: sums.limited_s / sums.seconds,
        unserved_share: if sums.wanted_cpu_s > 0.0 { sums.unserved_cpu_s / sums.wanted_cpu_s } else { 0.0 },
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
        // The use of 0.2 CPUs beyond the baseline for 30 days, less the 864 credits of the start.
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

    /// The credits of the nights pay for the evenings. The balance is the same after each day, so a year is computed as quickly as a day.
    #[test]
    fn a_day_that_returns_is_computed_once() {
        let day = Trace::new([(4.0 * 3600.0, 1.5), (20.0 * 3600.0, 0.1)]).unwrap();
        let year = of_type("t3.medium", CreditMode::Standard, &day, 365.0);
        assert_eq!((year.empty_after_s, year.limited_share, year.seconds), (None, 0.0, 365.0 * 86_400.0));
        assert!((year.lowest_credits - (576.0 - 1.1 * 240.0)).abs() < 1e-6);
        assert!(year.is_enough() && year.surplus_usd == Some(0.0));
    }

    /// The last repetition is cut: 34 hours do not divide 30 days.
    #[test]
    fn the_forecast_is_as_long_as_asked_for() {
        let trace = Trace::new([(17.0 * 3600.0, 0.1), (17.0 * 3600.0, 2.0)]).unwrap();
        let month = of_type("t3.medium", CreditMode::Unlimited, &trace, 30.0);
        assert_eq!(month.seconds, 30.0 * 86_400.0);
        // 21 repetitions have 714 hours, and the last six hours are quiet ones. A full balance loses what the first quiet hours earn.
        let used = 21.0 * 17.0 * 2.1 + 6.0 * 0.1 + 17.0 * 0.3;
        let balance = 576.0 / 60.0 + month.seconds / 3600.0 * 0.4 - used + month.surplus_vcpu_hours;
        assert!(balance.abs() < 1e-6, "{month:?}");
        let week = Trace::new([(7.0 * 86_400.0, 0.1)]).unwrap();
        assert_eq!(of_type("t3.medium", CreditMode::Standard, &week, 1.0).seconds, 7.0 * 86_400.0);
    }

    #[test]
    fn more_cpus_than_the_type_has_are_not_served() {
        let month = of_type("t3.xlarge", CreditMode::Unlimited, &Trace::new([(3600.0, 5.0)]).unwrap(), 1.0);
        assert!((month.unserved_share - 0.2).abs() < 1e-9 && !month.is_enough());
    }
}
