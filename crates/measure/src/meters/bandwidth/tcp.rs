//! TCP to the server or back: each stream has its own connection, and one thread at each end.
//! The receiver counts the bytes.
//! The TCP handshake proves a client's address before the client uses more than an entry in the kernel.
//! The server limits the number and duration of streams, and sends to one host at a time.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_sys::clock;

use super::settings::{Direction, SECONDS_MAX, STREAMS_MAX};
use super::wire::{self, Request, Result as Counted};
use crate::{MeterError, Watch};

/// The size of a write and a read. It is iperf3's default, and large enough that system calls cost little compared with the copies.
const BLOCK_BYTES: usize = 128 * 1024;
const LOOK_AROUND: Duration = Duration::from_millis(50);
/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(3);
/// How long a stream may exceed its requested time, for bytes that are still in transit.
const GRACE_NS: u64 = 2_000_000_000;

/// How often a sender reports progress.
const PROGRESS_NS: u64 = 100_000_000;

/// The totals of a server's streams.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub(super) streams: u64,
    pub(super) refused: u64,
    pub(super) bytes: u64,
    pub(super) sent_bytes: u64,
}

/// Whether a server also sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reverse {
    Refused,
    Allowed,
}

/// Accepts and sends streams until the watch asks it to stop or the time is over.
pub(super) fn serve(
    listener: &TcpListener,
    reverse: Reverse,
    until_ns: u64,
    watch: &Watch<'_>,
) -> Result<Served, MeterError> {
    listener.set_nonblocking(true).map_err(|error| MeterError::refused("listen for streams", &error))?;
    let open = AtomicUsize::new(0);
    let outlet = Outlet { reverse, to: Mutex::new(None) };
    let mut served = Served::default();
    std::thread::scope(|scope| {
        let mut streams: Vec<Handle<'_>> = Vec::new();
        while clock::monotonic_ns() < until_ns && !watch.stopped() {
            let (ended, going) = streams.into_iter().partition(|stream| stream.is_finished());
            streams = going;
            served.add(ended);
            let Ok((stream, from)) = listener.accept() else {
                // No connection is waiting, or a waiting connection has gone.
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            if open.load(Ordering::Acquire) >= STREAMS_MAX {
                // The server closes this connection without an answer.
                served.refused += 1;
                continue;
            }
            open.fetch_add(1, Ordering::AcqRel);
            let (open, outlet) = (&open, &outlet);
            streams.push(scope.spawn(move || {
                let counted = serve_one(stream, from.ip(), outlet, until_ns, watch);
                open.fetch_sub(1, Ordering::AcqRel);
                counted
            }));
        }
        served.add(streams);
    });
    Ok(served)
}

type Handle<'a> = std::thread::ScopedJoinHandle<'a, Option<(Direction, Counted)>>;

impl Served {
    fn add(&mut self, streams: Vec<Handle<'_>>) {
        for stream in streams {
            match stream.join().ok().flatten() {
                Some((way, counted)) => {
                    self.streams += 1;
                    let sum = if way == Direction::ToServer { &mut self.bytes } else { &mut self.sent_bytes };
                    *sum += counted.bytes;
                }
                None => self.refused += 1,
            }
        }
    }
}

/// The host that receives streams now, and the number of its streams. There is only one host at a time.
/// So many clients cannot make a server send more than one client could.
struct Outlet {
    reverse: Reverse,
    to: Mutex<Option<(IpAddr, usize)>>,
}

impl Outlet {
    /// A slot for one stream to this host. Dropping the value frees the slot.
    fn enter(&self, host: IpAddr) -> Option<Place<'_>> {
        let mut to = self.to.lock().ok()?;
        let streams = match *to {
            _ if self.reverse == Reverse::Refused => return None,
            Some((other, _)) if other != host => return None,
            Some((_, streams)) => streams,
            None => 0,
        };
        *to = Some((host, streams + 1));
        Some(Place(self))
    }
}

struct Place<'a>(&'a Outlet);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Ok(mut to) = self.0.to.lock() {
            *to = (*to).and_then(|(host, streams)| Some((host, streams.checked_sub(1).filter(|left| *left > 0)?)));
        }
    }
}

