//! Off-CPU intervals as one self-contained HTML page, with a lane for each thread and a colour for each reason.
//! As on the page of a flame graph, the script writes names as text only, and the page may load nothing.

use std::collections::{BTreeMap, HashMap};

use maud::{Markup, html};
use serde::Serialize;

use super::colors;
use super::shell::Shell;
use crate::offcpu::Reason;
use crate::offcpu::timeline::{Lane, Piece, Ticks, Timeline};
use crate::tree::clean;

/// The head of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageHead {
    /// The title.
    pub title: String,
    /// The host, date and command of the recording.
    pub subtitle: String,
    /// Caveats, one sentence each.
    pub caveats: Vec<String>,
}

/// A row of the table of the longest waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The thread that waited.
    pub tid: u32,
    /// The start of the wait, in nanoseconds since the start of the recording.
    pub at_ns: u64,
    /// The length of the wait, in nanoseconds.
    pub length_ns: u64,
    /// The texts of the cells: start, length, reason, thread, and the place of the wait or the thread that took the CPU.
    pub cells: [String; 5],
}

/// The input of the page's script. Times are in nanoseconds since the start of the recording.
/// The lists of a lane have one element for each piece.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Data<'a> {
    format: u32,
    length: u64,
    reasons: Vec<&'static str>,
    texts: Vec<&'a str>,
    /// Indexes into `texts`. The first index is the program's own function that called the waiting function (-1 if unknown).
    /// The indexes of the innermost functions follow.
    stacks: Vec<Vec<i64>>,
    threads: BTreeMap<u32, &'a str>,
    merged: usize,
    merged_within: u64,
    lanes: Vec<LaneData<'a>>,
    ticks: Option<TickData>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct LaneData<'a> {
    pid: u32,
    tid: u32,
    name: &'a str,
    ran: u64,
    known: [u64; 2],
    /// The start of each piece, relative to the start of the previous piece.
    at: Vec<u64>,
    length: Vec<u64>,
    reason: Vec<u8>,
    cpu: Vec<u32>,
    /// The index of the stack in `stacks`. Here and in the next lists, -1 means unknown.
    stack: Vec<i64>,
    by: Vec<i64>,
    woken_by: Vec<i64>,
    woken: Vec<i64>,
    /// Only for incomplete pieces: the index of the piece, and the unknown end (1: the start, 2: the end, 3: records were lost).
    edges: Vec<[u64; 2]>,
    /// Only for merged pieces: the index of the piece, the number of its intervals, and their total length.
    several: Vec<[u64; 3]>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct TickData {
    tid: u32,
    /// The due time of each tick, relative to the due time of the previous tick.
    due: Vec<u64>,
    /// The time from due to done.
    length: Vec<u64>,
    /// The time from due to begin.
    late: Vec<u64>,
    left_out: usize,
}

/// A timeline as a page, with a table of the longest waits.
pub fn timeline_html(timeline: &Timeline, head: &PageHead, longest: &[Row]) -> String {
    let mut texts = Texts::default();
    let data = Data {
        format: 1,
        length: timeline.span.length_ns(),
        reasons: Reason::ALL.iter().map(|reason| reason.words()).collect(),
        stacks: timeline
            .stacks
            .iter()
            .map(|place| {
                let own = place.own.as_deref().map_or(-1, |own| texts.number(own));
                let functions = place.functions.iter().map(|name| texts.number(name));
                std::iter::once(own).chain(functions.collect::<Vec<_>>()).collect()
            })
            .collect(),
        texts: texts.all,
        threads: timeline.threads.iter().map(|(tid, name)| (*tid, name.as_str())).collect(),
        merged: timeline.merged,
        merged_within: timeline.merged_within_ns,
        lanes: timeline.lanes.iter().map(|lane| lane_data(timeline, lane)).collect(),
        ticks: timeline.ticks.as_ref().map(|ticks| tick_data(timeline, ticks)),
    };
    let main = html! {
        p.no-script { "The timeline needs JavaScript, which is off in this browser. The table below works without it." }
        div.tools.needs-script {
            button type="button" id="in" aria-label="Zoom in" { "+" }
            button type="button" id="out" aria-label="Zoom out" { "−" }
            button type="button" id="all" { "Show all" }
            span id="view" role="status" {}
        }
        div.needs-script id="legend" role="group" aria-label="Reasons to show" {}
        div.needs-script id="timeline" {
            div id="axis" { span.label {} canvas {} }
            div id="lanes" tabindex="0" role="application" aria-label=(clean(&head.title)) aria-describedby="help" {}
        }
        p.needs-script id="detail" aria-live="polite" {}
        p.keys.help.needs-script id="help" {
            kbd { "←" } " " kbd { "→" } " next interval, " kbd { "↑" } " " kbd { "↓" } " next thread, " kbd { "+" } " " kbd { "−" }
            " or Ctrl and wheel zoom, drag or " kbd { "Shift" } " " kbd { "←" } " " kbd { "→" } " move, " kbd { "Enter" }
            " or double click zoom to the interval, " kbd { "s" } " next slow tick, " kbd { "Esc" } " show all"
        }
        @for note in notes(timeline, &head.caveats) { p.note { (note) } }
        (table(timeline, longest))
    };
    let colors = colors::css();
    let css = &[colors.as_str(), include_str!("page.css"), include_str!("timeline.css")];
    let js = include_str!("timeline.js");
    Shell { title: &head.title, subtitle: &head.subtitle, css, main, js }.html(&data)
}

