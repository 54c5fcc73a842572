//! The page of `watch --once`: the host, then a line for each server, and then the unknown values.

pub(crate) mod screen;
pub(crate) mod words;

use evenkeel_watch::Measured;
use evenkeel_watch::model::{DiskModel, HostModel, Model, ServerModel, SettingsModel};

use crate::show::page::{BAD, DIM, GOOD, Indent, PLAIN, Page, WARN};
use crate::show::units::{bytes, percent};
use words::{gaps_words, late_ticks, ms_per_s, number, per_s, recorder_words, short_us, sockets_left_out, value};

/// The maximum number of entries of a list on the page. The JSON answer has all entries.
const LISTED_MAX: usize = 3;

pub(crate) fn page(model: &Model) -> String {
    let mut page = Page::default();
    page.heading(&title(model));
    host(&mut page, &model.host);
    if let Some(gaps) = &model.gaps {
        row(&mut page, "missing time", gaps, gaps_words);
    }
    settings(&mut page, model);
    servers(&mut page, model);
    if let Some(recorder) = &model.recorder {
        let style = if recorder.failure.is_some() || recorder.last_error.is_some() { WARN } else { PLAIN };
        page.row("flight recorder", style, &recorder_words(recorder));
    }
    for one in &model.unreadable {
        let mend = one.mend.as_ref().map_or_else(String::new, |mend| format!("; `{mend}` shows it"));
        let text = format!("not readable: {} ({}){mend}", one.what, one.why);
        page.paragraph(Indent { first: 0, rest: 2 }, WARN, &text);
    }
    page.finish()
}

fn title(model: &Model) -> String {
    let elapsed = match model.elapsed_ns {
        0 => String::new(),
        ns => format!(", over {:.1} s", ns as f64 / 1e9),
    };
    match &model.host.all {
        Measured::Known(all) => {
            format!("CPUs {} busy, {} stolen{elapsed}", percent(all.busy()), percent(all.steal))
        }
        Measured::Unknown(_) => format!("the host{elapsed}"),
    }
}

/// Writes a row with a value, or with the reason why it is unknown.
fn row<T>(page: &mut Page, label: &str, measured: &Measured<T>, show: impl FnOnce(&T) -> String) {
    match measured {
        Measured::Known(value) => page.row(label, PLAIN, &show(value)),
        Measured::Unknown(unknown) => page.row(label, DIM, &format!("unknown: {}", unknown.why)),
    }
}

