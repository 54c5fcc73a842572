//! `SentPackets`: when this machine sent a UDP packet from one of a server's ports, and to which address, by kernel timestamps.
//! `SentPackets` is a packet socket with a ring of blocks in shared memory (packet(7), `TPACKET_V3`).
//! The socket does not affect the server, and delays no packet.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::LinkNameSpaceType;

use crate::errno::Errno;
use crate::packet_filter::{Instruction, sent_from};

/// A block of 64 KiB holds some 300 packet headers. The kernel also hands over a block with a single packet once the block is old enough.
const BLOCK_BYTES: usize = 1 << 16;
const BLOCKS: usize = 32;
/// The frame size, a multiple of 16. Blocks of this version ignore the frame size.
const FRAME_BYTES: u32 = 2048;
/// The kernel hands over a partly filled block after this time.
pub const HANDED_OVER_WITHIN_MS: u32 = 40;
/// The time in which the kernel hands over half of all blocks, if each block contains few packets.
/// If a reader reads the ring at least this often, the ring never runs out of blocks with few packets.
pub const DRAIN_WITHIN_MS: u32 = HANDED_OVER_WITHIN_MS * BLOCKS as u32 / 2;

const VERSION_3: i32 = 2;
const STATUS_USER: u32 = 1;
/// The offsets in `struct tpacket_block_desc` of its status, number of packets, first packet and length.
const STATUS_AT: usize = 8;
const COUNT_AT: usize = 12;
const FIRST_AT: usize = 16;
const FILLED_AT: usize = 20;
/// The size of `struct tpacket3_hdr`, which the interface's address follows.
const HEAD_BYTES: usize = 48;
const INTERFACE_AT: usize = HEAD_BYTES + 4;

/// The header fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// The source port.
    pub from_port: u16,
    /// The destination.
    pub to: SocketAddr,
    /// The payload size in bytes.
    pub bytes: u16,
}

/// A sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentPacket {
    /// The time, in nanoseconds of the wall clock.
    pub at_ns: u64,
    /// The number of the interface.
    pub interface: u32,
    /// The packet's header fields.
    pub heads: Heads,
}

/// Parses UDP over IP from the available bytes. `None` for other packets, or if a header is incomplete.
pub fn read_packet(bytes: &[u8]) -> Option<Heads> {
    let half = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let (udp_at, to) = match bytes.first()? >> 4 {
        4 => {
            let head = usize::from(bytes[0] & 15) * 4;
            if head < 20 || *bytes.get(9)? != 17 || half(6)? & 0x1fff != 0 {
                return None;
            }
            let to: [u8; 4] = bytes.get(16..20)?.try_into().ok()?;
            (head, IpAddr::V4(Ipv4Addr::from(to)))
        }
        6 if *bytes.get(6)? == 17 => {
            let to: [u8; 16] = bytes.get(24..40)?.try_into().ok()?;
            (40, IpAddr::V6(Ipv6Addr::from(to)))
        }
        _ => return None,
    };
    let (from_port, to_port, length) = (half(udp_at)?, half(udp_at + 2)?, half(udp_at + 4)?);
    Some(Heads { from_port, to: SocketAddr::new(to, to_port), bytes: length.saturating_sub(8) })
}

