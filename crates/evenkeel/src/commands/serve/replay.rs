//! `serve --replay`: the page moves through a store, or a dump of the flight recorder. The server collects no samples.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use evenkeel_watch::Model;
use evenkeel_watch::sample::Sample;
use evenkeel_watch::store::{Position, Replay};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::history::Point;
use super::routes::{FORMAT, ModelAnswer};

/// The maximum number of points of one answer.
/// If a range has more samples, each point covers the time since the previous point.
const POINTS_MAX: usize = 900;
/// The number of points of a longer range. Each point needs a separate search in the store.
const SEARCHED_POINTS: u64 = 150;
/// The longest range in which the server reads every sample, in milliseconds.
const WHOLE_MS_MAX: u64 = 900_000;

/// A store that requests read.
#[derive(Clone)]
pub(super) struct Stored {
    replay: Arc<Mutex<Replay>>,
    /// One request reads at a time. The others wait here, because a waiting thread for each would take memory.
    turn: Arc<Semaphore>,
}

/// The first answer to the page: whether the page shows a store, and the range of the store.
#[derive(Serialize)]
struct StoredAnswer {
    format: u32,
    /// Whether the page shows a store. Otherwise it shows the live host.
    is_stored: bool,
    /// The first and the last sample, in milliseconds since 1970 UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    range_ms: Option<(u64, u64)>,
}

#[derive(Serialize)]
struct PointsAnswer {
    format: u32,
    points: Vec<Point>,
    /// Whether the answer leaves out samples between the points.
    is_thinned: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from_ms: u64,
    to_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct At {
    at_ms: Option<u64>,
}

/// The answer of a server that shows the live host.
pub(super) async fn nothing_stored() -> Response {
    Json(StoredAnswer { format: FORMAT, is_stored: false, range_ms: None }).into_response()
}

impl Stored {
    /// Opens a store.
    ///
    /// # Errors
    /// As [`Replay::open`].
    pub(super) fn open(place: &Path) -> Result<Stored, evenkeel_watch::store::StoreError> {
        Ok(Stored { replay: Arc::new(Mutex::new(Replay::open(place)?)), turn: Arc::new(Semaphore::new(1)) })
    }

    /// The addresses of a store.
    pub(super) fn router(&self) -> Router {
        Router::new()
            .route("/api/v1/replay", get(stored))
            .route("/api/v1/history", get(history))
            .route("/api/v1/model", get(model))
            .route("/readyz", get(|| async { "ready\n" }))
            .with_state(self.clone())
    }

    /// Reads in a separate thread, so that the server can answer other requests meanwhile.
    async fn read<T: Send + 'static>(&self, read: impl FnOnce(&mut Replay) -> T + Send + 'static) -> Option<T> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        let replay = Arc::clone(&self.replay);
        // A panic of another request does not change the store on disk.
        let body = move || {
            // The thread reads to its end, also if the client is gone. Only then is it the next one's turn.
            let _turn = turn;
            read(&mut replay.lock().unwrap_or_else(PoisonError::into_inner))
        };
        tokio::task::spawn_blocking(body).await.ok()
    }
}

fn not_there() -> Response {
    (StatusCode::NOT_FOUND, "the store has no sample of that time\n").into_response()
}

async fn stored(State(store): State<Stored>) -> Response {
    let range = store.read(|replay| {
        // Another process may be writing to the store.
        let _ = replay.refresh();
        let ms = |sample: Sample| sample.at.realtime_ns / 1_000_000;
        let last = replay.last().and_then(|at| replay.sample(at)).map(ms)?;
        let first = replay.first().and_then(|at| replay.sample(at)).map(ms)?;
        Some((first, last))
    });
    match range.await.flatten() {
        Some(range_ms) => {
            Json(StoredAnswer { format: FORMAT, is_stored: true, range_ms: Some(range_ms) }).into_response()
        }
        None => not_there(),
    }
}

async fn model(State(store): State<Stored>, Query(At { at_ms }): Query<At>) -> Response {
    let pair = store.read(move |replay| {
        let at = match at_ms {
            Some(at_ms) => replay.at(end_of(at_ms))?,
            None => replay.last()?,
        };
        replay.pair(at)
    });
    match pair.await.flatten() {
        Some((before, after)) => {
            let model = Model::from_samples(&before, &after);
            Json(ModelAnswer { format: FORMAT, model: &model }).into_response()
        }
        None => not_there(),
    }
}

async fn history(State(store): State<Stored>, Query(range): Query<Range>) -> Response {
    match store.read(move |replay| points(replay, &range)).await {
        Some((points, is_thinned)) => Json(PointsAnswer { format: FORMAT, points, is_thinned }).into_response(),
        None => (StatusCode::INTERNAL_SERVER_ERROR, "the store could not be read\n").into_response(),
    }
}

