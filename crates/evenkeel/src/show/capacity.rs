//! The page of `capacity`: the number, its interval, what ended it, and the curve.

use evenkeel_fleet::capacity::{
    CapacityReport, Comparison, Ended, EndedBy, Found, Gain, GainVerdict, Limit, Search, Step, Window,
};

use crate::report::words::trim;
use crate::show::page::{DIM, GOOD, Indent, PLAIN, Page, WARN};
use crate::show::units::percent;

pub(crate) fn page(report: &CapacityReport, compared: Option<&Comparison>, need_file: Option<&str>) -> String {
    let mut page = Page::default();
    if let Some(compared) = compared {
        worth(&mut page, report, compared);
    }
    page.heading(&match compared {
        None => headline(&report.found),
        Some(_) => "Without the settings".to_owned(),
    });
    let limits: Vec<String> = report.limits.iter().map(limit).collect();
    page.row("limits", PLAIN, &format!("{}, of every session in most windows", limits.join(" and ")));
    page.row("server", PLAIN, &report.workload);
    let machine = format!("{} CPUs, {:.0} MiB of memory", report.machine.cpus, report.machine.memory_mib);
    page.row("machine", PLAIN, &machine);
    side(&mut page, report);
    if let Some(file) = need_file {
        page.row("saved", PLAIN, &format!("{file}, for `evenkeel instances {file}`"));
    }
    curve(&mut page, report);
    let mut caveats: Vec<&String> = report.caveats.iter().collect();
    if let Some(compared) = compared {
        page.heading("With the settings");
        side(&mut page, &compared.report);
        curve(&mut page, &compared.report);
        caveats.extend(compared.report.caveats.iter().filter(|caveat| !report.caveats.contains(caveat)));
    }
    for caveat in caveats {
        page.paragraph(Indent { first: 0, rest: 2 }, WARN, &format!("caveat: {caveat}"));
    }
    page.finish()
}

/// The number. Without an upper end, more may fit: a search that was stopped has shown only what fits at least.
fn headline(found: &Found) -> String {
    match (found.sessions, found.at_most) {
        (0, None) => "How many sessions fit is not known yet".to_owned(),
        (many, None) => format!("{many} {} on this machine, or more", fit(many.into())),
        (many, Some(_)) => format!("{many} {} on this machine", fit(many.into())),
    }
}

/// What the settings are worth.
fn worth(page: &mut Page, without: &CapacityReport, compared: &Comparison) {
    let gain = &compared.gain;
    let (more, style) = match gain.verdict {
        GainVerdict::More => (format!("{} more {} with these settings", gain.sessions, fit(gain.sessions)), GOOD),
        GainVerdict::Fewer => (format!("{} fewer {} with these settings", -gain.sessions, fit(-gain.sessions)), WARN),
        GainVerdict::Same => ("As many sessions fit with these settings as without".to_owned(), PLAIN),
        GainVerdict::Undecided => ("Whether more sessions fit with these settings is undecided".to_owned(), WARN),
    };
    page.heading(&more);
    page.row("settings", PLAIN, &compared.settings.join(" "));
    page.row(
        "sessions",
        PLAIN,
        &format!("{} without, {} with", without.found.sessions, compared.report.found.sessions),
    );
    page.row("gain", style, &gain_interval(gain));
    if let (Some(before), Some(after)) = (without.price_per_session_hour, compared.report.price_per_session_hour) {
        page.row("price", PLAIN, &format!("{before:.4} to {after:.4} a session and hour"));
    }
}

fn fit(sessions: i64) -> &'static str {
    if sessions == 1 { "session fits" } else { "sessions fit" }
}

fn gain_interval(gain: &Gain) -> String {
    match (gain.at_least, gain.at_most) {
        (Some(least), Some(most)) if least == most => format!("{least:+}: proven in both directions"),
        (Some(least), Some(most)) => format!("{least:+} to {most:+}"),
        (Some(least), None) => format!("at least {least:+}; the most is not known"),
        (None, Some(most)) => format!("at most {most:+}; the least is not known"),
        (None, None) => "not known: neither number has a proven upper bound".to_owned(),
    }
}

