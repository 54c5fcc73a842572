//! Names that would break a format or run as a script, and sums that would overflow.

use evenkeel_profile::firefox;
use evenkeel_profile::fold::{Base, Folded};
use evenkeel_profile::graph::{self, Style};
use evenkeel_profile::names::Names;
use evenkeel_profile::recording::{Event, Recording, Sample, Thread, Unit};
use evenkeel_profile::stack::Frame;

/// Names that a malicious program may give a function or a thread.
pub(crate) const NAMES: &[&str] = &[
    "<img src=x onerror=document.title='ours'>",
    "</script><script>document.title='ours'</script>",
    "</title><script>document.title='ours'</script>",
    "]]><script>document.title='ours'</script><![CDATA[",
    "--><b>",
    "a;b;c 12 13",
    "number 12",
    "12",
    "# remark",
    "\u{0}\u{1b}[2J\u{7}\r\nfake;line 99",
    "\u{202e}desrever\u{2066}",
    "\u{fffe}\u{ffff}\u{2028}",
    "\"quoted' `and` \\ back",
    "",
    "   ",
    "-",
    "--",
    "…",
    "&amp;&lt;",
    "__proto__",
    "constructor",
];

/// A recording in which threads and functions have these names.
pub(crate) fn recording() -> (Recording, Names) {
    let mut recording =
        Recording { events: vec![Event { name: "cpu-clock".into(), unit: Unit::Nanoseconds }], ..Recording::default() };
    for (at, name) in NAMES.iter().enumerate() {
        let tid = at as u32 + 1;
        recording.threads.insert(tid, Thread { pid: tid, name: Some((*name).to_owned()) });
        let inner = recording.stacks.text(name);
        let outer = recording.stacks.text(NAMES[(at + 5) % NAMES.len()]);
        let frames =
            [outer, inner].map(|name| Frame::Named { name, module: None, is_kernel: at % 3 == 0, is_inlined: false });
        let stack = recording.stacks.intern(frames);
        let at_ns = at as u64;
        recording.samples.push(Sample {
            event: 0,
            at_ns,
            cpu: 0,
            pid: tid,
            tid,
            stack,
            weight: 1_000_000,
            address: 0,
            raw: (0, 0),
        });
    }
    let names = Names::resolve(&recording, |_| Vec::new());
    (recording, names)
}

#[test]
fn no_name_becomes_a_part_of_a_form() {
    let (recording, names) = recording();
    for base in [Base::Thread, Base::Process, Base::Cpu, Base::Nothing] {
        let folded = Folded::from_samples(&recording, &names, base, recording.samples.iter());
        let text: String = folded.lines.iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect();
        assert_eq!(text.lines().count(), folded.lines.len());
        assert_eq!(Folded::parse(&text).unwrap(), folded, "{base:?}");
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()));
        assert_eq!(folded.total(), NAMES.len() as u64 * 1_000_000);
        let style = Style { title: NAMES[0].into(), subtitle: NAMES[1].into(), ..Style::default() };
        let (svg, page) = (graph::svg(&folded, &style), graph::html(&folded, &style));
        for text in [&svg, &page] {
            assert!(!text.contains("<img") && !text.contains("<script>document") && !text.contains("<b>"));
        }
        // The page has exactly two scripts: its data, and the code that draws it.
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</script").count(), 2);
        let whole = format!("all ({},000,000 samples, 100%)", NAMES.len());
        assert!(svg.contains(&whole), "some of it is not drawn");
    }
    let samples: Vec<&Sample> = recording.samples.iter().collect();
    let json = firefox::json(NAMES[0], &recording, &names, &samples, Vec::new()).unwrap();
    assert_eq!(super::schema::check(&serde_json::from_str(&json).unwrap()), Ok(()));
}

#[test]
fn stacks_without_an_end_and_names_of_a_megabyte_are_cut() {
    let mut recording = Recording::default();
    let name = recording.stacks.text(&"x".repeat(1 << 20));
    let recursion = recording.stacks.text("f");
    let named = |name| Frame::Named { name, module: None, is_kernel: false, is_inlined: false };
    let frames = std::iter::repeat_n(named(recursion), 10_000).chain([named(name)]);
    let stack = recording.stacks.intern(frames);
    let sample = |at_ns| Sample { event: 0, at_ns, cpu: 0, pid: 1, tid: 1, stack, weight: 1, address: 0, raw: (0, 0) };
    recording.samples = (0..100).map(sample).collect();
    let names = Names::resolve(&recording, |_| Vec::new());
    let folded = Folded::from_samples(&recording, &names, Base::Nothing, recording.samples.iter());
    let line = folded.lines.keys().next().unwrap();
    assert!(line.len() < 4096 && line.ends_with(";f;…"), "{} bytes", line.len());
    let shallow = recording.stacks.intern([named(name)]);
    recording.samples.iter_mut().for_each(|sample| sample.stack = shallow);
    let folded = Folded::from_samples(&recording, &names, Base::Nothing, recording.samples.iter());
    let line = folded.lines.keys().next().unwrap();
    assert!(line.len() < 1000 && line.contains("x…x"), "{} bytes", line.len());
    let deep = vec!["a-name-that-is-not-short".repeat(8); 300].join(";");
    let many: String = (0..400).map(|at| format!("f{at};{deep} 1\n")).collect();
    let svg = graph::svg(&Folded::parse(&many).unwrap(), &Style::default());
    // The inner ends of stacks are cut, but no stack is missing.
    assert!(svg.ends_with("</svg>") && svg.contains("<title>f399 (1 samples") && svg.contains("… ("));
}

#[test]
fn sums_that_overflow_are_drawn_all_the_same() {
    let max = u64::MAX;
    let folded = Folded::parse(&format!("a;b {max}\na;c {max}\na;d 5\n")).unwrap();
    let style = Style::default();
    let pages = [
        graph::svg(&folded, &style),
        graph::html(&folded, &style),
        graph::differential(&folded, &Folded::parse("a 1").unwrap(), &style),
        graph::differential(&Folded::parse("a 1").unwrap(), &folded, &style),
        graph::html_differential(&folded, &Folded::parse(&format!("a {max}")).unwrap(), &style),
    ];
    assert!(pages.iter().all(|page| page.contains("</svg>") || page.contains("</html>")));
}
