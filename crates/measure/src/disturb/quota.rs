//! `quantum --by quota`: limits the CPU time of a command's own control group, as container engines do.
//! The limit is a token bucket that is filled once per period.
//! The kernel counts in steps of its tick, so short periods are coarser than requested.
//!
//! [`Group::make`] makes the group. First register [`Group::path`] with a guard, which removes the group even after a crash.

use std::path::{Path, PathBuf};

use evenkeel_hostfs::Root;
use evenkeel_hostfs::cgroup::{self, Place, parse_membership};
use evenkeel_hostfs::proc::count;
use serde::Serialize;

use crate::error::MeterError;

/// The periods that the kernel accepts.
const PERIOD_US: std::ops::RangeInclusive<u64> = 1_000..=1_000_000;

/// The smallest quota that the kernel accepts, in microseconds.
const QUOTA_US_MIN: u64 = 1_000;

/// The settings of the limit.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// How often the bucket is filled, in nanoseconds.
    pub period_ns: u64,
    /// The share of [`Settings::cpus`] CPUs that the command keeps, between 0 and 1.
    pub share_left: f64,
    /// The number of CPUs that the share refers to.
    pub cpus: usize,
}

/// What the kernel counted in the group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The folder of the group, which is removed after the run.
    pub group: PathBuf,
    /// The quota with which the kernel fills the bucket each period, in microseconds.
    pub quota_us: u64,
    /// The period, in microseconds.
    pub period_us: u64,
    /// The number of periods in which the command ran. None if the kernel did not report it.
    pub periods: Option<u64>,
    /// The number of periods in which the command was throttled. None if the kernel did not report it.
    pub throttled_periods: Option<u64>,
    /// How long the group's run queues were throttled in all, in nanoseconds. None if the kernel did not report it.
    pub throttled_ns: Option<u64>,
}

/// A control group. The value exists before the group is made.
#[derive(Clone, Debug)]
pub struct Group {
    path: PathBuf,
    is_v2: bool,
    quota_us: u64,
    period_us: u64,
}

impl Group {
    /// Chooses the path of the group. This changes nothing yet.
    ///
    /// # Errors
    /// Fails for settings that leave nothing or take nothing, or if this process cannot set such limits here.
    pub fn plan(settings: &Settings, root: &Root) -> Result<Group, MeterError> {
        let (quota_us, period_us) = refuse(settings)?;
        let tried = "find a control group to limit the command in";
        let read = |path: &str| root.text(path).map_err(|refusal| MeterError::not_possible(tried, refusal.to_string()));
        let (mounts, membership) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
        let place = parse_membership(&membership).and_then(|lines| Place::from_mounts("cpu", &mounts, &lines));
        let place = place.ok_or_else(|| MeterError::not_possible(tried, "no control groups are mounted here"))?;
        let parent = parent(&place, |path| root.text(path).ok());
        let parent = parent.ok_or_else(|| {
            let why = "no parent control group enables the cpu controller (cgroup.subtree_control); run it as root outside of a container";
            MeterError::not_possible(tried, why)
        })?;
        let path = Path::new(&parent).join(format!("{}{}", cgroup::PREFIX, std::process::id()));
        if !cgroup::is_ours(&path) {
            let why = format!("control groups are mounted at {}, which is not below /sys/fs/cgroup", place.mount);
            return Err(MeterError::not_possible(tried, why));
        }
        Ok(Group { path, is_v2: place.is_v2, quota_us, period_us })
    }

    /// The group's folder, which a guard must remove.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the group with its limit. The command then enters it by writing `0` to its `cgroup.procs`.
    ///
    /// # Errors
    /// Returns the kernel's error. If the folder already exists then, the guard removes it.
    pub fn make(&self) -> Result<(), MeterError> {
        let tried = || format!("make the control group {}", self.path.display());
        std::fs::create_dir(&self.path).map_err(|error| MeterError::refused(tried(), &error))?;
        let (quota, period) = (self.quota_us, self.period_us);
        if self.is_v2 {
            return self.write("cpu.max", &format!("{quota} {period}"));
        }
        self.write("cpu.cfs_period_us", &period.to_string())?;
        self.write("cpu.cfs_quota_us", &quota.to_string())
    }

