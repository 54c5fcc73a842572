//! Exclusive pairs of sysctls: one limit as a share of memory and as a number of bytes.
//! Writing one of the two files sets the other to 0. The kernel refuses to write 0 to the file of bytes.
//! To restore 0 bytes, write the share, which sets the bytes to 0.

/// The share and the bytes of each limit (`mm/page-writeback.c`).
const EXCLUSIVE_PAIRS: [(&str, &str); 2] = [
    ("/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes"),
    ("/proc/sys/vm/dirty_background_ratio", "/proc/sys/vm/dirty_background_bytes"),
];

/// A file and the text that restores it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Old<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
}

/// The other file of the pair.
fn partner_of(path: &str) -> Option<&'static str> {
    EXCLUSIVE_PAIRS.iter().find_map(|(share, bytes)| match path {
        _ if path == *share => Some(*bytes),
        _ if path == *bytes => Some(*share),
        _ => None,
    })
}

/// The key of the other file of the pair. Keys have slashes, as in `sysctl.d`.
pub(crate) fn partner_key(key: &str) -> Option<&'static str> {
    const PREFIX: &str = "/proc/sys/";
    partner_of(&format!("{PREFIX}{key}")).and_then(|path| path.strip_prefix(PREFIX))
}

/// Whether `own` must be restored after `sides`:
/// its original value is 0, and `sides` contains the other file of its pair.
pub(crate) fn goes_last<'a>(own: Old<'_>, mut sides: impl Iterator<Item = &'a str>) -> bool {
    own.text == "0" && sides.any(|side| partner_of(own.path) == Some(side))
}

/// The file of the share that must be written so that these bytes become 0.
/// `None` unless `old` is 0 bytes of an exclusive pair.
pub(crate) fn zeroed_by(old: Old<'_>) -> Option<&'static str> {
    EXCLUSIVE_PAIRS.iter().find(|(_, bytes)| old.text == "0" && *bytes == old.path).map(|(share, _)| *share)
}

/// The writes, in order, that restore a file, and then the side effects of the write on other files.
pub(crate) fn writes<'a>(own: Old<'a>, sides: Vec<Old<'a>>) -> Vec<Old<'a>> {
    let mut olds = sides;
    let at = if goes_last(own, olds.iter().map(|side| side.path)) { olds.len() } else { 0 };
    olds.insert(at, own);
    let mut writes = Vec::new();
    for old in &olds {
        let in_use = |other: &&Old<'_>| partner_of(old.path) == Some(other.path) && other.text != "0";
        if old.text == "0" && olds.iter().any(|other| in_use(&other)) {
            // The pair's other file was in use, and writing it sets this file to 0.
            // Writing 0 here would set the other file to 0.
            continue;
        }
        match zeroed_by(*old) {
            None => writes.push(*old),
            Some(share) => writes.extend(["1", "0"].map(|text| Old { path: share, text })),
        }
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_writes_0_to_bytes() {
        let (ratio, bytes) = EXCLUSIVE_PAIRS[0];
        let (background, other) = ("/proc/sys/vm/dirty_background_ratio", "/proc/sys/vm/min_free_kbytes");
        let table = [
            ((ratio, "20"), (bytes, "0"), "dirty_ratio=20"),
            ((ratio, "0"), (bytes, "8192"), "dirty_bytes=8192"),
            ((bytes, "0"), (ratio, "20"), "dirty_ratio=20"),
            ((bytes, "8192"), (ratio, "0"), "dirty_bytes=8192"),
            ((bytes, "0"), (ratio, "0"), "dirty_ratio=0 dirty_ratio=1 dirty_ratio=0"),
            ((ratio, "0"), (background, "0"), "dirty_ratio=0 dirty_background_ratio=0"),
            ((other, "0"), (ratio, "20"), "min_free_kbytes=0 dirty_ratio=20"),
        ];
        for (own, side, expected) in table {
            let old = |(path, text)| Old { path, text };
            let writes = writes(old(own), vec![old(side)]);
            let shown: Vec<String> = writes
                .iter()
                .map(|old| format!("{}={}", old.path.trim_start_matches("/proc/sys/vm/"), old.text))
                .collect();
            assert_eq!(shown.join(" "), expected, "{own:?} {side:?}");
        }
    }
}
