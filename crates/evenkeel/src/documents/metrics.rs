//! Generates docs/metrics.md from the metric lists of the workloads.
//! So the page names every metric that can decide a trial.

use std::fmt::Write as _;

use evenkeel_stats::Direction;
use evenkeel_workload::{ALL, Entry, Metric};
use expect_test::expect_file;

const HEAD: &str = "# Metrics

This page lists every number that may decide a trial (`evenkeel prove --metric NAME`) or guard it (`--guard NAME=PERCENT`), by workload. The first metric of a workload decides if you name none, except where [proving](proving.md) says otherwise. A window yields one value of each metric.

This page is generated from the workloads in `crates/workload/src/workloads`. To regenerate it, run
`UPDATE_EXPECT=1 cargo test -p evenkeel --bin evenkeel documents`.

- **Names.** `_us` is microseconds, `_per_s` is per second, `_share` is a fraction of 1. `_p50` is the median of a window, `_p99` its 99th percentile.
- **The smallest effect that matters** is 5 %, and 10 % for lateness and jitter, unless `--smallest-effect` sets another.
- **Tails.** A metric with `_p9` or `_max` in its name is a tail. A window that a tail decides is measured in one piece.
- **Numbers of your own** come from `--json-metric`, `--regex-metric` or `--prometheus-metric` ([on any server](proving.md#on-any-server-of-yours)).
";

#[test]
fn the_page_of_metrics_is_fresh() {
    expect_file!["../../../../docs/metrics.md"].assert_eq(&page());
}

#[test]
fn no_workload_has_two_metrics_of_one_name() {
    for entry in ALL {
        let mut names: Vec<&str> = metrics(entry).map(|metric| metric.name.as_ref()).collect();
        assert!(!names.is_empty(), "{} has no metric", entry.name);
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "{}", entry.name);
    }
}

fn metrics(entry: &Entry) -> impl Iterator<Item = &'static Metric> {
    entry.metrics.iter().copied().flatten()
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut left: Vec<&Entry> = ALL.iter().collect();
    while let Some(first) = left.first().copied() {
        // Workloads with the same metrics share a table.
        let (alike, others): (Vec<&Entry>, Vec<&Entry>) =
            left.into_iter().partition(|entry| metrics(entry).eq(metrics(first)));
        left = others;
        let names: Vec<&str> = alike.iter().map(|entry| entry.name).collect();
        write!(page, "\n## {}\n\n", names.join(", ")).unwrap();
        for entry in alike {
            writeln!(page, "- `{}`: {}.", entry.name, entry.title).unwrap();
        }
        page.push_str("\n| metric | meaning | unit | better |\n|---|---|---|---|\n");
        for metric in metrics(first) {
            let better = match metric.better {
                Direction::Lower => "lower",
                Direction::Higher => "higher",
            };
            writeln!(page, "| `{}` | {} | {} | {better} |", metric.name, metric.title, metric.unit).unwrap();
        }
    }
    page
}
