//! The page of `regions`: the chosen regions, and the players who are left behind.

use evenkeel_fleet::regions::{Group, LeftBehind, Report, Served};

use crate::show::page::{DIM, GOOD, Indent, PLAIN, Page, WARN};
use crate::show::units::percent;

pub(crate) fn page(report: &Report, map: Option<&str>) -> String {
    let mut page = Page::default();
    let regions = report.chosen.len();
    let s = if regions == 1 { "" } else { "s" };
    page.heading(&format!("{regions} region{s} of {}, for {}", report.candidates, players(report.players.count)));
    let name = format!("p{}", report.latency.percentile);
    let estimated = if report.model.is_some() { " (estimated)" } else { "" };
    page.row(&name, GOOD, &format!("{}{estimated}", ms(report.latency.percentile_ms)));
    page.row("p50, p99", PLAIN, &format!("{}, {}", ms(report.latency.p50_ms), ms(report.latency.p99_ms)));
    let proof = match report.proof.is_best {
        true if report.proof.is_fewest == Some(true) && regions > 1 => {
            let limit = ms(Some(report.left_behind.above_ms));
            format!(
                "best: fewer of these regions do not keep {name} within {limit}, and no other {regions} have a lower one"
            )
        }
        true => format!("best: no set of {regions} of these regions has a lower {name}"),
        false if report.proof.is_fewest == Some(false) => {
            "not proven to be best; fewer regions may be within the limit".to_owned()
        }
        false => {
            format!("not proven to be best; no set of {regions} has a {name} below {}", ms(Some(report.proof.bound_ms)))
        }
    };
    page.row("proof", if report.proof.is_best { PLAIN } else { WARN }, &proof);
    if let Some(map) = map {
        page.row("map", PLAIN, map);
    }
    page.line(PLAIN, "");
    page.table(
        &["region", "cloud", "players", "p50", &name, "place"],
        &report.chosen.iter().map(row).collect::<Vec<_>>(),
    );
    left_behind(&mut page, &report.left_behind);
    for caveat in &report.caveats {
        page.paragraph(Indent { first: 0, rest: 2 }, WARN, &format!("caveat: {caveat}"));
    }
    page.finish()
}

fn row(served: &Served) -> Vec<String> {
    let kept = if served.is_kept { " (kept)" } else { "" };
    vec![
        format!("{}{kept}", served.region),
        served.provider.clone().unwrap_or_default(),
        count(served.players),
        ms(served.p50_ms),
        ms(served.percentile_ms),
        served.named.clone().unwrap_or_default(),
    ]
}

fn left_behind(page: &mut Page, left: &LeftBehind) {
    let above = ms(Some(left.above_ms));
    if left.groups.is_empty() {
        page.heading(&format!("No player is above {above}"));
        page.line(PLAIN, "");
        return;
    }
    page.heading(&format!("Left behind: {} ({}) above {above}", players(left.players), percent(left.share)));
    let has_names = left.groups.iter().any(|group| group.name.is_some());
    let mut header = vec!["players", "p50 now", "nearest region", "p50 with it"];
    if has_names {
        header.insert(0, "group");
    }
    let row = |group: &Group| {
        let nearest = group.nearest.clone().unwrap_or_else(|| "none".to_owned());
        let mut row = vec![count(group.players), ms(group.p50_ms), nearest, ms(group.nearest_p50_ms)];
        if has_names {
            row.insert(0, group.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| "(no name)".to_owned()));
        }
        row
    };
    page.table(&header, &left.groups.iter().map(row).collect::<Vec<_>>());
    if left.groups_left_out > 0 {
        page.line(DIM, &format!("  and {} smaller groups", left.groups_left_out));
    }
    page.line(PLAIN, "");
}

fn ms(ms: Option<f64>) -> String {
    ms.map_or_else(|| "not reached".to_owned(), |ms| format!("{ms:.1} ms"))
}

fn players(number: f64) -> String {
    format!("{} player{}", count(number), if number == 1.0 { "" } else { "s" })
}

/// A number of players, without decimals if it is whole.
fn count(players: f64) -> String {
    if players.fract() == 0.0 { format!("{players:.0}") } else { format!("{players:.1}") }
}
