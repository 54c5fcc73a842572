//! The page of `credits`: when the credits run out, what happens then, and which types do not run out.

use evenkeel_fleet::credits::{CreditsReport, Forecast};
use evenkeel_host::credits::CreditMode;

use crate::show::page::{BAD, DIM, GOOD, Indent, PLAIN, Page, WARN};
use crate::show::units::percent;

/// The maximum number of types in the table; JSON has all types.
const ROWS_MAX: usize = 8;

pub(crate) fn page(report: &CreditsReport) -> String {
    let mut page = Page::default();
    let standard = &report.standard;
    let used = used(report);
    page.heading(&title(used));
    let load = &report.load;
    let over = format!("observed for {}", duration(load.seconds));
    let load = format!("{:.2} CPUs on average, {:.2} at most, {over}", load.cpus_mean, load.cpus_max);
    page.row("CPU use", PLAIN, &load);
    let rates = &standard.rates;
    page.row("forecast for", PLAIN, &duration(standard.seconds));
    let s = if rates.vcpus == 1 { "" } else { "s" };
    let earns =
        format!("{:.2} of {} CPU{s}; {:.1} credits an hour", standard.baseline_cpus, rates.vcpus, rates.per_hour);
    page.row("baseline", PLAIN, &format!("{earns}, at most {:.0} kept", rates.max));
    page.row(
        "balance",
        PLAIN,
        &format!("{:.0} at the start, {:.0} at the lowest", used.start_credits, used.lowest_credits.max(0.0)),
    );
    page.row(&mode(report, CreditMode::Standard), style(standard), &standard_words(standard));
    if let Some(unlimited) = &report.unlimited {
        page.row(&mode(report, CreditMode::Unlimited), PLAIN, &unlimited_words(unlimited));
    }
    enough(&mut page, report);
    for caveat in &report.caveats {
        page.paragraph(Indent { first: 0, rest: 2 }, WARN, &format!("caveat: {caveat}"));
    }
    page.finish()
}

/// The forecast in the mode of the instance. A new T2 instance gets credits at its start only in standard mode.
fn used(report: &CreditsReport) -> &Forecast {
    let unlimited = report.unlimited.as_ref().filter(|_| report.mode == CreditMode::Unlimited);
    unlimited.unwrap_or(&report.standard)
}

fn title(used: &Forecast) -> String {
    match used.empty_after_s {
        Some(after_s) => format!("{}: the credits run out after {}", used.instance_type, duration(after_s)),
        None => format!("{}: the credits do not run out", used.instance_type),
    }
}

/// The name of a mode, with a mark if it is the mode of the instance.
fn mode(report: &CreditsReport, mode: CreditMode) -> String {
    let name = match mode {
        CreditMode::Standard => "standard",
        CreditMode::Unlimited => "unlimited",
    };
    if report.mode == mode { format!("{name} (used)") } else { name.to_owned() }
}

fn style(standard: &Forecast) -> anstyle::Style {
    if standard.unserved_share > 0.0 { BAD } else { GOOD }
}

fn standard_words(standard: &Forecast) -> String {
    if standard.limited_share == 0.0 {
        return match standard.unserved_share > 0.0 {
            true => format!("{} of the CPU time is not served: too few CPUs", percent(standard.unserved_share)),
            false => "serves all of it".to_owned(),
        };
    }
    format!(
        "held at {:.2} CPUs for {} of the time; {} of the CPU time is not served",
        standard.baseline_cpus,
        percent(standard.limited_share),
        percent(standard.unserved_share)
    )
}

fn unlimited_words(unlimited: &Forecast) -> String {
    if unlimited.surplus_vcpu_hours <= 0.0 {
        return "no cost beyond the instance".to_owned();
    }
    let hours = format!("{:.1} CPU hours beyond the credits", unlimited.surplus_vcpu_hours);
    match unlimited.surplus_usd {
        Some(usd) => format!("{usd:.2} USD for {hours}"),
        None => format!("{hours}; the price is unknown"),
    }
}

fn enough(page: &mut Page, report: &CreditsReport) {
    if report.enough.is_empty() {
        page.heading("No burstable type of this cloud serves it all from its credits");
        page.line(PLAIN, "");
        return;
    }
    page.heading("Types that serve it all from their credits");
    let rows: Vec<Vec<String>> = report.enough.iter().take(ROWS_MAX).map(row).collect();
    page.table(&["type", "CPUs", "memory", "baseline", "lowest balance"], &rows);
    if report.enough.len() > ROWS_MAX {
        page.line(DIM, &format!("  and {} larger ones", report.enough.len() - ROWS_MAX));
    }
    page.line(PLAIN, "");
}

fn row(one: &Forecast) -> Vec<String> {
    vec![
        one.instance_type.clone(),
        one.rates.vcpus.to_string(),
        one.memory_gib.map_or_else(|| "unknown".to_owned(), |gib| format!("{gib} GiB")),
        format!("{:.2} CPUs", one.baseline_cpus),
        format!("{:.0} of {:.0}", one.lowest_credits, one.rates.max),
    ]
}

/// A duration, such as `45 s`, `3.2 h` or `12.5 days`.
fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{short:.0} s"),
        minutes if minutes < 7200.0 => format!("{:.0} min", minutes / 60.0),
        hours if hours < 2.0 * 86_400.0 => format!("{:.1} h", hours / 3600.0),
        days => format!("{:.1} days", days / 86_400.0),
    }
}
