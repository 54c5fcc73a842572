//! Instance metadata: what a cloud tells its machine at a link-local address. Asked only by a root that was opened for it, so
//! that nothing touches the network by default; no proxy, no other host, one short answer.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use evenkeel_sys::Errno;

/// All clouds that evenkeel asks answer here.
const LINK_LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);

/// The answer comes from the machine's own hypervisor, within a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(100);

/// The most of an answer that is read, its headers included.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// The longest name of an instance type, and the longest token; real ones have about 30 and 56 letters.
const VALUE_BYTES_MAX: usize = 128;

/// The service that tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metadata {
    address: SocketAddr,
    /// For all requests of one question together.
    patience: Duration,
}

/// What is asked of a service, in its own words.
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    /// One header that the service wants; it keeps browsers and proxies from asking.
    header: (&'a str, &'a str),
}

/// An answer without its headers.
#[derive(Debug, PartialEq, Eq)]
struct Answer<'a> {
    status: u16,
    body: &'a str,
}

impl Metadata {
    /// The service at the address that clouds have for it.
    pub(crate) fn link_local() -> Metadata {
        Metadata { address: LINK_LOCAL, patience: PATIENCE }
    }

    /// Answers `@metadata/ec2/instance-type`, `@metadata/gce/machine-type` and `@metadata/azure/vm-size`.
    ///
    /// # Errors
    /// `ETIMEDOUT` after 100 ms, `EACCES` where the service refuses us, `ENODATA` where it has no such thing, `EPROTO` for what is
    /// no answer, `EFBIG` for a long one, else what the kernel says of the connection.
    pub(crate) fn text(&self, path: &str) -> Result<String, Errno> {
        let deadline = Instant::now() + self.patience;
        let ask = |method, path, header| self.ask(&Request { method, path, header }, deadline);
        let value = match path {
            "@metadata/ec2/instance-type" => {
                // Version 2 of the service: a token first, so that a request that something was tricked into fails.
                let token = ask("PUT", "/latest/api/token", ("X-aws-ec2-metadata-token-ttl-seconds", "60"))?;
                ask("GET", "/latest/meta-data/instance-type", ("X-aws-ec2-metadata-token", &token))?
            }
            "@metadata/gce/machine-type" => {
                let path = "/computeMetadata/v1/instance/machine-type";
                let value = ask("GET", path, ("Metadata-Flavor", "Google"))?;
                // `projects/NUMBER/machineTypes/NAME`: the number names the owner, which no capture has to know.
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

    /// One request on a connection of its own, and the text of its answer: printable, on one line, not empty.
    fn ask(&self, request: &Request<'_>, deadline: Instant) -> Result<String, Errno> {
        let mut stream = TcpStream::connect_timeout(&self.address, left(deadline)?).map_err(|error| errno(&error))?;
        let Request { method, path, header: (name, value) } = request;
        let host = self.address.ip();
        let body = if *method == "PUT" { "Content-Length: 0\r\n" } else { "" };
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{name}: {value}\r\n{body}Connection: close\r\n\r\n");
        stream.set_write_timeout(Some(left(deadline)?)).map_err(|error| errno(&error))?;
        stream.write_all(head.as_bytes()).map_err(|error| errno(&error))?;
        let bytes = read_until_closed(&mut stream, deadline)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Errno::PROTO)?;
        match parse(text).ok_or(Errno::PROTO)? {
            Answer { status: 200, body } if is_value(body) => Ok(body.to_owned()),
            Answer { status: 401 | 403, .. } => Err(Errno::ACCESS),
            Answer { status: 400..=499, .. } => Err(Errno::NODATA),
            _ => Err(Errno::PROTO),
        }
    }
}

/// What goes into the header of the next request must not bring lines of its own.
fn is_value(text: &str) -> bool {
    (1..=VALUE_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The time that is left; sockets take no timeout of zero.
fn left(deadline: Instant) -> Result<Duration, Errno> {
    deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).ok_or(Errno::TIMEDOUT)
}

/// A socket's timeout shows as `EAGAIN`.
fn errno(error: &std::io::Error) -> Errno {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Errno::TIMEDOUT,
        _ => Errno::from(error),
    }
}

/// Until the whole answer is there or the other side closes, whichever comes first.
fn read_until_closed(stream: &mut TcpStream, deadline: Instant) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    loop {
        stream.set_read_timeout(Some(left(deadline)?)).map_err(|error| errno(&error))?;
        let count = match stream.read(&mut piece) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(errno(&error)),
        };
        bytes.extend_from_slice(&piece[..count]);
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        // A service may keep the connection open although we asked it not to.
        if count == 0 || std::str::from_utf8(&bytes).ok().and_then(whole).is_some() {
            return Ok(bytes);
        }
    }
}

