//! `Owner`: the process of a page, and whether that process still exists.
//! A process number alone is not enough: the kernel reuses numbers, and a container has its own.

use std::fs::{self, File};

use crate::errno::Errno;
use crate::shared_page;

/// A process, distinguished from all other processes since this kernel's boot.
///
/// ```
/// use evenkeel_sys::telemetry::Owner;
///
/// let ours = Owner::ours()?;
/// assert_eq!(ours.pid, u64::from(std::process::id()));
/// // The lock on a page decides where /proc does not show its process.
/// let no_page = std::fs::File::open("/dev/null")?;
/// println!("{:?}", ours.state(&no_page)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process's number in its own namespace.
    pub pid: u64,
    /// When the process started, in the kernel's ticks since boot.
    pub start_ticks: u64,
    /// The inode of the process's PID namespace.
    pub namespace: u64,
    /// The boot's identifier.
    pub boot: [u64; 2],
}

/// Whether the writer of a page still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The writer runs.
    Live,
    /// The writer has ended, and left the page behind.
    Gone,
}

impl Owner {
    /// The calling process.
    ///
    /// # Errors
    /// The kernel's error for /proc; `EINVAL` if the contents are unexpected.
    pub fn ours() -> Result<Owner, Errno> {
        let pid = u64::from(std::process::id());
        let (_, start_ticks) = of_process("self")?;
        Ok(Owner { pid, start_ticks, namespace: namespace()?, boot: boot()? })
    }

    /// Whether the process still exists. `page` is the open page, on which its writer holds a lock.
    /// The lock decides if /proc does not show the process.
    ///
    /// # Errors
    /// The kernel's error for /proc.
    pub fn state(&self, page: &File) -> Result<State, Errno> {
        if self.boot != boot()? {
            return Ok(State::Gone);
        }
        if self.namespace == namespace()? {
            match of_process(&self.pid.to_string()) {
                // A zombie has ended, and waits for its parent.
                Ok((state, start_ticks)) => {
                    let is_it = start_ticks == self.start_ticks && !matches!(state, 'Z' | 'X');
                    return Ok(if is_it { State::Live } else { State::Gone });
                }
                // The process is gone, or hidden: /proc may show each user only their own processes.
                Err(Errno::NOENT | Errno::SRCH | Errno::PERM | Errno::ACCESS) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(if shared_page::is_locked(page)? { State::Live } else { State::Gone })
    }
}

fn of_process(name: &str) -> Result<(char, u64), Errno> {
    let text = fs::read(format!("/proc/{name}/stat")).map_err(|error| Errno::from(&error))?;
    // A program's name may be any bytes.
    parse_start(&String::from_utf8_lossy(&text)).ok_or(Errno::INVAL)
}

/// Reads the state and start time from /proc/PID/stat. The second field is a name in parentheses that may contain any character.
pub fn parse_start(text: &str) -> Option<(char, u64)> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(target_os = "linux")]
fn namespace() -> Result<u64, Errno> {
    use std::os::unix::fs::MetadataExt;

    fs::metadata("/proc/self/ns/pid").map(|found| found.ino()).map_err(|error| Errno::from(&error))
}

/// Other systems have no /proc, so the owner is never known.
#[cfg(not(target_os = "linux"))]
fn namespace() -> Result<u64, Errno> {
    Err(Errno::OPNOTSUPP)
}

fn boot() -> Result<[u64; 2], Errno> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(|error| Errno::from(&error))?;
    parse_boot(&text).ok_or(Errno::INVAL)
}

/// Parses 32 hexadecimal digits with dashes.
pub fn parse_boot(text: &str) -> Option<[u64; 2]> {
    let number = u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()?;
    Some([(number >> 64) as u64, number as u64])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn proc_files_are_read() {
        let stat =
            "7 (a ) R b) S 1 7 7 0 -1 4194304 96 0 0 0 0 0 0 0 20 0 1 0 1234567 2781184 304 18446744073709551615";
        let table =
            [(stat, Some(('S', 1_234_567))), ("7 (x) Z 1 2 3", None), ("7 x S 1", None), ("", None), ("7 (x)", None)];
        for (text, expected) in table {
            assert_eq!(parse_start(text), expected, "{text}");
        }
        let boot = "e7da19b2-ff5c-4b4e-b0a8-4f1488a8aee7\n";
        assert_eq!(parse_boot(boot), Some([0xe7da_19b2_ff5c_4b4e, 0xb0a8_4f14_88a8_aee7]));
        for odd in ["", "-", "e7da19b2-ff5c-4b4e-b0a8-4f1488a8aee7f", "xyz"] {
            assert_eq!(parse_boot(odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "([0-9]{1,22}|[()SZ -]|\\PC){0,60}") {
            let _ = (parse_start(&text), parse_boot(&text));
        }
    }

    #[test]
    fn other_tracepoints_are_distinguished() {
        let ours = Owner::ours().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let held = shared_page::SharedPage::create(&path, 8, shared_page::Access::Owner).unwrap();
        let page = shared_page::open(&path).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let child_pid = u64::from(child.id());
        let zombie = Owner { pid: child_pid, start_ticks: 0, ..ours };
        let table = [
            ("ours", ours, State::Live),
            ("a later one of the number", Owner { start_ticks: ours.start_ticks + 1, ..ours }, State::Gone),
            ("another boot", Owner { boot: [1, 2], ..ours }, State::Gone),
            ("another namespace, and the lock is held", Owner { namespace: 1, ..ours }, State::Live),
            ("a child of another start", zombie, State::Gone),
        ];
        for (what, owner, expected) in table {
            assert_eq!(owner.state(&page), Ok(expected), "{what}");
        }
        child.wait().unwrap();
        drop(held);
        // Another test may just start a program that also has the page open, with its lock, until that program calls exec.
        let elsewhere = Owner { namespace: 1, ..ours };
        let tries = (0..4000).take_while(|_| elsewhere.state(&page) != Ok(State::Gone));
        let waited = tries.map(|_| std::thread::sleep(std::time::Duration::from_millis(5))).count();
        assert!(waited < 4000, "nobody holds the lock");
        assert_eq!(Owner { pid: u64::MAX, ..ours }.state(&page), Ok(State::Gone));
    }
}
