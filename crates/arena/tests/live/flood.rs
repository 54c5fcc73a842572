//! A flood from forged addresses, in a separate network namespace. Players must be able to continue.
//! Unknown senders cost no memory, and get back less than they sent.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use evenkeel_arena::control::{BotsEvent, BotsWindow, ServerWindow};
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live};

use crate::attacker;
use crate::program::Program;
use crate::{WINDOW, bots, server};

/// How far the slowest of a hundred snapshots may be off its period.
const OFF_CADENCE_US: f64 = 2_000.0;
const FLOOD_S: u64 = 4;
const TRIES: usize = 3;

/// Set for the copy of this program that runs in a separate network namespace.
const INSIDE: &str = "EVENKEEL_TEST_INSIDE_NAMESPACE";

#[test]
fn a_flood_from_forged_addresses_holds_up_nobody() {
    if std::env::var_os(INSIDE).is_some() {
        return within_a_network_of_our_own();
    }
    let _host = HostLock::take();
    let alone = |script: &str| Command::new("unshare").args(["--net", "sh", "-c", script]).env(INSIDE, "1").output();
    // Every address of 10/8 is local here. So answers to forged addresses arrive and cost as much as usual, but never leave this machine.
    let network = "ip link set lo up && ip route add local 10.0.0.0/8 dev lo";
    match alone(network) {
        Ok(output) if output.status.success() => {}
        other => {
            live::not_judged(format_args!("a network namespace needs root, unshare and ip: {other:?}"));
            return;
        }
    }
    let program = std::env::current_exe().unwrap();
    let test = "flood::a_flood_from_forged_addresses_holds_up_nobody";
    let script = format!("{network}; exec '{}' --exact {test} --nocapture", program.display());
    let output = alone(&script).unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The figures of the players and the server over a second or more.
struct WindowStats {
    server: ServerWindow,
    bots: BotsWindow,
}

impl WindowStats {
    fn ask(server: &mut Program, bots: &mut Program) -> Self {
        Self { server: server.ask(WINDOW), bots: bots.ask(WINDOW) }
    }

    fn over(server: &mut Program, bots: &mut Program, seconds: u64) -> Self {
        Self::ask(server, bots);
        sleep(Duration::from_secs(seconds));
        Self::ask(server, bots)
    }

    fn print(&self, what: &str) {
        let (server, bots) = (&self.server, &self.bots);
        let seconds = server.span_us / 1e6;
        println!(
            "{what}: snapshots off cadence p50 {:.0} p99 {:.0} max {:.0} us, {} lost of {}; input to snapshot p50 {:.0} us; tick due to done p99 {:.0} us, {} missed; {:.0} in a second, {:.0} refused, {:.0} sent; server {:.0} % of a CPU, bots {:.0} %, {} KiB",
            bots.snapshot_jitter_us.p50.unwrap_or(f64::NAN),
            bots.snapshot_jitter_us.p99.unwrap_or(f64::NAN),
            bots.snapshot_jitter_us.max.unwrap_or(f64::NAN),
            bots.snapshots_lost,
            bots.snapshots + bots.snapshots_lost,
            bots.input_to_snapshot_us.p50.unwrap_or(f64::NAN),
            server.due_to_done_us.p99.unwrap_or(f64::NAN),
            server.missed_ticks,
            server.packets_in as f64 / seconds,
            server.dropped_in as f64 / seconds,
            server.packets_out as f64 / seconds,
            server.cpu_us / server.span_us * 100.0,
            bots.cpu_us / bots.span_us * 100.0,
            server.resident_kib.unwrap_or(0),
        );
    }
}

/// Runs in a namespace that has only loopback.
fn within_a_network_of_our_own() {
    // The tick thread is real-time, as it should be on a public server. The flood takes only the rest of the CPUs.
    let (mut server, addr) = server(&["--players", "64", "--work-us", "300", "--fifo", "1"]);
    // Real players have their own machines. So lateness here must come from the server, not from the scheduling of the bots' thread.
    let mut bots = bots(addr, &["--bots", "63", "--probe-gap-us", "2000", "--fifo", "1"]);
    let BotsEvent::Ready { bots: 63, .. } = bots.next_line() else { panic!("not all joined") };
    sleep(Duration::from_millis(500));
    fitness::holds(TRIES, || {
        let before = WindowStats::over(&mut server, &mut bots, 2);
        before.print("quiet");
        let attacker = attacker::start(addr, FLOOD_S);
        sleep(Duration::from_millis(300));
        let flooded = WindowStats::over(&mut server, &mut bots, FLOOD_S - 1);
        flooded.print("flood");
        let sent = attacker.join().unwrap();
        println!("{sent}");
        check_always(&before, &flooded, &sent);
        let after = WindowStats::over(&mut server, &mut bots, 1);
        let off_us = |seen: &WindowStats| seen.bots.snapshot_jitter_us.p99.unwrap();
        if off_us(&flooded) <= OFF_CADENCE_US {
            return Some(Ok(()));
        }
        // If the server is late even without a flood, the flood shows nothing.
        let quiet_us = off_us(&before).max(off_us(&after));
        let is_fit = quiet_us < OFF_CADENCE_US / 2.0 && Needs::on_last_cpu().unmet().is_none();
        let what =
            format!("snapshots were {:.0} us off their cadence, {quiet_us:.0} us without a flood", off_us(&flooded));
        println!("{what}, fit {is_fit}");
        is_fit.then_some(Err(what))
    });
}

/// Checks that hold however busy the machine is.
fn check_always(quiet: &WindowStats, flooded: &WindowStats, sent: &attacker::Sent) {
    let (server, bots) = (&flooded.server, &flooded.bots);
    assert_eq!((server.players, bots.silent_bots), (64, 0), "everybody plays on, and nobody came in");
    // The kernel drops datagrams that do not fit into the socket. How many depends on the machine.
    assert!(sent.datagrams > 10_000 && server.dropped_in > 1_000, "there was a flood: {sent}: {server:?}");
    let answers = server.packets_out.saturating_sub(server.ticks * server.players + bots.round_trip_us.count);
    // 20,000 challenges per second, plus those between two windows.
    let most = 20_000.0 * server.span_us / 1e6 * 1.1 + 3_000.0;
    assert!((answers as f64) < most, "{answers} answers to strangers, at most {most}");
    assert!(answers * 20 < sent.bytes, "more came back than went out");
    let grown_kib = server.resident_kib.unwrap_or(0).saturating_sub(quiet.server.resident_kib.unwrap_or(0));
    assert!(grown_kib < 512, "{grown_kib} KiB more for {} datagrams", sent.datagrams);
}
