//! Reads how the running kernel was built: `@kernel-config`.
//! A whole configuration has thousands of lines, so a capture stores only the lines that a fact needs.

use std::fs::File;
use std::io::Read;

use evenkeel_sys::Errno;

/// The maximum size of a configuration, in bytes. The configurations of distributions have about 300 KB.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// The stored options, without `CONFIG_`. `*` at the end marks a prefix.
const KEPT: [&str; 5] = ["HZ", "NO_HZ*", "PREEMPT*", "IRQ_TIME_ACCOUNTING", "CPU_ISOLATION"];

/// A line `source=PATH`, then the stored lines of that file.
/// The file is the running kernel's own configuration (`/proc/config.gz`).
/// Without that file, we read the file that the distribution installs with the kernel. It may belong to another build with the same name.
pub(crate) fn text(open: impl Fn(&str) -> Result<File, Errno>) -> Result<String, Errno> {
    const OWN: &str = "/proc/config.gz";
    match open(OWN) {
        Ok(file) => Ok(kept(OWN, &read(flate2::read::GzDecoder::new(file))?)),
        Err(_) => {
            let release = read(open("/proc/sys/kernel/osrelease")?)?;
            let path = format!("/boot/config-{}", release.trim());
            // The release becomes part of a path, so it must not contain a slash.
            if release.contains('/') {
                return Err(Errno::INVAL);
            }
            Ok(kept(&path, &read(open(&path)?)?))
        }
    }
}

fn read(from: impl Read) -> Result<String, Errno> {
    let mut bytes = Vec::new();
    from.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| Errno::from(&error))?;
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        return Err(Errno::FBIG);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The stored lines of a configuration. Unset options are comments, so they are not stored.
fn kept(source: &str, config: &str) -> String {
    let is_kept = |line: &&str| {
        let option = line.strip_prefix("CONFIG_").and_then(|line| line.split_once('='));
        option.is_some_and(|(name, _)| {
            KEPT.iter().any(|kept| match kept.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == *kept,
            })
        })
    };
    let lines = config.lines().filter(is_kept).map(|line| format!("{line}\n"));
    format!("source={source}\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    const CONFIG: &str = "#\n# Timers subsystem\n#\nCONFIG_HZ_250=y\nCONFIG_HZ=250\nCONFIG_NO_HZ_IDLE=y\n\
                          # CONFIG_NO_HZ_FULL is not set\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_HAVE_PREEMPT_DYNAMIC=y\n\
                          CONFIG_HZ=é\n";

    fn file(bytes: &[u8]) -> Result<File, Errno> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        Ok(file)
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn a_few_lines_are_kept() {
        let kept = "CONFIG_HZ=250\nCONFIG_NO_HZ_IDLE=y\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_HZ=é\n";
        let own =
            text(|path| if path == "/proc/config.gz" { file(&packed(CONFIG.as_bytes())) } else { Err(Errno::NOENT) });
        assert_eq!(own, Ok(format!("source=/proc/config.gz\n{kept}")));
        let installed = text(|path| match path {
            "/proc/sys/kernel/osrelease" => file(b"6.1.0-9\n"),
            "/boot/config-6.1.0-9" => file(CONFIG.as_bytes()),
            _ => Err(Errno::NOENT),
        });
        assert_eq!(installed, Ok(format!("source=/boot/config-6.1.0-9\n{kept}")));
    }

    #[test]
    fn hostile_files_are_refused() {
        let bomb = packed(&vec![b'\n'; CONFIG_BYTES_MAX as usize + 2]);
        assert_eq!(text(|_| file(&bomb)), Err(Errno::FBIG));
        assert!(text(|_| file(b"no archive")).is_err());
        assert!(text(|_| file(&packed(CONFIG.as_bytes())[..20])).is_err(), "cut short");
        assert_eq!(text(|_| Err(Errno::ACCESS)), Err(Errno::ACCESS));
        let climbs =
            |path: &str| if path.ends_with("osrelease") { file(b"../../etc/shadow") } else { Err(Errno::NOENT) };
        assert_eq!(text(climbs), Err(Errno::INVAL));
    }
}
