//! Decides which clients get an answer, by the token and by the names of this host.

use std::path::Path;

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use evenkeel_hostfs::user_file;
use percent_encoding::percent_decode_str;

use super::host_name::{HostName, only};
use crate::exit;
use crate::failure::Failure;

/// The allowed lengths of a token. An attacker could guess a shorter token.
const TOKEN_LENGTHS: std::ops::RangeInclusive<usize> = 16..=256;
/// The largest file of a token.
const FILE_BYTES_MAX: u64 = 4096;
/// The cookie that holds the token in a browser.
const COOKIE: &str = "evenkeel_token";

/// Who gets an answer.
pub(super) struct Access {
    token: Option<String>,
    host_names: Vec<String>,
    /// Whether connections are encrypted. If so, a browser never sends the token over an unencrypted connection.
    is_tls: bool,
}

/// How a request is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Answer,
    /// The address of the page contained the token: store it in a cookie, and remove it from the address.
    KeepToken(HeaderValue),
    NoToken,
    /// The request names a foreign host, so another site may have sent the browser here.
    ForeignHost,
    /// The request names no host, or several.
    NoHost,
}

impl Access {
    /// Reads the file of the token.
    ///
    /// # Errors
    /// If it can't be read, if others may read it, or if it is not a token. If a name is not one.
    pub(super) fn new(token_file: Option<&Path>, host_names: &[String], is_tls: bool) -> Result<Access, Failure> {
        let token = token_file.map(read_token).transpose()?;
        let host_names = host_names.iter().map(|name| own_name(name)).collect::<Result<_, Failure>>()?;
        Ok(Access { token, host_names, is_tls })
    }

    pub(super) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Decides from its address and its headers how to answer a request.
    ///
    /// The check of the host's name prevents DNS rebinding:
    /// a page of another site could point its own name to this machine and read the answers.
    pub(super) fn decide(&self, uri: &Uri, headers: &HeaderMap) -> Decision {
        let Some(host) = HostName::of_request(uri, headers) else { return Decision::NoHost };
        if !host.is_one_of(&self.host_names) {
            return Decision::ForeignHost;
        }
        let Some(token) = &self.token else { return Decision::Answer };
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
        let (scheme, credentials) = text(header::AUTHORIZATION).split_once(' ').unwrap_or_default();
        let bearer = scheme.eq_ignore_ascii_case("bearer").then(|| credentials.trim());
        let cookies = text(header::COOKIE).split(';').filter_map(|pair| pair.trim().split_once('='));
        let mut sent = bearer.into_iter().chain(cookies.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value));
        if sent.any(|sent| is_equal(sent, token)) {
            return Decision::Answer;
        }
        let query = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let is_in_address = uri.path() == "/"
            && query.into_iter().any(|(name, value)| {
                name == "token" && is_equal(&percent_decode_str(value).decode_utf8_lossy(), token)
            });
        let secure = if self.is_tls { "; Secure" } else { "" };
        let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/{secure}");
        match HeaderValue::from_str(&cookie) {
            Ok(cookie) if is_in_address => Decision::KeepToken(cookie),
            _ => Decision::NoToken,
        }
    }

    /// Whether a page of another site sent this request. Browsers send the cookie of `localhost` to all of its ports, so a page that another
    /// program serves on this machine could use it.
    pub(super) fn is_from_another_site(uri: &Uri, headers: &HeaderMap) -> bool {
        let own = HostName::of_request(uri, headers);
        headers.contains_key(header::ORIGIN)
            && !own.zip(only(headers, header::ORIGIN)).is_some_and(|(own, origin)| own.is_origin(origin))
    }
}

/// A name that the user gave.
fn own_name(name: &str) -> Result<String, Failure> {
    HostName::from_text(name).and_then(HostName::into_name).ok_or_else(|| {
        Failure::text(exit::WRONG_USE, format_args!("answer for the name {name}"), "it is not the name of a host")
            .hint("name it without a port and without http://, for example --host-name game1.example")
    })
}

