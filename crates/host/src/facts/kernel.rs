//! The kernel: its release, its command line, and whether it is locked down.

use std::fmt;

use evenkeel_hostfs::proc::field;
use serde::Serialize;

use super::kernel_config::{KernelConfig, probe_timer_hz};
use crate::fact::Fact;
use crate::probe::{Probe, and_then, chosen_word, or_else};

/// The running kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kernel {
    /// The release, as `uname -r` prints it.
    pub release: Fact<String>,
    /// The numbers of the release.
    pub version: Fact<Version>,
    /// The architecture, as `uname -m` prints it.
    pub architecture: Fact<String>,
    /// The arguments of the command line, in order, with repeats. A quoted argument is one argument.
    pub command_line: Fact<Vec<String>>,
    /// What the kernel denies even to root.
    pub lockdown: Fact<Lockdown>,
    /// The timer frequency in Hz (`CONFIG_HZ`).
    pub timer_hz: Fact<u32>,
    /// How the kernel was built, if the kernel or the distribution reports that.
    pub config: Fact<KernelConfig>,
}

/// The first two or three numbers of a kernel release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub struct Version {
    /// The first number: 6 in 6.12.3.
    pub major: u32,
    /// The second number: 12 in 6.12.3.
    pub minor: u32,
    /// The third number: 3 in 6.12.3. 0 if the release has no third number.
    pub patch: u32,
}

/// What the kernel's lockdown denies to root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Lockdown {
    /// Nothing.
    None,
    /// Everything that could change the running kernel: debugfs, /dev/mem, unsigned modules.
    Integrity,
    /// Everything of `Integrity`, and everything that could read the kernel's secrets.
    Confidentiality,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Kernel {
    pub(super) fn probe(probe: Probe<'_>) -> Kernel {
        let uname = |key: &'static str| {
            probe.parse("@uname", "a release and a machine", move |text| field(text, key, '=').map(str::to_owned))
        };
        // A mounted host has no uname of its own, but its /proc has the release too.
        let release = or_else(uname("release"), || probe.text("/proc/sys/kernel/osrelease"));
        let version = and_then(release.clone(), |release| match parse_version(&release) {
            Some(version) => Fact::Known(version),
            None => Fact::odd("@uname", &release, "a kernel's release should begin with two numbers"),
        });
        let config = KernelConfig::probe(probe);
        let arguments = probe.parse("/proc/cmdline", "arguments", |text| Some(parse_arguments(text)));
        Kernel {
            release,
            version,
            architecture: uname("machine"),
            command_line: arguments,
            lockdown: probe_lockdown(probe),
            timer_hz: probe_timer_hz(probe, &config),
            config,
        }
    }

    /// Whether the kernel has this version or a later one. `None` if its version is unknown.
    pub fn is_at_least(&self, major: u32, minor: u32) -> Option<bool> {
        self.version.known().map(|version| (version.major, version.minor) >= (major, minor))
    }

    /// The value of the last argument with this name, because the last one wins. The value is empty if that argument has no `=`.
    ///
    /// As in the kernel, `-` and `_` are equal, and arguments after `--` go to init.
    pub fn argument(&self, name: &str) -> Option<&str> {
        let arguments = self.command_line.known()?;
        let own = arguments.iter().take_while(|argument| *argument != "--");
        let values = own.filter_map(|argument| {
            let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
            is_same_name(key, name).then_some(value)
        });
        values.last()
    }
}

/// Whether two argument names are equal, as `parameq` in the kernel's `kernel/params.c` compares them.
fn is_same_name(one: &str, other: &str) -> bool {
    let dashed = |byte: u8| if byte == b'_' { b'-' } else { byte };
    one.len() == other.len() && one.bytes().map(dashed).eq(other.bytes().map(dashed))
}

fn probe_lockdown(probe: Probe<'_>) -> Fact<Lockdown> {
    const PATH: &str = "/sys/kernel/security/lockdown";
    match probe.parse(PATH, "lockdown levels with the chosen one in brackets", parse_lockdown) {
        Fact::Absent { .. } if probe.says_absent(PATH) => {
            Fact::absent(format!("{PATH} does not exist: securityfs is not mounted, or the kernel has no lockdown"))
        }
        lockdown => lockdown,
    }
}

