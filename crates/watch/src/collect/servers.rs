//! Finds servers by their telemetry pages and by the names that the user gave, and reads the servers' counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use evenkeel_hostfs::proc::parse_process;
use evenkeel_hostfs::{Root, RootKind};
use evenkeel_sys::clock;
use evenkeel_sys::telemetry::{PageError, Session, Snapshot, State, folders, sessions};

use super::discover::{Discovery, Wanted};
use super::outside::Outside;
use super::process::Threads;
use super::read::{odd, parsed};
use super::sockets::{OpenSockets, Tables};
use crate::sample::{Counted, FilesSample, LateWas, OutsideLate, OutsideSample, ServerSample, TelemetrySample};

/// The maximum number of servers to watch.
const SERVERS_MAX: usize = 64;
/// The maximum time for reading all pages. If a server was stopped in the middle of a tick, its page takes a tenth of a second.
const PAGES_NS_MAX: u64 = 300_000_000;

/// Which servers to watch, in addition to servers with a telemetry page.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// These process numbers.
    pub pids: Vec<u32>,
    /// Processes with one of these names, as `ps -o comm` shows them.
    pub names: Vec<String>,
    /// Whether to watch processes that serve UDP or TCP sockets and have a tick. Ignored unless the root is live.
    pub finds_servers: bool,
    /// The folders with telemetry pages. `None` means the usual folders of this root.
    pub telemetry_folders: Option<Vec<PathBuf>>,
}

/// The servers of a host.
#[derive(Debug)]
pub(super) struct Servers {
    pids: Vec<u32>,
    discovery: Discovery,
    folders: Vec<PathBuf>,
    watched: BTreeMap<u32, Watched>,
    /// The ticks of servers without a telemetry page. `None` if threads cannot be watched here.
    outside: Option<Outside>,
}

/// What is known of one process.
#[derive(Debug, Default)]
struct Watched {
    threads: Threads,
    sockets: OpenSockets,
}

/// The servers that were found at one moment.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) list: Vec<ServerSample>,
    pub(super) beyond: usize,
}

/// The telemetry page of a running server.
struct Page {
    name: String,
    pid: Option<u32>,
    /// The number of the process in its own PID namespace.
    owner: u64,
    telemetry: Counted<TelemetrySample>,
}

impl Servers {
    /// Creates the search. Uses the root's usual folders of telemetry pages, unless the options name other folders.
    pub(super) fn new(root: &Root, options: ServerOptions, late_after_ns: Option<u64>) -> Servers {
        let ServerOptions { mut pids, names, finds_servers, telemetry_folders: named } = options;
        pids.sort_unstable();
        pids.dedup();
        let is_live = root.kind() == RootKind::Live;
        let discovery = Discovery::new(Wanted { names, servers: finds_servers && is_live });
        let usual = || match root.kind() {
            RootKind::Live => folders(),
            RootKind::Mounted => root.image().map(|image| image.shown("dev/shm")).into_iter().collect(),
            RootKind::Captured => Vec::new(),
        };
        let outside = is_live.then(|| Outside::new(late_after_ns));
        let folders = named.unwrap_or_else(usual);
        Servers { pids, discovery, folders, watched: BTreeMap::new(), outside }
    }

    /// All servers now, at most [`SERVERS_MAX`].
    pub(super) fn read(&mut self, root: &Root, now_ns: u64) -> Found {
        let pages = self.pages(root);
        let mut tables = Tables::default();
        let outside = self.outside.as_ref();
        let is_tickless = |pid| outside.is_some_and(|outside| outside.is_tickless(pid));
        self.discovery.step(root, &mut tables, now_ns, is_tickless);
        let mut named: Vec<u32> = self.pids.clone();
        named.extend(self.discovery.named().into_iter().filter(|pid| !self.pids.contains(pid)));
        let (mut list, beyond) = choose(pages, &named);
        let known: BTreeSet<u32> = list.iter().filter_map(|server| server.pid).collect();
        let serving = self.discovery.serving().into_iter().filter(|pid| !known.contains(pid));
        let serving: BTreeSet<u32> = serving.take(SERVERS_MAX - list.len().min(SERVERS_MAX)).collect();
        list.extend(serving.iter().map(|pid| of_process(*pid)));
        self.read_processes(root, &mut list, &mut tables, now_ns);
        // If the user did not name a process, it counts as a server only if it has a tick.
        let has_tick = |server: &ServerSample| server.outside.as_ref().is_some_and(Result::is_ok);
        list.retain(|server| has_tick(server) || !server.pid.is_some_and(|pid| serving.contains(&pid)));
        Found { list, beyond }
    }

