//! Rate limits and cookies, which protect a server on the Internet. Neither uses memory for a stranger.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

const SECOND_NS: u64 = 1_000_000_000;

/// A cookie is valid for the rest of its second and for the whole next second.
pub(super) const COOKIE_NS: u64 = SECOND_NS;

/// A rate limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// The sustained rate per second.
    pub(super) per_s: u64,
    /// The maximum burst after a silence.
    pub(super) burst: u64,
}

/// A token bucket as one number: the time when it will be full again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    full_at_ns: u64,
}

impl Bucket {
    /// Takes one token if there is one.
    pub(super) fn take(&mut self, allowance: Allowance, now_ns: u64) -> bool {
        let cost_ns = (SECOND_NS / allowance.per_s.max(1)).max(1);
        let depth_ns = cost_ns.saturating_mul(allowance.burst);
        let full_at_ns = self.full_at_ns.max(now_ns).saturating_add(cost_ns);
        let is_allowed = full_at_ns <= now_ns.saturating_add(depth_ns);
        if is_allowed {
            self.full_at_ns = full_at_ns;
        }
        is_allowed
    }
}

const STRANGER_BUCKETS: usize = 1024;

/// Buckets for hosts without a proved address.
/// A keyed hash that outsiders cannot predict chooses the bucket. All ports of a host share one bucket.
#[derive(Debug)]
pub(super) struct Strangers {
    key: RandomState,
    buckets: Vec<Bucket>,
    allowance: Allowance,
}

impl Strangers {
    /// Makes the buckets, all of them full.
    pub(super) fn new(allowance: Allowance) -> Strangers {
        Strangers { key: RandomState::new(), buckets: vec![Bucket::default(); STRANGER_BUCKETS], allowance }
    }

    /// Takes one token from the host's bucket.
    pub(super) fn take(&mut self, host: IpAddr, now_ns: u64) -> bool {
        let at = (self.key.hash_one(host) % STRANGER_BUCKETS as u64) as usize;
        self.buckets[at].take(self.allowance, now_ns)
    }
}

/// Issues and checks cookies, with a key that the system gave at the start (SipHash, as the standard library uses for its maps).
/// The server stores no record of the cookies that it issued.
#[derive(Debug, Default)]
pub(super) struct Cookies {
    key: RandomState,
}

impl Cookies {
    /// The cookie of this address and attempt at this time.
    pub(super) fn bake(&self, from: SocketAddr, nonce: u64, now_ns: u64) -> u64 {
        self.key.hash_one((from, nonce, now_ns / COOKIE_NS))
    }

    /// Whether we issued this cookie for this address and attempt, in this second or the previous one.
    pub(super) fn accepts(&self, from: SocketAddr, nonce: u64, now_ns: u64, cookie: u64) -> bool {
        let is_of = |now_ns| self.bake(from, nonce, now_ns) == cookie;
        is_of(now_ns) || now_ns.checked_sub(COOKIE_NS).is_some_and(is_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let allowance = Allowance { per_s: 10, burst: 3 };
        let mut bucket = Bucket::default();
        let mut taken = |now_ns| (0..100).filter(|_| bucket.take(allowance, now_ns)).count();
        assert_eq!(taken(5 * SECOND_NS), 3);
        assert_eq!(taken(5 * SECOND_NS + SECOND_NS / 20), 0, "half a token");
        assert_eq!(taken(5 * SECOND_NS + SECOND_NS / 10), 1);
        assert_eq!(taken(500 * SECOND_NS), 3, "never over full");
    }

    #[test]
    fn a_host_is_limited_over_all_its_ports_and_alone() {
        let mut strangers = Strangers::new(Allowance { per_s: 10, burst: 3 });
        let host = |n: u8| IpAddr::from([10, 0, 0, n]);
        assert_eq!((0..100).filter(|_| strangers.take(host(1), 0)).count(), 3);
        assert!((2..12).any(|n| strangers.take(host(n), 0)), "ten hosts do not all share its bucket");
    }

    #[test]
    fn a_cookie_holds_for_its_address_attempt_and_time() {
        let cookies = Cookies::default();
        let from: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        let baked_ns = 5 * COOKIE_NS + 10;
        let cookie = cookies.bake(from, 7, baked_ns);
        for (what, from, nonce, now_ns, is_good) in [
            ("at once", "127.0.0.1:4000", 7, baked_ns, true),
            ("the end of the next second", "127.0.0.1:4000", 7, 7 * COOKIE_NS - 1, true),
            ("two seconds on", "127.0.0.1:4000", 7, 7 * COOKIE_NS, false),
            ("before it was baked", "127.0.0.1:4000", 7, 0, false),
            ("another port", "127.0.0.1:4001", 7, baked_ns, false),
            ("another host", "127.0.0.2:4000", 7, baked_ns, false),
            ("another attempt", "127.0.0.1:4000", 8, baked_ns, false),
        ] {
            assert_eq!(cookies.accepts(from.parse().unwrap(), nonce, now_ns, cookie), is_good, "{what}");
        }
        assert!(!cookies.accepts(from, 7, baked_ns, cookie ^ 1));
        assert!(!Cookies::default().accepts(from, 7, baked_ns, cookie), "another server's");
    }
}
