//! `Dataset`: the keys and values of a load, made from a seed. Each key determines its value.
//! So every answer can be compared with the stored value, whichever connection stored it last.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::entry::number;
use crate::error::WorkloadError;

/// The maximum number of keys of a data set.
pub const KEYS_MAX: u32 = 1_000_000;
/// The length of a key, in bytes. A key consists of a letter and its number, so it has at least 8 bytes. memcached accepts at most 250.
const KEY_BYTES: (u32, u32) = (8, 250);
/// The maximum length of a value in bytes: half of memcached's maximum.
const VALUE_BYTES_MAX: u32 = 512 << 10;
/// The maximum size of all values together, in bytes.
/// Larger data would not improve a test of a server's speed, and the machine may not have more memory.
const DATA_BYTES_MAX: u64 = 1 << 30;
/// The number of offsets at which values begin in the same random text. Neighbouring keys have different offsets.
const OFFSETS: usize = 4093;

/// A distribution of lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All lengths are equal.
    Fixed(u32),
    /// The lengths are uniformly distributed between two bounds, which are included.
    Uniform(u32, u32),
    /// The lengths in the ETC pool of a large social network.
    /// ETC is the most general of the five pools that Atikoglu and others recorded
    /// ("Workload Analysis of a Large-Scale Key-Value Store", SIGMETRICS 2012).
    /// Keys follow a generalised extreme value distribution.
    /// Values follow a table up to 14 bytes, and a generalised Pareto distribution beyond 14 bytes.
    /// Both distributions are cut at the bounds used here.
    Etc,
}

/// The shares of the lengths 0 to 14 among values of the ETC pool. The other values are longer.
const ETC_SHORT: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837, 0.08989,
    0.00092, 0.00326, 0.01980,
];

impl Sizes {
    /// Parses `100`, `16-1024` or `etc`.
    pub(crate) fn parse(name: &str, value: &str, least: u32, most: u32) -> Result<Sizes, WorkloadError> {
        let bounds = least..=most;
        match value.split_once('-') {
            _ if value == "etc" => Ok(Sizes::Etc),
            None => number(name, value, bounds).map(Sizes::Fixed),
            Some((from, to)) => {
                let (from, to) = (number(name, from, bounds.clone())?, number(name, to, bounds)?);
                if from > to {
                    return Err(WorkloadError::setting(name, value, format!("{from} is more than {to}")));
                }
                Ok(Sizes::Uniform(from, to))
            }
        }
    }

    pub(crate) fn parse_keys(name: &str, value: &str) -> Result<Sizes, WorkloadError> {
        Sizes::parse(name, value, KEY_BYTES.0, KEY_BYTES.1)
    }

    pub(crate) fn parse_values(name: &str, value: &str) -> Result<Sizes, WorkloadError> {
        Sizes::parse(name, value, 0, VALUE_BYTES_MAX)
    }

    fn key(self, rng: &mut ChaCha8Rng) -> u8 {
        let bytes = match self {
            Sizes::Etc => {
                let (location, scale, shape) = (30.7984, 8.20449, 0.078688);
                let share: f64 = rng.random::<f64>().clamp(1e-12, 1.0 - 1e-12);
                (location + scale * ((-share.ln()).powf(-shape) - 1.0) / shape) as u32
            }
            other => other.plain(rng),
        };
        bytes.clamp(KEY_BYTES.0, KEY_BYTES.1) as u8
    }

    fn value(self, rng: &mut ChaCha8Rng) -> u32 {
        let bytes = match self {
            Sizes::Etc => {
                let mut left: f64 = rng.random();
                let short = ETC_SHORT.iter().position(|share| {
                    left -= share;
                    left < 0.0
                });
                short.map_or_else(
                    || {
                        let (location, scale, shape) = (15.0, 214.476, 0.348238);
                        let beyond = 1.0 - rng.random::<f64>();
                        (location + scale * (beyond.powf(-shape) - 1.0) / shape) as u32
                    },
                    |bytes| bytes as u32,
                )
            }
            other => other.plain(rng),
        };
        bytes.min(VALUE_BYTES_MAX)
    }

    fn plain(self, rng: &mut ChaCha8Rng) -> u32 {
        match self {
            Sizes::Fixed(bytes) => bytes,
            Sizes::Uniform(least, most) => rng.random_range(least..=most.max(least)),
            Sizes::Etc => 0,
        }
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sizes::Fixed(bytes) => write!(f, "{bytes} bytes"),
            Sizes::Uniform(least, most) => write!(f, "{least} to {most} bytes"),
            Sizes::Etc => f.write_str("sizes as in ETC"),
        }
    }
}

/// Keys with their values.
#[derive(Debug)]
pub struct Dataset {
    key_bytes: Vec<u8>,
    value_bytes: Vec<u32>,
    /// Random letters and digits. Each value is a part of this text.
    noise: Vec<u8>,
    bytes: u64,
}

