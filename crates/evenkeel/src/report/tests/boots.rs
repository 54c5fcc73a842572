//! Tests the page of a trial over boots.

use evenkeel_trial::boots::{BootCounters, BootOutcome, BootWords, BootsDesign, BootsEnded, BootsState, SeenBoot};
use evenkeel_trial::{ArmName, Guard};
use evenkeel_workload::Metric;
use expect_test::{expect, expect_file};

use super::in_lines;
use crate::report::boots;
use crate::view::terminal;

/// A trial of five boots. One boot does not count, and the guard rejects B. The texts try to inject markup.
fn some() -> BootsState {
    let hostile = "<script>alert(1)</script> & \"x\"";
    let design = BootsDesign {
        settings: vec!["cmdline.processor.max_cstate=1".into(), "cmdline.idle=<em>".into()],
        metric: Metric::us("due_to_done_us_p50", "from due to done"),
        guards: vec![Guard { metric: Metric::us("due_to_done_us_p99", "its <i>tail"), harm_ratio: 0.25 }],
        smallest_effect_ratio: 0.05,
        boots: 4,
        windows: 4,
        window_ms: 1000,
        settle_ms: 60_000,
        seed: 0,
        reboots: true,
        limit_s: 1,
    };
    let begun = |seed| BootsState::begin(BootsDesign { seed, ..design.clone() }, 1_700_000_000, "b");
    let mut state = (0..).map(begun).find(|state| state.order()[0] == ArmName::A).unwrap();
    state.evenkeel = "1.2.3".into();
    state.workload = format!(" --workload tick --set 'a={hostile}'");
    state.workload_words = hostile.into();
    state.ended = Some(BootsEnded::Whole);
    for nth in 0..5 {
        let (slot, arm) = state.next_slot().unwrap();
        let level = if arm == ArmName::B { 80.0 } else { 100.0 } + f64::from(nth);
        let tail = if arm == ArmName::B { 280.0 } else { 200.0 } + f64::from(nth);
        let outcome = match nth {
            2 => BootOutcome::Missed { why: hostile.into() },
            _ => BootOutcome::Measured {
                values: vec![level, level + 2.0, level - 2.0, level + 1.0],
                dropped: 2,
                guards: [("due_to_done_us_p99".to_owned(), tail)].into(),
                counted: Some(BootCounters {
                    busy_share: Some(0.2),
                    idle_entries_per_s: Some(9000.0 + f64::from(nth)),
                    idle_exit_latency_us: Some(if arm == ArmName::B { 1.0 } else { 30.0 }),
                    ..BootCounters::default()
                }),
            },
        };
        let machine = BootWords {
            kernel: Some("6.1.0-13".into()),
            command_line: Some(format!("quiet {hostile}")),
            ..BootWords::default()
        };
        state.seen.push(SeenBoot { boot_id: format!("r{nth}"), slot, arm, tries: 1, machine, outcome });
    }
    state
}

fn page_of(state: &BootsState) -> String {
    boots::page(state, &state.report(), "{}")
}

pub(super) fn page() -> String {
    page_of(&some())
}

#[test]
fn the_page_of_a_trial_over_boots() {
    let state = some();
    let page = in_lines(&page_of(&state));
    expect_file!["boots.html"].assert_eq(&page.replace(&format!("seed {}", state.design.seed), "seed N"));
}

#[test]
fn text_of_a_machine_is_not_markup() {
    let page = page();
    for markup in ["<script", "<em>", "its <i>", "x\" "] {
        assert!(!page.contains(markup), "{markup}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"));
}

#[test]
fn no_verdict_stands_without_what_it_rests_on_or_what_vetoes_it() {
    let page = page();
    // Remove the text of the axis, because it always contains "better".
    let text = page.replace("lower: better", "").replace("badge better", "");
    let body = text.split("</style>").nth(1).unwrap();
    assert_eq!(body.matches("better").count(), 1, "{body}");
    assert!(body.contains("better (over 4 boots only: weaker than a trial), but due_to_done_us_p99 is 40 % higher"));
    assert!(body.contains("vetoed over 4 boots") && body.contains("Rejected: the guard"));
    let at = |words: &str| body.find(words).unwrap_or_else(|| panic!("no {words}"));
    assert!(at("<h3>Caveats") < at("class=\"estimates\""));
    let mut calm = some();
    calm.design.guards.clear();
    let calm = page_of(&calm);
    assert!(calm.contains("better over 4 boots") && !calm.contains("Guards") && calm.contains("--guard none"));
    assert!(at("Boot 3 does not count") < at("class=\"estimates\""));
}