/// The end of a millisecond in nanoseconds, so that a sample within that millisecond counts.
fn end_of(at_ms: u64) -> u64 {
    at_ms.saturating_mul(1_000_000).saturating_add(999_999)
}

/// Every sample from `from_ms` to `last`, the oldest first.
/// The result also has the sample before them, because the first point needs it.
/// `None` if the range has too many samples.
fn whole(replay: &mut Replay, from_ms: u64, last: Position) -> Option<Vec<Position>> {
    let from_ns = from_ms.saturating_mul(1_000_000);
    let mut positions = Vec::new();
    let mut at = Some(last);
    while let Some(position) = at {
        // The positions include both ends of the range, and the sample before the range.
        if positions.len() > POINTS_MAX + 1 {
            return None;
        }
        positions.push(position);
        let is_in = replay.sample(position).is_some_and(|sample| sample.at.realtime_ns >= from_ns);
        at = if is_in { replay.previous(position) } else { None };
    }
    positions.reverse();
    Some(positions)
}

/// The points of a range, the oldest first, and whether the answer leaves out some samples.
fn points(replay: &mut Replay, range: &Range) -> (Vec<Point>, bool) {
    let length_ms = range.to_ms.saturating_sub(range.from_ms);
    let Some(last) = replay.at(end_of(range.to_ms)) else { return (Vec::new(), false) };
    let whole = (length_ms <= WHOLE_MS_MAX).then(|| whole(replay, range.from_ms, last)).flatten();
    let is_thinned = whole.is_none();
    let mut positions = whole.unwrap_or_default();
    if is_thinned {
        for step in 0..=SEARCHED_POINTS {
            let at_ms = range.from_ms.saturating_add(length_ms / SEARCHED_POINTS * step);
            positions.extend(replay.at(end_of(at_ms)).filter(|at| positions.last().is_none_or(|last| last < at)));
        }
        positions.extend(Some(last).filter(|at| positions.last().is_none_or(|last| last < at)));
    }
    let mut points = Vec::with_capacity(positions.len());
    let mut before: Option<Sample> = None;
    for position in positions {
        let Some(sample) = replay.sample(position) else { continue };
        if let Some(before) = &before {
            points.push(Point::from_model(&Model::from_samples(before, &sample)));
        }
        before = Some(sample);
    }
    (points, is_thinned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evenkeel_hostfs::Root;
    use evenkeel_watch::store::{StoreOptions, StoreWriter};
    use evenkeel_watch::{Collector, CollectorOptions};

    use super::*;

    #[test]
    fn a_range_has_all_of_its_samples_or_some_of_a_long_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = StoreWriter::open(dir.path(), StoreOptions::default()).unwrap();
        let mut sample = Collector::new(Root::from(BTreeMap::new()), CollectorOptions::default()).sample();
        for second in 0..3000_u64 {
            sample.at.realtime_ns = (1_795_780_800 + second) * 1_000_000_000;
            sample.at.monotonic_ns = second * 1_000_000_000;
            writer.append(&sample).unwrap();
        }
        let mut replay = Replay::open(dir.path()).unwrap();
        let mut of = |from_s: u64, to_s: u64| {
            let ms = |s: u64| (1_795_780_800 + s) * 1000;
            let (points, is_thinned) = points(&mut replay, &Range { from_ms: ms(from_s), to_ms: ms(to_s) });
            let at = |point: Option<&Point>| point.map_or(0, |point| point.at_ms / 1000 - 1_795_780_800);
            (points.len(), at(points.first()), at(points.last()), is_thinned)
        };
        assert_eq!(of(100, 160), (61, 100, 160, false));
        assert_eq!(of(0, 10), (10, 1, 10, false), "the first sample has no predecessor");
        assert_eq!(of(100, 1000), (901, 100, 1000, false));
        let (count, first, last, is_thinned) = of(100, 1001);
        assert!(
            count <= 151 && first <= 107 && last == 1001 && is_thinned,
            "{count} {first} {last}: one answer is bounded"
        );
        let (count, first, last, is_thinned) = of(0, 2999);
        assert!(count <= 151 && first > 0 && last == 2999 && is_thinned, "{count} {first} {last}");
        assert_eq!(of(5000, 4000).0, 0, "a range that ends before it begins");
        assert_eq!(points(&mut replay, &Range { from_ms: 0, to_ms: 5 }), (Vec::new(), false));
        assert!(points(&mut replay, &Range { from_ms: 0, to_ms: u64::MAX }).0.len() <= 152);
    }
}
