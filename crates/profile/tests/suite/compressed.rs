//! Recordings of `perf record -z`. perf made `data/compressed.data`.
//! Other tests compress the records of an uncompressed file in each way that perf may use. The reader must return the same records.

use std::path::Path;

use evenkeel_profile::input::{ReadError, read};
use evenkeel_profile::perf::record::kind;
use evenkeel_profile::recording::Recording;
use evenkeel_profile::unwind::NoUnwind;

/// `HEADER_COMPRESSED` of perf, and its number for zstd.
const COMPRESSED: u64 = 27;
const ZSTD: u32 = 1;
/// The maximum length of a block in zstd.
const BLOCK_BYTES: usize = 128 << 10;
/// The offsets in a file's header of the length of the records, and of the bits of features.
const LENGTH_AT: usize = 48;
const FEATURES_AT: usize = 72;

fn file(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

fn reads(bytes: &[u8]) -> Result<Recording, ReadError> {
    read(bytes, &mut NoUnwind)
}

fn message(bytes: &[u8]) -> String {
    reads(bytes).unwrap_err().to_string()
}

/// The header of an uncompressed file, and its records.
fn parts(file: &[u8]) -> (&[u8], &[u8]) {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let (start, length) = (word(40), word(LENGTH_AT));
    (&file[..start], &file[start..start + length])
}

/// A file with these records. If there is a method, the file declares that the records are compressed with this method.
fn with_records(head: &[u8], records: &[u8], method: Option<u32>) -> Vec<u8> {
    let mut bytes = head.to_vec();
    bytes[LENGTH_AT..LENGTH_AT + 8].copy_from_slice(&(records.len() as u64).to_le_bytes());
    bytes[FEATURES_AT..FEATURES_AT + 32].fill(0);
    bytes.extend(records);
    if let Some(method) = method {
        bytes[FEATURES_AT..FEATURES_AT + 8].copy_from_slice(&(1_u64 << COMPRESSED).to_le_bytes());
        let place = [bytes.len() as u64 + 16, 20].map(u64::to_le_bytes).concat();
        bytes.extend(place);
        // The version, the method, the level, the ratio, and the length of a ring.
        bytes.extend([1, method, 1, 2, 1 << 20].map(u32::to_le_bytes).concat());
    }
    bytes
}

/// The start of a zstd stream with a window of 2 MiB (RFC 8878, 3.1.1).
fn frame_head() -> Vec<u8> {
    vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x58]
}

fn block_head(is_last: bool, kind: u32, length: usize) -> [u8; 3] {
    let [low, middle, high, _] = ((length as u32) << 3 | kind << 1 | u32::from(is_last)).to_le_bytes();
    [low, middle, high]
}

/// A stream that contains these bytes uncompressed. perf's streams have no last block.
fn stored(bytes: &[u8], is_ended: bool) -> Vec<u8> {
    let mut frame = frame_head();
    let blocks: Vec<&[u8]> = bytes.chunks(BLOCK_BYTES.min(700)).collect();
    for (at, block) in blocks.iter().enumerate() {
        frame.extend(block_head(is_ended && at + 1 == blocks.len(), 0, block.len()));
        frame.extend(*block);
    }
    frame
}

/// Splits a stream into records, each with at most this many bytes of the stream.
fn packed(stream: &[u8], each_bytes: usize, kind: u32) -> Vec<u8> {
    let mut records = Vec::new();
    for piece in stream.chunks(each_bytes) {
        let mut body = Vec::new();
        if kind == kind::COMPRESSED2 {
            body.extend((piece.len() as u64).to_le_bytes());
        }
        body.extend(piece);
        if kind == kind::COMPRESSED2 {
            body.resize(body.len().next_multiple_of(8), 0);
        }
        records.extend(kind.to_le_bytes());
        records.extend(0_u16.to_le_bytes());
        records.extend((body.len() as u16 + 8).to_le_bytes());
        records.extend(body);
    }
    records
}

fn of_all(recording: &Recording) -> String {
    format!("{:?} {:?} {:?}", recording.samples, recording.switches, recording.mappings)
}

