//! `.gnu_debugdata`: the names of a stripped program's own functions.
//! The section is a small ELF file, packed with xz, inside the program.
//! Fedora, RHEL and similar distributions build all their packages like this.

use std::io::Read as _;

use lzma_rust2::XzReader;

/// The maximum number of bytes to unpack. The names of the largest programs take some megabytes.
const UNPACKED_MAX_BYTES: u64 = 64 << 20;
/// The maximum number of packed bytes to read.
const PACKED_MAX_BYTES: usize = 32 << 20;
/// The maximum memory of the decoder, in KiB. Files of `xz -9` need 64 MiB.
const DECODER_MAX_KIB: u32 = 80 << 10;

/// Unpacks the small ELF file from the section's bytes. None if it is damaged or exceeds the limit.
pub(crate) fn unpacked(section: &[u8]) -> Option<Vec<u8>> {
    if section.len() > PACKED_MAX_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    let reader = XzReader::new_mem_limit(section, false, DECODER_MAX_KIB);
    reader.take(UNPACKED_MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= UNPACKED_MAX_BYTES).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    /// `printf 'evenkeel evenkeel evenkeel' | xz`
    const PACKED: &[u8] = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F\x02\0!\x01\x16\0\0\0t/\xe5\xa3\xe0\0\x19\0\x0f]\0\x32\x9d\x88\xce\x90\
                            \xa5f\x93b\xcd>\xf6\x80\0\0\0\0w\x88-\xcf\x95bcf\0\x01+\x1a8\xb1\x94\xab\x1f\xb6\xf3}\x01\0\0\0\
                            \0\x04YZ";

    /// Packs bytes with xz. None if xz is not installed: the test then reports itself as skipped.
    fn packed(bytes: &[u8], options: &[&str]) -> Option<Vec<u8>> {
        let xz = Command::new("xz").args(["-c"]).args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut xz) = xz else {
            evenkeel_testkit::skipped("there is no xz here");
            return None;
        };
        let mut stdin = xz.stdin.take().unwrap();
        let bytes = bytes.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&bytes));
        let output = xz.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success());
        Some(output.stdout)
    }

    #[test]
    fn xz_is_unpacked_within_limits() {
        assert_eq!(unpacked(PACKED).as_deref(), Some(&b"evenkeel evenkeel evenkeel"[..]));
        let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        for options in [&["-6"][..], &["-9", "--check=crc32"], &["-0", "--check=sha256"], &["--check=none"]] {
            let Some(packed) = packed(&bytes, options) else { return };
            assert_eq!(unpacked(&packed).as_deref(), Some(&bytes[..]), "{options:?}");
            assert_eq!(unpacked(&packed[..packed.len() / 2]), None, "{options:?}");
        }
        let Some(bomb) = packed(&vec![0; UNPACKED_MAX_BYTES as usize + 1], &["-1"]) else { return };
        assert!(bomb.len() < 100_000 && unpacked(&bomb).is_none());
        let Some(greedy) = packed(b"some text", &["--lzma2=dict=256MiB"]) else { return };
        assert_eq!(unpacked(&greedy), None, "a decoder that asks for so much memory is not given it");
        assert_eq!(unpacked(b""), None);
    }

    proptest! {
        #[test]
        fn no_bytes_take_the_decoder_down(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8), cut in any::<prop::sample::Index>()) {
            let mut bytes = PACKED.to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = unpacked(&bytes[..=cut.index(bytes.len())]);
            let _ = unpacked(&bytes);
        }
    }
}