    /// Reads the counters of all processes. A process that serves several sessions is read only once.
    fn read_processes(&mut self, root: &Root, list: &mut [ServerSample], tables: &mut Tables, now_ns: u64) {
        let mut read = BTreeMap::new();
        for server in list {
            let Some(pid) = server.pid else { continue };
            let (process, sockets, files) = read.entry(pid).or_insert_with(|| {
                let watched = self.watched.entry(pid).or_default();
                let process = watched.threads.read(root, pid, now_ns);
                let sockets = match &process {
                    Ok(_) => watched.sockets.read(root, pid, tables, now_ns),
                    Err(unknown) => Err(unknown.clone()),
                };
                (process, sockets, watched.sockets.files())
            });
            if let Some(Ok(page)) = &mut server.telemetry {
                name_holder(root, pid, page);
            }
            if let (None, Ok(process)) = (&server.telemetry, &*process) {
                server.name = printable(&process.name);
                let ticks = self.outside.as_mut().map(|outside| outside.read(pid, process.start_ticks, now_ns));
                server.outside = ticks.map(|ticks| ticks.map(|ticks| with_thread(root, pid, ticks)));
            }
            (server.process, server.sockets, server.files) = (process.clone(), sockets.clone(), *files);
        }
        self.watched.retain(|pid, _| read.contains_key(pid));
        if let Some(outside) = &mut self.outside {
            outside.retain(|pid| read.contains_key(&pid));
        }
    }

    /// The telemetry pages of running servers.
    fn pages(&self, root: &Root) -> Vec<Page> {
        let until_ns = clock::monotonic_ns().saturating_add(PAGES_NS_MAX);
        let found = self.folders.iter().flat_map(|folder| sessions(folder).unwrap_or_default());
        let live = found.filter(|session| session.state == State::Live);
        live.filter_map(|Session { reader, path, .. }| {
            let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if clock::monotonic_ns() >= until_ns {
                let why = odd(format!("{}: the other pages took too long", path.display()));
                return Some(Page { name: name(), pid: None, owner: 0, telemetry: Err(why) });
            }
            match reader.read() {
                Ok(page) => Some(Page {
                    name: printable(&page.session),
                    pid: process(root, &page),
                    owner: page.owner.pid,
                    telemetry: Ok((&page).into()),
                }),
                Err(error @ PageError::HalfWritten { .. }) => {
                    Some(Page { name: name(), pid: None, owner: 0, telemetry: Err(odd(error.to_string())) })
                }
                // The file is not a telemetry page, or the server has ended meanwhile.
                Err(_) => None,
            }
        })
        .collect()
    }
}

/// Adds the kernel's counters of the tick's thread.
fn with_thread(root: &Root, pid: u32, mut ticks: OutsideSample) -> OutsideSample {
    let Some(tid) = ticks.tid else { return ticks };
    let path = format!("/proc/{pid}/task/{tid}/stat");
    let stat = parsed(root, &path, "a thread", |text| parse_process(text).map(|(stat, _)| stat));
    ticks.ticks.major_faults = stat.ok().map(|stat| stat.major_faults);
    if !ticks.late.is_empty() || !ticks.missed_waiting.is_empty() {
        let slack = parsed(root, &format!("/proc/{tid}/timerslack_ns"), "a time", |text| text.trim().parse().ok());
        ticks.timer_slack_ns = slack.ok();
    }
    let by = |late: &OutsideLate| match late.was {
        LateWas::Waited { by, .. } => Some(by),
        LateWas::Off | LateWas::Awake { .. } => None,
    };
    // Names of threads in other processes are not looked up here.
    let all = ticks.late.iter().chain(&ticks.missed_waiting).filter_map(by).collect::<BTreeSet<u32>>();
    let named = |by: u32| Some((by, printable(root.text(&format!("/proc/{pid}/task/{by}/comm")).ok()?.trim_end())));
    ticks.wakers = all.into_iter().filter_map(named).collect();
    ticks
}

/// Adds the name of the thread for which a tick waited. `pid` is the number of the process in this root.
/// The lookup fails for a server in another PID namespace.
fn name_holder(root: &Root, pid: u32, page: &mut TelemetrySample) {
    let Some(last) = page.waits.as_mut().and_then(|waits| waits.last.as_mut()) else { return };
    let name = last.by.and_then(|by| root.text(&format!("/proc/{pid}/task/{by}/comm")).ok());
    last.by_name = name.map(|name| printable(name.trim_end_matches('\n')));
}