/// Reads the request of a connection and serves the request. None if the request was invalid.
fn serve_one(
    mut stream: TcpStream,
    from: IpAddr,
    outlet: &Outlet,
    until_ns: u64,
    watch: &Watch<'_>,
) -> Option<(Direction, Counted)> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(SILENCE)).ok()?;
    stream.set_write_timeout(Some(SILENCE)).ok()?;
    let mut head = [0; wire::REQUEST_BYTES];
    stream.read_exact(&mut head).ok()?;
    let request = Request::parse(&head)?;
    let span = Span { start_ns: clock::monotonic_ns(), cpu_start_ns: clock::thread_cpu_ns() };
    let end_ns = span.start_ns + u64::from(request.ms) * 1_000_000;
    let counted = match request.way {
        Direction::ToServer => take(stream, span, until_ns.min(end_ns + GRACE_NS), watch),
        Direction::FromServer => {
            let _place = outlet.enter(from)?;
            give(stream, span, until_ns.min(end_ns), watch)
        }
    };
    Some((request.way, counted?))
}

/// When a stream began.
#[derive(Clone, Copy)]
struct Span {
    start_ns: u64,
    cpu_start_ns: u64,
}

impl Span {
    fn counted(self, bytes: u64, last_ns: u64) -> Counted {
        let cpu_ns = clock::thread_cpu_ns().saturating_sub(self.cpu_start_ns);
        Counted { bytes, ns: last_ns.saturating_sub(self.start_ns), cpu_ns }
    }
}

/// Reads a stream to its end and reports how much arrived.
fn take(mut stream: TcpStream, span: Span, until_ns: u64, watch: &Watch<'_>) -> Option<Counted> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut bytes = 0_u64;
    let mut last_ns = span.start_ns;
    while last_ns < until_ns && !watch.stopped() {
        match stream.read(&mut block) {
            Ok(0) | Err(_) => break,
            Ok(length) => {
                bytes += length as u64;
                last_ns = clock::monotonic_ns();
            }
        }
    }
    let counted = span.counted(bytes, last_ns);
    stream.write_all(&counted.bytes()).ok()?;
    Some(counted)
}

/// Sends a stream for the requested time, and then reports how much was sent. The server drops a host that accepts nothing for a while.
fn give(mut stream: TcpStream, span: Span, until_ns: u64, watch: &Watch<'_>) -> Option<Counted> {
    stream.set_write_timeout(Some(LOOK_AROUND)).ok()?;
    let block = vec![0_u8; BLOCK_BYTES];
    let (mut bytes, mut now_ns, mut moved_ns) = (0_u64, span.start_ns, span.start_ns);
    while now_ns < until_ns && !watch.stopped() {
        let written = stream.write(&block);
        now_ns = clock::monotonic_ns();
        match written {
            Ok(length) if length > 0 => {
                bytes += length as u64;
                moved_ns = now_ns;
            }
            Err(error) if is_wait(&error) && now_ns < moved_ns + SILENCE.as_nanos() as u64 => {}
            _ => return None,
        }
    }
    let counted = span.counted(bytes, now_ns);
    stream.set_write_timeout(Some(SILENCE)).ok()?;
    stream.write_all(&counted.bytes()).ok()?;
    Some(counted)
}

/// The bytes that one stream sent, and the bytes that the server counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) bytes: u64,
    pub(super) ns: u64,
    pub(super) cpu_ns: u64,
    pub(super) counted: Option<Counted>,
}

/// Sends one stream for this long, in writes of this many bytes.
pub(super) fn send(
    to: SocketAddr,
    duration_ns: u64,
    piece_bytes: Option<usize>,
    watch: &Watch<'_>,
) -> Result<Sent, MeterError> {
    let refused = |error: std::io::Error| MeterError::refused(format!("send a stream to {to}"), &error);
    let mut stream = TcpStream::connect_timeout(&to, SILENCE).map_err(refused)?;
    stream.set_write_timeout(Some(LOOK_AROUND)).map_err(refused)?;
    stream.set_read_timeout(Some(SILENCE)).map_err(refused)?;
    let ms = (duration_ns / 1_000_000).min((SECONDS_MAX * 1000.0) as u64) as u32;
    stream.write_all(&Request { way: Direction::ToServer, ms }.bytes()).map_err(refused)?;
    let block = vec![0_u8; piece_bytes.unwrap_or(BLOCK_BYTES)];
    let (cpu_start_ns, start_ns) = (clock::thread_cpu_ns(), clock::monotonic_ns());
    let (mut bytes, mut past_ns, mut reported_ns) = (0_u64, 0, 0);
    while past_ns < duration_ns && !watch.stopped() {
        match stream.write(&block) {
            Ok(0) => break,
            Ok(length) => bytes += length as u64,
            Err(error) if is_wait(&error) => {}
            Err(error) if bytes == 0 => return Err(refused(error)),
            Err(_) => break,
        }
        past_ns = clock::monotonic_ns() - start_ns;
        if past_ns >= reported_ns + PROGRESS_NS {
            reported_ns = past_ns;
            watch.progress(past_ns as f64 / duration_ns as f64, "bandwidth");
        }
    }
    let cpu_ns = clock::thread_cpu_ns() - cpu_start_ns;
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = [0; wire::RESULT_BYTES];
    let counted = stream.read_exact(&mut answer).ok().and_then(|()| Counted::parse(&answer));
    Ok(Sent { bytes, ns: past_ns, cpu_ns, counted })
}

