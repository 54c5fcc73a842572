//! Addresses: as bytes for packets, and as text for people.

use std::ffi::c_char;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::structs::{self, structs};
use crate::text;

/// The address that a packet comes from or goes to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelAddress {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The IP address in network byte order; for IPv4, the first four bytes.
    pub ip: [u8; 16],
    /// The port, 1 to 65,535.
    pub port: u32,
    /// 1 for IPv6, 0 for IPv4.
    pub is_ipv6: u32,
    /// The interface's number, for IPv6 link-local addresses.
    pub scope_id: u32,
    /// Always 0.
    pub reserved: u32,
}

structs! {
    EvenkeelAddress { ip: [u8; 16], port: u32, is_ipv6: u32, scope_id: u32, reserved: u32 }
}

pub(super) fn parsed(text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| Failure::new(EvenkeelStatus::BadText, format_args!("no address: {text}")))
}

pub(super) fn filled(address: SocketAddr) -> EvenkeelAddress {
    let mut ip = [0; 16];
    let (is_ipv6, scope_id) = match address {
        SocketAddr::V4(v4) => {
            ip[..4].copy_from_slice(&v4.ip().octets());
            (0, 0)
        }
        SocketAddr::V6(v6) => {
            ip = v6.ip().octets();
            (1, v6.scope_id())
        }
    };
    let size = size_of::<EvenkeelAddress>() as u32;
    let version = crate::EVENKEEL_ABI_VERSION;
    EvenkeelAddress { size, version, ip, port: address.port().into(), is_ipv6, scope_id, reserved: 0 }
}

pub(super) fn meant(address: EvenkeelAddress) -> Result<SocketAddr, Failure> {
    let wrong = |what: &str, number: u32| Failure::new(EvenkeelStatus::OutOfRange, format_args!("{what} {number}"));
    let port = u16::try_from(address.port).ok().filter(|port| *port != 0).ok_or_else(|| wrong("port", address.port))?;
    let [a, b, c, d, ..] = address.ip;
    match address.is_ipv6 {
        0 => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port)),
        1 => Ok(SocketAddrV6::new(Ipv6Addr::from(address.ip), port, 0, address.scope_id).into()),
        other => Err(wrong("is_ipv6", other)),
    }
}

/// Reads an address such as `192.0.2.1:7777` or `[2001:db8::1]:7777`, but no host names. Returns EVENKEEL_STATUS_BAD_TEXT if `text` is not an address.
///
/// Threads: any, at any time.
///
/// # Safety
/// `text` is null or a text that ends with a zero; `address` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_address_parse(text: *const c_char, address: *mut EvenkeelAddress) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let found = parsed(unsafe { text::text(text) }?)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(address, filled(found)) }
    })
}

/// Writes an address to `buffer` as text. `needed` is the number of bytes, with the zero at the end. 64 bytes are always enough.
///
/// Threads: any, at any time. Allocates memory: do not call it in a tick.
///
/// # Safety
/// `address` is null or points to a struct prepared by evenkeel_init; `buffer` is null or points to `size` bytes that may be written.
/// `needed` may be written. A null `needed` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_address_text(
    address: *const EvenkeelAddress,
    buffer: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let address = meant(unsafe { structs::get(address) }?)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(buffer, size, &address.to_string(), needed) }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text_of(address: &EvenkeelAddress) -> Result<String, EvenkeelStatus> {
        let (mut buffer, mut needed) = ([1_u8; 64], 0);
        // SAFETY: the buffer has the given length.
        let status =
            unsafe { evenkeel_address_text(address, buffer.as_mut_ptr().cast(), buffer.len(), &raw mut needed) };
        if status != EvenkeelStatus::Ok {
            return Err(status);
        }
        assert_eq!(buffer[needed - 1], 0);
        Ok(String::from_utf8(buffer[..needed - 1].to_vec()).unwrap())
    }

    fn parse(text: &str) -> Result<EvenkeelAddress, EvenkeelStatus> {
        let text = std::ffi::CString::new(text).unwrap();
        let mut address = filled(SocketAddr::from(([0; 4], 1)));
        // SAFETY: the text ends with a zero, and `address` is a valid struct.
        match unsafe { evenkeel_address_parse(text.as_ptr(), &raw mut address) } {
            EvenkeelStatus::Ok => Ok(address),
            status => Err(status),
        }
    }

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["192.0.2.1:7777", "[2001:db8::1]:65535", "[fe80::1%3]:1", "0.0.0.0:1"] {
            assert_eq!(parse(text).and_then(|address| text_of(&address)).as_deref(), Ok(text));
        }
        for text in ["", "nowhere", "192.0.2.1", "192.0.2.1:65536", "192.0.2.256:1", "::1:7", "localhost:7"] {
            assert_eq!(parse(text).map(|address| address.port), Err(EvenkeelStatus::BadText), "{text}");
        }
        // Port 0 means any port, so a server cannot send a packet to it.
        assert_eq!(text_of(&parse("192.0.2.1:0").unwrap()), Err(EvenkeelStatus::OutOfRange));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_address_or_a_status(ip: [u8; 16], port: u32, is_ipv6 in 0_u32..3, scope_id: u32) {
            let head = filled(SocketAddr::from(([0; 4], 1)));
            let address = EvenkeelAddress { ip, port, is_ipv6, scope_id, ..head };
            match text_of(&address) {
                Ok(text) => {
                    let again = parse(&text).unwrap();
                    prop_assert_eq!((again.port, again.is_ipv6), (port, is_ipv6));
                    let bytes = if is_ipv6 == 1 { 16 } else { 4 };
                    prop_assert_eq!(&again.ip[..bytes], &ip[..bytes]);
                }
                Err(status) => {
                    prop_assert_eq!(status, EvenkeelStatus::OutOfRange);
                    prop_assert!(is_ipv6 > 1 || port == 0 || port > 65_535);
                }
            }
        }
    }
}
