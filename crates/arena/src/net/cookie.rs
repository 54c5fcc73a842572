//! Proof that a client receives at the address from which it sends.
//! The server hands out a keyed hash, and stores nothing until the hash comes back.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use crate::time::SECOND_NS;

/// The length of a time bucket. A cookie is valid for the rest of its bucket and for the whole next bucket: for one to two times this length.
pub const COOKIE_BUCKET_NS: u64 = SECOND_NS;

/// The data that a cookie is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// The source address of the datagram.
    pub from: SocketAddr,
    /// The client's number for this attempt to join.
    pub nonce: u64,
}

/// Issues and checks cookies with a random key from the operating system (SipHash, as `std` keys its maps).
#[derive(Debug, Default)]
pub struct Cookies {
    key: RandomState,
}

impl Cookies {
    /// The cookie for this claim at this time.
    pub fn bake(&self, claim: Claim, now_ns: u64) -> u64 {
        self.hash(claim, now_ns / COOKIE_BUCKET_NS)
    }

    /// Whether `cookie` was issued here for this claim, in this time bucket or the previous one.
    pub fn accepts(&self, claim: Claim, now_ns: u64, cookie: u64) -> bool {
        let bucket = now_ns / COOKIE_BUCKET_NS;
        self.hash(claim, bucket) == cookie || bucket.checked_sub(1).is_some_and(|b| self.hash(claim, b) == cookie)
    }

    fn hash(&self, claim: Claim, bucket: u64) -> u64 {
        self.key.hash_one((claim.from, claim.nonce, bucket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_holds_for_its_claim_and_its_time_only() {
        let cookies = Cookies::default();
        let claim = Claim { from: "127.0.0.1:4000".parse().unwrap(), nonce: 7 };
        let other_port = Claim { from: "127.0.0.1:4001".parse().unwrap(), ..claim };
        let other_host = Claim { from: "127.0.0.2:4000".parse().unwrap(), ..claim };
        let other_nonce = Claim { nonce: 8, ..claim };
        let baked_at = 5 * COOKIE_BUCKET_NS + 10;
        let cookie = cookies.bake(claim, baked_at);
        for (what, claim, now_ns, accepted) in [
            ("at once", claim, baked_at, true),
            ("end of next bucket", claim, 7 * COOKIE_BUCKET_NS - 1, true),
            ("two buckets on", claim, 7 * COOKIE_BUCKET_NS, false),
            ("before it was baked", claim, 0, false),
            ("other port", other_port, baked_at, false),
            ("other host", other_host, baked_at, false),
            ("other nonce", other_nonce, baked_at, false),
        ] {
            assert_eq!(cookies.accepts(claim, now_ns, cookie), accepted, "{what}");
        }
        assert!(!cookies.accepts(claim, baked_at, cookie ^ 1));
        assert!(!Cookies::default().accepts(claim, baked_at, cookie), "another server's key");
    }
}
