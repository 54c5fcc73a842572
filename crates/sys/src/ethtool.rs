//! The driver of a network interface, by the `SIOCETHTOOL` ioctl: it needs no rights, and tells the version of drivers
//! that sysfs does not know because they are built in.

use std::ffi::{c_char, c_void};

use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};
use rustix::net::{AddressFamily, SocketType};

use crate::errno::Errno;

const SIOCETHTOOL: Opcode = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x0000_0003;
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
    name: [c_char; NAME_BYTES],
    data: *mut c_void,
    rest_of_union: [u8; 24 - size_of::<*mut c_void>()],
}

/// `driver=`, `version=`, `firmware=` and `bus=`, a line each.
pub(crate) fn driver_info(interface: &str) -> Result<String, Errno> {
    if interface.is_empty() || interface.len() >= NAME_BYTES || interface.contains('\0') {
        return Err(Errno::NODEV);
    }
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
    let mut request = Request {
        name: [0; NAME_BYTES],
        data: (&raw mut info).cast(),
        rest_of_union: [0; 24 - size_of::<*mut c_void>()],
    };
    for (to, from) in request.name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
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
    }

    #[test]
    fn names_that_no_interface_has_are_refused() {
        for name in ["", "an-interface-name-that-is-too-long", "e\0h", "evenkeel-none"] {
            assert!(driver_info(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn fields_end_at_the_first_nul() {
        assert_eq!(field(b"ena\0junk"), "ena");
        assert_eq!(field(b"no end"), "no end");
        assert_eq!(field(b"two\nlines\0"), "two lines");
    }
}
