//! Reads the driver of a network interface with the `SIOCETHTOOL` ioctl, which needs no privileges.
//! The ioctl shows the version of built-in drivers, which sysfs does not show.
//! Also reads queues, rings and interrupt coalescing. Answers without a fixed length (offloads, hashing, counters) are in `sets`.

use evenkeel_sys::Errno;
use evenkeel_sys::ethtool::{Question, Room};

mod sets;

pub(crate) use sets::{features, rss, stats};

/// The size of each text in `struct ethtool_drvinfo`, in bytes.
/// The texts follow the command: the driver's name, the driver's version, the firmware's version and the bus.
const TEXT_BYTES: usize = 32;
/// The number of words of `struct ethtool_channels` and of `struct ethtool_ringparam`: the command, four limits, four values.
const LIMITS_WORDS: usize = 9;
/// The number of words of `struct ethtool_coalesce`: the command and 22 values.
const COALESCE_WORDS: usize = 23;

/// Reads `driver=`, `version=`, `firmware=` and `bus=`, one per line.
pub(crate) fn driver_info(interface: &str) -> Result<String, Errno> {
    let mut room = Room::new()?;
    room.ask(interface, Question::Driver, &[])?;
    let [driver, version, firmware, bus] =
        std::array::from_fn(|at| field(&room.bytes()[4 + at * TEXT_BYTES..][..TEXT_BYTES]));
    Ok(format!("driver={driver}\nversion={version}\nfirmware={firmware}\nbus={bus}\n"))
}

/// The current and maximum number of queues: `rx_max=`, `tx_max=`, `combined_max=`, `rx=`, `tx=` and `combined=`.
pub(crate) fn channels(interface: &str) -> Result<String, Errno> {
    let [_, rx_max, tx_max, _, combined_max, rx, tx, _, combined] =
        words::<LIMITS_WORDS>(interface, Question::Channels)?;
    Ok(format!(
        "rx_max={rx_max}\ntx_max={tx_max}\ncombined_max={combined_max}\nrx={rx}\ntx={tx}\ncombined={combined}\n"
    ))
}

/// The current and maximum number of packets in each queue's ring: `rx_max=`, `tx_max=`, `rx=` and `tx=`.
pub(crate) fn rings(interface: &str) -> Result<String, Errno> {
    let [_, rx_max, _, _, tx_max, rx, _, _, tx] = words::<LIMITS_WORDS>(interface, Question::Rings)?;
    Ok(format!("rx_max={rx_max}\ntx_max={tx_max}\nrx={rx}\ntx={tx}\n"))
}

/// The settings of interrupt coalescing: `rx_us=`, `rx_frames=`, `tx_us=`, `tx_frames=`, `adaptive_rx=` and `adaptive_tx=`.
pub(crate) fn coalesce(interface: &str) -> Result<String, Errno> {
    let [_, rx_us, rx_frames, _, _, tx_us, tx_frames, _, _, _, adaptive_rx, adaptive_tx, ..] =
        words::<COALESCE_WORDS>(interface, Question::Coalesce)?;
    Ok(format!(
        "rx_us={rx_us}\nrx_frames={rx_frames}\ntx_us={tx_us}\ntx_frames={tx_frames}\nadaptive_rx={adaptive_rx}\n\
         adaptive_tx={adaptive_tx}\n"
    ))
}

/// Queries the driver, and returns the first 32-bit words of its answer. Word 0 is the command.
fn words<const COUNT: usize>(interface: &str, question: Question) -> Result<[u32; COUNT], Errno> {
    let mut room = Room::new()?;
    room.ask(interface, question, &[])?;
    Ok(std::array::from_fn(|at| room.word(at).unwrap_or_default()))
}

/// The text up to the first NUL, without characters that could break the line format.
fn field(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).replace('\n', " ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_interface_has_are_refused() {
        for name in ["", "an-interface-name-that-is-too-long", "e\0h", "evenkeel-none"] {
            for ask in [driver_info, channels, rings, coalesce, features, rss, stats] {
                assert!(ask(name).is_err(), "{name:?}");
            }
        }
    }

    /// The loopback interface has no adjustable queues, no rings, no interrupts and no counters.
    #[test]
    fn missing_features_of_a_driver_are_not_supported() {
        for ask in [channels, rings, coalesce, rss, stats] {
            assert_eq!(ask("lo"), Err(Errno::OPNOTSUPP));
        }
    }

    #[test]
    fn fields_end_at_the_first_nul() {
        assert_eq!(field(b"ena\0junk"), "ena");
        assert_eq!(field(b"no end"), "no end");
        assert_eq!(field(b"two\nlines\0"), "two lines");
    }
}
