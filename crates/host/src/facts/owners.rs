//! Other programs and files that change settings of this machine, at boot or at runtime.

use std::collections::BTreeMap;

use evenkeel_sys::CpuSet;
use serde::Serialize;

use super::boot::Init;
use super::machine::Container;
use super::sysctl_files::SysctlFiles;
use crate::fact::Fact;
use crate::probe::{Probe, is_absence, or_else};

/// Other programs and files that change settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Owners {
    /// Whether irqbalance runs, by its socket, its pid file or its unit's group.
    /// A running irqbalance moves interrupts within ten seconds.
    pub irqbalance: Fact<bool>,
    /// The configuration of irqbalance. Absent if no file configures it.
    pub irqbalance_options: Fact<IrqbalanceOptions>,
    /// The version of irqbalance, from dpkg. Absent if irqbalance does not run or another package manager installed it.
    pub irqbalance_version: Fact<String>,
    /// TuneD's active profile. Absent if TuneD is not installed or does not run.
    pub tuned_profile: Fact<String>,
    /// Whether bpftune runs. A running bpftune may change sysctls at any time.
    pub bpftune: Fact<bool>,
    /// Whether bpftune starts at boot.
    pub bpftune_enabled: Fact<bool>,
    /// The solutions and notes that saptune applies, in order. Absent if saptune is not installed.
    pub saptune: Fact<Vec<String>>,
    /// Whether Google's `google_set_multiqueue` is installed: at boot it assigns each queue a CPU, for interrupts and XPS.
    pub google_set_multiqueue: Fact<bool>,
    /// The configurations of container networks, which set sysctls of interfaces. May be empty.
    pub cni: Fact<Vec<String>>,
    /// The programs that make container networks. May be empty.
    pub cni_plugins: Fact<Vec<String>>,
    /// The files that set sysctls at boot.
    pub sysctl_files: Fact<SysctlFiles>,
}

/// The variables that irqbalance's unit reads at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IrqbalanceOptions {
    /// The file: `/etc/default/irqbalance` or `/etc/sysconfig/irqbalance`.
    pub file: String,
    /// The variables in the file, without commented and empty variables.
    pub variables: BTreeMap<String, String>,
    /// The CPUs to which irqbalance must not move interrupts. Absent if no variable names any CPU.
    pub banned_cpus: Fact<CpuSet>,
    /// The script that irqbalance runs for each interrupt. Absent if no variable names a script.
    pub policy_script: Fact<String>,
    /// Whether irqbalance moves interrupts once at its start, and exits.
    pub once: bool,
}

impl IrqbalanceOptions {
    fn from_variables(file: &str, variables: BTreeMap<String, String>) -> IrqbalanceOptions {
        let variable = |name: &str| variables.get(name).map(String::as_str);
        let arguments: Vec<&str> =
            ["IRQBALANCE_ARGS", "OPTIONS"].into_iter().filter_map(variable).flat_map(str::split_whitespace).collect();
        // The arguments `--name=value`, or `-n value` and `--name value`.
        let argument = |short: &str, long: &str| {
            arguments.iter().enumerate().find_map(|(at, word)| match word.split_once('=') {
                Some((name, value)) if name == long => Some(value),
                None if *word == short || *word == long => arguments.get(at + 1).copied(),
                _ => None,
            })
        };
        let banned = match (variable("IRQBALANCE_BANNED_CPULIST"), variable("IRQBALANCE_BANNED_CPUS")) {
            (Some(list), _) => parsed(file, list, CpuSet::parse_list(list)),
            (None, Some(mask)) => parsed(file, mask, CpuSet::parse_mask(mask)),
            (None, None) => Fact::absent(format!("{file} bans no CPU")),
        };
        let script = argument("-l", "--policyscript");
        IrqbalanceOptions {
            file: file.to_owned(),
            banned_cpus: banned,
            policy_script: script
                .map_or(Fact::absent(format!("{file} names no script")), |path| Fact::Known(path.to_owned())),
            once: variable("IRQBALANCE_ONESHOT").is_some_and(|value| value != "0")
                || arguments.iter().any(|word| ["-o", "--oneshot"].contains(word)),
            variables,
        }
    }
}

fn parsed(file: &str, text: &str, cpus: Option<CpuSet>) -> Fact<CpuSet> {
    cpus.map_or_else(|| Fact::odd(file, text, "the banned CPUs should be a list or a mask"), Fact::Known)
}