fn host(page: &mut Page, host: &HostModel) {
    row(page, "CPU time", &host.all, |all| {
        let kinds = [
            ("user", all.user),
            ("system", all.system),
            ("irq", all.irq),
            ("softirq", all.softirq),
            ("steal", all.steal),
            ("idle", all.idle),
        ];
        kinds.map(|(name, share)| format!("{name} {}", percent(share))).join(", ")
    });
    row(page, "run-queue delay", &host.run_delay, |delay| ms_per_s(*delay));
    let pressures = [("CPU", &host.cpu_pressure), ("memory", &host.memory_pressure), ("disks", &host.io_pressure)];
    match pressures.iter().find_map(|(_, stalls)| stalls.some.why()) {
        Some(why) => page.row("pressure", DIM, &format!("unknown: {why}")),
        None => {
            let of = pressures.map(|(name, stalls)| format!("{name} {}", value(&stalls.some, |share| percent(*share))));
            page.row("pressure", PLAIN, &of.join(", "));
        }
    }
    row(page, "throttled groups", &host.groups, |groups| {
        let throttled = groups.limited.iter().filter(|group| group.throttled.known().is_some_and(|share| *share > 0.0));
        let one = |group: &evenkeel_watch::model::GroupModel| {
            let limit = number(group.limit_cpus);
            format!("{} {} (limit {limit} CPUs)", group.group, value(&group.throttled, |share| ms_per_s(*share)))
        };
        let listed: Vec<String> = throttled.take(LISTED_MAX).map(one).collect();
        match listed.is_empty() {
            true => format!("none of {} with a limit", groups.limited.len()),
            false => listed.join("; "),
        }
    });
    row(page, "interrupts", &host.interrupt_sources, |sources| {
        let most = sources.iter().take(LISTED_MAX).map(|one| format!("{} {}", one.source, per_s(one.per_s)));
        let all = value(&host.interrupts_per_s, |rate| per_s(*rate));
        [vec![all], most.collect()].concat().join("; ")
    });
    let softnet = &host.softnet;
    row(page, "packets", &softnet.processed_per_s, |rate| {
        let dropped = value(&softnet.dropped_per_s, |rate| per_s(*rate));
        let squeezed = value(&softnet.squeezed_per_s, |rate| per_s(*rate));
        format!("{}; {dropped} dropped by backlogs, {squeezed} squeezes", per_s(*rate))
    });
    let udp = &host.udp;
    row(page, "UDP", &udp.in_errors_per_s, |errors| {
        let of = |rate: &Measured<f64>| value(rate, |rate| per_s(*rate));
        format!(
            "{} in, {} out; errors {}, full buffers {}, no port {}",
            of(&udp.in_per_s),
            of(&udp.out_per_s),
            per_s(*errors),
            of(&udp.receive_buffer_errors_per_s),
            of(&udp.no_ports_per_s)
        )
    });
    row(page, "memory", &host.memory.available_bytes, |available| {
        let total = value(&host.memory.total_bytes, |total| bytes(*total));
        let swap = value(&host.memory.swap_used_bytes, |used| bytes(*used));
        format!("{} of {total} available, {swap} in swap", bytes(*available))
    });
    row(page, "paging", &host.major_faults_per_s, |faults| {
        let swapped = value(&host.swap_ins_per_s, |rate| per_s(*rate));
        format!("{} major faults, {swapped} pages from swap", per_s(*faults))
    });
    row(page, "disks", &host.disks, |disks| {
        let one = |disk: &DiskModel| format!("{} {} busy", disk.name, value(&disk.busy, |share| percent(*share)));
        let mut text = busiest(disks).into_iter().take(LISTED_MAX).map(one).collect::<Vec<_>>().join(", ");
        if host.disks_beyond > 0 {
            text.push_str(&format!("; {} less busy disks are not watched", host.disks_beyond));
        }
        text
    });
    if host.interfaces_beyond > 0 {
        let text = format!("{} with fewer drops and packets are not watched", host.interfaces_beyond);
        page.row("interfaces", WARN, &text);
    }
    row(page, "clock source", &host.clock_source, String::clone);
}

/// The disks, the busiest first.
/// If the disks were sorted by name, the many `loop` devices of some systems would hide the busy disk.
fn busiest(disks: &[DiskModel]) -> Vec<&DiskModel> {
    let mut sorted: Vec<&DiskModel> = disks.iter().collect();
    let busy = |disk: &DiskModel| disk.busy.known().copied().unwrap_or(0.0);
    sorted.sort_by(|one, other| busy(other).total_cmp(&busy(one)));
    sorted
}

fn settings(page: &mut Page, model: &Model) {
    row(page, "settings", &model.settings, settings_words);
    if let Measured::Known(settings) = &model.settings {
        for drift in &settings.drift {
            let text = format!("{} at {}: {} wanted, {} found", drift.knob, drift.place, drift.wanted, drift.found);
            page.paragraph(Indent { first: 2, rest: 4 }, BAD, &text);
            page.line(PLAIN, &format!("    {}", drift.mend));
        }
    }
    if let Some(credits) = &model.credits {
        let left = value(&credits.minutes_left, |minutes| match minutes {
            Some(minutes) => format!("{minutes:.0} minutes left at this use"),
            None => "they do not run out at this use".to_owned(),
        });
        let style = if credits.balance > 0.0 { GOOD } else { WARN };
        page.row(
            "CPU credits",
            style,
            &format!("{:.0} by the model of {}; {left}", credits.balance, credits.instance_type),
        );
    }
}

pub(crate) fn settings_words(settings: &SettingsModel) -> String {
    let applied =
        match (settings.holds, settings.drift.len().saturating_add(settings.drift_beyond), &settings.why_unknown) {
            (Some(0), 0, _) => "nothing is applied".to_owned(),
            (Some(holds), 0, _) => format!("all {holds} applied values hold"),
            (Some(holds), 1, _) => format!("1 applied value drifted, {holds} hold"),
            (Some(holds), drifted, _) => format!("{drifted} applied values drifted, {holds} hold"),
            (None, _, why) => format!("drift unknown: {}", why.as_deref().unwrap_or("the journal was not read")),
        };
    let levels = settings.findings.iter().map(|(level, count)| format!("{count} {level}"));
    format!("{applied}; audit: {}", levels.collect::<Vec<_>>().join(", "))
}

