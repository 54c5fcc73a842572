//! UDP for servers that are short of CPU: many packets per system call, with the kernel's timestamps and drop counts.
//! The standard library passes one packet per call, without timestamps and counts.

mod address;
mod control;
mod inbox;
mod options;
mod outbox;
mod stamp;
#[cfg(feature = "io-uring")]
mod uring;

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

pub use inbox::{BATCH, Inbox, Packet, Wait};
pub use options::{
    SHARDS_MAX, Sharing, Undelivered, force_receive_buffer_bytes, keep_undelivered, merge_received, open,
    report_dropped, set_busy_poll_us, shard_by_cpu, split_sent, undelivered,
};
pub use outbox::{Load, Outbox, Sender, Sent};
pub use stamp::{Moment, SentStamp, sent_stamp, stamp_arrivals, stamp_received, stamp_sent};
#[cfg(feature = "io-uring")]
pub use uring::RingInbox;

use crate::errno::Errno;
use crate::timer_fd::Alarm;

/// `SO_MEMINFO` (since Linux 4.12): nine numbers about a socket's memory. The last one counts drops.
const SO_MEMINFO: libc::c_int = 55;
const MEMINFO_NUMBERS: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// The size of the receive buffer (`SO_RCVBUF`), in bytes as the kernel counts them, which is twice the request.
/// The bytes include the kernel's overhead per packet, which is several times the size of a small packet.
///
/// # Errors
/// The kernel's error.
pub fn receive_buffer_bytes(socket: &UdpSocket) -> Result<u64, Errno> {
    Ok(rustix::net::sockopt::socket_recv_buffer_size(socket)? as u64)
}

/// Requests a receive buffer. The kernel doubles the number, and silently limits it to `net.core.rmem_max`. So read the result back.
///
/// # Errors
/// The kernel's error.
pub fn set_receive_buffer_bytes(socket: &UdpSocket, bytes: u32) -> Result<(), Errno> {
    Ok(rustix::net::sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?)
}

/// Sleeps until a packet arrives, the socket has an error, or the alarm fires.
/// The call sets no timer of its own. A timer would cost a virtual machine one exit when it goes to sleep and one when it wakes.
/// Set the alarm while no thread waits.
///
/// # Errors
/// `EINTR` after a signal; otherwise the kernel's error.
pub fn await_packet(socket: &UdpSocket, alarm: &Alarm) -> Result<(), Errno> {
    use rustix::event::{PollFd, PollFlags};
    rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN), PollFd::new(alarm, PollFlags::IN)], None)?;
    Ok(())
}

/// How many packets the socket has dropped since it was created, mostly because the buffer was full.
/// `None` if the kernel does not report this number. The number wraps at 2^32.
pub fn dropped(socket: &UdpSocket) -> Option<u32> {
    meminfo(socket).map(|numbers| numbers[MEMINFO_DROPS])
}

/// How much unread data the socket holds, in bytes as the kernel counts them. `None` if the kernel does not report this.
pub fn held_bytes(socket: &UdpSocket) -> Option<u32> {
    meminfo(socket).map(|numbers| numbers[0])
}

fn meminfo(socket: &UdpSocket) -> Option<[u32; MEMINFO_NUMBERS]> {
    let mut numbers = [0_u32; MEMINFO_NUMBERS];
    let mut length = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the array's size, and the written length.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_MEMINFO, numbers.as_mut_ptr().cast(), &raw mut length)
    };
    let is_whole = length as usize == size_of_val(&numbers);
    (done == 0 && is_whole).then_some(numbers)
}

/// Sets a numeric option of the socket itself.
fn set_option(socket: &UdpSocket, name: libc::c_int, value: u32) -> Result<(), Errno> {
    set_option_of(socket, libc::SOL_SOCKET, name, value)
}

fn set_option_of(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: u32) -> Result<(), Errno> {
    // SAFETY: the kernel reads the four bytes of `value` and keeps no pointer.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(last()) }
}

