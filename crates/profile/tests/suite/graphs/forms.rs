//! Tests the formats that other programs read.

use evenkeel_profile::firefox;
use evenkeel_profile::fold::{Base, Folded};
use evenkeel_profile::graph::{self, Direction, Quantity, Style};
use evenkeel_profile::offcpu;
use evenkeel_profile::recording::Span;
use evenkeel_profile::ticks::Tick;
use expect_test::{expect, expect_file};
use serde_json::Value;

use super::schema;
use super::small::{self, Small};

fn folded(small: &Small, base: Base) -> Folded {
    Folded::from_samples(&small.recording, &small.names, base, small.samples().into_iter())
}

fn text(folded: &Folded) -> String {
    folded.lines.iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect()
}

fn style() -> Style {
    Style {
        title: "game".into(),
        subtitle: "70 samples".into(),
        origin: "host vm".into(),
        quantity: Quantity::CpuTime,
        direction: Direction::Flame,
    }
}

/// The title, colour and width of each frame.
fn frames(svg: &str) -> String {
    let between = |text: &str, begin: &str, end: &str| -> String {
        let rest = text.split_once(begin).map_or("", |(_, rest)| rest);
        rest.split_once(end).map_or("", |(found, _)| found).to_owned()
    };
    let parts = svg.split("<title>").skip(1);
    let lines = parts.map(|part| {
        let title = part.split("</title>").next().unwrap();
        format!("{title} | {} | {}\n", between(part, "fill=\"", "\""), between(part, " width=\"", "\""))
    });
    lines.collect()
}

