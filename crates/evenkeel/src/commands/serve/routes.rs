//! The addresses that `serve` answers: the page, metrics, JSON, and a stream of events.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use evenkeel_watch::recorder::Answer;
use evenkeel_watch::{Model, metrics};
use serde::{Deserialize, Serialize};

use super::access::{Access, Decision};
use super::feed::{Feed, Latest, Shared, is_fresh};
use super::history::Point;
use super::pieces::Pieces;

/// The address that requests a dump. All other addresses only read.
const DUMP: &str = "/dump";
/// The format of all JSON here.
pub(super) const FORMAT: u32 = 1;
/// The maximum number of simultaneous event streams. Each stream costs a few kilobytes a second.
const STREAMS_MAX: usize = 32;
/// The time between two comments on an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const PAGE: &str = include_str!("../../../../../web/serve/index.html");
const SCRIPT: &str = include_str!("../../../../../web/serve/serve.js");
const CHARTS: &str = include_str!("../../../../../web/serve/charts.js");
const STYLE: &str = include_str!("../../../../../web/serve/serve.css");

/// The headers of every answer. With them, the page loads only content of this server.
const HEADERS: [(header::HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

#[derive(Clone)]
pub(super) struct App {
    shared: Shared,
    access: Arc<Access>,
    streams: Arc<AtomicUsize>,
}

/// The addresses that show the current state of the host.
pub(super) fn live(feed: &Feed, access: &Arc<Access>, nothing_stored: MethodRouter<App>) -> Router {
    let app = App { shared: feed.shared.clone(), access: Arc::clone(access), streams: Arc::default() };
    Router::new()
        .route("/api/v1/replay", nothing_stored)
        .route("/metrics", get(prometheus))
        .route("/api/v1/model", get(model))
        .route("/api/v1/history", get(history))
        .route("/api/v1/events", get(events))
        .route("/readyz", get(ready))
        .route(DUMP, post(dump))
        .with_state(app)
}

/// The page and these addresses, for permitted clients. Any other path is not found, and any other method is refused.
pub(super) fn router(addresses: Router, access: &Arc<Access>) -> Router {
    Router::new()
        .route("/", get(|| asset("text/html; charset=utf-8", PAGE)))
        .route("/serve.js", get(|| asset("text/javascript; charset=utf-8", SCRIPT)))
        .route("/charts.js", get(|| asset("text/javascript; charset=utf-8", CHARTS)))
        .route("/serve.css", get(|| asset("text/css; charset=utf-8", STYLE)))
        .merge(addresses)
        .route("/healthz", get(|| async { "ok\n" }))
        .fallback(|| async { (StatusCode::NOT_FOUND, "not found\n") })
        .layer(middleware::from_fn_with_state(Arc::clone(access), guarded))
        .layer(middleware::from_fn(with_headers))
}

async fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn guarded(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    // Supervisors have no token, and these two answers contain no data.
    if ["/healthz", "/readyz"].contains(&request.uri().path()) {
        return next.run(request).await;
    }
    match access.decide(request.uri(), request.headers()) {
        Decision::Answer => next.run(request).await,
        Decision::KeepToken(cookie) => ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response(),
        Decision::NoToken => (
            StatusCode::UNAUTHORIZED,
            [(header::WWW_AUTHENTICATE, "Bearer")],
            "send the token: `Authorization: Bearer TOKEN`, or open /?token=TOKEN in a browser\n",
        )
            .into_response(),
        Decision::NoHost => {
            (StatusCode::BAD_REQUEST, "name one host: one Host header, and no other host in the address\n")
                .into_response()
        }
        Decision::ForeignHost => (
            StatusCode::MISDIRECTED_REQUEST,
            "this name is not known here: use an IP address, or start evenkeel with --host-name NAME\n",
        )
            .into_response(),
    }
}

async fn with_headers(request: Request, next: Next) -> Response {
    let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_dump = *request.method() == Method::POST && request.uri().path() == DUMP;
    let mut response = match is_reading || is_dump {
        true => next.run(request).await,
        false => (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")], "nothing here can be changed\n")
            .into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The answer before the collector has two samples.
fn not_ready() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], "the first samples are not taken yet\n")
        .into_response()
}

async fn ready(State(app): State<App>) -> Response {
    let latest = app.shared.latest.borrow().clone();
    match (latest.is_some(), is_fresh(latest.as_deref())) {
        (false, _) => not_ready(),
        (true, false) => (StatusCode::SERVICE_UNAVAILABLE, "the collector takes no samples\n").into_response(),
        (true, true) => "ready\n".into_response(),
    }
}

async fn prometheus(State(app): State<App>) -> Response {
    let Some(latest) = app.shared.latest.borrow().clone() else { return not_ready() };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let text = latest.metrics.get_or_init(|| metrics::render(&latest.model).into()).clone();
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

#[derive(Serialize)]
pub(super) struct ModelAnswer<'a> {
    pub(super) format: u32,
    #[serde(flatten)]
    pub(super) model: &'a Model,
}

async fn model(State(app): State<App>) -> Response {
    let Some(latest) = app.shared.latest.borrow().clone() else { return not_ready() };
    let answer =
        || serde_json::to_vec(&ModelAnswer { format: FORMAT, model: &latest.model }).unwrap_or_default().into();
    json(latest.json.get_or_init(answer).clone())
}

fn json(body: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[derive(Serialize)]
struct DumpAnswer {
    format: u32,
    /// Whether the recorder will write a dump.
    accepted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// Asks the flight recorder for a dump. It needs a token, because a page of another site could send this request too.
async fn dump(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Response {
    let answer = |status: StatusCode, why: Option<String>| {
        (status, Json(DumpAnswer { format: FORMAT, accepted: why.is_none(), why })).into_response()
    };
    if !app.access.needs_token() {
        return answer(StatusCode::FORBIDDEN, Some("dumps take a token: start evenkeel with --token-file".to_owned()));
    }
    if Access::is_from_another_site(&uri, &headers) {
        return answer(StatusCode::FORBIDDEN, Some("a page of another site sent this request".to_owned()));
    }
    let Some(dumper) = &app.shared.dumper else {
        let why = "the flight recorder does not run: start evenkeel with --dumps DIR";
        return answer(StatusCode::NOT_FOUND, Some(why.to_owned()));
    };
    match dumper.ask("asked by POST /dump") {
        Answer::Accepted => answer(StatusCode::ACCEPTED, None),
        Answer::TooSoon { wait_s } => {
            let why = format!("the last dump was less than a minute ago, wait {wait_s} s");
            let mut response = answer(StatusCode::TOO_MANY_REQUESTS, Some(why));
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait_s));
            response
        }
        Answer::Failed(why) => answer(StatusCode::SERVICE_UNAVAILABLE, Some(why)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    #[serde(default)]
    since_ms: u64,
}

async fn history(State(app): State<App>, Query(Since { since_ms }): Query<Since>) -> Response {
    let points = app.shared.history().since(since_ms);
    json(Body::new(Pieces::list(format!("{{\"format\":{FORMAT},\"points\":["), points)))
}

/// Counts a stream until it ends.
struct Stream(Arc<AtomicUsize>);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends one event per sample. A slow reader misses some samples, and then gets the newest.
async fn events(State(app): State<App>) -> Response {
    let before = app.streams.fetch_add(1, Ordering::Relaxed);
    let counted = Stream(Arc::clone(&app.streams));
    if before >= STREAMS_MAX {
        let why = "too many streams are open\n";
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "10")], why).into_response();
    }
    let mut latest = app.shared.latest.clone();
    latest.mark_changed();
    let stream = futures_util::stream::unfold((latest, counted), |(mut latest, counted)| async move {
        // The sender is dropped when the server ends.
        latest.changed().await.ok()?;
        let event = latest.borrow_and_update().as_deref().map_or_else(Event::default, event);
        Some((Ok::<Event, Infallible>(event), (latest, counted)))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

#[derive(Serialize)]
struct EventData<'a> {
    format: u32,
    point: &'a Point,
    model: &'a Model,
}

fn event(latest: &Latest) -> Event {
    let data = EventData { format: FORMAT, point: &latest.point, model: &latest.model };
    Event::default().event("sample").json_data(data).unwrap_or_default()
}
