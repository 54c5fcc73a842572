//! The telemetry page of a server that was built with evenkeel-rt.
//! The page has the server's own values of each tick.
//! Reading the page costs the server nothing. evenkeel need not have started the server, and the server may restart.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_stats::Direction;
use evenkeel_sys::telemetry::layout::BOUNDS_NS;
use evenkeel_sys::telemetry::{
    Count, PageError, PageHistogram, Session, Snapshot, State, TelemetryReader, folders, sessions,
};
use evenkeel_sys::{clock, foreign_process};

use super::{NoNumber, Source};
use crate::error::WorkloadError;
use crate::metric::Metric;
use crate::workload::Sample;

/// How long to wait for a server to come back, and (the next constant) how often to look for the server.
const FIND_TIME_NS: u64 = 10_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The metrics that may decide a trial. A sample has further values.
pub(crate) const METRICS: &[Metric] = &[
    Metric::us("tick_lateness_us_p50", "median lateness of the server's tick"),
    Metric::us("tick_lateness_us_p90", "90th percentile of the lateness of the server's tick"),
    Metric::us("tick_lateness_us_p99", "99th percentile of the lateness of the server's tick"),
    Metric::us("due_to_done_us_p50", "median time from a tick's due time until it is done"),
    Metric::us("due_to_done_us_p90", "90th percentile of the time from a tick's due time until it is done"),
    Metric::us("due_to_done_us_p99", "99th percentile of the time from a tick's due time until it is done"),
    Metric::us("work_us_p50", "median time that a tick works"),
    Metric::us("work_us_p99", "99th percentile of the time that a tick works"),
    Metric::new("ticks_per_s", "ticks a second", "1/s", Direction::Higher),
    Metric::new("kept_share", "share of the ticks that were not missed", "share", Direction::Higher),
    Metric::new("cpu_share", "CPU time of the server in one CPU's", "share", Direction::Lower),
];

/// Reads the telemetry page of one session.
#[derive(Debug)]
pub(crate) struct Telemetry {
    /// The name of the session, or the number of its server's process, as the user gave it.
    /// None if the user gave nothing. Then there must be only one session.
    wanted: Option<String>,
    folders: Vec<PathBuf>,
    open: Option<Page>,
    begun: Option<Look>,
}

/// An open page of a session.
#[derive(Debug)]
struct Page {
    path: PathBuf,
    session: String,
    pid: u32,
    /// The owner of the page. A page of a later session must have the same owner, because any user may create a page with this name.
    user: u32,
    /// When the session began. If a server has several pages, evenkeel uses the page of the latest session.
    began_ns: u64,
}

/// The counts of a session at one moment.
#[derive(Debug)]
struct Look {
    page: Snapshot,
    at_ns: u64,
    cpu_ns: Option<u64>,
}

impl Telemetry {
    /// Finds the session in the default folders.
    ///
    /// # Errors
    /// Fails if no session has this name, or if no name was given and there are several sessions.
    pub(crate) fn open(wanted: Option<&str>) -> Result<Telemetry, WorkloadError> {
        Telemetry::open_in(folders(), wanted)
    }

    fn open_in(folders: Vec<PathBuf>, wanted: Option<&str>) -> Result<Telemetry, WorkloadError> {
        let mut telemetry = Telemetry { wanted: wanted.map(str::to_owned), folders, open: None, begun: None };
        telemetry.open = Some(telemetry.find()?);
        Ok(telemetry)
    }

