//! The page of `fleet table`: a section for each generation.

use evenkeel_measure::card::table::{Generation, GenerationTable, Spread};

use crate::show::card::quantity;
use crate::show::page::{BAD, DIM, GOOD, Indent, PLAIN, Page, WARN};

pub(crate) fn page(table: &GenerationTable, lines: &[String], unread: &[String]) -> String {
    let mut page = Page::default();
    for generation in &table.generations {
        page.heading(&generation.name());
        page.row("machines", PLAIN, &generation.cards.len().to_string());
        let (style, words) = holds(generation);
        page.row("holds the limits", style, &words);
        let wanted = lines.iter().filter_map(|id| generation.lines.iter().find(|line| line.id == *id));
        let rows: Vec<Vec<String>> = wanted.map(row).collect();
        if !rows.is_empty() {
            page.table(&["number", "median", "lowest", "highest", "machines"], &rows);
        }
    }
    page.line(PLAIN, "");
    for why in unread {
        page.paragraph(Indent { first: 0, rest: 2 }, BAD, &format!("not read: {why}"));
    }
    for caveat in &table.caveats {
        page.paragraph(Indent { first: 0, rest: 2 }, WARN, &format!("caveat: {caveat}"));
    }
    page.line(DIM, "Median, lowest and highest are over the machines, of each machine's median.");
    page.finish()
}

fn holds(generation: &Generation) -> (anstyle::Style, String) {
    let holds = &generation.holds;
    let all = generation.cards.len();
    match (holds.held, holds.broken) {
        (held, 0) if held == all => (GOOD, "all".to_owned()),
        (0, broken) if broken == all => (BAD, "none".to_owned()),
        (held, broken) => {
            let unknown = if holds.unknown == 0 { String::new() } else { format!(", {} unknown", holds.unknown) };
            (WARN, format!("{held} yes, {broken} no{unknown}"))
        }
    }
}

fn row(line: &Spread) -> Vec<String> {
    let words = |value| quantity(value, &line.unit);
    vec![line.id.clone(), words(line.median), words(line.low), words(line.high), line.machines.to_string()]
}
