//! `evenkeel serve`: shows the content of `watch` to a browser and to Prometheus.

mod access;
mod connections;
mod feed;
mod history;
mod host_name;
mod listen;
mod patient;
mod pieces;
mod replay;
mod routes;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_watch::Collector;
use serde::Serialize;

use self::access::Access;
use self::feed::Feed;
use self::listen::Listening;
use self::replay::Stored;
use self::tls::Tls;
use crate::exit;
use crate::experiment::stop_flag;
use crate::failure::{Failure, Outcome};
use crate::show::Out;
use crate::store_failure::store_failure;
use crate::times;
use crate::watch_args::WatchArgs;

/// How often the server checks for a signal, and for a collector that hangs.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The capacity for points: enough for the longest history.
const POINTS_MAX: usize = 7_200;

/// Serve the content of `watch` to browsers and to Prometheus; nothing is changed
#[derive(Debug, clap::Args)]
#[command(
    after_help = "/ is a page that updates itself, /metrics is for Prometheus, /api/v1/model and /api/v1/history are JSON, /api/v1/events is a stream, and /healthz and \
/readyz are for supervisors. For any address beyond loopback name a file with a token of 16 to 256 characters, or a certificate. With both, nobody can read the token \
on the network.

Examples:
  evenkeel serve
  evenkeel serve --pid 1234 --interval 500ms
  evenkeel serve --replay /var/lib/evenkeel/watch
  evenkeel serve --listen 10.0.0.5:9177 --token-file /etc/evenkeel/token
  evenkeel serve --listen 10.0.0.5:9177 --token-file token --tls-cert cert.pem --tls-key key.pem"
)]
pub(crate) struct Args {
    /// Address to listen on; port 0 takes a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9177")]
    listen: SocketAddr,
    /// Answer only requests with the token in FILE
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Encrypt with the certificate in FILE (PEM, with its chain); a renewed file is read again
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Listen on any address without a token and without TLS
    #[arg(long, conflicts_with_all = ["token_file", "tls_cert"])]
    insecure: bool,
    /// Also answer requests for this name; repeatable
    #[arg(long = "host-name", value_name = "NAME")]
    host_names: Vec<String>,
    /// How much of the past the page shows
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = times::time)]
    keep: Duration,
    /// Show a store, or a dump, instead of this machine
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep", "pids", "comms", "no_find", "gaps", "dumps", "host", "root", "metadata", "state", "interval", "late"])]
    replay: Option<PathBuf>,
    #[command(flatten)]
    watch: WatchArgs,
}

/// The addresses of the server. The command prints them when the server is ready.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    /// The addresses of the page.
    addresses: Vec<String>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let files = args.tls_cert.as_deref().zip(args.tls_key.as_deref());
    let tls = files.map(|(certificate, key)| Tls::open(certificate, key)).transpose()?;
    let access = Arc::new(Access::new(args.token_file.as_deref(), &args.host_names, tls.is_some())?);
    let stored = args.replay.as_ref().map(|place| Stored::open(place).map_err(store_failure)).transpose()?;
    // Report a process that can't be watched before `serve` listens.
    let collector = match stored {
        Some(_) => None,
        None => {
            let root = args.watch.open()?;
            Some(Collector::new(root.clone(), args.watch.options(&root)?))
        }
    };
    let listening = Listening::open(args.listen)?;
    let is_open = listening.addresses.iter().any(|address| !address.ip().is_loopback());
    if is_open && !access.needs_token() && tls.is_none() && !args.insecure {
        let cause = "it can be reached from other machines, and no token is needed";
        return Err(Failure::text(exit::WRONG_USE, format_args!("listen on {}", args.listen), cause).hint(
            "name a token with --token-file FILE, a certificate with --tls-cert FILE, or accept it with --insecure",
        ));
    }
    let stop = stop_flag()?;
    let points = args.keep.div_duration_f64(args.watch.interval());
    let points = (points.ceil() as usize).clamp(1, POINTS_MAX);
    let feed = collector.map(|collector| Feed::start(collector, args.watch.interval(), points, Arc::clone(&stop)));
    let feed = feed.transpose()?;
    let addresses = match (&stored, &feed) {
        (Some(stored), _) => stored.router(),
        (None, Some(feed)) => routes::live(feed, &access, axum::routing::get(replay::nothing_stored)),
        (None, None) => axum::Router::new(),
    };
    let sockets = Sockets { listening, tls };
    let served = serve(sockets, routes::router(addresses, &access), feed.as_ref(), &stop, out);
    stop.store(true, Ordering::Relaxed);
    if let Some(feed) = feed {
        feed.end();
    }
    served.map(|()| exit::WELL)
}

/// The listening sockets, and the TLS configuration.
struct Sockets {
    listening: Listening,
    tls: Option<Tls>,
}

/// Serves until a stop.
fn serve(
    Sockets { listening, tls }: Sockets,
    router: axum::Router,
    feed: Option<&Feed>,
    stop: &AtomicBool,
    out: &Out,
) -> Result<(), Failure> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let addresses: Vec<String> = listening.addresses.iter().map(|address| format!("{scheme}://{address}/")).collect();
    out.answer(&Answer { addresses: addresses.clone() }, || format!("serving on {}\n", addresses.join(" ")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|error| Failure::io(exit::NOT_POSSIBLE, "start the server", &error))?;
    let served = runtime.block_on(async {
        let accepting = connections::accept(listening, tls, router)?;
        let watchdog = supervised(feed, stop);
        // Systemd waits for this message before it starts dependent units. Without systemd, the call does nothing.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        watchdog.await;
        accepting.abort();
        Ok(())
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

/// Waits for the stop flag. Until then, notifies systemd's watchdog while the collector takes samples.
async fn supervised(feed: Option<&Feed>, stop: &AtomicBool) {
    let every = sd_notify::watchdog_enabled().map(|time| time / 3);
    let mut notified = std::time::Instant::now();
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK_EVERY).await;
        if every.is_some_and(|every| notified.elapsed() >= every) && feed.is_none_or(Feed::is_fresh) {
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
            notified = std::time::Instant::now();
        }
    }
}