    /// The process number of the server. None if unknown.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.open.as_ref().map(|page| page.pid)
    }

    fn find(&self) -> Result<Page, WorkloadError> {
        let of_user = self.open.as_ref().map(|page| page.user);
        let live = |session: &Session| session.state == State::Live;
        let all = self.folders.iter().flat_map(|folder| sessions(folder).unwrap_or_default());
        let pages = all.filter(live).filter_map(|session| Page::read(&session.reader, session.path));
        let mut pages: Vec<Page> = pages.filter(|page| of_user.is_none_or(|user| user == page.user)).collect();
        let names = |pages: &[Page]| match pages.is_empty() {
            true => "there is none".to_owned(),
            false => {
                let names = pages.iter().take(20).map(|page| format!("{:?} (process {})", page.session, page.pid));
                format!("there are {}", names.collect::<Vec<_>>().join(", "))
            }
        };
        let found = names(&pages);
        // If the user gave a process number, evenkeel finds the session again by its name.
        // The process number changes when the server restarts.
        let name = self.open.as_ref().map(|page| page.session.as_str()).or(self.wanted.as_deref());
        match name {
            Some(name) => pages.retain(|page| page.session == name || page.pid.to_string() == name),
            None if pages.len() > 1 => {
                return Err(error(format!("name one of the running sessions by --set session=NAME: {found}")));
            }
            None => {}
        }
        let wanted = name.map_or_else(String::new, |name| format!(" {name:?}"));
        pages.into_iter().max_by_key(|page| page.began_ns).ok_or_else(|| {
            error(format!("no running server has a telemetry page for a session{wanted}: {found} in {}", {
                let folders: Vec<String> = self.folders.iter().map(|folder| folder.display().to_string()).collect();
                folders.join(" or ")
            }))
        })
    }

    /// Reads the counts of the current server. If the server has ended, waits for its successor.
    fn look(&mut self) -> Result<Look, WorkloadError> {
        let give_up_ns = clock::monotonic_ns() + FIND_TIME_NS;
        loop {
            let why = match self.open.as_ref().map(Page::look) {
                Some(Ok(look)) => return Ok(look),
                Some(Err(why)) => why,
                None => "it was never found".into(),
            };
            match self.find() {
                Ok(page) => self.open = Some(page),
                Err(_) if clock::monotonic_ns() < give_up_ns => {}
                Err(none) => return Err(error(format!("{why}, and no other came within 10 s: {none}"))),
            }
            if clock::monotonic_ns() >= give_up_ns {
                return Err(error(why.to_string()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Page {
    fn read(reader: &TelemetryReader, path: PathBuf) -> Option<Page> {
        let page = reader.read().ok()?;
        let (user, pid) = (reader.user().ok()?, u32::try_from(page.owner.pid).ok()?);
        Some(Page { path, session: page.session, pid, user, began_ns: page.began_realtime_ns })
    }

    /// Opens the page again each time, because a server may end one match and begin another with the same name.
    fn look(&self) -> Result<Look, NoNumber> {
        let no_number = |error: PageError| NoNumber::from(error.to_string());
        let reader = TelemetryReader::open(&self.path).map_err(no_number)?;
        if reader.state().map_err(no_number)? == State::Gone || reader.user().map_err(no_number)? != self.user {
            return Err(format!("the server of session {:?} has ended", self.session).into());
        }
        let page = reader.read().map_err(no_number)?;
        Ok(Look { page, at_ns: clock::monotonic_ns(), cpu_ns: foreign_process::cpu_ns(self.pid).ok() })
    }
}

impl Source for Telemetry {
    fn describe(&self) -> String {
        match &self.open {
            Some(page) => {
                format!("telemetry of session {:?}, process {}, {}", page.session, page.pid, page.path.display())
            }
            None => "telemetry of a server that is not there".to_owned(),
        }
    }

    fn metrics(&self) -> Vec<Metric> {
        METRICS.to_vec()
    }

    fn begin(&mut self) -> Result<(), WorkloadError> {
        self.begun = Some(self.look()?);
        Ok(())
    }

    fn end(&mut self) -> Result<Sample, WorkloadError> {
        let begun = self.begun.take().ok_or_else(|| error("a window ends that never began".into()))?;
        let now = self.look()?;
        sample(&begun, &now).map_err(|why| error(why.to_string()))
    }
}

fn error(why: String) -> WorkloadError {
    WorkloadError::Program { program: "a page of telemetry".into(), why }
}

/// The values between two readings. If the server restarted in between, only the time after the restart counts.
fn sample(begun: &Look, now: &Look) -> Result<Sample, NoNumber> {
    let is_same = begun.page.owner == now.page.owner && begun.page.began_realtime_ns == now.page.began_realtime_ns;
    let page = &now.page;
    let since = |number: fn(&Snapshot) -> u64| match is_same {
        true => number(page).saturating_sub(number(&begun.page)),
        false => number(page),
    };
    let (ticks, missed) = (since(|page| page.ticks) as f64, since(|page| page.missed) as f64);
    if ticks <= 0.0 {
        return Err(format!("session {:?} had no tick in a window", page.session).into());
    }
    let span_s = now.at_ns.saturating_sub(begun.at_ns).max(1) as f64 / 1e9;
    let mut sample = Sample::from([
        ("ticks".to_owned(), ticks),
        ("missed".to_owned(), missed),
        ("kept_share".to_owned(), ticks / (ticks + missed)),
        ("ticks_per_s".to_owned(), ticks / span_s),
        ("restarts".to_owned(), f64::from(u8::from(!is_same))),
    ]);
    let before = Some(&begun.page).filter(|_| is_same);
    let histograms = [
        ("tick_lateness_us", &page.lateness, before.map(|page| &page.lateness)),
        ("work_us", &page.work, before.map(|page| &page.work)),
        ("due_to_done_us", &page.due_to_done, before.map(|page| &page.due_to_done)),
    ];
    for (name, now, before) in histograms {
        let seen = before.map_or_else(|| now.clone(), |before| now.since(before));
        for (quantile, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            if let Some(ns) = within_bucket_ns(&seen, q) {
                sample.insert(format!("{name}_{quantile}"), ns / 1e3);
            }
        }
    }
    let rates = [
        ("jobs_per_s", Count::Jobs),
        ("packets_in_per_s", Count::PacketsIn),
        ("packets_out_per_s", Count::PacketsOut),
        ("drops_per_s", Count::Drops),
    ];
    for (name, count) in rates {
        // Counts that the server does not report are left out.
        let Some(counted) = page.count(count) else { continue };
        let before = if is_same { begun.page.count(count).unwrap_or(0) } else { 0 };
        sample.insert(name.to_owned(), counted.saturating_sub(before) as f64 / span_s);
    }
    if let Some(players) = page.count(Count::Players) {
        sample.insert("players".to_owned(), players as f64);
    }
    if let Some((before, after)) = begun.cpu_ns.zip(now.cpu_ns).filter(|_| is_same) {
        sample.insert("cpu_share".to_owned(), after.saturating_sub(before) as f64 / 1e9 / span_s);
    }
    Ok(sample)
}

/// A quantile, interpolated within its bucket.
/// A bucket's width is up to a seventh of its values.
/// So bucket bounds alone would show an effect of 5 % as 0 % or 12 %.
/// The function assumes that values are evenly distributed within a bucket.
/// The error of this assumption is the same for both arms, and mostly far smaller.
fn within_bucket_ns(histogram: &PageHistogram, q: f64) -> Option<f64> {
    let max_ns = histogram.max_ns? as f64;
    let rank = (q * histogram.count as f64).max(1.0);
    let mut below = 0.0;
    for (at, count) in histogram.buckets.iter().enumerate() {
        let count = *count as f64;
        if count > 0.0 && below + count >= rank {
            let low_ns = at.checked_sub(1).and_then(|before| BOUNDS_NS.get(before)).copied().unwrap_or(0) as f64;
            let high_ns = BOUNDS_NS.get(at).map_or(max_ns, |bound| *bound as f64).min(max_ns).max(low_ns);
            return Some(low_ns + (high_ns - low_ns) * (rank - below) / count);
        }
        below += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::shared_page::Access;
    use evenkeel_sys::telemetry::{PageSlices, PageWriter, TickEntry};

    use super::*;

    fn ticks(writer: &mut PageWriter, numbers: std::ops::Range<u64>, late_ns: u64) {
        for number in numbers {
            let due_ns = 1_000_000_000 + number * 1_000_000;
            let (began_ns, done_ns) = (due_ns + late_ns, due_ns + late_ns + 300_000);
            let faults = None;
            let entry = TickEntry {
                number,
                missed: u64::from(number % 10 == 9),
                due_ns,
                began_ns,
                done_ns,
                faults,
                period_ns: None,
                turns: PageSlices::Unknown,
                swapped_in: None,
                thread: None,
                waits: None,
                run_delay_ns: None,
            };
            writer.tick(&entry);
        }
    }

    #[test]
    fn a_window_counts_from_its_begin_even_over_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let here = || vec![folder.path().to_owned()];
        let none = Telemetry::open_in(here(), None).unwrap_err().to_string();
        assert!(none.contains("no running server has a telemetry page for a session: there is none in "), "{none}");

        let mut server = PageWriter::create(folder.path(), "match 7", Access::Owner).unwrap();
        ticks(&mut server, 0..100, 900_000);
        let mut source = Telemetry::open_in(here(), None).unwrap();
        assert_eq!(source.pid(), Some(std::process::id()));
        assert!(source.describe().starts_with("telemetry of session \"match 7\", process "));
        source.begin().unwrap();
        ticks(&mut server, 100..200, 50_000);
        server.counters().add(Count::Jobs, 5);
        let sample = source.end().unwrap();
        assert_eq!((sample["ticks"], sample["missed"], sample["restarts"]), (100.0, 10.0, 0.0));
        assert!((45.0..=56.0).contains(&sample["tick_lateness_us_p50"]), "{sample:?}");
        assert!((300.0..=400.0).contains(&sample["due_to_done_us_p99"]), "{sample:?}");
        assert!(sample["jobs_per_s"] > 0.0 && sample["cpu_share"] > 0.0 && !sample.contains_key("players"));

        source.begin().unwrap();
        let idle = source.end().unwrap_err().to_string();
        assert_eq!(idle, "measure a page of telemetry: session \"match 7\" had no tick in a window");

        source.begin().unwrap();
        drop(server);
        let mut server = PageWriter::create(folder.path(), "match 7", Access::Owner).unwrap();
        ticks(&mut server, 0..50, 100_000);
        let sample = source.end().unwrap();
        assert_eq!((sample["ticks"], sample["restarts"]), (50.0, 1.0));

        let _other = PageWriter::create(folder.path(), "match 8", Access::Owner).unwrap();
        let several = Telemetry::open_in(here(), None).unwrap_err().to_string();
        assert!(several.contains("name one of the running sessions") && several.contains("\"match 8\""), "{several}");
        assert!(Telemetry::open_in(here(), Some("match 8")).is_ok());
        assert!(Telemetry::open_in(here(), Some("match 9")).is_err());
    }

    #[test]
    fn quantiles_move_within_a_bucket() {
        // A hundred values are between 112 and 125 us, and one is longer.
        let at = BOUNDS_NS.partition_point(|bound| *bound < 125_000);
        let mut histogram =
            PageHistogram { count: 100, sum_ns: 0, max_ns: Some(200_000), buckets: vec![0; BOUNDS_NS.len() + 1] };
        assert_eq!(within_bucket_ns(&histogram, 0.5), None, "what does not add up gives nothing");
        histogram.buckets[at] = 100;
        assert_eq!(within_bucket_ns(&histogram, 0.5), Some(118_500.0));
        histogram.max_ns = Some(120_000);
        assert_eq!(within_bucket_ns(&histogram, 1.0), Some(120_000.0), "none is longer than the longest");
        histogram.max_ns = None;
        assert_eq!(within_bucket_ns(&histogram, 0.5), None);
    }
}
