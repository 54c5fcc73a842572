//! CPU credits of burstable instances. A credit is one minute of one CPU.
//! An instance earns credits at a fixed rate, and spends them while it uses more than its baseline.
//!
//! The model follows the rules that Amazon and Microsoft document exactly. Only the cloud knows the real balance.

use serde::Serialize;

use crate::catalogue::{Figure, Instance, Kind};

/// A balance below this counts as empty, because sums of minutes are not exact.
const NOTHING: f64 = 1e-9;

/// The rates of an instance type, in credits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreditRates {
    /// Its CPUs.
    pub vcpus: u32,
    /// Credits earned per hour.
    pub per_hour: f64,
    /// The maximum number of earned credits that an instance keeps.
    pub max: f64,
    /// Launch credits, given at the start. `null` if the catalogue does not know the number. T3 and later types have no launch credits.
    pub initial: Option<f64>,
    /// Whether launch credits are spent first and do not count towards the maximum, as with T2.
    pub is_initial_apart: bool,
    /// Whether an instance can continue without credits, at a price.
    pub can_be_unlimited: bool,
    /// The price of a CPU and hour beyond the credits, in US dollars.
    pub surplus_usd_per_vcpu_hour: Option<f64>,
    /// The documents.
    pub sources: Vec<String>,
}

impl CreditRates {
    /// The rates of a type. `None` if the catalogue has no credits for the type.
    pub fn from_instance(instance: &Instance) -> Option<CreditRates> {
        let used = [
            Kind::Vcpus,
            Kind::CreditsPerHour,
            Kind::CreditsMax,
            Kind::CreditsInitial,
            Kind::BaselinePercentPerVcpu,
            Kind::SurplusUsdPerVcpuHour,
        ];
        let source = |figure: &Figure| format!("{} ({})", figure.source.title, figure.source.date);
        let mut sources: Vec<String> =
            instance.figures.iter().filter(|figure| used.contains(&figure.figure)).map(source).collect();
        sources.dedup();
        let is_amazon = !instance.name.starts_with("Standard_");
        Some(CreditRates {
            vcpus: instance.number(Kind::Vcpus)? as u32,
            per_hour: instance.number(Kind::CreditsPerHour)?,
            max: instance.number(Kind::CreditsMax)?,
            initial: instance.number(Kind::CreditsInitial),
            is_initial_apart: instance.name.starts_with("t2."),
            can_be_unlimited: is_amazon,
            surplus_usd_per_vcpu_hour: instance.number(Kind::SurplusUsdPerVcpuHour),
            sources,
        })
    }

    /// The cloud's default: T2 and Azure are held at their baseline, T3 and later continue.
    pub fn usual_mode(&self) -> CreditMode {
        match self.can_be_unlimited && !self.is_initial_apart {
            true => CreditMode::Unlimited,
            false => CreditMode::Standard,
        }
    }

    /// The highest possible balance, including the launch credits.
    pub fn credits_max(&self) -> f64 {
        self.max + self.initial.filter(|_| self.is_initial_apart).unwrap_or(0.0)
    }

    /// The number of CPUs that an instance can use forever without spending more credits than it earns.
    pub fn baseline_cpus(&self) -> f64 {
        self.per_hour / 60.0
    }
}

/// What happens without credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CreditMode {
    /// The instance is held at its baseline.
    Standard,
    /// The instance continues. The cloud charges what it does not earn back within a day.
    Unlimited,
}

/// The credits of an instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreditBalance {
    /// Launch credits, which do not count toward the maximum.
    launch: f64,
    /// Credits that were earned and not spent. Below 0, credits that were spent but not earned.
    earned: f64,
}

/// The effect of using CPUs for a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// How long the instance was held at its baseline, in seconds.
    pub limited_s: f64,
    /// The CPU time that the server needed and did not get, in seconds.
    pub unserved_cpu_s: f64,
    /// CPU time beyond all credits, in hours.
    pub charged_vcpu_hours: f64,
    /// When the credits ran out, in seconds since the start of the period.
    pub empty_after_s: Option<f64>,
}

impl CreditBalance {
    /// Starts with this many credits, at most the maximum of the type.
    /// If the type has launch credits, the credits above the maximum are launch credits.
    pub fn new(rates: &CreditRates, credits: f64) -> CreditBalance {
        let launch = (credits - rates.max).clamp(0.0, rates.credits_max() - rates.max);
        CreditBalance { launch, earned: credits.clamp(0.0, rates.max) }
    }

    /// The balance of an instance that starts now.
    pub fn at_launch(rates: &CreditRates, mode: CreditMode) -> CreditBalance {
        let initial = rates.initial.unwrap_or(0.0);
        match (rates.is_initial_apart, mode) {
            (true, CreditMode::Standard) => CreditBalance { launch: initial, earned: 0.0 },
            // T2 Unlimited gets no launch credits.
            (true, CreditMode::Unlimited) => CreditBalance { launch: 0.0, earned: 0.0 },
            (false, _) => CreditBalance::new(rates, initial),
        }
    }