/// The bytes of one stream that arrived from the server, and the bytes that it reports as sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) bytes: u64,
    pub(super) ns: u64,
    pub(super) cpu_ns: u64,
    pub(super) sent: Option<Counted>,
}

/// Asks the server to send one stream for this long.
pub(super) fn fetch(
    to: SocketAddr,
    duration_ns: u64,
    piece_bytes: Option<usize>,
    watch: &Watch<'_>,
) -> Result<Received, MeterError> {
    let refused = |error: std::io::Error| MeterError::refused(format!("have a stream sent by {to}"), &error);
    let mut stream = TcpStream::connect_timeout(&to, SILENCE).map_err(refused)?;
    stream.set_read_timeout(Some(LOOK_AROUND)).map_err(refused)?;
    stream.set_write_timeout(Some(SILENCE)).map_err(refused)?;
    let ms = (duration_ns / 1_000_000).clamp(1, u32::MAX.into()) as u32;
    let mut block = vec![0_u8; piece_bytes.unwrap_or(BLOCK_BYTES)];
    stream.write_all(&Request { way: Direction::FromServer, ms }.bytes()).map_err(refused)?;
    let (cpu_start_ns, start_ns) = (clock::thread_cpu_ns(), clock::monotonic_ns());
    let (mut bytes, mut past_ns, mut last_ns, mut reported_ns) = (0_u64, 0, 0, 0);
    let mut tail = Tail::default();
    while past_ns < duration_ns + GRACE_NS && !watch.stopped() {
        let read = stream.read(&mut block);
        past_ns = clock::monotonic_ns() - start_ns;
        match read {
            Ok(length) if length > 0 => {
                bytes += length as u64;
                tail.see(&block[..length]);
                last_ns = past_ns;
            }
            Err(error) if is_wait(&error) => {}
            _ => break,
        }
        if past_ns >= reported_ns + PROGRESS_NS {
            reported_ns = past_ns;
            watch.progress(past_ns as f64 / duration_ns as f64, "bandwidth");
        }
    }
    let sent = Counted::parse(&tail.0);
    if bytes == 0 && !watch.stopped() {
        let why = "it closed without a byte: it may be serving another host, be started with --reverse-max 0, or be too old to know of streams back";
        return Err(MeterError::not_possible(format!("have a stream sent by {to}"), why));
    }
    let bytes = bytes - if sent.is_some() { wire::RESULT_BYTES as u64 } else { 0 };
    Ok(Received { bytes, ns: last_ns, cpu_ns: clock::thread_cpu_ns() - cpu_start_ns, sent })
}

/// The last bytes of a stream.
#[derive(Default)]
struct Tail([u8; wire::RESULT_BYTES]);

impl Tail {
    fn see(&mut self, bytes: &[u8]) {
        let keep = self.0.len().saturating_sub(bytes.len());
        self.0.rotate_left(wire::RESULT_BYTES - keep);
        self.0[keep..].copy_from_slice(&bytes[bytes.len().saturating_sub(wire::RESULT_BYTES)..]);
    }
}

fn is_wait(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept_however_they_come() {
        let all: Vec<u8> = (0..200).collect();
        for pieces in [1, 3, 31, 32, 33, 100] {
            let mut tail = Tail::default();
            all.chunks(pieces).for_each(|piece| tail.see(piece));
            assert_eq!(tail.0, all[168..], "{pieces} at a time");
        }
    }

    #[test]
    fn streams_go_to_one_host_at_a_time() {
        let outlet = Outlet { reverse: Reverse::Allowed, to: Mutex::new(None) };
        let host = |last: u8| IpAddr::from([10, 0, 0, last]);
        let (one, two) = (outlet.enter(host(1)), outlet.enter(host(1)));
        assert!(one.is_some() && two.is_some() && outlet.enter(host(2)).is_none());
        drop(one);
        assert!(outlet.enter(host(2)).is_none(), "one stream is left");
        drop(two);
        let other = outlet.enter(host(2));
        assert!(other.is_some() && outlet.enter(host(1)).is_none());
        let none = Outlet { reverse: Reverse::Refused, to: Mutex::new(None) };
        assert!(none.enter(host(1)).is_none());
    }
}
