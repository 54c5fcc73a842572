//! Rate limits that need no clock and no memory per unknown sender.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use crate::time::SECOND_NS;

/// A rate limit.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// The sustained rate per second, at least 1.
    pub per_s: u32,
    /// The burst after a silence.
    pub burst: u32,
}

/// A token bucket in its "virtual scheduling" form (GCRA): one number, and no refill step.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenBucket {
    /// When the bucket will be full again.
    full_at_ns: u64,
}

impl TokenBucket {
    /// Takes one token at `now_ns` if there is one.
    pub fn take(&mut self, allowance: Allowance, now_ns: u64) -> bool {
        let cost_ns = SECOND_NS / u64::from(allowance.per_s.max(1));
        let depth_ns = cost_ns * u64::from(allowance.burst);
        let full_at_ns = self.full_at_ns.max(now_ns) + cost_ns;
        let ok = full_at_ns <= now_ns + depth_ns;
        if ok {
            self.full_at_ns = full_at_ns;
        }
        ok
    }
}

const STRANGER_BUCKETS: usize = 1024;

/// Limits hosts without a proven address. It is a fixed table, hashed by host with a secret key.
/// So forged addresses cannot use more memory, and nobody can choose an address that shares a victim's bucket.
#[derive(Debug)]
pub struct Strangers {
    key: RandomState,
    buckets: Vec<TokenBucket>,
    allowance: Allowance,
}

impl Strangers {
    /// A table in which each host has `allowance`.
    pub fn new(allowance: Allowance) -> Self {
        Self { key: RandomState::new(), buckets: vec![TokenBucket::default(); STRANGER_BUCKETS], allowance }
    }

    /// Takes one token of the host's bucket. All ports of a host share it, because a port costs an attacker nothing.
    pub fn take(&mut self, host: IpAddr, now_ns: u64) -> bool {
        let index = (self.key.hash_one(host) % STRANGER_BUCKETS as u64) as usize;
        self.buckets[index].take(self.allowance, now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWANCE: Allowance = Allowance { per_s: 10, burst: 3 };

    #[test]
    fn a_burst_then_the_rate() {
        let mut bucket = TokenBucket::default();
        let start = 5 * SECOND_NS;
        let taken = |bucket: &mut TokenBucket, now| (0..100).filter(|_| bucket.take(ALLOWANCE, now)).count();
        assert_eq!(taken(&mut bucket, start), 3, "a full bucket holds the burst");
        assert_eq!(taken(&mut bucket, start + SECOND_NS / 20), 0, "half a token");
        assert_eq!(taken(&mut bucket, start + SECOND_NS / 10), 1);
        assert_eq!(taken(&mut bucket, start + 100 * SECOND_NS), 3, "never over full");
    }

    #[test]
    fn a_host_is_limited_alone_and_over_all_its_ports() {
        let mut strangers = Strangers::new(ALLOWANCE);
        let host = |n: u8| IpAddr::from([10, 0, 0, n]);
        let taken = (0..100).filter(|_| strangers.take(host(1), 0)).count();
        assert_eq!(taken, 3);
        // Two hosts share a bucket once in 1,024 cases. Ten hosts are not all in one bucket.
        assert!((2..12).any(|n| strangers.take(host(n), 0)));
    }
}