/// Collects the texts of the page, each text once.
#[derive(Default)]
struct Texts<'a> {
    all: Vec<&'a str>,
    numbers: HashMap<&'a str, i64>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: &'a str) -> i64 {
        *self.numbers.entry(text).or_insert_with(|| {
            self.all.push(text);
            self.all.len() as i64 - 1
        })
    }
}

fn lane_data<'a>(timeline: &Timeline, lane: &'a Lane) -> LaneData<'a> {
    let since = |at_ns: u64| at_ns.saturating_sub(timeline.span.start_ns);
    let starts: Vec<u64> = lane.pieces.iter().map(|piece| since(piece.span.start_ns)).collect();
    let number = |number: Option<u32>| number.map_or(-1, i64::from);
    let column = |of: &dyn Fn(&Piece) -> i64| lane.pieces.iter().map(of).collect::<Vec<i64>>();
    let placed = || (0_u64..).zip(&lane.pieces);
    LaneData {
        pid: lane.pid,
        tid: lane.tid,
        name: &lane.name,
        ran: lane.on_cpu_ns,
        known: [since(lane.known.start_ns), since(lane.known.end_ns)],
        at: steps(&starts),
        length: lane.pieces.iter().map(|piece| piece.span.length_ns()).collect(),
        reason: lane.pieces.iter().map(|piece| number_of(piece.reason)).collect(),
        cpu: lane.pieces.iter().map(|piece| piece.cpu).collect(),
        stack: column(&|piece| number(piece.place)),
        by: column(&|piece| number(piece.taken_by)),
        woken_by: column(&|piece| number(piece.woken_by)),
        woken: column(&|piece| piece.woken_ns.map_or(-1, |ns| i64::try_from(ns).unwrap_or(i64::MAX))),
        edges: placed().filter_map(|(at, piece)| Some([at, edge_number(piece)?])).collect(),
        several: placed()
            .filter(|(_, piece)| piece.count > 1)
            .map(|(at, piece)| [at, u64::from(piece.count), piece.off_ns])
            .collect(),
    }
}

fn tick_data(timeline: &Timeline, ticks: &Ticks) -> TickData {
    let dues: Vec<u64> =
        ticks.ticks.iter().map(|tick| tick.span.start_ns.saturating_sub(timeline.span.start_ns)).collect();
    TickData {
        tid: ticks.tid,
        due: steps(&dues),
        length: ticks.ticks.iter().map(|tick| tick.span.length_ns()).collect(),
        late: ticks.ticks.iter().map(crate::ticks::Tick::lateness_ns).collect(),
        left_out: ticks.left_out,
    }
}

/// The differences between neighbours. These are small numbers, so the page is shorter.
fn steps(sorted: &[u64]) -> Vec<u64> {
    let before = std::iter::once(0).chain(sorted.iter().copied());
    sorted.iter().zip(before).map(|(at, before)| at.saturating_sub(before)).collect()
}

/// The number of a reason in the page's script.
fn number_of(reason: Reason) -> u8 {
    Reason::ALL.iter().position(|other| *other == reason).map_or(u8::MAX, |at| at as u8)
}

fn edge_number(piece: &Piece) -> Option<u64> {
    use crate::offcpu::Edges;
    match piece.edges {
        Edges::Seen => None,
        Edges::FromBefore => Some(1),
        Edges::ToAfter => Some(2),
        Edges::Torn => Some(3),
    }
}

/// The notes of a page: what it leaves out, and the caveats.
fn notes(timeline: &Timeline, caveats: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    if timeline.lanes_left_out > 0 {
        notes.push(format!("{} threads that used less CPU time have no lane here.", timeline.lanes_left_out));
    }
    if timeline.merged > 0 {
        notes.push(format!(
            "{} of {} intervals are merged with neighbours within {} us, to limit the size of this page.",
            timeline.merged,
            timeline.intervals,
            timeline.merged_within_ns.div_ceil(1000)
        ));
    }
    if timeline.stacks_left_out > 0 {
        notes.push(format!("{} stacks are left out, to limit the size of this page.", timeline.stacks_left_out));
    }
    if let Some(left_out) = timeline.ticks.as_ref().map(|ticks| ticks.left_out).filter(|left_out| *left_out > 0) {
        notes.push(format!("{left_out} of the shorter ticks are not marked."));
    }
    notes.extend_from_slice(caveats);
    notes
}

fn table(timeline: &Timeline, longest: &[Row]) -> Markup {
    if longest.is_empty() {
        return html! {};
    }
    html! {
        h2 { "The longest waits" }
        p.keys { "Complete intervals only, without sleep, poll, stopped and ended." }
        table {
            thead {
                tr { th.n { "at" } th.n { "length" } th { "reason" } th { "thread" } th { "where, or who took the CPU" } }
            }
            tbody {
                @for row in longest {
                    @let [at, length, reason, thread, rest] = &row.cells;
                    tr {
                        td.n {
                            @if let Some(lane) = timeline.lanes.iter().position(|lane| lane.tid == row.tid) {
                                button.name type="button" data-lane=(lane) data-at=(row.at_ns) data-for=(row.length_ns) { (at) }
                            } @else { (at) }
                        }
                        td.n { (length) } td { (reason) } td { (thread) } td { (rest) }
                    }
                }
            }
        }
    }
}
