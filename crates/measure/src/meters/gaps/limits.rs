//! The limits on CPU time that hold for this process, from its own control group up, and what they say they took.

use std::fs::File;
use std::os::unix::fs::FileExt;

use evenkeel_sys::Root;
use serde::Serialize;

/// How deep a group may lie; deeper ones are not looked for.
const DEPTH_MAX: usize = 64;

/// A limit on CPU time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The group's folder.
    pub group: String,
    /// What it may use, in CPUs: 0.4 is four tenths of one.
    pub cpus: f64,
    /// From one refill to the next, in microseconds.
    pub period_us: u64,
}

/// The limits that hold for this process, the innermost first.
pub(super) fn of_this_process(root: &Root) -> Vec<Limit> {
    let Ok(text) = root.text("/proc/self/cgroup") else { return Vec::new() };
    let mut limits = Vec::new();
    for (controllers, path) in parse_groups(&text) {
        let mounts: &[&str] = match controllers {
            "" => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
            named if named.split(',').any(|name| name == "cpu") => {
                &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
            }
            _ => continue,
        };
        for mount in mounts {
            for group in upwards(path) {
                let folder = format!("{mount}{group}");
                let found = limit_of(root, &folder);
                limits.extend(found.filter(|found| !limits.iter().any(|limit: &Limit| limit.group == found.group)));
            }
        }
    }
    limits
}

/// Each line is `NUMBER:CONTROLLERS:PATH`; the second version's has no controllers.
fn parse_groups(text: &str) -> Vec<(&str, &str)> {
    text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).collect()
}

/// `/a/b`, `/a` and the top. A path that leads out of what is mounted here (`/..`) has only the top.
fn upwards(path: &str) -> Vec<String> {
    let path = if path.contains("/..") { "" } else { path.trim_end_matches('/') };
    let mut rest = path.to_owned();
    let mut found = vec![rest.clone()];
    while let Some(at) = rest.rfind('/').filter(|_| found.len() < DEPTH_MAX) {
        rest.truncate(at);
        found.push(rest.clone());
    }
    found
}

fn limit_of(root: &Root, folder: &str) -> Option<Limit> {
    let number = |name: &str| root.text(&format!("{folder}/{name}")).ok()?.trim().parse::<u64>().ok();
    let (quota_us, period_us) = match root.text(&format!("{folder}/cpu.max")) {
        Ok(text) => parse_cpu_max(&text)?,
        // In the first version's groups no limit is -1, which is no number here.
        Err(_) => (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?),
    };
    (period_us > 0).then(|| Limit { group: folder.to_owned(), cpus: quota_us as f64 / period_us as f64, period_us })
}

/// `QUOTA PERIOD` in microseconds; none for `max`.
fn parse_cpu_max(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some((quota.parse().ok()?, period.parse().ok()?))
}

/// What a limit says it took, read for as little as a read of an open file.
#[derive(Debug)]
pub(super) struct Taken {
    files: Vec<File>,
}

impl Taken {
    /// By these limits. One whose file can't be opened is left out: it then counts nothing.
    pub(super) fn by(limits: &[Limit]) -> Taken {
        let open = |limit: &Limit| File::open(format!("{}/cpu.stat", limit.group)).ok();
        Taken { files: limits.iter().filter_map(open).collect() }
    }

    /// Whether there is anything to ask.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// All time that threads were held back by them since they were made, in nanoseconds.
    pub(super) fn read_ns(&self) -> u64 {
        let mut bytes = [0; 1024];
        let read = |file: &File, bytes: &mut [u8]| file.read_at(bytes, 0).unwrap_or(0);
        let mut sum_ns = 0_u64;
        for file in &self.files {
            let length = read(file, &mut bytes);
            sum_ns = sum_ns.saturating_add(parse_throttled_ns(&String::from_utf8_lossy(&bytes[..length])));
        }
        sum_ns
    }
}

/// `throttled_time NS` of the first version, `throttled_usec US` of the second; 0 where neither is.
fn parse_throttled_ns(text: &str) -> u64 {
    let value = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        let value = value.trim().parse::<u64>().ok()?;
        match name {
            "throttled_time" => Some(value),
            "throttled_usec" => Some(value.saturating_mul(1000)),
            _ => None,
        }
    };
    text.lines().find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::mounted(dir.path()).unwrap();
        (dir, root)
    }

    #[test]
    fn limits_are_found_in_both_layouts() {
        let (_dir, second) = root(&[
            ("/proc/self/cgroup", "0::/kubepods/pod1/game\n"),
            ("/sys/fs/cgroup/kubepods/pod1/game/cpu.max", "40000 100000\n"),
            ("/sys/fs/cgroup/kubepods/pod1/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/kubepods/cpu.max", "150000 100000\n"),
        ]);
        let found: Vec<_> = of_this_process(&second).into_iter().map(|limit| (limit.group, limit.cpus)).collect();
        let pods = "/sys/fs/cgroup/kubepods".to_owned();
        assert_eq!(found, [(format!("{pods}/pod1/game"), 0.4), (pods, 1.5)]);

        let (_dir, first) = root(&[
            ("/proc/self/cgroup", "4:memory:/m\n2:cpu,cpuacct:/docker/abc\n0::/\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "20000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n"),
            ("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n"),
        ]);
        // In a container the group's own path is not mounted: its top is the group.
        let limit = Limit { group: "/sys/fs/cgroup/cpu,cpuacct".into(), cpus: 0.4, period_us: 50_000 };
        assert_eq!(of_this_process(&first), [limit]);

        let (_dir, none) = root(&[]);
        assert_eq!(of_this_process(&none), []);
    }

    #[test]
    fn what_they_took_is_read() {
        assert_eq!(parse_throttled_ns("nr_periods 5\nnr_throttled 3\nthrottled_time 7000\n"), 7000);
        assert_eq!(parse_throttled_ns("usage_usec 1\nnr_throttled 3\nthrottled_usec 7\n"), 7000);
        assert_eq!(parse_throttled_ns("usage_usec 1\n"), 0);
        assert_eq!(upwards("/../x"), [""]);
        assert_eq!(upwards("/"), [""]);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,80}") {
            let _ = (parse_groups(&text), parse_cpu_max(&text), parse_throttled_ns(&text), upwards(&text));
        }
    }
}