/// Passes on each packet of a block, and returns how many packets could not be parsed.
pub fn read_block(block: &[u8], mut on_packet: impl FnMut(SentPacket)) -> u32 {
    let word = |at: usize| Some(u32::from_ne_bytes(block.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let Some((count, first)) = word(COUNT_AT).zip(word(FIRST_AT)) else { return 0 };
    // Read only as many packets as fit, whatever number the block announces.
    let count = count.min((block.len() / HEAD_BYTES) as u32);
    let (mut at, mut odd) = (first as usize, 0);
    for nth in 0..count {
        let read = || {
            let (seconds, rest) = (word(at.checked_add(4)?)?, word(at.checked_add(8)?)?);
            let kept = word(at.checked_add(12)?)? as usize;
            let net = block.get(at.checked_add(26)?..at.checked_add(28)?)?;
            let start = at.checked_add(usize::from(u16::from_ne_bytes(net.try_into().ok()?)))?;
            let heads = read_packet(block.get(start..start.checked_add(kept)?.min(block.len()))?)?;
            let interface = word(at.checked_add(INTERFACE_AT)?)?;
            Some(SentPacket { at_ns: u64::from(seconds) * 1_000_000_000 + u64::from(rest), interface, heads })
        };
        match read() {
            Some(packet) => on_packet(packet),
            None => odd += 1,
        }
        let next = word(at).unwrap_or(0) as usize;
        if next < HEAD_BYTES {
            // The last packet names no successor. If the block announced more packets, we cannot find them.
            return odd + (count - nth - 1);
        }
        at = at.saturating_add(next);
    }
    odd
}

/// The network namespace of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The namespace of this process.
    Own,
    /// The namespace of the process with this number, which may be a container's.
    OfProcess(u32),
}

/// Packet counts of the kernel since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// How many packets passed the filter.
    pub packets: u64,
    /// How many of these packets were lost.
    pub lost: u64,
}

/// Records the packets that this machine sends from some ports. Read it from one thread only.
#[derive(Debug)]
pub struct SentPackets {
    socket: OwnedFd,
    map: NonNull<u8>,
    next: usize,
    block: Vec<u8>,
}

// SAFETY: only this value has the mapping, and only `&mut self` reaches the mapping. This value may move to another thread.
unsafe impl Send for SentPackets {}

impl SentPackets {
    /// Records packets sent from `ports` on any interface, from now on.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_RAW, or without CAP_SYS_ADMIN for another network namespace; `ESRCH` or `ENOENT` if the process does not exist.
    /// `EAFNOSUPPORT` if the kernel has no packet sockets; `EINVAL` without ports.
    pub fn of_ports(ports: &[u16], network: Network) -> Result<SentPackets, Errno> {
        if ports.is_empty() {
            return Err(Errno::INVAL);
        }
        let program = sent_from(ports);
        let Network::OfProcess(pid) = network else { return SentPackets::open(&program) };
        let place = File::open(format!("/proc/{pid}/ns/net")).map_err(|error| Errno::from(&error))?;
        // A thread that changes its network namespace stays in the new one, so use a separate thread. The socket outlives that thread.
        let opened = std::thread::Builder::new().name("evenkeel-net".to_owned()).spawn(move || {
            rustix::thread::move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network))?;
            SentPackets::open(&program)
        });
        opened.map_err(|error| Errno::from(&error))?.join().unwrap_or(Err(Errno::IO))
    }

    fn open(program: &[Instruction]) -> Result<SentPackets, Errno> {
        // Set no protocol at first, so that nothing arrives before the filter is set. SAFETY: the call takes three numbers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(last());
        }
        // SAFETY: the kernel just gave us this descriptor, and no other code has it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        set_filter(&socket, program)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &VERSION_3)?;
        let wanted = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME_BYTES,
            tp_frame_nr: (BLOCK_BYTES * BLOCKS) as u32 / FRAME_BYTES,
            tp_retire_blk_tov: HANDED_OVER_WITHIN_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &wanted)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an unused address. Dropping the value below removes the mapping.
        let map = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), BLOCK_BYTES * BLOCKS, protection, MapFlags::SHARED, &socket, 0)?
        };
        let map = NonNull::new(map.cast::<u8>()).ok_or(Errno::INVAL)?;
        let packets = SentPackets { socket, map, next: 0, block: Vec::with_capacity(BLOCK_BYTES) };
        packets.begin()?;
        Ok(packets)
    }

    /// Receives all protocols on all interfaces, because only then does the kernel show sent packets.
    fn begin(&self) -> Result<(), Errno> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: 0,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the kernel reads `length` bytes of the address and keeps no pointer.
        let said = unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), length) };
        if said < 0 { Err(last()) } else { Ok(()) }
    }

    /// Passes on each packet of the blocks that are full or old enough, and returns how many packets could not be parsed.
    pub fn drain(&mut self, mut on_packet: impl FnMut(SentPacket)) -> u32 {
        let mut odd = 0;
        // Go around the ring at most once, so that a fast sender cannot hold us here.
        for _ in 0..BLOCKS {
            let at = self.next * BLOCK_BYTES;
            // SAFETY: this is an aligned word within the mapping, which lives as long as this value. The kernel writes the word as a whole.
            let status = unsafe { self.map.add(at + STATUS_AT).cast::<AtomicU32>().as_ref() };
            // This load pairs with the kernel's barrier before it hands the block over, so the contents are complete.
            if status.load(Ordering::Acquire) & STATUS_USER == 0 {
                break;
            }
            self.block.clear();
            // SAFETY: the block lies in the mapping, and the kernel does not write to it while it is ours.
            // The block states its filled length, which we limit to the size of the block.
            unsafe {
                let block = std::slice::from_raw_parts(self.map.add(at).as_ptr(), BLOCK_BYTES);
                let filled = [0, 1, 2, 3].map(|byte| block[FILLED_AT + byte]);
                let filled = (u32::from_ne_bytes(filled) as usize).min(BLOCK_BYTES);
                self.block.extend_from_slice(&block[..filled]);
            }
            // The kernel may now overwrite the copied data.
            status.store(0, Ordering::Release);
            self.next = (self.next + 1) % BLOCKS;
            odd += read_block(&self.block, &mut on_packet);
        }
        odd
    }

    /// The number of packets since the last call, and how many of them were lost.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn counts(&self) -> Result<PacketCounts, Errno> {
        let mut said = [0_u32; 3];
        let mut length = size_of_val(&said) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, which is the array's own length.
        let done = unsafe {
            let to = said.as_mut_ptr().cast();
            libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, to, &raw mut length)
        };
        if done < 0 {
            return Err(last());
        }
        Ok(PacketCounts { packets: u64::from(said[0]), lost: u64::from(said[1]) })
    }
}

