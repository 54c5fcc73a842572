//! The kernel's metadata of a packet (control messages, cmsg(3)).
//! The metadata are the packet's timestamps, the size of the packets that it was merged from, and how many were dropped before it.

use std::num::NonZeroU16;

/// Space for every message that can be requested here, and some more. The kernel cuts off what does not fit.
pub(super) const CONTROL_WORDS: usize = 24;

/// `UDP_GRO`, at level `SOL_UDP`.
pub(super) const UDP_GRO: libc::c_int = 104;
/// `UDP_SEGMENT`.
pub(super) const UDP_SEGMENT: libc::c_int = 103;

/// The control messages of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ControlData {
    /// When the kernel first had the packet, on the wall clock in nanoseconds. `None` without a timestamp.
    pub(super) stamp_ns: Option<u64>,
    /// The size of each packet that the kernel merged into this one. The last packet may be shorter. `None` if the kernel merged no packets.
    pub(super) segment_bytes: Option<NonZeroU16>,
    /// How many packets the socket had dropped when this packet was queued.
    pub(super) dropped: Option<u32>,
}

impl ControlData {
    #[inline]
    pub(super) fn from_header(header: &libc::msghdr) -> ControlData {
        // Most packets have no control message.
        if header.msg_controllen == 0 { ControlData::default() } else { ControlData::read(header) }
    }

    fn read(header: &libc::msghdr) -> ControlData {
        let mut control = ControlData::default();
        each_control(header, |level, kind, data| match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING | libc::SCM_TIMESTAMPNS) => control.stamp_ns = software_ns(data),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => control.dropped = word(data, 0),
            (libc::SOL_UDP, UDP_GRO) => {
                control.segment_bytes = word(data, 0).and_then(|bytes| NonZeroU16::new(u16::try_from(bytes).ok()?));
            }
            _ => {}
        });
        control
    }
}

/// Four bytes as a number.
pub(super) fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

/// The first of the times in the message. With `SO_TIMESTAMPING` the other two times are a device's. Zeros mean no time.
pub(super) fn software_ns(data: &[u8]) -> Option<u64> {
    let seconds = i64::from_ne_bytes(data.get(..8)?.try_into().ok()?);
    let ns = i64::from_ne_bytes(data.get(8..16)?.try_into().ok()?);
    let (seconds, ns) = (u64::try_from(seconds).ok()?, u64::try_from(ns).ok()?);
    (seconds > 0).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}

/// Passes on each control message's level, type and bytes.
pub(super) fn each_control(header: &libc::msghdr, mut visit: impl FnMut(i32, i32, &[u8])) {
    // SAFETY: the kernel has filled in the header: its control buffer holds `msg_controllen` bytes of whole messages.
    // The buffer lives as long as the header's owner does not write to it. The macros stay within that length.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(one) = message.as_ref() {
            #[allow(clippy::unnecessary_cast, reason = "musl has fewer bits for it than glibc")]
            let length = (one.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            visit(one.cmsg_level, one.cmsg_type, std::slice::from_raw_parts(libc::CMSG_DATA(message), length));
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_nothing_are_none() {
        let time = |seconds: i64, ns: i64| [seconds.to_ne_bytes(), ns.to_ne_bytes()].concat();
        assert_eq!(software_ns(&time(2, 5)), Some(2_000_000_005));
        for data in [time(0, 0), time(-1, 5), time(1, -5), vec![1; 15], Vec::new()] {
            assert_eq!(software_ns(&data), None, "{data:?}");
        }
    }
}
