//! Rates between two samples of a made-up host, whose true rates are known.

use evenkeel_watch::sample::{Moment, Sample, SocketSample, TelemetrySample};
use evenkeel_watch::{Collector, CollectorOptions, Measured, Model, ServerOptions};

use crate::made_up;

/// A sample of the made-up host at this second, as if it were live.
pub(crate) fn sample(at_s: u64) -> Sample {
    let servers = ServerOptions { pids: vec![7], ..ServerOptions::default() };
    let options = CollectorOptions { servers, ..CollectorOptions::default() };
    let mut sample = Collector::new(made_up::host(at_s), options).sample();
    let ns = at_s * 1_000_000_000;
    sample.at = Moment { monotonic_ns: ns, boottime_ns: ns, realtime_ns: 1_700_000_000_000_000_000 + ns };
    sample.is_live = true;
    sample.collector = Default::default();
    sample.settings.as_mut().unwrap().verified_ns = ns;
    sample
}

#[track_caller]
fn is(found: &Measured<f64>, expected: f64) {
    let known = found.known().unwrap_or_else(|| panic!("{found:?}"));
    assert!((known - expected).abs() < 1e-9, "{known} is not {expected}");
}

#[test]
fn every_rate_is_the_planted_one() {
    let model = Model::from_samples(&sample(100), &sample(110));
    assert_eq!((model.elapsed_ns, model.suspended_ns), (10_000_000_000, 0));
    let host = &model.host;
    let cpus = host.cpus.known().unwrap();
    let first = cpus[0].time.known().unwrap();
    let shares = [first.user, first.system, first.steal, first.idle, first.counted];
    for (found, expected) in shares.into_iter().zip([0.3, 0.1, 0.05, 0.55, 1.0]) {
        assert!((found - expected).abs() < 1e-9, "{first:?}");
    }
    assert_eq!(cpus[1].time.known().unwrap().idle, 1.0);
    let all = host.all.known().unwrap();
    assert!((all.steal - 0.025).abs() < 1e-9 && (all.counted - 1.0).abs() < 1e-9, "{all:?}");
    is(&cpus[0].run_delay, 0.02);
    is(&cpus[0].interrupts_per_s, 499.0);
    is(&cpus[0].packets_per_s, 100.0);
    is(&host.cpu_pressure.some, 0.015);
    assert_eq!(host.cpu_pressure.full.why(), Some("this kernel does not count full pressure on CPUs"));
    is(&host.context_switches_per_s, 900.0);
    is(&host.major_faults_per_s, 3.0);
    is(&host.swap_ins_per_s, 2.0);
    is(&host.softnet.dropped_per_s, 1.0);
    is(&host.softnet.squeezed_per_s, 2.0);
    is(&host.udp.in_per_s, 100.0);
    is(&host.udp.receive_buffer_errors_per_s, 3.0);
    let sources = host.interrupt_sources.known().unwrap();
    assert_eq!((sources[0].source.as_str(), sources[0].per_s), ("38 eth0-rx", 250.0));
    let eth0 = &host.interfaces.known().unwrap()[0];
    is(&eth0.rx_bytes_per_s, 10_000.0);
    is(&eth0.allowances_per_s["pps_allowance_exceeded"], 7.0);
    let disk = &host.disks.known().unwrap()[0];
    is(&disk.read_bytes_per_s, 8.0 * 512.0);
    is(&disk.busy, 0.1);
    assert_eq!(disk.request_ms_mean, Measured::Known(Some(2.0)));
    let group = &host.groups.known().unwrap().limited[0];
    assert_eq!((group.group.as_str(), group.limit_cpus), ("/game.slice", 0.5));
    is(&group.throttled, 0.03);
    assert_eq!(host.memory.swap_used_bytes, Measured::Known(10 * 1024));
    assert_eq!(host.clock_source, Measured::Known("tsc".to_owned()));
}

#[test]
fn a_server_without_telemetry_has_all_that_the_kernel_counts() {
    // Both samples must come from the same collector, because it sums the counters of threads.
    let (before, after) = (sample(100), sample(110));
    let model = Model::from_samples(&before, &after);
    let server = &model.servers[0];
    assert_eq!((server.name.as_str(), server.pid), ("game server", Some(7)));
    is(&server.cpu, 0.25);
    is(&server.minor_faults_per_s, 10.0);
    is(&server.major_faults_per_s, 2.0);
    is(&server.throttled, 0.03);
    assert_eq!(server.resident_bytes, Measured::Known(2048 * 1024));
    is(&server.threads[0].cpu, 0.25);
    is(&server.threads[0].run_delay, 0.01);
    let udp = server.udp.known().unwrap();
    assert_eq!((&udp.ports[..], udp.receive_queue_bytes), (&[27_960][..], 2688));
    is(&udp.drops_per_s, 6.0);
    assert!(server.ticks.why().unwrap().contains("no page of telemetry"), "{:?}", server.ticks);
}

/// A socket that was left out of the earlier sample dropped its datagrams before.
#[test]
fn a_socket_that_comes_into_the_list_has_no_sudden_drops() {
    let (mut before, mut after) = (sample(100), sample(110));
    let socket = |inode: u64, drops: u64| SocketSample { port: inode as u16, inode, receive_queue_bytes: 0, drops };
    before.servers[0].sockets = Ok(vec![socket(1, 10)]);
    after.servers[0].sockets = Ok(vec![socket(1, 20), socket(2, 500)]);
    let drops =
        |before: &Sample| Model::from_samples(before, &after).servers[0].udp.known().unwrap().drops_per_s.clone();
    is(&drops(&before), 51.0);
    before.servers[0].files.sockets_beyond = 1;
    is(&drops(&before), 1.0);
}

