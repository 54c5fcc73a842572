//! Records a thread of this process that is twelve calls deep, in code without frame pointers, with the top of its stack.
//! All calls must be found. If too little of the stack is copied, the stack must end with a hint that it is cut off.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_profile::input;
use evenkeel_profile::live::{LiveError, Memory, RecordConfig, Targets, record};
use evenkeel_profile::recording::Recording;
use evenkeel_profile::stack::{Frame, Hint};
use evenkeel_profile::symbols::{Settings, Symbols};
use evenkeel_profile::unwind::Unwinder;
use evenkeel_sys::clock;
use evenkeel_testkit::{skipped, wait_until};

use crate::recorder::one_at_a_time;

const DEEP: usize = 12;
/// The minimum stack space of each call in the chain, in bytes.
const ROOM_BYTES: usize = 512;
/// The CPU time for which the thread works in each recording, which gives some hundred samples.
const WORKS_NS: u64 = 80_000_000;

static STOP: AtomicBool = AtomicBool::new(false);
static WORKED_NS: AtomicU64 = AtomicU64::new(0);

/// A link of the chain. Each number has a separate function, which calls the next function.
#[inline(never)]
fn link<const N: usize>(next: fn(u64) -> u64, x: u64) -> u64 {
    let room = black_box([x; ROOM_BYTES / 8]);
    next(room[N]).wrapping_add(black_box(room)[N])
}

fn works(x: u64) -> u64 {
    (0..20_000).fold(x, |x: u64, _| black_box(x.wrapping_mul(6_364_136_223_846_793_005)))
}

macro_rules! chain {
    ($($name:ident $number:literal => $next:ident),*) => {$(
        #[inline(never)]
        fn $name(x: u64) -> u64 {
            // Do something after the call. Otherwise the compiler would make the call a tail call, which leaves no frame.
            black_box(link::<$number>($next, x)).wrapping_add($number)
        }
    )*};
}

chain!(l1 1 => l2, l2 2 => l3, l3 3 => l4, l4 4 => l5, l5 5 => l6, l6 6 => l7, l7 7 => l8, l8 8 => l9, l9 9 => l10, l10 10 => l11, l11 11 => l12, l12 12 => works);

/// Records a thread that runs the chain, with this many bytes of its stack. None, recorded as skipped, if this user may not record.
fn recorded(user_stack_bytes: u32) -> Option<Recording> {
    STOP.store(false, Ordering::Relaxed);
    WORKED_NS.store(0, Ordering::Relaxed);
    let deep = std::thread::Builder::new().name("deep".to_owned());
    let thread = deep.spawn(|| {
        while !STOP.load(Ordering::Relaxed) {
            black_box(l1(black_box(1)));
            WORKED_NS.store(clock::thread_cpu_ns(), Ordering::Relaxed);
        }
    });
    // The thread gets its name when it first runs.
    wait_until("the thread's begin", || WORKED_NS.load(Ordering::Relaxed) > 0);
    let targets = Targets::Threads { name: "deep".to_owned(), pids: vec![std::process::id()] };
    let config = RecordConfig {
        targets,
        clock_hz: Some(1999),
        user_stack_bytes: Some(user_stack_bytes),
        ..RecordConfig::default()
    };
    let mut sink = Memory::new(64 << 20);
    let from_ns = WORKED_NS.load(Ordering::Relaxed);
    let recorded = record(
        &config,
        &mut |status| WORKED_NS.load(Ordering::Relaxed) < from_ns + WORKS_NS && status.elapsed_ns < 60_000_000_000,
        &mut sink,
    );
    STOP.store(true, Ordering::Relaxed);
    thread.unwrap().join().unwrap();
    match recorded {
        Ok(_) => Some(input::read(&sink.into_bytes(), &mut Unwinder::new()).unwrap()),
        Err(error @ LiveError::Denied { .. }) => {
            skipped(format_args!("this user may not record ({error})"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The number of samples inside the chain, the number that contain the whole chain in order, and the number that reach the thread's start.
fn seen(recording: &Recording) -> (usize, usize, usize) {
    let names = Symbols::new(Settings::default()).names(recording);
    let (mut of_chain, mut whole, mut outermost) = (0, 0, 0);
    for sample in &recording.samples {
        let frames: Vec<_> = recording.stacks.innermost_first(sample.stack).collect();
        let is_cut = frames.iter().any(|frame| recording.stacks.frames()[frame.place()] == Frame::Hint(Hint::CutOff));
        let text: Vec<&str> = frames
            .iter()
            .flat_map(|frame| &names.get(*frame).functions)
            .map(|function| function.name.as_str())
            .collect();
        if !text.iter().any(|name| name.contains("works")) {
            continue;
        }
        of_chain += 1;
        // The outer functions have the smaller numbers.
        let order: Vec<usize> = text.iter().filter_map(|name| name.rsplit("::l").next()?.parse().ok()).collect();
        whole += usize::from(order.iter().copied().eq((1..=DEEP).rev()));
        outermost += usize::from(!is_cut);
    }
    (of_chain, whole, outermost)
}

#[test]
fn a_deep_stack_is_followed_as_far_as_it_was_copied() {
    let (Some(much), Some(little)) = one_at_a_time(|| (recorded(32_768), recorded(2048))) else { return };
    let (of_chain, whole, outermost) = seen(&much);
    let counts = format!("{of_chain} samples, {whole} whole, {outermost} to the end, {} cut off", much.lost.cut_off);
    // A few samples are within the first instructions of a function, before its frame is complete.
    assert!(of_chain >= 50 && whole * 100 >= of_chain * 95 && outermost * 100 >= of_chain * 95, "{counts}");
    let (of_chain, whole, outermost) = seen(&little);
    let counts = format!("{of_chain} samples, {whole} whole, {outermost} to the end, {} cut off", little.lost.cut_off);
    assert!(of_chain >= 50 && whole == 0 && outermost == 0 && little.lost.cut_off >= of_chain as u64, "{counts}");
}
