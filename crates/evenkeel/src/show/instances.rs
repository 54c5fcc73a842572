//! The page of `instances`: the candidates by the cost of a session, the limit of each, and the unknown figures.

use std::collections::BTreeSet;

use evenkeel_fleet::instances::{Candidate, InstancesReport, Unknown};

use crate::show::page::{BAD, DIM, Indent, PLAIN, Page, WARN};

pub(crate) fn page(report: &InstancesReport, rows: usize) -> String {
    let mut page = Page::default();
    let Some(best) = report.candidates.first() else {
        page.heading("No instance type of the catalogue holds these sessions");
        page.paragraph(Indent::all(2), BAD, &format!("{} types were looked at.", report.too_small));
        return page.finish();
    };
    page.heading(&title(report, best));
    unchecked(&mut page, best);
    page.line(PLAIN, "");
    let has_prices = report.candidates.iter().any(|one| one.price.is_some());
    let mut columns = vec!["type", "CPUs", "memory", "sessions", "ended by"];
    if has_prices {
        columns.extend(["hour", "session, month", "region"]);
    }
    let shown: Vec<Vec<String>> = report.candidates.iter().take(rows).map(|one| row(one, has_prices)).collect();
    page.table(&columns, &shown);
    let more = report.candidates.len().saturating_sub(rows);
    if more > 0 {
        page.line(DIM, &format!("  and {more} more; --rows shows them"));
    }
    page.line(PLAIN, "");
    unknown(&mut page, report, rows);
    for file in &report.prices {
        let date = file.date.as_deref().unwrap_or("without a date");
        let s = if file.prices == 1 { "" } else { "s" };
        page.row("prices", PLAIN, &format!("{}: {} ({date}), {} price{s}", file.file, file.format, file.prices));
    }
    for caveat in &report.caveats {
        page.paragraph(Indent { first: 0, rest: 2 }, WARN, &format!("caveat: {caveat}"));
    }
    page.finish()
}

fn title(report: &InstancesReport, best: &Candidate) -> String {
    let (name, fit) = (&best.instance_type, sessions(best.fit.sessions));
    match best.session_per_month {
        Some(cost) => format!("{name}: {} per session and month, {fit}", money(cost, report)),
        None if best.fit.unchecked().next().is_some() => format!("{name} may hold these sessions: {fit}"),
        None => format!("{name} is the smallest type for such sessions: {fit}"),
    }
}

/// Names the needs that could not be checked, because no document has the figure for the first type.
fn unchecked(page: &mut Page, best: &Candidate) {
    let unchecked: Vec<&str> = best.fit.unchecked().map(Unknown::words).collect();
    if !unchecked.is_empty() {
        let what = format!("only if its {} is enough: no document has it", unchecked.join(" and its "));
        page.paragraph(Indent::all(2), WARN, &what);
    }
}

fn sessions(count: u32) -> String {
    format!("{count} session{} fit{}", if count == 1 { "" } else { "s" }, if count == 1 { "s" } else { "" })
}

fn money(amount: f64, report: &InstancesReport) -> String {
    format!("{amount:.2} {}", report.currency.as_deref().unwrap_or_default()).trim_end().to_owned()
}

fn row(one: &Candidate, has_prices: bool) -> Vec<String> {
    let mut row = vec![
        one.instance_type.clone(),
        one.vcpus.to_string(),
        one.memory_gib.map_or_else(|| "unknown".to_owned(), |gib| format!("{gib} GiB")),
        one.fit.sessions.to_string(),
        one.fit.limit.words().to_owned(),
    ];
    if has_prices {
        let price = one.price.as_ref();
        row.push(price.map_or_else(|| "unknown".to_owned(), |price| format!("{:.4}", price.per_hour)));
        row.push(one.session_per_month.map_or_else(|| "unknown".to_owned(), |cost| format!("{cost:.2}")));
        row.push(price.and_then(|price| price.region.clone()).unwrap_or_default());
    }
    row
}

/// Names the unknown figures of the types in the table.
fn unknown(page: &mut Page, report: &InstancesReport, rows: usize) {
    let shown = report.candidates.iter().take(rows);
    let all: BTreeSet<Unknown> = shown.clone().flat_map(|one| one.fit.unknown.iter().copied()).collect();
    for unknown in all {
        let of: Vec<&str> = shown
            .clone()
            .filter(|one| one.fit.unknown.contains(&unknown))
            .map(|one| one.instance_type.as_str())
            .collect();
        let whose = if of.len() == shown.len() { "all".to_owned() } else { of.join(", ") };
        page.row("unknown", DIM, &format!("{}: {whose}", unknown.words()));
    }
}
