//! `Batch`: packets that wait to be sent, and which of them go together. The code is pure, and never allocates after the start.
//!
//! Several packets to one peer can go as one message that the kernel splits (`UDP_SEGMENT`).
//! All packets but the last must have the same length, and the last must not be longer.
//! The packets of each peer keep their order. Packets of different peers may change places.

use std::net::{IpAddr, SocketAddr};

/// The maximum number of packets into which the kernel splits a message (`UDP_MAX_SEGMENTS`; 128 since Linux 6.9).
pub(crate) const SEGMENTS_MAX: u32 = 64;
/// The maximum number of bytes of one message: this many fit into one packet of IPv4 or IPv6, with options.
const MESSAGE_BYTES_MAX: usize = 65_000;
/// If at least this many messages have the same segment size, one system call sets that size for the socket.
/// The messages then need not carry the size.
const COMMON_MIN: usize = 8;
const NONE: u32 = u32::MAX;

/// How packets are grouped into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Each packet is a message of its own.
    Alone,
    /// Packets of one length to one peer form a message. Packets longer than this many bytes are messages of their own.
    ByPeer { segment_bytes_max: u16 },
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    start: u32,
    length: u32,
    next: u32,
}

/// The packets of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) to: SocketAddr,
    pub(crate) packets: u32,
    pub(crate) bytes: u32,
    segment_bytes: u32,
    first: u32,
    last: u32,
    is_closed: bool,
}

impl Group {
    /// The size of the segments into which the kernel splits the message. 0 for a single packet.
    pub(crate) fn segment_bytes(&self) -> u16 {
        if self.packets > 1 { u16::try_from(self.segment_bytes).unwrap_or(0) } else { 0 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// If this number differs from the batch's epoch, the slot is empty.
    epoch: u32,
    group: u32,
}

/// Packets that wait to be sent.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    used: usize,
    packets: Vec<Queued>,
    packets_max: usize,
    groups: Vec<Group>,
    /// How many of the groups were already sent.
    gone: usize,
    grouping: Grouping,
    /// The latest group of each peer.
    slots: Vec<Slot>,
    epoch: u32,
    /// A secret for the hash of addresses, so that nobody can choose addresses that collide.
    key: u64,
}

/// The batch has no room for the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Batch {
    /// An empty batch with room for `packets` packets and `bytes` bytes.
    pub(crate) fn new(packets: usize, bytes: usize, grouping: Grouping, key: u64) -> Batch {
        let packets = packets.clamp(1, 1 << 16);
        let slots = (packets * 2).next_power_of_two();
        Batch {
            bytes: vec![0; bytes],
            used: 0,
            packets: Vec::with_capacity(packets),
            packets_max: packets,
            groups: Vec::with_capacity(packets),
            gone: 0,
            grouping,
            slots: vec![Slot { epoch: 0, group: NONE }; slots],
            epoch: 1,
            key: key | 1,
        }
    }

    /// Adds a packet.
    pub(crate) fn push(&mut self, to: SocketAddr, bytes: &[u8]) -> Result<(), Full> {
        let room = self.bytes.get_mut(self.used..).and_then(|rest| rest.get_mut(..bytes.len()));
        let Some(room) = room.filter(|_| self.packets.len() < self.packets_max) else { return Err(Full) };
        room.copy_from_slice(bytes);
        let at = self.packets.len() as u32;
        self.packets.push(Queued { start: self.used as u32, length: bytes.len() as u32, next: NONE });
        self.used += bytes.len();
        let Grouping::ByPeer { segment_bytes_max } = self.grouping else {
            self.begin(to, at, bytes.len());
            return Ok(());
        };
        // In most cases the packets to one peer are queued one after another.
        let newest = self.groups.len().wrapping_sub(1) as u32;
        if self.groups.last().is_some_and(|group| group.to == to)
            && self.join(newest, at, bytes.len(), usize::from(segment_bytes_max))
        {
            return Ok(());
        }
        let slot = self.slot_of(to);
        let latest = self.slots.get(slot).filter(|slot| slot.epoch == self.epoch).map_or(NONE, |slot| slot.group);
        if !self.join(latest, at, bytes.len(), usize::from(segment_bytes_max)) {
            let group = self.groups.len() as u32;
            self.begin(to, at, bytes.len());
            if let Some(slot) = self.slots.get_mut(slot) {
                *slot = Slot { epoch: self.epoch, group };
            }
        }
        Ok(())
    }

    fn begin(&mut self, to: SocketAddr, at: u32, length: usize) {
        let length = length as u32;
        // In a message of several packets, an empty packet would be lost.
        let is_closed = length == 0;
        let group = Group { to, packets: 1, bytes: length, segment_bytes: length, first: at, last: at, is_closed };
        self.groups.push(group);
    }

