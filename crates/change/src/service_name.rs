//! `ServiceName`: the systemd unit of a server.
//! The name becomes a path and a line of a unit file, so only some characters are allowed.

use std::fmt;
use std::str::FromStr;

/// The longest name of a unit in systemd.
const NAME_BYTES_MAX: usize = 255;

/// The name of a service, such as `memcached.service`, as defined in `systemd.unit(5)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName(String);

/// The error for a text that is not a service name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a service name: give a name like memcached.service, of letters, digits and `:-_.@`")]
pub struct ServiceNameError(String);

impl ServiceName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the unit file.
    /// An instance such as `arena@3.service` uses the file of its template, `arena@.service`.
    pub fn template(&self) -> String {
        match self.0.split_once('@') {
            Some((template, _)) => format!("{template}@.service"),
            None => self.0.clone(),
        }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ServiceName {
    type Err = ServiceNameError;

    fn from_str(name: &str) -> Result<ServiceName, ServiceNameError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
        let stem = name.strip_suffix(".service").unwrap_or_default();
        let is_template = stem.ends_with('@');
        let is_name = !stem.is_empty()
            && !is_template
            && !stem.starts_with(['.', '-', '@'])
            && name.len() <= NAME_BYTES_MAX
            && name.bytes().all(plain);
        if is_name { Ok(ServiceName(name.to_owned())) } else { Err(ServiceNameError(name.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_services_name_is_no_path_and_no_option() {
        for name in ["memcached.service", "game@1.service", "a-b_c.d:e.service", r"dev-sda\x2d1.service"] {
            assert_eq!(name.parse::<ServiceName>().unwrap().as_str(), name);
        }
        let long = format!("{}.service", "a".repeat(250));
        let bad = [
            "",
            ".service",
            "memcached",
            "memcached.socket",
            "x.socket",
            "../x.service",
            "../../x",
            "a/b.service",
            "a b.service",
            "a\n.service",
            "x.service\nExecStart=/bin/sh",
            "-x.service",
            "..service",
            "game@.service",
            "@a.service",
            "ä.service",
            &long,
        ];
        for name in bad {
            assert!(name.parse::<ServiceName>().is_err(), "{name}");
        }
        let error = "../../x".parse::<ServiceName>().unwrap_err().to_string();
        assert!(error.starts_with("\"../../x\" is not a service name"), "{error}");
    }
}
