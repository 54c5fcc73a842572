//! The Huffman code of the protocol. A server compresses each packet that becomes shorter by compression.

use std::sync::LazyLock;

/// The bits of each symbol, from the protocol's documentation.
const CODES: &str = include_str!("huffman.txt");
/// The symbol that marks the end of a text. Smaller symbols are bytes.
const END: u16 = 256;
/// The bit that marks a child as a symbol. Without this bit, the child is the index of a node.
const LEAF: u16 = 1 << 15;

/// The nodes of the code's tree. Each has two children, for a bit of 0 and for a bit of 1. The first node is the root.
static TREE: LazyLock<Vec<[u16; 2]>> = LazyLock::new(|| tree(CODES));

fn tree(codes: &str) -> Vec<[u16; 2]> {
    // The root is the child of no node, so 0 marks a missing child.
    let mut nodes = vec![[0_u16; 2]];
    for (symbol, bits) in codes.lines().filter_map(symbol) {
        let mut node = 0_usize;
        for (index, bit) in bits.iter().enumerate() {
            let is_last = index + 1 == bits.len();
            let next = nodes.len() as u16;
            let Some(child) = nodes.get_mut(node).and_then(|node| node.get_mut(usize::from(*bit == b'1'))) else {
                break;
            };
            if is_last {
                *child = LEAF | symbol;
            } else if *child == 0 {
                *child = next;
                node = usize::from(next);
                nodes.push([0; 2]);
            } else {
                node = usize::from(*child);
            }
        }
    }
    nodes
}

/// Parses a line such as `0a 0101111`.
fn symbol(line: &str) -> Option<(u16, &[u8])> {
    let (symbol, bits) = line.split_once(' ')?;
    let symbol = if symbol == "end" { END } else { u16::from_str_radix(symbol, 16).ok()? };
    Some((symbol, bits.as_bytes()))
}

/// Decompresses a text and appends it to `text`, which may grow to `bytes_max` bytes.
/// `None` if the code is invalid, has no end symbol, or gives too long a text.
pub(super) fn decompress(packed: &[u8], text: &mut Vec<u8>, bytes_max: usize) -> Option<()> {
    let mut node = 0_usize;
    for byte in packed {
        for bit in 0..8 {
            let child = *TREE.get(node)?.get(usize::from(byte >> bit & 1))?;
            match child {
                0 => return None,
                _ if child & LEAF == 0 => node = usize::from(child),
                _ if child & !LEAF == END => return Some(()),
                _ if text.len() >= bytes_max => return None,
                _ => {
                    text.push((child & 0xff) as u8);
                    node = 0;
                }
            }
        }
    }
    None
}

/// Compresses a text as servers do, for tests with a simulated server.
#[cfg(test)]
pub(super) fn compress(text: &[u8]) -> Vec<u8> {
    let codes: std::collections::BTreeMap<u16, &[u8]> = CODES.lines().filter_map(symbol).collect();
    let symbols = text.iter().map(|byte| u16::from(*byte)).chain([END]);
    let bits: Vec<u8> = symbols.flat_map(|symbol| codes[&symbol].iter().map(|bit| bit - b'0')).collect();
    bits.chunks(8).map(|bits| bits.iter().enumerate().fold(0, |byte, (index, bit)| byte | bit << index)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_documents_own_example() {
        let packed = [0b1011_0001, 0b0000_1000, 0b0010_1010, 0b0110_1110, 0, 0];
        let mut text = vec![7];
        decompress(&packed, &mut text, 100).unwrap();
        assert_eq!(text, [7, 0, 1, 0, 2, 0, 0x80, 0]);
        assert_eq!(compress(&text[1..]), packed[..5]);
    }

    #[test]
    fn every_byte_has_a_code_and_no_code_begins_another() {
        let codes: Vec<(u16, &[u8])> = CODES.lines().filter_map(symbol).collect();
        assert_eq!(codes.len(), 257);
        assert!((0..=256).all(|wanted| codes.iter().any(|(symbol, _)| *symbol == wanted)));
        for (a, bits_a) in &codes {
            assert!(codes.iter().all(|(b, bits_b)| a == b || !bits_b.starts_with(bits_a)), "{a}");
        }
        // The tree is complete: every string of bits leads to a node or symbol.
        assert!(TREE.iter().flatten().all(|child| *child != 0));
    }

    #[test]
    fn texts_without_an_end_or_too_long_are_refused() {
        assert_eq!(decompress(&[], &mut Vec::new(), 10), None);
        assert_eq!(decompress(&[0xff], &mut Vec::new(), 10), None);
        let packed = compress(&[1; 11]);
        assert_eq!(decompress(&packed, &mut Vec::new(), 10), None);
        assert_eq!(decompress(&packed, &mut Vec::new(), 11), Some(()));
        assert_eq!(decompress(packed.split_last().unwrap().1, &mut Vec::new(), 11), None);
    }

    proptest! {
        #[test]
        fn compressed_bytes_come_back(text in prop::collection::vec(any::<u8>(), 0..600)) {
            let mut back = Vec::new();
            decompress(&compress(&text), &mut back, text.len()).unwrap();
            prop_assert_eq!(back, text);
        }

        #[test]
        fn any_bytes_end_within_their_bounds(packed in prop::collection::vec(any::<u8>(), 0..600), most in 0_usize..300) {
            let mut text = Vec::new();
            let _ = decompress(&packed, &mut text, most);
            prop_assert!(text.len() <= most);
        }
    }
}