fn last() -> Errno {
    Errno::from(&std::io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn pair() -> (UdpSocket, UdpSocket) {
        let (one, two) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(two.local_addr().unwrap()).unwrap();
        for socket in [&one, &two] {
            socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        }
        (one, two)
    }

    #[test]
    fn a_wait_ends_with_a_packet_or_with_the_alarm() {
        let (one, two) = pair();
        let (alarm, mut inbox) = (Alarm::new().unwrap(), Inbox::new(100));
        let due_ns = clock::monotonic_ns() + 2_500_000;
        alarm.set(due_ns).unwrap();
        await_packet(&two, &alarm).unwrap();
        assert!(clock::monotonic_ns() >= due_ns);
        assert_eq!(inbox.receive(&two, Wait::NotForOne), Err(Errno::AGAIN));
        alarm.set(due_ns + 3_600_000_000_000).unwrap();
        one.send(b"first").unwrap();
        one.send(b"second").unwrap();
        await_packet(&two, &alarm).unwrap();
        assert_eq!(inbox.receive(&two, Wait::NotForOne), Ok(1));
        assert_eq!(inbox.packet(0).unwrap().bytes, b"first");
    }

    #[test]
    fn packets_go_and_come_in_batches() {
        let (one, two) = pair();
        let (mut out, mut inbox) = (Outbox::new(100), Inbox::new(100));
        for at in 0..BATCH {
            out.push(None, at + 1).unwrap()[at] = at as u8;
        }
        assert!(out.push(None, 1).is_none(), "full");
        assert_eq!(out.send(&one), Sent { sent: BATCH, refused: 0, why: None });
        assert_eq!(out.send(&one), Sent::default(), "sent once");
        let mut seen = 0;
        while seen < BATCH {
            let got = inbox.receive(&two, Wait::Sleep).unwrap();
            for at in 0..got {
                let packet = inbox.packet(at).unwrap();
                assert_eq!(packet.bytes.len(), seen + 1);
                assert_eq!(packet.bytes[seen], seen as u8);
                assert_eq!(packet.from, Some(one.local_addr().unwrap()));
                assert!(!packet.truncated);
                seen += 1;
            }
            assert!(inbox.packet(got).is_none());
        }
        assert_eq!(inbox.receive(&two, Wait::Not), Err(Errno::AGAIN));
    }

    #[test]
    fn an_answer_goes_to_its_address_in_both_families() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(two) = UdpSocket::bind(address) else {
                evenkeel_testkit::skipped(format_args!("this machine has no {address}"));
                continue;
            };
            let one = UdpSocket::bind(address).unwrap();
            two.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
            let (mut out, mut inbox) = (Outbox::new(10), Inbox::new(4));
            out.push(Some(two.local_addr().unwrap()), 10).unwrap().fill(7);
            assert_eq!(out.send(&one).sent, 1);
            assert_eq!(inbox.receive(&two, Wait::Sleep), Ok(1));
            let packet = inbox.packet(0).unwrap();
            assert_eq!((packet.bytes, packet.truncated), (&[7; 4][..], true));
            assert_eq!(packet.from, Some(one.local_addr().unwrap()));
        }
    }

    #[test]
    fn the_kernel_stamps_received_and_sent_packets() {
        let (one, two) = pair();
        stamp_received(&two).unwrap();
        stamp_sent(&one).unwrap();
        let (mut out, mut inbox) = (Outbox::new(10), Inbox::new(10));
        // After the first socket has requested timestamps, the kernel takes a moment to enable them.
        let stamped = (0..100).any(|_| {
            clock::sleep_until_ns(clock::monotonic_ns() + 5_000_000);
            let before_ns = clock::realtime_ns();
            out.push(None, 1).unwrap();
            out.send(&one);
            inbox.receive(&two, Wait::Sleep).unwrap();
            let stamp = inbox.packet(0).unwrap().stamp_ns;
            stamp.is_some_and(|ns| ns >= before_ns && ns <= clock::realtime_ns())
        });
        assert!(stamped);
        let first = sent_stamp(&one).unwrap().expect("the stamp of the first packet");
        assert_eq!(first.id, 0);
        assert!(first.ns > 1_700_000_000_000_000_000, "{first:?}");
        let moments: Vec<_> = std::iter::from_fn(|| sent_stamp(&one).unwrap()).map(|stamp| stamp.moment).collect();
        assert!(moments.contains(&Moment::ToDriver), "{moments:?}");
    }

    /// Waits until the kernel has dropped a packet. On a busy machine it handles packets some time after they were sent.
    fn await_drop(socket: &UdpSocket) {
        let until_ns = clock::monotonic_ns() + 60_000_000_000;
        while dropped(socket) == Some(0) && clock::monotonic_ns() < until_ns {
            clock::sleep_until_ns(clock::monotonic_ns() + 1_000_000);
        }
        // Wait until the kernel has handled all other packets too.
        clock::sleep_until_ns(clock::monotonic_ns() + 50_000_000);
    }

    #[test]
    fn packets_report_earlier_drops() {
        let (one, two) = pair();
        set_receive_buffer_bytes(&two, 4096).unwrap();
        report_dropped(&two).unwrap();
        let (mut out, mut inbox) = (Outbox::new(1000), Inbox::new(1000));
        let mut send = |packets: usize| {
            (0..packets).for_each(|_| assert!(out.push(None, 1000).is_some()));
            assert_eq!(out.send(&one).sent, packets);
        };
        send(BATCH);
        await_drop(&two);
        assert!(inbox.receive(&two, Wait::Not).unwrap() > 0);
        assert_eq!(inbox.packet(0).unwrap().dropped, None, "none was before it");
        send(1);
        assert_eq!(inbox.receive(&two, Wait::Sleep), Ok(1));
        let control = inbox.packet(0).unwrap().dropped;
        assert!(control.is_some_and(|count| count > 0 && count < BATCH as u32), "{control:?}");
        assert!(dropped(&two).is_none_or(|count| Some(count) == control));
    }

    #[test]
    fn losses_are_counted() {
        let (one, two) = pair();
        set_receive_buffer_bytes(&two, 4096).unwrap();
        let held = receive_buffer_bytes(&two).unwrap();
        assert!((4096..100_000).contains(&held), "{held}");
        let mut out = Outbox::new(1000);
        for _ in 0..BATCH {
            out.push(None, 1000);
        }
        assert_eq!(out.send(&one).sent, BATCH);
        await_drop(&two);
        assert!(held_bytes(&two).is_none_or(|bytes| u64::from(bytes) >= 1000), "{:?}", held_bytes(&two));
        assert!(dropped(&two).is_none_or(|count| count > 0 && count < BATCH as u32), "{:?}", dropped(&two));
    }
}
