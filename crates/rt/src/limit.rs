//! How much of a CPU a control group gives the process: what is read is not guessed from gaps.

use evenkeel_sys::Root;

/// CPUs that the calling thread's control group may use on average, such as 0.4 or 2; none where nothing limits it, or nothing can be
/// read. In either version's files; groups above it are looked at too, since the tightest counts.
pub(crate) fn cpu_share(root: &Root) -> Option<f64> {
    let groups = root.text("/proc/thread-self/cgroup").unwrap_or_default();
    let mut tightest: Option<f64> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let is_second = controllers.is_empty();
        if !is_second && !controllers.split(',').any(|controller| controller == "cpu") {
            continue;
        }
        // Up from the group to the root, which has no limit of its own.
        let mut path = path.trim_end_matches('/');
        loop {
            let share = if is_second { second(root, path) } else { first(root, path) };
            tightest = share.into_iter().chain(tightest).reduce(f64::min);
            match path.rsplit_once('/') {
                Some((above, _)) => path = above,
                None => break,
            }
        }
    }
    tightest
}

/// `40000 100000`, or `max 100000`.
fn second(root: &Root, path: &str) -> Option<f64> {
    let text = root.text(&format!("/sys/fs/cgroup{path}/cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    share(quota, period)
}

fn first(root: &Root, path: &str) -> Option<f64> {
    let text = |name| root.text(&format!("/sys/fs/cgroup/cpu{path}/cpu.cfs_{name}_us")).ok();
    share(&text("quota")?, &text("period")?)
}

/// A quota of `max` or -1 is none.
fn share(quota: &str, period: &str) -> Option<f64> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|us| *us > 0);
    Some(f64::from(number(quota)?) / f64::from(number(period)?))
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::Capture;

    use super::*;

    #[test]
    fn a_limit_is_found_in_either_version() {
        let own = "/proc/thread-self/cgroup";
        let table = [
            (format!("{own} = 0::/a\n/sys/fs/cgroup/a/cpu.max = max 100000\n"), None),
            (format!("{own} = 0::/a\n/sys/fs/cgroup/a/cpu.max = 40000 100000\n"), Some(0.4)),
            (
                format!(
                    "{own} = 0::/a/b\n/sys/fs/cgroup/a/cpu.max = 40000 100000\n/sys/fs/cgroup/a/b/cpu.max = 200000 100000\n"
                ),
                Some(0.4),
            ),
            (
                format!(
                    "{own} = 3:cpu,cpuacct:/\n/sys/fs/cgroup/cpu/cpu.cfs_period_us = 100000\n/sys/fs/cgroup/cpu/cpu.cfs_quota_us = -1\n"
                ),
                None,
            ),
            (
                format!(
                    "{own} = 3:cpu,cpuacct:/b\n/sys/fs/cgroup/cpu/b/cpu.cfs_period_us = 10000\n/sys/fs/cgroup/cpu/b/cpu.cfs_quota_us = 4000\n"
                ),
                Some(0.4),
            ),
            (format!("{own} = 4:cpuset:/b\n/sys/fs/cgroup/cpu/b/cpu.cfs_quota_us = 4000\n"), None),
            (format!("{own} = 0::/a\n/sys/fs/cgroup/a/cpu.max = 0 0\n"), None),
            (format!("{own} = junk\n"), None),
            (String::new(), None),
        ];
        for (files, expected) in table {
            let capture = Capture::parse(&format!("evenkeel-capture 1\n{files}end\n")).unwrap();
            assert_eq!(cpu_share(&Root::captured(capture)), expected, "{files}");
        }
    }
}
