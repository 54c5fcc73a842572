//! Every fuzz target as a function from text to nothing, which must come back whatever the text is. The fuzzer runs them with
//! what it finds, and an ordinary test of the program with what stands in `corpus/`, so that they cannot rot.

use std::fs;
use std::sync::LazyLock;

use evenkeel_arena::crew::Crew;
use evenkeel_arena::net::gate::{self, Event, Gate as ArenaGate, GateConfig};
use evenkeel_arena::net::mirror::Mirror;
use evenkeel_arena::net::wire as arena_wire;
use evenkeel_arena::record::replay;
use evenkeel_change::{Log, PlanFile, history};
use evenkeel_host::{Facts, Goal, Server, Setting, advise};
use evenkeel_measure::card::{Card, compare};
use evenkeel_measure::meters::bandwidth::wire as stream;
use evenkeel_measure::meters::rates::{Counts, Pages, PagesSeen, Seen, Target as Watched, between, parse_fields};
use evenkeel_measure::meters::ticks::wakes::Wakes;
use evenkeel_measure::meters::udp::wire::{FromClient, FromServer};
use evenkeel_measure::meters::udp::{Act, Arrival, Gate};
use evenkeel_measure::meters::{disk, imbalance, memory};
use evenkeel_rt::agones::GameServer;
use evenkeel_rt::agones::http::{Answer, BadAnswer, Reader};
use evenkeel_sys::packet_ring::{read_block, read_packet};
use evenkeel_sys::perf_thread::first_thread_record;
use evenkeel_sys::{Capture, CpuSet, Errno, MAX_CPUS, Root};
use tempfile::TempDir;

use trials::{answers, metrics_page, output_lines, report};

// The paths are told since this file is read from two places.
#[path = "recordings.rs"]
mod recordings;
// The path is told since this file is read from two places.
#[path = "scopes.rs"]
mod scopes;
#[path = "trials.rs"]
mod trials;

/// One target: its name, and what it does with a text.
pub(crate) struct Target {
    /// As in `corpus/NAME` and `cargo fuzz run NAME`.
    pub(crate) name: &'static str,
    /// What reads the text.
    pub(crate) reads: Reads,
}

