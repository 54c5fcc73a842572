//! Names and values that go into manifests. They are checked as Kubernetes checks them.
//! So a wrong name is an error here, and not at the API server.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The maximum length of a label, and of a label's value.
const LABEL_BYTES_MAX: usize = 63;
/// The maximum length of the prefix of a label's key.
const PREFIX_BYTES_MAX: usize = 253;
/// The maximum length of an image's name that runtimes accept, without the tag.
const IMAGE_BYTES_MAX: usize = 255;
/// The maximum length of an image's tag.
const TAG_BYTES_MAX: usize = 128;

/// Why a name cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is not a DNS label.
    #[error("a name has at most 63 of a-z, 0-9 and -, and begins and ends with a letter or digit")]
    DnsLabel,
    /// The text is not a reference to an image.
    #[error("an image is [HOST[:PORT]/]NAME[:TAG][@DIGEST], such as registry.example/arena:1.4")]
    Image,
    /// The text is not a label of a node.
    #[error("a label is KEY=VALUE, such as pool=games or evenkeel.dev/quantum=none")]
    Label,
    /// The text is not a port.
    #[error("a port is a number from 1 to 65535, for UDP; for other protocols 7777/tcp or 7777/tcpudp")]
    Port,
}

/// A label by RFC 1123: the name of an object or a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsLabel(String);

/// A reference to a container image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(String);

/// A label that a node must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLabel {
    /// The key of the label, with the prefix.
    pub key: String,
    /// The value of the label.
    pub value: String,
}

/// The protocol of a port, in Agones' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// Both protocols on one port number.
    TcpUdp,
}

/// A port that the server opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerPort {
    /// The port's number in the container.
    pub number: u16,
    /// The port's protocol.
    pub protocol: Protocol,
}

impl FromStr for DnsLabel {
    type Err = NameError;

    fn from_str(text: &str) -> Result<DnsLabel, NameError> {
        match is_dns_label(text) {
            true => Ok(DnsLabel(text.to_owned())),
            false => Err(NameError::DnsLabel),
        }
    }
}

impl FromStr for Image {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Image, NameError> {
        let (named, digest) = text.split_once('@').map_or((text, None), |(named, digest)| (named, Some(digest)));
        // A colon in the last part begins the tag; earlier colons belong to the host's port.
        let last = named.rfind('/').map_or(0, |at| at + 1);
        let (name, tag) = match named[last..].find(':') {
            Some(at) => (&named[..last + at], Some(&named[last + at + 1..])),
            None => (named, None),
        };
        let is_good = name.len() <= IMAGE_BYTES_MAX
            && is_image_name(name)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        if is_good { Ok(Image(text.to_owned())) } else { Err(NameError::Image) }
    }
}

impl FromStr for NodeLabel {
    type Err = NameError;

    fn from_str(text: &str) -> Result<NodeLabel, NameError> {
        let (key, value) = text.split_once('=').ok_or(NameError::Label)?;
        let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
        let is_prefix = |prefix: &str| prefix.len() <= PREFIX_BYTES_MAX && prefix.split('.').all(is_dns_label);
        let is_good = prefix.is_none_or(is_prefix) && is_label_text(name) && (value.is_empty() || is_label_text(value));
        if is_good { Ok(NodeLabel { key: key.to_owned(), value: value.to_owned() }) } else { Err(NameError::Label) }
    }
}

impl FromStr for ServerPort {
    type Err = NameError;

    fn from_str(text: &str) -> Result<ServerPort, NameError> {
        let (number, protocol) = match text.split_once('/') {
            None => (text, Protocol::Udp),
            Some((number, "udp")) => (number, Protocol::Udp),
            Some((number, "tcp")) => (number, Protocol::Tcp),
            Some((number, "tcpudp")) => (number, Protocol::TcpUdp),
            Some(_) => return Err(NameError::Port),
        };
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|number| is_plain && *number > 0).ok_or(NameError::Port)?;
        Ok(ServerPort { number, protocol })
    }
}