impl Owners {
    pub(super) fn probe(probe: Probe<'_>, container: &Fact<Container>, init: &Fact<Init>) -> Owners {
        let irqbalance = probe_irqbalance(probe, container);
        Owners {
            irqbalance_version: match &irqbalance {
                Fact::Known(true) => probe.text("@package/irqbalance"),
                Fact::Known(false) => Fact::absent("irqbalance does not run"),
                unknown => unknown.clone().map(|_| String::new()),
            },
            irqbalance,
            irqbalance_options: probe_irqbalance_options(probe),
            tuned_profile: probe_tuned(probe),
            bpftune: probe_bpftune(probe, container),
            bpftune_enabled: probe.is_there("/etc/systemd/system/multi-user.target.wants/bpftune.service"),
            saptune: probe.parse("/etc/sysconfig/saptune", "variables", |text| Some(parse_saptune(text))),
            google_set_multiqueue: probe.is_there("/usr/bin/google_set_multiqueue"),
            cni: probe_cni(probe, "/etc/cni/net.d", &[".conf", ".conflist", ".json"]),
            cni_plugins: probe_cni(probe, "/opt/cni/bin", &[""]),
            sysctl_files: SysctlFiles::probe(probe, init),
        }
    }
}

/// Looks for signs of irqbalance: its socket (since 1.6), its pid file (older versions), its unit's group in systemd.
fn probe_irqbalance(probe: Probe<'_>, container: &Fact<Container>) -> Fact<bool> {
    let has_pid = || probe.text("/run/irqbalance.pid").known().is_some();
    if has_pid() || runs_as_unit(probe, "irqbalance") {
        return Fact::Known(true);
    }
    match (probe.0.entries("/run/irqbalance"), container) {
        (Ok(sockets), _) if !sockets.is_empty() => Fact::Known(true),
        (Err(refusal), _) if !is_absence(&refusal) => refusal.into(),
        (_, Fact::Known(kind)) if *kind != Container::None => hidden("irqbalance"),
        _ => Fact::Known(false),
    }
}

/// Whether systemd has a group with processes for a service, under either version of control groups.
fn runs_as_unit(probe: Probe<'_>, service: &str) -> bool {
    let group = |mount: &str| format!("{mount}/system.slice/{service}.service/cgroup.procs");
    ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd"].iter().any(|mount| probe.text(&group(mount)).known().is_some())
}

fn hidden(program: &str) -> Fact<bool> {
    Fact::absent(format!("{program} is not visible, but a container does not show the programs of its host"))
}

/// The two places that distributions use. A machine has only one of them.
fn probe_irqbalance_options(probe: Probe<'_>) -> Fact<IrqbalanceOptions> {
    let at = |path: &str| {
        probe.parse(path, "variables", |text| Some(IrqbalanceOptions::from_variables(path, parse_variables(text))))
    };
    or_else(at("/etc/default/irqbalance"), || at("/etc/sysconfig/irqbalance"))
}

/// `NAME=value` lines as in systemd's `EnvironmentFile=`, without quotes around the whole value.
fn parse_variables(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let pairs = lines.filter_map(|line| line.split_once('='));
    let plain = |value: &str| {
        let inner = |quote| value.strip_prefix(quote).and_then(|value: &str| value.strip_suffix(quote));
        inner('"').or_else(|| inner('\'')).unwrap_or(value).to_owned()
    };
    let pairs = pairs.map(|(name, value)| (name.trim().to_owned(), plain(value.trim())));
    pairs.filter(|(name, value)| !name.is_empty() && !value.is_empty()).collect()
}

/// bpftune leaves no file under /run. Its program and its unit's group show whether it runs.
fn probe_bpftune(probe: Probe<'_>, container: &Fact<Container>) -> Fact<bool> {
    if runs_as_unit(probe, "bpftune") {
        return Fact::Known(true);
    }
    match (probe.is_there("/usr/sbin/bpftune"), container) {
        (Fact::Known(_), Fact::Known(kind)) if *kind != Container::None => hidden("bpftune"),
        (Fact::Known(true), _) if !probe.is_there("/run/systemd/system").known().is_some_and(|is_there| *is_there) => {
            Fact::absent("bpftune is installed, and without systemd nothing shows whether it runs")
        }
        (is_installed, _) => is_installed.map(|_| false),
    }
}

/// The files of a directory with this suffix. Empty if the directory does not exist.
fn probe_cni(probe: Probe<'_>, dir: &str, ends: &[&str]) -> Fact<Vec<String>> {
    let is_one = |name: &String| ends.iter().any(|end| name.ends_with(end));
    match probe.0.entries(dir) {
        Ok(names) => Fact::Known(names.into_iter().filter(is_one).collect()),
        Err(refusal) if is_absence(&refusal) => Fact::Known(Vec::new()),
        Err(refusal) => refusal.into(),
    }
}