    /// The total balance. Below 0, the credits that the instance owes.
    pub fn credits(&self) -> f64 {
        self.launch + self.earned
    }

    /// The remaining launch credits, which do not count toward the maximum.
    pub fn launch(&self) -> f64 {
        self.launch
    }

    /// Adds what the instance earned and used in a period, in credits.
    /// During the period, the instance must have launch credits, or its balance must reach neither 0 nor the maximum.
    pub fn pass(&mut self, rates: &CreditRates, used: f64, earned: f64) {
        let of_launch = used.min(self.launch);
        self.launch -= of_launch;
        self.earned = (self.earned + earned - (used - of_launch)).min(rates.max);
    }

    /// The owed credits, in hours of a CPU. The cloud charges them if the instance stops now.
    pub fn owed_vcpu_hours(&self) -> f64 {
        (-self.earned).max(0.0) / 60.0
    }

    /// How long the credits last if the instance uses this many CPUs, in seconds. `None` if they never run out.
    pub fn lasts_s(&self, rates: &CreditRates, cpus: f64) -> Option<f64> {
        let mut balance = *self;
        // At a finite rate of use, a full balance is empty within this time.
        let spent = balance.spend(rates, CreditMode::Standard, cpus, 1e12);
        spent.empty_after_s
    }

    /// Uses this many CPUs for this many seconds.
    pub fn spend(&mut self, rates: &CreditRates, mode: CreditMode, cpus: f64, seconds: f64) -> Spent {
        let (cpus, earns) = (cpus.clamp(0.0, f64::from(rates.vcpus)), rates.baseline_cpus());
        let (mut left_min, mut spent) = (seconds.max(0.0) / 60.0, Spent::default());
        if self.launch > 0.0 && cpus > 0.0 {
            let first = (self.launch / cpus).min(left_min);
            self.launch = (self.launch - cpus * first).max(0.0);
            self.earned = (self.earned + earns * first).min(rates.max);
            left_min -= first;
        }
        let above = cpus - earns;
        if above <= NOTHING || left_min <= 0.0 {
            self.earned = (self.earned - above * left_min).min(rates.max);
            return spent;
        }
        let at = |left_min: f64| seconds.max(0.0) - left_min * 60.0;
        let until_empty = self.earned.max(0.0) / above;
        if until_empty <= left_min {
            spent.empty_after_s = Some(at(left_min - until_empty));
        }
        let floor = if mode == CreditMode::Standard { 0.0 } else { -rates.max };
        let until_floor = ((self.earned - floor).max(0.0) / above).min(left_min);
        self.earned -= above * until_floor;
        left_min -= until_floor;
        if left_min > 0.0 {
            self.earned = floor;
            match mode {
                CreditMode::Standard => {
                    (spent.limited_s, spent.unserved_cpu_s) = (left_min * 60.0, above * left_min * 60.0);
                }
                CreditMode::Unlimited => spent.charged_vcpu_hours = above * left_min / 60.0,
            }
        }
        spent
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalogue;

    fn rates(name: &str) -> CreditRates {
        CreditRates::from_instance(&catalogue::instance(name).unwrap()).unwrap()
    }

    const HOUR: f64 = 3600.0;

    /// Amazon's own example of T3 Unlimited, with t3.nano: 144 credits a day, which is 0.1 CPUs for an unlimited time.
    #[test]
    fn a_day_of_idling_fills_the_balance_and_surplus_is_paid_back() {
        let nano = rates("t3.nano");
        let mut balance = CreditBalance::at_launch(&nano, CreditMode::Unlimited);
        balance.spend(&nano, CreditMode::Unlimited, 0.0, 24.0 * HOUR);
        assert!((balance.credits() - 144.0).abs() < 1e-9);
        balance.spend(&nano, CreditMode::Unlimited, 0.0, 24.0 * HOUR);
        assert!((balance.credits() - 144.0).abs() < 1e-9, "no more than a day's worth is kept");
        // 2 CPUs use 2 credits a minute and earn 0.1: 144 credits last 75.8 minutes.
        let spent = balance.spend(&nano, CreditMode::Unlimited, 2.0, 2.0 * HOUR);
        assert!((spent.empty_after_s.unwrap() - 144.0 / 1.9 * 60.0).abs() < 1e-6);
        assert_eq!((spent.limited_s, spent.charged_vcpu_hours), (0.0, 0.0));
        assert!((balance.owed_vcpu_hours() - (120.0 * 1.9 - 144.0) / 60.0).abs() < 1e-9);
        // Beyond a day's worth of surplus, each CPU and hour is charged.
        let spent = balance.spend(&nano, CreditMode::Unlimited, 2.0, 10.0 * HOUR);
        let beyond = 1.9 * (12.0 * 60.0) - 288.0;
        assert!((spent.charged_vcpu_hours - beyond / 60.0).abs() < 1e-9);
        balance.spend(&nano, CreditMode::Unlimited, 0.0, 24.0 * HOUR);
        assert!(balance.credits().abs() < 1e-9 && balance.owed_vcpu_hours() < 1e-9);
    }

    #[test]
    fn without_credits_a_standard_instance_is_held_at_its_baseline() {
        let medium = rates("t3.medium");
        let mut balance = CreditBalance::new(&medium, 24.0);
        let spent = balance.spend(&medium, CreditMode::Standard, 1.0, HOUR);
        // The instance uses 1 credit a minute and earns 0.4, so 24 credits last 40 minutes.
        assert!((spent.empty_after_s.unwrap() - 2400.0).abs() < 1e-6);
        assert!((spent.limited_s - 1200.0).abs() < 1e-6 && (spent.unserved_cpu_s - 720.0).abs() < 1e-6);
        assert_eq!(CreditBalance::new(&medium, 576.0).lasts_s(&medium, 0.4), None);
        assert!((CreditBalance::new(&medium, 576.0).lasts_s(&medium, 2.0).unwrap() - 576.0 / 1.6 * 60.0).abs() < 1e-6);
    }

    /// As documented: a t2.micro that idles for a day after its start has 174 credits, of which 30 are launch credits.
    #[test]
    fn credits_of_the_start_do_not_count_for_the_maximum_of_t2() {
        let micro = rates("t2.micro");
        let mut balance = CreditBalance::at_launch(&micro, CreditMode::Standard);
        balance.spend(&micro, CreditMode::Standard, 0.0, 24.0 * HOUR);
        assert!((balance.credits() - 174.0).abs() < 1e-9);
        balance.spend(&micro, CreditMode::Standard, 1.0, 1800.0);
        assert!((balance.credits() - 144.0).abs() < 1e-9);
        assert_eq!(CreditBalance::at_launch(&micro, CreditMode::Unlimited).credits(), 0.0);
        let shown = |credits| CreditBalance::new(&micro, credits);
        assert_eq!((shown(160.0).credits(), shown(160.0).launch(), shown(500.0).credits()), (160.0, 16.0, 174.0));
        let azure = rates("Standard_B2s");
        assert_eq!(CreditBalance::at_launch(&azure, CreditMode::Standard).credits(), 60.0);
        assert!(!azure.can_be_unlimited);
    }

    #[test]
    fn a_type_without_credits_has_no_rates() {
        for name in ["c5.large", "e2-medium"] {
            assert_eq!(CreditRates::from_instance(&catalogue::instance(name).unwrap()), None);
        }
    }

    proptest! {
        /// All wanted CPU time was paid with credits, owed, charged or refused.
        /// Splitting an interval in two does not change the result.
        #[test]
        fn no_credit_is_lost(steps in prop::collection::vec((0.0..3.0_f64, 0.0..200_000.0_f64), 1..20), unlimited: bool, start in 0.0..600.0_f64) {
            let medium = rates("t3.medium");
            let mode = if unlimited { CreditMode::Unlimited } else { CreditMode::Standard };
            let (mut whole, mut halves) = (CreditBalance::new(&medium, start), CreditBalance::new(&medium, start));
            for (cpus, seconds) in steps {
                let before = whole.credits();
                let spent = whole.spend(&medium, mode, cpus, seconds);
                let [first, second] = [(); 2].map(|()| halves.spend(&medium, mode, cpus, seconds / 2.0));
                prop_assert!((whole.credits() - halves.credits()).abs() < 1e-6);
                prop_assert!((spent.limited_s - first.limited_s - second.limited_s).abs() < 1e-3);
                prop_assert!((spent.charged_vcpu_hours - first.charged_vcpu_hours - second.charged_vcpu_hours).abs() < 1e-6);
                let floor = if unlimited { -medium.max } else { 0.0 };
                prop_assert!((floor - 1e-9..=medium.max + 1e-9).contains(&whole.credits()));
                let used = cpus.min(2.0) * seconds / 60.0 - spent.unserved_cpu_s / 60.0 - spent.charged_vcpu_hours * 60.0;
                let earned = medium.baseline_cpus() * seconds / 60.0;
                // Only credits above the maximum are discarded.
                prop_assert!(whole.credits() <= before + earned - used + 1e-6);
                if whole.credits() < medium.max - 1e-6 {
                    prop_assert!((whole.credits() - (before + earned - used)).abs() < 1e-3);
                }
            }
        }
    }
}
