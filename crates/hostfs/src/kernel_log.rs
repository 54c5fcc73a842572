//! Reads the kernel's log. Nothing else shows why the kernel stopped using a clock.

use evenkeel_sys::Errno;
use rustix::fs::{Mode, OFlags};

/// The maximum size of a record, in bytes. The kernel refuses a buffer that is shorter than the record (`devkmsg_read`).
const RECORD_BYTES_MAX: usize = 8 << 10;
/// The maximum number of records to read. A log of one megabyte has about ten thousand records.
const RECORDS_MAX: usize = 1 << 14;
/// The maximum number of lines that are stored.
const LINES_MAX: usize = 16;

/// The first messages of the log that `is_meant` selects, one per line.
pub(crate) fn lines(is_meant: impl Fn(&str) -> bool) -> Result<String, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let log = rustix::fs::open("/dev/kmsg", flags, Mode::empty())?;
    let mut buffer = vec![0; RECORD_BYTES_MAX];
    let mut kept = Vec::new();
    for _ in 0..RECORDS_MAX {
        match rustix::io::read(&log, &mut buffer[..]) {
            Ok(0) => break,
            Ok(length) => kept.extend(message(&buffer[..length]).filter(|line| is_meant(line))),
            // The log has no further record at the moment.
            Err(rustix::io::Errno::AGAIN) => break,
            // Records were overwritten during the read, or are too long: continue with the next ones.
            Err(rustix::io::Errno::PIPE | rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
        if kept.len() == LINES_MAX {
            break;
        }
    }
    Ok(kept.iter().map(|line| format!("{line}\n")).collect())
}

/// Parses `6,1,0,-;text` and the following lines of the record. Returns only the text.
fn message(record: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(record);
    let (_, message) = text.lines().next()?.split_once(';')?;
    Some(message.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_record_is_its_message() {
        let table: [(&[u8], Option<&str>); 4] = [
            (
                b"4,77,5021,-;tsc: Marking TSC unstable due to TSC halts in idle\n SUBSYSTEM=cpu\n",
                Some("tsc: Marking TSC unstable due to TSC halts in idle"),
            ),
            (b"6,1,0,-;", Some("")),
            (b"6,1,0,-", None),
            (b"", None),
        ];
        for (record, expected) in table {
            assert_eq!(message(record).as_deref(), expected);
        }
    }

    #[test]
    fn the_log_is_read_or_refused() {
        match lines(|_| true) {
            Ok(text) => assert!(text.lines().count() <= LINES_MAX, "{text}"),
            Err(errno) => assert!(errno.is_denial() || errno.is_absence(), "{errno}"),
        }
    }

    proptest! {
        #[test]
        fn no_record_makes_it_panic(record in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = message(&record);
        }
    }
}
