//! `HostName`: the host that a request names, in its `Host` header, in its address, or in the origin of the page that sent it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::{HeaderMap, HeaderValue, Uri, header};

/// A host and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostName {
    /// The name in lower case, or the address without brackets.
    name: String,
    address: Option<IpAddr>,
    port: Option<u16>,
}

impl HostName {
    /// Reads `NAME`, `NAME:PORT`, `1.2.3.4:PORT` or `[::1]:PORT`. None for anything else, so that no program reads the name differently.
    pub(super) fn from_text(text: &str) -> Option<HostName> {
        let (name, port, address) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, port) = rest.split_once(']')?;
                (name, port, Some(IpAddr::V6(name.parse::<Ipv6Addr>().ok()?)))
            }
            None => {
                let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
                (name, port, name.parse::<Ipv4Addr>().ok().map(IpAddr::V4))
            }
        };
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if name.is_empty() || address.is_none() && !name.chars().all(is_name) {
            return None;
        }
        let port = match port {
            "" | ":" => None,
            _ => {
                let digits = port.strip_prefix(':')?;
                let number = digits.parse().ok()?;
                // `parse` also takes a sign.
                Some(number).filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit())).map(Some)?
            }
        };
        Some(HostName { name: name.to_ascii_lowercase(), address, port })
    }

    /// The host that a request names. None if it names none, several, or one that is no host.
    ///
    /// A request has one `Host` header. If its address names a host too (the form for proxies), both must be the same: otherwise a check of
    /// one of them would say nothing about the other.
    pub(super) fn of_request(uri: &Uri, headers: &HeaderMap) -> Option<HostName> {
        let host = HostName::from_text(only(headers, header::HOST)?)?;
        match uri.authority() {
            Some(authority) => HostName::from_text(authority.as_str()).filter(|named| *named == host),
            None => Some(host),
        }
    }

    /// Whether a page with this origin (`http://NAME:PORT`) comes from this host and port.
    pub(super) fn is_origin(&self, origin: &str) -> bool {
        let default = |scheme: &str| match scheme {
            "https" => Some(443),
            "http" => Some(80),
            _ => None,
        };
        let Some((scheme, host)) = origin.split_once("://") else { return false };
        let (Some(default), Some(host)) = (default(scheme), HostName::from_text(host)) else { return false };
        self.name == host.name && self.port.unwrap_or(default) == host.port.unwrap_or(default)
    }

    /// Whether it is an address, localhost, or one of these names.
    pub(super) fn is_one_of(&self, names: &[String]) -> bool {
        self.address.is_some() || self.name == "localhost" || names.contains(&self.name)
    }

    /// The name, if no port is given.
    pub(super) fn into_name(self) -> Option<String> {
        self.port.is_none().then_some(self.name)
    }
}

/// The value of a header that comes exactly once.
pub(super) fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first: &HeaderValue = values.next()?;
    values.next().is_none().then(|| first.to_str().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_is_one_host() {
        let host = |text: &str| HostName::from_text(text).map(|host| (host.name, host.address.is_some(), host.port));
        type Named = (&'static str, bool, Option<u16>);
        let table: [(&str, Option<Named>); 22] = [
            ("localhost", Some(("localhost", false, None))),
            ("LocalHost:9177", Some(("localhost", false, Some(9177)))),
            ("localhost:", Some(("localhost", false, None))),
            ("127.0.0.1:80", Some(("127.0.0.1", true, Some(80)))),
            ("[::1]", Some(("::1", true, None))),
            ("[FE80::1]:9177", Some(("fe80::1", true, Some(9177)))),
            ("game_1.example", Some(("game_1.example", false, None))),
            ("", None),
            (":80", None),
            ("::1", None),
            ("[::1", None),
            ("[::1].evil.example", None),
            ("[::1]e", None),
            ("[evil]:80", None),
            ("[127.0.0.1]", None),
            ("localhost:80:80", None),
            ("localhost:80@evil.example", None),
            ("localhost@evil.example", None),
            ("localhost:+80", None),
            ("localhost:99999", None),
            ("localhost, evil.example", None),
            ("\u{e9}", None),
        ];
        for (text, expected) in table {
            let expected = expected.map(|(name, is_address, port)| (name.to_owned(), is_address, port));
            assert_eq!(host(text), expected, "{text}");
        }
    }

    #[test]
    fn an_origin_is_the_same_host_and_port() {
        let is = |host: &str, origin: &str| HostName::from_text(host).unwrap().is_origin(origin);
        for (host, origin) in [
            ("localhost:9177", "http://localhost:9177"),
            ("LOCALHOST:9177", "http://localhost:9177"),
            ("localhost", "https://localhost"),
            ("localhost:443", "https://localhost"),
            ("localhost", "http://localhost:80"),
            ("[::1]:9177", "http://[::1]:9177"),
        ] {
            assert!(is(host, origin), "{host} {origin}");
        }
        for origin in ["null", "http://localhost", "ftp://localhost:9177", "http://localhost:9178", "http://evil:9177"]
        {
            assert!(!is("localhost:9177", origin), "{origin}");
        }
    }
}
