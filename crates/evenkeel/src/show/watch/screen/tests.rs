//! Draws every tab at several sizes, without a terminal.

use std::collections::BTreeMap;

use evenkeel_hostfs::Root;
use evenkeel_watch::sample::{
    Cause, CreditsSample, DriftSample, HistogramSample, LateTicks, LedgerSample, Moment, Sample, SettingsSample,
    SlicesSample, TelemetrySample, Unreadable,
};
use evenkeel_watch::{Collector, CollectorOptions, Model, ServerOptions};
use expect_test::expect_file;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::draw;
use super::parts::{Palette, Sparks};
use super::view::{Tab, View};

fn root(at_s: u64) -> Root {
    let n = at_s;
    let files = [
        (
            "/proc/stat",
            format!(
                "cpu0 {} 0 {} {} 0 0 {} {} 0 0\ncpu1 0 0 0 {} 0 0 0 0 0 0\nctxt {}\nintr {}\nprocesses {n}\n",
                n * 40,
                n * 10,
                n * 42,
                n * 2,
                n * 6,
                n * 100,
                n * 900,
                n * 500
            ),
        ),
        ("/proc/schedstat", format!("cpu0 0 0 0 0 0 0 1 {} 1\ncpu1 0 0 0 0 0 0 1 0 1\n", n * 30_000_000)),
        ("/proc/pressure/cpu", format!("some avg10=0 total={}\n", n * 20_000)),
        (
            "/proc/meminfo",
            "MemTotal: 4000000 kB\nMemAvailable: 3000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n".to_owned(),
        ),
        ("/proc/vmstat", format!("pgmajfault {n}\npswpin 0\npswpout 0\noom_kill 0\n")),
        ("/proc/interrupts", format!("  CPU0 CPU1\n 38: {} 0 PCI-MSI 1-edge  eth0-rx\n", n * 250)),
        ("/proc/self/net/softnet_stat", format!("{:08x} {:08x} 0\n", n * 100, n)),
        (
            "/proc/self/net/snmp",
            format!(
                "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: {} 0 {} {} {} 0\n",
                n * 3000,
                n * 3,
                n * 2000,
                n * 3
            ),
        ),
        (
            "/proc/self/net/dev",
            format!(" eth0: {} {} 0 0 0 0 0 0 {} {} 0 0\n", n * 300_000, n * 3000, n * 900_000, n * 2000),
        ),
        ("@ethtool/eth0/stats", format!("pps_allowance_exceeded={}\n", n * 7)),
        ("/proc/self/cgroup", "0::/\n".to_owned()),
        ("/sys/fs/cgroup/game.slice/cpu.max", "50000 100000\n".to_owned()),
        (
            "/sys/fs/cgroup/game.slice/cpu.stat",
            format!("nr_periods {n}\nnr_throttled {n}\nthrottled_usec {}\n", n * 30_000),
        ),
        ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n".to_owned()),
        (
            "/proc/7/stat",
            format!("7 (old\u{1b}[31m server) S 1 7 7 0 -1 0 {n} 0 {n} 0 {} 0 0 0 20 0 1 0 4711 1 1\n", n * 25),
        ),
        ("/proc/7/cgroup", "0::/game.slice\n".to_owned()),
    ];
    Root::from(files.into_iter().map(|(path, text)| (path.to_owned(), text)).collect::<BTreeMap<_, _>>())
}

fn histogram(late: u64, ticks: u64) -> HistogramSample {
    HistogramSample {
        sum_ns: ticks * 1_000_000,
        max_ns: Some(9_000_000),
        buckets: [(20, ticks - late), (80, late)].into(),
    }
}

fn sample(at_s: u64) -> Sample {
    let servers = ServerOptions { pids: vec![7], ..ServerOptions::default() };
    let options = CollectorOptions { servers, ..CollectorOptions::default() };
    let mut sample = Collector::new(root(at_s), options).sample();
    let ns = at_s * 1_000_000_000;
    sample.at = Moment { monotonic_ns: ns, boottime_ns: ns, realtime_ns: 1_795_780_800_000_000_000 + ns };
    sample.is_live = true;
    let mut session = sample.servers[0].clone();
    session.name = "match 7 of a very long name that no column holds".to_owned();
    let ticks = at_s * 50;
    // Every tenth second has some late ticks.
    let late = (at_s / 10) * 5;
    session.telemetry = Some(Ok(TelemetrySample {
        session: "match 7".to_owned(),
        began_realtime_ns: 1,
        ticks,
        missed: at_s,
        last: None,
        period_ns: Some(20_000_000),
        period_changes: 0,
        slices: SlicesSample::FixedSlot { period_ns: 10_000_000, share: 0.6 },
        major_faults: None,
        thread: None,
        waits: None,
        late_run_delay_ns: None,
        counts: [("players".to_owned(), 12)].into(),
        lateness: histogram(late, ticks),
        work: histogram(0, ticks),
        due_to_done: histogram(late, ticks),
    }));
    sample.servers.insert(0, session);
    sample.settings = Some(SettingsSample {
        holds: 3,
        drift: vec![DriftSample {
            knob: "vm.swappiness".to_owned(),
            place: "/proc/sys/vm/swappiness".to_owned(),
            wanted: "10".to_owned(),
            found: "60".to_owned(),
            mend: "evenkeel apply vm.swappiness=10".to_owned(),
        }],
        findings: [("set".to_owned(), 8), ("unknown".to_owned(), 2)].into(),
        ..SettingsSample::default()
    });
    sample.credits = Some(CreditsSample { instance_type: "t3.medium".to_owned(), balance: 288.0, is_unlimited: true });
    if at_s.is_multiple_of(10) {
        sample.ledger.new = vec![LateTicks {
            server: sample.servers[0].name.clone(),
            pid: Some(7),
            late: 5,
            missed: 1,
            cause: Cause::Preempted,
            evidence: "the tick's thread was ready but did not run for 48.0 ms".to_owned(),
            due_realtime_ns: None,
        }];
    }
    let key = LedgerSample::key(&sample.servers[0].name, Some(7));
    sample.ledger.totals = [(key, [(Cause::Preempted, 25), (Cause::Unknown, 3)].into())].into();
    sample.unreadable = vec![Unreadable {
        what: "UDP sockets of old server".to_owned(),
        why: "read /proc/7/fd: permission denied (EACCES)".to_owned(),
        mend: Some("sudo evenkeel watch".to_owned()),
    }];
    sample
}

