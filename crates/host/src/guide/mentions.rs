//! Names of sysctls and of files of the kernel in a text.

use crate::sysctl;

/// Endings of host names, of files, and of folders of sysctls. A name with such an ending is not a sysctl.
const NO_KEYS: [&str; 12] = ["org", "com", "net", "io", "dev", "conf", "sh", "core", "ipv4", "ipv6", "netfilter", "d"];

/// The first name of a sysctl or of a file of the kernel in a line.
pub(super) fn first(line: &str) -> Option<String> {
    let words =
        line.split(|letter: char| letter.is_whitespace() || !letter.is_ascii() || "`\"'(),;=<>*[]|".contains(letter));
    let is_name = |word: &&str| {
        let is_file = (word.starts_with("/proc/sys/") || word.starts_with("/sys/")) && word.len() > 12;
        // A word with `_` is not a word of English.
        let is_sure = || {
            let is_area = ["vm.", "kernel.", "net."].iter().any(|area| word.starts_with(area));
            word.contains('_') || is_area && !word.rsplit('.').next().is_some_and(|last| NO_KEYS.contains(&last))
        };
        is_file || word.contains('.') && sysctl::known_path(word).is_some() && is_sure()
    };
    words
        .into_iter()
        .map(|word| word.trim_end_matches(['.', ':', '!', '?']))
        .find(is_name)
        .map(|word| word.chars().take(80).collect())
}
