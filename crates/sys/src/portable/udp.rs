//! Batches of packets. Only Linux has them, so this module opens no socket.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::ops::Range;

use crate::Errno;

/// The maximum number of packets per call.
pub const BATCH: usize = 64;
/// The maximum number of sockets that share an address.
pub const SHARDS_MAX: usize = 64;

/// Whether other sockets may have the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only this socket has the address.
    Alone,
    /// Other sockets of the same user may have the address.
    SameUser,
}

/// Opens none.
///
/// # Errors
/// Always `EOPNOTSUPP`.
pub fn open(_: SocketAddr, _: Sharing) -> Result<UdpSocket, Errno> {
    Err(Errno::OPNOTSUPP)
}

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The payload.
    pub bytes: &'a [u8],
    /// The packet's source address, which may be forged.
    pub from: Option<SocketAddr>,
    /// When the kernel first had the packet, on the wall clock in nanoseconds.
    pub stamp_ns: Option<u64>,
    /// The size of each packet, if the kernel merged several packets. The last packet may be shorter.
    pub segment_bytes: Option<NonZeroU16>,
    /// How many packets the socket had dropped when this packet arrived.
    pub dropped: Option<u32>,
    /// Whether the packet was longer than the buffer.
    pub truncated: bool,
}

/// Receives nothing.
#[derive(Debug)]
pub struct Inbox(());

impl Inbox {
    /// An inbox for packets of this many bytes.
    pub fn new(_: usize) -> Inbox {
        Inbox(())
    }

    /// An inbox with space for this many packets.
    pub fn with_room(_: usize, _: usize) -> Inbox {
        Inbox(())
    }

    /// Receives nothing.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn receive_at_most(&mut self, _: &UdpSocket, _: usize) -> Result<usize, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Receives nothing.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn receive_one(&mut self, _: &UdpSocket) -> Result<usize, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Always `None`, because this system receives nothing.
    pub fn packet(&self, _: usize) -> Option<Packet<'_>> {
        None
    }
}

/// Receives by one standing request. No value of this type exists on this system.
#[cfg(feature = "io-uring")]
#[derive(Debug)]
pub enum RingInbox {}

#[cfg(feature = "io-uring")]
impl RingInbox {
    /// Always refused: only Linux has io_uring.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn new(_: &UdpSocket, _: usize, _: usize) -> Result<RingInbox, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Receives nothing.
    ///
    /// # Errors
    /// None.
    pub fn receive(&mut self) -> Result<(), Errno> {
        match *self {}
    }

    /// Whether there is a packet.
    pub fn has_packet(&self) -> bool {
        match *self {}
    }

    /// The packet.
    pub fn packet(&self) -> Option<Packet<'_>> {
        match *self {}
    }

    /// Moves to the next packet.
    pub fn advance(&mut self) {
        match *self {}
    }
}

/// Sends nothing.
#[derive(Debug)]
pub struct Sender(());

impl Sender {
    /// A sender for messages with this many parts in all.
    pub fn new(_: usize) -> Sender {
        Sender(())
    }

    /// No messages yet.
    pub fn load<'a>(&'a mut self) -> Load<'a> {
        Load { messages: 0, sender: self }
    }
}

/// Messages to send.
#[derive(Debug)]
pub struct Load<'a> {
    messages: usize,
    #[expect(dead_code, reason = "it lends the parts for as long as on Linux")]
    sender: &'a mut Sender,
}

impl<'a> Load<'a> {
    /// The number of messages.
    pub fn len(&self) -> usize {
        self.messages
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Adds a message.
    pub fn add(&mut self, _: Option<SocketAddr>, _: Option<u16>, _: impl Iterator<Item = &'a [u8]>) -> bool {
        self.messages += 1;
        true
    }

    /// Sends nothing.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn send(&mut self, _: &UdpSocket, _: Range<usize>) -> Result<usize, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Sends nothing.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn send_one(&mut self, _: &UdpSocket, _: usize) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }
}

/// An undelivered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The packet's destination.
    pub to: Option<SocketAddr>,
    /// Why the packet did not arrive.
    pub why: Errno,
}

/// Always refused: this system reports no undelivered packets.
///
/// # Errors
/// Always `EOPNOTSUPP`.
pub fn undelivered(_: &UdpSocket) -> Result<Option<Undelivered>, Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Not counted.
pub fn dropped(_: &UdpSocket) -> Option<u32> {
    None
}

/// Not known.
///
/// # Errors
/// Always `EOPNOTSUPP`.
pub fn receive_buffer_bytes(_: &UdpSocket) -> Result<u64, Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Not known.
///
/// # Errors
/// Always `EOPNOTSUPP`.
pub fn set_busy_poll_us(_: &UdpSocket, _: u32) -> Result<u32, Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Not done.
///
/// # Errors
/// Always `EOPNOTSUPP`.
pub fn shard_by_cpu(_: &UdpSocket, _: &[usize]) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Options of a socket. A program cannot set them on this system.
macro_rules! refused {
    ($($name:ident($($argument:ty),*))*) => { $(
        /// Not done.
        ///
        /// # Errors
        /// Always `EOPNOTSUPP`.
        pub fn $name(_: &UdpSocket $(, _: $argument)*) -> Result<(), Errno> {
            Err(Errno::OPNOTSUPP)
        }
    )* };
}

refused! {
    merge_received()
    split_sent(u16)
    report_dropped()
    keep_undelivered()
    stamp_arrivals()
    set_receive_buffer_bytes(u32)
    force_receive_buffer_bytes(u32)
}