/// The model of the last sample, and the sparklines of all samples.
fn model() -> (Model, Sparks) {
    let mut sparks = Sparks::default();
    let samples: Vec<Sample> = (100..141).map(sample).collect();
    for pair in samples.windows(2) {
        sparks.add(&Model::from_samples(&pair[0], &pair[1]));
    }
    (Model::from_samples(&samples[39], &samples[40]), sparks)
}

fn terminal(model: &Model, sparks: &Sparks, tab: Tab, size: (u16, u16), palette: Palette) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    let view = View { model, sparks, tab, scroll: 0, moment: "live 12:00:00 UTC", warning: "", palette };
    terminal
        .draw(|frame| {
            draw(frame, &view);
        })
        .unwrap();
    terminal
}

#[test]
fn every_tab_at_eighty_columns() {
    let (model, sparks) = model();
    for tab in Tab::ALL {
        let terminal = terminal(&model, &sparks, tab, (80, 24), Palette { has_colors: false });
        let name = format!("{}/src/show/watch/screen/snapshots/{tab:?}.txt", env!("CARGO_MANIFEST_DIR"));
        expect_file![name].assert_eq(&terminal.backend().to_string());
    }
}

/// In a narrow terminal, whole columns are hidden, and each table and each line shows that something is.
#[test]
fn every_tab_at_forty_columns() {
    let (model, sparks) = model();
    for tab in Tab::ALL {
        let terminal = terminal(&model, &sparks, tab, (40, 24), Palette { has_colors: false });
        let name = format!("{}/src/show/watch/screen/snapshots/{tab:?}-narrow.txt", env!("CARGO_MANIFEST_DIR"));
        expect_file![name].assert_eq(&terminal.backend().to_string());
    }
    let head = |tab: Tab, width: u16, what: &str| {
        let terminal = terminal(&model, &sparks, tab, (width, 24), Palette { has_colors: false });
        let text = terminal.backend().to_string();
        let line = text.lines().find(|line| line.starts_with(&format!("\" {what}"))).unwrap();
        line.trim_matches(['"', ' ']).to_owned()
    };
    let columns =
        |width: u16| head(Tab::Overview, width, "server").split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    assert_eq!(columns(80), "ticks/s late p99 late missed CPU drops/s late p99");
    assert_eq!(columns(60), "ticks/s late p99 late missed CPU drops/s +1");
    assert_eq!(columns(50), "ticks/s late p99 late missed +3");
    assert_eq!(columns(40), "late p99 late missed +4");
    assert_eq!(columns(20), "+7");
    assert!(head(Tab::Cpus, 60, "CPU").ends_with("MHz") && head(Tab::Cpus, 40, "CPU").ends_with("busy   steal +3"));
}

#[test]
fn any_size_and_any_scroll_is_drawn() {
    let (model, sparks) = model();
    let empty = Model::from_samples(&model.sample, &model.sample);
    for model in [&model, &empty] {
        for tab in Tab::ALL {
            for (width, height) in [(1, 1), (5, 2), (20, 3), (40, 10), (79, 23), (300, 100)] {
                let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                for scroll in [0, 3, usize::MAX] {
                    let palette = Palette { has_colors: true };
                    let view = View { model, sparks: &sparks, tab, scroll, moment: "", warning: "full", palette };
                    let mut scroll_max = 0;
                    terminal.draw(|frame| scroll_max = draw(frame, &view)).unwrap();
                    assert!(scroll_max < 1000);
                }
            }
        }
    }
}

#[test]
fn without_colours_none_is_used_and_names_write_no_escapes() {
    let (model, sparks) = model();
    for tab in Tab::ALL {
        let terminal = terminal(&model, &sparks, tab, (80, 24), Palette { has_colors: false });
        let cells = terminal.backend().buffer().content();
        assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset), "{tab:?}");
        assert!(!terminal.backend().to_string().contains('\u{1b}'));
    }
    let terminal = terminal(&model, &sparks, Tab::Cpus, (80, 24), Palette { has_colors: true });
    assert!(terminal.backend().buffer().content().iter().any(|cell| cell.fg == Color::Red), "5 % steal is red");
}

#[test]
fn tabs_go_round() {
    assert_eq!(
        (Tab::Settings.moved(1), Tab::Overview.moved(-1), Tab::Ticks.moved(1)),
        (Tab::Overview, Tab::Settings, Tab::Network)
    );
}
