//! Reads instance metadata from the link-local address of the cloud.
//! Only a root that was opened with metadata does this, so by default nothing uses the network.
//! The request uses no proxy and no other host, and accepts one short answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use evenkeel_sys::Errno;
use evenkeel_sys::http::{self, BadAnswer, HttpError};

/// All supported clouds use this address.
const LINK_LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);

/// The time limit of a request. The machine's own hypervisor answers within a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(100);

/// The maximum size of an answer that is read, without its headers.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// The longest name of an instance type, and the longest token. Real names have about 30 characters, and real tokens about 56.
const VALUE_BYTES_MAX: usize = 128;

/// A metadata service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metadata {
    address: SocketAddr,
    /// The time limit for all requests of one reading.
    patience: Duration,
}

/// A request to a service.
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    /// A header that the service requires, because browsers and proxies do not send it.
    header: (&'a str, &'a str),
}

impl Metadata {
    /// The service at 169.254.169.254, the link-local address of all supported clouds.
    pub(crate) fn link_local() -> Metadata {
        Metadata { address: LINK_LOCAL, patience: PATIENCE }
    }

    /// Answers `@metadata/ec2/instance-type`, `@metadata/gce/machine-type` and `@metadata/azure/vm-size`.
    ///
    /// # Errors
    /// `ETIMEDOUT` after 100 ms, `EACCES` if the service refuses, and `ENODATA` if the service does not have the item.
    /// `EPROTO` for an invalid answer, and `EFBIG` for a long answer. Otherwise the kernel's error for the connection.
    pub(crate) fn text(&self, path: &str) -> Result<String, Errno> {
        let deadline = Instant::now() + self.patience;
        let ask = |method, path, header| self.ask(&Request { method, path, header }, deadline);
        let value = match path {
            "@metadata/ec2/instance-type" => {
                // Version 2 of the service needs a token first, so that a forged request fails.
                let token = ask("PUT", "/latest/api/token", ("X-aws-ec2-metadata-token-ttl-seconds", "60"))?;
                ask("GET", "/latest/meta-data/instance-type", ("X-aws-ec2-metadata-token", &token))?
            }
            "@metadata/gce/machine-type" => {
                let path = "/computeMetadata/v1/instance/machine-type";
                let value = ask("GET", path, ("Metadata-Flavor", "Google"))?;
                // `projects/NUMBER/machineTypes/NAME`: the number identifies the owner, so a capture does not store it.
                value.rsplit('/').next().unwrap_or_default().to_owned()
            }
            "@metadata/azure/vm-size" => {
                let path = "/metadata/instance/compute/vmSize?api-version=2021-02-01&format=text";
                ask("GET", path, ("Metadata", "true"))?
            }
            _ => return Err(Errno::NOENT),
        };
        if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
            return Err(Errno::PROTO);
        }
        Ok(value + "\n")
    }

    /// Sends one request on a connection of its own. Returns the text of the answer, which must be printable, on one line, and not empty.
    fn ask(&self, request: &Request<'_>, deadline: Instant) -> Result<String, Errno> {
        let Request { method, path, header: (name, value) } = request;
        let host = self.address.ip();
        let body = if *method == "PUT" { "Content-Length: 0\r\n" } else { "" };
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{name}: {value}\r\n{body}Connection: close\r\n\r\n");
        let answer = http::connect([self.address], deadline)
            .map_err(HttpError::from)
            .and_then(|mut stream| http::exchange(&mut stream, head.as_bytes(), ANSWER_BYTES_MAX, deadline))
            .map_err(|error| errno(&error))?;
        match answer.status {
            200 => {}
            401 | 403 => return Err(Errno::ACCESS),
            400..=499 => return Err(Errno::NODATA),
            _ => return Err(Errno::PROTO),
        }
        let body = std::str::from_utf8(&answer.body).map_err(|_| Errno::PROTO)?;
        let value = body.trim_end_matches(['\r', '\n']);
        if is_value(value) { Ok(value.to_owned()) } else { Err(Errno::PROTO) }
    }
}