/// Compares in a time that does not depend on how many characters of the token are right.
fn is_equal(sent: &str, token: &str) -> bool {
    let differ = sent.bytes().zip(token.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    sent.len() == token.len() && differ == 0
}

/// The text of a file that no other user may read.
pub(super) fn read_private(file: &Path, bytes_max: u64, tried: String) -> Result<String, Failure> {
    use std::os::unix::fs::PermissionsExt;

    let text = user_file::read_text(file, bytes_max)
        .map_err(|error| Failure::user_file(&tried, &error).or_hint("name an existing file that only you can read"))?;
    let mode = std::fs::metadata(file).map_or(0, |there| there.permissions().mode());
    match mode & 0o007 {
        0 => Ok(text),
        _ => Err(Failure::text(exit::WRONG_USE, tried, "every user of this machine may use the file")
            .hint(format!("chmod 600 {}", file.display()))),
    }
}

fn read_token(file: &Path) -> Result<String, Failure> {
    let tried = || format!("read the token in {}", file.display());
    let text = read_private(file, FILE_BYTES_MAX, tried())?;
    let token = text.trim_end_matches(['\n', '\r']);
    // Other characters could end a header or a cookie.
    let is_plain = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte));
    match is_plain && TOKEN_LENGTHS.contains(&token.len()) {
        true => Ok(token.to_owned()),
        false => Err(Failure::text(
            exit::WRONG_USE,
            tried(),
            "a token has 16 to 256 letters, digits and - . _ ~ + /, and stands alone in its file",
        )
        .hint("head -c 24 /dev/urandom | base64 | tr -d = > FILE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn decide(access: &Access, address: &str, headers: &[(&'static str, &str)]) -> Decision {
        let headers = headers.iter().map(|(name, value)| {
            (header::HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        access.decide(&address.parse().unwrap(), &headers.collect())
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let access = Access { token: None, host_names: vec!["game1.example".into()], is_tls: false };
        for host in
            ["127.0.0.1:9177", "127.0.0.1", "[::1]:9177", "localhost:1", "LOCALHOST", "10.0.0.7", "game1.example:80"]
        {
            assert_eq!(decide(&access, "/", &[("host", host)]), Decision::Answer, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "localhost.", "127.1"] {
            assert_eq!(decide(&access, "/", &[("host", host)]), Decision::ForeignHost, "{host}");
        }
        for host in ["", "[evil]", "\u{e9}", "[::1].evil.example", "localhost:80@evil.example", "::1"] {
            assert_eq!(decide(&access, "/", &[("host", host)]), Decision::NoHost, "{host}");
        }
        assert_eq!(decide(&access, "/", &[]), Decision::NoHost);
    }

    /// A second host could be the one that somebody else looks at.
    #[test]
    fn a_request_names_one_host() {
        let access = Access { token: None, host_names: Vec::new(), is_tls: false };
        let both = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(decide(&access, "/metrics", &both), Decision::NoHost);
        assert_eq!(decide(&access, "/metrics", &[both[1], both[0]]), Decision::NoHost);
        assert_eq!(decide(&access, "/metrics", &[both[0], both[0]]), Decision::NoHost);
        // The form of an address for proxies.
        let local = ("host", "localhost:9177");
        assert_eq!(decide(&access, "http://LOCALHOST:9177/metrics", &[local]), Decision::Answer);
        for address in ["http://evil.example/metrics", "http://localhost/metrics", "http://evil@localhost:9177/metrics"]
        {
            assert_eq!(decide(&access, address, &[local]), Decision::NoHost, "{address}");
        }
        let foreign = ("host", "evil.example");
        assert_eq!(decide(&access, "http://localhost/metrics", &[foreign]), Decision::NoHost);
        assert_eq!(decide(&access, "http://evil.example/metrics", &[foreign]), Decision::ForeignHost);
    }

    #[test]
    fn a_name_that_is_no_host_is_refused() {
        assert_eq!(own_name("Game1.example").ok().as_deref(), Some("game1.example"));
        for name in ["", "game1:9177", "http://game1", "game 1", "[::1"] {
            assert!(own_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn only_the_whole_token_is_a_token() {
        let access = Access { token: Some(TOKEN.into()), host_names: Vec::new(), is_tls: true };
        let with = |name, value: &str| decide(&access, "/metrics", &[("host", "localhost"), (name, value)]);
        let bearer = format!("Bearer {TOKEN}");
        let cookie = format!("a=b; {COOKIE}={TOKEN}");
        assert_eq!(with("authorization", &bearer), Decision::Answer);
        assert_eq!(with("cookie", &cookie), Decision::Answer);
        // The scheme's name is not case-sensitive.
        assert_eq!(with("authorization", &format!("bearer {TOKEN}")), Decision::Answer);
        for wrong in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Basic 0123456789abcdef"]
        {
            assert_eq!(with("authorization", wrong), Decision::NoToken, "{wrong}");
        }
        for wrong in ["", COOKIE, "evenkeel_token=", "evenkeel_token=0123456789abcdeg", "other=0123456789abcdef"] {
            assert_eq!(with("cookie", wrong), Decision::NoToken, "{wrong}");
        }
        // The token in the address works only for the page, so that other logs do not contain it.
        let page = decide(&access, &format!("/?token={TOKEN}"), &[("host", "localhost")]);
        assert!(matches!(&page, Decision::KeepToken(cookie) if cookie.as_bytes().ends_with(b"; Secure")), "{page:?}");
        let metrics = decide(&access, &format!("/metrics?token={TOKEN}"), &[("host", "localhost")]);
        assert_eq!(metrics, Decision::NoToken);
        // A token in base64 has characters that some programs encode.
        let access = Access { token: Some("0123456789ab+/de".into()), ..access };
        for (sent, expected) in [
            ("0123456789ab+/de", true),
            ("0123456789ab%2B%2fde", true),
            ("0123456789ab%2B%2", false),
            ("0123456789ab%+B/de", false),
            ("%", false),
        ] {
            let page = decide(&access, &format!("/?token={sent}"), &[("host", "localhost")]);
            assert_eq!(matches!(page, Decision::KeepToken(_)), expected, "{sent}");
        }
    }

    #[test]
    fn only_a_page_of_evenkeel_itself_may_send_a_request() {
        let is_foreign = |headers: &[(&'static str, &str)]| {
            let headers = headers.iter().map(|(name, value)| {
                (header::HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
            });
            Access::is_from_another_site(&Uri::from_static("/dump"), &headers.collect())
        };
        let host = ("host", "localhost:9177");
        assert!(!is_foreign(&[host]), "curl and Alertmanager send no origin");
        assert!(!is_foreign(&[host, ("origin", "http://localhost:9177")]));
        assert!(!is_foreign(&[("host", "LOCALHOST:9177"), ("origin", "http://localhost:9177")]));
        let own = ("origin", "http://localhost:9177");
        assert!(is_foreign(&[host, own, ("origin", "http://evil.example")]) && is_foreign(&[host, host, own]));
        for origin in ["http://localhost:3000", "http://localhost", "null", "https://evil.example", "\u{e9}"] {
            assert!(is_foreign(&[host, ("origin", origin)]), "{origin}");
        }
    }

    #[test]
    fn a_file_of_a_token_is_private_and_plain() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let read = |text: &str, mode| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            read_token(&file).map_err(|failure| failure.message())
        };
        assert_eq!(read("0123456789abcdef\n", 0o600).as_deref(), Ok(TOKEN));
        assert!(read(TOKEN, 0o644).unwrap_err().contains("every user"));
        for wrong in ["", "short", "0123456789 abcdef", "0123456789abcdef\nmore", "0123456789abcdef;"] {
            assert!(read(wrong, 0o600).unwrap_err().contains("a token has 16 to 256"), "{wrong:?}");
        }
    }
}
