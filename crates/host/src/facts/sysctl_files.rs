//! The settings under /proc/sys at boot: the files of `sysctl.d(5)` in the order in which they are read.
//! A value in one of these files returns at the next boot, whatever is written at runtime.

use std::collections::BTreeMap;

use serde::Serialize;

use super::boot::Init;
use crate::fact::Fact;
use crate::probe::{Probe, is_absence};

/// The directories, the strongest first. A file in a directory hides files with the same name in later directories.
const DIRS: [&str; 5] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];

/// The old file. systemd reads it only through a link in [`DIRS`]. Debian 13 no longer has this link.
/// Other init systems read the file last.
const OLD: &str = "/etc/sysctl.conf";

/// The maximum number of files to read. Distributions have about ten files of some dozen lines. A far larger number is not a configuration.
const FILES_MAX: usize = 256;
const SETTINGS_MAX: usize = 4096;

/// The files that set anything under /proc/sys at boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SysctlFiles {
    /// In the order of reading: the last setting of a key counts.
    pub read: Vec<SysctlFile>,
    /// `/etc/sysctl.conf`, if it contains settings that nothing reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<SysctlFile>,
}

/// One of the files.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SysctlFile {
    /// Its path.
    pub path: String,
    /// Its settings, in its order.
    pub settings: Fact<Vec<SysctlSetting>>,
}

/// One line of such a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SysctlSetting {
    /// The file under /proc/sys, or a pattern of several: `net/ipv4/conf/*/rp_filter`.
    pub key: String,
    /// The written value. `None` if the line only excludes the key from patterns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The line, from 1.
    pub line: usize,
}

impl SysctlFiles {
    pub(super) fn probe(probe: Probe<'_>, init: &Fact<Init>) -> Fact<SysctlFiles> {
        // Files are read in the order of their names, whatever their directory.
        let mut files: BTreeMap<String, &str> = BTreeMap::new();
        for dir in DIRS {
            let names = match probe.0.entries(dir) {
                Ok(names) => names,
                Err(refusal) if is_absence(&refusal) => continue,
                Err(refusal) => return refusal.into(),
            };
            for name in names.into_iter().filter(|name| name.ends_with(".conf")) {
                files.entry(name).or_insert(dir);
            }
            if files.len() > FILES_MAX {
                return Fact::odd(dir, "", format!("there should be at most {FILES_MAX} files of sysctl.d"));
            }
        }
        let paths: Vec<String> = files.iter().map(|(name, dir)| format!("{dir}/{name}")).collect();
        let mut read: Vec<SysctlFile> = paths.into_iter().filter_map(|path| look(probe, path)).collect();
        let is_linked = read.iter().any(|file| probe.0.link(&file.path).is_ok_and(|to| to.ends_with("sysctl.conf")));
        let old = if is_linked { None } else { look(probe, OLD.to_owned()) };
        let unread = match init {
            Fact::Known(Init::Other(_)) => {
                read.extend(old);
                None
            }
            _ => old.filter(|file| file.settings.known().is_none_or(|settings| !settings.is_empty())),
        };
        Fact::Known(SysctlFiles { read, unread })
    }

    /// The line that decides the file at `path` (`/proc/sys/vm/swappiness`) at boot.
    /// The line that decides is the last line that names the file.
    /// If no line names the file, it is the last matching pattern, unless a line excludes the file from patterns.
    pub fn decides(&self, path: &str) -> Option<(&SysctlFile, &SysctlSetting)> {
        let key = path.strip_prefix("/proc/sys/")?;
        let all = || {
            let files = self.read.iter().filter_map(|file| Some((file, file.settings.known()?)));
            files.flat_map(|(file, settings)| settings.iter().map(move |setting| (file, setting)))
        };
        let named = all().rfind(|(_, setting)| setting.key == key);
        let fits = || all().rfind(|(_, setting)| setting.value.is_some() && fits(&setting.key, key));
        named.or_else(fits).filter(|(_, setting)| setting.value.is_some())
    }
}

/// Reads one file. `None` if the file is a link that points nowhere. Like an empty file, this link hides files with its name.
fn look(probe: Probe<'_>, path: String) -> Option<SysctlFile> {
    let what = format!("at most {SETTINGS_MAX} settings");
    let settings = probe.parse(&path, &what, |text| Some(parse(text)).filter(|parsed| parsed.len() <= SETTINGS_MAX));
    (!settings.is_absent() || !probe.says_absent(&path)).then_some(SysctlFile { path, settings })
}

