//! Options of Seastar's perftune: what it would write for them, by its own source.

use super::library::LibraryGuide;
use super::line::{Ask, Content, Skip, Target};
use super::{names, settings};
use crate::reading::Reading;

pub(super) fn read(text: &str) -> Vec<Content> {
    let mut section = String::new();
    text.lines()
        .map(|line| {
            let trimmed = line.trim();
            match trimmed.chars().next() {
                None => return Content::NotASetting(Skip::Blank),
                Some('#') => return Content::NotASetting(Skip::Comment),
                Some(_) => {}
            }
            if let Some(item) = trimmed.strip_prefix('-') {
                return option(&section, item.trim());
            }
            let Some((key, value)) = trimmed.split_once(':') else {
                return Content::not("it is no option of perftune");
            };
            section = key.trim().to_owned();
            match value.trim() {
                "" => Content::NotASetting(Skip::Structure),
                list if list.starts_with('[') => many(&section, list),
                value => option(&section, value.trim_matches(['"', '\''])),
            }
        })
        .collect()
}

/// `[net, system]`: what all items ask for.
fn many(section: &str, list: &str) -> Content {
    let items =
        list.trim_matches(['[', ']']).split(',').map(|item| option(section, item.trim().trim_matches(['"', '\''])));
    let (mut asks, mut without) = (Vec::new(), None);
    for item in items {
        match item {
            Content::Settings(found) => asks.extend(found),
            Content::NotUnderstood(why) => asks.push(Ask::not_understood(why)),
            Content::NotASetting(_) => without = Some(item),
        }
    }
    if asks.is_empty() { without.unwrap_or(Content::NotASetting(Skip::Structure)) } else { Content::settings(asks) }
}

fn option(key: &str, value: &str) -> Content {
    let known = |value: &str| {
        Content::settings(names::by_called(&format!("perftune {key}"), None, value).into_iter().collect())
    };
    match (key, value) {
        ("tune", "net") => {
            // What it sets on every machine, by its own source.
            let text = LibraryGuide::find("seastar:perftune").map_or("", |guide| guide.text);
            Content::settings(text.lines().filter_map(settings::assignment).collect())
        }
        ("irq_cpu_mask", mask) => {
            let mask = mask.trim_start_matches("0x").replace(",0x", ",");
            match Reading::CpuMask.value(&mask) {
                Some(cpus) => known(&cpus),
                None => Content::not("it is no mask of CPUs"),
            }
        }
        ("num_rx_queues", number) => known(number),
        ("tune_clock", "true")
        | ("arfs", _)
        | ("write_back_cache", _)
        | ("tune", "disks" | "disks_nvme" | "disks_spinning") => {
            Content::Settings(vec![Ask::new(Target::Tool(format!("perftune's {key}: {value}")), "")])
        }
        _ => Content::NotASetting(Skip::Elsewhere),
    }
}
