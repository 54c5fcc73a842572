//! Addresses in the kernel's form. They take 28 bytes instead of the 128 bytes that any family needs.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address of either family.
#[derive(Clone, Copy)]
pub(super) union Name {
    pub(super) v4: libc::sockaddr_in,
    pub(super) v6: libc::sockaddr_in6,
}

impl Name {
    /// An empty address.
    pub(super) const fn none() -> Name {
        // SAFETY: a socket address of zeros is valid.
        Name { v6: unsafe { std::mem::zeroed() } }
    }

    /// Sets the address, and returns its length.
    #[inline]
    pub(super) fn set(&mut self, to: SocketAddr) -> libc::socklen_t {
        match to {
            SocketAddr::V4(to) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: to.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(to.ip().octets()) },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            SocketAddr::V6(to) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: to.port().to_be(),
                    sin6_flowinfo: to.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: to.ip().octets() },
                    sin6_scope_id: to.scope_id(),
                };
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }

    /// The address that the kernel has written here with this length. `None` if it is neither IPv4 nor IPv6.
    #[inline]
    pub(super) fn get(&self, length: usize) -> Option<SocketAddr> {
        // SAFETY: both variants begin with the family, and all bytes were set from the start.
        let family = i32::from(unsafe { self.v4.sin_family });
        if family == libc::AF_INET && length >= size_of::<libc::sockaddr_in>() {
            // SAFETY: the family shows which variant the address is. Every bit pattern of that variant is valid.
            let v4 = unsafe { self.v4 };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        } else if family == libc::AF_INET6 && length >= size_of::<libc::sockaddr_in6>() {
            // SAFETY: as above.
            let v6 = unsafe { self.v6 };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_as_it_was() {
        for text in ["127.0.0.1:80", "255.255.255.255:65535", "[::1]:1", "[fe80::1%7]:9", "[2001:db8::9]:53"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut name = Name::none();
            assert_eq!(name.get(size_of::<Name>()), None);
            let length = name.set(address) as usize;
            assert_eq!(name.get(length), Some(address));
            assert_eq!(name.get(length - 1), None, "cut off");
        }
    }
}