/// The settings of a file, parsed as `systemd-sysctl` and `sysctl` do. Invalid lines are skipped.
fn parse(text: &str) -> Vec<SysctlSetting> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines.filter(|(_, line)| !line.starts_with(['#', ';'])).filter_map(|(line, text)| setting(line, text)).collect()
}

/// `key = value`, or `-key = value` whose failure is ignored, or `-key`, which patterns then skip.
fn setting(line: usize, text: &str) -> Option<SysctlSetting> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key.trim().strip_prefix('-').unwrap_or(key.trim()), Some(value.trim().to_owned())),
        None => (text.strip_prefix('-')?, None),
    };
    let key = normal(key.trim())?;
    Some(SysctlSetting { key, value, line })
}

/// A key as the path below /proc/sys.
/// If the first separator is a slash, the key is already a path, and dots belong to names.
/// Otherwise dots separate, and slashes stand for dots: `net.ipv4.conf.eth0/100.rp_filter`.
fn normal(key: &str) -> Option<String> {
    let path = match key.find(['.', '/']).map(|at| key.as_bytes()[at]) {
        Some(b'.') => {
            let swap = |letter| match letter {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            key.chars().map(swap).collect()
        }
        _ => key.to_owned(),
    };
    let path = path.strip_prefix("/proc/sys/").unwrap_or(&path).trim_start_matches('/');
    (!path.is_empty() && !path.contains(char::is_whitespace)).then(|| path.to_owned())
}

/// Whether a key matches a pattern, part by part. `*` and `?` never match a slash.
/// Sets in brackets match nothing, because no distribution uses them.
fn fits(pattern: &str, key: &str) -> bool {
    if pattern.split('/').count() != key.split('/').count() {
        return false;
    }
    pattern.split('/').zip(key.split('/')).all(|(pattern, part)| part_fits(pattern.as_bytes(), part.as_bytes()))
}

/// Backtracks only to the last `*`, so the time is at most the pattern's length times the text's length.
fn part_fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, seen));
                at += 1;
            }
            Some(letter) if *letter == b'?' || *letter == text[seen] => (at, seen) = (at + 1, seen + 1),
            _ => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    (at, seen) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use evenkeel_hostfs::{Capture, Root};
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    const SYSTEMD: Fact<Init> = Fact::Known(Init::Systemd);

    fn files(lines: &str, init: &Fact<Init>) -> Fact<SysctlFiles> {
        let root = Root::captured(Capture::parse(&format!("evenkeel-capture 1\n{lines}\nend\n")).unwrap());
        SysctlFiles::probe(Probe(&root), init)
    }

    /// Two directories and the old file, as on Debian 12. The content of `/etc/sysctl.d/99-sysctl.conf` follows.
    const MACHINE: &str = "/run/sysctl.d/ :! ENOENT\n/usr/local/lib/sysctl.d/ :! ENOENT\n/lib/sysctl.d/ : 10-a.conf 20-b.conf\n\
        /usr/lib/sysctl.d/ : 10-a.conf 20-b.conf 30-masked.conf\n/usr/lib/sysctl.d/20-b.conf =\n\
        | # net.core.rmem_max = 1\n| net.core.rmem_max = 4194304\n| -net.ipv4.conf.*.rp_filter = 2\n| -net.ipv4.conf.lo.rp_filter\n\
        /etc/sysctl.d/10-a.conf =\n| net/core/rmem_max=212992\n|   vm.swappiness =10\n| nonsense\n| dirty_ratio 5\n\
        /etc/sysctl.d/30-masked.conf =~\n/etc/sysctl.conf = vm.swappiness = 30\n\
        /etc/sysctl.d/10-a.conf ->! EINVAL\n/usr/lib/sysctl.d/20-b.conf ->! EINVAL\n/etc/sysctl.d/30-masked.conf -> /dev/null\n";
    const WITH_LINK: &str = "/etc/sysctl.d/ : 10-a.conf 30-masked.conf 99-sysctl.conf README\n\
        /etc/sysctl.d/99-sysctl.conf = vm.swappiness = 30\n/etc/sysctl.d/99-sysctl.conf -> ../sysctl.conf\n";
    const WITHOUT_LINK: &str = "/etc/sysctl.d/ : 10-a.conf 30-masked.conf README\n";

    #[test]
    fn the_last_file_that_names_a_key_decides() {
        let keys = ["net/core/rmem_max", "vm/swappiness", "net/ipv4/conf/eth0/rp_filter", "net/ipv4/conf/lo/rp_filter"];
        let other = Fact::Known(Init::Other("init".into()));
        let mut seen = String::new();
        for (label, end, init) in [
            ("Debian 12", WITH_LINK, &SYSTEMD),
            ("Debian 13", WITHOUT_LINK, &SYSTEMD),
            ("without systemd", WITHOUT_LINK, &other),
        ] {
            let files = files(&format!("{MACHINE}{end}"), init);
            let files = files.known().unwrap();
            let unread = files.unread.as_ref().map_or("", |file| &file.path);
            writeln!(seen, "{label}; not read: {unread:?}").unwrap();
            for key in keys {
                let found = files.decides(&format!("/proc/sys/{key}"));
                let found = found.map(|(file, line)| format!("{:?} {}:{}", line.value, file.path, line.line));
                writeln!(seen, "  {key}: {}", found.unwrap_or_default()).unwrap();
            }
        }
        expect![[r#"
            Debian 12; not read: ""
              net/core/rmem_max: Some("4194304") /usr/lib/sysctl.d/20-b.conf:2
              vm/swappiness: Some("30") /etc/sysctl.d/99-sysctl.conf:1
              net/ipv4/conf/eth0/rp_filter: Some("2") /usr/lib/sysctl.d/20-b.conf:3
              net/ipv4/conf/lo/rp_filter: 
            Debian 13; not read: "/etc/sysctl.conf"
              net/core/rmem_max: Some("4194304") /usr/lib/sysctl.d/20-b.conf:2
              vm/swappiness: Some("10") /etc/sysctl.d/10-a.conf:2
              net/ipv4/conf/eth0/rp_filter: Some("2") /usr/lib/sysctl.d/20-b.conf:3
              net/ipv4/conf/lo/rp_filter: 
            without systemd; not read: ""
              net/core/rmem_max: Some("4194304") /usr/lib/sysctl.d/20-b.conf:2
              vm/swappiness: Some("30") /etc/sysctl.conf:1
              net/ipv4/conf/eth0/rp_filter: Some("2") /usr/lib/sysctl.d/20-b.conf:3
              net/ipv4/conf/lo/rp_filter: 
        "#]]
        .assert_eq(&seen);
    }

    #[test]
    fn a_directory_that_is_refused_makes_it_all_unknown() {
        let refused = files(&format!("{MACHINE}/etc/sysctl.d/ :! EACCES"), &SYSTEMD);
        assert!(matches!(refused, Fact::Denied { .. }), "{refused:?}");
        assert!(files("", &SYSTEMD).is_absent());
        let names: String = (0..300).map(|at| format!(" {at}.conf")).collect();
        assert!(matches!(files(&format!("/etc/sysctl.d/ :{names}"), &SYSTEMD), Fact::Odd { .. }));
        let file = "/etc/sysctl.d/ : a.conf\n/etc/sysctl.d/a.conf ! EACCES\n/etc/sysctl.d/a.conf ->! EINVAL\n";
        let one_refused = files(&format!("{MACHINE}{file}"), &SYSTEMD);
        let read = &one_refused.known().unwrap().read;
        assert!(read.iter().any(|file| matches!(file.settings, Fact::Denied { .. })), "{read:?}");
    }

    #[test]
    fn keys_and_patterns() {
        for (key, path) in [
            ("vm.swappiness", "vm/swappiness"),
            ("vm/swappiness", "vm/swappiness"),
            ("net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
            ("net/ipv4/conf/eth0.100/rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
            ("/proc/sys/vm/swappiness", "vm/swappiness"),
            ("single", "single"),
        ] {
            assert_eq!(normal(key).as_deref(), Some(path), "{key}");
        }
        assert_eq!(normal("two words"), None);
        for (pattern, key, expected) in [
            ("net/*/conf/e*0/x", "net/ipv4/conf/eth0/x", true),
            ("net/*/x", "net/ipv4/conf/x", false),
            ("a*b*c", "axbxbxc", true),
            ("a*b*c", "axbxbx", false),
            ("?/x", "y/x", true),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, key), expected, "{pattern} {key}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "([-#; =./*a-c\n]|.){0,60}", key in "[a-c/]{0,12}") {
            for setting in parse(&text) {
                prop_assert!(setting.line <= text.lines().count());
                prop_assert!(!setting.key.is_empty());
                let _ = fits(&setting.key, &key);
            }
        }

        #[test]
        fn plain_lines_are_read(key in "[a-z]{1,8}(\\.[a-z_0-9]{1,8}){1,3}", value in "[0-9]{1,9}( [0-9]{1,9}){0,2}") {
            let read = parse(&format!("\n; {key} = x\n {key} = {value}  \n"));
            let expected = SysctlSetting { key: key.replace('.', "/"), value: Some(value), line: 3 };
            prop_assert_eq!(read, vec![expected]);
        }
    }
}
