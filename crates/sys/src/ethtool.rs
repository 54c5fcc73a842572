//! The driver of a network interface, by the `SIOCETHTOOL` ioctl: it needs no rights, and tells the version of drivers
//! that sysfs does not know because they are built in. Its queues, rings and interrupt coalescing come the same way; what
//! has no fixed length (offloads, hashing, counters) is in `sets`.

use std::ffi::c_void;
use std::os::fd::OwnedFd;

use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};
use rustix::net::{AddressFamily, SocketType};

use crate::errno::Errno;

mod room;
mod sets;

pub(crate) use sets::{features, rss, stats};

const SIOCETHTOOL: Opcode = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x0000_0003;
const ETHTOOL_GCOALESCE: u32 = 0x0000_000e;
const ETHTOOL_GRINGPARAM: u32 = 0x0000_0010;
const ETHTOOL_GCHANNELS: u32 = 0x0000_003c;

/// Words of `struct ethtool_channels` and of `struct ethtool_ringparam`: the command, four limits, four values.
const LIMITS_WORDS: usize = 9;
/// Words of `struct ethtool_coalesce`: the command and 22 values.
const COALESCE_WORDS: usize = 23;
/// `IFNAMSIZ`: the longest interface name, with its NUL.
const NAME_BYTES: usize = 16;

/// `struct ethtool_drvinfo` of `include/uapi/linux/ethtool.h`.
#[repr(C)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    version: [u8; 32],
    fw_version: [u8; 32],
    bus_info: [u8; 32],
    erom_version: [u8; 32],
    reserved2: [u8; 12],
    n_priv_flags: u32,
    n_stats: u32,
    testinfo_len: u32,
    eedump_len: u32,
    regdump_len: u32,
}

/// `struct ifreq` of `include/uapi/linux/if.h`, as far as this call reads it: the union behind the name is 24 bytes long
/// on 64-bit machines, of which a pointer is the first member.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    data: *mut c_void,
    rest_of_union: [u8; 24 - size_of::<*mut c_void>()],
}

/// `driver=`, `version=`, `firmware=` and `bus=`, a line each.
pub(crate) fn driver_info(interface: &str) -> Result<String, Errno> {
    let mut info = DriverInfo {
        cmd: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        version: [0; 32],
        fw_version: [0; 32],
        bus_info: [0; 32],
        erom_version: [0; 32],
        reserved2: [0; 12],
        n_priv_flags: 0,
        n_stats: 0,
        testinfo_len: 0,
        eedump_len: 0,
        regdump_len: 0,
    };
    let mut request = request(interface, (&raw mut info).cast())?;
    let socket = socket()?;
    // SAFETY: the request names `info`, which is a whole `struct ethtool_drvinfo`, outlives the call, and is what the
    // kernel fills for ETHTOOL_GDRVINFO (it copies exactly that structure, whatever the driver).
    unsafe { ioctl::ioctl(&socket, EthtoolCall(&mut request))? };
    Ok(format!(
        "driver={}\nversion={}\nfirmware={}\nbus={}\n",
        field(&info.driver),
        field(&info.version),
        field(&info.fw_version),
        field(&info.bus_info)
    ))
}

/// How many queues there are and may be: `rx_max=`, `tx_max=`, `combined_max=`, `rx=`, `tx=` and `combined=`.
pub(crate) fn channels(interface: &str) -> Result<String, Errno> {
    let [_, rx_max, tx_max, _, combined_max, rx, tx, _, combined] =
        words::<LIMITS_WORDS>(interface, ETHTOOL_GCHANNELS)?;
    Ok(format!(
        "rx_max={rx_max}\ntx_max={tx_max}\ncombined_max={combined_max}\nrx={rx}\ntx={tx}\ncombined={combined}\n"
    ))
}

/// How many packets each queue's ring holds and may hold: `rx_max=`, `tx_max=`, `rx=` and `tx=`.
pub(crate) fn rings(interface: &str) -> Result<String, Errno> {
    let [_, rx_max, _, _, tx_max, rx, _, _, tx] = words::<LIMITS_WORDS>(interface, ETHTOOL_GRINGPARAM)?;
    Ok(format!("rx_max={rx_max}\ntx_max={tx_max}\nrx={rx}\ntx={tx}\n"))
}

/// How long interrupts wait for more packets: `rx_us=`, `rx_frames=`, `tx_us=`, `tx_frames=`, `adaptive_rx=` and
/// `adaptive_tx=`.
pub(crate) fn coalesce(interface: &str) -> Result<String, Errno> {
    let [_, rx_us, rx_frames, _, _, tx_us, tx_frames, _, _, _, adaptive_rx, adaptive_tx, ..] =
        words::<COALESCE_WORDS>(interface, ETHTOOL_GCOALESCE)?;
    Ok(format!(
        "rx_us={rx_us}\nrx_frames={rx_frames}\ntx_us={tx_us}\ntx_frames={tx_frames}\nadaptive_rx={adaptive_rx}\n\
         adaptive_tx={adaptive_tx}\n"
    ))
}

/// The answer to a command whose structure is words alone, its own number the first of them.
fn words<const COUNT: usize>(interface: &str, command: u32) -> Result<[u32; COUNT], Errno> {
    let mut words = [0_u32; COUNT];
    words[0] = command;
    let mut request = request(interface, (&raw mut words).cast())?;
    let socket = socket()?;
    // SAFETY: the request names `words`, which is as long as the structure of the command (each caller gives the count of
    // `include/uapi/linux/ethtool.h`, and a test holds its size), outlives the call, and is all that the kernel writes.
    unsafe { ioctl::ioctl(&socket, EthtoolCall(&mut request))? };
    Ok(words)
}

fn request(interface: &str, data: *mut c_void) -> Result<Request, Errno> {
    if interface.is_empty() || interface.len() >= NAME_BYTES || interface.contains('\0') {
        return Err(Errno::NODEV);
    }
    let mut request = Request { name: [0; NAME_BYTES], data, rest_of_union: [0; 24 - size_of::<*mut c_void>()] };
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    Ok(request)
}

fn socket() -> Result<OwnedFd, Errno> {
    Ok(rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?)
}

/// The text up to the first NUL, without what could break the line format.
fn field(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).replace('\n', " ").trim().to_owned()
}

struct EthtoolCall<'a>(&'a mut Request);

// SAFETY: SIOCETHTOOL takes a pointer to `struct ifreq`, which `Request` mirrors; the output is the status alone.
unsafe impl Ioctl for EthtoolCall<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        SIOCETHTOOL
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut *self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_size() {
        assert_eq!(size_of::<DriverInfo>(), 196);
        assert_eq!(size_of::<Request>(), 40);
        assert_eq!(size_of::<[u32; LIMITS_WORDS]>(), 36);
        assert_eq!(size_of::<[u32; COALESCE_WORDS]>(), 92);
    }

    #[test]
    fn names_that_no_interface_has_are_refused() {
        for name in ["", "an-interface-name-that-is-too-long", "e\0h", "evenkeel-none"] {
            for ask in [driver_info, channels, rings, coalesce, features, rss, stats] {
                assert!(ask(name).is_err(), "{name:?}");
            }
        }
    }

    /// The loopback interface has neither queues to set nor rings nor interrupts nor counters.
    #[test]
    fn what_a_driver_does_not_have_is_not_supported() {
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
