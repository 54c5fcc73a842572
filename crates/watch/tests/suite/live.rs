//! Tests on this machine whose results do not depend on timing.

use std::net::UdpSocket;

use evenkeel_hostfs::Root;
use evenkeel_sys::shared_page::Access;
use evenkeel_sys::telemetry::{Count, PageSlices, PageWriter, TickEntry};
use evenkeel_watch::{Collector, CollectorOptions, Model, Sample, ServerOptions};

#[test]
fn this_machine_is_read_and_a_sample_can_be_read_back() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let mut page = PageWriter::create(folder.path(), "match 7", Access::Owner).unwrap();
    page.counters().set(Count::Players, 12);
    let tick = |number: u64| TickEntry {
        number,
        missed: 0,
        due_ns: number * 20_000_000,
        began_ns: number * 20_000_000 + 9_000_000,
        done_ns: number * 20_000_000 + 10_000_000,
        period_ns: Some(20_000_000),
        turns: PageSlices::Whole,
        faults: None,
        swapped_in: None,
        thread: None,
        waits: None,
        run_delay_ns: None,
    };
    page.tick(&tick(0));
    let servers = ServerOptions {
        pids: vec![std::process::id()],
        telemetry_folders: Some(vec![folder.path().to_owned()]),
        ..ServerOptions::default()
    };
    let options = CollectorOptions { servers, ..CollectorOptions::default() };
    let mut collector = Collector::new(Root::live(), options);
    let before = collector.sample();
    (1..=5).for_each(|number| page.tick(&tick(number)));
    let after = collector.sample();
    let json = serde_json::to_string(&after).unwrap();
    assert_eq!(serde_json::from_str::<Sample>(&json).unwrap(), after);

    assert!(after.host.stat.as_ref().is_ok_and(|stat| !stat.cpus.is_empty()), "{:?}", after.host.stat);
    assert_eq!(after.servers.len(), 1, "one server, although it is named and has a page");
    let server = &after.servers[0];
    assert_eq!((server.name.as_str(), server.pid), ("match 7", Some(std::process::id())));
    assert!(server.sockets.as_ref().unwrap().iter().any(|socket| socket.port == port), "{:?}", server.sockets);
    let model = Model::from_samples(&before, &after);
    let ticks = model.servers[0].ticks.known().unwrap();
    assert_eq!(ticks.late.known(), Some(&5));
    assert_eq!(ticks.players, Some(12));
    assert!(model.servers[0].cpu.known().is_some());
    drop(socket);
}
