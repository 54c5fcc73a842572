//! Options of Seastar's perftune: the settings that perftune would write, according to its source.

use super::library::LibraryGuide;
use super::line::{Ask, Content, Skip, Target};
use super::{names, settings};
use crate::reading::Reading;

pub(super) fn read(text: &str) -> Vec<Content> {
    let mut section = String::new();
    let nics = nics(text);
    text.lines()
        .map(|line| {
            let trimmed = line.trim();
            match trimmed.chars().next() {
                None => return Content::NotASetting(Skip::Blank),
                Some('#') => return Content::NotASetting(Skip::Comment),
                Some(_) => {}
            }
            if trimmed == "---" {
                return Content::NotASetting(Skip::Structure);
            }
            if let Some(item) = trimmed.strip_prefix('-') {
                return option(&section, plain(item), &nics);
            }
            let Some((key, value)) = trimmed.split_once(':') else {
                return Content::not("it is not an option of perftune");
            };
            section = key.trim().to_owned();
            match plain(value) {
                "" => Content::NotASetting(Skip::Structure),
                list if list.starts_with('[') => many(&section, list, &nics),
                value => option(&section, value, &nics),
            }
        })
        .collect()
}

/// A value without its quotes, and without a comment after the quotes.
fn plain(value: &str) -> &str {
    let value = value.split(" #").next().unwrap_or(value);
    value.trim().trim_matches(['"', '\''])
}

/// The interfaces of the option `nic`, which may come after the other options.
fn nics(text: &str) -> String {
    let (mut is_in_list, mut nics) = (false, Vec::new());
    for line in text.lines().map(str::trim) {
        match (line.strip_prefix("nic:"), line.strip_prefix('-').filter(|_| is_in_list)) {
            (Some(value), _) => {
                is_in_list = plain(value).is_empty();
                let each = plain(value).trim_matches(['[', ']']).split(',').map(plain);
                nics.extend(each.filter(|nic| !nic.is_empty()));
            }
            (None, Some(nic)) => nics.push(plain(nic)),
            (None, None) => is_in_list &= line.is_empty() || line.starts_with('#'),
        }
    }
    nics.join(",")
}

/// `[net, system]`: a list of values for one option. Returns the settings of all these values.
fn many(section: &str, list: &str, nics: &str) -> Content {
    let items = list.trim_matches(['[', ']']).split(',').map(|item| option(section, plain(item), nics));
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

fn option(key: &str, value: &str, nics: &str) -> Content {
    let known = |value: &str| {
        let place = Some(nics).filter(|nics| !nics.is_empty());
        Content::settings(names::by_called(&format!("perftune {key}"), place, value).into_iter().collect())
    };
    match (key, value) {
        ("tune", "net") => {
            // The settings that perftune makes on every machine, according to its source.
            let text = LibraryGuide::find("seastar:perftune").map_or("", |guide| guide.text);
            Content::settings(text.lines().filter_map(settings::assignment).collect())
        }
        ("irq_cpu_mask", mask) => {
            let mask = mask.trim_start_matches("0x").replace(",0x", ",");
            match Reading::CpuMask.value(&mask) {
                Some(cpus) => known(&cpus),
                None => Content::not("it is not a mask of CPUs"),
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
