//! TCP from here to there: one connection and one thread a stream at either end, and the server's count of what came. A connection has
//! proved its address before it costs more than a kernel's entry; what it may take of the server is bounded in time and in number.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_sys::clock;

use super::wire::{self, Request, Result as Counted};
use super::{SECONDS_MAX, STREAMS_MAX};
use crate::{MeterError, Watch};

/// What one call writes and reads: iperf3's default, and enough that calls cost nothing beside copies.
const BLOCK_BYTES: usize = 128 * 1024;
const LOOK_AROUND: Duration = Duration::from_millis(50);
/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(3);
/// How long a stream may last beyond what it asked for, for what is still on its way.
const GRACE_NS: u64 = 2_000_000_000;

/// How often a sender tells how far it is.
const TELL_NS: u64 = 100_000_000;

/// What a server's streams amounted to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub(super) streams: u64,
    pub(super) refused: u64,
    pub(super) bytes: u64,
}

/// Takes streams until the watch says so or the time is over.
pub(super) fn serve(listener: &TcpListener, until_ns: u64, watch: &Watch<'_>) -> Result<Served, MeterError> {
    listener.set_nonblocking(true).map_err(|error| MeterError::refused("listen for streams", &error))?;
    let open = AtomicUsize::new(0);
    let mut served = Served::default();
    std::thread::scope(|scope| {
        let mut streams: Vec<std::thread::ScopedJoinHandle<'_, Option<Counted>>> = Vec::new();
        while clock::monotonic_ns() < until_ns && !watch.stopped() {
            let (ended, going) = streams.into_iter().partition(|stream| stream.is_finished());
            streams = going;
            served.add(ended);
            let Ok((stream, _)) = listener.accept() else {
                // Nobody waits, or one who waited has gone.
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            if open.load(Ordering::Acquire) >= STREAMS_MAX {
                // Closed without a word.
                served.refused += 1;
                continue;
            }
            open.fetch_add(1, Ordering::AcqRel);
            let open = &open;
            streams.push(scope.spawn(move || {
                let counted = take(stream, until_ns, watch);
                open.fetch_sub(1, Ordering::AcqRel);
                counted
            }));
        }
        served.add(streams);
    });
    Ok(served)
}

impl Served {
    fn add(&mut self, streams: Vec<std::thread::ScopedJoinHandle<'_, Option<Counted>>>) {
        for stream in streams {
            match stream.join().ok().flatten() {
                Some(counted) => {
                    self.streams += 1;
                    self.bytes += counted.bytes;
                }
                None => self.refused += 1,
            }
        }
    }
}

/// Reads a stream to its end and says what came. None if it was none of ours.
fn take(mut stream: TcpStream, until_ns: u64, watch: &Watch<'_>) -> Option<Counted> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(SILENCE)).ok()?;
    stream.set_write_timeout(Some(SILENCE)).ok()?;
    let mut head = [0; wire::REQUEST_BYTES];
    stream.read_exact(&mut head).ok()?;
    let request = Request::parse(&head)?;
    let (start_ns, cpu_start_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
    let until_ns = until_ns.min(start_ns + u64::from(request.ms) * 1_000_000 + GRACE_NS);
    let mut block = vec![0; BLOCK_BYTES];
    let mut bytes = 0_u64;
    let mut last_ns = start_ns;
    while last_ns < until_ns && !watch.stopped() {
        match stream.read(&mut block) {
            Ok(0) | Err(_) => break,
            Ok(length) => {
                bytes += length as u64;
                last_ns = clock::monotonic_ns();
            }
        }
    }
    let cpu_ns = clock::thread_cpu_ns() - cpu_start_ns;
    let counted = Counted { bytes, ns: last_ns - start_ns, cpu_ns };
    stream.write_all(&counted.bytes()).ok()?;
    Some(counted)
}

/// What one stream sent, and what the server counted of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) bytes: u64,
    pub(super) ns: u64,
    pub(super) cpu_ns: u64,
    pub(super) counted: Option<Counted>,
}

/// Sends one stream for so long, in pieces of so many bytes.
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
    stream.write_all(&Request { ms }.bytes()).map_err(refused)?;
    let block = vec![0_u8; piece_bytes.unwrap_or(BLOCK_BYTES)];
    let (cpu_start_ns, start_ns) = (clock::thread_cpu_ns(), clock::monotonic_ns());
    let (mut bytes, mut past_ns, mut told_ns) = (0_u64, 0, 0);
    while past_ns < duration_ns && !watch.stopped() {
        match stream.write(&block) {
            Ok(0) => break,
            Ok(length) => bytes += length as u64,
            Err(error) if is_wait(&error) => {}
            Err(error) if bytes == 0 => return Err(refused(error)),
            Err(_) => break,
        }
        past_ns = clock::monotonic_ns() - start_ns;
        if past_ns >= told_ns + TELL_NS {
            told_ns = past_ns;
            watch.progress(past_ns as f64 / duration_ns as f64, "bandwidth");
        }
    }
    let cpu_ns = clock::thread_cpu_ns() - cpu_start_ns;
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = [0; wire::RESULT_BYTES];
    let counted = stream.read_exact(&mut answer).ok().and_then(|()| Counted::parse(&answer));
    Ok(Sent { bytes, ns: past_ns, cpu_ns, counted })
}

fn is_wait(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
