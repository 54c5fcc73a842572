//! Packets, chunks and numbers of the protocol on the wire: Teeworlds 0.6 with DDNet's token after each payload.

use super::huffman::decompress;

/// The maximum length of a packet in bytes, including headers.
pub(super) const PACKET_BYTES_MAX: usize = 1400;
const HEADER_BYTES: usize = 3;
const TOKEN_BYTES: usize = 4;
/// Numbers of reliable chunks wrap at this value.
pub(super) const SEQUENCES: u16 = 1 << 10;
const NUMBER_BYTES_MAX: usize = 5;

const COMPRESSED: u8 = 1 << 7;
const RESEND: u8 = 1 << 6;
const CONNLESS: u8 = 1 << 5;
const CONTROL: u8 = 1 << 4;
/// The flag of a reliable chunk. The chunk has a number, and is repeated until the number is acknowledged.
const VITAL: u8 = 1 << 6;

pub(super) const KEEP_ALIVE: u8 = 0;
pub(super) const CONNECT: u8 = 1;
pub(super) const CONNECT_ACCEPT: u8 = 2;
pub(super) const ACCEPT: u8 = 3;
pub(super) const CLOSE: u8 = 4;
/// In the first packets of a connection, this text shows that the sender uses tokens.
pub(super) const TOKEN_MAGIC: &[u8] = b"TKEN";

/// Each side recognizes the other side by its token. So a packet with a forged sender address is not accepted.
pub(super) type Token = [u8; TOKEN_BYTES];
/// The token of a side that has no token yet.
pub(super) const NO_TOKEN: Token = [0xff; TOKEN_BYTES];

/// A parsed packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) is_control: bool,
    /// Whether the other side reports a missing chunk.
    pub(super) wants_resend: bool,
    /// The newest of our reliable chunks that the other side has received.
    pub(super) ack: u16,
    pub(super) chunks: u8,
    pub(super) token: Token,
    pub(super) payload: Vec<u8>,
}

impl Packet {
    /// `None` if the bytes are not a packet of a connection.
    pub(super) fn parse(bytes: &[u8]) -> Option<Packet> {
        let (&[first, second, chunks], payload) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        if bytes.len() > PACKET_BYTES_MAX || first & CONNLESS != 0 {
            return None;
        }
        let mut text;
        if first & COMPRESSED != 0 {
            text = Vec::with_capacity(PACKET_BYTES_MAX);
            decompress(payload, &mut text, PACKET_BYTES_MAX)?;
        } else {
            text = payload.to_vec();
        }
        let token = *text.last_chunk::<TOKEN_BYTES>()?;
        text.truncate(text.len() - TOKEN_BYTES);
        Some(Packet {
            is_control: first & CONTROL != 0,
            wants_resend: first & RESEND != 0,
            ack: u16::from(first & 3) << 8 | u16::from(second),
            chunks,
            token,
            payload: text,
        })
    }

    /// The complete chunks in order.
    pub(super) fn chunks(&self) -> Chunks<'_> {
        Chunks { rest: &self.payload, left: if self.is_control { 0 } else { self.chunks } }
    }
}

/// A chunk: a message, and its number if it is reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    pub(super) sequence: Option<u16>,
    pub(super) message: &'a [u8],
}

pub(super) struct Chunks<'a> {
    rest: &'a [u8],
    left: u8,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (&[first, second], mut rest) = self.rest.split_first_chunk::<2>()?;
        let bytes = usize::from(first & 0x3f) << 4 | usize::from(second & 0x0f);
        let mut sequence = None;
        if first & VITAL != 0 {
            let (third, behind) = rest.split_first()?;
            sequence = Some((u16::from(second & 0xf0) << 2 | u16::from(*third)) % SEQUENCES);
            rest = behind;
        }
        let (message, rest) = rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(Chunk { sequence, message })
    }
}

/// Builds a packet, to which chunks are added.
#[derive(Debug, Default)]
pub(super) struct Writer {
    payload: Vec<u8>,
    chunks: u8,
}

impl Writer {
    /// Adds a chunk. Returns `false` if there is no space left. The chunk then belongs in the next packet.
    pub(super) fn chunk(&mut self, message: &[u8], sequence: Option<u16>) -> bool {
        let room = PACKET_BYTES_MAX - HEADER_BYTES - TOKEN_BYTES;
        if self.payload.len() + 3 + message.len() > room || message.len() >= 1 << 10 || self.chunks == u8::MAX {
            return false;
        }
        let (high, low) = ((message.len() >> 4) as u8 & 0x3f, message.len() as u8 & 0x0f);
        match sequence {
            Some(sequence) => {
                self.payload.extend([VITAL | high, (sequence >> 2) as u8 & 0xf0 | low, sequence as u8]);
            }
            None => self.payload.extend([high, low]),
        }
        self.payload.extend_from_slice(message);
        self.chunks += 1;
        true
    }

    /// The finished packet.
    pub(super) fn finish(&self, ack: u16, token: Token) -> Vec<u8> {
        packet(0, ack, self.chunks, &self.payload, token)
    }
}

