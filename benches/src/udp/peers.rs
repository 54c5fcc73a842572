//! The alternatives of a server: a plain loop, quinn-udp, io_uring.

use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use anyhow::anyhow;
use evenkeel_bench_uring::{Receiver, Sender};
use evenkeel_sys::udp::{merge_received, set_receive_buffer_bytes};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};

use super::{BUFFER_BYTES, BYTES, Contender, PEERS, seen};

/// The size of a buffer for merged packets.
const MERGED_BYTES: usize = 65_536;

fn bind() -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_nonblocking(true)?;
    set_receive_buffer_bytes(&socket, BUFFER_BYTES).map_err(|errno| anyhow!("ask for a receive buffer: {errno}"))?;
    Ok(socket)
}

/// One packet per call.
pub(super) struct Plain {
    socket: UdpSocket,
    bytes: Vec<u8>,
}

impl Plain {
    pub(super) fn new() -> anyhow::Result<Plain> {
        Ok(Plain { socket: bind()?, bytes: vec![0; 1500] })
    }
}

impl Contender for Plain {
    fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.socket.local_addr()?)
    }

    fn receive(&mut self) -> anyhow::Result<usize> {
        let mut count = 0;
        while let Ok((length, from)) = self.socket.recv_from(&mut self.bytes) {
            seen(from, &self.bytes[..length]);
            count += 1;
        }
        Ok(count)
    }

    fn send(&mut self, to: &[SocketAddr], each: usize) -> anyhow::Result<()> {
        for to in to {
            for _ in 0..each {
                self.socket.send_to(&[7; BYTES], to)?;
            }
        }
        Ok(())
    }

    fn echo(&mut self) -> anyhow::Result<usize> {
        let mut count = 0;
        while let Ok((length, from)) = self.socket.recv_from(&mut self.bytes) {
            self.socket.send_to(&self.bytes[..length], from)?;
            count += 1;
        }
        Ok(count)
    }
}

/// quinn's own sockets, with merging and splitting.
pub(super) struct Quinn {
    socket: UdpSocket,
    state: UdpSocketState,
    buffers: Vec<Vec<u8>>,
}

impl Quinn {
    pub(super) fn new() -> anyhow::Result<Quinn> {
        let socket = bind()?;
        let state = UdpSocketState::new((&socket).into())?;
        // As in quinn's endpoint: space for merged packets plus a cache line. So the starts of the buffers do not compete for the same
        // cache sets.
        let buffers = (0..BATCH_SIZE).map(|_| vec![0; state.gro_segments() * 1500 + 64]).collect();
        Ok(Quinn { socket, state, buffers })
    }

    /// Receives all queued packets, and passes each to `each`.
    fn drain(&mut self, mut each: impl FnMut(&UdpSocketState, &UdpSocket, SocketAddr, &[u8])) -> anyhow::Result<usize> {
        let Quinn { socket, state, buffers } = self;
        let (mut metas, mut count) = ([RecvMeta::default(); BATCH_SIZE], 0);
        loop {
            let mut slices = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer));
            let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                std::array::from_fn(|_| slices.next().unwrap_or(IoSliceMut::new(&mut [])));
            let got = match state.recv((&*socket).into(), &mut slices, &mut metas) {
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(count),
                Err(error) => return Err(error.into()),
            };
            for (meta, slice) in metas.iter().zip(&slices).take(got) {
                for packet in slice[..meta.len].chunks(meta.stride.max(1)) {
                    each(state, socket, meta.addr, packet);
                    count += 1;
                }
            }
        }
    }
}

impl Contender for Quinn {
    fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.socket.local_addr()?)
    }

    fn receive(&mut self) -> anyhow::Result<usize> {
        self.drain(|_, _, from, packet| seen(from, packet))
    }

    fn send(&mut self, to: &[SocketAddr], each: usize) -> anyhow::Result<()> {
        let contents = [7; 64 * BYTES];
        let contents = contents.get(..each * BYTES).ok_or_else(|| anyhow!("too many packets"))?;
        for to in to {
            let segment_size = (each > 1).then_some(BYTES);
            let transmit = Transmit { destination: *to, ecn: None, contents, segment_size, src_ip: None };
            self.state.try_send((&self.socket).into(), &transmit)?;
        }
        Ok(())
    }

    fn echo(&mut self) -> anyhow::Result<usize> {
        let mut said = Ok(());
        let count = self.drain(|state, socket, from, packet| {
            let transmit =
                Transmit { destination: from, ecn: None, contents: packet, segment_size: None, src_ip: None };
            if let Err(error) = state.try_send(socket.into(), &transmit) {
                said = Err(error);
            }
        })?;
        said?;
        Ok(count)
    }
}

/// io_uring by the crate of that name.
pub(super) struct Uring {
    socket: UdpSocket,
    receiver: Receiver,
    sender: Sender,
    answers: Vec<(SocketAddr, [u8; BYTES])>,
}

impl Uring {
    /// A contender on io_uring. If a peer sends several packets, the kernel merges them before they are received.
    pub(super) fn new(merges: bool) -> anyhow::Result<Uring> {
        let socket = bind()?;
        if merges {
            merge_received(&socket).map_err(|errno| anyhow!("merge packets: {errno}"))?;
        }
        let receiver = Receiver::new(&socket, if merges { MERGED_BYTES } else { 1500 })?;
        let sender = Sender::new(&socket)?;
        Ok(Uring { socket, receiver, sender, answers: Vec::with_capacity(PEERS) })
    }
}

impl Contender for Uring {
    fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.socket.local_addr()?)
    }

    fn receive(&mut self) -> anyhow::Result<usize> {
        let mut count = 0;
        self.receiver.drain(|from, bytes, segment| {
            let segment = if segment == 0 { bytes.len().max(1) } else { segment };
            for packet in bytes.chunks(segment) {
                seen(from, packet);
                count += 1;
            }
        })?;
        Ok(count)
    }

    fn send(&mut self, to: &[SocketAddr], each: usize) -> anyhow::Result<()> {
        let contents = [7; 64 * BYTES];
        let contents = contents.get(..each * BYTES).ok_or_else(|| anyhow!("too many packets"))?;
        let messages: [(SocketAddr, &[u8]); PEERS] = std::array::from_fn(|at| (to[at], contents));
        self.sender.send(&messages, if each > 1 { BYTES as u16 } else { 0 })
    }

    fn echo(&mut self) -> anyhow::Result<usize> {
        self.answers.clear();
        let answers = &mut self.answers;
        self.receiver.drain(|from, bytes, _| {
            let mut copy = [0; BYTES];
            copy.copy_from_slice(bytes);
            answers.push((from, copy));
        })?;
        let messages: Vec<(SocketAddr, &[u8])> =
            self.answers.iter().map(|(to, bytes)| (*to, bytes.as_slice())).collect();
        for some in messages.chunks(PEERS) {
            self.sender.send(some, 0)?;
        }
        Ok(messages.len())
    }
}