/// Whether the text is safe in a header of the next request: it must not contain line breaks.
fn is_value(text: &str) -> bool {
    (1..=VALUE_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn errno(error: &HttpError) -> Errno {
    match error {
        HttpError::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => Errno::TIMEDOUT,
        HttpError::Io(error) => Errno::from(error),
        HttpError::BadAnswer(BadAnswer::HeadTooLong | BadAnswer::BodyTooLong { .. }) => Errno::FBIG,
        HttpError::BadAnswer(_) => Errno::PROTO,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    const EC2: &str = "@metadata/ec2/instance-type";

    /// Starts a service on a loopback port that sends each of `answers` to one connection, and records the requests.
    ///
    /// The time limit is short only for tests without an answer, because a busy machine may take long for a good answer.
    fn with_service(path: &str, answers: Vec<Vec<u8>>) -> (Result<String, Errno>, Vec<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let hangs = answers.iter().any(Vec::is_empty);
        let patience = if hangs { PATIENCE } else { Duration::from_secs(30) };
        let address = listener.local_addr().unwrap();
        let metadata = Metadata { address, patience };
        let service = thread::spawn(move || {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
                    head.push(byte[0]);
                }
                asked.push(String::from_utf8(head).unwrap());
                // The client may have closed the connection during a long answer.
                let _ = stream.write_all(&answer);
                if answer.is_empty() {
                    // Hangs until the client closes the connection.
                    let _ = stream.read(&mut byte);
                }
            }
            asked
        });
        let answer = metadata.text(path);
        // If the client timed out before its request, the service still waits.
        while !service.is_finished() {
            drop(TcpStream::connect(address));
            thread::sleep(Duration::from_millis(1));
        }
        (answer, service.join().unwrap())
    }

    fn ok(body: &str) -> Vec<u8> {
        format!("HTTP/1.1 200 OK\r\nServer: EC2ws\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    fn status(line: &str) -> Vec<u8> {
        format!("HTTP/1.1 {line}\r\nContent-Length: 4\r\n\r\noops").into_bytes()
    }

    #[test]
    fn ec2_wants_a_token_first() {
        let (answer, asked) = with_service(EC2, vec![ok("AQAAAB=="), ok("m4.xlarge")]);
        assert_eq!(answer, Ok("m4.xlarge\n".to_owned()));
        assert!(asked[0].starts_with("PUT /latest/api/token HTTP/1.1\r\n"), "{}", asked[0]);
        assert!(asked[0].contains("\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\n"), "{}", asked[0]);
        assert!(asked[1].starts_with("GET /latest/meta-data/instance-type HTTP/1.1\r\n"), "{}", asked[1]);
        assert!(asked[1].contains("\r\nX-aws-ec2-metadata-token: AQAAAB==\r\n"), "{}", asked[1]);
    }

    #[test]
    fn google_and_azure_want_their_header() {
        let google = "@metadata/gce/machine-type";
        let (answer, asked) = with_service(google, vec![ok("projects/1234/machineTypes/n2-standard-4")]);
        assert_eq!(answer, Ok("n2-standard-4\n".to_owned()));
        assert!(asked[0].contains("\r\nMetadata-Flavor: Google\r\n"), "{}", asked[0]);
        // An answer that ends with the connection, from an HTTP/1.0 service.
        let closed = b"HTTP/1.0 200 OK\r\n\r\nStandard_D2s_v3".to_vec();
        let (answer, asked) = with_service("@metadata/azure/vm-size", vec![closed]);
        assert_eq!(answer, Ok("Standard_D2s_v3\n".to_owned()));
        assert!(asked[0].contains("\r\nMetadata: true\r\n"), "{}", asked[0]);
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nm4.xlarge\r\n0\r\n\r\n".to_vec();
        assert_eq!(with_service(EC2, vec![ok("t"), chunked]).0, Ok("m4.xlarge\n".to_owned()), "in chunks");
    }

    #[test]
    fn a_service_that_does_not_answer_well_is_an_error_with_a_name() {
        let endless = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 64 << 10]].concat();
        let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nm4".to_vec();
        for (label, answers, expected) in [
            ("no such thing", vec![ok("t"), status("404 Not Found")], Errno::NODATA),
            ("wrong token", vec![ok("t"), status("401 Unauthorized")], Errno::ACCESS),
            ("no tokens here", vec![status("403 Forbidden")], Errno::ACCESS),
            ("a broken service", vec![status("500 Oops")], Errno::PROTO),
            ("a redirection", vec![status("301 Moved")], Errno::PROTO),
            ("garbage", vec![b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec()], Errno::PROTO),
            ("not text", vec![b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe".to_vec()], Errno::PROTO),
            ("a token with lines of its own", vec![ok("t\r\nHost: x")], Errno::PROTO),
            ("a page", vec![ok("t"), ok("<html>")], Errno::PROTO),
            ("nothing", vec![ok("")], Errno::PROTO),
            ("cut short", vec![ok("t"), cut], Errno::PROTO),
            ("endless", vec![ok("t"), endless], Errno::FBIG),
            ("silent", vec![vec![]], Errno::TIMEDOUT),
            ("silent later", vec![ok("t"), vec![]], Errno::TIMEDOUT),
        ] {
            assert_eq!(with_service(EC2, answers).0, Err(expected), "{label}");
        }
        let closed_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let nobody = Metadata { address: closed_port, patience: Duration::from_secs(30) };
        assert_eq!(nobody.text(EC2), Err(Errno::CONNREFUSED));
        assert_eq!(nobody.text("@metadata/ec2/user-data"), Err(Errno::NOENT));
    }
}
