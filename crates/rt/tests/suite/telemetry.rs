//! The telemetry page as other processes see it. They read the page while its server runs and after the server was killed.
//! Prometheus' own checker reads the page too.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use evenkeel_rt::telemetry::{Count, State, Telemetry, TelemetryReader, TelemetrySettings, sessions};
use evenkeel_rt::{TickClock, TickSettings};

/// If this is set to a folder, the test becomes a server in that folder.
const SERVER: &str = "EVENKEEL_TEST_TELEMETRY";

#[test]
fn a_killed_server_leaves_a_page_that_the_next_one_removes() {
    if let Some(folder) = std::env::var_os(SERVER) {
        return serve(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "telemetry::a_killed_server_leaves_a_page_that_the_next_one_removes"])
        .env(SERVER, folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let found = (0..8000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        let found = sessions(folder.path()).unwrap().pop()?;
        found.reader.read().is_ok_and(|page| page.ticks >= 10).then_some(found)
    });
    let found = found.unwrap();
    let (first, state) = (found.reader.read().unwrap(), found.state);
    server.kill().unwrap();
    // The signal ends the server. The server stays a zombie until its parent waits for it.
    let unreaped = (0..20_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        found.reader.state() == Ok(State::Gone)
    });
    server.wait().unwrap();
    assert_eq!((state, unreaped, found.reader.state()), (State::Live, true, Ok(State::Gone)));
    assert_eq!((first.session.as_str(), first.owner.pid), ("of a child", u64::from(server.id())));
    assert_eq!((first.count(Count::Players), first.period_ns), (Some(3), Some(1_000_000)));
    assert!(found.path.exists());
    let settings = TelemetrySettings { folder: Some(folder.path().into()), ..TelemetrySettings::named("next") };
    let next = Telemetry::create(&settings).unwrap();
    assert!(!found.path.exists() && next.path().exists());
}

fn serve(folder: std::path::PathBuf) {
    let settings = TelemetrySettings { folder: Some(folder), ..TelemetrySettings::named("of a child") };
    let mut telemetry = Telemetry::create(&settings).unwrap();
    telemetry.counters().set(Count::Players, 3);
    let mut clock =
        TickClock::start(TickSettings { period: Duration::from_millis(1), ..TickSettings::default() }).unwrap();
    telemetry.set_period(clock.period());
    // The parent kills this server long before its end. If the parent is gone, the server ends after a minute.
    for _ in 0..60_000 {
        clock.wait();
        telemetry.after(&clock.done().unwrap());
    }
}

#[test]
fn the_checker_of_prometheus_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        |session: &str| TelemetrySettings { folder: Some(folder.path().into()), ..TelemetrySettings::named(session) };
    let mut telemetry = Telemetry::create(&settings("with \"quotes\",\nlines and \\")).unwrap();
    Count::ALL.iter().for_each(|count| telemetry.counters().add(*count, 5));
    telemetry.set_period(Duration::from_millis(2));
    telemetry.set_faults(Some(Default::default()));
    telemetry.set_swapped_in(Some(1));
    let mut clock =
        TickClock::start(TickSettings { period: Duration::from_millis(2), ..TickSettings::default() }).unwrap();
    for _ in 0..10 {
        clock.wait();
        telemetry.after(&clock.done().unwrap());
    }
    let text = TelemetryReader::open(telemetry.path()).unwrap().prometheus().unwrap();
    let checker =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut checker) = checker else {
        evenkeel_testkit::skipped("promtool is not installed (Debian: prometheus)");
        return;
    };
    checker.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = checker.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}\n{text}");
}
