//! Compares facts, field by field, with independent tools on the same machine.
//! The machine is this one, or a guest of the lab (`EVENKEEL_AGREE`, a folder with `capture.txt` and `said.txt`; `lab/agree.sh` makes it).
//! If either side lacks a field, the field is counted and visibly skipped.
//! If both sides have a field and the values differ, the test fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_host::Facts;
use evenkeel_hostfs::{Capture, Root};
use evenkeel_testkit::skipped;
use serde_json::Value;

use crate::fields::counters::{ASKED, Counts, as_text, ours};
use crate::fields::{Row, TOOLS};

/// The shell lines, each with its output, or with the reason for missing output.
type Said = BTreeMap<String, Result<String, String>>;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The output of this machine's tools, for a list in lab/guest.
fn asked_here(list: &str) -> Said {
    let list = fs::read_to_string(top().join("lab/guest").join(list)).unwrap();
    let ask = |line: &str| {
        let output = Command::new("sh").args(["-c", line]).env("LC_ALL", "C").output().unwrap();
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())),
        }
    };
    list.lines().map(|line| (line.to_owned(), ask(line))).collect()
}

/// The output of a guest's tools. `==== LINE` comes before each output, and `==== STATUS` comes after it.
fn asked_there(text: &str) -> Said {
    let mut said = Said::new();
    let mut parts = text.split("==== ").skip(1);
    while let (Some(asked), Some(ended)) = (parts.next(), parts.next()) {
        let (line, output) = asked.split_once('\n').unwrap();
        let status = ended.trim();
        let outcome =
            if status == "0" { Ok(output.to_owned()) } else { Err(format!("exit status {status}: {output}")) };
        said.insert(line.to_owned(), outcome);
    }
    said
}

/// The guest's capture and the output of its tools, if a guest is given.
fn guest() -> Option<(Root, String)> {
    let dir = PathBuf::from(std::env::var_os("EVENKEEL_AGREE")?);
    let capture = Capture::load(&dir.join("capture.txt")).unwrap();
    Some((Root::captured(capture), fs::read_to_string(dir.join("said.txt")).unwrap()))
}

/// Facts as JSON, in the form of `inspect --json`.
fn facts(root: &Root) -> Value {
    serde_json::to_value(Facts::probe(root)).unwrap()
}

#[derive(Default)]
struct Count {
    compared: usize,
    skipped: BTreeMap<String, Vec<String>>,
    differ: Vec<String>,
}

impl Count {
    fn skip(&mut self, why: impl Into<String>, what: impl Into<String>) {
        self.skipped.entry(why.into()).or_default().push(what.into());
    }

    fn row(&mut self, tool: &str, row: Row) {
        let Row { field, ours, theirs } = row;
        let unknown = ours.get("unknown").and_then(Value::as_str).map(str::to_owned);
        match (unknown, theirs) {
            (Some(why), None) if why == "absent" => self.compared += 1,
            (Some(why), _) => self.skip(format!("{why} to us"), field),
            (None, None) => self.skip(format!("{tool} does not report it"), field),
            (None, Some(theirs)) if ours == theirs => self.compared += 1,
            (None, Some(theirs)) => self.differ.push(format!("{field}: {ours}, {tool} says {theirs}")),
        }
    }
}

/// Probes, runs the tools, and probes again. A guest was probed only once.
fn compare(guest: Option<&(Root, String)>) -> Count {
    let (before, said, after) = match guest {
        Some((root, said)) => (facts(root), asked_there(said), facts(root)),
        None => (facts(&Root::live()), asked_here("tools.list"), facts(&Root::live())),
    };
    let mut count = Count::default();
    let mut tools = 0;
    for tool in TOOLS {
        let text = match said.get(tool.asked) {
            Some(Ok(text)) => text,
            Some(Err(why)) => {
                let why = format!("{}: {}", tool.asked, why.lines().next().unwrap_or_default());
                skipped(&why);
                count.skip(why, "all of it");
                continue;
            }
            None => panic!("{} is not in lab/guest/tools.list, or the guest was not asked it", tool.asked),
        };
        // Other programs run on this machine too. Values that they changed meanwhile do not count as differences.
        let earlier: BTreeMap<String, Value> =
            (tool.rows)(&before, text).into_iter().map(|row| (row.field, row.ours)).collect();
        let rows = (tool.rows)(&after, text);
        let compared = count.compared;
        for row in rows {
            if earlier.get(&row.field) == Some(&row.ours) {
                count.row(tool.name, row);
            } else {
                count.skip("it changed meanwhile", row.field);
            }
        }
        println!("{:4} fields as {} says", count.compared - compared, tool.asked);
        tools += usize::from(count.compared > compared);
    }
    let skipped: usize = count.skipped.values().map(Vec::len).sum();
    println!(
        "{} fields compared in {tools} answers of tools, {skipped} skipped, {} differ",
        count.compared,
        count.differ.len()
    );
    for (why, fields) in &count.skipped {
        println!("skipped: {why}: {}", fields.join(", "));
    }
    count
}

