//! The settings of a load from `--set NAME=VALUE`. The settings have the same names for all servers.

use std::sync::Arc;

use super::dataset::{Dataset, KEYS_MAX, Sizes};
use super::draw::Popularity;
use super::loader::{Pace, Shape};
use super::schedule::Arrivals;
use crate::entry::{Entry, Options, number, unknown};
use crate::error::WorkloadError;

const CONNECTIONS_MAX: u32 = 512;
/// The maximum number of requests per second. No machine can send more from one thread.
const RATE_MAX: u32 = 5_000_000;

/// A load as the user requested it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The number of connections. Each connection has at most one request without an answer.
    pub connections: u32,
    /// Requests per second over all connections. With 0, each connection sends its next request as soon as the last request is answered.
    pub rate_per_s: u32,
    /// How due times are distributed in an open loop.
    pub arrivals: Arrivals,
    /// The percentage of reads.
    pub get_percent: u32,
    /// The number of keys.
    pub keys: u32,
    /// How often each key is requested.
    pub popularity: Popularity,
    /// The lengths of keys.
    pub key_sizes: Sizes,
    /// The lengths of values.
    pub value_sizes: Sizes,
    /// The seed of all random choices.
    pub seed: u64,
}

/// The names and help texts of the settings that every load has. `Settings::take` accepts these names.
pub const COMMON: &[(&str, &str)] = &[
    (
        "rate=0",
        "requests a second in an open loop, timed from when each was due; 0: each connection asks again at once",
    ),
    ("arrivals=poisson", "how the requests of an open loop are spread: poisson or even"),
    ("get-percent=90", "of 100 requests, how many read; the others write, 0 to 100"),
    ("keys=10000", "keys, all stored before the first window, 1 to 1000000"),
    ("popularity=uniform", "how often each key is asked for: uniform, or zipf: with an exponent, such as zipf:0.99"),
    ("key-bytes=30", "length of a key: a number, a range such as 16-64, or etc; 8 to 250"),
    ("value-bytes=100", "length of a value: a number, a range such as 100-1000, or etc; 0 to 524288"),
];

/// Whether a setting was accepted. `None` if there is no setting of this name.
pub type Taken = Option<Result<(), WorkloadError>>;

impl Settings {
    /// The default load. The number of connections is the requested number of players.
    ///
    /// # Errors
    /// Fails if there are no connections, or too many.
    pub fn usual(options: &Options) -> Result<Settings, WorkloadError> {
        let connections = options.players.unwrap_or(4);
        if connections == 0 || connections > CONNECTIONS_MAX {
            let why = format!("{connections} connections: a load has 1 to {CONNECTIONS_MAX}");
            return Err(WorkloadError::Options(why));
        }
        Ok(Settings {
            connections,
            rate_per_s: 0,
            arrivals: Arrivals::Poisson,
            get_percent: 90,
            keys: 10_000,
            popularity: Popularity::Uniform,
            key_sizes: Sizes::Fixed(30),
            value_sizes: Sizes::Fixed(100),
            seed: options.seed,
        })
    }

    /// Applies all settings of the user. `own` applies the server's own settings, and returns None for other names.
    ///
    /// # Errors
    /// Fails if a name is unknown, or if a value is out of bounds.
    pub fn take_all(
        &mut self,
        entry: &Entry,
        options: &Options,
        own: &mut dyn FnMut(&str, &str) -> Taken,
    ) -> Result<(), WorkloadError> {
        for (name, value) in &options.set {
            // A server's entry does not list a setting that does not apply to the server.
            // For example, the files of a web server cannot be written.
            let listed = entry.setting_names().any(|known| known == name);
            let taken = if listed { own(name, value).or_else(|| self.take(name, value)) } else { None };
            taken.unwrap_or_else(|| Err(unknown(entry, name)))?;
        }
        Ok(())
    }

    /// Applies a setting of the load. `None` if the load has no setting of this name.
    fn take(&mut self, name: &str, value: &str) -> Taken {
        Some(match name {
            "rate" => number(name, value, 0..=RATE_MAX).map(|rate| self.rate_per_s = rate),
            "arrivals" => Arrivals::parse(name, value).map(|arrivals| self.arrivals = arrivals),
            "get-percent" => number(name, value, 0..=100).map(|percent| self.get_percent = percent),
            "keys" => number(name, value, 1..=KEYS_MAX).map(|keys| self.keys = keys),
            "popularity" => Popularity::parse(name, value).map(|popularity| self.popularity = popularity),
            "key-bytes" => Sizes::parse_keys(name, value).map(|sizes| self.key_sizes = sizes),
            "value-bytes" | "message-bytes" | "file-bytes" => {
                Sizes::parse_values(name, value).map(|sizes| self.value_sizes = sizes)
            }
            _ => return None,
        })
    }

