//! Facts field by field against what independent tools say of the same machine: this one, or a guest of the lab that was asked the
//! same (`EVENKEEL_AGREE`, a folder with `capture.txt` and `said.txt`; `lab/agree.sh` makes it). What either does not tell is skipped
//! aloud and counted; one field on which they differ fails the test.

#![expect(clippy::unwrap_used, reason = "clippy takes the helpers of an integration test for product code")]

mod fields;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_host::Facts;
use evenkeel_sys::{Capture, Root};
use fields::{Row, TOOLS};
use serde_json::Value;

/// What was asked, one shell line each, and what came back or why nothing did.
type Said = BTreeMap<String, Result<String, String>>;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What the tools of this machine say.
fn asked_here() -> Said {
    let list = fs::read_to_string(top().join("lab/guest/tools.list")).unwrap();
    let ask = |line: &str| {
        let output = Command::new("sh").args(["-c", line]).env("LC_ALL", "C").output().unwrap();
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())),
        }
    };
    list.lines().map(|line| (line.to_owned(), ask(line))).collect()
}

/// What the tools of a guest said: `==== LINE` before each, `==== STATUS` after it.
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

/// Facts as JSON, as `inspect --json` has them.
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
            (None, None) => self.skip(format!("{tool} does not tell"), field),
            (None, Some(theirs)) if ours == theirs => self.compared += 1,
            (None, Some(theirs)) => self.differ.push(format!("{field}: {ours}, {tool} says {theirs}")),
        }
    }
}

#[test]
fn every_field_is_what_independent_tools_say() {
    let guest = std::env::var_os("EVENKEEL_AGREE").map(PathBuf::from);
    let (before, said, after) = match &guest {
        Some(dir) => {
            let facts = facts(&Root::captured(Capture::load(&dir.join("capture.txt")).unwrap()));
            (facts.clone(), asked_there(&fs::read_to_string(dir.join("said.txt")).unwrap()), facts)
        }
        None => (facts(&Root::live()), asked_here(), facts(&Root::live())),
    };
    let mut count = Count::default();
    let mut tools = 0;
    for tool in TOOLS {
        let text = match said.get(tool.asked) {
            Some(Ok(text)) => text,
            Some(Err(why)) => {
                count.skip(format!("{}: {}", tool.asked, why.lines().next().unwrap_or_default()), "all of it");
                continue;
            }
            None => panic!("{} is not in lab/guest/tools.list, or the guest was not asked it", tool.asked),
        };
        // Other programs run on this machine too: what they changed meanwhile is no disagreement.
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
    assert!(count.differ.is_empty(), "{:#?}", count.differ);
    assert!(guest.is_none() || count.compared > 200, "{} fields are too few: the guest has every tool", count.compared);
}