#[test]
fn packed_records_read_as_plain_ones_however_they_are_cut() {
    let plain = file("disk.data");
    let (head, records) = parts(&plain);
    let expected = of_all(&reads(&with_records(head, records, None)).unwrap());
    let two = [stored(&records[..records.len() / 3], true), stored(&records[records.len() / 3..], false)].concat();
    for stream in [stored(records, false), stored(records, true), two] {
        for (each_bytes, kind) in [(1, 81), (13, 81), (1000, 83), (65_000, 81), (65_000, 83)] {
            let bytes = with_records(head, &packed(&stream, each_bytes, kind), Some(ZSTD));
            let recording = reads(&bytes).unwrap();
            assert_eq!(of_all(&recording), expected, "{each_bytes} {kind}");
            assert_eq!(recording.caveats, Vec::new(), "{each_bytes} {kind}");
        }
    }
}

#[test]
fn records_that_are_not_packed_stay_among_those_that_are() {
    let plain = file("disk.data");
    let (head, records) = parts(&plain);
    let expected = reads(&with_records(head, records, None)).unwrap();
    let mut middle = 0;
    while middle < records.len() / 2 {
        middle += usize::from(u16::from_le_bytes([records[middle + 6], records[middle + 7]]));
    }
    let rest = packed(&stored(&records[middle..], false), 4000, kind::COMPRESSED);
    let recording = reads(&with_records(head, &[&records[..middle], &rest].concat(), Some(ZSTD))).unwrap();
    assert_eq!(of_all(&recording), of_all(&expected));
}

/// If perf was killed, the file has neither the length of the records nor the mark that they are compressed.
#[test]
fn a_killed_perf_leaves_what_is_unpacked_as_far_as_it_goes() {
    let plain = file("disk.data");
    let (head, records) = parts(&plain);
    let all = reads(&with_records(head, records, None)).unwrap().samples.len();
    let mut bytes = with_records(head, &packed(&stored(records, false), 500, kind::COMPRESSED), None);
    bytes[LENGTH_AT..LENGTH_AT + 8].fill(0);
    let mut most = 0;
    for length in (head.len() + 200..=bytes.len()).step_by(37).chain([bytes.len()]) {
        let recording = reads(&bytes[..length]).unwrap();
        assert!(recording.samples.len() <= all && !recording.caveats.is_empty(), "{length}: {:?}", recording.caveats);
        assert!(recording.samples.len() >= most, "{length}");
        most = recording.samples.len();
    }
    assert_eq!(most, all);
}

#[test]
fn damaged_compression_is_refused_with_its_reason() {
    let plain = file("disk.data");
    let (head, records) = parts(&plain);
    let with_stream = |stream: &[u8]| with_records(head, &packed(stream, 60_000, kind::COMPRESSED), Some(ZSTD));
    let place = format!(", at byte {}", head.len());
    let refused = |bytes: &[u8], why: &str| {
        let message = message(bytes);
        assert_eq!(message, format!("{why}{place}"));
    };
    let whole = packed(&stored(records, false), 60_000, kind::COMPRESSED);
    refused(
        &with_records(head, &whole, Some(7)),
        "its records are compressed, and by a method that is not known here (number 7)",
    );
    refused(&with_records(head, &whole, None), "a compressed record in a file without the feature for compression");
    refused(&with_stream(b"nothing that zstd knows"), "its records are compressed, and are not a zstd stream");
    // A repeated byte: each four bytes of the file decompress to 128 KiB, so 80 kB become 2.5 GB.
    let mut bomb = frame_head();
    for _ in 0..20_000 {
        bomb.extend(block_head(false, 1, BLOCK_BYTES));
        bomb.push(0);
    }
    let limit = bomb.len() * 256 + (1 << 20);
    refused(&with_stream(&bomb), &format!("its records are compressed, and would be more than {limit} bytes"));
    // A decoder may allocate the whole window before the window is filled.
    let greedy = [&[0x28, 0xb5, 0x2f, 0xfd, 0, 0xff], &block_head(false, 0, 1)[..], &[0]].concat();
    assert!(message(&with_stream(&greedy)).starts_with("its records are compressed, and can't be decompressed: "));
}
