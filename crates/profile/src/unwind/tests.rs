//! Tests of unwinding with handmade stacks and damaged files.

use proptest::prelude::*;

use super::elf::{Image, Section};
use super::registers::{Memory, Registers};
use super::rule::Left;
use super::table::Table;
use super::{End, FRAMES_MAX, SampledStack, Unwind, Unwinder, find};
use crate::binaries::Lookup;
use crate::binaries::tests::Contained;
use crate::maps::{Map, Maps};
use crate::recording::Machine;
use crate::stack::{Module, ModuleId, Modules};

/// `.eh_frame` or `.debug_frame`, whose entries refer to their headers in different ways.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    EhFrame,
    DebugFrame,
}

/// The state at the start of a function on x86-64: the base is rsp + 8, and the return address is below the base.
const AT_THE_CALL: &[u8] = &[0x0c, 7, 8, 0x90, 1];
const LEAF: u64 = 0x1000;
const PUSHED: u64 = 0x1100;
const BY_RBX: u64 = 0x1200;
const OUTERMOST: u64 = 0x1300;
const SIGNAL: u64 = 0x1400;
const ENDLESS: u64 = 0x1500;
/// The address of a function that is in no table.
const NO_TABLE: u64 = 0x1600;

fn entry(into: &mut Vec<u8>, body: &[u8]) -> usize {
    let at = into.len();
    into.extend((body.len() as u32).to_le_bytes());
    into.extend(body);
    at
}

fn cie(into: &mut Vec<u8>, kind: Kind, augmentation: &str) -> usize {
    let id = if kind == Kind::EhFrame { 0 } else { u32::MAX };
    let mut body = id.to_le_bytes().to_vec();
    body.push(1);
    let augmentation = if kind == Kind::EhFrame { augmentation } else { "" };
    body.extend(augmentation.as_bytes());
    // The code factor is 1, the data factor is -8, and the return address is in register 16.
    body.extend([0, 1, 0x78, 16]);
    if kind == Kind::EhFrame {
        body.extend([1, 0]);
    }
    body.extend(AT_THE_CALL);
    entry(into, &body)
}

fn function(into: &mut Vec<u8>, kind: Kind, cie: usize, start: u64, rules: &[u8]) {
    let of = if kind == Kind::EhFrame { into.len() + 4 - cie } else { cie };
    let mut body = (of as u32).to_le_bytes().to_vec();
    body.extend(start.to_le_bytes());
    body.extend(0x100_u64.to_le_bytes());
    if kind == Kind::EhFrame {
        body.push(0);
    }
    body.extend(rules);
    entry(into, &body);
}

/// A file with one function for each way to unwind.
fn image(kind: Kind) -> Image {
    let mut bytes = Vec::new();
    let plain = cie(&mut bytes, kind, "zR");
    function(&mut bytes, kind, plain, LEAF, &[]);
    // The base is rsp + 40, and rbx is saved at base - 16.
    function(&mut bytes, kind, plain, PUSHED, &[0x0e, 40, 0x83, 2]);
    // The base is rbx + 32.
    function(&mut bytes, kind, plain, BY_RBX, &[0x0c, 3, 32]);
    function(&mut bytes, kind, plain, OUTERMOST, &[0x07, 16]);
    // An endless expression, which jumps back to its own start.
    function(&mut bytes, kind, plain, ENDLESS, &[0x0f, 3, 0x2f, 0xfd, 0xff]);
    let signal = cie(&mut bytes, kind, "zRS");
    // The interrupted frame's stack pointer is at rsp + 32, and its address is at rsp + 40.
    // Both rules are expressions, as in libc's tables.
    function(&mut bytes, kind, signal, SIGNAL, &[0x0f, 3, 0x77, 32, 0x06, 0x10, 16, 2, 0x77, 40]);
    let part = Some(Section { address: 0x10_0000, bytes });
    let mut image = Image::default();
    if kind == Kind::EhFrame {
        image.eh_frame = part
    } else {
        image.debug_frame = part
    }
    image.with_code(0x1000, 0x1000)
}

