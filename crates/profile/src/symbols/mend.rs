//! Suggests a command that would give names to code without names.

use std::path::Path;

use super::why::Why;
use crate::binaries::place;

/// The maximum number of packages to search.
const PACKAGES_MAX: usize = 100_000;
/// The maximum length of a package's list of files, in bytes.
const LIST_MAX_BYTES: u64 = 32 << 20;

/// The command that helps, if there is one.
pub(super) fn command(file: &str, why: Why) -> Option<String> {
    match why {
        Why::NoSymbols => {
            let package = package_of(Path::new("/var/lib/dpkg/info"), file)?;
            Some(format!("apt-get install {}", debug_package(&package)))
        }
        Why::KernelHidden => Some(kernel(&[
            place::text("/proc/sys/kernel/kptr_restrict"),
            place::text("/proc/sys/kernel/perf_event_paranoid"),
        ])),
        Why::NotAllowed => Some("sudo evenkeel profile view …".to_owned()),
        _ => None,
    }
}

/// The command that makes the kernel show its addresses. Both settings matter, except for root.
fn kernel(settings: &[Option<String>; 2]) -> String {
    let [restrict, paranoid] = settings.each_ref().map(|text| text.as_ref()?.trim().parse::<i64>().ok());
    let mut command = "sudo sysctl".to_owned();
    if restrict.is_none_or(|restrict| restrict > 0) {
        command.push_str(" kernel.kptr_restrict=0");
    }
    if paranoid.is_none_or(|paranoid| paranoid > 1) {
        command.push_str(" kernel.perf_event_paranoid=1");
    }
    command
}

/// The name of Debian's debug package for a package.
fn debug_package(package: &str) -> String {
    let name = package.split(':').next().unwrap_or(package);
    if name == "libc6" { "libc6-dbg".to_owned() } else { format!("{name}-dbgsym") }
}

/// The Debian package of a file, from dpkg's lists.
fn package_of(lists: &Path, file: &str) -> Option<String> {
    // `/lib` is a link to `/usr/lib`. The list of a package may have either path.
    let other = match file.strip_prefix("/usr") {
        Some(rest) => rest.to_owned(),
        None => format!("/usr{file}"),
    };
    let wanted = [file, &other];
    for entry in std::fs::read_dir(lists).ok()?.take(PACKAGES_MAX).flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "list") {
            continue;
        }
        let is_short = entry.metadata().is_ok_and(|known| known.is_file() && known.len() <= LIST_MAX_BYTES);
        let Some(text) = is_short.then(|| std::fs::read_to_string(&path).ok()).flatten() else { continue };
        if text.lines().any(|line| wanted.contains(&line)) {
            return path.file_stem()?.to_str().map(str::to_owned);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_a_file_is_found_by_either_of_its_paths() {
        let lists = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(lists.path().join(name), text).unwrap();
        write("memcached.list", "/.\n/usr/bin\n/usr/bin/memcached\n");
        write("libc6:amd64.list", "/lib/x86_64-linux-gnu/libc.so.6\n");
        write("memcached.md5sums", "/usr/bin/other\n");
        let of = |file: &str| package_of(lists.path(), file).map(|package| debug_package(&package));
        assert_eq!(of("/usr/bin/memcached").as_deref(), Some("memcached-dbgsym"));
        assert_eq!(of("/usr/lib/x86_64-linux-gnu/libc.so.6").as_deref(), Some("libc6-dbg"));
        assert_eq!(of("/usr/bin/other"), None);
        assert_eq!(package_of(Path::new("/nonexistent"), "/usr/bin/memcached"), None);
    }

    #[test]
    fn the_kernels_addresses_take_what_hides_them() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(kernel(&[text("1\n"), text("1\n")]), "sudo sysctl kernel.kptr_restrict=0");
        assert_eq!(kernel(&[text("0\n"), text("2\n")]), "sudo sysctl kernel.perf_event_paranoid=1");
        assert_eq!(kernel(&[None, None]), "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1");
    }
}
