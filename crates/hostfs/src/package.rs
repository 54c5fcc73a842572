//! Reads the version of an installed package, without a child process: `@package/NAME`.
//! A capture stores only the version, not the list of all packages.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use evenkeel_sys::Errno;

/// The package list of dpkg: Debian, Ubuntu.
const STATUS: &str = "/var/lib/dpkg/status";

/// The maximum size that is read, in bytes. The list of a large installation has a few megabytes.
const STATUS_BYTES_MAX: u64 = 32 << 20;

/// The version of an installed package. `ENOENT` if dpkg does not have it, or if there is no dpkg (rpm's database is not text).
pub(crate) fn version(name: &str, open: impl Fn(&str) -> Result<File, Errno>) -> Result<String, Errno> {
    let status = BufReader::new(open(STATUS)?.take(STATUS_BYTES_MAX));
    find(name, status).map(|version| format!("{version}\n"))
}

/// Finds a package in paragraphs with `Package:`, `Status:` and `Version:`, separated by empty lines.
fn find(name: &str, mut status: impl BufRead) -> Result<String, Errno> {
    let (mut is_meant, mut is_installed) = (false, false);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = status.read_until(b'\n', &mut line).map_err(|error| Errno::from(&error))?;
        if length == 0 {
            return Err(Errno::NOENT);
        }
        let line = line.trim_ascii_end();
        let value = |key: &[u8]| line.strip_prefix(key).map(<[u8]>::trim_ascii);
        if line.is_empty() {
            (is_meant, is_installed) = (false, false);
        } else if let Some(package) = value(b"Package:") {
            is_meant = package == name.as_bytes();
        } else if let Some(status) = value(b"Status:") {
            is_installed = status.ends_with(b" installed");
        } else if let Some(version) = value(b"Version:").filter(|_| is_meant && is_installed) {
            return Ok(String::from_utf8_lossy(version).into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn installed_packages_have_a_version() {
        let status = "Package: irqbalance\nStatus: install ok installed\nDescription: x\n Package: no\nVersion: 1.9.4-1\n\n\
                      Package: gone\nStatus: deinstall ok config-files\nVersion: 2\n\nPackage: bare\nStatus: a installed\n";
        let of = |name: &str| find(name, status.as_bytes());
        assert_eq!(of("irqbalance"), Ok("1.9.4-1".to_owned()));
        for name in ["gone", "bare", "no", "irq", ""] {
            assert_eq!(of(name), Err(Errno::NOENT), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "((Package|Status|Version):? ?[a-z ]{0,12}\n*)*|.{0,40}") {
            let _ = find("a", text.as_bytes());
        }
    }
}
