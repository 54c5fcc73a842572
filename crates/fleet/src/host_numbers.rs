//! Numbers of hosts from a query, whose labels name the hosts.

use std::collections::BTreeMap;

/// Several numbers for one host. One of them would be an arbitrary queue, CPU or session of the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the query gives several numbers for {host}, for {first} and {second}; aggregate them, such as `max by (node) (…)`"
)]
pub struct SeveralNumbers {
    /// The host.
    pub host: String,
    /// Its name in one number.
    pub first: String,
    /// Its name in another number.
    pub second: String,
}

/// Why a query has no answer, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The source did not answer in time, or at all. Another query would only wait as long.
    #[error("{0}")]
    Unreachable(String),
    /// The source answered something else than one number for each host.
    #[error("{0}")]
    NoNumbers(String),
}

/// The host that a label names, if `is_host` is true for it. An exporter's `instance` is often the host's name with a port, which does not matter.
pub fn host_of(label: &str, is_host: impl Fn(&str) -> bool) -> Option<&str> {
    let short = label.rsplit_once(':').map_or(label, |(host, _)| host);
    [label, short].into_iter().find(|name| is_host(name))
}

/// The numbers of the hosts for which `is_host` is true.
///
/// # Errors
/// If a host has several numbers, such as those of two exporters.
pub fn of_hosts(
    numbers: &BTreeMap<String, f64>,
    is_host: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, f64>, SeveralNumbers> {
    let mut found: BTreeMap<&str, (&str, f64)> = BTreeMap::new();
    for (name, number) in numbers {
        let Some(host) = host_of(name, &is_host) else { continue };
        if let Some((first, _)) = found.insert(host, (name, *number)) {
            let (host, first, second) = (host.to_owned(), first.to_owned(), name.clone());
            return Err(SeveralNumbers { host, first, second });
        }
    }
    Ok(found.into_iter().map(|(host, (_, number))| (host.to_owned(), number)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_does_not_matter_and_two_exporters_of_a_host_are_an_error() {
        let numbers = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1.0)).collect::<BTreeMap<_, _>>();
        let hosts = |names: &[&str]| {
            let found = of_hosts(&numbers(names), |name| ["vm-1", "vm-2", "fe80::1"].contains(&name));
            found.map(|found| found.into_keys().collect::<Vec<_>>().join(" ")).map_err(|error| error.to_string())
        };
        assert_eq!(hosts(&["vm-1:9100", "vm-2", "vm-3:9100", "fe80::1"]), Ok("fe80::1 vm-1 vm-2".to_owned()));
        let several = "the query gives several numbers for vm-1, for vm-1:9100 and vm-1:9177; aggregate them, such as `max by (node) (…)`";
        assert_eq!(hosts(&["vm-1:9100", "vm-1:9177"]), Err(several.to_owned()));
        assert!(hosts(&["vm-1", "vm-1:9100"]).is_err());
    }
}