#[test]
fn folded_text_by_every_base() {
    let small = small::recording();
    let all = [Base::Thread, Base::Process, Base::Cpu, Base::Nothing];
    let texts: Vec<String> = all.into_iter().map(|base| text(&folded(&small, base))).collect();
    expect![[r#"
        game;main;game::tick 10000000
        game;main;game::tick;Main.run_[j] 10000000
        game;main;game::tick;world::update;<u8: 8>::hash 32_[i] 30000000
        net worker 2;[libfoo.so.1] 10000000
        net worker 2;main;vfs_read_[k] 10000000
        --
        game;game;main;game::tick 10000000
        game;game;main;game::tick;Main.run_[j] 10000000
        game;game;main;game::tick;world::update;<u8: 8>::hash 32_[i] 30000000
        game;net worker 2;[libfoo.so.1] 10000000
        game;net worker 2;main;vfs_read_[k] 10000000
        --
        CPU 0;game;main;game::tick 10000000
        CPU 0;game;main;game::tick;world::update;<u8: 8>::hash 32_[i] 30000000
        CPU 1;game;main;game::tick;Main.run_[j] 10000000
        CPU 1;net worker 2;[libfoo.so.1] 10000000
        CPU 1;net worker 2;main;vfs_read_[k] 10000000
        --
        [libfoo.so.1] 10000000
        main;game::tick 10000000
        main;game::tick;Main.run_[j] 10000000
        main;game::tick;world::update;<u8: 8>::hash 32_[i] 30000000
        main;vfs_read_[k] 10000000
    "#]]
    .assert_eq(&texts.join("--\n"));
    for text in texts {
        let read = Folded::parse(&text).unwrap();
        assert_eq!(self::text(&read), text);
    }
}

#[test]
fn svg_has_each_frame_in_the_colour_of_its_kind() {
    let small = small::recording();
    let svg = graph::svg(&folded(&small, Base::Thread), &style());
    expect![[r#"
        Main.run (10 ms of CPU, 14.29%) | rgb(96,141,215) | 14.2857%
        game (50 ms of CPU, 71.43%) | rgb(61,149,57) | 71.4286%
        main (50 ms of CPU, 71.43%) | rgb(53,141,64) | 71.4286%
        game::tick (50 ms of CPU, 71.43%) | rgb(58,148,56) | 71.4286%
        world::update (30 ms of CPU, 42.86%) | rgb(61,161,63) | 42.8571%
        &lt;u8: 8&gt;::hash 32 (30 ms of CPU, 42.86%) | rgb(172,141,14) | 42.8571%
        [libfoo.so.1] (10 ms of CPU, 14.29%) | rgb(133,133,133) | 14.2857%
        all (70 ms of CPU, 100%) | rgb(145,145,145) | 100.0000%
        net worker 2 (20 ms of CPU, 28.57%) | rgb(60,159,74) | 28.5714%
        main (10 ms of CPU, 14.29%) | rgb(53,141,64) | 14.2857%
        vfs_read (10 ms of CPU, 14.29%) | rgb(191,95,21) | 14.2857%
    "#]]
    .assert_eq(&frames(&svg));
    for text in [
        "<?xml",
        ">game</text>",
        ">70 samples</text>",
        ">host vm</text>",
        "Full width: 70.00 ms of CPU. Height: call depth. Green: program.",
        "id=\"search\"",
        "id=\"unzoom\"",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    let icicle = graph::svg(&folded(&small, Base::Thread), &Style { direction: Direction::Icicle, ..style() });
    assert!(svg.contains("inverted = false") && icicle.contains("inverted = true"));
    // The same recording always gives exactly the same graph.
    assert_eq!(svg, graph::svg(&folded(&small, Base::Thread), &style()));
}

#[test]
fn a_differential_graph_is_red_where_more_is_and_blue_where_less_is() {
    let before = Folded::parse("main;same 40\nmain;grows 20\nmain;shrinks 40\nmain;gone 20").unwrap();
    let after = Folded::parse("main;same 20\nmain;grows 40\nmain;shrinks 0\nmain;shrinks;x 0").unwrap();
    let svg = graph::differential(&before, &after, &Style { quantity: Quantity::Samples, ..style() });
    expect![[r#"
        grows (40 samples, 66.67%; +50.00%) | #f26166 | 66.6667%
        all (60 samples, 100%) | #919191 | 100.0000%
        main (60 samples, 100.00%; 0.00%) | #919191 | 100.0000%
        same (20 samples, 33.33%; 0.00%) | #919191 | 33.3333%
    "#]]
    .assert_eq(&frames(&svg));
    let same = graph::differential(&before, &before, &style());
    let is_unchanged = |svg: &str| frames(svg).lines().all(|line| line.contains("| #919191 |"));
    assert!(is_unchanged(&same), "{}", frames(&same));
    // If all weights double, no share has changed.
    let double = Folded::parse("main;same 80\nmain;grows 40\nmain;shrinks 80\nmain;gone 40").unwrap();
    assert!(is_unchanged(&graph::differential(&before, &double, &style())));
}

/// A name such as `a b` sorts between `a` and `a;c`. The name must not split the frame of `a`.
#[test]
fn no_frame_is_torn_apart_by_a_name_that_sorts_into_it() {
    let folded = Folded::parse("a 1\na b;x 1\na;c 1\na!;y 1").unwrap();
    let svg = graph::svg(&folded, &Style::default());
    assert_eq!(svg.matches("<title>a (").count(), 1, "{}", frames(&svg));
}

#[test]
fn an_empty_recording_gives_a_graph() {
    for svg in [
        graph::svg(&Folded::default(), &style()),
        graph::differential(&Folded::default(), &Folded::default(), &style()),
        graph::svg(&Folded::parse("a 0").unwrap(), &style()),
    ] {
        assert!(svg.contains("There are no samples.") && svg.trim_end().ends_with("</svg>"), "{svg}");
    }
    assert!(graph::html(&Folded::default(), &style()).contains("</html>"));
}

#[test]
fn invisible_frames_are_left_out_and_still_counted() {
    let many: String = (0..200_000).map(|at| format!("main;f{};g{at} 1\n", at % 7)).collect();
    let folded = Folded::parse(&many).unwrap();
    let svg = graph::svg(&folded, &Style::default());
    assert!(svg.len() < 1 << 20, "{} bytes", svg.len());
    assert!(
        svg.contains("all (200,000 samples, 100%)") && svg.contains("… (28,572 samples, 14.29%)"),
        "{}",
        frames(&svg)
    );
    let page = graph::html(&folded, &Style::default());
    assert!(page.len() < 4 << 20, "{} bytes", page.len());
}

#[test]
fn firefox_gets_threads_cpus_and_marks() {
    let small = small::recording();
    let intervals = offcpu::intervals(&small.recording, &small.names);
    let marks = firefox::interval_marks(&small.recording, &intervals);
    let json = firefox::json("game", &small.recording, &small.names, &small.samples(), marks).unwrap();
    let profile: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(schema::check(&profile), Ok(()));
    expect_file!["firefox.json"].assert_eq(&(serde_json::to_string_pretty(&profile).unwrap() + "\n"));
}

#[test]
fn firefox_gets_ticks_as_marks_of_their_thread() {
    const MS: u64 = 1_000_000;
    let small = small::recording();
    let tick = |number: u64, length: u64, late: u64| {
        let start_ns = (1000 + 40 * number) * MS;
        Tick { number, span: Span { start_ns, end_ns: start_ns + length * MS }, begun_ns: start_ns + late * MS }
    };
    let mut marks = firefox::tick_marks(&small.recording, 10, &[tick(0, 31, 0), tick(1, 20, 2)]);
    marks.extend(firefox::interval_marks(&small.recording, &offcpu::intervals(&small.recording, &small.names)));
    let json = firefox::json("game", &small.recording, &small.names, &small.samples(), marks).unwrap();
    let profile: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(schema::check(&profile), Ok(()));
    let threads = profile["threads"].as_array().unwrap();
    let ticks = |thread: &Value| -> Vec<String> {
        let text = |at: &Value| thread["stringArray"][at.as_u64().unwrap() as usize].as_str().unwrap();
        let marks = &thread["markers"];
        let all = (0..marks["length"].as_u64().unwrap() as usize).map(|at| {
            let (start, end) = (&marks["startTime"][at], &marks["endTime"][at]);
            format!("{} {start}..{end} {}", text(&marks["name"][at]), text(&marks["data"][at]["text"]))
        });
        all.filter(|ticks| ticks.starts_with("tick ")).collect()
    };
    let of = |tid: &str| threads.iter().find(|thread| thread["tid"] == tid && thread["pid"] == "10").unwrap();
    assert_eq!(
        ticks(of("10")),
        ["tick 0.0..31.0 31.00 ms, begun on time", "tick 40.0..60.0 20.00 ms, begun 2.00 ms late"]
    );
    assert!(ticks(of("11")).is_empty());
}
