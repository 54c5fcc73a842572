//! The store: written samples can be read, even if parts are cut off, changed or missing.

use std::fs;
use std::path::Path;

use evenkeel_watch::Sample;
use evenkeel_watch::store::{Damage, Replay, StoreError, StoreOptions, StoreWriter, parse_segment};

use crate::rates::sample;

const SECOND_NS: u64 = 1_000_000_000;

/// Samples that are a second apart and nearly equal, as on a real host.
fn samples(count: u64) -> Vec<Sample> {
    let first = sample(100);
    (0..count)
        .map(|at| {
            let mut sample = first.clone();
            sample.at.monotonic_ns += at * SECOND_NS;
            sample.at.realtime_ns += at * SECOND_NS;
            sample.host.stat.as_mut().unwrap().context_switches = Some(at * 977);
            sample
        })
        .collect()
}

fn write(dir: &Path, samples: &[Sample]) {
    let mut writer = StoreWriter::open(dir, StoreOptions::default()).unwrap();
    samples.iter().for_each(|sample| writer.append(sample).unwrap());
}

fn segment(dir: &Path) -> std::path::PathBuf {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "watch"));
    files.sort();
    files.pop().unwrap()
}

/// Reads all samples in order, by moving from each sample to the next.
fn replayed(dir: &Path) -> Vec<Sample> {
    let mut replay = Replay::open(dir).unwrap();
    let mut found = Vec::new();
    let mut at = replay.at(u64::MAX).unwrap();
    while let Some(before) = replay.previous(at) {
        at = before;
    }
    loop {
        found.push(replay.sample(at).unwrap());
        match replay.next(at) {
            Some(next) => at = next,
            None => return found,
        }
    }
}

#[test]
fn what_is_written_is_read_and_takes_little_room() {
    let dir = tempfile::tempdir().unwrap();
    let written = samples(150);
    write(dir.path(), &written);
    assert_eq!(replayed(dir.path()), written);
    let bytes = fs::metadata(segment(dir.path())).unwrap().len();
    let raw: usize = written.iter().map(|sample| serde_json::to_vec(sample).unwrap().len()).sum();
    assert!(bytes * 10 < raw as u64, "{bytes} of {raw}");
    // For each time, the store finds the right sample and the sample before it.
    let mut replay = Replay::open(dir.path()).unwrap();
    for at in [0, 1, 59, 60, 61, 119, 120, 149] {
        let wanted = &written[at];
        let position = replay.at(wanted.at.realtime_ns + SECOND_NS / 2).unwrap();
        let (before, after) = replay.pair(position).unwrap();
        assert_eq!((&after, &before), (wanted, &written[at.saturating_sub(1)]), "{at}");
    }
    assert_eq!(replay.at(written[0].at.realtime_ns - 1), None);
}

#[test]
fn a_segment_cut_at_any_byte_loses_at_most_its_last_sample() {
    let dir = tempfile::tempdir().unwrap();
    let written = samples(4);
    write(dir.path(), &written);
    let bytes = fs::read(segment(dir.path())).unwrap();
    // The length at which each frame ends. From this length on, the frame's sample is readable.
    let whole = |length: usize| parse_segment(&bytes[..length], 100).samples.len();
    let mut ends = vec![];
    for length in 0..=bytes.len() {
        let parsed = parse_segment(&bytes[..length], 100);
        assert_eq!(parsed.samples, written[..parsed.samples.len()], "{length}");
        assert!(parsed.damage.orphans == 0 && parsed.damage.frames <= 1, "{length}: {:?}", parsed.damage);
        if parsed.samples.len() > ends.len() {
            ends.push(length);
        }
    }
    assert_eq!((ends.len(), ends.last()), (4, Some(&bytes.len())));
    assert_eq!(whole(ends[2]), 3);

    // A writer continues after an incomplete frame, as after a failed write. Then no further sample is lost.
    for length in (ends[1]..ends[2]).step_by(7) {
        let more = tempfile::tempdir().unwrap();
        write(more.path(), &samples(2));
        let behind = fs::read(segment(more.path())).unwrap();
        let joined = [&bytes[..length], &behind[16..]].concat();
        let parsed = parse_segment(&joined, 100);
        assert_eq!(parsed.samples.len(), 4, "{length}: {:?}", parsed.damage);
        assert_eq!(parsed.samples[2..], samples(2), "{length}");
    }
}

