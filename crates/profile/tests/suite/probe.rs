//! Probes on functions of this program. The functions are found by name, and recorded each time they run.
//! If a function cannot be found or must not be probed, the error says why.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use evenkeel_profile::input::read;
use evenkeel_profile::live::probe::{NoPlace, Until, beginning_and_end, library_marks, parse_place};
use evenkeel_profile::live::{LiveError, Memory, RecordConfig, RecordSummary, Status, Switches, Targets, record};
use evenkeel_profile::recording::Recording;
use evenkeel_profile::ticks::marks::Marks;
use evenkeel_profile::unwind::NoUnwind;
use evenkeel_sys::clock;
use evenkeel_testkit::{skipped, wait_for};

use crate::recorder::one_at_a_time;

const MS: u64 = 1_000_000;

#[inline(never)]
extern "C" fn planted_tick(number: u64) -> u64 {
    clock::sleep_until_ns(clock::monotonic_ns() + 2 * MS);
    black_box(number)
}

#[inline(never)]
extern "C" fn planted_flush(number: u64) -> u64 {
    black_box(number)
}

#[inline(never)]
extern "C" fn planted_step(number: u64) -> u64 {
    black_box(number) + 1
}

/// Two functions have the same name.
mod one {
    #[inline(never)]
    pub(super) extern "C" fn planted_twice() -> u64 {
        std::hint::black_box(1)
    }
}

mod other {
    #[inline(never)]
    pub(super) extern "C" fn planted_twice() -> u64 {
        std::hint::black_box(2)
    }
}

fn place(text: &str, until: &str) -> Result<RecordConfig, NoPlace> {
    let us = std::process::id();
    let until = match until {
        "return" => Until::Return,
        "wait" => Until::Wait,
        other => Until::Place(parse_place(other).unwrap()),
    };
    let probes = beginning_and_end(&parse_place(text).unwrap(), &until, &[us])?;
    Ok(RecordConfig {
        targets: Targets::Processes(vec![us]),
        clock_hz: None,
        switches: Switches::Records,
        probes,
        ..RecordConfig::default()
    })
}

/// Records while a thread runs `body`. None, recorded as skipped, if this user or this kernel cannot record.
fn recorded(config: &RecordConfig, body: fn()) -> Option<Result<(RecordSummary, Recording), LiveError>> {
    let mut sink = Memory::new(64 << 20);
    let mut worker = None;
    let mut goes_on = |_: &Status| !worker.get_or_insert_with(|| std::thread::spawn(body)).is_finished();
    match one_at_a_time(|| record(config, &mut goes_on, &mut sink)) {
        Ok(summary) => Some(Ok((summary, read(&sink.into_bytes(), &mut NoUnwind).unwrap()))),
        Err(LiveError::NoProbe { errno, why, .. } | LiveError::Denied { errno, why, .. }) => {
            skipped(format_args!("{why} ({errno})"));
            None
        }
        Err(error) => Some(Err(error)),
    }
}

fn tick_twenty_times() {
    for number in 0..20 {
        let before_ns = clock::monotonic_ns();
        planted_tick(number);
        planted_flush(number);
        clock::sleep_until_ns(before_ns + 4 * MS);
    }
}

#[test]
fn each_entry_and_return_is_seen() {
    for (until, end) in [("return", "planted_tick__return"), ("planted_flush", "planted_tick__until_planted_flush")] {
        let config = place("planted_tick", until).unwrap();
        // Other tests in this process are recorded too, and their records may need too much space.
        let said = wait_for("a recording that lost nothing", || {
            let said = recorded(&config, tick_twenty_times);
            let lost = said.as_ref().and_then(|said| said.as_ref().ok()).map_or(0, |(summary, _)| summary.status.lost);
            (lost == 0).then_some(said)
        });
        let Some(said) = said else { return };
        let (_, recording) = said.unwrap();
        let marks = Marks::named(&recording, "planted_tick").unwrap();
        assert!(marks.end.as_deref().is_some_and(|name| name.ends_with(end)), "{marks:?}");
        let ticks = marks.ticks(&recording, &|_| true).unwrap();
        assert_eq!((ticks.ticks.len(), ticks.unended), (20, 0));
        let is_whole = |begun_ns: u64, done_ns: u64| done_ns >= begun_ns + 2 * MS;
        assert!(ticks.ticks.iter().all(|tick| is_whole(tick.begun_ns, tick.done_ns.unwrap())), "{ticks:?}");
        let is_next = |done_ns: Option<u64>, begun_ns: u64| begun_ns >= done_ns.unwrap();
        assert!(ticks.ticks.windows(2).all(|pair| is_next(pair[0].done_ns, pair[1].begun_ns)), "{ticks:?}");
    }
}

