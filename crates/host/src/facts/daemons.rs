//! Timers and services of the distribution that can disturb a server's ticks.

use serde::Serialize;

use super::boot::Init;
use super::machine::Container;
use crate::fact::Fact;
use crate::probe::{Probe, is_absence};

/// Timers and services of the distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Daemons {
    /// The enabled systemd timers that start work on disk, network or CPU, by name without `.timer`.
    pub background_timers: Fact<Vec<String>>,
    /// The services that set the clock, by unit name.
    pub clock_keepers: Fact<Vec<String>>,
    /// Whether auditd runs. The kernel checks its rules in each system call.
    pub auditd: Fact<bool>,
}

/// Timers of distributions that start noticeable work, such as package indexes and upgrades, firmware, manual pages and logs.
/// Also timers for trimming and checking of file systems, file indexes, and statistics.
const TIMERS: [&str; 18] = [
    "apt-daily",
    "apt-daily-upgrade",
    "apt-news",
    "dnf-makecache",
    "dnf-automatic",
    "dnf-automatic-install",
    "fwupd-refresh",
    "man-db",
    "fstrim",
    "e2scrub_all",
    "logrotate",
    "plocate-updatedb",
    "mlocate-updatedb",
    "mdcheck_start",
    "raid-check",
    "sysstat-summary",
    "snapd.snap-repair",
    "update-notifier-download",
];

const KEEPERS: [&str; 7] = ["chrony", "chronyd", "systemd-timesyncd", "ntpd", "ntpsec", "ntp", "phc2sys"];

impl Daemons {
    pub(super) fn probe(probe: Probe<'_>, container: &Fact<Container>, init: &Fact<Init>) -> Daemons {
        let visible = visible(container, init);
        let seen = |look: &dyn Fn() -> Fact<Vec<String>>| match &visible {
            Fact::Known(()) => look(),
            unknown => unknown.clone().map(|()| Vec::new()),
        };
        Daemons {
            background_timers: match (container, init) {
                // evenkeel reads only systemd timers, not cron.
                (Fact::Known(Container::None), Fact::Known(Init::Other(_))) => Fact::Known(Vec::new()),
                _ => seen(&|| timers(probe)),
            },
            clock_keepers: seen(&|| running(probe, &KEEPERS)),
            auditd: seen(&|| running(probe, &["auditd"])).map(|names| !names.is_empty()),
        }
    }
}

/// The services whose group in systemd has processes, under either version of control groups.
/// Unknown if no service runs and some group was never read.
fn running(probe: Probe<'_>, services: &[&str]) -> Fact<Vec<String>> {
    let mut unseen = None;
    let mut runs = |service: &&str| {
        ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd"].iter().any(|mount| {
            let group = probe.text(&format!("{mount}/system.slice/{service}.service/cgroup.procs"));
            let is_running = group.known().is_some();
            if matches!(group, Fact::Unseen { .. }) {
                unseen.get_or_insert(group);
            }
            is_running
        })
    };
    let found: Vec<String> = services.iter().filter(|name| runs(name)).map(|name| (*name).to_owned()).collect();
    match unseen {
        Some(unseen) if found.is_empty() => unseen.map(|_| found),
        _ => Fact::Known(found),
    }
}

/// Units and timers belong to systemd, and a container does not show the units and timers of its host.
fn visible(container: &Fact<Container>, init: &Fact<Init>) -> Fact<()> {
    match (container, init) {
        (Fact::Known(kind), _) if *kind != Container::None => {
            Fact::absent("a container does not show the timers and services of its host")
        }
        (_, Fact::Known(Init::Systemd)) => Fact::Known(()),
        (_, Fact::Known(_)) => Fact::absent("without systemd nothing shows which timers and services there are"),
        (_, unknown) => unknown.clone().map(|_| ()),
    }
}

/// The timers that the distribution or a user enabled, except masked timers.
fn timers(probe: Probe<'_>) -> Fact<Vec<String>> {
    let mut found = Vec::new();
    for dir in ["/etc/systemd/system", "/usr/lib/systemd/system"] {
        match probe.0.entries(&format!("{dir}/timers.target.wants")) {
            Ok(names) => found.extend(names),
            Err(refusal) if is_absence(&refusal) => {}
            Err(refusal) => return refusal.into(),
        }
    }
    let is_enabled = |name: &&str| {
        let unit = format!("{name}.timer");
        let is_masked = || probe.0.link(&format!("/etc/systemd/system/{unit}")).is_ok_and(|to| to == "/dev/null");
        found.contains(&unit) && !is_masked()
    };
    Fact::Known(TIMERS.iter().filter(|name| is_enabled(name)).map(|name| (*name).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use expect_test::expect;

    use super::*;

    fn as_text(lines: &str, container: Container, init: Init) -> String {
        let root = Root::captured(Capture::parse(&format!("evenkeel-capture 1\n{lines}\nend\n")).unwrap());
        let daemons = Daemons::probe(Probe(&root), &Fact::Known(container), &Fact::Known(init));
        serde_json::to_string(&daemons).unwrap() + "\n"
    }

    #[test]
    fn enabled_units_that_are_not_masked_count() {
        let (etc, lib) = ("/etc/systemd/system/timers.target.wants/", "/usr/lib/systemd/system/timers.target.wants/");
        let both = format!(
            "{etc} : apt-daily.timer fstrim.timer my-own.timer man-db.timer\n{lib} : logrotate.timer\n\
             /etc/systemd/system/fstrim.timer -> /dev/null\n\
             /sys/fs/cgroup/system.slice/chrony.service/cgroup.procs = 512\n\
             /sys/fs/cgroup/systemd/system.slice/auditd.service/cgroup.procs = 77"
        );
        let neither =
            KEEPERS.iter().chain(&["auditd"]).fold(format!("{etc} :! ENOENT\n{lib} :! ENOENT"), |all, name| {
                let group = format!("system.slice/{name}.service/cgroup.procs");
                format!("{all}\n/sys/fs/cgroup/{group} ! ENOENT\n/sys/fs/cgroup/systemd/{group} ! ENOENT")
            });
        let seen = [
            as_text(&both, Container::None, Init::Systemd),
            as_text(&neither, Container::None, Init::Systemd),
            as_text(&format!("{etc} :! EACCES"), Container::None, Init::Systemd),
            as_text(&both, Container::Docker, Init::Systemd),
            as_text(&both, Container::None, Init::Other("runit".into())),
        ];
        expect![[r#"
            {"background_timers":["apt-daily","man-db","logrotate"],"clock_keepers":["chrony"],"auditd":true}
            {"background_timers":[],"clock_keepers":[],"auditd":false}
            {"background_timers":{"unknown":"denied","why":"/etc/systemd/system/timers.target.wants: permission denied (EACCES)"},"clock_keepers":{"unknown":"absent","why":"/sys/fs/cgroup/system.slice/chrony.service/cgroup.procs is not in the capture"},"auditd":{"unknown":"absent","why":"/sys/fs/cgroup/system.slice/auditd.service/cgroup.procs is not in the capture"}}
            {"background_timers":{"unknown":"absent","why":"a container does not show the timers and services of its host"},"clock_keepers":{"unknown":"absent","why":"a container does not show the timers and services of its host"},"auditd":{"unknown":"absent","why":"a container does not show the timers and services of its host"}}
            {"background_timers":[],"clock_keepers":{"unknown":"absent","why":"without systemd nothing shows which timers and services there are"},"auditd":{"unknown":"absent","why":"without systemd nothing shows which timers and services there are"}}
        "#]].assert_eq(&seen.concat());
    }
}