/// The rows of one number of sessions.
fn side(page: &mut Page, report: &CapacityReport) {
    page.row("interval", GOOD, &interval(&report.found));
    page.row("ended by", PLAIN, report.ended_by.map_or("nothing: the limits were not broken", ended_by));
    if let Some(need) = &report.need {
        let memory = need.memory_mib.map_or_else(String::new, |mib| format!(", {mib:.1} MiB of memory"));
        page.row("a session takes", PLAIN, &format!("{:.3} CPUs{memory}", need.cpus));
    }
    if let Some(price) = report.price_per_session_hour {
        page.row("price", PLAIN, &format!("{price:.4} a session and hour"));
    }
    if let Ended::NoStart { session, why } = &report.ended {
        page.row("stopped", WARN, &format!("session {session} did not start: {why}"));
    }
}

/// A line about a window, while the search goes on. `with_settings`: whether it has the settings, if some are compared.
pub(crate) fn progress(window: &Window, with_settings: Option<bool>, limits: &[Limit], search: &Search) -> String {
    let values: Vec<String> = limits.iter().zip(&window.worst).map(|(limit, worst)| value(limit, *worst)).collect();
    let held = if window.is_held(limits) { "held" } else { "broken" };
    let Found { at_least, at_most, .. } = search.found();
    let most = at_most.map_or_else(|| "?".to_owned(), |most| most.to_string());
    let s = if window.sessions == 1 { "" } else { "s" };
    let worst = values.join(", ");
    let side = match with_settings {
        None => "",
        Some(false) => "without, ",
        Some(true) => "with, ",
    };
    format!("{side}{} session{s}: {held}, worst {worst}; proven so far: {at_least} to {most}\n", window.sessions)
}

fn interval(found: &Found) -> String {
    match found.at_most {
        Some(most) if most == found.at_least => format!("{most}: proven in both directions"),
        Some(most) => format!("{} to {most}", found.at_least),
        None => format!("at least {}; the most is not known", found.at_least),
    }
}

fn limit(limit: &Limit) -> String {
    let sign = if limit.is_higher_better { "≥" } else { "≤" };
    format!("{} {sign} {}", limit.metric, value(limit, Some(limit.value)))
}

fn value(limit: &Limit, value: Option<f64>) -> String {
    match (value, limit.unit.as_str()) {
        (None, _) => "no value".to_owned(),
        (Some(share), "share") => percent(share),
        (Some(value), unit) => format!("{} {unit}", trim(value)).trim_end().to_owned(),
    }
}

fn ended_by(what: EndedBy) -> &'static str {
    match what {
        EndedBy::Cpu => "CPU: all CPUs were busy",
        EndedBy::Steal => "steal: the hypervisor gave CPU time to others",
        EndedBy::Memory => "memory: it was used up",
        EndedBy::Packets => "packets: they found full buffers",
        EndedBy::Waiting => "waiting: sessions waited for each other while CPUs were idle",
        EndedBy::Alone => "itself: a session alone does not hold the limits",
    }
}

fn curve(page: &mut Page, report: &CapacityReport) {
    if report.curve.is_empty() {
        return;
    }
    page.heading("What was tried");
    let mut columns = vec!["sessions".to_owned(), "windows held".to_owned()];
    columns.extend(report.limits.iter().map(|limit| format!("worst {}", limit.metric)));
    columns.push("CPUs busy".to_owned());
    let row = |step: &Step| {
        let mut row = vec![step.sessions.to_string(), format!("{} of {}", step.held, step.held + step.broken)];
        row.extend(report.limits.iter().zip(&step.worst).map(|(limit, worst)| value(limit, *worst)));
        row.push(format!("{:.2}", step.machine.cpus_busy));
        row
    };
    let rows: Vec<Vec<String>> = report.curve.iter().map(row).collect();
    page.table(&columns.iter().map(String::as_str).collect::<Vec<_>>(), &rows);
    page.line(DIM, "  The worst session of each window; the median over the windows.");
    page.line(PLAIN, "");
}
