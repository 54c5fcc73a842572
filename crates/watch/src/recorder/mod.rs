//! The flight recorder keeps the most detailed data of the last seconds in bounded memory, and writes them to one file on request.
//!
//! A dump begins as a `perf.data` file of all switches of the machine, so `evenkeel profile` and `perf` open it.
//! The samples of the same time follow in the form of the store, so `evenkeel watch --replay` opens it too.
//! Nothing is written unless a folder was named.

mod asked;
mod files;
mod outlet;
mod ring;
mod trigger;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_profile::live::{self, RecordConfig, Switches, Targets, Window};
use evenkeel_sys::clock;

use asked::Shared;
pub use asked::{Answer, Dumper};
use files::Folder;
pub use files::{ANSWER_FILE, ASK_FILE, write_dump};
use outlet::Quiet;
pub use ring::SECONDS;

use crate::sample::{RecorderSample, Sample};

/// The maximum size of the compressed switch records, in bytes. If a machine has many switches, a dump covers less time.
const RECORD_BYTES_MAX: usize = 4 << 20;
/// The size of each CPU's ring buffer. All rings are read once a second, or earlier if a quarter of a ring is full.
const RING_BYTES: usize = 1 << 19;

/// The options of the flight recorder.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// The folder of the dumps.
    pub dir: PathBuf,
    /// If a tick is later than this, a dump is written. With `None`, ticks trigger no dumps.
    pub over: Option<Duration>,
    /// The maximum number of dumps in the folder. If there are more, the oldest are deleted.
    pub dumps_max: usize,
}

/// A running recorder.
#[derive(Debug)]
pub struct FlightRecorder {
    shared: Arc<Shared>,
    over_ns: Option<u64>,
    before: Option<Sample>,
    thread: Option<JoinHandle<()>>,
}

impl FlightRecorder {
    /// Starts the recorder. If that fails, [`FlightRecorder::state`] has the error.
    pub fn start(options: &RecorderOptions) -> FlightRecorder {
        let shared = Arc::new(Shared::default());
        let over_ns = options.over.map(|over| u64::try_from(over.as_nanos()).unwrap_or(u64::MAX));
        let thread =
            Folder::open(&options.dir, options.dumps_max).map_err(|error| error.to_string()).and_then(|folder| {
                let own = Arc::clone(&shared);
                let spawned =
                    std::thread::Builder::new().name("recorder".to_owned()).spawn(move || record(&own, folder));
                spawned.map_err(|error| format!("start the flight recorder: {error}"))
            });
        let thread = thread.map_err(|why| shared.failed(why)).ok();
        FlightRecorder { shared, over_ns, before: None, thread }
    }

    /// Stores a sample. Requests a dump if a tick since the last sample was too late.
    pub fn add(&mut self, sample: &Sample) {
        self.shared.samples().add(sample);
        if let (Some(over_ns), Some(before)) = (self.over_ns, &self.before)
            && let Some(reason) = trigger::too_late(before, sample, over_ns)
        {
            self.shared.ask(&reason, clock::monotonic_ns());
        }
        self.before = self.over_ns.is_some().then(|| sample.clone());
    }

    /// The counts and errors so far.
    pub fn state(&self) -> RecorderSample {
        self.shared.state()
    }

    /// A handle to request dumps.
    pub fn dumper(&self) -> Dumper {
        Dumper::new(Arc::clone(&self.shared))
    }
}

impl Drop for FlightRecorder {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs the recorder until somebody stops it.
fn record(shared: &Arc<Shared>, folder: Folder) {
    let config = RecordConfig {
        targets: Targets::Machine,
        clock_hz: None,
        switches: Switches::Records,
        mappings: false,
        ring_bytes: RING_BYTES,
        ..RecordConfig::default()
    };
    let outlet = outlet::Dumps::new(Arc::clone(shared), folder);
    let mut sink = Quiet(Window::new(SECONDS * 1_000_000_000, RECORD_BYTES_MAX, outlet).compressed());
    let ended = live::record(&config, &mut |_| !shared.stop.load(Ordering::Relaxed), &mut sink);
    if let Err(error) = ended {
        shared.failed(error.to_string());
    }
}

/// Requests a dump from the recorder of this folder, and waits for its answer.
///
/// # Errors
/// If no recorder answers, or if it writes no dump.
pub fn ask_in(dir: &Path, reason: &str, wait: Duration) -> Result<PathBuf, String> {
    files::ask_in(dir, reason, wait)
}