impl Dataset {
    /// Makes this many keys, with values of these sizes.
    ///
    /// # Errors
    /// Fails if there are no keys, too many keys, or too many bytes in all values together.
    pub fn new(keys: u32, key_sizes: Sizes, value_sizes: Sizes, seed: u64) -> Result<Dataset, WorkloadError> {
        if keys == 0 || keys > KEYS_MAX {
            return Err(WorkloadError::Options(format!("{keys} keys: a load has 1 to {KEYS_MAX}")));
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let key_bytes: Vec<u8> = (0..keys).map(|_| key_sizes.key(&mut rng)).collect();
        let value_bytes: Vec<u32> = (0..keys).map(|_| value_sizes.value(&mut rng)).collect();
        let bytes = value_bytes.iter().map(|bytes| u64::from(*bytes)).sum::<u64>()
            + key_bytes.iter().map(|bytes| u64::from(*bytes)).sum::<u64>();
        if bytes > DATA_BYTES_MAX {
            let (has, may) = (bytes >> 20, DATA_BYTES_MAX >> 20);
            return Err(WorkloadError::Options(format!("{keys} keys have {has} MiB of values; {may} are the most")));
        }
        let longest = value_bytes.iter().max().copied().unwrap_or(0) as usize;
        let letters = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let letter = |_| letters.get(rng.random_range(0..letters.len())).copied().unwrap_or(b'x');
        let noise = (0..longest + OFFSETS).map(letter).collect();
        Ok(Dataset { key_bytes, value_bytes, noise, bytes })
    }

    /// The number of keys, 1 to [`KEYS_MAX`].
    pub fn keys(&self) -> u32 {
        self.key_bytes.len() as u32
    }

    /// The length of all keys and values together, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The length of a key in bytes.
    pub fn key_bytes(&self, key: u32) -> usize {
        self.key_bytes.get(key as usize).copied().unwrap_or(0).into()
    }

    /// Appends a key.
    pub fn push_key(&self, key: u32, to: &mut Vec<u8>) {
        let mut digits = [b'0'; 7];
        let mut left = key;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        let end = to.len() + self.key_bytes(key);
        to.push(b'k');
        to.extend_from_slice(&digits);
        to.resize(end, b'_');
    }

    /// Whether `name` is the name of this key.
    pub fn is_key(&self, key: u32, name: &[u8]) -> bool {
        let Some((number, rest)) = name.strip_prefix(b"k").and_then(|rest| rest.split_at_checked(7)) else {
            return false;
        };
        let is_number = number
            .iter()
            .try_fold(0_u32, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u32::from(digit - b'0')))
            == Some(key);
        is_number && name.len() == self.key_bytes(key) && rest.iter().all(|byte| *byte == b'_')
    }

    /// The value of a key.
    pub fn value(&self, key: u32) -> &[u8] {
        let from = key as usize * 61 % OFFSETS;
        let bytes = self.value_bytes.get(key as usize).copied().unwrap_or(0) as usize;
        self.noise.get(from..from + bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read() {
        let read = |value| Sizes::parse_values("value-bytes", value).map_err(|error| error.to_string());
        assert_eq!(read("100"), Ok(Sizes::Fixed(100)));
        assert_eq!(read("16-1024"), Ok(Sizes::Uniform(16, 1024)));
        assert_eq!(read("etc"), Ok(Sizes::Etc));
        let no = "set value-bytes=";
        assert_eq!(read("9-3"), Err(format!("{no}9-3: 9 is more than 3")));
        assert_eq!(read("x"), Err(format!("{no}x: expected a whole number from 0 to 524288")));
        assert_eq!(read("1-"), Err(format!("{no}: expected a whole number from 0 to 524288")));
    }

    /// The paper gives a mean key of about 31 to 36 bytes, 45 % of the values below 15 bytes, and most below 500.
    #[test]
    fn etc_has_the_shape_of_the_paper() {
        let data = Dataset::new(100_000, Sizes::Etc, Sizes::Etc, 1).unwrap();
        let mean = data.key_bytes.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / 1e5;
        assert!((34.0..38.0).contains(&mean), "{mean}");
        let share = |most: u32| data.value_bytes.iter().filter(|bytes| **bytes <= most).count() as f64 / 1e5;
        assert!((0.43..0.45).contains(&share(14)), "{}", share(14));
        assert!((0.85..0.95).contains(&share(500)), "{}", share(500));
        let beyond = |share: f64| 15.0 + 214.476 * (share.powf(-0.348238) - 1.0) / 0.348238;
        // The threshold is the 90th percentile of the distribution. A tenth of the values beyond the table must be longer.
        let long = data.value_bytes.iter().filter(|bytes| f64::from(**bytes) > beyond(0.1)).count() as f64 / 1e5;
        assert!((0.052..0.060).contains(&long), "{long}");
    }

    #[test]
    fn a_seed_gives_the_same_and_bounds_hold() {
        let make = |seed| Dataset::new(100, Sizes::Uniform(8, 250), Sizes::Uniform(0, 900), seed).unwrap();
        let (one, same, other) = (make(1), make(1), make(2));
        assert_eq!((one.value(7), one.key_bytes(7)), (same.value(7), same.key_bytes(7)));
        assert_ne!(one.value_bytes, other.value_bytes);
        assert!(Dataset::new(0, Sizes::Fixed(8), Sizes::Fixed(1), 1).is_err());
        let message = Dataset::new(1_000_000, Sizes::Fixed(8), Sizes::Fixed(5000), 1).unwrap_err().to_string();
        assert_eq!(
            message,
            "read the options of the workload: 1000000 keys have 4776 MiB of values; 1024 are the most"
        );
    }

    proptest! {
        #[test]
        fn a_key_is_itself_and_no_other(a in 0_u32..100, b in 0_u32..100, odd in prop::collection::vec(any::<u8>(), 0..20)) {
            let data = Dataset::new(100, Sizes::Uniform(8, 30), Sizes::Fixed(5), 1).unwrap();
            let mut name = Vec::new();
            data.push_key(a, &mut name);
            prop_assert_eq!(name.len(), data.key_bytes(a));
            prop_assert_eq!(data.is_key(b, &name), a == b);
            prop_assert!(!data.is_key(a, &odd) || odd == name);
            prop_assert!(a == b || data.value(a) != data.value(b));
        }
    }
}