/// What reads a text.
pub(crate) enum Reads {
    /// A function of ours.
    Whole(fn(&str)),
    /// The facts and advice of a captured machine (`hosts/NAME.txt`) in which each of these paths says it.
    Paths(&'static str, &'static [&'static str]),
    /// The program itself, whose reader is no library's: `lib.rs` and the test each have their way to it.
    Program,
}

use Reads::{Paths, Program, Whole};

const fn target(name: &'static str, reads: Reads) -> Target {
    Target { name, reads }
}

const FOUR_CPUS: &str = include_str!("../../hosts/qemu-4cpu-6.12.txt");
const FOUR_NODES: &str = include_str!("../../hosts/qemu-4-nodes-6.1.txt");
const QUEUES: &str = include_str!("../../hosts/qemu-4-queues-6.1.txt");
const IDLE: &str = include_str!("../../hosts/qemu-acpi-idle-6.1.txt");
const SWAP: &str = include_str!("../../hosts/qemu-swap-hugepages-6.12.txt");
const BOND: &str = include_str!("../../hosts/qemu-bond-vlan-6.1.txt");
const EC2: &str = include_str!("../../hosts/qemu-as-c5n.xlarge-6.1.txt");
const GOOGLE: &str = include_str!("../../hosts/gcp-n2-kvm-swap-5.14.txt");
const SYSTEMD: &str = include_str!("../../hosts/firecracker-2vcpu-6.18.txt");

/// All targets, by name.
pub(crate) const TARGETS: &[Target] = &[
    target("answers", Whole(answers)),
    target("arena", Whole(arena)),
    target("agones", Whole(agones)),
    target("capture", Whole(capture)),
    target("card", Whole(card)),
    target("cgroup", Paths(SYSTEMD, &["/proc/self/cgroup"])),
    target(
        "clocksource",
        Paths(
            FOUR_CPUS,
            &[
                "/sys/devices/system/clocksource/clocksource0/available_clocksource",
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ],
        ),
    ),
    target("cmdline", Paths(FOUR_CPUS, &["/proc/cmdline"])),
    target(
        "counters",
        Paths(
            SYSTEMD,
            &[
                "/proc/self/net/softnet_stat",
                "/proc/self/net/snmp",
                "/proc/self/net/snmp6",
                "/proc/self/net/sockstat",
                "/sys/devices/system/node/node0/numastat",
                "@ethtool/eth0/stats",
            ],
        ),
    ),
    target("cpuid", Paths(FOUR_CPUS, &["@cpuid/1", "@cpuid/40000000"])),
    target("cpuinfo", Paths(FOUR_CPUS, &["/proc/cpuinfo"])),
    target(
        "cpus",
        Paths(
            FOUR_CPUS,
            &[
                "/sys/devices/system/cpu/online",
                "/sys/devices/system/cpu/present",
                "/sys/devices/system/cpu/possible",
                "/sys/devices/system/cpu/isolated",
                "/sys/devices/system/cpu/nohz_full",
                "/sys/devices/virtual/workqueue/cpumask",
            ],
        ),
    ),
    target("cpuset", Whole(cpuset)),
    target(
        "disk",
        Paths(
            QUEUES,
            &[
                "/sys/block/vda/queue/scheduler",
                "/sys/block/vda/queue/rotational",
                "/sys/block/vda/queue/nr_requests",
                "/sys/block/vda/queue/read_ahead_kb",
            ],
        ),
    ),
    target(
        "dmi",
        Paths(
            EC2,
            &[
                "/sys/class/dmi/id/sys_vendor",
                "/sys/class/dmi/id/product_name",
                "/sys/class/dmi/id/chassis_asset_tag",
                "/sys/class/dmi/id/bios_version",
            ],
        ),
    ),
    target("errno", Whole(errno)),
    target(
        "ethtool",
        Paths(
            QUEUES,
            &["@ethtool/eth0/drvinfo", "@ethtool/eth0/channels", "@ethtool/eth0/rings", "@ethtool/eth0/coalesce"],
        ),
    ),
    target("features", Paths(SYSTEMD, &["@ethtool/eth0/features", "@ethtool/eth0/rss"])),
    target(
        "frequency",
        Paths(
            IDLE,
            &[
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors",
                "/sys/devices/system/cpu/cpufreq/policy0/affected_cpus",
                "/sys/devices/system/cpu/cpufreq/boost",
                "/sys/devices/system/cpu/intel_pstate/no_turbo",
            ],
        ),
    ),
    target(
        "idle",
        Paths(
            IDLE,
            &[
                "/sys/devices/system/cpu/cpuidle/current_driver",
                "/sys/devices/system/cpu/cpu0/cpuidle/state1/name",
                "/sys/devices/system/cpu/cpu0/cpuidle/state1/latency",
                "/sys/devices/system/cpu/cpu0/cpuidle/state1/disable",
                "/sys/module/processor/parameters/max_cstate",
            ],
        ),
    ),
    // The catalogue is asked for whatever the firmware calls the machine.
    target("instance", Paths(EC2, &["/sys/class/dmi/id/product_name"])),
    target("interrupts", Paths(QUEUES, &["/proc/interrupts"])),
    target("irqbalance", Paths(GOOGLE, &["/etc/sysconfig/irqbalance"])),
    target("journal", Whole(journal)),
    target("kernel-config", Paths(SYSTEMD, &["@kernel-config", "@tick_ns"])),
    target("kernel-counts", Whole(kernel_counts)),
    target("limits", Paths(GOOGLE, &["/sys/fs/cgroup/cpuset.cpus.effective", "/sys/fs/cgroup/user.slice/cpu.max"])),
    target("lockdown", Paths(FOUR_CPUS, &["/sys/kernel/security/lockdown"])),
    target("look", Whole(look)),
    target("meminfo", Paths(FOUR_NODES, &["/proc/meminfo", "/sys/devices/system/node/node0/meminfo"])),
    target("metrics-page", Whole(metrics_page)),
    target("mountinfo", Paths(SWAP, &["/proc/self/mountinfo"])),
    target(
        "nic",
        Paths(
            QUEUES,
            &[
                "/sys/class/net/eth0/mtu",
                "/sys/class/net/eth0/operstate",
                "/sys/class/net/eth0/threaded",
                "/sys/class/net/eth0/queues/rx-0/rps_cpus",
                "/sys/class/net/eth0/queues/tx-0/xps_cpus",
            ],
        ),
    ),
    target(
        "node",
        Paths(
            FOUR_NODES,
            &[
                "/sys/devices/system/node/online",
                "/sys/devices/system/node/node0/cpulist",
                "/sys/devices/system/node/node0/distance",
                "/proc/sys/kernel/numa_balancing",
                "/proc/sys/vm/zone_reclaim_mode",
            ],
        ),
    ),
    target("os-release", Paths(SYSTEMD, &["/etc/os-release"])),
    target("output-lines", Whole(output_lines)),
    target("perf-data", Whole(recordings::perf_data)),
    target("perf-script", Whole(recordings::perf_script)),
    target("plan", Whole(plan)),
    target("preempt", Paths(FOUR_CPUS, &["/sys/kernel/debug/sched/preempt", "/proc/version"])),
    target("rates", Whole(rates)),
    target("report", Whole(report)),
    target("saptune", Paths(SYSTEMD, &["/etc/sysconfig/saptune"])),
    target("scopes", Whole(scopes::scopes)),
    target("server", Whole(server)),
    target("setting", Whole(setting)),
    target("swaps", Paths(SWAP, &["/proc/swaps"])),
    target("sysctl-files", Paths(SYSTEMD, &["/etc/sysctl.d/99-sysctl.conf", "/usr/lib/sysctl.d/50-pid-max.conf"])),
    target("telemetry", Whole(telemetry)),
    target(
        "thp",
        Paths(
            FOUR_CPUS,
            &[
                "/sys/kernel/mm/transparent_hugepage/enabled",
                "/sys/kernel/mm/transparent_hugepage/defrag",
                "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
            ],
        ),
    ),
    target(
        "topology",
        Paths(
            FOUR_CPUS,
            &[
                "/sys/devices/system/cpu/cpu0/topology/core_id",
                "/sys/devices/system/cpu/cpu0/topology/physical_package_id",
                "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
                "/sys/devices/system/cpu/cpu0/cache/index0/level",
                "/sys/devices/system/cpu/cpu0/cache/index0/size",
                "/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
            ],
        ),
    ),
    target("udp-packets", Whole(udp_packets)),
    target("uname", Paths(FOUR_CPUS, &["@uname"])),
    target("vlans", Whole(vlans)),
    target("waivers", Program),
];

/// The machines, read once.
static MACHINES: LazyLock<Vec<(&str, Capture)>> = LazyLock::new(|| {
    let texts = [FOUR_CPUS, FOUR_NODES, QUEUES, IDLE, SWAP, BOND, EC2, GOOGLE, SYSTEMD];
    texts.map(|text| (text, Capture::parse(text).expect("a captured host is a capture"))).into()
});

/// The machine with this text.
pub(crate) fn machine(text: &str) -> Capture {
    let (_, machine) = MACHINES.iter().find(|(known, _)| *known == text).expect("MACHINES has every host of a target");
    machine.clone()
}

/// Gives a text to the paths of a captured machine, and makes facts and advice of it.
pub(crate) fn on_paths(host: &str, paths: &[&str], text: &str) -> Facts {
    let mut capture = machine(host);
    for path in paths {
        capture.saw_text(path, Ok(text.to_owned()));
    }
    answered(capture)
}

/// The facts of a machine; that there is advice from them is all that is asked of it.
fn answered(capture: Capture) -> Facts {
    let facts = Facts::probe(&Root::captured(capture));
    for goal in Goal::ALL {
        assert!(!advise(&facts, &goal.into()).is_empty());
    }
    facts
}

/// A capture that a stranger sends: what is one gives facts and advice, and prints as what it was read from.
fn capture(text: &str) {
    let Ok(capture) = Capture::parse(text) else { return };
    let printed = capture.to_string();
    assert_eq!(Capture::parse(&printed).as_ref(), Ok(&capture), "{printed}");
    answered(capture);
}

/// What somebody at the port of Agones' sidecar answers, each character a byte: in one piece or many it comes to the same, and no more
/// is kept of it than there was.
fn agones(text: &str) {
    let bytes: Vec<u8> = text.chars().map(|char| char as u8).collect();
    let read = |piece: usize| -> Result<Answer, BadAnswer> {
        let mut reader = Reader::default();
        for piece in bytes.chunks(piece) {
            if let Some(answer) = reader.push(piece)? {
                return Ok(answer);
            }
        }
        reader.end()
    };
    let whole = read(usize::MAX);
    assert_eq!(read(1), whole);
    assert_eq!(read(7), whole);
    if let Ok(answer) = whole {
        assert!(answer.body.len() <= bytes.len());
        let _ = GameServer::parse(&answer.body);
    }
    let _ = GameServer::parse(&bytes);
}

/// A machine's card that a stranger sends: what is one can be put beside itself, and is no better than itself.
fn card(text: &str) {
    let Ok(card) = Card::parse(text) else { return };
    let comparison = compare(&card, &card);
    assert_eq!((comparison.a_better, comparison.b_better), (0, 0));
    assert!(comparison.only_a.is_empty() && comparison.only_b.is_empty());
}

/// What a kernel counts: every file that rates are made of says the text before the line `=`, and a second later the text after it.
fn rates(text: &str) {
    const FILES: [&str; 16] = [
        "/proc/stat",
        "/proc/vmstat",
        "/proc/meminfo",
        "/proc/pressure/cpu",
        "/proc/7/cgroup",
        "/proc/7/stat",
        "/proc/7/status",
        "/proc/7/task/7/schedstat",
        "/proc/7/task/7/status",
        "/sys/fs/cgroup/cpu/cpu.stat",
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
        "/sys/fs/cgroup/cpu.stat",
        "/sys/fs/cgroup/cpu.max",
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory.current",
        "/sys/fs/cgroup/cpu.pressure",
    ];
    let (before, after) = text.split_once("\n=\n").unwrap_or((text, text));
    let counts = |text: &str, at_ns: u64| {
        let texts = FILES.map(|path| (path.to_owned(), text.to_owned()));
        Counts::of(&Root::from(std::collections::BTreeMap::from(texts)), &Watched::Process(7), &|| at_ns)
    };
    let rollup = parse_fields(after).map_or_else(|| Seen::absent("no fields"), Seen::Known);
    let pages = PagesSeen { rollup, pages: Pages::AsTheyAre };
    let rates = between(&counts(before, 0), &counts(after, 1_000_000_000), Some(&pages));
    for shares in rates.system.cpus.iter().filter_map(|cpu| cpu.shares.known()).chain(rates.system.all.known()) {
        let of = [shares.user, shares.system, shares.irq, shares.softirq, shares.steal, shares.idle];
        assert!(of.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
    }
}

/// Sets of CPUs in both spellings: what is read is written so that it reads the same.
fn cpuset(text: &str) {
    if let Some(set) = CpuSet::parse_list(text) {
        assert!(set.iter().all(|cpu| cpu < MAX_CPUS), "{set}");
        assert_eq!(CpuSet::parse_list(&set.to_string()).as_ref(), Some(&set));
        assert_eq!(CpuSet::parse_mask(&set.to_mask(1)).as_ref(), Some(&set));
    }
    if let Some(set) = CpuSet::parse_mask(text) {
        assert_eq!(CpuSet::parse_list(&set.to_string()).as_ref(), Some(&set));
    }
}

/// The name of an error number: what is one is written as it was read, but for zeros in front.
fn errno(text: &str) {
    if let Some(errno) = Errno::parse(text) {
        assert_eq!(Errno::parse(&format!("{errno:?}")), Some(errno));
    }
}

static DIR: LazyLock<TempDir> = LazyLock::new(|| TempDir::new_in("/dev/shm").expect("/dev/shm takes a folder"));

/// A journal whose records are whole, as their checksums say, but say anything: each line of the text is one record's JSON.
fn journal(text: &str) {
    let record = |json: &str| format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    let journal: String = text.lines().map(record).collect();
    fs::write(DIR.path().join("journal"), journal).expect("/dev/shm takes a file");
    if let Ok(log) = Log::read(DIR.path()) {
        let _ = history(&Root::captured(Capture::default()), &log);
    }
}

/// One file of a machine that says something strange: the first line of the text is its path, the rest what it says. So every
/// reader is within reach, those too that have no target of their own.
fn look(text: &str) {
    if let Some((path, text)) = text.split_once('\n') {
        on_paths(QUEUES, &[path], text);
    }
}

/// A plan that a stranger sends: what is one has its own text, does what it does, and is held against what the settings that it
/// names come to on a machine, which is all that is ever carried out of it.
fn plan(text: &str) {
    let Ok(plan) = PlanFile::parse(text) else { return };
    let written = plan.text().expect("a plan is plain data");
    assert_eq!(PlanFile::parse(&written).as_ref(), Ok(&plan), "{written}");
    assert_eq!(plan.agrees_with(&plan), Ok(()));
    assert_eq!(plan.plan().steps.len(), plan.steps.len());
    let Ok(settings) = plan.settings() else { return };
    let root = Root::captured(machine(QUEUES));
    let facts = Facts::probe(&root);
    if let Ok(now) = PlanFile::of(&root, &facts, &settings, &plan.title, None) {
        assert_eq!(now.agrees_with(&now), Ok(()));
        let _ = (plan.agrees_with(&now), plan.is_done(&root));
    }
}

/// What the command line tells of a server and of the goal.
fn server(text: &str) {
    let _ = text.parse::<Goal>();
    let _ = text.parse::<Server>();
}

/// The list of VLANs on a machine that has one, which the list may name or not.
fn vlans(text: &str) {
    let mut capture = machine(BOND);
    capture.saw_text("/sys/class/net/bond0.7/uevent", Ok("DEVTYPE=vlan".to_owned()));
    capture.saw_text("/proc/self/net/vlan/config", Ok(text.to_owned()));
    answered(capture);
}

/// A page of telemetry: a line is a word of it, by its place and its value, changed on a page that is sound; `cut N` ends the page after so
/// many bytes. The first line is what /proc says of its process, too.
fn telemetry(text: &str) {
    use evenkeel_sys::telemetry::{Snapshot, parse_boot, parse_start, prometheus};
    let _ = (parse_start(text), parse_boot(text), Snapshot::parse(text.as_bytes()));
    let mut page = vec![0_u64; 512];
    let sound = [(0, u64::from_ne_bytes(*b"EVENKEEL")), (1, 1), (2, 4096), (3, 32), (4, 24), (5, 56), (6, 12), (7, 68)];
    for (at, value) in
        sound.into_iter().chain([(8, 3), (9, 146), (10, 7), (16, 1), (17, u64::from_ne_bytes(*b"a\0\0\0\0\0\0\0"))])
    {
        page[at] = value;
    }
    let mut length = page.len() * 8;
    for line in text.lines() {
        let Some((place, value)) = line.split_once(' ') else { continue };
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        match place.parse::<usize>() {
            Ok(at) if at < page.len() => page[at] = value,
            _ if place == "cut" => length = usize::try_from(value).unwrap_or(length).min(length),
            _ => {}
        }
    }
    let bytes: Vec<u8> = page.iter().flat_map(|word| word.to_ne_bytes()).collect();
    if let Ok(found) = Snapshot::parse(&bytes[..length]) {
        let ofs = [&found.lateness, &found.work, &found.due_to_done];
        assert!(ofs.iter().all(|of| of.quantile_ns(0.5) <= of.max_ns && of.since(of).count == 0));
        assert!(prometheus(&[found]).ends_with('\n'));
    }
}

/// What anybody can send to the arena's server, its bots and whoever plays a record again. Packets are the characters up to 255,
/// apart by any other; a session of eight `S` is the player's. Whoever sends, nobody gets in without a cookie, and no answer to
/// a stranger outgrows its question.
fn arena(text: &str) {
    let (events, told) = std::sync::mpsc::sync_channel(64);
    let mut gate = ArenaGate::new(GateConfig { slots: 4, tick_hz: 50, seed: 1 }, events);
    let (known, stranger) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut admit = |from: [u8; 4], bytes: &[u8]| {
        let answer = gate.admit(gate::Arrival { from: (from, 7).into(), now_ns: 7, bytes }).ok().flatten();
        let mut out = Vec::new();
        if let Some(answer) = answer {
            answer.encode(&mut out);
            assert!(out.len() <= bytes.len(), "{answer:?}");
        }
        answer
    };
    let mut say = |message: arena_wire::FromClient| {
        let mut packet = Vec::new();
        message.encode(&mut packet);
        admit(known, &packet)
    };
    let hello = say(arena_wire::FromClient::Hello { nonce: 1 });
    let Some(arena_wire::FromServer::Challenge { cookie, .. }) = hello else { panic!() };
    let joined = say(arena_wire::FromClient::Join { nonce: 1, cookie });
    let Some(arena_wire::FromServer::Welcome { session, .. }) = joined else { panic!() };
    let mut mirror = Mirror::default();
    for packet in text.split(|c: char| u8::try_from(c).is_err()) {
        let mut bytes: Vec<u8> = packet.chars().map(|c| c as u8).collect();
        if let Ok(arena_wire::FromServer::Snapshot(packed)) = arena_wire::FromServer::parse(&bytes) {
            let _ = mirror.take_in(&packed);
        }
        // A long record of many players takes as long as the match did: that is what it is for.
        if bytes.len() < 300 {
            let _ = replay(&bytes, &mut Crew::default());
        }
        let answer = admit(stranger, &bytes);
        assert!(matches!(answer, None | Some(arena_wire::FromServer::Challenge { .. })), "{answer:?}");
        if bytes.get(4..12) == Some(b"SSSSSSSS") {
            bytes[4..12].copy_from_slice(&session.to_le_bytes());
        }
        let _ = admit(known, &bytes);
    }
    let joins = told.try_iter().filter(|event| matches!(event, Event::Join { .. }));
    assert_eq!((joins.count(), gate.players()), (1, 1));
}

/// Packets that somebody sends to either end of the UDP meter, and the head of a stream: each character is a byte, and one that is none
/// begins the next packet. Some come from an address that is proved, with its session's secret where they say `S`.
fn udp_packets(text: &str) {
    let mut gate = Gate::new(1000).giving(1_000_000);
    let (known, stranger) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut admit = |from: [u8; 4], bytes: &[u8]| {
        let act = gate.admit(Arrival { from: (from, 7).into(), now_ns: 7, bytes });
        if let Ok(Act::Say(answer)) = act {
            assert!(answer.bytes_min() < bytes.len(), "{answer:?}");
        }
        act
    };
    let mut say = |message: FromClient| {
        let mut packet = vec![0; message.bytes_min()];
        message.write(&mut packet);
        admit(known, &packet)
    };
    let Ok(Act::Say(FromServer::Challenge { cookie, .. })) = say(FromClient::Hello { nonce: 1 }) else { panic!() };
    let opened = say(FromClient::Open { nonce: 1, cookie });
    let Ok(Act::Say(FromServer::Welcome { session, .. })) = opened else { panic!() };
    for packet in text.split(|c: char| u8::try_from(c).is_err()) {
        let mut bytes: Vec<u8> = packet.chars().map(|c| c as u8).collect();
        let _ = FromServer::parse(&bytes);
        if let Some(head) = bytes.first_chunk() {
            let _ = stream::Request::parse(head);
        }
        if let Some(result) = bytes.first_chunk() {
            let _ = stream::Result::parse(result);
        }
        kernel_records(&bytes);
        assert!(matches!(admit(stranger, &bytes), Err(_) | Ok(Act::Say(_))));
        if bytes.get(8..16) == Some(b"SSSSSSSS") {
            bytes[8..16].copy_from_slice(&session.to_be_bytes());
        }
        let _ = admit(known, &bytes);
    }
    assert!(gate.sessions() <= 1);
}

/// What the kernel writes into shared memory: records of switches, and blocks of packets with whatever somebody sent in them.
fn kernel_records(bytes: &[u8]) {
    let _ = read_packet(bytes);
    let mut packets = 0_u32;
    let unread = read_block(bytes, |_| packets += 1);
    assert!((packets + unread) as usize <= bytes.len() / 48);
    let (mut rest, mut wakes) = (bytes, Wakes::default());
    while let Some((record, length)) = first_thread_record(rest) {
        wakes.take(record);
        rest = &rest[length..];
    }
    assert!(wakes.list().len() <= bytes.len() / 32);
}

/// What meters read of /proc: names of threads, interrupts and mounts are whatever somebody called them.
fn kernel_counts(text: &str) {
    let cpus = imbalance::parse_stat(text);
    assert!(cpus.values().all(|ticks| ticks.since(ticks).total() == 0));
    let sources = imbalance::parse_counts(text);
    assert!(sources.values().all(|source| !source.counts.is_empty()));
    for line in text.lines() {
        let _ = imbalance::parse_thread(line, 1);
        let _ = evenkeel_sys::schedstat::parse_schedstat(line.as_bytes());
        let _ = evenkeel_sys::asleep::parse_syscall(line);
    }
    let _ = evenkeel_sys::stall::parse_some_us(text);
    let _ = (evenkeel_sys::resident::parse_locked_kib(text), evenkeel_sys::resident::parse_swapped_in(text));
    let _ = disk::parse_mounts(text);
    let _ = memory::parse_huge_bytes(text, 0x7f00_0000_0000);
    let _ = memory::parse_field_kib(text, "MemAvailable:");
}

/// A setting as `apply` and `prove` take it: what is one is written so that it reads the same.
fn setting(text: &str) {
    if let Ok(setting) = Setting::parse(text) {
        let written = setting.to_string();
        assert_eq!(Setting::parse(&written).map(|setting| setting.to_string()), Ok(written));
    }
}