/// `TUNE_FOR_SOLUTIONS="HANA"` and `TUNE_FOR_NOTES="941735 1771258"`: the settings that saptune applies at its start.
fn parse_saptune(text: &str) -> Vec<String> {
    let variables = parse_variables(text);
    let applied = ["TUNE_FOR_SOLUTIONS", "TUNE_FOR_NOTES"].into_iter().filter_map(|name| variables.get(name));
    applied.flat_map(|value| value.split_whitespace()).map(str::to_owned).collect()
}

/// The active profile stays on disk after the daemon stops. So the profile counts only if TuneD has its directory under /run.
fn probe_tuned(probe: Probe<'_>) -> Fact<String> {
    const PROFILE: &str = "/etc/tuned/active_profile";
    const RUN: &str = "/run/tuned";
    match probe.parse(PROFILE, "the name of a profile", |text| Some(text.to_owned())) {
        Fact::Known(profile) if profile.is_empty() => Fact::absent(format!("{PROFILE} is empty: no profile is active")),
        Fact::Known(profile) if probe.says_absent(RUN) => {
            Fact::absent(format!("{PROFILE} names {profile}, but without {RUN} TuneD does not run"))
        }
        profile => profile,
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    fn owners(lines: &str, container: Container) -> Owners {
        let root = Root::captured(Capture::parse(&format!("evenkeel-capture 1\n{lines}\nend\n")).unwrap());
        Owners::probe(Probe(&root), &Fact::Known(container), &Fact::Known(Init::Systemd))
    }

    #[test]
    fn a_daemon_that_leaves_no_trace_is_not_said_to_rest() {
        let nothing = "/sys/fs/cgroup/system.slice/bpftune.service/cgroup.procs ! ENOENT\n\
                       /sys/fs/cgroup/systemd/system.slice/bpftune.service/cgroup.procs ! ENOENT\n";
        let of = |lines: &str, container| {
            let bpftune = owners(&format!("{nothing}{lines}"), container).bpftune;
            serde_json::to_string(&bpftune).unwrap()
        };
        let seen = [
            of("/sys/fs/cgroup/system.slice/bpftune.service/cgroup.procs = 77", Container::None),
            of("/usr/sbin/bpftune ->! EINVAL\n/run/systemd/system ->! EINVAL", Container::None),
            of("/usr/sbin/bpftune ->! EINVAL\n/run/systemd/system ->! ENOENT", Container::None),
            of("/usr/sbin/bpftune ->! ENOENT", Container::None),
            of("/usr/sbin/bpftune ->! ENOENT", Container::Docker),
            of("", Container::None),
        ];
        expect![[r#"
            true
            false
            {"unknown":"absent","why":"bpftune is installed, and without systemd nothing shows whether it runs"}
            false
            {"unknown":"absent","why":"bpftune is not visible, but a container does not show the programs of its host"}
            {"unknown":"absent","why":"/usr/sbin/bpftune is not in the capture"}
        "#]]
        .assert_eq(&(seen.join("\n") + "\n"));
    }

    #[test]
    fn files_of_other_owners() {
        let of = |lines: &str| {
            let owners = owners(lines, Container::None);
            let seen = (owners.irqbalance_options, owners.google_set_multiqueue, owners.cni);
            serde_json::to_string(&seen).unwrap()
        };
        let default = "/etc/default/irqbalance =\n| # IRQBALANCE_ONESHOT=1\n| #IRQBALANCE_BANNED_CPUS=\n\
                       | IRQBALANCE_BANNED_CPULIST=\"2-3\"\n| IRQBALANCE_ARGS=\n";
        let seen = [
            of(&format!("{default}/usr/bin/google_set_multiqueue ->! ENOENT\n/etc/cni/net.d/ :! ENOENT")),
            of("/etc/default/irqbalance ! ENOENT\n/etc/sysconfig/irqbalance = IRQBALANCE_ARGS='--banirq=24'\n\
                /usr/bin/google_set_multiqueue ->! EINVAL\n/etc/cni/net.d/ : 10-aws.conflist README"),
            of("/etc/default/irqbalance ! ENOENT\n/etc/sysconfig/irqbalance ! ENOENT"),
        ];
        expect![[r#"
            [{"file":"/etc/default/irqbalance","variables":{"IRQBALANCE_BANNED_CPULIST":"2-3"},"banned_cpus":"2-3","policy_script":{"unknown":"absent","why":"/etc/default/irqbalance names no script"},"once":false},false,[]]
            [{"file":"/etc/sysconfig/irqbalance","variables":{"IRQBALANCE_ARGS":"--banirq=24"},"banned_cpus":{"unknown":"absent","why":"/etc/sysconfig/irqbalance bans no CPU"},"policy_script":{"unknown":"absent","why":"/etc/sysconfig/irqbalance names no script"},"once":false},true,["10-aws.conflist"]]
            [{"unknown":"absent","why":"/etc/default/irqbalance: no such file or directory (ENOENT)"},{"unknown":"absent","why":"/usr/bin/google_set_multiqueue is not in the capture"},{"unknown":"absent","why":"/etc/cni/net.d is not in the capture"}]
        "#]].assert_eq(&(seen.join("\n") + "\n"));
    }

    #[test]
    fn parses_irqbalance_configuration() {
        let of = |text: &str| {
            let options = IrqbalanceOptions::from_variables("/x", parse_variables(text));
            let banned = options.banned_cpus.known().map_or("none".to_owned(), CpuSet::to_string);
            let script = options.policy_script.known().cloned().unwrap_or("none".to_owned());
            format!("bans {banned}, script {script}, once {}", options.once)
        };
        let table = [
            ("", "bans none, script none, once false"),
            ("IRQBALANCE_BANNED_CPUS=f0", "bans 4-7, script none, once false"),
            ("IRQBALANCE_BANNED_CPUS=f0\nIRQBALANCE_BANNED_CPULIST=2-3", "bans 2-3, script none, once false"),
            ("IRQBALANCE_BANNED_CPULIST=x", "bans none, script none, once false"),
            ("IRQBALANCE_ONESHOT=yes", "bans none, script none, once true"),
            ("IRQBALANCE_ARGS='-o --policyscript=/s'", "bans none, script /s, once true"),
            ("OPTIONS='-l /s'", "bans none, script /s, once false"),
            ("IRQBALANCE_ARGS=-l", "bans none, script none, once false"),
        ];
        for (text, expected) in table {
            assert_eq!(of(text), expected, "{text}");
        }
        assert_eq!(parse_saptune("TUNE_FOR_SOLUTIONS=\"HANA\"\nTUNE_FOR_NOTES=\"941735 1\""), ["HANA", "941735", "1"]);
        assert!(parse_saptune("VERSION=3").is_empty());
    }

    #[test]
    fn an_owner_is_seen_by_any_of_its_traces() {
        let nothing = "/run/irqbalance/ :! ENOENT\n/run/irqbalance ! ENOENT\n/run/irqbalance.pid ! ENOENT\n\
                       /sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs ! ENOENT\n\
                       /sys/fs/cgroup/systemd/system.slice/irqbalance.service/cgroup.procs ! ENOENT\n";
        let of = |lines: &str, container: Container| {
            let owners = owners(lines, container);
            let irqbalance = serde_json::to_string(&owners.irqbalance).unwrap();
            format!("{irqbalance} {}", serde_json::to_string(&owners.tuned_profile).unwrap())
        };
        let seen = [
            of(
                "/run/irqbalance/ : irqbalance512.sock\n/etc/tuned/active_profile = virtual-guest\n/run/tuned ! EISDIR",
                Container::None,
            ),
            of(&format!("{nothing}/etc/tuned/active_profile = virtual-guest\n/run/tuned ! ENOENT"), Container::None),
            of(&format!("{nothing}/run/irqbalance.pid = 512\n/etc/tuned/active_profile ="), Container::None),
            of(&format!("{nothing}/etc/tuned/active_profile ! ENOENT"), Container::Docker),
            of("", Container::None),
        ];
        expect![[r#"
            true "virtual-guest"
            false {"unknown":"absent","why":"/etc/tuned/active_profile names virtual-guest, but without /run/tuned TuneD does not run"}
            true {"unknown":"absent","why":"/etc/tuned/active_profile is empty: no profile is active"}
            {"unknown":"absent","why":"irqbalance is not visible, but a container does not show the programs of its host"} {"unknown":"absent","why":"/etc/tuned/active_profile: no such file or directory (ENOENT)"}
            {"unknown":"absent","why":"/run/irqbalance is not in the capture"} {"unknown":"absent","why":"/etc/tuned/active_profile is not in the capture"}
        "#]].assert_eq(&(seen.join("\n") + "\n"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "([A-C=#;\"' \n]|IRQBALANCE_ARGS=|IRQBALANCE_BANNED_CPUS=|--policyscript|-l|.){0,40}") {
            let variables = parse_variables(&text);
            prop_assert!(variables.values().all(|value| !value.is_empty()));
            let _ = (IrqbalanceOptions::from_variables("/x", variables), parse_saptune(&text));
        }
    }
}
