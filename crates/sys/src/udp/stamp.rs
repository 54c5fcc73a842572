//! The kernel's timestamps of a packet (`SO_TIMESTAMPING`, Documentation/networking/timestamping.rst).
//! The timestamps say when the kernel first had a received packet, and when it passed a sent packet to the queue and to the driver.
//! So the timestamps separate the network's time from our own thread's time.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use super::control::{CONTROL_WORDS, each_control, software_ns, word};
use super::{last, set_option};
use crate::errno::Errno;

/// `SO_EE_ORIGIN_TIMESTAMPING`: entries with this origin in the error queue are not errors.
const ORIGIN_TIMESTAMPING: u8 = 4;
const STAMP_TO_DRIVER: u32 = 0;
const STAMP_TO_QUEUE: u32 = 1;

/// An event of a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The packet was about to be queued for the network device.
    ToQueue,
    /// The device's driver got the packet.
    ToDriver,
    /// Another event, by the kernel's number.
    Other(u32),
}

/// A timestamp of a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentStamp {
    /// The packet's number: how many packets were sent through the socket since [`stamp_sent`]. It wraps at 2^32.
    pub id: u32,
    /// The event.
    pub moment: Moment,
    /// When the event happened, on the wall clock, in nanoseconds.
    pub ns: u64,
}

/// Makes the kernel stamp each received packet, as early as possible. The kernel needs some milliseconds to begin.
///
/// # Errors
/// The kernel's error.
pub fn stamp_received(socket: &UdpSocket) -> Result<(), Errno> {
    set_option(socket, libc::SO_TIMESTAMPING, libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE)
}

/// Makes the kernel report when it first had each received packet (`SO_TIMESTAMPNS`). It reports no other time.
///
/// # Errors
/// The kernel's error.
pub fn stamp_arrivals(socket: &UdpSocket) -> Result<(), Errno> {
    set_option(socket, libc::SO_TIMESTAMPNS, 1)
}

/// Makes the kernel stamp received packets and, from now on, each sent packet: when it is queued, and when the driver gets it.
/// Fetch the stamps of sent packets with [`sent_stamp`]. Otherwise they fill up the socket.
///
/// # Errors
/// The kernel's error.
pub fn stamp_sent(socket: &UdpSocket) -> Result<(), Errno> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_TX_SCHED
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    set_option(socket, libc::SO_TIMESTAMPING, flags)
}

/// The next timestamp of a sent packet. `None` if no timestamp has arrived yet. Skips other entries in the error queue.
///
/// # Errors
/// The kernel's error.
pub fn sent_stamp(socket: &UdpSocket) -> Result<Option<SentStamp>, Errno> {
    let mut control = [0_u64; CONTROL_WORDS];
    loop {
        // SAFETY: a message header may consist of zeros.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the header points to a control buffer with its true length, which outlives the call.
        let done = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
        if done < 0 {
            return match last() {
                Errno::AGAIN => Ok(None),
                Errno::INTR => continue,
                errno => Err(errno),
            };
        }
        if let Some(stamp) = stamp_of(&header) {
            return Ok(Some(stamp));
        }
    }
}

fn stamp_of(header: &libc::msghdr) -> Option<SentStamp> {
    let (mut ns, mut what) = (None, None);
    each_control(header, |level, kind, data| match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => ns = software_ns(data),
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => what = extended_error(data),
        _ => {}
    });
    let (info, id) = what?;
    let moment = match info {
        STAMP_TO_DRIVER => Moment::ToDriver,
        STAMP_TO_QUEUE => Moment::ToQueue,
        other => Moment::Other(other),
    };
    Some(SentStamp { id, moment, ns: ns? })
}

/// `struct sock_extended_err` of a timestamp: the event, and the packet.
fn extended_error(data: &[u8]) -> Option<(u32, u32)> {
    (*data.get(4)? == ORIGIN_TIMESTAMPING).then_some(())?;
    Some((word(data, 8)?, word(data, 12)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_no_stamps() {
        let mut error = [0_u8; 16];
        error[8..12].copy_from_slice(&1_u32.to_ne_bytes());
        error[12..16].copy_from_slice(&77_u32.to_ne_bytes());
        assert_eq!(extended_error(&error), None, "an error of the network");
        error[4] = ORIGIN_TIMESTAMPING;
        assert_eq!(extended_error(&error), Some((1, 77)));
        assert_eq!(extended_error(&error[..15]), None);
    }
}