/// Every valid state has a page.
/// Even with the maximum number of boots and windows, the page is small enough for a browser.
#[test]
fn every_state_has_a_page() {
    let mut state = some();
    state.ended = None;
    while !state.seen.is_empty() {
        let page = page_of(&state);
        assert!(page.contains("</html>") && !page.contains("NaN") && !page.contains("inf%"), "{page}");
        state.seen.pop();
    }
    let page = page_of(&state);
    assert!(page.contains("Nothing is known yet") || page.contains("nothing is known yet"), "{page}");
    assert!(!page.contains("role=\"img\""));
    for value in [0.0, -1.0, 1e300, f64::MIN, f64::MAX, 1e-300] {
        let mut wild = some();
        for (nth, boot) in wild.seen.iter_mut().enumerate() {
            if let BootOutcome::Measured { values, guards, .. } = &mut boot.outcome {
                values[0] = value;
                *values = if nth == 1 { vec![value] } else { values.clone() };
                guards.insert("due_to_done_us_p99".into(), value);
            }
        }
        let page = page_of(&wild);
        assert!(page.contains("</html>") && !page.contains("NaN") && !page.contains("inf%"), "{value}: {page}");
    }
    let mut long = some();
    long.design.boots = 16;
    long.design.windows = 1000;
    let boot = long.seen[0].clone();
    long.seen = (0..19).map(|nth| SeenBoot { boot_id: format!("l{nth}"), ..boot.clone() }).collect();
    for boot in &mut long.seen {
        boot.outcome = BootOutcome::Measured {
            values: (0..1000).map(f64::from).collect(),
            dropped: 0,
            guards: Default::default(),
            counted: None,
        };
    }
    let page = page_of(&long);
    assert!(page.len() < 400_000, "{} bytes", page.len());
    assert!(page.contains("windows of a boot are drawn"));
}

/// Four boots in the order A, B, B, A. The values of B are lower.
fn four() -> BootsState {
    let design = BootsDesign {
        settings: vec!["cmdline.processor.max_cstate=1".into()],
        metric: BootsDesign::default_metric(),
        guards: Vec::new(),
        smallest_effect_ratio: 0.05,
        boots: 4,
        windows: 3,
        window_ms: 1000,
        settle_ms: 0,
        seed: 0,
        reboots: true,
        limit_s: 1,
    };
    let begun = |seed| BootsState::begin(BootsDesign { seed, ..design.clone() }, 1, "b");
    let mut state = (0..).map(begun).find(|state| state.report().order == "ABBA").unwrap();
    state.workload_words = "a tick".into();
    for nth in 0..4 {
        let (slot, arm) = state.next_slot().unwrap();
        let level = if arm == ArmName::B { 80.0 } else { 100.0 } + f64::from(nth);
        let outcome = BootOutcome::Measured {
            values: vec![level, level + 2.0, level - 2.0],
            dropped: 0,
            guards: Default::default(),
            counted: None,
        };
        let machine = BootWords::default();
        state.seen.push(SeenBoot { boot_id: format!("r{nth}"), slot, arm, tries: 1, machine, outcome });
    }
    state
}

/// The same state with a guard. In B, the guard's metric is 40 % higher, or equal.
fn guarded(is_harmed: bool) -> BootsState {
    let mut state = four();
    state.design.guards = vec![Guard { metric: Metric::us("due_to_done_us_max", "the longest"), harm_ratio: 0.25 }];
    for boot in &mut state.seen {
        let is_b = boot.arm == ArmName::B;
        if let BootOutcome::Measured { guards, .. } = &mut boot.outcome {
            guards.insert("due_to_done_us_max".into(), if is_b && is_harmed { 700.0 } else { 500.0 });
        }
    }
    state
}

fn text(state: &BootsState) -> String {
    let text = terminal::text(&boots::blocks(state, &state.report()));
    text.replace(&format!("seed {}", state.design.seed), "seed N")
}

fn markdown(state: &BootsState) -> String {
    boots::document(state, &state.report())
}