    /// Makes the keys and values.
    ///
    /// # Errors
    /// Fails if the keys and values are too large in total.
    pub fn dataset(&self) -> Result<Arc<Dataset>, WorkloadError> {
        Dataset::new(self.keys, self.key_sizes, self.value_sizes, self.seed).map(Arc::new)
    }

    /// The requests that the load sends, and their times.
    pub fn shape(&self) -> Shape {
        let pace = match self.rate_per_s {
            0 => Pace::Closed,
            rate => Pace::Open { rate_per_s: rate.into(), arrivals: self.arrivals },
        };
        Shape {
            connections: self.connections,
            pace,
            keys: self.keys,
            popularity: self.popularity,
            get_share: f64::from(self.get_percent) / 100.0,
            seed: self.seed,
        }
    }

    /// A description of the requests for a report.
    pub fn values_in_words(&self) -> String {
        let Settings { get_percent, keys, key_sizes, popularity, value_sizes, .. } = self;
        format!("{get_percent} % reads, {keys} keys of {key_sizes} ({popularity}), values of {value_sizes}")
    }

    /// A description of connections and rate for a report.
    pub fn pace_in_words(&self) -> String {
        let connections = match self.connections {
            1 => "1 connection".to_owned(),
            many => format!("{many} connections"),
        };
        match self.rate_per_s {
            0 if self.connections == 1 => format!("{connections} that asks again as soon as it is answered"),
            0 => format!("{connections} that ask again as soon as they are answered"),
            rate => {
                let arrivals = if self.arrivals == Arrivals::Even { "in equal gaps" } else { "at random (Poisson)" };
                format!("{rate} requests a second {arrivals} over {connections}, timed from when each was due")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::placement::Placement;

    fn options(players: Option<u32>, set: &[(&str, &str)]) -> Options {
        Options {
            programs: PathBuf::new(),
            seed: 1,
            players,
            placement: Placement::Free,
            command: Vec::new(),
            stop: Default::default(),
            tick_function: None,
            simulated: Default::default(),
            set: set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>(),
        }
    }

    fn read(players: Option<u32>, set: &[(&str, &str)]) -> Result<Settings, WorkloadError> {
        let options = options(players, set);
        let mut settings = Settings::usual(&options)?;
        settings.take_all(crate::workloads::find("memcached").unwrap(), &options, &mut |_, _| None)?;
        Ok(settings)
    }

    #[test]
    fn help_shows_the_defaults() {
        let usual = read(None, &[]).unwrap();
        let as_in_help: Vec<(&str, &str)> = COMMON.iter().map(|(text, _)| text.split_once('=').unwrap()).collect();
        assert_eq!(read(None, &as_in_help).unwrap(), usual);
    }

    #[test]
    fn settings_are_said_in_words() {
        assert_eq!(
            read(Some(1), &[]).unwrap().pace_in_words(),
            "1 connection that asks again as soon as it is answered"
        );
        let open = read(Some(8), &[("rate", "5000")]).unwrap();
        assert_eq!(
            open.pace_in_words(),
            "5000 requests a second at random (Poisson) over 8 connections, timed from when each was due"
        );
        assert_eq!(open.shape().pace, Pace::Open { rate_per_s: 5000.0, arrivals: Arrivals::Poisson });
    }

    #[test]
    fn values_out_of_bounds_are_refused() {
        let table = [
            (Some(0), None, "0 connections: a load has 1 to 512"),
            (Some(9999), None, "9999 connections: a load has 1 to 512"),
            (None, Some(("rate", "-1")), "set rate=-1: expected a whole number from 0 to 5000000"),
            (None, Some(("get-percent", "101")), "set get-percent=101: expected a whole number from 0 to 100"),
            (None, Some(("file-bytes", "1")), "set file-bytes: the workload memcached takes rate, "),
        ];
        for (players, set, expected) in table {
            let message = read(players, set.as_slice()).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
