//! The knobs of the server's own process. evenkeel sets them from outside in each of the server's threads while the server runs.
//! The kernel allows users to do this with their own processes. So the server needs no support for it and no restart.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use evenkeel_hostfs::proc;
use evenkeel_sys::sched::{self, Policy};
use evenkeel_sys::{CpuSet, Errno, thread};

use crate::error::WorkloadError;

/// The maximum number of threads of one process to set.
const THREADS_MAX: usize = 4096;
/// How often to look for new threads. A server may start threads while evenkeel sets its threads.
/// A new thread inherits the old value of the thread that created it.
const LOOKS_MAX: usize = 8;
/// `SCHED_RR` of sched(7).
const ROUND_ROBIN: Policy = Policy::Unnamed(2);

/// A property that can be set in a thread of a running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Property {
    TimerSlack,
    Slice,
    Affinity,
    Class,
}

/// Why a property could not be set in all threads of a server's processes.
#[derive(Debug, thiserror::Error)]
enum NotSet {
    #[error("it cannot be set in a running process, unlike timer slack, slice, CPUs and class")]
    NoSuchProperty,
    #[error("evenkeel knows no process of the server")]
    NoProcess,
    #[error(
        "no thread of the server has it: real-time threads have neither slack nor slice, and before Linux 6.12 no thread has a slice"
    )]
    NoThread,
    #[error("process {pid} has more than {THREADS_MAX} threads")]
    TooManyThreads { pid: u32 },
    #[error("its threads come and go too fast: some were new in each of {LOOKS_MAX} checks")]
    ThreadsChange,
    #[error("set it for thread {tid} of process {pid}: {errno}{}", right_for(*errno))]
    Refused { pid: u32, tid: u32, errno: Errno },
    #[error("thread {tid} of process {pid} reads {found} afterwards")]
    ReadsOtherwise { pid: u32, tid: u32, found: String },
}

/// The privilege that is missing, if the kernel gives this error.
fn right_for(errno: Errno) -> &'static str {
    match errno.is_denial() {
        true => {
            "; it takes CAP_SYS_NICE, and for a real-time class a control group with a share of real-time too (cpu.rt_runtime_us)"
        }
        false => "",
    }
}

/// Whether a knob is a property that evenkeel can set in a running process.
pub fn can_set(knob: &str) -> bool {
    Property::by_knob(knob).is_some()
}

/// Sets knobs of a server's processes, and remembers the original values of each thread.
#[derive(Debug, Default)]
pub(crate) struct ProcessKnobs {
    before: BTreeMap<(Property, u32), String>,
    /// The properties to which evenkeel gave a value, each with the server's first process.
    /// Processes that start in the meantime inherit evenkeel's values.
    given: BTreeMap<Property, u32>,
}

impl ProcessKnobs {
    /// Sets a knob in every thread of these processes.
    /// `None` restores the value that each thread had when evenkeel first saw the thread.
    /// Returns the value that is then in effect in all threads.
    ///
    /// # Errors
    /// Fails if the knob is not such a property, if the value is invalid, if the kernel refuses, or if a value did not take effect.
    /// Also if no thread has the property: real-time threads have neither slack nor slice.
    pub(crate) fn set(&mut self, pids: &[u32], knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        let error = |why: NotSet| WorkloadError::Switch {
            knob: knob.to_owned(),
            wanted: value.unwrap_or("what it was").to_owned(),
            why: why.to_string(),
        };
        let property = Property::by_knob(knob).ok_or_else(|| error(NotSet::NoSuchProperty))?;
        let (mut done, mut in_force) = (BTreeSet::new(), None);
        let given = self.given.get(&property).copied();
        for _ in 0..LOOKS_MAX {
            let fresh: Vec<(u32, u32)> =
                threads(pids).map_err(error)?.into_iter().filter(|(_, tid)| !done.contains(tid)).collect();
            if fresh.is_empty() {
                match (value, pids.first()) {
                    (Some(_), Some(first)) => self.given.insert(property, *first),
                    _ => self.given.remove(&property),
                };
                return in_force.ok_or_else(|| error(NotSet::NoThread));
            }
            for (pid, tid) in fresh {
                done.insert(tid);
                if let Some(first) = given {
                    self.note_late(property, first, pid);
                }
                let Some(found) = self.set_one(property, pid, tid, value).map_err(error)? else { continue };
                if value.is_some_and(|value| !property.is_same(value, &found)) {
                    return Err(error(NotSet::ReadsOtherwise { pid, tid, found }));
                }
                // The result is the value of the first thread, even if the threads had different original values.
                in_force.get_or_insert(found);
            }
        }
        Err(error(NotSet::ThreadsChange))
    }