/// Builds a packet that controls the connection itself.
pub(super) fn control(message: u8, more: &[u8], ack: u16, token: Token) -> Vec<u8> {
    packet(CONTROL, ack, 0, &[&[message], more].concat(), token)
}

fn packet(flags: u8, ack: u16, chunks: u8, payload: &[u8], token: Token) -> Vec<u8> {
    let mut bytes = vec![flags | (ack >> 8) as u8 & 3, ack as u8, chunks];
    bytes.extend_from_slice(payload);
    bytes.extend(token);
    bytes
}

/// Appends a number. The first byte has the sign and the lowest six bits, and each further byte has the next seven bits.
pub(super) fn put_number(number: i32, to: &mut Vec<u8>) {
    let sign = if number < 0 { 0x40 } else { 0 };
    let mut rest = (if number < 0 { !number } else { number }) as u32;
    let mut byte = sign | (rest & 0x3f) as u8;
    rest >>= 6;
    while rest != 0 {
        to.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    to.push(byte);
}

/// Appends a text with a final zero.
pub(super) fn put_text(text: &str, to: &mut Vec<u8>) {
    to.extend(text.bytes().filter(|byte| *byte != 0));
    to.push(0);
}

/// Reads a number and removes its bytes from the front.
pub(super) fn take_number(from: &mut &[u8]) -> Option<i32> {
    let mut number = 0_u32;
    let mut is_negative = false;
    for index in 0..NUMBER_BYTES_MAX {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        if index == 0 {
            is_negative = byte & 0x40 != 0;
            number = u32::from(byte & 0x3f);
        } else {
            // A number has 32 bits, so the fifth byte has the last four bits.
            number |= u32::from(byte & 0x7f) << (6 + 7 * (index - 1));
        }
        if byte & 0x80 == 0 {
            break;
        }
    }
    let number = number as i32;
    Some(if is_negative { !number } else { number })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::huffman::compress;
    use super::*;

    #[test]
    fn numbers_are_as_documented() {
        for (number, bytes) in
            [(0, &[0_u8][..]), (1, &[1]), (-1, &[0x40]), (64, &[0x80, 1]), (63, &[0x3f]), (-65, &[0xc0, 1])]
        {
            let mut packed = Vec::new();
            put_number(number, &mut packed);
            assert_eq!(packed, bytes, "{number}");
        }
        for cut in [&[][..], &[0x80], &[0xff, 0xff]] {
            assert_eq!(take_number(&mut &*cut), None, "{cut:?}");
        }
    }

    #[test]
    fn a_packet_of_two_chunks_comes_back_compressed_or_not() {
        let mut writer = Writer::default();
        assert!(writer.chunk(b"vital", Some(0x3a5)) && writer.chunk(&[9; 300], None));
        let plain = writer.finish(0x2f1, *b"abcd");
        let mut packed = vec![plain[0] | COMPRESSED, plain[1], plain[2]];
        packed.extend(compress(&plain[3..]));
        for bytes in [plain, packed] {
            let packet = Packet::parse(&bytes).unwrap();
            assert_eq!((packet.ack, packet.token, packet.is_control), (0x2f1, *b"abcd", false));
            let chunks: Vec<_> = packet.chunks().map(|chunk| (chunk.sequence, chunk.message.len())).collect();
            assert_eq!(chunks, [(Some(0x3a5), 5), (None, 300)]);
        }
    }

    #[test]
    fn chunks_that_do_not_fit_are_left() {
        let mut writer = Writer::default();
        assert!(!writer.chunk(&[0; 1024], None));
        assert!(writer.chunk(&[0; 1000], None) && !writer.chunk(&[0; 400], None));
        assert!(writer.finish(0, NO_TOKEN).len() <= PACKET_BYTES_MAX);
    }

    #[test]
    fn invalid_packets_are_refused() {
        let table: [&[u8]; 5] = [&[], &[0, 0, 0], &[0, 0, 0, 1, 2, 3], &[0xff; 20], &[COMPRESSED, 0, 1, 0xff]];
        for bytes in table {
            assert_eq!(Packet::parse(bytes), None, "{bytes:?}");
        }
        assert_eq!(Packet::parse(&vec![0; PACKET_BYTES_MAX + 1]), None);
        // The packet has fewer chunks than it announces, and one chunk is cut off.
        let packet = Packet::parse(&[0, 0, 9, 0, 2, 7, 7, 0x3f, 0x0f, 1, 2, 3, 4, 5]).unwrap();
        assert_eq!(packet.chunks().count(), 1);
    }

    proptest! {
        #[test]
        fn any_number_comes_back(number in any::<i32>()) {
            let mut packed = Vec::new();
            put_number(number, &mut packed);
            prop_assert!(packed.len() <= NUMBER_BYTES_MAX);
            let mut rest = &*packed;
            prop_assert_eq!(take_number(&mut rest), Some(number));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
            if let Some(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.payload.len() <= PACKET_BYTES_MAX);
                let taken: usize = packet.chunks().map(|chunk| chunk.message.len() + 2).sum();
                prop_assert!(taken <= packet.payload.len());
            }
        }
    }
}
