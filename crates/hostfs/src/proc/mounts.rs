//! /proc/PID/mountinfo, and the escapes that /proc/swaps also uses.

use super::LINES_MAX;

/// A line of mountinfo: `36 25 254:0 / /mnt rw,relatime shared:5 - ext4 /dev/vda rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// The device's major and minor number. The major number is 0 for file systems without a device.
    pub device: (u32, u32),
    /// The folder of the file system that is mounted, [escaped](unescape).
    pub root: &'a str,
    /// Where the file system is mounted, [escaped](unescape).
    pub at: &'a str,
    /// The type of the file system.
    pub kind: &'a str,
    /// The source, such as a device's file, [escaped](unescape).
    pub source: &'a str,
    /// The options of the file system, separated by commas.
    pub options: &'a str,
}

/// The lines of mountinfo in order. A later mount hides earlier mounts at the same place. Other lines are skipped.
pub fn parse_mounts(text: &str) -> impl Iterator<Item = Mount<'_>> {
    text.lines().take(LINES_MAX).filter_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(2);
        let (major, minor) = mount.next()?.split_once(':')?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut filesystem = filesystem.split(' ');
        let (kind, source) = (filesystem.next()?, filesystem.next()?);
        Some(Mount { device, root, at, kind, source, options: filesystem.next().unwrap_or_default() })
    })
}

impl Mount<'_> {
    /// The device's number in the form of the names in /sys/dev/block: `254:0`.
    pub fn device_name(&self) -> String {
        format!("{}:{}", self.device.0, self.device.1)
    }
}

/// The kernel writes space, tab, newline and backslash in a path as `\NNN`. Anything else after a backslash stays.
pub fn unescape(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.into_iter().fold(path.to_owned(), |path, (escape, plain)| path.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mounts_are_read_with_odd_names() {
        let text = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
                    31 27 0:29 /a /mnt/a\\040b rw shared:5 master:1 - tmpfs none\n\
                    odd line\n27 1 8:x / / rw - a b c\n27 1 ../..:1 / / rw - a b c\n27 1 8:1 / / rw\n27 1 - ext4\n";
        let mounts: Vec<Mount<'_>> = parse_mounts(text).collect();
        let root =
            Mount { device: (254, 0), root: "/", at: "/", kind: "ext4", source: "/dev/vda", options: "rw,discard" };
        let other =
            Mount { device: (0, 29), root: "/a", at: "/mnt/a\\040b", kind: "tmpfs", source: "none", options: "" };
        assert_eq!(mounts, [root, other]);
        assert_eq!((root.device_name().as_str(), unescape(other.at).as_str()), ("254:0", "/mnt/a b"));
        assert_eq!(unescape("a\\040b\\134c\\0"), "a b\\c\\0");
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "([0-9]{1,11}|:|/| |-|\\\\|040|\n)*|.{0,40}") {
            for mount in parse_mounts(&text) {
                let _ = (unescape(mount.at), mount.device_name());
            }
        }
    }
}