#[test]
fn a_byte_that_changes_costs_at_most_the_rest_of_its_block() {
    // Two short blocks, one after the other. Real blocks have 60 samples.
    let written = samples(6);
    let blocks = [&written[..4], &written[4..]].map(|block| {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), block);
        fs::read(segment(dir.path())).unwrap()
    });
    let begins = blocks[0].len();
    let bytes = [&blocks[0][..], &blocks[1][16..]].concat();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        let parsed = parse_segment(&changed, 100).samples;
        assert!(parsed.iter().all(|sample| written.contains(sample)), "byte {at}: a sample that was never written");
        let of_first = parsed.iter().filter(|sample| written[..4].contains(sample)).count();
        let of_second = parsed.len() - of_first;
        let expected = match at {
            // The head of the segment contains only the format number.
            0..16 => of_first == 4 && of_second == 2,
            _ if at < begins => of_first < 4 && of_second == 2,
            _ => of_first == 4 && of_second < 2,
        };
        assert!(expected, "byte {at}: {of_first} and {of_second}");
    }
}

#[test]
fn an_index_that_is_wrong_or_missing_only_takes_time() {
    let dir = tempfile::tempdir().unwrap();
    let written = samples(62);
    write(dir.path(), &written);
    let path = segment(dir.path());
    let index = path.with_extension("index");
    let entries = fs::read(&index).unwrap();
    for wrong in [
        Vec::new(),
        vec![7; 40],
        entries[..20].to_vec(),
        entries[20..].to_vec(),
        [entries.clone(), vec![1; 20]].concat(),
    ] {
        fs::write(&index, &wrong).unwrap();
        assert_eq!(replayed(dir.path()).len(), 62, "{wrong:?}");
    }
    fs::remove_file(&index).unwrap();
    assert_eq!(replayed(dir.path()), written);
}

#[test]
fn each_run_begins_a_segment_and_only_one_runs() {
    let dir = tempfile::tempdir().unwrap();
    let written = samples(10);
    write(dir.path(), &written[..5]);
    let writer = StoreWriter::open(dir.path(), StoreOptions::default()).unwrap();
    let second = StoreWriter::open(dir.path(), StoreOptions::default());
    assert!(matches!(second, Err(StoreError::InUse { .. })), "{second:?}");
    drop(writer);
    write(dir.path(), &written[5..]);
    assert_eq!(replayed(dir.path()), written);
    // A file of another program is neither read nor deleted.
    fs::write(dir.path().join("2026-11-27-x.watch"), "mine").unwrap();
    assert_eq!(replayed(dir.path()), written);
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(Replay::open(empty.path()), Err(StoreError::Empty { .. })));
    assert!(matches!(Replay::open(&empty.path().join("none")), Err(StoreError::Read { .. })));
}

#[test]
fn a_reader_sees_what_is_written_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let written = samples(130);
    let mut writer = StoreWriter::open(dir.path(), StoreOptions::default()).unwrap();
    written[..3].iter().for_each(|sample| writer.append(sample).unwrap());
    let mut replay = Replay::open(dir.path()).unwrap();
    let last = replay.last().unwrap();
    assert_eq!(replay.sample(last).as_ref(), Some(&written[2]));
    written[3..].iter().for_each(|sample| writer.append(sample).unwrap());
    replay.refresh().unwrap();
    let last = replay.last().unwrap();
    assert_eq!(replay.sample(last).as_ref(), Some(&written[129]));
}

#[test]
fn old_days_and_large_stores_are_retired_and_a_wrong_clock_does_no_harm() {
    let day_ns = 86_400 * SECOND_NS;
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { keep_days: 3, bytes_max: u64::MAX };
    let mut writer = StoreWriter::open(dir.path(), options).unwrap();
    let mut on_day = |day: u64| {
        let mut sample = sample(100);
        sample.at.realtime_ns += day * day_ns;
        writer.append(&sample).unwrap();
        let files = fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        let mut files: Vec<String> = files.filter(|name| name.ends_with(".watch")).collect();
        files.sort();
        files
    };
    for day in 0..5 {
        on_day(day);
    }
    assert_eq!(on_day(5).len(), 3);
    // If the clock is ten years ahead, one day is lost.
    // If the clock is ten years behind, no day is lost, because the current segment is never deleted.
    let ahead = on_day(3650);
    assert!(ahead.len() == 3 && ahead[0] == "2023-11-18-0000.watch", "{ahead:?}");
    let mut early = sample(100);
    early.at.realtime_ns = day_ns;
    writer.append(&early).unwrap();
    assert!(dir.path().join("1970-01-02-0000.watch").exists());
    drop(writer);

    let small = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let mut writer = StoreWriter::open(small.path(), StoreOptions { keep_days: 9, bytes_max: 3000 }).unwrap();
        samples(3).iter().for_each(|sample| writer.append(sample).unwrap());
    }
    let kept = fs::read_dir(small.path())
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|of| of == "watch"));
    assert!(kept.count() < 5);
    assert!(segment(small.path()).ends_with("2023-11-14-0004.watch"));
}