    /// Remembers the original value of a process that was started while evenkeel's value was set.
    /// Without evenkeel's value, the process would have inherited the value of the first process.
    fn note_late(&mut self, property: Property, first: u32, pid: u32) {
        if !self.before.contains_key(&(property, pid))
            && let Some(of_first) = self.before.get(&(property, first)).cloned()
        {
            self.before.insert((property, pid), of_first);
        }
    }

    /// Sets the property in one thread, and returns the value that is then in effect.
    /// None if the thread does not have the property, or has ended.
    fn set_one(
        &mut self,
        property: Property,
        pid: u32,
        tid: u32,
        value: Option<&str>,
    ) -> Result<Option<String>, NotSet> {
        let refused = |errno| NotSet::Refused { pid, tid, errno };
        let now = match property.read(tid) {
            Ok(Some(now)) => now,
            Ok(None) => return Ok(None),
            Err(errno) if errno.is_absence() => return Ok(None),
            Err(errno) => return Err(refused(errno)),
        };
        // A thread that was created later has inherited a value that may be evenkeel's.
        // Then the thread's original value is that of the first thread.
        let before = self.before.get(&(property, pid)).cloned().unwrap_or(now);
        let before = self.before.entry((property, tid)).or_insert(before);
        let set = match value {
            Some(value) => property.write(tid, value),
            None => property.put_back(tid, before),
        };
        match set.and_then(|()| property.read(tid)) {
            Ok(found) => Ok(found),
            Err(errno) if errno.is_absence() => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }
}

impl Property {
    fn by_knob(knob: &str) -> Option<Property> {
        Some(match knob {
            "process.timer_slack_ns" => Property::TimerSlack,
            "process.sched_slice_ns" => Property::Slice,
            "process.cpu_affinity" => Property::Affinity,
            "process.sched_policy" => Property::Class,
            _ => return None,
        })
    }

    /// None if the thread does not have the property.
    fn read(self, tid: u32) -> Result<Option<String>, Errno> {
        Ok(match self {
            Property::TimerSlack => match sched::policy_of(tid)? {
                // Real-time threads have no timer slack, and nobody can set it.
                Policy::Fifo | ROUND_ROBIN => None,
                _ => {
                    let text = std::fs::read_to_string(slack_file(tid)).map_err(|error| Errno::from(&error))?;
                    Some(text.trim().to_owned())
                }
            },
            Property::Slice => sched::slice_ns_of(tid)?.map(|ns| ns.to_string()),
            Property::Affinity => Some(thread::affinity_of(tid)?.to_string()),
            Property::Class => Some(match sched::policy_of(tid)? {
                Policy::Other => "other".to_owned(),
                Policy::Fifo => "fifo".to_owned(),
                ROUND_ROBIN => "rr".to_owned(),
                // The server itself chose the class idle, batch or deadline for this thread, so that class stays.
                Policy::Idle | Policy::Unnamed(_) => return Ok(None),
            }),
        })
    }

    fn write(self, tid: u32, value: &str) -> Result<(), Errno> {
        let number = || u64::from_str(value).map_err(|_| Errno::INVAL);
        match self {
            Property::TimerSlack => {
                std::fs::write(slack_file(tid), number()?.to_string()).map_err(|error| Errno::from(&error))
            }
            Property::Slice => sched::set_slice_ns_of(tid, Some(number()?)),
            Property::Affinity => thread::set_affinity_of(tid, &CpuSet::parse_list(value).ok_or(Errno::INVAL)?),
            Property::Class => {
                let policy = match value {
                    "other" => Policy::Other,
                    "fifo" => Policy::Fifo,
                    "rr" => ROUND_ROBIN,
                    _ => return Err(Errno::INVAL),
                };
                sched::set_policy_of(tid, policy)
            }
        }
    }

    fn put_back(self, tid: u32, before: &str) -> Result<(), Errno> {
        if self == Property::Slice {
            // A thread without a slice of its own follows the kernel's default slice, even when that changes.
            sched::set_slice_ns_of(tid, None)?;
            if self.read(tid)?.as_deref() == Some(before) {
                return Ok(());
            }
        }
        self.write(tid, before)
    }