#[test]
fn better_never_stands_alone() {
    let state = four();
    expect![[r#"
        [1mcmdline.processor.max_cstate=1 over boots: better (over 4 boots only: weaker[0m
        [1mthan a trial); from due to done, p99 is 20 % lower, with 95 % confidence between[0m
        [1m14 % and 25 % lower[0m
          4 of 4 boots count after 4 boots; the trial continues after the next boot.

        [1mThe effect[0m
          Both boots of B were below both boots of A. Without an effect, boots
            separate like this in 1 of 3 trials, and differ this much in 0.528 % if
            their noise is normal.
          A: 100, 103 us; its boots differ by 2.96 %; windows of one boot by 2 %.
          B: 81, 82 us; its boots differ by 1.23 %; windows of one boot by 2.47 %.

        [1mThe boots[0m
        [2m  boot  arm  median, us  middle half  windows[0m
          1     A    100         99 to 101    3
          2     B    81          80 to 82     3
          3     B    82          81 to 83     3
          4     A    103         102 to 104   3

        [1mHow to repeat it[0m
          server and load   a tick
          decided by        from due to done, p99: due_to_done_us_p99
          smallest effect   5 %; smaller effects do not matter
          order of boots    ABBA, random, from seed N
          each boot         3 windows of 1000 ms, after 0 s of settle time
    "#]]
    .assert_eq(&text(&state));
    let all = format!("{}{}", text(&state), markdown(&state));
    // A terminal wraps lines, so compare the words.
    let all = anstream::adapter::strip_str(&all).to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(all.matches("better").count(), all.matches("better (over 4 boots only").count(), "{all}");
}

#[test]
fn a_guard_that_vetoes_is_shown_with_the_verdict() {
    let harmed = guarded(true);
    expect![[r#"
        [1mcmdline.processor.max_cstate=1 over boots: better (over 4 boots only: weaker[0m
        [1mthan a trial), but due_to_done_us_max is 40 % higher in every boot of B: not to[0m
        [1mbe kept; from due to done, p99 is 20 % lower, with 95 % confidence between 14 %[0m
        [1mand 25 % lower[0m
          4 of 4 boots count after 4 boots; the trial continues after the next boot.

        [1mThe effect[0m
          Both boots of B were below both boots of A. Without an effect, boots
            separate like this in 1 of 3 trials, and differ this much in 0.528 % if
            their noise is normal.
          A: 100, 103 us; its boots differ by 2.96 %; windows of one boot by 2 %.
          B: 81, 82 us; its boots differ by 1.23 %; windows of one boot by 2.47 %.

        [1mThe boots[0m
        [2m  boot  arm  median, us  middle half  windows[0m
          1     A    100         99 to 101    3
          2     B    81          80 to 82     3
          3     B    82          81 to 83     3
          4     A    103         102 to 104   3

        [1mGuards[0m
          [1m[33mRejected: the guard due_to_done_us_max got worse by more than its limit in[0m
          [1m[33mevery boot.[0m
        [2m  guard                            unit  boots of A  boots of B  B against A  result[0m
          the longest: due_to_done_us_max  us    500, 500    700, 700    40 % higher  beyond its
                                                                                      limit: every
                                                                                      boot of B is
                                                                                      worse than every
                                                                                      boot of A, the
                                                                                      medians by 25 %
                                                                                      or more

        [1mHow to repeat it[0m
          server and load   a tick
          decided by        from due to done, p99: due_to_done_us_p99
          smallest effect   5 %; smaller effects do not matter
          order of boots    ABBA, random, from seed N
          each boot         3 windows of 1000 ms, after 0 s of settle time
    "#]]
    .assert_eq(&text(&harmed));
    for text in [text(&harmed), markdown(&harmed)] {
        let text = anstream::adapter::strip_str(&text).to_string();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('\\', "");
        let vetoed = "but due_to_done_us_max is 40 % higher in every boot of B: not to be kept";
        assert!(text.contains(vetoed) && text.contains("every boot of B is worse"), "{text}");
    }
    let calm = markdown(&guarded(false));
    assert!(calm.contains("| not worse by 25 % in every boot |") && !calm.contains("not to be kept"), "{calm}");
    assert!(!markdown(&four()).contains("## Guards"));
    let mut none = guarded(false);
    none.seen.clear();
    assert!(markdown(&none).contains("| no boot yet | no boot yet |"), "{}", markdown(&none));
}

#[test]
fn text_of_a_machine_ends_no_cell_and_opens_no_code() {
    let mut state = four();
    state.workload_words = "a | b\n# <script> `c`".into();
    let markdown = markdown(&state);
    assert!(
        !markdown.contains("# <script>") && !markdown.contains("a | b") && markdown.contains("\\`c\\`"),
        "{markdown}"
    );
}