impl fmt::Display for DnsLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for DnsLabel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl Serialize for Image {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

fn is_dns_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= LABEL_BYTES_MAX
        && text.bytes().all(|byte| is_inner(byte) || byte == b'-')
        && text.bytes().next().is_some_and(is_inner)
        && text.bytes().next_back().is_some_and(is_inner)
}

fn is_label_text(text: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_alphanumeric();
    text.len() <= LABEL_BYTES_MAX
        && text.bytes().all(|byte| is_end(byte) || b"-_.".contains(&byte))
        && text.bytes().next().is_some_and(is_end)
        && text.bytes().next_back().is_some_and(is_end)
}

/// Lower-case words between slashes. The first may be a host with a port.
fn is_image_name(name: &str) -> bool {
    let mut parts = name.split('/');
    let first = parts.next().unwrap_or_default();
    let is_port = |port: &str| !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = |text: &str| {
        let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
        host.split('.').all(|label| is_label_text(label) && !label.contains('_')) && port.is_none_or(is_port)
    };
    let rest: Vec<&str> = parts.collect();
    let is_first = is_path_part(first) || !rest.is_empty() && is_host(first);
    is_first && rest.iter().all(|part| is_path_part(part))
}

/// Words of lower-case letters and digits, with a dot, one or two underscores, or dashes between them.
fn is_path_part(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [part.bytes().next(), part.bytes().next_back()];
    let mut between =
        part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).filter(|text| !text.is_empty());
    ends.iter().all(|byte| byte.is_some_and(is_word))
        && between.all(|text| matches!(text, "." | "_" | "__") || text.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    tag.len() <= TAG_BYTES_MAX
        && tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

fn is_digest(digest: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    match digest.split_once(':') {
        Some(("sha256", hex)) => hex.len() == 64 && is_hex(hex),
        Some(("sha512", hex)) => hex.len() == 128 && is_hex(hex),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: FromStr>(good: &[&str], wrong: &[&str]) {
        for text in good {
            assert!(text.parse::<T>().is_ok(), "{text:?}");
        }
        for text in wrong {
            assert!(text.parse::<T>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_are_those_of_kubernetes() {
        let long = "a".repeat(64);
        check::<DnsLabel>(
            &["a", "7", "arena-eu-1", &long[..63]],
            &["", "-a", "a-", "A", "a.b", "a_b", "session 1", "a\n", "ä", &long],
        );
        check::<NodeLabel>(
            &["pool=games", "evenkeel.dev/quantum=none", "a=", "A_b.c=D-e", "x/y=z"],
            &["", "pool", "=a", "/a=b", "a/=b", "a/b/c=d", "A.dev/x=y", "a=-b", "a=b c", "a=b=c", "a b=c", "a=b\n"],
        );
        check::<ServerPort>(
            &["1", "65535", "7777/udp", "7777/tcp", "7777/tcpudp"],
            &["", "0", "65536", "+1", "-1", "7777/", "7777/UDP", "7777/sctp", "1/tcp/udp", "7 "],
        );
    }

    #[test]
    fn images_are_those_of_runtimes() {
        let digest = format!("a@sha256:{}", "0".repeat(64));
        let long = "a".repeat(256);
        check::<Image>(
            &[
                "arena",
                "arena:1.4",
                "games/arena",
                "registry.example/games/arena:1.4-rc.1_2",
                "localhost:5000/a",
                "a__b-c.d/e--f",
                &digest,
            ],
            &[
                "",
                "Arena",
                "a:",
                "a:.x",
                "a b",
                "a/",
                "/a",
                "a//b",
                "a@sha256:0",
                "a@md5:0",
                "a@",
                "-a",
                "a-",
                "a..b",
                "a___b",
                "h:x/a",
                "a:1:2",
                "a\n",
                "a:b c",
                "https://h/a",
                "h_h:5/a",
                &long,
            ],
        );
    }
}