/// Writes the table of servers, with a line for each.
fn servers(page: &mut Page, model: &Model) {
    page.heading("Servers");
    if model.servers.is_empty() {
        page.paragraph(
            Indent::all(2),
            PLAIN,
            "none found: the search for a server without a page of telemetry (evenkeel-rt) takes some 10 s, so --once finds none; --pid \
                 names one",
        );
        return;
    }
    let header =
        ["server", "pid", "ticks/s", "late p99", "late", "missed/s", "CPU", "run delay", "switches/s", "UDP drops/s"];
    let rows: Vec<Vec<String>> = model.servers.iter().map(line).collect();
    page.table(&header, &rows);
    if model.servers_beyond > 0 {
        page.line(WARN, &format!("  {} more servers are not watched", model.servers_beyond));
    }
    for server in &model.servers {
        if let Some(left_out) = server.udp.known().and_then(sockets_left_out) {
            page.paragraph(Indent { first: 2, rest: 4 }, WARN, &format!("UDP of {}: {left_out}", server.name));
        }
    }
    for late in &model.late_ticks {
        page.paragraph(Indent { first: 2, rest: 4 }, WARN, &late_ticks(late));
    }
    let mut whys: Vec<&str> = model.servers.iter().flat_map(reasons).collect();
    whys.sort_unstable();
    whys.dedup();
    for why in whys.iter().take(LISTED_MAX) {
        page.paragraph(Indent { first: 2, rest: 4 }, DIM, &format!("? = unknown: {why}"));
    }
}

fn line(server: &ServerModel) -> Vec<String> {
    let ticks = server.ticks.known();
    let of_ticks = |of: &dyn Fn(&evenkeel_watch::model::TicksModel) -> String| ticks.map_or_else(|| "?".to_owned(), of);
    let switches = match (server.voluntary_switches_per_s.known(), server.involuntary_switches_per_s.known()) {
        (Some(one), Some(other)) => format!("{}+{}", number(*one), number(*other)),
        _ => "?".to_owned(),
    };
    vec![
        server.name.clone(),
        server.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string()),
        of_ticks(&|ticks| value(&ticks.ticks_per_s, |rate| number(*rate))),
        of_ticks(&|ticks| value(&ticks.lateness, |late| short_us(late.us_p99))),
        of_ticks(&|ticks| value(&ticks.late, u64::to_string)),
        of_ticks(&|ticks| value(&ticks.missed_per_s, |rate| number(*rate))),
        value(&server.cpu, |share| percent(*share)),
        value(&server.run_delay, |delay| ms_per_s(*delay)),
        switches,
        value(&server.udp, |udp| value(&udp.drops_per_s, |rate| number(*rate))),
    ]
}

/// Why some values in the line of a server are unknown.
fn reasons(server: &ServerModel) -> impl Iterator<Item = &str> {
    let ticks = server.ticks.known().and_then(|ticks| ticks.ticks_per_s.why());
    [server.ticks.why(), ticks, server.cpu.why(), server.run_delay.why(), server.udp.why()].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_disk_comes_first() {
        let disk = |name: &str, busy: Measured<f64>| DiskModel {
            name: name.to_owned(),
            reads_per_s: Measured::Known(0.0),
            read_bytes_per_s: Measured::Known(0.0),
            writes_per_s: Measured::Known(0.0),
            written_bytes_per_s: Measured::Known(0.0),
            busy,
            request_ms_mean: Measured::Known(None),
        };
        let disks = [
            disk("loop0", Measured::Known(0.0)),
            disk("loop1", Measured::absent("")),
            disk("nvme0n1", Measured::Known(0.4)),
            disk("sda", Measured::Known(0.9)),
        ];
        let names: Vec<&str> = busiest(&disks).into_iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["sda", "nvme0n1", "loop0", "loop1"]);
    }
}