/// The servers to watch, and the number of servers beyond the limit. Servers that the user named come before servers that evenkeel found.
fn choose(mut pages: Vec<Page>, named: &[u32]) -> (Vec<ServerSample>, usize) {
    name_apart(&mut pages);
    let with_page: BTreeSet<u32> = pages.iter().filter_map(|page| page.pid).collect();
    let without_page: Vec<u32> = named.iter().copied().filter(|pid| !with_page.contains(pid)).collect();
    let all = pages.len() + without_page.len();
    pages.sort_by_key(|page| !page.pid.is_some_and(|pid| named.contains(&pid)));
    pages.truncate(SERVERS_MAX.saturating_sub(without_page.len()));
    pages.sort_by(|one, other| one.name.cmp(&other.name));
    let mut list: Vec<ServerSample> = pages.into_iter().map(from_page).collect();
    list.extend(without_page.into_iter().map(of_process).take(SERVERS_MAX - list.len()));
    let beyond = all - list.len();
    (list, beyond)
}

/// Servers in several containers may have sessions of the same name, and their processes are not visible here.
/// Such sessions get the number that the process has in its container.
/// Without this number, the metrics of these sessions would have the same labels, and node_exporter would refuse the file.
fn name_apart(pages: &mut [Page]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for page in pages.iter().filter(|page| page.pid.is_none()) {
        *counts.entry(page.name.clone()).or_default() += 1;
    }
    for page in pages.iter_mut().filter(|page| page.pid.is_none()) {
        if counts.get(&page.name).is_some_and(|count| *count > 1) {
            page.name = format!("{} (process {} of its container)", page.name, page.owner);
        }
    }
}

fn of_process(pid: u32) -> ServerSample {
    ServerSample { name: format!("process {pid}"), pid: Some(pid), ..unseen() }
}

fn from_page(page: Page) -> ServerSample {
    ServerSample { name: page.name, pid: page.pid, telemetry: Some(page.telemetry), ..unseen() }
}

/// A server whose process is not visible.
fn unseen() -> ServerSample {
    let why = || odd("its page names a process that this /proc does not show: it runs in a container of its own");
    let (process, sockets, files) = (Err(why()), Err(why()), FilesSample::default());
    ServerSample { name: String::new(), pid: None, process, telemetry: None, outside: None, sockets, files }
}

/// The server's process number. `None` unless a process of this root has the page's process number and start time.
fn process(root: &Root, page: &Snapshot) -> Option<u32> {
    let pid = u32::try_from(page.owner.pid).ok()?;
    let stat =
        parsed(root, &format!("/proc/{pid}/stat"), "a process", |text| parse_process(text).map(|(stat, _)| stat));
    stat.ok().filter(|stat| stat.start_ticks == page.owner.start_ticks).map(|_| pid)
}

/// The text without unprintable characters, because a server may give its session any name.
fn printable(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(pid: u32) -> Page {
        Page { name: format!("page of {pid:03}"), pid: Some(pid), owner: 0, telemetry: Err(odd("half written")) }
    }

    #[test]
    fn sessions_of_one_name_in_several_containers_are_told_apart() {
        let page = |name: &str, pid, owner| Page { name: name.to_owned(), pid, owner, telemetry: Err(odd("")) };
        let pages =
            vec![page("match", None, 12), page("match", None, 7), page("match", Some(99), 99), page("a", None, 7)];
        let names: Vec<String> = choose(pages, &[]).0.into_iter().map(|server| server.name).collect();
        let expected = ["a", "match", "match (process 12 of its container)", "match (process 7 of its container)"];
        assert_eq!(names, expected);
    }

    #[test]
    fn servers_that_the_user_named_come_first() {
        let all_watched = |named: &[u32], list: &[ServerSample]| {
            named.iter().all(|pid| list.iter().any(|server| server.pid == Some(*pid)))
        };
        // The processes 1 to 100 have pages. The user named 90 to 99, and 50 servers without a page.
        let named: Vec<u32> = (90..100).chain(200..250).collect();
        let (list, beyond) = choose((1..=100).map(page).collect(), &named);
        assert!(all_watched(&named, &list), "{:?}", list.iter().map(|server| server.pid).collect::<Vec<_>>());
        assert_eq!((list.len(), beyond), (SERVERS_MAX, 150 - SERVERS_MAX));

        // A server with a page does not take the place of a server that the user named.
        let named: Vec<u32> = (200..264).collect();
        let (list, beyond) = choose(vec![page(1)], &named);
        assert!(all_watched(&named, &list));
        assert_eq!((list.len(), beyond), (SERVERS_MAX, 1));

        let (list, beyond) = choose((1..=3).map(page).collect(), &[2]);
        assert_eq!((list.len(), beyond), (3, 0));
    }
}