#[test]
fn a_place_is_found_by_its_offset_too() {
    let named = place("planted_flush", "wait").unwrap();
    let offset = named.probes[0].probe.offset();
    let program = std::env::current_exe().unwrap();
    let found = place(&format!("{}+{offset:#x}", program.display()), "wait").unwrap();
    assert_eq!((found.probes.len(), found.probes[0].probe.offset()), (1, offset));
    assert!(found.probes[0].event.ends_with(&format!(":abs_{offset:x}")), "{:?}", found.probes);
    let wrong = place(&format!("+{:#x}", offset + 1), "wait").unwrap_err();
    assert!(matches!(wrong, NoPlace::NoBeginning { before: Some(before), .. } if before == offset), "{wrong}");
    let far = place("+0xffffffffffff", "wait").unwrap_err();
    assert!(matches!(far, NoPlace::NoBeginning { before: None, .. }), "{far}");
}

#[test]
fn a_missing_function_is_reported_with_similar_names() {
    let refused = place("planted_tik", "wait").unwrap_err();
    assert!(matches!(&refused, NoPlace::NoSymbol { near, .. } if near[0].ends_with("planted_tick")), "{refused}");
    assert_eq!(one::planted_twice() + other::planted_twice(), 3);
    let refused = place("planted_twice", "wait").unwrap_err();
    let NoPlace::Ambiguous { near, .. } = &refused else { panic!("{refused}") };
    assert_eq!(near.len(), 2);
    let program = std::env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_str().unwrap();
    assert!(near[0].contains(&format!("::planted_twice ({program}")), "{near:?}");
    assert!(place("one::planted_twice", "wait").is_ok());
    let refused = place("libnothing:tick", "wait").unwrap_err();
    assert!(matches!(&refused, NoPlace::NotMapped { runs, .. } if runs[0].starts_with(program)), "{refused}");
    assert!(place("libc:malloc", "wait").is_ok(), "a function that a library offers");
    let nobody = beginning_and_end(&parse_place("tick").unwrap(), &Until::Wait, &[]).unwrap_err();
    assert!(matches!(nobody, NoPlace::NoProcess(_)), "{nobody}");
    let gone = beginning_and_end(&parse_place("tick").unwrap(), &Until::Wait, &[u32::MAX >> 1]).unwrap_err();
    assert!(matches!(gone, NoPlace::NoSuchProcess { pid, .. } if pid == u32::MAX >> 1), "{gone}");
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no program").unwrap();
    let odd = parse_place(&format!("{}:tick", text.display())).unwrap();
    let odd = beginning_and_end(&odd, &Until::Wait, &[]).unwrap_err();
    assert!(matches!(odd, NoPlace::Odd { .. }), "{odd}");
}

/// The error says that the program is stripped. For an offset, the exception tables still show whether a function begins there.
#[test]
fn of_a_stripped_program_an_offset_is_taken_where_a_function_begins() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/server.c");
    let path = |name: &str| folder.path().join(name);
    let built = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(path("whole")).arg(source).status();
    let stripped = Command::new("strip").arg("-o").arg(path("bare")).arg(path("whole")).status();
    if !built.is_ok_and(|status| status.success()) || !stripped.is_ok_and(|status| status.success()) {
        skipped("cc and strip build no program here");
        return;
    }
    let find = |name: &str, place: &str| {
        let asked = parse_place(&format!("{}{place}", path(name).display())).unwrap();
        beginning_and_end(&asked, &Until::Return, &[])
    };
    let found = find("whole", ":tick").unwrap();
    let offset = found[0].probe.offset();
    assert_eq!((found.len(), found[1].probe.is_return(), found[1].probe.offset()), (2, true, offset));
    let refused = find("bare", ":tick").unwrap_err();
    assert!(matches!(refused, NoPlace::Stripped { .. }), "{refused}");
    assert_eq!(find("bare", &format!("+{offset:#x}")).unwrap()[0].probe.offset(), offset);
    let refused = find("bare", &format!("+{:#x}", offset + 4)).unwrap_err();
    assert!(matches!(refused, NoPlace::NoBeginning { before: Some(before), .. } if before == offset), "{refused}");
}

#[test]
fn a_probe_that_fires_too_often_ends_the_recording() {
    let config = place("planted_step", "wait").unwrap();
    let body = || {
        let until_ns = clock::monotonic_ns() + 4_000 * MS;
        let mut sum = 0;
        while clock::monotonic_ns() < until_ns {
            for _ in 0..1000 {
                sum = planted_step(sum);
            }
        }
    };
    match recorded(&config, body) {
        None => {}
        Some(Err(LiveError::TooOften { per_s, .. })) => assert!(per_s > 10_000, "{per_s}"),
        // On a very busy machine, the function is called less often.
        Some(Ok((summary, _))) => {
            let per_s = summary.status.samples * 1_000_000_000 / summary.status.elapsed_ns.max(1);
            assert!(per_s < 15_000, "{summary:?}");
            skipped(format_args!("this machine runs it only {per_s} times a second"));
        }
        Some(Err(error)) => panic!("{error}"),
    }
}

#[test]
fn a_program_without_the_library_has_no_marks_of_it() {
    let mut sleeps = Command::new("sleep").arg("10").spawn().unwrap();
    let found = library_marks(&[sleeps.id()]);
    sleeps.kill().unwrap();
    sleeps.wait().unwrap();
    assert_eq!(found, None);
    assert_eq!(library_marks(&[u32::MAX >> 1]), None, "nor one that is gone");
}