struct Process {
    maps: Maps,
    modules: Modules,
    module: ModuleId,
    machine: Machine,
}

fn process() -> Process {
    let mut modules = Modules::default();
    let module = modules.number(Module { path: "/nowhere/at/all".to_owned(), build_id: None });
    let mut maps = Maps::default();
    // The file is mapped at other addresses than the addresses inside the file.
    maps.add(Map { start: BIAS + 0x1000, end: BIAS + 0x2000, module, file_offset: 0x1000, is_file: true });
    let machine = Machine { architecture: Some("x86_64".to_owned()), ..Machine::default() };
    Process { maps, modules, module, machine }
}

const BIAS: u64 = 0x7f00_0000_0000;
const STACK: u64 = 0x7ffe_0000_0000;
/// The registers bx, bp, sp and ip.
const WHICH: u64 = 1 << 1 | 1 << 6 | 1 << 7 | 1 << 8;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn followed(kind: Kind, [rbx, rbp, ip]: [u64; 3], stack: &[u8]) -> (End, Vec<u64>) {
    let process = process();
    let mut unwinder = Unwinder::new();
    unwinder.tables.insert(process.module, Ok(Table::new(image(kind))));
    let registers: Vec<u8> = [rbx, rbp, STACK, ip].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let sampled = SampledStack { machine: &process.machine, pid: 1, registers: &registers, which: WHICH, stack };
    let mut found = Vec::new();
    let end = unwinder.unwind(&sampled, &process.maps, &process.modules, &mut found);
    (end, found.into_iter().map(|address| address.wrapping_sub(BIAS)).collect())
}

/// The stack of four functions: a leaf, its caller that pushed rbx, the next caller whose base is rbx, and the outermost function.
fn chain() -> Vec<u8> {
    // The return address of the leaf.
    // Then the stack of the second function, which ends with rbx, and the return address of the second function.
    let inner = [BIAS + PUSHED + 0x10, 7, 7, 7, STACK + 48, BIAS + BY_RBX + 0x20];
    words(&[&inner[..], &[7, 7, 7, BIAS + OUTERMOST + 5]].concat())
}

#[test]
fn each_way_to_leave_a_function_is_followed() {
    let whole = vec![LEAF, PUSHED + 0x0f, BY_RBX + 0x1f, OUTERMOST + 4];
    let stack = chain();
    for kind in [Kind::EhFrame, Kind::DebugFrame] {
        assert_eq!(followed(kind, [0, 0, BIAS + LEAF], &stack), (End::Outermost, whole.clone()), "{kind:?}");
    }
    // If less of the stack is copied, the result is the first part of the full result, and reports that the stack continues.
    for length in 0..80 {
        let (end, found) = followed(Kind::EhFrame, [0, 0, BIAS + LEAF], &stack[..length]);
        assert!(end == End::CutOff && whole.starts_with(&found) && found.len() < whole.len(), "{length}: {found:x?}");
    }
}

#[test]
fn a_handler_of_a_signal_leads_to_who_was_interrupted_and_not_to_who_called() {
    let interrupted = STACK + 64;
    // In libc, the table for the code that ends a signal handler begins one byte before that code.
    // The handler returns to that code, and no call precedes it.
    let stack = words(&[BIAS + SIGNAL + 1, 7, 7, 7, 7, interrupted, BIAS + LEAF, 7, BIAS + OUTERMOST + 5]);
    let found = followed(Kind::EhFrame, [0, 0, BIAS + LEAF + 9], &stack);
    assert_eq!(found, (End::Outermost, vec![LEAF + 9, SIGNAL, LEAF, OUTERMOST + 4]));
}