#[test]
fn every_field_is_what_independent_tools_say() {
    let guest = guest();
    let mut count = compare(guest.as_ref());
    // Another program may have changed a setting and restored it between our readings. A real difference remains at the second try.
    for _ in 0..2 {
        if !count.differ.is_empty() && guest.is_none() {
            println!("once more: {:#?}", count.differ);
            count = compare(None);
        }
    }
    assert!(count.differ.is_empty(), "{:#?}", count.differ);
    assert!(guest.is_none() || count.compared > 200, "{} fields are too few: the guest has every tool", count.compared);
}

/// The facts that determine the questions, and our counters.
fn counted(root: &Root) -> (Value, Counts) {
    let probed = Facts::probe(root);
    (serde_json::to_value(&probed).unwrap(), ours(&serde_json::to_value(&probed.counters).unwrap()))
}

/// The counters in all answers. `when` is the prefix of each question.
fn counts_in(said: &Said, when: &str, facts: &Value) -> Counts {
    let of = |(name, asked): (&str, &str)| match said.get(&format!("{when}{asked}")) {
        Some(Ok(text)) => as_text(facts, name, text),
        Some(Err(why)) => {
            skipped(format_args!("{asked}: {}", why.lines().next().unwrap_or_default()));
            Counts::new()
        }
        None => panic!("{when}{asked} is not in lab/guest/counters.list, or the guest was not asked it"),
    };
    ASKED.into_iter().flat_map(of).collect()
}

/// Counters only grow, so a reading between two other readings must lie between their values.
/// Here, a tool reads between two readings of evenkeel. For a guest, evenkeel reads once, and the tools read before and after.
#[test]
fn every_counter_lies_between_two_readings() {
    let guest = guest();
    let mut said = out_of_order(guest.as_ref());
    // While the kernel adds a CPU's counts to sums, another reader sees the counts in neither place.
    // A real difference remains at the second try.
    for _ in 0..2 {
        if !said.is_empty() && guest.is_none() {
            println!("once more: {said:#?}");
            said = out_of_order(None);
        }
    }
    assert!(said.is_empty(), "{said:#?}");
}

/// The counters that do not lie between the other two readings.
fn out_of_order(guest: Option<&(Root, String)>) -> Vec<String> {
    let (earlier, between, later, facts) = match guest {
        Some((root, said)) => {
            let (said, (facts, ours)) = (asked_there(said), counted(root));
            (counts_in(&said, "earlier: ", &facts), ours, counts_in(&said, "later: ", &facts), facts)
        }
        None => {
            let (_, earlier) = counted(&Root::live());
            let said = asked_here("counters.list");
            let (facts, later) = counted(&Root::live());
            (earlier, counts_in(&said, "", &facts), later, facts)
        }
    };
    // If a CPU never served an interrupt, the file has 0, and our JSON leaves out the count.
    let read = |counts: &Counts, name: &str| counts.get(name).copied().or(name.starts_with("irqs[").then_some(0));
    let names: BTreeSet<&String> = earlier.keys().chain(between.keys()).chain(later.keys()).collect();
    let (mut compared, mut moved, mut skipped, mut differ) = (0, 0, Vec::new(), Vec::new());
    for name in names {
        let [Some(low), Some(count), Some(high)] = [&earlier, &between, &later].map(|counts| read(counts, name)) else {
            skipped.push(name.clone());
            continue;
        };
        compared += 1;
        moved += usize::from(count > 0);
        if !(low..=high).contains(&count) {
            differ.push(format!("{name}: {count} is not between {low} and {high}"));
        }
    }
    println!(
        "{compared} counters compared in readings before and after, {moved} of them not 0, {} differ",
        differ.len()
    );
    println!("skipped: not in every reading: {}", skipped.join(", "));
    assert!(guest.is_none() || compared > 40, "{compared} counters of {} are too few", facts["kernel"]["release"]);
    differ
}