#[test]
fn what_says_nothing_is_unknown_with_the_reason() {
    let (one, other) = (sample(100), sample(110));
    let why = |before: &Sample, after: &Sample| {
        let model = Model::from_samples(before, after);
        let all = model.host.all.why().unwrap_or_default().to_owned();
        assert_eq!(model.host.context_switches_per_s.known(), None);
        assert_eq!(model.servers[0].cpu.known(), None);
        all
    };
    assert_eq!(why(&one, &one), "a rate needs an earlier sample, and there is none");
    assert_eq!(why(&other, &one), "the host booted between the samples");
    let captured = Sample { is_live: false, ..other.clone() };
    assert_eq!(why(&one, &captured), "a captured host has the counters of one moment");
    // A counter that decreased, and a process number that was reused.
    let mut after = other;
    after.host.stat.as_mut().unwrap().context_switches = Some(1);
    after.servers[0].process.as_mut().unwrap().start_ticks = 1;
    let model = Model::from_samples(&one, &after);
    let went_back = "context switches went back from 90000 to 1: it wrapped or was reset";
    assert_eq!(model.host.context_switches_per_s.why(), Some(went_back));
    assert_eq!(model.servers[0].cpu.why(), Some("the process began between the samples"));
}

/// The clock since boot does not go back if the later sample was taken later after its boot.
#[test]
fn rates_across_a_boot_are_unknown() {
    let (one, mut other) = (sample(100), sample(7_300));
    let rate = |other: &Sample| Model::from_samples(&one, other).host.context_switches_per_s;
    is(&rate(&other), 900.0);
    // The host was off for a day, and counted its context switches from 0.
    other.at.realtime_ns += 86_400_000_000_000;
    assert_eq!(rate(&other).why(), Some("the host booted between the samples, or its clock was set meanwhile"));
    // The collector ran all the time, so only its clock was set.
    let mut next = sample(101);
    next.at.realtime_ns += 86_400_000_000_000;
    is(&rate(&next), 900.0);
}

#[test]
fn a_suspended_laptop_shows_as_such() {
    let (mut one, mut other) = (sample(100), sample(110));
    one.asked.interval_ns = 10_000_000_000;
    other.at.boottime_ns += 3_600_000_000_000;
    other.at.realtime_ns = 1;
    let model = Model::from_samples(&one, &other);
    assert_eq!((model.elapsed_ns, model.suspended_ns), (10_000_000_000, 3_600_000_000_000));
    let mut apart = sample(110);
    apart.at.boottime_ns += 2_000_000;
    assert_eq!(Model::from_samples(&one, &apart).suspended_ns, 0, "two clocks are not read at once");
    is(&model.host.context_switches_per_s, 900.0);
}

pub(crate) fn telemetry(ticks: u64) -> TelemetrySample {
    let histogram = |bucket: usize, count: u64| evenkeel_watch::sample::HistogramSample {
        sum_ns: count * 1_000_000,
        max_ns: Some(30_000_000),
        buckets: [(bucket, count)].into_iter().filter(|(_, count)| *count > 0).collect(),
    };
    TelemetrySample {
        session: "match".to_owned(),
        began_realtime_ns: 1,
        ticks,
        missed: ticks / 10,
        last: None,
        period_ns: Some(20_000_000),
        period_changes: 0,
        slices: Default::default(),
        major_faults: None,
        thread: None,
        waits: None,
        late_run_delay_ns: Some(0),
        counts: [("players".to_owned(), 12), ("packets_in".to_owned(), ticks * 3)].into(),
        lateness: histogram(100, ticks),
        work: histogram(60, ticks),
        due_to_done: histogram(100, ticks),
    }
}

#[test]
fn ticks_come_from_the_page_of_the_server() {
    let with = |at_s: u64, ticks: u64| {
        let mut sample = sample(at_s);
        sample.servers[0].telemetry = Some(Ok(telemetry(ticks)));
        sample.servers[0].name = "match".to_owned();
        sample
    };
    let (before, after) = (with(100, 5000), with(110, 5500));
    let model = Model::from_samples(&before, &after);
    let ticks = model.servers[0].ticks.known().unwrap();
    is(&ticks.ticks_per_s, 50.0);
    is(&ticks.missed_per_s, 5.0);
    is(&ticks.packets_in_per_s, 150.0);
    is(&ticks.load, 0.05);
    assert_eq!((ticks.players, ticks.period_ms, ticks.late_after_us), (Some(12), Some(20.0), Some(5000.0)));
    assert_eq!(ticks.late, Measured::Known(500), "all are in the bucket up to 100 ms");
    assert_eq!(ticks.lateness.known().unwrap().us_max, 30_000.0);
    let mut again = after.clone();
    again.servers[0].telemetry.as_mut().unwrap().as_mut().unwrap().began_realtime_ns = 2;
    let ticks = Model::from_samples(&before, &again).servers[0].ticks.known().unwrap().ticks_per_s.clone();
    assert_eq!(ticks.why(), Some("a new session began between the samples"));
}

#[test]
fn a_cpu_that_counts_more_than_the_time_that_passed_is_unknown() {
    let (before, mut after) = (sample(100), sample(110));
    after.host.stat.as_mut().unwrap().cpus.get_mut(&0).unwrap().user += 100_000;
    let model = Model::from_samples(&before, &after);
    let cpus = model.host.cpus.known().unwrap();
    let Measured::Unknown(unknown) = &cpus[0].time else { panic!("{cpus:?}") };
    assert!(unknown.why.contains("CPU 0 counted") && cpus[1].time.known().is_some(), "{unknown:?}");
    assert!(model.host.all.known().is_none(), "{:?}", model.host.all);
}