#[test]
fn code_without_a_table_is_followed_by_its_frame_pointer() {
    let frame = STACK + 16;
    let stack = words(&[7, 7, STACK + 40, BIAS + NO_TABLE + 0x10, 7, 0, BIAS + OUTERMOST + 5]);
    let found = followed(Kind::EhFrame, [0, frame, BIAS + NO_TABLE], &stack);
    assert_eq!(found, (End::Outermost, vec![NO_TABLE, NO_TABLE + 0x0f, OUTERMOST + 4]));
    let nonsense = followed(Kind::EhFrame, [0, 0x1234, BIAS + NO_TABLE], &stack);
    assert_eq!(nonsense, (End::CutOff, vec![NO_TABLE]), "below the stack");
    let below = followed(Kind::EhFrame, [0, frame, BIAS + NO_TABLE], &words(&[7, 7, frame, 0x1234, 0]));
    assert_eq!(below, (End::CutOff, vec![NO_TABLE]), "no code is there");
}

#[test]
fn an_expression_without_an_end_is_given_up() {
    assert_eq!(followed(Kind::EhFrame, [0, 0, BIAS + ENDLESS], &chain()), (End::CutOff, vec![ENDLESS]));
}

#[test]
fn registers_come_in_the_order_of_their_bits() {
    let machine = |architecture: &str| Machine { architecture: Some(architecture.to_owned()), ..Machine::default() };
    let of = |machine: &Machine, which: u64, values: &[u64]| {
        let registers: Vec<u8> = values.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Registers::from_sample(&SampledStack { machine, pid: 1, registers: &registers, which, stack: &[] })
    };
    let all_of_perf = 0x00ff_0fff;
    let values: Vec<u64> = (100..120).collect();
    let seen = of(&machine("x86_64"), all_of_perf, &values).unwrap();
    let get = |number| seen.get(number).unwrap();
    assert_eq!(
        [get(0), get(1), get(3), get(6), get(7), seen.counter, get(8), get(15)],
        [100, 103, 101, 106, 107, 108, 112, 119]
    );
    let mut of_32_bits = values.clone();
    of_32_bits[10] = 0x23;
    assert_eq!(of(&machine("x86_64"), all_of_perf, &of_32_bits), None);
    assert_eq!(of(&machine("x86_64"), 1 << 8, &[1]), None, "no stack pointer");
    assert_eq!(of(&machine("x86_64"), all_of_perf, &values[..7]), None, "cut off");
    assert_eq!(of(&machine("riscv64"), all_of_perf, &values), None);
    let values: Vec<u64> = (100..133).collect();
    let seen = of(&machine("aarch64"), (1 << 33) - 1, &values).unwrap();
    assert_eq!([seen.get(29), seen.link(), seen.get(31)], [Some(129), Some(130), Some(131)]);
    assert_eq!((seen.counter, seen.address_of(0x00ab_ffff_1234_5678)), (132, 0xffff_1234_5678));
}

#[test]
fn the_kernels_own_piece_of_a_program_has_a_table() {
    let Ok(bytes) = find::own_vdso() else {
        eprintln!("SKIPPED: this process has no vdso, or may not read its own memory");
        return;
    };
    let image = Image::parse(bytes.as_slice()).unwrap();
    assert!(image.has_table());
    let mut table = Table::new(image);
    let found = (0..bytes.len() as u64)
        .filter(|offset| table.image().address_of(*offset).is_some_and(|address| table.rule(address).is_some()))
        .count();
    assert!(found > 100, "{found} addresses");
}

/// The container's file and the host's file at the same path both have a table. With the host's table, the frames would be wrong.
#[test]
fn a_containers_stack_is_followed_by_the_containers_file() {
    let table = |path: &std::path::Path| Image::parse(std::fs::read(path).unwrap().as_slice()).unwrap().eh_frame;
    let lookup = Lookup::default();
    for build_id in ["none", "md5"] {
        let Some(contained) = Contained::start(build_id) else { return };
        let (own, others) = (table(&contained.inside), table(&contained.path));
        assert!(own.is_some() && own != others);
        let own_id = Image::parse(std::fs::read(&contained.inside).unwrap().as_slice()).unwrap().build_id;
        // If a fixed length is requested, the kernel pads a short build ID to 20 bytes.
        let filled = own_id.clone().map(|id| [id, vec![0; 4]].concat());
        for id in [own_id, filled] {
            let (module, mapping) = contained.module(id);
            let found = find::image(&module, mapping, &Machine::default(), &lookup).unwrap();
            assert!(found.eh_frame == own, "{build_id}");
        }
    }
}