/// The answer, if its headers tell its length and all of it is there.
fn whole(text: &str) -> Option<()> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = header(head, "content-length")?.parse::<usize>().ok()?;
    (body.len() >= length).then_some(())
}

/// An answer in HTTP/1.0 or 1.1 that is as long as it says. One in chunks is none: no service sends a name in pieces.
fn parse(text: &str) -> Option<Answer<'_>> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status_line = head.lines().next()?;
    let mut words = status_line.strip_prefix("HTTP/1.")?.splitn(3, ' ');
    let (_minor, status) = (words.next()?.parse::<u8>().ok()?, words.next()?);
    let status = (status.len() == 3).then(|| status.parse().ok()).flatten()?;
    if header(head, "transfer-encoding").is_some() {
        return None;
    }
    let body = match header(head, "content-length") {
        Some(length) => body.get(..length.parse().ok()?)?,
        None => body,
    };
    Some(Answer { status, body: body.trim_end_matches(['\r', '\n']) })
}

/// The value of a header; names are the same in any case.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const EC2: &str = "@metadata/ec2/instance-type";

    /// A service on a port of loopback that gives each of `answers` to one connection, and what was asked of it.
    ///
    /// Only who waits in vain is impatient: a busy machine may take long over a good answer.
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
                // The client may have had enough of a long answer.
                let _ = stream.write_all(&answer);
                if answer.is_empty() {
                    // Hangs until the client gives up, which closes the connection.
                    let _ = stream.read(&mut byte);
                }
            }
            asked
        });
        let answer = metadata.text(path);
        // A client whose patience was over before it asked has left the service waiting for it.
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
        // An answer that ends where the connection does, of a service of HTTP/1.0.
        let closed = b"HTTP/1.0 200 OK\r\n\r\nStandard_D2s_v3".to_vec();
        let (answer, asked) = with_service("@metadata/azure/vm-size", vec![closed]);
        assert_eq!(answer, Ok("Standard_D2s_v3\n".to_owned()));
        assert!(asked[0].contains("\r\nMetadata: true\r\n"), "{}", asked[0]);
    }

    #[test]
    fn a_service_that_does_not_answer_well_is_an_error_with_a_name() {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nm4.xlarge\r\n0\r\n\r\n".to_vec();
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
            ("in chunks", vec![ok("t"), chunked], Errno::PROTO),
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

    proptest! {
        #[test]
        fn no_answer_makes_the_parser_panic(text in "(HTTP/1\\.[01x] [0-9]{1,4} ?[a-z]?)?(\r\n)?(Content-Length: ?[0-9]{0,21}\r\n|.){0,4}(\r\n\r\n)?.{0,9}") {
            let _ = whole(&text);
            if let Some(answer) = parse(&text) {
                prop_assert!(text.contains(answer.body) && answer.status <= 999);
            }
        }

        #[test]
        fn what_is_sent_whole_is_read_whole(status in 100u16..1000, body in "[!-~]{1,40}", rest in "[ -~]{0,5}") {
            let text = format!("HTTP/1.1 {status} X\r\ncontent-LENGTH:  {}\r\n\r\n{body}{rest}", body.len());
            prop_assert!(whole(&text).is_some());
            prop_assert_eq!(parse(&text), Some(Answer { status, body: &body }));
        }
    }
}
