//! Runs the load generator alone on a running memcached, to compare it with other generators (`lab/load-beside-peers.sh`).
//!
//! usage: load ADDRESS CONNECTIONS RATE SECONDS KEYS KEY_BYTES VALUE_BYTES
//!
//! With RATE 0, the load is a closed loop. The program prints the values of the window as one line of JSON.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_sys::CpuSet;
use evenkeel_workload::load::{Arrivals, Dataset, Loader, Memcached, Pace, Popularity, Protocol, Shape, Sizes};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, connections, rate, seconds, keys, key_bytes, value_bytes] = arguments.as_slice() else {
        return Err("usage: load ADDRESS CONNECTIONS RATE SECONDS KEYS KEY_BYTES VALUE_BYTES".into());
    };
    let rate_per_s: f64 = rate.parse()?;
    let pace = match rate_per_s > 0.0 {
        true => Pace::Open { rate_per_s, arrivals: Arrivals::Poisson },
        false => Pace::Closed,
    };
    let keys = keys.parse()?;
    let shape = Shape {
        connections: connections.parse()?,
        pace,
        keys,
        popularity: Popularity::Uniform,
        get_share: 0.9,
        seed: 1,
    };
    let sizes = |text: &String| text.parse().map(Sizes::Fixed);
    let data = Arc::new(Dataset::new(keys, sizes(key_bytes)?, sizes(value_bytes)?, 1)?);
    let protocol: Arc<dyn Protocol> = Arc::new(Memcached { data });
    let mut loader = Loader::connect(address.parse()?, &protocol, &shape, &CpuSet::default())?;
    let window = Duration::from_secs_f64(seconds.parse()?);
    let sample = loader.window(Duration::from_millis(200), window, &mut || {}, &mut || {})?;
    println!("{}", serde_json::to_string(&sample)?);
    Ok(())
}
