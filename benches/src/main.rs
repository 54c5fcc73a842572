//! `make bench`: measures evenkeel and its peers interleaved, and writes one file per row to `target/bench/`.

use std::path::Path;

use anyhow::{Context, bail};

mod audit;
mod change;
mod flame;
mod jobs;
mod locks;
mod locks_table;
mod looks;
mod pairs;
mod phases;
mod row;
mod scope;
mod screening;
mod slots;
mod tick;
mod traces;
mod turns;
mod udp;
mod watch;

type Measure = fn() -> anyhow::Result<row::Row>;

/// Every row: its name, and its function.
const ROWS: &[(&str, Measure)] = &[
    ("audit", audit::measure),
    ("apply", change::measure_apply),
    ("verify", change::measure_verify),
    ("flame", flame::measure),
    ("tick-idle", tick::measure_idle),
    ("tick-neighbour", tick::measure_neighbour),
    ("tick-quota", tick::measure_quota),
    ("tick-thief", tick::measure_thief),
    ("tick-idle-cpu", tick::measure_idle_cpu),
    ("tick-neighbour-cpu", tick::measure_neighbour_cpu),
    ("jobs", jobs::measure_job),
    ("jobs-frame-cpu", jobs::measure_frame_cpu),
    ("jobs-frame-cpu-1-thread", jobs::measure_frame_cpu_one),
    ("jobs-frame-cpu-4-threads", jobs::measure_frame_cpu_four),
    ("jobs-frame-cpu-1us", jobs::measure_frame_cpu_work),
    ("jobs-frame-slowest", jobs::measure_frame_slowest),
    ("jobs-frame-slowest-1us", jobs::measure_frame_slowest_work),
    ("jobs-two-cpus", jobs::measure_two_cpus),
    ("jobs-two-cpus-1us", jobs::measure_two_cpus_work),
    ("jobs-two-cpus-frame-cpu", jobs::measure_two_cpus_cpu),
    ("phases", phases::measure),
    ("slots-in-step", slots::measure_in_step),
    ("slots-in-step-p99", slots::measure_in_step_p99),
    ("slots-opposite", slots::measure_opposite),
    ("slots-opposite-p99", slots::measure_opposite_p99),
    ("slots-drifting", slots::measure_drifting),
    ("slots-drifting-p99", slots::measure_drifting_p99),
    ("slots-none", slots::measure_none),
    ("slots-none-p99", slots::measure_none_p99),
    ("locks", locks::measure),
    ("scope", scope::measure),
    ("telemetry", looks::measure_telemetry),
    ("faults", looks::measure_faults),
    ("rate", looks::measure_rate),
    ("pairs", pairs::measure),
    ("screening", screening::measure),
    ("screening-regret", screening::measure_regret),
    ("udp-tx", udp::measure_tx),
    ("udp-tx-4", udp::measure_tx_4),
    ("udp-rx", udp::measure_rx),
    ("udp-rx-4", udp::measure_rx_4),
    ("udp-echo", udp::measure_echo),
    ("watch", watch::measure_cpu),
    ("watch-memory", watch::measure_memory),
];

/// Tables printed as text for findings, and not written to files.
const TABLES: &str = "\
  locks-table                 the columns A to E of locks
  pairs-table                 pairs and false claims by noise and effect
  screening-table             which knobs a screening finds, by its length
  ticks-table [CONDITION]...  how late ticks begin, under each condition or those named
  record-trace KIND FILE NOTE a trace of noise (udp, cpu) for crates/testkit/src/noise/traces";

fn help() {
    let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
    println!(
        "Measures evenkeel and its peers in turns\n\nUsage: evenkeel-bench [ROW]...   all rows unless named, such as tick-idle, or tick for all rows \
         tick-...; each is written to target/bench/ROW.json\n       evenkeel-bench TABLE\n\nRows: {}\n\nTables:\n{TABLES}",
        names.join(", ")
    );
}

/// Whether to run a row: its name is `asked`. If no row has this name, all rows whose names begin with it are run: `slots` means all rows
/// `slots-…`.
fn is_of(row: &str, asked: &str) -> bool {
    let is_group = || !ROWS.iter().any(|(name, _)| *name == asked);
    row == asked || row.strip_prefix(asked).is_some_and(|rest| rest.starts_with('-')) && is_group()
}

fn main() -> anyhow::Result<()> {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if asked.iter().any(|word| word == "--help" || word == "-h") {
        help();
        return Ok(());
    }
    if let [argument, number] = &asked[..]
        && argument == watch::SERVER_ARGUMENT
    {
        return watch::serve_silently(number);
    }
    if asked == ["locks-table"] {
        return locks_table::print();
    }
    if asked == ["pairs-table"] {
        return pairs::print_table();
    }
    if asked == ["screening-table"] {
        return screening::print_table();
    }
    if let Some((first, grounds)) = asked.split_first()
        && first == "ticks-table"
    {
        return tick::print_table(grounds);
    }
    if let Some(("record-trace", arguments)) = asked.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return traces::record(arguments);
    }
    if let Some(unknown) = asked.iter().find(|asked| !ROWS.iter().any(|(name, _)| is_of(name, asked))) {
        let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
        bail!("unknown row {unknown}; known rows: {}", names.join(", "));
    }
    let dir = Path::new("target/bench");
    std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    for (name, measure) in ROWS {
        if asked.is_empty() || asked.iter().any(|one| is_of(name, one)) {
            let row = measure().with_context(|| format!("measure {name}"))?;
            let file = dir.join(format!("{name}.json"));
            let json = serde_json::to_string_pretty(&row)? + "\n";
            std::fs::write(&file, json).with_context(|| format!("write {}", file.display()))?;
            print!("{row}");
            println!("written to {}", file.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_row_or_of_all_that_begin_with_it() {
        let of = |asked| ROWS.iter().filter(|(name, _)| is_of(name, asked)).count();
        assert_eq!([of("jobs"), of("slots"), of("slots-none"), of("slot"), of("slots-"), of("")], [1, 8, 1, 0, 0, 0]);
    }
}
