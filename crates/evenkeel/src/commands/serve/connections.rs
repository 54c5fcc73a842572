//! Connections, with limits on their number, on the size of a request, and on the time that a request takes.
//! Beyond the limit, a new connection replaces the oldest connection that never sent a complete request,
//! or else the oldest connection.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::listen::Listening;
use super::patient::Patient;
use super::tls::{Acceptor, Tls};
use crate::exit;
use crate::failure::Failure;

/// The maximum number of simultaneous connections. On many systems, a process may have 1,024 open files.
const CONNECTIONS_MAX: usize = 512;
/// The time limit between the first and the last byte of a request's head, and the time limit of an idle connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long an answer waits for a client that reads nothing.
const WRITE_TIME: Duration = Duration::from_secs(10);
/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The maximum number of headers of a request.
const HEADERS_MAX: usize = 64;
/// The maximum duration of a connection. A browser then opens its stream of events again.
const LIFE: Duration = Duration::from_secs(3600);
/// The wait after an error of `accept`, for example if too many files are open.
const REST: Duration = Duration::from_millis(50);

/// A connection that runs.
struct Connection {
    task: JoinHandle<()>,
    /// Whether the server has read a complete request from this connection.
    is_used: Arc<AtomicBool>,
}

/// Accepts connections on all sockets, in a separate task.
///
/// # Errors
/// If a socket can't be watched.
pub(super) fn accept(listening: Listening, tls: Option<Tls>, router: Router) -> Result<JoinHandle<()>, Failure> {
    let failed = |error: io::Error| Failure::io(exit::NOT_POSSIBLE, "accept connections", &error);
    let listeners: io::Result<Vec<TcpListener>> = listening.listeners.into_iter().map(TcpListener::from_std).collect();
    let listeners = listeners.map_err(failed)?;
    Ok(tokio::spawn(async move {
        let mut running = VecDeque::new();
        let mut turn = 0;
        loop {
            match next(&listeners, &mut turn).await {
                Ok(stream) => {
                    make_room(&mut running);
                    running.push_back(serve(stream, tls.as_ref().map(Tls::acceptor), router.clone()));
                }
                Err(_) => tokio::time::sleep(REST).await,
            }
        }
    }))
}

/// The next connection of any socket.
/// Each call begins with a different socket, so that a busy socket does not starve the others.
async fn next(listeners: &[TcpListener], turn: &mut usize) -> io::Result<TcpStream> {
    *turn = turn.wrapping_add(1);
    let from = *turn;
    std::future::poll_fn(|context| {
        for at in 0..listeners.len() {
            let listener = &listeners[(from + at) % listeners.len()];
            if let std::task::Poll::Ready(accepted) = listener.poll_accept(context) {
                return std::task::Poll::Ready(accepted.map(|(stream, _)| stream));
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// Forgets connections that ended.
/// If too many are left, ends the oldest connection that never sent a complete request, or else the oldest.
fn make_room(running: &mut VecDeque<Connection>) {
    if running.len() < CONNECTIONS_MAX {
        return;
    }
    running.retain(|connection| !connection.task.is_finished());
    if running.len() < CONNECTIONS_MAX {
        return;
    }
    let idle = running.iter().position(|connection| !connection.is_used.load(Ordering::Relaxed));
    if let Some(connection) = running.remove(idle.unwrap_or(0)) {
        connection.task.abort();
    }
}

/// A client that disconnects, or sends an invalid request, is not an error of the server.
fn serve(stream: TcpStream, tls: Option<Acceptor>, router: Router) -> Connection {
    let is_used = Arc::new(AtomicBool::new(false));
    let used = Arc::clone(&is_used);
    let task = tokio::spawn(async move {
        let Some(tls) = tls else { return answer(TokioIo::new(stream), router, used).await };
        if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await {
            answer(TokioIo::new(stream), router, used).await;
        }
    });
    Connection { task, is_used }
}

/// Answers the requests of one connection.
async fn answer(stream: impl Read + Write + Unpin, router: Router, used: Arc<AtomicBool>) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let stream = Patient::new(stream, WRITE_TIME);
    let connection = pin!(builder.serve_connection(stream, tower_service(router, used)));
    let _ = tokio::time::timeout(LIFE, connection).await;
}

/// The router for hyper. It records that a complete request arrived.
fn tower_service(
    router: Router,
    used: Arc<AtomicBool>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = axum::response::Response<Body>,
    Error = std::convert::Infallible,
    Future: Send,
> {
    let service = TowerToHyperService::new(router.into_service::<Incoming>());
    hyper::service::service_fn(move |request| {
        used.store(true, Ordering::Relaxed);
        hyper::service::Service::call(&service, request)
    })
}
