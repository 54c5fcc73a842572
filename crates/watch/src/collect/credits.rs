//! The CPU credits of a burstable instance since it started, computed by the rules of its cloud.

use evenkeel_host::Facts;
use evenkeel_host::catalogue;
use evenkeel_host::credits::{CreditBalance, CreditMode, CreditRates};
use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::TICK_NS;

use super::read::parsed;
use crate::sample::{CreditsSample, HostSample};

/// The credit balance of this instance, updated with each sample.
#[derive(Debug)]
pub(super) struct Credits {
    instance_type: String,
    rates: CreditRates,
    mode: CreditMode,
    balance: CreditBalance,
    before: Option<(u64, f64)>,
    uptime_s: f64,
}

impl Credits {
    /// `None` if the instance is not burstable, or if its type is unknown.
    pub(super) fn new(root: &Root, facts: &Facts) -> Option<Credits> {
        let instance_type = facts.machine.instance_type.known()?.clone();
        let rates = CreditRates::from_instance(&catalogue::instance(&instance_type)?)?;
        let mode = rates.usual_mode();
        let uptime_s = parsed(root, "/proc/uptime", "seconds", |text| {
            text.split_ascii_whitespace().next()?.parse().ok().filter(|seconds: &f64| seconds.is_finite())
        });
        let balance = CreditBalance::at_launch(&rates, mode);
        Some(Credits { instance_type, rates, mode, balance, before: None, uptime_s: uptime_s.ok()? })
    }

    /// The credit balance now. `None` if the CPU time is unknown.
    pub(super) fn read(&mut self, host: &HostSample, now_ns: u64) -> Option<CreditsSample> {
        let cpus = host.stat.as_ref().ok()?.cpus.values();
        let busy_s = cpus.map(|ticks| ticks.busy() as f64 * TICK_NS as f64 / 1e9).sum::<f64>();
        let (seconds, used_s) = match self.before {
            // The first reading assumes a constant CPU use since boot, because no earlier reading exists.
            None => (self.uptime_s, busy_s),
            Some((before_ns, before_s)) => (now_ns.saturating_sub(before_ns) as f64 / 1e9, busy_s - before_s),
        };
        self.before = Some((now_ns, busy_s));
        if seconds > 0.0 {
            self.balance.spend(&self.rates, self.mode, (used_s / seconds).max(0.0), seconds);
        }
        Some(CreditsSample {
            instance_type: self.instance_type.clone(),
            balance: self.balance.credits(),
            is_unlimited: self.mode == CreditMode::Unlimited,
        })
    }
}
