//! Limits that the kernel keeps in two spellings, a share and a number of bytes. Writing one zeroes the other, and 0 can't
//! be written to the bytes: what was 0 comes back only by writing its twin.

/// The share and the bytes of each limit (`mm/page-writeback.c`).
const TWINS: [(&str, &str); 2] = [
    ("/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes"),
    ("/proc/sys/vm/dirty_background_ratio", "/proc/sys/vm/dirty_background_bytes"),
];

/// A file and the text that puts it back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Old<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
}

/// The other spelling of the limit that a file holds.
fn twin_of(path: &str) -> Option<&'static str> {
    TWINS.iter().find_map(|(share, bytes)| match path {
        _ if path == *share => Some(*bytes),
        _ if path == *bytes => Some(*share),
        _ => None,
    })
}

/// Whether `own` is put back only after `sides`, because one of them is the other spelling.
pub(crate) fn goes_last<'a>(own: Old<'_>, mut sides: impl Iterator<Item = &'a str>) -> bool {
    own.text == "0" && sides.any(|side| twin_of(own.path) == Some(side))
}

/// The share that must be written for these bytes to become 0.
pub(crate) fn zeroed_by(old: Old<'_>) -> Option<&'static str> {
    TWINS.iter().find(|(_, bytes)| old.text == "0" && *bytes == old.path).map(|(share, _)| *share)
}

/// What is written where, in this order, to put back a file and then what writing it changed elsewhere.
pub(crate) fn writes<'a>(own: Old<'a>, sides: Vec<Old<'a>>) -> Vec<Old<'a>> {
    let mut olds = sides;
    let at = if goes_last(own, olds.iter().map(|side| side.path)) { olds.len() } else { 0 };
    olds.insert(at, own);
    let mut writes = Vec::new();
    for old in &olds {
        let in_use = |other: &&Old<'_>| twin_of(old.path) == Some(other.path) && other.text != "0";
        if old.text == "0" && olds.iter().any(|other| in_use(&other)) {
            // Writing the one in use zeroes it; to write 0 here would zero that one.
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
        let (ratio, bytes) = TWINS[0];
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
