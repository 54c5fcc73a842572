//! Lines of other files of configuration: limits.conf, modprobe.d, entries of boot loaders, and fstab.

use super::line::{Ask, Content, Skip, Target};
use super::names;

/// The limits that limits.conf knows.
const LIMITS: [&str; 18] = [
    "as",
    "chroot",
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "maxlogins",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "priority",
    "rss",
    "rtprio",
    "sigpending",
    "stack",
];
/// Types of file systems in fstab.
const FILE_SYSTEMS: [&str; 7] = ["btrfs", "ext2", "ext3", "ext4", "tmpfs", "xfs", "zfs"];
/// The longest text of a setting, in characters.
const TEXT_CHARS_MAX: usize = 120;

/// A line of one of these files. `None` for another line.
pub(super) fn line(line: &str) -> Option<Content> {
    let text = line.split(" #").next().unwrap_or(line).trim();
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_listed = limit(&words) || is_switched(&words) || mount(&words);
    is_listed.then(|| Content::settings(vec![whole(text)])).or_else(|| options(&words)).or_else(|| entry(&words))
}

/// The text as a setting of another program, for the user.
pub(super) fn whole(text: &str) -> Ask {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ask::new(Target::Tool(text.chars().take(TEXT_CHARS_MAX).collect()), "")
}

/// `* soft nofile 1048576`.
fn limit(words: &[&str]) -> bool {
    matches!(words, [_, kind, item, _] if ["soft", "hard", "-"].contains(kind) && LIMITS.contains(item))
}

/// `blacklist pcspkr`, `install usb-storage /bin/true`, `alias net-pf-10 off` of modprobe.d.
fn is_switched(words: &[&str]) -> bool {
    match words {
        ["blacklist", module] => is_module(module),
        ["install", module, program] => {
            is_module(module) && (program.ends_with("/true") || program.ends_with("/false"))
        }
        ["alias", module, "off"] => is_module(module),
        _ => false,
    }
}

fn is_module(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// A line of fstab with options.
fn mount(words: &[&str]) -> bool {
    let [what, place, kind, options, rest @ ..] = words else { return false };
    let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    FILE_SYSTEMS.contains(kind)
        && place.starts_with('/')
        && what.contains(['=', '/', 't'])
        && *options != "defaults"
        && rest.len() <= 2
        && rest.iter().all(is_number)
}

/// `options MODULE NAME=VALUE …` of modprobe.d.
fn options(words: &[&str]) -> Option<Content> {
    let ["options", module, rest @ ..] = words else { return None };
    let has_values = rest.iter().any(|word| word.contains('='));
    let is_one = is_module(module) && has_values && rest.iter().all(|word| word.contains('=') || is_module(word));
    if !is_one || is_of_boot(module) {
        return None;
    }
    // The sysctl sets the same number.
    let known = |word: &str| {
        let buckets = word.strip_prefix("hashsize=").filter(|_| *module == "nf_conntrack")?;
        names::by_called("tuned net nf_conntrack_hashsize", None, buckets)
    };
    let one = |word: &&str| known(word).unwrap_or_else(|| whole(&format!("options {module} {word}")));
    Some(Content::settings(rest.iter().map(one).collect()))
}

/// Kernel arguments of a boot loader's entry: `options root=… quiet`, `linux /vmlinuz root=…`, `append …`, or the text of /proc/cmdline.
fn entry(words: &[&str]) -> Option<Content> {
    let arguments = match words {
        ["linux" | "linux16" | "linuxefi" | "kernel", image, rest @ ..] if is_image(image) => rest,
        ["options" | "append" | "APPEND", rest @ ..] if rest.iter().any(|word| is_of_boot(word)) => rest,
        [first, ..] if ["BOOT_IMAGE=", "root="].iter().any(|begin| first.starts_with(begin)) => words,
        _ => return None,
    };
    let is_argument = |word: &&str| !word.contains(['(', '`', '"', '\'', ';', '|']);
    if !arguments.iter().all(is_argument) {
        return None;
    }
    let asks = names::tuning_arguments(&arguments.join(" "));
    Some(if asks.is_empty() { Content::NotASetting(Skip::Command) } else { Content::settings(asks) })
}

fn is_image(word: &str) -> bool {
    word.contains('/') && ["linu", "bzImage", "Image", "kernel"].iter().any(|part| word.contains(part))
}

/// Whether a word is an argument for the boot itself, which only command lines have.
fn is_of_boot(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    ["ro", "rw", "quiet", "splash", "rhgb"].contains(&word)
        || word.contains('=') && (names::is_of_boot(name) || name == "initrd")
}

const LOGINS: &str = "it is for programs that log in: a service of systemd needs the Limit…= of its unit";
const MODULE: &str =
    "the module reads it when it is loaded; a module that is built into the kernel reads a kernel argument instead";

/// What the user should know about a line of these files.
pub(super) fn remark(words: &[&str]) -> Option<&'static str> {
    match words {
        ["options", ..] => Some(MODULE),
        _ => limit(words).then_some(LOGINS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files() {
        let table = [
            ("*               soft    nofile          1048576", "* soft nofile 1048576"),
            ("@realtime - rtprio 99 # for the server", "@realtime - rtprio 99"),
            ("* soft nothing 1", "none"),
            ("options kvm halt_poll_ns=0", "options kvm halt_poll_ns=0"),
            ("options ixgbe RSS=4,4 debug", "options ixgbe RSS=4,4 + options ixgbe debug"),
            ("options nf_conntrack hashsize=262144", "net.netfilter.nf_conntrack_buckets=262144"),
            ("options are listed", "none"),
            ("options root=UUID=abc rw quiet isolcpus=1 nohz_full=1", "cmdline.isolcpus=1 + cmdline.nohz_full=1"),
            ("linux /vmlinuz-6.1 root=/dev/sda1 ro nosmt", "kernel argument nosmt"),
            ("kernel /boot/vmlinuz-2.6.24 ro root=/dev/sda1 nohz=off", "kernel argument nohz=off"),
            ("kernel tuning is hard", "none"),
            ("BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro idle=poll", "cmdline.idle=poll"),
            ("root=/dev/sda1 ro quiet", "(Command)"),
            ("blacklist pcspkr", "blacklist pcspkr"),
            ("blacklist the module pcspkr", "none"),
            ("install usb-storage /bin/true", "install usb-storage /bin/true"),
            ("install tuned now", "none"),
            ("UUID=abc / ext4 defaults,noatime 0 1", "UUID=abc / ext4 defaults,noatime 0 1"),
            ("/dev/sda1 / ext4 defaults 0 1", "none"),
        ];
        for (text, expected) in table {
            let found = line(text).map_or_else(|| "none".to_owned(), |content| content.in_words());
            assert_eq!(found, expected, "{text}");
        }
    }
}
