//! Tests how a command ends: at once if the user asks to stop during a wait. Also tests the error for a command that does not end.

use std::sync::atomic::Ordering;

use super::*;

/// Starts a command, and asks to stop once the awaited program runs. Returns the error, and checks that no process of the command remains.
fn stopped_soon(
    name: &str,
    waits_in: &str,
    settings: Settings,
    then: impl FnOnce(Command) -> Result<Sample, WorkloadError>,
) {
    let asked = options(&["sh", "-c", "sleep 600; :", &tag(name)]);
    let stop = Arc::clone(&asked.stop);
    let begun = Instant::now();
    let started = tag(waits_in);
    let user = std::thread::spawn(move || {
        let begun = Instant::now();
        while !lives(&started) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let ended = Command::start(&asked, settings).and_then(then);
    user.join().unwrap();
    assert!(matches!(ended, Err(WorkloadError::Stopped)), "{name}: {ended:?}");
    assert!(begun.elapsed() < PATIENCE, "{name}: it took {:?}", begun.elapsed());
    assert!(!lives(&tag(name)), "{name} lives");
}

#[test]
fn a_server_that_never_gets_ready_is_given_up() {
    let port = Port { protocol: None, number: free_port() };
    for (name, ready) in [
        ("stop-after", Ready::After(2 * PATIENCE)),
        ("stop-port", Ready::Port(port)),
        ("stop-line", Ready::Line("never".into())),
    ] {
        let settings = Settings { ready, ready_limit: 2 * PATIENCE, ..settings() };
        stopped_soon(name, name, settings, |mut command| window(&mut command, 20));
    }
}

#[test]
fn a_hanging_load_is_not_awaited_for_ever() {
    let load = format!("sh -c 'sleep 120; :' {}", tag("stop-load-itself"));
    let settings = with_load(&load, Runs::PerWindow);
    stopped_soon("stop-load", "stop-load-itself", settings, |mut command| window(&mut command, 200));
    assert!(!lives(&tag("stop-load-itself")));
}

#[test]
fn a_load_that_ends_at_once_gets_a_caveat() {
    let mut command = start("over", "exec sleep 60", with_load("true", Runs::PerWindow)).unwrap();
    for _ in 0..3 {
        window(&mut command, 20_000).unwrap();
    }
    let caveats = command.caveats();
    assert!(
        caveats.len() == 1 && caveats[0].to_string().contains(" % of the median window, so its startup "),
        "{caveats:?}"
    );
}

#[test]
fn a_live_server_with_closed_output_is_reported() {
    let ready = Ready::Line("up".into());
    let script = "exec >&-; echo up >&2; exec sleep 60";
    let mut closes = start("closes", script, Settings { ready, ..lower("rtt") }).unwrap();
    let message = said(window(&mut closes, 200));
    assert!(message.contains(" lives and has closed its standard output; it printed no line"), "{message}");
}
