//! UDP as a server that is short of CPU does it: many packets a system call, with the kernel's own time of each, and what the socket
//! dropped. The standard library has one packet a call and none of the rest.

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
    set_busy_poll_us, shard_by_cpu, split_sent, tell_dropped, undelivered,
};
pub use outbox::{Load, Outbox, Sender, Sent};
pub use stamp::{Moment, SentStamp, sent_stamp, stamp_arrivals, stamp_received, stamp_sent};
#[cfg(feature = "io-uring")]
pub use uring::RingInbox;

use crate::errno::Errno;
use crate::timer_fd::Alarm;

/// `SO_MEMINFO` (since Linux 4.12): nine numbers about a socket's memory, the last of which counts what it dropped.
const SO_MEMINFO: libc::c_int = 55;
const MEMINFO_NUMBERS: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// How much the socket may hold that nobody has read yet, in bytes as the kernel counts them: with what it needs to keep a packet, which
/// for a small one is several times the packet (`SO_RCVBUF`, which reads twice what was asked).
///
/// # Errors
/// What the kernel said.
pub fn receive_buffer_bytes(socket: &UdpSocket) -> Result<u64, Errno> {
    Ok(rustix::net::sockopt::socket_recv_buffer_size(socket)? as u64)
}

/// Asks for a receive buffer; the kernel doubles the number, and silently takes no more than `net.core.rmem_max`. Read back what came
/// of it.
///
/// # Errors
/// What the kernel said.
pub fn set_receive_buffer_bytes(socket: &UdpSocket, bytes: u32) -> Result<(), Errno> {
    Ok(rustix::net::sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?)
}

/// Sleeps until a packet has come, or something else is to be said of the socket, or the alarm has gone off. It sets no timer of its own, which
/// would cost a virtual machine an exit each on the way to sleep and back; set the alarm while nobody waits.
///
/// # Errors
/// `EINTR` after a signal; what else the kernel said.
pub fn await_packet(socket: &UdpSocket, alarm: &Alarm) -> Result<(), Errno> {
    use rustix::event::{PollFd, PollFlags};
    rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN), PollFd::new(alarm, PollFlags::IN)], None)?;
    Ok(())
}

/// How many packets the socket has dropped since it was made, most for want of room in its receive buffer; none where the kernel does
/// not tell. The number wraps at 2^32.
pub fn dropped(socket: &UdpSocket) -> Option<u32> {
    meminfo(socket).map(|numbers| numbers[MEMINFO_DROPS])
}

/// What the socket holds that nobody has read yet, in bytes as the kernel counts them; none where it does not tell.
pub fn held_bytes(socket: &UdpSocket) -> Option<u32> {
    meminfo(socket).map(|numbers| numbers[0])
}

fn meminfo(socket: &UdpSocket) -> Option<[u32; MEMINFO_NUMBERS]> {
    let mut numbers = [0_u32; MEMINFO_NUMBERS];
    let mut length = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the array's size, and the length that it wrote.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_MEMINFO, numbers.as_mut_ptr().cast(), &raw mut length)
    };
    let is_whole = length as usize == size_of_val(&numbers);
    (done == 0 && is_whole).then_some(numbers)
}

/// Sets an option of the socket itself that is one number.
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
    fn an_answer_goes_to_whom_it_names_in_both_families() {
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
    fn the_kernel_tells_when_packets_came_and_went() {
        let (one, two) = pair();
        stamp_received(&two).unwrap();
        stamp_sent(&one).unwrap();
        let (mut out, mut inbox) = (Outbox::new(10), Inbox::new(10));
        // Turning the kernel's stamps on takes it a moment after the first socket has asked for them.
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

    /// Waits until the kernel has found no room for one: on a busy machine it takes packets in a while after they were sent.
    fn await_drop(socket: &UdpSocket) {
        let until_ns = clock::monotonic_ns() + 60_000_000_000;
        while dropped(socket) == Some(0) && clock::monotonic_ns() < until_ns {
            clock::sleep_until_ns(clock::monotonic_ns() + 1_000_000);
        }
        // And has looked at all the others.
        clock::sleep_until_ns(clock::monotonic_ns() + 50_000_000);
    }

    #[test]
    fn packets_tell_what_was_dropped_before_them() {
        let (one, two) = pair();
        set_receive_buffer_bytes(&two, 4096).unwrap();
        tell_dropped(&two).unwrap();
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
    fn what_does_not_fit_is_counted() {
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
