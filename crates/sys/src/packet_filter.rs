//! A packet filter that the kernel runs (classic BPF). It accepts UDP packets that this machine sends from certain ports.
//! The filter is built here rather than compiled from a text, because it is short and must be correct.
//! A test compares the filter with a plain parser on the same packets.

/// One instruction, as `struct sock_filter` lays it out.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// How many instructions to skip if the comparison holds.
    pub if_true: u8,
    /// How many instructions to skip if the comparison does not hold.
    pub if_false: u8,
    /// The operand.
    pub k: u32,
}

/// The maximum number of ports. No server uses more.
pub const PORTS_MAX: usize = 64;
/// How many bytes of a packet to keep: the longest IPv4 header, or an IPv6 header, plus a UDP header.
pub const KEPT_BYTES: u32 = 68;

/// The operations: `BPF_LD | BPF_B | BPF_ABS` and so on.
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_HALF_AT_X: u16 = 0x48;
/// X becomes four times the lower half of the byte: the length of an IPv4 header.
const HEAD_TO_X: u16 = 0xb1;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ANY: u16 = 0x45;
const RETURN: u16 = 0x06;

/// The kernel's metadata of a packet: `SKF_AD_OFF` plus the offsets of the protocol and the packet type.
const PROTOCOL_AT: u32 = 0xffff_f000;
const KIND_AT: u32 = 0xffff_f004;
/// `PACKET_OUTGOING`.
const OUTGOING: u32 = 4;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const UDP: u32 = 17;
const FRAGMENT_OFFSET: u32 = 0x1fff;

