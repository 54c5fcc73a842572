//! How long threads were ready but did not run, by the kernel's counts for the whole system and for a control group.
//! The sources are small files that stay open. Reading them again allocates nothing.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::cpu_limit;
use crate::errno::Errno;

/// The maximum number of bytes to read. The files have some 100 to 600 bytes.
const BYTES_MAX: usize = 2048;

/// A CPU pressure file (Linux 4.20 and later, if it is not disabled).
#[derive(Debug)]
pub struct CpuStalls {
    file: File,
}

impl CpuStalls {
    /// The stalls of the whole system. In a container with the machine's /proc, these are the stalls of the machine.
    ///
    /// # Errors
    /// The kernel's error; `ENOENT` if the kernel has no such file.
    pub fn of_the_system() -> Result<CpuStalls, Errno> {
        CpuStalls::open("/proc/pressure/cpu".into())
    }

    /// The stalls of the calling thread's version 2 control group.
    ///
    /// # Errors
    /// The kernel's error; `ENOENT` if there is no such group, or the group has no such file, as in the root group.
    pub fn of_this_group() -> Result<CpuStalls, Errno> {
        CpuStalls::open(cpu_limit::own_file("cpu.pressure").ok_or(Errno::NOENT)?)
    }

    fn open(path: PathBuf) -> Result<CpuStalls, Errno> {
        let stalls = CpuStalls { file: File::open(path).map_err(|error| Errno::from(&error))? };
        stalls.some_us()?;
        Ok(stalls)
    }

    /// How long at least one thread waited for a CPU, in microseconds since boot or since the group was made.
    ///
    /// # Errors
    /// The kernel's error; `EOPNOTSUPP` if pressure is disabled; `EINVAL` if the file lacks the number.
    pub fn some_us(&self) -> Result<u64, Errno> {
        let mut bytes = [0; BYTES_MAX];
        parse_stalls(text(&self.file, &mut bytes)?).map(|stalls| stalls.some_us).ok_or(Errno::INVAL)
    }
}

fn text<'a>(file: &File, bytes: &'a mut [u8]) -> Result<&'a str, Errno> {
    let length = file.read_at(bytes, 0).map_err(|error| Errno::from(&error))?;
    std::str::from_utf8(&bytes[..length]).map_err(|_| Errno::ILSEQ)
}

/// Stall times since boot, or since a group was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stalls {
    /// How long at least one thread waited, in microseconds.
    pub some_us: u64,
    /// How long all threads with work waited at the same time, in microseconds. `None` for CPUs on older kernels.
    pub full_us: Option<u64>,
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=12` and the same for `full`, each on its own line, in files of pressure.
pub fn parse_stalls(text: &str) -> Option<Stalls> {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
        line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
    };
    Some(Stalls { some_us: total("some")?, full_us: total("full") })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_are_read() {
        let pressure = "some avg10=0.11 avg60=2.26 avg300=10.64 total=7971824546\nfull avg10=0.00 avg60=0 total=5\n";
        let table = [
            (pressure, Some((7_971_824_546, Some(5)))),
            ("some total=5", Some((5, None))),
            ("full avg10=0.00 total=5\n", None),
            ("some avg10=0.00\n", None),
            ("some total=-1\n", None),
            ("some total=99999999999999999999\n", None),
            ("", None),
        ];
        for (text, expected) in table {
            let expected = expected.map(|(some_us, full_us)| Stalls { some_us, full_us });
            assert_eq!(parse_stalls(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(some |full |total=|[0-9 \n=-]|\\PC){0,40}") {
            let _ = parse_stalls(&text);
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
