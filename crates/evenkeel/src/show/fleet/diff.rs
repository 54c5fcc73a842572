//! The page of `fleet diff`: for each group, the hosts that differ, and the rows in which they differ.

use evenkeel_fleet::audit::{FleetDiff, GroupDiff, HostDiff};

use super::parts::{by, counted, difference, limits, row_name, traits, values};
use crate::view::{Block, Text, markdown, terminal};

/// The maximum number of differences of a host on the page, unless the user asks for all.
const OF_HOST_MAX: usize = 8;
/// The maximum number of hosts of a group on the page, unless the user asks for all.
const HOSTS_MAX: usize = 20;
/// The maximum number of rows without a usual value, for one group on the page, unless the user asks for all.
const MIXED_MAX: usize = 8;

pub(crate) fn page(diff: &FleetDiff, is_whole: bool) -> String {
    let mut page = vec![Block::heading(title(diff))];
    page.extend(blocks(diff, is_whole));
    terminal::text(&page)
}

pub(crate) fn markdown(diff: &FleetDiff, is_whole: bool) -> String {
    markdown::document(&title(diff), &blocks(diff, is_whole))
}

fn title(diff: &FleetDiff) -> String {
    let differing = diff.differing;
    let groups = counted(diff.groups.len(), "group");
    format!("{differing} of {} in {groups} differ from their group", counted(diff.hosts, "host"))
}

fn blocks(diff: &FleetDiff, is_whole: bool) -> Vec<Block> {
    let mut blocks = vec![Block::row("groups by", by(&diff.by))];
    let has_news = |group: &&GroupDiff| !group.differing.is_empty() || !group.mixed.is_empty();
    for group in diff.groups.iter().filter(has_news) {
        blocks.push(Block::section(
            format!("Group {}: {} ({})", group.group, traits(&group.traits), counted(group.hosts, "host")),
            group_blocks(group, is_whole),
        ));
    }
    if diff.beyond > 0 {
        blocks.push(Block::Note(format!("The answer leaves out {}.", counted(diff.beyond, "more difference"))));
    }
    blocks.extend(limits(&diff.unread, &diff.caveats));
    blocks
}

fn group_blocks(group: &GroupDiff, is_whole: bool) -> Vec<Block> {
    let most = |most: usize| if is_whole { usize::MAX } else { most };
    let mut blocks = Vec::new();
    for host in group.differing.iter().take(most(HOSTS_MAX)) {
        let header = [host.host.as_str(), "value, and that of the group"];
        blocks.push(Block::table(header, differences(host, most(OF_HOST_MAX))));
    }
    let more = group.differing.len().saturating_sub(most(HOSTS_MAX));
    if more > 0 {
        blocks.push(Block::Note(format!("{}: add --all.", counted(more, "more host"))));
    }
    if !group.mixed.is_empty() {
        blocks.push(Block::paragraph("No value is that of more than half of the hosts:"));
        let row = |id: &str, said: String| row_name(id).and(format!(": {said}"));
        let listed = group.mixed.iter().take(most(MIXED_MAX));
        let mut rows: Vec<Text> =
            listed.map(|mixed| row(&mixed.id, values(&mixed.values, mixed.values_beyond))).collect();
        let more = group.mixed.len().saturating_sub(most(MIXED_MAX));
        if more > 0 {
            rows.push(format!("{more} more: add --all").into());
        }
        blocks.push(Block::List(rows));
    }
    blocks
}

fn differences(host: &HostDiff, most: usize) -> Vec<[Text; 2]> {
    let listed = host.differences.iter().take(most);
    let mut rows: Vec<[Text; 2]> =
        listed.map(|row| [row_name(&row.id), Text::from(difference(&row.difference))]).collect();
    let more = host.differences.len().saturating_sub(most) + host.beyond;
    if more > 0 {
        rows.push([Text::from(format!("{more} more")), Text::from(String::new())]);
    }
    rows
}
