//! The page of `fleet audit`: findings by level, the groups, a matrix of knobs and groups, and the hosts that differ.

use evenkeel_fleet::audit::{FleetAudit, GroupStates, GroupSummary, KnobStates, LevelCount, StateCount};
use evenkeel_host::State;

use super::parts::{by, counted, difference, limits, row_name, traits};
use crate::show::page::width;

use crate::view::{Block, Column, Text, markdown, terminal};

/// The maximum number of groups in the matrix, unless the user asks for all. More groups do not fit on a page.
const GROUPS_MAX: usize = 6;
/// The maximum number of outliers on the page, unless the user asks for all.
const OUTLIERS_MAX: usize = 12;

pub(crate) fn page(audit: &FleetAudit, is_whole: bool) -> String {
    let mut page = vec![Block::heading(title(audit))];
    // If the columns are too wide for one table, they continue in another table.
    page.extend(blocks(audit, is_whole, width()));
    terminal::text(&page)
}

pub(crate) fn markdown(audit: &FleetAudit, is_whole: bool) -> String {
    markdown::document(&title(audit), &blocks(audit, is_whole, usize::MAX))
}

fn title(audit: &FleetAudit) -> String {
    let groups = counted(audit.groups.len() + audit.groups_beyond, "group");
    format!("{} in {groups}, goal {}", counted(audit.hosts, "host"), audit.context.goal)
}

fn blocks(audit: &FleetAudit, is_whole: bool, columns: usize) -> Vec<Block> {
    let urgent = audit.levels.iter().filter(|level| level.state.is_finding());
    let levels = urgent.map(|one| [one.state.name().to_owned(), one.findings.to_string(), one.hosts.to_string()]);
    let mut blocks = vec![Block::table(
        [Column::from("findings"), Column::number("number"), Column::number("hosts")],
        levels.collect(),
    )];
    let shown = if is_whole { audit.groups.len() } else { GROUPS_MAX.min(audit.groups.len()) };
    blocks.push(Block::section(format!("Groups by {}", by(&audit.by)), groups(audit, shown)));
    blocks.push(Block::section("Knobs by group", matrix(audit, shown, is_whole, columns)));
    blocks.push(Block::section("Hosts that differ from their group", outliers(audit, is_whole)));
    blocks.extend(limits(&audit.unread, &audit.caveats));
    blocks
}

fn groups(audit: &FleetAudit, shown: usize) -> Vec<Block> {
    let row = |group: &GroupSummary| {
        let set = group.levels.iter().find(|level: &&LevelCount| level.state == State::Set);
        [
            format!("group {}", group.group),
            group.hosts.len().to_string(),
            group.differing.to_string(),
            set.map_or(0, |set| set.findings).to_string(),
            traits(&group.traits),
        ]
    };
    let header = [
        Column::from("group"),
        Column::number("hosts"),
        Column::number("differ"),
        Column::number("to set"),
        Column::from("traits"),
    ];
    let mut blocks = vec![Block::table(header, audit.groups.iter().take(shown).map(row).collect())];
    let more = audit.groups.len() - shown;
    if more > 0 {
        blocks.push(Block::Note(format!("{}: add --all, or use fewer traits (--by).", counted(more, "more group"))));
    }
    blocks
}

/// The matrix: the knobs that may need an action, or all knobs.
fn matrix(audit: &FleetAudit, shown: usize, is_whole: bool, columns: usize) -> Vec<Block> {
    let in_shown = |groups: &GroupStates| groups.group <= shown;
    let is_urgent = |knob: &&KnobStates| {
        let mut states = knob.groups.iter().filter(|groups| in_shown(groups)).flat_map(|groups| &groups.states);
        is_whole || states.any(|one| one.state < State::Unknown)
    };
    let knobs: Vec<&KnobStates> = audit.knobs.iter().filter(is_urgent).collect();
    let cells: Vec<Vec<String>> =
        (1..=shown).map(|group| knobs.iter().map(|knob| cell(knob, group)).collect()).collect();
    let widths: Vec<usize> =
        cells.iter().map(|cells| cells.iter().map(String::len).max().unwrap_or(0).max("group 1".len()) + 2).collect();
    let name_width = knobs.iter().map(|knob| knob.knob.len()).max().unwrap_or(0) + 2;
    let mut blocks = Vec::new();
    let mut from = 0;
    while from < shown {
        let (mut to, mut room) = (from + 1, columns.saturating_sub(name_width + widths[from]));
        while to < shown && widths[to] <= room {
            room -= widths[to];
            to += 1;
        }
        let mut header = vec![Column::from("knob")];
        header.extend((from..to).map(|at| Column::from(format!("group {}", at + 1))));
        let rows = knobs.iter().enumerate().map(|(row, knob)| {
            let own = cells[from..to].iter().map(|cells| Text::from(cells[row].clone()));
            std::iter::once(Text::code(knob.knob)).chain(own).collect()
        });
        blocks.push(Block::Table { header, rows: rows.collect() });
        from = to;
    }
    if !is_whole {
        blocks.push(Block::Note("Only knobs that somebody may act on; --all shows the others.".to_owned()));
    }
    blocks
}

/// The cell of a knob in a group: `set` if all hosts agree, else `12 set, 3 keep`.
fn cell(knob: &KnobStates, group: usize) -> String {
    let states: &[StateCount] =
        knob.groups.iter().find(|groups| groups.group == group).map_or(&[], |groups| &groups.states);
    match states {
        [] => "-".to_owned(),
        [one] => one.state.name().to_owned(),
        several => {
            several.iter().map(|one| format!("{} {}", one.hosts, one.state.name())).collect::<Vec<_>>().join(", ")
        }
    }
}

fn outliers(audit: &FleetAudit, is_whole: bool) -> Vec<Block> {
    let all = audit.rows.iter().flat_map(|row| row.groups.iter().map(move |group| (row, group)));
    let mut all: Vec<_> = all.filter(|(_, group)| !group.outliers.is_empty()).collect();
    // Rows with few outliers come first,
    // because one outlier among a thousand hosts is more informative than five hundred.
    all.sort_by_key(|(_, group)| group.outliers.len() + group.outliers_beyond);
    let all = all.into_iter().flat_map(|(row, group)| group.outliers.iter().map(move |outlier| (row, outlier)));
    let all: Vec<_> = all.collect();
    let most = if is_whole { all.len() } else { OUTLIERS_MAX };
    let words = all.iter().take(most).map(|(row, outlier)| {
        Text::from(format!("{}: ", outlier.host))
            .and(row_name(&row.id))
            .and(format!(": {}", difference(&outlier.difference)))
    });
    let mut blocks = match all.is_empty() {
        true => vec![Block::paragraph("No host has another value or other advice than most of its group.")],
        false => vec![Block::List(words.collect())],
    };
    if all.len() > most {
        let more = counted(all.len() - most, "more difference");
        blocks.push(Block::paragraph(Text::prose(&format!("{more}: `evenkeel fleet diff` lists them by host."))));
    }
    blocks
}
