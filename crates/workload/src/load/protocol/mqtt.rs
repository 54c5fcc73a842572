//! MQTT 3.1.1 at QoS 0.
//! Each connection publishes to a topic that it has subscribed to, so a message goes to the broker and back.
//! The latency is a round trip, measured on one clock.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use super::{ANSWER_BYTES_MAX, Answer, Found, OddAnswer, Op, Protocol, said};
use crate::load::dataset::Dataset;

const CONNECT: u8 = 0x10;
const CONNACK: u8 = 0x20;
const PUBLISH: u8 = 0x30;
/// The type of a subscription packet, with the flags that the standard requires.
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;

/// An MQTT broker that returns the messages of a load.
#[derive(Debug)]
pub struct Mqtt {
    /// The contents of the messages.
    pub data: Arc<Dataset>,
}

impl Protocol for Mqtt {
    fn ask(&self, op: Op, connection: u32, to: &mut Vec<u8>) {
        let message = self.data.value(op.key);
        let topic = topic(connection);
        to.push(PUBLISH);
        push_length(2 + topic.len() + message.len(), to);
        push_text(&topic, to);
        to.extend_from_slice(message);
    }

    fn parse_answer(&self, op: Op, connection: u32, bytes: &[u8]) -> Result<Option<Answer>, OddAnswer> {
        let Some(Packet { kind, body, end }) = parse_packet(bytes)? else { return Ok(None) };
        let topic = topic(connection);
        let message = body
            .get(2 + topic.len()..)
            .filter(|_| body.get(2..).is_some_and(|rest| rest.starts_with(topic.as_bytes())));
        if kind != PUBLISH || message != Some(self.data.value(op.key)) {
            return Err(format!("not the message that was sent: {}", said(bytes)).into());
        }
        Ok(Some(Answer { bytes: end, found: Found::Hit }))
    }

    fn greet(&self, connection: u32, stream: &mut TcpStream) -> Result<(), OddAnswer> {
        let mut body = Vec::new();
        push_text("MQTT", &mut body);
        // Protocol level 4 means 3.1.1. The flags request a clean session.
        // The keep-alive time of 0 turns keep-alive off, because the load may pause for any time.
        body.extend_from_slice(&[4, 2, 0, 0]);
        push_text(&format!("evenkeel-{connection}"), &mut body);
        let accepted = exchange(stream, CONNECT, &body)?;
        if accepted.0 != CONNACK || accepted.1.get(1) != Some(&0) {
            return Err(format!("it did not accept a connection: {}", said(&accepted.1)).into());
        }
        let mut body = vec![0, 1];
        push_text(&topic(connection), &mut body);
        body.push(0);
        let granted = exchange(stream, SUBSCRIBE, &body)?;
        if granted.0 != SUBACK || granted.1.get(2) != Some(&0) {
            return Err(format!("it did not grant a subscription: {}", said(&granted.1)).into());
        }
        Ok(())
    }
}

fn topic(connection: u32) -> String {
    format!("evenkeel/{connection}")
}

fn push_text(text: &str, to: &mut Vec<u8>) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(text.as_bytes());
}

/// Appends a length: seven bits per byte, the lowest first. The eighth bit marks that another byte follows.
fn push_length(mut length: usize, to: &mut Vec<u8>) {
    loop {
        let low = (length & 0x7f) as u8;
        length >>= 7;
        to.push(if length > 0 { low | 0x80 } else { low });
        if length == 0 {
            return;
        }
    }
}

struct Packet<'a> {
    /// The type of the packet, with its flags.
    kind: u8,
    body: &'a [u8],
    /// The offset of the next packet.
    end: usize,
}

/// Parses the packet at the start of `bytes`. `None` if the packet is incomplete.
fn parse_packet(bytes: &[u8]) -> Result<Option<Packet<'_>>, OddAnswer> {
    let Some(kind) = bytes.first() else { return Ok(None) };
    let (mut length, mut at) = (0_usize, 1);
    // The standard allows at most four bytes for the length.
    for turn in 0..4 {
        let Some(byte) = bytes.get(at) else { return Ok(None) };
        at += 1;
        length |= usize::from(byte & 0x7f) << (7 * turn);
        if byte & 0x80 == 0 {
            if length > ANSWER_BYTES_MAX {
                return Err(said(bytes).into());
            }
            return Ok(bytes.get(at..at + length).map(|body| Packet { kind: *kind, body, end: at + length }));
        }
    }
    Err(said(bytes).into())
}

fn exchange(stream: &mut TcpStream, kind: u8, body: &[u8]) -> Result<(u8, Vec<u8>), OddAnswer> {
    let mut packet = vec![kind];
    push_length(body.len(), &mut packet);
    packet.extend_from_slice(body);
    stream.write_all(&packet).map_err(|error| format!("it takes no packet: {error}"))?;
    let mut heard = Vec::new();
    // A greeting is only a few bytes long. Read one byte at a time, so that no later byte is read.
    for _ in 0..64 {
        let mut byte = [0];
        stream.read_exact(&mut byte).map_err(|error| format!("it sent no answer to a greeting: {error}"))?;
        heard.push(byte[0]);
        if let Some(Packet { kind, body, .. }) = parse_packet(&heard)? {
            return Ok((kind, body.to_vec()));
        }
    }
    Err(said(&heard).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::dataset::Sizes;
    use crate::load::protocol::Kind;

    const GET: Op = Op { key: 3, kind: Kind::Get };

    fn broker(bytes: u32) -> Mqtt {
        Mqtt { data: Arc::new(Dataset::new(10, Sizes::Fixed(8), Sizes::Fixed(bytes), 1).unwrap()) }
    }

    #[test]
    fn a_message_that_comes_back_is_an_answer() {
        for bytes in [5, 200, 20_000] {
            let broker = broker(bytes);
            let mut packet = Vec::new();
            broker.ask(GET, 7, &mut packet);
            let whole = Answer { bytes: packet.len(), found: Found::Hit };
            packet.push(0x30);
            assert_eq!(broker.parse_answer(GET, 7, &packet), Ok(Some(whole)));
            for part in 0..whole.bytes {
                assert_eq!(broker.parse_answer(GET, 7, &packet[..part]), Ok(None));
            }
            assert!(broker.parse_answer(GET, 8, &packet).unwrap_err().to_string().starts_with("not the message"));
            assert!(broker.parse_answer(Op { key: 4, ..GET }, 7, &packet).is_err());
        }
        assert!(broker(5).parse_answer(GET, 7, &[0x30, 0xff, 0xff, 0xff, 0xff]).is_err(), "a length without an end");
        assert!(broker(5).parse_answer(GET, 7, &[0x30, 0xff, 0xff, 0xff, 0x7f]).is_err(), "256 MB");
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = broker(5).parse_answer(GET, 7, &bytes);
            if let Ok(Some(Packet { body, end, .. })) = parse_packet(&bytes) {
                prop_assert!(body.len() < end && end <= bytes.len());
            }
        }

        #[test]
        fn lengths_come_back(length in 0_usize..ANSWER_BYTES_MAX) {
            let mut bytes = vec![0x30];
            push_length(length, &mut bytes);
            let head = bytes.len();
            bytes.resize(head + length, 0);
            prop_assert_eq!(parse_packet(&bytes).unwrap().unwrap().end, head + length);
        }
    }
}