    fn is_same(self, wanted: &str, found: &str) -> bool {
        match self {
            Property::Affinity => CpuSet::parse_list(wanted) == CpuSet::parse_list(found),
            _ => wanted == found,
        }
    }
}

/// The kernel has this file for threads too, although their folders below /proc/PID/task do not list it.
fn slack_file(tid: u32) -> String {
    format!("/proc/{tid}/timerslack_ns")
}

/// All threads of these processes, each with its process. The first thread of a process comes first. It has the number of the process.
fn threads(pids: &[u32]) -> Result<Vec<(u32, u32)>, NotSet> {
    let mut found = Vec::new();
    for pid in pids {
        let tids: BTreeSet<u32> = proc::threads(*pid).take(THREADS_MAX + 1).collect();
        if tids.len() > THREADS_MAX {
            return Err(NotSet::TooManyThreads { pid: *pid });
        }
        let rest = tids.iter().filter(|tid| *tid != pid).map(|tid| (*pid, *tid));
        found.extend(tids.get(pid).map(|tid| (*pid, *tid)).into_iter().chain(rest));
    }
    if found.is_empty() { Err(NotSet::NoProcess) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use evenkeel_sys::process;

    use super::*;

    /// A server without any support for evenkeel. The server is killed when the test ends.
    struct Server(Child);

    impl Server {
        fn start() -> Server {
            let mut command = Command::new("sleep");
            command.arg("60").stdin(Stdio::null());
            Server(process::die_with_parent(&mut command).spawn().unwrap())
        }

        fn pids(&self) -> [u32; 1] {
            [self.0.id()]
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_running_process_takes_a_value_and_gets_its_own_back() {
        let server = Server::start();
        let cpu = thread::affinity().unwrap().first().unwrap().to_string();
        let rows = [
            ("process.timer_slack_ns", Property::TimerSlack, "1"),
            ("process.sched_slice_ns", Property::Slice, "200000"),
            ("process.cpu_affinity", Property::Affinity, cpu.as_str()),
            ("process.sched_policy", Property::Class, "fifo"),
        ];
        let mut knobs = ProcessKnobs::default();
        for (knob, property, value) in rows {
            assert!(can_set(knob));
            let before = match property.read(server.pids()[0]) {
                Ok(Some(before)) => before,
                Ok(None) => {
                    evenkeel_testkit::skipped(format_args!("this kernel has no {knob}"));
                    continue;
                }
                Err(errno) => {
                    assert!(!evenkeel_sys::process::is_root(), "{knob}: {errno}");
                    evenkeel_testkit::skipped(format_args!("this user may not read {knob}: {errno}"));
                    continue;
                }
            };
            match knobs.set(&server.pids(), knob, Some(value)) {
                Ok(found) => assert_eq!(found, value, "{knob}"),
                Err(error) if error.to_string().contains("EPERM") => {
                    evenkeel_testkit::skipped(format_args!("{error}"));
                    continue;
                }
                Err(error) => panic!("{error}"),
            }
            assert_eq!(property.read(server.pids()[0]).unwrap().as_deref(), Some(value), "{knob}");
            assert_eq!(knobs.set(&server.pids(), knob, None).unwrap(), before, "{knob}");
            assert_eq!(property.read(server.pids()[0]).unwrap(), Some(before), "{knob}");
        }
    }

    #[test]
    fn every_thread_is_set_and_one_that_came_later_goes_back_to_what_the_first_had() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (report, reports) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            report.send(thread::id()).unwrap();
            let _ = ended.recv();
        });
        let tid = reports.recv().unwrap();
        let mut knobs = ProcessKnobs::default();
        let property = Property::TimerSlack;
        // Simulate that the first thread had another value before this thread was created.
        knobs.before.insert((property, std::process::id()), "70000".to_owned());
        if let Err(error) = knobs.set_one(property, std::process::id(), tid, Some("1000")) {
            evenkeel_testkit::skipped(format_args!("{error}"));
        } else {
            assert_eq!(property.read(tid).unwrap().as_deref(), Some("1000"));
            knobs.set_one(property, std::process::id(), tid, None).unwrap();
            assert_eq!(property.read(tid).unwrap().as_deref(), Some("70000"));
        }
        let found = threads(&[std::process::id()]).unwrap();
        assert_eq!(found[0].1, std::process::id(), "the first thread comes first");
        assert!(found.contains(&(std::process::id(), tid)));
        drop(end);
        other.join().unwrap();
    }

    #[test]
    fn properties_that_cannot_be_set_are_reported() {
        let server = Server::start();
        let mut knobs = ProcessKnobs::default();
        let mut refusal = |pids: &[u32], knob: &str, value: &str| {
            knobs.set(pids, knob, Some(value)).map_err(|error| error.to_string()).unwrap_err()
        };
        let message = refusal(&server.pids(), "process.memory_lock", "all");
        assert!(message.starts_with("switch process.memory_lock to all: it cannot be set in a running process"));
        let message = refusal(&[u32::MAX], "process.timer_slack_ns", "1");
        assert_eq!(message, "switch process.timer_slack_ns to 1: evenkeel knows no process of the server");
        let message = refusal(&server.pids(), "process.cpu_affinity", "999");
        assert!(message.starts_with("switch process.cpu_affinity to 999: set it for thread "), "{message}");
        for (knob, value) in [("process.timer_slack_ns", "-1"), ("process.sched_policy", "best")] {
            let message = refusal(&server.pids(), knob, value);
            // Only root can read another process's timer slack.
            let is_refused = !evenkeel_sys::process::is_root() && message.contains("EPERM");
            assert!(message.contains("EINVAL") || is_refused, "{knob}: {message}");
        }
    }
}