impl Drop for SentPackets {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and no reference to it exists any more.
        let _ = unsafe { rustix::mm::munmap(self.map.as_ptr().cast(), BLOCK_BYTES * BLOCKS) };
    }
}

fn set_filter(socket: &OwnedFd, program: &[Instruction]) -> Result<(), Errno> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // `Instruction` has the kernel's layout. The kernel reads `len` instructions and keeps a copy.
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

fn set<T>(socket: &OwnedFd, level: i32, name: i32, value: &T) -> Result<(), Errno> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes, which is the whole value. All memory that the value points to outlives the call.
    let said = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length) };
    if said < 0 { Err(last()) } else { Ok(()) }
}

fn last() -> Errno {
    Errno::from(&std::io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use proptest::prelude::*;

    use super::*;

    /// Makes a block in the kernel's layout with these packets.
    fn block(packets: &[Vec<u8>]) -> Vec<u8> {
        let mut block = vec![0; 48];
        for (nth, packet) in packets.iter().enumerate() {
            let next = (HEAD_BYTES + 20 + packet.len()).next_multiple_of(8);
            let is_last = nth + 1 == packets.len();
            let mut head = Vec::new();
            for word in
                [if is_last { 0 } else { next as u32 }, 5, nth as u32, packet.len() as u32, packet.len() as u32, 0]
            {
                head.extend(word.to_ne_bytes());
            }
            head.extend(70_u16.to_ne_bytes());
            head.extend(68_u16.to_ne_bytes());
            head.resize(HEAD_BYTES, 0);
            head.extend([0; 4]);
            head.extend(3_u32.to_ne_bytes());
            head.resize(HEAD_BYTES + 20, 0);
            head.extend(packet);
            head.resize(next, 0);
            block.extend(head);
        }
        block[COUNT_AT..COUNT_AT + 4].copy_from_slice(&(packets.len() as u32).to_ne_bytes());
        block[FIRST_AT..FIRST_AT + 4].copy_from_slice(&48_u32.to_ne_bytes());
        block
    }

    fn packet(from: u16, to: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 2];
        for half in [from, to, 12, 0] {
            packet.extend(half.to_be_bytes());
        }
        packet
    }

    #[test]
    fn a_blocks_packets_are_read_in_order() {
        let bytes = block(&[packet(8303, 1), vec![0x45; 30], packet(8303, 2)]);
        let mut read = Vec::new();
        assert_eq!(read_block(&bytes, |packet| read.push(packet)), 1, "one that is no UDP");
        let seen: Vec<_> = read
            .iter()
            .map(|packet| (packet.at_ns, packet.interface, packet.heads.to.to_string(), packet.heads.bytes))
            .collect();
        let expected =
            [(5_000_000_000, 3, "127.0.0.2:1".to_owned(), 4), (5_000_000_002, 3, "127.0.0.2:2".to_owned(), 4)];
        assert_eq!(seen, expected);
        assert_eq!(read_block(&bytes[..60], |_| panic!("it was cut off")), 1, "only as many as fit");
        assert_eq!(read_block(&[], |_| panic!("an empty block has no packets")), 0);
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..400),
            broken in prop::collection::vec((0_usize..400, any::<u8>()), 0..8), is_block in any::<bool>(),
        ) {
            if is_block {
                bytes = block(&[packet(1, 2), packet(3, 4), packet(5, 6)]);
            }
            for (at, byte) in broken {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            let mut seen = 0_u32;
            let odd = read_block(&bytes, |_| seen += 1);
            prop_assert!(seen + odd <= (bytes.len() / HEAD_BYTES) as u32);
            let _ = read_packet(&bytes);
        }
    }

    #[test]
    fn our_own_packets_are_seen_once_and_no_others() {
        let sockets: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let port = |nth: usize| sockets[nth].local_addr().unwrap().port();
        for network in [Network::Own, Network::OfProcess(std::process::id())] {
            let mut packets = match SentPackets::of_ports(&[port(0)], network) {
                Ok(packets) => packets,
                Err(errno) => {
                    assert!(errno.is_denial() || errno == Errno::AFNOSUPPORT, "{errno}");
                    evenkeel_testkit::skipped(format_args!("this user may not see packets ({errno})"));
                    return;
                }
            };
            for length in 1..=5 {
                sockets[0].send_to(&[7; 9][..length], sockets[1].local_addr().unwrap()).unwrap();
                sockets[1].send_to(&[7; 9], sockets[0].local_addr().unwrap()).unwrap();
            }
            let mut seen = Vec::new();
            let deadline_ns = crate::clock::monotonic_ns() + 60_000_000_000;
            while seen.len() < 5 && crate::clock::monotonic_ns() < deadline_ns {
                std::thread::sleep(std::time::Duration::from_millis(5));
                assert_eq!(packets.drain(|packet| seen.push(packet)), 0);
            }
            std::thread::sleep(std::time::Duration::from_millis(3 * u64::from(HANDED_OVER_WITHIN_MS)));
            packets.drain(|packet| seen.push(packet));
            let lengths: Vec<u16> = seen.iter().map(|packet| packet.heads.bytes).collect();
            assert_eq!(lengths, [1, 2, 3, 4, 5], "{seen:?}");
            assert!(seen.iter().all(|packet| packet.heads.from_port == port(0) && packet.heads.to.port() == port(1)));
            assert!(seen.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns), "{seen:?}");
            assert_eq!(packets.counts(), Ok(PacketCounts { packets: 5, lost: 0 }));
        }
        assert_eq!(SentPackets::of_ports(&[], Network::Own).unwrap_err(), Errno::INVAL);
    }
}