fn parse_lockdown(text: &str) -> Option<Lockdown> {
    match chosen_word(text)? {
        "none" => Some(Lockdown::None),
        "integrity" => Some(Lockdown::Integrity),
        "confidentiality" => Some(Lockdown::Confidentiality),
        _ => None,
    }
}

/// The leading numbers of `6.18.44-fc`, `5.14.0-427.el9`, `6.12-rc3`.
fn parse_version(release: &str) -> Option<Version> {
    let (major, rest) = leading_number(release)?;
    let (minor, rest) = leading_number(rest.strip_prefix('.')?)?;
    let patch = rest.strip_prefix('.').and_then(leading_number).map_or(0, |(patch, _)| patch);
    Some(Version { major, minor, patch })
}

fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// Splits at white space outside double quotes, as `next_arg` of the kernel's `lib/cmdline.c` does.
/// Drops the quotes around an argument or its value.
fn parse_arguments(text: &str) -> Vec<String> {
    let mut quoted = false;
    let words = text.split(|character: char| {
        quoted ^= character == '"';
        !quoted && character.is_whitespace()
    });
    words.filter(|word| !word.is_empty()).map(unquote).collect()
}

fn unquote(argument: &str) -> String {
    let closed = |text: &str| text.strip_suffix('"').unwrap_or(text).to_owned();
    if let Some(argument) = argument.strip_prefix('"') {
        return closed(argument);
    }
    match argument.split_once("=\"") {
        Some((name, value)) if !name.contains('=') => format!("{name}={}", closed(value)),
        _ => argument.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kernel(command_line: &str) -> Kernel {
        let absent = || Fact::absent("not asked");
        Kernel {
            release: absent(),
            version: Fact::absent("not asked"),
            architecture: absent(),
            command_line: Fact::Known(parse_arguments(command_line)),
            lockdown: Fact::absent("not asked"),
            timer_hz: Fact::absent("not asked"),
            config: Fact::absent("not asked"),
        }
    }

    #[test]
    fn versions_of_every_distribution() {
        let table = [
            ("6.18.44-fc-v669", Some("6.18.44")),
            ("4.4.0-1128-aws", Some("4.4.0")),
            ("5.14.0-427.13.1.el9_4.x86_64", Some("5.14.0")),
            ("3.14.26-24.46.amzn1.x86_64", Some("3.14.26")),
            ("6.12-rc3", Some("6.12.0")),
            ("6.1.0+", Some("6.1.0")),
            ("6", None),
            ("v6.1", None),
            ("6.", None),
            ("99999999999.1", None),
            ("", None),
        ];
        for (release, expected) in table {
            assert_eq!(parse_version(release).map(|version| version.to_string()).as_deref(), expected, "{release:?}");
        }
    }

    #[test]
    fn arguments_split_as_the_kernel_splits_them() {
        let table: [(&str, &[&str]); 7] = [
            ("ro  quiet\n", &["ro", "quiet"]),
            ("a=\"b c\" d", &["a=b c", "d"]),
            ("\"a=b c\" d", &["a=b c", "d"]),
            ("a=b=\"c d\"", &["a=b=\"c d\""]),
            ("a=\"b c", &["a=b c"]),
            ("\"", &[""]),
            ("", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(parse_arguments(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_last_argument_of_the_kernels_own_wins() {
        let kernel = kernel(
            "intel_idle.max_cstate=9 quiet intel-idle.max-cstate=1 mitigations=auto,nosmt -- quiet=no idle=poll",
        );
        let table = [
            ("intel_idle.max_cstate", Some("1")),
            ("quiet", Some("")),
            ("mitigations", Some("auto,nosmt")),
            ("idle", None),
            ("max_cstate", None),
            ("intel_idle", None),
        ];
        for (name, expected) in table {
            assert_eq!(kernel.argument(name), expected, "{name}");
        }
    }

    #[test]
    fn lockdown_is_the_chosen_level() {
        let table = [
            ("[none] integrity confidentiality", Some(Lockdown::None)),
            ("none [integrity] confidentiality", Some(Lockdown::Integrity)),
            ("none integrity [confidentiality]", Some(Lockdown::Confidentiality)),
            ("none integrity", None),
            ("[other]", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_lockdown(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[a-z0-9.=\"_ \\[\\]-]{0,40}|.{0,20}") {
            let _ = (parse_version(&text), parse_lockdown(&text), parse_arguments(&text));
            let _ = kernel(&text).argument("quiet");
        }
    }
}