/// Looks up the rule of each address, and unwinds a frame with the rule. The file may be damaged.
fn asked(bytes: &[u8], addresses: impl IntoIterator<Item = u64>) {
    let Ok(image) = Image::parse(bytes) else { return };
    let mut table = Table::new(image);
    let machine = Machine { architecture: Some("x86_64".to_owned()), ..Machine::default() };
    let registers = [STACK, STACK + 8, STACK, BIAS].map(u64::to_ne_bytes).concat();
    let sampled = SampledStack { machine: &machine, pid: 1, registers: &registers, which: WHICH, stack: &[] };
    let stack = chain();
    for address in addresses {
        let mut registers = Registers::from_sample(&sampled).unwrap();
        if let Some((rule, section)) = table.rule(address) {
            let left = rule.leave(&mut registers, Memory { start: STACK, bytes: &stack }, section);
            assert!(left != Left::Called || registers.counter != 0);
        }
    }
}

proptest! {
    #[test]
    fn a_file_with_flipped_bytes_is_no_harm(flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..40), cut in any::<u16>()) {
        if let Ok(mut bytes) = find::own_vdso() {
            // The rest of the file is zeros, so keep only the first pages.
            bytes.truncate(8192);
            let length = bytes.len();
            for (at, value) in flips {
                bytes[usize::from(at) % length] = value;
            }
            asked(&bytes, (0..length as u64).step_by(37));
            bytes.truncate(usize::from(cut) % length);
            asked(&bytes, (0..length as u64).step_by(97));
        }
    }

    #[test]
    fn a_table_with_flipped_bytes_is_no_harm(flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..8), stack in proptest::collection::vec(any::<u8>(), 0..200)) {
        for kind in [Kind::EhFrame, Kind::DebugFrame] {
            let mut image = image(kind);
            let part = if kind == Kind::EhFrame { image.eh_frame.as_mut() } else { image.debug_frame.as_mut() };
            let bytes = &mut part.unwrap().bytes;
            let length = bytes.len();
            for (at, value) in &flips {
                bytes[usize::from(*at) % length] = *value;
            }
            let process = process();
            let mut unwinder = Unwinder::new();
            unwinder.tables.insert(process.module, Ok(Table::new(image)));
            for start in [LEAF, PUSHED, BY_RBX, OUTERMOST, SIGNAL, ENDLESS, NO_TABLE] {
                let registers = [STACK, STACK + 8, STACK, BIAS + start].map(u64::to_ne_bytes).concat();
                let sampled = SampledStack { machine: &process.machine, pid: 1, registers: &registers, which: WHICH, stack: &stack };
                let mut found = Vec::new();
                unwinder.unwind(&sampled, &process.maps, &process.modules, &mut found);
                prop_assert!(found.len() <= FRAMES_MAX && found.first() == Some(&(BIAS + start)));
            }
        }
    }

    #[test]
    fn a_stack_of_anything_is_no_harm(stack in proptest::collection::vec(prop_oneof![any::<u64>(), (0_u64..0x800).prop_map(|at| BIAS + 0x1000 + at), (0_u64..64).prop_map(|at| STACK + at * 8)], 0..64),
            rbx in any::<u64>(), rbp in any::<u64>(), ip in 0x1000_u64..0x1800) {
        let (_, found) = followed(Kind::EhFrame, [rbx, rbp, BIAS + ip], &words(&stack));
        prop_assert!(found.len() <= FRAMES_MAX && found.first() == Some(&ip));
    }

    #[test]
    fn no_bytes_are_taken_for_a_file_and_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut with_head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        with_head.extend(&bytes);
        asked(&with_head, 0..64);
        asked(&bytes, 0..4);
    }
}