/// The program for these ports. Ports beyond [`PORTS_MAX`] are ignored.
pub fn sent_from(ports: &[u16]) -> Vec<Instruction> {
    /// The positions in the program where the IPv6 branch starts, and where the ports start.
    const IPV6_AT: u8 = 12;
    const PORTS_AT: u8 = 15;
    let ports = &ports[..ports.len().min(PORTS_MAX)];
    // Both targets fit into the eight bits of a jump, because of PORTS_MAX.
    let drop_at = PORTS_AT + ports.len() as u8;
    let keep_at = drop_at + 1;
    // A jump counts from the next instruction.
    let to = |target: u8, at: u8| target - at - 1;
    let step = |code, k| Instruction { code, if_true: 0, if_false: 0, k };
    let must_be = |at: u8, k| Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false: to(drop_at, at), k };
    let mut program = vec![
        step(LOAD_BYTE, KIND_AT),
        must_be(1, OUTGOING),
        step(LOAD_HALF, PROTOCOL_AT),
        Instruction { code: JUMP_IF_EQUAL, if_true: to(IPV6_AT, 3), if_false: 0, k: IPV6 },
        must_be(4, IPV4),
        step(LOAD_BYTE, 9),
        must_be(6, UDP),
        step(LOAD_HALF, 6),
        // Later fragments of a packet have no ports, so drop them.
        Instruction { code: JUMP_IF_ANY, if_true: to(drop_at, 8), if_false: 0, k: FRAGMENT_OFFSET },
        step(HEAD_TO_X, 0),
        step(LOAD_HALF_AT_X, 0),
        step(JUMP, u32::from(to(PORTS_AT, 11))),
        step(LOAD_BYTE, 6),
        must_be(13, UDP),
        step(LOAD_HALF, 40),
    ];
    for (at, port) in (PORTS_AT..).zip(ports) {
        program.push(Instruction { code: JUMP_IF_EQUAL, if_true: to(keep_at, at), if_false: 0, k: u32::from(*port) });
    }
    program.extend([step(RETURN, 0), step(RETURN, KEPT_BYTES)]);
    program
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet_ring::read_packet;

    /// Interprets the instructions that the program uses, and returns the result. `None` if the kernel would reject the program.
    fn run(program: &[Instruction], kind: u8, protocol: u16, packet: &[u8]) -> Option<u32> {
        let (mut a, mut x, mut at) = (0_u32, 0_usize, 0_usize);
        let byte = |at: usize| packet.get(at).copied().map(u32::from);
        let half = |at: usize| Some(byte(at)? << 8 | byte(at + 1)?);
        loop {
            let Instruction { code, if_true, if_false, k } = *program.get(at)?;
            at += 1;
            let jump = |holds: bool| usize::from(if holds { if_true } else { if_false });
            let loaded = match (code, k) {
                (LOAD_BYTE, KIND_AT) => Some(u32::from(kind)),
                (LOAD_HALF, PROTOCOL_AT) => Some(u32::from(protocol)),
                (LOAD_BYTE, _) => byte(k as usize),
                (LOAD_HALF, _) => half(k as usize),
                (LOAD_HALF_AT_X, _) => half(x + k as usize),
                (HEAD_TO_X, _) => {
                    // If a packet ends before the loaded bytes, the kernel drops it.
                    let Some(head) = byte(k as usize) else { return Some(0) };
                    x = (head & 15) as usize * 4;
                    continue;
                }
                (JUMP, _) => {
                    at += k as usize;
                    continue;
                }
                (JUMP_IF_EQUAL, _) => {
                    at += jump(a == k);
                    continue;
                }
                (JUMP_IF_ANY, _) => {
                    at += jump(a & k != 0);
                    continue;
                }
                (RETURN, _) => return Some(k),
                _ => return None,
            };
            match loaded {
                Some(value) => a = value,
                None => return Some(0),
            }
        }
    }

    fn udp(is_v6: bool, options: usize, source: u16, fragment: u16) -> Vec<u8> {
        let mut packet = match is_v6 {
            true => {
                let mut head = vec![0x60, 0, 0, 0, 0, 12, 17, 64];
                head.resize(40, 1);
                head
            }
            false => {
                let mut head = vec![0x45 + options as u8, 0, 0, 32];
                head.extend([0, 0]);
                head.extend(fragment.to_be_bytes());
                head.extend([64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 2]);
                head.resize(20 + options * 4, 0);
                head
            }
        };
        packet.extend(source.to_be_bytes());
        packet.extend([0x12, 0x34, 0, 12, 0, 0, 1, 2, 3, 4]);
        packet
    }

    #[test]
    fn the_ports_packets_pass_and_no_others() {
        for ports in [&[8303_u16][..], &[1, 2, 27960], &[], &(1..=200).collect::<Vec<_>>()] {
            let program = sent_from(ports);
            assert!(program.len() < 4096);
            for (source, is_v6, options, kind, fragment) in [
                (8303, false, 0, 4, 0),
                (8303, true, 0, 4, 0),
                (27960, false, 5, 4, 0x4000),
                (27960, true, 0, 4, 0),
                (8303, false, 0, 0, 0),
                (64, false, 0, 4, 0),
                (65, true, 0, 4, 0),
                (2, false, 0, 4, 5),
            ] {
                let packet = udp(is_v6, options, source, fragment);
                let protocol = if is_v6 { IPV6 } else { IPV4 } as u16;
                let counts =
                    ports[..ports.len().min(PORTS_MAX)].contains(&source) && kind == 4 && fragment & 0x1fff == 0;
                let expected = if counts { KEPT_BYTES } else { 0 };
                assert_eq!(run(&program, kind, protocol, &packet), Some(expected), "{ports:?} {source} {is_v6}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_filter_agrees_with_a_plain_parser(
            ports in prop::collection::vec(any::<u16>(), 0..70), kind in 0_u8..7, which in 0_usize..70,
            (is_v6, options, fragment) in (any::<bool>(), 0_usize..11, prop_oneof![Just(0_u16), Just(0x4000), any::<u16>()]),
            broken in prop::option::of((0_usize..60, any::<u8>())), cut in 0_usize..80,
        ) {
            let source = ports.get(which).copied().unwrap_or(77);
            let mut packet = udp(is_v6, options, source, fragment);
            if let Some((at, byte)) = broken && let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
            packet.truncate(cut.max(1));
            let protocol = if is_v6 { IPV6 } else { IPV4 } as u16;
            let said = run(&sent_from(&ports), kind, protocol, &packet);
            let read = read_packet(&packet);
            let is_one = read.is_some_and(|read| ports[..ports.len().min(PORTS_MAX)].contains(&read.from_port));
            // The parser checks more than the filter, so it may refuse packets that the filter passes. It accepts nothing that the filter drops.
            if kind != 4 {
                prop_assert_eq!(said, Some(0));
            } else if is_one && read.is_some_and(|read| read.to.is_ipv6() == is_v6) {
                prop_assert_eq!(said, Some(KEPT_BYTES));
            } else {
                prop_assert!(said.is_some());
            }
        }

        #[test]
        fn every_jump_lands(ports in prop::collection::vec(any::<u16>(), 0..70)) {
            let program = sent_from(&ports);
            for (at, step) in program.iter().enumerate() {
                let farthest = at + 1 + usize::from(step.if_true.max(step.if_false));
                prop_assert!(farthest < program.len() || step.code == RETURN, "{at}");
            }
            prop_assert_eq!(program.last().unwrap().code, RETURN);
        }
    }
}
