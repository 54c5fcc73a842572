//! How long threads were ready but did not run, by the kernel's counts for the whole system and for a control group. The sources are small
//! files that stay open and are read again without allocation.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::errno::Errno;

/// The files have some 100 to 600 bytes.
const BYTES_MAX: usize = 2048;

/// The most bytes of /proc/thread-self/cgroup to read: one line per hierarchy.
const GROUPS_MAX: usize = 64;

/// A CPU pressure file (Linux 4.20 and later, if it is not disabled).
#[derive(Debug)]
pub struct CpuStalls {
    file: File,
}

impl CpuStalls {
    /// For the whole system. In a container that shows the machine's /proc, also for the machine.
    ///
    /// # Errors
    /// The kernel's error; `ENOENT` if it has none.
    pub fn of_the_system() -> Result<CpuStalls, Errno> {
        CpuStalls::open("/proc/pressure/cpu".into())
    }

    /// For the calling thread's version 2 control group.
    ///
    /// # Errors
    /// The kernel's error; `ENOENT` if there is no such group, or it has no file, like the root group.
    pub fn of_this_group() -> Result<CpuStalls, Errno> {
        CpuStalls::open(group_file("cpu.pressure").ok_or(Errno::NOENT)?)
    }

    fn open(path: PathBuf) -> Result<CpuStalls, Errno> {
        let stalls = CpuStalls { file: File::open(path).map_err(|error| Errno::from(&error))? };
        stalls.some_us()?;
        Ok(stalls)
    }

    /// How long at least one thread waited for a CPU, in microseconds since boot or since the group was made.
    ///
    /// # Errors
    /// The kernel's error, `EOPNOTSUPP` if pressure is disabled; `EINVAL` if the file lacks the number.
    pub fn some_us(&self) -> Result<u64, Errno> {
        let mut bytes = [0; BYTES_MAX];
        parse_some_us(text(&self.file, &mut bytes)?).ok_or(Errno::INVAL)
    }
}

fn text<'a>(file: &File, bytes: &'a mut [u8]) -> Result<&'a str, Errno> {
    let length = file.read_at(bytes, 0).map_err(|error| Errno::from(&error))?;
    std::str::from_utf8(&bytes[..length]).map_err(|_| Errno::ILSEQ)
}

/// The folder of the calling thread's control group that has this file: the CPU group of version 1, or the group of version 2.
fn group_file(name: &str) -> Option<PathBuf> {
    let groups = std::fs::read_to_string("/proc/thread-self/cgroup").ok()?;
    let candidates = groups.lines().take(GROUPS_MAX).filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let hierarchy = match controllers {
            "" => "",
            first if first.split(',').any(|controller| controller == "cpu") => "cpu",
            _ => return None,
        };
        // A group above the namespace's own is shown as `/../x`: it has no folder here.
        (!group.split('/').any(|part| part == ".."))
            .then(|| PathBuf::from("/sys/fs/cgroup").join(hierarchy).join(group).join(name))
    });
    candidates.into_iter().find(|path| path.exists())
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=123` on its own line.
pub fn parse_some_us(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_are_read() {
        let pressure = "some avg10=0.11 avg60=2.26 avg300=10.64 total=7971824546\nfull avg10=0.00 avg60=0 total=5\n";
        let table = [
            (pressure, Some(7_971_824_546)),
            ("full avg10=0.00 total=5\n", None),
            ("some avg10=0.00\n", None),
            ("some total=-1\n", None),
            ("some total=99999999999999999999\n", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_some_us(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(some |full |total=|[0-9 \n=-]|\\PC){0,40}") {
            let _ = parse_some_us(&text);
        }
    }

    #[test]
    fn ours_never_go_back() {
        match CpuStalls::of_the_system() {
            Ok(stalls) => assert!(stalls.some_us().unwrap() <= stalls.some_us().unwrap()),
            Err(errno) => evenkeel_testkit::skipped(format_args!("this kernel reports no pressure: {errno}")),
        }
        if let Err(errno) = CpuStalls::of_this_group() {
            evenkeel_testkit::skipped(format_args!("this control group reports no pressure: {errno}"));
        }
    }
}
