//! The sequence of keys and operations.
//! The load draws it before it begins, so that the draw takes no time while requests must be sent on time.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::protocol::{Kind, Op};
use crate::error::WorkloadError;

/// The number of requests to draw. The sequence repeats after these requests. It takes 1 MiB of memory.
const DRAWN: usize = 1 << 18;
const SET: u32 = 1 << 31;

/// How often each key is requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// All keys are requested equally often.
    Uniform,
    /// The n-th most popular key is requested in proportion to `1 / n^exponent`.
    Zipf(f64),
}

impl Popularity {
    /// Parses `uniform` or `zipf:0.99`.
    pub(crate) fn parse(name: &str, value: &str) -> Result<Popularity, WorkloadError> {
        let exponent = value.strip_prefix("zipf:").and_then(|text| text.parse().ok());
        match exponent.filter(|exponent| (0.0..=4.0).contains(exponent)) {
            Some(exponent) => Ok(Popularity::Zipf(exponent)),
            None if value == "uniform" => Ok(Popularity::Uniform),
            None => Err(WorkloadError::setting(
                name,
                value,
                "expected uniform, or zipf: with an exponent of 0 to 4, such as zipf:0.99",
            )),
        }
    }
}

impl std::fmt::Display for Popularity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Popularity::Uniform => f.write_str("uniform"),
            Popularity::Zipf(exponent) => write!(f, "zipf {exponent}"),
        }
    }
}

/// An endless sequence of requests.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    drawn: Arc<[u32]>,
    at: usize,
}

impl Draw {
    /// `keys` must be at least 1, and `get_share` from 0 to 1.
    pub(super) fn new(keys: u32, popularity: Popularity, get_share: f64, seed: u64) -> Draw {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let exponent = match popularity {
            Popularity::Uniform => 0.0,
            Popularity::Zipf(exponent) => exponent,
        };
        let mut sum = 0.0;
        let mut up_to = Vec::with_capacity(keys as usize);
        for rank in 1..=keys {
            sum += f64::from(rank).powf(-exponent);
            up_to.push(sum);
        }
        let drawn = (0..DRAWN)
            .map(|_| {
                let at = rng.random::<f64>() * sum;
                let key = up_to.partition_point(|up_to| *up_to <= at).min(up_to.len().saturating_sub(1)) as u32;
                if rng.random::<f64>() < get_share { key } else { key | SET }
            })
            .collect();
        Draw { drawn, at: 0 }
    }

    /// The same sequence from another position. Without the shift, all threads would send the same requests at the same time.
    pub(super) fn part(&self, index: usize, of: usize) -> Draw {
        Draw { drawn: Arc::clone(&self.drawn), at: DRAWN / of.max(1) * index % DRAWN }
    }

    pub(super) fn next(&mut self) -> Op {
        let drawn = self.drawn.get(self.at).copied().unwrap_or(0);
        self.at = (self.at + 1) % DRAWN;
        Op { key: drawn & !SET, kind: if drawn & SET == 0 { Kind::Get } else { Kind::Set } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(popularity: Popularity, get_share: f64) -> (Vec<f64>, f64) {
        let mut draw = Draw::new(100, popularity, get_share, 1);
        let (mut keys, mut gets) = (vec![0.0; 100], 0.0);
        for _ in 0..DRAWN {
            let op = draw.next();
            keys[op.key as usize] += 1.0 / DRAWN as f64;
            gets += f64::from(u8::from(op.kind == Kind::Get)) / DRAWN as f64;
        }
        (keys, gets)
    }

    #[test]
    fn shares_are_those_asked_for() {
        let (keys, gets) = counts(Popularity::Uniform, 0.9);
        assert!(keys.iter().all(|share| (0.008..0.012).contains(share)), "{keys:?}");
        assert!((0.895..0.905).contains(&gets), "{gets}");
        let (keys, gets) = counts(Popularity::Zipf(1.0), 1.0);
        // The sum of 1/n up to 100 is 5.187.
        assert!((0.188..0.198).contains(&keys[0]) && (0.0170..0.0216).contains(&keys[9]), "{keys:?}");
        assert_eq!(gets, 1.0);
        assert_eq!(counts(Popularity::Uniform, 0.0).1, 0.0);
    }

    #[test]
    fn one_key_is_enough_and_parts_begin_elsewhere() {
        let mut one = Draw::new(1, Popularity::Zipf(0.99), 0.5, 1);
        assert!((0..100).all(|_| one.next().key == 0));
        let whole = Draw::new(1000, Popularity::Uniform, 1.0, 1);
        let first: Vec<Op> = std::iter::repeat_with({
            let mut part = whole.part(0, 2);
            move || part.next()
        })
        .take(20)
        .collect();
        let second: Vec<Op> = std::iter::repeat_with({
            let mut part = whole.part(1, 2);
            move || part.next()
        })
        .take(20)
        .collect();
        assert_ne!(first, second);
    }

    #[test]
    fn popularity_is_read() {
        let read = |value| Popularity::parse("popularity", value).map_err(|error| error.to_string());
        assert_eq!(read("uniform"), Ok(Popularity::Uniform));
        assert_eq!(read("zipf:0.99"), Ok(Popularity::Zipf(0.99)));
        for odd in ["zipf", "zipf:", "zipf:-1", "zipf:nan", "zipf:9", "pareto"] {
            let message = read(odd).unwrap_err();
            assert!(message.starts_with(&format!("set popularity={odd}: expected uniform")), "{message}");
        }
    }
}
