//! Generates docs/instances.md from the catalogue, so that the page and the program always agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use super::{Kind, Row, TEXTS, row, source};

const HEAD: &str = "\
# Instance types

This page lists what the documentation of the clouds says about the instance types that evenkeel knows. A machine cannot see its
share of the network, nor its baseline of CPU time. So `evenkeel inspect` shows the row of its own instance type, with the sources.
Values that the machine reports take precedence, and no advice depends only on these figures. A `?` means that no source here
gives the figure. No figure is from memory.

Network and EBS figures without a unit are in Mbit/s. *Sustained* is the rate without a time limit. *C, P* says whether the guest may
select idle and frequency states. *Burst* is the sustained share of each CPU. A credit is one minute of one CPU.

This page is generated from the texts in `crates/host/src/catalogue`. To regenerate it, run
`UPDATE_EXPECT=1 cargo test -p evenkeel-host`.
";

/// The page, in Markdown.
pub fn document() -> String {
    let mut page = HEAD.to_owned();
    for (cloud, _, text) in TEXTS {
        // Writing to a String can't fail.
        let _ = write_cloud(&mut page, cloud, text);
    }
    page
}

/// The figures of one type, and the keys of their sources.
#[derive(Default)]
struct Type {
    figures: BTreeMap<Kind, &'static str>,
    keys: BTreeSet<&'static str>,
}

fn write_cloud(page: &mut String, cloud: &str, text: &'static str) -> fmt::Result {
    writeln!(page, "\n## {cloud}\n")?;
    for (key, origin) in text.lines().filter_map(source) {
        writeln!(page, "- {key}: {} ({})", origin.title, origin.date)?;
    }
    writeln!(
        page,
        "\n| type | vCPUs | threads per core | GiB | network | EBS | queues | nodes | GHz | C, P | burst | sources |"
    )?;
    writeln!(page, "|---|---|---|---|---|---|---|---|---|---|---|---|")?;
    let rows: Vec<Row> = text.lines().filter_map(row).collect();
    let mut order: Vec<&str> = Vec::new();
    let mut types: BTreeMap<&str, Type> = BTreeMap::new();
    for row in &rows {
        for name in row.types.split(", ") {
            let of_type = types.entry(name).or_insert_with(|| {
                order.push(name);
                Type::default()
            });
            of_type.figures.extend(row.figures.iter().copied());
            of_type.keys.insert(row.key);
        }
    }
    for (name, of_type) in order.iter().filter_map(|name| Some((name, types.get(name)?))) {
        writeln!(page, "| {name} | {} |", cells(of_type).join(" | "))?;
    }
    Ok(())
}

fn cells(of_type: &Type) -> Vec<String> {
    let cell = |kind: Kind| of_type.figures.get(&kind).map_or("?", |value| *value).to_owned();
    let with = |kind, second: Kind, what| match of_type.figures.get(&second) {
        Some(value) => format!("{}, {value} {what}", cell(kind)),
        None => cell(kind),
    };
    let clocks = [
        ("base", Kind::ClockGhzBase),
        ("sustained", Kind::ClockGhzSustained),
        ("all cores", Kind::ClockGhzAllCores),
        ("highest", Kind::ClockGhzMax),
    ];
    let given = clocks.iter().filter_map(|(what, kind)| Some(format!("{what} {}", of_type.figures.get(kind)?)));
    let clock = given.collect::<Vec<_>>().join(", ");
    let states = [cell(Kind::CStates), cell(Kind::PStates)].join(", ");
    let credits = |per_hour: &&str| format!(", {per_hour} credits per hour");
    let credits = of_type.figures.get(&Kind::CreditsPerHour).map(credits).unwrap_or_default();
    let burst = of_type.figures.get(&Kind::BaselinePercentPerVcpu).map(|percent| format!("{percent} %{credits}"));
    vec![
        cell(Kind::Vcpus),
        cell(Kind::ThreadsPerCore),
        cell(Kind::MemoryGib),
        with(Kind::Network, Kind::NetworkMbpsBaseline, "sustained"),
        with(Kind::EbsMbps, Kind::EbsMbpsMax, "at most"),
        cell(Kind::Queues),
        cell(Kind::NumaNodes),
        if clock.is_empty() { "?".to_owned() } else { clock },
        if states == "?, ?" { "?".to_owned() } else { states },
        burst.unwrap_or_default(),
        of_type.keys.iter().copied().collect::<Vec<_>>().join(", "),
    ]
}