    /// Adds the packet to this group if it fits, and returns whether it fitted.
    fn join(&mut self, group: u32, at: u32, length: usize, segment_bytes_max: usize) -> bool {
        let is_gone = (group as usize) < self.gone;
        let Some(group) = self.groups.get_mut(group as usize).filter(|group| !group.is_closed && !is_gone) else {
            return false;
        };
        let segment = group.segment_bytes as usize;
        let fits = (1..=segment).contains(&length)
            && segment <= segment_bytes_max
            && group.packets < SEGMENTS_MAX
            && group.bytes as usize + length <= MESSAGE_BYTES_MAX;
        if fits {
            if let Some(last) = self.packets.get_mut(group.last as usize) {
                last.next = at;
            }
            group.last = at;
            group.packets += 1;
            group.bytes += length as u32;
            group.is_closed = length < segment;
        }
        fits
    }

    /// The slot of the peer's latest group, or the free slot for its next group.
    fn slot_of(&self, to: SocketAddr) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (hash(to, self.key) as usize) & mask;
        // There are twice as many slots as groups, so one of them is free.
        for _ in 0..self.slots.len() {
            let Some(slot) = self.slots.get(at) else { break };
            let is_other =
                slot.epoch == self.epoch && self.groups.get(slot.group as usize).is_some_and(|group| group.to != to);
            if !is_other {
                break;
            }
            at = (at + 1) & mask;
        }
        at
    }

    /// The messages that were not sent yet, in order.
    pub(crate) fn waiting(&self) -> &[Group] {
        self.groups.get(self.gone..).unwrap_or_default()
    }

    /// How many packets were not sent yet.
    pub(crate) fn packets_waiting(&self) -> usize {
        self.waiting().iter().map(|group| group.packets as usize).sum()
    }

    /// The segment size of most waiting messages, if it is worth a separate system call. Otherwise 0.
    pub(crate) fn common_segment_bytes(&self) -> u16 {
        let waiting = self.waiting();
        let common = waiting.iter().map(Group::segment_bytes).find(|bytes| *bytes > 0).unwrap_or(0);
        let of_it = waiting.iter().filter(|group| group.segment_bytes() == common).count();
        if of_it >= COMMON_MIN && of_it * 2 >= waiting.len() { common } else { 0 }
    }

    /// Removes the first waiting groups, because they were sent. When the last group is removed, all room is free again.
    pub(crate) fn gone(&mut self, groups: usize) {
        self.gone = self.gone.saturating_add(groups).min(self.groups.len());
        if self.gone == self.groups.len() {
            self.packets.clear();
            self.groups.clear();
            (self.used, self.gone) = (0, 0);
            self.epoch = self.epoch.wrapping_add(1);
            if self.epoch == 0 {
                self.slots.fill(Slot { epoch: 0, group: NONE });
                self.epoch = 1;
            }
        }
    }

    /// Removes the first packets of the first waiting group, because they were sent. At least one packet of the group must remain.
    pub(crate) fn gone_of_first(&mut self, packets: u32) {
        for _ in 0..packets {
            let Some(group) = self.groups.get_mut(self.gone) else { return };
            let Some(first) = self.packets.get(group.first as usize) else { return };
            if group.packets <= 1 {
                return;
            }
            group.packets -= 1;
            group.bytes -= first.length;
            group.first = first.next;
            group.segment_bytes = self.packets.get(group.first as usize).map_or(0, |packet| packet.length);
        }
    }

    /// The bytes of a message, packet after packet, in the contiguous pieces in which they are stored.
    pub(crate) fn pieces(&self, group: &Group) -> Pieces<'_> {
        Pieces { batch: self, next: group.first, left: group.packets }
    }

    /// The packets of a message, one by one.
    pub(crate) fn packets(&self, group: &Group) -> impl Iterator<Item = &[u8]> {
        let mut next = group.first;
        (0..group.packets).map_while(move |_| {
            let packet = self.packets.get(next as usize)?;
            next = packet.next;
            self.bytes.get(packet.start as usize..)?.get(..packet.length as usize)
        })
    }

    /// Sets how to group later packets.
    pub(crate) fn regroup(&mut self, grouping: Grouping) {
        self.grouping = grouping;
    }

    pub(crate) fn grouping(&self) -> Grouping {
        self.grouping
    }
}

/// The contiguous pieces in which a message's bytes are stored.
pub(crate) struct Pieces<'a> {
    batch: &'a Batch,
    next: u32,
    left: u32,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let first = self.batch.packets.get(self.next as usize)?;
        let (start, mut end) = (first.start, first.start + first.length);
        self.next = first.next;
        while self.left > 0 {
            let Some(packet) = self.batch.packets.get(self.next as usize).filter(|packet| packet.start == end) else {
                break;
            };
            end += packet.length;
            self.next = packet.next;
            self.left -= 1;
        }
        self.batch.bytes.get(start as usize..end as usize)
    }
}

fn hash(to: SocketAddr, key: u64) -> u64 {
    let ip = match to.ip() {
        IpAddr::V4(ip) => u64::from(ip.to_bits()),
        IpAddr::V6(ip) => {
            let bits = ip.to_bits();
            ((bits >> 64) as u64).wrapping_mul(key).rotate_left(29) ^ (bits as u64)
        }
    };
    let mixed = (ip.rotate_left(16) ^ u64::from(to.port()) ^ key).wrapping_mul(key | 1);
    // The middle bits of the hash depend on most of the input.
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
