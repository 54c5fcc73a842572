//! A captured host with a real state directory, and simulated surroundings for a transaction.
//! One of them dies at a given boundary, one has a disk that fills up, and one records the order of events.

mod apply;
mod compact;
mod crash;
mod exact;
mod holders;
mod journal;
mod lasting;
mod losses;
mod render;
mod revert;
mod session;
mod session_units;
mod verify;

use std::fs::File;
use std::path::Path;
use std::sync::LazyLock;

use evenkeel_host::{Action, Plan, Reading, Step};
use evenkeel_hostfs::{Capture, HostWriter, Root};
use evenkeel_sys::Errno;
use tempfile::TempDir;

use crate::ServiceName;
use crate::outside::Outside;
use crate::state::State;

/// `min_free_kbytes` has neither of the two values that the kernel computes, so only a write can restore it.
pub(crate) const HOST: &str = "evenkeel-capture 1
/proc/cmdline = BOOT_IMAGE=/vmlinuz quiet intel_idle.max_cstate=1
/proc/irq/25/effective_affinity = 1
/proc/irq/25/effective_affinity_list = 0
/proc/irq/25/smp_affinity = 3
/proc/irq/25/smp_affinity_list = 0-1
/proc/irq/26/smp_affinity_list = 0-1
/proc/irq/26/smp_affinity_list !write EIO
/proc/meminfo =
| MemTotal:       24582928 kB
/proc/sys/kernel/osrelease = 6.1.0-13-cloud-amd64
/proc/sys/kernel/random/boot_id = aaaa
/proc/sys/net/core/busy_poll = 0
/proc/sys/vm/min_free_kbytes = 70000
/proc/sys/vm/swappiness = 60
/sys/class/net/eth0/queues/rx-0/rps_cpus = 0
/sys/devices/system/clocksource/clocksource0/available_clocksource = tsc hpet acpi_pm
/sys/devices/system/clocksource/clocksource0/current_clocksource = tsc
/sys/devices/system/cpu/online = 0-1
/sys/kernel/mm/transparent_hugepage/enabled = always [madvise] never
end
";

/// The unit of a server.
pub(crate) static GAME: LazyLock<ServiceName> = LazyLock::new(|| "game.service".parse().unwrap());

pub(crate) const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
pub(crate) const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
pub(crate) const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// A folder in memory, if the machine has one.
/// Tests that do not test the disk use it, because they would wait for the disk at each step.
pub(crate) fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) struct Stage {
    pub(crate) root: Root,
    pub(crate) writer: HostWriter,
    pub(crate) dir: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage::on(HOST)
    }

    pub(crate) fn on(host: &str) -> Stage {
        let root = Root::captured(Capture::parse(host).unwrap());
        let writer = root.writer().unwrap();
        Stage { root, writer, dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn state(&self) -> State {
        State::open_on(self.dir.path(), Box::new(Quick)).unwrap()
    }

    /// Opens the state for restoring, even if the journal is damaged.
    pub(crate) fn state_to_revert(&self) -> State {
        State::open_to_revert_on(self.dir.path(), Box::new(Quick)).unwrap()
    }

    pub(crate) fn state_on(&self, outside: impl Outside + 'static) -> State {
        State::open_on(self.dir.path(), Box::new(outside)).unwrap()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        self.root.text(path).unwrap().trim().to_owned()
    }

    pub(crate) fn journal(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("journal")).unwrap()
    }

    pub(crate) fn is_as(&self, before: &Capture) -> bool {
        self.root.capture() == *before
    }
}

/// The steps for `KNOB=VALUE`, as the crate `host` would plan them.
pub(crate) fn plan(settings: &[&str]) -> Plan {
    Plan { steps: settings.iter().map(|setting| step(setting)).collect() }
}

pub(crate) fn step(setting: &str) -> Step {
    let (knob, wanted) = setting.split_once('=').unwrap();
    let write = |path: &str, reading| Action::Write {
        interrupt: None,
        path: path.to_owned(),
        reading,
        in_force: None,
        side_effects: match path {
            THP => vec![MIN_FREE.to_owned(), "/proc/sys/vm/not-here".to_owned()],
            _ if path.ends_with("_ratio") => vec![path.replace("_ratio", "_bytes")],
            _ if path.ends_with("_bytes") => vec![path.replace("_bytes", "_ratio")],
            _ => vec![],
        },
    };
    let irq = |number| Action::Write {
        interrupt: None,
        path: format!("/proc/irq/{number}/smp_affinity_list"),
        reading: Reading::CpuList,
        in_force: Some(format!("/proc/irq/{number}/effective_affinity_list")),
        side_effects: vec![],
    };
    let (place, action) = match knob {
        "vm.swappiness" => (SWAPPINESS, write(SWAPPINESS, Reading::Plain)),
        "vm.min_free_kbytes" => (MIN_FREE, write(MIN_FREE, Reading::Plain)),
        "net.core.busy_poll" => ("/proc/sys/net/core/busy_poll", write("/proc/sys/net/core/busy_poll", Reading::Plain)),
        "thp.enabled" => (THP, write(THP, Reading::ChosenWord)),
        "net.rps_cpus" => ("eth0/rx-0", write("/sys/class/net/eth0/queues/rx-0/rps_cpus", Reading::CpuMask)),
        "irq.affinity@26" => ("26", irq(26)),
        "irq.affinity" => ("25", irq(25)),
        "clocksource" => {
            let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
            (path, write(path, Reading::Plain))
        }
        "cmdline.intel_idle.max_cstate" => {
            ("intel_idle.max_cstate", Action::KernelArgument { argument: format!("intel_idle.max_cstate={wanted}") })
        }
        "cpuidle.dma_latency_us" => ("/dev/cpu_dma_latency", Action::Hold { path: "/dev/cpu_dma_latency".into() }),
        "process.timer_slack_ns" => ("server", Action::Process),
        path => (path, write(path, Reading::Plain)),
    };
    Step { knob: knob.to_owned(), place: place.to_owned(), wanted: wanted.to_owned(), action }
}

/// A captured host has no disk to lose data, so its journal does not wait for a disk.
/// The clock of the captured host stands still.
pub(crate) struct Quick;

impl Outside for Quick {
    fn sync(&mut self, _: &File) -> Result<(), Errno> {
        Ok(())
    }

    fn realtime_ns(&mut self) -> u64 {
        1_700_000_000_000_000_000
    }
}

/// The journal as `cat` shows it, without the checksums.
pub(crate) fn without_checksums(journal: &str) -> String {
    journal.lines().map(|line| format!("{}\n", &line[9..])).collect()
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