/// A full disk refuses the head of a segment. This test blocks the path of the index with a link, so that the new segment fails.
#[test]
fn a_segment_that_cannot_begin_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = StoreWriter::open(dir.path(), StoreOptions::default()).unwrap();
    let index = dir.path().join("2023-11-14-0000.index");
    std::os::unix::fs::symlink("/nonexistent", &index).unwrap();
    let written = samples(2);
    assert!(matches!(writer.append(&written[0]), Err(StoreError::Io { .. })));
    let segments = || {
        let names = fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".watch")).collect::<Vec<String>>()
    };
    assert_eq!(segments(), [""; 0], "or each further sample would leave an empty file");
    let _ = fs::remove_file(&index);
    writer.append(&written[1]).unwrap();
    assert_eq!(segments(), ["2023-11-14-0000.watch"]);
    assert_eq!(replayed(dir.path()), written[1..]);
}

#[test]
fn a_clock_that_is_set_back_hides_no_sample() {
    let dir = tempfile::tempdir().unwrap();
    let mut written = samples(20);
    // After ten samples, the clock is set back by an hour.
    for sample in &mut written[10..] {
        sample.at.realtime_ns -= 3600 * SECOND_NS;
    }
    write(dir.path(), &written);
    assert_eq!(replayed(dir.path()), written);
    let mut replay = Replay::open(dir.path()).unwrap();
    for wanted in &written {
        let at = replay.at(wanted.at.realtime_ns).unwrap_or_else(|| panic!("{}", wanted.at.realtime_ns));
        assert_eq!(replay.sample(at).as_ref(), Some(wanted));
    }
}

#[test]
fn bytes_of_anything_are_read_without_panic() {
    assert_eq!(parse_segment(b"", 9).samples, []);
    assert_eq!(parse_segment(b"ekwfekwfekwfekwfekwfekwfekwfekwfekwf", 9).damage, Damage::default());
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &samples(3));
    let bytes = fs::read(segment(dir.path())).unwrap();
    let doubled = [&bytes[16..], &bytes[..40], &bytes[16..]].concat();
    assert_eq!(parse_segment(&doubled, 100).samples.len(), 6);
    assert_eq!(parse_segment(&doubled, 4).samples.len(), 4, "as many as asked for");
}

/// Format 1 must stay readable.
#[test]
fn the_first_format_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/golden/store-v1.watch");
    if std::env::var_os("UPDATE_EXPECT").is_some() && !path.exists() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &samples(3));
        fs::copy(segment(dir.path()), &path).unwrap();
    }
    let parsed = parse_segment(&fs::read(&path).unwrap(), 100);
    assert_eq!((parsed.samples.len(), parsed.damage), (3, Damage::default()));
    assert_eq!(parsed.samples[2].host.stat.as_ref().unwrap().context_switches, Some(1954));
}

#[test]
fn each_block_gives_its_first_sample() {
    let dir = tempfile::tempdir().unwrap();
    let written = samples(200);
    write(dir.path(), &written);
    let each = || {
        let mut found = Vec::new();
        Replay::open(dir.path()).unwrap().each_block(|sample| found.push(sample));
        found
    };
    let found = each();
    assert_eq!((found.first(), found.last()), (written.first(), written.last()));
    assert!((4..=6).contains(&found.len()), "{}", found.len());
    let times: Vec<u64> = found.iter().map(|sample| sample.at.realtime_ns).collect();
    assert!(times.is_sorted() && found.iter().all(|sample| written.contains(sample)));
    // A damaged block is left out.
    let path = segment(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[60] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(each(), found[1..]);
}

/// A damaged byte costs the rest of its block. With long intervals, 60 samples would be an hour.
#[test]
fn a_block_covers_at_most_a_minute() {
    let dir = tempfile::tempdir().unwrap();
    let mut written = samples(60);
    for (at, sample) in (0..).zip(&mut written) {
        sample.at.realtime_ns += at * 19 * SECOND_NS;
    }
    write(dir.path(), &written);
    let mut firsts = Vec::new();
    Replay::open(dir.path()).unwrap().each_block(|sample| firsts.push(sample));
    // The samples are 20 s apart.
    assert_eq!(firsts.len(), 21);
    assert_eq!(replayed(dir.path()), written);
}
