//! How well a train of gaps agrees with the observation: Cohen's kappa over the watched time.
//! A model that agrees by chance scores 0.
//! So a wrong model does not score well on a CPU that is almost always available, or almost never.

use super::observed::Observed;

/// A model of a CPU that is gone for `gone_ns` from `from_ns`, every `period_ns`.
#[derive(Clone, Copy)]
pub(super) struct Train {
    pub(super) from_ns: f64,
    pub(super) gone_ns: f64,
    pub(super) period_ns: f64,
}

impl Train {
    /// How long the CPU is gone between the start of the train and `ns`.
    fn gone_before(&self, ns: f64) -> f64 {
        let turns = (ns - self.from_ns) / self.period_ns;
        let whole = turns.floor();
        whole * self.gone_ns + ((turns - whole) * self.period_ns).min(self.gone_ns)
    }

    fn gone_within(&self, from: f64, to: f64) -> f64 {
        self.gone_before(to) - self.gone_before(from)
    }

    /// How many gaps of the train begin between `from` and `to`.
    pub(super) fn beginnings(&self, from: f64, to: f64) -> u64 {
        let index = |ns: f64| ((ns - self.from_ns) / self.period_ns).ceil();
        (index(to) - index(from)).max(0.0) as u64
    }
}

pub(super) fn kappa(observed: &Observed, train: &Train) -> f64 {
    let watched = observed.watched_ns();
    let lost = observed.lost_ns();
    let said: f64 = observed.windows.iter().map(|(from, to)| train.gone_within(*from, *to)).sum();
    let both: f64 = observed.gaps.iter().map(|(from, to)| train.gone_within(*from, *to)).sum();
    if watched <= 0.0 {
        return 0.0;
    }
    let agree = (watched - said - lost + 2.0 * both) / watched;
    let chance = (said * lost + (watched - said) * (watched - lost)) / (watched * watched);
    if chance >= 1.0 { 0.0 } else { (agree - chance) / (1.0 - chance) }
}