    /// Removes the limit for the rest of the command's run.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn lift(&self) -> Result<(), MeterError> {
        if self.is_v2 { self.write("cpu.max", "max") } else { self.write("cpu.cfs_quota_us", "-1") }
    }

    fn write(&self, file: &str, value: &str) -> Result<(), MeterError> {
        let path = self.path.join(file);
        let tried = format!("write {value:?} to {}", path.display());
        let written = std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, value.as_bytes()));
        written.map_err(|error| MeterError::refused(tried, &error))
    }

    /// The kernel's counts so far. Read them before the group is removed.
    pub fn report(&self) -> Report {
        let text = std::fs::read_to_string(self.path.join("cpu.stat")).unwrap_or_default();
        let counted = |name: &str| count(&text, name);
        let throttled_ns = counted("throttled_time").or_else(|| counted("throttled_usec")?.checked_mul(1000));
        Report {
            group: self.path.clone(),
            quota_us: self.quota_us,
            period_us: self.period_us,
            periods: counted("nr_periods"),
            throttled_periods: counted("nr_throttled"),
            throttled_ns,
        }
    }
}

/// The parent of our group.
/// In version 2 a group with processes cannot have child groups with controllers.
/// So we take the nearest ancestor that enables the controller.
/// In version 1 the parent is our own group.
fn parent(place: &Place, read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut upwards = place.levels()?.into_iter();
    if !place.is_v2 {
        return upwards.next();
    }
    upwards.find(|group| {
        let handed = read(&format!("{group}/cgroup.subtree_control")).unwrap_or_default();
        handed.split_ascii_whitespace().any(|controller| controller == "cpu")
    })
}

/// Returns the quota and the period, in microseconds.
fn refuse(settings: &Settings) -> Result<(u64, u64), MeterError> {
    let left = settings.share_left;
    let tried = format!("leave {left} of each period");
    if !(left > 0.0 && left < 1.0) {
        let why = "expected a share between 0 and 1: 0 would leave nothing, 1 would take nothing";
        return Err(MeterError::wrong_use(tried, why));
    }
    let period_us = settings.period_ns / 1000;
    if !PERIOD_US.contains(&period_us) {
        return Err(MeterError::wrong_use("choose a period", format!("{period_us} us is not between 1 ms and 1 s")));
    }
    let quota_us = (period_us as f64 * left * settings.cpus.max(1) as f64).round() as u64;
    if quota_us < QUOTA_US_MIN {
        let why =
            format!("{quota_us} us would be left, and the kernel allows no quota under 1 ms; choose a longer period");
        return Err(MeterError::wrong_use(tried, why));
    }
    Ok((quota_us, period_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_quotas_or_are_refused() {
        let table = [
            (10_000_000, 0.4, 1, "4000 of 10000 us"),
            (100_000_000, 0.75, 2, "150000 of 100000 us"),
            (
                10_000_000,
                1.0,
                1,
                "leave 1 of each period: expected a share between 0 and 1: 0 would leave nothing, 1 would take nothing",
            ),
            (
                10_000_000,
                0.05,
                1,
                "leave 0.05 of each period: 500 us would be left, and the kernel allows no quota under 1 ms; choose a longer period",
            ),
            (500_000, 0.5, 1, "choose a period: 500 us is not between 1 ms and 1 s"),
        ];
        for (period_ns, share_left, cpus, expected) in table {
            let made = refuse(&Settings { period_ns, share_left, cpus });
            let made = made.map_or_else(|error| error.to_string(), |(quota, period)| format!("{quota} of {period} us"));
            assert_eq!(made, expected);
        }
    }

    #[test]
    fn version_2_needs_a_group_that_enables_the_controller() {
        let place = |is_v2| Place { mount: "/m".into(), path: "/a/b".into(), is_v2 };
        let handing = |group: &'static str| {
            move |path: &str| (path == format!("{group}/cgroup.subtree_control")).then(|| "cpuset cpu io".to_owned())
        };
        assert_eq!(parent(&place(true), handing("/m/a")).as_deref(), Some("/m/a"));
        assert_eq!(parent(&place(true), handing("/m")).as_deref(), Some("/m"));
        assert_eq!(parent(&place(true), |_| Some("memory pids".to_owned())), None);
        assert_eq!(parent(&place(false), |_| None).as_deref(), Some("/m/a/b"));
    }
}
