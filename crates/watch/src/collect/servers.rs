//! Finds servers by their pages of telemetry, and those that the user named, and reads their counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use evenkeel_hostfs::proc::parse_process;
use evenkeel_hostfs::{Root, RootKind};
use evenkeel_sys::clock;
use evenkeel_sys::telemetry::{PageError, Session, Snapshot, State, folders, sessions};

use super::process::Threads;
use super::read::{odd, parsed};
use super::sockets::{OpenSockets, Tables};
use crate::sample::{Counted, FilesSample, ServerSample, TelemetrySample};

/// The most servers to watch.
const SERVERS_MAX: usize = 64;
/// How long all pages together may take. A page whose server was stopped in the middle of a tick takes a tenth of a second.
const PAGES_NS_MAX: u64 = 300_000_000;

/// The servers of a host.
#[derive(Debug)]
pub(super) struct Servers {
    pids: Vec<u32>,
    folders: Vec<PathBuf>,
    watched: BTreeMap<u32, Watched>,
}

/// The state of one process.
#[derive(Debug, Default)]
struct Watched {
    threads: Threads,
    sockets: OpenSockets,
}

/// The servers at one moment.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) list: Vec<ServerSample>,
    pub(super) beyond: usize,
}

/// A live page.
struct Page {
    name: String,
    pid: Option<u32>,
    telemetry: Counted<TelemetrySample>,
}

impl Servers {
    /// With the usual folders of the root, unless some are named.
    pub(super) fn new(root: &Root, mut pids: Vec<u32>, named: Option<Vec<PathBuf>>) -> Servers {
        pids.sort_unstable();
        pids.dedup();
        let usual = || match root.kind() {
            RootKind::Live => folders(),
            RootKind::Mounted => root.image().map(|image| image.shown("dev/shm")).into_iter().collect(),
            RootKind::Captured => Vec::new(),
        };
        Servers { pids, folders: named.unwrap_or_else(usual), watched: BTreeMap::new() }
    }

    /// All servers now, at most [`SERVERS_MAX`].
    pub(super) fn read(&mut self, root: &Root, now_ns: u64) -> Found {
        let mut pages = self.pages(root);
        let named: Vec<u32> = self.pids.clone();
        let with_page: BTreeSet<u32> = pages.iter().filter_map(|page| page.pid).collect();
        let room = SERVERS_MAX.saturating_sub(named.len().min(SERVERS_MAX));
        let mut beyond = pages.len().saturating_sub(room);
        // A server that the user named is watched in any case.
        pages.sort_by_key(|page| !page.pid.is_some_and(|pid| named.contains(&pid)));
        pages.truncate(room.max(1));
        pages.sort_by(|one, other| one.name.cmp(&other.name));
        let mut list: Vec<ServerSample> = pages.into_iter().map(from_page).collect();
        for pid in named.iter().filter(|pid| !with_page.contains(pid)) {
            if list.len() >= SERVERS_MAX {
                beyond += 1;
                continue;
            }
            list.push(ServerSample { name: format!("process {pid}"), pid: Some(*pid), ..unseen() });
        }
        self.read_processes(root, &mut list, now_ns);
        Found { list, beyond }
    }

    /// Several sessions may be served by one process, which is read once.
    fn read_processes(&mut self, root: &Root, list: &mut [ServerSample], now_ns: u64) {
        let mut tables = Tables::default();
        let mut read = BTreeMap::new();
        for server in list {
            let Some(pid) = server.pid else { continue };
            let (process, sockets, files) = read.entry(pid).or_insert_with(|| {
                let watched = self.watched.entry(pid).or_default();
                let process = watched.threads.read(root, pid, now_ns);
                let sockets = match &process {
                    Ok(_) => watched.sockets.read(root, pid, &mut tables, now_ns),
                    Err(unknown) => Err(unknown.clone()),
                };
                (process, sockets, watched.sockets.files())
            });
            if let (None, Ok(process)) = (&server.telemetry, &*process) {
                server.name = printable(&process.name);
            }
            (server.process, server.sockets, server.files) = (process.clone(), sockets.clone(), *files);
        }
        self.watched.retain(|pid, _| read.contains_key(pid));
    }

    /// The pages of live servers.
    fn pages(&self, root: &Root) -> Vec<Page> {
        let until_ns = clock::monotonic_ns().saturating_add(PAGES_NS_MAX);
        let found = self.folders.iter().flat_map(|folder| sessions(folder).unwrap_or_default());
        let live = found.filter(|session| session.state == State::Live);
        live.filter_map(|Session { reader, path, .. }| {
            let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if clock::monotonic_ns() >= until_ns {
                let why = odd(format!("{}: the other pages took too long", path.display()));
                return Some(Page { name: name(), pid: None, telemetry: Err(why) });
            }
            match reader.read() {
                Ok(page) => Some(Page {
                    name: printable(&page.session),
                    pid: process(root, &page),
                    telemetry: Ok((&page).into()),
                }),
                Err(error @ PageError::HalfWritten { .. }) => {
                    Some(Page { name: name(), pid: None, telemetry: Err(odd(error.to_string())) })
                }
                // It is no page, or has ended meanwhile.
                Err(_) => None,
            }
        })
        .collect()
    }
}

fn from_page(page: Page) -> ServerSample {
    ServerSample { name: page.name, pid: page.pid, telemetry: Some(page.telemetry), ..unseen() }
}

/// A server whose process is not seen.
fn unseen() -> ServerSample {
    let why = || odd("its page names a process that this /proc does not show: it runs in a container of its own");
    let (process, sockets, files) = (Err(why()), Err(why()), FilesSample::default());
    ServerSample { name: String::new(), pid: None, process, telemetry: None, sockets, files }
}

/// The server's process, if this root shows one with this number that began at the same time.
fn process(root: &Root, page: &Snapshot) -> Option<u32> {
    let pid = u32::try_from(page.owner.pid).ok()?;
    let stat =
        parsed(root, &format!("/proc/{pid}/stat"), "a process", |text| parse_process(text).map(|(stat, _)| stat));
    stat.ok().filter(|stat| stat.start_ticks == page.owner.start_ticks).map(|_| pid)
}

/// A server may choose any text as the name of its session.
fn printable(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
